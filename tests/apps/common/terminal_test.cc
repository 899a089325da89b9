// Signals that come while nobody reads what a program writes.
#include "apps/common/terminal.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>

namespace ng {
namespace {

constexpr int kWasInterrupted = 17;

// Writes to a pipe that nobody reads. An interrupt that only stops what runs has come before. The
// signal that ends the program comes to another thread, so it wakes no wait of this one.
[[noreturn]] void WriteIntoFullPipe() {
  alarm(20);  // where the signal is missed
  int ends[2];
  if (pipe(ends) != 0 || dup2(ends[1], STDOUT_FILENO) < 0) _exit(1);
  WatchSignals();
  const InterruptsOnlyStop only_stops;
  std::raise(SIGINT);
  std::thread other([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    // It has a handler.
    pthread_kill(pthread_self(), SIGTERM);  // NOLINT(bugprone-bad-signal-to-kill-thread)
  });
  const absl::Status status = WriteStdout(std::string(size_t{1} << 22, 'x'));
  other.join();
  _exit(absl::IsCancelled(status) && SignalExitCode() == 128 + SIGTERM ? kWasInterrupted : 1);
}

// Interrupts come while earlier ones are taken. One that is left must have its byte in the pipe.
[[noreturn]] void TakeWhileTheyCome() {
  const std::atomic<bool>& stop = *WatchSignals();
  InterruptsOnlyStop interrupts;
  const pthread_t taker = pthread_self();
  std::atomic<int> round = 0;
  constexpr int kRounds = 500;
  std::atomic<int> sent = 0;
  std::thread sender([&] {
    for (int i = 1; i <= kRounds; ++i) {
      while (round < i) std::this_thread::yield();
      pthread_kill(taker, SIGINT);
      sent = i;
    }
  });
  bool lost = false;
  for (int i = 1; i <= kRounds; ++i) {
    round = i;
    do {
      interrupts.Take();
      std::this_thread::yield();
    } while (sent < i);
    pollfd wait = {SignalPipe(), POLLIN, 0};
    lost |= stop && poll(&wait, 1, 0) != 1;
  }
  sender.join();
  _exit(lost ? 1 : 0);
}

int ExitCodeOfChild(void (*run)()) {
  const pid_t child = fork();
  if (child == 0) run();
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

TEST(Terminal, InterruptThatComesWhileOneIsTakenIsSeen) {
  EXPECT_EQ(ExitCodeOfChild(TakeWhileTheyCome), 0);
}

TEST(Terminal, SignalEndsAWriteThatNobodyReadsAfterAnInterruptThatOnlyStops) {
  EXPECT_EQ(ExitCodeOfChild(WriteIntoFullPipe), kWasInterrupted);
}

}  // namespace
}  // namespace ng
