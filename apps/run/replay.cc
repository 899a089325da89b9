#include "apps/run/replay.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/common/answer_room.h"
#include "ng/config.h"

namespace ng::run {
namespace {

const std::string* RecordedValue(const RunRecord& record, std::string_view key) {
  const auto found = std::ranges::find(
      record.config, key, [](const auto& entry) { return std::string_view(entry.first); });
  return found == record.config.end() ? nullptr : &found->second;
}

std::string NotAsRecorded(const std::string& what, const std::string& now,
                          const std::string& recorded) {
  return absl::StrCat(what, " ", now, ", recorded: ", recorded);
}

// What differs of a plugin that both have.
void AddPlugins(const RunFingerprint& recorded, const RunFingerprint& now,
                std::vector<std::string>* changed) {
  for (const PluginFingerprint& plugin : now.plugins) {
    const auto is_it = [&](const PluginFingerprint& other) {
      return other.kind == plugin.kind && other.name == plugin.name;
    };
    const auto found = std::ranges::find_if(recorded.plugins, is_it);
    if (found == recorded.plugins.end() || *found == plugin) continue;
    changed->push_back(NotAsRecorded(absl::StrCat(plugin.kind, " plugin ", plugin.name),
                                     absl::StrCat(plugin.version, " (library ", plugin.hash, ")"),
                                     absl::StrCat(found->version, " (library ", found->hash, ")")));
  }
}

// What is not as recorded, from what changes most to what changes least.
std::vector<std::string> ChangedParts(const RunRecord& record, const RunFingerprint& now,
                                      const Config& config) {
  const RunFingerprint& then = record.made_of;
  std::vector<std::string> changed;
  if (record.edited) {
    changed.emplace_back("the record was changed after it had been written: its checksum is wrong");
  }
  const auto compare = [&](const char* what, const std::string& value, const std::string& old) {
    if (value != old) changed.push_back(NotAsRecorded(what, value, old));
  };
  compare("model", now.model, then.model);
  compare("tokenizer", now.tokenizer, then.tokenizer);
  compare("arithmetic", now.arithmetic, then.arithmetic);
  compare("edits", now.edits, then.edits);
  compare("program", now.program, then.program);
  compare("SDK", now.sdk, then.sdk);
  AddPlugins(then, now, &changed);
  for (const ConfigItem& item : config.items()) {
    const std::string* const value = RecordedValue(record, item.declared.key);
    if (value == nullptr || item.hidden()) continue;
    compare((item.declared.key + " =").c_str(), item.value.text, *value);
  }
  compare("instruction set level", now.isa, then.isa);
  return changed;
}

}  // namespace

absl::StatusOr<Recorder> Recorder::Begin(AtomicFileWriter file, const Engine& engine,
                                         std::span<const GenerateRequest> requests) {
  RunRecord record;
  NG_ASSIGN_OR_RETURN(record.made_of, engine.Fingerprint());
  for (const ConfigItem& item : engine.config().items()) {
    record.config.emplace_back(item.declared.key, item.hidden() ? "" : item.value.text);
  }
  for (const GenerateRequest& request : requests) {
    record.requests.push_back({.prompt_ids = request.prompt_ids,
                               .max_new_tokens = request.max_new_tokens,
                               .context_tokens = request.context_tokens,
                               .steps = {},
                               .stop_reason = std::string(StopReasonName(StopReason::kError))});
  }
  return Recorder(std::move(file), std::move(record));
}

void Recorder::OnStep(int index, const StepRecord& step) {
  record_.requests[static_cast<size_t>(index)].steps.push_back({step.token_id, step.logits_hash});
}

void Recorder::OnDone(int index, const Completion& completion) {
  record_.requests[static_cast<size_t>(index)].stop_reason =
      std::string(StopReasonName(completion.stop_reason));
}

absl::Status Recorder::Commit() {
  NG_RETURN_IF_ERROR(file_.Write(RecordText(record_)));
  return file_.Commit();
}

std::vector<std::string> OverridesOf(const RunRecord& record) {
  std::vector<std::string> overrides;
  for (const auto& [key, value] : record.config) overrides.push_back(absl::StrCat(key, "=", value));
  return overrides;
}

absl::StatusOr<std::vector<GenerateRequest>> RequestsOf(const RunRecord& record,
                                                        const CommandLine& line,
                                                        const Engine& engine) {
  const std::string* const recorded = RecordedValue(record, "run.max_new_tokens");
  const int64_t now = engine.default_max_new_tokens();
  const bool now_is_auto = AnswersAreOpen(engine.config());
  std::vector<GenerateRequest> requests;
  for (const RecordedRequest& kept : record.requests) {
    GenerateRequest& request = requests.emplace_back();
    request.prompt_ids = kept.prompt_ids;
    request.max_new_tokens = kept.max_new_tokens;
    request.context_tokens = kept.context_tokens;
    // Of auto came a number that is recorded; another one that is given now is for all.
    const bool by_default = recorded != nullptr && !now_is_auto &&
                            (*recorded == "auto" || absl::StrCat(kept.max_new_tokens) == *recorded);
    if (by_default) request.max_new_tokens = now;
    if (!kept.ended()) request.max_new_tokens = std::ssize(kept.steps);
    request.load_cache = line.load_cache;
    request.save_cache = line.save_cache;
    const absl::Status fits = engine.CheckRequest(request);
    if (fits.ok()) continue;
    const std::string where = absl::StrCat(line.replay, ": requests[", requests.size() - 1, "]: ");
    // The file is wrong, not the command line.
    return absl::IsInvalidArgument(fits) ? ModelFileError(where + std::string(fits.message()))
                                         : Annotate(fits, where);
  }
  return requests;
}

absl::StatusOr<Replay> Replay::Begin(const RunRecord& record, const CommandLine& line,
                                     const Engine& engine) {
  NG_ASSIGN_OR_RETURN(const RunFingerprint now, engine.Fingerprint());
  if (now.model != record.made_of.model && !line.replay_any_model) {
    return ModelFileError(absl::StrCat(line.replay, ": the model ",
                                       engine.config().Text("model.path"), " has the hash ",
                                       now.model, ", must be ", record.made_of.model,
                                       " as recorded; --replay-any-model runs it all the same"));
  }
  Replay replay(record);
  replay.changed_ = ChangedParts(record, now, engine.config());
  return replay;
}

absl::Status Replay::Differs(int index, int64_t step, const std::string& how) const {
  return DifferenceError(absl::StrCat(
      "request ", index, ", step ", step, ": ", how, "; ",
      changed_.empty()
          ? "nothing else differs of what is recorded"
          : absl::StrCat("what else is not as recorded: ", absl::StrJoin(changed_, "; "))));
}

absl::Status Replay::OnStep(int index, const StepRecord& step) {
  const RecordedRequest& request = record_->requests[static_cast<size_t>(index)];
  if (step.step >= std::ssize(request.steps)) {
    return Differs(
        index, step.step,
        absl::StrCat("token ", step.token_id, ", recorded: the end (", request.stop_reason, ")"));
  }
  const RecordedStep& recorded = request.steps[static_cast<size_t>(step.step)];
  const bool same_logits = recorded.logits_hash == step.logits_hash;
  if (recorded.id == step.token_id && same_logits) {
    ++n_steps_;
    return absl::OkStatus();
  }
  const std::string token = absl::StrCat("token ", step.token_id);
  return Differs(index, step.step,
                 recorded.id == step.token_id
                     ? token + " as recorded, but the logits differ"
                     : absl::StrCat(token, ", recorded: ", recorded.id, ", the logits ",
                                    same_logits ? "are equal" : "differ too"));
}

absl::Status Replay::OnDone(int index, const Completion& completion) {
  const RecordedRequest& request = record_->requests[static_cast<size_t>(index)];
  const StopReason reason = completion.stop_reason;
  if (reason == StopReason::kInterrupted || reason == StopReason::kError) return absl::OkStatus();
  const int64_t n_steps = std::ssize(completion.ids) - completion.prompt_len;
  const std::string ended = absl::StrCat("the end (", std::string(StopReasonName(reason)), ")");
  if (n_steps < std::ssize(request.steps)) {
    return Differs(
        index, n_steps,
        absl::StrCat(ended, ", recorded: token ", request.steps[static_cast<size_t>(n_steps)].id));
  }
  if (!request.ended() || StopReasonName(reason) == request.stop_reason) return absl::OkStatus();
  return Differs(index, n_steps,
                 absl::StrCat(ended, ", recorded: the end (", request.stop_reason, ")"));
}

std::string Replay::Verdict() const {
  int64_t n_recorded = 0;
  for (const RecordedRequest& request : record_->requests) n_recorded += std::ssize(request.steps);
  if (n_steps_ < n_recorded) {
    return absl::StrCat("equal as far as it ran: ", n_steps_, " of ", n_recorded, " steps");
  }
  const size_t n = record_->requests.size();
  return absl::StrCat("equal: ", n, n == 1 ? " request, " : " requests, ", n_steps_,
                      n_steps_ == 1 ? " step" : " steps");
}

}  // namespace ng::run
