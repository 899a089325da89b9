// Engine: sequences, step by step.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/engine/engine_state.h"
#include "core/runtime/engine/request_checks.h"
#include "ng/engine.h"

namespace ng {
namespace {

// The i-th of a step's sequences is not there before.
absl::Status CheckOnce(std::span<const SequenceId> sequences, size_t i) {
  if (std::ranges::count(sequences.first(i), sequences[i]) == 0) return absl::OkStatus();
  return UsageError(
      absl::StrCat("sequence ", sequences[i], " is there twice; a step feeds each sequence once"));
}

}  // namespace

absl::StatusOr<SequenceId> Engine::OpenSequence(int64_t capacity) {
  return Guarded([&]() -> absl::StatusOr<SequenceId> {
    NG_RETURN_IF_ERROR(state_->CheckLoaded());
    if (state_->checkpoints != nullptr) return state_->checkpoints->Open({}, capacity);
    NG_ASSIGN_OR_RETURN(const SequenceId sequence, state_->decoder->OpenSequence({}, capacity));
    const int64_t n_context = config().Int("run.context_tokens");
    if (n_context == 0) return sequence;
    const absl::Status set = state_->decoder->SetContext(sequence, n_context);
    if (set.ok()) return sequence;
    state_->decoder->CloseSequence(sequence);
    return set;
  });
}

bool Engine::wants_context() const { return state_->assembly->wants_context; }

absl::Status Engine::SetContext(SequenceId sequence, int64_t n_tokens) {
  return Guarded([&]() -> absl::Status {
    NG_RETURN_IF_ERROR(state_->CheckLoaded());
    if (n_tokens >= 1) return state_->decoder->SetContext(sequence, n_tokens);
    return UsageError(absl::StrCat("a context of ", n_tokens, " tokens, must be at least 1"));
  });
}

absl::Status Engine::SetKeepRule(SequenceId sequence, std::string_view rule) {
  return Guarded([&]() -> absl::Status {
    NG_RETURN_IF_ERROR(state_->CheckLoaded());
    if (state_->decoder->Capacity(sequence) > 0) {
      return state_->decoder->SetKeepRule(sequence, rule);
    }
    return UsageError(absl::StrCat("sequence ", sequence, " is not open"));
  });
}

absl::Status Engine::State::NoSnapshot(const std::string& path) {
  return UsageError(absl::StrCat(path, ": a hook edited what the sequence was fed, which no ",
                                 "snapshot says; a probe of the config can edit and be saved"));
}

void Engine::CloseSequence(SequenceId sequence) {
  state_->edited.erase(sequence);
  if (state_->decoder != nullptr) state_->decoder->CloseSequence(sequence);
}

int64_t Engine::SequenceLength(SequenceId sequence) const {
  return state_->decoder == nullptr ? 0 : state_->decoder->Length(sequence);
}

int64_t Engine::MostLogitRows(SequenceId sequence) const {
  return state_->decoder == nullptr ? 0
                                    : state_->StepRoom(sequence, state_->decoder->Length(sequence));
}

absl::Status Engine::TruncateSequence(SequenceId sequence, int64_t length) {
  return Guarded([&]() -> absl::Status {
    NG_RETURN_IF_ERROR(state_->CheckLoaded());
    const int64_t held = state_->decoder->Length(sequence);
    if (length < 0 || length > held) {
      return UsageError(
          absl::StrCat("cannot truncate a sequence of ", held, " tokens to ", length));
    }
    NG_RETURN_IF_ERROR(state_->decoder->Truncate(sequence, length));
    if (length == 0) state_->edited.erase(sequence);
    return absl::OkStatus();
  });
}

absl::StatusOr<SequenceId> Engine::ForkSequence(SequenceId sequence, int64_t capacity) {
  return Guarded([&]() -> absl::StatusOr<SequenceId> {
    NG_RETURN_IF_ERROR(state_->CheckLoaded());
    if (state_->decoder->Capacity(sequence) == 0) {
      return UsageError(absl::StrCat("cannot fork sequence ", sequence, ", which is not open"));
    }
    const int64_t held = state_->decoder->Length(sequence);
    if (capacity < held) {
      return LimitError(absl::StrCat("a fork of ", held, " tokens for ", capacity,
                                     " cannot be; capacity must be at least ", held));
    }
    NG_ASSIGN_OR_RETURN(const SequenceId fork, state_->decoder->Fork(sequence, capacity));
    if (state_->edited.count(sequence) > 0) state_->edited.insert(fork);
    return fork;
  });
}

absl::Status Engine::SaveSequence(SequenceId sequence, std::span<const int32_t> ids,
                                  const std::string& path) {
  return Guarded([&]() -> absl::Status {
    NG_ASSIGN_OR_RETURN(const CacheSnapshots* const snapshots, state_->CheckedSnapshots());
    NG_RETURN_IF_ERROR(CheckPrompt(state_->shape(), ids));
    const int64_t length = state_->decoder->Length(sequence);
    if (state_->edited.count(sequence) > 0) return State::NoSnapshot(path);
    if (std::ssize(ids) == length) return snapshots->Save(sequence, ids, path);
    return UsageError(
        absl::StrCat(path, ": ", ids.size(), " ids for a sequence of ", length, " tokens"));
  });
}

absl::StatusOr<LoadedSequence> Engine::LoadSequence(const std::string& path, int64_t capacity) {
  return GuardedReading([&]() -> absl::StatusOr<LoadedSequence> {
    NG_ASSIGN_OR_RETURN(const CacheSnapshots* const snapshots, state_->CheckedSnapshots());
    NG_ASSIGN_OR_RETURN(const CacheFile file, snapshots->Open(path));
    const std::vector<int32_t>& ids = file.header().ids;
    const absl::Status known = CheckIds(state_->shape(), ids);
    if (!known.ok()) return ModelFileError(absl::StrCat(path, ": ", known.message()));
    NG_ASSIGN_OR_RETURN(const SequenceId sequence, state_->decoder->OpenSequence({}, capacity));
    const absl::Status loaded = snapshots->Load(file, std::ssize(ids), sequence);
    if (loaded.ok()) return LoadedSequence{sequence, ids};
    state_->decoder->CloseSequence(sequence);
    return loaded;
  });
}

absl::StatusOr<StepLogits> Engine::Prefill(std::span<const SequenceId> sequences,
                                           std::span<const std::vector<int32_t>> prompts) {
  return Guarded([&]() -> absl::StatusOr<StepLogits> {
    NG_RETURN_IF_ERROR(state_->CheckLoaded());
    for (size_t i = 0; i < sequences.size(); ++i) {
      const int64_t length = state_->decoder->Length(sequences[i]);
      if (length != 0) {
        return UsageError(absl::StrCat("cache must be empty (t=0) before prefill: sequence ", i,
                                       " holds t=", length));
      }
    }
    return Extend(sequences, prompts, LogitRows::kLast);
  });
}

absl::StatusOr<StepLogits> Engine::Extend(std::span<const SequenceId> sequences,
                                          std::span<const std::vector<int32_t>> tokens,
                                          LogitRows rows) {
  return Guarded([&]() -> absl::StatusOr<StepLogits> {
    NG_RETURN_IF_ERROR(state_->CheckLoaded());
    if (sequences.size() != tokens.size()) {
      return UsageError(absl::StrCat("batch size mismatch: ", tokens.size(), " prompts for ",
                                     sequences.size(), " sequences"));
    }
    const int64_t t_max = state_->shape().max_positions;
    std::vector<StepSequence>& step = state_->step;
    step.clear();
    for (size_t i = 0; i < sequences.size(); ++i) {
      NG_RETURN_IF_ERROR(CheckOnce(sequences, i));
      const int64_t length = state_->decoder->Length(sequences[i]);
      NG_RETURN_IF_ERROR(CheckPrompt(state_->shape(), tokens[i]));
      const auto n_tokens = static_cast<int64_t>(tokens[i].size());
      if (t_max > 0) NG_RETURN_IF_ERROR(CheckCap(length + n_tokens, 0, t_max, "T_max"));
      NG_RETURN_IF_ERROR(CheckWindow(*state_->assembly, length + n_tokens, 0));
      if (rows == LogitRows::kAll && state_->step_tokens > 0 && n_tokens > state_->step_tokens) {
        return LimitError(absl::StrCat(
            "the logits of ", n_tokens,
            " tokens at once are asked for: the cache holds windows and ", "takes ",
            state_->step_tokens, " tokens at a time; Load with RunNeeds::prompt_logits holds all"));
      }
      NG_RETURN_IF_ERROR(CheckContext(*state_->assembly, *state_->decoder, sequences[i]));
      const int64_t most = state_->StepRoom(sequences[i], length);
      if (rows == LogitRows::kAll && n_tokens > most) {
        return LimitError(absl::StrCat("the logits of ", n_tokens, " tokens behind ", length,
                                       " are asked for at once: the cache changes behind ",
                                       length + most, " tokens, and a step ends there"));
      }
      step.push_back({sequences[i], length, tokens[i], rows == LogitRows::kAll ? n_tokens : 1});
    }
    return state_->Feed();
  });
}

absl::StatusOr<StepLogits> Engine::DecodeStep(std::span<const SequenceId> sequences,
                                              std::span<const int32_t> tokens) {
  return Guarded([&]() -> absl::StatusOr<StepLogits> {
    NG_RETURN_IF_ERROR(state_->CheckLoaded());
    if (sequences.size() != tokens.size()) {
      return UsageError(absl::StrCat("batch size mismatch: ", tokens.size(), " tokens for ",
                                     sequences.size(),
                                     " sequences; decode takes exactly one each"));
    }
    const int64_t t_max = state_->shape().max_positions;
    NG_RETURN_IF_ERROR(CheckIds(state_->shape(), tokens));
    std::vector<StepSequence>& step = state_->step;
    step.clear();
    for (size_t i = 0; i < sequences.size(); ++i) {
      NG_RETURN_IF_ERROR(CheckOnce(sequences, i));
      const int64_t length = state_->decoder->Length(sequences[i]);
      const int64_t capacity = state_->decoder->Capacity(sequences[i]);
      NG_RETURN_IF_ERROR(CheckContext(*state_->assembly, *state_->decoder, sequences[i]));
      if (t_max > 0 && length >= t_max) {
        return LimitError(absl::StrCat("exceeded T_max during generation: t=", length,
                                       " must be < T_max=", t_max));
      }
      NG_RETURN_IF_ERROR(CheckWindow(*state_->assembly, length + 1, 0));
      if (length >= capacity) {
        return LimitError(
            absl::StrCat("cache overflow: t=", length, " must be < capacity=", capacity));
      }
      step.push_back({sequences[i], length, tokens.subspan(i, 1), 1});
    }
    return state_->Feed();
  });
}

absl::Status Engine::AddProbe(std::unique_ptr<Probe> probe) {
  return Guarded([&]() -> absl::Status {
    NG_RETURN_IF_ERROR(state_->CheckFree());
    Assembly& assembly = *state_->assembly;
    const ProbeUse use = probe->Use();
    if (use.every_token || use.identity || !use.reads.empty() || !use.writes.empty()) {
      return UsageError("a probe that is added to an open engine has points alone to ask for");
    }
    if (assembly.fabric->size() > 1) return UsageError("with several ranks no probe is added");
    for (const auto& [at, edits] : use.points) {
      if (std::ranges::count(assembly.points, at, &PointShape::at) == 0) {
        return UsageError(absl::StrCat("the model has no point ", PointText(at)));
      }
      if (!edits || !assembly.Recomputes()) continue;
      return UsageError(assembly.config().Describe("run.on_full") +
                        " = recompute moves tokens to other positions, and a probe edits by "
                        "position");
    }
    assembly.probes->Add(std::move(probe), /*while_open=*/true);
    return absl::OkStatus();
  });
}

absl::Status Engine::RemoveProbe(const Probe* probe) {
  NG_RETURN_IF_ERROR(state_->CheckFree());
  state_->assembly->probes->Remove(probe);
  return absl::OkStatus();
}

absl::Status Engine::HeadLogits(const TensorView<const float, 2>& hidden, std::span<float> logits) {
  return Guarded([&]() -> absl::Status {
    NG_RETURN_IF_ERROR(state_->CheckLoaded());
    return state_->decoder->HeadLogits(hidden, logits);
  });
}

}  // namespace ng
