#include "plugins/probe/steer/steer.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace ng {

absl::StatusOr<std::unique_ptr<Probe>> Steer::Create(const SteerOptions& options,
                                                     const ProbeModel& model) {
  NG_ASSIGN_OR_RETURN(
      EditedRows edited,
      ReadEditedRows(model, {options.points, options.positions, options.may_miss}, "probe.steer"));
  NG_ASSIGN_OR_RETURN(const SafetensorsReader file, OpenNamed(options.file, "probe.steer.file"));
  std::string name(options.tensor);
  if (name.empty()) {
    if (file.tensors().size() != 1) {
      return UsageError(absl::StrCat("probe.steer.tensor is empty, must name one of the ",
                                     file.tensors().size(), " tensors of ", file.path()));
    }
    name = file.tensors()[0].name;
  }
  NG_ASSIGN_OR_RETURN(NamedTensor vector, file.Read(name));
  for (const PointShape& point : edited.points) {
    if (std::ssize(vector.data) == point.values()) continue;
    return ModelFileError(absl::StrCat(file.path(), ": tensor ", name, " has ", vector.data.size(),
                                       " values, a row of ", PointText(point.at), " has ",
                                       point.values()));
  }
  const auto coefficient = static_cast<float>(options.coefficient);
  for (float& value : vector.data) {
    value *= coefficient;
    if (std::isfinite(value)) continue;
    return ModelFileError(absl::StrCat(file.path(), ": tensor ", name, " times ",
                                       options.coefficient, " has a value that is not finite"));
  }
  edited.reads = {file.path()};
  auto steer = absl::WrapUnique(new Steer(std::move(edited)));
  steer->added_ = std::move(vector.data);
  return steer;
}

bool Steer::EditRow(size_t /*point*/, int64_t /*pos*/, float* row) {
  for (size_t i = 0; i < added_.size(); ++i) row[i] += added_[i];
  return true;
}

}  // namespace ng
