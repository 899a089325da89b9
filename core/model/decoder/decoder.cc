#include "core/model/decoder/decoder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/absl_view.h"
#include "core/base/hash.h"
#include "core/model/step/listed_ids.h"

namespace ng {
namespace {

void Scale(float factor, int64_t n, float* x) {
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

absl::Status CheckStop(const StepBatch& batch) {
  const bool stop = batch.stop != nullptr && batch.stop->load(std::memory_order_relaxed);
  return stop ? InterruptedError("interrupted") : absl::OkStatus();
}

// What all ranks must agree in.
uint64_t HashOfStep(const StepBatch& batch) {
  uint64_t hash = 0;
  for (const StepSequence& entry : batch.sequences) {
    const std::array<int64_t, 4> numbers = {entry.sequence, entry.start_pos, entry.n_logit_rows,
                                            entry.adapters};
    hash = HashOf(std::as_bytes(std::span(numbers)), hash);
    hash = HashOf(std::as_bytes(entry.tokens), hash);
  }
  return hash;
}

}  // namespace

Decoder::Decoder(const ModelSpec& spec, ModelWeights weights, LayerAttention attention,
                 const DecoderParts& parts)
    : spec_(spec),
      weights_(std::move(weights)),
      parts_(parts),
      ranks_(spec),
      attention_(std::move(attention)),
      sharing_(CapabilityOf<PrefixSharing>(*parts.cache)),
      mass_wanted_(CapabilityOf<AttendedMass>(*parts.cache)),
      queries_wanted_(CapabilityOf<PlainQueries>(*parts.cache)),
      cache_plan_(parts.cache->plan()),
      mark_(CapabilityOf<ContextMark>(*parts.cache)),
      rules_(CapabilityOf<KeepRules>(*parts.cache)),
      slots_(parts.cache->plan().slots > 0),
      input_rows_(WidestRowsOf(*parts.kernels, spec, weights_.types)),
      low_rank_(*parts.kernels, *parts.executor, parts.adapters) {
  for (const RopeSpec& rope : spec_.ropes) {
    ropes_.emplace_back(rope, rope.factors ? weights_.rope_factors : std::vector<float>(),
                        spec_.shape.max_positions, parts.max_tokens);
  }
  const RankColumns logits = ColumnsOf(spec_.shape.vocab_size, spec_.split);
  tied_head_ =
      logits.cut ? weights_.embedding.Outputs(logits.first, logits.end()) : weights_.embedding;
  cache_layers_ = spec_.CacheLayers();
  numbers_.resize(spec_.layers.size());
  for (const Operation operation : {Operation::kAttention, Operation::kState}) {
    int number = 0;
    for (const int layer : spec_.LayersWith(operation)) {
      numbers_[static_cast<size_t>(layer)] = number++;
    }
  }
  if (queries_wanted_ != nullptr) SetRotations();
}

absl::StatusOr<SequenceId> Decoder::OpenSequence(std::span<const int32_t> prompt,
                                                 int64_t capacity) {
  const bool shares = share_tokens() > 0 && !prompt.empty();
  NG_ASSIGN_OR_RETURN(const SequenceId sequence,
                      shares ? sharing_->OpenFor(prompt, capacity) : parts_.cache->Open(capacity));
  parts_.states->Clear(sequence);
  return sequence;
}

// Nobody has the state that a sequence would begin with in the middle of a text.
int64_t Decoder::share_tokens() const {
  return parts_.states->empty() ? parts_.cache->plan().share_tokens : 0;
}

void Decoder::CloseSequence(SequenceId sequence) {
  // A sequence that is not open has no state and no room in the cache.
  if (parts_.cache->Capacity(sequence) > 0) parts_.states->Close(sequence);
  parts_.cache->Close(sequence);
}

int64_t Decoder::Length(SequenceId sequence) const { return parts_.cache->Length(sequence); }
int64_t Decoder::Capacity(SequenceId sequence) const { return parts_.cache->Capacity(sequence); }

absl::Status Decoder::Truncate(SequenceId sequence, int64_t length) {
  const int64_t held = Length(sequence);
  if (!parts_.states->empty() && length > 0 && length < held) {
    return UnsupportedError(absl::StrCat("the model keeps a state, which cannot go back from ",
                                         held, " tokens to ", length, ", only to 0"));
  }
  NG_RETURN_IF_ERROR(parts_.cache->Truncate(sequence, length));
  if (length == 0) parts_.states->Clear(sequence);
  return absl::OkStatus();
}

absl::Status Decoder::SetContext(SequenceId sequence, int64_t n_tokens) {
  return mark_ == nullptr ? absl::OkStatus() : mark_->SetMark(sequence, n_tokens);
}

absl::Status Decoder::SetKeepRule(SequenceId sequence, std::string_view rule) {
  const auto rules = rules_ == nullptr ? std::span<const std::string>() : rules_->Rules();
  const auto found = std::ranges::find(rules, rule);
  if (found != rules.end()) {
    return rules_->SetRule(sequence, static_cast<int>(found - rules.begin()));
  }
  return UsageError(absl::StrCat("the cache lets no tokens go by '", View(rule), "'; it can by: ",
                                 rules.empty() ? "none" : absl::StrJoin(rules, ", ")));
}

int64_t Decoder::Gone(SequenceId sequence) const {
  if (!slots_ || cache_layers_.empty()) return 0;
  const int64_t length = Length(sequence);
  const int n_layers = *std::ranges::max_element(cache_layers_) + 1;
  int64_t gone = 0;
  for (int layer = 0; layer < n_layers; ++layer) {
    const KvView view = parts_.cache->View(layer, sequence, length);
    const auto n_heads = static_cast<int64_t>(view.heads.size());
    int64_t of_heads = 0;
    for (const HeadSlots& head : view.heads) of_heads += head.gone;
    gone += n_heads == 0 ? view.gone : of_heads / n_heads;  // as many on the average
  }
  return gone;
}

HeldPositions Decoder::Held(SequenceId sequence) const {
  HeldPositions held{.length = Length(sequence), .heads = {}};
  const std::vector<int> attending = spec_.LayersWith(Operation::kAttention);
  int layer = 0;
  for (size_t i = 0; i < attending.size(); ++i) {
    if (cache_layers_[i] != layer) continue;  // it reads what another one has made
    const auto at = static_cast<size_t>(attending[i]);
    const KvView view = parts_.cache->View(layer, sequence, held.length);
    const int n_heads = spec_.AttentionOf(*spec_.Find(at, Operation::kAttention)).kv_heads();
    for (int head = 0; head < n_heads; ++head) {
      HeldPositions::Head& of = held.heads.emplace_back();
      of.layer = layer;
      of.kv_head = head;
      for (int64_t slot = 0; slot < view.n_slots(head); ++slot) {
        of.positions.push_back(static_cast<int32_t>(view.TokenAt(head, slot)));
      }
    }
    ++layer;
  }
  return held;
}

absl::StatusOr<SequenceId> Decoder::Fork(SequenceId sequence, int64_t capacity) {
  NG_ASSIGN_OR_RETURN(const SequenceId fork, parts_.cache->Fork(sequence, capacity));
  if (!parts_.states->empty()) {
    std::ranges::copy(parts_.states->All(sequence), parts_.states->Overwrite(fork).begin());
  }
  return fork;
}

absl::Status Decoder::Forward(const StepBatch& batch) {
  if (parts_.link != nullptr) NG_RETURN_IF_ERROR(parts_.link->BeginStep(HashOfStep(batch)));
  return spec_.layer_split.ranks > 1 ? ForwardInPieces(batch) : ForwardWhole(batch);
}

absl::Status Decoder::ForwardWhole(const StepBatch& batch) {
  Begin(batch);
  if (parts_.loader != nullptr) NG_RETURN_IF_ERROR(parts_.loader->NeedEmbedding(weights_));
  Embed(batch);
  NG_RETURN_IF_ERROR(LookAt(Point::kEmbed, act_.hidden, spec_.width));
  NG_RETURN_IF_ERROR(MakeLayerInputs(batch));
  return RunStack(batch);
}

absl::Status Decoder::RunStack(const StepBatch& batch) {
  NG_RETURN_IF_ERROR(PlanAttention());
  NG_RETURN_IF_ERROR(RunLayersInTurns(batch));
  NG_RETURN_IF_ERROR(CheckStop(batch));
  WantOf(batch, -1);
  if (spec_.has_head()) NG_RETURN_IF_ERROR(Head(batch));
  // The length moves once, after the last layer.
  NG_RETURN_IF_ERROR(parts_.cache->Commit(rows_));
  parts_.states->Commit(rows_);
  return absl::OkStatus();
}

absl::Status Decoder::RunLayers(const StepBatch& batch, int first, int end) {
  for (int layer = first; layer < end; ++layer) {
    if (!spec_.layer_split.Has(layer)) continue;
    if (parts_.loader != nullptr) NG_RETURN_IF_ERROR(parts_.loader->NeedLayer(layer, weights_));
    if (turns_ == nullptr) WantOf(batch, layer);  // nobody looks into pieces
    NG_RETURN_IF_ERROR(RunLayer(batch, layer));
    NG_RETURN_IF_ERROR(LookAt(Point::kOut, act_.hidden, spec_.width));
    // When the last rows come here, the others have been here, and wait for attention.
    const auto n_rows = static_cast<int64_t>(row_pos_.size());
    if (batch.observer == nullptr || first_row_ + n_rows_ < n_rows) continue;
    batch.observer->OnLayerOutput(layer, {act_.hidden.data(), {n_rows, spec_.width}});
  }
  return absl::OkStatus();
}

TensorView<const float, 2> Decoder::logits() const {
  return {act_.logits.data(), {n_logit_rows_, spec_.shape.vocab_size}};
}

float* Decoder::Own(const CutRows& rows) { return OwnCut(parts_.link, std::span(&rows, 1), 0); }

TensorView<float, 2> Decoder::Rows(std::vector<float>& buffer, int64_t width) {
  return {At(buffer, width), {n_rows_, width}};
}

void Decoder::ListTokens(const StepBatch& batch) {
  listed_.resize(row_pos_.size());
  for (size_t i = 0; i < rows_.size(); ++i) {
    const StepSequence& sequence = batch.sequences[i];
    if (sequence.adapters == 0) continue;
    const auto listed =
        std::span(listed_).subspan(static_cast<size_t>(rows_[i].row_begin), sequence.tokens.size());
    ListIds(sequence.tokens, sequence.adapters, spec_.shape.vocab_size, listed);
    rows_[i].tokens = listed;
  }
}

void Decoder::Begin(const StepBatch& batch) {
  rows_.clear();
  row_pos_.clear();
  token_rows_.clear();
  row_sets_.clear();
  n_logit_rows_ = 0;
  int64_t last_pos = 0;
  for (const StepSequence& sequence : batch.sequences) {
    const auto n_tokens = static_cast<int64_t>(sequence.tokens.size());
    rows_.push_back({.sequence = sequence.sequence,
                     .start_pos = sequence.start_pos,
                     .n_tokens = n_tokens,
                     .row_begin = static_cast<int64_t>(row_pos_.size()),
                     .tokens = sequence.tokens});
    if (slots_) {
      const KvView held = parts_.cache->View(0, sequence.sequence, sequence.start_pos);
      rows_.back().gone = held.gone;
      rows_.back().heads = held.heads;
    }
    for (int64_t i = 0; i < n_tokens; ++i) row_pos_.push_back(sequence.start_pos + i);
    n_logit_rows_ += sequence.n_logit_rows;
    last_pos = std::max(last_pos, sequence.start_pos + n_tokens);
  }
  first_row_ = 0;
  n_rows_ = static_cast<int64_t>(row_pos_.size());
  const auto chosen = [](const StepSequence& sequence) { return sequence.adapters != 0; };
  if (std::ranges::any_of(batch.sequences, chosen)) {
    for (const StepSequence& sequence : batch.sequences) {
      row_sets_.insert(row_sets_.end(), sequence.tokens.size(), sequence.adapters);
    }
    ListTokens(batch);
  }
  act_.Grow(SizesOfStep(
      spec_, ranks_, input_rows_,
      {.n_rows = n_rows_, .n_logit_rows = n_logit_rows_, .threads = parts_.executor->threads()}));
  views_.resize(rows_.size());
  if (mass_wanted_ != nullptr) LayOutMass();
  for (RopeTable& rope : ropes_) rope.Grow(last_pos);
  if (batch.observer != nullptr) batch.observer->OnStep(rows_);
  WantOf(batch, -1);
}

void Decoder::WantOf(const StepBatch& batch, int layer) {
  observer_ = batch.observer;
  layer_ = layer;
  wanted_ = observer_ == nullptr ? PointSet() : observer_->Wanted(layer);
  if (wanted_.empty() || !token_rows_.empty()) return;
  for (const StepSequence& entry : batch.sequences) {
    int64_t pos = entry.start_pos;
    for (const int32_t token : entry.tokens) {
      token_rows_.push_back({entry.sequence, pos++, token, entry.request});
    }
  }
}

bool Decoder::IsSeen(const StepBatch& batch) const {
  const auto asks = [](const std::vector<ProbabilityRow>& rows) { return !rows.empty(); };
  if (std::ranges::any_of(batch.captures, asks)) return true;
  for (int layer = -1; layer < spec_.shape.n_layers && batch.observer != nullptr; ++layer) {
    if (!batch.observer->Wanted(layer).empty()) return true;
  }
  return false;
}

absl::Status Decoder::Look(const Looked& rows) {
  if (!Wants(rows.point)) return absl::OkStatus();
  if (spec_.layer_split.ranks > 1) NG_RETURN_IF_ERROR(TellPoint(rows));
  return Show(rows);
}

absl::Status Decoder::Show(const Looked& rows) {
  return observer_->OnPoint(
      {.at = {rows.point, IsOfLayer(rows.point) ? layer_ : -1},
       .data = rows.data,
       .stride = rows.stride,
       .n_heads = rows.n_heads,
       .width = rows.width,
       .tokens = std::span<const TokenRow>(token_rows_)
                     .subspan(static_cast<size_t>(rows.first),
                              rows.n < 0 ? std::dynamic_extent : static_cast<size_t>(rows.n))});
}

absl::Status Decoder::ShowNormed(Point point, const Block& block) {
  const int64_t width = spec_.width;
  GrowTo(act_.shown, n_rows_ * width);
  NG_RETURN_IF_ERROR(ForRows(n_rows_, [&](int64_t row, int /*worker*/) {
    ApplyOrCopy({block.spec.before, block.w.before}, block.input + row * width, width,
                act_.shown.data() + row * width);
  }));
  return LookAt(point, act_.shown, width);
}

absl::StatusOr<MatmulInput> Decoder::ShownInput(Point point, const Block& block) {
  const auto& [spec, w, input] = block;
  if (!Wants(point) && !low_rank_.AddsTo(w.in)) {
    return Normed({spec.before, w.before}, input, n_rows_, w.in);
  }
  NG_RETURN_IF_ERROR(ShowNormed(point, block));
  return Rounded(act_.shown.data(), spec_.width, w.in);
}

void Decoder::Embed(const StepBatch& batch) {
  const int64_t width = spec_.width;
  const EmbeddingSpec& spec = spec_.embedding;
  int64_t row = 0;
  for (const StepSequence& sequence : batch.sequences) {
    for (const int32_t token : sequence.tokens) {
      float* hidden = act_.hidden.data() + row * width;
      weights_.embedding.CopyRow(token, hidden);
      low_rank_.AddToEmbedding(sequence.adapters, token, {hidden, static_cast<size_t>(width)});
      if (spec.scale != 1.0F) Scale(spec.scale, width, hidden);
      const int64_t pos = row_pos_[static_cast<size_t>(row++)] + spec.position_offset;
      if (spec.positions) {
        parts_.kernels->add(weights_.positions.data() + pos * width, width, hidden);
      }
      if (spec.norm.is_there()) Apply({spec.norm, weights_.embedding_norm}, hidden, width, hidden);
    }
  }
}

absl::Status Decoder::MakeLayerInputs(const StepBatch& batch) {
  const LayerInputSpec& spec = spec_.layer_input;
  if (!spec.is_there()) return absl::OkStatus();
  const PackedMatrix& projection = weights_.layer_projection;
  const int64_t n = spec_.LayerInputWidth();
  NG_ASSIGN_OR_RETURN(const MatmulInput x, Rounded(act_.hidden.data(), spec_.width, projection));
  NG_RETURN_IF_ERROR(Matmul(Product(projection, {}, x), Rows(act_.layer_inputs, n)));
  constexpr auto kOverRootOf2 = static_cast<float>(std::numbers::sqrt2 / 2.0);
  for (size_t i = 0; i < rows_.size(); ++i) {
    const std::span<const int32_t> tokens = batch.sequences[i].tokens;
    float* const first = act_.layer_inputs.data() + rows_[i].row_begin * n;
    NG_RETURN_IF_ERROR(ForRows(rows_[i].n_tokens, [&](int64_t row, int worker) {
      float* const of_token = act_.layer_rows.data() + worker * n;
      weights_.layer_embedding.CopyRow(tokens[static_cast<size_t>(row)], of_token);
      float* const all = first + row * n;
      Scale(spec.projection_scale, n, all);
      for (int64_t at = 0; at < n; at += spec.width) {
        if (spec.norm.is_there()) {
          Apply({spec.norm, weights_.layer_input_norm}, all + at, spec.width, all + at);
        }
      }
      for (int64_t at = 0; at < n; ++at) {
        all[at] = (of_token[at] * spec.scale + all[at]) * kOverRootOf2;
      }
    }));
  }
  return absl::OkStatus();
}

absl::Status Decoder::RunLayer(const StepBatch& batch, int layer) {
  const LayerSpec& blocks = spec_.layers[static_cast<size_t>(layer)];
  const std::vector<BlockWeights>& weights = weights_.layers[static_cast<size_t>(layer)];
  const auto in_parallel = [&](size_t i) {
    return i < blocks.size() && blocks[i].input == BlockInput::kOfBlockBefore;
  };
  const PointSet of_layer = wanted_;
  for (size_t i = 0; i < blocks.size(); ++i) {
    NG_RETURN_IF_ERROR(CheckStop(batch));
    // The stream that a block reads is kept for the blocks that read it too.
    if (in_parallel(i + 1) && !in_parallel(i)) {
      std::copy_n(At(act_.hidden, spec_.width), n_rows_ * spec_.width, At(act_.kept, spec_.width));
    }
    std::vector<float>& input = in_parallel(i) ? act_.kept : act_.hidden;
    const Block block = {blocks[i], weights[i], At(input, spec_.width)};
    // What a layer gets beside the stream has no points of its own.
    wanted_ = block.spec.operation == Operation::kLayerInput ? PointSet() : of_layer;
    NG_RETURN_IF_ERROR(RunBlock(batch, layer, block));
    float* const hidden = At(act_.hidden, spec_.width);
    NG_RETURN_IF_ERROR(
        NormRows({block.spec.stream_norm, block.w.stream_norm}, spec_.width, hidden));
    if (block.spec.stream_factor) {
      Scale(block.w.stream_factor[0], n_rows_ * spec_.width, hidden);
    }
    if (!block.spec.mixes()) continue;
    NG_RETURN_IF_ERROR(LookAt(Point::kAttnResid, act_.hidden, spec_.width));
  }
  wanted_ = of_layer;
  return absl::OkStatus();
}

absl::Status Decoder::Head(const StepBatch& batch) {
  if (n_logit_rows_ == 0) return absl::OkStatus();
  const PackedMatrix& head = HeadMatrix();
  // The rows that logits are wanted of, normed and packed together.
  MatmulInput input = InputRows(n_logit_rows_, head);
  const int64_t width = spec_.width;
  const bool shown = Wants(Point::kNorm) || low_rank_.AddsTo(head);
  if (shown) GrowTo(act_.shown, n_logit_rows_ * width);
  int64_t row = 0;
  for (size_t i = 0; i < rows_.size(); ++i) {
    const int64_t end = rows_[i].row_begin + rows_[i].n_tokens;
    const int64_t n_wanted = batch.sequences[i].n_logit_rows;
    const float* x = act_.hidden.data() + (end - n_wanted) * width;
    const Norm norm = {spec_.head.norm, weights_.final_norm};
    if (shown) {
      NG_RETURN_IF_ERROR(ForRows(n_wanted, [&](int64_t i, int /*worker*/) {
        ApplyOrCopy(norm, x + i * width, width, act_.shown.data() + (row + i) * width);
      }));
    } else {
      NG_RETURN_IF_ERROR(Normed(norm, x, n_wanted, head, row).status());
    }
    row += n_wanted;
  }
  if (Wants(Point::kNorm) || Wants(Point::kLogits)) FindLogitRows(batch);
  if (shown) {
    NG_RETURN_IF_ERROR(LookAt(Point::kNorm, act_.shown, width));
    const TensorView<const float, 2> normed(act_.shown.data(), {n_logit_rows_, width});
    NG_ASSIGN_OR_RETURN(input, RoundedRows(normed, LogitSetsOf(batch), head));
  }
  const int64_t vocab_size = spec_.shape.vocab_size;
  float* const logits = act_.logits.data() + first_logit_row_ * vocab_size;
  NG_RETURN_IF_ERROR(MakeLogits(input, logits));
  return Look({Point::kLogits, logits, vocab_size, 1, vocab_size});
}

absl::Status Decoder::MakeLogits(const MatmulInput& x, float* logits) {
  if (parts_.loader != nullptr) NG_RETURN_IF_ERROR(parts_.loader->NeedHead(weights_));
  const PackedMatrix& head = HeadMatrix();
  const CutRows rows = {ranks_.given_logits, x.n_rows, logits};
  NG_RETURN_IF_ERROR(
      Matmul(Product(head, weights_.head_bias, x), {Own(rows), {x.n_rows, head.n()}}));
  NG_RETURN_IF_ERROR(Gather(rows));
  FinishLogits(x.n_rows, logits);
  return absl::OkStatus();
}

// Behind the layers a step goes on with these rows alone.
void Decoder::FindLogitRows(const StepBatch& batch) {
  size_t kept = 0;
  for (size_t i = 0; i < rows_.size(); ++i) {
    const int64_t end = rows_[i].row_begin + rows_[i].n_tokens;
    for (int64_t row = end - batch.sequences[i].n_logit_rows; row < end; ++row) {
      token_rows_[kept++] = token_rows_[static_cast<size_t>(row)];
    }
  }
  token_rows_.resize(kept);
}

void Decoder::FinishLogits(int64_t n_rows, float* logits) const {
  if (spec_.head.as_they_are()) return;
  const float cap = spec_.head.soft_cap;
  for (float& logit : std::span(logits, static_cast<size_t>(n_rows * spec_.shape.vocab_size))) {
    logit *= spec_.head.scale;
    if (cap > 0.0F) logit = std::tanh(logit / cap) * cap;
  }
}

absl::Status Decoder::HeadLogits(const TensorView<const float, 2>& hidden,
                                 std::span<float> logits) {
  if (!spec_.has_head()) return UsageError("the head is on another rank");
  const PackedMatrix& head = HeadMatrix();
  const int64_t n_rows = hidden.extent[0];
  const int64_t width = spec_.width;
  const int64_t vocab_size = spec_.shape.vocab_size;
  if (hidden.extent[1] != width || n_rows < 1 || std::ssize(logits) != n_rows * vocab_size) {
    return UsageError(absl::StrCat("the head reads rows of ", width, " values and writes ",
                                   vocab_size, " for each: ", n_rows, " rows of ", hidden.extent[1],
                                   " and room for ", logits.size(), " values were given"));
  }
  const auto prepare = parts_.kernels->prepare[static_cast<size_t>(head.type())];
  // Memory of its own: a probe may ask in the middle of a step.
  GrowTo(head_normed_, n_rows * width);
  MatmulInput input = FloatRows(head_normed_.data(), n_rows, width);
  if (prepare != nullptr) {
    input.row_bytes = InputRows(n_rows, head).row_bytes;
    GrowTo(head_input_, n_rows * input.row_bytes);
    input.data = head_input_.data();
  }
  NG_RETURN_IF_ERROR(ForRows(n_rows, [&](int64_t row, int /*worker*/) {
    float* const normed = head_normed_.data() + row * width;
    ApplyOrCopy({spec_.head.norm, weights_.final_norm}, hidden.Row(row), width, normed);
    if (prepare != nullptr) prepare(normed, width, head_input_.data() + row * input.row_bytes);
  }));
  low_rank_.Begin(1);
  NG_RETURN_IF_ERROR(
      low_rank_.Add(head, FloatRows(head_normed_.data(), n_rows, width), {}, &input));
  return MakeLogits(input, logits.data());
}

MatmulInput Decoder::InputRows(int64_t n_rows, const PackedMatrix& w) {
  const int64_t row_bytes =
      InputRowBytes(parts_.kernels->input[static_cast<size_t>(w.type())], w.k());
  return {InputRoom(), n_rows, w.k(), row_bytes};
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
  std::byte* const room = InputRoom();
  NG_RETURN_IF_ERROR(ForRows(n_rows, [&](int64_t row, int worker) {
    const float* const from = x + row * width;
    std::byte* const to = room + (first + row) * input.row_bytes;
    float* const normed =
        prepare == nullptr ? reinterpret_cast<float*>(to) : act_.normed.data() + worker * width;
    ApplyOrCopy(norm, from, width, normed);
    if (prepare != nullptr) prepare(normed, width, to);
  }));
  return input;
}

absl::StatusOr<MatmulInput> Decoder::Rounded(const float* x, int64_t stride,
                                             const PackedMatrix& w) {
  TensorView<const float, 2> rows(x, {n_rows_, w.k()});
  rows.stride[0] = stride;
  return RoundedRows(rows, SetsOf(0, n_rows_), w);
}

absl::StatusOr<MatmulInput> Decoder::RoundedRows(const TensorView<const float, 2>& x, RowSets sets,
                                                 const PackedMatrix& w) {
  const auto prepare = parts_.kernels->prepare[static_cast<size_t>(w.type())];
  const int64_t n_rows = x.extent[0];
  const MatmulInput floats = FloatRows(x.data, n_rows, w.k(), x.stride[0]);
  MatmulInput input = floats;
  if (prepare != nullptr) {
    input = InputRows(n_rows, w);
    std::byte* const room = InputRoom();
    NG_RETURN_IF_ERROR(ForRows(n_rows, [&](int64_t row, int /*worker*/) {
      prepare(x.Row(row), w.k(), room + row * input.row_bytes);
    }));
  }
  low_rank_.Begin(1);
  NG_RETURN_IF_ERROR(low_rank_.Add(w, floats, sets, &input));
  return input;
}

RowSets Decoder::SetsOf(int64_t first, int64_t n) const {
  if (row_sets_.empty()) return {};
  return RowSets(row_sets_).subspan(static_cast<size_t>(first_row_ + first),
                                    static_cast<size_t>(n));
}

RowSets Decoder::LogitSetsOf(const StepBatch& batch) {
  logit_sets_.clear();
  if (row_sets_.empty()) return {};
  for (const StepSequence& sequence : batch.sequences) {
    logit_sets_.insert(logit_sets_.end(), static_cast<size_t>(sequence.n_logit_rows),
                       sequence.adapters);
  }
  return logit_sets_;
}

}  // namespace ng
