// The answers of every program to what it is asked about itself (About), before any work.
#ifndef NG_APPS_COMMON_ABOUT_H_
#define NG_APPS_COMMON_ABOUT_H_

#include <optional>

#include "absl/functional/function_ref.h"
#include "apps/common/manual.h"
#include "apps/common/terminal.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng {

// How loud the program is from now on.
void SetLoudness(const About& about);

// Prints the answer to the first thing that is asked for; nothing if the program shall do its work.
// Errors: those of FindKnownParts, where config keys are part of the answer.
std::optional<absl::Status> AnswerAbout(const About& about, const Manual& manual,
                                        const EngineOptions& options);

// RunWatched for a program that answers these first.
int RunAsked(const About& about, const Manual& manual, const EngineOptions& options,
             absl::FunctionRef<absl::Status(const EngineOptions& options, ProgressBar& bar)> work);

}  // namespace ng

#endif  // NG_APPS_COMMON_ABOUT_H_
