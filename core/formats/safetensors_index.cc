#include "core/formats/safetensors_index.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
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

using Shards = std::map<std::string, std::unique_ptr<TensorSource>>;  // by file

absl::StatusOr<Shards> OpenShards(const std::string& index_path, const ShardOf& shard_of) {
  const std::string folder = std::filesystem::path(index_path).parent_path();
  Shards shards;
  for (const auto& [tensor, file] : shard_of) {
    if (shards.contains(file)) continue;
    absl::StatusOr<std::unique_ptr<TensorSource>> shard =
        OpenSafetensors(absl::StrCat(folder, "/", file));
    if (!shard.ok()) return Annotate(shard.status(), index_path + ": ");
    shards[file] = *std::move(shard);
  }
  return shards;
}

// "PATH: it names tensors that no file holds: "a" in one.safetensors, ...".
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
  NG_ASSIGN_OR_RETURN(Shards shards, OpenShards(index_path, shard_of));
  ShardOf read_from;  // as transformers: the last that holds it, where the index is wrong
  for (const auto& [file, shard] : shards) {
    for (const TensorInfo& tensor : shard->tensors()) read_from[tensor.name] = file;
  }
  const auto shown = [](const std::string& tensor, const std::string& file) {
    return absl::StrCat(JsonExcerpt(tensor), " in ", file);
  };
  std::vector<std::string> nowhere;
  for (const auto& [tensor, file] : shard_of) {
    if (shards[file]->Find(tensor) != nullptr) read_from[tensor] = file;
    if (!read_from.contains(tensor)) nowhere.push_back(shown(tensor, file));
  }
  std::vector<std::string> unnamed;
  std::vector<std::string> unread;
  auto source = std::make_unique<MergedSource>(index_path);
  for (auto& [name, shard] : shards) {
    const std::string& file = name;  // clang 14 captures no structured binding
    const auto is_read = [&](const std::string& tensor) { return read_from[tensor] == file; };
    for (const TensorInfo& tensor : shard->tensors()) {
      const auto named = shard_of.find(tensor.name);
      const bool is_named = named != shard_of.end() && named->second == file;
      if (is_named) continue;
      (is_read(tensor.name) ? unnamed : unread).push_back(shown(tensor.name, file));
    }
    NG_RETURN_IF_ERROR(source->Add(std::move(shard), is_read));
  }
  SafetensorsIndex index;
  AddDoubt(index_path, "its files hold tensors that it does not name for them", unnamed,
           &index.doubts);
  AddDoubt(index_path, "its files hold tensors that it names for others, which are not read",
           unread, &index.doubts);
  AddDoubt(index_path, "it names tensors that its files do not hold", nowhere, &index.doubts);
  index.source = std::move(source);
  return index;
}

}  // namespace ng
