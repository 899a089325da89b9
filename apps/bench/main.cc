// ng-bench: how fast a config prefills and decodes, beside what the machine could do in the same
// minute. Random ids, real weights; one line per number of threads, batch and depth.
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/bench/command_line.h"
#include "apps/bench/machine.h"
#include "apps/bench/measure.h"
#include "apps/bench/report.h"
#include "apps/common/about.h"
#include "apps/common/terminal.h"
#include "ng/config.h"
#include "ng/engine.h"

namespace ng::bench {
namespace {

// Every combination of batch and depth.
std::vector<Workload> Workloads(const CommandLine& line) {
  std::vector<Workload> workloads;
  for (const int64_t batch : line.batches) {
    for (const int64_t depth : line.depths) {
      workloads.push_back({.prompt_tokens = line.prompt_tokens,
                           .decode_tokens = line.decode_tokens,
                           .depth = depth,
                           .batch = static_cast<int>(batch),
                           .repeat = line.repeat});
    }
  }
  return workloads;
}

// Opens and loads an engine once for all workloads and prints a line for each.
absl::Status Run(EngineOptions options, const std::vector<Workload>& workloads,
                 const CommandLine& line, bool* has_head, ProgressBar& bar) {
  RegionMeter regions;
  options.regions = &regions;
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Open(options));
  RunNeeds needs;
  for (const Workload& workload : workloads) {
    NG_RETURN_IF_ERROR(CheckWorkload(workload, engine->model_shape()));
    const RunNeeds own = NeedsOf(workload);
    needs.max_tokens = std::max(needs.max_tokens, own.max_tokens);
    needs.max_sequences = std::max(needs.max_sequences, own.max_sequences);
  }
  NG_RETURN_IF_ERROR(engine->Load(needs));
  bar.Clear();
  NG_ASSIGN_OR_RETURN(const StepCost cost, engine->CostOfStep());
  const std::string& path = engine->config().Text("model.path");
  const Subject subject{*engine, path.empty() ? options.random_weights : path, cost};
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<Machine> machine,
                      Machine::Create(engine->isa(), engine->threads(), options.stop));
  const bool watched = isatty(STDERR_FILENO) == 1 && HowLoud() != Loudness::kQuiet;
  const TextTable table(line.wide);
  for (const Workload& workload : workloads) {
    const auto show = [&](int64_t round, const Speed& speed) {
      if (watched) WriteStderr(RoundLine(workload, round, speed));
    };
    NG_ASSIGN_OR_RETURN(const Figures figures, Measure(*engine, regions, *machine, workload, show));
    if (line.jsonl) {
      NG_RETURN_IF_ERROR(WriteStdout(JsonLine(subject, workload, figures)));
      continue;
    }
    if (!std::exchange(*has_head, true)) {
      NG_RETURN_IF_ERROR(WriteStdout(table.Head(subject, figures)));
    }
    NG_RETURN_IF_ERROR(WriteStdout(table.Line(subject, workload, figures)));
  }
  return absl::OkStatus();
}

// An engine keeps its number of threads for its whole life, so a sweep opens one engine after the
// other.
absl::Status Sweep(const CommandLine& line, const EngineOptions& options, ProgressBar& bar) {
  const std::vector<Workload> workloads = Workloads(line);
  bool has_head = false;
  if (line.threads.empty()) NG_RETURN_IF_ERROR(Run(options, workloads, line, &has_head, bar));
  for (const int64_t threads : line.threads) {
    EngineOptions own = options;
    own.overrides.push_back(absl::StrCat("run.threads=", threads));
    NG_RETURN_IF_ERROR(Run(own, workloads, line, &has_head, bar));
  }
  return line.jsonl ? absl::OkStatus() : WriteStdout(TextTable(line.wide).Note());
}

constexpr const char* kName = "ng-bench";

int Main(int argc, const char* const* argv) {
  HoldStandardStreams();
  const absl::StatusOr<CommandLine> line = ParseCommandLine(argc, argv);
  if (!line.ok()) return Fail(kName, line.status());
  return RunAsked(
      line->about, TheManual(), line->engine,
      [&](const EngineOptions& options, ProgressBar& bar) { return Sweep(*line, options, bar); });
}

}  // namespace
}  // namespace ng::bench

int main(int argc, char** argv) {
  return ng::RunProgram(ng::bench::kName, ng::bench::Main, argc, argv);
}
