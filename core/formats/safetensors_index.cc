#include "core/formats/safetensors_index.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

// Adds what the index names of a file. The names of its other tensors are put behind `others`.
absl::Status AddShard(const std::string& file, const ShardOf& shard_of, MergedSource* source,
                      std::vector<std::string>* others) {
  const std::string& path = source->path();
  const std::string folder = std::filesystem::path(path).parent_path();
  absl::StatusOr<std::unique_ptr<TensorSource>> shard =
      OpenSafetensors(absl::StrCat(folder, "/", file));
  if (!shard.ok()) return Annotate(shard.status(), path + ": ");
  const auto is_named = [&](const std::string& tensor) {
    const auto named = shard_of.find(tensor);
    return named != shard_of.end() && named->second == file;
  };
  for (const TensorInfo& tensor : (*shard)->tensors()) {
    if (!is_named(tensor.name)) {
      others->push_back(absl::StrCat(JsonExcerpt(tensor.name), " in ", file));
    }
  }
  return source->Add(*std::move(shard), is_named);
}

// The tensors that the index lists and its files lack.
std::vector<std::string> NotThere(const MergedSource& source, const ShardOf& shard_of) {
  std::vector<std::string> names;
  for (const auto& [tensor, file] : shard_of) {
    if (source.Find(tensor) == nullptr) {
      names.push_back(absl::StrCat(JsonExcerpt(tensor), " in ", file));
    }
  }
  return names;
}

// "PATH: does not name 3 tensors that its files hold: "a" in one.safetensors, ...".
void AddDoubt(const std::string& path, const char* what, std::span<const std::string> names,
              std::vector<std::string>* doubts) {
  constexpr size_t kMostNamed = 3;
  if (names.empty()) return;
  const auto named = names.first(std::min(kMostNamed, names.size()));
  doubts->push_back(absl::StrCat(path, ": ", what, ": ", absl::StrJoin(named, ", "),
                                 names.size() > named.size()
                                     ? absl::StrCat(" and ", names.size() - named.size(), " more")
                                     : std::string()));
}

}  // namespace

absl::StatusOr<SafetensorsIndex> OpenSafetensorsIndex(const std::string& index_path) {
  NG_ASSIGN_OR_RETURN(const auto shard_of, ReadWeightMap(index_path));
  std::set<std::string> files;
  for (const auto& [tensor, file] : shard_of) files.insert(file);
  auto source = std::make_unique<MergedSource>(index_path);
  std::vector<std::string> others;
  for (const std::string& file : files) {
    NG_RETURN_IF_ERROR(AddShard(file, shard_of, source.get(), &others));
  }
  SafetensorsIndex index;
  AddDoubt(index_path, "its files hold tensors that it does not name for them, which are not read",
           others, &index.doubts);
  AddDoubt(index_path, "it names tensors that their files do not hold", NotThere(*source, shard_of),
           &index.doubts);
  index.source = std::move(source);
  return index;
}

}  // namespace ng
