#include "apps/run/ranks.h"

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ng/config.h"

namespace ng::run {
namespace {

// A line for each request: max_new_tokens, then the prompt's ids. The command line gives a request
// nothing else that several ranks run.
std::string RequestsText(std::span<const GenerateRequest> requests) {
  std::string text;
  for (const GenerateRequest& request : requests) {
    absl::StrAppend(&text, request.max_new_tokens);
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
    numbers >> request.max_new_tokens;
    for (int32_t id = 0; numbers >> id;) request.prompt_ids.push_back(id);
  }
  return requests;
}

}  // namespace

absl::Status CheckRanks(const CommandLine& line, const Engine& engine) {
  if (engine.ranks() == 1) return absl::OkStatus();
  const std::pair<const char*, bool> looks[] = {
      {line.trace.empty() ? "--view" : "--trace", !line.view.empty()},
      {"--debug-cache", line.debug_cache}};
  for (const auto& [option, given] : looks) {
    if (!given || engine.groups() == 1) continue;
    return UsageError(absl::StrCat(option, " looks into the steps of one group; ",
                                   engine.config().Describe("fabric.groups"), " = ",
                                   engine.groups()));
  }
  const std::pair<const char*, bool> within[] = {
      {line.trace.empty() ? "--view" : "--trace", !line.view.empty()},
      {"--trace-layer", !line.trace_layers.empty()},
      {"--debug-cache", line.debug_cache},
      {"--save-tensors of attention rows", line.save_attn_row || line.save_attn_full},
      {"--save-tensors of points", !line.save_points.empty()},
      {"--record", !line.record.empty()},
      {"--replay", !line.replay.empty()}};
  for (const auto& [option, given] : within) {
    if (!given || engine.config().Text("fabric.split") != "layers") continue;
    return UsageError(absl::StrCat(option, " needs all layers; ",
                                   engine.config().Describe("fabric.split"),
                                   " = layers has some of them on each rank"));
  }
  const std::pair<const char*, bool> options[] = {{"--chat", line.chat},
                                                  {"--against", !line.against.empty()},
                                                  {"--load-cache", !line.load_cache.empty()},
                                                  {"--save-cache", !line.save_cache.empty()}};
  for (const auto& [option, given] : options) {
    if (!given) continue;
    return UsageError(absl::StrCat(option, " needs one process; ",
                                   engine.config().Describe("fabric.name"), " = ",
                                   engine.config().Text("fabric.name"), " has ", engine.ranks()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<GenerateRequest>> ShareRequests(
    Engine& engine, absl::StatusOr<std::vector<GenerateRequest>> own) {
  if (engine.ranks() == 1) return own;
  const bool reads = engine.rank() == 0;
  NG_RETURN_IF_ERROR(engine.Agree(reads ? own.status() : absl::OkStatus()));
  std::string text = reads ? RequestsText(*own) : "";
  NG_RETURN_IF_ERROR(engine.ShareText(&text));
  return reads ? *std::move(own) : ParseRequests(text);
}

absl::Status StoppedElsewhere(const Engine& engine, std::span<const Completion> done) {
  const bool stopped = std::ranges::any_of(done, [](const Completion& completion) {
    return completion.stop_reason == StopReason::kInterrupted;
  });
  return stopped && engine.ranks() > 1 ? InterruptedError("") : absl::OkStatus();
}

}  // namespace ng::run
