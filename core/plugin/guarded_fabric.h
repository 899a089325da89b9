// GuardedFabric: the decorator around a plugin's fabric. Nothing that the plugin throws gets past
// it, and every error names the plugin. A RuntimeError, which is about another rank, keeps its
// code.
#ifndef NG_CORE_PLUGIN_GUARDED_FABRIC_H_
#define NG_CORE_PLUGIN_GUARDED_FABRIC_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/plugin/loader.h"
#include "ng/fabric.h"

namespace ng {

// A RuntimeError of a fabric, with the plugin's name.
absl::Status KeepRuntimeError(const LoadedPlugin& plugin, const absl::Status& status);

class GuardedFabric final : public Fabric {
 public:
  // `check`: run.check_plugins. Errors: PluginError where rank or size are none.
  static absl::StatusOr<std::unique_ptr<GuardedFabric>> Make(const LoadedPlugin& plugin,
                                                             std::unique_ptr<Fabric> fabric,
                                                             bool check);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string Host(int rank) const override;
  // Errors: with check a PluginError where this rank's own part has changed.
  absl::Status AllGather(std::span<const int64_t> counts, std::span<float> all) override;
  absl::Status AllGatherAside(std::span<const int64_t> counts, std::span<float> all) override;
  absl::Status Broadcast(int root, std::span<std::byte> bytes) override;
  absl::Status Barrier() override;
  absl::Status Send(int to, std::span<const std::byte> bytes) override;
  absl::StatusOr<int64_t> Poll(int from) override;
  absl::Status Receive(int from, std::span<std::byte> bytes) override;
  // Behind a guard of its own. Errors: PluginError where it is another group.
  absl::StatusOr<std::unique_ptr<Fabric>> Group(int first, int n) override;
  int Missing() const override;
  std::string Report() const override { return GuardReport(*fabric_); }

 private:
  GuardedFabric(const LoadedPlugin& plugin, std::unique_ptr<Fabric> fabric, bool check)
      : plugin_(plugin), fabric_(std::move(fabric)), check_(check) {}

  template <typename Call>
  absl::Status Guard(Call&& call);
  // call(): AllGather or what stands for it.
  template <typename Call>
  absl::Status GuardGather(std::span<const int64_t> counts, std::span<float> all, Call&& call);

  LoadedPlugin plugin_;
  std::unique_ptr<Fabric> fabric_;
  bool check_;
  int rank_ = 0;
  int size_ = 1;
  std::vector<float> own_;  // with check: what this rank gives
};

}  // namespace ng

#endif  // NG_CORE_PLUGIN_GUARDED_FABRIC_H_
