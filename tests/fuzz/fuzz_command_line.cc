// What a user types: a command line (an input that begins with '-', an argument a line), read as
// each program reads its own; and a file of prompts (any other input). The engine that the prompts
// are for is defined here, so that no model is needed.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "apps/bench/command_line.h"
#include "apps/common/input.h"
#include "apps/eval/command_line.h"
#include "apps/plan/command_line.h"
#include "apps/run/command_line.h"
#include "apps/run/prompts.h"
#include "ng/engine.h"
#include "tests/fuzz/support.h"

namespace ng {

struct Engine::State {};

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::~Engine() = default;

absl::StatusOr<std::unique_ptr<Engine>> Engine::Open(const EngineOptions& /*options*/) {
  return std::unique_ptr<Engine>(new Engine(std::make_unique<State>()));
}

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

int64_t Engine::max_prompt_bytes() const { return int64_t{1} << 20; }

absl::Status Engine::CheckRequest(const GenerateRequest& request) const {
  return request.prompt_ids.empty() ? UsageError("the prompt is empty") : absl::OkStatus();
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
  ng::run::CommandLine line;
  line.prompts = file.path();
  const auto requests = ng::run::ReadRequests(line, *engine, nullptr);
  ng::fuzz::CheckError(requests.status(), file.path());
  if (!requests.ok()) return;
  ng::fuzz::Check(!requests->empty(), "a file without a prompt");
  for (const ng::GenerateRequest& request : *requests) {
    ng::fuzz::Check(!request.prompt_ids.empty(), "an empty prompt");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = ng::fuzz::Bytes(data, size);
  bytes.starts_with('-') ? ReadCommandLine(bytes) : ReadPrompts(bytes);
  return 0;
}
