#include "core/model/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/formats/tensor_source.h"

namespace ng {
namespace {

// Rows converted at a time by one worker; whole column blocks, so that workers never share one.
constexpr int64_t kRowsPerChunk = 4 * kBlockColumns;

absl::StatusOr<std::vector<std::byte>> Reserve(int64_t bytes) {
  try {
    return std::vector<std::byte>(static_cast<size_t>(bytes));
  } catch (const std::bad_alloc&) {
    return LimitError(absl::StrCat("cannot allocate ", bytes, " bytes to read a tensor"));
  }
}

class WeightReader {
 public:
  WeightReader(const ModelFile& file, const LoadWeightsOptions& options)
      : file_(file), options_(options) {
    for (const TensorBinding& binding : file.bindings) total_ += binding.tensor->n_bytes;
    // Compared with its copy, the embedding is read twice.
    if (file.head_copy) total_ += file.Find(TensorRole::kTokenEmbedding)->n_bytes;
  }

  // Raw bytes of the tensor that has this role.
  absl::StatusOr<std::vector<std::byte>> Raw(TensorRole role, int layer) {
    if (options_.stop != nullptr && options_.stop->load()) {
      return InterruptedError("interrupted while loading the weights");
    }
    const TensorInfo& tensor = *file_.Find(role, layer);
    NG_ASSIGN_OR_RETURN(std::vector<std::byte> raw, Reserve(tensor.n_bytes));
    NG_RETURN_IF_ERROR(file_.source->Read(tensor, raw));
    done_ += tensor.n_bytes;
    if (options_.progress) options_.progress(done_, total_);
    return raw;
  }

  // Packs a matrix into the rows from `first_row` on of an allocated one.
  absl::Status Matrix(TensorRole role, int layer, int64_t first_row, PackedMatrix* matrix) {
    const TensorInfo& tensor = *file_.Find(role, layer);
    NG_ASSIGN_OR_RETURN(const std::vector<std::byte> raw, Raw(role, layer));
    const int64_t n_rows = tensor.shape[0];
    const int64_t k = tensor.shape[1];
    // Chunks end where the packed matrix's column blocks do.
    const int64_t lead = (kRowsPerChunk - first_row % kRowsPerChunk) % kRowsPerChunk;
    const int64_t n_chunks =
        1 + (std::max<int64_t>(0, n_rows - lead) + kRowsPerChunk - 1) / kRowsPerChunk;
    std::atomic<bool> finite = true;
    NG_RETURN_IF_ERROR(
        ParallelFor(*options_.executor, n_chunks, [&](int64_t begin, int64_t end, int) {
          std::vector<float> rows(static_cast<size_t>(kRowsPerChunk * k));
          for (int64_t chunk = begin; chunk < end; ++chunk) {
            const int64_t row =
                chunk == 0 ? 0 : std::min(n_rows, lead + (chunk - 1) * kRowsPerChunk);
            const int64_t row_end = std::min(n_rows, lead + chunk * kRowsPerChunk);
            const std::span<float> values(rows.data(), static_cast<size_t>((row_end - row) * k));
            ConvertToF32(tensor.dtype, raw.data() + row * k * DTypeBytes(tensor.dtype), values);
            if (!AllFinite(values)) finite = false;
            matrix->PackRows(first_row + row, row_end - row, rows.data());
          }
        }));
    return finite ? absl::OkStatus() : NotFinite(tensor);
  }

  // Appends a vector of any length as f32.
  absl::Status Vector(TensorRole role, int layer, std::vector<float>* out) {
    const TensorInfo& tensor = *file_.Find(role, layer);
    NG_ASSIGN_OR_RETURN(const std::vector<std::byte> raw, Raw(role, layer));
    const size_t old_size = out->size();
    out->resize(old_size + static_cast<size_t>(tensor.n_elements));
    const std::span<float> values(out->data() + old_size, static_cast<size_t>(tensor.n_elements));
    ConvertToF32(tensor.dtype, raw.data(), values);
    return AllFinite(values) ? absl::OkStatus() : NotFinite(tensor);
  }

  // A tied head that is stored a second time must be the embedding itself.
  absl::Status CheckHeadCopy() {
    NG_ASSIGN_OR_RETURN(const std::vector<std::byte> embedding,
                        Raw(TensorRole::kTokenEmbedding, -1));
    NG_ASSIGN_OR_RETURN(const std::vector<std::byte> head, Raw(TensorRole::kHead, -1));
    const TensorInfo& tensor = *file_.Find(TensorRole::kHead);
    if (tensor.dtype == file_.Find(TensorRole::kTokenEmbedding)->dtype &&
        std::memcmp(embedding.data(), head.data(), head.size()) == 0) {
      return absl::OkStatus();
    }
    return ModelFileError(
        absl::StrCat(file_.source->path(), ": tensor \"", tensor.name, "\" differs from \"",
                     file_.Find(TensorRole::kTokenEmbedding)->name, "\"; the head of a ",
                     file_.spec.family, " model is tied to the embedding"));
  }

 private:
  static bool AllFinite(std::span<const float> values) {
    return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
  }
  absl::Status NotFinite(const TensorInfo& tensor) const {
    return ModelFileError(absl::StrCat(file_.source->path(), ": tensor \"", tensor.name,
                                       "\" holds NaN or infinity; every weight must be finite"));
  }

  const ModelFile& file_;
  const LoadWeightsOptions& options_;
  int64_t done_ = 0;
  int64_t total_ = 0;
};

absl::StatusOr<LayerWeights> LoadLayer(const ModelSpec& spec, WeightType type, int layer,
                                       WeightReader& reader) {
  LayerWeights w;
  const int64_t qkv = spec.q_width() + 2 * spec.kv_width();
  NG_ASSIGN_OR_RETURN(w.qkv, PackedMatrix::Allocate(type, qkv, spec.width));
  NG_ASSIGN_OR_RETURN(w.attn_out, PackedMatrix::Allocate(type, spec.width, spec.q_width()));
  NG_ASSIGN_OR_RETURN(w.gate_up, PackedMatrix::Allocate(type, 2 * spec.ffn_width, spec.width));
  NG_ASSIGN_OR_RETURN(w.down, PackedMatrix::Allocate(type, spec.width, spec.ffn_width));
  NG_RETURN_IF_ERROR(reader.Vector(TensorRole::kAttnNorm, layer, &w.attn_norm));
  NG_RETURN_IF_ERROR(reader.Matrix(TensorRole::kQkv, layer, 0, &w.qkv));
  NG_RETURN_IF_ERROR(reader.Matrix(TensorRole::kAttnOut, layer, 0, &w.attn_out));
  NG_RETURN_IF_ERROR(reader.Vector(TensorRole::kMlpNorm, layer, &w.mlp_norm));
  NG_RETURN_IF_ERROR(reader.Matrix(TensorRole::kMlpGate, layer, 0, &w.gate_up));
  NG_RETURN_IF_ERROR(reader.Matrix(TensorRole::kMlpUp, layer, spec.ffn_width, &w.gate_up));
  NG_RETURN_IF_ERROR(reader.Vector(TensorRole::kMlpGateBias, layer, &w.gate_up_bias));
  NG_RETURN_IF_ERROR(reader.Vector(TensorRole::kMlpUpBias, layer, &w.gate_up_bias));
  NG_RETURN_IF_ERROR(reader.Matrix(TensorRole::kMlpDown, layer, 0, &w.down));
  NG_RETURN_IF_ERROR(reader.Vector(TensorRole::kMlpDownBias, layer, &w.down_bias));
  return w;
}

}  // namespace

absl::StatusOr<WeightType> WeightTypeOf(const ModelFile& file, std::string_view config_value) {
  if (config_value == "f32") return WeightType::kF32;
  if (config_value == "bf16") return WeightType::kBf16;
  if (config_value == "f16") return WeightType::kF16;
  if (config_value == "int8") return WeightType::kInt8;
  if (config_value == "int4") return WeightType::kInt4;
  if (config_value != "auto") {
    return PluginError(absl::StrCat(
        "model.weights = ", absl::string_view(config_value.data(), config_value.size()),
        ": no kernel of this build holds weights so; can run: auto, "
        "f32, bf16, f16, int8, int4"));
  }
  const TensorInfo& embedding = *file.Find(TensorRole::kTokenEmbedding);
  switch (embedding.dtype) {
    case DType::kF32:
      return WeightType::kF32;
    case DType::kBf16:
      return WeightType::kBf16;
    case DType::kF16:
      return WeightType::kF16;
    default:
      return ModelFileError(absl::StrCat(file.source->path(), ": tensor \"", embedding.name,
                                         "\" has no floating point type"));
  }
}

int64_t WeightBytes(const ModelSpec& spec, WeightType type) {
  const int64_t qkv = spec.q_width() + 2 * spec.kv_width();
  const int64_t layer = PackedMatrix::PackedBytes(type, qkv, spec.width) +
                        PackedMatrix::PackedBytes(type, spec.width, spec.q_width()) +
                        PackedMatrix::PackedBytes(type, 2 * spec.ffn_width, spec.width) +
                        PackedMatrix::PackedBytes(type, spec.width, spec.ffn_width) +
                        (3 * spec.width + 2 * spec.ffn_width) * int64_t{sizeof(float)};
  return spec.shape.n_layers * layer +
         PackedMatrix::PackedBytes(type, spec.shape.vocab_size, spec.width) +
         spec.width * int64_t{sizeof(float)};
}

int64_t LoadScratchBytes(const ModelFile& file) {
  int64_t largest = 0;
  for (const TensorBinding& binding : file.bindings) {
    largest = std::max(largest, binding.tensor->n_bytes);
  }
  return file.head_copy ? 2 * largest : largest;
}

absl::StatusOr<ModelWeights> LoadWeights(const ModelFile& file, const LoadWeightsOptions& options) {
  const ModelSpec& spec = file.spec;
  WeightReader reader(file, options);
  ModelWeights weights;
  NG_ASSIGN_OR_RETURN(weights.embedding,
                      PackedMatrix::Allocate(options.type, spec.shape.vocab_size, spec.width));
  NG_RETURN_IF_ERROR(reader.Matrix(TensorRole::kTokenEmbedding, -1, 0, &weights.embedding));
  if (file.head_copy) NG_RETURN_IF_ERROR(reader.CheckHeadCopy());
  for (int layer = 0; layer < spec.shape.n_layers; ++layer) {
    NG_ASSIGN_OR_RETURN(LayerWeights w, LoadLayer(spec, options.type, layer, reader));
    weights.layers.push_back(std::move(w));
  }
  NG_RETURN_IF_ERROR(reader.Vector(TensorRole::kFinalNorm, -1, &weights.final_norm));
  return weights;
}

}  // namespace ng
