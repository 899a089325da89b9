// What the tests of the kernels share: random data, memory that faults right behind its end, and a
// plain executor.
#ifndef NG_TESTS_CORE_KERNELS_TEST_SUPPORT_H_
#define NG_TESTS_CORE_KERNELS_TEST_SUPPORT_H_

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "core/kernels/packed_matrix.h"
#include "core/kernels/weight_type.h"
#include "ng/executor.h"
#include "ng/half.h"

namespace ng {

// Values in [-1, 1), the same on every machine.
inline std::vector<float> RandomFloats(int64_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& v : values) v = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-31F;
  return values;
}

inline uint32_t Bits(float value) { return std::bit_cast<uint32_t>(value); }

// Any span that the grid can hold, its values below 2.
inline QuantSpan RandomSpan(const QuantGrid& grid, std::mt19937& random) {
  double most = 1.0;
  for (int q = 0; q < 1 << grid.bits(); ++q) {
    const double value = grid.has_floats() ? double{grid.floats[static_cast<size_t>(q)]}
                                           : grid.ValueOf(static_cast<uint8_t>(q));
    most = std::max(most, std::abs(value));
  }
  const auto d = [&](double unit) {
    unit /= most * (grid.float_scales ? 2.0 : grid.grouped() ? 128.0 : 1.0);
    const auto factor =
        static_cast<float>(unit * (1.0 + static_cast<double>(random() % 100) / 100));
    return grid.f32_factors ? std::bit_cast<uint32_t>(factor) : uint32_t{F32ToF16(factor)};
  };
  QuantSpan span = {};
  span.d = grid.power_of_two ? static_cast<uint32_t>(125 - random() % 4)
                             : d(1.0 / static_cast<double>(grid.unit));
  span.dmin = d(1.0);
  for (int8_t& scale : span.scales) scale = static_cast<int8_t>(random());
  for (int8_t& minimum : span.minima) minimum = static_cast<int8_t>(random());
  for (uint8_t& q : span.q) q = static_cast<uint8_t>(random() % (1U << grid.bits()));
  return span;
}

// Packs rows of one block. spans: [rows.size(), n]
inline void PackSpans(std::span<const int64_t> rows, std::span<const QuantSpan> spans,
                      PackedMatrix* matrix) {
  const size_t n = spans.size() / rows.size();
  matrix->PackSpans(rows, [&](int64_t first, std::span<QuantSpan> out) {
    const size_t n_read = out.size() / rows.size();
    for (size_t r = 0; r < rows.size(); ++r) {
      std::ranges::copy(spans.subspan(r * n + static_cast<size_t>(first), n_read),
                        out.begin() + static_cast<int64_t>(r * n_read));
    }
  });
}

// An array that ends where its page ends, with unreadable memory on both sides: one element read or
// written past the end is a fault, also by a vector instruction that a sanitizer does not watch.
template <typename T>
class GuardedArray {
 public:
  explicit GuardedArray(int64_t n) : n_(n) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t inner = (static_cast<size_t>(n) * sizeof(T) + page - 1) / page * page;
    mapped_bytes_ = inner + 2 * page;
    mapped_ = static_cast<char*>(
        mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    assert(mapped_ != MAP_FAILED);
    if (inner > 0) mprotect(mapped_ + page, inner, PROT_READ | PROT_WRITE);
    data_ = reinterpret_cast<T*>(mapped_ + page + inner) - n;
  }
  explicit GuardedArray(const std::vector<T>& values)
      : GuardedArray(static_cast<int64_t>(values.size())) {
    std::copy(values.begin(), values.end(), data_);
  }
  ~GuardedArray() { munmap(mapped_, mapped_bytes_); }
  GuardedArray(const GuardedArray&) = delete;
  GuardedArray& operator=(const GuardedArray&) = delete;

  T* data() { return data_; }
  int64_t size() const { return n_; }
  T& operator[](int64_t i) { return data_[i]; }
  std::vector<T> ToVector() const { return std::vector<T>(data_, data_ + n_); }

 private:
  int64_t n_;
  size_t mapped_bytes_ = 0;
  char* mapped_ = nullptr;
  T* data_ = nullptr;
};

// Even contiguous ranges, one std::thread each.
class ThreadExecutor : public Executor {
 public:
  explicit ThreadExecutor(int threads) : threads_(threads) {}

  int threads() const override { return threads_; }
  absl::Status Run(int64_t n_items, Task task, void* context) override {
    n_items_ = n_items;
    std::vector<std::thread> workers;
    for (int w = 0; w < threads_; ++w) {
      const int64_t begin = n_items * w / threads_;
      const int64_t end = n_items * (w + 1) / threads_;
      if (begin < end) workers.emplace_back(task, context, begin, end, w);
    }
    for (std::thread& worker : workers) worker.join();
    return absl::OkStatus();
  }

  int64_t n_items() const { return n_items_; }  // of the last region

 private:
  int threads_;
  int64_t n_items_ = 0;
};

}  // namespace ng

#endif  // NG_TESTS_CORE_KERNELS_TEST_SUPPORT_H_
