#include "plugins/drafter/model/model_drafter.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "ng/isa.h"

namespace ng {
namespace {

absl::string_view AsAbsl(std::string_view text) { return {text.data(), text.size()}; }

// The first of the largest.
int32_t MostLikely(std::span<const float> logits) {
  return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Drafter>> ModelDrafter::Create(const PluginContext& context) {
  std::string path(context.options.Text("path"));
  if (path.empty()) {
    return UsageError(
        "drafter.model.path is empty; it names a smaller model with the same "
        "vocabulary");
  }
  std::unique_ptr<ModelDrafter> drafter(new ModelDrafter(std::move(path)));
  const std::string name = absl::StrCat("drafter.model.path = ", drafter->path_, ": ");
  NG_RETURN_IF_ERROR(Annotate(drafter->OpenEngine(context), name));
  NG_RETURN_IF_ERROR(Annotate(drafter->CheckVocabulary(context), name));
  return drafter;
}

absl::Status ModelDrafter::OpenEngine(const PluginContext& context) {
  EngineOptions options;
  options.executor = context.executor;
  options.stop = context.stop;
  // The config has to be whole; what stands here beside path, types and level is never used.
  options.overrides = {absl::StrCat("model.path=", path_),
                       absl::StrCat("model.weights=", AsAbsl(context.options.Text("weights"))),
                       absl::StrCat("cache.codec=", AsAbsl(context.options.Text("codec"))),
                       absl::StrCat("run.isa=", AsAbsl(IsaName(context.isa))),
                       "run.model_defaults=false",
                       "run.stop_ids=",
                       "sampler.chain=greedy",
                       "tokenizer.chat_template=none"};
  NG_ASSIGN_OR_RETURN(engine_, Engine::Open(options));
  return absl::OkStatus();
}

absl::Status ModelDrafter::CheckVocabulary(const PluginContext& context) const {
  const int64_t vocab_size = engine_->model_shape().vocab_size;
  if (vocab_size != context.model.vocab_size) {
    return ModelFileError(absl::StrCat("has a vocabulary of ", vocab_size,
                                       ", must be that of the "
                                       "model, which has ",
                                       context.model.vocab_size));
  }
  const std::span<const std::string_view> own = engine_->token_bytes();
  const std::span<const std::string_view> wanted = context.token_bytes;
  if (own.empty() != wanted.empty()) {
    return ModelFileError(absl::StrCat(own.empty() ? "has no tokenizer, and the model has one"
                                                   : "has a tokenizer, and the model has none",
                                       "; both must have the same"));
  }
  for (size_t id = 0; id < own.size(); ++id) {
    if (own[id] == wanted[id]) continue;
    return ModelFileError(absl::StrCat("has another vocabulary: its token ", id, " is '",
                                       absl::CHexEscape(AsAbsl(own[id])), "', the model's is '",
                                       absl::CHexEscape(AsAbsl(wanted[id])), "'"));
  }
  return absl::OkStatus();
}

RunNeeds ModelDrafter::NeedsOf(const DrafterSpec& spec) const {
  const int64_t most = engine_->model_shape().max_positions;
  return {.max_tokens = most > 0 ? std::min(most, spec.max_tokens) : spec.max_tokens,
          .max_sequences = spec.max_sequences};
}

absl::StatusOr<DrafterPlan> ModelDrafter::Plan(const DrafterSpec& spec) const {
  NG_ASSIGN_OR_RETURN(const RunPlan plan, engine_->Plan(NeedsOf(spec)));
  return DrafterPlan{plan.needed_bytes()};
}

absl::Status ModelDrafter::Load(const DrafterSpec& spec) {
  const RunNeeds needs = NeedsOf(spec);
  NG_RETURN_IF_ERROR(engine_->Load(needs));
  max_tokens_ = needs.max_tokens;
  slots_.assign(static_cast<size_t>(spec.max_sequences), Slot());
  for (Slot& slot : slots_) {
    slot.ids.reserve(static_cast<size_t>(spec.max_tokens));
    slot.fed.reserve(static_cast<size_t>(max_tokens_));
  }
  new_tokens_.resize(slots_.size());
  return absl::OkStatus();
}

absl::Status ModelDrafter::Open(int slot, const DraftedRequest& request) {
  Slot& opened = At(slot);
  NG_ASSIGN_OR_RETURN(opened.sequence, engine_->OpenSequence(max_tokens_));
  opened.ids.assign(request.prompt_ids.begin(), request.prompt_ids.end());
  opened.fed.clear();
  opened.n_agreed = 0;
  return absl::OkStatus();
}

absl::Status ModelDrafter::Accept(int slot, int32_t token) {
  Slot& grown = At(slot);
  const auto place = grown.ids.size();
  grown.ids.push_back(token);
  const bool agreed = grown.n_agreed == std::ssize(grown.ids) - 1;
  if (agreed && place < grown.fed.size() && grown.fed[place] == token) ++grown.n_agreed;
  return absl::OkStatus();
}

absl::Status ModelDrafter::Close(int slot) {
  engine_->CloseSequence(At(slot).sequence);
  return absl::OkStatus();
}

int64_t ModelDrafter::Fitting(const Draft& draft) {
  // The last token of a draft is not fed.
  const int64_t room = max_tokens_ - std::ssize(At(draft.slot).ids) + 1;
  return std::clamp<int64_t>(room, 0, std::ssize(draft.tokens));
}

absl::Status ModelDrafter::TakeBack(Slot& slot) {
  // The newest token is fed in any case: its logits are wanted.
  int64_t kept = std::min(slot.n_agreed, std::ssize(slot.ids) - 1);
  if (kept < std::ssize(slot.fed)) {
    const absl::Status back = engine_->TruncateSequence(slot.sequence, kept);
    if (IsUnsupported(back)) {
      kept = 0;
      NG_RETURN_IF_ERROR(engine_->TruncateSequence(slot.sequence, kept));
    } else if (!back.ok()) {
      return back;
    }
  }
  slot.fed.resize(static_cast<size_t>(kept));
  return absl::OkStatus();
}

absl::StatusOr<StepLogits> ModelDrafter::CatchUp(std::span<const Draft> drafts) {
  sequences_.clear();
  for (size_t i = 0; i < drafting_.size(); ++i) {
    Slot& slot = At(drafts[drafting_[i]].slot);
    NG_RETURN_IF_ERROR(TakeBack(slot));
    const auto new_begin = slot.ids.begin() + std::ssize(slot.fed);
    new_tokens_[i].assign(new_begin, slot.ids.end());
    sequences_.push_back(slot.sequence);
  }
  NG_ASSIGN_OR_RETURN(const StepLogits step,
                      engine_->Extend(sequences_, std::span(new_tokens_).first(drafting_.size())));
  for (const size_t i : drafting_) {
    Slot& slot = At(drafts[i].slot);
    slot.fed = slot.ids;
    slot.n_agreed = std::ssize(slot.ids);
  }
  return step;
}

void ModelDrafter::Choose(const StepLogits& step, std::span<Draft> drafts) {
  const int64_t vocab_size = step.logits.extent[1];
  size_t n_more = 0;
  sequences_.clear();
  tokens_.clear();
  for (size_t row = 0; row < drafting_.size(); ++row) {
    Draft& draft = drafts[drafting_[row]];
    const float* const logits = step.logits.Row(static_cast<int64_t>(row));
    const int32_t token = MostLikely({logits, static_cast<size_t>(vocab_size)});
    draft.tokens[static_cast<size_t>(draft.n_tokens++)] = token;
    if (draft.n_tokens == Fitting(draft)) continue;
    sequences_.push_back(At(draft.slot).sequence);
    tokens_.push_back(token);
    drafting_[n_more++] = drafting_[row];
  }
  drafting_.resize(n_more);
}

absl::Status ModelDrafter::Propose(std::span<Draft> drafts) {
  drafting_.clear();
  for (size_t i = 0; i < drafts.size(); ++i) {
    if (Fitting(drafts[i]) > 0) drafting_.push_back(i);
  }
  if (drafting_.empty()) return absl::OkStatus();
  NG_ASSIGN_OR_RETURN(StepLogits step, CatchUp(drafts));
  Choose(step, drafts);
  while (!drafting_.empty()) {
    NG_ASSIGN_OR_RETURN(step, engine_->DecodeStep(sequences_, tokens_));
    for (size_t row = 0; row < drafting_.size(); ++row) {
      At(drafts[drafting_[row]].slot).fed.push_back(tokens_[row]);
    }
    Choose(step, drafts);
  }
  return absl::OkStatus();
}

}  // namespace ng
