// GenerateLoop: how a request begins.
#include <algorithm>
#include <memory>
#include <utility>

#include "core/model/step/listed_ids.h"
#include "core/runtime/loop/caught.h"
#include "core/runtime/loop/generate_loop.h"

namespace ng {
namespace {

bool HasSnapshot(const GenerateRequest& request) {
  return !request.load_cache.empty() || !request.save_cache.empty();
}

}  // namespace

bool GenerateLoop::Shares(const GenerateRequest& request) const {
  // Rows that are looked at must be computed.
  if (!settings_.use_cache || KeepsPrompt() || request.prompt_top_logprobs >= 0) return false;
  if (!CanList(SetOf(request.adapter), model_.shape().vocab_size)) return false;
  // Others have computed theirs without these edits, or with edits for another request.
  if (probes_ != nullptr && probes_->edits()) return false;
  // Beyond the context every id gets another position.
  const auto prompt_len = static_cast<int64_t>(request.prompt_ids.size());
  return !request.sequence.has_value() && prompt_len <= settings_.context &&
         request.max_new_tokens <= settings_.context - prompt_len;
}

int32_t GenerateLoop::SetOf(const std::string& adapter) const {
  if (adapter.empty()) return 0;
  const auto found = std::ranges::find(settings_.adapters, adapter);
  return static_cast<int32_t>(1 + (found - settings_.adapters.begin()));
}

std::span<const int32_t> GenerateLoop::Listed(std::span<const int32_t> ids, int32_t adapters) {
  if (adapters == 0) return ids;
  listed_.resize(ids.size());
  ListIds(ids, adapters, model_.shape().vocab_size, listed_);
  return listed_;
}

bool GenerateLoop::WillBeShared(const GenerateRequest& request) {
  if (checkpoints_ != nullptr) return Shares(request) && WillHaveCheckpoint(request);
  const int64_t piece = model_.share_tokens();
  if (piece == 0 || !Shares(request)) return false;
  const std::vector<int32_t>& prompt = request.prompt_ids;
  return std::ranges::any_of(active_, [&](const std::unique_ptr<ActiveRequest>& active) {
    if (active->prefill_done || !Shares(active->request())) return false;
    if (active->request().adapter != request.adapter) return false;
    const std::vector<int32_t>& other = active->ids();
    const auto differ = std::mismatch(prompt.begin(), prompt.end() - 1, other.begin(), other.end());
    const auto n_common = static_cast<int64_t>(differ.first - prompt.begin());
    return n_common / piece > model_.Length(active->sequence) / piece;
  });
}

bool GenerateLoop::ComesBack(const GenerateRequest& request) const {
  const bool looked_at = KeepsPrompt() || options_.on_point || request.prompt_top_logprobs >= 0;
  return request.max_new_tokens <= 0 && !looked_at && !HasSnapshot(request);
}

absl::Status GenerateLoop::OpenSequence(ActiveRequest& active) {
  const GenerateRequest& request = active.request();
  if (request.sequence.has_value()) {
    active.sequence = *request.sequence;
    return absl::OkStatus();
  }
  const auto prompt_len = static_cast<int64_t>(request.prompt_ids.size());
  const int64_t wanted = std::min(prompt_len + active.max_new_tokens, settings_.context);
  std::span<const int32_t> prompt;
  if (Shares(request)) prompt = Listed(request.prompt_ids, active.adapters);
  NG_ASSIGN_OR_RETURN(active.sequence, checkpoints_ == nullptr
                                           ? model_.OpenSequence(prompt, wanted)
                                           : checkpoints_->Open(prompt, wanted));
  active.owns_sequence = true;
  active.n_shared = model_.Length(active.sequence);
  return absl::OkStatus();
}

absl::Status GenerateLoop::Admit() {
  while (!waiting_.empty() && !free_slots_.empty() && !cache_full_) {
    const AddedRequest added = waiting_.front();
    if (ComesBack(*added.request)) {
      BeginCompletion(added);
      waiting_.pop_front();
      NG_RETURN_IF_ERROR(Report(added));  // the prompt comes back as it is
      continue;
    }
    if (WillBeShared(*added.request)) break;
    auto made = std::make_unique<ActiveRequest>();
    ActiveRequest& active = *made;
    active.added = added;
    active.max_new_tokens = std::max<int64_t>(0, added.request->max_new_tokens);
    active.n_answered = added.request->n_answered;
    active.adapters = SetOf(added.request->adapter);
    active.admitted = GenerateClock::now();
    active_.reserve(active_.size() + 1);  // so that nothing that is open is lost
    const absl::Status opened = OpenSequence(active);
    // Room comes when one of the others ends.
    cache_full_ = absl::IsResourceExhausted(opened) && !active_.empty();
    if (cache_full_) break;
    active.slot = free_slots_.back();
    free_slots_.pop_back();
    active_.push_back(std::move(made));
    waiting_.pop_front();
    BeginCompletion(added);
    const absl::Status begun = opened.ok() ? Caught([&] { return Activate(active); }) : opened;
    NG_RETURN_IF_ERROR(OwnError(active, begun));
    if (active.failed()) {
      NG_RETURN_IF_ERROR(Retire(active_.size() - 1, StopReason::kError));
      continue;
    }
    if (speculation_ != nullptr) NG_RETURN_IF_ERROR(OpenDrafts(active));
    if (probes_ == nullptr) continue;
    active.probed = true;
    NG_RETURN_IF_ERROR(probes_->Begin({.index = active.index(),
                                       .prompt_ids = active.ids(),
                                       .n_held = model_.Length(active.sequence)}));
  }
  return absl::OkStatus();
}

void GenerateLoop::BeginCompletion(const AddedRequest& added) const {
  Completion& completion = *added.completion;
  completion.ids = added.request->prompt_ids;
  completion.prompt_len = static_cast<int64_t>(completion.ids.size());
  completion.timings.load_s = settings_.load_s + model_.read_s();
}

absl::Status GenerateLoop::Activate(ActiveRequest& active) {
  const GenerateRequest& request = active.request();
  const int64_t prompt_len = active.completion().prompt_len;
  active.ids().reserve(static_cast<size_t>(prompt_len + active.max_new_tokens));
  active.room = std::min(model_.Capacity(active.sequence), settings_.context);
  active.first = std::max<int64_t>(0, prompt_len - active.room);
  active.kept.scoring = request.prompt_top_logprobs >= 0;
  active.kept_points.begin = active.kept_points.end =
      std::max(model_.Length(active.sequence), options_.capture_points_from);
  active.sampler = active.added.sampler;
  if (active.sampler.chain == nullptr) {
    NG_ASSIGN_OR_RETURN(active.sampler, samplers_.For(request.settings));
  }
  NG_RETURN_IF_ERROR(OpenStages(active));
  active.staged = true;
  NG_RETURN_IF_ERROR(SetContext(active));
  if (!request.load_cache.empty()) NG_RETURN_IF_ERROR(LoadSnapshot(active));
  PlaceMarks(active);
  return absl::OkStatus();
}

absl::Status GenerateLoop::SetContext(const ActiveRequest& active) {
  const GenerateRequest& request = active.request();
  int64_t n_tokens = request.context_tokens;
  if (n_tokens == 0 && !request.sequence) n_tokens = settings_.context_tokens;
  return n_tokens == 0 ? absl::OkStatus() : model_.SetContext(active.sequence, n_tokens);
}

absl::Status GenerateLoop::OpenStages(const ActiveRequest& active) {
  SamplerChain& chain = *active.sampler.chain;
  const std::span<const int32_t> ids = active.ids();
  const size_t n_asked = ids.size() - static_cast<size_t>(active.n_answered);
  NG_RETURN_IF_ERROR(chain.Open(active.slot, ids.first(n_asked)));
  for (const int32_t token : ids.subspan(n_asked)) {
    absl::Status told = chain.Accept(active.slot, token).status();
    if (told.ok()) continue;
    chain.Close(active.slot).IgnoreError();
    return told;
  }
  return absl::OkStatus();
}

absl::Status GenerateLoop::LoadSnapshot(ActiveRequest& active) {
  const GenerateRequest& request = active.request();
  NG_ASSIGN_OR_RETURN(const CacheFile file, snapshots_->Open(request.load_cache));
  NG_RETURN_IF_ERROR(CheckBegins(file, request.prompt_ids));
  const int64_t end = std::min(std::ssize(file.header().ids), std::ssize(request.prompt_ids) - 1);
  NG_RETURN_IF_ERROR(snapshots_->Load(file, end, active.sequence));
  active.n_loaded = model_.Length(active.sequence) - active.n_shared;
  return absl::OkStatus();
}

}  // namespace ng
