#include "core/model/weights/rank_split.h"

#include <algorithm>

#include "core/kernels/packed_matrix.h"
#include "core/kernels/sent_rows.h"

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

// Whole blocks of so many columns.
RankColumns BlocksOf(int64_t n_columns, int64_t block, const RankSplit& split) {
  const int64_t n_blocks = (n_columns + block - 1) / block;
  if (split.ranks == 1 || n_blocks < split.ranks) return {0, n_columns, false};
  const int64_t begin = PartBegin(n_blocks, split.rank, split.ranks) * block;
  const int64_t end = PartBegin(n_blocks, split.rank + 1, split.ranks) * block;
  return {begin, std::min(end, n_columns) - begin, true};
}

}  // namespace

RankColumns ColumnsOf(int64_t n_columns, const RankSplit& split) {
  return BlocksOf(n_columns, kBlockColumns, split);
}

RankColumns InnerColumnsOf(int64_t n_columns, const RankSplit& split) {
  const RankColumns groups = BlocksOf(n_columns, kQuantBlock, split);
  return groups.cut ? groups : ColumnsOf(n_columns, split);
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
  part.width = InnerColumnsOf(feed_forward.width, split).n;
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
  const RankColumns columns = InnerColumnsOf(feed_forward.width, split);
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

std::vector<int64_t> GivenInner(int64_t n_columns, const RankSplit& split) {
  if (!InnerColumnsOf(n_columns, split).cut) return {};
  return OfRanks(split, [&](const RankSplit& at) { return InnerColumnsOf(n_columns, at).n; });
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
    feed_forwards.push_back({PartOf(whole, split), GivenInner(whole.width, split)});
  }
  for (const MixtureSpec& whole : model.mixtures) {
    Mixture& part = mixtures.emplace_back();
    part.spec = PartOf(whole, split);
    if (!IsCut(whole)) continue;
    part.given_expert = GivenInner(whole.expert.width, split);
    part.given_shared = GivenInner(whole.shared.width, split);
    part.given = GivenColumns(model.width, split);
  }
  given_stream = GivenColumns(model.width, split);
  given_logits = GivenColumns(model.shape.vocab_size, split);
}

InputType GivenAs(const BlockSpec& block, InputType input, std::span<const int64_t> given) {
  if (block.inner.is_there() || block.operation == Operation::kLayerInput) return InputType::kF32;
  int64_t begin = 0;
  for (const int64_t n : given) {
    if (n > 0 && begin % GroupInputs(input) != 0) return InputType::kF32;
    begin += n;
  }
  return input;
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

// Floats of a row that all ranks together give.
int64_t RowFloats(std::span<const int64_t> given, InputType as) {
  int64_t floats = 0;
  for (const int64_t n : given) floats += SentFloats(as, n);
  return floats;
}

}  // namespace

int64_t InnerFloats(const ModelSpec& spec, const RankParts& parts, const BlockSpec& block,
                    const BlockWeightTypes& types, const KernelTable& kernels) {
  const auto part = static_cast<size_t>(block.part);
  const auto floats = [&](std::span<const int64_t> given, WeightType out) {
    return RowFloats(given, GivenAs(block, kernels.input[static_cast<size_t>(out)], given));
  };
  switch (block.operation) {
    case Operation::kAttention:
      return floats(parts.attentions[part].given, types.out);
    case Operation::kFeedForward:
    case Operation::kLayerInput:
      return floats(parts.feed_forwards[part].given, types.out);
    case Operation::kMixture: {
      const RankParts::Mixture& mixture = parts.mixtures[part];
      return spec.MixtureOf(block).router.n_used *
                 floats(mixture.given_expert, types.experts->out) +
             floats(mixture.given_shared, types.out);
    }
    case Operation::kState:
      return 0;
  }
  return 0;
}

GatheredBytes GatheredOf(const ModelSpec& spec, const WeightTypes& types,
                         const KernelTable& kernels) {
  if (spec.layer_split.ranks > 1) return HandedOn(spec);
  const RankSplit& split = spec.split;
  GatheredBytes bytes;
  if (split.ranks == 1) return bytes;
  bytes.step = split.ranks * kMeetFloats * int64_t{sizeof(float)};
  bytes.calls = 1;
  int64_t floats = 0;
  const auto add = [&](int64_t n) {  // floats of a row, in one call
    floats += n;
    bytes.calls += n > 0 ? 1 : 0;
  };
  const RankParts parts(spec);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    for (size_t b = 0; b < spec.layers[i].size(); ++b) {
      const BlockSpec& block = spec.layers[i][b];
      add(InnerFloats(spec, parts, block, types.layers[i][b], kernels));
      if (block.operation == Operation::kAttention) {
        const RankParts::Attention& part = parts.attentions[static_cast<size_t>(block.part)];
        const bool of_width = part.heads.cut && part.spec.qk_norm_kind == QkNormKind::kWidth;
        if (of_width && part.spec.qk_norm.is_there()) {
          add(RowFloats(part.given_q, InputType::kF32) +
              (part.spec.has_keys() ? RowFloats(part.given_k, InputType::kF32) : 0));
        }
      }
      const bool mixes_whole =
          block.operation == Operation::kMixture && !IsCut(spec.MixtureOf(block));
      add(mixes_whole ? 0 : RowFloats(parts.given_stream, InputType::kF32));
    }
  }
  bytes.row = floats * int64_t{sizeof(float)};
  add(RowFloats(parts.given_logits, InputType::kF32));
  bytes.logits = floats * int64_t{sizeof(float)} - bytes.row;
  return bytes;
}

}  // namespace ng
