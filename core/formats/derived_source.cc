#include "core/formats/derived_source.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ng {
namespace {

constexpr int64_t kBytesAtATime = int64_t{1} << 16;

const std::string& NameOf(const DerivedTensor& tensor) { return tensor.info.name; }

}  // namespace

DerivedSource::DerivedSource(std::unique_ptr<TensorSource> inner,
                             std::vector<DerivedTensor> derived)
    : inner_(std::move(inner)), derived_(std::move(derived)) {
  std::set<std::string_view> gone;
  for (const DerivedTensor& tensor : derived_) {
    gone.insert(tensor.made_of.begin(), tensor.made_of.end());
    tensors_.push_back(tensor.info);
  }
  for (const TensorInfo& tensor : inner_->tensors()) {
    if (!gone.contains(tensor.name)) tensors_.push_back(tensor);
  }
  std::ranges::sort(tensors_, {}, &TensorInfo::name);
  std::ranges::sort(derived_, {}, NameOf);
}

const DerivedTensor* DerivedSource::FindDerived(const TensorInfo& tensor) const {
  const auto found = std::ranges::lower_bound(derived_, tensor.name, {}, NameOf);
  return found == derived_.end() || found->info.name != tensor.name ? nullptr : &*found;
}

absl::Status DerivedSource::ReadAt(const TensorInfo& tensor, int64_t first,
                                   std::span<std::byte> out) const {
  const DerivedTensor* const found = FindDerived(tensor);
  if (found == nullptr) return inner_->ReadAt(*inner_->Find(tensor.name), first, out);
  const int64_t unit_bytes = found->unit_bytes;
  const int64_t end = first + static_cast<int64_t>(out.size());
  std::vector<std::byte> units;
  for (int64_t at = first; at < end;) {
    const int64_t unit = at / unit_bytes;
    const int64_t most = std::max<int64_t>(1, kBytesAtATime / unit_bytes);
    const int64_t n = std::min(most, (end - 1) / unit_bytes + 1 - unit);
    units.resize(static_cast<size_t>(n * unit_bytes));
    NG_RETURN_IF_ERROR(found->read(*inner_, unit, n, units.data()));
    const int64_t begin = unit * unit_bytes;
    const int64_t n_bytes = std::min(begin + n * unit_bytes, end) - at;
    std::memcpy(out.data() + (at - first), units.data() + (at - begin),
                static_cast<size_t>(n_bytes));
    at += n_bytes;
  }
  return absl::OkStatus();
}

void DerivedSource::Announce(const TensorInfo& tensor, int64_t first, int64_t n_bytes) const {
  if (FindDerived(tensor) == nullptr) {
    inner_->Announce(*inner_->Find(tensor.name), first, n_bytes);
  }
}

}  // namespace ng
