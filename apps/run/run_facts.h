// What a page says of a run beside its tokens: its parts, its cache, and how to run it again.
#ifndef NG_APPS_RUN_RUN_FACTS_H_
#define NG_APPS_RUN_RUN_FACTS_H_

#include <string>

#include "apps/run/command_line.h"
#include "apps/view/page.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng::run {

// Model, family, weights, attention, cache, sampler, seed, isa, ... REQUIRES: a loaded engine.
absl::StatusOr<view::Facts> RunFacts(const Engine& engine);

// What the cache did for this prompt. Errors: PluginError.
absl::StatusOr<view::Json> CacheFacts(const Engine& engine, const Timings& timings);

// A line of shell that gives the same run wherever it is typed: the config file, what the command
// line has changed of it, the seed, and the prompt as ids.
std::string ReplayCommand(const CommandLine& line, const Engine& engine,
                          const GenerateRequest& request);

}  // namespace ng::run

#endif  // NG_APPS_RUN_RUN_FACTS_H_
