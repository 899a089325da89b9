#include "core/model/names/model_names.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
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

namespace ng {
namespace {

constexpr const char* kHub = "huggingface";
constexpr const char* kOllama = "ollama";
constexpr const char* kLmStudio = "lmstudio";
constexpr const char* kLlamaCpp = "llama.cpp";
constexpr const char* kFolder = "folder";
constexpr const char* kLatest = "latest";
constexpr int kPlaceDepth = 3;  // of folders in a place

std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// A name as it is typed, in its parts.
struct Asked {
  std::string base;
  std::string revision;
  std::string tag;
};

Asked PartsOf(const std::string& name) {
  Asked asked;
  asked.base = name;
  const auto cut = [&](char mark, std::string* part) {
    const size_t slash = asked.base.rfind('/');
    const size_t at = asked.base.find(mark, slash == std::string::npos ? 0 : slash);
    if (at == std::string::npos) return;
    *part = asked.base.substr(at + 1);
    asked.base.resize(at);
  };
  // A revision may have a slash ("refs/pr/1"), a tag has none.
  const size_t revision = asked.base.find('@');
  if (revision != std::string::npos) {
    asked.revision = asked.base.substr(revision + 1);
    asked.base.resize(revision);
    const size_t colon = asked.revision.rfind(':');
    if (colon != std::string::npos) {
      asked.tag = asked.revision.substr(colon + 1);
      asked.revision.resize(colon);
    }
  } else {
    cut(':', &asked.tag);
  }
  return asked;
}

bool Same(std::string_view a, std::string_view b) {
  return absl::EqualsIgnoreCase(View(a), View(b));
}

// A file's name, with its ending or without.
bool IsFile(std::string_view text, const FoundModel& model) {
  if (model.file.empty()) return false;
  if (absl::EndsWithIgnoreCase(View(text), ".gguf")) text.remove_suffix(5);
  return Same(text, model.file);
}

bool Means(const Asked& asked, const std::string& name, const FoundModel& model) {
  constexpr size_t kLeastCommit = 4;  // letters
  if (name == model.shown.name || IsFile(name, model)) return true;
  // llama.cpp's files are named after their repositories: ORG_NAME_FILE.gguf.
  const bool in_file =
      model.shown.source == kLlamaCpp && asked.base.find('/') != std::string::npos &&
      absl::StartsWithIgnoreCase(model.file,
                                 absl::StrCat(absl::StrReplaceAll(asked.base, {{"/", "_"}}), "_"));
  if (!in_file && !Same(asked.base, model.base)) return false;
  const bool by_commit =
      asked.revision.size() >= kLeastCommit && model.commit.starts_with(asked.revision);
  const bool is_main = asked.revision == "main" && model.revision.empty() && !model.commit.empty();
  if (!Same(asked.revision, model.revision) && !by_commit && !is_main) return false;
  return asked.tag.empty() || Same(asked.tag, model.tag) || IsFile(asked.tag, model);
}

// Of several models that a name without a tag means, the one that it means first: a folder of
// weights beside GGUF files, Ollama's tag "latest".
void Prefer(std::vector<FoundModel>* models) {
  for (const char* const tag : {"", kLatest}) {
    const auto chosen = std::ranges::find(*models, tag, &FoundModel::tag);
    if (chosen == models->end()) continue;
    *models = {*chosen};
    return;
  }
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

}  // namespace

std::vector<ModelPlace> ModelPlaces(const std::vector<std::string>& folders) {
  const std::string home = Environment("HOME");
  std::string cache = Environment("XDG_CACHE_HOME");
  if (cache.empty() && !home.empty()) cache = home + "/.cache";
  const auto first = [](std::initializer_list<std::string> texts) {
    const auto found = std::ranges::find_if(texts, [](const auto& text) { return !text.empty(); });
    return found == texts.end() ? std::string() : *found;
  };
  const auto below = [](const std::string& folder, const char* name) {
    return folder.empty() ? std::string() : absl::StrCat(folder, name);
  };
  std::vector<ModelPlace> places = {
      {kHub, first({Environment("HF_HUB_CACHE"), Environment("HUGGINGFACE_HUB_CACHE"),
                    below(Environment("HF_HOME"), "/hub"), below(cache, "/huggingface/hub")})},
      {kOllama, first({Environment("OLLAMA_MODELS"), below(home, "/.ollama/models")})},
      {kOllama, "/usr/share/ollama/.ollama/models"},
      {kLmStudio, below(home, "/.lmstudio/models")},
      {kLmStudio, below(home, "/.cache/lm-studio/models")},
      {kLlamaCpp, first({Environment("LLAMA_CACHE"), below(cache, "/llama.cpp")})}};
  for (const std::string& folder : folders) places.push_back({kFolder, folder});
  std::erase_if(places, [](const ModelPlace& place) { return place.folder.empty(); });
  return places;
}

std::vector<FoundModel> ModelsOf(const ModelPlace& place) {
  std::vector<FoundModel> models = place.source == kHub      ? ModelsOfHubCache(place.folder)
                                   : place.source == kOllama ? ModelsOfOllama(place.folder)
                                                             : ModelsIn(place.folder, kPlaceDepth);
  for (FoundModel& model : models) SetName(place, &model);
  std::error_code error;
  if (place.source == kFolder && !std::filesystem::is_directory(place.folder, error)) {
    FoundModel none;
    none.shown.name = none.shown.path = place.folder;
    none.shown.source = kFolder;
    none.shown.fault = "model.folders names it, and it is no folder";
    models.push_back(std::move(none));
  }
  return models;
}

bool CanBeModelName(std::string_view text) {
  return !text.empty() && text.find_first_of("/.~") != 0 && !text.ends_with('/');
}

absl::StatusOr<std::optional<FoundModel>> FindModel(const std::string& name,
                                                    const std::vector<ModelPlace>& places) {
  const Asked asked = PartsOf(name);
  for (const ModelPlace& place : places) {
    std::vector<FoundModel> models = ModelsOf(place);
    std::erase_if(models, [&](const FoundModel& model) { return !Means(asked, name, model); });
    if (models.size() > 1 && asked.tag.empty()) Prefer(&models);
    if (models.empty()) continue;
    if (models.size() > 1) {
      return UsageError(
          absl::StrCat(name, ": several models have this name, write one of: ", Names(models)));
    }
    const NamedModel& model = models.front().shown;
    if (!model.fault.empty()) {
      return ModelFileError(absl::StrCat(model.name, " (", model.path, "): ", model.fault));
    }
    return std::move(models.front());
  }
  return std::nullopt;
}

absl::StatusOr<std::string> PathOfModel(const std::string& text) {
  std::error_code error;
  if (!CanBeModelName(text) || std::filesystem::exists(text, error)) return text;
  NG_ASSIGN_OR_RETURN(const std::optional<FoundModel> found, FindModel(text, ModelPlaces({})));
  return found ? found->shown.path : text;
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
