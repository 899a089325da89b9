// ng-plan: how much memory a run takes and how much it computes, before anything is loaded. A run
// that will not fit is refused.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/common/about.h"
#include "apps/common/terminal.h"
#include "apps/plan/command_line.h"
#include "apps/plan/operations.h"
#include "apps/plan/report.h"
#include "apps/plan/simulation.h"
#include "ng/config.h"
#include "ng/engine.h"

namespace ng::plan {
namespace {

// The run that is planned: what is not given fits what a sequence may have.
Run RunOf(const CommandLine& line, const Engine& engine) {
  Run run = line.run;
  const int64_t most = MostTokens(engine);
  if (most == 0) return run;
  const int64_t left = std::max<int64_t>(0, most - (line.any_prompt ? 1 : run.prompt_tokens));
  if (line.any_decode) {
    const int64_t half = line.any_prompt ? most / 2 : left;  // a short context is for both
    run.decode_tokens = std::min(run.decode_tokens, half);
  }
  if (line.any_prompt) {
    run.prompt_tokens = std::min(run.prompt_tokens, std::max<int64_t>(1, most - run.decode_tokens));
  }
  return run;
}

absl::Status Plan(const CommandLine& line, const EngineOptions& options) {
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Open(options));
  const Run run = RunOf(line, *engine);
  RunNeeds needs;
  needs.max_tokens = run.prompt_tokens + run.decode_tokens;
  needs.max_prompt = run.prompt_tokens;
  NG_ASSIGN_OR_RETURN(const RunPlan plan, engine->Plan(needs));
  if (needs.max_tokens > plan.max_tokens) {
    return LimitError(absl::StrCat("prompt ", run.prompt_tokens, " + decode ", run.decode_tokens,
                                   " = ", needs.max_tokens, " > ", plan.max_tokens,
                                   " cache tokens; lower --prompt-tokens or --decode-tokens"));
  }
  const std::string& path = engine->config().Text("model.path");
  std::vector<Machines> machines;
  if (options.plan_ranks > 1) {
    NG_ASSIGN_OR_RETURN(machines, Simulate(options, needs, run));
  }
  const Subject subject{*engine, path.empty() ? options.random_weights : path, plan, run,
                        std::move(machines)};
  NG_RETURN_IF_ERROR(WriteStdout(line.jsonl ? JsonLine(subject) : TextTables(subject)));
  return CheckMemory(plan);  // the tables above show what does not fit
}

constexpr const char* kName = "ng-plan";

int Main(int argc, const char* const* argv) {
  HoldStandardStreams();
  const absl::StatusOr<CommandLine> line = ParseCommandLine(argc, argv);
  if (!line.ok()) return Fail(kName, line.status());
  return RunAsked(line->about, TheManual(), line->engine,
                  [&](const EngineOptions& options, ProgressBar&) { return Plan(*line, options); });
}

}  // namespace
}  // namespace ng::plan

int main(int argc, char** argv) {
  return ng::RunProgram(ng::plan::kName, ng::plan::Main, argc, argv);
}
