// A scattered store for a feature of attention: tokens that are gone.
#ifndef NG_CORE_CONFORM_SPECIAL_STORES_H_
#define NG_CORE_CONFORM_SPECIAL_STORES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ng/conform/attention_rig.h"
#include "ng/conform/scattered_store.h"

namespace ng::conform {

// Drops the tokens that IsHole names when they are written: their rows are NaN, pages without any
// other token are null, and CopyRow throws for them.
class HoleStore final : public ScatteredStore {
 public:
  explicit HoleStore(const CacheSpec& spec);

  void* Capability(std::string_view /*name*/) override { return nullptr; }
  CachePlan plan() const override;
  absl::Status Append(int layer, std::span<const SequenceRows> rows,
                      const TensorView<const float, 3>& k,
                      const TensorView<const float, 3>& v) override;
  KvView View(int layer, SequenceId sequence, int64_t length) const override;
  void CopyRow(KvPart part, const KvView& view, int64_t token, int kv_head,
               float* out) const override;

 private:
  std::vector<uint64_t> present_;
  mutable std::vector<std::vector<const std::byte*>> pages_;  // [max_sequences], as views have them
};

}  // namespace ng::conform

#endif  // NG_CORE_CONFORM_SPECIAL_STORES_H_
