// What a user hands to the programs: a command line (an input that begins with '-', an argument a
// line), read as each program reads its own; a record of a run (an input that begins as one does);
// and a file of prompts (any other input). The engine that the prompts are for is defined here, so
// that no model is needed.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/bench/command_line.h"
#include "apps/common/input.h"
#include "apps/common/prompts.h"
#include "apps/diff/command_line.h"
#include "apps/eval/command_line.h"
#include "apps/plan/command_line.h"
#include "apps/run/command_line.h"
#include "apps/run/run_record.h"
#include "ng/engine.h"
#include "ng/fingerprint.h"
#include "tests/fuzz/support.h"

namespace ng {

namespace {

// What prompts ask of a config: how long answers are.
Config ConfigOfPrompts() {
  static constexpr OptionSpec kMost =
      IntOption("run.max_new_tokens", 1, {.min = -1, .max = 1 << 30}, "");
  return Config({{.declared = {.key = kMost.name, .spec = &kMost},
                  .value = {.name = kMost.name, .type = kMost.type, .integer = 1, .text = "1"},
                  .list = nullptr,
                  .origin = {}}});
}

}  // namespace

struct Engine::State {
  Config config = ConfigOfPrompts();
};

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::~Engine() = default;

absl::StatusOr<std::unique_ptr<Engine>> Engine::Open(const EngineOptions& /*options*/) {
  return std::unique_ptr<Engine>(new Engine(std::make_unique<State>()));
}

const Config& Engine::config() const { return state_->config; }
int64_t Engine::default_max_new_tokens() const { return 1; }
bool Engine::has_chat_template() const { return true; }

// A byte is a token.
absl::StatusOr<std::vector<int32_t>> Engine::Encode(std::string_view text,
                                                    const TokenizeOptions& /*options*/) const {
  return std::vector<int32_t>(text.begin(), text.end());
}

absl::StatusOr<std::vector<int32_t>> Engine::EncodeMessage(std::string_view message,
                                                           const std::string& tools) const {
  return Encode(std::string(message) + tools, {});
}

absl::StatusOr<std::vector<int32_t>> Engine::EncodeConversation(
    const Conversation& conversation, std::span<const int32_t> /*fed*/) const {
  return Encode(conversation.messages + conversation.tools, {});
}

bool Engine::wants_context() const { return true; }
absl::StatusOr<int64_t> Engine::ContextOf(const Conversation& /*conversation*/,
                                          std::span<const int32_t> ids) const {
  return std::ssize(ids) / 2;
}

int64_t Engine::max_prompt_bytes() const { return int64_t{1} << 20; }

absl::Status Engine::CheckRequest(const GenerateRequest& request) const {
  return request.prompt_ids.empty() ? UsageError("the prompt is empty") : absl::OkStatus();
}

// Any two that tell texts and reasons apart.
std::string HashText(std::string_view bytes) {
  return absl::StrCat(absl::Hex(std::hash<std::string_view>()(bytes), absl::kZeroPad16));
}
std::string_view StopReasonName(StopReason reason) {
  constexpr std::string_view kNames[] = {"eot",         "stage", "stop_text", "max_new_tokens",
                                         "interrupted", "error"};
  return kNames[static_cast<size_t>(reason)];
}

}  // namespace ng

namespace {

void ReadCommandLine(std::string_view bytes) {
  std::vector<std::string> arguments = {"ng"};
  for (size_t at = 0; at < bytes.size();) {
    const size_t end = std::min(bytes.find('\n', at), bytes.size());
    // An argument ends at its first zero byte.
    arguments.emplace_back(std::string(bytes.substr(at, end - at)).c_str());
    at = end + 1;
  }
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  argv.push_back(nullptr);
  const int argc = static_cast<int>(arguments.size());
  const auto line = ng::run::ParseCommandLine(argc, argv.data());
  ng::fuzz::CheckError(line.status(), "");
  ng::fuzz::CheckError(ng::bench::ParseCommandLine(argc, argv.data()).status(), "");
  ng::fuzz::CheckError(ng::diff::ParseCommandLine(argc, argv.data()).status(), "");
  ng::fuzz::CheckError(ng::eval::ParseCommandLine(argc, argv.data()).status(), "");
  ng::fuzz::CheckError(ng::plan::ParseCommandLine(argc, argv.data()).status(), "");
  if (!line.ok() || !line->prompt_ids) return;
  ng::fuzz::CheckError(ng::ParseTokenIds(*line->prompt_ids, "--prompt-ids").status(),
                       "--prompt-ids");
}

void ReadPrompts(std::string_view bytes) {
  static ng::fuzz::MemoryFile file;
  static const std::unique_ptr<ng::Engine> engine = *ng::Engine::Open({});
  file.Write(bytes);
  ng::PromptOptions options;
  options.prompts = file.path();
  const auto requests = ng::ReadRequests(options, *engine, nullptr);
  ng::fuzz::CheckError(requests.status(), file.path());
  if (!requests.ok()) return;
  ng::fuzz::Check(!requests->requests.empty(), "a file without a prompt");
  for (const ng::GenerateRequest& request : requests->requests) {
    ng::fuzz::Check(!request.prompt_ids.empty(), "an empty prompt");
  }
}

// What is written of a record that was read is read as the same.
void ReadRecord(std::string_view bytes) {
  const auto record = ng::run::ParseRecord(std::string(bytes), "run.json");
  ng::fuzz::CheckError(record.status(), "run.json");
  if (!record.ok()) return;
  const std::string text = ng::run::RecordText(*record);
  const auto again = ng::run::ParseRecord(text, "run.json");
  ng::fuzz::Check(again.ok(), std::string(again.status().message()));
  ng::fuzz::Check(!again->edited && ng::run::RecordText(*again) == text, "another record");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = ng::fuzz::Bytes(data, size);
  if (bytes.starts_with('-')) {
    ReadCommandLine(bytes);
  } else if (bytes.starts_with("{\"ng_record")) {
    ReadRecord(bytes);
  } else {
    ReadPrompts(bytes);
  }
  return 0;
}
