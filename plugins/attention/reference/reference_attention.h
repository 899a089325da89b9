// Attention written as the formula reads: the oracle that faster backends are compared with.
//
// It reads rows through CacheStore::CopyRow, so any layout and codec will do. Scores, exponentials
// and weighted sums are computed in double, one after the other, and stored as f32; the softmax is
// the two-pass one (largest score first). The captured rows are exactly the weights used.
#ifndef NG_PLUGINS_ATTENTION_REFERENCE_REFERENCE_ATTENTION_H_
#define NG_PLUGINS_ATTENTION_REFERENCE_REFERENCE_ATTENTION_H_

#include <memory>

#include "ng/attention_backend.h"
#include "ng/plugin.h"
#include "ng/status.h"

namespace ng {

absl::StatusOr<std::unique_ptr<AttentionBackend>> CreateReferenceAttention(
    const PluginContext& context);

}  // namespace ng

#endif  // NG_PLUGINS_ATTENTION_REFERENCE_REFERENCE_ATTENTION_H_
