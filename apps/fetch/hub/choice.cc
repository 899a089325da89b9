#include "apps/fetch/hub/choice.h"

#include <fnmatch.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ng/named_models.h"

namespace ng::fetch {
namespace {

constexpr const char* kConfig = "config.json";
constexpr const char* kAdapter = "adapter_config.json";
constexpr const char* kAdapterWeights = "adapter_model.safetensors";
constexpr const char* kWhole = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

// What ng reads beside the weights.
constexpr std::string_view kBeside[] = {kConfig,
                                        "generation_config.json",
                                        "tokenizer.json",
                                        "tokenizer_config.json",
                                        "tokenizer.model",
                                        "special_tokens_map.json",
                                        "added_tokens.json",
                                        "chat_template.jinja",
                                        "meta.pkl",
                                        kAdapter,
                                        "quantize_config.json",
                                        "quant_config.json",
                                        "hf_quant_config.json"};

const RepoFile* Find(const Listing& listing, std::string_view path) {
  const auto found = std::ranges::find(listing.files, path, &RepoFile::path);
  return found == listing.files.end() ? nullptr : &*found;
}

std::vector<std::string> PathsOf(const Listing& listing) {
  std::vector<std::string> paths;
  for (const RepoFile& file : listing.files) paths.push_back(file.path);
  return paths;
}

// Weights in the repository itself, and not in a folder of it.
std::vector<std::string> SafetensorsOf(const Listing& listing) {
  std::vector<std::string> paths;
  for (const RepoFile& file : listing.files) {
    const bool is_one = file.path.ends_with(".safetensors") && file.path != kAdapterWeights &&
                        file.path.find('/') == std::string::npos;
    if (is_one) paths.push_back(file.path);
  }
  return paths;
}

bool HasFolder(const Listing& listing) {
  return Find(listing, kConfig) != nullptr && !SafetensorsOf(listing).empty();
}

absl::StatusOr<std::vector<RepoFile>> Those(const Listing& listing, const Wanted& wanted,
                                            const std::set<std::string, std::less<>>& paths) {
  std::vector<RepoFile> files;
  for (const std::string& path : paths) {
    const RepoFile* const file = Find(listing, path);
    if (file == nullptr) {
      return ModelFileError(
          absl::StrCat(wanted.repository, ": ", path, " is a part of the model and is not there"));
    }
    files.push_back(*file);
  }
  return files;
}

absl::StatusOr<std::vector<RepoFile>> ByPatterns(const Listing& listing, const Wanted& wanted) {
  std::set<std::string, std::less<>> paths;
  for (const std::string& pattern : wanted.patterns) {
    const size_t before = paths.size();
    bool any = false;
    for (const RepoFile& file : listing.files) {
      if (fnmatch(pattern.c_str(), file.path.c_str(), 0) != 0) continue;
      paths.insert(file.path);
      any = true;
    }
    if (!any && paths.size() == before) {
      return UsageError(
          absl::StrCat("--include ", pattern, ": ", wanted.repository, " has no such file"));
    }
  }
  return Those(listing, wanted, paths);
}

std::string TagsOf(const std::vector<HubGguf>& ggufs, const std::string& repository) {
  return absl::StrJoin(ggufs, ", ", [&](std::string* out, const HubGguf& gguf) {
    absl::StrAppend(out, repository, ":", gguf.tag);
  });
}

absl::StatusOr<std::vector<RepoFile>> ByTag(const Listing& listing, const Wanted& wanted) {
  const std::vector<HubGguf> meant = GgufsOfHub(PathsOf(listing), wanted.tag);
  if (meant.empty()) {
    const std::vector<HubGguf> all = GgufsOfHub(PathsOf(listing), "");
    return ModelFileError(absl::StrCat(wanted.repository, ":", wanted.tag, ": ",
                                       all.empty() ? "the repository has no GGUF file"
                                                   : absl::StrCat("there is no such file, but: ",
                                                                  TagsOf(all, wanted.repository))));
  }
  if (meant.size() > 1) {
    return UsageError(absl::StrCat(wanted.repository, ": has several GGUF files, write one of: ",
                                   TagsOf(meant, wanted.repository)));
  }
  if (!meant.front().missing.empty()) {
    return ModelFileError(absl::StrCat(wanted.repository, ": ", meant.front().missing,
                                       " is a part of the model and is not there"));
  }
  return Those(listing, wanted, {meant.front().files.begin(), meant.front().files.end()});
}

// The weights of a folder, as a run reads them.
absl::StatusOr<std::set<std::string, std::less<>>> WeightsOf(
    const Listing& listing, const Wanted& wanted, const std::vector<std::string>& indexed) {
  if (Find(listing, kWhole) != nullptr) return std::set<std::string, std::less<>>{kWhole};
  if (Find(listing, kIndex) != nullptr) {
    std::set<std::string, std::less<>> paths(indexed.begin(), indexed.end());
    paths.insert(kIndex);
    return paths;
  }
  const std::vector<std::string> found = SafetensorsOf(listing);
  if (found.size() <= 1) return std::set<std::string, std::less<>>(found.begin(), found.end());
  return ModelFileError(absl::StrCat(wanted.repository, ": has ", found.size(),
                                     " .safetensors files and no index of them (", kIndex,
                                     "): ", absl::StrJoin(found, ", ")));
}

absl::Status NothingToRead(const Listing& listing, const Wanted& wanted) {
  for (const RepoFile& file : listing.files) {
    for (const char* const ending : {".bin", ".pth", ".pt", ".ckpt"}) {
      if (!file.path.ends_with(ending)) continue;
      return ModelFileError(absl::StrCat(wanted.repository, ": its weights are ", file.path,
                                         ", which may hold code and is not read"));
    }
  }
  return ModelFileError(absl::StrCat(wanted.repository, ": has ", listing.files.size(),
                                     " files, and neither config.json with .safetensors nor a "
                                     "GGUF file"));
}

}  // namespace

const RepoFile* IndexToRead(const Listing& listing, const Wanted& wanted) {
  const bool of_folder = wanted.tag.empty() && wanted.patterns.empty() && HasFolder(listing) &&
                         Find(listing, kWhole) == nullptr;
  return of_folder ? Find(listing, kIndex) : nullptr;
}

absl::StatusOr<std::vector<RepoFile>> ChooseFiles(const Listing& listing, const Wanted& wanted,
                                                  const std::vector<std::string>& indexed) {
  if (!wanted.patterns.empty()) return ByPatterns(listing, wanted);
  const bool adapter =
      Find(listing, kAdapter) != nullptr && Find(listing, kAdapterWeights) != nullptr;
  const bool folder = wanted.tag.empty() && (HasFolder(listing) || adapter);
  if (!folder) {
    const bool none = wanted.tag.empty() && GgufsOfHub(PathsOf(listing), "").empty();
    return none ? NothingToRead(listing, wanted) : ByTag(listing, wanted);
  }
  std::set<std::string, std::less<>> paths;
  if (HasFolder(listing)) {
    NG_ASSIGN_OR_RETURN(paths, WeightsOf(listing, wanted, indexed));
  }
  if (adapter) paths.insert(kAdapterWeights);
  for (const std::string_view name : kBeside) {
    if (Find(listing, name) != nullptr) paths.emplace(name);
  }
  return Those(listing, wanted, paths);
}

}  // namespace ng::fetch
