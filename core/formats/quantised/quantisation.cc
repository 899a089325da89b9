#include "core/formats/quantised/quantisation.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/file.h"
#include "core/formats/quantised/form_finder.h"
#include "core/formats/quantised/quantised_source.h"

namespace ng {
namespace {

constexpr const char* kConfigKey = "quantization_config";
constexpr const char* kOlderKey = "compression_config";  // of compressed-tensors
constexpr const char* kMlxKey = "quantization";
constexpr std::string_view kMlx = "mlx";
constexpr std::string_view kOfBlocks = "mxfp4";  // of gpt-oss (mxfp4_source.h)

const QuantisedFormat* FormatOf(std::string_view method) {
  if (method == "intel/auto-round") method = "auto-round";
  const auto* const found = std::ranges::find(kQuantisedFormats, method, &QuantisedFormat::method);
  return found == std::end(kQuantisedFormats) ? nullptr : found;
}

std::string Methods() {
  return absl::StrJoin(kQuantisedFormats, ", ",
                       [](std::string* to, const auto& format) { to->append(format.method); });
}

// The method that an object names; empty where it names none.
std::string MethodOf(const nlohmann::json& object) {
  const auto method = object.find("quant_method");
  return method != object.end() && method->is_string() ? method->get<std::string>() : std::string();
}

// hf_quant_config.json of modelopt, whose object is in "quantization".
absl::StatusOr<std::optional<Quantisation>> ReadModeloptFile(const std::string& path) {
  if (!MayExist(path)) return std::nullopt;
  NG_ASSIGN_OR_RETURN(const JsonDocument json, ReadJsonFile(path));
  NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(*json, path));
  const nlohmann::json* const object = fields.Find(kMlxKey);
  if (object == nullptr || !object->is_object()) {
    return ModelFileError(absl::StrCat(path, ": key \"", kMlxKey, "\" must be an object"));
  }
  Quantisation found;
  found.format = FormatOf("modelopt");
  found.file = path;
  found.prefix = "quantization.";
  *found.object = *object;
  return found;
}

// "int4 in groups of 128, fp8": each kind once, the one of most values first.
std::string KindsOf(const std::vector<MatrixForm>& matrices) {
  std::map<std::string, int64_t> values;
  for (const MatrixForm& form : matrices) values[form.what] += form.info.n_elements;
  std::vector<std::pair<std::string, int64_t>> kinds(values.begin(), values.end());
  std::ranges::stable_sort(kinds, std::greater(), &std::pair<std::string, int64_t>::second);
  return absl::StrJoin(kinds, ", ",
                       [](std::string* to, const auto& kind) { to->append(kind.first); });
}

double BitsPerWeight(const std::vector<MatrixForm>& matrices) {
  double bytes = 0.0;
  double values = 0.0;
  for (const MatrixForm& form : matrices) {
    bytes += static_cast<double>(form.stored_bytes());
    values += static_cast<double>(form.info.n_elements);
  }
  return 8.0 * bytes / values;
}

}  // namespace

absl::StatusOr<std::optional<Quantisation>> TakeQuantisation(const std::string& folder,
                                                             nlohmann::json& config) {
  const std::string path = folder + "/config.json";
  for (const char* key : {kConfigKey, kOlderKey, kMlxKey}) {
    const auto value = config.is_object() ? config.find(key) : config.end();
    if (value == config.end() || !value->is_object() || value->empty()) continue;
    const std::string method = MethodOf(*value);
    // MLX names no method; it says the same under both keys.
    const bool is_mlx = method.empty() && value->contains("group_size") && value->contains("bits");
    const QuantisedFormat* const format = FormatOf(is_mlx ? kMlx : method);
    if (format == nullptr && !method.empty() && method != kOfBlocks) {
      return ModelFileError(absl::StrCat(path, ": key \"", key, ".quant_method\" = ",
                                         JsonExcerpt(method), ", can run: ", Methods()));
    }
    if (format == nullptr) continue;
    Quantisation found;
    found.format = format;
    found.file = path;
    found.prefix = absl::StrCat(key, ".");
    *found.object = std::move(*value);
    for (const char* also : {kConfigKey, kOlderKey, kMlxKey}) config.erase(also);
    return found;
  }
  const bool says_other =
      config.is_object() && config.contains(kConfigKey) && !SaysNothing(config[kConfigKey]);
  if (says_other) return std::nullopt;
  return ReadModeloptFile(folder + "/hf_quant_config.json");
}

absl::StatusOr<QuantisedTensors> OpenQuantised(std::unique_ptr<TensorSource> source,
                                               const Quantisation& quantisation) {
  const std::string& file = quantisation.file;
  NG_ASSIGN_OR_RETURN(const JsonFields fields,
                      JsonFields::Of(*quantisation.object, file, std::make_shared<ReadKeys>(),
                                     quantisation.prefix));
  fields.Find("quant_method");
  FormFinder finder(*source, {*quantisation.object, fields, file, quantisation.prefix});
  NG_RETURN_IF_ERROR(quantisation.format->find(finder));
  NG_RETURN_IF_ERROR(finder.CheckAllRead());
  const std::string method(quantisation.format->method);
  if (finder.matrices().empty()) {
    return ModelFileError(absl::StrCat(source->path(), ": holds no matrix as ", method,
                                       " stores them, which ", file, " says that it does"));
  }
  QuantisedTensors tensors;
  tensors.what =
      absl::StrCat(method, ": ", KindsOf(finder.matrices()), ", ",
                   absl::StrFormat("%.2f", BitsPerWeight(finder.matrices())), " bits a weight");
  tensors.notes = finder.notes();
  std::vector<MatrixForm> matrices = std::move(finder.matrices());
  tensors.source = MakeQuantisedSource(std::move(source), std::move(matrices), finder.dropped());
  return tensors;
}

}  // namespace ng
