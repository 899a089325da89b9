// Reads the weights of a decoder from a model's files.
#ifndef NG_CORE_MODEL_LOAD_LOAD_WEIGHTS_H_
#define NG_CORE_MODEL_LOAD_LOAD_WEIGHTS_H_

#include "core/model/files/model_file.h"
#include "core/model/load/load_options.h"
#include "core/model/weights/weights.h"
#include "ng/status.h"

namespace ng {

// The weights before anything is read: what they have memory for, and what no file says. Errors:
// LimitError.
absl::StatusOr<ModelWeights> ReserveWeights(const ModelFile& file, const WeightTypes& types);
// Whether RoPE can be computed with the factors that were read. Errors: ModelFileError.
absl::Status CheckFactors(const ModelFile& file, const ModelWeights& weights);

// Reads, checks and packs every tensor, a few rows at a time; besides what is kept at most
// LoadScratchBytes are in memory. Errors: ModelFileError (short file; NaN, infinity or
// what the type cannot hold in a tensor), LimitError, InterruptedError.
absl::StatusOr<ModelWeights> LoadWeights(const ModelFile& file, const LoadWeightsOptions& options);

}  // namespace ng

#endif  // NG_CORE_MODEL_LOAD_LOAD_WEIGHTS_H_
