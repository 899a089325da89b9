#include "apps/serve/served_engine.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/common/answer_room.h"
#include "apps/serve/settings.h"
#include "ng/config.h"

namespace ng::serve {
namespace {

// Where the config says nothing: sequences at a time, and tokens of each that there must be room
// for; more as far as memory allows. A model without a bound has at most so many.
constexpr int kDefaultSequences = 4;
constexpr int64_t kLeastTokens = 8192;
constexpr int64_t kMostTokens = 131072;
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

// The most tokens that a sequence of this model can have, or is wanted to have.
int64_t ContextOf(const Engine& engine) {
  const int64_t usual = engine.config().Int("cache.usual_tokens");
  const int64_t most = usual > 0 ? usual : kMostTokens;
  const int64_t context = engine.model_shape().max_positions;
  return context > 0 ? std::min(context, most) : most;
}

RunNeeds NeedsOf(const Engine& engine) {
  const Config& config = engine.config();
  RunNeeds needs;
  needs.max_tokens = config.Int("cache.max_tokens");
  if (needs.max_tokens == 0) needs.max_tokens = std::min(ContextOf(engine), kLeastTokens);
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

using Overrides = std::vector<std::string>;

struct Opened {
  std::unique_ptr<Engine> engine;
  RunNeeds needs;
};

// Opens the engine with these settings, which the user's own follow, and sees that it fits.
// `max_tokens`: of a sequence; 0: as the config says.
absl::StatusOr<Opened> OpenWith(const Overrides& settings, EngineOptions options,
                                int64_t max_tokens = 0) {
  options.overrides.insert(options.overrides.begin(), settings.begin(), settings.end());
  Opened opened;
  NG_ASSIGN_OR_RETURN(opened.engine, Engine::Open(options));
  opened.needs = NeedsOf(*opened.engine);
  if (max_tokens > 0) opened.needs.max_tokens = max_tokens;
  NG_ASSIGN_OR_RETURN(const RunPlan plan, opened.engine->Plan(opened.needs));
  NG_RETURN_IF_ERROR(CheckMemory(plan));
  return opened;
}

// How long a sequence may be by what the model can and half of the memory that is left. Where
// sequences share pages, one alone may take what all have together.
class Lengthening {
 public:
  Lengthening(const Opened& opened, const RunPlan& least)
      : opened_(opened), least_(least), config_(opened.engine->config()) {}

  int64_t MostTokens() const {
    const int64_t least = opened_.needs.max_tokens;
    const int64_t context = ContextOf(*opened_.engine);
    if (config_.Int("cache.max_tokens") != 0 || context <= least) return least;
    const int64_t left = least_.available_bytes - least_.needed_bytes();
    const int64_t may_need =
        least_.needed_bytes() + std::max<int64_t>(0, left) / (2 * opened_.engine->ranks());
    const int64_t most =
        Largest(least, context, [&](int64_t n) { return NeededBytes(n) <= may_need; });
    constexpr int64_t kRound = 1024;
    return most == context ? most : std::max(least, most / kRound * kRound);
  }
  // The setting of the pages for such sequences; none: it stays as it is.
  Overrides PoolFor(int64_t n) const {
    if (!has_pool() || n == opened_.needs.max_tokens) return {};
    return {absl::StrCat(kPool, "=", PoolTokens(n))};
  }

 private:
  static constexpr const char* kPool = "cache.paged.pool_tokens";

  bool has_pool() const {
    return config_.Text("cache.name") == "paged" && config_.IsDefault(kPool) &&
           least_.held.empty() && !least_.cache.holes && least_.cache.disk_bytes == 0;
  }
  int64_t PoolTokens(int64_t n) const {
    const int64_t page = config_.Int("cache.paged.page_tokens");
    const int64_t shared = opened_.needs.max_tokens * opened_.needs.max_sequences;
    return (std::max(n, shared) + page - 1) / page * page;
  }
  int64_t NeededBytes(int64_t n) const {
    RunNeeds needs = opened_.needs;
    needs.max_tokens = n;
    absl::StatusOr<RunPlan> plan = opened_.engine->Plan(needs);
    if (!plan.ok()) return std::numeric_limits<int64_t>::max();
    if (has_pool()) plan->cache.bytes = plan->cache.bytes_per_token * PoolTokens(n);
    return plan->needed_bytes();
  }

  const Opened& opened_;
  const RunPlan& least_;
  const Config& config_;
};

// The same with sequences as long as they may be.
absl::StatusOr<Opened> OpenLongest(const Overrides& settings, const EngineOptions& options) {
  NG_ASSIGN_OR_RETURN(Opened opened, OpenWith(settings, options));
  NG_ASSIGN_OR_RETURN(const RunPlan least, opened.engine->Plan(opened.needs));
  const Lengthening lengthening(opened, least);
  const int64_t most = lengthening.MostTokens();
  const Overrides pool = lengthening.PoolFor(most);
  if (pool.empty()) {
    opened.needs.max_tokens = most;
    return opened;
  }
  Overrides longer = settings;
  longer.insert(longer.end(), pool.begin(), pool.end());
  absl::StatusOr<Opened> longest = OpenWith(longer, options, most);
  return longest.ok() ? std::move(longest) : absl::StatusOr<Opened>(std::move(opened));
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
  absl::StatusOr<Opened> opened;
  for (const Overrides& way : WaysToShare(config)) {
    opened = OpenLongest(way, options);
    if (opened.ok() || !MayShareLess(opened.status())) break;
  }
  NG_RETURN_IF_ERROR(opened.status());
  *needs = opened->needs;
  return std::move(opened->engine);
}

}  // namespace ng::serve
