// DenseLogits::KeepNear. The order is divided into parts; the one in which the mass reaches its
// goal is found by a guess. A pass over the row proves the guess and marks what it needs; if it is
// wrong, more passes follow. Which part it is does not depend on the guess, since the mass above a
// lower edge is never smaller.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "core/sampling/dense_logits.h"
#include "core/sampling/mass_bars.h"

namespace ng {
namespace {

constexpr int kNearParts = kMassBars * kMassBars * kMassBars;

// A sample holds every token that is heavy and of the others those in every so many blocks.
constexpr int64_t kNearSampledEvery = 16;
constexpr int64_t kNearSampledFrom = 16 * kNearSampledEvery * kLogitBlock;  // logits

// Of so many tokens or more in a band, only those of one bucket in so many are sorted.
constexpr int64_t kBucketsFrom = 256;
constexpr int kBuckets = 64;

// How many tokens of one weight reach the goal: as many as adding them one by one in f64 would
// take, for each such sum is exact. At most `n`.
int64_t CountAlike(double weight, double goal, int64_t n) {
  if (!(weight * static_cast<double>(n) >= goal)) return n;
  auto count = static_cast<int64_t>(std::ceil(goal / weight));
  while (weight * static_cast<double>(count) < goal) ++count;
  while (count > 1 && weight * static_cast<double>(count - 1) >= goal) --count;
  return count;
}

// The sum but for rounding, in an order that vectors can add in.
double AboutSum(std::span<const float> values) {
  std::array<float, 16> lanes = {};
  size_t i = 0;
  for (; i + lanes.size() <= values.size(); i += lanes.size()) {
    for (size_t j = 0; j < lanes.size(); ++j) lanes[j] += values[i + j];
  }
  for (; i < values.size(); ++i) lanes[0] += values[i];
  return std::accumulate(lanes.begin(), lanes.end(), 0.0);
}

int64_t FirstBit(std::span<const uint64_t> bits) {
  int64_t word = 0;
  while (bits[word] == 0) ++word;
  return word * kLogitBlock + std::countr_zero(bits[word]);
}

// Whether there are values whose bit is set, and all of them are equal. A word with all bits set is
// compared in vectors.
bool Alike(const float* values, std::span<const uint64_t> bits) {
  if (CountBits(bits) == 0) return false;
  const float first = values[FirstBit(bits)];
  for (const uint64_t word : bits) {
    if (word == ~uint64_t{0}) {
      int n_unlike = 0;
      for (int64_t i = 0; i < kLogitBlock; ++i) n_unlike += values[i] != first ? 1 : 0;
      if (n_unlike != 0) return false;
    } else {
      for (uint64_t left = word; left != 0; left &= left - 1) {
        if (values[std::countr_zero(left)] != first) return false;
      }
    }
    values += kLogitBlock;
  }
  return true;
}

}  // namespace

// The low end of that part of the order.
float DenseLogits::Edges::At(int edge) const {
  float part_low = low;
  float part_high = high;
  if (edge < 0) return high;
  for (int size = kNearParts / kMassBars; size > 0; size /= kMassBars) {
    const Bars bars = Spread(part_low, part_high);
    const int j = edge / size % kMassBars;
    if (j > 0) part_high = bars[j - 1];
    part_low = bars[j];
  }
  return part_low;
}

// One pass over the row with kMassBars edges, which rise.
void DenseLogits::NarrowParts(const Search& search, const Edges& edges, std::span<const int> tried,
                              Parts* parts) const {
  Bars bars;
  for (int j = 0; j < kMassBars; ++j) bars[j] = edges.At(tried[j]);
  const int first = FirstToReach(search, bars.data(), 1, &parts->mass_above);
  if (first > 0) parts->first = tried[first - 1];
  if (first < kMassBars) parts->last = tried[first];
}

// Edges about a guess: parts one by one next to it, where it is nearly right; wider ones beside
// them.
void DenseLogits::ProveParts(const Search& search, const Edges& edges, int guess,
                             Parts* parts) const {
  constexpr std::array<int, kMassBars> kAboutGuess = {-11, -3, -2, -1, 0, 1, 2, 10};
  std::array<int, kMassBars> tried;
  for (int j = 0; j < kMassBars; ++j) {
    tried[j] = std::clamp(guess + kAboutGuess[j], 0, kNearParts - 2);
  }
  NarrowParts(search, edges, tried, parts);
}

// Down to one part.
void DenseLogits::DivideParts(const Search& search, const Edges& edges, Parts* parts) const {
  while (parts->last - parts->first > 1) {
    std::array<int, kMassBars> tried;
    for (int j = 0; j < kMassBars; ++j) {
      const int step = (parts->last - parts->first) * (j + 1) / (kMassBars + 1);
      tried[j] = parts->first + std::max(1, step);
    }
    NarrowParts(search, edges, tried, parts);
  }
}

// A logit that no more than one in kNearSampledEvery of the blocks exceed, as far as some of the
// blocks tell: what is above it is heavy.
float DenseLogits::HeavyBar() {
  constexpr size_t kEvery = 4;
  size_t n = 0;
  for (size_t block = 0; block < block_max_.size(); block += kEvery) {
    order_[n++] = block_max_[block];
  }
  const auto bar = order_.begin() + static_cast<int64_t>(n) / kNearSampledEvery;
  std::nth_element(order_.begin(), bar, order_.begin() + static_cast<int64_t>(n), std::greater<>());
  return *bar;
}

// The same search in a sample. The few large weights may be anywhere in this order, so that all of
// them are in the sample; of many small ones a part tells enough, and it tells more of the smaller
// side: what belongs to the share, or what does not.
DenseLogits::Search DenseLogits::SampleNear(const Search& search) {
  const float heavy = HeavyBar();
  int64_t n = 0;
  for (int64_t block = 0; block < std::ssize(block_max_); ++block) {
    const bool sampled = block % kNearSampledEvery == 0;
    if (!sampled && block_max_[block] <= heavy) continue;
    const int64_t begin = block * kLogitBlock;
    const int64_t length = BlockEnd(block) - begin;
    const float* logits = row_.logits + begin;
    const float* weights = weights_.data() + begin;
    if (!sampled) {
      for (int64_t i = 0; i < length; ++i) {
        if (logits[i] <= heavy) continue;
        sample_[n] = logits[i];
        sample_weights_[n++] = weights[i];
      }
      continue;
    }
    for (int64_t i = 0; i < length; ++i) {
      const float stands_for = logits[i] > heavy ? 1.0F : kNearSampledEvery;
      sample_[n + i] = logits[i];
      sample_weights_[n + i] = stands_for * weights[i];
    }
    n += length;
  }
  const double total = AboutSum(std::span(sample_weights_).first(n));
  Search sample = search;
  sample.row.logits = sample_.data();
  sample.row.weights = sample_weights_.data();
  sample.row.n = n;
  sample.total = total;
  if (2.0 * search.goal > search.total) sample.goal = total - (search.total - search.goal);
  return sample;
}

int DenseLogits::GuessPart(const Search& search, const Edges& edges) {
  Parts parts = {.first = -1, .last = kNearParts - 1, .mass_above = 0.0};
  DivideParts(SampleNear(search), edges, &parts);
  return parts.last;
}

// Marks the first `n` of the tokens in within_ too.
void DenseLogits::MarkFirst(int64_t n) {
  for (size_t word = 0; n > 0; ++word) {
    uint64_t left = within_[word];
    n -= CountBits({&left, 1});
    for (; n < 0; ++n) left ^= std::bit_floor(left);
    marks_[word] |= left;
  }
}

// Marks those of the tokens in within_ too that are taken until the mass reaches the goal in the
// band.
void DenseLogits::MarkNearest(float centre, const Band& band, double goal) {
  const auto mark = [this](int64_t id) {
    marks_[id / kLogitBlock] |= uint64_t{1} << (id % kLogitBlock);
  };
  int64_t n = 0;
  for (size_t block = 0; block < within_.size(); ++block) {
    for (uint64_t left = within_[block]; left != 0; left &= left - 1) {
      const int64_t id = static_cast<int64_t>(block) * kLogitBlock + std::countr_zero(left);
      const float nearness = -std::abs(row_.logits[id] - centre);
      if (nearness >= band.high) mark(id);
      if (nearness < band.low || nearness >= band.high) continue;
      candidates_[n++] = {static_cast<int32_t>(id), nearness};
    }
  }
  int64_t n_taken = n < kBucketsFrom ? 0 : TakeInBuckets(n, band, goal);
  if (n_taken == 0) n_taken = CountToGoal(Ordered(n), band.mass_above, goal);
  for (const Candidate& c : std::span(candidates_).first(n_taken)) mark(c.id);
}

// Moves those to the front that are taken of the first n candidates, and returns how many they are.
// The buckets' masses add the same weights in another order; 0: that may tell another count.
int64_t DenseLogits::TakeInBuckets(int64_t n, const Band& band, double goal) {
  const double per_nearness = kBuckets / (static_cast<double>(band.high) - band.low);
  const auto bucket_of = [&](const Candidate& c) {
    const double bucket = (static_cast<double>(band.high) - c.logit) * per_nearness;
    return std::min(static_cast<int>(bucket), kBuckets - 1);
  };
  const std::span<Candidate> listed = std::span(candidates_).first(n);
  std::array<double, kBuckets> masses = {};
  for (const Candidate& c : listed) masses[bucket_of(c)] += weights_[c.id];
  double mass = band.mass_above;
  int last = 0;
  while (last < kBuckets - 1 && mass + masses[last] < goal) mass += masses[last++];
  const auto before = [&](const Candidate& c) { return bucket_of(c) < last; };
  const auto within = [&](const Candidate& c) { return bucket_of(c) == last; };
  const auto begin = std::partition(listed.begin(), listed.end(), before);
  const auto end = std::partition(begin, listed.end(), within);
  if (!std::is_sorted(begin, end, kBefore)) std::sort(begin, end, kBefore);

  const double rounding = 1e-10 * goal;
  auto taken = begin;
  while (taken != end && mass < goal - rounding) mass += weights_[(taken++)->id];
  return mass > goal + rounding ? taken - listed.begin() : 0;
}

// One pass over the row that marks what is above the parts about the guess, and what is in them.
// True: the mass reaches its goal in one of them.
bool DenseLogits::MarkAbout(const Search& search, const Edges& edges, int guess, Parts* parts) {
  const int above = std::clamp(guess - kNearBars / 2, -1, kNearParts - kNearBars);
  std::array<float, kNearBars> bars;
  for (int j = 0; j < kNearBars; ++j) bars[j] = edges.At(above + j);
  std::array<double, kNearBars> masses;
  kernels_->mark_near(search.row, bars.data(), {masses.data(), marks_.data(), within_.data()});
  int n_below = 0;
  const auto reaches = [&](int j) {  // it does above the last edge, also where rounding says not
    return above + j == kNearParts - 1 || masses[j] >= search.goal;
  };
  while (n_below < kNearBars && !reaches(n_below)) ++n_below;
  if (n_below > 0) {
    parts->first = above + n_below - 1;
    parts->mass_above = masses[n_below - 1];
  }
  if (n_below < kNearBars) parts->last = above + n_below;
  return n_below > 0 && n_below < kNearBars;
}

std::span<Candidate> DenseLogits::KeepNear(float centre, double p) {
  const double total = Weigh();
  const double goal = p * total;
  const double above = std::abs(static_cast<double>(max_) - centre);
  const double below = std::abs(static_cast<double>(max_) - RangeOfMass(p) - centre);
  constexpr double kLargest = std::numeric_limits<float>::max();
  const double farthest = std::min(kLargest, 1.0001 * std::max(above, below));
  const Edges edges = {.low = static_cast<float>(-farthest),
                       .high = std::numeric_limits<float>::min()};  // above all of them
  Search search = {row_, total, goal, farthest / kNearParts};
  search.row.centre = &centre;
  Parts parts = {.first = -1, .last = kNearParts - 1, .mass_above = 0.0};
  bool marked = false;
  if (row_.n >= kNearSampledFrom) {
    const int guess = GuessPart(search, edges);
    marked = MarkAbout(search, edges, guess, &parts);
    if (!marked) ProveParts(search, edges, guess, &parts);
  }
  DivideParts(search, edges, &parts);
  if (!marked) MarkAbout(search, edges, parts.last, &parts);
  const Band band = {
      .low = edges.At(parts.last), .high = edges.At(parts.first), .mass_above = parts.mass_above};
  if (band.mass_above == 0.0 && Alike(row_.logits, within_)) {  // in order of id: nothing to sort
    MarkFirst(CountAlike(weights_[FirstBit(within_)], goal, CountBits(within_)));
  } else {
    MarkNearest(centre, band, goal);
  }
  return KeepOwnMarks();
}

}  // namespace ng
