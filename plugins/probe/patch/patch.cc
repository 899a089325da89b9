#include "plugins/probe/patch/patch.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace ng {
namespace {

// The rows of a point, [n_rows, values].
absl::StatusOr<std::vector<float>> RowsOf(const SafetensorsReader& file, const PointShape& point,
                                          int64_t request) {
  NG_ASSIGN_OR_RETURN(NamedTensor tensor,
                      file.Read(absl::StrCat(PointText(point.at), ".", request)));
  const int64_t n_rows = tensor.shape.empty() ? 0 : tensor.shape[0];
  if (n_rows == 0 || std::ssize(tensor.data) != n_rows * point.values()) {
    return ModelFileError(absl::StrCat(file.path(), ": tensor ", tensor.name, " has ",
                                       tensor.data.size(), " values in ", n_rows,
                                       " rows; a row of the point has ", point.values()));
  }
  const auto bad = std::ranges::find_if(tensor.data, [](float x) { return !std::isfinite(x); });
  if (bad != tensor.data.end()) {
    return ModelFileError(absl::StrCat(file.path(), ": tensor ", tensor.name, ", row ",
                                       (bad - tensor.data.begin()) / point.values(), " has ", *bad,
                                       ", must be finite"));
  }
  return std::move(tensor.data);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Probe>> Patch::Create(const PatchOptions& options,
                                                     const ProbeModel& model) {
  NG_ASSIGN_OR_RETURN(
      EditedRows edited,
      ReadEditedRows(model, {options.points, options.positions, options.may_miss}, "probe.patch"));
  NG_ASSIGN_OR_RETURN(const SafetensorsReader file, OpenNamed(options.file, "probe.patch.file"));
  std::vector<std::vector<float>> all;
  for (const PointShape& point : edited.points) {
    NG_ASSIGN_OR_RETURN(std::vector<float> rows, RowsOf(file, point, options.request));
    const int64_t n_rows = std::ssize(rows) / point.values();
    const int64_t last = edited.positions.LastNumber();
    if (last >= 0 && (last + options.shift >= n_rows || last + options.shift < 0)) {
      return UsageError(absl::StrCat("probe.patch.positions: position ", last, " is to get row ",
                                     last + options.shift, " of ", PointText(point.at), ", and ",
                                     file.path(), " has rows 0 to ", n_rows - 1));
    }
    all.push_back(std::move(rows));
  }
  edited.reads = {file.path()};
  auto patch = absl::WrapUnique(new Patch(std::move(edited)));
  patch->shift_ = options.shift;
  patch->rows_ = std::move(all);
  return patch;
}

bool Patch::EditRow(size_t point, int64_t pos, float* row) {
  const int64_t n = points()[point].values();
  const std::vector<float>& rows = rows_[point];
  const int64_t from = pos + shift_;
  if (from < 0 || from >= std::ssize(rows) / n) return false;
  std::copy_n(rows.data() + from * n, n, row);
  return true;
}

}  // namespace ng
