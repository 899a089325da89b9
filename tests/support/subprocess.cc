#include "tests/support/subprocess.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

namespace ng::test {
namespace {

struct Pipe {
  int read_end = -1;
  int write_end = -1;

  Pipe() {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    read_end = ends[0];
    write_end = ends[1];
  }
  ~Pipe() {
    CloseRead();
    CloseWrite();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void CloseRead() { Close(&read_end); }
  void CloseWrite() { Close(&write_end); }
  static void Close(int* fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
  }
};

// Moves what is there from a pipe to a text; closes the pipe at its end.
void Drain(Pipe& pipe, std::string* text) {
  char buffer[65536];
  const ssize_t n = read(pipe.read_end, buffer, sizeof(buffer));
  if (n > 0) {
    text->append(buffer, static_cast<size_t>(n));
  } else if (n == 0) {
    pipe.CloseRead();
  }
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Result Run(const Command& command) {
  std::signal(SIGPIPE, SIG_IGN);
  Pipe in;
  Pipe out;
  Pipe err;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.read_end, 0);
  if (command.stdout_file.empty()) {
    posix_spawn_file_actions_adddup2(&actions, out.write_end, 1);
  } else {
    posix_spawn_file_actions_addopen(&actions, 1, command.stdout_file.c_str(), O_WRONLY, 0);
  }
  posix_spawn_file_actions_adddup2(&actions, err.write_end, 2);

  const bool absolute = command.program.rfind('/', 0) == 0;
  std::vector<std::string> arguments = {
      absolute ? command.program : std::string(NG_BINARY_DIR "/bin/") + command.program};
  arguments.insert(arguments.end(), command.arguments.begin(), command.arguments.end());
  std::vector<std::string> environment = command.environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  pid_t child = 0;
  const int error = posix_spawn(&child, arguments[0].c_str(), &actions, nullptr,
                                Pointers(arguments).data(), Pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  Result result;
  if (error != 0) {
    ADD_FAILURE() << arguments[0] << ": " << std::strerror(error);
    return result;
  }
  in.CloseRead();
  out.CloseWrite();
  err.CloseWrite();

  size_t sent = 0;
  bool signalled = command.signal == 0;
  while (out.read_end >= 0 || err.read_end >= 0) {
    const bool all_sent = sent == command.input.size();
    if (all_sent && !command.hold_stdin) in.CloseWrite();
    pollfd fds[3] = {{out.read_end, POLLIN, 0},
                     {err.read_end, POLLIN, 0},
                     {all_sent ? -1 : in.write_end, POLLOUT, 0}};
    poll(fds, 3, -1);
    if (fds[0].revents != 0) Drain(out, &result.out);
    if (fds[1].revents != 0) Drain(err, &result.err);
    if (fds[2].revents != 0) {
      const ssize_t n =
          write(in.write_end, command.input.data() + sent, command.input.size() - sent);
      if (n > 0) sent += static_cast<size_t>(n);
      if (n < 0) sent = command.input.size();  // the program reads no more
    }
    if (!signalled && result.out.size() + result.err.size() >= command.signal_after) {
      kill(child, command.signal);
      if (command.next_signal != 0) kill(child, command.next_signal);
      signalled = true;
    }
  }
  int status = 0;
  rusage usage = {};
  wait4(child, &status, 0, &usage);
  result.peak_bytes = int64_t{usage.ru_maxrss} * 1024;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace ng::test
