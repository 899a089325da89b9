// How much of a model's files is read and converted at a time.
#ifndef NG_CORE_MODEL_LOAD_READ_SIZES_H_
#define NG_CORE_MODEL_LOAD_READ_SIZES_H_

#include <cstdint>

#include "core/kernels/packed_matrix.h"
#include "core/model/files/model_file.h"

namespace ng {

// Rows of a tensor that one worker converts at a time; whole column blocks, so that workers never
// share one.
inline constexpr int64_t kRowsPackedAtATime = 4 * kBlockColumns;

// Rows of a matrix as the model has them. REQUIRES: a matrix.
int64_t RowsOf(const TensorBinding& binding);

// What LoadWeights reads of a binding before it packs that: as many rows as a worker packs at a
// time, for each worker; all of a vector and of a transposed matrix.
int64_t BytesReadAtATime(const TensorBinding& binding, int threads);

// The most that it needs on top while it reads with so many threads: what is read at a time, and
// its rows as f32.
int64_t LoadScratchBytes(const ModelFile& file, int threads);

}  // namespace ng

#endif  // NG_CORE_MODEL_LOAD_READ_SIZES_H_
