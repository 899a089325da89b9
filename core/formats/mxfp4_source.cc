#include "core/formats/mxfp4_source.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ng {
namespace {

constexpr std::string_view kBlocks = "_blocks";
constexpr std::string_view kScales = "_scales";
constexpr int64_t kPackedBytes = 16;  // of a group
constexpr int64_t kGroup = 32;
constexpr int64_t kGroupsAtATime = 1024;
using Block = std::array<std::byte, 1 + kPackedBytes>;  // as in GGUF

// The lower half of a packed byte is the first of two neighbours. A block has the first 16 values
// in the lower halves and the others in the upper ones.
Block BlockOf(std::byte scale, const std::byte* packed) {
  Block block = {scale};
  const auto value = [&](size_t i) {
    return i % 2 == 0 ? packed[i / 2] & std::byte{15} : packed[i / 2] >> 4;
  };
  for (size_t i = 0; i < kPackedBytes; ++i) {
    block[1 + i] = value(i) | value(kPackedBytes + i) << 4;
  }
  return block;
}

class Mxfp4Source final : public TensorSource {
 public:
  explicit Mxfp4Source(std::unique_ptr<TensorSource> inner) : inner_(std::move(inner)) {}

  absl::Status Merge() {
    for (const TensorInfo& tensor : inner_->tensors()) {
      if (tensor.dtype != DType::kU8 || !IsPart(tensor.name)) {
        tensors_.push_back(tensor);
        parts_.push_back({&tensor, nullptr});
      } else if (tensor.name.ends_with(kBlocks)) {
        NG_RETURN_IF_ERROR(AddPair(tensor));
      } else if (inner_->Find(Sibling(tensor.name, kScales, kBlocks)) == nullptr) {
        return Lacks(tensor, kScales, kBlocks);
      }
    }
    return absl::OkStatus();
  }

  const std::string& path() const override { return inner_->path(); }
  std::span<const TensorInfo> tensors() const override { return tensors_; }

  absl::Status ReadAt(const TensorInfo& tensor, int64_t first,
                      std::span<std::byte> out) const override {
    const auto& [blocks, scales] = parts_[static_cast<size_t>(&tensor - tensors_.data())];
    if (scales == nullptr) return inner_->ReadAt(*blocks, first, out);
    std::vector<std::byte> packed;
    std::vector<std::byte> powers;
    constexpr int64_t kBytes = sizeof(Block);
    const int64_t end = first + static_cast<int64_t>(out.size());
    for (int64_t at = first; at < end;) {
      const int64_t group = at / kBytes;
      const int64_t n = std::min(kGroupsAtATime, (end - 1) / kBytes + 1 - group);
      packed.resize(static_cast<size_t>(n * kPackedBytes));
      powers.resize(static_cast<size_t>(n));
      NG_RETURN_IF_ERROR(inner_->ReadAt(*blocks, group * kPackedBytes, packed));
      NG_RETURN_IF_ERROR(inner_->ReadAt(*scales, group, powers));
      for (int64_t i = 0; i < n; ++i) {
        const Block block =
            BlockOf(powers[static_cast<size_t>(i)], packed.data() + i * kPackedBytes);
        const int64_t begin = (group + i) * kBytes;
        const int64_t n_bytes = std::min(begin + kBytes, end) - at;
        std::memcpy(out.data() + (at - first), block.data() + (at - begin),
                    static_cast<size_t>(n_bytes));
        at += n_bytes;
      }
    }
    return absl::OkStatus();
  }

  // The scales are a sixteenth of it.
  void Announce(const TensorInfo& tensor, int64_t first, int64_t n_bytes) const override {
    const auto& [blocks, scales] = parts_[static_cast<size_t>(&tensor - tensors_.data())];
    constexpr int64_t kBytes = sizeof(Block);
    if (scales != nullptr) {
      n_bytes = n_bytes / kBytes * kPackedBytes;
      first = first / kBytes * kPackedBytes;
    }
    inner_->Announce(*blocks, first, n_bytes);
  }

 private:
  struct Parts {
    const TensorInfo* blocks;
    const TensorInfo* scales;  // null: the tensor as it is
  };

  static bool IsPart(std::string_view name) {
    return name.ends_with(kBlocks) || name.ends_with(kScales);
  }
  static std::string Sibling(const std::string& name, std::string_view from, std::string_view to) {
    return name.substr(0, name.size() - from.size()) + std::string(to);
  }
  absl::Status Lacks(const TensorInfo& tensor, std::string_view from, std::string_view to) const {
    return ModelFileError(absl::StrCat(path(), ": tensor \"", tensor.name, "\" is there without \"",
                                       Sibling(tensor.name, from, to), "\""));
  }

  absl::Status AddPair(const TensorInfo& blocks) {
    const TensorInfo* const scales = inner_->Find(Sibling(blocks.name, kBlocks, kScales));
    if (scales == nullptr) return Lacks(blocks, kBlocks, kScales);
    std::vector<int64_t> groups = blocks.shape;
    const bool packed = groups.size() >= 2 && groups.back() == kPackedBytes;
    if (packed) groups.pop_back();
    if (!packed || scales->dtype != DType::kU8 || scales->shape != groups) {
      return ModelFileError(absl::StrCat(path(), ": tensor \"", scales->name, "\" has shape ",
                                         ShapeString(scales->shape), ", must be U8 and that of \"",
                                         blocks.name, "\" ", ShapeString(blocks.shape),
                                         " without the last 16"));
    }
    TensorInfo merged = blocks;
    merged.dtype = DType::kMxfp4;
    merged.shape = groups;
    merged.shape.back() *= kGroup;
    merged.n_elements = scales->n_elements * kGroup;
    merged.n_bytes = scales->n_elements * int64_t{sizeof(Block)};
    tensors_.push_back(std::move(merged));
    parts_.push_back({&blocks, scales});
    return absl::OkStatus();
  }

  std::unique_ptr<TensorSource> inner_;
  std::vector<TensorInfo> tensors_;
  std::vector<Parts> parts_;  // of each
};

}  // namespace

absl::StatusOr<std::unique_ptr<TensorSource>> MergeMxfp4(std::unique_ptr<TensorSource> source) {
  auto merged = std::make_unique<Mxfp4Source>(std::move(source));
  NG_RETURN_IF_ERROR(merged->Merge());
  return merged;
}

}  // namespace ng
