#include "apps/common/speed.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "ng/config.h"

namespace ng {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kFillChunk = 512;  // tokens per step while a deep cache is filled, untimed

template <typename Work>
absl::StatusOr<double> SecondsOf(Work&& work) {
  const Clock::time_point start = Clock::now();
  NG_RETURN_IF_ERROR(work());
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Tokens per second of `work`, which handles n_tokens.
template <typename Work>
absl::StatusOr<double> Rate(int64_t n_tokens, Work&& work) {
  NG_ASSIGN_OR_RETURN(const double seconds, SecondsOf(work));
  return static_cast<double>(n_tokens) / seconds;
}

}  // namespace

int64_t HeldTokens(const Workload& workload) { return std::max<int64_t>(workload.depth, 1); }

RunNeeds NeedsOf(const Workload& workload) {
  const bool both = workload.prompt_tokens > 0 && workload.decode_tokens > 0;
  RunNeeds needs;
  needs.max_tokens =
      std::max(workload.prompt_tokens,
               workload.decode_tokens > 0 ? HeldTokens(workload) + workload.decode_tokens : 0);
  // The cache that decode looks at is filled once and stays while prefills come and go.
  needs.max_sequences = both ? 2 * workload.batch : workload.batch;
  return needs;
}

double MedianButFirst(std::vector<double> rounds) {
  rounds.erase(rounds.begin());
  std::sort(rounds.begin(), rounds.end());
  const size_t half = rounds.size() / 2;
  return rounds.size() % 2 == 1 ? rounds[half] : (rounds[half - 1] + rounds[half]) / 2.0;
}

RandomSequences::~RandomSequences() {
  for (const SequenceId id : ids_) engine_.CloseSequence(id);
}

absl::Status RandomSequences::Open(int64_t capacity) {
  for (int i = 0; i < batch_; ++i) {
    NG_ASSIGN_OR_RETURN(const SequenceId id, engine_.OpenSequence(capacity));
    ids_.push_back(id);
  }
  return absl::OkStatus();
}

absl::Status RandomSequences::Extend(int64_t n_tokens, int64_t chunk) {
  while (n_tokens > 0) {
    const int64_t n = std::min(n_tokens, chunk);
    std::vector<std::vector<int32_t>> step(ids_.size());  // [batch][n]
    for (std::vector<int32_t>& tokens : step) tokens = Draw(n);
    NG_RETURN_IF_ERROR(engine_.Extend(ids_, step).status());
    n_tokens -= n;
  }
  return absl::OkStatus();
}

absl::Status RandomSequences::Truncate(int64_t length) {
  for (const SequenceId id : ids_) {
    absl::Status truncated = engine_.TruncateSequence(id, length);
    if (truncated.ok()) continue;
    if (!IsUnsupported(truncated)) return truncated;
    // A store that cannot go back is emptied and fed again.
    for (const SequenceId each : ids_) NG_RETURN_IF_ERROR(engine_.TruncateSequence(each, 0));
    return Extend(length, kFillChunk);
  }
  return absl::OkStatus();
}

absl::Status RandomSequences::Decode(int64_t n_steps) {
  for (int64_t step = 0; step < n_steps; ++step) {
    NG_RETURN_IF_ERROR(engine_.DecodeStep(ids_, Draw(batch_)).status());
  }
  return absl::OkStatus();
}

std::vector<int32_t> RandomSequences::Draw(int64_t n) {
  std::uniform_int_distribution<int32_t> any(
      0, static_cast<int32_t>(engine_.model_shape().vocab_size - 1));
  std::vector<int32_t> tokens(static_cast<size_t>(n));
  for (int32_t& token : tokens) token = any(random_);
  return tokens;
}

SpeedMeter::SpeedMeter(Engine& engine, const Workload& workload)
    : workload_(workload),
      own_chunk_(engine.config().Int("run.prefill_chunk")),
      prefilled_(engine, workload.batch),
      decoded_(engine, workload.batch) {}

absl::Status SpeedMeter::Open() {
  if (workload_.prompt_tokens > 0) NG_RETURN_IF_ERROR(prefilled_.Open(workload_.prompt_tokens));
  if (workload_.decode_tokens == 0) return absl::OkStatus();
  const int64_t held = HeldTokens(workload_);
  NG_RETURN_IF_ERROR(decoded_.Open(held + workload_.decode_tokens));
  return decoded_.Extend(held, own_chunk_ > 0 ? own_chunk_ : kFillChunk);
}

absl::StatusOr<Speed> SpeedMeter::Round() {
  Speed speed;
  const int64_t n_prompt = workload_.prompt_tokens;
  if (n_prompt > 0) {
    const int64_t chunk = own_chunk_ > 0 ? own_chunk_ : n_prompt;
    NG_RETURN_IF_ERROR(prefilled_.Truncate(0));
    NG_ASSIGN_OR_RETURN(speed.prefill_tok_s, Rate(workload_.batch * n_prompt, [&] {
                          return prefilled_.Extend(n_prompt, chunk);
                        }));
    prefill_.push_back(*speed.prefill_tok_s);
  }
  const int64_t n_steps = workload_.decode_tokens;
  if (n_steps > 0) {
    NG_RETURN_IF_ERROR(decoded_.Truncate(HeldTokens(workload_)));
    NG_ASSIGN_OR_RETURN(speed.decode_tok_s,
                        Rate(workload_.batch * n_steps, [&] { return decoded_.Decode(n_steps); }));
    decode_.push_back(*speed.decode_tok_s);
  }
  return speed;
}

absl::StatusOr<double> SpeedMeter::CountDecode(RegionMeter& meter) {
  NG_RETURN_IF_ERROR(decoded_.Truncate(HeldTokens(workload_)));
  meter = {.on = true};
  absl::StatusOr<double> seconds =
      SecondsOf([&] { return decoded_.Decode(workload_.decode_tokens); });
  meter.on = false;
  return seconds;
}

Speed SpeedMeter::Medians() const {
  Speed speed;
  if (!prefill_.empty()) speed.prefill_tok_s = MedianButFirst(prefill_);
  if (!decode_.empty()) speed.decode_tok_s = MedianButFirst(decode_);
  return speed;
}

}  // namespace ng
