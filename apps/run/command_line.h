// ng-run's command line: dotted config overrides, and the program's own options.
#ifndef NG_APPS_RUN_COMMAND_LINE_H_
#define NG_APPS_RUN_COMMAND_LINE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/manual.h"
#include "apps/common/prompt_options.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng::run {

struct CommandLine : PromptOptions {
  EngineOptions engine;

  std::vector<std::string> first_messages;  // of --chat

  About about;
  bool help_all = false;  // --help all
  bool list_plugins = false;
  bool list_models = false;
  bool print_config = false;
  bool dry_run = false;

  bool jsonl = false;
  std::string steps;  // empty: none
  bool steps_stages = false;
  std::string kept;    // empty: none
  std::string save;    // empty: none
  std::string record;  // empty: none
  std::string replay;  // a record that is run again; empty: none
  bool replay_any_model = false;
  bool save_logits = false;
  bool save_decode_logits = false;
  bool save_attn_row = false;
  bool save_attn_full = false;
  bool save_dropped_at = false;          // where tokens have left
  bool dropped_at_named = false;         // and where none has
  std::vector<std::string> save_points;  // names of points, or patterns of them
  std::vector<int> trace_layers;         // rising
  std::vector<int> trace_heads;          // rising
  std::string view;                      // a page, or "-": the terminal; empty: none
  std::optional<int64_t> view_limit;     // of the page's attention, in MB
  std::vector<std::string> against;      // "section.key=value" of a second run on the page
  std::string trace;                     // a folder for all of this; empty: none
  bool debug_cache = false;              // also KV_DEBUG=1
  int debug_layer = -1;                  // also KV_DEBUG_LAYER=N; -1: all
};

// What --trace writes into its folder.
struct TraceFiles {
  explicit TraceFiles(const std::string& folder)
      : page(folder + "/attention.html"),
        steps(folder + "/steps.jsonl"),
        metadata(folder + "/metadata.json"),
        tensors(folder + "/tensors.safetensors") {}
  std::string page;
  std::string steps;
  std::string metadata;
  std::string tensors;
};

// Errors: UsageError naming the argument, what is allowed and the nearest option.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv);

// What the program says of itself.
Manual TheManual();

}  // namespace ng::run

#endif  // NG_APPS_RUN_COMMAND_LINE_H_
