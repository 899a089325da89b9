#include "core/formats/merged_source.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/formats/json.h"

namespace ng {

absl::Status MergedSource::Add(std::unique_ptr<TensorSource> source, const Wanted& wanted) {
  for (const TensorInfo& tensor : source->tensors()) {
    if (wanted && !wanted(tensor.name)) continue;
    const auto [entry, added] = source_of_.emplace(tensor.name, source.get());
    if (!added) {
      return ModelFileError(absl::StrCat(source->path(), ": holds tensor ",
                                         JsonExcerpt(tensor.name), ", which ",
                                         entry->second->path(), " holds too"));
    }
    tensors_.push_back(tensor);
  }
  std::ranges::sort(tensors_, {}, &TensorInfo::name);
  sources_.push_back(std::move(source));
  return absl::OkStatus();
}

absl::Status MergedSource::ReadAt(const TensorInfo& tensor, int64_t first,
                                  std::span<std::byte> out) const {
  const auto found = source_of_.find(tensor.name);
  assert(found != source_of_.end());
  return found->second->ReadAt(tensor, first, out);
}

void MergedSource::Announce(const TensorInfo& tensor, int64_t first, int64_t n_bytes) const {
  source_of_.find(tensor.name)->second->Announce(tensor, first, n_bytes);
}

}  // namespace ng
