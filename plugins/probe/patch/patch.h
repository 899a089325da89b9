// Activation patching: rows of some points are replaced by those of another run, which a file has
// as ng-run's --save-tensors and the probe capture write them: tensors <point>.<request>, whose row
// p is that of position p.
#ifndef NG_PLUGINS_PROBE_PATCH_PATCH_H_
#define NG_PLUGINS_PROBE_PATCH_PATCH_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "plugins/probe/row_editor.h"

namespace ng {

struct PatchOptions {
  std::span<const std::string_view> points = {};  // patterns
  std::string_view file = {};
  int64_t request = 0;  // of the run that the file has
  int64_t shift = 0;    // position p gets row p + shift
  std::span<const std::string_view> positions = {};
  bool may_miss = false;  // no row need be edited
};

class Patch final : public RowEditor {
 public:
  // Errors: UsageError for an option, and where a position is named by number whose row the file
  // has not; ModelFileError for the file.
  static absl::StatusOr<std::unique_ptr<Probe>> Create(const PatchOptions& options,
                                                       const ProbeModel& model);

 private:
  using RowEditor::RowEditor;
  // Positions that the file has no row for stay as they are.
  bool EditRow(size_t point, int64_t pos, float* row) override;

  int64_t shift_ = 0;
  std::vector<std::vector<float>> rows_;  // [n_points][n_rows, values]
};

}  // namespace ng

#endif  // NG_PLUGINS_PROBE_PATCH_PATCH_H_
