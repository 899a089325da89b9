// A ModelSpec in words, for people who look at what a run is made of.
#ifndef NG_CORE_MODEL_SPEC_SPEC_TEXT_H_
#define NG_CORE_MODEL_SPEC_SPEC_TEXT_H_

#include <string>
#include <vector>

#include "core/model/spec/model_spec.h"

namespace ng {

// One line for the embedding, each kind of layer with its blocks, each part that blocks share, and
// the head.
std::vector<std::string> SpecLines(const ModelSpec& spec);

}  // namespace ng

#endif  // NG_CORE_MODEL_SPEC_SPEC_TEXT_H_
