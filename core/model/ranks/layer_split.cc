#include "core/model/ranks/layer_split.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

namespace ng {
namespace {

// A piece of a step has so many rows or more: each piece reads the weights again. Two pieces of 16
// rows beat one of 32 with grids that take much arithmetic, and lose nothing with others.
constexpr int64_t kPieceRows = 16;
// The more pieces a step has, the less time the first and the last process wait.
constexpr int64_t kPiecesOfRank = 4;

constexpr int64_t kNoCut = std::numeric_limits<int64_t>::max();

// Of a step of n_rows.
int64_t PieceRows(int64_t n_rows, int ranks) {
  const int64_t n_pieces = std::clamp<int64_t>(n_rows / kPieceRows, 1, kPiecesOfRank * ranks);
  return (n_rows + n_pieces - 1) / n_pieces;
}

bool IsOfHead(TensorRole role) {
  return role == TensorRole::kHead || role == TensorRole::kHeadBias ||
         role == TensorRole::kFinalNorm || role == TensorRole::kFinalNormBias;
}

bool IsOfEmbedding(TensorRole role) {
  return role == TensorRole::kTokenEmbedding || role == TensorRole::kPositions ||
         role == TensorRole::kEmbeddingNorm || role == TensorRole::kEmbeddingNormBias;
}

// What the layers before each one hold together in the file, [n_layers + 1]. The embedding counts
// for the first layer and the head for the last one.
std::vector<int64_t> BytesBefore(const ModelFile& file) {
  const auto n_layers = static_cast<size_t>(file.spec.shape.n_layers);
  std::vector<int64_t> before(n_layers + 1, 0);
  for (const TensorBinding& binding : file.bindings) {
    const bool of_head = IsOfHead(binding.role);
    const bool is_tied = file.spec.head.tied && binding.role == TensorRole::kTokenEmbedding;
    if (of_head || is_tied) before[n_layers] += binding.n_bytes();
    if (of_head) continue;
    before[static_cast<size_t>(std::max(0, binding.at.layer)) + 1] += binding.n_bytes();
  }
  for (size_t i = 1; i <= n_layers; ++i) before[i] += before[i - 1];
  return before;
}

// Where the layers can be cut, and how many of those before each have attention: [n_layers + 1].
struct Cuts {
  explicit Cuts(const ModelSpec& spec)
      : possible(spec.layers.size() + 1, true), attend_before(spec.layers.size() + 1, 0) {
    for (const int layer : spec.LayersWith(Operation::kAttention)) {
      const auto at = static_cast<size_t>(layer);
      ++attend_before[at + 1];
      const int keys_of = spec.AttentionOf(*spec.Find(at, Operation::kAttention)).keys_of;
      if (keys_of < 0) continue;
      // Between a layer and the one whose keys it reads.
      for (int cut = keys_of + 1; cut <= layer; ++cut) possible[static_cast<size_t>(cut)] = false;
    }
    for (size_t i = 1; i < attend_before.size(); ++i) attend_before[i] += attend_before[i - 1];
  }

  std::vector<bool> possible;
  std::vector<int> attend_before;
};

}  // namespace

bool HasTensor(const LayerSplit& split, const ModelSpec& spec, const TensorBinding& binding) {
  if (binding.at.layer >= 0) return split.Has(binding.at.layer);
  const bool heads = spec.head.tied && binding.role == TensorRole::kTokenEmbedding;
  if (IsOfHead(binding.role) || (heads && split.ends())) return split.ends();
  return !IsOfEmbedding(binding.role) || split.begins();
}

absl::StatusOr<std::vector<LayerSplit>> CutLayers(const ModelFile& file, int ranks) {
  const ModelSpec& spec = file.spec;
  if (spec.layer_input.is_there() && ranks > 1) {
    return PluginError(
        "fabric.split = layers: each layer of this model gets values of the token, which the first "
        "process alone has; fabric.split = heads runs it");
  }
  const auto n_layers = static_cast<size_t>(spec.shape.n_layers);
  const std::vector<int64_t> before = BytesBefore(file);
  const Cuts cuts(spec);
  // The bytes of the largest part when the first layers are cut into so many parts, and where the
  // last of these begins.
  struct Best {
    int64_t bytes = kNoCut;
    size_t first = 0;
  };
  std::vector<std::vector<Best>> best(static_cast<size_t>(ranks) + 1,
                                      std::vector<Best>(n_layers + 1));
  best[0][0].bytes = 0;
  for (size_t part = 1; part < best.size(); ++part) {
    for (size_t end = 1; end <= n_layers; ++end) {
      Best& found = best[part][end];
      for (size_t first = 0; first < end; ++first) {
        const int64_t bytes = std::max(best[part - 1][first].bytes, before[end] - before[first]);
        const bool attends = cuts.attend_before[first] < cuts.attend_before[end];
        if (bytes < found.bytes && attends && cuts.possible[first]) found = {bytes, first};
      }
    }
  }
  if (best.back().back().bytes == kNoCut) {
    return PluginError(absl::StrCat("fabric.split = layers: the model has ", n_layers,
                                    n_layers == 1 ? " layer" : " layers",
                                    ", which cannot be cut into ", ranks,
                                    " parts of which each has attention and the keys that its "
                                    "layers read; fabric.split = heads or fewer processes run it"));
  }
  std::vector<LayerSplit> parts(static_cast<size_t>(ranks));
  size_t end = n_layers;
  for (int rank = ranks - 1; rank >= 0; --rank) {
    const size_t first = best[static_cast<size_t>(rank) + 1][end].first;
    parts[static_cast<size_t>(rank)] = {rank, ranks, static_cast<int>(first), static_cast<int>(end),
                                        before[end] - before[first]};
    end = first;
  }
  return parts;
}

void KeepLayers(const LayerSplit& split, ModelFile* file) {
  ModelSpec& spec = file->spec;
  spec.layer_split = split;
  if (split.ranks == 1) return;
  std::erase_if(file->bindings,
                [&](const TensorBinding& binding) { return !HasTensor(split, spec, binding); });
  for (int layer = 0; layer < spec.shape.n_layers; ++layer) {
    if (!split.Has(layer)) spec.layers[static_cast<size_t>(layer)].clear();
  }
  // Who has the head compares it with its copy.
  file->head_copy = file->head_copy && split.ends();
}

int64_t MostPieceRows(int64_t n_rows, int ranks) {
  // A step of one row less than two pieces is not cut.
  return std::min(n_rows, std::max(PieceRows(n_rows, ranks), 2 * kPieceRows - 1));
}

void CutStep(std::span<const StepSequence> step, int ranks, bool whole, StepPieces* pieces) {
  pieces->sequences.clear();
  pieces->n_sequences.clear();
  int64_t n_rows = 0;
  for (const StepSequence& entry : step) n_rows += std::ssize(entry.tokens);
  const int64_t most = PieceRows(n_rows, ranks);
  int64_t left = 0;  // rows that the piece at hand has room for
  for (const StepSequence& entry : step) {
    const int64_t n = std::ssize(entry.tokens);
    for (int64_t at = 0; at < n;) {
      if (left <= 0) {
        pieces->n_sequences.push_back(0);
        left = most;
      }
      const int64_t taken = whole ? n : std::min(left, n - at);
      StepSequence& part = pieces->sequences.emplace_back(entry);
      part.tokens = entry.tokens.subspan(static_cast<size_t>(at), static_cast<size_t>(taken));
      part.start_pos = entry.start_pos + at;
      // Logits are wanted of the last rows.
      part.n_logit_rows = std::clamp<int64_t>(at + taken - (n - entry.n_logit_rows), 0, taken);
      ++pieces->n_sequences.back();
      at += taken;
      left -= taken;
    }
  }
}

}  // namespace ng
