// A non-owning view of a dense tensor: a pointer, its extents and its strides.
//
// The last dimension is contiguous (stride 1), so Row() hands kernels a plain pointer. Views are
// trivially copyable and own nothing: whoever made the memory keeps it alive.
#ifndef NG_TENSOR_VIEW_H_
#define NG_TENSOR_VIEW_H_

#include <array>
#include <cassert>
#include <cstdint>
#include <type_traits>

#pragma GCC visibility push(default)
namespace ng {

template <typename T, int kRank>
struct TensorView {
  static_assert(kRank >= 1);

  T* data = nullptr;
  std::array<int64_t, kRank> extent{};  // outermost first
  std::array<int64_t, kRank> stride{};  // in elements; stride.back() == 1

  TensorView() = default;

  // A row-major tensor without gaps.
  TensorView(T* data_in, const std::array<int64_t, kRank>& extent_in)
      : data(data_in), extent(extent_in) {
    int64_t step = 1;
    for (int i = kRank - 1; i >= 0; --i) {
      stride[i] = step;
      step *= extent[i];
    }
  }

  // A view of `T` reads as a view of `const T`, as T* reads as const T*.
  // NOLINTNEXTLINE(google-explicit-constructor)
  operator TensorView<const T, kRank>() const requires(!std::is_const_v<T>) {
    TensorView<const T, kRank> view;
    view.data = data;
    view.extent = extent;
    view.stride = stride;
    return view;
  }

  // Pointer to the innermost row at the given outer indices.
  template <typename... Index>
  T* Row(Index... index) const {
    static_assert(sizeof...(Index) == kRank - 1);
    const std::array<int64_t, kRank - 1> at{static_cast<int64_t>(index)...};
    T* row = data;
    for (int i = 0; i < kRank - 1; ++i) {
      assert(at[i] >= 0 && at[i] < extent[i]);
      row += at[i] * stride[i];
    }
    return row;
  }
};

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_TENSOR_VIEW_H_
