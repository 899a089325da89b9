#include "core/model/files/model_file.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/file.h"
#include "core/formats/json.h"
#include "core/formats/mxfp4_source.h"
#include "core/formats/quantised/quantisation.h"
#include "core/formats/safetensors.h"
#include "core/formats/safetensors_index.h"
#include "core/model/files/bind_tensors.h"
#include "core/model/files/mlx_tensors.h"
#include "core/model/files/random_source.h"
#include "core/model/gguf/gguf_families.h"
#include "core/model/gguf/gguf_names.h"
#include "core/model/gguf/gguf_tensors.h"
#include "core/model/keys/inert_keys.h"
#include "core/model/keys/text_part.h"

namespace ng {
namespace {

// Of files of packed weights, which are no models by themselves (packed_weights.h).
constexpr std::string_view kPackedEnding = ".ngw";

// Of end tokens. A negative id is no token, so it ends nothing: some files mean "none" by -1.
constexpr Range<int64_t> kIds = {std::numeric_limits<int32_t>::min(),
                                 std::numeric_limits<int32_t>::max()};

constexpr int64_t kUnknownSize = std::numeric_limits<int64_t>::max();

int64_t VocabSizeIn(const nlohmann::json& config) {
  const auto size = config.is_object() ? config.find("vocab_size") : config.end();
  const bool known = config.is_object() && size != config.end() && size->is_number_integer();
  return known ? size->get<int64_t>() : kUnknownSize;
}

// Of the model in a folder whose config.json has not been checked yet.
int64_t VocabSizeOf(const std::string& folder) {
  const absl::StatusOr<JsonDocument> json = ReadJsonFile(folder + "/config.json");
  if (!json.ok()) return kUnknownSize;
  const nlohmann::json& config = **json;
  const bool has_part = config.is_object() && config.contains("text_config");
  return std::min(VocabSizeIn(config),
                  has_part ? VocabSizeIn(config["text_config"]) : kUnknownSize);
}

std::string GenerationConfigOf(const std::string& folder) {
  return folder + "/generation_config.json";
}

// generation_config.json, where there is one. As in transformers, one that is no JSON is as if it
// were not there; the user is told.
absl::StatusOr<std::optional<JsonDocument>> ReadGenerationConfig(const std::string& path,
                                                                 const KeyPolicy& keys) {
  if (!MayExist(path)) return std::nullopt;
  absl::StatusOr<JsonDocument> json = ReadJsonFile(path);
  const absl::Status read = json.ok() ? JsonFields::Of(**json, path).status() : json.status();
  if (read.ok()) return std::optional(*std::move(json));
  std::error_code failed;
  if (!std::filesystem::exists(path, failed)) return read;  // a link to nothing
  NG_RETURN_IF_ERROR(keys.Doubt(absl::StrCat(read.message(), "; the file is not used")));
  return std::nullopt;
}

// What generation_config.json suggests to the sampler.
absl::StatusOr<SamplingSuggestions> ReadSamplingOfFolder(const std::string& folder) {
  const std::string path = GenerationConfigOf(folder);
  NG_ASSIGN_OR_RETURN(const std::optional<JsonDocument> json,
                      ReadGenerationConfig(path, KeyPolicy()));
  if (!json) return SamplingSuggestions();
  NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(**json, path));
  return ReadSuggestedSampling(fields, path, VocabSizeOf(folder));
}

// eos_token_id, one or a list: what generation_config.json says goes before config.json. And what
// it suggests to the sampler.
absl::Status ReadEosIds(const std::string& folder, const JsonFields& config, const KeyPolicy& keys,
                        ModelFile* file) {
  constexpr const char* kKey = "eos_token_id";
  file->eos_origin = GenerationConfigOf(folder);
  std::optional<std::vector<int64_t>> ids;
  NG_ASSIGN_OR_RETURN(const std::optional<JsonDocument> json,
                      ReadGenerationConfig(file->eos_origin, keys));
  if (json) {
    NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(**json, file->eos_origin));
    NG_ASSIGN_OR_RETURN(ids, fields.OptionalInts(kKey, kIds));
    NG_ASSIGN_OR_RETURN(file->sampling, ReadSuggestedSampling(fields, file->eos_origin,
                                                              file->spec.shape.vocab_size));
  }
  if (!ids) {
    file->eos_origin = folder + "/config.json";
    NG_ASSIGN_OR_RETURN(ids, config.OptionalInts(kKey, kIds));
  }
  for (const int64_t id : ids.value_or(std::vector<int64_t>())) {
    if (id >= 0) file->eos_ids.push_back(static_cast<int32_t>(id));
  }
  absl::StrAppend(&file->eos_origin, ": key \"", kKey, "\"");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> FilesEndingIn(std::string_view suffix,
                                                       const std::string& folder) {
  std::vector<std::string> names;
  const std::error_code error = ListDirectory(folder, &names);
  if (error) return ModelFileError(absl::StrCat(folder, ": ", error.message()));
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (name.ends_with(suffix)) found.push_back(absl::StrCat(folder, "/", name));
  }
  return found;
}

// How a model in another form can run, to go behind an error about its folder; empty where there is
// none.
absl::StatusOr<std::string> WhatIsThereInstead(const std::string& folder) {
  if (MayExist(folder + "/adapter_config.json")) {
    return absl::StrCat(
        " but adapter_config.json: it is an adapter, which its model runs with, as "
        "model.adapters = ",
        folder);
  }
  NG_ASSIGN_OR_RETURN(const std::vector<std::string> ggufs, FilesEndingIn(".gguf", folder));
  if (!ggufs.empty()) {
    return absl::StrCat(" but ", absl::StrJoin(ggufs, ", "), "; set model.path to ",
                        ggufs.size() == 1 ? "that file" : "one of these files");
  }
  for (const char* suffix : {".bin", ".pth", ".pt", ".ckpt"}) {
    NG_ASSIGN_OR_RETURN(const std::vector<std::string> weights, FilesEndingIn(suffix, folder));
    if (weights.empty()) continue;
    return absl::StrCat(" but ", weights.front(),
                        ", which may hold code and is not read; convert it, for instance with "
                        "save_pretrained of transformers, or take a .safetensors or GGUF file of "
                        "the model");
  }
  return std::string();
}

// model.safetensors, the files of its index, or the one safetensors file of the folder under any
// other name.
absl::StatusOr<std::unique_ptr<TensorSource>> OpenWeights(const std::string& folder,
                                                          const KeyPolicy& keys) {
  const std::string usual = folder + "/model.safetensors";
  const std::string index = usual + ".index.json";
  if (MayExist(usual)) return OpenSafetensors(usual);
  if (MayExist(index)) {
    NG_ASSIGN_OR_RETURN(SafetensorsIndex opened, OpenSafetensorsIndex(index));
    for (const std::string& doubt : opened.doubts) NG_RETURN_IF_ERROR(keys.Doubt(doubt));
    return std::move(opened.source);
  }
  NG_ASSIGN_OR_RETURN(const std::vector<std::string> found, FilesEndingIn(".safetensors", folder));
  if (found.size() == 1) return OpenSafetensors(found.front());
  if (found.empty()) {
    NG_ASSIGN_OR_RETURN(const std::string instead, WhatIsThereInstead(folder));
    return ModelFileError(folder + ": holds no .safetensors file" + instead);
  }
  return ModelFileError(absl::StrCat(folder, ": holds ", found.size(),
                                     " .safetensors files, no model.safetensors and no "
                                     "model.safetensors.index.json: ",
                                     absl::StrJoin(found, ", ")));
}

}  // namespace

const TensorInfo* ModelFile::Find(TensorRole role, int layer) const {
  for (const TensorBinding& binding : bindings) {
    if (binding.role == role && binding.at.layer == layer) return binding.tensor;
  }
  return nullptr;
}

namespace {

absl::Status CheckConfigKeys(const JsonFields& config, const std::string& path,
                             const Family& family, const KeyPolicy& keys) {
  return keys.Unread(path, WithoutInertKeys(config.Unread(), family.model_type));
}

// Layers that predict further tokens, which nobody asks for.
absl::StatusOr<int64_t> ReadFurtherLayers(const JsonFields& config, const Family& family) {
  const std::string_view key = family.n_further_layers;
  if (key.empty()) return 0;
  NG_ASSIGN_OR_RETURN(const auto found, config.OptionalInt(key, {0, 64}));
  return found.value_or(0);
}

// A config.json, or the part of it that is of the model that runs.
struct ReadConfig {  // NOLINT(bugprone-exception-escape): what JsonDocument says of it
  JsonDocument config;
  std::optional<Quantisation> quantisation;  // what was taken out of it
  std::string part_of;                       // the model around a text part; empty: none is
};
absl::StatusOr<ReadConfig> ReadModelConfig(const std::string& path, KeyPolicy& keys,
                                           const std::string& folder = "") {
  ReadConfig read;
  NG_ASSIGN_OR_RETURN(read.config, ReadJsonFile(path));
  keys.LeaveOutIgnored(path, *read.config);
  if (!folder.empty()) {
    NG_ASSIGN_OR_RETURN(read.quantisation, TakeQuantisation(folder, *read.config));
  }
  NG_ASSIGN_OR_RETURN(std::optional<JsonDocument> text, TextConfigOf(read.config, path));
  if (!text) return read;
  read.part_of = (*read.config)["model_type"].get<std::string>();
  keys.LeaveOutIgnored(path, **text);
  read.config = *std::move(text);
  if (!folder.empty() && !read.quantisation) {
    NG_ASSIGN_OR_RETURN(read.quantisation, TakeQuantisation(folder, *read.config));
  }
  return read;
}

absl::StatusOr<ModelFile> OpenFolder(const std::string& path, KeyPolicy& keys) {
  const std::string config_path = path + "/config.json";
  if (!MayExist(config_path)) {
    NG_ASSIGN_OR_RETURN(const std::string instead, WhatIsThereInstead(path));
    return ModelFileError(path + ": holds no config.json" + instead);
  }
  NG_ASSIGN_OR_RETURN(const ReadConfig read, ReadModelConfig(config_path, keys, path));
  NG_ASSIGN_OR_RETURN(const JsonFields config, JsonFields::Of(*read.config, config_path));
  NG_ASSIGN_OR_RETURN(const Family* family, FindFamily(config, config_path));

  ModelFile file;
  NG_ASSIGN_OR_RETURN(file.spec, family->read_spec(config, config_path));
  file.spec.family = family->model_type;
  NG_RETURN_IF_ERROR(ReadEosIds(path, config, keys, &file));
  NG_ASSIGN_OR_RETURN(file.source, OpenWeights(path, keys));
  if (!read.part_of.empty()) {
    const auto n_tensors = std::ssize(file.source->tensors());
    file.source = TextTensorsOf(std::move(file.source));
    file.warnings.push_back(absl::StrCat(config_path, ": is of a ", read.part_of,
                                         " model, of which the text part runs; ",
                                         n_tensors - std::ssize(file.source->tensors()),
                                         " tensors of its other parts are not read"));
  }
  if (config.Has("quantization_config")) {  // the only kind that a reader lets pass
    NG_ASSIGN_OR_RETURN(file.source, MergeMxfp4(std::move(file.source)));
  }
  if (read.quantisation) {
    NG_ASSIGN_OR_RETURN(QuantisedTensors opened,
                        OpenQuantised(std::move(file.source), *read.quantisation));
    file.source = std::move(opened.source);
    file.quantised = std::move(opened.what);
    file.not_rounded = std::move(opened.notes);
  }
  NG_ASSIGN_OR_RETURN(const int64_t n_further, ReadFurtherLayers(config, *family));
  if (family->read_sizes != nullptr) {
    NG_RETURN_IF_ERROR(family->read_sizes(*file.source, config_path, &file.spec));
  } else {
    // As in transformers, layers behind those of the config are not read. CheckUnusedTensors says
    // so.
    NG_RETURN_IF_ERROR(CheckLayerCount(file, *family, config_path, std::nullopt));
  }
  UseMlxNorms(*file.source, &file.spec);
  NG_RETURN_IF_ERROR(BindTensors(*family, &file));
  if (family->unties_head) NG_RETURN_IF_ERROR(UntieHead(keys, &file));
  NG_RETURN_IF_ERROR(CheckConfigKeys(config, config_path, *family, keys));
  NG_RETURN_IF_ERROR(CheckUnusedTensors(file, *family, n_further, keys));
  return file;
}

absl::Status ReadGgufEosIds(const JsonFields& metadata, ModelFile* file) {
  file->eos_origin = file->source->path() + ":";
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.eom_token_id"}) {
    NG_ASSIGN_OR_RETURN(const std::optional<int64_t> id, metadata.OptionalInt(key, kIds));
    if (id.value_or(-1) < 0) continue;
    file->eos_ids.push_back(static_cast<int32_t>(*id));
    absl::StrAppend(&file->eos_origin, " key \"", key, "\"");
  }
  return absl::OkStatus();
}

absl::StatusOr<ModelFile> OpenGgufModel(const std::string& path, KeyPolicy& keys) {
  NG_ASSIGN_OR_RETURN(GgufFile gguf, OpenGguf(path));
  keys.LeaveOutIgnored(gguf.metadata);
  NG_ASSIGN_OR_RETURN(gguf.tensors, WithDerivedTensors(gguf.metadata, std::move(gguf.tensors)));
  const JsonFields metadata = gguf.metadata.fields();
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<GgufModel> model,
                      ReadGgufModel(gguf.metadata, *gguf.tensors));
  const Family& family = model->family;

  ModelFile file;
  file.spec = model->spec;
  file.of_gguf = true;
  file.source = std::move(gguf.tensors);
  NG_RETURN_IF_ERROR(CheckLayerCount(file, family, absl::StrCat(family.model_type, ".block_count"),
                                     model->n_further_layers));
  NG_RETURN_IF_ERROR(ReadGgufEosIds(metadata, &file));
  NG_ASSIGN_OR_RETURN(file.sampling, ReadGgufSampling(metadata, path));
  NG_RETURN_IF_ERROR(BindTensors(family, &file));
  for (const TensorInfo* tensor : file.unused) {
    if (IsUnaskedGgufTensor(tensor->name)) continue;
    if (IsUnasked(*tensor, file.spec, family, model->n_further_layers)) continue;
    return ModelFileError(absl::StrCat(path, ": tensor ", JsonExcerpt(tensor->name),
                                       " has no place in a ", family.model_type, " model"));
  }
  file.metadata = std::move(gguf.metadata);
  return file;
}

}  // namespace

absl::Status UseLongContext(ModelFile* file) {
  for (TensorBinding& binding : file->bindings) {
    if (binding.role != TensorRole::kRopeFactors) continue;
    const TensorInfo* const far = file->source->Find(kLongFactors);
    if (far == nullptr || far->shape != binding.tensor->shape) {
      return ModelFileError(absl::StrCat(file->source->path(), ": tensor \"", kLongFactors,
                                         "\" must have the shape of \"", binding.tensor->name,
                                         "\", [", absl::StrJoin(binding.tensor->shape, ", "), "]"));
    }
    binding.tensor = far;
  }
  file->spec.UseLongContext();
  return absl::OkStatus();
}

absl::StatusOr<ModelFile> OpenModel(const std::string& path, KeyPolicy& keys) {
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  if (type == std::filesystem::file_type::directory) return OpenFolder(path, keys);
  if (path.ends_with(kPackedEnding)) {
    return ModelFileError(absl::StrCat(path, ": holds the weights of a model, packed by ng-pack; ",
                                       "set model.packed to it, and model.path to the model"));
  }
  const bool of_folder = path.ends_with(".safetensors") || path.ends_with(".json");
  if (type == std::filesystem::file_type::regular && !of_folder) return OpenGgufModel(path, keys);
  const std::string reason = error       ? error.message() + HomeHint(path)
                             : of_folder ? absl::StrCat("is a file of a model folder")
                                         : "is neither a folder nor a file";
  return ModelFileError(absl::StrCat(
      path, ": ", reason, "; model.path must be a folder with config.json and .safetensors files",
      of_folder ? absl::StrCat(": ", FolderOf(path)) : ", or a GGUF file"));
}

absl::StatusOr<SamplingSuggestions> ReadSamplingOf(const std::string& path, KeyPolicy& keys) {
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  if (type == std::filesystem::file_type::directory) return ReadSamplingOfFolder(path);
  const bool no_model =
      path.ends_with(".safetensors") || path.ends_with(".json") || path.ends_with(kPackedEnding);
  if (type != std::filesystem::file_type::regular || no_model) return SamplingSuggestions();
  NG_ASSIGN_OR_RETURN(GgufFile gguf, OpenGguf(path));
  keys.LeaveOutIgnored(gguf.metadata);
  return ReadGgufSampling(gguf.metadata.fields(), path);
}

absl::StatusOr<ModelFile> OpenRandomModel(const std::string& config_path, KeyPolicy& keys) {
  NG_ASSIGN_OR_RETURN(const ReadConfig read, ReadModelConfig(config_path, keys));
  NG_ASSIGN_OR_RETURN(const JsonFields config, JsonFields::Of(*read.config, config_path));
  NG_ASSIGN_OR_RETURN(const Family* family, FindFamily(config, config_path));

  if (family->read_sizes != nullptr) {
    return ModelFileError(absl::StrCat(config_path, ": the sizes of a ", family->model_type,
                                       " model are those of its tensors, it cannot have random "
                                       "ones; can run: any other model_type"));
  }
  ModelFile file;
  file.random_weights = true;
  NG_ASSIGN_OR_RETURN(file.spec, family->read_spec(config, config_path));
  file.spec.family = family->model_type;
  NG_ASSIGN_OR_RETURN(file.source, MakeRandomSource(*family, file.spec, config, config_path));
  NG_RETURN_IF_ERROR(BindTensors(*family, &file));
  NG_RETURN_IF_ERROR(CheckConfigKeys(config, config_path, *family, keys));
  return file;
}

absl::Status CheckGgufKeys(const GgufMetadata& metadata, const std::string& family,
                           const std::vector<std::string>& unasked, const KeyPolicy& keys) {
  std::vector<std::string> unread = WithoutInertKeys(metadata.Unread(), family);
  std::erase_if(unread, [&](const std::string& key) {
    return std::ranges::any_of(unasked, [&](const auto& part) { return key.starts_with(part); });
  });
  return keys.Unread(metadata.path(), unread);
}

}  // namespace ng
