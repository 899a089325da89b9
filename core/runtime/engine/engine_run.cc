#include "core/runtime/engine/engine_run.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace ng {

absl::Status Engine::State::CheckFree() const {
  if (!taken) return absl::OkStatus();
  return RuntimeError("the engine is taken: a Generation or a Session that uses it is still there");
}

GenerateSettings Engine::State::Settings() const {
  const Config& config = assembly->config();
  GenerateSettings settings;
  settings.stop_ids = assembly->stop_ids;
  settings.use_cache = config.Bool("run.use_cache");
  settings.prefill_chunk = step_tokens > 0 ? step_tokens : config.Int("run.prefill_chunk");
  settings.context = assembly->ContextTokens();
  settings.context_tokens = config.Int("run.context_tokens");
  settings.max_sequences = max_sequences;
  settings.adapters = assembly->adapters.names;
  settings.load_s = load_s;
  settings.stop = assembly->StepStop();
  settings.progress = options.progress;
  settings.cache_and_attention = absl::StrCat(assembly->selection.cache.Describe(), " with ",
                                              assembly->selection.attention.Describe());
  return settings;
}

Engine::State::Run::Run(State& state, const GenerateOptions& options)
    : state(state),
      options(options),
      settings(state.Settings()),
      samplers(*state.assembly->chain, state.assembly->config().Int("sampler.seed"),
               [&assembly = *state.assembly](std::span<const std::string> settings,
                                             const std::shared_ptr<SamplerChain>& shared,
                                             const RequestSamplers::Stop& stop) {
                 return MakeRequestSampler(settings, shared, stop, assembly);
               }),
      parts{*state.decoder,          samplers,
            state.snapshots.get(),   state.assembly->probes.get(),
            state.speculation.get(), state.checkpoints.get()} {
  state.taken = true;
}

absl::Status Engine::State::Run::Check(const GenerateRequest& request) {
  NG_RETURN_IF_ERROR(ng::CheckRequest(*state.assembly, request));
  NG_RETURN_IF_ERROR(CheckKept(*state.assembly, request, options));
  NG_RETURN_IF_ERROR(CheckSequence(*state.decoder, request));
  if (request.sequence && request.context_tokens == 0) {
    NG_RETURN_IF_ERROR(CheckContext(*state.assembly, *state.decoder, *request.sequence));
  }
  NG_RETURN_IF_ERROR(samplers.For(request.settings).status());
  const bool edits = state.assembly->probes->edits_while_open();
  if (edits && request.sequence) state.edited.insert(*request.sequence);
  if (request.load_cache.empty() && request.save_cache.empty()) return absl::OkStatus();
  const bool edited = request.sequence ? state.edited.count(*request.sequence) > 0 : edits;
  if (edited && !request.save_cache.empty()) return State::NoSnapshot(request.save_cache);
  NG_ASSIGN_OR_RETURN(const CacheSnapshots* const snapshots, state.CheckedSnapshots());
  if (request.load_cache.empty()) return absl::OkStatus();
  return snapshots->Open(request.load_cache).status();
}

absl::Status Engine::State::Run::End(absl::Status status) {
  if (status.ok()) status = state.cache->fault();
  const absl::Status ended = state.EndRun(/*failed=*/!status.ok());
  return status.ok() ? ended : status;
}

}  // namespace ng
