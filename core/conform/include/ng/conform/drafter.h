// What every drafter must do, as a list of checks.
//
// A drafter is driven through its interface alone, over sequences that are made up. Whether its
// drafts are any good is no check: a drafter that proposes nothing conforms.
#ifndef NG_CONFORM_DRAFTER_H_
#define NG_CONFORM_DRAFTER_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ng/conform/check.h"
#include "ng/drafter.h"
#include "ng/plugin.h"

namespace ng::conform {

using MakeDrafter =
    std::function<absl::StatusOr<std::unique_ptr<Drafter>>(const PluginContext& context)>;

// The vocabulary that drafters are checked with: so many tokens, without texts.
inline constexpr int64_t kDrafterVocabSize = 41;

struct DrafterSubject {
  CheckSettings settings = {};
  MakeDrafter make;
};

using DrafterCheck = Check<DrafterSubject>;
std::span<const DrafterCheck> DrafterChecks();

// All of them: RunChecks.
std::vector<std::string> CheckDrafter(const DrafterSubject& subject);

}  // namespace ng::conform

#endif  // NG_CONFORM_DRAFTER_H_
