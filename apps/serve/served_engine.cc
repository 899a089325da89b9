#include "apps/serve/served_engine.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/serve/settings.h"
#include "ng/config.h"

namespace ng::serve {
namespace {

// Where the config says nothing: of each answer, and of all.
constexpr int64_t kDefaultTokens = 8192;
constexpr int kDefaultSequences = 4;
// A long prompt goes in chunks, so that other answers go on beside it. No bit depends on it.
constexpr const char* kDefaultChunk = "run.prefill_chunk=512";

// A conversation is read once: what was computed for a turn is there at the next one. No bit
// depends on it.
constexpr const char* kDefaultCache = "cache.name=paged";
constexpr int kCheckpointsEach = 3;  // of a sequence

// Sequences at a time.
int SequencesOf(const Config& config) {
  const int64_t given = config.Int("cache.max_sequences");
  return given == 0 ? kDefaultSequences : static_cast<int>(given);
}

RunNeeds NeedsOf(const Engine& engine) {
  const Config& config = engine.config();
  RunNeeds needs;
  needs.max_tokens = config.Int("cache.max_tokens");
  if (needs.max_tokens == 0) {
    const int64_t context = engine.model_shape().max_positions;
    needs.max_tokens = context > 0 ? std::min(context, kDefaultTokens) : kDefaultTokens;
  }
  needs.prompt_logprobs = true;
  needs.max_sequences = SequencesOf(config);
  return needs;
}

// What a server adds to a config that does not say it, the most that it would share first. A
// backend may not read pages, or checkpoints not fit into the memory: then the next one has less.
std::vector<std::vector<std::string>> WaysToShare(const Config& config) {
  std::vector<std::string> cache;
  if (config.IsDefault("cache.name")) cache.emplace_back(kDefaultCache);
  std::vector<std::vector<std::string>> ways;
  if (config.IsDefault("cache.checkpoints")) {
    ways.push_back(cache);
    const int64_t n = std::min<int64_t>(std::numeric_limits<int>::max(),
                                        int64_t{kCheckpointsEach} * SequencesOf(config));
    ways.back().push_back(absl::StrCat("cache.checkpoints=", n));
  }
  if (!cache.empty()) ways.push_back(std::move(cache));
  ways.emplace_back();
  return ways;
}

// Opens the engine with these settings, which the user's own follow, and sees that it fits.
absl::StatusOr<std::unique_ptr<Engine>> OpenWith(const std::vector<std::string>& settings,
                                                 EngineOptions options) {
  options.overrides.insert(options.overrides.begin(), settings.begin(), settings.end());
  NG_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, Engine::Open(options));
  NG_ASSIGN_OR_RETURN(const RunPlan plan, engine->Plan(NeedsOf(*engine)));
  NG_RETURN_IF_ERROR(CheckMemory(plan));
  return engine;
}

// Whether sharing less may help: parts do not go together, or there is no room.
bool MayShareLess(const absl::Status& status) {
  return status.code() == PluginError("").code() || status.code() == LimitError("").code();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> OpenServed(EngineOptions options, RunNeeds* needs) {
  NG_ASSIGN_OR_RETURN(const Config config, Engine::ReadConfig(options));
  NG_RETURN_IF_ERROR(ReadSettings(config).status());
  if (config.IsDefault("run.prefill_chunk")) {
    options.overrides.insert(options.overrides.begin(), kDefaultChunk);
  }
  absl::StatusOr<std::unique_ptr<Engine>> engine;
  for (const std::vector<std::string>& way : WaysToShare(config)) {
    engine = OpenWith(way, options);
    if (engine.ok() || !MayShareLess(engine.status())) break;
  }
  NG_RETURN_IF_ERROR(engine.status());
  *needs = NeedsOf(**engine);
  return engine;
}

}  // namespace ng::serve
