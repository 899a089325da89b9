// What the generate loop (generate_loop.h) works with: the parts, and the settings of the config.
#ifndef NG_CORE_RUNTIME_LOOP_GENERATE_PARTS_H_
#define NG_CORE_RUNTIME_LOOP_GENERATE_PARTS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>

#include "core/model/step/language_model.h"
#include "core/runtime/assembly/request_samplers.h"
#include "core/runtime/loop/checkpoints.h"
#include "core/runtime/loop/speculation.h"
#include "core/runtime/watch/probe_chain.h"
#include "core/snapshot/cache_snapshot.h"
#include "ng/engine_options.h"

namespace ng {

// What chooses and what computes. Borrowed.
struct GenerateParts {
  LanguageModel& model;
  RequestSamplers& samplers;
  // Of the model's cache; may be null when no request loads or saves one.
  const CacheSnapshots* snapshots = nullptr;
  ProbeChain* probes = nullptr;        // null, or empty: nobody looks
  Speculation* speculation = nullptr;  // null: nothing is drafted
  Checkpoints* checkpoints = nullptr;  // of the model's cache; null: it has none
};

// How to generate: the config's part. Everything is borrowed.
struct GenerateSettings {
  std::span<const int32_t> stop_ids;
  bool use_cache = true;
  int64_t prefill_chunk = 0;  // 0: whole
  // How much longer, about, prompts may make a step in which others decode (PromptPace). 0: any.
  double most_beside_s = 0.0;
  // The most ids that the model is shown at a time. Of a text that grows beyond it the last ones
  // are, all computed anew at every step, as nanoGPT's generate does.
  int64_t context = std::numeric_limits<int64_t>::max();
  int64_t context_tokens = 0;                  // of a prompt that says nothing of its context
  int max_sequences = 1;                       // active at the same time
  std::span<const std::string> adapters = {};  // that a request may name
  double load_s = 0.0;
  const std::atomic<bool>* stop = nullptr;        // may be null
  std::function<void(const Progress&)> progress;  // may be empty
  // Who to name when the bits depend on how the ids were split into steps.
  std::string cache_and_attention = "the cache with the attention backend";
};

}  // namespace ng

#endif  // NG_CORE_RUNTIME_LOOP_GENERATE_PARTS_H_
