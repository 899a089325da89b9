// Steering: a vector times a coefficient is added to the rows of some points, as activation
// addition does it (Turner and others, 2023).
#ifndef NG_PLUGINS_PROBE_STEER_STEER_H_
#define NG_PLUGINS_PROBE_STEER_STEER_H_

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "plugins/probe/row_editor.h"

namespace ng {

struct SteerOptions {
  std::span<const std::string_view> points = {};  // patterns
  std::string_view file = {};
  std::string_view tensor = {};  // empty: the file's only one
  double coefficient = 1.0;
  std::span<const std::string_view> positions = {};
  bool may_miss = false;  // no row need be edited
};

class Steer final : public RowEditor {
 public:
  // Errors: UsageError for an option; ModelFileError for the file, or a vector that has not as many
  // values as a row.
  static absl::StatusOr<std::unique_ptr<Probe>> Create(const SteerOptions& options,
                                                       const ProbeModel& model);

 private:
  using RowEditor::RowEditor;
  bool EditRow(size_t point, int64_t pos, float* row) override;

  std::vector<float> added_;  // [values], times the coefficient
};

}  // namespace ng

#endif  // NG_PLUGINS_PROBE_STEER_STEER_H_
