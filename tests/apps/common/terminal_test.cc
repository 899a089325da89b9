// Signals that come while nobody reads what a program writes.
#include "apps/common/terminal.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

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
    pthread_kill(pthread_self(), SIGTERM);
  });
  const absl::Status status = WriteStdout(std::string(size_t{1} << 22, 'x'));
  other.join();
  _exit(absl::IsCancelled(status) && SignalExitCode() == 128 + SIGTERM ? kWasInterrupted : 1);
}

TEST(Terminal, SignalEndsAWriteThatNobodyReadsAfterAnInterruptThatOnlyStops) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) WriteIntoFullPipe();
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "killed by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), kWasInterrupted);
}

}  // namespace
}  // namespace ng
