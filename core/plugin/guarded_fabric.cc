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
  return GuardGather(counts, all, [&] { return fabric_->AllGather(counts, all); });
}

absl::Status GuardedFabric::AllGatherAside(std::span<const int64_t> counts, std::span<float> all) {
  return GuardGather(counts, all, [&] { return fabric_->AllGatherAside(counts, all); });
}

template <typename Call>
absl::Status GuardedFabric::GuardGather(std::span<const int64_t> counts, std::span<float> all,
                                        Call&& call) {
  const auto mine = counts.begin() + rank_;
  const int64_t first = std::accumulate(counts.begin(), mine, int64_t{0});
  const std::span<float> own = all.subspan(static_cast<size_t>(first), static_cast<size_t>(*mine));
  if (check_) own_.assign(own.begin(), own.end());
  NG_RETURN_IF_ERROR(Guard(call));
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

absl::Status GuardedFabric::Send(int to, std::span<const std::byte> bytes) {
  return Guard([&] { return fabric_->Send(to, bytes); });
}

absl::StatusOr<int64_t> GuardedFabric::Poll(int from) {
  int64_t size = 0;
  NG_RETURN_IF_ERROR(Guard([&]() -> absl::Status {
    NG_ASSIGN_OR_RETURN(size, fabric_->Poll(from));
    return absl::OkStatus();
  }));
  if (size >= 0) return size;
  return PluginFailed(plugin_, PluginError(absl::StrCat("Poll says that a message has ", size,
                                                        " bytes, must be at least 0")));
}

absl::Status GuardedFabric::Receive(int from, std::span<std::byte> bytes) {
  return Guard([&] { return fabric_->Receive(from, bytes); });
}

absl::StatusOr<std::unique_ptr<Fabric>> GuardedFabric::Group(int first, int n) {
  std::unique_ptr<Fabric> part;
  NG_RETURN_IF_ERROR(Guard([&]() -> absl::Status {
    NG_ASSIGN_OR_RETURN(part, fabric_->Group(first, n));
    return part == nullptr ? PluginError("Group returned OK and no fabric") : absl::OkStatus();
  }));
  NG_ASSIGN_OR_RETURN(std::unique_ptr<GuardedFabric> made, Make(plugin_, std::move(part), check_));
  if (made->rank_ == rank_ - first && made->size_ == n) return made;
  return PluginFailed(
      plugin_, PluginError(absl::StrCat("a group of the ranks ", first, " to ", first + n - 1,
                                        " is rank ", made->rank_, " of ", made->size_,
                                        ", must be rank ", rank_ - first, " of ", n)));
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
