#include "core/model/load/weight_reader.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/finite.h"
#include "core/base/hash.h"
#include "core/model/load/read_sizes.h"
#include "core/model/load/weight_memory.h"
#include "core/model/weights/weight_sizes.h"

namespace ng {
namespace {

// Bytes of two tensors that are compared at a time.
constexpr int64_t kCompareBytes = int64_t{1} << 20;

// How far ahead of the reading it is announced, and how much at a time. Far enough for a disk of
// 1 GB/s to work while a layer is computed; who announces more than the disk's queue has room for
// waits for the disk.
constexpr int64_t kAheadBytes = int64_t{1} << 27;
constexpr int64_t kAnnouncedAtATime = int64_t{1} << 24;

// What a worker reads and packs at a time: it ends where column blocks of the matrix do.
struct RowChunks {
  int64_t n_rows = 0;
  int64_t first = 0;  // row of the matrix

  int64_t Lead() const {
    return (kRowsPackedAtATime - first % kRowsPackedAtATime) % kRowsPackedAtATime;
  }
  int64_t size() const {
    return 1 +
           (std::max<int64_t>(0, n_rows - Lead()) + kRowsPackedAtATime - 1) / kRowsPackedAtATime;
  }
  // Rows [first, second) of the tensor.
  std::pair<int64_t, int64_t> At(int64_t chunk) const {
    const int64_t end = Lead() + chunk * kRowsPackedAtATime;
    return {chunk == 0 ? 0 : std::min(n_rows, end - kRowsPackedAtATime), std::min(n_rows, end)};
  }
};

}  // namespace

void ReadAhead::Advance(int64_t n_bytes) {
  const int64_t wanted = (read_ += n_bytes) + kAheadBytes;
  if (wanted - announced_ < kAnnouncedAtATime) return;
  const std::unique_lock lock(announcing_, std::try_to_lock);
  if (!lock) return;
  while (next_ < order_.size() && announced_ < wanted) {
    const TensorBinding& binding = *order_[next_];
    const int64_t n = std::min(kAnnouncedAtATime, binding.n_bytes() - within_);
    source_.Announce(*binding.tensor, binding.first_byte() + within_, n);
    announced_ += n;
    within_ += n;
    if (within_ < binding.n_bytes()) continue;
    within_ = 0;
    ++next_;
  }
}

// What became of a chunk.
struct WeightReader::PackedRows {
  absl::Status read;
  uint64_t hash = 0;  // of its bytes, if wanted
  RowPacker::Verdict verdict;
};

WeightReader::WeightReader(const ModelFile& file, const LoadWeightsOptions& options,
                           std::vector<const TensorBinding*> order)
    : file_(file),
      options_(options),
      // A rank that has parts of the tensors does not read all that would be announced.
      ahead_(*file.source,
             file.spec.split.ranks > 1 ? std::vector<const TensorBinding*>() : std::move(order)) {
  for (const TensorBinding& binding : file.bindings) total_ += binding.n_bytes();
  // Compared with its copy, the embedding is read twice.
  if (file.head_copy) total_ += file.Find(TensorRole::kTokenEmbedding)->n_bytes;
}

absl::Status WeightReader::Read(const TensorBinding& binding, ModelWeights& weights) {
  if (file_.head_copy && binding.role == TensorRole::kHead) return CheckHeadCopy();
  const Place place = PlaceOf(binding, file_.spec, weights);
  return place.matrix != nullptr ? ReadMatrix(binding, place) : ReadVector(binding, place);
}

// Who packs rows has read them just before: one worker waits for the file while another computes,
// and the bytes are still near.
absl::Status WeightReader::ReadMatrix(const TensorBinding& binding, const Place& place) {
  NG_ASSIGN_OR_RETURN(std::byte* const raw, Begin(binding));
  // The values of a row lie all over a transposed tensor.
  if (binding.transposed) NG_RETURN_IF_ERROR(ReadWhole(binding, raw));
  const RowChunks chunks = {RowsOf(binding), place.first};
  std::vector<PackedRows> packed(static_cast<size_t>(chunks.size()));
  Executor& executor = *options_.executor;
  const int64_t n_shares = executor.threads();
  std::atomic<int64_t> next = 0;
  // The chunk that a share has next. If it has not its own, workers take chunk after chunk: one
  // that meets fresh pages would be waited for otherwise.
  const auto take = [&](int64_t share, int64_t chunk) -> int64_t {
    if (!options_.own_shares) return next++;
    while (++chunk < chunks.size()) {
      const int64_t row = std::max<int64_t>(0, place.RowOf(chunks.At(chunk).first));
      if (row * n_shares / place.matrix->n() == share) break;
    }
    return chunk;
  };
  NG_RETURN_IF_ERROR(ParallelFor(executor, n_shares, [&](int64_t share, int64_t, int worker) {
    RowPacker packer(binding, place);
    // Each worker reads to the same place again and again: it stays in its cache.
    std::byte* const rows = binding.transposed ? raw : raw + worker * BytesReadAtATime(binding, 1);
    for (int64_t chunk = take(share, -1); chunk < chunks.size(); chunk = take(share, chunk)) {
      PackedRows& result = packed[static_cast<size_t>(chunk)];
      const auto [row, row_end] = chunks.At(chunk);
      result.read = CheckStop();
      if (result.read.ok()) PackChunk({binding, place, row, row_end}, rows, packer, &result);
      if (!result.read.ok()) return;
    }
  }));
  RowPacker::Verdict verdict;
  for (const PackedRows& rows : packed) {
    NG_RETURN_IF_ERROR(rows.read);
    verdict.finite = verdict.finite && rows.verdict.finite;
    verdict.fits = verdict.fits && rows.verdict.fits;
    if (binding.transposed || !options_.hash) continue;
    AddToHash(std::as_bytes(std::span(&rows.hash, 1)));
    if (options_.row_hashes != nullptr) options_.row_hashes->back().push_back(rows.hash);
  }
  const TensorInfo& tensor = *binding.tensor;
  if (!verdict.finite) return NotFinite(tensor);
  if (!verdict.fits) return TooLarge(tensor, PackedMatrix::MaxMagnitude(place.type()));
  Count(binding.n_bytes());
  return absl::OkStatus();
}

// Converts a tensor of any shape into its part of a vector of f32.
absl::Status WeightReader::ReadVector(const TensorBinding& binding, const Place& place) {
  const TensorInfo& tensor = *binding.tensor;
  NG_ASSIGN_OR_RETURN(std::byte* const raw, Begin(binding));
  NG_RETURN_IF_ERROR(ReadWhole(binding, raw));
  Count(binding.n_bytes());
  std::vector<float> values(static_cast<size_t>(binding.n_elements()));
  ConvertToF32(tensor.dtype, raw, values);
  place.vector->resize(static_cast<size_t>(place.held_size()));
  for (int64_t i = 0; i < binding.n_elements(); ++i) {
    const int64_t row = place.RowOf(i);
    if (row < 0) continue;
    (*place.vector)[static_cast<size_t>(row)] = values[static_cast<size_t>(i)] + place.offset;
  }
  return AllFinite(values) ? absl::OkStatus() : NotFinite(tensor);
}

// A tied head that is stored a second time must be the embedding itself.
absl::Status WeightReader::CheckHeadCopy() {
  const TensorInfo& tensor = *file_.Find(TensorRole::kHead);
  const TensorInfo& original = *file_.Find(TensorRole::kTokenEmbedding);
  NG_ASSIGN_OR_RETURN(const bool equal, SameBytes(tensor, original));
  Count(tensor.n_bytes + original.n_bytes);
  if (equal) return absl::OkStatus();
  return ModelFileError(absl::StrCat(file_.source->path(), ": tensor \"", tensor.name,
                                     "\" differs from \"", original.name, "\"; the head of this ",
                                     file_.spec.family, " model is tied to the embedding"));
}

absl::StatusOr<std::byte*> WeightReader::Begin(const TensorBinding& binding) {
  NG_RETURN_IF_ERROR(CheckStop());
  return buffer_.Get(BytesReadAtATime(binding, options_.executor->threads()));
}

absl::Status WeightReader::ReadBytes(const TensorBinding& binding, int64_t first,
                                     std::span<std::byte> out) {
  ahead_.Advance(std::ssize(out));
  return file_.source->ReadAt(*binding.tensor, binding.first_byte() + first, out);
}

void WeightReader::ReadRows(const TensorBinding& binding, int64_t row, int64_t end, std::byte* out,
                            PackedRows* result) {
  const int64_t row_bytes = binding.n_bytes() / RowsOf(binding);
  const std::span<std::byte> bytes(out, static_cast<size_t>((end - row) * row_bytes));
  result->read = ReadBytes(binding, row * row_bytes, bytes);
  if (options_.hash) result->hash = HashOf(bytes);
}

void WeightReader::PackChunk(const Chunk& chunk, std::byte* raw, RowPacker& packer,
                             PackedRows* result) {
  const auto& [binding, place, row, end] = chunk;
  const int64_t row_bytes = binding.transposed ? 0 : binding.n_bytes() / RowsOf(binding);
  const bool at_once = !binding.transposed && (options_.hash || place.held.empty());
  if (at_once) ReadRows(binding, row, end, raw, result);
  for (int64_t next = row; next < end && result->read.ok();) {
    const auto [first, after] = place.NextHeld(next, end);
    next = after;
    if (first == after) break;
    std::byte* const rows = raw + (first - row) * row_bytes;
    if (!at_once && !binding.transposed) ReadRows(binding, first, after, rows, result);
    if (!result->read.ok()) return;
    const RowPacker::Verdict verdict = packer.Pack(first, after, rows);
    result->verdict.finite = result->verdict.finite && verdict.finite;
    result->verdict.fits = result->verdict.fits && verdict.fits;
  }
}

absl::Status WeightReader::ReadWhole(const TensorBinding& binding, std::byte* raw) {
  const std::span<std::byte> bytes(raw, static_cast<size_t>(binding.n_bytes()));
  NG_RETURN_IF_ERROR(ReadBytes(binding, 0, bytes));
  AddToHash(bytes);
  return absl::OkStatus();
}

void WeightReader::AddToHash(std::span<const std::byte> bytes) {
  if (options_.hash) hash_ = HashOf(bytes, hash_);
}

void WeightReader::Count(int64_t n_bytes) {
  done_ += n_bytes;
  if (options_.progress) options_.progress(done_, total_);
}

absl::Status WeightReader::CheckStop() const {
  if (options_.stop == nullptr || !options_.stop->load()) return absl::OkStatus();
  return InterruptedError("interrupted while loading the weights");
}

absl::StatusOr<bool> WeightReader::SameBytes(const TensorInfo& left,
                                             const TensorInfo& right) const {
  if (left.dtype != right.dtype || left.n_bytes != right.n_bytes) return false;
  std::vector<std::byte> left_bytes;
  std::vector<std::byte> right_bytes;
  for (int64_t first = 0; first < left.n_bytes; first += kCompareBytes) {
    NG_RETURN_IF_ERROR(CheckStop());
    left_bytes.resize(static_cast<size_t>(std::min(kCompareBytes, left.n_bytes - first)));
    right_bytes.resize(left_bytes.size());
    NG_RETURN_IF_ERROR(file_.source->ReadAt(left, first, left_bytes));
    NG_RETURN_IF_ERROR(file_.source->ReadAt(right, first, right_bytes));
    if (left_bytes != right_bytes) return false;
  }
  return true;
}

absl::Status WeightReader::NotFinite(const TensorInfo& tensor) const {
  return ModelFileError(absl::StrCat(file_.source->path(), ": tensor \"", tensor.name,
                                     "\" holds NaN or infinity; every weight must be finite"));
}

absl::Status WeightReader::TooLarge(const TensorInfo& tensor, float limit) const {
  return ModelFileError(absl::StrCat(file_.source->path(), ": tensor \"", tensor.name,
                                     "\" holds magnitudes above ", limit,
                                     ", the most that model.weights can hold here"));
}

}  // namespace ng
