#include "core/model/state_store.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/checked.h"

namespace ng {
namespace {

// Where each layer's state begins in a sequence's, and at the end how long that is.
std::vector<int64_t> Offsets(const ModelSpec& spec) {
  std::vector<int64_t> offsets = {0};
  for (const int layer : spec.LayersWith(Operation::kState)) {
    const BlockSpec& block = *spec.Find(static_cast<size_t>(layer), Operation::kState);
    offsets.push_back(SaturatingAdd(offsets.back(), spec.StateOf(block).state_floats()));
  }
  return offsets;
}

}  // namespace

int64_t StateStore::Bytes(const ModelSpec& spec, int max_sequences) {
  return SaturatingMul(SaturatingMul(Offsets(spec).back(), 2 * int64_t{sizeof(float)}),
                       max_sequences);
}

absl::StatusOr<StateStore> StateStore::Make(const ModelSpec& spec, int max_sequences) {
  StateStore store;
  store.offsets_ = Offsets(spec);
  store.n_floats_ = store.offsets_.back();
  if (store.empty()) return store;
  const auto bytes = static_cast<size_t>(Bytes(spec, max_sequences));
  // Pages that no sequence uses are never touched.
  store.memory_.reset(static_cast<float*>(std::calloc(bytes, 1)));
  if (store.memory_ == nullptr) {
    return LimitError(absl::StrCat("no memory for the states of ", max_sequences,
                                   " sequences: ", bytes, " bytes"));
  }
  store.held_.resize(static_cast<size_t>(max_sequences));
  return store;
}

void StateStore::Clear(SequenceId sequence) {
  if (!empty()) std::ranges::fill(All(sequence), 0.0F);
}

void StateStore::Commit(std::span<const SequenceRows> rows) {
  if (empty()) return;
  for (const SequenceRows& entry : rows) {
    int& held = held_[At(entry.sequence)];
    held = 1 - held;
  }
}

}  // namespace ng
