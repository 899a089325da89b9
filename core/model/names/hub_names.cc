// What ng/named_models.h says of names and files of Hugging Face's hub.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "core/base/absl_view.h"
#include "core/model/names/folder_models.h"
#include "core/model/names/found_model.h"
#include "core/model/names/model_names.h"
#include "ng/named_models.h"

namespace ng {
namespace {

// Source: huggingface_hub, validate_repo_id.
bool CanBeHubPart(std::string_view part) {
  constexpr size_t kLongest = 96;
  constexpr std::string_view kBounds = "-.";
  const bool bounded = !part.empty() && part.size() <= kLongest &&
                       kBounds.find(part.front()) == kBounds.npos &&
                       kBounds.find(part.back()) == kBounds.npos;
  return bounded && part.find("--") == part.npos && part.find("..") == part.npos &&
         std::ranges::all_of(part, [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' ||
                  c == '.';
         });
}

// What several files hold goes by the first one's place, without its number.
std::string PlaceOf(const std::string& path) {
  const std::filesystem::path file(path);
  const ModelPart part = PartOf(file.stem().string());
  return absl::StrCat((file.parent_path() / part.stem).string(), "/", part.count);
}

struct Group {
  HubGguf shown;
  FoundModel model;
  int64_t count = 1;
};

Group GroupOf(const std::string& path) {
  const std::filesystem::path file(path);
  Group group;
  group.model.file = file.stem().string();
  group.model.within = (file.parent_path() / file.stem()).string();
  const ModelPart part = PartOf(group.model.file);
  group.model.quant = group.model.tag = QuantOf(part.stem);
  group.count = part.count;
  return group;
}

void FindMissing(Group* group) {
  constexpr int64_t kMostParts = 10000;
  if (group->count <= 1) return;
  const std::filesystem::path first(group->shown.files.front());
  const std::string stem = PartOf(first.stem().string()).stem;
  for (int64_t i = 1; i <= std::min(group->count, kMostParts); ++i) {
    const std::string name =
        absl::StrFormat("%s-%05d-of-%05d%s", stem, i, group->count, first.extension().string());
    const std::string path = (first.parent_path() / name).string();
    if (std::ranges::count(group->shown.files, path) != 0) continue;
    group->shown.missing = path;
    return;
  }
}

}  // namespace

absl::StatusOr<HubName> ParseHubName(const std::string& name) {
  const std::optional<NameParts> parts = NamePartsOf(WithoutHubsHost(name));
  const std::vector<std::string> words =
      parts ? absl::StrSplit(parts->base, '/') : std::vector<std::string>();
  if (words.empty() || words.size() > 2 || !std::ranges::all_of(words, CanBeHubPart) ||
      absl::EndsWith(parts->base, ".git")) {
    return UsageError(absl::StrCat(
        "\"", name, "\": is no name of a model on the hub, must be ORG/NAME[@REVISION][:QUANT]"));
  }
  return HubName{parts->base, parts->revision, parts->tag};
}

std::vector<HubGguf> GgufsOfHub(const std::vector<std::string>& paths, const std::string& tag) {
  std::map<std::string, Group> groups;
  std::vector<std::string> sorted = paths;
  std::ranges::sort(sorted);
  for (const std::string& path : sorted) {
    const std::string file = std::filesystem::path(path).filename().string();
    if (!absl::EndsWithIgnoreCase(file, ".gguf") || IsBesideModel(file)) continue;
    const auto [at, added] = groups.try_emplace(PlaceOf(path));
    if (added) at->second = GroupOf(path);
    at->second.shown.files.push_back(path);
  }
  std::vector<FoundModel> models;
  for (auto& [place, group] : groups) {
    FindMissing(&group);
    models.push_back(group.model);
  }
  TellApart(&models);
  std::vector<HubGguf> meant;
  size_t i = 0;
  for (auto& [place, group] : groups) {
    group.shown.tag = models[i].tag;
    if (IsTag(tag, models[i])) meant.push_back(std::move(group.shown));
    ++i;
  }
  // A whole tag counts before the end of a file's name.
  const auto is_whole = [&](const HubGguf& gguf) { return absl::EqualsIgnoreCase(gguf.tag, tag); };
  if (std::ranges::any_of(meant, is_whole)) std::erase_if(meant, std::not_fn(is_whole));
  return meant;
}

std::string HubCacheFolder() {
  for (const ModelPlace& place : ModelPlaces({})) {
    if (place.source == "huggingface") return place.folder;
  }
  return {};
}

}  // namespace ng
