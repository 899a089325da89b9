// The mean and the covariance of the queries of a sequence, for policies that go by them.
//
// For each query head of each layer the numbers of the queries, and their products two by two, are
// added up in double, row by row in the order of positions: products of floats are exact in double,
// so the sums have the same bits however a text was split into steps, and on every CPU.
//
// Rows may still go: a step may be abandoned, and what a draft was wrong about is truncated. The
// newest rows are in a log, from which they are added when it is full and they have stayed. A step
// that is longer than the log adds its rows to a copy of the sums, which is taken when it is
// committed; then the sequence can go back to where that step began.
#ifndef NG_PLUGINS_CACHE_BUDGET_QUERY_SUMS_H_
#define NG_PLUGINS_CACHE_BUDGET_QUERY_SUMS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ng/cache_store.h"
#include "ng/executor.h"
#include "ng/isa.h"
#include "ng/policy.h"
#include "ng/status.h"
#include "ng/tensor_view.h"
#include "plugins/cache/budget/layer_states.h"
#include "plugins/cache/budget/query_kernel.h"
#include "plugins/cache/budget/sequence_image.h"

namespace ng {

struct QueryShape {
  int64_t max_sequences = 0;
  int64_t n_layers = 0;
  int64_t n_heads = 0;  // the most of any layer
  int64_t n_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t first = 0;     // queries of tokens before this position do not count
  bool at_mark = false;  // nor do those behind the mark
  int64_t log_rows = 1;
  // Where they lie, in bytes: double [max_sequences, n_layers, 2, n_heads, sums()], and float
  // [max_sequences, n_layers, log_rows, n_heads, head_dim].
  int64_t data = 0;
  int64_t log = 0;

  int64_t sums() const { return QuerySumsOf(head_dim); }  // of a query head
};

class QuerySums {
 public:
  // memory: the store's, in which the shape says where.
  QuerySums(const QueryShape& shape, Executor& executor, IsaLevel isa, std::byte* memory);

  // As PlainQueries::Queries, of one sequence. q: [n_rows of the step, n_heads, head_dim]
  absl::Status Add(int layer, const SequenceRows& rows, const TensorView<const float, 3>& q);
  // Of the query heads that share a kv head, once `rows`, which have been added, are committed.
  // memory: [StatisticsSize()], in which the answer lies. [worker]
  QueryStatistics Of(int layer, int kv_head, const SequenceRows& rows,
                     std::span<double> memory) const;
  static int64_t StatisticsSize(int64_t n_heads, int64_t head_dim) {
    return n_heads * head_dim * (1 + head_dim);
  }
  void Commit(const SequenceRows& rows);

  void SetMark(SequenceId sequence, int64_t length);  // 0: it is not known
  void Forget(SequenceId sequence);                   // all rows
  void Copy(SequenceId from, SequenceId to);
  // Whether the rows from `length` on can be taken away again; Truncate then does.
  bool CanTruncate(SequenceId sequence, int64_t length) const;
  void Truncate(SequenceId sequence, int64_t length);
  // What is known of the rows that are committed. Read: of a sequence that is as long.
  void Walk(SequenceId sequence, int layer, SequenceImage& image);

 private:
  // Of one layer of a sequence.
  struct Layer {
    int64_t n_heads = 0;    // of its queries; 0: none has come
    int64_t end = 0;        // rows before this one are in the sums; those of the log follow
    int64_t n_log = 0;      // rows in the log
    int64_t previous = -1;  // the other sums are of the rows before this one; -1: of none
    bool any[2] = {};       // whether the two sums have any rows, else they hold anything
    int now = 0;            // which of them
    bool pending = false;   // the other sums are those of a step that may still be abandoned
  };
  // Rows of queries, of which the first is at a position. [n, n_heads, head_dim]
  struct Rows {
    const float* data = nullptr;
    int64_t stride = 0;  // from one row to the next
    int64_t position = 0;
    int64_t n = 0;
  };

  // Of the rows those that count.
  Rows Counted(SequenceId sequence, Rows rows) const;
  int64_t Limit(SequenceId sequence) const;  // rows from this one on do not count
  // sums = from, or none, and the rows. sums: [sums()] of one head
  void AddHead(const Rows& rows, int64_t head, const double* from, double* sums) const;
  // Into the sums `to`, of the present ones.
  absl::Status AddRows(int layer, SequenceId sequence, const Rows& rows, int to);
  Rows LogRows(SequenceId sequence, int layer) const;

  double* SumsOf(SequenceId sequence, int layer, int which, int64_t head) const {
    const int64_t at = ((sequence * shape_.n_layers + layer) * 2 + which) * shape_.n_heads + head;
    return data_ + at * shape_.sums();
  }
  float* LogOf(SequenceId sequence, int layer) const {
    return log_ + (sequence * shape_.n_layers + layer) * shape_.log_rows * row_width();
  }
  int64_t row_width() const { return shape_.n_heads * shape_.head_dim; }

  const QueryShape shape_;
  const QueryKernel& kernel_;
  Executor& executor_;
  double* const data_;
  float* const log_;
  LayerStates<Layer> layers_;
  std::vector<int64_t> marks_;  // [max_sequences]
};

}  // namespace ng

#endif  // NG_PLUGINS_CACHE_BUDGET_QUERY_SUMS_H_
