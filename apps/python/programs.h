// What the programs beside ng-run say, of an engine that Python holds: ng-eval, ng-plan, and the
// page of ng-run --view. Each is by the program's own library.
#ifndef NG_APPS_PYTHON_PROGRAMS_H_
#define NG_APPS_PYTHON_PROGRAMS_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>
#include <vector>

#include "apps/python/open_engine.h"

namespace ng::python {

// What `ng-eval --output jsonl` prints of these texts, in windows of so many tokens (0: as many as
// fit). `candidate` may be null. The engines are loaded for it, so neither may have open sequences;
// hooks are called. Raises what ng-eval would exit with.
std::string Evaluated(OpenEngine& reference, OpenEngine* candidate, const std::vector<Ids>& texts,
                      int64_t window);

// (what `ng-plan --output jsonl` prints, its tables), of a run with these needs whose last token is
// decoded.
py::tuple Planned(const OpenEngine& open, const RunNeeds& needs);

// The page that `ng-run --view` writes, of the answer to this prompt. `layers`: whose attention is
// in it; empty: all. Raises LimitError where attention would take more than `most_bytes` of it.
std::string Viewed(OpenEngine& open, const py::dict& request, std::vector<int> layers,
                   int64_t most_bytes);

}  // namespace ng::python

#endif  // NG_APPS_PYTHON_PROGRAMS_H_
