// The points that a model has (ng/point.h).
#ifndef NG_CORE_MODEL_SPEC_POINTS_H_
#define NG_CORE_MODEL_SPEC_POINTS_H_

#include <vector>

#include "core/model/spec/model_spec.h"
#include "ng/point.h"

namespace ng {

// In the order in which a token meets them.
std::vector<PointShape> PointsOf(const ModelSpec& spec);

}  // namespace ng

#endif  // NG_CORE_MODEL_SPEC_POINTS_H_
