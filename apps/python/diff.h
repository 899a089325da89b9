// Engine.diff: two engines side by side, as ng-diff runs them.
#ifndef NG_APPS_PYTHON_DIFF_H_
#define NG_APPS_PYTHON_DIFF_H_

#include <cstdint>
#include <string>
#include <vector>

#include "apps/python/open_engine.h"

namespace ng::python {

// What `ng-diff --output jsonl` prints. Both engines are loaded for it, so neither may have open
// sequences. Raises UsageError for that, and what ng-diff would exit with.
std::string Diff(OpenEngine& a, OpenEngine& b, const std::vector<Ids>& prompts,
                 int64_t max_new_tokens);

}  // namespace ng::python

#endif  // NG_APPS_PYTHON_DIFF_H_
