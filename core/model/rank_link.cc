#include "core/model/rank_link.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/hash.h"
#include "core/model/step_sizes.h"

namespace ng {
namespace {

// One row of all columns: the parts lie in it as they are gathered.
bool InPlace(std::span<const CutRows> rows) { return rows.size() == 1 && rows[0].n_rows == 1; }

// A rank's error as floats: code, then the message.
constexpr int64_t kMessageFloats = 256;

}  // namespace

int64_t RankLink::Place(std::span<const CutRows> rows, int rank, size_t i) const {
  int64_t place = 0;
  for (int before = 0; before <= rank; ++before) {
    for (size_t r = 0; r < rows.size(); ++r) {
      if (before == rank && r == i) return place;
      if (rows[r].counts.empty()) continue;
      place += rows[r].n_rows * rows[r].counts[static_cast<size_t>(before)];
    }
  }
  return place;
}

float* RankLink::Own(std::span<const CutRows> rows, size_t i) {
  if (rows[i].counts.empty()) return rows[i].whole;
  const int rank = fabric_.rank();
  const int64_t place = Place(rows, rank, i);
  if (InPlace(rows)) return rows[0].whole + place;
  GrowTo(staged_, Place(rows, fabric_.size(), 0));
  return staged_.data() + place;
}

absl::Status RankLink::Gather(std::span<const CutRows> rows) {
  const auto ranks = static_cast<size_t>(fabric_.size());
  counts_.assign(ranks, 0);
  int64_t total = 0;
  for (const CutRows& one : rows) {
    for (size_t rank = 0; rank < one.counts.size(); ++rank) {
      counts_[rank] += one.n_rows * one.counts[rank];
      total += one.n_rows * one.counts[rank];
    }
  }
  if (total == 0) return absl::OkStatus();
  const bool in_place = InPlace(rows);
  if (!in_place) GrowTo(staged_, total);
  float* const parts = in_place ? rows[0].whole : staged_.data();
  NG_RETURN_IF_ERROR(
      WithStep(fabric_.AllGather(counts_, std::span(parts, static_cast<size_t>(total)))));
  if (in_place) return absl::OkStatus();
  const float* from = parts;
  for (size_t rank = 0; rank < ranks; ++rank) {
    for (const CutRows& one : rows) {
      if (one.counts.empty()) continue;
      int64_t first = 0;
      int64_t width = 0;
      for (size_t r = 0; r < ranks; ++r) {
        if (r < rank) first += one.counts[r];
        width += one.counts[r];
      }
      const int64_t n = one.counts[rank];
      for (int64_t row = 0; row < one.n_rows; ++row, from += n) {
        std::copy_n(from, n, one.whole + row * width + first);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status RankLink::BeginStep(uint64_t step) {
  ++step_;
  constexpr int64_t kFloats = 3;
  exchanged_.resize(static_cast<size_t>(fabric_.size() * kFloats));
  const bool stop = stop_ != nullptr && stop_->load(std::memory_order_relaxed);
  float* const own = exchanged_.data() + fabric_.rank() * kFloats;
  own[0] = stop ? 1.0F : 0.0F;
  own[1] = std::bit_cast<float>(static_cast<uint32_t>(step));
  own[2] = std::bit_cast<float>(static_cast<uint32_t>(step >> 32));
  NG_RETURN_IF_ERROR(Exchange(kFloats, exchanged_));
  for (int rank = 0; rank < fabric_.size(); ++rank) {
    if (exchanged_[static_cast<size_t>(rank * kFloats)] == 0.0F) continue;
    stopped_.store(true, std::memory_order_relaxed);
    return InterruptedError("interrupted");
  }
  for (int rank = 0; rank < fabric_.size(); ++rank) {
    const float* const of_rank = exchanged_.data() + rank * kFloats;
    if (std::memcmp(of_rank + 1, own + 1, 2 * sizeof(float)) == 0) continue;
    return WithStep(RuntimeError(
        absl::StrCat(Name(rank), " computes another step than ", Name(fabric_.rank()),
                     "; all ranks must run the same program with the same config and prompts")));
  }
  return absl::OkStatus();
}

absl::Status RankLink::Agree(const absl::Status& own) {
  const int64_t n = 1 + kMessageFloats;
  std::vector<float> all(static_cast<size_t>(fabric_.size() * n), 0.0F);
  float* const mine = all.data() + fabric_.rank() * n;
  mine[0] = static_cast<float>(own.raw_code());
  const absl::string_view message = own.message();
  std::memcpy(mine + 1, message.data(),
              std::min(message.size(), (kMessageFloats - 1) * sizeof(float)));
  const absl::Status exchanged = Exchange(n, all);
  if (!own.ok()) return own;
  NG_RETURN_IF_ERROR(exchanged);
  for (int rank = 0; rank < fabric_.size(); ++rank) {
    const float* const of_rank = all.data() + rank * n;
    if (of_rank[0] == 0.0F) continue;
    const auto* const text = reinterpret_cast<const char*>(of_rank + 1);
    return {static_cast<absl::StatusCode>(of_rank[0]), absl::StrCat(Name(rank), ": ", text)};
  }
  return absl::OkStatus();
}

absl::Status RankLink::CheckSame(const std::string& what, const std::string& text) {
  const uint64_t hash = HashOf(text);
  std::vector<float> all(static_cast<size_t>(fabric_.size()) * 2);
  const auto place = [&](int rank) { return all.data() + int64_t{rank} * 2; };
  std::memcpy(place(fabric_.rank()), &hash, sizeof(hash));
  NG_RETURN_IF_ERROR(Exchange(2, all));
  for (int rank = 1; rank < fabric_.size(); ++rank) {
    if (std::memcmp(place(rank), place(0), sizeof(hash)) == 0) continue;
    constexpr size_t kShown = 200;
    const bool shown = text.size() <= kShown;
    return RuntimeError(absl::StrCat(Name(rank), " has another ", what, " than ", Name(0),
                                     shown ? "; " : "", shown ? Name(fabric_.rank()) : "",
                                     shown ? " has " : "", shown ? text : ""));
  }
  return absl::OkStatus();
}

absl::Status RankLink::Exchange(int64_t n, std::vector<float>& all) {
  counts_.assign(static_cast<size_t>(fabric_.size()), n);
  return WithStep(fabric_.AllGather(counts_, all));
}

absl::Status RankLink::WithStep(const absl::Status& status) const {
  if (status.ok()) return status;
  const std::string where = step_ == 0 ? "before the first step" : absl::StrCat("step ", step_);
  return Annotate(status, absl::StrCat(Name(fabric_.rank()), ", ", where, ": "));
}

std::string RankLink::Name(int rank) const {
  return absl::StrCat("rank ", rank, " (", fabric_.Host(rank), ")");
}

}  // namespace ng
