// GuardedDrafter: the decorator around a plugin's drafter. Nothing that the plugin throws gets past
// it, every error names the plugin, and what is proposed is in the vocabulary.
#ifndef NG_CORE_PLUGIN_GUARDED_DRAFTER_H_
#define NG_CORE_PLUGIN_GUARDED_DRAFTER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/plugin/loader.h"
#include "ng/drafter.h"

namespace ng {

class GuardedDrafter final : public Drafter {
 public:
  GuardedDrafter(const LoadedPlugin& plugin, std::unique_ptr<Drafter> drafter, int64_t vocab_size)
      : plugin_(plugin), drafter_(std::move(drafter)), vocab_size_(vocab_size) {}

  // Errors: PluginError when the plan is less than nothing.
  absl::StatusOr<DrafterPlan> Plan(const DrafterSpec& spec) const override;
  // A ModelFileError and an InterruptedError keep their code, as in Propose the latter.
  absl::Status Load(const DrafterSpec& spec) override;
  absl::Status Open(int slot, const DraftedRequest& request) override;
  absl::Status Accept(int slot, int32_t token) override;
  absl::Status Close(int slot) override;
  // Errors: PluginError when a draft is not as long as it says, or holds what is no token.
  absl::Status Propose(std::span<Draft> drafts) override;
  std::string Report() const override { return GuardReport(*drafter_); }

 private:
  absl::Status CheckDraft(const Draft& asked, const Draft& made) const;

  LoadedPlugin plugin_;
  std::unique_ptr<Drafter> drafter_;
  const int64_t vocab_size_;
  std::vector<Draft> asked_;  // what Propose was called with
};

}  // namespace ng

#endif  // NG_CORE_PLUGIN_GUARDED_DRAFTER_H_
