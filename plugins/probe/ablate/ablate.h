// Ablation: heads or single elements (neurons) of the rows of some points become zero, or the means
// that a file gives.
#ifndef NG_PLUGINS_PROBE_ABLATE_ABLATE_H_
#define NG_PLUGINS_PROBE_ABLATE_ABLATE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "plugins/probe/row_editor.h"

namespace ng {

struct AblateOptions {
  std::span<const std::string_view> points = {};  // patterns
  std::span<const int64_t> heads = {};
  std::span<const int64_t> elements = {};  // neither: the whole row
  std::string_view means = {};             // a safetensors file; empty: zero
  std::span<const std::string_view> positions = {};
  bool may_miss = false;  // no row need be edited
};

class Ablate final : public RowEditor {
 public:
  // Errors: UsageError for an option; ModelFileError for the file, which must have a tensor with
  // the name of each point and as many values as a row.
  static absl::StatusOr<std::unique_ptr<Probe>> Create(const AblateOptions& options,
                                                       const ProbeModel& model);

 private:
  using RowEditor::RowEditor;
  bool EditRow(size_t point, int64_t pos, float* row) override;

  struct Replaced {
    int64_t element = 0;
    float value = 0.0F;
  };
  std::vector<std::vector<Replaced>> replaced_;  // [n_points][n_replaced]
};

}  // namespace ng

#endif  // NG_PLUGINS_PROBE_ABLATE_ABLATE_H_
