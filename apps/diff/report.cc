#include "apps/diff/report.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "apps/common/screen_text.h"
#include "apps/common/table.h"
#include "apps/common/token_text.h"

namespace ng::diff {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostFlips = 10;  // that are shown by their tokens

// JSON has no number for these; a text says which of them it is.
Json Number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  return value;
}

Json PlaceJson(const PointComparison& point, const ElementDifference& first) {
  Json json;
  json["index"] = first.place.prompt;
  json["position"] = first.place.position;
  json["element"] = first.element;
  if (point.point.n_heads > 0) json["head"] = first.element / point.point.width;
  json["a"] = Number(static_cast<double>(first.a));
  json["b"] = Number(static_cast<double>(first.b));
  json["ulps"] = UlpsBetween(first.a, first.b);
  return json;
}

Json LayerJson(const PointAt& at) { return at.layer < 0 ? Json(nullptr) : Json(at.layer); }

Json PointJson(const PointComparison& point, bool by_position) {
  const Figures& figures = point.figures;
  Json json;
  json["point"] = PointName(point.point.at.point);
  json["layer"] = LayerJson(point.point.at);
  json["max_abs"] = Number(figures.max_abs());
  json["max_rel"] = Number(figures.max_rel());
  json["rms_rel"] = Number(figures.rms_rel());
  json["median_rms_rel"] = Number(figures.median_rms_rel());
  json["max_ulp"] = figures.max_ulp();
  json["equal_share"] = figures.equal_share();
  json["rows"] = figures.rows();
  json["not_compared"] = figures.not_compared();
  json["first"] = figures.first() ? PlaceJson(point, *figures.first()) : Json(nullptr);
  if (!by_position) return json;
  json["by_position"] = Json::array();
  for (const RowDifference& row : figures.differences()) {
    json["by_position"].push_back({row.place.prompt, row.place.position, Number(row.rms_rel)});
  }
  return json;
}

// A token as "position 4 ' art'".
absl::StatusOr<std::string> PlaceText(const Report& report, const Engine& a, RowPlace place) {
  const std::vector<std::vector<int32_t>>& ids = report.result.ids;
  std::string text = absl::StrCat("position ", place.position);
  if (a.has_tokenizer()) {
    const int32_t id = ids[static_cast<size_t>(place.prompt)][static_cast<size_t>(place.position)];
    NG_ASSIGN_OR_RETURN(const std::string token, VisibleToken(a, id));
    absl::StrAppend(&text, " '", token, "'");
  }
  if (ids.size() > 1) absl::StrAppend(&text, " of prompt ", place.prompt);
  return text;
}

absl::StatusOr<std::string> FirstText(const Report& report, const Engine& a) {
  const PointComparison* const point = report.result.comparison.first();
  const ElementDifference& first = *point->figures.first();
  NG_ASSIGN_OR_RETURN(const std::string place, PlaceText(report, a, first.place));
  std::string element = absl::StrCat("element ", first.element);
  if (const PointShape& shape = point->point; shape.n_heads > 0) {
    absl::StrAppend(&element, " (head ", first.element / shape.width, ", ",
                    first.element % shape.width, ")");
  }
  return absl::StrFormat("the first difference: %s\n  %s\n  %s: A %.9g, B %.9g, %d ulps\n",
                         PointText(point->point.at), place, element, first.a, first.b,
                         UlpsBetween(first.a, first.b));
}

std::string TableText(const Comparison& comparison, bool wide) {
  size_t names = 0;
  for (const PointComparison& point : comparison.points) {
    names = std::max(names, PointText(point.point.at).size());
  }
  const Table table({{.name = "point", .columns = names, .left = true},
                     {.name = "max abs", .columns = 9},
                     {.name = "max/rms", .columns = 9, .rank = 1},
                     {.name = "rms/rms", .columns = 9},
                     {.name = "median", .columns = 9},
                     {.name = "max ulps", .columns = 10, .rank = 2},
                     {.name = "equal", .columns = 8},
                     {.name = "rows", .columns = 6, .rank = 3},
                     {.name = "not compared", .rank = 4}},
                    TableWidth(wide));
  std::string text = absl::StrCat("\n", table.Head());
  for (const PointComparison& point : comparison.points) {
    const Figures& figures = point.figures;
    text += table.Line(
        {PointText(point.point.at), absl::StrFormat("%.3g", figures.max_abs()),
         absl::StrFormat("%.3g", figures.max_rel()), absl::StrFormat("%.3g", figures.rms_rel()),
         absl::StrFormat("%.3g", figures.median_rms_rel()), absl::StrCat(figures.max_ulp()),
         absl::StrFormat("%.2f %%", 100.0 * figures.equal_share()), absl::StrCat(figures.rows()),
         absl::StrCat(figures.not_compared())});
  }
  return text + table.Note();
}

bool IsResidualStream(const PointComparison& point) {
  return point.point.at.point == Point::kEmbed || point.point.at.point == Point::kOut;
}

// How the difference of the residual stream goes from layer to layer: by the medians, since the
// sums are those of the rows with large elements, such as an attention sink's, almost alone.
std::string GrowthText(const Comparison& comparison) {
  std::vector<std::string> steps;
  double before = 0.0;
  double most = 0.0;
  std::string where;
  for (const PointComparison& point : comparison.points) {
    if (!IsResidualStream(point)) continue;
    const PointAt& at = point.point.at;
    const double rms = point.figures.median_rms_rel();
    if (rms == 0.0 && before == 0.0) continue;
    steps.push_back(absl::StrFormat("%s %.2g", PointText(at), rms));
    if (before > 0.0 && rms / before > most) {
      most = rms / before;
      where = absl::StrFormat("; the most in layer %d, %.2f times", at.layer, most);
    }
    before = rms;
  }
  if (steps.empty()) return "";
  return absl::StrCat("\nin the residual stream (median): ", absl::StrJoin(steps, ", "),
                      most > 1.0 ? where : "", "\n");
}

// A row of the residual stream that differs, and where in the model.
struct StreamRow {
  RowDifference difference;
  PointAt at;
};

// Of each position, the row of the residual stream that differs most; those that differ most first.
std::vector<StreamRow> MostDifferent(const Comparison& comparison) {
  std::map<RowPlace, StreamRow> by_place;
  for (const PointComparison& point : comparison.points) {
    if (!IsResidualStream(point)) continue;
    for (const RowDifference& row : point.figures.differences()) {
      const auto [found, is_new] = by_place.try_emplace(row.place, StreamRow{row, point.point.at});
      if (row.rms_rel > found->second.difference.rms_rel) found->second = {row, point.point.at};
    }
  }
  std::vector<StreamRow> rows;
  for (const auto& [place, row] : by_place) rows.push_back(row);
  std::ranges::stable_sort(rows, std::greater(),
                           [](const StreamRow& row) { return row.difference.rms_rel; });
  return rows;
}

absl::StatusOr<std::string> TopText(const Report& report, const Engine& a, int top) {
  if (top == 0) return std::string();
  const std::vector<StreamRow> rows = MostDifferent(report.result.comparison);
  if (rows.empty()) return std::string();
  std::string text = "where it differs most (rms/rms)\n";
  for (size_t i = 0; i < std::min(static_cast<size_t>(top), rows.size()); ++i) {
    NG_ASSIGN_OR_RETURN(const std::string place, PlaceText(report, a, rows[i].difference.place));
    absl::StrAppendFormat(&text, "  %s: %.2g, %s\n", place, rows[i].difference.rms_rel,
                          PointText(rows[i].at));
  }
  return text;
}

absl::StatusOr<std::string> TokenText(const Engine& a, int32_t id) {
  if (!a.has_tokenizer()) return absl::StrCat(id);
  NG_ASSIGN_OR_RETURN(const std::string text, VisibleToken(a, id));
  return absl::StrCat("'", text, "'");
}

absl::StatusOr<std::string> PredictionsText(const Report& report, const Engine& a) {
  const Predictions& predictions = report.result.comparison.predictions;
  if (predictions.n_rows == 0) return std::string();
  std::string text = absl::StrFormat(
      "KL(A || B) for each token, mean: %.6g nats\nanother most probable next token: behind %d of "
      "%d tokens\n",
      predictions.kl_mean, predictions.flips.size(), predictions.n_rows);
  for (size_t i = 0; i < std::min(kMostFlips, predictions.flips.size()); ++i) {
    const ArgmaxFlip& flip = predictions.flips[i];
    NG_ASSIGN_OR_RETURN(const std::string place, PlaceText(report, a, flip.place));
    NG_ASSIGN_OR_RETURN(const std::string token_a, TokenText(a, flip.a));
    NG_ASSIGN_OR_RETURN(const std::string token_b, TokenText(a, flip.b));
    absl::StrAppend(&text, "  behind ", place, ": A ", token_a, ", B ", token_b, "\n");
  }
  if (predictions.flips.size() > kMostFlips) {
    absl::StrAppend(&text, "  and ", predictions.flips.size() - kMostFlips, " more\n");
  }
  return text;
}

std::string PartsText(const Report& report) {
  if (report.parts.size() < 2) return "";
  std::string text = "KL of each change alone\n";
  size_t width = 0;
  for (const Part& part : report.parts) width = std::max(width, part.key.size());
  const int w = static_cast<int>(std::max(width, std::string_view("remainder").size()));
  for (const Part& part : report.parts) {
    if (part.kl_mean) {
      absl::StrAppendFormat(&text, "  %-*s  %.6g\n", w, part.key, *part.kl_mean);
    } else {
      absl::StrAppendFormat(&text, "  %-*s  cannot run alone: %s\n", w, part.key, part.reason);
    }
  }
  absl::StrAppendFormat(&text, "  %-*s  %.6g\n", w, "together",
                        report.result.comparison.predictions.kl_mean);
  if (const std::optional<double> remainder = report.remainder()) {
    absl::StrAppendFormat(&text, "  %-*s  %.6g\n", w, "remainder", *remainder);
  }
  return text;
}

std::string NamesText(const char* what, const std::vector<std::string>& names) {
  return names.empty() ? "" : absl::StrCat(what, ": ", absl::StrJoin(names, ", "), "\n");
}

}  // namespace

bool Report::different() const {
  return result.comparison.first() != nullptr || !only_a.empty() || !only_b.empty();
}

std::optional<double> Report::remainder() const {
  if (parts.empty()) return std::nullopt;
  double sum = 0.0;
  for (const Part& part : parts) {
    if (!part.kl_mean) return std::nullopt;
    sum += *part.kl_mean;
  }
  return result.comparison.predictions.kl_mean - sum;
}

absl::StatusOr<std::string> ReportText(const Report& report, const Engine& a,
                                       const TextOptions& options) {
  const Comparison& comparison = report.result.comparison;
  const bool bits = comparison.first() == nullptr;
  std::string text = absl::StrCat("A: ", report.a, "\nB: ", report.b, "\n");
  absl::StrAppend(&text, report.different() ? "different" : "equal bits", ": ",
                  comparison.points.size(), " points, ", comparison.rows(), " rows compared, ",
                  comparison.not_compared(), " rows that one side alone made\n");
  const std::string names =
      absl::StrCat(NamesText("only A has", report.only_a), NamesText("only B has", report.only_b),
                   NamesText("tensors that are no points of the model", report.ignored));
  text += WrappedText(names, TableWidth(options.wide));
  if (bits) return text;
  NG_ASSIGN_OR_RETURN(const std::string first, FirstText(report, a));
  NG_ASSIGN_OR_RETURN(const std::string predictions, PredictionsText(report, a));
  NG_ASSIGN_OR_RETURN(const std::string top, TopText(report, a, options.top));
  absl::StrAppend(&text, first, TableText(comparison, options.wide),
                  WrappedText(GrowthText(comparison), TableWidth(options.wide)), top, predictions,
                  PartsText(report));
  return text;
}

std::string ReportJson(const Report& report, bool by_position) {
  const Comparison& comparison = report.result.comparison;
  std::string text;
  for (const PointComparison& point : comparison.points) {
    absl::StrAppend(&text, PointJson(point, by_position).dump(), "\n");
  }
  Json verdict;
  verdict["verdict"] = report.different() ? "different" : "equal";
  verdict["first"] = nullptr;
  if (const PointComparison* const point = comparison.first()) {
    Json first;
    first["point"] = PointName(point->point.at.point);
    first["layer"] = LayerJson(point->point.at);
    first.update(PlaceJson(*point, *point->figures.first()));
    verdict["first"] = std::move(first);
  }
  const Predictions& predictions = comparison.predictions;
  const bool predicts = predictions.n_rows > 0;
  verdict["kl_mean"] = predicts ? Number(predictions.kl_mean) : Json(nullptr);
  verdict["argmax_flips"] = predicts ? Json(predictions.flips.size()) : Json(nullptr);
  verdict["by_key"] = Json::object();
  for (const Part& part : report.parts) {
    verdict["by_key"][part.key] = part.kl_mean ? Number(*part.kl_mean) : Json(nullptr);
  }
  const std::optional<double> remainder = report.remainder();
  verdict["remainder"] = remainder ? Number(*remainder) : Json(nullptr);
  verdict["rows"] = comparison.rows();
  verdict["not_compared"] = comparison.not_compared();
  verdict["only_a"] = report.only_a;
  verdict["only_b"] = report.only_b;
  verdict["ignored"] = report.ignored;
  return absl::StrCat(text, verdict.dump(), "\n");
}

}  // namespace ng::diff
