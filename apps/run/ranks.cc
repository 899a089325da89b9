#include "apps/run/ranks.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <sstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ng/config.h"

namespace ng::run {
namespace {

// A line for each request: max_new_tokens, context_tokens, then the prompt's ids. The command line
// gives a request nothing else that several ranks run.
std::string RequestsText(std::span<const GenerateRequest> requests) {
  std::string text;
  for (const GenerateRequest& request : requests) {
    absl::StrAppend(&text, request.max_new_tokens, " ", request.context_tokens);
    for (const int32_t id : request.prompt_ids) absl::StrAppend(&text, " ", id);
    text += '\n';
  }
  return text;
}

std::vector<GenerateRequest> ParseRequests(const std::string& text) {
  std::vector<GenerateRequest> requests;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream numbers(line);
    GenerateRequest& request = requests.emplace_back();
    numbers >> request.max_new_tokens >> request.context_tokens;
    for (int32_t id = 0; numbers >> id;) request.prompt_ids.push_back(id);
  }
  return requests;
}

using Given = std::pair<const char*, bool>;  // an option, and whether it was given

// The first of these that was given; null: none.
const char* FirstGiven(std::initializer_list<Given> options) {
  const auto* const found = std::ranges::find(options, true, &Given::second);
  return found == options.end() ? nullptr : found->first;
}

}  // namespace

absl::Status CheckRanks(const CommandLine& line, const Engine& engine) {
  if (engine.ranks() == 1) return absl::OkStatus();
  const Config& config = engine.config();
  const Given view = {line.trace.empty() ? "--view" : "--trace", !line.view.empty()};
  const Given debug_cache = {"--debug-cache", line.debug_cache};
  const Given kept = {"--kept", !line.kept.empty()};
  const char* option = FirstGiven({view, debug_cache, kept});
  if (option != nullptr && engine.groups() > 1) {
    return UsageError(absl::StrCat(option, " looks into the steps of one group; ",
                                   config.Describe("fabric.groups"), " = ", engine.groups()));
  }
  if (option != nullptr && config.Text("fabric.split") == "layers") {
    return UsageError(absl::StrCat(option, " needs all layers; ", config.Describe("fabric.split"),
                                   " = layers has some of them on each rank"));
  }
  option = FirstGiven({{"--chat", line.chat},
                       {"--against", !line.against.empty()},
                       {"--load-cache", !line.load_cache.empty()},
                       {"--save-cache", !line.save_cache.empty()}});
  if (option == nullptr) return absl::OkStatus();
  return UsageError(absl::StrCat(option, " needs one process; ", config.Describe("fabric.name"),
                                 " = ", config.Text("fabric.name"), " has ", engine.ranks()));
}

absl::StatusOr<std::vector<GenerateRequest>> ShareRequests(Engine& engine, const absl::Status& read,
                                                           std::vector<GenerateRequest> own) {
  NG_RETURN_IF_ERROR(engine.Agree(read));
  if (engine.ranks() == 1) return own;
  const bool reads = engine.rank() == 0;
  std::string text = reads ? RequestsText(own) : "";
  NG_RETURN_IF_ERROR(engine.ShareText(&text));
  return reads ? std::move(own) : ParseRequests(text);
}

absl::Status StoppedElsewhere(const Engine& engine, std::span<const Completion> done) {
  const bool stopped = std::ranges::any_of(done, [](const Completion& completion) {
    return completion.stop_reason == StopReason::kInterrupted;
  });
  return stopped && engine.ranks() > 1 ? InterruptedError("") : absl::OkStatus();
}

}  // namespace ng::run
