#include "plugins/probe/ablate/ablate.h"

#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace ng {
namespace {

// Those of [0, n) that the option names. Errors: UsageError.
absl::Status CheckIndices(std::span<const int64_t> indices, int64_t n, const char* option,
                          const PointShape& point) {
  for (const int64_t index : indices) {
    if (index >= 0 && index < n) continue;
    return UsageError(absl::StrCat("probe.ablate.", option, ": ", index, " of ",
                                   PointText(point.at), ", must be in [0, ", n - 1, "]"));
  }
  return absl::OkStatus();
}

// The elements of a row that are replaced.
absl::StatusOr<std::vector<int64_t>> ElementsOf(const AblateOptions& options,
                                                const PointShape& point) {
  std::vector<int64_t> elements(options.elements.begin(), options.elements.end());
  NG_RETURN_IF_ERROR(CheckIndices(elements, point.values(), "elements", point));
  if (options.heads.empty()) {
    if (!elements.empty()) return elements;
    elements.resize(static_cast<size_t>(point.values()));
    std::iota(elements.begin(), elements.end(), 0);
    return elements;
  }
  if (point.n_heads == 0) {
    return UsageError(absl::StrCat("probe.ablate.heads: ", PointText(point.at),
                                   " has no heads; attn_head, q, k and v have"));
  }
  NG_RETURN_IF_ERROR(CheckIndices(options.heads, point.n_heads, "heads", point));
  for (const int64_t head : options.heads) {
    for (int64_t i = 0; i < point.width; ++i) elements.push_back(head * point.width + i);
  }
  return elements;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Probe>> Ablate::Create(const AblateOptions& options,
                                                      const ProbeModel& model) {
  NG_ASSIGN_OR_RETURN(
      EditedRows edited,
      ReadEditedRows(model, {options.points, options.positions, options.may_miss}, "probe.ablate"));
  std::optional<SafetensorsReader> file;
  std::vector<std::string> reads;
  if (!options.means.empty()) {
    NG_ASSIGN_OR_RETURN(file, OpenNamed(options.means, "probe.ablate.means"));
    reads.push_back(file->path());
  }
  std::vector<std::vector<Replaced>> replaced;
  for (const PointShape& point : edited.points) {
    NG_ASSIGN_OR_RETURN(const std::vector<int64_t> elements, ElementsOf(options, point));
    NamedTensor means{"", {}, std::vector<float>(static_cast<size_t>(point.values()))};
    if (file) {
      NG_ASSIGN_OR_RETURN(means, file->Read(PointText(point.at)));
      if (std::ssize(means.data) != point.values()) {
        return ModelFileError(absl::StrCat(file->path(), ": tensor ", means.name, " has ",
                                           means.data.size(), " values, a row of the point has ",
                                           point.values()));
      }
    }
    std::vector<Replaced>& of_point = replaced.emplace_back();
    for (const int64_t element : elements) {
      const float value = means.data[static_cast<size_t>(element)];
      if (!std::isfinite(value)) {
        return ModelFileError(absl::StrCat(file->path(), ": tensor ", means.name, ", element ",
                                           element, " is ", value, ", must be finite"));
      }
      of_point.push_back({element, value});
    }
  }
  edited.reads = std::move(reads);
  auto ablate = absl::WrapUnique(new Ablate(std::move(edited)));
  ablate->replaced_ = std::move(replaced);
  return ablate;
}

bool Ablate::EditRow(size_t point, int64_t /*pos*/, float* row) {
  for (const auto& [element, value] : replaced_[point]) row[element] = value;
  return true;
}

}  // namespace ng
