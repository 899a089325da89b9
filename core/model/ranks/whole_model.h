// WholeModel: what a run is identified by, where each of several processes has some of the layers
// (model/ranks/layer_split.h). All of them then say of the run what one with all layers would.
#ifndef NG_CORE_MODEL_RANKS_WHOLE_MODEL_H_
#define NG_CORE_MODEL_RANKS_WHOLE_MODEL_H_

#include <cstdint>
#include <span>
#include <vector>

#include "core/model/files/model_file.h"
#include "core/model/load/load_options.h"
#include "core/model/ranks/rank_link.h"
#include "core/model/weights/weight_types.h"
#include "core/model/weights/weights.h"
#include "ng/status.h"

namespace ng {

// Of a model before KeepLayers.
struct WholeModel {
  ModelSpec spec;
  WeightTypes types;
  std::vector<TensorBinding> bindings;
  bool head_copy = false;
  std::vector<LayerSplit> parts;  // of all processes
};

// The hash that ModelWeights::hash would be, from what each process has read. All call it. `own`:
// this one's LoadWeightsOptions::row_hashes. `source`: the model's files. Errors: those of the
// file and of the fabric.
absl::StatusOr<uint64_t> HashOfAllLayers(const WholeModel& whole, const RowHashes& own,
                                         const TensorSource& source, RankLink& link);

}  // namespace ng

#endif  // NG_CORE_MODEL_RANKS_WHOLE_MODEL_H_
