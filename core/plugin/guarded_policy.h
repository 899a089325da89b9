// GuardedPolicy: the decorator around a plugin's policy. Nothing that the plugin throws gets past
// it, every error names the plugin, it needs only what there is a name for, and no score is NaN.
#ifndef NG_CORE_PLUGIN_GUARDED_POLICY_H_
#define NG_CORE_PLUGIN_GUARDED_POLICY_H_

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/plugin/loader.h"
#include "ng/policy.h"

namespace ng {

class GuardedPolicy final : public Policy {
 public:
  // Errors: PluginError when the policy needs what has no name, or a number below 0.
  static absl::StatusOr<std::unique_ptr<Policy>> Make(const LoadedPlugin& plugin,
                                                      std::unique_ptr<Policy> policy);

  std::span<const std::string_view> needs() const override { return needs_; }
  int64_t attended_queries() const override { return attended_queries_; }
  int64_t first_query() const override { return first_query_; }
  // Errors: NumericError when a score is NaN.
  absl::Status Score(const HeldTokens& tokens, std::span<float> scores) const override;

 private:
  GuardedPolicy(const LoadedPlugin& plugin, std::unique_ptr<Policy> policy);

  const LoadedPlugin plugin_;
  const std::unique_ptr<Policy> policy_;
  std::vector<std::string_view> needs_;
  int64_t attended_queries_ = 0;
  int64_t first_query_ = 0;
};

}  // namespace ng

#endif  // NG_CORE_PLUGIN_GUARDED_POLICY_H_
