// A whole probe: how large the rows of some points are, said at the end of a run.
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ng/plugin.h"
#include "ng/probe.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::TextOption("points", "layer*.out", "names of points, * for any text")};

class RmsProbe final : public ng::Probe {
 public:
  explicit RmsProbe(std::vector<ng::PointShape> points) : points_(std::move(points)) {}

  // It looks at these points and edits none of them.
  ng::ProbeUse Use() const override {
    ng::ProbeUse use;
    for (const ng::PointShape& point : points_) use.points.push_back({point.at});
    return use;
  }
  absl::Status OnPoint(const ng::PointRows& rows) override {
    auto& [squares, n_values] = sums_[ng::PointText(rows.at)];
    for (int64_t row = 0; row < rows.n_rows(); ++row) {
      for (int64_t i = 0; i < rows.values(); ++i) squares += std::pow(rows.Row(row)[i], 2.0);
      n_values += static_cast<double>(rows.values());
    }
    return absl::OkStatus();
  }
  std::string Report() const override {
    std::string report = "rms";
    for (const auto& [point, sum] : sums_) {
      report += " " + point + " " + std::to_string(std::sqrt(sum.first / sum.second));
    }
    return report;
  }

 private:
  const std::vector<ng::PointShape> points_;
  std::map<std::string, std::pair<double, double>> sums_;  // of squares and of values, by point
};

absl::StatusOr<std::unique_ptr<ng::Probe>> Create(const ng::PluginContext& context,
                                                  const ng::ProbeModel& model) {
  auto points = ng::ChoosePoints(model.points, context.options.Text("points"));
  if (!points.ok()) return ng::Annotate(points.status(), "probe.rms.points: ");
  return std::make_unique<RmsProbe>(*std::move(points));
}

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::ProbePlugin<Create>("rms", "1.0.0", "says how large the rows of points are", kOptions);
