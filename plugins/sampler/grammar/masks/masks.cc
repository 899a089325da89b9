#include "plugins/sampler/grammar/masks/masks.h"

#include <algorithm>
#include <utility>

namespace ng::grammar {
namespace {

constexpr size_t kKeptBytes = size_t{32} << 20;  // of masks, about
// With more places to leave a rule than these, one walk of the whole tree is faster.
constexpr size_t kMaxLeaving = 4096;

}  // namespace

Masks::Masks(const TokenTrie& trie, Machine& machine, int64_t vocab_size,
             std::span<const int32_t> stop_ids)
    : trie_(trie),
      machine_(machine),
      stop_ids_(stop_ids.begin(), stop_ids.end()),
      at_depth_(trie.depth() + size_t{1}),
      bits_(static_cast<size_t>((vocab_size + 63) / 64)) {
  for (const uint8_t byte : trie.bytes()) classes_.push_back(machine.program().ClassOf(byte));
  max_kept_ = std::max<size_t>(64, kKeptBytes / (bits_.size() * sizeof(uint64_t)));
  std::erase_if(stop_ids_, [&](int32_t id) { return id < 0 || id >= vocab_size; });
}

void Masks::Forget() {
  kept_.clear();
  kept_of_.clear();
}

void Masks::Prepare(const std::atomic<bool>* stop) {
  constexpr size_t kMaxWalked = size_t{32} << 20;  // a few tenths of a second
  constexpr size_t kMaxConfigurations = 2000;
  constexpr size_t kMaxSteps = 4 * Machine::kMaxWork;
  size_t n_steps = 0;
  std::vector<int32_t> near = {Machine::kStart};
  std::vector<uint8_t> known(size_t{Machine::kStart} + 1, 1);
  for (size_t i = 0; i < near.size() && i < kMaxConfigurations; ++i) {
    if (n_walked_ > kMaxWalked || n_steps > kMaxSteps || kept_.size() + 16 > max_kept_) return;
    if (stop != nullptr && *stop) return;
    if (!Of(near[i]).ok()) return;
    for (int byte_class = 0; byte_class < machine_.program().n_classes(); ++byte_class) {
      const int32_t next = machine_.Step(near[i], static_cast<uint8_t>(byte_class));
      const auto index = static_cast<size_t>(next);
      if (index >= known.size()) known.resize(index + 1);
      if (next != Machine::kDead && std::exchange(known[index], uint8_t{1}) == 0) {
        near.push_back(next);
      }
    }
    if (!machine_.work_status().ok()) return;
    n_steps += machine_.work();
  }
}

absl::StatusOr<std::span<const uint64_t>> Masks::Of(int32_t configuration) {
  machine_.BeginWork();
  if (kept_.size() + 8 > max_kept_) Forget();
  const std::span<const Place> places = machine_.Places(configuration);
  places_.assign(places.begin(), places.end());
  const auto below_of = [this](const Place& place) { return machine_.Below(place.stack); };
  // What lies on nothing else is kept whole.
  if (std::ranges::all_of(
          places_, [&](const Place& place) { return below_of(place) == Machine::kBottom; })) {
    const Kept* kept = KeptOf(machine_.WithoutBelow(places_));
    if (kept == nullptr) return machine_.work_status();
    return kept->bits;
  }
  if (!std::ranges::is_sorted(places_, {}, below_of)) std::ranges::sort(places_, {}, below_of);
  std::ranges::fill(bits_, 0);
  for (size_t begin = 0, end = 0; begin < places_.size(); begin = end) {
    const int32_t below = below_of(places_[begin]);
    while (end < places_.size() && below_of(places_[end]) == below) ++end;
    const std::span<const Place> group = std::span(places_).subspan(begin, end - begin);
    if (below == Machine::kMixed || !AddGroup(group)) {
      NG_RETURN_IF_ERROR(machine_.work_status());
      const Kept* kept = KeptOf(configuration);
      if (kept == nullptr) return machine_.work_status();
      return kept->bits;
    }
    if (kept_.size() + 8 > max_kept_) Forget();
  }
  NG_RETURN_IF_ERROR(machine_.work_status());
  return bits_;
}

bool Masks::AddGroup(std::span<const Place> group) {
  const int32_t below = machine_.Below(group.front().stack);
  const Kept* kept = KeptOf(machine_.WithoutBelow(group));
  if (kept == nullptr || kept->leaving.size() > kMaxLeaving) return false;
  for (size_t i = 0; i < bits_.size(); ++i) bits_[i] |= kept->bits[i];
  if (below == Machine::kBottom || kept->leaving.empty()) return true;
  const int32_t returned = machine_.Returned(below);
  for (const uint32_t node : kept->leaving) {
    Walk(returned, node, bits_, nullptr);
    if (!machine_.Spend(0)) return false;
  }
  return true;
}

const Masks::Kept* Masks::KeptOf(int32_t configuration) {
  const auto index = static_cast<size_t>(configuration);
  if (index >= kept_of_.size()) kept_of_.resize(index + 1, -1);
  if (kept_of_[index] >= 0) return &kept_[static_cast<size_t>(kept_of_[index])];
  Kept kept;
  kept.bits.resize(bits_.size());
  Walk(configuration, 0, kept.bits, &kept.leaving);
  if (!machine_.Spend(0)) return nullptr;
  if (machine_.CanEnd(configuration)) {
    for (const int32_t id : stop_ids_) {
      kept.bits[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
    }
  }
  kept_of_[index] = static_cast<int32_t>(kept_.size());
  kept_.push_back(std::move(kept));
  return &kept_.back();
}

void Masks::Walk(int32_t configuration, size_t node, std::span<uint64_t> bits,
                 std::vector<uint32_t>* leaving) {
  const std::span<const TokenTrie::Node> nodes = trie_.nodes();
  at_depth_[nodes[node].depth] = configuration;
  const size_t end = nodes[node].end;
  const size_t n_before = n_walked_;
  for (size_t i = node + 1; i < end;) {
    const uint32_t depth = nodes[i].depth;
    const int32_t next = machine_.Step(at_depth_[depth - 1], classes_[i]);
    if (next == Machine::kDead) {
      i = nodes[i].end;
      continue;
    }
    at_depth_[depth] = next;
    ++n_walked_;
    for (const int32_t id : trie_.Tokens(i)) {
      bits[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
    }
    const bool leaf = nodes[i].end == i + 1;
    if (!leaf && leaving != nullptr && machine_.CanEnd(next)) {
      leaving->push_back(static_cast<uint32_t>(i));
    }
    ++i;
  }
  constexpr size_t kNodesAStep = 4;  // a node that is known costs that much less than a place
  machine_.Spend((n_walked_ - n_before) / kNodesAStep);
}

}  // namespace ng::grammar
