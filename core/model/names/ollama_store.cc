#include "core/model/names/ollama_store.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/absl_view.h"
#include "core/base/file.h"
#include "core/formats/json.h"

namespace ng {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view kHost = "registry.ollama.ai/";
constexpr std::string_view kOwner = "library/";
constexpr std::string_view kMediaType = "application/vnd.ollama.image.";

std::string TextAt(const Json& object, const char* key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// The file of a part, empty where it names none; older versions have a colon in the file's name.
std::string BlobOf(const fs::path& store, const Json& part) {
  const std::string digest = TextAt(part, "digest");
  if (!digest.starts_with("sha256") || digest.find('/') != digest.npos) return {};
  std::error_code error;
  const fs::path older = store / "blobs" / digest;
  if (fs::exists(older, error)) return older.string();
  return (store / "blobs" / absl::StrReplaceAll(digest, {{":", "-"}})).string();
}

void SetStoreFault(std::string_view fault, FoundModel* model) {
  if (model->shown.fault.empty()) model->shown.fault = fault;
}

void TakePart(const fs::path& store, const Json& part, FoundModel* model) {
  const std::string type = TextAt(part, "mediaType");
  if (!type.starts_with(kMediaType)) return;
  const std::string_view kind = std::string_view(type).substr(kMediaType.size());
  const std::string blob = BlobOf(store, part);
  if (kind == "model") {
    if (!model->shown.path.empty()) SetStoreFault("has several files of weights", model);
    std::error_code error;
    const uintmax_t bytes = fs::file_size(blob, error);
    if (error) {
      SetStoreFault(blob.empty() ? "names no file of weights" : "its weights are missing", model);
    } else {
      model->shown.bytes = static_cast<int64_t>(bytes);
    }
    model->shown.path = blob;
  } else if (kind == "adapter") {
    SetStoreFault("has an adapter, which ng cannot apply", model);
  } else if (kind == "template") {
    model->go_template = blob;
  } else if (kind == "params") {
    model->parameters = blob;
  } else if (kind == "system") {
    model->system = blob;
  }
}

FoundModel ReadManifest(const fs::path& store, const fs::path& manifest) {
  FoundModel model;
  const absl::StatusOr<JsonDocument> document = ReadJsonFile(manifest.string());
  if (!document.ok()) {
    model.shown.fault = std::string(document.status().message());
    return model;
  }
  const Json& json = **document;
  const auto layers = json.is_object() ? json.find("layers") : json.end();
  if (json.is_object() && layers != json.end() && layers->is_array()) {
    for (const Json& part : *layers) TakePart(store, part, &model);
  }
  if (model.shown.path.empty()) SetStoreFault("names no weights", &model);
  if (json.is_object() && json.contains("config")) {
    const absl::StatusOr<JsonDocument> config = ReadJsonFile(BlobOf(store, json["config"]));
    if (config.ok()) {
      model.shown.family = TextAt(**config, "model_family");
      model.shown.type = TextAt(**config, "file_type");
    }
  }
  return model;
}

std::string BaseOf(const std::string& path) {
  std::string_view base = path;
  if (!base.starts_with(kHost)) return path;
  base.remove_prefix(kHost.size());
  if (base.starts_with(kOwner)) base.remove_prefix(kOwner.size());
  return std::string(base);
}

void AddModels(const fs::path& store, const fs::path& folder, const std::string& base, int depth,
               std::vector<FoundModel>* models) {
  std::error_code error;
  std::vector<fs::path> paths;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    paths.push_back(at->path());
  }
  std::ranges::sort(paths);
  for (const fs::path& path : paths) {
    const std::string name = path.filename().string();
    if (depth > 0) {
      if (fs::is_directory(path, error)) {
        AddModels(store, path, base.empty() ? name : absl::StrCat(base, "/", name), depth - 1,
                  models);
      }
    } else if (!name.starts_with('.')) {
      FoundModel model = ReadManifest(store, path);
      model.base = BaseOf(base);
      model.tag = name;
      if (model.shown.path.empty()) model.shown.path = path.string();
      models->push_back(std::move(model));
    }
  }
}

ConfigEntry Default(const char* key, std::string text, std::string origin) {
  return {key, std::move(text), {ConfigOrigin::Kind::kModel, std::move(origin), 0}};
}

}  // namespace

std::vector<FoundModel> ModelsOfOllama(const std::string& folder) {
  constexpr int kLevels = 3;  // host, owner, name
  std::vector<FoundModel> models;
  AddModels(folder, fs::path(folder) / "manifests", "", kLevels, &models);
  return models;
}

namespace {

// The texts that end an answer: one, or a list.
absl::Status ReadStops(const Json& parameters, const std::string& path,
                       SamplingSuggestions* sampling) {
  const auto found = parameters.find("stop");
  if (found == parameters.end() || SaysNothing(*found)) return absl::OkStatus();
  const Json& stop = *found;
  std::vector<std::string> texts;
  const bool are_texts =
      stop.is_string() || (stop.is_array() && std::ranges::all_of(stop, [](const Json& text) {
                             return text.is_string();
                           }));
  if (!are_texts) {
    return ModelFileError(absl::StrCat(path, ": key \"stop\" = ", JsonExcerpt(stop),
                                       ", must be a text or a list of texts"));
  }
  for (const Json& text : stop.is_string() ? Json::array({stop}) : stop) {
    if (!text.get_ref<const std::string&>().empty()) texts.push_back(text.get<std::string>());
  }
  if (texts.empty()) return absl::OkStatus();
  NG_ASSIGN_OR_RETURN(SuggestedSampling suggested, SuggestStops(texts, path));
  sampling->values.push_back(std::move(suggested));
  return absl::OkStatus();
}

absl::Status ReadParameters(const FoundModel& model, const std::string& of,
                            OllamaDefaults* defaults) {
  // What is no sampler's; the other keys are those of a generation_config.json, but for one.
  struct Key {
    const char* name;
    const char* key;
    int64_t least;  // below it: what ng does anyway
  };
  constexpr Key kKeys[] = {{"num_ctx", "cache.usual_tokens", 1},
                           {"num_predict", "run.max_new_tokens", 1},
                           {"seed", "sampler.seed", 0}};
  constexpr int64_t kAnyVocabulary = int64_t{1} << 31;
  NG_ASSIGN_OR_RETURN(JsonDocument parameters, ReadJsonFile(model.parameters));
  if (!parameters->is_object()) return ModelFileError(model.parameters + ": must be a JSON object");
  for (const Key& key : kKeys) {
    const auto found = parameters->find(key.name);
    const bool given = found != parameters->end() && found->is_number_integer();
    if (!given || found->get<int64_t>() < key.least) continue;
    defaults->entries.push_back(
        Default(key.key, found->dump(), absl::StrCat(of, ": \"", key.name, "\"")));
  }
  if (const auto found = parameters->find("repeat_penalty"); found != parameters->end()) {
    (*parameters)["repetition_penalty"] = Json(*found);
  }
  NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(*parameters, model.parameters));
  NG_ASSIGN_OR_RETURN(defaults->sampling,
                      ReadSuggestedSampling(fields, model.parameters, kAnyVocabulary));
  return ReadStops(*parameters, model.parameters, &defaults->sampling);
}

}  // namespace

ForeignTemplate ForeignTemplateOf(const FoundModel& model) {
  // The blobs that are named after what they hold.
  struct Known {
    std::string_view blob;
    const char* same_as;
  };
  constexpr Known kKnown[] = {
      {"sha256-62fbfd9ed093d6e5ac83190c86eec5369317919f4b149598d2dbb38900e9faef", "chatml"},
      {"sha256-8ab4849b038cf0abc5b1c9b8ee1443dca6b93a045c2272180d985126eb40bf6f", "llama3"}};
  constexpr int64_t kMostBytes = int64_t{1} << 20;
  if (model.go_template.empty()) return {};
  const absl::StatusOr<std::string> text = ReadWholeFile(model.go_template, kMostBytes);
  const std::string plain = text.ok() ? absl::StrReplaceAll(*text, {{" ", ""}, {"\n", ""}}) : "";
  if (plain == "{{.Prompt}}") return {};
  const std::string blob =
      absl::StrReplaceAll(fs::path(model.go_template).filename().string(), {{":", "-"}});
  const auto* const known = std::ranges::find(kKnown, blob, &Known::blob);
  return {absl::StrCat(NameOf(model), " in Ollama's store has a chat template in Go's language (",
                       blob, ")"),
          known == std::end(kKnown) ? "" : known->same_as};
}

absl::StatusOr<OllamaDefaults> ReadOllamaDefaults(const FoundModel& model) {
  constexpr int64_t kMostBytes = int64_t{1} << 20;
  OllamaDefaults defaults;
  const std::string of = absl::StrCat(NameOf(model), " in Ollama's store");
  absl::Status status;
  if (!model.parameters.empty()) status = ReadParameters(model, of, &defaults);
  if (status.ok() && !model.system.empty()) {
    absl::StatusOr<std::string> system = ReadWholeFile(model.system, kMostBytes);
    status = system.status();
    if (system.ok() && !system->empty()) {
      defaults.entries.push_back(Default("run.system", *std::move(system), of));
    }
  }
  if (status.ok()) return defaults;
  return ModelFileError(
      absl::StrCat(of, ": ", status.message(), "; run.model_defaults = false runs without it"));
}

}  // namespace ng
