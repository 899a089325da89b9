// What a page says of a run beside its tokens: its parts, its cache, and how to run it again.
#ifndef NG_APPS_VIEW_RUN_FACTS_H_
#define NG_APPS_VIEW_RUN_FACTS_H_

#include <cstdint>
#include <string>

#include "apps/view/page.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng::view {

// Model, family, weights, attention, cache, sampler, seed, isa, ... `program` has run it.
// REQUIRES: a loaded engine that no session has.
absl::StatusOr<Facts> RunFacts(const Engine& engine, const char* program);

// A token as a page shows it; without a tokenizer its id.
absl::StatusOr<std::string> TextOf(const Engine& engine, int32_t id);
// Sets what `page` says of its tokens: which of the prompt are special, and the text of each id
// that is in it.
absl::Status FillTexts(const Engine& engine, Page* page);

// What the cache did for this prompt. Errors: PluginError.
absl::StatusOr<Json> CacheFacts(const Engine& engine, const Timings& timings);

// A line of shell that gives the same run wherever it is typed: the config file (empty: none), what
// the command line has changed of it, the seed, the request's own settings, and the prompt as ids.
std::string ReplayCommand(const std::string& config_file, const Config& config,
                          const GenerateRequest& request);

}  // namespace ng::view

#endif  // NG_APPS_VIEW_RUN_FACTS_H_
