#include "core/model/weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/formats/checked.h"
#include "core/formats/ggml_blocks.h"
#include "core/formats/tensor_source.h"
#include "core/model/read_buffer.h"

namespace ng {
namespace {

// Rows converted at a time by one worker; whole column blocks, so that workers never share one.
constexpr int64_t kRowsPerChunk = 4 * kBlockColumns;

// Bytes of two tensors that are compared at a time.
constexpr int64_t kCompareBytes = int64_t{1} << 20;

// Where a tensor goes: into the rows from `first` on of a matrix, or of a vector of `size` values;
// when interleaved, 16 rows at a time into every second 16.
struct Place {
  PackedMatrix* matrix = nullptr;
  std::vector<float>* vector = nullptr;
  int64_t first = 0;
  int64_t size = 0;
  bool interleaved = false;
  int64_t paired = 0;  // head_dim, where RoleName's pairs of rows come apart

  int64_t RowOf(int64_t row) const {
    if (interleaved) return first + row / kBlockColumns * kBlockColumns + row;
    if (paired == 0) return first + row;
    const int64_t in_head = row % paired;
    return first + row - in_head + in_head % 2 * (paired / 2) + in_head / 2;
  }
  // What its matrix holds it as.
  WeightType type() const { return matrix->type(first); }
  // How many of the rows [row, end) lie side by side.
  int64_t RunOf(int64_t row, int64_t end) const {
    if (interleaved) return std::min(end - row, kBlockColumns - row % kBlockColumns);
    return paired == 0 ? end - row : 1;
  }
};

Place Rows(PackedMatrix& matrix, int64_t first = 0) { return {.matrix = &matrix, .first = first}; }
Place Values(std::vector<float>& vector, int64_t size, int64_t first = 0) {
  return {.vector = &vector, .first = first, .size = size};
}

// The gate, or the up part when there is one.
Place Half(Place place, const ModelSpec& spec, bool up) {
  place.interleaved = spec.gated();
  place.first = up && spec.gated() ? kBlockColumns : 0;
  return place;
}

Place PlaceInLayer(TensorRole role, const ModelSpec& spec, LayerWeights& w) {
  switch (role) {
    case TensorRole::kAttnNorm:
      return Values(w.attn_norm.weight, spec.width);
    case TensorRole::kAttnNormBias:
      return Values(w.attn_norm.bias, spec.width);
    case TensorRole::kQkv:
    case TensorRole::kQ:
      return Rows(w.qkv);
    case TensorRole::kK:
      return Rows(w.qkv, spec.q_width());
    case TensorRole::kV:
      return Rows(w.qkv, spec.q_width() + spec.kv_width());
    case TensorRole::kQkvBias:
    case TensorRole::kQBias:
      return Values(w.qkv_bias, spec.qkv_width());
    case TensorRole::kKBias:
      return Values(w.qkv_bias, spec.qkv_width(), spec.q_width());
    case TensorRole::kVBias:
      return Values(w.qkv_bias, spec.qkv_width(), spec.q_width() + spec.kv_width());
    case TensorRole::kQNorm:
      return Values(w.q_norm, spec.shape.head_dim);
    case TensorRole::kKNorm:
      return Values(w.k_norm, spec.shape.head_dim);
    case TensorRole::kAttnOut:
      return Rows(w.attn_out);
    case TensorRole::kAttnOutBias:
      return Values(w.attn_out_bias, spec.width);
    case TensorRole::kMlpNorm:
      return Values(w.mlp_norm.weight, spec.width);
    case TensorRole::kMlpNormBias:
      return Values(w.mlp_norm.bias, spec.width);
    case TensorRole::kMlpGate:
      return Half(Rows(w.gate_up), spec, false);
    case TensorRole::kMlpGateBias:
      return Half(Values(w.gate_up_bias, spec.gate_up_width()), spec, false);
    case TensorRole::kMlpUp:
      return Half(Rows(w.gate_up), spec, true);
    case TensorRole::kMlpUpBias:
      return Half(Values(w.gate_up_bias, spec.gate_up_width()), spec, true);
    case TensorRole::kMlpDown:
      return Rows(w.down);
    case TensorRole::kMlpDownBias:
      return Values(w.down_bias, spec.width);
    default:
      return {};  // not in a layer
  }
}

Place PlaceOf(const TensorBinding& binding, const ModelSpec& spec, ModelWeights& model) {
  switch (binding.role) {
    case TensorRole::kTokenEmbedding:
      return Rows(model.embedding);
    case TensorRole::kPositions:
      return Values(model.positions, spec.shape.max_positions * spec.width);
    case TensorRole::kHead:
      return Rows(model.head);
    case TensorRole::kRopeFactors:
      return Values(model.rope_factors, spec.shape.head_dim / 2);
    case TensorRole::kFinalNorm:
      return Values(model.final_norm.weight, spec.width);
    case TensorRole::kFinalNormBias:
      return Values(model.final_norm.bias, spec.width);
    default:
      break;
  }
  Place place = PlaceInLayer(binding.role, spec, model.layers[static_cast<size_t>(binding.layer)]);
  if (binding.paired) place.paired = spec.shape.head_dim;
  return place;
}

// Columns [column, column + n) of a [k, n_columns] matrix, as n rows. rows: [n, k]
void ConvertColumns(const TensorInfo& tensor, const std::byte* raw, int64_t column,
                    std::span<float> rows) {
  const int64_t n_columns = tensor.shape.back();
  const int64_t k = *(tensor.shape.end() - 2);
  const int64_t n = static_cast<int64_t>(rows.size()) / k;
  std::vector<float> line(static_cast<size_t>(n));
  for (int64_t i = 0; i < k; ++i) {
    const int64_t first = i * n_columns + column;
    ConvertToF32(tensor.dtype, raw + first * DTypeBytes(tensor.dtype), line);
    for (int64_t r = 0; r < n; ++r) {
      rows[static_cast<size_t>(r * k + i)] = line[static_cast<size_t>(r)];
    }
  }
}

// Packs rows of one tensor into their matrix. One for each worker.
class RowPacker {
 public:
  RowPacker(const TensorBinding& binding, const std::byte* raw, const Place& place)
      : binding_(binding),
        raw_(raw),
        place_(place),
        k_(place.matrix->k()),
        block_bytes_(DTypeBytes(binding.tensor->dtype)) {}

  // Rows [row, end). Of the values that went in: all were finite, none above the type's limit.
  struct Verdict {
    bool finite = true;
    bool fits = true;
  };
  Verdict Pack(int64_t row, int64_t end) {
    return IsOwnType() ? PackBlocks(row, end) : PackValues(row, end);
  }

 private:
  // Whether the matrix holds the tensor's blocks as they are.
  bool IsOwnType() const {
    const DType dtype = binding_.tensor->dtype;
    return IsBlockType(dtype) && BlockGrid(dtype) == place_.type();
  }

  Verdict PackBlocks(int64_t row, int64_t end) {
    const DType dtype = binding_.tensor->dtype;
    spans_.resize(static_cast<size_t>(k_ / DTypeBlock(dtype)));
    const std::byte* block = raw_ + row * static_cast<int64_t>(spans_.size()) * block_bytes_;
    Verdict verdict;
    for (; row < end; ++row) {
      for (QuantSpan& span : spans_) {
        ReadBlock(dtype, block, &span);
        verdict.finite = verdict.finite && IsFinite(dtype, span);
        block += block_bytes_;
      }
      place_.matrix->PackSpans(place_.RowOf(row), 1, spans_.data());
    }
    return verdict;
  }

  Verdict PackValues(int64_t row, int64_t end) {
    const TensorInfo& tensor = *binding_.tensor;
    values_.resize(static_cast<size_t>((end - row) * k_));
    if (binding_.transposed) {
      ConvertColumns(tensor, raw_, row, values_);
    } else {
      ConvertToF32(tensor.dtype, raw_ + row * k_ / DTypeBlock(tensor.dtype) * block_bytes_,
                   values_);
    }
    const float limit = PackedMatrix::MaxMagnitude(place_.type());
    Verdict verdict;
    for (const float value : values_) {
      verdict.finite = verdict.finite && std::isfinite(value);
      verdict.fits = verdict.fits && std::abs(value) <= limit;
    }
    const float* next = values_.data();
    for (int64_t run = 0; row < end; row += run, next += run * k_) {
      run = place_.RunOf(row, end);
      place_.matrix->PackRows(place_.RowOf(row), run, next);
    }
    return verdict;
  }

  const TensorBinding& binding_;
  const std::byte* raw_;
  const Place& place_;
  int64_t k_;
  int64_t block_bytes_;
  std::vector<float> values_;     // [rows, k]
  std::vector<QuantSpan> spans_;  // of a row
};

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
    const TensorInfo& tensor = *binding.tensor;
    NG_ASSIGN_OR_RETURN(std::byte* const raw, Begin(binding));
    const int64_t n_rows = binding.transposed ? tensor.shape.back() : *(tensor.shape.end() - 2);
    const int64_t row_bytes = binding.n_bytes() / n_rows;
    // The values of a row lie all over a transposed tensor.
    if (binding.transposed) NG_RETURN_IF_ERROR(Read(binding, 0, {raw, Size(binding)}));
    // Chunks end where the packed matrix's column blocks do.
    const int64_t lead = (kRowsPerChunk - place.first % kRowsPerChunk) % kRowsPerChunk;
    const int64_t n_chunks =
        1 + (std::max<int64_t>(0, n_rows - lead) + kRowsPerChunk - 1) / kRowsPerChunk;
    std::vector<absl::Status> read(static_cast<size_t>(n_chunks));
    std::atomic<bool> finite = true;
    std::atomic<bool> fits = true;
    NG_RETURN_IF_ERROR(
        ParallelFor(*options_.executor, n_chunks, [&](int64_t begin, int64_t end, int) {
          RowPacker packer(binding, raw, place);
          for (int64_t chunk = begin; chunk < end; ++chunk) {
            const int64_t row =
                chunk == 0 ? 0 : std::min(n_rows, lead + (chunk - 1) * kRowsPerChunk);
            const int64_t row_end = std::min(n_rows, lead + chunk * kRowsPerChunk);
            if (!binding.transposed) {
              const int64_t first = row * row_bytes;
              const auto size = static_cast<size_t>((row_end - row) * row_bytes);
              absl::Status& status = read[static_cast<size_t>(chunk)];
              status = Read(binding, first, {raw + first, size});
              if (!status.ok()) return;
            }
            const RowPacker::Verdict verdict = packer.Pack(row, row_end);
            if (!verdict.finite) finite = false;
            if (!verdict.fits) fits = false;
          }
        }));
    for (const absl::Status& status : read) NG_RETURN_IF_ERROR(status);
    Finish(binding.n_bytes());
    if (!finite) return NotFinite(tensor);
    return fits ? absl::OkStatus() : TooLarge(tensor, PackedMatrix::MaxMagnitude(place.type()));
  }

  // Converts a tensor of any shape into its part of a vector of f32.
  absl::Status Vector(const TensorBinding& binding, const Place& place) {
    const TensorInfo& tensor = *binding.tensor;
    NG_ASSIGN_OR_RETURN(std::byte* const raw, Begin(binding));
    NG_RETURN_IF_ERROR(Read(binding, 0, {raw, Size(binding)}));
    Finish(binding.n_bytes());
    std::vector<float> values(static_cast<size_t>(binding.n_elements()));
    ConvertToF32(tensor.dtype, raw, values);
    place.vector->resize(static_cast<size_t>(place.size));
    for (int64_t i = 0; i < binding.n_elements(); ++i) {
      (*place.vector)[static_cast<size_t>(place.RowOf(i))] = values[static_cast<size_t>(i)];
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

 private:
  static size_t Size(const TensorBinding& binding) {
    return static_cast<size_t>(binding.n_bytes());
  }

  // Memory for the bytes of one binding, before they are read.
  absl::StatusOr<std::byte*> Begin(const TensorBinding& binding) {
    NG_RETURN_IF_ERROR(CheckStop());
    return buffer_.Get(binding.n_bytes());
  }

  // Bytes of one binding, from `first` on. [worker]
  absl::Status Read(const TensorBinding& binding, int64_t first, std::span<std::byte> out) const {
    return file_.source->ReadAt(*binding.tensor, binding.part * binding.n_bytes() + first, out);
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
  int64_t done_ = 0;
  int64_t total_ = 0;
};

int64_t Blocks(int64_t n) { return (n + kBlockColumns - 1) / kBlockColumns; }

// Parts of n rows each, side by side; parts alike make one band.
using Bands = std::vector<WeightBand>;
Bands SideBySide(std::initializer_list<std::pair<WeightType, int64_t>> parts) {
  const bool alike = std::ranges::all_of(
      parts, [&](const auto& part) { return part.first == parts.begin()->first; });
  int64_t n = 0;
  Bands bands;
  for (const auto& [type, rows] : parts) {
    n += rows;
    if (!alike) bands.push_back({type, Blocks(rows)});
  }
  if (alike) bands.push_back({parts.begin()->first, Blocks(n)});
  return bands;
}

Bands BandsOfQkv(const ModelSpec& spec, const LayerWeightTypes& types) {
  return SideBySide(
      {{types.q, spec.q_width()}, {types.k, spec.kv_width()}, {types.v, spec.kv_width()}});
}

// Gate and up take turns, a block each.
Bands BandsOfGateUp(const ModelSpec& spec, const LayerWeightTypes& types) {
  const int64_t n_blocks = Blocks(spec.gate_up_width());
  if (types.gate == types.up) return {{types.up, n_blocks}};
  Bands bands;
  for (int64_t i = 0; i < n_blocks; ++i) bands.push_back({i % 2 == 0 ? types.gate : types.up, 1});
  return bands;
}

// What the matrices take together.
int64_t MatrixBytes(const ModelSpec& spec, const WeightTypes& types) {
  const auto once = [&](WeightType type) {
    return PackedMatrix::PackedBytes(type, spec.shape.vocab_size, spec.width);
  };
  int64_t bytes = once(types.embedding);
  if (!spec.tied_head) bytes = SaturatingAdd(bytes, once(types.head));
  for (const LayerWeightTypes& layer : types.layers) {
    for (const int64_t matrix :
         {PackedMatrix::PackedBytes(BandsOfQkv(spec, layer), spec.width),
          PackedMatrix::PackedBytes(layer.attn_out, spec.width, spec.q_width()),
          PackedMatrix::PackedBytes(BandsOfGateUp(spec, layer), spec.width),
          PackedMatrix::PackedBytes(layer.down, spec.width, spec.ffn_width)}) {
      bytes = SaturatingAdd(bytes, matrix);
    }
  }
  return bytes;
}

absl::StatusOr<ModelWeights> Allocate(const ModelSpec& spec, const WeightTypes& types) {
  NG_ASSIGN_OR_RETURN(WeightMemory memory, WeightMemory::Reserve(MatrixBytes(spec, types)));
  ModelWeights model;
  const int64_t vocab_size = spec.shape.vocab_size;
  NG_ASSIGN_OR_RETURN(model.embedding, memory.Allocate(types.embedding, vocab_size, spec.width));
  if (!spec.tied_head) {
    NG_ASSIGN_OR_RETURN(model.head, memory.Allocate(types.head, vocab_size, spec.width));
  }
  for (const LayerWeightTypes& layer : types.layers) {
    LayerWeights& w = model.layers.emplace_back();
    if (!spec.norm_affine) {
      w.attn_norm.weight.assign(static_cast<size_t>(spec.width), 1.0F);
      w.mlp_norm.weight = w.attn_norm.weight;
    }
    NG_ASSIGN_OR_RETURN(w.qkv,
                        memory.Allocate(BandsOfQkv(spec, layer), spec.qkv_width(), spec.width));
    NG_ASSIGN_OR_RETURN(w.attn_out, memory.Allocate(layer.attn_out, spec.width, spec.q_width()));
    NG_ASSIGN_OR_RETURN(
        w.gate_up, memory.Allocate(BandsOfGateUp(spec, layer), spec.gate_up_width(), spec.width));
    NG_ASSIGN_OR_RETURN(w.down, memory.Allocate(layer.down, spec.width, spec.ffn_width));
  }
  return model;
}

}  // namespace

int64_t WeightBytes(const ModelSpec& spec, const WeightTypes& types) {
  const int64_t norm = spec.norm_bias ? 2 * spec.width : spec.width;
  const int64_t layer_values = 2 * norm + (spec.qkv_bias ? spec.qkv_width() : 0) +
                               (spec.qk_norm ? 2 * spec.shape.head_dim : 0) +
                               (spec.attn_out_bias ? spec.width : 0) +
                               (spec.mlp_bias ? spec.gate_up_width() + spec.width : 0);
  const int64_t n_positions =
      spec.position == PositionKind::kLearned ? spec.shape.max_positions : 0;
  const int64_t final_norm = spec.norm_placement == NormPlacement::kPre ? norm : 0;
  const int64_t rope_factors = spec.rope_factors ? spec.shape.head_dim / 2 : 0;
  const int64_t values =
      final_norm + rope_factors + n_positions * spec.width + spec.shape.n_layers * layer_values;
  return SaturatingAdd(MatrixBytes(spec, types), values * int64_t{sizeof(float)});
}

MatmulCost CostOf(const ModelWeights& weights) {
  const PackedMatrix& head = weights.head.n() > 0 ? weights.head : weights.embedding;
  MatmulCost cost{.bytes = head.bytes(), .head_multiply_adds = head.n() * head.k()};
  std::array<int64_t, kWeightTypes> by_type = {};
  for (const LayerWeights& layer : weights.layers) {
    for (const PackedMatrix* w : {&layer.qkv, &layer.attn_out, &layer.gate_up, &layer.down}) {
      cost.bytes += w->bytes();
      cost.layer_multiply_adds += w->n() * w->k();
      for (const PackedMatrix::Band& band : w->bands()) {
        by_type[static_cast<size_t>(band.type)] += (band.block_end - band.block_begin) * w->k();
      }
    }
  }
  cost.type = static_cast<WeightType>(std::ranges::max_element(by_type) - by_type.begin());
  return cost;
}

int64_t LoadScratchBytes(const ModelFile& file) {
  int64_t largest = 0;
  for (const TensorBinding& binding : file.bindings) {
    largest = std::max(largest, binding.n_bytes());
  }
  return largest;
}

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
  return weights;
}

}  // namespace ng
