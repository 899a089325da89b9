// The tensors of several sources as one.
#ifndef NG_CORE_FORMATS_MERGED_SOURCE_H_
#define NG_CORE_FORMATS_MERGED_SOURCE_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/formats/tensor_source.h"
#include "ng/status.h"

namespace ng {

class MergedSource final : public TensorSource {
 public:
  // `path` is what path() is.
  explicit MergedSource(std::string path) : path_(std::move(path)) {}

  // Adds the tensors that `wanted` says, by name. Errors: ModelFileError naming both, where a
  // tensor is in another source too.
  using Wanted = std::function<bool(const std::string& name)>;
  absl::Status Add(std::unique_ptr<TensorSource> source, const Wanted& wanted = {});

  const std::string& path() const override { return path_; }
  std::span<const TensorInfo> tensors() const override { return tensors_; }
  absl::Status ReadAt(const TensorInfo& tensor, int64_t first,
                      std::span<std::byte> out) const override;
  void Announce(const TensorInfo& tensor, int64_t first, int64_t n_bytes) const override;

 private:
  std::string path_;
  std::vector<std::unique_ptr<TensorSource>> sources_;
  std::vector<TensorInfo> tensors_;  // sorted by name
  std::map<std::string, const TensorSource*, std::less<>> source_of_;
};

}  // namespace ng

#endif  // NG_CORE_FORMATS_MERGED_SOURCE_H_
