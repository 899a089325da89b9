#include "core/model/adapters/low_rank_inputs.h"

#include <algorithm>

#include "ng/tensor_view.h"

namespace ng {

bool LowRankInputs::AddsTo(const PackedMatrix& w) const {
  return std::ranges::any_of(sets_,
                             [&](const AdapterWeights& set) { return set.Of(w) != nullptr; });
}

void LowRankInputs::AddToEmbedding(int32_t set, int32_t token, std::span<float> row) const {
  if (!sets_.empty()) sets_[static_cast<size_t>(set)].embedding().AddTo(token, row);
}

void LowRankInputs::Begin(size_t n_inputs) {
  n_used_ = 0;
  if (!sets_.empty() && entries_.size() < n_inputs) entries_.resize(n_inputs);
}

absl::Status LowRankInputs::Add(const PackedMatrix& w, const MatmulInput& x, RowSets of_rows,
                                MatmulInput* input) {
  if (!AddsTo(w)) return absl::OkStatus();
  Entry& entry = entries_[n_used_++];
  entry.rows.clear();
  const auto set_of = [&](int64_t row) {
    return of_rows.empty() ? 0 : of_rows[static_cast<size_t>(row)];
  };
  int64_t size = 0;
  for (int64_t row = 0; row < x.n_rows;) {
    const int32_t set = set_of(row);
    int64_t end = row + 1;
    while (end < x.n_rows && (of_rows.empty() || set_of(end) == set)) {
      end = of_rows.empty() ? x.n_rows : end + 1;
    }
    const LowRank* const added = sets_[static_cast<size_t>(set)].Of(w);
    if (added != nullptr) {
      entry.rows.push_back({row, end, added, nullptr});
      size += (end - row) * added->n_ranks();
    }
    row = end;
  }
  if (std::ssize(entry.inner) < size) entry.inner.resize(static_cast<size_t>(size));
  float* inner = entry.inner.data();
  for (LowRankRows& rows : entry.rows) {
    MatmulInput part = x;
    part.data += rows.begin * x.row_bytes;
    part.n_rows = rows.end - rows.begin;
    const int64_t n_ranks = rows.low_rank->n_ranks();
    rows.inner = inner;
    NG_RETURN_IF_ERROR(Matmul({kernels_, executor_, rows.low_rank->a, nullptr, part},
                              {inner, {part.n_rows, n_ranks}}));
    inner += part.n_rows * n_ranks;
  }
  input->low_ranks = entry.rows;
  return absl::OkStatus();
}

}  // namespace ng
