#include "apps/eval/lab/parts.h"

#include "absl/strings/str_cat.h"

namespace ng::eval {

Json TaskPart(const std::string& task, int64_t length) {
  return {{"kind", "task"}, {"task", task}, {"length", length}};
}

Json TextPart() { return {{"kind", "text"}}; }

Json SpeedPart(int64_t depth) { return {{"kind", "speed"}, {"depth", depth}}; }

std::string PartName(const Json& part) {
  const std::string kind = part["kind"];
  if (kind == "task") {
    return absl::StrCat(part["task"].get<std::string>(), " of ", part["length"].get<int64_t>());
  }
  return kind == "text" ? "texts" : absl::StrCat("decode at ", part["depth"].get<int64_t>());
}

std::string PartOptions(const Json& part) {
  const std::string kind = part["kind"];
  if (kind == "task") {
    return absl::StrCat("--tasks=", part["task"].get<std::string>(),
                        " --lengths=", part["length"].get<int64_t>(), " --repeat=0");
  }
  if (kind == "text") return "--tasks=none --repeat=0";
  return absl::StrCat("--tasks=none --depths=", part["depth"].get<int64_t>());
}

void FillTask(std::span<const FittedPuzzle> puzzles, const TaskResult& result,
              const CachePlan& plan, Json* line) {
  Json& examples = (*line)["examples"] = Json::array();
  for (size_t i = 0; i < result.examples.size(); ++i) {
    const ExampleResult& example = result.examples[i];
    const FittedPuzzle& fitted = puzzles[i];
    examples.push_back({{"tokens", fitted.prompt.ids.size()},
                        {"context_tokens", fitted.prompt.n_context},
                        {"answers", fitted.puzzle.answers},
                        {"said", example.said},
                        {"score", example.score},
                        {"margin", example.margin}});
  }
  const int64_t bytes = plan.bytes_per_token;
  (*line)["memory"] = {
      {"reserved_bytes", plan.bytes},      {"bytes_per_token", bytes},
      {"peak_tokens", result.peak_tokens}, {"peak_bytes", result.peak_tokens * bytes},
      {"held_tokens", result.held_tokens}, {"held_bytes", result.held_tokens * bytes}};
  (*line)["prefill"] = {{"tokens", result.prompt_tokens}, {"seconds", result.prefill_s}};
  (*line)["scoring_s"] = result.scoring_s;
}

void FillText(const TextResult& result, Json* line) {
  (*line)["fed_tokens"] = result.n_all;
  (*line)["scored_tokens"] = result.n_scored;
  (*line)["after_eviction"] = result.evicts;
  Json& blocks = (*line)["blocks"] = Json::array();
  for (const TextBlock& block : result.blocks) {
    blocks.push_back({{"tokens", block.n},
                      {"full_nll", block.full},
                      {"nll", block.nll},
                      {"kl", block.kl},
                      {"equal_argmax", block.equal}});
  }
}

void FillSpeed(const SpeedResult& speed, int64_t rounds, Json* line) {
  (*line)["tok_s"] = speed.tok_s;
  (*line)["full_tok_s"] = speed.full_tok_s;
  (*line)["over_full"] = speed.ratio.value;
  (*line)["least_over_full"] = speed.ratio.low;
  (*line)["most_over_full"] = speed.ratio.high;
  (*line)["rounds"] = rounds;
}

}  // namespace ng::eval
