// What one of several processes (ng/fabric.h) has of a model that is cut between layers: a run of
// layers, the first process the embedding too, the last one the head.
#ifndef NG_CORE_MODEL_RANKS_LAYER_SPLIT_H_
#define NG_CORE_MODEL_RANKS_LAYER_SPLIT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "core/model/files/model_file.h"
#include "core/model/step/step_batch.h"
#include "ng/status.h"

namespace ng {

// The runs of layers of all processes, as even in bytes as can be. No layer reads the keys of a
// layer that another process has, and each process has attention. Errors: PluginError where the
// layers cannot be cut so.
absl::StatusOr<std::vector<LayerSplit>> CutLayers(const ModelFile& file, int ranks);

// Whether the process has the tensor. Factors of RoPE all have.
bool HasTensor(const LayerSplit& split, const ModelSpec& spec, const TensorBinding& binding);

// Leaves of the model what this process has: the blocks of its layers, and the tensors of these.
void KeepLayers(const LayerSplit& split, ModelFile* file);

// Part of a step that a process computes while the next one computes the part before it.
// `sequences` is what the pieces point into.
struct StepPieces {
  std::vector<StepSequence> sequences;
  std::vector<int64_t> n_sequences;  // of each piece
};
// The most rows of a piece of any step of up to so many rows, where sequences are cut.
int64_t MostPieceRows(int64_t n_rows, int ranks);
// Pieces of about as many rows. A step of few rows is not cut: it would read the weights again for
// each piece. `whole`: no sequence is cut.
void CutStep(std::span<const StepSequence> step, int ranks, bool whole, StepPieces* pieces);

}  // namespace ng

#endif  // NG_CORE_MODEL_RANKS_LAYER_SPLIT_H_
