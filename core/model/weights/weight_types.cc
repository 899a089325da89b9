#include "core/model/weights/weight_types.h"

#include <algorithm>
#include <iterator>
#include <optional>

namespace ng {

std::vector<WeightType> BlockWeightTypes::All() const {
  std::vector<WeightType> all(in.begin(), in.end());
  all.push_back(out);
  for (const std::optional<MatrixPairTypes>* more : {&experts, &latent}) {
    if (!*more) continue;
    all.insert(all.end(), (*more)->in.begin(), (*more)->in.end());
    all.push_back((*more)->out);
  }
  return all;
}

std::vector<WeightType> WeightTypes::All() const {
  std::vector<WeightType> all = {embedding, head};
  if (layer_input) all.insert(all.end(), {layer_input->in[0], layer_input->out});
  for (const LayerWeightTypes& layer : layers) {
    for (const BlockWeightTypes& block : layer) {
      std::ranges::copy(block.All(), std::back_inserter(all));
    }
  }
  return all;
}

WeightTypes UniformWeightTypes(const ModelSpec& spec, WeightType type) {
  WeightTypes types;
  types.embedding = types.head = type == WeightType::kInt4 ? WeightType::kInt8 : type;
  if (spec.layer_input.is_there()) types.layer_input = {{type, type, type}, types.embedding};
  for (const LayerSpec& blocks : spec.layers) {
    LayerWeightTypes& layer = types.layers.emplace_back();
    for (const BlockSpec& block : blocks) {
      const MatrixPairTypes all = {{type, type, type}, type};
      BlockWeightTypes& held = layer.emplace_back(BlockWeightTypes{all});
      if (block.operation == Operation::kMixture) held.experts = all;
      const bool attends = block.operation == Operation::kAttention;
      if (attends && spec.AttentionOf(block).latent.is_there()) held.latent = all;
    }
  }
  return types;
}

}  // namespace ng
