// What is announced before it is read.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/model/load/weight_reader.h"

namespace ng {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// Remembers what is announced.
class Announced final : public TensorSource {
 public:
  explicit Announced(const std::vector<int64_t>& sizes) {
    for (const int64_t size : sizes) {
      tensors_.push_back({.name = std::string(1, static_cast<char>('a' + tensors_.size())),
                          .dtype = DType::kU8,
                          .shape = {size},
                          .n_elements = size,
                          .n_bytes = size});
    }
  }
  const std::string& path() const override { return path_; }
  std::span<const TensorInfo> tensors() const override { return tensors_; }
  absl::Status ReadAt(const TensorInfo& /*tensor*/, int64_t /*first*/,
                      std::span<std::byte> /*out*/) const override {
    return absl::OkStatus();
  }
  void Announce(const TensorInfo& tensor, int64_t first, int64_t n_bytes) const override {
    EXPECT_EQ(first, next_of_[tensor.name]) << tensor.name;
    EXPECT_LE(first + n_bytes, tensor.n_bytes);
    next_of_[tensor.name] += n_bytes;
    if (order_.empty() || order_.back() != tensor.name[0]) order_ += tensor.name[0];
    all_ += n_bytes;
  }

  const std::string& order() const { return order_; }
  int64_t all() const { return all_; }

 private:
  std::string path_ = "made";
  std::vector<TensorInfo> tensors_;
  mutable std::map<std::string, int64_t> next_of_;
  mutable std::string order_;
  mutable int64_t all_ = 0;
};

TEST(ReadAhead, AnnouncesInOrderSomeWayAheadAndEachByteOnce) {
  const Announced source({100 * kMiB, 3, 150 * kMiB + 5, 70 * kMiB});
  std::vector<TensorBinding> bindings(4);
  std::vector<const TensorBinding*> order;
  int64_t total = 0;
  for (const size_t i : {2U, 0U, 1U, 3U}) {
    bindings[i].tensor = &source.tensors()[i];
    order.push_back(&bindings[i]);
    total += bindings[i].n_bytes();
  }
  ReadAhead ahead(source, order);
  for (int64_t read = kMiB; read <= total; read += kMiB) {
    ahead.Advance(kMiB);
    EXPECT_GE(source.all(), std::min(total, read + 112 * kMiB));
    EXPECT_LE(source.all(), read + 144 * kMiB);
  }
  EXPECT_EQ(source.all(), total);
  EXPECT_EQ(source.order(), "cabd");
}

}  // namespace
}  // namespace ng
