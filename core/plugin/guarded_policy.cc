#include "core/plugin/guarded_policy.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/absl_view.h"

namespace ng {

GuardedPolicy::GuardedPolicy(const LoadedPlugin& plugin, std::unique_ptr<Policy> policy)
    : plugin_(plugin), policy_(std::move(policy)) {}

absl::StatusOr<std::unique_ptr<Policy>> GuardedPolicy::Make(const LoadedPlugin& plugin,
                                                            std::unique_ptr<Policy> policy) {
  std::unique_ptr<GuardedPolicy> guarded(new GuardedPolicy(plugin, std::move(policy)));
  NG_RETURN_IF_ERROR(GuardPlugin(plugin, [&]() -> absl::Status {
    const std::span<const std::string_view> needs = guarded->policy_->needs();
    guarded->needs_.assign(needs.begin(), needs.end());
    for (const std::string_view need : needs) {
      if (std::ranges::count(kPolicyNeeds, need) != 0) continue;
      const auto append = [](std::string* out, std::string_view name) { out->append(name); };
      return PluginError(absl::StrCat("needs() lists '", View(need),
                                      "', there are: ", absl::StrJoin(kPolicyNeeds, ", ", append)));
    }
    guarded->attended_queries_ = guarded->policy_->attended_queries();
    guarded->first_query_ = guarded->policy_->first_query();
    for (const auto& [name, value] : {std::pair("attended_queries()", guarded->attended_queries_),
                                      {"first_query()", guarded->first_query_}}) {
      if (value >= 0) continue;
      return PluginError(absl::StrCat(name, " gave ", value, ", must be at least 0"));
    }
    return absl::OkStatus();
  }));
  return guarded;
}

absl::Status GuardedPolicy::Score(const HeldTokens& tokens, std::span<float> scores) const {
  return GuardPlugin(plugin_, [&]() -> absl::Status {
    NG_RETURN_IF_ERROR(policy_->Score(tokens, scores));
    const auto nan = std::ranges::find_if(scores, [](float score) { return std::isnan(score); });
    if (nan == scores.end()) return absl::OkStatus();
    const auto position = tokens.positions[static_cast<size_t>(nan - scores.begin())];
    return NumericError(absl::StrCat("layer ", tokens.layer, ", kv head ", tokens.kv_head,
                                     ": the score of position ", position, " is NaN"));
  });
}

}  // namespace ng
