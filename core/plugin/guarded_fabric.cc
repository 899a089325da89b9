#include "core/plugin/guarded_fabric.h"

#include <cstring>
#include <numeric>

#include "absl/strings/str_cat.h"

namespace ng {

absl::Status KeepRuntimeError(const LoadedPlugin& plugin, const absl::Status& status) {
  return Annotate(status, absl::StrCat("fabric ", plugin.descriptor->name, ": "));
}

template <typename Call>
absl::Status GuardedFabric::Guard(Call&& call) {
  absl::Status own;
  absl::Status status = GuardPlugin(plugin_, [&] { return own = call(); });
  return absl::IsInternal(own) ? KeepRuntimeError(plugin_, own) : status;
}

absl::StatusOr<std::unique_ptr<GuardedFabric>> GuardedFabric::Make(const LoadedPlugin& plugin,
                                                                   std::unique_ptr<Fabric> fabric,
                                                                   bool check) {
  std::unique_ptr<GuardedFabric> made(new GuardedFabric(plugin, std::move(fabric), check));
  NG_RETURN_IF_ERROR(GuardPlugin(plugin, [&]() -> absl::Status {
    made->rank_ = made->fabric_->rank();
    made->size_ = made->fabric_->size();
    if (made->size_ < 1 || made->size_ > kMaxRanks) {
      return PluginError(
          absl::StrCat("it has ", made->size_, " ranks, must be in [1, ", kMaxRanks, "]"));
    }
    if (made->rank_ >= 0 && made->rank_ < made->size_) return absl::OkStatus();
    return PluginError(
        absl::StrCat("its rank is ", made->rank_, ", must be in [0, ", made->size_, ")"));
  }));
  return made;
}

std::string GuardedFabric::Host(int rank) const {
  std::string host;
  const absl::Status status = GuardPlugin(plugin_, [&] {
    host = OneLine(fabric_->Host(rank));
    return absl::OkStatus();
  });
  return status.ok() ? host : "unknown";
}

absl::Status GuardedFabric::AllGather(std::span<const int64_t> counts, std::span<float> all) {
  const auto mine = counts.begin() + rank_;
  const int64_t first = std::accumulate(counts.begin(), mine, int64_t{0});
  const std::span<float> own = all.subspan(static_cast<size_t>(first), static_cast<size_t>(*mine));
  if (check_) own_.assign(own.begin(), own.end());
  NG_RETURN_IF_ERROR(Guard([&] { return fabric_->AllGather(counts, all); }));
  if (!check_ || std::memcmp(own_.data(), own.data(), own.size_bytes()) == 0) {
    return absl::OkStatus();
  }
  return PluginFailed(plugin_, PluginError("AllGather changed what its own rank gave"));
}

absl::Status GuardedFabric::Broadcast(int root, std::span<std::byte> bytes) {
  return Guard([&] { return fabric_->Broadcast(root, bytes); });
}

absl::Status GuardedFabric::Barrier() {
  return Guard([&] { return fabric_->Barrier(); });
}

int GuardedFabric::Missing() const {
  int missing = -1;
  const absl::Status status = GuardPlugin(plugin_, [&] {
    missing = fabric_->Missing();
    return absl::OkStatus();
  });
  return status.ok() && missing >= 0 && missing < size_ ? missing : -1;
}

}  // namespace ng
