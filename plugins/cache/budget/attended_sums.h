// The attention that the tokens of a cache with a budget got, for policies that go by it.
//
// For each slot of each kv head the mass of the queries that count is added up in double, row by
// row in the order of positions. So the sums have the same bits however a text was split into
// steps. The queries that count are all of them, or the last `queries` before each boundary: of
// others nobody is asked.
//
// Rows may still go: a step may be abandoned, and what a draft was wrong about is truncated. A step
// of more than `drafts` tokens adds its rows to a copy of the sums, which is taken when it is
// committed; then the sequence can go back to where that step began, or to before the first row
// that counts. A smaller step leaves its rows in a log, from which they are added by the next one,
// as far as they have stayed.
//
// Where kv heads hold different numbers of tokens, the slots of each lie where those of its keys
// do, so that all together take no more.
#ifndef NG_PLUGINS_CACHE_BUDGET_ATTENDED_SUMS_H_
#define NG_PLUGINS_CACHE_BUDGET_ATTENDED_SUMS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ng/cache_store.h"
#include "ng/executor.h"
#include "ng/kv_view.h"
#include "ng/status.h"
#include "ng/tensor_view.h"
#include "plugins/cache/budget/layer_states.h"
#include "plugins/cache/budget/sequence_image.h"

namespace ng {

struct AttendedShape {
  int64_t max_sequences = 0;
  int64_t n_layers = 0;
  int64_t n_kv_heads = 0;
  int64_t slots = 0;        // of a kv head, as long as no token has left
  int64_t layer_slots = 0;  // of all kv heads of a layer; 0: so many each
  int64_t drafts = 0;       // the most tokens of a step whose rows are kept one by one
  int64_t queries = 0;      // before a boundary, that count; 0: all
  int64_t every = 1;        // positions from one boundary to the next; 0: the only one is the mark
  // Where they lie, in bytes: double [max_sequences, n_layers, 2, total()], and float
  // [max_sequences, n_layers, drafts, total()].
  int64_t sums = 0;
  int64_t log = 0;

  int64_t total() const { return layer_slots == 0 ? n_kv_heads * slots : layer_slots; }
};

class AttendedSums {
 public:
  // memory: the store's, in which the shape says where.
  AttendedSums(const AttendedShape& shape, Executor& executor, std::byte* memory);

  // Of the rows' tokens so many count, the last ones.
  int64_t Wanted(const SequenceRows& rows) const;
  // As AttendedMass::Attended.
  absl::Status Add(int layer, const SequenceRows& rows, const TensorView<const float, 3>& mass);
  // What a kv head's tokens have got once `rows`, which all have been added, are committed. out:
  // [n_slots] [worker]
  void Sum(int layer, int kv_head, const SequenceRows& rows, std::span<float> out) const;
  void Commit(const SequenceRows& rows);
  // Where tokens leave, behind the Commit of `rows`: first Settle, then Keep of every kv head, of
  // which the slots `kept` are left, rising; then Left, with the most that are left in a head, and
  // where these hold different numbers, with all of them.
  void Settle(const SequenceRows& rows);
  void Keep(int layer, int kv_head, SequenceId sequence,
            std::span<const int32_t> kept);  // [worker]
  void Left(int layer, SequenceId sequence, int64_t n_slots, std::span<const HeadSlots> heads);

  // Where every = 0: the context of a sequence ends at `length`; 0: it is not known yet.
  void SetMark(SequenceId sequence, int64_t length);
  void Forget(SequenceId sequence);  // all rows
  void Copy(SequenceId from, SequenceId to);
  // Whether the rows from `length` on can be taken away again; Truncate then does.
  bool CanTruncate(SequenceId sequence, int64_t length) const;
  void Truncate(SequenceId sequence, int64_t length);
  // What is known of the rows that are committed. Read: of a layer that holds as much.
  struct Holding {
    SequenceId sequence = 0;
    int layer = 0;
    int64_t n_slots = 0;                    // of the head that holds most
    std::span<const HeadSlots> heads = {};  // as in Left
  };
  void Walk(const Holding& holding, SequenceImage& image);

 private:
  // Of one layer of a sequence.
  struct Layer {
    int64_t begin = 0;      // rows before this one do not count
    int64_t end = 0;        // those before this one are in the sums, or have left
    int64_t previous = -1;  // the other sums are of the rows before this one; -1: of none
    int64_t log_begin = 0;  // the rows of the log
    int64_t n_log = 0;
    int64_t valid[2] = {};  // so many slots have sums, in the head with most of them; those behind
                            // have nothing
    int now = 0;            // which of the two sums
    bool pending = false;   // the other sums are those of a step that may still be abandoned
  };

  // The slots of a head, among those of its layer.
  struct Place {
    int64_t first = 0;
    int64_t room = 0;
    int64_t fewer = 0;  // than the head that holds most has

    // Of so many in the head that holds most.
    int64_t Own(int64_t n_slots) const { return std::clamp<int64_t>(n_slots - fewer, 0, room); }
  };

  // The first row that counts of those before the boundary that is next at `position`.
  int64_t FirstCounted(SequenceId sequence, int64_t position) const;
  bool Logs(const SequenceRows& rows) const { return rows.n_tokens <= shape_.drafts; }
  // Adds the rows of the log that come before `end`.
  void AddLog(int layer, SequenceId sequence, int64_t end);
  // Makes the other sums, of these and the rows.
  absl::Status AddRows(int layer, const SequenceRows& rows, const TensorView<const float, 3>& mass);

  // Those of heads that hold as many, or none: as long as no token has left.
  void SetPlaces(SequenceId sequence, int layer, std::span<const HeadSlots> heads);
  std::span<Place> PlacesOf(SequenceId sequence, int layer) {
    const auto n = static_cast<size_t>(shape_.n_kv_heads);
    return std::span(places_).subspan(static_cast<size_t>(LayerOf(sequence, layer)) * n, n);
  }
  const Place& PlaceOf(SequenceId sequence, int layer, int64_t kv_head) const {
    return places_[static_cast<size_t>(LayerOf(sequence, layer) * shape_.n_kv_heads + kv_head)];
  }
  int64_t LayerOf(SequenceId sequence, int layer) const {
    return sequence * shape_.n_layers + layer;
  }
  double* SumsOf(SequenceId sequence, int layer, int64_t kv_head, int which) const {
    return sums_ + (2 * LayerOf(sequence, layer) + which) * shape_.total() +
           PlaceOf(sequence, layer, kv_head).first;
  }
  float* LogOf(SequenceId sequence, int layer, int64_t kv_head, int64_t row) const {
    return log_ + (LayerOf(sequence, layer) * shape_.drafts + row) * shape_.total() +
           PlaceOf(sequence, layer, kv_head).first;
  }

  const AttendedShape shape_;
  Executor& executor_;
  double* const sums_;
  float* const log_;
  LayerStates<Layer> layers_;
  std::vector<Place> places_;   // [max_sequences, n_layers, n_kv_heads]
  std::vector<int64_t> marks_;  // [max_sequences]
};

}  // namespace ng

#endif  // NG_PLUGINS_CACHE_BUDGET_ATTENDED_SUMS_H_
