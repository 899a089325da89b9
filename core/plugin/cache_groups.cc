#include "core/plugin/cache_groups.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "core/base/checked.h"

namespace ng {
namespace {

// Whether all plans say the same of a field.
template <class Field>
bool AllAlike(std::span<const CachePlan> plans, Field CachePlan::*field) {
  return std::ranges::all_of(
      plans, [&](const CachePlan& plan) { return plan.*field == plans.front().*field; });
}

std::vector<CachePlan> PlansOf(std::span<const CacheGroups::Group> groups) {
  std::vector<CachePlan> plans;
  for (const CacheGroups::Group& group : groups) plans.push_back(group.store->plan());
  return plans;
}

}  // namespace

CachePlan CombinedPlan(std::span<const CachePlan> plans) {
  CachePlan all = plans.front();
  for (const CachePlan& plan : plans.subspan(1)) {
    all.bytes = SaturatingAdd(all.bytes, plan.bytes);
    all.bytes_per_token = SaturatingAdd(all.bytes_per_token, plan.bytes_per_token);
    all.disk_bytes = SaturatingAdd(all.disk_bytes, plan.disk_bytes);
    all.approximate |= plan.approximate;
    all.holes |= plan.holes;
    all.attended |= plan.attended;
    all.queries |= plan.queries;
    all.slots = std::max(all.slots, plan.slots);
    all.head_slots = std::max(all.head_slots, plan.head_slots);
    all.sequence_images &= plan.sequence_images;
    all.mark |= plan.mark;
    const bool images = all.image_tile_bytes > 0 && plan.image_tile_bytes > 0;
    all.image_tile_bytes = images ? std::max(all.image_tile_bytes, plan.image_tile_bytes) : 0;
  }
  if (!AllAlike(plans, &CachePlan::share_tokens)) all.share_tokens = 0;
  for (const CachePlan& plan : plans) {
    if (plan.boundary_tokens == 0) continue;
    all.boundary_tokens = all.boundary_tokens == 0
                              ? plan.boundary_tokens
                              : std::gcd(all.boundary_tokens, plan.boundary_tokens);
  }
  return all;
}

CacheGroups::CacheGroups(std::vector<Group> groups)
    : groups_(std::move(groups)), plan_(CombinedPlan(PlansOf(groups_))) {
  // Those of the first group are the engine's, kept windows among them.
  const auto max_sequences = static_cast<size_t>(groups_.front().of.spec.max_sequences);
  for (size_t g = 0; g < groups_.size(); ++g) {
    const std::vector<int>& layers = groups_[g].of.layers;
    for (size_t i = 0; i < layers.size(); ++i) {
      const auto layer = static_cast<size_t>(layers[i]);
      if (places_.size() <= layer) places_.resize(layer + 1);
      places_[layer] = {g, static_cast<int>(i)};
    }
    ids_.emplace_back(max_sequences);
  }
  rows_.reserve(max_sequences);
}

absl::Status CacheGroups::fault() const {
  absl::Status fault;
  for (const Group& group : groups_) fault.Update(group.store->fault());
  return fault;
}

// The guard of a store says what is wrong with an id that it does not know.
SequenceId CacheGroups::IdIn(size_t group, SequenceId sequence) const {
  const std::vector<SequenceId>& ids = ids_[group];
  const bool known = sequence >= 0 && sequence < std::ssize(ids);
  return group == 0 || !known ? sequence : ids[static_cast<size_t>(sequence)];
}

std::span<const SequenceRows> CacheGroups::RowsIn(size_t group,
                                                  std::span<const SequenceRows> rows) const {
  if (group == 0) return rows;
  rows_.assign(rows.begin(), rows.end());
  for (SequenceRows& entry : rows_) entry.sequence = IdIn(group, entry.sequence);
  return rows_;
}

absl::StatusOr<SequenceId> CacheGroups::OpenAll(OpenIn open_in) {
  SequenceId sequence = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const absl::StatusOr<SequenceId> opened = open_in(g);
    if (!opened.ok()) {
      for (size_t before = 0; before < g; ++before) {
        groups_[before].store->Close(IdIn(before, sequence));
      }
      return opened.status();
    }
    if (g == 0) sequence = *opened;
    ids_[g][static_cast<size_t>(sequence)] = *opened;
  }
  return sequence;
}

absl::StatusOr<SequenceId> CacheGroups::Open(int64_t capacity) {
  return OpenAll([&](size_t g) { return groups_[g].store->Open(capacity); });
}

absl::StatusOr<SequenceId> CacheGroups::Fork(SequenceId sequence, int64_t capacity) {
  return OpenAll([&](size_t g) { return groups_[g].store->Fork(IdIn(g, sequence), capacity); });
}

absl::StatusOr<SequenceId> CacheGroups::OpenFor(std::span<const int32_t> prompt, int64_t capacity) {
  NG_ASSIGN_OR_RETURN(const SequenceId sequence, OpenAll([&](size_t g) {
                        return groups_[g].store->OpenFor(prompt, capacity);
                      }));
  int64_t shared = Length(sequence);
  for (size_t g = 1; g < groups_.size(); ++g) {
    shared = std::min(shared, groups_[g].store->Length(IdIn(g, sequence)));
  }
  for (const int64_t length : {shared, int64_t{0}}) {
    absl::Status status;
    for (size_t g = 0; g < groups_.size() && status.ok(); ++g) {
      status = groups_[g].store->Truncate(IdIn(g, sequence), length);
    }
    if (status.ok()) return sequence;
    if (IsUnsupported(status) && length > 0) continue;  // a window is gone: nothing is shared
    Close(sequence);
    return status;
  }
  return sequence;
}

absl::Status CacheGroups::KeepWindows(SequenceId sequence, int64_t length, Windows* windows) {
  const auto keep = [&](size_t g) -> absl::Status {
    GuardedCache& store = *groups_[g].store;
    const SequenceId own = IdIn(g, sequence);
    NG_ASSIGN_OR_RETURN(const SequenceId fork, store.Fork(own, store.Length(own)));
    windows->push_back(fork);
    return store.Length(own) == length ? absl::OkStatus() : store.Truncate(fork, length);
  };
  absl::Status kept;
  for (size_t g = 0; g < groups_.size() && kept.ok(); ++g) {
    if (groups_[g].of.spec.window > 0) kept = keep(g);
  }
  if (!kept.ok()) DropWindows(windows);
  return kept;
}

void CacheGroups::DropWindows(Windows* windows) {
  size_t i = 0;
  for (size_t g = 0; g < groups_.size() && i < windows->size(); ++g) {
    if (groups_[g].of.spec.window > 0) groups_[g].store->Close((*windows)[i++]);
  }
  windows->clear();
}

absl::StatusOr<SequenceId> CacheGroups::OpenFrom(const Windows& windows,
                                                 std::span<const int32_t> prompt,
                                                 int64_t capacity) {
  size_t i = 0;
  return OpenAll([&](size_t g) -> absl::StatusOr<SequenceId> {
    GuardedCache& store = *groups_[g].store;
    if (groups_[g].of.spec.window > 0) return store.Fork(windows[i++], capacity);
    NG_ASSIGN_OR_RETURN(const SequenceId id, store.OpenFor(prompt, capacity));
    if (store.Length(id) == std::ssize(prompt) - 1) return id;
    store.Close(id);
    return UnsupportedError("the tokens before the windows are shared no longer");
  });
}

void CacheGroups::Close(SequenceId sequence) {
  for (size_t g = 0; g < groups_.size(); ++g) groups_[g].store->Close(IdIn(g, sequence));
}

int64_t CacheGroups::Length(SequenceId sequence) const {
  return groups_.front().store->Length(sequence);
}

int64_t CacheGroups::Capacity(SequenceId sequence) const {
  return groups_.front().store->Capacity(sequence);
}

absl::Status CacheGroups::Truncate(SequenceId sequence, int64_t length) {
  // One whose window is gone says so before any other has changed.
  for (size_t g = 0; g < groups_.size() && length > 0; ++g) {
    const auto& [of, store] = groups_[g];
    const SequenceId id = IdIn(g, sequence);
    if (of.spec.window == 0 || store->Length(id) == 0) continue;
    const int64_t first = store->View(0, id, store->Length(id)).first;
    if (first > of.spec.FirstSeen(length)) return store->Truncate(id, length);
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    absl::Status status = groups_[g].store->Truncate(IdIn(g, sequence), length);
    if (status.ok()) continue;
    if (g > 0 && length > 0) NG_RETURN_IF_ERROR(Truncate(sequence, 0));
    return status;
  }
  return absl::OkStatus();
}

absl::Status CacheGroups::Append(int layer, std::span<const SequenceRows> rows,
                                 const TensorView<const float, 3>& k,
                                 const TensorView<const float, 3>& v) {
  const Place& place = PlaceOf(layer);
  return StoreOf(place).Append(place.layer, RowsIn(place.group, rows), k, v);
}

absl::Status CacheGroups::Commit(std::span<const SequenceRows> rows) {
  for (size_t g = 0; g < groups_.size(); ++g) {
    NG_RETURN_IF_ERROR(groups_[g].store->Commit(RowsIn(g, rows)));
  }
  return absl::OkStatus();
}

KvView CacheGroups::View(int layer, SequenceId sequence, int64_t length) const {
  const Place& place = PlaceOf(layer);
  return StoreOf(place).View(place.layer, IdIn(place.group, sequence), length);
}

// Of one group: what another one has made is read through the view's own store.
void CacheGroups::CopyRow(KvPart part, const KvView& view, int64_t token, int kv_head,
                          float* out) const {
  view.store->CopyRow(part, view, token, kv_head, out);
}

std::string CacheGroups::Report() const {
  std::string report;
  for (const Group& group : groups_) {
    const std::string own = group.store->Report();
    if (own.empty()) continue;
    if (!report.empty()) report += "; ";
    report += own;
  }
  return report;
}

void* CacheGroups::Capability(std::string_view name) {
  const auto has = [&](const Group& group) { return group.store->Capability(name) != nullptr; };
  if (!std::ranges::all_of(groups_, has)) return nullptr;
  void* const own =
      OfferCapability<PrefixSharing, Snapshots, Statistics, AttendedMass, PlainQueries, ContextMark,
                      KeepRules, SequenceImages>(this, name);
  if (own != nullptr || groups_.size() > 1) return own;
  return groups_.front().store->Capability(name);
}

absl::Status CacheGroups::ExportLayer(int layer, SequenceId sequence,
                                      std::span<std::byte> image) const {
  const Place& place = PlaceOf(layer);
  return StoreOf(place).ExportLayer(place.layer, IdIn(place.group, sequence), image);
}

absl::Status CacheGroups::ImportLayer(int layer, const SequenceRows& rows,
                                      std::span<const std::byte> image) {
  const Place& place = PlaceOf(layer);
  return StoreOf(place).ImportLayer(place.layer, RowsIn(place.group, {&rows, 1}).front(), image);
}

absl::StatusOr<std::vector<Statistic>> CacheGroups::Values() const {
  NG_ASSIGN_OR_RETURN(std::vector<Statistic> values, groups_.front().store->Values());
  for (size_t g = 1; g < groups_.size(); ++g) {
    NG_ASSIGN_OR_RETURN(const std::vector<Statistic> more, groups_[g].store->Values());
    for (Statistic& value : values) {
      if (value.unit != "tokens") value.value += StatisticValue(more, value.name);
    }
  }
  return values;
}

// The most that a group wants: a group may be told more than it has asked for.
int64_t CacheGroups::MassTokens(const SequenceRows& rows) const {
  int64_t most = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    SequenceRows own = rows;
    own.sequence = IdIn(g, rows.sequence);
    most = std::max(most, groups_[g].store->MassTokens(own));
  }
  return most;
}

absl::Status CacheGroups::Attended(int layer, const SequenceRows& rows,
                                   const TensorView<const float, 3>& mass) {
  const Place& place = PlaceOf(layer);
  SequenceRows own = rows;
  own.sequence = IdIn(place.group, rows.sequence);
  return StoreOf(place).Attended(place.layer, own, mass);
}

void CacheGroups::SetRotation(int layer, const Rotation& rotation, double scale) {
  const Place& place = PlaceOf(layer);
  StoreOf(place).SetRotation(place.layer, rotation, scale);
}

absl::Status CacheGroups::Queries(int layer, std::span<const SequenceRows> rows,
                                  const TensorView<const float, 3>& q) {
  const Place& place = PlaceOf(layer);
  return StoreOf(place).Queries(place.layer, RowsIn(place.group, rows), q);
}

// The groups have the same lengths, so those that could not all could not.
absl::Status CacheGroups::SetMark(SequenceId sequence, int64_t length) {
  for (size_t g = 0; g < groups_.size(); ++g) {
    NG_RETURN_IF_ERROR(groups_[g].store->SetMark(IdIn(g, sequence), length));
  }
  return absl::OkStatus();
}

int64_t CacheGroups::Mark(SequenceId sequence) const {
  return groups_.front().store->Mark(sequence);
}

// As SetMark: those that could not all could not.
absl::Status CacheGroups::SetRule(SequenceId sequence, int rule) {
  for (size_t g = 0; g < groups_.size(); ++g) {
    NG_RETURN_IF_ERROR(groups_[g].store->SetRule(IdIn(g, sequence), rule));
  }
  return absl::OkStatus();
}

int64_t CacheGroups::ImageBytes(SequenceId sequence) const {
  int64_t bytes = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    bytes += int64_t{sizeof(int64_t)} + groups_[g].store->ImageBytes(IdIn(g, sequence));
  }
  return bytes;
}

absl::Status CacheGroups::ExportImage(SequenceId sequence, std::span<std::byte> image) const {
  for (size_t g = 0; g < groups_.size(); ++g) {
    const int64_t bytes = groups_[g].store->ImageBytes(IdIn(g, sequence));
    if (std::ssize(image) < bytes + int64_t{sizeof(bytes)}) {
      return RuntimeError("an image of a sequence has another size");
    }
    std::memcpy(image.data(), &bytes, sizeof(bytes));
    const auto own = image.subspan(sizeof(bytes), static_cast<size_t>(bytes));
    NG_RETURN_IF_ERROR(groups_[g].store->ExportImage(IdIn(g, sequence), own));
    image = image.subspan(sizeof(bytes) + own.size());
  }
  return absl::OkStatus();
}

// The groups hold the same tokens, so none goes on where another one has nothing.
absl::Status CacheGroups::ImportImage(SequenceId sequence, int64_t length,
                                      std::span<const std::byte> image) {
  const auto import = [&](size_t g) -> absl::Status {
    int64_t bytes = -1;
    if (image.size() >= sizeof(bytes)) std::memcpy(&bytes, image.data(), sizeof(bytes));
    if (bytes < 0 || std::ssize(image) - int64_t{sizeof(bytes)} < bytes) {
      return RuntimeError("the image of a sequence ends early");
    }
    const auto own = image.subspan(sizeof(bytes), static_cast<size_t>(bytes));
    image = image.subspan(sizeof(bytes) + own.size());
    return groups_[g].store->ImportImage(IdIn(g, sequence), length, own);
  };
  absl::Status status;
  for (size_t g = 0; g < groups_.size() && status.ok(); ++g) status = import(g);
  if (status.ok() && !image.empty()) status = RuntimeError("an image has more than a sequence");
  if (!status.ok()) NG_RETURN_IF_ERROR(Truncate(sequence, 0));
  return status;
}

}  // namespace ng
