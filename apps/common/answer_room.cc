#include "apps/common/answer_room.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace ng {
namespace {

constexpr const char* kMaxNewTokens = "run.max_new_tokens";

// A run as its open answers get shorter.
class ShortenedRun {
 public:
  ShortenedRun(const Engine& engine, std::span<const size_t> open, NeedsOfRequests needs,
               std::vector<GenerateRequest>* requests)
      : engine_(engine), open_(open), needs_(needs), requests_(*requests) {
    for (const size_t i : open) fitting_.push_back(requests_[i].max_new_tokens);
  }

  // No open answer has more than `cap` tokens.
  void Cap(int64_t cap) {
    for (size_t i = 0; i < open_.size(); ++i) {
      requests_[open_[i]].max_new_tokens = std::min(cap, fitting_[i]);
    }
  }
  absl::StatusOr<RunPlan> PlanWith(int64_t cap) {
    Cap(cap);
    return engine_.Plan(needs_(requests_));
  }
  int64_t Longest() const { return std::ranges::max(fitting_); }

 private:
  const Engine& engine_;
  const std::span<const size_t> open_;
  const NeedsOfRequests needs_;
  std::vector<GenerateRequest>& requests_;
  std::vector<int64_t> fitting_;  // by their contexts
};

}  // namespace

bool NothingLimits(const Config& config) { return config.Int(kMaxNewTokens) == -1; }

bool AnswersAreOpen(const Config& config) {
  return config.Text(kMaxNewTokens) == "auto" || NothingLimits(config);
}

absl::Status CheckMostTokens(const Config& config) {
  const int64_t n = config.Int(kMaxNewTokens);
  if (n >= -1) return absl::OkStatus();
  return UsageError(absl::StrCat(config.Describe(kMaxNewTokens), " = ", n,
                                 ", must be 0 or more, auto, or -1: no limit but the context"));
}

int64_t MostOfOpenAnswer(const Engine& engine) {
  const int64_t context = engine.model_shape().max_positions;
  return NothingLimits(engine.config()) && context > 0 ? context : kMostAnswerTokens;
}

absl::Status FitContext(const Engine& engine, int64_t most, GenerateRequest* request) {
  absl::Status status;
  const auto fits = [&](int64_t n) {
    request->max_new_tokens = n;
    status = engine.CheckRequest(*request);
    return status.ok();
  };
  if (!fits(1)) return status;
  request->max_new_tokens = Largest(1, most, fits);
  return absl::OkStatus();
}

int64_t Largest(int64_t from, int64_t to, absl::FunctionRef<bool(int64_t)> fits) {
  if (from >= to || fits(to)) return std::max(from, to);
  while (to - from > 1) {
    const int64_t middle = from + (to - from) / 2;
    (fits(middle) ? from : to) = middle;
  }
  return from;
}

int64_t SharedTokens(const RunPlan& plan) {
  const CachePlan& cache = plan.cache;
  const int64_t most = plan.max_tokens * std::max(1, plan.max_sequences);
  // Such a cache has room for more tokens than it holds.
  const bool drops = cache.holes || cache.slots > 0 || !plan.held.empty();
  if (drops || cache.bytes_per_token == 0) return most;
  return std::min(most, (cache.bytes + cache.disk_bytes) / cache.bytes_per_token);
}

int64_t SequenceShare(const RunPlan& plan) {
  return SharedTokens(plan) / std::max(1, plan.max_sequences);
}

std::string_view FitMemory(const Engine& engine, std::span<const size_t> open,
                           NeedsOfRequests needs, std::vector<GenerateRequest>* requests) {
  if (open.empty()) return "";
  ShortenedRun run(engine, open, needs, requests);
  const int64_t least = std::max<int64_t>(1, engine.default_max_new_tokens());
  const int64_t most = run.Longest();
  const absl::StatusOr<RunPlan> shortest = run.PlanWith(least);
  int64_t cap = std::min(least, most);
  if (shortest.ok()) {
    // Several ranks may be on one machine.
    const int64_t left = shortest->available_bytes - shortest->needed_bytes();
    const int64_t may_need =
        shortest->needed_bytes() + std::max<int64_t>(0, left) / (2 * engine.ranks());
    cap = Largest(cap, most, [&](int64_t n) {
      const absl::StatusOr<RunPlan> plan = run.PlanWith(n);
      // Sequences that took more than their share would wait for each other.
      return plan.ok() && plan->needed_bytes() <= may_need &&
             SequenceShare(*plan) >= std::min(plan->max_tokens, needs(*requests).max_tokens);
    });
  }
  run.Cap(cap);
  if (cap < most) return "half of the memory that is left";
  return cap == kMostAnswerTokens ? "the most of an answer" : "what the context leaves";
}

}  // namespace ng
