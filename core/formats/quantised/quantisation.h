// From what a model's folder says of quantisation to a source of plain tensors.
#ifndef NG_CORE_FORMATS_QUANTISED_QUANTISATION_H_
#define NG_CORE_FORMATS_QUANTISED_QUANTISATION_H_

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/formats/json.h"
#include "core/formats/quantised/formats.h"
#include "core/formats/tensor_source.h"
#include "ng/status.h"

namespace ng {

// What a config says, taken out of it.
struct Quantisation {  // NOLINT(bugprone-exception-escape): what JsonDocument says of it
  const QuantisedFormat* format = nullptr;
  JsonDocument object;
  std::string file;    // that says it
  std::string prefix;  // of its keys in errors: "quantization_config."
};

// Takes it out of a folder's config.json: "quantization_config" of a format in the table,
// "quantization" of MLX; or reads hf_quant_config.json beside it. None where nothing is said, or
// MXFP4 of gpt-oss: the key is left to who reads the config. Errors: a method that is not in the
// table; that file is wrong.
absl::StatusOr<std::optional<Quantisation>> TakeQuantisation(const std::string& folder,
                                                             nlohmann::json& config);

struct QuantisedTensors {
  std::unique_ptr<TensorSource> source;
  std::string what;                // "gptq: int4 in groups of 128, 4.16 bits a weight"
  std::vector<std::string> notes;  // what the format rounds and ng does not: "inputs of products"
};
// Errors: ModelFileError naming the tensor or key, what was found and what is allowed; also where
// no tensor is quantised.
absl::StatusOr<QuantisedTensors> OpenQuantised(std::unique_ptr<TensorSource> source,
                                               const Quantisation& quantisation);

}  // namespace ng

#endif  // NG_CORE_FORMATS_QUANTISED_QUANTISATION_H_
