#include "apps/run/offer_fetch.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include "ng/config.h"
#include "ng/named_models.h"

namespace ng::run {
namespace {

constexpr std::string_view kKey = "model.path=";

// The model that the command line names; empty: none.
std::string ModelNamed(const EngineOptions& options) {
  std::string model;
  for (const std::string& override : options.overrides) {
    if (override.starts_with(kKey)) model = override.substr(kKey.size());
  }
  return model;
}

// Whether it can be a name of the hub, and is no path.
bool IsNameOfHub(const std::string& model) {
  const absl::StatusOr<HubName> name = ParseHubName(model);
  std::error_code error;
  return name.ok() && name->repository.find('/') != std::string::npos &&
         !std::filesystem::exists(model, error);
}

// The exit code of ng-fetch beside this program, which prints where the model is to nobody; -1: it
// is not there.
int RunFetch(const std::string& model) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string program = (self.parent_path() / "ng-fetch").string();
  std::string words[] = {"ng-fetch", "--ask", model};
  char* const arguments[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  posix_spawn_file_actions_t actions;
  if (posix_spawn_file_actions_init(&actions) != 0) return -1;
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  const int failed = posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return -1;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

absl::Status OfferToFetch(const EngineOptions& options) {
  if (isatty(STDIN_FILENO) == 0 || isatty(STDERR_FILENO) == 0) return absl::OkStatus();
  const std::string model = ModelNamed(options);
  if (!IsNameOfHub(model)) return absl::OkStatus();
  const absl::StatusOr<Config> config = Engine::ReadConfig(options);
  // What is found has its path there by now.
  std::error_code error;
  if (!config.ok() || std::filesystem::exists(config->Text("model.path"), error)) {
    return absl::OkStatus();
  }
  const int code = RunFetch(model);
  if (*options.stop) return InterruptedError("");
  for (const absl::Status& told : {RuntimeError("ng-fetch failed"), ModelFileError("not fetched"),
                                   LimitError("not fetched"), OutputError("not fetched")}) {
    if (code == ExitCode(told)) return ToldElsewhere(told);
  }
  return absl::OkStatus();
}

}  // namespace ng::run
