#include "tests/integration/serve/server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ng::test {
namespace {

constexpr const char* kGreeting = "http://127.0.0.1:";

}  // namespace

Server::Server(const Arguments& more) {
  std::vector<std::string> arguments = {NG_BINARY_DIR "/bin/ng-serve"};
  for (const std::string& one : Demo() + Arguments{"--serve.port=0"} + more) {
    arguments.push_back(one);
  }
  std::vector<char*> pointers;
  for (std::string& one : arguments) pointers.push_back(one.data());
  pointers.push_back(nullptr);
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that fails hard leaves no server behind
    dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), 1);
    dup2(ends[1], 2);
    execv(pointers[0], pointers.data());
    _exit(127);
  }
  EXPECT_GT(pid_, 0);
  close(ends[1]);
  stderr_ = ends[0];
  std::string said;
  char byte = 0;
  while (said.find(kGreeting) == said.npos || byte != '\n') {
    if (read(stderr_, &byte, 1) != 1) break;
    said += byte;
  }
  const size_t found = said.find(kGreeting);
  EXPECT_NE(found, said.npos) << said;
  if (found != said.npos) port_ = std::atoi(said.c_str() + found + std::string(kGreeting).size());
}

Server::~Server() {
  if (pid_ > 0) {
    EXPECT_EQ(End(), 0);
  }
  close(stderr_);
}

std::string Server::ReadLine() const {
  std::string line;
  char byte = 0;
  while (read(stderr_, &byte, 1) == 1 && byte != '\n') line += byte;
  return line;
}

void Server::Signal(int signal) const { kill(pid_, signal); }

int Server::Wait() {
  int status = 0;
  EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
  pid_ = -1;
  constexpr int kOfSignal = 128;
  return WIFEXITED(status) ? WEXITSTATUS(status) : kOfSignal + WTERMSIG(status);
}

int Server::End() {
  Signal(SIGTERM);
  return Wait();
}

HttpResponse Server::Ask(const std::string& path, Json body) const {
  body["model"] = "demo";
  return HttpClient(port_).Post(path, body.dump());
}

Json Server::Post(const std::string& path, Json body) const {
  const HttpResponse response = Ask(path, std::move(body));
  EXPECT_EQ(response.status, 200) << response.body;
  return response.status == 200 ? Json::parse(response.body) : Json();
}

std::vector<Json> Server::Stream(const std::string& path, Json body) const {
  body["stream"] = true;
  const HttpResponse response = Ask(path, std::move(body));
  EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_TRUE(response.whole);
  std::vector<std::string> events = Events(response.body);
  EXPECT_FALSE(events.empty());
  if (events.empty()) return {};
  EXPECT_EQ(events.back(), "[DONE]");
  events.pop_back();
  std::vector<Json> parsed;
  for (const std::string& event : events) parsed.push_back(Json::parse(event));
  return parsed;
}

double Server::Metric(const std::string& name) const {
  const std::string text = HttpClient(port_).Get("/metrics").body;
  const std::string line = absl::StrCat("\n", name, " ");
  const size_t at = text.find(line);
  EXPECT_NE(at, text.npos) << name;
  return at == text.npos ? -1.0 : std::atof(text.c_str() + at + line.size());
}

bool Server::Comes(const std::string& name, const std::function<bool(double)>& so) const {
  for (int i = 0; i < 2000; ++i) {
    if (so(Metric(name))) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace ng::test
