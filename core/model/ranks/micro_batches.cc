#include "core/model/ranks/micro_batches.h"

#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/machine/float_environment.h"

namespace ng {

absl::Status MicroBatches::Run(absl::FunctionRef<void(int)> begin, Call body) {
  begin_ = &begin;
  {
    std::vector<std::jthread> threads;
    const int last = n_pieces_ - 1;
    try {
      threads.reserve(static_cast<size_t>(last));
      for (int piece = 0; piece < last; ++piece) {
        threads.emplace_back([this, piece, body] {
          const DefaultFloatEnvironment environment;
          RunPiece(piece, body);
        });
      }
    } catch (const std::system_error& error) {
      const std::lock_guard lock(mutex_);
      Fail(RuntimeError(absl::StrCat("a thread for a piece of the step's rows cannot be begun (",
                                     error.what(), "); fabric.pieces = 1 needs none")));
    }
    RunPiece(last, body);
  }
  if (thrown_ != nullptr) std::rethrow_exception(thrown_);
  return failed_;
}

void MicroBatches::RunPiece(int piece, Call body) {
  absl::Status status;
  {
    std::unique_lock lock(mutex_);
    status = Await(piece, lock);
  }
  std::exception_ptr thrown;
  try {
    if (status.ok()) status = body();
  } catch (...) {
    thrown = std::current_exception();
    status = RuntimeError("an exception in a piece of the step's rows");
  }
  const std::lock_guard lock(mutex_);
  if (thrown_ == nullptr) thrown_ = thrown;
  if (!status.ok()) Fail(std::move(status));
  Pass();
}

absl::Status MicroBatches::Send(Call send) {
  std::unique_lock lock(mutex_);
  const int64_t next_turn = turn_ + n_pieces_;
  const int64_t message = n_ready_++;
  Pass();
  changed_.wait(lock, [&] { return n_sent_ == message || !failed_.ok(); });
  if (!failed_.ok()) return failed_;
  lock.unlock();
  absl::Status sent = send();
  lock.lock();
  ++n_sent_;
  if (!sent.ok()) Fail(std::move(sent));
  changed_.notify_all();
  return Await(next_turn, lock);
}

absl::Status MicroBatches::Together(Call all) {
  std::unique_lock lock(mutex_);
  NG_RETURN_IF_ERROR(failed_);
  const int64_t next_turn = turn_ + n_pieces_;
  if (next_turn % n_pieces_ == n_pieces_ - 1) {
    lock.unlock();
    NG_RETURN_IF_ERROR(all());
    lock.lock();
  }
  Pass();
  return Await(next_turn, lock);
}

absl::Status MicroBatches::Await(int64_t turn, std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [&] { return turn_ == turn || !failed_.ok(); });
  NG_RETURN_IF_ERROR(failed_);
  (*begin_)(static_cast<int>(turn % n_pieces_));
  return absl::OkStatus();
}

void MicroBatches::Pass() {
  ++turn_;
  changed_.notify_all();
}

void MicroBatches::Fail(absl::Status status) {
  if (failed_.ok()) failed_ = std::move(status);
  changed_.notify_all();
}

}  // namespace ng
