// ng-bench's command line: dotted config overrides, what to measure, and how to print it.
#ifndef NG_APPS_BENCH_COMMAND_LINE_H_
#define NG_APPS_BENCH_COMMAND_LINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "apps/common/manual.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng::bench {

struct CommandLine {
  EngineOptions engine;

  int64_t prompt_tokens = 512;      // 0: no prefill is measured
  int64_t decode_tokens = 64;       // 0: no decode is measured
  std::vector<int64_t> depths{0};   // tokens in the cache before the decode steps
  std::vector<int64_t> batches{1};  // sequences side by side
  std::vector<int64_t> threads;     // empty: run.threads of the config
  int64_t repeat = 5;               // rounds that count; one more warms up

  bool jsonl = false;
  bool wide = false;  // all columns of the table
  About about;
};

// Errors: UsageError naming the argument, what is allowed and the nearest option.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv);

// What the program says of itself.
Manual TheManual();

}  // namespace ng::bench

#endif  // NG_APPS_BENCH_COMMAND_LINE_H_
