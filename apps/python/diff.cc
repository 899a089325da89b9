#include "apps/python/diff.h"

#include "apps/diff/lockstep.h"
#include "apps/diff/report.h"
#include "apps/diff/sides.h"

namespace ng::python {

std::string Diff(OpenEngine& a, OpenEngine& b, const std::vector<Ids>& prompts,
                 int64_t max_new_tokens) {
  if (&a == &b) Raise(UsageError("an engine cannot be compared with itself; open a second one"));
  const OpenEngine::Claim claim_a(a);
  const OpenEngine::Claim claim_b(b);
  if (a.n_open() + b.n_open() > 0) {
    Raise(UsageErrorAs("CloseFirstError",
                       "both engines are loaded for the comparison, which would end their open "
                       "sequences; close them"));
  }
  std::vector<GenerateRequest> requests;
  for (const Ids& ids : prompts) requests.push_back({VectorOf(ids), max_new_tokens});
  a.Unloaded();
  b.Unloaded();
  const StopOnSigint interrupt(a.stop(), b.stop());
  diff::Report report;
  absl::StatusOr<diff::LockstepResult> result = [&]() -> absl::StatusOr<diff::LockstepResult> {
    const WithoutGil free;
    NG_RETURN_IF_ERROR(Annotate(diff::CheckVocabularies(a.engine(), b.engine()), "B: "));
    for (const GenerateRequest& request : requests) {
      NG_RETURN_IF_ERROR(a.engine().CheckRequest(request));
    }
    diff::PointsOfBoth points = diff::ComparePoints(a.engine(), b.engine());
    report.only_a = std::move(points.only_a);
    report.only_b = std::move(points.only_b);
    return diff::RunBoth({a.engine(), b.engine(), "B"}, requests, points.common, a.stop());
  }();
  a.RaisePending();
  b.RaisePending();
  report.result = Value(std::move(result));
  return diff::ReportJson(report, /*by_position=*/false);
}

}  // namespace ng::python
