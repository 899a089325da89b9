#include "tests/faults/launch.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <new>
#include <stdexcept>

namespace ng::faults {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kSlowBytes = 256;  // that a slow reader takes
constexpr std::chrono::milliseconds kSlowPause{1};
// How long after the last signal nobody reads a pipe that is stuck, as a share of the timeout.
constexpr double kStuckAfterSignal = 0.5;

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { Close(); }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void Take(int fd) {
    Close();
    fd_ = fd;
  }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

struct PipePair {
  Fd read_end;
  Fd write_end;
  PipePair() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
    read_end.Take(ends[0]);
    write_end.Take(ends[1]);
  }
};

class Page {
 public:
  explicit Page(const std::string& path) {
    const Fd fd(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!fd.open() || ftruncate(fd.get(), sizeof(FaultPage)) != 0) {
      throw std::runtime_error("cannot create " + path);
    }
    memory_ = mmap(nullptr, sizeof(FaultPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (memory_ == MAP_FAILED) throw std::runtime_error("cannot map " + path);
  }
  ~Page() { munmap(memory_, sizeof(FaultPage)); }
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;
  const FaultPage& operator*() const { return *static_cast<const FaultPage*>(memory_); }

 private:
  void* memory_ = nullptr;
};

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> Environment(const Launch& launch) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  environment.push_back("LD_PRELOAD=" + launch.faults_library);
  environment.push_back("NG_FAULT_PAGE=" + launch.page);
  if (launch.processes > 0) {
    environment.push_back("NG_FAULT_PROCESSES=" + std::to_string(launch.processes));
  }
  if (!launch.plan.empty()) environment.push_back("NG_FAULT=" + launch.plan);
  return environment;
}

// What the child does between fork and exec: nothing that allocates, since other threads of the
// campaign may hold its locks.
struct Child {
  const char* program;
  char** arguments;
  char** environment;
  const char* folder;
  std::array<int, 3> streams;  // -1: closed
  const Launch* launch;

  [[noreturn]] void Begin() const {
    setpgid(0, 0);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) {
      std::signal(signal, SIG_DFL);
    }
    for (const int signal : launch->ignored) std::signal(signal, SIG_IGN);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    if (chdir(folder) != 0) _exit(98);
    // First out of the way of 0 to 2, then to their places.
    std::array<int, 3> high = streams;
    for (int& fd : high) {
      if (fd >= 0) fd = fcntl(fd, F_DUPFD_CLOEXEC, 10);
    }
    for (int i = 0; i < 3; ++i) {
      if (high[static_cast<size_t>(i)] >= 0) {
        dup2(high[static_cast<size_t>(i)], i);
      } else {
        close(i);
      }
    }
    for (const Limit& limit : launch->limits) {
      const rlimit value = {limit.value, limit.value};
      setrlimit(limit.resource, &value);
    }
    const rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    execve(program, arguments, environment);
    _exit(98);
  }
};

// One of the program's outputs, as somebody reads it.
class Reader {
 public:
  Reader(Stream stream, std::string* text) : stream_(stream), text_(text) {}

  // The descriptor that the program gets; -1: none.
  int ProgramEnd() {
    switch (stream_) {
      case Stream::kClosed:
        return -1;
      case Stream::kFull:
        file_.Take(open("/dev/full", O_WRONLY | O_CLOEXEC));
        return file_.get();
      case Stream::kGone:
        pipe_.read_end.Close();
        return pipe_.write_end.get();
      default:
        return pipe_.write_end.get();
    }
  }
  void Started() {
    pipe_.write_end.Close();
    file_.Close();
    if (stream_ == Stream::kClosed || stream_ == Stream::kFull) pipe_.read_end.Close();
    if (pipe_.read_end.open() && stream_ == Stream::kStuck) {
      fcntl(pipe_.read_end.get(), F_SETPIPE_SZ, 4096);
    }
  }
  bool open_yet() const { return pipe_.read_end.open(); }
  // What to wait for; -1 where it does not read now.
  int Waiting(bool stuck, Clock::time_point now) const {
    if (stream_ == Stream::kStuck && stuck) return -1;
    if (stream_ == Stream::kSlow && now < next_) return -1;
    return pipe_.read_end.get();
  }
  void Read(Clock::time_point now) {
    char buffer[65536];
    const size_t most = stream_ == Stream::kSlow ? kSlowBytes : sizeof(buffer);
    const ssize_t n = read(pipe_.read_end.get(), buffer, most);
    if (n > 0) text_->append(buffer, static_cast<size_t>(n));
    if (n == 0) pipe_.read_end.Close();
    next_ = now + kSlowPause;
  }

 private:
  Stream stream_;
  std::string* text_;
  PipePair pipe_;
  Fd file_;
  Clock::time_point next_{};
};

class Writer {
 public:
  explicit Writer(const Launch& launch) : stream_(launch.in), input_(launch.input) {}

  int ProgramEnd() {
    if (stream_ == Stream::kClosed) return -1;
    if (stream_ == Stream::kFolder) {
      file_.Take(open("/", O_RDONLY | O_CLOEXEC));
      return file_.get();
    }
    return pipe_.read_end.get();
  }
  void Started() {
    pipe_.read_end.Close();
    file_.Close();
    fcntl(pipe_.write_end.get(), F_SETFL, O_NONBLOCK);
    CloseAtEnd();
  }
  int Waiting() const { return sent_ < input_.size() ? pipe_.write_end.get() : -1; }
  void Write() {
    const ssize_t n = write(pipe_.write_end.get(), input_.data() + sent_, input_.size() - sent_);
    if (n > 0) sent_ += static_cast<size_t>(n);
    if (n < 0 && errno != EAGAIN) sent_ = input_.size();  // the program reads no more
    CloseAtEnd();
  }

 private:
  void CloseAtEnd() {
    if (sent_ == input_.size() && stream_ != Stream::kHeld) pipe_.write_end.Close();
  }

  Stream stream_;
  const std::string& input_;
  size_t sent_ = 0;
  PipePair pipe_;
  Fd file_;
};

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// Feeds, reads and signals the program until it has ended and its outputs with it.
void Attend(const Launch& launch, pid_t child, std::array<Reader*, 2> readers, Writer& writer,
            Outcome* outcome) {
  const Clock::time_point start = Clock::now();
  const auto at = [&](const TimedSignal& signal) {
    return start + std::chrono::microseconds(signal.after_us);
  };
  size_t next_signal = 0;
  Clock::time_point first_signal{};
  Clock::time_point last_signal = start;
  bool ended = false;
  int status = 0;
  while (!ended || readers[0]->open_yet() || readers[1]->open_yet()) {
    const Clock::time_point now = Clock::now();
    if (!ended && waitpid(child, &status, WNOHANG) == child) {
      ended = true;
      outcome->seconds = Seconds(now - start);
      if (first_signal != Clock::time_point{}) outcome->after_signal = Seconds(now - first_signal);
    }
    while (!ended && next_signal < launch.signals.size() &&
           now >= at(launch.signals[next_signal])) {
      kill(child, launch.signals[next_signal++].number);
      if (outcome->n_signals++ == 0) first_signal = now;
      last_signal = now;
    }
    if (Seconds(now - start) > launch.timeout_s) {
      outcome->timed_out = true;
      kill(-child, SIGKILL);
      if (!ended) waitpid(child, &status, 0);
      return;
    }
    const bool stuck =
        !ended && (next_signal < launch.signals.size() ||
                   Seconds(now - last_signal) < kStuckAfterSignal * launch.timeout_s);
    pollfd fds[3] = {{readers[0]->Waiting(stuck, now), POLLIN, 0},
                     {readers[1]->Waiting(stuck, now), POLLIN, 0},
                     {writer.Waiting(), POLLOUT, 0}};
    Clock::duration pause = std::chrono::milliseconds(1);
    if (!ended && next_signal < launch.signals.size()) {
      pause = std::clamp<Clock::duration>(at(launch.signals[next_signal]) - now, {}, pause);
    }
    const timespec wait = {0, std::chrono::duration_cast<std::chrono::nanoseconds>(pause).count()};
    if (ppoll(fds, 3, &wait, nullptr) <= 0) continue;
    for (size_t i = 0; i < 2; ++i) {
      if (fds[i].revents != 0) readers[i]->Read(now);
    }
    if (fds[2].revents != 0) writer.Write();
  }
  outcome->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  outcome->code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string Quoted(const std::string& text) {
  if (text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                             "_-+=.,:/") == std::string::npos &&
      !text.empty()) {
    return text;
  }
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace

Outcome Run(const Launch& launch) {
  Outcome outcome;
  const Page page(launch.page);
  Reader out(launch.out, &outcome.out);
  Reader err(launch.err, &outcome.err);
  Writer in(launch);
  std::vector<std::string> arguments = {launch.program};
  arguments.insert(arguments.end(), launch.arguments.begin(), launch.arguments.end());
  const std::vector<std::string> environment = Environment(launch);
  std::vector<char*> argument_pointers = Pointers(arguments);
  std::vector<char*> environment_pointers = Pointers(environment);
  const Child child = {launch.program.c_str(),
                       argument_pointers.data(),
                       environment_pointers.data(),
                       launch.folder.c_str(),
                       {in.ProgramEnd(), out.ProgramEnd(), err.ProgramEnd()},
                       &launch};
  const pid_t pid = fork();
  if (pid == 0) child.Begin();
  if (pid < 0) throw std::runtime_error("fork failed");
  in.Started();
  out.Started();
  err.Started();
  Attend(launch, pid, {&out, &err}, in, &outcome);
  outcome.main_began = (*page).main_began != 0;
  outcome.handled = (*page).handled;
  for (size_t i = 0; i < kCallKinds; ++i) outcome.counts[i] = (*page).counts[i];
  outcome.n_struck = (*page).n_struck;
  outcome.where = (*page).where.data();
  return outcome;
}

std::string ShellLine(const Launch& launch) {
  std::string line = "cd " + Quoted(launch.folder) + " && ";
  if (!launch.plan.empty()) {
    line += "LD_PRELOAD=" + launch.faults_library + " NG_FAULT=" + launch.plan + " ";
  }
  line += launch.program;
  for (const std::string& argument : launch.arguments) line.append(" ").append(Quoted(argument));
  return line;
}

}  // namespace ng::faults
