#include "apps/serve/answers/ollama_models.h"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "apps/common/version.h"
#include "apps/serve/answers/forms/ollama_answer.h"

namespace ng::serve {
namespace {

namespace fs = std::filesystem;

// When the model's file or folder was written.
std::string ModifiedAt(const Config& config) {
  std::error_code error;
  const fs::file_time_type written = fs::last_write_time(config.Text("model.path"), error);
  if (error) return OllamaTime(0);
  const auto since = std::chrono::file_clock::to_sys(written).time_since_epoch();
  return OllamaTime(std::chrono::duration_cast<std::chrono::microseconds>(since).count());
}

Json DetailsJson(const PlanParts& parts) {
  const std::string family(parts.engine.family());
  const std::string file = parts.engine.config().Text("model.path");
  Json details = Json::object();
  details["parent_model"] = "";
  details["format"] = file.ends_with(".gguf") ? "gguf" : "safetensors";
  details["family"] = family;
  details["families"] = Json::array();
  details["families"].push_back(family);
  details["parameter_size"] = "";
  details["quantization_level"] = absl::AsciiStrToUpper(parts.settings.weights);
  return details;
}

// A name for what is served, as long as clients expect one: 64 hexadecimal digits.
std::string DigestOf(const std::string& name, const PlanParts& parts) {
  constexpr int kPieces = 4;
  const std::string told = absl::StrCat(name, "\n", std::string(parts.engine.family()), "\n",
                                        parts.settings.weight_bytes, "\n", parts.settings.weights);
  uint64_t hash = 0xCBF29CE484222325;  // FNV-1a
  std::string digest;
  for (int i = 0; i < kPieces; ++i) {
    for (const char c : told) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
    absl::StrAppend(&digest, absl::Hex(hash, absl::kZeroPad16));
  }
  return digest;
}

Json TagJson(const std::string& name, const PlanParts& parts) {
  Json model = Json::object();
  model["name"] = name;
  model["model"] = name;
  model["size"] = parts.settings.weight_bytes;
  model["digest"] = DigestOf(name, parts);
  model["details"] = DetailsJson(parts);
  return model;
}

// Each of the server's models, with what is added to it.
Json EachModel(const PlanParts& parts, const Json& added) {
  Json json = Json::object();
  json["models"] = Json::array();
  for (const std::string& name : parts.settings.models) {
    Json model = TagJson(name, parts);
    model.update(added);
    json["models"].push_back(std::move(model));
  }
  return json;
}

// Whether answers to such a request can be read in parts.
bool CanReadCalls(const Engine& engine) {
  const std::string tool = R"([{"type":"function","function":{"name":"f","parameters":{}}}])";
  return engine.ReadAnswer({.messages = R"([{"role":"user","content":"x"}])", .tools = tool}).ok();
}
bool CanReadThoughts(const Engine& engine) {
  const auto reader = engine.ReadAnswer({.messages = R"([{"role":"user","content":"x"}])"});
  return reader.ok() && !(*reader)->is_plain();
}

}  // namespace

Json OllamaTags(const PlanParts& parts) {
  Json model = Json::object();
  model["modified_at"] = ModifiedAt(parts.engine.config());
  return EachModel(parts, model);
}

Json OllamaRunning(const PlanParts& parts) {
  constexpr const char* kNever = "9999-12-31T23:59:59Z";  // it stays as long as the server
  Json model = Json::object();
  model["expires_at"] = kNever;
  model["size_vram"] = 0;
  model["context_length"] = parts.max_tokens;
  return EachModel(parts, model);
}

Parsed<Json> OllamaShow(const std::string& body, const PlanParts& parts) {
  const Parsed<Request> parsed = ParseRequest(kOllamaShow, body);
  if (const auto* const error = std::get_if<ApiError>(&parsed)) return *error;
  if (auto error = CheckModel(std::get<Request>(parsed).answer.model, parts.settings)) {
    return *error;
  }
  const Engine& engine = parts.engine;
  const std::string family(engine.family());
  Json json = Json::object();
  json["modelfile"] = absl::StrCat("FROM ", parts.settings.model, "\n");
  json["parameters"] = "";
  json["template"] = "";
  json["details"] = DetailsJson(parts);
  Json& info = json["model_info"] = Json::object();
  info["general.architecture"] = family;
  info[family + ".context_length"] = parts.max_tokens;
  info[family + ".block_count"] = engine.model_shape().n_layers;
  info[family + ".attention.head_count"] = engine.model_shape().n_heads;
  info[family + ".attention.head_count_kv"] = engine.model_shape().n_kv_heads;
  info[family + ".vocab_size"] = engine.model_shape().vocab_size;
  Json& can = json["capabilities"] = Json::array();
  can.push_back("completion");
  if (engine.has_chat_template() && CanReadCalls(engine)) can.push_back("tools");
  if (engine.has_chat_template() && CanReadThoughts(engine)) can.push_back("thinking");
  json["modified_at"] = ModifiedAt(engine.config());
  return json;
}

Json OllamaVersion(const PlanParts& /*parts*/) {
  Json json = Json::object();
  json["version"] = VersionNumber();
  return json;
}

}  // namespace ng::serve
