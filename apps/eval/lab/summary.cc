#include "apps/eval/lab/summary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/eval/lab/methods.h"
#include "apps/eval/measure/intervals.h"

namespace ng::eval {
namespace {

Json IntervalJson(const Interval& interval) {
  return {{"value", interval.value}, {"low", interval.low}, {"high", interval.high}};
}

// One value of each example of a line.
std::vector<double> ValuesOf(const Json& line, const char* name) {
  std::vector<double> values;
  for (const Json& example : line["examples"]) values.push_back(example[name].get<double>());
  return values;
}

std::vector<double> Differences(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> differences;
  for (size_t i = 0; i < a.size(); ++i) differences.push_back(a[i] - b[i]);
  return differences;
}

void Append(const std::vector<double>& more, std::vector<double>* all) {
  all->insert(all->end(), more.begin(), more.end());
}

double Mean(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double ShareAbove(const std::vector<double>& values, double least) {
  const auto n = std::ranges::count_if(values, [&](double value) { return value > least; });
  return static_cast<double>(n) / static_cast<double>(values.size());
}

// Lines of tasks by "task length".
using TaskLines = std::map<std::string, const Json*>;

std::string TaskKey(const Json& line) {
  return absl::StrCat(line["task"].get<std::string>(), " ", line["length"].get<int64_t>());
}

// What the values of all examples of a method are, and how they differ from the full cache's.
struct Pooled {
  std::vector<double> own;
  std::vector<double> differences;

  Json ToJson() const {
    if (own.empty()) return nullptr;
    Json json = IntervalJson(MeanInterval(own));
    if (!differences.empty()) json["change"] = IntervalJson(MeanInterval(differences));
    return json;
  }
};

// One method's part of the summary.
class MethodSummary {
 public:
  MethodSummary(std::string name, const TaskLines& full) : full_(full) {
    json_["name"] = std::move(name);
  }

  void Add(const Json& line) {
    const std::string kind = line["kind"];
    if (!json_.contains("method") || line["method"].size() > json_["method"].size()) {
      json_["method"] = line["method"];
    }
    if (kind == "task") AddTask(line);
    if (kind == "text") AddText(line);
    if (kind == "speed") AddSpeed(line);
    if (kind == "error") json_["error"] = line["error"];
    if (!json_.contains("command")) json_["command"] = line["command"];
  }

  Json Finish() {
    json_["score"] = score_.ToJson();
    json_["margin"] = margin_.ToJson();
    if (n_memory_ > 0) {
      json_["memory"] = {{"held", held_ / n_memory_},
                         {"peak", peak_ / n_memory_},
                         {"reserved", reserved_ / n_memory_}};
    }
    if (prefill_s_ > 0.0) {
      json_["prefill_tok_s"] = prefill_tokens_ / prefill_s_;
      json_["scoring_s"] = scoring_s_;
      json_["scoring_share"] = scoring_s_ / prefill_s_;
    }
    return json_;
  }

 private:
  void AddTask(const Json& line) {
    const std::vector<double> scores = ValuesOf(line, "score");
    const std::vector<double> margins = ValuesOf(line, "margin");
    const auto full = full_.find(TaskKey(line));
    const Json& of_full = full == full_.end() ? line : *full->second;
    const std::vector<double> full_scores = ValuesOf(of_full, "score");
    const std::vector<double> full_margins = ValuesOf(of_full, "margin");
    const bool measurable = Mean(full_scores) >= kMeasurable;
    const bool choosable = ShareAbove(full_margins, 0.0) >= kMeasurable;
    json_["tasks"].push_back(
        {{"task", line["task"]},
         {"length", line["length"]},
         {"n", scores.size()},
         {"measurable", measurable},
         {"score", IntervalJson(MeanInterval(scores))},
         {"score_change", IntervalJson(MeanInterval(Differences(scores, full_scores)))},
         {"choosable", choosable},
         {"right", ShareAbove(margins, 0.0)},
         {"margin", IntervalJson(MeanInterval(margins))},
         {"margin_change", IntervalJson(MeanInterval(Differences(margins, full_margins)))},
         {"memory", line["memory"]},
         {"command", line["command"]}});
    if (measurable) {
      Append(scores, &score_.own);
      Append(Differences(scores, full_scores), &score_.differences);
    }
    if (choosable) {
      Append(margins, &margin_.own);
      Append(Differences(margins, full_margins), &margin_.differences);
    }
    AddMemory(line["memory"], of_full["memory"]);
    prefill_tokens_ += line["prefill"]["tokens"].get<double>();
    prefill_s_ += line["prefill"]["seconds"].get<double>();
    scoring_s_ += line["scoring_s"].get<double>();
  }

  void AddMemory(const Json& own, const Json& full) {
    const auto share = [&](const char* name) {
      return own[name].get<double>() / full[name].get<double>();
    };
    held_ += share("held_bytes");
    peak_ += share("peak_bytes");
    reserved_ += share("reserved_bytes");
    n_memory_ += 1.0;
  }

  void AddText(const Json& line) {
    std::vector<double> n, nll, full, kl, equal;
    for (const Json& block : line["blocks"]) {
      n.push_back(block["tokens"]);
      nll.push_back(block["nll"]);
      full.push_back(block["full_nll"]);
      kl.push_back(block["kl"]);
      equal.push_back(block["equal_argmax"]);
    }
    const auto percent = [](double mean) { return 100.0 * (std::exp(mean) - 1.0); };
    const Interval change = RatioInterval(Differences(nll, full), n);
    json_["text"] = {{"scored_tokens", line["scored_tokens"]},
                     {"after_eviction", line["after_eviction"]},
                     {"perplexity", std::exp(RatioInterval(nll, n).value)},
                     {"full_perplexity", std::exp(RatioInterval(full, n).value)},
                     {"change_percent", IntervalJson({percent(change.value), percent(change.low),
                                                      percent(change.high)})},
                     {"kl", IntervalJson(RatioInterval(kl, n))},
                     {"equal_argmax", IntervalJson(RatioInterval(equal, n))},
                     {"command", line["command"]}};
  }

  void AddSpeed(const Json& line) {
    json_["speeds"].push_back({{"depth", line["depth"]},
                               {"tok_s", line["tok_s"]},
                               {"over_full", line["over_full"]},
                               {"least", line["least_over_full"]},
                               {"most", line["most_over_full"]},
                               {"command", line["command"]}});
  }

  const TaskLines& full_;
  Json json_ = Json::object();
  Pooled score_;   // of the tasks that are measurable
  Pooled margin_;  // of those that the full cache chooses right
  double held_ = 0.0;
  double peak_ = 0.0;
  double reserved_ = 0.0;
  double n_memory_ = 0.0;
  double prefill_tokens_ = 0.0;
  double prefill_s_ = 0.0;
  double scoring_s_ = 0.0;
};

}  // namespace

Json Summarise(std::span<const Json> lines) {
  TaskLines full;
  for (const Json& line : lines) {
    if (line["kind"] == "task" && line["method"]["name"] == kFull) full[TaskKey(line)] = &line;
  }
  std::vector<std::string> names;
  for (const Json& line : lines) {
    const std::string name = line["method"]["name"];
    if (std::ranges::count(names, name) == 0) names.push_back(name);
  }
  Json methods = Json::array();
  for (const std::string& name : names) {
    MethodSummary summary(name, full);
    for (const Json& line : lines) {
      if (line["method"]["name"] == name) summary.Add(line);
    }
    methods.push_back(summary.Finish());
  }
  return {{"measurable_from", kMeasurable}, {"methods", methods}};
}

}  // namespace ng::eval
