// ng-run's command line: dotted config overrides, and the program's own options.
#ifndef NG_APPS_RUN_COMMAND_LINE_H_
#define NG_APPS_RUN_COMMAND_LINE_H_

#include <optional>
#include <string>
#include <vector>

#include "ng/engine.h"
#include "ng/status.h"

namespace ng::run {

struct CommandLine {
  EngineOptions engine;

  bool help = false;
  bool help_all = false;
  bool version = false;
  bool list_plugins = false;
  bool print_config = false;
  bool dry_run = false;

  // At most one of these is given; it says what to run.
  std::optional<std::string> prompt;
  std::optional<std::string> prompt_file;
  std::optional<std::string> prompt_ids;
  std::optional<std::string> prompts;
  std::optional<std::string> message;
  // Each is a message where the model has a chat template, else a text to complete.
  std::vector<std::string> texts;
  bool chat = false;
  bool parse_special = false;
  std::string tools_file;  // empty: none
  std::string tools;       // its text, once it has been read
  std::string load_cache;  // empty: none
  std::string save_cache;  // empty: none

  bool jsonl = false;
  std::string steps;  // empty: none
  std::string save;   // empty: none
  bool save_logits = false;
  bool save_decode_logits = false;
  bool save_attn_row = false;
  bool save_attn_full = false;
  std::vector<std::string> save_points;  // names of points, or patterns of them
  std::vector<int> trace_layers;         // rising
  std::vector<int> trace_heads;          // rising
  bool debug_cache = false;              // also KV_DEBUG=1
  int debug_layer = -1;                  // also KV_DEBUG_LAYER=N; -1: all
};

// Errors: UsageError naming the argument, what is allowed and the nearest option.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv);

// All of the program's own options.
std::string UsageText();

}  // namespace ng::run

#endif  // NG_APPS_RUN_COMMAND_LINE_H_
