// ng-fetch: a model's name in, its files in Hugging Face's cache out.
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/common/about.h"
#include "apps/common/standard_input.h"
#include "apps/common/terminal.h"
#include "apps/common/terminal_text.h"
#include "apps/fetch/command_line.h"
#include "apps/fetch/fetcher.h"
#include "apps/fetch/hub/urls.h"
#include "apps/fetch/plan.h"

namespace ng::fetch {
namespace {

constexpr const char* kName = "ng-fetch";

// Whether the user wants it. Errors: UsageError: there is nobody to ask.
absl::StatusOr<bool> Ask(const Plan& plan, const HubSettings& settings) {
  if (isatty(STDIN_FILENO) == 0 || isatty(STDERR_FILENO) == 0) {
    return UsageError("--ask: stdin and stderr must be a terminal");
  }
  WriteStderr(absl::StrCat("Download ", BytesText(plan.n_missing()), " from ",
                           HostOf(settings.endpoint), "? [y/N] "));
  NG_ASSIGN_OR_RETURN(const std::optional<std::string> answer, StandardInput().NextLine());
  return answer && (*answer == "y" || *answer == "Y" || *answer == "yes");
}

// What a run is given: the folder, or the first file of a GGUF model.
std::string ResultOf(const Plan& plan, const CommandLine& line, const RepoCache& cache) {
  const bool of_file = line.include.empty() && !plan.files.empty() &&
                       plan.files.front().file.path.ends_with(".gguf");
  if (!of_file) return cache.Snapshot(plan.commit);
  std::string first = plan.files.front().file.path;
  for (const PlannedFile& planned : plan.files) first = std::min(first, planned.file.path);
  return cache.File(plan.commit, first);
}

absl::Status Fetch(const CommandLine& line, const EngineOptions& options) {
  NG_ASSIGN_OR_RETURN(const HubSettings settings, ReadHubSettings());
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<Exchanges> web,
                      Exchanges::Open(options.stop, SignalPipe()));
  const RepoCache cache(settings.cache, line.repository);
  NG_ASSIGN_OR_RETURN(const Plan plan, MakePlan(*web, settings, line, cache));
  if (line.dry_run) return WriteStdout(TextOf(plan, line, settings));
  NG_RETURN_IF_ERROR(CheckRoom(plan, settings));
  if (line.ask && plan.n_missing() > 0) {
    NG_ASSIGN_OR_RETURN(const bool wanted, Ask(plan, settings));
    if (!wanted) return UsageError("");
  }
  FetchProgress progress(kName);
  const FetchContext context = {
      *web, settings, cache, line.repository, plan.commit, line.tries, [&](std::string_view text) {
        progress.Tell(text);
      }};
  const absl::Status fetched = FetchFiles(context, plan, line.connections, &progress);
  progress.Clear();
  if (absl::IsCancelled(fetched) && HowLoud() != Loudness::kQuiet) {
    WriteStderr(absl::StrCat(kName,
                             ": stopped; what has come is kept, and the same command goes "
                             "on with it\n"));
  }
  NG_RETURN_IF_ERROR(fetched);
  // Only now, so that a revision is never a part of one.
  NG_RETURN_IF_ERROR(cache.WriteRef(line.revision, plan.commit));
  return WriteStdout(ResultOf(plan, line, cache) + "\n");
}

int Main(int argc, const char* const* argv) {
  HoldStandardStreams();
  const absl::StatusOr<CommandLine> line = ParseCommandLine(argc, argv);
  if (!line.ok()) return Fail(kName, line.status());
  return RunAsked(line->about, TheManual(), {}, [&](const EngineOptions& options, ProgressBar&) {
    return Fetch(*line, options);
  });
}

}  // namespace
}  // namespace ng::fetch

int main(int argc, char** argv) {
  return ng::RunProgram(ng::fetch::kName, ng::fetch::Main, argc, argv);
}
