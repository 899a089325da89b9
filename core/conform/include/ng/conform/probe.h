// What every probe must do, as a list of checks.
//
// A probe is driven through its interface alone, over rows that are made up. What it makes of the
// rows of a request is compared with what it makes of them when they are fed in other chunks,
// again, or beside other requests.
#ifndef NG_CONFORM_PROBE_H_
#define NG_CONFORM_PROBE_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ng/conform/check.h"
#include "ng/plugin.h"
#include "ng/probe.h"

namespace ng::conform {

using MakeProbe =
    std::function<absl::StatusOr<std::unique_ptr<Probe>>(const PluginContext&, const ProbeModel&)>;

// The model that probes are checked with: two layers of width 16 with 4 heads of 4, 2 of them for
// keys and values, a feed-forward of 24, a vocabulary of 64 without texts, and every point but
// `router`.
std::span<const PointShape> ProbePoints();

struct ProbeSubject {
  CheckSettings settings = {};
  MakeProbe make;
};

using ProbeCheck = Check<ProbeSubject>;
std::span<const ProbeCheck> ProbeChecks();

// All of them: RunChecks.
std::vector<std::string> CheckProbe(const ProbeSubject& subject);

}  // namespace ng::conform

#endif  // NG_CONFORM_PROBE_H_
