// The rows of points that another engine made, from a safetensors file: tensors `<point>.<i>` of
// prompt i, [tokens, width] or [tokens, heads, head_dim], as ng-run --save-tensors writes them.
#ifndef NG_APPS_DIFF_TENSORS_H_
#define NG_APPS_DIFF_TENSORS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "apps/diff/lockstep.h"
#include "ng/point.h"
#include "ng/safetensors.h"
#include "ng/status.h"

namespace ng::diff {

class Tensors {
 public:
  // `points`: of the model. Errors: ModelFileError when the file cannot be read, has no point of
  // the model, or has rows of another shape.
  static absl::StatusOr<Tensors> Open(const std::string& path,
                                      const std::vector<PointShape>& points);

  const std::string& path() const { return file_.path(); }
  // Those of the model's points that the file has, in their order.
  const std::vector<PointShape>& points() const { return points_; }
  // Names of the tensors that are no point of the model.
  const std::vector<std::string>& others() const { return others_; }
  // The tokens that the file's rows are of, by prompt; empty where it does not say.
  const std::map<int, std::vector<int32_t>>& ids() const { return ids_; }
  // The prompts whose rows the file has, and nothing more. Errors: UsageError when it does not say
  // which tokens they are of.
  absl::StatusOr<std::vector<GenerateRequest>> Requests() const;

  // Runs A, and compares each row with the file's as A makes it. Errors: those of the engine;
  // UsageError when the file's rows are of other tokens; ModelFileError.
  absl::StatusOr<LockstepResult> Compare(const SideRun& a, const Lockstep& lockstep);

 private:
  struct Stored {
    const StoredTensor* tensor = nullptr;
    int64_t n_rows = 0;
    int64_t n_seen = 0;  // of them, that A has made
  };
  explicit Tensors(SafetensorsReader file) : file_(std::move(file)) {}
  absl::Status Add(const StoredTensor& tensor, const std::vector<PointShape>& points);
  absl::Status ReadIds();
  absl::Status CheckToken(const TokenRow& token) const;
  absl::Status OnPoint(const PointRows& rows, Comparer& comparer);

  SafetensorsReader file_;
  std::vector<PointShape> points_;
  std::vector<std::string> others_;
  std::map<std::pair<std::string, int>, Stored> stored_;  // by point's name and prompt
  std::map<int, std::vector<int32_t>> ids_;
  std::vector<float> row_;
};

}  // namespace ng::diff

#endif  // NG_APPS_DIFF_TENSORS_H_
