// Fields of a config.json as the configuration classes of transformers read them: a file need not
// repeat what its class says, and null is no number.
//
// Errors: ModelFileError naming `path`, the key, the value found and what is allowed.
#ifndef NG_CORE_MODEL_KEYS_CONFIG_FIELDS_H_
#define NG_CORE_MODEL_KEYS_CONFIG_FIELDS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/formats/json.h"
#include "core/model/spec/model_spec.h"
#include "ng/status.h"

namespace ng {

absl::StatusOr<int64_t> IntOr(const JsonFields& config, std::string_view key, Range<int64_t> range,
                              int64_t absent);
absl::StatusOr<bool> BoolOr(const JsonFields& config, std::string_view key, bool absent);
// A size by its key, or by another name of it, which goes before.
struct SizeKey {
  const char* key;
  const char* other_name = "";

  // With `absent` where neither is there. Null is an error, unless it means absent too.
  absl::StatusOr<int64_t> Read(const JsonFields& config, Range<int64_t> range, int64_t absent,
                               bool null_is_absent = false) const;
};

// A key that says whether a model has something.
struct SwitchKey {
  const char* key = "";        // empty: no key says it
  bool absent = false;         // where it is not there
  const char* older_key = "";  // another name of it; empty: none
};
absl::StatusOr<bool> ReadSwitch(const JsonFields& config, const SwitchKey& wanted);

// A factor that is not 0.
absl::StatusOr<double> FactorOr(const JsonFields& config, std::string_view key, double absent);
absl::StatusOr<float> EpsOr(const JsonFields& config, std::string_view key, double absent);

// An activation that runs, by its name in transformers.
struct ActivationName {
  std::string_view name;
  Activation activation;
};
inline constexpr ActivationName kSiluNames[] = {{"silu", Activation::kSilu},
                                                {"swish", Activation::kSilu}};
inline constexpr ActivationName kGeluNames[] = {
    {"gelu_new", Activation::kGeluTanh},         {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"gelu_python_tanh", Activation::kGeluTanh}, {"gelu_fast", Activation::kGeluTanh},
    {"gelu_accurate", Activation::kGeluTanh},    {"gelu", Activation::kGeluErf},
    {"gelu_python", Activation::kGeluErf}};
inline constexpr ActivationName kGeluTanhFirstNames[] = {
    {"gelu_pytorch_tanh", Activation::kGeluTanh}, {"gelu_new", Activation::kGeluTanh},
    {"gelu_fast", Activation::kGeluTanh},         {"gelu", Activation::kGeluErf},
    {"gelu_python", Activation::kGeluErf},        {"relu", Activation::kRelu}};
inline constexpr ActivationName kGeluErfFirstNames[] = {
    {"gelu", Activation::kGeluErf},       {"gelu_python", Activation::kGeluErf},
    {"gelu_new", Activation::kGeluTanh},  {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"gelu_fast", Activation::kGeluTanh}, {"relu", Activation::kRelu},
    {"relu2", Activation::kReluSquared}};
// In Gemma "gelu" is an older name of the one by tanh.
inline constexpr ActivationName kGemmaNames[] = {{"gelu_pytorch_tanh", Activation::kGeluTanh},
                                                 {"gelu", Activation::kGeluTanh}};
inline constexpr ActivationName kReluNames[] = {{"relu", Activation::kRelu},
                                                {"gelu", Activation::kGeluErf},
                                                {"gelu_new", Activation::kGeluTanh}};
inline constexpr ActivationName kGeluTanhOnly[] = {{"gelu", Activation::kGeluTanh}};
inline constexpr ActivationName kReluSquaredOrSiluNames[] = {{"relu2", Activation::kReluSquared},
                                                             {"silu", Activation::kSilu}};
inline constexpr ActivationName kReluSquaredNames[] = {{"relu2", Activation::kReluSquared},
                                                       {"relu", Activation::kRelu},
                                                       {"gelu", Activation::kGeluErf}};
inline constexpr ActivationName kXieluNames[] = {{"xielu", Activation::kXielu}};
// One of those that are known; an absent key means the first of them.
absl::StatusOr<Activation> ReadActivation(const JsonFields& config, const std::string& path,
                                          std::string_view key,
                                          std::span<const ActivationName> known);

// A switch that the decoder has only one position of.
absl::Status Require(const JsonFields& config, const std::string& path, std::string_view key,
                     bool wanted);
// What every class of transformers may be told and the decoder cannot do: quantization_config,
// per_layer_config, is_causal.
// method: of quantisation, which is all the same read; empty: none. by_layer: the class reads
// per_layer_config.
absl::Status RequirePlain(const JsonFields& config, const std::string& path,
                          std::string_view method = "", bool by_layer = false);

}  // namespace ng

#endif  // NG_CORE_MODEL_KEYS_CONFIG_FIELDS_H_
