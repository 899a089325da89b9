#include "core/plugin/fenced_floats.h"

#include <algorithm>
#include <bit>

namespace ng {
namespace {

constexpr uint32_t kUnwritten = 0x7FC5A5A5;  // a quiet NaN with a payload of its own
constexpr size_t kFenceFloats = 1024;
constexpr size_t kAlignFloats = 16;  // 64 bytes

bool IsUnwritten(float x) { return std::bit_cast<uint32_t>(x) == kUnwritten; }

}  // namespace

void FillUnwritten(std::span<float> floats) {
  std::ranges::fill(floats, std::bit_cast<float>(kUnwritten));
}

int64_t FindUnwritten(std::span<const float> floats) {
  const auto found = std::ranges::find_if(floats, IsUnwritten);
  return found == floats.end() ? -1 : found - floats.begin();
}

std::span<float> FencedFloats::Lend(int64_t n_floats) {
  const auto n = static_cast<size_t>(n_floats);
  const size_t needed = kAlignFloats + kFenceFloats + n + kFenceFloats;
  if (memory_.size() < needed) memory_.resize(needed);
  FillUnwritten(memory_);
  const auto address = reinterpret_cast<uintptr_t>(memory_.data());
  const size_t first = (64 - address % 64) % 64 / sizeof(float);
  before_ = std::span(memory_).subspan(first, kFenceFloats);
  behind_ = std::span(memory_).subspan(first + kFenceFloats + n, kFenceFloats);
  return std::span(memory_).subspan(first + kFenceFloats, n);
}

std::string FencedFloats::Trespass() const {
  if (!std::ranges::all_of(before_, IsUnwritten)) return "before";
  return std::ranges::all_of(behind_, IsUnwritten) ? "" : "behind";
}

}  // namespace ng
