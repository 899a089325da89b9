// ng-eval: how good the predictions of a config are, through its cache: perplexity, how far another
// config is from it, and the card of all caches and codecs.
#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/common/about.h"
#include "apps/common/screen_text.h"
#include "apps/common/terminal.h"
#include "apps/eval/card.h"
#include "apps/eval/command_line.h"
#include "apps/eval/evaluate.h"
#include "apps/eval/lab/lab.h"
#include "apps/eval/report.h"
#include "apps/eval/texts.h"
#include "ng/config.h"
#include "ng/engine.h"
#include "ng/files.h"

namespace ng::eval {
namespace {

void Append(const std::vector<std::string>& more, std::vector<std::string>* overrides) {
  overrides->insert(overrides->end(), more.begin(), more.end());
}

// An error about the other config.
absl::Status AboutCandidate(const absl::Status& status) { return Annotate(status, "--against: "); }

// The engine beside the reference for --against, null without it; not loaded.
absl::StatusOr<std::unique_ptr<Engine>> OpenCandidate(const CommandLine& line,
                                                      EngineOptions options,
                                                      const Engine& reference) {
  if (line.against.empty()) return nullptr;
  Append(line.against, &options.overrides);
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Open(options);
  if (!engine.ok()) return AboutCandidate(engine.status());
  NG_RETURN_IF_ERROR(AboutCandidate(CheckCandidate(reference, **engine)));
  return engine;
}

absl::Status PrintCard(const CommandLine& line, const Subject& subject, Engine& engine,
                       const Plan& plan) {
  const CardTable table(plan.workloads, line.wide);
  if (!line.jsonl) NG_RETURN_IF_ERROR(WriteStdout(table.Head(subject)));
  NG_RETURN_IF_ERROR(MakeCard(engine, plan, [&](const CardRow& row) {
    return WriteStdout(line.jsonl ? CardRowJson(subject, row) : table.Row(row));
  }));
  return line.jsonl ? absl::OkStatus() : WriteStdout(table.Note());
}

// The room that the windows need and, for a card, the workloads that are timed.
Plan PlanOf(const CommandLine& line, const EngineOptions& options, std::span<const Window> windows,
            int64_t longest, int64_t limit) {
  Plan plan;
  plan.reference = options;
  plan.job = {windows, options.progress, options.stop};
  plan.needs = {.max_tokens = longest, .prompt_logits = true};
  if (line.card) plan.workloads = CardWorkloads(line, longest, limit);
  for (const Workload& workload : plan.workloads) {
    plan.needs.max_tokens = std::max(plan.needs.max_tokens, NeedsOf(workload).max_tokens);
  }
  return plan;
}

// `candidate` may be null.
absl::Status Score(const CommandLine& line, const EngineOptions& options, const Texts& texts,
                   Engine& reference, Engine* candidate) {
  const int64_t limit = TokenLimit(reference);
  const std::vector<Window> windows = WindowsOf(texts, line.window > 0 ? line.window : limit);
  const Window& longest = LongestOf(windows);
  const auto n_longest = static_cast<int64_t>(longest.fed.size());
  NG_RETURN_IF_ERROR(CheckFits(reference, longest));
  if (candidate != nullptr) NG_RETURN_IF_ERROR(AboutCandidate(CheckFits(*candidate, longest)));
  const Plan plan = PlanOf(line, options, windows, n_longest, limit);
  NG_RETURN_IF_ERROR(reference.Load(plan.needs));
  if (candidate != nullptr) NG_RETURN_IF_ERROR(AboutCandidate(candidate->Load(plan.needs)));

  NG_ASSIGN_OR_RETURN(const StepCost cost, reference.CostOfStep());
  const Subject subject = {reference,      cost,      texts.size(),
                           windows.size(), n_longest, plan.job.n_scored()};
  if (line.card) return PrintCard(line, subject, reference, plan);
  NG_ASSIGN_OR_RETURN(const Evaluation evaluation, Evaluate(reference, candidate, plan.job));
  const auto format = line.jsonl ? EvaluationJson : EvaluationText;
  NG_ASSIGN_OR_RETURN(const std::string report, format(subject, candidate, evaluation));
  return WriteStdout(line.jsonl ? report : WrappedText(report, TableWidth(line.wide)));
}

absl::Status Run(const CommandLine& line, const EngineOptions& given) {
  if (line.lab.on) return RunLab(line, given);
  const InputLog inputs;
  NG_ASSIGN_OR_RETURN(EngineOptions options, FeedingOptions(line, given));
  if (line.card) Append(ReferenceOverrides(), &options.overrides);
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Open(options));
  NG_RETURN_IF_ERROR(CheckUsesCache(*engine));
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> candidate,
                      OpenCandidate(line, options, *engine));
  NG_RETURN_IF_ERROR(CheckDepths(line, TokenLimit(*engine)));
  NG_ASSIGN_OR_RETURN(const Texts texts, GetTexts(line, *engine, inputs, options.stop));
  return Score(line, options, texts, *engine, candidate.get());
}

constexpr const char* kName = "ng-eval";

int Main(int argc, const char* const* argv) {
  HoldStandardStreams();
  const absl::StatusOr<CommandLine> line = ParseCommandLine(argc, argv);
  if (!line.ok()) return Fail(kName, line.status());
  return RunAsked(line->about, TheManual(), line->engine,
                  [&](const EngineOptions& options, ProgressBar&) { return Run(*line, options); });
}

}  // namespace
}  // namespace ng::eval

int main(int argc, char** argv) {
  return ng::RunProgram(ng::eval::kName, ng::eval::Main, argc, argv);
}
