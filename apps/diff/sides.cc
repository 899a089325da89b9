#include "apps/diff/sides.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "ng/run_plan.h"
#include "ng/utf8.h"

namespace ng::diff {
namespace {

// A token's text without the blank that some tokenizers put before it only where it is written out.
// Empty: a side knows no text.
std::string TextOf(const Engine& engine, int32_t id) {
  const absl::StatusOr<std::string> text = engine.Decode({&id, 1});
  if (!text.ok()) return "";
  const size_t first = text->find_first_not_of(' ');
  return first == text->npos ? "" : text->substr(first);
}

bool HasPoint(const std::vector<PointShape>& points, const PointShape& wanted) {
  const auto found = std::ranges::find(points, wanted.at, &PointShape::at);
  return found != points.end() && found->n_heads == wanted.n_heads && found->width == wanted.width;
}

}  // namespace

PointsOfBoth ComparePoints(const Engine& a, const Engine& b) {
  PointsOfBoth points;
  for (const PointShape& point : a.points()) {
    if (HasPoint(b.points(), point)) {
      points.common.push_back(point);
    } else {
      points.only_a.push_back(PointText(point.at));
    }
  }
  for (const PointShape& point : b.points()) {
    if (!HasPoint(a.points(), point)) points.only_b.push_back(PointText(point.at));
  }
  return points;
}

absl::Status CheckVocabularies(const Engine& a, const Engine& b) {
  const int64_t n_a = a.model_shape().vocab_size;
  const int64_t n_b = b.model_shape().vocab_size;
  if (n_a != n_b) {
    return UsageError(absl::StrCat("its vocabulary has ", n_b, " ids, must have A's ", n_a));
  }
  if (!a.has_tokenizer() || !b.has_tokenizer()) return absl::OkStatus();
  for (int32_t id = 0; id < n_a; ++id) {
    const std::string text_a = TextOf(a, id);
    const std::string text_b = TextOf(b, id);
    if (text_a.empty() || text_b.empty() || text_a == text_b) continue;
    return UsageError(absl::StrCat("its vocabulary is another one: id ", id, " is '",
                                   VisibleText(text_b), "', A's is '", VisibleText(text_a), "'"));
  }
  return absl::OkStatus();
}

RunNeeds NeedsOf(std::span<const GenerateRequest> requests) {
  RunNeeds needs = Needs(requests);
  needs.prompt_logits = true;
  return needs;
}

absl::StatusOr<LockstepResult> RunBoth(const BothSides& sides,
                                       std::span<const GenerateRequest> requests,
                                       const std::vector<PointShape>& points,
                                       const std::atomic<bool>* stop) {
  std::vector<GenerateRequest> given(requests.begin(), requests.end());
  for (GenerateRequest& request : given) request.load_cache.clear();
  const std::string prefix = sides.b_name + ": ";
  for (const GenerateRequest& request : given) {
    NG_RETURN_IF_ERROR(Annotate(sides.b.CheckRequest(request), prefix));
  }
  const RunNeeds needs_a = NeedsOf(requests);
  const RunNeeds needs_b = NeedsOf(given);
  NG_ASSIGN_OR_RETURN(const RunPlan plan_a, sides.a.Plan(needs_a));
  const absl::StatusOr<RunPlan> plan_b = sides.b.Plan(needs_b);
  if (!plan_b.ok()) return Annotate(plan_b.status(), prefix);
  const int64_t bytes_a = plan_a.needed_bytes();
  const int64_t bytes_b = plan_b->needed_bytes();
  const int64_t left = plan_a.available_bytes - bytes_a - bytes_b;
  if (bytes_a > plan_a.available_bytes - bytes_b) {
    return LimitError(absl::StrCat("both sides together need ", bytes_a + bytes_b, " bytes (A ",
                                   bytes_a, ", B ", bytes_b, "), ", plan_a.available_bytes,
                                   " are available; lower run.max_new_tokens, or give another "
                                   "model.weights or a shorter prompt"));
  }
  NG_RETURN_IF_ERROR(sides.a.Load(needs_a));
  NG_RETURN_IF_ERROR(Annotate(sides.b.Load(needs_b), prefix));
  return RunLockstep({sides.a, requests}, {sides.b, given}, sides.b_name, {points, left, stop});
}

}  // namespace ng::diff
