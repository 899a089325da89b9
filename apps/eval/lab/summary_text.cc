// The table of a card of methods.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/common/screen_text.h"
#include "apps/common/table.h"
#include "apps/eval/lab/methods.h"
#include "apps/eval/lab/summary.h"
#include "ng/status.h"

namespace ng::eval {
namespace {

// The middle and half of the interval: "0.80 ±0.12".
std::string WithSpread(const Json& interval, double scale, const char* sign) {
  if (interval.is_null()) return "-";
  const double value = scale * interval["value"].get<double>();
  const double half =
      scale * (interval["high"].get<double>() - interval["low"].get<double>()) / 2.0;
  return absl::StrFormat("%s%.3g ±%.2g", sign[0] == '+' && value > 0.0 ? "+" : "", value, half);
}

std::string PercentText(const Json& json, const char* group, const char* name) {
  if (!json.contains(group)) return "-";
  return absl::StrFormat("%.1f %%", 100.0 * json[group][name].get<double>());
}

std::string SpeedText(const Json& method) {
  if (!method.contains("speeds")) return "-";
  const Json& deepest = method["speeds"].back();
  return absl::StrFormat("%.2fx", deepest["over_full"].get<double>());
}

const Json& PartOf(const Json& json, const char* outer, const char* inner) {
  static const Json none = nullptr;
  if (!json.contains(outer) || json[outer].is_null() || !json[outer].contains(inner)) return none;
  return json[outer][inner];
}

std::vector<std::string> CellsOf(const Json& method) {
  constexpr double kPercent = 100.0;
  // The full cache is held against itself.
  const char* const change = method["name"] == kFull ? "none" : "change";
  return {method["name"],
          method["method"].contains("when") ? method["method"]["when"].get<std::string>() : "-",
          PercentText(method, "memory", "held"),
          PercentText(method, "memory", "peak"),
          WithSpread(method["score"], kPercent, ""),
          WithSpread(PartOf(method, "score", change), kPercent, "+"),
          WithSpread(PartOf(method, "margin", change), 1.0, "+"),
          WithSpread(PartOf(method, "text", "change_percent"), 1.0, "+"),
          WithSpread(PartOf(method, "text", "kl"), 1.0, ""),
          SpeedText(method),
          method.contains("scoring_share")
              ? absl::StrFormat("%.1f %%", kPercent * method["scoring_share"].get<double>())
              : "-"};
}

// What no method can be told apart by.
std::string UnmeasurableText(const Json& summary) {
  std::string names;
  for (const Json& method : summary["methods"]) {
    if (!method.contains("tasks")) continue;
    for (const Json& task : method["tasks"]) {
      if (task["measurable"].get<bool>()) continue;
      absl::StrAppend(&names, names.empty() ? "" : ", ", task["task"].get<std::string>(), " ",
                      task["length"].get<int64_t>());
      absl::StrAppendFormat(&names, " (%.0f %%)", 100.0 * task["score"]["value"].get<double>());
    }
    break;  // the full cache
  }
  if (names.empty()) return "";
  return absl::StrFormat("not measurable, the full cache solves less than %.0f %%: %s\n",
                         100.0 * summary["measurable_from"].get<double>(), names);
}

}  // namespace

std::string SummaryText(const Json& summary, bool wide) {
  const Table table({{.name = "method", .columns = 14, .left = true},
                     {.name = "when", .columns = 6, .left = true, .rank = 8},
                     {.name = "held", .columns = 7},
                     {.name = "peak", .columns = 7, .rank = 6},
                     {.name = "score %", .columns = 10, .rank = 3},
                     {.name = "to full", .columns = 11},
                     {.name = "margin to full", .columns = 12, .rank = 2},
                     {.name = "perplexity %", .columns = 12, .rank = 4},
                     {.name = "KL", .columns = 14},
                     {.name = "decode", .columns = 6, .rank = 1},
                     {.name = "scoring", .columns = 7, .rank = 7}},
                    TableWidth(wide));
  std::string text = table.Head();
  for (const Json& method : summary["methods"]) {
    if (method.contains("error")) {
      absl::StrAppend(&text, absl::StrFormat("%-14s", method["name"].get<std::string>()),
                      " cannot run: ", OneLine(method["error"].get<std::string>()), "\n");
      continue;
    }
    absl::StrAppend(&text, table.Line(CellsOf(method)));
  }
  return text + WrappedText(UnmeasurableText(summary), TableWidth(wide)) + table.Note();
}

}  // namespace ng::eval
