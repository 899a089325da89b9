#include "apps/diff/comparer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ng::diff {
namespace {

int32_t ArgMax(std::span<const float> row) {
  return static_cast<int32_t>(std::distance(row.begin(), std::ranges::max_element(row)));
}

}  // namespace

const PointComparison* Comparison::first() const {
  const auto differs = [](const PointComparison& point) {
    return point.figures.first().has_value();
  };
  const auto found = std::ranges::find_if(points, differs);
  return found == points.end() ? nullptr : &*found;
}

int64_t Comparison::rows() const {
  int64_t n = 0;
  for (const PointComparison& point : points) n += point.figures.rows();
  return n;
}

int64_t Comparison::not_compared() const {
  int64_t n = 0;
  for (const PointComparison& point : points) n += point.figures.not_compared();
  return n;
}

Comparer::Comparer(std::vector<PointShape> points, int64_t max_bytes) : max_bytes_(max_bytes) {
  states_.reserve(points.size());
  for (PointShape& point : points) states_.push_back({{point, {}}, {}});
}

size_t Comparer::IndexOf(const PointAt& at) const {
  const auto is_it = [&](const PointState& state) { return state.comparison.point.at == at; };
  return static_cast<size_t>(std::distance(states_.begin(), std::ranges::find_if(states_, is_it)));
}

absl::Status Comparer::Add(Side side, const PointRows& rows) {
  for (int64_t i = 0; i < rows.n_rows(); ++i) {
    const auto n_values = static_cast<size_t>(rows.values());
    NG_RETURN_IF_ERROR(
        AddRow(side, rows.at, rows.tokens[static_cast<size_t>(i)], {rows.Row(i), n_values}));
  }
  return absl::OkStatus();
}

absl::Status Comparer::AddRow(Side side, const PointAt& at, const TokenRow& token,
                              std::span<const float> row) {
  PointState& state = states_[IndexOf(at)];
  const auto prompt = static_cast<size_t>(token.request);
  if (prompt >= state.flows.size()) state.flows.resize(prompt + 1);
  Flow& flow = state.flows[prompt][static_cast<size_t>(side)];
  Flow& other = state.flows[prompt][static_cast<size_t>(OtherOf(side))];
  if (flow.begin < 0) flow.begin = flow.end = token.pos;
  if (token.pos < flow.end) {  // computed again
    state.comparison.figures.AddNotCompared(1);
    return absl::OkStatus();
  }
  flow.end = token.pos + 1;
  if (other.waiting.Has(token.pos)) {
    state.comparison.figures.AddNotCompared(Drop(OtherOf(side), state, other, token.pos));
    const std::span<const float> waiting = other.waiting.Row(token.pos, row.size());
    const bool is_a = side == Side::kA;
    Compare(state, token, is_a ? row : waiting, is_a ? waiting : row);
    Drop(OtherOf(side), state, other, token.pos + 1);
    return absl::OkStatus();
  }
  if (other.begin > token.pos) {  // the other side will not come to it
    state.comparison.figures.AddNotCompared(1);
    return absl::OkStatus();
  }
  return Keep(side, flow, token.pos, row);
}

absl::Status Comparer::Keep(Side side, Flow& flow, int64_t pos, std::span<const float> row) {
  int64_t& bytes = waiting_bytes_[static_cast<size_t>(side)];
  bytes += static_cast<int64_t>(row.size_bytes());
  if (bytes > max_bytes_) {
    return LimitError(absl::StrCat(
        "the rows of one side that wait for those of the other take more than the ", max_bytes_,
        " bytes that are left for them; give both the same run.prefill_chunk, or a shorter "
        "prompt"));
  }
  flow.waiting.Add(pos, row);
  return absl::OkStatus();
}

int64_t Comparer::Drop(Side side, const PointState& state, Flow& flow, int64_t pos) {
  const int64_t n_values = state.comparison.point.values();
  const int64_t n_rows = flow.waiting.DropBefore(pos, static_cast<size_t>(n_values));
  waiting_bytes_[static_cast<size_t>(side)] -=
      n_rows * n_values * static_cast<int64_t>(sizeof(float));
  return n_rows;
}

std::span<const float> Comparer::Waiting::Row(int64_t pos, size_t n_values) const {
  return std::span(floats).subspan(n_taken + static_cast<size_t>(pos - first) * n_values, n_values);
}

void Comparer::Waiting::Add(int64_t pos, std::span<const float> row) {
  if (floats.empty()) first = pos;
  end = pos + 1;
  floats.insert(floats.end(), row.begin(), row.end());
}

int64_t Comparer::Waiting::DropBefore(int64_t pos, size_t n_values) {
  const int64_t n_rows = std::clamp<int64_t>(pos - first, 0, end - first);
  first += n_rows;
  n_taken += static_cast<size_t>(n_rows) * n_values;
  if (first == end) {
    std::vector<float>().swap(floats);
    n_taken = 0;
  } else if (2 * n_taken > floats.size()) {
    floats.erase(floats.begin(), floats.begin() + static_cast<ptrdiff_t>(n_taken));
    n_taken = 0;
  }
  return n_rows;
}

void Comparer::Compare(PointState& state, const TokenRow& token, std::span<const float> a,
                       std::span<const float> b) {
  const RowPlace place = {token.request, token.pos};
  state.comparison.figures.Add(place, a, b);
  if (state.comparison.point.at.point != Point::kLogits) return;
  PromptSums& sums = sums_[token.request];
  ++sums.n_rows;
  sums.kl += KlOfLogits(a, b);
  const ArgmaxFlip flip = {place, token.token, ArgMax(a), ArgMax(b)};
  if (flip.a != flip.b) flips_.push_back(flip);
}

void Comparer::AddNotCompared(const PointAt& at, int64_t n_rows) {
  states_[IndexOf(at)].comparison.figures.AddNotCompared(n_rows);
}

Comparison Comparer::Finish() {
  Comparison comparison;
  for (PointState& state : states_) {
    for (std::array<Flow, 2>& flows : state.flows) {
      for (const Side side : {Side::kA, Side::kB}) {
        Flow& flow = flows[static_cast<size_t>(side)];
        state.comparison.figures.AddNotCompared(Drop(side, state, flow, flow.end));
      }
    }
    comparison.points.push_back(state.comparison);
  }
  Predictions& predictions = comparison.predictions;
  for (const auto& [prompt, sums] : sums_) {
    predictions.n_rows += sums.n_rows;
    predictions.kl_mean += sums.kl;
  }
  if (predictions.n_rows > 0) predictions.kl_mean /= static_cast<double>(predictions.n_rows);
  std::ranges::sort(flips_, [](const ArgmaxFlip& one, const ArgmaxFlip& other) {
    return one.place < other.place;
  });
  predictions.flips = std::move(flips_);
  return comparison;
}

}  // namespace ng::diff
