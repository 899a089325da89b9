// Tensors that are computed when they are read, beside those of a source.
#ifndef NG_CORE_FORMATS_DERIVED_SOURCE_H_
#define NG_CORE_FORMATS_DERIVED_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/formats/tensor_source.h"
#include "ng/status.h"

namespace ng {

// A tensor in units of so many bytes, one after the other: a row, or a block.
struct DerivedTensor {
  TensorInfo info;
  int64_t unit_bytes = 0;
  // Writes units [unit, unit + n); on any thread. out: [n, unit_bytes]
  std::function<absl::Status(const TensorSource& inner, int64_t unit, int64_t n, std::byte* out)>
      read = nullptr;
  std::vector<std::string> made_of = {};  // tensors that are gone for it
};

class DerivedSource final : public TensorSource {
 public:
  DerivedSource(std::unique_ptr<TensorSource> inner, std::vector<DerivedTensor> derived);

  const std::string& path() const override { return inner_->path(); }
  std::span<const TensorInfo> tensors() const override { return tensors_; }
  absl::Status ReadAt(const TensorInfo& tensor, int64_t first,
                      std::span<std::byte> out) const override;
  void Announce(const TensorInfo& tensor, int64_t first, int64_t n_bytes) const override;

 private:
  // Null: it is the inner source's.
  const DerivedTensor* FindDerived(const TensorInfo& tensor) const;

  std::unique_ptr<TensorSource> inner_;
  std::vector<DerivedTensor> derived_;  // sorted by name
  std::vector<TensorInfo> tensors_;     // sorted by name
};

}  // namespace ng

#endif  // NG_CORE_FORMATS_DERIVED_SOURCE_H_
