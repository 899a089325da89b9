// Decoder: its blocks of attention, from the first matrix to the last.
#include <algorithm>
#include <cstdint>

#include "core/model/decoder.h"
#include "core/model/router.h"

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
  GrowTo(scratch_, attention_.scratch_floats() + kScratchAlignFloats);
  return absl::OkStatus();
}

absl::Status Decoder::AttentionBlock(const StepBatch& batch, int layer, const Block& block) {
  const auto& [spec, w, input] = block;
  const SelfAttentionSpec& shape = spec_.AttentionOf(spec);
  const bool latents = shape.latent.is_there();
  const int64_t row_width = shape.row_width();
  NG_ASSIGN_OR_RETURN(const MatmulInput normed, ShownInput(Point::kAttnIn, block));
  TensorView<float, 2> in = Rows(latents ? act_.latent : act_.qkv, shape.in_width());
  if (!latents) in.stride[0] = row_width;
  NG_RETURN_IF_ERROR(Matmul(Product(w.in, w.in_bias, normed), in));
  if (latents) NG_RETURN_IF_ERROR(MeetLatents(shape, w));
  NG_RETURN_IF_ERROR(NormAndRotate(shape, w));

  // q, k, v and the gate lie side by side in each row of act_.qkv.
  TensorView<float, 3> q(act_.qkv.data(), {n_rows_, shape.n_heads, shape.key_dim()});
  TensorView<float, 3> k(act_.qkv.data() + shape.q_width(),
                         {n_rows_, shape.kv_heads(), shape.key_dim()});
  // A latent is v too.
  TensorView<float, 3> v(latents ? k.data : k.data + shape.k_width(),
                         {n_rows_, shape.kv_heads(), shape.attended_dim()});
  q.stride[0] = k.stride[0] = v.stride[0] = row_width;
  NG_RETURN_IF_ERROR(LookAtHeads(Point::kQ, q));
  if (shape.has_keys()) {
    NG_RETURN_IF_ERROR(LookAtHeads(Point::kK, k));
    NG_RETURN_IF_ERROR(LookAtHeads(Point::kV, v));
  }

  const int number = numbers_[static_cast<size_t>(layer)];
  const int cache_layer = cache_layers_[static_cast<size_t>(number)];
  if (shape.has_keys()) NG_RETURN_IF_ERROR(parts_.cache->Append(cache_layer, rows_, k, v));
  for (size_t i = 0; i < rows_.size(); ++i) {
    const SequenceRows& entry = rows_[i];
    views_[i] = parts_.cache->View(cache_layer, entry.sequence, entry.start_pos + entry.n_tokens);
  }
  if (batch.observer != nullptr) batch.observer->OnAttention(layer, rows_, views_);

  AttentionRun run;
  run.layer = number;
  run.rows = rows_;
  run.q = q;
  run.views = views_;
  run.out = {act_.attended.data(), {n_rows_, shape.n_heads, shape.attended_dim()}};
  run.scratch = {AlignScratch(scratch_), static_cast<size_t>(attention_.scratch_floats())};
  if (!batch.captures.empty()) run.captures = batch.captures[static_cast<size_t>(layer)];
  for (const std::span<float> mass : masses_) std::ranges::fill(mass, 0.0F);
  run.attended = masses_;
  NG_RETURN_IF_ERROR(attention_.Run(run));
  NG_RETURN_IF_ERROR(TellMass(cache_layer));
  if (shape.gate) NG_RETURN_IF_ERROR(Gate(shape));
  float* heads = act_.attended.data();
  if (latents) {
    heads = act_.heads.data();
    NG_RETURN_IF_ERROR(
        MultiplyHeads(w.heads, &InAndOut::out,
                      {act_.attended.data(), shape.attended_width(), shape.attended_dim()},
                      {heads, shape.out_width(), shape.value_dim()}));
  }
  NG_RETURN_IF_ERROR(NormRows({spec.inner, w.inner}, shape.out_width(), heads));
  NG_RETURN_IF_ERROR(LookAtHeads(
      Point::kAttnHead, TensorView<float, 3>(heads, {n_rows_, shape.n_heads, shape.value_dim()})));
  NG_ASSIGN_OR_RETURN(const MatmulInput attended, Rounded(heads, w.out.k(), w.out));
  return AddProduct(block, attended);
}

absl::Status Decoder::MeetLatents(const SelfAttentionSpec& attention, const BlockWeights& w) {
  const LatentSpec& latent = attention.latent;
  const int64_t in_width = attention.in_width();
  const int64_t row_width = attention.row_width();
  const int64_t kv_first = attention.q_in_width();
  NG_RETURN_IF_ERROR(ForRows(n_rows_, [&](int64_t row, int /*worker*/) {
    float* const x = act_.latent.data() + row * in_width;
    if (latent.q_rank > 0) Apply({latent.norm, w.q_norm}, x, latent.q_rank, x);
    Apply({latent.norm, w.k_norm}, x + kv_first, latent.kv_rank, x + kv_first);
  }));
  HeadRows q = {act_.latent.data(), in_width, attention.head_dim};
  if (latent.q_rank > 0) {
    NG_ASSIGN_OR_RETURN(const MatmulInput x, Rounded(act_.latent.data(), in_width, w.q_up));
    q.data = act_.heads.data();
    q.stride = attention.own_q_width();
    NG_RETURN_IF_ERROR(Matmul(Product(w.q_up, {}, x), Rows(act_.heads, q.stride)));
  }
  NG_RETURN_IF_ERROR(
      MultiplyHeads(w.heads, &InAndOut::in, q, {act_.qkv.data(), row_width, attention.key_dim()}));
  return ForRows(n_rows_, [&](int64_t row, int /*worker*/) {
    const float* turns = q.data + row * q.stride + attention.still_dim();
    float* to = act_.qkv.data() + row * row_width + latent.kv_rank;
    for (int h = 0; h < attention.n_heads; ++h) {
      std::copy_n(turns + h * q.head_stride, latent.rope_dim, to + h * attention.key_dim());
    }
    // What the first matrix gives of k and v is a row of k.
    std::copy_n(act_.latent.data() + row * in_width + kv_first, attention.k_width(),
                act_.qkv.data() + row * row_width + attention.q_width());
  });
}

absl::Status Decoder::MultiplyHeads(std::span<const InAndOut> heads, PackedMatrix InAndOut::*matrix,
                                    const HeadRows& x, const HeadRows& out) {
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
    data = act_.input.data();
    NG_RETURN_IF_ERROR(ForRows(n_rows_, [&](int64_t row, int /*worker*/) {
      for (int64_t h = 0; h < n_heads; ++h) {
        prepare(x.data + row * x.stride + h * x.head_stride, k,
                act_.input.data() + row * row_bytes + h * head_bytes);
      }
    }));
  }
  act_.calls.clear();
  for (const InAndOut& head : heads) {
    act_.calls.push_back(Product(head.*matrix, {}, {data, n_rows_, k, row_bytes}));
    data += head_bytes;
  }
  return Matmuls(act_.calls, act_.strips, [&](size_t h, const MatmulTile& tile) {
    float* const to = out.data + static_cast<int64_t>(h) * out.head_stride + tile.column;
    for (int64_t row = tile.row; row < tile.row + tile.n_rows; ++row) {
      std::copy_n(tile.Row(row), tile.n_columns, to + row * out.stride);
    }
  });
}

absl::Status Decoder::Gate(const SelfAttentionSpec& attention) {
  const int64_t width = attention.out_width();
  return ForRows(n_rows_, [&](int64_t row, int /*worker*/) {
    float* const attended = act_.attended.data() + row * width;
    const float* const gate = act_.qkv.data() + row * attention.row_width() + attention.qkv_width();
    for (int64_t i = 0; i < width; ++i) attended[i] *= Sigmoid(gate[i]);
  });
}

// Has room for all that the sequences may come to hold, so that it does not grow with every token.
void Decoder::LayOutMass() {
  const auto end_of = [](const SequenceRows& entry) { return entry.start_pos + entry.n_tokens; };
  int64_t most = 0;
  for (const SequenceRows& entry : rows_) {
    most += std::max(parts_.cache->Capacity(entry.sequence), end_of(entry));
  }
  GrowTo(mass_, most);
  masses_.clear();
  float* next = mass_.data();
  for (const SequenceRows& entry : rows_) {
    masses_.emplace_back(next, static_cast<size_t>(end_of(entry)));
    next += end_of(entry);
  }
}

absl::Status Decoder::TellMass(int layer) {
  for (size_t i = 0; i < masses_.size(); ++i) {
    NG_RETURN_IF_ERROR(mass_wanted_->Attended(layer, rows_[i].sequence, masses_[i]));
  }
  return absl::OkStatus();
}

void Decoder::NormHeads(const SelfAttentionSpec& attention, const BlockWeights& w,
                        float* heads) const {
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
  const auto apply = [&](const NormWeights& weights, int n_heads, float* head) {
    for (int h = 0; h < n_heads; ++h, head += head_dim) {
      const int64_t first = each ? h * head_dim : 0;
      kernel(head, weights.weight.data() + first, norm.eps, head_dim, head);
      if (norm.bias) parts_.kernels->add(weights.bias.data() + first, head_dim, head);
    }
  };
  apply(w.q_norm, attention.n_heads, heads);
  if (!attention.has_keys()) return;
  apply(w.k_norm, attention.n_kv_heads, k);
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

absl::Status Decoder::NormAndRotate(const SelfAttentionSpec& attention, const BlockWeights& w) {
  const bool norms = attention.qk_norm.is_there();
  const bool norms_after = norms && attention.qk_norm_kind == QkNormKind::kHeadsAfterRope;
  const RopeTable* const rope =
      attention.rope < 0 ? nullptr : &ropes_[static_cast<size_t>(attention.rope)];
  const bool changes_v = attention.has_keys() && (attention.v_is_k || attention.v_norm.is_there());
  if (rope == nullptr && !norms && !changes_v && attention.clip == 0.0) return absl::OkStatus();
  const int64_t head_dim = attention.key_dim();
  const int64_t first = attention.latent.kv_rank;  // in front of what turns; 0 without latents
  // q's, then k's.
  const int64_t n_heads_qk = attention.n_heads + (attention.has_keys() ? attention.kv_heads() : 0);
  return ForRows(n_rows_, [&](int64_t row, int /*worker*/) {
    float* const heads = act_.qkv.data() + row * attention.row_width();
    if (changes_v) MakeValues(attention, w, heads);
    if (norms && !norms_after) NormHeads(attention, w, heads);
    if (attention.clip > 0.0) {
      Clip(static_cast<float>(attention.clip), attention.qkv_width(), heads);
    }
    if (rope != nullptr) {
      const RopePairing pairing = spec_.ropes[static_cast<size_t>(attention.rope)].pairing;
      const auto rotate = parts_.kernels->rotate[static_cast<int>(pairing)];
      const float* const cos_sin = rope->At(row_pos_[static_cast<size_t>(row)]);
      if (2 * rope->half() == head_dim) {
        rotate(cos_sin, rope->half(), n_heads_qk, heads);
      } else {  // the rest of a head lies between those dimensions and the next head's
        for (int64_t h = 0; h < n_heads_qk; ++h) {
          rotate(cos_sin, rope->half(), 1, heads + h * head_dim + first);
        }
      }
    }
    if (norms_after) NormHeads(attention, w, heads);
  });
}

}  // namespace ng
