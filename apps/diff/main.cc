// ng-diff: runs two configs side by side along the same tokens, and says which tensor, layer,
// position and element is the first that they do not share.
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/common/about.h"
#include "apps/common/prompts.h"
#include "apps/common/terminal.h"
#include "apps/diff/command_line.h"
#include "apps/diff/report.h"
#include "apps/diff/sides.h"
#include "apps/diff/tensors.h"
#include "ng/config.h"
#include "ng/engine.h"
#include "ng/files.h"

namespace ng::diff {
namespace {

constexpr const char* kName = "ng-diff";

// Rows of a prompt's tokens are kept until both sides have them, and its logits take most of the
// memory: so prompts are fed in pieces.
constexpr const char* kChunk = "run.prefill_chunk";
constexpr const char* kDefaultChunk = "run.prefill_chunk=64";

// The other config's options.
EngineOptions OptionsOfB(const CommandLine& line, const EngineOptions& a,
                         std::span<const std::string> changes) {
  EngineOptions b = a;
  if (!line.against_config.empty()) {
    b.config_file = line.against_config;
    b.overrides = line.defaults;
  }
  b.overrides.insert(b.overrides.end(), changes.begin(), changes.end());
  return b;
}

// Whether neither side says how much of a prompt a step feeds. What is wrong with a config is said
// where it is opened.
bool LeavesChunk(const CommandLine& line, const EngineOptions& options) {
  const absl::StatusOr<Config> a = Engine::ReadConfig(options);
  if (!a.ok() || !a->IsDefault(kChunk)) return false;
  if (!line.against_tensors.empty()) return true;
  const absl::StatusOr<Config> b = Engine::ReadConfig(OptionsOfB(line, options, line.against));
  return b.ok() && b->IsDefault(kChunk);
}

absl::StatusOr<std::unique_ptr<Engine>> OpenB(const EngineOptions& options, const Engine& a,
                                              const std::string& name) {
  absl::StatusOr<std::unique_ptr<Engine>> b = Engine::Open(options);
  if (!b.ok()) return Annotate(b.status(), name + ": ");
  NG_RETURN_IF_ERROR(Annotate(CheckVocabularies(a, **b), name + ": "));
  return b;
}

std::string KeyOf(const std::string& setting) { return setting.substr(0, setting.find('=')); }

// Whether a change cannot be made by itself; anything else that goes wrong ends the program.
bool CannotRun(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status);
}

// The KL of one change alone: a run of its own, as if no other were asked for.
absl::StatusOr<double> KlOfChange(const CommandLine& line, const EngineOptions& options,
                                  std::span<const GenerateRequest> requests,
                                  const std::string& change) {
  const std::string name = "--against " + change;
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> a, Engine::Open(options));
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> b,
                      OpenB(OptionsOfB(line, options, {&change, 1}), *a, name));
  std::vector<PointShape> logits;
  for (const PointShape& point : ComparePoints(*a, *b).common) {
    if (point.at.point == Point::kLogits) logits.push_back(point);
  }
  NG_ASSIGN_OR_RETURN(const LockstepResult result,
                      RunBoth({*a, *b, name}, requests, logits, options.stop));
  return result.comparison.predictions.kl_mean;
}

absl::StatusOr<std::vector<Part>> RunParts(const CommandLine& line, const EngineOptions& options,
                                           std::span<const GenerateRequest> requests,
                                           double kl_together) {
  std::vector<Part> parts;
  if (line.against.size() == 1) return std::vector<Part>{{KeyOf(line.against[0]), kl_together, ""}};
  for (const std::string& change : line.against) {
    const absl::StatusOr<double> kl = KlOfChange(line, options, requests, change);
    if (!kl.ok() && !CannotRun(kl.status())) return kl.status();
    Part& part = parts.emplace_back(Part{KeyOf(change), std::nullopt, ""});
    if (kl.ok()) {
      part.kl_mean = *kl;
    } else {
      part.reason = std::string(kl.status().message());
    }
  }
  return parts;
}

absl::Status Print(const CommandLine& line, const Report& report, const Engine& a) {
  if (report.result.comparison.rows() == 0) {
    return RuntimeError(
        absl::StrCat("no row was compared: ", report.result.comparison.not_compared(),
                     " rows were made by one side alone"));
  }
  if (line.jsonl) {
    NG_RETURN_IF_ERROR(WriteStdout(ReportJson(report, line.by_position)));
  } else {
    NG_ASSIGN_OR_RETURN(const std::string text,
                        ReportText(report, a, {.wide = line.wide, .top = line.top}));
    NG_RETURN_IF_ERROR(WriteStdout(text));
  }
  return report.different() ? DifferenceError("") : absl::OkStatus();
}

std::string NameOf(const EngineOptions& options) {
  return options.config_file.empty() ? "the command line" : options.config_file;
}

absl::Status RunAgainstTensors(const CommandLine& line, const EngineOptions& options,
                               Engine& engine, std::vector<GenerateRequest> requests) {
  NG_ASSIGN_OR_RETURN(Tensors tensors, Tensors::Open(line.against_tensors, engine.points()));
  if (requests.empty()) {
    NG_ASSIGN_OR_RETURN(requests, tensors.Requests());
    for (const GenerateRequest& request : requests) {
      NG_RETURN_IF_ERROR(Annotate(engine.CheckRequest(request), tensors.path() + ": "));
    }
  }
  const RunNeeds needs = NeedsOf(requests);
  NG_ASSIGN_OR_RETURN(const RunPlan plan, engine.Plan(needs));
  NG_RETURN_IF_ERROR(engine.Load(needs));
  const int64_t left = plan.available_bytes - plan.needed_bytes();
  Report report;
  report.a = NameOf(options);
  report.b = tensors.path();
  NG_ASSIGN_OR_RETURN(report.result,
                      tensors.Compare({engine, requests}, {tensors.points(), left, options.stop}));
  report.ignored = tensors.others();
  return Print(line, report, engine);
}

absl::Status RunAgainstConfig(const CommandLine& line, const EngineOptions& options,
                              std::unique_ptr<Engine> a,
                              const std::vector<GenerateRequest>& requests) {
  const bool keys = !line.against.empty();
  const std::string name = keys ? "--against" : "--against-config " + line.against_config;
  Report report;
  report.a = NameOf(options);
  report.b = keys ? "A with " + absl::StrJoin(line.against, ", ") : line.against_config;
  {
    NG_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> b,
                        OpenB(OptionsOfB(line, options, line.against), *a, name));
    PointsOfBoth points = ComparePoints(*a, *b);
    report.only_a = std::move(points.only_a);
    report.only_b = std::move(points.only_b);
    NG_ASSIGN_OR_RETURN(report.result,
                        RunBoth({*a, *b, name}, requests, points.common, options.stop));
  }
  if (line.against.size() > 1) a.reset();  // each part has engines of its own
  NG_ASSIGN_OR_RETURN(report.parts, RunParts(line, options, requests,
                                             report.result.comparison.predictions.kl_mean));
  if (a == nullptr) {
    NG_ASSIGN_OR_RETURN(a, Engine::Open(options));
  }
  return Print(line, report, *a);
}

absl::Status Run(CommandLine line, EngineOptions options) {
  const InputLog inputs;
  if (LeavesChunk(line, options)) line.defaults.emplace_back(kDefaultChunk);
  options.overrides.insert(options.overrides.begin(), line.defaults.begin(), line.defaults.end());
  NG_ASSIGN_OR_RETURN(std::unique_ptr<Engine> a, Engine::Open(options));
  NG_RETURN_IF_ERROR(ReadTools(*a, options.stop, &line));
  NG_ASSIGN_OR_RETURN(PromptRequests read, ReadRequests(line, *a, options.stop));
  std::vector<GenerateRequest>& requests = read.requests;
  if (!line.against_tensors.empty()) {
    return RunAgainstTensors(line, options, *a, std::move(requests));
  }
  if (requests.empty()) {
    return UsageError(
        "nothing to run; give one of --prompt, --prompt-file, --prompt-ids, --prompts, --message");
  }
  return RunAgainstConfig(line, options, std::move(a), requests);
}

int Main(int argc, const char* const* argv) {
  HoldStandardStreams();
  const absl::StatusOr<CommandLine> line = ParseCommandLine(argc, argv);
  if (!line.ok()) return Fail(kName, line.status());
  return RunAsked(line->about, TheManual(), line->engine,
                  [&](const EngineOptions& options, ProgressBar&) { return Run(*line, options); });
}

}  // namespace
}  // namespace ng::diff

int main(int argc, char** argv) {
  return ng::RunProgram(ng::diff::kName, ng::diff::Main, argc, argv);
}
