// Decoder: its blocks of attention, from the first matrix to the last.
#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "core/model/decoder/decoder.h"
#include "core/model/rows/router.h"

namespace ng {
namespace {

constexpr int64_t kScratchAlignFloats = 16;  // 64 bytes

float* AlignScratch(std::vector<float>& buffer) {
  const auto address = reinterpret_cast<uintptr_t>(buffer.data());
  const uintptr_t aligned = (address + 63) & ~uintptr_t{63};
  return buffer.data() + (aligned - address) / sizeof(float);
}

void Clip(float limit, int64_t n, float* x) {
  for (int64_t i = 0; i < n; ++i) x[i] = std::clamp(x[i], -limit, limit);
}

}  // namespace

absl::Status Decoder::PlanAttention() {
  NG_RETURN_IF_ERROR(attention_.Plan(rows_));
  const int64_t n_floats = attention_.scratch_floats() + kScratchAlignFloats;
  // What is in it is of no use any more, so it goes before more is taken.
  if (std::ssize(scratch_) < n_floats) scratch_ = std::vector<float>();
  GrowTo(scratch_, n_floats);
  return absl::OkStatus();
}

absl::Status Decoder::PlanSlots() {
  bool differs = false;
  for (size_t i = 0; i < rows_.size(); ++i) {
    differs |= std::exchange(rows_[i].gone, views_[i].gone) != views_[i].gone;
    const std::span<const HeadSlots> heads = std::exchange(rows_[i].heads, views_[i].heads);
    differs |= !std::ranges::equal(heads, views_[i].heads, {}, &HeadSlots::gone, &HeadSlots::gone);
  }
  return differs ? PlanAttention() : absl::OkStatus();
}

absl::Status Decoder::AttentionBlock(const StepBatch& batch, int layer, const Block& block) {
  const auto& [spec, w, input] = block;
  const SelfAttentionSpec& whole = spec_.AttentionOf(spec);
  const RankParts::Attention& part = ranks_.attentions[static_cast<size_t>(spec.part)];
  const SelfAttentionSpec& shape = part.spec;
  const bool latents = shape.latent.is_there();
  const int64_t row_width = shape.row_width();
  NG_ASSIGN_OR_RETURN(const MatmulInput normed, ShownInput(Point::kAttnIn, block));
  TensorView<float, 2> in =
      latents ? Rows(act_.latent, shape.in_width()) : Rows(act_.qkv, row_width);
  in.extent[1] = shape.in_width();
  NG_RETURN_IF_ERROR(Matmul(Product(w.in, w.in_bias, normed), in));
  if (latents) NG_RETURN_IF_ERROR(ProjectLatents(shape, w));
  NG_RETURN_IF_ERROR(NormAndRotate(spec, w));

  const CutRows attended_rows = {part.given, n_rows_, At(act_.attended, whole.attended_width())};
  const bool rounded = GivesRounded(block, part.given, Point::kAttnHead);
  const bool direct = !rounded && turns_ == nullptr;
  NG_RETURN_IF_ERROR(
      Together([&] { return Attend(batch, layer, block, direct ? &attended_rows : nullptr); }));
  const float* const own = At(act_.attended, shape.attended_width());  // where it is not direct
  if (rounded) {
    NG_ASSIGN_OR_RETURN(const MatmulInput attended, GatherRounded(part.given, own, w.out));
    return AddProduct(block, attended);
  }
  // The rows of all ranks are wider. No piece gets these before all have given their own.
  if (!direct && !part.given.empty()) {
    std::copy_n(own, n_rows_ * shape.attended_width(), Own(attended_rows));
  }
  NG_RETURN_IF_ERROR(Gather(attended_rows));
  float* heads = attended_rows.whole;
  if (latents) {
    heads = At(act_.heads, shape.out_width());
    NG_RETURN_IF_ERROR(
        MultiplyHeads(w.heads, &MatrixPair::out,
                      {attended_rows.whole, shape.attended_width(), shape.attended_dim()},
                      {heads, shape.out_width(), shape.value_dim()}));
  }
  NG_RETURN_IF_ERROR(NormRows({spec.inner, w.inner}, whole.out_width(), heads));
  NG_RETURN_IF_ERROR(LookAtHeads(
      Point::kAttnHead, TensorView<float, 3>(heads, {n_rows_, whole.n_heads, whole.value_dim()})));
  NG_ASSIGN_OR_RETURN(const MatmulInput attended, Rounded(heads, w.out.k(), w.out));
  return AddProduct(block, attended);
}

absl::Status Decoder::Attend(const StepBatch& batch, int layer, const Block& block,
                             const CutRows* sent) {
  const SelfAttentionSpec& whole = spec_.AttentionOf(block.spec);
  const RankParts::Attention& part = ranks_.attentions[static_cast<size_t>(block.spec.part)];
  const SelfAttentionSpec& shape = part.spec;
  const bool latents = shape.latent.is_there();
  // q, k, v and the gate lie side by side in each row of act_.qkv.
  TensorView<float, 3> q(act_.qkv.data(), {n_rows_, shape.n_heads, shape.key_dim()});
  TensorView<float, 3> k(act_.qkv.data() + shape.q_width(),
                         {n_rows_, shape.kv_heads(), shape.key_dim()});
  // A latent is v too.
  TensorView<float, 3> v(latents ? k.data : k.data + shape.k_width(),
                         {n_rows_, shape.kv_heads(), shape.attended_dim()});
  q.stride[0] = k.stride[0] = v.stride[0] = shape.row_width();
  const RankHeads& held = part.heads;
  NG_RETURN_IF_ERROR(LookAtRankHeads(Point::kQ, q, {part.given_q, whole.n_heads, held.first}));
  if (shape.has_keys()) {
    const int n_kv = whole.kv_heads();
    NG_RETURN_IF_ERROR(LookAtRankHeads(Point::kK, k, {part.given_k, n_kv, held.kv_first}));
    NG_RETURN_IF_ERROR(LookAtRankHeads(Point::kV, v, {part.given_v, n_kv, held.kv_first}));
  }

  const int number = numbers_[static_cast<size_t>(layer)];
  const int cache_layer = cache_layers_[static_cast<size_t>(number)];
  if (shape.has_keys()) {
    if (queries_wanted_ != nullptr) NG_RETURN_IF_ERROR(TellQueries(cache_layer, shape));
    NG_RETURN_IF_ERROR(parts_.cache->Append(cache_layer, rows_, k, v));
  }
  for (size_t i = 0; i < rows_.size(); ++i) {
    const SequenceRows& entry = rows_[i];
    views_[i] = parts_.cache->View(cache_layer, entry.sequence, entry.start_pos + entry.n_tokens);
  }
  if (slots_) NG_RETURN_IF_ERROR(PlanSlots());
  if (batch.observer != nullptr) batch.observer->OnAttention(layer, rows_, views_);

  AttentionRun run;
  run.layer = number;
  run.rows = rows_;
  run.q = q;
  run.views = views_;
  float* const attended = sent == nullptr ? act_.attended.data() : Own(*sent);
  run.out = {attended, {n_rows_, shape.n_heads, shape.attended_dim()}};
  run.scratch = {AlignScratch(scratch_), static_cast<size_t>(attention_.scratch_floats())};
  std::span<const ProbabilityRow> captures;
  if (!batch.captures.empty()) captures = batch.captures[static_cast<size_t>(layer)];
  run.captures = part.heads.cut ? OwnCaptures(captures, part.heads) : captures;
  const bool told = mass_wanted_ != nullptr && shape.has_keys();
  if (told) run.attended = MassOf(shape.kv_heads());
  if (!batch.missed.empty()) {
    GrowTo(missed_, n_rows_ * shape.n_heads);
    run.missed = {missed_.data(), {n_rows_, shape.n_heads}};
  }
  NG_RETURN_IF_ERROR(attention_.Run(run));
  if (!batch.missed.empty()) AddMissed(batch, layer, run.missed);
  if (part.heads.cut) NG_RETURN_IF_ERROR(ShareCaptures(captures, part));
  if (told) NG_RETURN_IF_ERROR(TellMass(cache_layer));
  return shape.gate ? Gate(shape, attended) : absl::OkStatus();
}

absl::Status Decoder::ProjectLatents(const SelfAttentionSpec& attention, const BlockWeights& w) {
  const LatentSpec& latent = attention.latent;
  const int64_t in_width = attention.in_width();
  const int64_t row_width = attention.row_width();
  const int64_t kv_first = attention.q_in_width();
  float* const given = At(act_.latent, in_width);
  float* const made = At(act_.qkv, row_width);
  NG_RETURN_IF_ERROR(ForRows(n_rows_, [&](int64_t row, int /*worker*/) {
    float* const x = given + row * in_width;
    if (latent.q_rank > 0) Apply({latent.norm, w.q_norm}, x, latent.q_rank, x);
    Apply({latent.norm, w.k_norm}, x + kv_first, latent.kv_rank, x + kv_first);
  }));
  HeadRows q = {given, in_width, attention.head_dim};
  if (latent.q_rank > 0) {
    NG_ASSIGN_OR_RETURN(const MatmulInput x, Rounded(given, in_width, w.q_up));
    q.stride = attention.own_q_width();
    q.data = At(act_.heads, q.stride);
    NG_RETURN_IF_ERROR(Matmul(Product(w.q_up, {}, x), Rows(act_.heads, q.stride)));
  }
  NG_RETURN_IF_ERROR(
      MultiplyHeads(w.heads, &MatrixPair::in, q, {made, row_width, attention.key_dim()}));
  return ForRows(n_rows_, [&](int64_t row, int /*worker*/) {
    const float* turns = q.data + row * q.stride + attention.nope_dim();
    float* to = made + row * row_width + latent.kv_rank;
    for (int h = 0; h < attention.n_heads; ++h) {
      std::copy_n(turns + h * q.head_stride, latent.rope_dim, to + h * attention.key_dim());
    }
    // What the first matrix gives of k and v is a row of k.
    std::copy_n(given + row * in_width + kv_first, attention.k_width(),
                made + row * row_width + attention.q_width());
  });
}

absl::Status Decoder::MultiplyHeads(std::span<const MatrixPair> heads,
                                    PackedMatrix MatrixPair::*matrix, const HeadRows& x,
                                    const HeadRows& out) {
  const PackedMatrix& first = heads[0].*matrix;
  const int64_t k = first.k();
  const auto n_heads = static_cast<int64_t>(heads.size());
  const auto prepare = parts_.kernels->prepare[static_cast<size_t>(first.type())];
  // Of one head of one row, and from one row to the next.
  int64_t head_bytes = x.head_stride * int64_t{sizeof(float)};
  int64_t row_bytes = x.stride * int64_t{sizeof(float)};
  const auto* data = reinterpret_cast<const std::byte*>(x.data);
  if (prepare != nullptr) {
    head_bytes = InputRowBytes(parts_.kernels->input[static_cast<size_t>(first.type())], k);
    row_bytes = n_heads * head_bytes;
    std::byte* const room = InputRoom();
    data = room;
    NG_RETURN_IF_ERROR(ForRows(n_rows_, [&](int64_t row, int /*worker*/) {
      for (int64_t h = 0; h < n_heads; ++h) {
        prepare(x.data + row * x.stride + h * x.head_stride, k,
                room + row * row_bytes + h * head_bytes);
      }
    }));
  }
  act_.calls.clear();
  low_rank_.Begin(heads.size());
  const RowSets sets = SetsOf(0, n_rows_);
  const float* floats = x.data;
  for (const MatrixPair& head : heads) {
    MatmulInput rows = {data, n_rows_, k, row_bytes};
    NG_RETURN_IF_ERROR(
        low_rank_.Add(head.*matrix, FloatRows(floats, n_rows_, k, x.stride), sets, &rows));
    act_.calls.push_back(Product(head.*matrix, {}, rows));
    data += head_bytes;
    floats += x.head_stride;
  }
  return Matmuls(act_.calls, act_.strips, [&](size_t h, const MatmulTile& tile) {
    float* const to = out.data + static_cast<int64_t>(h) * out.head_stride + tile.column;
    for (int64_t row = tile.row; row < tile.row + tile.n_rows; ++row) {
      std::copy_n(tile.Row(row), tile.n_columns, to + row * out.stride);
    }
  });
}

absl::Status Decoder::Gate(const SelfAttentionSpec& attention, float* attended) {
  const int64_t width = attention.out_width();
  return ForRows(n_rows_, [&](int64_t row, int /*worker*/) {
    float* const out = attended + row * width;
    const float* const gate = act_.qkv.data() + row * attention.row_width() + attention.qkv_width();
    for (int64_t i = 0; i < width; ++i) out[i] *= Sigmoid(gate[i]);
  });
}

// Has room for all that the sequences may come to hold, so that it does not grow with every token.
void Decoder::LayOutMass() {
  const int64_t slots = parts_.cache->plan().most_slots();
  int most_kv_heads = 0;
  for (const SelfAttentionSpec& attention : spec_.attentions) {
    most_kv_heads = std::max(most_kv_heads, attention.kv_heads());
  }
  int64_t most = 0;
  for (SequenceRows& entry : rows_) {
    entry.mass_tokens = mass_wanted_->MassTokens(entry);
    int64_t n_slots =
        std::max(parts_.cache->Capacity(entry.sequence), entry.start_pos + entry.n_tokens);
    if (slots > 0) n_slots = std::min(n_slots, slots);
    most += entry.mass_tokens * most_kv_heads * n_slots;
  }
  GrowTo(mass_, most);
}

// After the views of the layer. Empty: nothing is wanted of any sequence.
std::span<const TensorView<float, 3>> Decoder::MassOf(int n_kv_heads) {
  masses_.clear();
  int64_t begin = 0;
  for (size_t i = 0; i < rows_.size(); ++i) {
    masses_.emplace_back(
        mass_.data() + begin,
        std::array<int64_t, 3>{rows_[i].mass_tokens, n_kv_heads, views_[i].n_slots()});
    begin += rows_[i].mass_tokens * n_kv_heads * views_[i].n_slots();
  }
  return begin == 0 ? std::span<const TensorView<float, 3>>() : masses_;
}

absl::Status Decoder::TellMass(int layer) {
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i].mass_tokens == 0) continue;
    NG_RETURN_IF_ERROR(mass_wanted_->Attended(layer, rows_[i], masses_[i]));
  }
  return absl::OkStatus();
}

void Decoder::SetRotations() {
  for (const int layer : spec_.LayersWith(Operation::kAttention)) {
    const auto at = static_cast<size_t>(layer);
    const SelfAttentionSpec& attention = spec_.AttentionOf(*spec_.Find(at, Operation::kAttention));
    if (!attention.has_keys()) continue;
    Rotation rotation;
    std::vector<double> angles;
    if (attention.rope >= 0) {
      const RopeSpec& rope = spec_.ropes[static_cast<size_t>(attention.rope)];
      const auto turns = ropes_[static_cast<size_t>(attention.rope)].frequencies();
      for (const double turn : turns) angles.push_back(rope.backwards ? -turn : turn);
      rotation = {angles, rope.pairing == RopePairing::kInterleaved, rope.scaling.magnitude};
    }
    const int number = numbers_[at];
    queries_wanted_->SetRotation(cache_layers_[static_cast<size_t>(number)], rotation,
                                 attention.score_scale());
  }
}

absl::Status Decoder::TellQueries(int layer, const SelfAttentionSpec& attention) {
  const std::array<int64_t, 3> extent = {n_rows_, attention.n_heads, attention.key_dim()};
  TensorView<const float, 3> q(queries_.data(), extent);
  if (attention.rope < 0) {  // they are as they were made
    q.data = act_.qkv.data();
    q.stride[0] = attention.row_width();
  }
  return queries_wanted_->Queries(layer, rows_, q);
}

void Decoder::NormHeads(const RankParts::Attention& part, const BlockWeights& w,
                        float* heads) const {
  const SelfAttentionSpec& attention = part.spec;
  const NormSpec& norm = attention.qk_norm;
  const int64_t head_dim = attention.head_dim;
  float* const k = heads + attention.q_width();
  if (attention.qk_norm_kind == QkNormKind::kWidth) {
    Apply({norm, w.q_norm}, heads, attention.q_width(), heads);
    if (attention.has_keys()) Apply({norm, w.k_norm}, k, attention.k_width(), k);
    return;
  }
  const bool each = attention.qk_norm_kind == QkNormKind::kEachHead;
  const auto kernel =
      norm.kind == NormKind::kRmsNorm ? parts_.kernels->rms_norm : parts_.kernels->layer_norm;
  const auto apply = [&](const NormWeights& weights, int from, int n_heads, float* head) {
    for (int h = from; h < from + n_heads; ++h, head += head_dim) {
      const int64_t first = each ? h * head_dim : 0;
      kernel(head, weights.weight.data() + first, norm.eps, head_dim, head);
      if (norm.bias) parts_.kernels->add(weights.bias.data() + first, head_dim, head);
    }
  };
  apply(w.q_norm, part.heads.first, attention.n_heads, heads);
  if (!attention.has_keys()) return;
  apply(w.k_norm, part.heads.kv_first, attention.n_kv_heads, k);
}

void Decoder::MakeValues(const SelfAttentionSpec& attention, const BlockWeights& w,
                         float* heads) const {
  const float* const k = heads + attention.q_width();
  float* v = heads + attention.q_width() + attention.k_width();
  if (attention.v_is_k) std::copy_n(k, attention.v_width(), v);
  if (!attention.v_norm.is_there()) return;
  const int v_dim = attention.value_dim();
  for (int h = 0; h < attention.n_kv_heads; ++h, v += v_dim) {
    Apply({attention.v_norm, w.v_norm}, v, v_dim, v);
  }
}

absl::Status Decoder::LookAtRankHeads(Point point, const TensorView<float, 3>& rows,
                                      const RankRows& all) {
  if (!Wants(point)) return absl::OkStatus();
  if (all.given.empty()) return LookAtHeads(point, rows);
  const int64_t head_width = rows.extent[2];
  const int64_t width = all.n_heads * head_width;
  GrowTo(act_.gathered, n_rows_ * width);
  const CutRows whole = {all.given, n_rows_, act_.gathered.data()};
  float* const own = Own(whole);
  const int64_t n_own = rows.extent[1] * head_width;
  // Where another rank gives the same heads, this one gives none.
  const int64_t n_given = all.given[static_cast<size_t>(spec_.split.rank)];
  for (int64_t row = 0; row < n_rows_; ++row) {
    std::copy_n(rows.data + row * rows.stride[0], n_given, own + row * n_given);
  }
  NG_RETURN_IF_ERROR(Gather(whole));
  NG_RETURN_IF_ERROR(
      LookAtHeads(point, TensorView<float, 3>(whole.whole, {n_rows_, all.n_heads, head_width})));
  // Who looks may have changed them.
  for (int64_t row = 0; row < n_rows_; ++row) {
    std::copy_n(whole.whole + row * width + all.first * head_width, n_own,
                rows.data + row * rows.stride[0]);
  }
  return absl::OkStatus();
}

std::span<const ProbabilityRow> Decoder::OwnCaptures(std::span<const ProbabilityRow> all,
                                                     const RankHeads& heads) {
  own_captures_.clear();
  for (ProbabilityRow row : all) {
    row.head -= heads.first;
    if (row.head >= 0 && row.head < heads.n) own_captures_.push_back(row);
  }
  return own_captures_;
}

absl::Status Decoder::ShareCaptures(std::span<const ProbabilityRow> all,
                                    const RankParts::Attention& part) {
  if (all.empty()) return absl::OkStatus();
  const auto rank_of = [&](const ProbabilityRow& row) {
    int64_t head = row.head;
    size_t rank = 0;
    while (head * part.spec.value_dim() >= part.given[rank]) {
      head -= part.given[rank++] / part.spec.value_dim();
    }
    return rank;
  };
  std::vector<int64_t> counts(part.given.size(), 0);
  int64_t total = 0;
  for (const ProbabilityRow& row : all) {
    counts[rank_of(row)] += row.pos + 1;
    total += row.pos + 1;
  }
  GrowTo(act_.gathered, total);
  const CutRows whole = {counts, 1, act_.gathered.data()};
  float* own = Own(whole);
  for (const ProbabilityRow& row : own_captures_) own = std::copy_n(row.out, row.pos + 1, own);
  NG_RETURN_IF_ERROR(Gather(whole));
  std::vector<const float*> next;
  const float* begin = whole.whole;
  for (const int64_t count : counts) {
    next.push_back(begin);
    begin += count;
  }
  for (const ProbabilityRow& row : all) {
    const float*& from = next[rank_of(row)];
    std::copy_n(from, row.pos + 1, row.out);
    from += row.pos + 1;
  }
  return absl::OkStatus();
}

absl::Status Decoder::NormOverRanks(const BlockSpec& block, const BlockWeights& w) {
  const SelfAttentionSpec& whole = spec_.AttentionOf(block);
  const RankParts::Attention& part = ranks_.attentions[static_cast<size_t>(block.part)];
  const int64_t n_k = whole.has_keys() ? 1 : 0;
  const int64_t qk_width = whole.q_width() + whole.k_width();
  GrowTo(act_.gathered, n_rows_ * qk_width);
  float* const gathered = At(act_.gathered, qk_width);
  const std::array<CutRows, 2> both = {
      {{part.given_q, n_rows_, gathered},
       {part.given_k, n_rows_, gathered + n_rows_ * whole.q_width()}}};
  const std::span<const CutRows> rows(both.data(), static_cast<size_t>(1 + n_k));
  const std::array<int64_t, 2> in_row = {0, part.spec.q_width()};
  const auto x = [&](size_t i, int64_t row) {
    return At(act_.qkv, part.spec.row_width()) + row * part.spec.row_width() + in_row[i];
  };
  for (size_t i = 0; i < rows.size(); ++i) {
    float* const own = parts_.link->Own(rows, i);
    const int64_t n = rows[i].counts[static_cast<size_t>(spec_.split.rank)];
    for (int64_t row = 0; row < n_rows_; ++row) std::copy_n(x(i, row), n, own + row * n);
  }
  NG_RETURN_IF_ERROR(Gather(rows));
  const int64_t head_dim = whole.head_dim;
  return ForRows(n_rows_, [&](int64_t row, int /*worker*/) {
    float* const q = rows[0].whole + row * whole.q_width();
    Apply({whole.qk_norm, w.q_norm}, q, whole.q_width(), q);
    std::copy_n(q + part.heads.first * head_dim, part.spec.q_width(), x(0, row));
    if (rows.size() == 1) return;
    float* const k = rows[1].whole + row * whole.k_width();
    Apply({whole.qk_norm, w.k_norm}, k, whole.k_width(), k);
    std::copy_n(k + part.heads.kv_first * head_dim, part.spec.k_width(), x(1, row));
  });
}

absl::Status Decoder::NormAndRotate(const BlockSpec& block, const BlockWeights& w) {
  const RankParts::Attention& part = ranks_.attentions[static_cast<size_t>(block.part)];
  const SelfAttentionSpec& attention = part.spec;
  bool norms = attention.qk_norm.is_there();
  const bool norms_after = norms && attention.qk_norm_kind == QkNormKind::kHeadsAfterRope;
  const RopeTable* const rope =
      attention.rope < 0 ? nullptr : &ropes_[static_cast<size_t>(attention.rope)];
  bool changes_v = attention.has_keys() && (attention.v_is_k || attention.v_norm.is_there());
  if (rope == nullptr && !norms && !changes_v && attention.clip == 0.0) return absl::OkStatus();
  float* const all_heads = At(act_.qkv, attention.row_width());
  if (norms && part.heads.cut && attention.qk_norm_kind == QkNormKind::kWidth) {
    if (changes_v) {
      NG_RETURN_IF_ERROR(ForRows(n_rows_, [&](int64_t row, int /*worker*/) {
        MakeValues(attention, w, all_heads + row * attention.row_width());
      }));
    }
    NG_RETURN_IF_ERROR(NormOverRanks(block, w));
    norms = changes_v = false;
  }
  const int64_t head_dim = attention.key_dim();
  const int64_t first = attention.latent.kv_rank;  // in front of what turns; 0 without latents
  const bool told = queries_wanted_ != nullptr && rope != nullptr;
  if (told) GrowTo(queries_, n_rows_ * attention.q_width());
  // q's, then k's.
  const int64_t n_heads_qk = attention.n_heads + (attention.has_keys() ? attention.kv_heads() : 0);
  return ForRows(n_rows_, [&](int64_t row, int /*worker*/) {
    float* const heads = all_heads + row * attention.row_width();
    if (changes_v) MakeValues(attention, w, heads);
    if (norms && !norms_after) NormHeads(part, w, heads);
    if (attention.clip > 0.0) {
      Clip(static_cast<float>(attention.clip), attention.qkv_width(), heads);
    }
    if (told) {
      std::copy_n(heads, attention.q_width(), queries_.data() + row * attention.q_width());
    }
    if (rope != nullptr) {
      const RopePairing pairing = spec_.ropes[static_cast<size_t>(attention.rope)].pairing;
      const auto rotate = parts_.kernels->rotate[static_cast<int>(pairing)];
      const float* const cos_sin = rope->At(row_pos_[static_cast<size_t>(first_row_ + row)]);
      if (2 * rope->half() == head_dim) {
        rotate(cos_sin, rope->half(), n_heads_qk, heads);
      } else {  // the rest of a head lies between those dimensions and the next head's
        for (int64_t h = 0; h < n_heads_qk; ++h) {
          rotate(cos_sin, rope->half(), 1, heads + h * head_dim + first);
        }
      }
    }
    if (norms_after) NormHeads(part, w, heads);
  });
}

}  // namespace ng
