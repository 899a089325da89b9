// ng-eval's command line: dotted config overrides, what to score, and what to compare it with.
#ifndef NG_APPS_EVAL_COMMAND_LINE_H_
#define NG_APPS_EVAL_COMMAND_LINE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/manual.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng::eval {

// How many tokens a policy keeps.
struct Budget {
  int64_t tokens = 0;
  double ratio = 0.0;  // of the context, in place of tokens; 0: none

  std::string Text() const;  // "256", "0.25"
  bool operator==(const Budget&) const = default;
};

// A card of methods and tasks: policies of a cache with a budget, and codecs.
struct LabOptions {
  bool on = false;                   // any of the options below is given
  std::vector<std::string> methods;  // policies and codecs; empty: all
  std::vector<Budget> budgets;
  std::vector<std::string> tasks;     // empty: none
  std::vector<int64_t> lengths;       // tokens
  int64_t examples = 5;               // of each task and length
  std::optional<std::string> report;  // the page
  std::optional<std::string> lines;   // a line of JSON for each part of the work
  bool resume = false;                // what `lines` has is not run again
};

struct CommandLine {
  EngineOptions engine;

  // Exactly one of these three; a card of tasks needs none.
  std::optional<std::string> text_file;
  std::optional<std::string> ids_file;
  int64_t samples = 0;
  std::optional<std::string> save_ids;  // a file for the ids that are scored
  int64_t window = 0;                   // tokens fed to an empty cache; 0: as many as fit

  std::vector<std::string> against;  // "section.key=value": changes in the other config
  bool card = false;
  std::vector<int64_t> depths;  // depths of the card's decode; empty: 0, and all that fits
  int64_t repeat = 5;           // rounds of the card that count; 0: no speeds

  LabOptions lab;

  bool jsonl = false;
  bool wide = false;  // all columns of tables
  About about;
};

// Errors: UsageError naming the argument, what is allowed and the nearest option.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv);

// What the program says of itself.
Manual TheManual();

}  // namespace ng::eval

#endif  // NG_APPS_EVAL_COMMAND_LINE_H_
