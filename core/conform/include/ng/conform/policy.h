// What every policy must do, as a list of checks.
//
// A policy is asked for the scores of tokens that are made up. Whether it keeps the right ones is
// no check.
#ifndef NG_CONFORM_POLICY_H_
#define NG_CONFORM_POLICY_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ng/conform/check.h"
#include "ng/plugin.h"
#include "ng/policy.h"

namespace ng::conform {

using MakePolicy =
    std::function<absl::StatusOr<std::unique_ptr<Policy>>(const PluginContext& context)>;

struct PolicySubject {
  CheckSettings settings = {};
  MakePolicy make;
};

using PolicyCheck = Check<PolicySubject>;
std::span<const PolicyCheck> PolicyChecks();

// All of them: RunChecks.
std::vector<std::string> CheckPolicy(const PolicySubject& subject);

}  // namespace ng::conform

#endif  // NG_CONFORM_POLICY_H_
