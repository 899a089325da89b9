// Measures how fast a loaded engine prefills and decodes, with random ids. It works round by round,
// so that two engines can be measured in turn.
#ifndef NG_APPS_COMMON_SPEED_H_
#define NG_APPS_COMMON_SPEED_H_

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "ng/engine.h"
#include "ng/status.h"

namespace ng {

struct Workload {
  int64_t prompt_tokens = 0;  // tokens of each sequence's prefill; 0: no prefill
  int64_t decode_tokens = 0;  // decode steps; 0: no decode
  int64_t depth = 0;          // tokens that each sequence holds before the first decode step
  int batch = 1;              // sequences side by side
  int64_t repeat = 1;         // rounds that count; one more warms up
};

// The tokens that each sequence holds before the first decode step. At depth 0 it is one, because a
// step needs a token to follow.
int64_t HeldTokens(const Workload& workload);

// What the engine must be loaded for before a measurement.
RunNeeds NeedsOf(const Workload& workload);

// Speeds of all sequences together. A speed that was not asked for is absent.
struct Speed {
  std::optional<double> prefill_tok_s;
  std::optional<double> decode_tok_s;
};

// The median of the rounds that count; the first one warms up. REQUIRES: at least two rounds.
double MedianButFirst(std::vector<double> rounds);

// `batch` sequences that grow and are cut back together. The destructor closes them.
class RandomSequences {
 public:
  RandomSequences(Engine& engine, int batch) : engine_(engine), batch_(batch) {}
  ~RandomSequences();
  RandomSequences(const RandomSequences&) = delete;
  RandomSequences& operator=(const RandomSequences&) = delete;

  absl::Status Open(int64_t capacity);
  // Appends `n_tokens` drawn tokens to each sequence, `chunk` of them in a step.
  absl::Status Extend(int64_t n_tokens, int64_t chunk);
  absl::Status Truncate(int64_t length);
  absl::Status Decode(int64_t n_steps);

 private:
  std::vector<int32_t> Draw(int64_t n);

  Engine& engine_;
  int batch_;
  std::mt19937 random_{1};
  std::vector<SequenceId> ids_;  // [batch]
};

// One workload of one engine, which must outlive it. Errors: those of the engine, InterruptedError.
class SpeedMeter {
 public:
  SpeedMeter(Engine& engine, const Workload& workload);

  // Opens the sequences and fills those that decode looks at. Call it before the first round.
  // REQUIRES: the engine is loaded for NeedsOf(workload) or more.
  absl::Status Open();
  // Prefills once and decodes once. Returns how fast that was.
  absl::StatusOr<Speed> Round();
  // Decodes once more while `meter` counts; this is no round. Returns the seconds that it took.
  // REQUIRES: decode was asked for; the engine has this meter.
  absl::StatusOr<double> CountDecode(RegionMeter& meter);
  // REQUIRES: at least two rounds.
  Speed Medians() const;

 private:
  Workload workload_;
  int64_t own_chunk_;  // run.prefill_chunk
  RandomSequences prefilled_;
  RandomSequences decoded_;
  std::vector<double> prefill_;  // tok/s, by round
  std::vector<double> decode_;
};

}  // namespace ng

#endif  // NG_APPS_COMMON_SPEED_H_
