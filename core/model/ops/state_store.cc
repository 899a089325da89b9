#include "core/model/ops/state_store.h"

#include <algorithm>
#include <cassert>
#include <utility>

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

// A held state and a next one for each sequence.
int64_t CountBuffers(const StateStore::Room& room) {
  return int64_t{2} * room.max_sequences + room.max_kept;
}

}  // namespace

int64_t StateStore::Bytes(const ModelSpec& spec, const Room& room) {
  return SaturatingMul(SaturatingMul(Offsets(spec).back(), int64_t{sizeof(float)}),
                       CountBuffers(room));
}

absl::StatusOr<StateStore> StateStore::Make(const ModelSpec& spec, const Room& room) {
  StateStore store;
  store.offsets_ = Offsets(spec);
  store.n_floats_ = store.offsets_.back();
  if (store.empty()) return store;
  const auto bytes = static_cast<size_t>(Bytes(spec, room));
  // Pages that no sequence uses are never touched.
  store.memory_.reset(static_cast<float*>(std::calloc(bytes, 1)));
  if (store.memory_ == nullptr) {
    return LimitError(absl::StrCat("no memory for the states of ", room.max_sequences,
                                   " sequences and ", room.max_kept, " kept ones: ", bytes,
                                   " bytes"));
  }
  const auto n_buffers = static_cast<int>(CountBuffers(room));
  // The cache's ids may be as many as its sequences and what it keeps of windows.
  store.sequences_.resize(static_cast<size_t>(room.max_sequences + room.max_kept));
  store.n_users_.resize(static_cast<size_t>(n_buffers));
  store.free_.reserve(static_cast<size_t>(n_buffers));
  for (int buffer = n_buffers; buffer-- > 0;) store.free_.push_back(buffer);
  return store;
}

int StateStore::Take() {
  assert(!free_.empty());
  const int buffer = free_.back();
  free_.pop_back();
  n_users_[static_cast<size_t>(buffer)] = 1;
  return buffer;
}

void StateStore::Release(int buffer) {
  if (--n_users_[static_cast<size_t>(buffer)] == 0) free_.push_back(buffer);
}

StateStore::Buffers& StateStore::Renew(SequenceId sequence) {
  Buffers& own = sequences_[At(sequence)];
  if (own.held != kNone) Release(own.held);
  own.held = Take();
  if (own.next == kNone) own.next = Take();
  return own;
}

std::span<float> StateStore::Overwrite(SequenceId sequence) {
  return {Buffer(Renew(sequence).held), static_cast<size_t>(n_floats_)};
}

void StateStore::Clear(SequenceId sequence) {
  if (!empty()) std::ranges::fill(Overwrite(sequence), 0.0F);
}

void StateStore::Close(SequenceId sequence) {
  if (empty()) return;
  Buffers& own = sequences_[At(sequence)];
  if (own.held == kNone) return;
  Release(own.held);
  Release(own.next);
  own = {};
}

void StateStore::Commit(std::span<const SequenceRows> rows) {
  if (empty()) return;
  for (const SequenceRows& entry : rows) {
    Buffers& own = sequences_[At(entry.sequence)];
    std::swap(own.held, own.next);
    // What is kept stays as it is: the step after this one writes elsewhere.
    if (n_users_[static_cast<size_t>(own.next)] == 1) continue;
    Release(own.next);
    own.next = Take();
  }
}

int StateStore::Keep(SequenceId sequence) {
  const int held = sequences_[At(sequence)].held;
  ++n_users_[static_cast<size_t>(held)];
  return held;
}

void StateStore::GoOnFrom(int kept, SequenceId sequence) {
  Buffers& own = sequences_[At(sequence)];
  ++n_users_[static_cast<size_t>(kept)];
  if (own.held != kNone) Release(own.held);
  own.held = kept;
  if (own.next == kNone) own.next = Take();
}

}  // namespace ng
