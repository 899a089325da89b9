// Reads, checks and packs one tensor after the other.
#ifndef NG_CORE_MODEL_LOAD_WEIGHT_READER_H_
#define NG_CORE_MODEL_LOAD_WEIGHT_READER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "core/formats/tensor_source.h"
#include "core/model/files/model_file.h"
#include "core/model/load/load_options.h"
#include "core/model/load/read_buffer.h"
#include "core/model/load/row_packer.h"
#include "core/model/weights/weights.h"
#include "ng/status.h"

namespace ng {

// Announces to the system what is read next, some way ahead of the reading, so that a disk works
// while the machine computes.
class ReadAhead {
 public:
  // order: in which the tensors are read. All are borrowed.
  ReadAhead(const TensorSource& source, std::vector<const TensorBinding*> order)
      : source_(source), order_(std::move(order)) {}

  // So many bytes more are read from now on. [any thread]
  void Advance(int64_t n_bytes);

 private:
  const TensorSource& source_;
  const std::vector<const TensorBinding*> order_;
  std::atomic<int64_t> read_ = 0;
  std::atomic<int64_t> announced_ = 0;
  std::mutex announcing_;  // of the rest; nobody waits for it
  size_t next_ = 0;        // in order_
  int64_t within_ = 0;     // bytes of it
};

class WeightReader {
 public:
  // order: the bindings in the order in which they will be read. All are borrowed.
  WeightReader(const ModelFile& file, const LoadWeightsOptions& options,
               std::vector<const TensorBinding*> order);

  // Reads a tensor to its place in the weights; a copy of the embedding is compared with it.
  // Errors: as LoadWeights.
  absl::Status Read(const TensorBinding& binding, ModelWeights& weights);
  // Of what was read so far, in turn; 0 unless asked for.
  uint64_t hash() const { return hash_; }
  // Gives the memory for reading back.
  void Finish() { buffer_ = ReadBuffer(); }

 private:
  struct PackedRows;
  struct Chunk {
    const TensorBinding& binding;
    const Place& place;
    int64_t row;
    int64_t end;
  };

  absl::Status ReadMatrix(const TensorBinding& binding, const Place& place);
  absl::Status ReadVector(const TensorBinding& binding, const Place& place);
  absl::Status CheckHeadCopy();
  // Memory for what is read of one binding at a time.
  absl::StatusOr<std::byte*> Begin(const TensorBinding& binding);
  // Bytes of one binding, from `first` on. [worker]
  absl::Status ReadBytes(const TensorBinding& binding, int64_t first, std::span<std::byte> out);
  // Rows [row, end) of a matrix. out: their bytes. [worker]
  void ReadRows(const TensorBinding& binding, int64_t row, int64_t end, std::byte* out,
                PackedRows* result);
  // Reads and packs what is held of a chunk's rows. Where their hash is wanted, all are read. raw:
  // room for them, or all bytes of a transposed tensor. [worker]
  void PackChunk(const Chunk& chunk, std::byte* raw, RowPacker& packer, PackedRows* result);
  absl::Status ReadWhole(const TensorBinding& binding, std::byte* raw);
  void AddToHash(std::span<const std::byte> bytes);
  void Count(int64_t n_bytes);
  absl::Status CheckStop() const;
  absl::StatusOr<bool> SameBytes(const TensorInfo& left, const TensorInfo& right) const;
  absl::Status NotFinite(const TensorInfo& tensor) const;
  absl::Status TooLarge(const TensorInfo& tensor, float limit) const;

  const ModelFile& file_;
  const LoadWeightsOptions& options_;
  ReadAhead ahead_;
  ReadBuffer buffer_;
  uint64_t hash_ = 0;
  int64_t done_ = 0;
  int64_t total_ = 0;
};

}  // namespace ng

#endif  // NG_CORE_MODEL_LOAD_WEIGHT_READER_H_
