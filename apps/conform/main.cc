// ng-conform: whether a plugin does what ng asks of its kind.
//
// Each check opens the plugin in a process of its own, with a deadline: a plugin that crashes,
// hangs or ends the process fails one check and not the others. Nothing of the plugin runs in this
// process.
#include <atomic>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/common/about.h"
#include "apps/common/apart.h"
#include "apps/common/terminal.h"
#include "apps/conform/checks.h"
#include "apps/conform/command_line.h"

namespace ng::conform {
namespace {

constexpr const char* kName = "ng-conform";
// The first byte of what a check's process answers, before the detail.
constexpr char kResults[] = {'o', 'f', 's'};

struct Counts {
  int ok = 0;
  int failed = 0;
  int skipped = 0;
};

absl::Status PrintLine(const CommandLine& line, IsaLevel isa, const std::string& check,
                       const Outcome& outcome) {
  constexpr const char* kWords[] = {"ok", "fail", "skipped"};
  constexpr const char* kShown[] = {"ok", "FAIL", "skipped"};
  const auto result = static_cast<size_t>(outcome.result);
  const std::string detail = OneLine(outcome.detail);
  const std::string command = CommandFor(line, isa, check);
  if (line.jsonl) {
    const nlohmann::ordered_json json = {{"check", check},
                                         {"result", kWords[result]},
                                         {"detail", detail},
                                         {"isa", std::string(IsaName(isa))},
                                         {"command", command}};
    using Json = nlohmann::ordered_json;
    return WriteStdout(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  }
  std::string text = absl::StrFormat("%-8s", kShown[result]);
  if (line.levels.size() > 1) absl::StrAppendFormat(&text, "%-12s", std::string(IsaName(isa)));
  absl::StrAppendFormat(&text, "%-18s%s", check, detail);
  if (outcome.result == Result::kFail) absl::StrAppend(&text, "; alone: ", command);
  while (text.ends_with(' ')) text.pop_back();
  return WriteStdout(text + "\n");
}

// Runs a check in a process of its own.
absl::StatusOr<Outcome> RunCheckApart(const CommandLine& line, IsaLevel isa,
                                      const std::string& check, const std::atomic<bool>& stop) {
  const ApartOptions options{.patience = line.deadline, .show_stderr = !line.cases.empty()};
  NG_ASSIGN_OR_RETURN(const ApartResult result,
                      RunApart(
                          [&] {
                            const Outcome outcome = RunNamed(line.request, isa, check);
                            return kResults[static_cast<size_t>(outcome.result)] +
                                   OneLine(outcome.detail);
                          },
                          options, stop));
  if (!result.returned || result.text.empty()) return Fail(result.text);
  const size_t kind = std::string_view(kResults, std::size(kResults)).find(result.text.front());
  return Outcome{static_cast<Result>(kind), result.text.substr(1)};
}

// The status of a function that runs in a process of its own. `ended`: the status where it did not
// return, with how it ended.
absl::Status StatusApart(const CommandLine& line, const std::function<absl::Status()>& function,
                         const std::function<absl::Status(const std::string&)>& ended,
                         const std::atomic<bool>& stop) {
  const ApartOptions options{.patience = line.deadline, .show_stderr = !line.cases.empty()};
  NG_ASSIGN_OR_RETURN(const ApartResult result, RunApart(
                                                    [&] {
                                                      const absl::Status status = function();
                                                      if (status.ok()) return std::string();
                                                      return absl::StrCat(
                                                          ExitCode(status),
                                                          OneLine(std::string(status.message())));
                                                    },
                                                    options, stop));
  if (!result.returned) return ended(result.text);
  if (result.text.empty()) return absl::OkStatus();
  const std::string message = result.text.substr(1);
  switch (result.text.front()) {
    case '2':
      return UsageError(message);
    case '3':
      return ModelFileError(message);
    default:
      return PluginError(message);
  }
}

// Whether the plugin and its partners can be opened at all: the error that an engine would report.
absl::Status CheckLoads(const CommandLine& line, const std::atomic<bool>& stop) {
  return StatusApart(
      line, [&] { return OpenAll(line.request); },
      [&](const std::string& how) {
        return PluginError(absl::StrCat("plugin ", line.request.plugin, ": opening it ", how));
      },
      stop);
}

// Whether its options are those of a part that can be made. One that does not survive it fails the
// checks.
absl::Status CheckOptions(const CommandLine& line, const std::atomic<bool>& stop) {
  return StatusApart(
      line, [&] { return TryToMake(line.request, line.levels.front()); },
      [](const std::string& /*how*/) { return absl::OkStatus(); }, stop);
}

absl::Status Summarize(const CommandLine& line, const Counts& counts) {
  if (!line.jsonl) {
    NG_RETURN_IF_ERROR(WriteStdout(absl::StrFormat("%d ok, %d failed, %d skipped\n", counts.ok,
                                                   counts.failed, counts.skipped)));
  }
  if (counts.failed == 0) return absl::OkStatus();
  return RuntimeError(absl::StrCat(line.request.plugin, " fails ", counts.failed, " of ",
                                   counts.ok + counts.failed, " checks that ran"));
}

absl::Status Conform(const CommandLine& line, const std::atomic<bool>& stop) {
  absl::Status loads = CheckLoads(line, stop);
  if (!loads.ok()) {
    if (ExitCode(loads) == 4) {
      NG_RETURN_IF_ERROR(
          PrintLine(line, line.levels.front(), kLoad, Fail(std::string(loads.message()))));
    }
    return loads;
  }
  NG_RETURN_IF_ERROR(CheckOptions(line, stop));
  Counts counts;
  for (const IsaLevel isa : line.levels) {
    for (const CheckName& check : ChecksOf(line.request.kind)) {
      const bool wanted = line.cases.empty() || std::find(line.cases.begin(), line.cases.end(),
                                                          check.name) != line.cases.end();
      if (!wanted) continue;
      NG_ASSIGN_OR_RETURN(const Outcome outcome, RunCheckApart(line, isa, check.name, stop));
      ++(outcome.result == Result::kOk     ? counts.ok
         : outcome.result == Result::kFail ? counts.failed
                                           : counts.skipped);
      NG_RETURN_IF_ERROR(PrintLine(line, isa, check.name, outcome));
    }
  }
  return Summarize(line, counts);
}

std::string ListText(const CommandLine& line) {
  std::string text;
  for (const CheckName& check : ChecksOf(line.request.kind)) {
    absl::StrAppendFormat(&text, "%-18s%s\n", check.name, check.asks);
  }
  return text;
}

int Main(int argc, const char* const* argv) {
  HoldStandardStreams();
  const absl::StatusOr<CommandLine> line = ParseCommandLine(argc, argv);
  if (!line.ok()) return ng::Fail(kName, line.status());
  return RunAsked(line->about, TheManual(), {}, [&](const EngineOptions& options, ProgressBar&) {
    return line->list ? WriteStdout(ListText(*line)) : Conform(*line, *options.stop);
  });
}

}  // namespace
}  // namespace ng::conform

int main(int argc, char** argv) {
  return ng::RunProgram(ng::conform::kName, ng::conform::Main, argc, argv);
}
