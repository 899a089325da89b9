#include "apps/eval/report.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ng/config.h"

namespace ng::eval {
namespace {

using Json = nlohmann::ordered_json;

double ChangePercent(const Evaluation& evaluation) {
  return 100.0 * (evaluation.difference->perplexity / evaluation.perplexity - 1.0);
}

std::string Line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// The parts of a config on which its figures depend. The cache is among them, except on a card,
// which has many.
void AddConfig(const Engine& engine, std::string_view weights, bool with_cache, Json* json) {
  const Config& config = engine.config();
  (*json)["model"] = config.Text("model.path");
  (*json)["weights"] = weights;
  (*json)["attention"] = config.Text("attention.name");
  if (with_cache) {
    const CodecNames codecs = CodecsOf(config);
    (*json)["cache"] = config.Text("cache.name");
    (*json)["codec_k"] = codecs.k;
    (*json)["codec_v"] = codecs.v;
  }
  (*json)["isa"] = IsaName(engine.isa());
  (*json)["threads"] = engine.threads();
  (*json)["prefill_chunk"] = config.Int("run.prefill_chunk");
}

void AddScored(const Subject& subject, Json* json) {
  (*json)["texts"] = subject.n_texts;
  (*json)["windows"] = subject.n_windows;
  (*json)["window"] = subject.window;
  (*json)["scored_tokens"] = subject.n_scored;
}

void AddDifference(const Evaluation& evaluation, Json* json) {
  const Difference& difference = *evaluation.difference;
  (*json)["perplexity"] = difference.perplexity;
  (*json)["perplexity_change_percent"] = ChangePercent(evaluation);
  (*json)["kl_mean"] = difference.kl_mean;
  (*json)["kl_p99"] = difference.kl_p99;
  (*json)["equal_argmax"] = difference.equal_argmax;
}

Json DecodeSpeeds(const CardRow& row) {
  Json speeds = Json::array();
  for (const SpeedBesideReference& speed : row.speeds) {
    if (speed.workload.decode_tokens == 0) continue;
    speeds.push_back({{"depth", speed.workload.depth},
                      {"tokens", speed.workload.decode_tokens},
                      {"tok_s", speed.tok_s},
                      {"over_f32", speed.ratio}});
  }
  return speeds;
}

Json PrefillSpeed(const CardRow& row) {
  if (row.speeds.empty()) return nullptr;
  const SpeedBesideReference& speed = row.speeds.front();
  return {
      {"tokens", speed.workload.prompt_tokens}, {"tok_s", speed.tok_s}, {"over_f32", speed.ratio}};
}

std::string ConfigText(const Engine& engine, std::string_view weights, bool with_cache) {
  const Config& config = engine.config();
  std::string text = absl::StrCat(std::string(weights), " weights, ");
  if (with_cache) {
    absl::StrAppend(&text, CodecsOf(config).Text(), " cache (", config.Text("cache.name"), "), ");
  }
  absl::StrAppend(&text, config.Text("attention.name"), ", ", std::string(IsaName(engine.isa())),
                  ", ", engine.threads(), engine.threads() == 1 ? " thread" : " threads");
  return text;
}

std::string TextsText(const Subject& subject) {
  return absl::StrFormat("texts %d, windows %d, the longest %d tokens", subject.n_texts,
                         subject.n_windows, subject.window);
}

}  // namespace

absl::StatusOr<std::string> EvaluationJson(const Subject& subject, const Engine* candidate,
                                           const Evaluation& evaluation) {
  Json json = Json::object();
  AddConfig(subject.engine, subject.cost.weights, true, &json);
  AddScored(subject, &json);
  json["perplexity"] = evaluation.perplexity;
  if (candidate != nullptr) {
    NG_ASSIGN_OR_RETURN(const StepCost cost, candidate->CostOfStep());
    Json other = Json::object();
    AddConfig(*candidate, cost.weights, true, &other);
    AddDifference(evaluation, &other);
    json["against"] = other;
  }
  return Line(json);
}

absl::StatusOr<std::string> EvaluationText(const Subject& subject, const Engine* candidate,
                                           const Evaluation& evaluation) {
  std::string text =
      absl::StrFormat("%d tokens scored: %s\n", subject.n_scored, TextsText(subject));
  absl::StrAppendFormat(&text, "perplexity %.6g  %s\n", evaluation.perplexity,
                        ConfigText(subject.engine, subject.cost.weights, true));
  if (candidate == nullptr) return text;
  NG_ASSIGN_OR_RETURN(const StepCost cost, candidate->CostOfStep());
  const Difference& difference = *evaluation.difference;
  absl::StrAppendFormat(&text, "perplexity %.6g  %s\n", difference.perplexity,
                        ConfigText(*candidate, cost.weights, true));
  absl::StrAppendFormat(&text,
                        "change %+.3g %%; KL mean %.3g, p99 %.3g nats; equal argmax %.5g %%\n",
                        ChangePercent(evaluation), difference.kl_mean, difference.kl_p99,
                        100.0 * difference.equal_argmax);
  return text;
}

std::string CardRowJson(const Subject& subject, const CardRow& row) {
  Json json = Json::object();
  json["cache"] = row.cache;
  json["codec_k"] = row.codecs.k;
  json["codec_v"] = row.codecs.v;
  if (!row.status.ok()) {
    const absl::string_view why = row.status.message();
    json["error"] = std::string(why.data(), why.size());
    return Line(json);
  }
  json["bytes_per_token"] = row.bytes_per_token;
  AddDifference(row.evaluation, &json);
  json["prefill"] = PrefillSpeed(row);
  json["decode"] = DecodeSpeeds(row);
  json["f32_perplexity"] = row.evaluation.perplexity;
  AddScored(subject, &json);
  AddConfig(subject.engine, subject.cost.weights, false, &json);
  return Line(json);
}

std::string CardHeadText(const Subject& subject, std::span<const Workload> workloads) {
  std::string text = absl::StrFormat(
      "%s: %s\n%d tokens scored: %s%s\n", subject.engine.config().Text("model.path"),
      ConfigText(subject.engine, subject.cost.weights, false), subject.n_scored, TextsText(subject),
      workloads.empty() ? "" : "; tok/s, in () how many times that of f32");
  absl::StrAppendFormat(&text, "%-12s %-10s %8s %10s %9s %8s %8s %8s", "cache", "codec", "bytes/t",
                        "perplexity", "change", "KL mean", "KL p99", "argmax =");
  for (const Workload& workload : workloads) {
    const bool prefill = workload.prompt_tokens > 0;
    absl::StrAppendFormat(&text, " %17s",
                          absl::StrCat(prefill ? "prefill " : "decode at ",
                                       prefill ? workload.prompt_tokens : workload.depth));
  }
  return text + "\n";
}

std::string CardRowText(const CardRow& row) {
  std::string text = absl::StrFormat("%-12s %-10s", row.cache, row.codecs.Text());
  if (!row.status.ok()) {
    return absl::StrCat(text, " cannot run: ", OneLine(std::string(row.status.message())), "\n");
  }
  const Difference& difference = *row.evaluation.difference;
  absl::StrAppendFormat(&text, " %8d %10.6g %+7.3f %% %8.2g %8.2g %6.2f %%", row.bytes_per_token,
                        difference.perplexity, ChangePercent(row.evaluation), difference.kl_mean,
                        difference.kl_p99, 100.0 * difference.equal_argmax);
  for (const SpeedBesideReference& speed : row.speeds) {
    absl::StrAppendFormat(&text, " %9.1f (%.2fx)", speed.tok_s, speed.ratio);
  }
  return text + "\n";
}

}  // namespace ng::eval
