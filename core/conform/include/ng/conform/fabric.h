// What every fabric must do, as a list of checks.
//
// A fabric is driven through its interface alone. Every rank runs the same checks in the same
// order; what each of them gives follows from its number, so that the others know what must come.
// With one rank, as ng-conform runs them, the checks see what a fabric does to its own rank.
#ifndef NG_CONFORM_FABRIC_H_
#define NG_CONFORM_FABRIC_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ng/conform/check.h"
#include "ng/fabric.h"
#include "ng/plugin.h"

namespace ng::conform {

using MakeFabric = std::function<absl::StatusOr<std::unique_ptr<Fabric>>(
    const PluginContext& context, const FabricSpec& spec)>;

struct FabricSubject {
  CheckSettings settings = {};
  MakeFabric make;
};

using FabricCheck = Check<FabricSubject>;
std::span<const FabricCheck> FabricChecks();

// All of them: RunChecks.
std::vector<std::string> CheckFabric(const FabricSubject& subject);

}  // namespace ng::conform

#endif  // NG_CONFORM_FABRIC_H_
