// A model's weights that are read while the first step runs: each layer just before it is computed,
// and meanwhile the disk fetches the next one. So the first token of a file that is not in memory
// yet comes when the slower of both is done, and not after their sum.
#ifndef NG_CORE_MODEL_LOAD_LAYER_LOADER_H_
#define NG_CORE_MODEL_LOAD_LAYER_LOADER_H_

#include <vector>

#include "core/model/files/model_file.h"
#include "core/model/load/load_options.h"
#include "core/model/load/weight_reader.h"
#include "core/model/weights/weights.h"
#include "ng/status.h"

namespace ng {

// [step]
class LayerLoader {
 public:
  // `file`, and what the options point to, are borrowed. REQUIRES: no hash is wanted.
  LayerLoader(const ModelFile& file, LoadWeightsOptions options);
  LayerLoader(const LayerLoader&) = delete;
  LayerLoader& operator=(const LayerLoader&) = delete;

  // The weights with all their vectors; their matrices have memory, and nothing in it. Errors: as
  // LoadWeights.
  absl::StatusOr<ModelWeights> Begin();

  // Reads matrices into these weights, or a copy of them, which shares their memory; those of a
  // part that was read before are there. After an error the rest of the part is not. Errors: as
  // LoadWeights.
  absl::Status NeedEmbedding(ModelWeights& weights) { return Need(0, weights); }
  absl::Status NeedLayer(int layer, ModelWeights& weights) { return Need(layer + 1, weights); }
  absl::Status NeedHead(ModelWeights& weights) { return Need(parts_.size() - 1, weights); }

  double seconds() const { return seconds_; }  // that the calls above have taken

 private:
  absl::Status Need(size_t part, ModelWeights& weights);

  const ModelFile& file_;
  const LoadWeightsOptions options_;
  // The matrices that are still to be read: the embedding's, each layer's, the head's.
  std::vector<std::vector<const TensorBinding*>> parts_;
  WeightReader reader_;
  double seconds_ = 0.0;
};

}  // namespace ng

#endif  // NG_CORE_MODEL_LOAD_LAYER_LOADER_H_
