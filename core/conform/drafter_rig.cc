#include "core/conform/drafter_rig.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/conform/texts.h"

namespace ng::conform {
namespace {

constexpr int32_t kFence = -77;

}  // namespace

DrafterRig::DrafterRig(const DrafterSubject& subject)
    : subject_(subject), executor_(std::make_unique<UnevenExecutor>(1)) {}

std::unique_ptr<Drafter> DrafterRig::Make() {
  PluginContext context;
  context.executor = executor_.get();
  context.isa = subject_.settings.isa;
  context.model.vocab_size = kDrafterVocabSize;
  absl::StatusOr<std::unique_ptr<Drafter>> made = subject_.make(context);
  if (!made.ok()) {
    Note("cannot be created: " + Text(made.status()));
    return nullptr;
  }
  if (*made == nullptr) {
    Note("create returned OK and no object");
    return nullptr;
  }
  Load(**made, kDrafterSpec);
  return noted() ? nullptr : *std::move(made);
}

void DrafterRig::Load(Drafter& drafter, const DrafterSpec& spec) {
  const absl::StatusOr<DrafterPlan> plan = drafter.Plan(spec);
  Tell("Plan", plan.status());
  if (plan.ok() && plan->bytes < 0) Note(absl::StrCat("plans ", plan->bytes, " bytes"));
  Tell("Load", drafter.Load(spec));
}

void DrafterRig::Tell(const char* call, const absl::Status& status) {
  if (!status.ok()) Note(absl::StrCat(call, " fails: ", Text(status)));
}

DraftTokens DrafterRig::TextOf(int number) {
  DraftTokens text;
  for (int64_t i = 0; i < kDrafterSpec.max_tokens; ++i) {
    text.push_back(static_cast<int32_t>((number * 7 + i % 9 * 5 + i / 27) % kDrafterVocabSize));
  }
  return text;
}

void DrafterRig::Open(Drafter& drafter, int slot, int number, int64_t n_tokens,
                      int64_t n_answered) {
  const DraftTokens text = TextOf(number);
  Tell("Open",
       drafter.Open(slot, {.number = number,
                           .prompt_ids = std::span(text).first(static_cast<size_t>(n_tokens)),
                           .n_answered = n_answered}));
}

void DrafterRig::Accept(Drafter& drafter, int slot, int number, int64_t begin, int64_t end) {
  const DraftTokens text = TextOf(number);
  for (int64_t i = begin; i < end; ++i) {
    Tell("Accept", drafter.Accept(slot, text[static_cast<size_t>(i)]));
  }
}

void DrafterRig::Close(Drafter& drafter, int slot) { Tell("Close", drafter.Close(slot)); }

std::vector<DraftTokens> DrafterRig::Ask(Drafter& drafter, std::span<const int> slots,
                                         int64_t most) {
  const auto n = static_cast<size_t>(most);
  std::vector<DraftTokens> memory(slots.size(), DraftTokens(n + 2, kFence));
  std::vector<Draft> drafts;
  for (size_t i = 0; i < slots.size(); ++i) {
    drafts.push_back({slots[i], std::span(memory[i]).subspan(1, n)});
  }
  Tell("Propose", drafter.Propose(drafts));
  std::vector<DraftTokens> proposed(slots.size());
  for (size_t i = 0; i < slots.size() && !noted(); ++i) {
    CheckDraft(drafts[i], slots[i], memory[i]);
    if (noted()) break;
    const auto begin = memory[i].begin() + 1;
    proposed[i].assign(begin, begin + drafts[i].n_tokens);
  }
  return proposed;
}

void DrafterRig::CheckDraft(const Draft& draft, int slot, std::span<const int32_t> memory) {
  const int64_t most = std::ssize(memory) - 2;
  if (draft.slot != slot || draft.tokens.data() != memory.data() + 1 ||
      std::ssize(draft.tokens) != most) {
    return Note(absl::StrCat("changes the draft of slot ", slot, " and does not only fill it"));
  }
  if (memory.front() != kFence || memory.back() != kFence) {
    return Note(absl::StrCat("writes beside a draft of ", most, " tokens"));
  }
  if (draft.n_tokens < 0 || draft.n_tokens > most) {
    return Note(
        absl::StrCat("gives a draft of ", draft.n_tokens, " tokens, must be in [0, ", most, "]"));
  }
  for (const int32_t token : draft.tokens.first(static_cast<size_t>(draft.n_tokens))) {
    if (token >= 0 && token < kDrafterVocabSize) continue;
    return Note(
        absl::StrCat("proposes token ", token, ", must be in [0, ", kDrafterVocabSize, ")"));
  }
}

DraftTokens DrafterRig::Ask(Drafter& drafter, int slot, int64_t most) {
  return Ask(drafter, {&slot, 1}, most).front();
}

DraftTokens DrafterRig::AskAnother(int number, int64_t n_tokens) {
  const std::unique_ptr<Drafter> other = Make();
  if (other == nullptr) return {};
  Open(*other, 0, number, n_tokens);
  return Ask(*other, 0);
}

}  // namespace ng::conform
