#include "core/model/rank_split.h"

#include <algorithm>
#include <initializer_list>

#include "core/kernels/packed_matrix.h"

namespace ng {
namespace {

// Where part i of so many begins.
int64_t PartBegin(int64_t n, int64_t i, int64_t parts) { return n * i / parts; }

std::vector<float> Slice(const std::vector<float>& values, const RankHeads& heads) {
  if (values.empty()) return {};
  return {values.begin() + heads.first, values.begin() + heads.first + heads.n};
}

// For each rank.
template <typename Count>
std::vector<int64_t> OfRanks(const RankSplit& split, Count&& count) {
  std::vector<int64_t> counts;
  for (int rank = 0; rank < split.ranks; ++rank) counts.push_back(count({rank, split.ranks}));
  return counts;
}

bool CanCut(const SelfAttentionSpec& attention, const RankSplit& split) {
  return split.ranks > 1 && !attention.latent.is_there() && attention.n_heads >= split.ranks;
}

}  // namespace

RankColumns ColumnsOf(int64_t n_columns, const RankSplit& split) {
  const int64_t n_blocks = (n_columns + kBlockColumns - 1) / kBlockColumns;
  if (split.ranks == 1 || n_blocks < split.ranks) return {0, n_columns, false};
  const int64_t begin = PartBegin(n_blocks, split.rank, split.ranks) * kBlockColumns;
  const int64_t end = PartBegin(n_blocks, split.rank + 1, split.ranks) * kBlockColumns;
  return {begin, std::min(end, n_columns) - begin, true};
}

RankHeads HeadsOf(const SelfAttentionSpec& attention, const RankSplit& split) {
  const int n_kv = attention.n_kv_heads;
  if (!CanCut(attention, split)) return {0, attention.n_heads, 0, n_kv, false};
  const int group = attention.n_heads / n_kv;
  const int ranks = split.ranks;
  if (ranks <= n_kv) {
    const auto begin = static_cast<int>(PartBegin(n_kv, split.rank, ranks));
    const auto end = static_cast<int>(PartBegin(n_kv, split.rank + 1, ranks));
    return {begin * group, (end - begin) * group, begin, end - begin, true};
  }
  // The ranks that hold one head of k and v share its heads of q.
  const int kv = split.rank * n_kv / ranks;
  const int first_rank = (kv * ranks + n_kv - 1) / n_kv;
  const int end_rank = ((kv + 1) * ranks + n_kv - 1) / n_kv;
  const int sharing = end_rank - first_rank;
  const auto begin = static_cast<int>(PartBegin(group, split.rank - first_rank, sharing));
  const auto end = static_cast<int>(PartBegin(group, split.rank - first_rank + 1, sharing));
  return {kv * group + begin, end - begin, kv, 1, true};
}

SelfAttentionSpec PartOf(const SelfAttentionSpec& attention, const RankSplit& split) {
  const RankHeads heads = HeadsOf(attention, split);
  SelfAttentionSpec part = attention;
  if (!heads.cut) return part;
  part.n_heads = heads.n;
  part.n_kv_heads = heads.n_kv;
  part.alibi_slopes = Slice(attention.alibi_slopes, heads);
  part.sinks = Slice(attention.sinks, heads);
  return part;
}

FeedForwardSpec PartOf(const FeedForwardSpec& feed_forward, const RankSplit& split) {
  FeedForwardSpec part = feed_forward;
  part.width = ColumnsOf(feed_forward.width, split).n;
  return part;
}

bool IsCut(const MixtureSpec& mixture) { return !mixture.norms_apart(); }

MixtureSpec PartOf(const MixtureSpec& mixture, const RankSplit& split) {
  MixtureSpec part = mixture;
  if (!IsCut(mixture)) return part;
  part.expert = PartOf(mixture.expert, split);
  part.shared = PartOf(mixture.shared, split);
  return part;
}

std::vector<HeldRows> HeldOf(const SelfAttentionSpec& attention, const RankSplit& split) {
  const RankHeads heads = HeadsOf(attention, split);
  if (!heads.cut) return {};
  std::vector<HeldRows> held;
  int64_t whole = 0;  // where the next part of a row begins, of all heads and of this rank's
  int64_t own = 0;
  const auto add = [&](int64_t width, int n_heads, int first, int n) {
    held.push_back({whole + first * width, whole + (first + n) * width, own});
    whole += n_heads * width;
    own += n * width;
  };
  add(attention.head_dim, attention.n_heads, heads.first, heads.n);
  if (attention.has_keys()) {
    add(attention.head_dim, attention.n_kv_heads, heads.kv_first, heads.n_kv);
    if (!attention.v_is_k) {
      add(attention.value_dim(), attention.n_kv_heads, heads.kv_first, heads.n_kv);
    }
  }
  if (attention.gate) add(attention.value_dim(), attention.n_heads, heads.first, heads.n);
  return held;
}

std::vector<HeldRows> HeldOf(const FeedForwardSpec& feed_forward, const RankSplit& split) {
  const RankColumns columns = ColumnsOf(feed_forward.width, split);
  if (!columns.cut || !feed_forward.gated) return HeldOf(columns);
  // A block of gate and one of up in turn; the cut is between two such pairs.
  const FeedForwardSpec part = PartOf(feed_forward, split);
  return {{2 * columns.first, 2 * columns.first + part.gate_up_width(), 0}};
}

std::vector<HeldRows> HeldOf(const RankColumns& columns) {
  if (!columns.cut) return {};
  return {{columns.first, columns.end(), 0}};
}

std::vector<int64_t> GivenColumns(int64_t n_columns, const RankSplit& split) {
  if (!ColumnsOf(n_columns, split).cut) return {};
  return OfRanks(split, [&](const RankSplit& at) { return ColumnsOf(n_columns, at).n; });
}

std::vector<int64_t> GivenHeads(const SelfAttentionSpec& attention, int64_t head_width,
                                const RankSplit& split) {
  if (!HeadsOf(attention, split).cut) return {};
  return OfRanks(split, [&](const RankSplit& at) { return HeadsOf(attention, at).n * head_width; });
}

std::vector<int64_t> GivenKvHeads(const SelfAttentionSpec& attention, int64_t head_width,
                                  const RankSplit& split) {
  if (!HeadsOf(attention, split).cut) return {};
  return OfRanks(split, [&](const RankSplit& at) {
    const RankHeads heads = HeadsOf(attention, at);
    const bool given =
        at.rank > 0 && HeadsOf(attention, {at.rank - 1, at.ranks}).kv_first == heads.kv_first;
    return given ? 0 : heads.n_kv * head_width;
  });
}

RankParts::RankParts(const ModelSpec& model) {
  const RankSplit& split = model.split;
  for (const SelfAttentionSpec& whole : model.attentions) {
    attentions.push_back(
        {PartOf(whole, split), HeadsOf(whole, split), GivenHeads(whole, whole.value_dim(), split),
         GivenHeads(whole, whole.head_dim, split), GivenKvHeads(whole, whole.head_dim, split),
         GivenKvHeads(whole, whole.value_dim(), split)});
  }
  for (const FeedForwardSpec& whole : model.feed_forwards) {
    feed_forwards.push_back({PartOf(whole, split), GivenColumns(whole.width, split)});
  }
  for (const MixtureSpec& whole : model.mixtures) {
    Mixture& part = mixtures.emplace_back();
    part.spec = PartOf(whole, split);
    if (!IsCut(whole)) continue;
    part.given_expert = GivenColumns(whole.expert.width, split);
    part.given_shared = GivenColumns(whole.shared.width, split);
    part.given = GivenColumns(model.width, split);
  }
  given_stream = GivenColumns(model.width, split);
  given_logits = GivenColumns(model.shape.vocab_size, split);
}

namespace {

// By layers: each process but the last hands a row on, and says whether it is one; all meet twice,
// and the last one has the logits.
GatheredBytes HandedOn(const ModelSpec& spec) {
  const int64_t ranks = spec.layer_split.ranks;
  return {.row = spec.width * int64_t{sizeof(float)},
          .logits = spec.shape.vocab_size * int64_t{sizeof(float)},
          .step = 2 * ranks * kMeetFloats * int64_t{sizeof(float)},
          .piece = int64_t{sizeof(float)},
          .calls = ranks - 1 + 3};
}

}  // namespace

GatheredBytes GatheredOf(const ModelSpec& spec) {
  if (spec.layer_split.ranks > 1) return HandedOn(spec);
  const RankSplit& split = spec.split;
  GatheredBytes bytes;
  if (split.ranks == 1) return bytes;
  bytes.step = split.ranks * kMeetFloats * int64_t{sizeof(float)};
  bytes.calls = 1;
  int64_t floats = 0;
  // Rows that are gathered in one call.
  const auto add = [&](std::initializer_list<int64_t> rows) {
    int64_t n = 0;
    for (const int64_t n_columns : rows) n += ColumnsOf(n_columns, split).cut ? n_columns : 0;
    floats += n;
    bytes.calls += n > 0 ? 1 : 0;
  };
  for (const LayerSpec& blocks : spec.layers) {
    for (const BlockSpec& block : blocks) {
      if (block.operation == Operation::kAttention) {
        const SelfAttentionSpec& attention = spec.AttentionOf(block);
        if (HeadsOf(attention, split).cut) {
          floats += attention.out_width();
          ++bytes.calls;
          if (attention.qk_norm.is_there() && attention.qk_norm_kind == QkNormKind::kWidth) {
            floats += attention.q_width() + (attention.has_keys() ? attention.k_width() : 0);
            ++bytes.calls;
          }
        }
      } else if (block.operation == Operation::kMixture) {
        const MixtureSpec& mixture = spec.MixtureOf(block);
        if (!IsCut(mixture)) continue;
        const int64_t shared = mixture.has_shared() ? mixture.shared.width : 0;
        const bool cut = ColumnsOf(mixture.expert.width, split).cut;
        // The experts' rows and the shared one's come in one call.
        floats += cut ? (mixture.router.n_used - 1) * mixture.expert.width : 0;
        add({mixture.expert.width, shared});
      } else if (block.operation != Operation::kState) {
        add({spec.FeedForwardOf(block).width});
      }
      add({spec.width});
    }
  }
  bytes.row = floats * int64_t{sizeof(float)};
  if (ColumnsOf(spec.shape.vocab_size, split).cut) {
    bytes.logits = spec.shape.vocab_size * int64_t{sizeof(float)};
    ++bytes.calls;
  }
  return bytes;
}

}  // namespace ng
