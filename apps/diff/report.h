// What ng-diff prints.
#ifndef NG_APPS_DIFF_REPORT_H_
#define NG_APPS_DIFF_REPORT_H_

#include <optional>
#include <string>
#include <vector>

#include "apps/diff/lockstep.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng::diff {

// One of several changed keys by itself.
struct Part {
  std::string key;
  std::optional<double> kl_mean;  // empty: this change alone cannot run
  std::string reason;             // why not
};

struct Report {
  std::string a;  // what is compared, in words
  std::string b;
  LockstepResult result;
  std::vector<std::string> only_a;  // points that the other side does not have, or in another shape
  std::vector<std::string> only_b;
  std::vector<std::string> ignored;  // tensors of the file that are no points of the model
  std::vector<Part> parts;           // of what is given with --against

  bool different() const;
  // The KL of all changes together that is not the sum of those of the parts. Empty: not known.
  std::optional<double> remainder() const;
};

struct TextOptions {
  bool wide = false;  // all columns, also those that do not fit the screen
  int top = 3;        // positions to show
};
// A's tokenizer gives the texts of tokens. Errors: those of Engine::Decode.
absl::StatusOr<std::string> ReportText(const Report& report, const Engine& a,
                                       const TextOptions& options);
// A line for each point, and one with the verdict; `by_position`: with the figures of each row.
std::string ReportJson(const Report& report, bool by_position);

}  // namespace ng::diff

#endif  // NG_APPS_DIFF_REPORT_H_
