// One process by itself: nothing is sent.
#ifndef NG_PLUGINS_FABRIC_LOCAL_LOCAL_H_
#define NG_PLUGINS_FABRIC_LOCAL_LOCAL_H_

#include <memory>
#include <string>

#include "ng/fabric.h"

namespace ng {

class LocalFabric final : public Fabric {
 public:
  static absl::StatusOr<std::unique_ptr<Fabric>> Create(const PluginContext& /*context*/,
                                                        const FabricSpec& /*spec*/) {
    return std::make_unique<LocalFabric>();
  }

  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string Host(int /*rank*/) const override { return "this machine"; }
  absl::Status AllGather(std::span<const int64_t> /*counts*/, std::span<float> /*all*/) override {
    return absl::OkStatus();
  }
  absl::Status Broadcast(int /*root*/, std::span<std::byte> /*bytes*/) override {
    return absl::OkStatus();
  }
  absl::Status Barrier() override { return absl::OkStatus(); }
  // There is no other rank.
  absl::Status Send(int /*to*/, std::span<const std::byte> /*bytes*/) override {
    return absl::OkStatus();
  }
  absl::StatusOr<int64_t> Poll(int /*from*/) override { return 0; }
  absl::Status Receive(int /*from*/, std::span<std::byte> /*bytes*/) override {
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<Fabric>> Group(int /*first*/, int /*n*/) override {
    return std::make_unique<LocalFabric>();
  }
};

}  // namespace ng

#endif  // NG_PLUGINS_FABRIC_LOCAL_LOCAL_H_
