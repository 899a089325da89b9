#include "core/formats/tensor_file.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/formats/json.h"

namespace ng {
namespace {

class TensorFile : public TensorSource {
 public:
  TensorFile(InputFile file, std::vector<PlacedTensor> tensors) : file_(std::move(file)) {
    std::ranges::sort(
        tensors, {}, [](const PlacedTensor& tensor) -> auto& { return tensor.info.name; });
    for (PlacedTensor& tensor : tensors) {
      infos_.push_back(std::move(tensor.info));
      positions_.push_back(tensor.begin);
    }
  }

  const std::string& path() const override { return file_.path(); }
  std::span<const TensorInfo> tensors() const override { return infos_; }

  absl::Status ReadAt(const TensorInfo& tensor, int64_t first,
                      std::span<std::byte> out) const override {
    const TensorInfo* info = Find(tensor.name);
    assert(info != nullptr && first + static_cast<int64_t>(out.size()) <= info->n_bytes);
    const absl::Status status = file_.ReadAt(positions_[info - infos_.data()] + first, out);
    if (status.ok()) return absl::OkStatus();
    return Annotate(status, absl::StrCat("tensor ", JsonExcerpt(tensor.name), ": "));
  }
  void Announce(const TensorInfo& tensor, int64_t first, int64_t n_bytes) const override {
    file_.Announce(positions_[Find(tensor.name) - infos_.data()] + first, n_bytes);
  }

 private:
  InputFile file_;
  std::vector<TensorInfo> infos_;   // sorted by name
  std::vector<int64_t> positions_;  // of infos_[i]'s bytes
};

}  // namespace

std::unique_ptr<TensorSource> MakeTensorFile(InputFile file, std::vector<PlacedTensor> tensors) {
  return std::make_unique<TensorFile>(std::move(file), std::move(tensors));
}

}  // namespace ng
