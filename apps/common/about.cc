#include "apps/common/about.h"

#include "apps/common/columns.h"
#include "apps/common/completion.h"
#include "apps/common/known_parts.h"
#include "apps/common/man_page.h"
#include "apps/common/version.h"

namespace ng {

void SetLoudness(const About& about) {
  SetLoudness(about.quiet     ? Loudness::kQuiet
              : about.verbose ? Loudness::kVerbose
                              : Loudness::kUsual);
}

std::optional<absl::Status> AnswerAbout(const About& about, const Manual& manual,
                                        const EngineOptions& options) {
  if (about.version) return WriteStdout(VersionText(manual.program));
  if (about.help) return WriteStdout(UsageText(manual, HelpColumns()));
  if (!about.asked()) return std::nullopt;
  KnownParts parts;
  const bool needed =
      about.man_page ? manual.keys == ConfigKeys::kDescribed : manual.keys != ConfigKeys::kNone;
  if (needed) {
    absl::StatusOr<KnownParts> known = FindKnownParts(options);
    if (!known.ok()) return known.status();
    parts = *std::move(known);
  }
  if (about.man_page) return WriteStdout(ManPage(manual, parts));
  const absl::StatusOr<std::string> script = CompletionScript(manual, parts, about.completion);
  return script.ok() ? WriteStdout(*script) : script.status();
}

int RunAsked(const About& about, const Manual& manual, const EngineOptions& options,
             absl::FunctionRef<absl::Status(const EngineOptions&, ProgressBar&)> work) {
  SetLoudness(about);
  return RunWatched(manual.program, options, [&](const EngineOptions& watched, ProgressBar& bar) {
    const std::optional<absl::Status> answered = AnswerAbout(about, manual, watched);
    return answered ? *answered : work(watched, bar);
  });
}

}  // namespace ng
