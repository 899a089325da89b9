// What a folder that MLX wrote has otherwise than one of transformers.
//
// mlx-lm turns and renames tensors when it converts a model. Those of a layer's experts are one
// tensor for each matrix, gate and up apart; latents have a matrix for keys and one for values;
// convolutions are [columns, taps, 1], and where a model has those, the norms' weights hold the 1
// that they lack elsewhere. Source: mlx-lm, `sanitize` of each model.
#ifndef NG_CORE_MODEL_FILES_MLX_TENSORS_H_
#define NG_CORE_MODEL_FILES_MLX_TENSORS_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/formats/tensor_source.h"
#include "core/model/families/family.h"
#include "core/model/spec/model_spec.h"
#include "core/model/weights/tensor_role.h"

namespace ng {

class MlxTensors {
 public:
  MlxTensors(const TensorSource& source, const Family& family, const ModelSpec& spec);

  // By layer and role; of experts and heads one tensor for all of a layer, [n_copies, ...].
  const std::map<std::pair<int, TensorRole>, const TensorInfo*>& all() const { return all_; }
  bool has_experts() const { return has_experts_; }
  // Whether they are in place of a tensor of this role.
  bool Replace(TensorRole role, int layer) const;
  // The names of those that a layer lacks whose experts are MLX's.
  std::vector<std::string> Missing(const ModelSpec& spec) const;

 private:
  std::map<std::pair<int, TensorRole>, const TensorInfo*> all_;
  bool has_experts_ = false;
};

// Takes away what the norms' weights lack, where a convolution shows that MLX has added it.
void UseMlxNorms(const TensorSource& source, ModelSpec* spec);

}  // namespace ng

#endif  // NG_CORE_MODEL_FILES_MLX_TENSORS_H_
