// Engine.forward: whole prompts in one go, and what they make: logits, the residual stream,
// attention.
#ifndef NG_APPS_PYTHON_FORWARD_H_
#define NG_APPS_PYTHON_FORWARD_H_

#include <pybind11/pybind11.h>

#include <vector>

#include "apps/python/open_engine.h"

namespace ng::python {

// What is wanted of a forward.
struct ForwardParts {
  bool logits = true;
  bool hidden = false;
  bool attention = false;
};

// Each is one float32 array, into which the rows go as the steps make them; without elements where
// it is not wanted:
//
//   "logits"     [1, batch, n, vocab_size]
//   "hidden"     [1 + n_layers, batch, n, width]: the embedding, each layer's out but the last's,
//                and the last one's behind the final norm
//   "attention"  [n_layers with attention, batch, n_heads, n, n], 0 where a query sees nothing
//
// Raises UsageError for prompts of several lengths, and while a run or something else is at work.
py::dict Forward(OpenEngine& open, const std::vector<Ids>& prompts, const ForwardParts& parts);

}  // namespace ng::python

#endif  // NG_APPS_PYTHON_FORWARD_H_
