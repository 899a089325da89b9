#include "core/model/ranks/rank_link.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/hash.h"
#include "core/model/step/step_sizes.h"

namespace ng {
namespace {

// One row of all columns: the parts lie in it as they are gathered.
bool InPlace(std::span<const CutRows> rows) {
  return rows.size() == 1 && rows[0].n_rows == 1 && SentAs(rows[0].as) == rows[0].as;
}

// A rank's error as floats: code, then the message, with a zero behind it.
constexpr int64_t kMessageFloats = 256;

// How long a rank that has lost another waits for the one that tells it. Of rank 0 the next one
// tells, and where that is silent the one behind it.
constexpr std::chrono::milliseconds kMoment(5000);
constexpr std::chrono::milliseconds kTurn(1500);

}  // namespace

int64_t RankLink::Place(std::span<const CutRows> rows, int rank, size_t i) const {
  int64_t place = 0;
  for (int before = 0; before <= rank; ++before) {
    for (size_t r = 0; r < rows.size(); ++r) {
      if (before == rank && r == i) return place;
      if (rows[r].counts.empty()) continue;
      place += rows[r].n_rows * rows[r].Floats(static_cast<size_t>(before));
    }
  }
  return place;
}

float* RankLink::Own(std::span<const CutRows> rows, size_t i) {
  if (rows[i].counts.empty()) return rows[i].whole;
  const int rank = fabric_.rank();
  const int64_t place = Place(rows, rank, i);
  if (InPlace(rows)) return rows[0].whole + place;
  GrowTo(staged_, stage_first_ + Place(rows, fabric_.size(), 0));
  return staged_.data() + stage_first_ + place;
}

int64_t RankLink::Count(std::span<const CutRows> rows) {
  counts_.assign(static_cast<size_t>(fabric_.size()), 0);
  int64_t total = 0;
  for (const CutRows& one : rows) {
    for (size_t rank = 0; rank < one.counts.size(); ++rank) {
      counts_[rank] += one.n_rows * one.Floats(rank);
      total += one.n_rows * one.Floats(rank);
    }
  }
  return total;
}

absl::Status RankLink::Gather(std::span<const CutRows> rows) {
  const auto total = static_cast<size_t>(Count(rows));
  if (total == 0) return absl::OkStatus();
  NG_RETURN_IF_ERROR(ended_);
  const bool in_place = InPlace(rows);
  float* const parts = in_place ? rows[0].whole : staged_.data();
  const auto start = std::chrono::steady_clock::now();
  NG_RETURN_IF_ERROR(WithStep(fabric_.AllGather(counts_, {parts, total})));
  waited_s_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!in_place) Land(rows);
  return absl::OkStatus();
}

void RankLink::PlaceStage(int64_t first, int64_t size) {
  stage_first_ = first;
  GrowTo(staged_, size);
}

absl::Status RankLink::Send(std::span<const CutRows> rows, int64_t first) {
  const auto total = static_cast<size_t>(Count(rows));
  NG_RETURN_IF_ERROR(ended_);
  return WithStep(fabric_.AllGatherAside(counts_, {staged_.data() + first, total}));
}

void RankLink::Land(std::span<const CutRows> rows) const {
  const float* from = staged_.data() + stage_first_;
  for (size_t rank = 0; rank < static_cast<size_t>(fabric_.size()); ++rank) {
    for (const CutRows& one : rows) {
      if (!one.counts.empty()) from = Put(one, rank, from);
    }
  }
}

const float* RankLink::Put(const CutRows& rows, size_t rank, const float* from) const {
  const auto end = rows.counts.begin() + static_cast<std::ptrdiff_t>(rank);
  const int64_t first = std::accumulate(rows.counts.begin(), end, int64_t{0});
  const int64_t width = std::accumulate(end, rows.counts.end(), first);
  auto* const begin = reinterpret_cast<std::byte*>(rows.whole) + InputRowBytes(rows.as, first);
  for (int64_t row = 0; row < rows.n_rows; ++row, from += rows.Floats(rank)) {
    UnpackSent(rows.as, reinterpret_cast<const std::byte*>(from), rows.counts[rank],
               begin + row * InputRowBytes(rows.as, width));
  }
  return from;
}

absl::StatusOr<float> RankLink::Least(float own) {
  exchanged_.resize(static_cast<size_t>(fabric_.size()));
  exchanged_[static_cast<size_t>(fabric_.rank())] = own;
  NG_RETURN_IF_ERROR(Exchange(1, exchanged_));
  return *std::ranges::min_element(exchanged_);
}

absl::Status RankLink::BeginStep(uint64_t step) {
  ++step_;
  NG_RETURN_IF_ERROR(Meet(Stops() ? At::kStopped : At::kStep, step));
  NG_RETURN_IF_ERROR(ReadEnd());
  return CheckTogether();
}

absl::StatusOr<uint64_t> RankLink::Announce(uint64_t number) {
  NG_RETURN_IF_ERROR(Meet(Stops() ? At::kStopped : At::kAnnounce, number));
  NG_RETURN_IF_ERROR(ReadEnd());
  number = met_[0].step;
  for (Met& met : met_) met.step = number;  // the others gave none
  NG_RETURN_IF_ERROR(CheckTogether());
  return number;
}

bool RankLink::Stops() const { return stop_ != nullptr && stop_->load(std::memory_order_relaxed); }

absl::Status RankLink::ReadEnd() {
  if (AnyAt(At::kFailed)) return ReadError(absl::OkStatus());
  if (!AnyAt(At::kStopped)) return absl::OkStatus();
  stopped_.store(true, std::memory_order_relaxed);
  return InterruptedError("interrupted");
}

absl::Status RankLink::Agree(const absl::Status& own) {
  if (!ended_.ok()) return own.ok() ? ended_ : own;
  const absl::Status met = Meet(own.ok() ? At::kAgree : At::kFailed, 0);
  if (!met.ok()) return own.ok() ? met : own;
  return AnyAt(At::kFailed) ? ReadError(own) : CheckTogether();
}

absl::Status RankLink::Meet(At at, uint64_t step) {
  exchanged_.resize(static_cast<size_t>(fabric_.size() * kMeetFloats));
  // Where it is, and the step's hash in two.
  float* const own = exchanged_.data() + fabric_.rank() * kMeetFloats;
  own[0] = static_cast<float>(at);
  std::memcpy(own + 1, &step, sizeof(step));
  NG_RETURN_IF_ERROR(Exchange(kMeetFloats, exchanged_));
  met_.resize(static_cast<size_t>(fabric_.size()));
  const float* from = exchanged_.data();
  for (Met& met : met_) {
    met.at = static_cast<At>(from[0]);
    std::memcpy(&met.step, from + 1, sizeof(met.step));
    from += kMeetFloats;
  }
  return absl::OkStatus();
}

bool RankLink::AnyAt(At at) const {
  return std::ranges::any_of(met_, [&](const Met& met) { return met.at == at; });
}

absl::Status RankLink::CheckTogether() {
  for (int rank = 1; rank < fabric_.size(); ++rank) {
    const Met& met = met_[static_cast<size_t>(rank)];
    if (met.at == met_[0].at && met.step == met_[0].step) continue;
    return EndWith(RuntimeError(
        absl::StrCat("step ", step_, ": ", Name(rank), " computes another step than ", Name(0),
                     "; all ranks must run the same program with the same config and prompts")));
  }
  return absl::OkStatus();
}

absl::Status RankLink::ReadError(const absl::Status& own) {
  const int64_t n = 1 + kMessageFloats;
  std::vector<float> all(static_cast<size_t>(fabric_.size() * n), 0.0F);
  float* const mine = all.data() + fabric_.rank() * n;
  mine[0] = static_cast<float>(own.raw_code());
  const absl::string_view message = own.message();  // of a rank that is well it has no data
  std::copy_n(message.data(), std::min(message.size(), (kMessageFloats - 1) * sizeof(float)),
              reinterpret_cast<char*>(mine + 1));
  const absl::Status exchanged = Exchange(n, all);
  if (!exchanged.ok()) return own.ok() ? exchanged : own;
  int first = 0;
  while (all[static_cast<size_t>(first * n)] == 0.0F) ++first;
  if (first == fabric_.rank()) return EndWith(own);
  const float* const of_first = all.data() + first * n;
  const auto* const text = reinterpret_cast<const char*>(of_first + 1);
  // What has no message has none on any rank: nobody is to be told.
  const std::string name = *text == '\0' || first == 0 ? "" : Name(first) + ": ";
  return EndWith({static_cast<absl::StatusCode>(of_first[0]), absl::StrCat(name, text)});
}

absl::Status RankLink::EndWith(absl::Status status) {
  ended_ = fabric_.rank() == 0 ? std::move(status) : ToldElsewhere(std::move(status));
  return ended_;
}

absl::Status RankLink::ShareBytes(std::span<std::byte> bytes, int root) {
  NG_RETURN_IF_ERROR(ended_);
  return WithStep(fabric_.Broadcast(root, bytes));
}

absl::Status RankLink::SendRows(int to, std::span<const float> rows) {
  NG_RETURN_IF_ERROR(ended_);
  return WithStep(fabric_.Send(to, std::as_bytes(rows)));
}

absl::Status RankLink::ReceiveRows(int from, std::span<float> rows) {
  NG_RETURN_IF_ERROR(ended_);
  return WithStep(fabric_.Receive(from, std::as_writable_bytes(rows)));
}

absl::Status RankLink::Send(int to, const std::string& text) {
  return WithPlace(fabric_.Send(to, std::as_bytes(std::span(text))));
}

absl::StatusOr<std::string> RankLink::Receive(int from) {
  const absl::StatusOr<int64_t> size = fabric_.Poll(from);
  if (!size.ok()) return WithPlace(size.status());
  std::string text(static_cast<size_t>(*size), '\0');
  if (text.empty()) return text;
  NG_RETURN_IF_ERROR(WithPlace(fabric_.Receive(from, std::as_writable_bytes(std::span(text)))));
  return text;
}

absl::Status RankLink::CheckSame(const std::string& what, const std::string& text) {
  const uint64_t hash = HashOf(text);
  std::vector<float> all(static_cast<size_t>(fabric_.size()) * 2);
  std::memcpy(all.data() + int64_t{fabric_.rank()} * 2, &hash, sizeof(hash));
  NG_RETURN_IF_ERROR(Exchange(2, all));
  const auto hash_of = [&](int rank) {
    uint64_t of_rank = 0;
    std::memcpy(&of_rank, all.data() + int64_t{rank} * 2, sizeof(of_rank));
    return of_rank;
  };
  for (int rank = 1; rank < fabric_.size(); ++rank) {
    if (hash_of(rank) == hash_of(0)) continue;
    constexpr size_t kShown = 200;
    const bool shown = text.size() <= kShown;
    return EndWith(RuntimeError(absl::StrCat(Name(rank), " has another ", what, " than ", Name(0),
                                             shown ? "; " : "", shown ? Name(fabric_.rank()) : "",
                                             shown ? " has " : "", shown ? text : "")));
  }
  return absl::OkStatus();
}

absl::Status RankLink::Exchange(int64_t n, std::vector<float>& all) {
  NG_RETURN_IF_ERROR(ended_);
  counts_.assign(static_cast<size_t>(fabric_.size()), n);
  return WithStep(fabric_.AllGather(counts_, all));
}

absl::Status RankLink::WithStep(const absl::Status& status) {
  absl::Status told = WithPlace(status);
  if (!told.ok()) ended_ = told;
  return told;
}

absl::Status RankLink::WithPlace(const absl::Status& status) const {
  if (status.ok()) return status;
  const std::string where = step_ == 0 ? "before the first step" : absl::StrCat("step ", step_);
  absl::Status failed = Annotate(status, absl::StrCat(Name(fabric_.rank()), ", ", where, ": "));
  const int missing = fabric_.Missing();
  if (missing < 0) return failed;
  // Rank 0 of all groups tells it, or the next one where that is missing; the leader of a later
  // group passes it on. Who tells it may find it a moment later, and what has started the ranks
  // ends all of them when one has ended. Where nothing ends this one, the others may have lost
  // another rank, and nobody has told this.
  const int rank = first_ + fabric_.rank();
  const bool first_is_missing = first_ + missing == 0;
  if (rank == (first_is_missing ? 1 : 0)) return failed;
  if (first_ + missing == rank) return ToldElsewhere(std::move(failed));  // it stood still
  const bool passes_on = first_ > 0 && fabric_.rank() == 0;
  const bool ended = passes_on || EndsWithin(first_is_missing ? rank * kTurn : kMoment);
  return ended ? ToldElsewhere(std::move(failed)) : failed;
}

bool RankLink::EndsWithin(std::chrono::milliseconds time) const {
  const auto until = std::chrono::steady_clock::now() + std::min(time, kMoment);
  while (!Stops() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return Stops();
}

std::string RankLink::Name(int rank) const {
  return absl::StrCat("rank ", first_ + rank, " (", fabric_.Host(rank), ")");
}

}  // namespace ng
