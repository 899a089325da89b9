#include "apps/bench/report.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/common/screen_text.h"
#include "ng/config.h"

namespace ng::bench {
namespace {

using Json = nlohmann::ordered_json;

// Four significant digits, which is more than a measurement has.
double Rounded(double value) {
  if (value == 0.0) return value;
  const double digits = 3.0 - std::floor(std::log10(std::fabs(value)));
  const double scale = std::pow(10.0, std::fabs(digits));
  return digits > 0.0 ? std::round(value * scale) / scale : std::round(value / scale) * scale;
}

Json OrNull(std::optional<double> value) { return value ? Json(Rounded(*value)) : Json(nullptr); }

// Whether every key and value is read for every token. For a backend that is not ng's own this is
// not known: it may look at only a few of them.
bool ReadsWholeCache(const Config& config) {
  const std::string& attention = config.Text("attention.name");
  return attention == "flash" || attention == "reference";
}

// The bytes that a decoded token reads, where they are known.
std::optional<double> BytesPerToken(const Subject& subject, const Workload& workload,
                                    const Figures& figures) {
  if (!figures.speed.decode_tok_s || !ReadsWholeCache(subject.engine.config())) return std::nullopt;
  return DecodeBytesPerToken(subject.cost, workload);
}

// The share of the read bandwidth that decode reaches.
std::optional<double> BandwidthShare(const Subject& subject, const Workload& workload,
                                     const Figures& figures) {
  const std::optional<double> bytes = BytesPerToken(subject, workload, figures);
  if (!bytes) return std::nullopt;
  return *figures.speed.decode_tok_s * *bytes / (figures.read_gb_s * 1e9);
}

// The share of the peak that prefill reaches.
std::optional<double> PeakShare(const StepCost& cost, const Workload& workload,
                                const Figures& figures) {
  if (!figures.speed.prefill_tok_s) return std::nullopt;
  const auto n_tokens = static_cast<double>(workload.batch * workload.prompt_tokens);
  const double seconds = n_tokens / *figures.speed.prefill_tok_s;
  return PrefillOperations(cost, workload) / seconds / (figures.peak_gop_s * 1e9);
}

}  // namespace

std::string JsonLine(const Subject& subject, const Workload& workload, const Figures& figures) {
  const auto& [engine, model, cost] = subject;
  const Config& config = engine.config();
  const std::optional<double> bytes_per_token = BytesPerToken(subject, workload, figures);
  Json json = Json::object();
  json["model"] = model;
  json["isa"] = IsaName(engine.isa());
  json["threads"] = engine.threads();
  json["weights"] = cost.weights;
  json["codec"] = CodecsOf(config).Text();
  json["attention"] = config.Text("attention.name");
  json["cache"] = config.Text("cache.name");
  json["depth"] = workload.depth;
  json["batch"] = workload.batch;
  json["prompt_tokens"] = workload.prompt_tokens;
  json["decode_tokens"] = workload.decode_tokens;
  json["repeat"] = workload.repeat;
  json["prefill_tok_s"] = OrNull(figures.speed.prefill_tok_s);
  json["decode_tok_s"] = OrNull(figures.speed.decode_tok_s);
  json["weight_bytes"] = cost.weight_bytes;
  json["cache_bytes_per_token"] = cost.cache_bytes_per_token;
  json["bytes_per_token"] = bytes_per_token ? Json(std::llround(*bytes_per_token)) : Json(nullptr);
  json["read_gb_s"] = Rounded(figures.read_gb_s);
  json["peak_gop_s"] = Rounded(figures.peak_gop_s);
  json["peak_of"] = ArithmeticName(ArithmeticFor(cost.weights, engine.isa()));
  json["share_of_bandwidth"] = OrNull(BandwidthShare(subject, workload, figures));
  json["share_of_peak"] = OrNull(PeakShare(cost, workload, figures));
  json["regions_per_step"] = figures.regions ? Json(Rounded(figures.regions->n)) : Json(nullptr);
  json["serial_share"] =
      figures.regions ? Json(Rounded(figures.regions->serial_share)) : Json(nullptr);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string RoundLine(const Workload& workload, int64_t round, const Speed& speed) {
  std::string line =
      round == 0 ? "warm-up:" : absl::StrCat("round ", round, " of ", workload.repeat, ":");
  if (speed.prefill_tok_s) {
    absl::StrAppendFormat(&line, " prefill %.1f tok/s", *speed.prefill_tok_s);
  }
  if (speed.decode_tok_s) {
    absl::StrAppendFormat(&line, "%s decode %.1f tok/s", speed.prefill_tok_s ? "," : "",
                          *speed.decode_tok_s);
  }
  return line + "\n";
}

TextTable::TextTable(bool wide)
    : table_({{.name = "threads"},
              {.name = "batch", .rank = 1},
              {.name = "depth"},
              {.name = "prompt", .rank = 2},
              {.name = "prefill/s", .columns = 10},
              {.name = "of peak", .rank = 3},
              {.name = "decode/s", .columns = 9},
              {.name = "of reads", .rank = 3},
              {.name = "regions", .rank = 4},
              {.name = "serial", .columns = 7, .rank = 4}},
             TableWidth(wide)) {}

std::string TextTable::Head(const Subject& subject, const Figures& first) const {
  const auto& [engine, model, cost] = subject;
  return absl::StrCat(
      WrappedText(
          absl::StrFormat("%s: %s weights, %s cache, %s, %s; reads %.1f GB/s, peak %.0f "
                          "GOP/s; tokens a second\n",
                          model, std::string(cost.weights), CodecsOf(engine.config()).Text(),
                          engine.config().Text("attention.name"),
                          std::string(IsaName(engine.isa())), first.read_gb_s, first.peak_gop_s),
          TableWidth(false)),
      table_.Head());
}

std::string TextTable::Line(const Subject& subject, const Workload& workload,
                            const Figures& figures) const {
  const auto number = [](std::optional<double> value) {
    return value ? absl::StrFormat("%.1f", *value) : std::string("-");
  };
  const auto percent = [](std::optional<double> share) {
    return share ? absl::StrFormat("%.0f %%", 100.0 * *share) : std::string("-");
  };
  const auto& regions = figures.regions;
  return table_.Line(
      {absl::StrCat(subject.engine.threads()), absl::StrCat(workload.batch),
       absl::StrCat(workload.depth), absl::StrCat(workload.prompt_tokens),
       number(figures.speed.prefill_tok_s), percent(PeakShare(subject.cost, workload, figures)),
       number(figures.speed.decode_tok_s), percent(BandwidthShare(subject, workload, figures)),
       regions ? absl::StrFormat("%.0f", regions->n) : "-",
       regions ? absl::StrFormat("%.1f %%", 100.0 * regions->serial_share) : "-"});
}

}  // namespace ng::bench
