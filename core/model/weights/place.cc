#include "core/model/weights/place.h"

#include <algorithm>
#include <span>

namespace ng {
namespace {

// Where a row of several tensors in one is.
struct SegmentRow {
  Segment segment;
  int64_t group = 0;
  int64_t row = 0;  // of the segment in its group
};
SegmentRow RowInGroups(std::span<const Segment> segments, int64_t row) {
  int64_t size = segments[0].rows;
  for (const Segment& segment : segments.subspan(1)) size += segment.rows;
  SegmentRow at = {segments[0], row / size, row % size};
  for (size_t i = 1; at.row >= at.segment.rows; ++i) {
    at.row -= at.segment.rows;
    at.segment = segments[i];
  }
  return at;
}

}  // namespace

int64_t Place::WholeRowOf(int64_t row) const {
  switch (order) {
    case RowOrder::kPlain:
      return first + row;
    case RowOrder::kInterleaved:
      return first + row / kBlockColumns * kBlockColumns + row;
    case RowOrder::kTurns: {
      const int64_t in_half = row / 2;
      return first + row % 2 * kBlockColumns + in_half / kBlockColumns * kBlockColumns + in_half;
    }
    case RowOrder::kHalves: {
      const int64_t half = row / unit;
      row -= half * unit;
      return first + half * kBlockColumns + row / kBlockColumns * kBlockColumns + row;
    }
    case RowOrder::kPaired: {
      if (row >= n_paired) return first + row;
      const int64_t in_head = row % unit;
      return first + row - in_head + in_head % 2 * (unit / 2) + in_head / 2;
    }
    case RowOrder::kGroups: {
      const SegmentRow at = RowInGroups(segments, row);
      return first + at.segment.begin + at.group * at.segment.rows + at.row;
    }
    case RowOrder::kTaps:
      return first + row % unit * (size / unit) + row / unit;
  }
  return first + row;
}

int64_t Place::WholeRunOf(int64_t row, int64_t end) const {
  switch (order) {
    case RowOrder::kPlain:
      return end - row;
    case RowOrder::kInterleaved:
      return std::min(end - row, kBlockColumns - row % kBlockColumns);
    case RowOrder::kHalves: {
      const int64_t in_half = row % unit;
      return std::min({end - row, unit - in_half, kBlockColumns - in_half % kBlockColumns});
    }
    case RowOrder::kTurns:
    case RowOrder::kTaps:
      return 1;
    case RowOrder::kPaired:
      return row < n_paired ? 1 : end - row;
    case RowOrder::kGroups: {
      const SegmentRow at = RowInGroups(segments, row);
      return std::min(end - row, at.segment.rows - at.row);
    }
  }
  return 1;
}

int64_t Place::RowOf(int64_t row) const {
  const int64_t whole = WholeRowOf(row);
  if (held.empty()) return whole;
  for (const HeldRows& rows : held) {
    if (whole >= rows.begin && whole < rows.end) return rows.to + whole - rows.begin;
  }
  return -1;
}

int64_t Place::RunOf(int64_t row, int64_t end) const {
  const int64_t run = WholeRunOf(row, end);
  const int64_t whole = WholeRowOf(row);
  for (const HeldRows& rows : held) {
    if (whole >= rows.begin && whole < rows.end) return std::min(run, rows.end - whole);
  }
  return run;
}

std::pair<int64_t, int64_t> Place::NextHeld(int64_t row, int64_t end) const {
  if (held.empty()) return {row, end};
  while (row < end && RowOf(row) < 0) ++row;
  int64_t after = row;
  while (after < end && RowOf(after) >= 0) ++after;
  return {row, after};
}

int64_t Place::held_size() const {
  if (held.empty()) return size;
  int64_t n = 0;
  for (const HeldRows& rows : held) n += rows.end - rows.begin;
  return n;
}

WeightType Place::type() const {
  if (held.empty()) return matrix->type(first);
  // A row of this tensor's that is held: gate and up begin where every pair of blocks does.
  const auto rows = std::ranges::find_if(held, [&](const auto& one) { return one.end > first; });
  const bool in_turn = order == RowOrder::kInterleaved;
  return matrix->type(rows->to + (in_turn ? first : std::max<int64_t>(0, first - rows->begin)));
}

}  // namespace ng
