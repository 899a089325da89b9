#include "core/model/decoder.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "core/model/activation.h"
#include "core/model/for_rows.h"
#include "core/model/mixture.h"
#include "core/model/router.h"

namespace ng {
namespace {

constexpr int64_t kScratchAlignFloats = 16;  // 64 bytes

float* AlignScratch(std::vector<float>& buffer) {
  const auto address = reinterpret_cast<uintptr_t>(buffer.data());
  const uintptr_t aligned = (address + 63) & ~uintptr_t{63};
  return buffer.data() + (aligned - address) / sizeof(float);
}

void Scale(float factor, int64_t n, float* x) {
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

void Clip(float limit, int64_t n, float* x) {
  for (int64_t i = 0; i < n; ++i) x[i] = std::clamp(x[i], -limit, limit);
}

absl::Status CheckStop(const StepBatch& batch) {
  const bool stop = batch.stop != nullptr && batch.stop->load(std::memory_order_relaxed);
  return stop ? InterruptedError("interrupted") : absl::OkStatus();
}

}  // namespace

Decoder::Decoder(const ModelSpec& spec, ModelWeights weights, LayerAttention attention,
                 const DecoderParts& parts)
    : spec_(spec),
      weights_(std::move(weights)),
      parts_(parts),
      attention_(std::move(attention)),
      sharing_(CapabilityOf<PrefixSharing>(*parts.cache)),
      mass_wanted_(CapabilityOf<AttendedMass>(*parts.cache)),
      input_rows_(WidestRowsOf(*parts.kernels, spec, weights_.types)) {
  for (const RopeSpec& rope : spec_.ropes) {
    ropes_.emplace_back(rope, rope.factors ? weights_.rope_factors : std::vector<float>(),
                        spec_.shape.max_positions, parts.max_tokens);
  }
}

absl::StatusOr<SequenceId> Decoder::OpenSequence(std::span<const int32_t> prompt,
                                                 int64_t capacity) {
  const bool shares = sharing_ != nullptr && !prompt.empty();
  return shares ? sharing_->OpenFor(prompt, capacity) : parts_.cache->Open(capacity);
}

void Decoder::CloseSequence(SequenceId sequence) { parts_.cache->Close(sequence); }
int64_t Decoder::Length(SequenceId sequence) const { return parts_.cache->Length(sequence); }
int64_t Decoder::Capacity(SequenceId sequence) const { return parts_.cache->Capacity(sequence); }

absl::Status Decoder::Truncate(SequenceId sequence, int64_t length) {
  return parts_.cache->Truncate(sequence, length);
}

absl::Status Decoder::Forward(const StepBatch& batch) {
  Begin(batch);
  Embed(batch);
  NG_RETURN_IF_ERROR(attention_.Plan(rows_));
  GrowTo(scratch_, attention_.scratch_floats() + kScratchAlignFloats);
  for (int layer = 0; layer < spec_.shape.n_layers; ++layer) {
    NG_RETURN_IF_ERROR(RunLayer(batch, layer));
    if (batch.observer == nullptr) continue;
    batch.observer->OnLayerOutput(layer, Rows(act_.hidden, spec_.width));
  }
  NG_RETURN_IF_ERROR(CheckStop(batch));
  NG_RETURN_IF_ERROR(Head(batch));
  // The length moves once, after the last layer.
  return parts_.cache->Commit(rows_);
}

TensorView<const float, 2> Decoder::logits() const {
  return {act_.logits.data(), {n_logit_rows_, spec_.shape.vocab_size}};
}

TensorView<float, 2> Decoder::Rows(std::vector<float>& buffer, int64_t width) {
  return {buffer.data(), {n_rows_, width}};
}

template <typename Body>
absl::Status Decoder::ForRows(int64_t n_rows, Body&& body) {
  return ng::ForRows(*parts_.executor, n_rows, std::forward<Body>(body));
}

void Decoder::Begin(const StepBatch& batch) {
  rows_.clear();
  row_pos_.clear();
  n_logit_rows_ = 0;
  int64_t last_pos = 0;
  for (const StepSequence& sequence : batch.sequences) {
    const auto n_tokens = static_cast<int64_t>(sequence.tokens.size());
    rows_.push_back({.sequence = sequence.sequence,
                     .start_pos = sequence.start_pos,
                     .n_tokens = n_tokens,
                     .row_begin = static_cast<int64_t>(row_pos_.size()),
                     .tokens = sequence.tokens});
    for (int64_t i = 0; i < n_tokens; ++i) row_pos_.push_back(sequence.start_pos + i);
    n_logit_rows_ += sequence.n_logit_rows;
    last_pos = std::max(last_pos, sequence.start_pos + n_tokens);
  }
  n_rows_ = static_cast<int64_t>(row_pos_.size());
  act_.Grow(SizesOfStep(
      spec_, input_rows_,
      {.n_rows = n_rows_, .n_logit_rows = n_logit_rows_, .threads = parts_.executor->threads()}));
  views_.resize(rows_.size());
  if (mass_wanted_ != nullptr) LayOutMass();
  for (RopeTable& rope : ropes_) rope.Grow(last_pos);
  if (batch.observer != nullptr) batch.observer->OnStep(rows_);
}

void Decoder::Embed(const StepBatch& batch) {
  const int64_t width = spec_.width;
  const EmbeddingSpec& spec = spec_.embedding;
  int64_t row = 0;
  for (const StepSequence& sequence : batch.sequences) {
    for (const int32_t token : sequence.tokens) {
      float* hidden = act_.hidden.data() + row * width;
      weights_.embedding.CopyRow(token, hidden);
      if (spec.scale != 1.0F) Scale(spec.scale, width, hidden);
      const int64_t pos = row_pos_[static_cast<size_t>(row++)] + spec.position_offset;
      if (spec.positions) {
        parts_.kernels->add(weights_.positions.data() + pos * width, width, hidden);
      }
      if (spec.norm.is_there()) Apply({spec.norm, weights_.embedding_norm}, hidden, width, hidden);
    }
  }
}

absl::Status Decoder::RunLayer(const StepBatch& batch, int layer) {
  const LayerSpec& blocks = spec_.layers[static_cast<size_t>(layer)];
  const std::vector<BlockWeights>& weights = weights_.layers[static_cast<size_t>(layer)];
  const auto in_parallel = [&](size_t i) {
    return i < blocks.size() && blocks[i].input == BlockInput::kOfBlockBefore;
  };
  for (size_t i = 0; i < blocks.size(); ++i) {
    NG_RETURN_IF_ERROR(CheckStop(batch));
    // The stream that a block reads is kept for the blocks that read it too.
    if (in_parallel(i + 1) && !in_parallel(i)) {
      std::copy_n(act_.hidden.data(), n_rows_ * spec_.width, act_.kept.data());
    }
    const std::vector<float>& input = in_parallel(i) ? act_.kept : act_.hidden;
    const Block block = {blocks[i], weights[i], input.data()};
    NG_RETURN_IF_ERROR(RunBlock(batch, layer, block));
    NG_RETURN_IF_ERROR(
        NormRows({block.spec.stream_norm, block.w.stream_norm}, spec_.width, act_.hidden.data()));
  }
  return absl::OkStatus();
}

absl::Status Decoder::RunBlock(const StepBatch& batch, int layer, const Block& block) {
  switch (block.spec.operation) {
    case Operation::kAttention:
      return AttentionBlock(batch, layer, block);
    case Operation::kFeedForward:
      return FeedForwardBlock(block);
    case Operation::kMixture:
      return MixtureBlock(block);
  }
  return absl::OkStatus();
}

absl::Status Decoder::AttentionBlock(const StepBatch& batch, int layer, const Block& block) {
  const auto& [spec, w, input] = block;
  const SelfAttentionSpec& shape = spec_.AttentionOf(spec);
  const bool latents = shape.latent.is_there();
  const int64_t row_width = shape.row_width();
  NG_ASSIGN_OR_RETURN(const MatmulInput normed,
                      Normed({spec.before, w.before}, input, n_rows_, w.in));
  NG_RETURN_IF_ERROR(Matmul(Product(w.in, w.in_bias, normed),
                            Rows(latents ? act_.latent : act_.qkv, shape.in_width())));
  if (latents) NG_RETURN_IF_ERROR(UnpackLatents(shape, w));
  NG_RETURN_IF_ERROR(NormAndRotate(shape, w));

  // q, k, v and the gate lie side by side in each row of act_.qkv.
  TensorView<float, 3> q(act_.qkv.data(), {n_rows_, shape.n_heads, shape.head_dim});
  TensorView<float, 3> k(act_.qkv.data() + shape.q_width(),
                         {n_rows_, shape.n_kv_heads, shape.head_dim});
  TensorView<float, 3> v = k;
  v.data += shape.kv_width();
  q.stride[0] = k.stride[0] = v.stride[0] = row_width;

  NG_RETURN_IF_ERROR(parts_.cache->Append(layer, rows_, k, v));
  for (size_t i = 0; i < rows_.size(); ++i) {
    const SequenceRows& entry = rows_[i];
    views_[i] = parts_.cache->View(layer, entry.sequence, entry.start_pos + entry.n_tokens);
  }
  if (batch.observer != nullptr) batch.observer->OnAttention(layer, rows_, views_);

  AttentionRun run;
  run.layer = layer;
  run.rows = rows_;
  run.q = q;
  run.views = views_;
  run.out = {act_.attended.data(), {n_rows_, shape.n_heads, shape.head_dim}};
  run.scratch = {AlignScratch(scratch_), static_cast<size_t>(attention_.scratch_floats())};
  if (!batch.captures.empty()) run.captures = batch.captures[static_cast<size_t>(layer)];
  for (const std::span<float> mass : masses_) std::ranges::fill(mass, 0.0F);
  run.attended = masses_;
  NG_RETURN_IF_ERROR(attention_.Run(run));
  NG_RETURN_IF_ERROR(TellMass(layer));
  if (latents) DropPadding(shape);
  if (shape.gate) NG_RETURN_IF_ERROR(Gate(shape));
  NG_RETURN_IF_ERROR(NormRows({spec.inner, w.inner}, shape.out_width(), act_.attended.data()));
  NG_ASSIGN_OR_RETURN(const MatmulInput attended, Rounded(act_.attended.data(), w.out));
  return AddProduct(block, attended);
}

absl::StatusOr<MatmulInput> Decoder::LatentInput(const SelfAttentionSpec& attention, int64_t first,
                                                 const PackedMatrix& w) {
  const int64_t in_width = attention.in_width();
  const float* const from = act_.latent.data() + first;
  const auto prepare = parts_.kernels->prepare[static_cast<size_t>(w.type())];
  if (prepare == nullptr) {
    MatmulInput input = FloatRows(from, n_rows_, w.k());
    input.row_bytes = in_width * int64_t{sizeof(float)};
    return input;
  }
  const MatmulInput input = InputRows(n_rows_, w);
  NG_RETURN_IF_ERROR(ForRows(n_rows_, [&](int64_t row, int /*worker*/) {
    prepare(from + row * in_width, w.k(), act_.input.data() + row * input.row_bytes);
  }));
  return input;
}

absl::Status Decoder::UnpackLatents(const SelfAttentionSpec& attention, const BlockWeights& w) {
  const LatentSpec& latent = attention.latent;
  const int64_t in_width = attention.in_width();
  const int64_t row_width = attention.row_width();
  const int64_t kv_first = attention.q_in_width();
  NG_RETURN_IF_ERROR(ForRows(n_rows_, [&](int64_t row, int /*worker*/) {
    float* const x = act_.latent.data() + row * in_width;
    if (latent.q_rank > 0) Apply({latent.norm, w.q_norm}, x, latent.q_rank, x);
    Apply({latent.norm, w.k_norm}, x + kv_first, latent.kv_rank, x + kv_first);
  }));
  if (latent.q_rank > 0) {
    NG_ASSIGN_OR_RETURN(const MatmulInput q, LatentInput(attention, 0, w.q_up));
    TensorView<float, 2> out(act_.qkv.data(), {n_rows_, attention.q_width()});
    out.stride[0] = row_width;
    NG_RETURN_IF_ERROR(Matmul(Product(w.q_up, {}, q), out));
  }
  NG_ASSIGN_OR_RETURN(const MatmulInput kv, LatentInput(attention, kv_first, w.kv_up));
  NG_RETURN_IF_ERROR(Matmul(Product(w.kv_up, {}, kv), Rows(act_.kv_up, attention.kv_up_width())));
  const int64_t head_dim = attention.head_dim;
  const int64_t still = head_dim - latent.rope_dim;  // dimensions of a head that do not turn
  return ForRows(n_rows_, [&](int64_t row, int /*worker*/) {
    const float* const x = act_.latent.data() + row * in_width;
    const float* head = act_.kv_up.data() + row * attention.kv_up_width();
    float* const q = act_.qkv.data() + row * row_width;
    if (latent.q_rank == 0) std::copy_n(x, attention.q_width(), q);
    float* k = q + attention.q_width();
    float* v = k + attention.kv_width();
    for (int h = 0; h < attention.n_heads; ++h, k += head_dim, v += head_dim) {
      std::copy_n(head, still, k);
      std::copy_n(x + kv_first + latent.kv_rank, latent.rope_dim, k + still);
      std::copy_n(head + still, latent.v_dim, v);
      std::fill(v + latent.v_dim, v + head_dim, 0.0F);
      head += still + latent.v_dim;
    }
  });
}

void Decoder::DropPadding(const SelfAttentionSpec& attention) {
  const int64_t v_dim = attention.latent.v_dim;
  if (v_dim == attention.head_dim) return;
  // Every row moves to the left, over what rows before it have left behind: one after the other.
  float* to = act_.attended.data();
  const float* from = to;
  for (int64_t i = 0; i < n_rows_ * attention.n_heads; ++i) {
    std::copy_n(from, v_dim, to);
    from += attention.head_dim;
    to += v_dim;
  }
}

absl::Status Decoder::Gate(const SelfAttentionSpec& attention) {
  const int64_t width = attention.q_width();
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

absl::Status Decoder::FeedForwardBlock(const Block& block) {
  const auto& [spec, w, input] = block;
  const FeedForwardSpec& feed_forward = spec_.FeedForwardOf(spec);
  NG_ASSIGN_OR_RETURN(const MatmulInput normed,
                      Normed({spec.before, w.before}, input, n_rows_, w.in));
  NG_RETURN_IF_ERROR(
      Matmul(Product(w.in, w.in_bias, normed), act_.strips, [&](const MatmulTile& tile) {
        ActivateTile(*parts_.kernels, feed_forward, block.w, tile, act_.activated.data());
      }));
  NG_RETURN_IF_ERROR(NormRows({spec.inner, w.inner}, feed_forward.width, act_.activated.data()));
  NG_ASSIGN_OR_RETURN(const MatmulInput activated, Rounded(act_.activated.data(), w.out));
  return AddProduct(block, activated);
}

absl::Status Decoder::MixtureBlock(const Block& block) {
  const BlockSpec& spec = block.spec;
  const int64_t width = spec_.width;
  for (int64_t first = 0; first < n_rows_; first += kMixtureRows) {
    const int64_t n_rows = std::min(kMixtureRows, n_rows_ - first);
    float* const normed = act_.mixture.normed.data();
    NG_RETURN_IF_ERROR(ForRows(n_rows, [&](int64_t row, int /*worker*/) {
      ApplyOrCopy({spec.before, block.w.before}, block.input + (first + row) * width, width,
                  normed + row * width);
    }));
    NG_RETURN_IF_ERROR(
        RunMixture({*parts_.kernels, *parts_.executor, spec_.MixtureOf(spec), block.w}, n_rows,
                   act_.mixture, act_.added.data() + first * width));
  }
  return AddRows(block);
}

absl::Status Decoder::Head(const StepBatch& batch) {
  if (n_logit_rows_ == 0) return absl::OkStatus();
  const PackedMatrix& head = spec_.head.tied ? weights_.embedding : weights_.head;
  // The rows that logits are wanted of, normed and packed together.
  MatmulInput input = InputRows(n_logit_rows_, head);
  int64_t row = 0;
  for (size_t i = 0; i < rows_.size(); ++i) {
    const int64_t end = rows_[i].row_begin + rows_[i].n_tokens;
    const int64_t n_wanted = batch.sequences[i].n_logit_rows;
    const float* x = act_.hidden.data() + (end - n_wanted) * spec_.width;
    NG_RETURN_IF_ERROR(
        Normed({spec_.head.norm, weights_.final_norm}, x, n_wanted, head, row).status());
    row += n_wanted;
  }
  NG_RETURN_IF_ERROR(Matmul(Product(head, weights_.head_bias, input),
                            {act_.logits.data(), {n_logit_rows_, spec_.shape.vocab_size}}));
  if (!spec_.head.as_they_are()) FinishLogits();
  return absl::OkStatus();
}

void Decoder::FinishLogits() {
  const float cap = spec_.head.soft_cap;
  const int64_t n = n_logit_rows_ * spec_.shape.vocab_size;
  for (float& logit : std::span(act_.logits).first(static_cast<size_t>(n))) {
    logit *= spec_.head.scale;
    if (cap > 0.0F) logit = std::tanh(logit / cap) * cap;
  }
}

MatmulInput Decoder::InputRows(int64_t n_rows, const PackedMatrix& w) {
  const int64_t row_bytes =
      InputRowBytes(parts_.kernels->input[static_cast<size_t>(w.type())], w.k());
  return {act_.input.data(), n_rows, w.k(), row_bytes};
}

absl::Status Decoder::NormRows(const Norm& norm, int64_t n, float* rows) {
  if (!norm.spec.is_there()) return absl::OkStatus();
  return ForRows(n_rows_, [&](int64_t row, int /*worker*/) {
    Apply(norm, rows + row * n, n, rows + row * n);
  });
}

void Decoder::Apply(const Norm& norm, const float* x, int64_t n, float* out) const {
  const auto& [spec, weights] = norm;
  const KernelTable& kernels = *parts_.kernels;
  const auto kernel = spec.kind == NormKind::kRmsNorm ? kernels.rms_norm : kernels.layer_norm;
  kernel(x, weights.weight.data(), spec.eps, n, out);
  if (spec.bias) kernels.add(weights.bias.data(), n, out);
}

void Decoder::ApplyOrCopy(const Norm& norm, const float* x, int64_t n, float* out) const {
  if (norm.spec.is_there()) {
    Apply(norm, x, n, out);
  } else {
    std::copy_n(x, n, out);
  }
}

absl::StatusOr<MatmulInput> Decoder::Normed(const Norm& norm, const float* x, int64_t n_rows,
                                            const PackedMatrix& w, int64_t first) {
  const int64_t width = spec_.width;
  const auto prepare = parts_.kernels->prepare[static_cast<size_t>(w.type())];
  const MatmulInput input = InputRows(first + n_rows, w);
  NG_RETURN_IF_ERROR(ForRows(n_rows, [&](int64_t row, int worker) {
    const float* const from = x + row * width;
    std::byte* const to = act_.input.data() + (first + row) * input.row_bytes;
    float* const normed =
        prepare == nullptr ? reinterpret_cast<float*>(to) : act_.normed.data() + worker * width;
    ApplyOrCopy(norm, from, width, normed);
    if (prepare != nullptr) prepare(normed, width, to);
  }));
  return input;
}

absl::StatusOr<MatmulInput> Decoder::Rounded(const float* x, const PackedMatrix& w) {
  const auto prepare = parts_.kernels->prepare[static_cast<size_t>(w.type())];
  if (prepare == nullptr) return FloatRows(x, n_rows_, w.k());
  const MatmulInput input = InputRows(n_rows_, w);
  NG_RETURN_IF_ERROR(ForRows(n_rows_, [&](int64_t row, int /*worker*/) {
    prepare(x + row * w.k(), w.k(), act_.input.data() + row * input.row_bytes);
  }));
  return input;
}

absl::Status Decoder::AddProduct(const Block& block, const MatmulInput& x) {
  const auto& [spec, w, input] = block;
  const int64_t width = spec_.width;
  const KernelTable& kernels = *parts_.kernels;
  const MatmulCall product = Product(w.out, w.out_bias, x);
  if (spec.adds_directly()) {
    return Matmul(product, act_.strips, [&](const MatmulTile& tile) {
      for (int64_t row = tile.row; row < tile.row + tile.n_rows; ++row) {
        kernels.add(tile.Row(row), tile.n_columns, act_.hidden.data() + row * width + tile.column);
      }
    });
  }
  NG_RETURN_IF_ERROR(Matmul(product, Rows(act_.added, width)));
  return AddRows(block);
}

absl::Status Decoder::AddRows(const Block& block) {
  const int64_t width = spec_.width;
  return ForRows(n_rows_, [&](int64_t row, int /*worker*/) {
    float* const added = act_.added.data() + row * width;
    if (block.spec.after.is_there()) Apply({block.spec.after, block.w.after}, added, width, added);
    if (block.spec.scale != 1.0F) Scale(block.spec.scale, width, added);
    parts_.kernels->add(added, width, act_.hidden.data() + row * width);
  });
}

void Decoder::NormHeads(const SelfAttentionSpec& attention, const BlockWeights& w,
                        float* heads) const {
  const NormSpec& norm = attention.qk_norm;
  const int64_t head_dim = attention.head_dim;
  float* const k = heads + attention.q_width();
  if (attention.qk_norm_kind == QkNormKind::kWidth) {
    Apply({norm, w.q_norm}, heads, attention.q_width(), heads);
    Apply({norm, w.k_norm}, k, attention.kv_width(), k);
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
  apply(w.k_norm, attention.n_kv_heads, k);
}

absl::Status Decoder::NormAndRotate(const SelfAttentionSpec& attention, const BlockWeights& w) {
  const bool norms = attention.qk_norm.is_there();
  const bool norms_after = norms && attention.qk_norm_kind == QkNormKind::kHeadsAfterRope;
  const RopeTable* const rope =
      attention.rope < 0 ? nullptr : &ropes_[static_cast<size_t>(attention.rope)];
  if (rope == nullptr && !norms && attention.clip == 0.0) return absl::OkStatus();
  const int64_t head_dim = attention.head_dim;
  const int64_t first = attention.latent.is_there() ? head_dim - attention.latent.rope_dim : 0;
  const int64_t n_heads_qk = attention.n_heads + attention.n_kv_heads;  // q's, then k's
  return ForRows(n_rows_, [&](int64_t row, int /*worker*/) {
    float* const heads = act_.qkv.data() + row * attention.row_width();
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
