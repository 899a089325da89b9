// The flash kernel on one ISA level (flash_kernel.h says what it computes). Included between a
// level's target macros; what it includes is included before them as well, so that only the kernel
// is compiled for the level. No include guard.

#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

#include "ng/vec16.h"
#include "plugins/attention/flash/flash_kernel.h"
#include "plugins/attention/flash/flash_pairs.h"
#include "plugins/attention/flash/flash_scratch.h"
// In this order: each uses those before it.
#include "plugins/attention/flash/flash_lanes-inl.h"
//
#include "plugins/attention/flash/flash_int_lanes-inl.h"
//
#include "plugins/attention/flash/flash_softmax-inl.h"
//
#include "plugins/attention/flash/flash_mass-inl.h"
//
#include "plugins/attention/flash/flash_block-inl.h"
//
#include "plugins/attention/flash/flash_turn-inl.h"

namespace ng {

// One item on one level. Its rows are (query, head) pairs, queries outermost.
template <class Level>
class FlashRows {
 public:
  FlashRows(const AttentionRun& run, const FlashWork& work, float* memory)
      : run_(run),
        item_(work.item),
        next_(work.next),
        rows_(run.rows[static_cast<size_t>(item_.sequence)]),
        view_(run.views[static_cast<size_t>(item_.sequence)]),
        spec_(work.spec),
        widths_(WidthsOf(work.spec)),
        group_(work.spec.n_heads / work.spec.n_kv_heads),
        gone_(view_.GoneOf(item_.kv_head) + item_.skipped),
        n_rows_((item_.query_end - item_.query_begin) * group_),
        scratch_(WorkerScratch::At(memory, widths_, n_rows_, kBlockRows)),
        first_kept_(run.attended.empty()
                        ? n_rows_
                        : (FirstMassQuery(rows_, item_) - item_.query_begin) * group_),
        leftmost_(FirstPlannedKey(spec_, rows_, item_.query_begin) / kSplitKeys),
        kept_(FindKept(memory)) {}

  // K and V in their codecs' lanes: those for many rows where these are more than a block.
  template <class KeyLanes, class ValueLanes>
  void Attend() {
    using Probabilities = typename ValueLanes::Probabilities;
    PackQueries<KeyLanes>();
    const int64_t end = SplitsOf(item_.key_end);
    const int64_t begin = item_.key_begin / kSplitKeys;
    if (item_.partials < 0) {
      for (int64_t split = begin; split < end; ++split) {
        const bool merge = split > begin;
        AttendSplit<KeyLanes, ValueLanes>(split, merge ? scratch_.right : scratch_.left, merge);
      }
      Finish<Probabilities>(scratch_.left);
      return;
    }
    for (int64_t split = begin; split < end; ++split) {
      AttendSplit<KeyLanes, ValueLanes>(split, SharedSplit(split - leftmost_), /*merge=*/false);
    }
    if (!IsLast(end - begin)) return;
    const PartialRows left = SharedSplit(0);
    for (int64_t split = leftmost_ + 1; split < SplitsOf(Keys(n_rows_ - 1)); ++split) {
      MergeRows(split, 0, n_rows_, SharedSplit(split - leftmost_), left);
    }
    Finish<Probabilities>(left);
  }

 private:
  using V = typename Level::V;
  using Block = FlashBlock<Level>;
  using Tiles = typename Block::Tiles;
  using Operand = typename Block::Operand;
  static constexpr int kBlockRows = Level::kBlockRows;

  int64_t Pos(int64_t row) const { return rows_.start_pos + item_.query_begin + row / group_; }
  int64_t TensorRow(int64_t row) const {
    return rows_.row_begin + item_.query_begin + row / group_;
  }
  int Head(int64_t row) const { return item_.kv_head * group_ + static_cast<int>(row % group_); }

  // How many keys are read up to the row's own.
  int64_t Keys(int64_t row) const { return Pos(row) + 1 - gone_; }
  // The keys of a split that a row sees: [First, Visible).
  int64_t FirstKey(int64_t row) const {
    const int64_t first = spec_.FirstKey(Pos(row));
    return first == 0 || !HasLeft(rows_) ? first : FirstSlot(first);
  }
  // The slot of the first token at or behind a position.
  int64_t FirstSlot(int64_t position) const {
    const HeadSlots own = view_.SlotsOf(item_.kv_head);
    if (position >= own.n_kept + own.gone) return position - own.gone;
    const std::span<const int32_t> kept = view_.KeptBy(item_.kv_head);
    return std::lower_bound(kept.begin(), kept.end(), position) - kept.begin();
  }
  // The token that has a key number.
  int64_t TokenAt(int64_t key) const {
    if (item_.skipped == 0) return view_.TokenAt(item_.kv_head, key);
    return TileOf(item_, FirstTile(item_), key / kTileTokens, run_.scratch) * kTileTokens +
           key % kTileTokens;
  }
  // The first tile that the item's first query sees.
  int64_t FirstTile(const FlashItem& item) const {
    const SequenceRows& rows = run_.rows[static_cast<size_t>(item.sequence)];
    return spec_.FirstKey(rows.start_pos + item.query_begin) / kTileTokens;
  }
  static int InSplit(int64_t key, int64_t split) {
    const int64_t n = key - split * kSplitKeys;
    return static_cast<int>(n < 0 ? 0 : n > kSplitKeys ? kSplitKeys : n);
  }
  int First(int64_t row, int64_t split) const { return InSplit(FirstKey(row), split); }
  int Visible(int64_t row, int64_t split) const { return InSplit(Keys(row), split); }

  // What a row's query is multiplied by.
  float Scale(int64_t row) const {
    const double temperature = spec_.query_temperature.At(Pos(row));
    return static_cast<float>(static_cast<double>(spec_.scale) * temperature);
  }

  float* Shared() const { return run_.scratch.data() + item_.partials; }
  PartialRows SharedSplit(int64_t split) const {
    return SharedPartials::Split(Shared(), split, widths_.v, n_rows_);
  }

  // Takes the item's splits off the shared count; true when nobody else has any left. All that the
  // others wrote is then visible here.
  bool IsLast(int64_t n_splits) const {
    const auto n = static_cast<float>(n_splits);
    return std::atomic_ref<float>(*Shared()).fetch_sub(n, std::memory_order_acq_rel) == n;
  }

  template <class KeyLanes>
  void PackQueries() {
    using Element = typename KeyLanes::Element;
    constexpr int kStep = KeyLanes::kStep;
    for (int64_t row = 0; row < n_rows_; ++row) {
      const float* q = run_.q.Row(TensorRow(row), Head(row));
      V scale = V::Set(Scale(row));
      if constexpr (KeyLanes::kScaled) {
        const RowUnit unit = FindQueryUnit(q);
        scratch_.q_units[row] = unit.unit * Scale(row);
        scale = V::Set(unit.inverse);
      }
      auto* packed = reinterpret_cast<Element*>(scratch_.q + row / kBlockRows * scratch_.q_stride);
      packed += row % kBlockRows * kStep;
      for (int d = 0; d < widths_.k; d += 16) {
        const int n = widths_.k - d < 16 ? widths_.k - d : 16;
        Element elements[16];
        KeyLanes::Narrow(V::Mul(V::LoadFirst(q + d, n), scale), elements);
        for (int i = 0; i < 16; i += kStep) {
          std::memcpy(packed, elements + i, sizeof(Element) * kStep);
          packed += kBlockRows * kStep;
        }
      }
    }
  }

  RowUnit FindQueryUnit(const float* q) const {
    UnitFinder<V> finder;
    for (int d = 0; d < widths_.k; d += 16) {
      finder.Add(V::LoadFirst(q + d, widths_.k - d < 16 ? widths_.k - d : 16));
    }
    return finder.Find(widths_.k);
  }

  // All rows against one split; block by block, each merged into `left` if asked to.
  template <class KeyLanes, class ValueLanes>
  void AttendSplit(int64_t split, const PartialRows& to, bool merge) {
    const bool in_k = view_.v_in_k;
    const Tiles stored_k = FindTiles(item_, view_.k, split);
    const Tiles stored_v = in_k ? stored_k : FindTiles(item_, view_.v, split);
    const Tiles k = Multiplied<KeyLanes, true>(stored_k, split);
    const Tiles v =
        in_k ? Turned<ValueLanes>(stored_k, split) : Multiplied<ValueLanes, false>(stored_v, split);
    const Tiles next_k = FindNext(&KvView::k, split, stored_v);
    const bool fetches_next_v = ValueLanes::kWide && !in_k;
    const Tiles next_v = fetches_next_v ? FindNext(&KvView::v, split, stored_v) : stored_v;
    for (int64_t row = 0; row < n_rows_; row += kBlockRows) {
      const int64_t n = n_rows_ - row < kBlockRows ? n_rows_ - row : kBlockRows;
      if (Visible(row + n - 1, split) == 0 || First(row, split) == kSplitKeys) continue;
      // The first block fetches for all. What was unpacked is near; the second block then fetches
      // the values to unpack next.
      const Tiles* ahead_of_k = row == 0 && !ValueLanes::kWide && !in_k ? &v : nullptr;
      const Tiles* ahead_of_v = row == 0 ? &next_k : nullptr;
      if (fetches_next_v && row == kBlockRows) ahead_of_v = &next_v;
      Block block = MakeBlock(split, row, {&k, ahead_of_k}, {&v, ahead_of_v});
      block.template Score<KeyLanes>();
      SumBlock<ValueLanes>(split, row, merge ? to : to.From(row), &block);
      if (merge) MergeRows(split, row, n, to, scratch_.left.From(row));
    }
  }

  // The tiles as the lanes read them.
  template <class L, bool kKeys>
  Tiles Multiplied(const Tiles& stored, int64_t split) const {
    if constexpr (L::kWide) {
      const int first = First(0, split);
      const int n_keys = Visible(n_rows_ - 1, split);
      float* memory = kKeys ? scratch_.keys : scratch_.values;
      const int width = kKeys ? widths_.k : widths_.v;
      if ((kKeys ? view_.k : view_.v).codec == Codec::kInt8) {
        return Block::template Unpack<typename Level::Int8, kKeys>(stored, width, {first, n_keys},
                                                                   memory);
      }
      return Block::template Unpack<typename Level::Int4, kKeys>(stored, width, {first, n_keys},
                                                                 memory);
    } else {
      return stored;
    }
  }

  // Values that are in keys, as the lanes read them.
  template <class L>
  Tiles Turned(const Tiles& keys, int64_t split) const {
    const int n_keys = Visible(n_rows_ - 1, split);
    const typename Block::KeyRange range = {First(0, split), n_keys};
    return FlashTurn<Level>::template Turn<L>(keys, view_.k.codec, widths_.v, range,
                                              scratch_.values);
  }

  // The keys or values to multiply after this split, those of the worker's next item at the end of
  // this one.
  Tiles FindNext(KvSide KvView::*side, int64_t split, const Tiles& nothing) const {
    if (split + 1 < SplitsOf(item_.key_end)) return FindTiles(item_, view_.*side, split + 1);
    if (next_ == nullptr) return nothing;
    const KvView& view = run_.views[static_cast<size_t>(next_->sequence)];
    return FindTiles(*next_, view.*side, next_->key_begin / kSplitKeys);
  }

  // Beyond the item's keys its last tile again. Divides once: pages may be but a tile or two.
  Tiles FindTiles(const FlashItem& item, const KvSide& side, int64_t split) const {
    if (item.skipped > 0) return FindChosenTiles(item, side, split);
    const KvView& view = run_.views[static_cast<size_t>(item.sequence)];
    const int64_t n_tiles = (item.key_end - 1) / kTileTokens + 1 - split * Block::kSplitTiles;
    const auto page_tiles = static_cast<uint32_t>(view.page_tokens / kTileTokens);
    int64_t before = split * Block::kSplitTiles;
    if (!view.heads.empty()) before += view.heads[static_cast<size_t>(item.kv_head)].first_tile;
    const auto first = static_cast<uint32_t>(before);
    const std::byte* const* page = view.pages.data() + first / page_tiles;
    uint32_t tile = first % page_tiles;
    const int64_t begin = side.offset + item.kv_head * side.head_stride;
    Tiles tiles;
    tiles.tile_bytes = side.tile_bytes;
    const std::byte* at = nullptr;
    for (int t = 0; t < Block::kSplitTiles; ++t) {
      if (t < n_tiles) {
        at = *page + begin + tile * side.tile_bytes;
        if (++tile == page_tiles) ++page, tile = 0;
      }
      tiles.at[t] = at;
    }
    return tiles;
  }

  Tiles FindChosenTiles(const FlashItem& item, const KvSide& side, int64_t split) const {
    const KvView& view = run_.views[static_cast<size_t>(item.sequence)];
    const int64_t first = FirstTile(item);
    const int64_t last = (item.key_end - 1) / kTileTokens;
    Tiles tiles;
    tiles.tile_bytes = side.tile_bytes;
    for (int t = 0; t < Block::kSplitTiles; ++t) {
      const int64_t number = std::clamp(split * Block::kSplitTiles + t, first, last);
      tiles.at[t] = view.Tile(side, item.kv_head, TileOf(item, first, number, run_.scratch));
    }
    return tiles;
  }

  // Rows [row, row + kBlockRows), or the fewer there are, against one split.
  Block MakeBlock(int64_t split, int64_t row, const Operand& k, const Operand& v) const {
    Block block;
    block.q = scratch_.q + row / kBlockRows * scratch_.q_stride;
    block.q_units = scratch_.q_units + row;
    block.scores = scratch_.scores;
    block.widths = widths_;
    block.n_rows = static_cast<int>(n_rows_ - row < kBlockRows ? n_rows_ - row : kBlockRows);
    for (int r = 0; r < block.n_rows; ++r) {
      block.first[r] = First(row + r, split);
      block.n_visible[r] = Visible(row + r, split);
    }
    block.k = k;
    block.v = v;
    return block;
  }

  // The softmax of a block's scores, and the values summed by it. The maxima of all rows come
  // first: else each row's weights would wait for its own.
  template <class ValueLanes>
  void SumBlock(int64_t split, int64_t row, const PartialRows& to, Block* block) const {
    for (int r = 0; r < block->n_rows; ++r) {
      const int n = block->n_visible[r];
      block->units[r] = {};
      if (block->first[r] >= n) continue;
      ChangeScores(row + r, split, block->scores + r * kSplitKeys);
      if (!run_.captures.empty()) {
        CaptureScores(row + r, split, block->scores + r * kSplitKeys, n);
      }
      to.max[r] = block->FindMax(r);
    }
    for (int r = 0; r < block->n_rows; ++r) {
      if (block->first[r] >= block->n_visible[r]) continue;
      const Softmax softmax = block->template Weigh<ValueLanes>(r, to.max[r]);
      to.sum[r] = softmax.sum;
      if (row + r < first_kept_) continue;
      const int64_t kept = row + r - first_kept_;
      kept_.Factor(kept, split - leftmost_) = softmax.max;
      FlashMass<Level>::template Keep<typename ValueLanes::Probabilities>(
          block->scores + r * kSplitKeys, block->first[r], block->n_visible[r],
          kept_.Weights(kept, split - leftmost_));
    }
    if constexpr (ValueLanes::kScaled) {
      for (int r = 0; r < block->n_rows; ++r) block->template RoundWeights<ValueLanes>(r);
    }
    block->out = to.out;
    block->out_stride = to.out_stride;
    block->template SumValues<ValueLanes>();
  }

  // What the model wants done to the scores of a row before the softmax.
  void ChangeScores(int64_t row, int64_t split, float* scores) const {
    const int begin = First(row, split) / 16 * 16;
    const int end = Visible(row, split);
    if (spec_.soft_cap > 0.0F) {
      const V cap = V::Set(spec_.soft_cap);
      for (int i = begin; i < end; i += 16) {
        V::Mul(Tanh(V::Div(V::Load(scores + i), cap)), cap).Store(scores + i);
      }
    }
    if (!spec_.alibi_slopes.empty()) {
      const float own_slope = spec_.alibi_slopes[static_cast<size_t>(Head(row))];
      if (gone_ > 0) {
        for (int i = begin; i < end; ++i) {
          const int64_t key = TokenAt(split * kSplitKeys + i);
          scores[i] -= own_slope * static_cast<float>(Pos(row) - key);
        }
        return;
      }
      static constexpr float kKeys[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
      const V slope = V::Set(own_slope);
      for (int i = begin; i < end; i += 16) {
        const int64_t distance = Pos(row) - split * kSplitKeys - i;
        const V distances = V::Sub(V::Set(static_cast<float>(distance)), V::Load(kKeys));
        V::Sub(V::Load(scores + i), V::Mul(slope, distances)).Store(scores + i);
      }
    }
  }

  // Merges a split of rows [row, row + n_rows) into what the splits to its left gave.
  void MergeRows(int64_t split, int64_t row, int64_t n_rows, const PartialRows& right,
                 const PartialRows& left) const {
    for (int64_t r = 0; r < n_rows; ++r) {
      if (First(row + r, split) >= Visible(row + r, split)) continue;
      Softmax merged = {right.max[r], right.sum[r]};
      if (FirstKey(row + r) >= split * kSplitKeys) {  // nothing to its left
        std::memcpy(left.From(r).out, right.From(r).out,
                    static_cast<size_t>(right.out_stride) * sizeof(float));
      } else {
        merged = {left.max[r], left.sum[r]};
        SplitSoftmax<Level>::Merge({right.max[r], right.sum[r]}, right.From(r).out,
                                   right.out_stride, &merged, left.From(r).out);
      }
      left.max[r] = merged.max;
      left.sum[r] = merged.sum;
    }
  }

  template <class Probabilities>
  void Finish(const PartialRows& result) const {
    for (int64_t row = 0; row < n_rows_; ++row) {
      Softmax softmax = {result.max[row], result.sum[row]};
      float* const from = result.From(row).out;
      if (!spec_.sinks.empty()) {
        const float sink = spec_.sinks[static_cast<size_t>(Head(row))];
        const V factor = V::Set(SplitSoftmax<Level>::AddSink(sink, &softmax));
        for (int d = 0; d < widths_.v; d += 16) {
          V::Mul(V::Load(from + d), factor).Store(from + d);
        }
      }
      const V sum = V::Set(softmax.sum);
      if (row >= first_kept_) FindFactors(row, softmax);
      float* to = run_.out.Row(TensorRow(row), Head(row));
      for (int d = 0; d < widths_.v; d += 16) {
        const int count = widths_.v - d < 16 ? widths_.v - d : 16;
        V::Div(V::Load(from + d), sum).StoreFirst(to + d, count);
      }
      if (run_.captures.empty()) continue;
      for (const ProbabilityRow& capture : Captures(row)) {
        SplitSoftmax<Level>::template FinishCapture<Probabilities>(softmax, FirstKey(row),
                                                                   Keys(row), capture.out);
        SpreadCapture(capture);
      }
    }
    for (int64_t row = first_kept_; row < n_rows_; row += group_) AddProbabilities(row);
  }

  KeptWeights FindKept(float* memory) const {
    const bool own = item_.weights < 0;
    memory = own ? memory + WorkerScratch::Floats(widths_, n_rows_, kBlockRows)
                 : run_.scratch.data() + item_.weights;
    return KeptWeights::At(memory, n_rows_ - first_kept_, leftmost_, SplitsOf(Keys(n_rows_ - 1)));
  }

  void FindFactors(int64_t row, Softmax softmax) const {
    for (int64_t split = FirstKey(row) / kSplitKeys; split < SplitsOf(Keys(row)); ++split) {
      float& factor = kept_.Factor(row - first_kept_, split - leftmost_);
      factor = FlashMass<Level>::Factor(factor, softmax);
    }
  }

  // What the heads of a query, whose rows begin at `row`, give to the slots.
  void AddProbabilities(int64_t row) const {
    const TensorView<float, 3>& mass = run_.attended[static_cast<size_t>(item_.sequence)];
    const int64_t first = rows_.n_tokens - rows_.mass_tokens;
    float* const to = mass.Row(item_.query_begin + row / group_ - first, item_.kv_head);
    FlashMass<Level>::AddUp(kept_, row - first_kept_, group_,
                            {FirstKey(row), Keys(row), mass.extent[2]}, to);
  }

  // From numbers to positions, where keys are not read: no token's number is beyond its position.
  void SpreadCapture(const ProbabilityRow& capture) const {
    if (gone_ == 0) return;
    int64_t end = capture.pos + 1;  // what lies behind is where it belongs
    for (int64_t key = end - gone_; key-- > 0;) {
      const float probability = capture.out[key];
      const int64_t token = TokenAt(key);
      while (end > token + 1) capture.out[--end] = 0.0F;
      capture.out[--end] = probability;
    }
    while (end > 0) capture.out[--end] = 0.0F;
  }

  void CaptureScores(int64_t row, int64_t split, const float* scores, int n) const {
    for (const ProbabilityRow& capture : Captures(row)) {
      const int first = First(row, split);
      std::memcpy(capture.out + split * kSplitKeys + first, scores + first,
                  static_cast<size_t>(n - first) * sizeof(float));
    }
  }

  std::span<const ProbabilityRow> Captures(int64_t row) const {
    return FindCaptures(run_.captures, item_.sequence, Pos(row), Head(row));
  }

  const AttentionRun& run_;
  const FlashItem& item_;
  const FlashItem* const next_;  // may be null
  const SequenceRows& rows_;
  const KvView& view_;
  const AttentionSpec& spec_;
  const HeadWidths widths_;
  const int group_;
  const int64_t gone_;  // keys that no row reads
  const int64_t n_rows_;
  const WorkerScratch scratch_;
  const int64_t first_kept_;  // row whose weights are kept; n_rows_: of none
  const int64_t leftmost_;    // split of all the items that share the rows
  const KeptWeights kept_;
};

// A Level names its vector V, the lane struct of each codec, the rows of a block, and how many
// accumulators, and columns side by side, its registers hold.
template <class Level>
struct Flash {
  template <class KeyLanes, class ValueLanes>
  static void AttendIn(const AttentionRun& run, const FlashWork& work, float* scratch) {
    using ManyKeyLanes = typename ManyRows<KeyLanes>::Lanes;
    using ManyValueLanes = typename ManyRows<ValueLanes>::Lanes;
    if constexpr (KeyLanes::kScaled || ValueLanes::kScaled) {
      // Values that were turned are unpacked already.
      const bool turned = run.views[static_cast<size_t>(work.item.sequence)].v_in_k;
      if (turned) {
        return FlashRows<Level>(run, work, scratch).template Attend<ManyKeyLanes, ManyValueLanes>();
      }
      const int64_t n_queries = work.item.query_end - work.item.query_begin;
      if (n_queries * work.spec.n_heads / work.spec.n_kv_heads > Level::kBlockRows) {
        return FlashRows<Level>(run, work, scratch).template Attend<ManyKeyLanes, ManyValueLanes>();
      }
    }
    FlashRows<Level>(run, work, scratch).template Attend<KeyLanes, ValueLanes>();
  }

  template <class KeyLanes>
  static void AttendKeys(const AttentionRun& run, const FlashWork& work, float* scratch) {
    switch (run.views[static_cast<size_t>(work.item.sequence)].v.codec) {
      case Codec::kF32:
        return AttendIn<KeyLanes, typename Level::F32>(run, work, scratch);
      case Codec::kBf16:
        return AttendIn<KeyLanes, typename Level::Bf16>(run, work, scratch);
      case Codec::kF16:
        return AttendIn<KeyLanes, typename Level::F16>(run, work, scratch);
      case Codec::kInt8:
        return AttendIn<KeyLanes, typename Level::Int8>(run, work, scratch);
      case Codec::kInt4:
        return AttendIn<KeyLanes, typename Level::Int4>(run, work, scratch);
    }
  }

  static void Attend(const AttentionRun& run, const FlashWork& work, float* scratch) {
    switch (run.views[static_cast<size_t>(work.item.sequence)].k.codec) {
      case Codec::kF32:
        return AttendKeys<typename Level::F32>(run, work, scratch);
      case Codec::kBf16:
        return AttendKeys<typename Level::Bf16>(run, work, scratch);
      case Codec::kF16:
        return AttendKeys<typename Level::F16>(run, work, scratch);
      case Codec::kInt8:
        return AttendKeys<typename Level::Int8>(run, work, scratch);
      case Codec::kInt4:
        return AttendKeys<typename Level::Int4>(run, work, scratch);
    }
  }

  static constexpr FlashKernel kKernel = {.block_rows = Level::kBlockRows, .attend = Attend};
};

}  // namespace ng
