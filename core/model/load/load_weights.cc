#include "core/model/load/load_weights.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/model/load/weight_memory.h"
#include "core/model/load/weight_reader.h"
#include "core/model/weights/weight_sizes.h"

namespace ng {

absl::StatusOr<ModelWeights> ReserveWeights(const ModelFile& file, const WeightTypes& types) {
  NG_ASSIGN_OR_RETURN(WeightMemory memory,
                      WeightMemory::Reserve(SizesOf(file.spec, types).matrix_bytes()));
  return MakeWeights(file.spec, types, memory);
}

absl::Status CheckFactors(const ModelFile& file, const ModelWeights& weights) {
  for (const float factor : weights.rope_factors) {
    if (factor > 0.0F) continue;
    return ModelFileError(absl::StrCat(file.source->path(), ": tensor \"",
                                       file.Find(TensorRole::kRopeFactors)->name, "\" holds ",
                                       factor, ", every factor must be above 0"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ModelWeights> LoadWeights(const ModelFile& file, const LoadWeightsOptions& options) {
  std::vector<const TensorBinding*> order;
  for (const TensorBinding& binding : file.bindings) order.push_back(&binding);
  WeightReader reader(file, options, order);
  NG_ASSIGN_OR_RETURN(ModelWeights weights, ReserveWeights(file, options.types));
  for (const TensorBinding* const binding : order) {
    if (options.row_hashes != nullptr) options.row_hashes->emplace_back();
    NG_RETURN_IF_ERROR(reader.Read(*binding, weights));
  }
  NG_RETURN_IF_ERROR(CheckFactors(file, weights));
  weights.hash = reader.hash();
  return weights;
}

}  // namespace ng
