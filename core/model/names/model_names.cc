#include "core/model/names/model_names.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <span>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/base/absl_view.h"
#include "core/config/config.h"
#include "core/model/names/folder_models.h"
#include "core/model/names/hub_cache.h"
#include "core/model/names/ollama_store.h"
#include "ng/named_models.h"

namespace ng {
namespace {

constexpr const char* kHub = "huggingface";
constexpr const char* kOllama = "ollama";
constexpr const char* kLmStudio = "lmstudio";
constexpr const char* kLlamaCpp = "llama.cpp";
constexpr const char* kFolder = "folder";
constexpr const char* kLatest = "latest";
constexpr int kPlaceDepth = 3;  // of folders in a place

// The value of a variable; a folder may begin with "~/" there.
std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  std::string text = value == nullptr ? "" : value;
  if (!text.starts_with("~/")) return text;
  const char* const home = std::getenv("HOME");
  return absl::StrCat(home == nullptr ? "" : home, text.substr(1));
}

std::string FirstOf(std::initializer_list<std::string> texts) {
  const auto found = std::ranges::find_if(texts, [](const auto& text) { return !text.empty(); });
  return found == texts.end() ? std::string() : *found;
}

std::string Below(const std::string& folder, const char* name) {
  return folder.empty() ? std::string() : absl::StrCat(folder, name);
}

std::string CacheFolder() {
  return FirstOf({Environment("XDG_CACHE_HOME"), Below(Environment("HOME"), "/.cache")});
}

bool Same(std::string_view a, std::string_view b) {
  return absl::EqualsIgnoreCase(View(a), View(b));
}

// What a name has before it where it is of one place.
std::string WithoutHost(const std::string& source, std::string name) {
  constexpr std::string_view kOfHub[] = {"https://", "huggingface.co/", "hf.co/"};
  constexpr std::string_view kOfOllama[] = {"registry.ollama.ai/", "library/"};
  const auto hosts = source == kHub      ? std::span<const std::string_view>(kOfHub)
                     : source == kOllama ? std::span<const std::string_view>(kOfOllama)
                                         : std::span<const std::string_view>();
  for (const std::string_view host : hosts) {
    if (name.starts_with(host)) name.erase(0, host.size());
  }
  return name;
}

std::string_view WithoutEnding(std::string_view file) {
  constexpr std::string_view kEnding = ".gguf";
  if (absl::EndsWithIgnoreCase(View(file), View(kEnding))) file.remove_suffix(kEnding.size());
  return file;
}

}  // namespace

std::optional<NameParts> NamePartsOf(const std::string& name) {
  NameParts asked;
  asked.name = asked.base = name;
  const auto cut = [&](char mark, std::string* part) {
    const size_t at = asked.base.find(mark);
    if (at == std::string::npos) return true;
    *part = asked.base.substr(at + 1);
    asked.base.resize(at);
    return !part->empty();
  };
  const bool whole = cut(':', &asked.tag) && cut('@', &asked.revision) && !asked.base.empty();
  return whole ? std::optional(asked) : std::nullopt;
}

std::string WithoutHubsHost(const std::string& name) { return WithoutHost(kHub, name); }

bool IsTag(const std::string& tag, const FoundModel& model) {
  if (tag.empty() || Same(tag, model.tag) || Same(tag, model.quant)) return true;
  if (model.file.empty()) return false;
  const std::string_view file = WithoutEnding(tag);
  // "UD-Q4_K_XL" of a file that ends so; the files of llama.cpp have the repository before it.
  const bool ends = absl::EndsWithIgnoreCase(model.file, absl::StrCat("-", tag)) ||
                    (model.shown.source == kLlamaCpp &&
                     absl::EndsWithIgnoreCase(model.file, absl::StrCat("_", View(file))));
  return Same(file, model.file) || Same(file, model.within) || ends;
}

namespace {

bool IsRevision(const std::string& revision, const FoundModel& model) {
  constexpr size_t kLeastCommit = 4;  // letters
  if (revision.empty()) return model.revision.empty();
  const bool branch = std::ranges::any_of(model.branches, [&](const std::string& name) {
    return Same(revision, name) || Same(absl::StrCat("refs/", revision), name);
  });
  return branch ||
         (revision.size() >= kLeastCommit && absl::StartsWithIgnoreCase(model.commit, revision));
}

bool IsBase(const std::string& base, const FoundModel& model) {
  if (Same(base, model.base)) return true;
  // llama.cpp's files are named after their repositories: ORG_NAME_FILE.gguf.
  return model.shown.source == kLlamaCpp && base.find('/') != std::string::npos &&
         absl::StartsWithIgnoreCase(model.file,
                                    absl::StrCat(absl::StrReplaceAll(base, {{"/", "_"}}), "_"));
}

// How well a name fits a model; the best of a place count.
enum class Fit { kNot, kOtherRevision, kYes, kWhole, kExact };

Fit FitOf(const NameParts& asked, const FoundModel& model) {
  if (asked.name == model.shown.name) return Fit::kExact;
  const bool whole = model.revision.empty() && Same(asked.name, model.base);
  if (whole || Same(asked.name, model.shown.name)) return Fit::kWhole;
  if (!IsBase(asked.base, model) || !IsTag(asked.tag, model)) return Fit::kNot;
  if (IsRevision(asked.revision, model)) return Fit::kYes;
  return asked.revision.empty() ? Fit::kOtherRevision : Fit::kNot;
}

// A file by its own name, or by its folder's and its own.
bool IsFile(const std::string& name, const FoundModel& model) {
  if (model.file.empty()) return false;
  const std::string_view file = WithoutEnding(name);
  return Same(file, model.file) || Same(file, absl::StrCat(model.base, "/", model.file));
}

std::vector<FoundModel> BestOf(const NameParts& asked, std::vector<FoundModel> models) {
  Fit best = Fit::kOtherRevision;
  for (const FoundModel& model : models) best = std::max(best, FitOf(asked, model));
  std::erase_if(models, [&](const FoundModel& model) { return FitOf(asked, model) < best; });
  // Where names differ in their letters' size alone, the spelling counts.
  if (std::ranges::count(models, asked.base, &FoundModel::base) != 0) {
    std::erase_if(models, [&](const FoundModel& model) { return model.base != asked.base; });
  }
  if (models.size() < 2 || !asked.tag.empty() || best == Fit::kOtherRevision) return models;
  // Without a tag a folder of weights is meant before GGUF files, and Ollama's tag "latest".
  for (const char* const tag : {"", kLatest}) {
    if (std::ranges::count(models, tag, &FoundModel::tag) != 1) continue;
    return {*std::ranges::find(models, tag, &FoundModel::tag)};
  }
  return models;
}

std::string Names(const std::vector<FoundModel>& models) {
  return absl::StrJoin(models, ", ", [](std::string* out, const FoundModel& model) {
    out->append(model.shown.name);
  });
}

// What the user sees of where a model is: its own name in a folder without one.
void SetName(const ModelPlace& place, FoundModel* model) {
  model->shown.source = place.source;
  model->shown.name = NameOf(*model);
  if (model->shown.name.empty()) {
    model->shown.name = std::filesystem::path(model->shown.path).filename().string();
  }
}

// Why a place cannot be looked through; empty where it can, or where the user has no such program.
std::string FaultOf(const ModelPlace& place) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (place.source == kFolder && !fs::is_directory(place.folder, error)) {
    return "model.folders names it, and it is no folder";
  }
  const fs::path folder(place.folder);
  const fs::directory_iterator at(place.source == kOllama ? folder / "manifests" : folder, error);
  return error == std::errc::permission_denied ? error.message() : std::string();
}

}  // namespace

std::string HubHomeFolder() {
  return FirstOf({Environment("HF_HOME"), Below(CacheFolder(), "/huggingface")});
}

std::vector<ModelPlace> ModelPlaces(const std::vector<std::string>& folders) {
  const std::string home = Environment("HOME");
  std::vector<ModelPlace> places = {
      {kHub, FirstOf({Environment("HF_HUB_CACHE"), Environment("HUGGINGFACE_HUB_CACHE"),
                      Below(HubHomeFolder(), "/hub")})},
      {kOllama, FirstOf({Environment("OLLAMA_MODELS"), Below(home, "/.ollama/models")})},
      {kOllama, "/usr/share/ollama/.ollama/models"},
      {kLmStudio, Below(home, "/.lmstudio/models")},
      {kLmStudio, Below(home, "/.cache/lm-studio/models")},
      {kLlamaCpp, FirstOf({Environment("LLAMA_CACHE"), Below(CacheFolder(), "/llama.cpp")})}};
  for (std::string folder : folders) {
    while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
    places.push_back({kFolder, std::move(folder)});
  }
  std::erase_if(places, [](const ModelPlace& place) { return place.folder.empty(); });
  return places;
}

std::vector<FoundModel> ModelsOf(const ModelPlace& place) {
  std::vector<FoundModel> models = place.source == kHub      ? ModelsOfHubCache(place.folder)
                                   : place.source == kOllama ? ModelsOfOllama(place.folder)
                                                             : ModelsIn(place.folder, kPlaceDepth);
  if (place.source != kHub) TellApart(&models);
  for (FoundModel& model : models) SetName(place, &model);
  const std::string fault = FaultOf(place);
  if (fault.empty()) return models;
  FoundModel none;
  none.shown.name = none.shown.path = place.folder;
  none.shown.source = place.source;
  none.shown.fault = fault;
  models.push_back(std::move(none));
  return models;
}

bool CanBeModelName(std::string_view text) {
  return !text.empty() && text.find_first_of("/.~:@") != 0 && !text.ends_with('/');
}

namespace {

absl::Status Several(const std::string& name, const std::vector<FoundModel>& models) {
  return UsageError(
      absl::StrCat(name, ": several models have this name, write one of: ", Names(models)));
}

// A name with an organisation, as the hub's models have.
bool IsOfHub(const std::string& name) {
  const absl::StatusOr<HubName> parsed = ParseHubName(name);
  return parsed.ok() && parsed->repository.find('/') != std::string::npos;
}

absl::Status Broken(const NamedModel& model) {
  const bool fetched = model.source == kHub && IsOfHub(model.name);
  return ModelFileError(
      absl::StrCat(model.name, " (", model.path, "): ", model.fault,
                   fetched ? absl::StrCat("; ng-fetch ", model.name, " fetches what is missing")
                           : std::string()));
}

// Those of a place that a name means.
std::vector<FoundModel> MeantIn(const ModelPlace& place, const std::string& name,
                                std::vector<FoundModel> models) {
  const std::string here = WithoutHost(place.source, name);
  if (const std::optional<NameParts> asked = NamePartsOf(here)) {
    return BestOf(*asked, std::move(models));
  }
  std::erase_if(models, [&](const FoundModel& model) { return !Same(here, model.shown.name); });
  return models;
}

}  // namespace

std::string UnknownName(std::string_view name) {
  const std::string text(name);
  return absl::StrCat(
      "no model is known by the name ", text, " (ng-run --list-models shows the names",
      IsOfHub(text) ? absl::StrCat("; ng-fetch ", text, " fetches it from the hub") : std::string(),
      ")");
}

absl::StatusOr<std::optional<FoundModel>> FindModel(const std::string& name,
                                                    const std::vector<ModelPlace>& places) {
  absl::Status broken;            // the first; a later place may have one that is not
  std::vector<FoundModel> files;  // of the first place that has some
  std::vector<FoundModel> near;   // of this base, with another revision or tag
  for (const ModelPlace& place : places) {
    std::vector<FoundModel> models = ModelsOf(place);
    std::vector<FoundModel> meant = MeantIn(place, name, models);
    if (meant.size() > 1) return Several(name, meant);
    if (!meant.empty() && meant.front().shown.fault.empty()) return std::move(meant.front());
    if (!meant.empty() && broken.ok()) broken = Broken(meant.front().shown);
    const std::optional<NameParts> asked = NamePartsOf(WithoutHost(place.source, name));
    std::ranges::copy_if(models, std::back_inserter(near), [&](const FoundModel& model) {
      return asked && IsBase(asked->base, model);
    });
    std::erase_if(models, [&](const FoundModel& model) { return !IsFile(name, model); });
    if (files.empty()) files = std::move(models);
  }
  NG_RETURN_IF_ERROR(broken);
  if (files.size() > 1) return Several(name, files);
  if (!files.empty() && !files.front().shown.fault.empty()) return Broken(files.front().shown);
  if (!files.empty()) return std::move(files.front());
  if (near.empty()) return std::nullopt;
  return ModelFileError(absl::StrCat(name, ": there is no such model, but: ", Names(near)));
}

absl::StatusOr<std::string> PathOfModel(const std::string& text) {
  std::error_code error;
  if (!CanBeModelName(text) || std::filesystem::exists(text, error)) return text;
  NG_ASSIGN_OR_RETURN(const std::optional<FoundModel> found, FindModel(text, ModelPlaces({})));
  if (found) return found->shown.path;
  return ModelFileError(absl::StrCat(text, ": no such file; ", UnknownName(text)));
}

std::vector<NamedModel> FindNamedModels(const Config& config) {
  std::vector<NamedModel> named;
  for (const ModelPlace& place : ModelPlaces(SplitNames(config.Text("model.folders")))) {
    std::vector<FoundModel> models = ModelsOf(place);
    std::ranges::stable_sort(models, {}, [](const FoundModel& model) { return model.shown.name; });
    for (FoundModel& model : models) named.push_back(std::move(model.shown));
  }
  return named;
}

}  // namespace ng
