#include "core/sampling/dense_logits.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>

#include "core/sampling/mass_bars.h"

namespace ng {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// What is left is listed if it lies in no more than one of so many blocks.
constexpr int64_t kBlocksPerListed = 16;

// KeepMass sorts one of so many parts of the range in which the mass may reach its share, or two.
constexpr int kDivisions = 3;
constexpr double kParts = 512.0;  // kMassBars to the power of kDivisions
// It looks for that part in every so many blocks first, if the row has far more of them.
constexpr int64_t kSampledEvery = 16;
constexpr int64_t kSampledFrom = 16 * kSampledEvery * kLogitBlock;  // logits

// As far apart as `width`, on both sides of `centre`, within [low, high].
Bars Around(double centre, double width, float low, float high) {
  Bars bars;
  for (int j = 0; j < kMassBars; ++j) {
    const double bar = centre + width * (0.5 * (kMassBars - 1) - j);
    bars[j] = std::clamp(static_cast<float>(bar), low, high);
  }
  return bars;
}

// A candidate is stored as one number: stored in its two parts, a row takes three times as long.
int64_t CopyWhole(const float* logits, int64_t n, Candidate* out) {
  static_assert(sizeof(Candidate) == sizeof(uint64_t) &&
                std::endian::native == std::endian::little);
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t logit = std::bit_cast<uint32_t>(logits[i]);
    const uint64_t both = logit << 32 | static_cast<uint64_t>(i);
    std::memcpy(static_cast<void*>(out + i), &both, sizeof(both));
  }
  return n;
}

}  // namespace

DenseLogits::DenseLogits(const KernelTable& kernels, int64_t vocab_size)
    : kernels_(&kernels),
      own_(vocab_size),
      block_max_((vocab_size + kLogitBlock - 1) / kLogitBlock),
      weights_(vocab_size),
      block_sums_(block_max_.size()),
      order_(block_max_.size()),
      sample_(vocab_size),
      sample_weights_(vocab_size),
      ids_(vocab_size),
      marks_(block_max_.size()),
      within_(block_max_.size()),
      candidates_(vocab_size) {
  row_.n = vocab_size;
  row_.block_max = block_max_.data();
  row_.weights = weights_.data();
  row_.block_sums = block_sums_.data();
}

void DenseLogits::Begin(std::span<const float> logits) {
  row_.logits = logits.data();
  size_ = row_.n;
  unsettled_ = false;
  Changed();
}

int64_t DenseLogits::BlockEnd(int64_t block) const {
  return std::min(row_.n, (block + 1) * kLogitBlock);
}

void DenseLogits::Changed() {
  looked_ = false;
  weighed_ = false;
}

// A draw reads the weights alone, so that the row waits until somebody asks for it.
void DenseLogits::Settle() {
  if (!unsettled_) return;
  unsettled_ = false;
  LogitRow row = row_;
  row.weights = nullptr;
  kernels_->keep_marked(row, marks_.data(), own_.data());
  row_.logits = own_.data();
  Looked();
}

void DenseLogits::Look() {
  Settle();
  if (looked_) return;
  drawable_ = kernels_->block_max(row_);
  Looked();
}

// The blocks have been looked at.
void DenseLogits::Looked() {
  max_ = *std::max_element(block_max_.begin(), block_max_.end());
  looked_ = true;
}

std::optional<float> DenseLogits::Max() {
  Look();
  if (!drawable_ || max_ == kNever) return std::nullopt;
  return max_;
}

// The row is about to change.
void DenseLogits::Own() {
  Settle();
  if (row_.logits != own_.data()) std::copy_n(row_.logits, row_.n, own_.data());
  row_.logits = own_.data();
  Changed();
}

float& DenseLogits::At(int32_t id) {
  Own();
  return own_[id];
}

void DenseLogits::DivideBy(float divisor) {
  Settle();
  drawable_ = kernels_->divide_logits(row_, divisor, own_.data());
  row_.logits = own_.data();
  Changed();
  Looked();
}

std::span<Candidate> DenseLogits::List() {
  return std::span(candidates_).first(CopyTo(candidates_));
}

int64_t DenseLogits::CopyTo(std::span<Candidate> out) {
  Settle();
  if (whole()) return CopyWhole(row_.logits, row_.n, out.data());
  int64_t n_copied = 0;
  for (int64_t i = 0; i < row_.n; ++i) {
    out[n_copied] = {static_cast<int32_t>(i), row_.logits[i]};
    n_copied += row_.logits[i] == kNever ? 0 : 1;
    if (n_copied == size_) break;  // there may be no more room
  }
  return n_copied;
}

// The k-th largest of the blocks' best is a bar that k logits reach.
std::span<Candidate> DenseLogits::ListTop(int64_t k) {
  Look();
  const auto n_blocks = static_cast<int64_t>(block_max_.size());
  if (!drawable_ || 2 * k > n_blocks) return List();
  float bar = max_;
  if (k > 1) {
    order_ = block_max_;
    std::nth_element(order_.begin(), order_.begin() + (k - 1), order_.end(), std::greater<>());
    bar = order_[k - 1];
  }
  return bar == kNever ? List() : Collect(bar, k);
}

// Lists all above the bar and, in order of id, the first `n_ties` that equal it.
std::span<Candidate> DenseLogits::Collect(float bar, int64_t n_ties) {
  int64_t n_listed = 0;
  for (size_t block = 0; block < block_max_.size(); ++block) {
    if (block_max_[block] < bar || (block_max_[block] == bar && n_ties == 0)) continue;
    for (int64_t i = block * kLogitBlock; i < BlockEnd(block); ++i) {
      if (row_.logits[i] < bar || (row_.logits[i] == bar && n_ties == 0)) continue;
      n_ties -= row_.logits[i] == bar ? 1 : 0;
      candidates_[n_listed++] = {static_cast<int32_t>(i), row_.logits[i]};
    }
  }
  return std::span(candidates_).first(n_listed);
}

// Ends at the first block in which one does not.
bool DenseLogits::AllReach(float bar) const {
  for (size_t block = 0; block < block_max_.size(); ++block) {
    int n_below = 0;
    for (int64_t i = block * kLogitBlock; i < BlockEnd(block); ++i) {
      n_below += row_.logits[i] < bar ? 1 : 0;
    }
    if (n_below > 0) return false;
  }
  return true;
}

// Whether the logits that reach the bar lie in few of the blocks.
bool DenseLogits::HasFewBlocks(float bar) const {
  const auto n_hot =
      std::count_if(block_max_.begin(), block_max_.end(), [bar](float max) { return max >= bar; });
  return n_hot * kBlocksPerListed <= static_cast<int64_t>(block_max_.size());
}

// Keeps all above the bar and, in order of id, the first `n_ties` that equal it.
std::span<Candidate> DenseLogits::Keep(float bar, int64_t n_ties) {
  Look();
  if (HasFewBlocks(bar)) return Collect(bar, n_ties);
  if (n_ties >= row_.n && AllReach(bar)) return {};
  Weigh();
  size_ = kernels_->drop_below(row_, bar, own_.data());
  row_.logits = own_.data();
  if (n_ties < row_.n) DropTies(bar, n_ties);
  return {};
}

// All but the first `n_ties` of those that equal the bar.
void DenseLogits::DropTies(float bar, int64_t n_ties) {
  for (size_t block = 0; block < block_max_.size(); ++block) {
    if (block_max_[block] < bar) continue;
    const int64_t begin = static_cast<int64_t>(block) * kLogitBlock;
    const int64_t end = BlockEnd(block);
    const int64_t size_before = size_;
    for (int64_t i = begin; i < end; ++i) {
      if (own_[i] != bar || n_ties-- > 0) continue;
      own_[i] = kNever;
      --size_;
    }
    if (size_ == size_before) continue;
    LogitRow part = row_;
    part.logits += begin;
    part.weights += begin;
    part.n = end - begin;
    part.block_max += block;
    part.block_sums += block;
    kernels_->drop_below(part, bar, own_.data() + begin);
  }
}

std::span<Candidate> DenseLogits::KeepAtLeast(float bar) { return Keep(bar, row_.n); }

std::span<Candidate> DenseLogits::ListMarked(std::span<const uint64_t> bits) {
  int64_t n_listed = 0;
  for (size_t block = 0; block < block_max_.size(); ++block) {
    for (uint64_t left = bits[block]; left != 0; left &= left - 1) {
      const int64_t id = static_cast<int64_t>(block) * kLogitBlock + std::countr_zero(left);
      if (id >= row_.n || (!whole() && row_.logits[id] == kNever)) continue;
      candidates_[n_listed++] = {static_cast<int32_t>(id), row_.logits[id]};
    }
  }
  size_ = n_listed;
  return std::span(candidates_).first(n_listed);
}

// The bits of one block are one word.
std::span<Candidate> DenseLogits::KeepMarked(std::span<const uint64_t> bits) {
  static_assert(kLogitBlock == 64);
  const auto n_blocks = static_cast<int64_t>(block_max_.size());
  const int64_t n_last = row_.n - (n_blocks - 1) * kLogitBlock;  // tokens in the last block
  int64_t n_marked = std::popcount(bits[n_blocks - 1] << (kLogitBlock - n_last));
  n_marked += CountBits(bits.first(n_blocks - 1));
  if (n_marked == row_.n) return {};
  if (n_marked <= n_blocks) return ListMarked(bits);
  LogitRow row = row_;
  if (!weighed_) row.weights = nullptr;
  size_ = kernels_->keep_marked(row, bits.data(), own_.data());
  row_.logits = own_.data();
  Looked();
  return {};
}

// KeepMarked with marks_. REQUIRES: the row is weighed, what is marked is above -infinity.
std::span<Candidate> DenseLogits::KeepOwnMarks() {
  const int64_t n_marked = CountBits(marks_);
  if (n_marked == row_.n) return {};
  if (n_marked <= std::ssize(marks_)) return ListMarked(marks_);
  kernels_->keep_marked(row_, marks_.data(), nullptr);
  size_ = n_marked;
  unsettled_ = true;
  return {};
}

std::span<Candidate> DenseLogits::KeepIds(std::span<const int32_t> ids) {
  std::ranges::fill(marks_, 0);
  for (const int32_t id : ids) {
    if (id >= row_.n) break;
    marks_[id / kLogitBlock] |= uint64_t{1} << (id % kLogitBlock);
  }
  return KeepMarked(marks_);
}

// Weighs every logit and gives the sum.
double DenseLogits::Weigh() {
  Look();
  if (!weighed_ || weighed_by_ != max_) kernels_->weigh_logits(row_, max_);
  weighed_ = true;
  weighed_by_ = max_;
  return std::accumulate(block_sums_.begin(), block_sums_.end(), 0.0);
}

// To draw, the weights may be those by a best logit that is gone, while they have not become small.
double DenseLogits::WeighToDraw() {
  constexpr double kEnough = 1e-6;
  if (!weighed_) return Weigh();
  const double total = std::accumulate(block_sums_.begin(), block_sums_.end(), 0.0);
  return total >= kEnough ? total : Weigh();
}

int64_t DenseLogits::CountBest() const {
  int64_t n_best = 0;
  for (size_t block = 0; block < block_max_.size(); ++block) {
    if (block_max_[block] < max_) continue;
    n_best += std::count(row_.logits + block * kLogitBlock, row_.logits + BlockEnd(block), max_);
  }
  return n_best;
}

// The first of the bars, which fall, above which the mass of every `every`-th block reaches the
// goal; kMassBars: it does above none. mass_above becomes that of the bar before, if there is one.
int DenseLogits::FirstToReach(const Search& search, const float* bars, int64_t every,
                              double* mass_above) const {
  std::array<double, kMassBars> masses;
  kernels_->mass_at_least(search.row, every, bars, masses.data());
  for (int j = 0; j < kMassBars; ++j) {
    if (masses[j] >= search.goal) return j;
    *mass_above = masses[j];
  }
  return kMassBars;
}

// Narrows the band to between two of the bars, which lie within it.
void DenseLogits::Narrow(const Search& search, const float* bars, int64_t every, Band* band) const {
  const int first = FirstToReach(search, bars, every, &band->mass_above);
  if (first > 0) band->high = bars[first - 1];
  if (first < kMassBars) band->low = bars[first];
}

// Narrows the band to about the width, where floats lie that close.
void DenseLogits::Divide(const Search& search, int64_t every, Band* band) const {
  for (int i = 0; i < kDivisions && band->high - band->low > 1.5 * search.width; ++i) {
    Narrow(search, Spread(band->low, band->high).data(), every, band);
  }
}

// Where the mass may reach its goal, judged by a sample: about as wide as the width. What does not
// belong to the share is many small weights, of which a sample tells more than of the few large
// ones.
DenseLogits::Band DenseLogits::Estimate(const Search& search, Band band) const {
  double sampled = 0.0;
  for (size_t block = 0; block < block_sums_.size(); block += kSampledEvery) {
    sampled += block_sums_[block];
  }
  Search of_sample = search;
  of_sample.goal = sampled - (search.total - search.goal) / kSampledEvery;
  Divide(of_sample, kSampledEvery, &band);
  return band;
}

// A guess by a sample saves two of three passes over the row; a wrong one costs the pass that shows
// it. REQUIRES: the mass reaches the goal within the band.
DenseLogits::Band DenseLogits::FindBand(const Search& search, Band band) const {
  if (search.row.n >= kSampledFrom) {
    const Band guess = Estimate(search, band);
    const double centre = 0.5 * (static_cast<double>(guess.low) + guess.high);
    Narrow(search, Around(centre, search.width, band.low, band.high).data(), 1, &band);
  }
  Divide(search, 1, &band);
  return band;
}

// In the order in which they are taken.
std::span<Candidate> DenseLogits::ListBand(const Band& band) {
  const int64_t n_listed = kernels_->list_within(row_, band.low, band.high, ids_.data());
  for (int64_t i = 0; i < n_listed; ++i) candidates_[i] = {ids_[i], row_.logits[ids_[i]]};
  return Ordered(n_listed);
}

// The first `n` candidates that are listed.
std::span<Candidate> DenseLogits::Ordered(int64_t n) {
  const std::span<Candidate> listed = std::span(candidates_).first(n);
  if (!std::is_sorted(listed.begin(), listed.end(), kBefore)) {
    std::sort(listed.begin(), listed.end(), kBefore);
  }
  return listed;
}

// How many of the listed are taken until the mass reaches the goal.
size_t DenseLogits::CountToGoal(std::span<const Candidate> listed, double mass, double goal) const {
  size_t n = 0;
  while (n < listed.size() && mass < goal) mass += weights_[listed[n++].id];
  return n;
}

// The weights farther than this below the best are together less than 1 - p of it, so that the mass
// reaches the share p before.
double DenseLogits::RangeOfMass(double p) const {
  return std::log(static_cast<double>(row_.n) / (1.0 - p));
}

// Sorting a whole vocabulary is slow: only a narrow band in which the mass reaches its share is
// sorted.
std::span<Candidate> DenseLogits::KeepMass(double p) {
  const double total = Weigh();
  const double goal = p * total;
  const int64_t n_best = CountBest();
  if (static_cast<double>(n_best) >= goal) {  // each weighs 1
    return Keep(max_, std::max<int64_t>(1, static_cast<int64_t>(std::ceil(goal))));
  }
  const double range = RangeOfMass(p);
  const Band band =
      FindBand({row_, total, goal, range / kParts}, {.low = static_cast<float>(max_ - range),
                                                     .high = max_,
                                                     .mass_above = static_cast<double>(n_best)});
  const std::span<const Candidate> last = ListBand(band);
  const size_t n_kept = CountToGoal(last, band.mass_above, goal);
  if (n_kept == 0) return Keep(band.low, row_.n);
  const float bar = last[n_kept - 1].logit;
  const bool ties_left = n_kept < last.size() && last[n_kept].logit == bar;
  const auto n_ties = std::count_if(last.begin(), last.begin() + n_kept,
                                    [bar](const Candidate& c) { return c.logit == bar; });
  return Keep(bar, ties_left ? n_ties : row_.n);
}

double DenseLogits::LogTotal() {
  const double total = Weigh();
  return max_ + std::log(total);
}

// One pass gives the weights and the sum, where there are none yet.
double DenseLogits::MeanDrawn() {
  Look();
  double sum = 0.0;
  if (weighed_ && weighed_by_ == max_) {
    sum = kernels_->weighted_sum(row_, max_);
  } else {
    sum = kernels_->weigh_and_sum(row_, max_);
    weighed_ = true;
    weighed_by_ = max_;
  }
  return max_ + sum / Weigh();
}

// About the mean itself the squares are small, so that little of them gets lost.
double DenseLogits::Deviation() {
  Look();
  std::array<double, 3> sums;  // the count, sum and sum of squares
  kernels_->moments(row_, max_, sums.data());
  kernels_->moments(row_, static_cast<float>(max_ + sums[1] / sums[0]), sums.data());
  const double mean = sums[1] / sums[0];
  const double variance = sums[2] / sums[0] - mean * mean;
  if (!std::isfinite(variance)) return std::numeric_limits<double>::infinity();
  return std::sqrt(std::max(0.0, variance));
}

int64_t DenseLogits::CopyAtLeast(float bar, std::span<Candidate> out) {
  Look();
  if (HasFewBlocks(bar)) {
    const std::span<const Candidate> found = Collect(bar, row_.n);
    std::copy_n(found.begin(), std::min(found.size(), out.size()), out.begin());
    return std::ssize(found);
  }
  const int64_t n_found =
      kernels_->list_within(row_, bar, std::numeric_limits<float>::infinity(), ids_.data());
  const int64_t n_copied = std::min(n_found, std::ssize(out));
  for (int64_t i = 0; i < n_copied; ++i) out[i] = {ids_[i], row_.logits[ids_[i]]};
  return n_found;
}

int32_t DenseLogits::Draw(double uniform) {
  const double target = uniform * WeighToDraw();
  // The first block whose cumulative sum is above the target; a block without weight never is.
  size_t block = 0;
  double sum = 0.0;
  while (block + 1 < block_sums_.size() && sum + block_sums_[block] <= target) {
    sum += block_sums_[block++];
  }
  // Added one by one, the block's sum may be smaller by a rounding error: then it is its last.
  const int64_t begin = static_cast<int64_t>(block) * kLogitBlock;
  int64_t drawn = begin;
  for (int64_t i = begin; i < BlockEnd(block) && sum <= target; ++i) {
    sum += weights_[i];
    if (weights_[i] > 0.0F) drawn = i;
  }
  return static_cast<int32_t>(drawn);
}

}  // namespace ng
