#include "core/model/adapters/adapter_weights.h"

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/finite.h"
#include "core/base/hash.h"
#include "core/model/load/read_sizes.h"
#include "core/model/load/weight_memory.h"

namespace ng {
namespace {

// What one adapter adds to some rows of a packed matrix.
struct AddedPart {
  std::string magnitudes_of;  // the adapter's file and tensor
  int64_t n_ranks = 0;
  std::vector<float> a;          // [n_ranks, inputs of the matrix]
  std::vector<float> b;          // [rows.size(), n_ranks], times the scale
  std::vector<int64_t> rows;     // of the matrix, one of each row of b
  std::vector<float> magnitude;  // [rows.size()] or empty
};

// The values of a stored matrix.
struct Values {
  std::vector<float> values;
  int64_t n_columns = 0;

  float At(int64_t row, int64_t column) const {
    return values[static_cast<size_t>(row * n_columns + column)];
  }
  int64_t n_rows() const { return std::ssize(values) / n_columns; }
};

Values Turned(const Values& matrix) {
  const int64_t n_rows = matrix.n_rows();
  Values turned = {std::vector<float>(matrix.values.size()), n_rows};
  for (int64_t i = 0; i < n_rows; ++i) {
    for (int64_t j = 0; j < matrix.n_columns; ++j) {
      turned.values[static_cast<size_t>(j * n_rows + i)] = matrix.At(i, j);
    }
  }
  return turned;
}

// Rows [first, first + n).
Values RowsFrom(const Values& matrix, int64_t first, int64_t n) {
  const auto begin = matrix.values.begin() + first * matrix.n_columns;
  return {{begin, begin + n * matrix.n_columns}, matrix.n_columns};
}

// The bias that a matmul adds to the outputs of each matrix that has one.
using Biases = std::map<const PackedMatrix*, const std::vector<float>*>;
Biases BiasesOf(const ModelWeights& weights) {
  Biases biases = {{&weights.head, &weights.head_bias}};
  const auto add = [&](const MatrixPair& pair) {
    biases[&pair.in] = &pair.in_bias;
    biases[&pair.out] = &pair.out_bias;
  };
  for (const std::vector<BlockWeights>& blocks : weights.layers) {
    for (const BlockWeights& block : blocks) {
      add(block);
      for (const MatrixPair& expert : block.experts) add(expert);
    }
  }
  return biases;
}

class AdapterLoader {
 public:
  AdapterLoader(const ModelFile& model, ModelWeights& weights, Executor& executor)
      : model_(model),
        bindings_(BindingsByTensorOf(model)),
        weights_(weights),
        executor_(executor) {}

  absl::Status Add(const ScaledAdapter& adapter) {
    for (const AdapterPair& pair : adapter.file.pairs) {
      NG_ASSIGN_OR_RETURN(Values a, Read(*adapter.file.source, *pair.a));
      NG_ASSIGN_OR_RETURN(Values b, Read(*adapter.file.source, *pair.b));
      Values magnitude;
      if (pair.magnitude != nullptr) {
        NG_ASSIGN_OR_RETURN(magnitude, Read(*adapter.file.source, *pair.magnitude));
      }
      const double scale = pair.scale * adapter.scale;
      AddToHash(std::as_bytes(std::span(&scale, 1)));
      AddToHash(std::as_bytes(std::span(pair.target)));
      for (float& value : b.values) value = static_cast<float>(value * scale);
      if (pair.of_embedding) {
        AddEmbedding(pair.rows_first ? std::move(a) : Turned(a), Turned(b));
        continue;
      }
      if (pair.experts_layer >= 0) {
        for (const TensorBinding& binding : model_.bindings) AddExpert(binding, pair, a, b);
        continue;
      }
      const auto found = bindings_.find(pair.target);
      if (found == bindings_.end()) continue;  // of a layer that another rank has
      for (const TensorBinding* const binding : found->second) {
        AddedPart* const part = AddBinding(*binding, a, b, magnitude.values);
        if (part == nullptr || pair.magnitude == nullptr) continue;
        part->magnitudes_of =
            absl::StrCat(adapter.file.source->path(), ": tensor \"", pair.magnitude->name, "\"");
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<AdapterWeights> Finish() {
    const Biases biases = BiasesOf(weights_);
    for (auto& [matrix, parts] : parts_) {
      const auto bias = biases.find(matrix);
      const bool has_bias = bias != biases.end() && !bias->second->empty();
      NG_ASSIGN_OR_RETURN(LowRank laid_out,
                          LayOut(*matrix, parts, has_bias ? bias->second->data() : nullptr));
      matrices_.emplace(matrix->data(), std::move(laid_out));
    }
    return AdapterWeights(std::move(matrices_), std::move(embedding_), hash_);
  }

 private:
  absl::StatusOr<Values> Read(const TensorSource& source, const TensorInfo& tensor) {
    std::vector<std::byte> bytes(static_cast<size_t>(tensor.n_bytes));
    NG_RETURN_IF_ERROR(source.Read(tensor, bytes));
    AddToHash(bytes);
    Values read = {std::vector<float>(static_cast<size_t>(tensor.n_elements)),
                   tensor.shape.empty() ? 1 : tensor.shape.back()};
    ConvertToF32(tensor.dtype, bytes.data(), read.values);
    if (AllFinite(read.values)) return read;
    return ModelFileError(absl::StrCat(source.path(), ": tensor \"", tensor.name,
                                       "\" holds NaN or infinity; every weight must be finite"));
  }

  void AddToHash(std::span<const std::byte> bytes) { hash_ = HashOf(bytes, hash_); }

  // a: [vocab_size, ranks], b: [ranks, width]
  void AddEmbedding(const Values& a, const Values& b) {
    EmbeddingPairs& all = embedding_;
    const int64_t n_ranks = all.n_ranks + a.n_columns;
    std::vector<float> wider;
    wider.reserve(static_cast<size_t>(a.n_rows() * n_ranks));
    for (int64_t token = 0; token < a.n_rows(); ++token) {
      const auto old = all.a.begin() + token * all.n_ranks;
      wider.insert(wider.end(), old, old + all.n_ranks);
      const auto added = a.values.begin() + token * a.n_columns;
      wider.insert(wider.end(), added, added + a.n_columns);
    }
    all.a = std::move(wider);
    all.b.insert(all.b.end(), b.values.begin(), b.values.end());
    all.n_ranks = n_ranks;
  }

  // a: [ranks, inputs], b: [outputs, ranks] of the stored tensor, magnitude: [outputs]. Null: all
  // of it is another rank's.
  AddedPart* AddBinding(const TensorBinding& binding, const Values& a, const Values& b,
                        const std::vector<float>& magnitude) {
    // Of latents: some rows of the tensor, of which those of k are read as columns.
    if (binding.rows.of == 0) return AddRows(binding, a, b, magnitude);
    const int64_t first = binding.part * binding.rows.of + binding.rows.first;
    const Values own = RowsFrom(b, first, binding.rows.n);
    if (binding.transposed) return AddRows(binding, Turned(own), Turned(a), {});
    const auto of_rows = magnitude.begin() + (magnitude.empty() ? 0 : first);
    return AddRows(binding, a, own, {of_rows, of_rows + (magnitude.empty() ? 0 : binding.rows.n)});
  }

  // A matrix of an expert, where it is one of the pair's.
  void AddExpert(const TensorBinding& binding, const AdapterPair& pair, const Values& a,
                 const Values& b) {
    using enum TensorRole;
    const TensorRole role = binding.role;
    const bool gate_up = role == kExpertGateUp || role == kExpertGate || role == kExpertUp;
    if (binding.at.layer != pair.experts_layer || !(gate_up || role == kExpertDown) ||
        gate_up != (pair.target == "gate_up_proj")) {
      return;
    }
    const int64_t expert = binding.at.expert;
    const int64_t n_ranks = AdapterFile::RankOf(pair);
    // Where gate and up are tensors of their own, the gate is the first half.
    const int64_t n = b.n_rows() / (role == kExpertGate || role == kExpertUp ? 2 : 1);
    const int64_t first = role == kExpertUp ? n : 0;
    Values own = {{}, n_ranks};
    for (int64_t row = first; row < first + n; ++row) {
      for (int64_t rank = 0; rank < n_ranks; ++rank) {
        own.values.push_back(b.At(row, rank * pair.n_experts + expert));
      }
    }
    const Values inner = RowsFrom(a, expert * n_ranks, n_ranks);
    if (pair.turned) {
      AddRows(binding, Turned(own), Turned(inner), {});
    } else {
      AddRows(binding, inner, own, {});
    }
  }

  // a: [ranks, inputs], b: [rows of the binding, ranks], magnitude: of these rows, or empty
  AddedPart* AddRows(const TensorBinding& binding, const Values& a, const Values& b,
                     const std::vector<float>& magnitude) {
    const Place place = PlaceOf(binding, model_.spec, weights_);
    AddedPart part;
    part.n_ranks = a.n_rows();
    part.a = a.values;
    for (int64_t row = 0; row < b.n_rows(); ++row) {
      const int64_t held = place.RowOf(row);
      if (held < 0) continue;
      part.rows.push_back(held);
      for (int64_t rank = 0; rank < part.n_ranks; ++rank) part.b.push_back(b.At(row, rank));
      if (!magnitude.empty()) part.magnitude.push_back(magnitude[static_cast<size_t>(row)]);
    }
    if (part.rows.empty()) return nullptr;
    return &parts_[place.matrix].emplace_back(std::move(part));
  }

  // The factor of each output, and what it does to the bias; b of a part with magnitudes gets its
  // own factor. DoRA, section 4: the weight has the magnitude as its norm.
  absl::Status FindFactors(const PackedMatrix& matrix, std::vector<AddedPart>& parts,
                           const float* bias, LowRank* to) {
    const auto has = [](const AddedPart& part) { return !part.magnitude.empty(); };
    if (std::ranges::none_of(parts, has)) return absl::OkStatus();
    to->factors.assign(to->blocks.size() * kBlockColumns, 1.0F);
    to->offsets.assign(to->factors.size(), 0.0F);
    const int64_t k = matrix.k();
    for (AddedPart& part : parts) {
      if (!has(part)) continue;
      NG_RETURN_IF_ERROR(ParallelFor(
          executor_, std::ssize(part.rows), [&](int64_t begin, int64_t end, int /*worker*/) {
            std::vector<float> row(static_cast<size_t>(k));
            for (int64_t i = begin; i < end; ++i) {
              matrix.CopyRow(part.rows[static_cast<size_t>(i)], row.data());
              float* const b = part.b.data() + i * part.n_ranks;
              for (int64_t rank = 0; rank < part.n_ranks; ++rank) {
                const float* const a = part.a.data() + rank * k;
                for (int64_t c = 0; c < k; ++c) row[static_cast<size_t>(c)] += b[rank] * a[c];
              }
              double sum = 0.0;
              for (const float value : row) sum += double{value} * value;
              const auto factor =
                  static_cast<float>(part.magnitude[static_cast<size_t>(i)] / std::sqrt(sum));
              for (int64_t rank = 0; rank < part.n_ranks; ++rank) b[rank] *= factor;
              to->factors[static_cast<size_t>(part.rows[static_cast<size_t>(i)])] += factor - 1.0F;
            }
          }));
    }
    for (int64_t c = 0; c < matrix.n() && bias != nullptr; ++c) {
      to->offsets[static_cast<size_t>(c)] = (1.0F - to->factors[static_cast<size_t>(c)]) * bias[c];
    }
    if (AllFinite(to->factors)) return absl::OkStatus();
    return ModelFileError(absl::StrCat(std::ranges::find_if(parts, has)->magnitudes_of,
                                       ": is of a row of weights that are all 0"));
  }

  absl::StatusOr<LowRank> LayOut(const PackedMatrix& matrix, std::vector<AddedPart>& parts,
                                 const float* bias) {
    LowRank made;
    made.blocks.resize(static_cast<size_t>((matrix.n() + kBlockColumns - 1) / kBlockColumns));
    NG_RETURN_IF_ERROR(FindFactors(matrix, parts, bias, &made));
    int64_t n_ranks = 0;
    for (const AddedPart& part : parts) n_ranks += part.n_ranks;
    NG_ASSIGN_OR_RETURN(made.a, PackedMatrix::Allocate(WeightType::kF32, n_ranks, matrix.k()));
    // The ranks that each block reads, from the first to behind the last.
    int64_t rank = 0;
    for (const AddedPart& part : parts) {
      made.a.PackRows(rank, part.n_ranks, part.a.data());
      for (const int64_t row : part.rows) {
        LowRank::Block& block = made.blocks[static_cast<size_t>(row / kBlockColumns)];
        if (block.n == 0) block.first = rank;
        block.n = rank + part.n_ranks - block.first;
      }
      rank += part.n_ranks;
    }
    int64_t size = 0;
    for (LowRank::Block& block : made.blocks) {
      block.at = size;
      size += block.n * kBlockColumns;
    }
    made.b.resize(static_cast<size_t>(size));
    rank = 0;
    for (const AddedPart& part : parts) {
      for (size_t i = 0; i < part.rows.size(); ++i) {
        const int64_t row = part.rows[i];
        const LowRank::Block& block = made.blocks[static_cast<size_t>(row / kBlockColumns)];
        float* const to = made.b.data() + block.at + row % kBlockColumns;
        const float* const from = part.b.data() + static_cast<int64_t>(i) * part.n_ranks;
        for (int64_t r = 0; r < part.n_ranks; ++r) {
          to[(rank + r - block.first) * kBlockColumns] = from[r];
        }
      }
      rank += part.n_ranks;
    }
    return made;
  }

  const ModelFile& model_;
  const BindingsByTensor bindings_;
  ModelWeights& weights_;
  Executor& executor_;
  std::map<PackedMatrix*, std::vector<AddedPart>> parts_;
  AdapterWeights::Matrices matrices_;
  EmbeddingPairs embedding_;
  uint64_t hash_ = 0;
};

}  // namespace

void EmbeddingPairs::AddTo(int32_t token, std::span<float> row) const {
  const float* const inner = a.data() + token * n_ranks;
  const auto width = std::ssize(row);
  for (int64_t rank = 0; rank < n_ranks; ++rank) {
    const float* const of_rank = b.data() + rank * width;
    for (int64_t i = 0; i < width; ++i) row[static_cast<size_t>(i)] += inner[rank] * of_rank[i];
  }
}

uint64_t AdapterWeights::HashWith(uint64_t model_hash) const {
  return HashOf(std::as_bytes(std::span(&hash_, 1)), model_hash);
}

int64_t AdapterBytes(Adapters adapters, const ModelFile& model) {
  const BindingsByTensor bindings = BindingsByTensorOf(model);
  int64_t floats = 0;
  for (const ScaledAdapter* const adapter : adapters) {
    for (const AdapterPair& pair : adapter->file.pairs) {
      // Heads with latents have an a of their own each.
      const auto found = bindings.find(pair.target);
      const int64_t n = found == bindings.end() ? 1 : std::ssize(found->second);
      floats += n * (pair.a->n_elements + pair.b->n_elements);
      if (pair.magnitude != nullptr) floats += 2 * pair.magnitude->n_elements;
    }
  }
  return floats * int64_t{sizeof(float)};
}

absl::StatusOr<AdapterWeights> LoadAdapters(Adapters adapters, const ModelFile& model,
                                            ModelWeights& weights, Executor& executor) {
  AdapterLoader loader(model, weights, executor);
  for (const ScaledAdapter* const adapter : adapters) NG_RETURN_IF_ERROR(loader.Add(*adapter));
  return loader.Finish();
}

}  // namespace ng
