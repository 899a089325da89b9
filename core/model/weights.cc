#include "core/model/weights.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/hash.h"
#include "core/formats/tensor_source.h"
#include "core/model/read_buffer.h"
#include "core/model/row_packer.h"
#include "core/model/weight_frame.h"
#include "core/model/weight_sizes.h"

namespace ng {
namespace {

// Bytes of two tensors that are compared at a time.
constexpr int64_t kCompareBytes = int64_t{1} << 20;

class WeightReader {
 public:
  WeightReader(const ModelFile& file, const LoadWeightsOptions& options)
      : file_(file), options_(options) {
    for (const TensorBinding& binding : file.bindings) total_ += binding.n_bytes();
    // Compared with its copy, the embedding is read twice.
    if (file.head_copy) total_ += file.Find(TensorRole::kTokenEmbedding)->n_bytes;
  }

  // Packs a tensor into its rows of an allocated matrix. Who packs rows has read them just before:
  // one worker waits for the file while another computes, and the bytes are still near.
  absl::Status Matrix(const TensorBinding& binding, const Place& place) {
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
      const auto owner = [&](int64_t chunk) {
        const int64_t row = std::max<int64_t>(0, place.RowOf(chunks.At(chunk).first));
        return row * n_shares / place.matrix->n();
      };
      do {
        ++chunk;
      } while (chunk < chunks.size() && owner(chunk) != share);
      return chunk;
    };
    NG_RETURN_IF_ERROR(ParallelFor(executor, n_shares, [&](int64_t share, int64_t, int worker) {
      RowPacker packer(binding, place);
      // Each worker reads to the same place again and again: it stays in its cache.
      std::byte* const rows =
          binding.transposed ? raw : raw + worker * BytesReadAtATime(binding, 1);
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
    Finish(binding.n_bytes());
    const TensorInfo& tensor = *binding.tensor;
    if (!verdict.finite) return NotFinite(tensor);
    return verdict.fits ? absl::OkStatus()
                        : TooLarge(tensor, PackedMatrix::MaxMagnitude(place.type()));
  }

  // Converts a tensor of any shape into its part of a vector of f32.
  absl::Status Vector(const TensorBinding& binding, const Place& place) {
    const TensorInfo& tensor = *binding.tensor;
    NG_ASSIGN_OR_RETURN(std::byte* const raw, Begin(binding));
    NG_RETURN_IF_ERROR(ReadWhole(binding, raw));
    Finish(binding.n_bytes());
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
  absl::Status CheckHeadCopy() {
    const TensorInfo& tensor = *file_.Find(TensorRole::kHead);
    const TensorInfo& original = *file_.Find(TensorRole::kTokenEmbedding);
    NG_ASSIGN_OR_RETURN(const bool equal, SameBytes(tensor, original));
    Finish(tensor.n_bytes + original.n_bytes);
    if (equal) return absl::OkStatus();
    return ModelFileError(absl::StrCat(file_.source->path(), ": tensor \"", tensor.name,
                                       "\" differs from \"", original.name, "\"; the head of this ",
                                       file_.spec.family, " model is tied to the embedding"));
  }

  uint64_t hash() const { return hash_; }

 private:
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

  // What became of a chunk.
  struct PackedRows {
    absl::Status read;
    uint64_t hash = 0;  // of its bytes, if wanted
    RowPacker::Verdict verdict;
  };

  // Memory for what is read of one binding at a time.
  absl::StatusOr<std::byte*> Begin(const TensorBinding& binding) {
    NG_RETURN_IF_ERROR(CheckStop());
    return buffer_.Get(BytesReadAtATime(binding, options_.executor->threads()));
  }

  // Bytes of one binding, from `first` on. [worker]
  absl::Status Read(const TensorBinding& binding, int64_t first, std::span<std::byte> out) const {
    return file_.source->ReadAt(*binding.tensor, binding.first_byte() + first, out);
  }

  // Rows [row, end) of a matrix. out: their bytes. [worker]
  void ReadRows(const TensorBinding& binding, int64_t row, int64_t end, std::byte* out,
                PackedRows* result) const {
    const int64_t row_bytes = binding.n_bytes() / RowsOf(binding);
    const std::span<std::byte> bytes(out, static_cast<size_t>((end - row) * row_bytes));
    result->read = Read(binding, row * row_bytes, bytes);
    if (options_.hash) result->hash = HashOf(bytes);
  }

  struct Chunk {
    const TensorBinding& binding;
    const Place& place;
    int64_t row;
    int64_t end;
  };
  // Reads and packs what is held of a chunk's rows. Where their hash is wanted, all are read. raw:
  // room for them, or all bytes of a transposed tensor. [worker]
  void PackChunk(const Chunk& chunk, std::byte* raw, RowPacker& packer, PackedRows* result) const {
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

  absl::Status ReadWhole(const TensorBinding& binding, std::byte* raw) {
    const std::span<std::byte> bytes(raw, static_cast<size_t>(binding.n_bytes()));
    NG_RETURN_IF_ERROR(Read(binding, 0, bytes));
    AddToHash(bytes);
    return absl::OkStatus();
  }

  void AddToHash(std::span<const std::byte> bytes) {
    if (options_.hash) hash_ = HashOf(bytes, hash_);
  }

  void Finish(int64_t n_bytes) {
    done_ += n_bytes;
    if (options_.progress) options_.progress(done_, total_);
  }

  absl::Status CheckStop() const {
    if (options_.stop == nullptr || !options_.stop->load()) return absl::OkStatus();
    return InterruptedError("interrupted while loading the weights");
  }

  absl::StatusOr<bool> SameBytes(const TensorInfo& left, const TensorInfo& right) const {
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

  static bool AllFinite(std::span<const float> values) {
    return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
  }
  absl::Status NotFinite(const TensorInfo& tensor) const {
    return ModelFileError(absl::StrCat(file_.source->path(), ": tensor \"", tensor.name,
                                       "\" holds NaN or infinity; every weight must be finite"));
  }

  absl::Status TooLarge(const TensorInfo& tensor, float limit) const {
    return ModelFileError(absl::StrCat(file_.source->path(), ": tensor \"", tensor.name,
                                       "\" holds magnitudes above ", limit,
                                       ", the most that model.weights can hold here"));
  }

  const ModelFile& file_;
  const LoadWeightsOptions& options_;
  ReadBuffer buffer_;
  uint64_t hash_ = 0;
  int64_t done_ = 0;
  int64_t total_ = 0;
};

}  // namespace

absl::StatusOr<ModelWeights> LoadWeights(const ModelFile& file, const LoadWeightsOptions& options) {
  WeightReader reader(file, options);
  NG_ASSIGN_OR_RETURN(WeightMemory memory,
                      WeightMemory::Reserve(SizesOf(file.spec, options.types).matrix_bytes()));
  NG_ASSIGN_OR_RETURN(ModelWeights weights, MakeWeights(file.spec, options.types, memory));
  for (const TensorBinding& binding : file.bindings) {
    if (options.row_hashes != nullptr) options.row_hashes->emplace_back();
    if (file.head_copy && binding.role == TensorRole::kHead) {
      NG_RETURN_IF_ERROR(reader.CheckHeadCopy());
      continue;
    }
    const Place place = PlaceOf(binding, file.spec, weights);
    NG_RETURN_IF_ERROR(place.matrix != nullptr ? reader.Matrix(binding, place)
                                               : reader.Vector(binding, place));
  }
  for (const float factor : weights.rope_factors) {
    if (factor > 0.0F) continue;
    return ModelFileError(absl::StrCat(file.source->path(), ": tensor \"",
                                       file.Find(TensorRole::kRopeFactors)->name, "\" holds ",
                                       factor, ", every factor must be above 0"));
  }
  weights.hash = reader.hash();
  return weights;
}

}  // namespace ng
