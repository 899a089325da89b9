#include "apps/eval/report.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/common/screen_text.h"
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

namespace {

std::vector<TableColumn> CardColumns(std::span<const Workload> workloads) {
  std::vector<TableColumn> columns = {{.name = "cache", .columns = 12, .left = true},
                                      {.name = "codec", .columns = 10, .left = true},
                                      {.name = "bytes/t", .columns = 8, .rank = 1},
                                      {.name = "perplexity", .rank = 4},
                                      {.name = "change", .columns = 9},
                                      {.name = "KL mean", .columns = 8},
                                      {.name = "KL p99", .columns = 8, .rank = 3},
                                      {.name = "argmax =", .rank = 2}};
  int rank = 5;
  bool first = true;  // the speed of the first depth stays the longest
  for (const Workload& workload : workloads) {
    const bool prefill = workload.prompt_tokens > 0;
    const std::string name = prefill ? absl::StrCat("prefill ", workload.prompt_tokens)
                                     : absl::StrCat("decode at ", workload.depth);
    int speed_rank = 3;
    if (!prefill) speed_rank = std::exchange(first, false) ? 1 : ++rank;
    columns.push_back({.name = name, .columns = 9, .rank = speed_rank});
    columns.push_back({.name = "/ f32", .rank = rank + 10});
  }
  return columns;
}

}  // namespace

CardTable::CardTable(std::span<const Workload> workloads, bool wide)
    : wide_(wide), speeds_(!workloads.empty()), table_(CardColumns(workloads), TableWidth(wide)) {}

std::string CardTable::Head(const Subject& subject) const {
  // Not broken: how long it is depends on where the model is.
  const std::string title =
      absl::StrFormat("%s: %s\n", subject.engine.config().Text("model.path"),
                      ConfigText(subject.engine, subject.cost.weights, false));
  const std::string scored =
      absl::StrFormat("%d tokens scored: %s%s\n", subject.n_scored, TextsText(subject),
                      speeds_ ? "; tok/s, and how many times that of f32" : "");
  return title + WrappedText(scored, TableWidth(wide_)) + table_.Head();
}

std::string CardTable::Row(const CardRow& row) const {
  if (!row.status.ok()) {
    return absl::StrCat(absl::StrFormat("%-12s %-10s", row.cache, row.codecs.Text()),
                        " cannot run: ", OneLine(std::string(row.status.message())), "\n");
  }
  const Difference& difference = *row.evaluation.difference;
  std::vector<std::string> cells = {row.cache,
                                    row.codecs.Text(),
                                    absl::StrCat(row.bytes_per_token),
                                    absl::StrFormat("%.6g", difference.perplexity),
                                    absl::StrFormat("%+.3f %%", ChangePercent(row.evaluation)),
                                    absl::StrFormat("%.2g", difference.kl_mean),
                                    absl::StrFormat("%.2g", difference.kl_p99),
                                    absl::StrFormat("%.2f %%", 100.0 * difference.equal_argmax)};
  for (const SpeedBesideReference& speed : row.speeds) {
    cells.push_back(absl::StrFormat("%.1f", speed.tok_s));
    cells.push_back(absl::StrFormat("%.2fx", speed.ratio));
  }
  return table_.Line(cells);
}

}  // namespace ng::eval
