// The store with a budget: which tokens stay, and how the others leave.
#include <algorithm>
#include <cstring>

#include "ng/executor.h"
#include "plugins/cache/budget/budget_store.h"
#include "plugins/cache/budget/head_runs.h"
#include "plugins/cache/budget/keep.h"

namespace ng {

absl::Status BudgetStore::Choose(const SequenceRows& rows) {
  const int64_t length = rows.start_pos + rows.n_tokens;
  NG_RETURN_IF_ERROR(ParallelFor(executor_, shape_.lanes, [&](int64_t lane, int64_t end, int) {
    for (; lane < end; ++lane) {
      absl::Status& chosen = chosen_[static_cast<size_t>(lane)];
      chosen = absl::OkStatus();
      for (int64_t of = lane; of < n_layers_ && chosen.ok(); of += shape_.lanes) {
        const auto layer = static_cast<int>(of);
        if (!EvictsIn(layer, rows)) continue;
        chosen = ChooseInLayer(rows, View(layer, rows.sequence, length), lane);
      }
    }
  }));
  for (const absl::Status& chosen : chosen_) NG_RETURN_IF_ERROR(chosen);
  return absl::OkStatus();
}

absl::Status BudgetStore::ChooseInLayer(const SequenceRows& rows, const KvView& view,
                                        int64_t lane) {
  const auto n = static_cast<size_t>(view.n_slots());
  const int64_t n_kept = KeptIn(view.sequence, view.layer, view.length);
  for (int head = 0; head < n_kv_heads_; ++head) NG_RETURN_IF_ERROR(Score(rows, view, head, lane));
  if (shape_.adaptive) {
    ChooseOverHeads(view, lane);
    return absl::OkStatus();
  }
  if (!options_.per_head) {
    const std::span<float> mean = ScoresOf(lane, view, 0);
    for (size_t slot = 0; slot < n; ++slot) {
      double sum = 0.0;
      for (int head = 0; head < n_kv_heads_; ++head) {
        sum += double{ScoresOf(lane, view, head)[slot]};
      }
      mean[slot] = static_cast<float>(sum / n_kv_heads_);
    }
  }
  for (int head = 0; head < n_kv_heads_; ++head) {
    const std::span<int32_t> chosen =
        OfHead(shape_.chosen, view.sequence, view.layer, head, n_kept);
    if (head > 0 && !options_.per_head) {
      std::ranges::copy(OfHead(shape_.chosen, view.sequence, view.layer, 0, n_kept),
                        chosen.begin());
      continue;
    }
    KeepBest(ScoresOf(lane, view, head), options_.sinks, options_.recent,
             Part<int32_t>(shape_.order, lane, shape_.n_ordered), chosen);
  }
  return absl::OkStatus();
}

absl::Status BudgetStore::Score(const SequenceRows& rows, const KvView& view, int kv_head,
                                int64_t lane) {
  const int64_t n = view.n_slots(kv_head);
  const auto first = static_cast<size_t>(n);
  const std::span<int32_t> held = Part<int32_t>(shape_.held, lane, shape_.head_slots).first(first);
  for (int64_t slot = 0; slot < n; ++slot) {
    held[static_cast<size_t>(slot)] = static_cast<int32_t>(view.TokenAt(kv_head, slot));
  }
  HeldTokens tokens{.layer = layers_[static_cast<size_t>(view.layer)],
                    .kv_head = kv_head,
                    .n_kv_heads = n_kv_heads_,
                    .length = view.length,
                    .positions = held};
  const auto decode = [&](KvPart part, int64_t offset, int64_t width) {
    float* const decoded = Part<float>(offset, lane, shape_.head_slots * width).data();
    CopySlots(part, view, kv_head, n, decoded);
    return TensorView<const float, 2>(decoded, {n, width});
  };
  if (shape_.has_keys) tokens.keys = decode(KvPart::kKey, shape_.keys, head_dim_);
  if (shape_.has_values) tokens.values = decode(KvPart::kValue, shape_.values, value_dim_);
  const Policy& policy = *RuleOf(rows.sequence).policy;
  if (GoesByAttention(policy)) {
    const std::span<float> masses =
        Part<float>(shape_.masses, lane, shape_.head_slots).first(first);
    AttendedOf(policy).Sum(view.layer, kv_head, rows, masses);
    tokens.attended = masses;
  }
  if (GoesByQueries(policy)) {
    const LayerRotation& rotation = rotations_[static_cast<size_t>(view.layer)];
    tokens.queries = QueriesOf(policy).Of(
        view.layer, kv_head, rows, Part<double>(shape_.statistics, lane, shape_.statistics_size));
    tokens.queries.scale = rotation.scale;
    tokens.rotation = rotation.rotation;
  }
  return policy.Score(tokens, ScoresOf(lane, view, kv_head));
}

std::span<float> BudgetStore::ScoresOf(int64_t lane, const KvView& view, int kv_head) const {
  int64_t first = kv_head * (shape_.adaptive ? 0 : shape_.slots);
  for (int head = 0; head < kv_head && shape_.adaptive; ++head) first += view.n_slots(head);
  return Part<float>(shape_.scores, lane, n_kv_heads_ * shape_.slots)
      .subspan(static_cast<size_t>(first), static_cast<size_t>(view.n_slots(kv_head)));
}

std::span<int32_t> BudgetStore::ChosenOf(SequenceId sequence, int layer, int kv_head,
                                         int64_t n_kept) const {
  if (!shape_.adaptive) return OfHead(shape_.chosen, sequence, layer, kv_head, n_kept);
  const HeadSlots& next = HeadsIn(next_heads_, sequence, layer)[static_cast<size_t>(kv_head)];
  return OfHead(shape_.chosen, sequence, layer, 0, n_kv_heads_ * n_kept)
      .subspan(static_cast<size_t>(next.positions), static_cast<size_t>(next.n_kept));
}

void BudgetStore::ChooseOverHeads(const KvView& view, int64_t lane) {
  const int64_t n_kept = KeptIn(view.sequence, view.layer, view.length);
  const std::span<HeadSlots> next = HeadsIn(next_heads_, view.sequence, view.layer);
  int64_t n_all = 0;
  for (int head = 0; head < n_kv_heads_; ++head) n_all += view.n_slots(head);
  const auto all = static_cast<size_t>(n_all);
  const auto stays = Part<unsigned char>(shape_.stays, lane, shape_.n_ordered).first(all);
  KeepBestOfLayer(
      {.sinks = options_.sinks,
       .recent = options_.recent,
       .least = RuleOf(view.sequence).options.LeastKept(n_kept),
       .total = n_kv_heads_ * n_kept},
      {.scores = Part<float>(shape_.scores, lane, n_kv_heads_ * shape_.slots).first(all),
       .view = view,
       .order = Part<int32_t>(shape_.order, lane, shape_.n_ordered).first(all),
       .stays = stays});
  const std::span<int32_t> chosen =
      OfHead(shape_.chosen, view.sequence, view.layer, 0, n_kv_heads_ * n_kept);
  size_t n_chosen = 0;
  size_t at = 0;  // in `stays`
  for (int head = 0; head < n_kv_heads_; ++head) {
    const size_t before = n_chosen;
    for (int64_t slot = 0; slot < view.n_slots(head); ++slot, ++at) {
      if (stays[at] == 1) chosen[n_chosen++] = static_cast<int32_t>(slot);
    }
    next[static_cast<size_t>(head)].n_kept = static_cast<int64_t>(n_chosen - before);
  }
  PlaceHeads(view.length, next);
}

void BudgetStore::PlaceHeads(int64_t length, std::span<HeadSlots> heads) const {
  // So many positions may still come before tokens leave again.
  const int64_t to_end = max_tokens_ - length;
  const int64_t room = options_.at_mark ? to_end : std::min(options_.every, to_end);
  int64_t n_kept = 0;
  int64_t n_tiles = 0;
  for (HeadSlots& head : heads) {
    head.gone = length - head.n_kept;
    head.positions = n_kept;
    head.first_tile = n_tiles;
    n_kept += head.n_kept;
    n_tiles += TilesOf(head.n_kept + room);
  }
}

void BudgetStore::EvictFrom(const SequenceRows& rows, int layer, int head) {
  const int64_t length = rows.start_pos + rows.n_tokens;
  const KvView view = View(layer, rows.sequence, length);
  const int64_t n_kept = KeptIn(rows.sequence, layer, length);
  const std::span<int32_t> chosen = ChosenOf(rows.sequence, layer, head, n_kept);
  // Rising, and none comes before its new place: what is still to be read is still there.
  for (size_t to = 0; to < chosen.size(); ++to) {
    if (chosen[to] != static_cast<int32_t>(to)) {
      MoveSlot(view, head, chosen[to], static_cast<int64_t>(to));
    }
  }
  for (const auto& sums : attended_) sums->Keep(layer, head, rows.sequence, chosen);
  for (int32_t& slot : chosen) slot = static_cast<int32_t>(view.TokenAt(head, slot));
}

void BudgetStore::MoveHeads(const SequenceRows& rows, int layer) {
  const KvView view = View(layer, rows.sequence, rows.start_pos + rows.n_tokens);
  const BudgetShape::Layer& shape = shape_.layers[static_cast<size_t>(layer)];
  const std::span<HeadSlots> next = HeadsIn(next_heads_, rows.sequence, layer);
  const auto before = [&](int head) {
    return view.heads.empty() ? head * shape.head_tiles
                              : view.heads[static_cast<size_t>(head)].first_tile;
  };
  const auto after = [&](int head) { return next[static_cast<size_t>(head)].first_tile; };
  MoveRuns(n_kv_heads_, before, after, [&](int head) {
    const int64_t tiles = TilesOf(next[static_cast<size_t>(head)].n_kept);
    for (const KvSide* side : {&view.k, &view.v}) {
      if (tiles == 0 || (side == &view.v && view.v_in_k)) continue;
      auto* const from = const_cast<std::byte*>(view.Tile(*side, head, 0));
      std::memmove(from + (after(head) - before(head)) * side->tile_bytes, from,
                   static_cast<size_t>(tiles * side->tile_bytes));
    }
  });
  for (const auto& sums : attended_) {
    sums->Left(layer, rows.sequence, std::ranges::max(next, {}, &HeadSlots::n_kept).n_kept, next);
  }
  std::ranges::copy(next, HeadsIn(heads_, rows.sequence, layer).begin());
}

absl::Status BudgetStore::Evict(const SequenceRows& rows) {
  const SequenceId sequence = rows.sequence;
  const int64_t length = rows.start_pos + rows.n_tokens;
  const int64_t n_items = int64_t{n_layers_} * n_kv_heads_;
  for (const auto& sums : attended_) sums->Settle(rows);
  NG_RETURN_IF_ERROR(ParallelFor(executor_, n_items, [&](int64_t item, int64_t end, int) {
    for (; item < end; ++item) {
      const int layer = static_cast<int>(item / n_kv_heads_);
      if (EvictsIn(layer, rows)) EvictFrom(rows, layer, static_cast<int>(item % n_kv_heads_));
    }
  }));
  NG_RETURN_IF_ERROR(ParallelFor(executor_, n_layers_, [&](int64_t of, int64_t end, int) {
    for (; of < end; ++of) {
      const auto layer = static_cast<int>(of);
      if (!EvictsIn(layer, rows)) continue;
      const int64_t n_kept = KeptIn(sequence, layer, length);
      if (shape_.adaptive) {
        MoveHeads(rows, layer);
      } else {
        for (const auto& sums : attended_) sums->Left(layer, sequence, n_kept, {});
      }
      const int64_t n_positions = n_kv_heads_ * n_kept;
      std::ranges::copy(OfHead(shape_.chosen, sequence, layer, 0, n_positions),
                        OfHead(shape_.positions, sequence, layer, 0, n_positions).begin());
    }
  }));
  for (int layer = 0; layer < n_layers_; ++layer) {
    if (!EvictsIn(layer, rows)) continue;
    const int64_t n_kept = KeptIn(sequence, layer, length);
    Held& held = held_.At(sequence, layer);
    n_gone_ += length - n_kept - held.gone;
    held = {.gone = length - n_kept, .kept = n_kept};
  }
  ++n_evictions_;
  At(sequence).left_at = length;
  return absl::OkStatus();
}

}  // namespace ng
