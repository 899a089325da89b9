#include "core/plugin/guarded_probe.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace ng {
namespace {

absl::Status CheckUse(const ProbeUse& use, const ProbeModel& model) {
  for (size_t i = 0; i < use.points.size(); ++i) {
    const PointAt& at = use.points[i].at;
    if (std::ranges::count(model.points, at, &PointShape::at) == 0) {
      return PluginError(
          absl::StrCat("Use names ", PointText(at), ", which is no point of this ", "model"));
    }
    if (std::ranges::count(use.points, at, &ProbePoint::at) > 1) {
      return PluginError(absl::StrCat("Use names ", PointText(at), " twice"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<GuardedProbe>> GuardedProbe::Make(const LoadedPlugin& plugin,
                                                                 std::unique_ptr<Probe> probe,
                                                                 const ProbeModel& model,
                                                                 bool check) {
  ProbeUse use;
  NG_RETURN_IF_ERROR(GuardPlugin(plugin, [&] {
    use = probe->Use();
    return CheckUse(use, model);
  }));
  return absl::WrapUnique(new GuardedProbe(plugin, std::move(probe), std::move(use), check));
}

absl::Status GuardedProbe::OnPoint(const PointRows& rows) {
  return GuardPlugin(plugin_,
                     [&] { return check_ ? OnPointChecked(rows) : probe_->OnPoint(rows); });
}

absl::Status GuardedProbe::OnPointChecked(const PointRows& rows) {
  const int64_t n = rows.values();
  const std::span<float> copy = lent_.Lend(rows.n_rows() * n);
  PointRows lent = rows;
  lent.data = copy.data();
  lent.stride = n;
  for (int64_t row = 0; row < rows.n_rows(); ++row) std::copy_n(rows.Row(row), n, lent.Row(row));
  NG_RETURN_IF_ERROR(probe_->OnPoint(lent));
  const std::string side = lent_.Trespass();
  if (!side.empty()) {
    return PluginError(absl::StrCat("wrote ", side, " the rows of ", PointText(rows.at)));
  }
  for (int64_t row = 0; row < rows.n_rows(); ++row) {
    NG_RETURN_IF_ERROR(CheckRow(rows, row, rows.Row(row), lent.Row(row)));
    std::copy_n(lent.Row(row), n, rows.Row(row));
  }
  return absl::OkStatus();
}

absl::Status GuardedProbe::CheckRow(const PointRows& rows, int64_t row, const float* before,
                                    const float* after) const {
  const bool edits = std::ranges::find(use_.points, rows.at, &ProbePoint::at)->edits;
  for (int64_t i = 0; i < rows.values(); ++i) {
    if (std::bit_cast<uint32_t>(before[i]) == std::bit_cast<uint32_t>(after[i])) continue;
    if (edits && (std::isfinite(after[i]) || !std::isfinite(before[i]))) continue;
    const std::string what =
        absl::StrCat(PointText(rows.at), ", position ", rows.tokens[static_cast<size_t>(row)].pos,
                     ", element ", i, " from ", before[i], " to ", after[i]);
    if (edits) return NumericError("changed " + what);
    return PluginError(absl::StrCat("changed ", what, ", and Use does not say that it edits it"));
  }
  return absl::OkStatus();
}

absl::Status GuardedProbe::Begin(const ProbeRequest& request) {
  return GuardPlugin(plugin_, [&] { return probe_->Begin(request); });
}

absl::Status GuardedProbe::Accept(int request, int32_t token) {
  return GuardPlugin(plugin_, [&] { return probe_->Accept(request, token); });
}

absl::Status GuardedProbe::End(int request) {
  return GuardPlugin(plugin_, [&] { return probe_->End(request); });
}

absl::Status GuardedProbe::EndRun(const ProbeRun& run) {
  absl::Status own;
  absl::Status status = GuardPlugin(plugin_, [&] { return own = probe_->EndRun(run); });
  if (absl::IsInvalidArgument(own) || absl::IsUnavailable(own) || absl::IsCancelled(own)) {
    return Annotate(own, absl::StrCat("probe.", plugin_.descriptor->name, ": "));
  }
  return status;
}

}  // namespace ng
