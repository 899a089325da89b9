#include "ng/conform/probe.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/conform/probe_rig.h"
#include "core/conform/texts.h"

namespace ng::conform {
namespace {

bool SameUse(const ProbeUse& a, const ProbeUse& b) {
  const auto same = [](const ProbePoint& x, const ProbePoint& y) {
    return x.at == y.at && x.edits == y.edits;
  };
  return std::ranges::equal(a.points, b.points, same) && a.every_token == b.every_token &&
         a.identity == b.identity && a.reads == b.reads && a.writes == b.writes;
}

Outcome CheckUse(const ProbeSubject& subject) {
  ProbeRig rig(subject);
  const auto probe = rig.Make();
  if (rig.noted()) return rig.outcome();
  const ProbeUse& use = rig.use();
  for (const ProbePoint& point : use.points) {
    if (std::ranges::count(ProbePoints(), point.at, &PointShape::at) == 0) {
      rig.Note(absl::StrCat("names ", PointText(point.at), ", which the model has not"));
    }
    if (std::ranges::count(use.points, point.at, &ProbePoint::at) > 1) {
      rig.Note(absl::StrCat("names ", PointText(point.at), " twice"));
    }
  }
  if (!SameUse(use, probe->Use())) rig.Note("says something else when it is asked again");
  if (OneLine(probe->Report()) != probe->Report()) rig.Note("Report is not one line");
  return rig.outcome();
}

Outcome CheckRows(const ProbeSubject& subject) {
  ProbeRig rig(subject);
  const auto probe = rig.Make();
  if (probe != nullptr) rig.Run(*probe, ProbeRig::Requests(2), {});
  return rig.outcome();
}

// Compares what two ways of feeding leave of the rows that both show.
void Compare(const SeenRows& found, const SeenRows& expected, const char* when, ProbeRig* rig) {
  for (const auto& [key, row] : found) {
    const auto other = expected.find(key);
    if (other == expected.end() || other->second == row) continue;
    rig->Note(absl::StrCat("makes something else of request ", key.request, ", position ", key.pos,
                           " of ", PointText(ProbePoints()[key.point].at), " ", when));
    return;
  }
}

Outcome CheckChunks(const ProbeSubject& subject) {
  ProbeRig rig(subject);
  const auto requests = ProbeRig::Requests(1);
  const auto probe = rig.Make();
  if (probe == nullptr) return rig.outcome();
  const SeenRows whole = rig.Run(*probe, requests, {});
  for (const Feeding& feeding : {Feeding{.chunk = 3}, {.chunk = 1}, {.uncached = true}}) {
    const auto other = rig.Make();
    if (other == nullptr) break;
    Compare(rig.Run(*other, requests, feeding), whole,
            feeding.uncached ? "when nothing is cached" : "when it is fed in chunks", &rig);
  }
  return rig.outcome();
}

Outcome CheckBatch(const ProbeSubject& subject) {
  ProbeRig rig(subject);
  const auto requests = ProbeRig::Requests(3);
  const auto together = rig.Make();
  if (together == nullptr) return rig.outcome();
  const SeenRows all = rig.Run(*together, requests, {.chunk = 4});
  for (const ProbedRequest& request : requests) {
    const auto alone = rig.Make();
    if (alone == nullptr) break;
    Compare(rig.Run(*alone, {request}, {}), all, "beside other requests", &rig);
  }
  return rig.outcome();
}

Outcome CheckRuns(const ProbeSubject& subject) {
  ProbeRig rig(subject);
  const auto probe = rig.Make();
  if (probe == nullptr) return rig.outcome();
  const auto requests = ProbeRig::Requests(2);
  const SeenRows first = rig.Run(*probe, requests, {});
  // A run that fails before anything is fed.
  if (!rig.noted()) {
    absl::Status told = probe->Begin({.index = 0, .prompt_ids = requests[1].prompt});
    told.Update(probe->End(0));
    told.Update(probe->EndRun({.failed = true, .config = "", .identity = {}}));
    if (!told.ok()) rig.Note("refuses a run that fails: " + Text(told));
  }
  Compare(rig.Run(*probe, requests, {}), first, "in a later run", &rig);
  return rig.outcome();
}

constexpr ProbeCheck kProbeChecks[] = {
    {"use", "names points of the model, each once, and the same when asked again", CheckUse},
    {"rows", "leaves what it does not edit, and what lies beside the rows; finite values",
     CheckRows},
    {"chunks", "an edit does not depend on how a prompt is fed", CheckChunks},
    {"batch", "an edit does not depend on what else is in the step", CheckBatch},
    {"runs", "a later run knows nothing of an earlier one", CheckRuns},
};

}  // namespace

std::span<const ProbeCheck> ProbeChecks() { return kProbeChecks; }

std::vector<std::string> CheckProbe(const ProbeSubject& subject) {
  return RunChecks(ProbeChecks(), subject);
}

}  // namespace ng::conform
