#include "apps/bench/measure.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/config/config.h"

namespace ng::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kFillChunk = 512;  // tokens per step while a deep cache is filled, untimed

// At depth 0 too there is a token to follow.
int64_t Held(const Workload& workload) { return std::max<int64_t>(workload.depth, 1); }

// Of the rounds that count: the first one warms up.
double MedianButFirst(std::vector<double> rounds) {
  rounds.erase(rounds.begin());
  std::sort(rounds.begin(), rounds.end());
  const size_t half = rounds.size() / 2;
  return rounds.size() % 2 == 1 ? rounds[half] : (rounds[half - 1] + rounds[half]) / 2.0;
}

// `batch` sequences that grow and are cut back together.
class Sequences {
 public:
  Sequences(Engine& engine, int batch) : engine_(engine), batch_(batch) {}
  ~Sequences() {
    for (const SequenceId id : ids_) engine_.CloseSequence(id);
  }
  Sequences(const Sequences&) = delete;
  Sequences& operator=(const Sequences&) = delete;

  absl::Status Open(int64_t capacity) {
    for (int i = 0; i < batch_; ++i) {
      NG_ASSIGN_OR_RETURN(const SequenceId id, engine_.OpenSequence(capacity));
      ids_.push_back(id);
    }
    return absl::OkStatus();
  }

  // `n_tokens` drawn tokens for each sequence, `chunk` a step.
  absl::Status Extend(int64_t n_tokens, int64_t chunk) {
    while (n_tokens > 0) {
      const int64_t n = std::min(n_tokens, chunk);
      std::vector<std::vector<int32_t>> step(ids_.size());  // [batch][n]
      for (std::vector<int32_t>& tokens : step) tokens = Draw(n);
      NG_RETURN_IF_ERROR(engine_.Extend(ids_, step).status());
      n_tokens -= n;
    }
    return absl::OkStatus();
  }

  absl::Status Truncate(int64_t length) {
    for (const SequenceId id : ids_) NG_RETURN_IF_ERROR(engine_.TruncateSequence(id, length));
    return absl::OkStatus();
  }

  absl::Status Decode(int64_t n_steps) {
    for (int64_t step = 0; step < n_steps; ++step) {
      NG_RETURN_IF_ERROR(engine_.DecodeStep(ids_, Draw(batch_)).status());
    }
    return absl::OkStatus();
  }

 private:
  std::vector<int32_t> Draw(int64_t n) {
    std::uniform_int_distribution<int32_t> any(
        0, static_cast<int32_t>(engine_.model_shape().vocab_size - 1));
    std::vector<int32_t> tokens(static_cast<size_t>(n));
    for (int32_t& token : tokens) token = any(random_);
    return tokens;
  }

  Engine& engine_;
  int batch_;
  std::mt19937 random_{1};
  std::vector<SequenceId> ids_;  // [batch]
};

// Tokens per second of `work`, which handles n_tokens.
template <typename Work>
absl::StatusOr<double> Rate(int64_t n_tokens, Work&& work) {
  const Clock::time_point start = Clock::now();
  NG_RETURN_IF_ERROR(work());
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return static_cast<double>(n_tokens) / seconds;
}

}  // namespace

absl::Status CheckWorkload(const Workload& workload, const ModelShape& shape) {
  const int64_t t_max = shape.max_positions;
  if (t_max == 0) return absl::OkStatus();
  if (workload.prompt_tokens > t_max) {
    return LimitError(absl::StrCat("prompt ", workload.prompt_tokens, " > ", t_max,
                                   " T_max; lower --prompt-tokens to ", t_max));
  }
  const int64_t end = Held(workload) + workload.decode_tokens;
  if (workload.decode_tokens > 0 && end > t_max) {
    return LimitError(absl::StrCat("depth ", Held(workload), " + decode ", workload.decode_tokens,
                                   " = ", end, " > ", t_max,
                                   " T_max; lower --depth or --decode-tokens"));
  }
  return absl::OkStatus();
}

RunNeeds NeedsOf(const Workload& workload) {
  const bool both = workload.prompt_tokens > 0 && workload.decode_tokens > 0;
  RunNeeds needs;
  needs.max_tokens =
      std::max(workload.prompt_tokens,
               workload.decode_tokens > 0 ? Held(workload) + workload.decode_tokens : 0);
  // The cache that decode looks at is filled once and stays while prefills come and go.
  needs.max_sequences = both ? 2 * workload.batch : workload.batch;
  return needs;
}

absl::StatusOr<Figures> Measure(Engine& engine, Machine& machine, const Workload& workload) {
  NG_ASSIGN_OR_RETURN(const StepCost cost, engine.CostOfStep());
  const Arithmetic arithmetic = ArithmeticFor(cost.weights, engine.isa());
  const int64_t own_chunk = engine.config().Int("run.prefill_chunk");
  const int64_t chunk = own_chunk > 0 ? own_chunk : workload.prompt_tokens;
  Sequences prefilled(engine, workload.batch);
  Sequences decoded(engine, workload.batch);
  if (workload.prompt_tokens > 0) NG_RETURN_IF_ERROR(prefilled.Open(workload.prompt_tokens));
  if (workload.decode_tokens > 0) {
    NG_RETURN_IF_ERROR(decoded.Open(Held(workload) + workload.decode_tokens));
    NG_RETURN_IF_ERROR(decoded.Extend(Held(workload), own_chunk > 0 ? own_chunk : kFillChunk));
  }

  std::vector<double> read, peak, prefill, decode;
  for (int64_t round = 0; round <= workload.repeat; ++round) {
    read.push_back(machine.ReadGbPerSecond());
    peak.push_back(machine.PeakGopPerSecond(arithmetic));
    if (workload.prompt_tokens > 0) {
      NG_RETURN_IF_ERROR(prefilled.Truncate(0));
      NG_ASSIGN_OR_RETURN(prefill.emplace_back(),
                          Rate(workload.batch * workload.prompt_tokens,
                               [&] { return prefilled.Extend(workload.prompt_tokens, chunk); }));
    }
    if (workload.decode_tokens > 0) {
      NG_RETURN_IF_ERROR(decoded.Truncate(Held(workload)));
      NG_ASSIGN_OR_RETURN(decode.emplace_back(), Rate(workload.batch * workload.decode_tokens, [&] {
                            return decoded.Decode(workload.decode_tokens);
                          }));
    }
  }
  Figures figures;
  if (!prefill.empty()) figures.prefill_tok_s = MedianButFirst(prefill);
  if (!decode.empty()) figures.decode_tok_s = MedianButFirst(decode);
  figures.read_gb_s = MedianButFirst(read);
  figures.peak_gop_s = MedianButFirst(peak);
  return figures;
}

double DecodeBytesPerToken(const StepCost& cost, const Workload& workload) {
  // The step that consumes the token at position p looks at p + 1 tokens.
  const double cached = static_cast<double>(Held(workload)) +
                        (static_cast<double>(workload.decode_tokens) + 1.0) / 2.0;
  return static_cast<double>(cost.weight_bytes) / workload.batch +
         static_cast<double>(cost.cache_bytes_per_token) * cached;
}

double PrefillOperations(const StepCost& cost, const Workload& workload) {
  const double rows =
      static_cast<double>(cost.row_multiply_adds) * static_cast<double>(workload.prompt_tokens);
  return 2.0 * workload.batch * (rows + static_cast<double>(cost.logit_multiply_adds));
}

}  // namespace ng::bench
