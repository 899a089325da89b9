#include "core/formats/safetensors_index.h"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/formats/json.h"
#include "core/formats/merged_source.h"
#include "core/formats/safetensors.h"

namespace ng {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kSuffix = ".safetensors";

// Whether it is the plain name of a safetensors file. An index may name files in its own folder
// only.
bool IsShardName(const Json& value) {
  if (!value.is_string()) return false;
  const auto& name = value.get_ref<const std::string&>();
  return name.size() > kSuffix.size() && name.ends_with(kSuffix) &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

// Which file each tensor is in, by name. Errors: anything but such a list.
absl::StatusOr<std::map<std::string, std::string>> ReadWeightMap(const std::string& path) {
  NG_ASSIGN_OR_RETURN(const JsonDocument index, ReadJsonFile(path));
  NG_RETURN_IF_ERROR(JsonFields::Of(*index, path).status());
  const auto found = index->find("weight_map");
  if (found == index->end() || !found->is_object() || found->empty()) {
    return ModelFileError(
        absl::StrCat(path, ": key \"weight_map\" ",
                     found == index->end() ? "is missing" : absl::StrCat("= ", JsonExcerpt(*found)),
                     ", must be an object that maps the name of each tensor to its file"));
  }
  std::map<std::string, std::string> shard_of;
  for (const auto& [tensor, file] : found->items()) {
    if (!IsShardName(file)) {
      return ModelFileError(absl::StrCat(path, ": weight_map[", JsonExcerpt(tensor),
                                         "] = ", JsonExcerpt(file),
                                         ", must be the name of a .safetensors file beside the "
                                         "index, without a folder"));
    }
    shard_of[tensor] = file.get<std::string>();
  }
  return shard_of;
}

using ShardOf = std::map<std::string, std::string>;

// Adds a file. Its tensors must be those that the index lists for it.
absl::Status AddShard(const std::string& file, const ShardOf& shard_of, MergedSource* source) {
  const std::string& path = source->path();
  const std::string folder = std::filesystem::path(path).parent_path();
  absl::StatusOr<std::unique_ptr<TensorSource>> shard =
      OpenSafetensors(absl::StrCat(folder, "/", file));
  if (!shard.ok()) return Annotate(shard.status(), path + ": ");
  for (const TensorInfo& tensor : (*shard)->tensors()) {
    const auto named = shard_of.find(tensor.name);
    if (named != shard_of.end() && named->second == file) continue;
    return ModelFileError(absl::StrCat(
        (*shard)->path(), ": holds tensor ", JsonExcerpt(tensor.name), ", which ", path,
        named == shard_of.end() ? std::string(" does not name")
                                : absl::StrCat(" puts in ", named->second)));
  }
  return source->Add(*std::move(shard));
}

// Errors: a file lacks a tensor that the index lists.
absl::Status CheckAllThere(const MergedSource& source, const ShardOf& shard_of) {
  for (const auto& [tensor, file] : shard_of) {
    if (source.Find(tensor) != nullptr) continue;
    return ModelFileError(absl::StrCat(source.path(), ": weight_map puts tensor ",
                                       JsonExcerpt(tensor), " in ", file,
                                       ", which does not hold it"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<TensorSource>> OpenSafetensorsIndex(const std::string& index_path) {
  NG_ASSIGN_OR_RETURN(const auto shard_of, ReadWeightMap(index_path));
  std::set<std::string> files;
  for (const auto& [tensor, file] : shard_of) files.insert(file);
  auto source = std::make_unique<MergedSource>(index_path);
  for (const std::string& file : files) NG_RETURN_IF_ERROR(AddShard(file, shard_of, source.get()));
  NG_RETURN_IF_ERROR(CheckAllThere(*source, shard_of));
  return source;
}

}  // namespace ng
