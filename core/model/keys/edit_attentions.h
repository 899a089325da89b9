// Changing the attention of a model's layers once they are there: for families whose layers differ
// in ways that no row of a table has.
#ifndef NG_CORE_MODEL_KEYS_EDIT_ATTENTIONS_H_
#define NG_CORE_MODEL_KEYS_EDIT_ATTENTIONS_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "core/model/spec/model_spec.h"

namespace ng {

// Calls edit(layer, attention) with that of each layer, which may change it.
template <typename Edit>
void EditAttentions(ModelSpec* spec, Edit&& edit) {
  const std::vector<SelfAttentionSpec> before = std::exchange(spec->attentions, {});
  for (size_t i = 0; i < spec->layers.size(); ++i) {
    for (BlockSpec& block : spec->layers[i]) {
      if (block.operation != Operation::kAttention) continue;
      SelfAttentionSpec attention = before[static_cast<size_t>(block.part)];
      edit(i, &attention);
      block.part = spec->IndexIn(&spec->attentions, attention);
    }
  }
}

}  // namespace ng

#endif  // NG_CORE_MODEL_KEYS_EDIT_ATTENTIONS_H_
