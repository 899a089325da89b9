#include "ng/candidate_set.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "core/kernels/kernel_table.h"
#include "core/sampling/dense_logits.h"

namespace ng {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Integers in the order of the logits: a total order, in which -0 equals +0 and NaN comes after
// +infinity.
int32_t Ordered(float logit) {
  constexpr int32_t kMagnitude = 0x7fffffff;
  const auto bits = std::bit_cast<int32_t>(logit + 0.0F);  // the sum turns -0 into +0
  const bool nan = (bits & kMagnitude) > std::bit_cast<int32_t>(kInfinity);
  return nan ? std::numeric_limits<int32_t>::max() : bits ^ ((bits >> 31) & kMagnitude);
}

// By falling logit, equal logits by rising id: one comparison of 64 bits.
bool RanksBefore(const Candidate& a, const Candidate& b) {
  const auto rank = [](const Candidate& c) {
    return (static_cast<int64_t>(Ordered(c.logit)) << 32) - c.id;
  };
  return rank(a) > rank(b);
}

// Ends a call that the caller must not make. No status: a stage that makes it has no use for one.
template <typename... Parts>
[[noreturn]] void Refuse(const Parts&... parts) {
  throw std::logic_error(absl::StrCat("CandidateSet::", parts...));
}

// The least float that reaches the bar.
float LeastFloat(double bar) {
  const auto least = static_cast<float>(bar);
  return least < bar ? std::nextafter(least, kInfinity) : least;
}

// What a candidate weighs beside the best one's 1.
double Weight(const Candidate& candidate, float max) {
  return std::exp(candidate.logit - static_cast<double>(max));
}

double TotalWeight(std::span<const Candidate> candidates, float max) {
  double total = 0.0;
  for (const Candidate& candidate : candidates) total += Weight(candidate, max);
  return total;
}

void CheckCount(const char* call, int64_t n, int64_t size) {
  if (n < 0 || n > size) {
    Refuse(call, "(", n, "): must be in [0, ", size, "], the number of candidates");
  }
}

}  // namespace

int64_t CandidateSet::size() const {
  return listed() ? static_cast<int64_t>(items_.size()) : logits_->size();
}

bool CandidateSet::dense() const { return listed() ? dense_ : logits_->whole(); }

void CandidateSet::ListAll() const {
  dense_ = logits_->whole();
  items_ = logits_->List();
  logits_ = nullptr;
}

int64_t CandidateSet::CopyTo(std::span<Candidate> out) const {
  if (std::ssize(out) < size()) Refuse("CopyTo: room for ", out.size(), " of ", size());
  if (!listed()) return logits_->CopyTo(out);
  std::ranges::copy(items_, out.begin());
  return size();
}

// What a call that narrows has left: listed, unless it is still in the row.
void CandidateSet::Narrow(std::span<Candidate> listed) {
  if (listed.empty() && logits_->size() > 0) return;
  items_ = listed;
  logits_ = nullptr;
  dense_ = false;
}

// Keeps the candidates for which `keep` is true, in their order.
template <typename Keep>
void CandidateSet::KeepListed(Keep keep) {
  int64_t kept = 0;
  for (const Candidate candidate : items_) {  // a copy: the store may not be read back
    items_[kept] = candidate;
    kept += keep(candidate) ? 1 : 0;
  }
  if (kept < size()) KeepFirst(kept);
}

float& CandidateSet::LogitOf(int32_t id) {
  if (!dense()) Refuse("LogitOf(", id, "): the set is not dense, look for the id in items()");
  if (id < 0 || id >= size()) Refuse("LogitOf(", id, "): must be in [0, ", size(), ")");
  return listed() ? items_[id].logit : logits_->At(id);
}

void CandidateSet::DivideBy(float divisor) {
  if (!listed()) return logits_->DivideBy(divisor);
  for (Candidate& candidate : items_) candidate.logit /= divisor;
}

void CandidateSet::SortByLogit() {
  List();
  std::sort(items_.begin(), items_.end(), RanksBefore);
  dense_ = false;
}

// The best candidates seen so far gather at the front. Whenever they fill the room there, the worse
// part is dropped and the k-th best becomes the bar that later ones must reach. Each drop costs
// O(room) and follows room - k candidates that reached the bar, so the whole is linear for any
// order.
void CandidateSet::KeepTop(int64_t k) {
  constexpr int64_t kLeastRoom = 64;
  if (k < 1) Refuse("KeepTop(", k, "): must be at least 1");
  if (!listed() && k < size()) Narrow(logits_->ListTop(k));
  List();
  if (k < size()) {
    const auto first = items_.begin();
    const int64_t room = std::min(size(), std::max(2 * k, kLeastRoom));
    int64_t kept = room;
    float bar = -kInfinity;
    const auto drop = [&] {
      std::nth_element(first, first + (k - 1), first + kept, RanksBefore);
      kept = k;
      bar = first[k - 1].logit;
    };
    drop();
    for (const Candidate& candidate : items_.subspan(room)) {
      if (candidate.logit < bar) continue;
      first[kept++] = candidate;
      if (kept == room) drop();
    }
    drop();
    items_ = items_.first(k);
  }
  SortByLogit();
}

void CandidateSet::KeepFirst(int64_t n) {
  CheckCount("KeepFirst", n, size());
  List();
  items_ = items_.first(n);
  dense_ = false;
}

void CandidateSet::KeepFrom(int64_t n) {
  CheckCount("KeepFrom", n, size());
  List();
  items_ = items_.subspan(n);
  dense_ = false;
}

void CandidateSet::KeepAtLeast(double bar) {
  if (std::isnan(bar)) Refuse("KeepAtLeast(nan): must be a number");
  const std::optional<float> max = listed() ? std::nullopt : logits_->Max();
  if (max && bar <= *max) {
    if (bar == -kInfinity) return;
    return Narrow(logits_->KeepAtLeast(LeastFloat(bar)));
  }
  List();
  KeepListed([bar](const Candidate& candidate) { return !(candidate.logit < bar); });
}

void CandidateSet::KeepMass(double p) {
  if (!(p > 0.0 && p < 1.0)) Refuse("KeepMass(", p, "): must be in (0, 1)");
  const absl::StatusOr<float> max = MaxLogit();
  if (!max.ok()) Refuse("KeepMass(", p, "): ", max.status().message());
  if (!listed()) return Narrow(logits_->KeepMass(p));
  KeepListedMass(p, *max);
}

void CandidateSet::KeepNear(double centre, double p) {
  if (!(p > 0.0 && p < 1.0)) Refuse("KeepNear(", centre, ", ", p, "): p must be in (0, 1)");
  const absl::StatusOr<float> max = MaxLogit();
  if (!max.ok()) Refuse("KeepNear(", centre, ", ", p, "): ", max.status().message());
  const auto near = static_cast<float>(centre);
  if (!std::isfinite(near)) Refuse("KeepNear(", centre, ", ", p, "): the centre must be finite");
  if (!listed()) return Narrow(logits_->KeepNear(near, p));
  KeepListedNear(near, p, *max);
}

void CandidateSet::Mask(std::span<const uint64_t> bits) {
  const auto n_bits = std::ssize(bits) * 64;
  if (!listed() && logits_->Max().has_value()) {
    if (n_bits < logits_->vocab_size()) {
      Refuse("Mask: ", bits.size(), " words for a vocabulary of ", logits_->vocab_size());
    }
    return Narrow(logits_->KeepMarked(bits));
  }
  List();
  for (const Candidate& candidate : items_) {
    if (candidate.id >= 0 && candidate.id < n_bits) continue;
    Refuse("Mask: ", bits.size(), " words, none of them for id ", candidate.id);
  }
  KeepListed([bits](const Candidate& candidate) {
    const bool marked = (bits[candidate.id / 64] >> (candidate.id % 64) & 1) != 0;
    return marked || std::isnan(candidate.logit);
  });
}

void CandidateSet::KeepIds(std::span<const int32_t> sorted_ids) {
  for (size_t i = 0; i < sorted_ids.size(); ++i) {
    const int32_t least = i == 0 ? 0 : sorted_ids[i - 1] + 1;
    if (sorted_ids[i] < least) {
      Refuse("KeepIds: id ", sorted_ids[i], " at place ", i, ", must be at least ", least,
             ", since the ids rise");
    }
  }
  if (!listed() && logits_->Max().has_value()) return Narrow(logits_->KeepIds(sorted_ids));
  List();
  KeepListed([&](const Candidate& candidate) {
    return std::ranges::binary_search(sorted_ids, candidate.id) || std::isnan(candidate.logit);
  });
}

// Sorting all is slow: find first how far below the best logit the mass reaches, in steps of 1/16
// nat, and sort only that part.
void CandidateSet::KeepListedMass(double p, float max) {
  constexpr int kSteps = 512;  // the last one holds all that is farther than 32 nats
  constexpr double kStepsPerNat = 16.0;
  const auto depth = [max](const Candidate& candidate) {
    return max - static_cast<double>(candidate.logit);
  };
  std::array<double, kSteps> mass_of_step = {};
  double total = 0.0;
  for (const Candidate& candidate : items_) {
    const double weight = std::exp(-depth(candidate));
    mass_of_step[static_cast<int>(std::min(depth(candidate) * kStepsPerNat, kSteps - 1.0))] +=
        weight;
    total += weight;
  }
  double mass = 0.0;
  int n_steps = 0;
  while (n_steps < kSteps && mass < p * total) mass += mass_of_step[n_steps++];
  if (n_steps < kSteps) KeepAtLeast(max - n_steps / kStepsPerNat);
  SortByLogit();

  mass = 0.0;
  int64_t kept = 0;
  while (kept < size() && mass < p * total) mass += std::exp(-depth(items_[kept++]));
  KeepFirst(std::max<int64_t>(1, kept));
}

void CandidateSet::KeepListedNear(float centre, double p, float max) {
  const auto distance = [centre](const Candidate& c) { return std::abs(c.logit - centre); };
  std::ranges::sort(items_, [&](const Candidate& a, const Candidate& b) {
    return distance(a) < distance(b) || (distance(a) == distance(b) && a.id < b.id);
  });
  dense_ = false;
  const double total = TotalWeight(items_, max);
  double mass = 0.0;
  int64_t kept = 0;
  while (kept < size() && mass < p * total) mass += Weight(items_[kept++], max);
  KeepFirst(std::max<int64_t>(1, kept));
}

absl::StatusOr<double> CandidateSet::LogTotal() const {
  NG_ASSIGN_OR_RETURN(const float max, MaxLogit());
  return listed() ? max + std::log(TotalWeight(items_, max)) : logits_->LogTotal();
}

absl::StatusOr<double> CandidateSet::MeanDrawn() const {
  NG_ASSIGN_OR_RETURN(const float max, MaxLogit());
  if (!listed()) return logits_->MeanDrawn();
  double sum = 0.0;
  for (const Candidate& candidate : items_) {
    const double weight = Weight(candidate, max);
    if (weight > 0.0) sum += weight * (candidate.logit - static_cast<double>(max));
  }
  return max + sum / TotalWeight(items_, max);
}

absl::StatusOr<double> CandidateSet::Deviation() const {
  NG_RETURN_IF_ERROR(MaxLogit().status());
  if (!listed()) return logits_->Deviation();
  const auto mean_of = [this](auto of) {
    double sum = 0.0;
    int64_t n = 0;
    for (const Candidate& candidate : items_) {
      if (candidate.logit == -kInfinity) continue;
      sum += of(static_cast<double>(candidate.logit));
      ++n;
    }
    return sum / static_cast<double>(n);
  };
  const double mean = mean_of([](double logit) { return logit; });
  return std::sqrt(mean_of([mean](double logit) { return (logit - mean) * (logit - mean); }));
}

int64_t CandidateSet::CopyAtLeast(double bar, std::span<Candidate> out) const {
  if (!(bar > -kInfinity)) Refuse("CopyAtLeast(", bar, "): must be above -inf");
  if (!MaxLogit().ok()) Refuse("CopyAtLeast(", bar, "): ", MaxLogit().status().message());
  if (!listed()) return logits_->CopyAtLeast(LeastFloat(bar), out);
  int64_t n_found = 0;
  for (const Candidate& candidate : items_) {
    if (candidate.logit < bar) continue;
    if (n_found < std::ssize(out)) out[n_found] = candidate;
    ++n_found;
  }
  return n_found;
}

absl::StatusOr<float> CandidateSet::MaxLogit() const {
  if (!listed()) {
    if (const std::optional<float> max = logits_->Max()) return *max;
    List();  // to say which one it is
  }
  float max = -kInfinity;
  for (const Candidate& candidate : items_) {
    if (candidate.logit <= max) continue;  // false for NaN too
    if (!(candidate.logit < kInfinity)) {
      return NumericError(absl::StrCat("the logit of token ", candidate.id, " is ",
                                       std::isnan(candidate.logit) ? "nan" : "inf",
                                       ", must be finite or -inf"));
    }
    max = candidate.logit;
  }
  if (max > -kInfinity) return max;
  if (size() == 0) return NumericError("no token can be drawn: no candidate is left");
  return NumericError(
      absl::StrCat("no token can be drawn: all ", size(), " candidates have logit -inf"));
}

CandidateStorage::CandidateStorage(int64_t vocab_size, IsaLevel isa) {
  if (vocab_size < 1) throw std::logic_error("CandidateStorage: the vocabulary is empty");
  logits_ = std::make_unique<DenseLogits>(Kernels(isa), vocab_size);
}

CandidateStorage::~CandidateStorage() = default;

int64_t CandidateStorage::vocab_size() const { return logits_->vocab_size(); }

CandidateSet CandidateStorage::Begin(std::span<const float> logits) {
  if (std::ssize(logits) != vocab_size()) {
    throw std::logic_error(absl::StrCat("CandidateStorage::Begin: ", logits.size(),
                                        " logits, must be ", vocab_size(), " (the vocabulary)"));
  }
  logits_->Begin(logits);
  return CandidateSet(*logits_);
}

}  // namespace ng
