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
#include "core/model/weight_sizes.h"

namespace ng {
namespace {

// Bytes of two tensors that are compared at a time.
constexpr int64_t kCompareBytes = int64_t{1} << 20;

Place PlaceOf(const TensorBinding& binding, const ModelSpec& spec, ModelWeights& model) {
  Place place = RolePlace(binding.role, spec, binding.at, model);
  if (binding.order == StoredOrder::kPaired) {
    place.order = RowOrder::kPaired;
    place.unit = spec.shape.head_dim;
    if (binding.role == TensorRole::kQkv || binding.role == TensorRole::kQkvBias) {
      place.n_paired = int64_t{spec.shape.n_heads + spec.shape.n_kv_heads} * place.unit;
    }
  } else if (binding.order == StoredOrder::kTurns) {
    place.order = RowOrder::kTurns;
  } else if (binding.order != StoredOrder::kPlain) {
    const SelfAttentionSpec& attention =
        spec.AttentionOf(*spec.Find(static_cast<size_t>(binding.at.layer), Operation::kAttention));
    // CodeGen's four groups hold a quarter of q, of v and of k.
    const bool quarters = binding.order == StoredOrder::kQuarters;
    const int n_groups = quarters ? 4 : attention.n_kv_heads;
    const Segment q = {attention.q_width() / n_groups, 0};
    const Segment k = {attention.k_width() / n_groups, attention.q_width()};
    const Segment v = {attention.v_width() / n_groups, k.begin + attention.k_width()};
    place.order = RowOrder::kGroups;
    place.segments = {q, quarters ? v : k, quarters ? k : v};
  }
  return place;
}

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
    // Workers take chunk after chunk: one that meets fresh pages would be waited for otherwise.
    std::atomic<int64_t> next = 0;
    Executor& executor = *options_.executor;
    const int64_t n_workers = std::min<int64_t>(executor.threads(), chunks.size());
    NG_RETURN_IF_ERROR(ParallelFor(executor, n_workers, [&](int64_t, int64_t, int worker) {
      RowPacker packer(binding, place);
      // Each worker reads to the same place again and again: it stays in its cache.
      std::byte* const rows =
          binding.transposed ? raw : raw + worker * BytesReadAtATime(binding, 1);
      for (int64_t chunk = next++; chunk < chunks.size(); chunk = next++) {
        PackedRows& result = packed[static_cast<size_t>(chunk)];
        const auto [row, row_end] = chunks.At(chunk);
        result.read = CheckStop();
        if (result.read.ok() && !binding.transposed) {
          ReadRows(binding, row, row_end, rows, &result);
        }
        if (!result.read.ok()) return;
        result.verdict = packer.Pack(row, row_end, rows);
      }
    }));
    RowPacker::Verdict verdict;
    for (const PackedRows& rows : packed) {
      NG_RETURN_IF_ERROR(rows.read);
      verdict.finite = verdict.finite && rows.verdict.finite;
      verdict.fits = verdict.fits && rows.verdict.fits;
      if (!binding.transposed) AddToHash(std::as_bytes(std::span(&rows.hash, 1)));
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
    place.vector->resize(static_cast<size_t>(place.size));
    for (int64_t i = 0; i < binding.n_elements(); ++i) {
      (*place.vector)[static_cast<size_t>(place.RowOf(i))] =
          values[static_cast<size_t>(i)] + place.offset;
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

// Vaswani et al. 2017, as XGLM has it: all sines of a position, then all cosines. In f32, whose
// rounding of large angles is part of what the model was trained with.
std::vector<float> Sinusoids(int64_t n_rows, int64_t width) {
  std::vector<float> rows(static_cast<size_t>(n_rows * width), 0.0F);
  const int64_t half = width / 2;
  const auto step = static_cast<float>(std::log(10000.0) / static_cast<double>(half - 1));
  for (int64_t i = 0; i < half; ++i) {
    const float frequency = half == 1 ? 1.0F : std::exp(static_cast<float>(i) * -step);
    for (int64_t pos = 0; pos < n_rows; ++pos) {
      const float angle = static_cast<float>(pos) * frequency;
      float* const row = rows.data() + pos * width + i;
      row[0] = std::sin(angle);
      row[half] = std::cos(angle);
    }
  }
  return rows;
}

// The weights of a norm that has none in the file.
NormWeights OnesOf(const NormSpec& norm, int64_t width) {
  if (!norm.is_there() || norm.weight) return {};
  return {.weight = std::vector<float>(static_cast<size_t>(width), 1.0F), .bias = {}};
}

// Of the delta rule: q and k of each head are divided by their lengths, and q by the root of the
// dimensions too. As norms by the root of a mean.
void SetLengths(const StateSpec& state, BlockWeights* w) {
  if (state.kind != StateKind::kDeltaRule) return;
  const auto n = static_cast<size_t>(state.key_dim);
  const double dim = static_cast<double>(state.key_dim);
  w->q_norm.weight.assign(n, static_cast<float>(1.0 / dim));
  w->k_norm.weight.assign(n, static_cast<float>(1.0 / std::sqrt(dim)));
}

absl::Status Allocate(const InAndOutShapes& shapes, WeightMemory& memory, InAndOut* w) {
  const auto& [in, out] = shapes;
  if (in.n == 0) return absl::OkStatus();
  NG_ASSIGN_OR_RETURN(w->in, memory.Allocate(in.bands, in.n, in.k));
  NG_ASSIGN_OR_RETURN(w->out, memory.Allocate(out.bands, out.n, out.k));
  return absl::OkStatus();
}

absl::StatusOr<ModelWeights> Allocate(const ModelSpec& spec, const WeightTypes& types) {
  NG_ASSIGN_OR_RETURN(WeightMemory memory,
                      WeightMemory::Reserve(SizesOf(spec, types).matrix_bytes()));
  ModelWeights model;
  model.types = types;
  const int64_t vocab_size = spec.shape.vocab_size;
  NG_ASSIGN_OR_RETURN(model.embedding, memory.Allocate(types.embedding, vocab_size, spec.width));
  if (!spec.head.tied) {
    NG_ASSIGN_OR_RETURN(model.head, memory.Allocate(types.head, vocab_size, spec.width));
  }
  if (const int64_t n = spec.LayerInputWidth(); n > 0) {
    const auto& [projection, embedding] = *types.layer_input;
    NG_ASSIGN_OR_RETURN(model.layer_embedding,
                        memory.Allocate(embedding, spec.layer_input.vocab_size, n));
    NG_ASSIGN_OR_RETURN(model.layer_projection, memory.Allocate(projection[0], n, spec.width));
    model.layer_input_norm = OnesOf(spec.layer_input.norm, spec.layer_input.width);
  }
  model.embedding_norm = OnesOf(spec.embedding.norm, spec.width);
  model.final_norm = OnesOf(spec.head.norm, spec.width);
  if (spec.embedding.sinusoids) {
    model.positions =
        Sinusoids(spec.shape.max_positions + spec.embedding.position_offset, spec.width);
  }
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    std::vector<BlockWeights>& layer = model.layers.emplace_back();
    for (size_t b = 0; b < spec.layers[i].size(); ++b) {
      const BlockSpec& block = spec.layers[i][b];
      BlockWeights& w = layer.emplace_back();
      w.before = OnesOf(block.before, spec.width);
      w.inner = OnesOf(block.inner, spec.InnerWidthOf(block));
      w.after = OnesOf(block.after, spec.width);
      w.stream_norm = OnesOf(block.stream_norm, spec.width);
      if (block.operation == Operation::kAttention) {
        const SelfAttentionSpec& a = spec.AttentionOf(block);
        w.q_norm = OnesOf(a.qk_norm, a.qk_norm_values(a.n_heads));
        w.k_norm = OnesOf(a.qk_norm, a.qk_norm_values(a.n_kv_heads));
        w.v_norm = OnesOf(a.v_norm, a.value_dim());
      } else if (block.operation == Operation::kState) {
        SetLengths(spec.StateOf(block), &w);
      }
      const BlockMatrices matrices = MatricesOf(spec, block, types.layers[i][b]);
      w.experts.resize(static_cast<size_t>(matrices.n_experts));
      NG_RETURN_IF_ERROR(Allocate(matrices.own, memory, &w));
      if (const MatrixShape& q_up = matrices.q_up; q_up.n > 0) {
        NG_ASSIGN_OR_RETURN(w.q_up, memory.Allocate(q_up.bands, q_up.n, q_up.k));
      }
      w.heads.resize(static_cast<size_t>(matrices.n_heads));
      for (InAndOut& head : w.heads) {
        NG_RETURN_IF_ERROR(Allocate(matrices.head, memory, &head));
      }
      for (InAndOut& expert : w.experts) {
        NG_RETURN_IF_ERROR(Allocate(matrices.expert, memory, &expert));
      }
      if (matrices.router.n == 0) continue;
      NG_ASSIGN_OR_RETURN(
          w.router, memory.Allocate(matrices.router.bands, matrices.router.n, matrices.router.k));
    }
  }
  return model;
}

}  // namespace

absl::StatusOr<ModelWeights> LoadWeights(const ModelFile& file, const LoadWeightsOptions& options) {
  WeightReader reader(file, options);
  NG_ASSIGN_OR_RETURN(ModelWeights weights, Allocate(file.spec, options.types));
  for (const TensorBinding& binding : file.bindings) {
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
