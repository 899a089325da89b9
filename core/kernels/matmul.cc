#include "core/kernels/matmul.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace ng {
namespace {

// With at most this many rows, reading the weights is most of the work, and columns are taken in
// wide strips. With more rows, the weights, inputs and outputs of a strip must fit the second-level
// cache together.
constexpr int64_t kFewRows = 12;
constexpr int64_t kFewRowsStrip = 8;   // blocks
constexpr int64_t kManyRowsStrip = 4;  // the widest tile of the kernels
constexpr int64_t kMostRows = 512;     // taken at a time

// One matmul cut into items. An item is a pair of column blocks (with many rows: a strip) times a
// group of rows. Items are numbered column by column through the first group of rows, then through
// the next.
class Work {
 public:
  Work(const MatmulArgs& all, int threads) : all_(all) {
    n_blocks_ = (all.n_columns + kBlockColumns - 1) / kBlockColumns;
    unit_blocks_ = all.n_rows <= kFewRows ? 2 : kManyRowsStrip;
    n_units_ = (n_blocks_ + unit_blocks_ - 1) / unit_blocks_;
    group_rows_ = RowsPerGroup(threads);
    n_groups_ = (all.n_rows + group_rows_ - 1) / group_rows_;
  }

  int64_t n_items() const { return n_units_ * n_groups_; }
  // What an item takes, in no unit: reading the weights counts like so many rows.
  int64_t ItemCost() const {
    return unit_blocks_ * all_.k * (std::min(group_rows_, all_.n_rows) + kFewRows);
  }

  // Calls strip(args) for the outputs of items [begin, end), strip by strip.
  template <typename Strip>
  void Run(int64_t begin, int64_t end, Strip&& strip) const {
    while (begin < end) {
      const int64_t row = begin / n_units_ * group_rows_;
      const int64_t unit = begin % n_units_;
      const int64_t n = std::min(end - begin, n_units_ - unit);
      const int64_t block_end = std::min((unit + n) * unit_blocks_, n_blocks_);
      const int64_t step = all_.n_rows <= kFewRows ? kFewRowsStrip : kManyRowsStrip;
      MatmulArgs args = all_;
      args.x += row * all_.x_stride;
      args.n_rows = std::min(group_rows_, all_.n_rows - row);
      for (int64_t block = unit * unit_blocks_; block < block_end; block += step) {
        args.block_begin = block;
        args.block_end = std::min(block + step, block_end);
        strip(args, row);
      }
      begin += n;
    }
  }

 private:
  // Each group reads the weights again. So there are more groups than the strips need only where
  // the columns alone would leave a worker idle for long.
  int64_t RowsPerGroup(int threads) const {
    constexpr int64_t kItemsPerThread = 8;  // an uneven split costs at most an eighth
    constexpr int64_t kFewestRows = 24;     // a multiple of the kernels' tile heights
    int64_t groups = (all_.n_rows + kMostRows - 1) / kMostRows;
    if (n_units_ % threads != 0) {
      groups = std::max(groups, (kItemsPerThread * threads + n_units_ - 1) / n_units_);
    }
    if (groups == 1) return all_.n_rows;
    const int64_t rows = (all_.n_rows + groups - 1) / groups;
    return std::min({all_.n_rows, kMostRows, (rows + kFewestRows - 1) / kFewestRows * kFewestRows});
  }

  const MatmulArgs& all_;
  int64_t n_blocks_;
  int64_t unit_blocks_;
  int64_t n_units_;
  int64_t group_rows_;
  int64_t n_groups_;
};

MatmulArgs ArgsOf(const MatmulCall& call) {
  assert(call.x.k == call.w.k());
  MatmulArgs args;
  args.x = call.x.data;
  args.x_stride = call.x.row_bytes;
  args.n_rows = call.x.n_rows;
  args.k = call.w.k();
  args.bias = call.bias;
  args.n_columns = call.w.n();
  return args;
}

// Computes a strip, band by band.
void RunStrip(const MatmulCall& call, const MatmulArgs& strip) {
  for (const PackedMatrix::Band& band : call.w.bands()) {
    const int64_t begin = std::max(strip.block_begin, band.block_begin);
    const int64_t end = std::min(strip.block_end, band.block_end);
    if (begin >= end) continue;
    const int64_t column = band.block_begin * kBlockColumns;
    MatmulArgs args = strip;
    args.weights = band.data;
    args.bias = strip.bias == nullptr ? nullptr : strip.bias + column;
    args.out += (begin - strip.block_begin) * kBlockColumns;
    args.n_columns -= column;
    args.block_begin = begin - band.block_begin;
    args.block_end = end - band.block_begin;
    call.kernels.matmul[static_cast<int>(band.type)](args);
  }
}

// Adds to a strip, whose first row this is, what adapters give its rows.
void AddLowRanks(const MatmulCall& call, const MatmulArgs& strip, int64_t first_row) {
  for (const LowRankRows& rows : call.x.low_ranks) {
    const int64_t begin = std::max(rows.begin, first_row);
    const int64_t end = std::min(rows.end, first_row + strip.n_rows);
    if (begin >= end) continue;
    const LowRank& added = *rows.low_rank;
    AddLowRankArgs args;
    args.inner_stride = added.n_ranks();
    args.out_stride = strip.out_stride;
    args.n_rows = end - begin;
    for (int64_t i = 0; i < strip.block_end - strip.block_begin; ++i) {
      const int64_t column = (strip.block_begin + i) * kBlockColumns;
      const LowRank::Block& block = added.blocks[static_cast<size_t>(strip.block_begin + i)];
      args.inner = rows.inner + (begin - rows.begin) * args.inner_stride + block.first;
      args.n_ranks = block.n;
      args.b = added.b.data() + block.at;
      if (!added.factors.empty()) {
        args.factors = added.factors.data() + column;
        args.offsets = added.offsets.data() + column;
      }
      args.out = strip.out + (begin - first_row) * strip.out_stride + i * kBlockColumns;
      args.n_columns = static_cast<int>(std::min(kBlockColumns, call.w.n() - column));
      call.kernels.add_low_rank(args);
    }
  }
}

// A strip with all that belongs to it. `row`: its first.
void FinishStrip(const MatmulCall& call, const MatmulArgs& strip, int64_t row) {
  RunStrip(call, strip);
  if (!call.x.low_ranks.empty()) AddLowRanks(call, strip, row);
}

// The floats of one worker's strip, of so many rows or fewer.
int64_t StripFloats(int64_t n_rows) {
  const int64_t few = std::min(n_rows, kFewRows) * kFewRowsStrip;
  const int64_t many = n_rows <= kFewRows ? 0 : std::min(n_rows, kMostRows) * kManyRowsStrip;
  return std::max(few, many) * kBlockColumns;
}

// Computes items [begin, end) strip by strip in `strip`, and gives each to the sink.
template <typename Sink>
void RunItems(const MatmulCall& call, const Work& work, int64_t begin, int64_t end, float* strip,
              Sink&& sink) {
  work.Run(begin, end, [&](MatmulArgs& args, int64_t row) {
    const int64_t column = args.block_begin * kBlockColumns;
    const int64_t n_columns = std::min(args.block_end * kBlockColumns, args.n_columns) - column;
    args.out_stride = (args.block_end - args.block_begin) * kBlockColumns;
    args.out = strip;
    FinishStrip(call, args, row);
    sink(MatmulTile{.row = row,
                    .n_rows = args.n_rows,
                    .column = column,
                    .n_columns = n_columns,
                    .data = strip,
                    .stride = args.out_stride});
  });
}

}  // namespace

absl::Status Matmul(const MatmulCall& call, const TensorView<float, 2>& out) {
  assert(out.extent[0] == call.x.n_rows && out.extent[1] == call.w.n());
  if (call.x.n_rows == 0) return absl::OkStatus();
  MatmulArgs all = ArgsOf(call);
  all.out_stride = out.stride[0];
  const Work work(all, call.executor.threads());
  return ParallelFor(
      call.executor, work.n_items(), [&](int64_t begin, int64_t end, int /*worker*/) {
        work.Run(begin, end, [&](MatmulArgs& args, int64_t row) {
          args.out = out.data + row * args.out_stride + args.block_begin * kBlockColumns;
          FinishStrip(call, args, row);
        });
      });
}

absl::Status Matmul(const MatmulCall& call, std::span<float> scratch, MatmulSink sink) {
  if (call.x.n_rows == 0) return absl::OkStatus();
  Executor& executor = call.executor;
  const int64_t strip_floats = StripFloats(call.x.n_rows);
  assert(static_cast<int64_t>(scratch.size()) >= executor.threads() * strip_floats);
  const MatmulArgs all = ArgsOf(call);
  const Work work(all, executor.threads());
  return ParallelFor(executor, work.n_items(), [&](int64_t begin, int64_t end, int worker) {
    RunItems(call, work, begin, end, scratch.data() + worker * strip_floats, sink);
  });
}

int64_t MatmulScratchFloats(int threads, int64_t n_rows) { return threads * StripFloats(n_rows); }

absl::Status Matmuls(std::span<const MatmulCall> calls, std::span<float> scratch,
                     MatmulsSink sink) {
  if (calls.empty()) return absl::OkStatus();
  Executor& executor = calls.front().executor;
  int64_t cost = 0;
  int64_t most_rows = 0;
  for (const MatmulCall& call : calls) {
    const MatmulArgs all = ArgsOf(call);
    const Work work(all, 1);
    cost += work.n_items() * work.ItemCost();
    most_rows = std::max(most_rows, call.x.n_rows);
  }
  const int64_t strip_floats = StripFloats(most_rows);
  assert(static_cast<int64_t>(scratch.size()) >= executor.threads() * strip_floats);
  // An item is done by whoever has the first of its cost.
  return ParallelFor(executor, cost, [&](int64_t begin, int64_t end, int worker) {
    int64_t before = 0;  // the cost of the calls so far
    for (size_t i = 0; i < calls.size() && before < end; ++i) {
      const MatmulArgs all = ArgsOf(calls[i]);
      const Work work(all, 1);
      const int64_t item_cost = work.ItemCost();
      const auto first_from = [&](int64_t at) {
        return std::clamp<int64_t>((at - before + item_cost - 1) / item_cost, 0, work.n_items());
      };
      const int64_t first = begin > before ? first_from(begin) : 0;
      RunItems(calls[i], work, first, first_from(end), scratch.data() + worker * strip_floats,
               [&](const MatmulTile& tile) { sink(i, tile); });
      before += work.n_items() * item_cost;
    }
  });
}

}  // namespace ng
