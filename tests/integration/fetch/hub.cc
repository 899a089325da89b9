#include "tests/integration/fetch/hub.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "tests/support/http_client.h"

namespace ng::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPython = "/usr/bin/python3";
constexpr const char* kHub = NG_SOURCE_DIR "/tests/fetch/hub.py";

}  // namespace

bool CanFetch() { return fs::exists(kPython) && fs::exists(NG_BINARY_DIR "/bin/ng-fetch"); }

Hub::Hub() { fs::create_directories(dir_.File("hub")); }

Hub::~Hub() {
  if (pid_ <= 0) return;
  close(stdin_);  // ends it
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Hub::Add(const std::string& path, const std::string& bytes) const {
  const fs::path file = dir_.File("hub/" + path);
  fs::create_directories(file.parent_path());
  dir_.Write("hub/" + path, bytes);
}

void Hub::AddFile(const std::string& path, const std::string& file) const {
  Add(path, Slurp(file));
}

void Hub::Open(const std::string& faults) {
  int in[2];
  int out[2];
  ASSERT_EQ(pipe2(in, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(out, O_CLOEXEC), 0);
  const std::string folder = dir_.File("hub");
  const std::string log = dir_.File("log");
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that fails hard leaves no hub behind
    dup2(in[0], 0);
    dup2(out[1], 1);
    execl(kPython, kPython, "-B", kHub, folder.c_str(), "--faults", faults.c_str(), "--log",
          log.c_str(), nullptr);
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  stdin_ = in[1];
  char byte = 0;
  while (read(out[0], &byte, 1) == 1 && byte != '\n') url_ += byte;
  close(out[0]);
  ASSERT_NE(url_, "");
}

void Hub::SetFaults(const std::string& faults) const {
  const int port = std::atoi(url_.c_str() + url_.rfind(':') + 1);
  ASSERT_EQ(HttpClient(port).Post("/faults", faults).status, 200);
}

std::vector<std::string> Hub::Asked() const {
  return absl::StrSplit(Slurp(dir_.File("log")), '\n', absl::SkipEmpty());
}

std::vector<std::string> Hub::Environment() const {
  return {"HF_ENDPOINT=" + url_, "HF_HUB_CACHE=" + Cache(), "HF_HOME=" + dir_.path(),
          "HF_TOKEN=",           "HUGGING_FACE_HUB_TOKEN=", "HF_TOKEN_PATH=",
          "HF_HUB_OFFLINE=",     "TRANSFORMERS_OFFLINE=",   "NO_PROXY=127.0.0.1",
          "HOME=" + dir_.path()};
}

std::string Hub::Folder(const std::string& repository) const {
  return absl::StrCat(Cache(), "/models--", absl::StrReplaceAll(repository, {{"/", "--"}}));
}

Result Hub::RunProgram(const std::string& program, const Arguments& arguments) const {
  Command command;
  command.program = program;
  command.arguments = arguments;
  command.environment = Environment();
  return Run(command);
}

Result Hub::Fetch(const Arguments& arguments) const { return RunProgram("ng-fetch", arguments); }

Result Hub::ShellOf(const std::string& script, const Arguments& arguments) const {
  return RunProgram("/bin/bash", Arguments{"-c", script, "bash"} + arguments);
}

}  // namespace ng::test
