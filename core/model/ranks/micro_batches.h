// MicroBatches: the rows of a step in pieces that take turns. While what other processes give for
// one piece is on its way, the next piece is computed.
//
// Made by the decoder for a step of many rows whose matrices are cut over ranks. A piece has a
// thread of its own, so the code of a step reads the same with pieces and without. Only one piece
// is computed at a time, in a fixed order, and messages are sent in that order, one after the
// other: all ranks compute the same pieces and send the same messages.
#ifndef NG_CORE_MODEL_RANKS_MICRO_BATCHES_H_
#define NG_CORE_MODEL_RANKS_MICRO_BATCHES_H_

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>

#include "absl/functional/function_ref.h"
#include "ng/status.h"

namespace ng {

class MicroBatches {
 public:
  using Call = absl::FunctionRef<absl::Status()>;

  explicit MicroBatches(int n_pieces) : n_pieces_(n_pieces) {}

  // Calls body() for each piece, in turns. `begin(piece)` is called whenever the turn of a piece
  // begins. The last piece is computed on the calling thread. Returns the first error: the other
  // pieces then end at their next turn. An exception is thrown again here. Errors: the body's;
  // RuntimeError when the system gives no thread.
  absl::Status Run(absl::FunctionRef<void(int piece)> begin, Call body);

  // What a body calls, in its turn. All bodies make the same calls in the same order.
  //
  // Calls send() while other pieces are computed, and waits for the next turn. Errors: send's;
  // another piece's.
  absl::Status Send(Call send);
  // Every piece comes here; then all() is called once, on the thread that has called Run. Errors:
  // as Send.
  absl::Status Together(Call all);

 private:
  // The body of a piece, on its own thread.
  void RunPiece(int piece, Call body);
  // Waits for the turn of that number. `lock` is of mutex_.
  absl::Status Await(int64_t turn, std::unique_lock<std::mutex>& lock);
  void Pass();  // the turn, to the next piece; mutex_ is held
  void Fail(absl::Status status);

  const int n_pieces_;
  absl::FunctionRef<void(int)>* begin_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t turn_ = 0;     // turns are counted: that of number t is of piece t % n_pieces_
  int64_t n_ready_ = 0;  // messages that were given to Send
  int64_t n_sent_ = 0;
  absl::Status failed_;
  std::exception_ptr thrown_;
};

}  // namespace ng

#endif  // NG_CORE_MODEL_RANKS_MICRO_BATCHES_H_
