#include "plugins/sampler/grammar/machine.h"

#include <algorithm>
#include <utility>

namespace ng::grammar {
namespace {

constexpr size_t kMaxSeen = 20000;               // places that one step may look at
constexpr size_t kMaxWork = size_t{4} << 20;     // places that one mask may look at
constexpr size_t kFullBytes = size_t{64} << 20;  // when to begin again
constexpr size_t kMostBytes = 3 * kFullBytes;  // of all that is remembered, in the midst of a mask

uint64_t Mix(uint64_t value) {
  value ^= value >> 33;
  value *= 0xFF51AFD7ED558CCDULL;
  value ^= value >> 33;
  value *= 0xC4CEB9FE1A85EC53ULL;
  return value ^ (value >> 33);
}

uint64_t Packed(Place place) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(place.state)) << 32) |
         static_cast<uint32_t>(place.stack);
}

}  // namespace

void NumberTable::Grow() {
  std::vector<Slot> old =
      std::exchange(slots_, std::vector<Slot>(std::max<size_t>(64, slots_.size() * 2)));
  for (const Slot& slot : old) {
    if (slot.number < 0) continue;
    size_t place = slot.hash & (slots_.size() - 1);
    while (slots_[place].number >= 0) place = (place + 1) & (slots_.size() - 1);
    slots_[place] = slot;
  }
}

Machine::Machine(Program program) : program_(std::move(program)), seen_(64) { Clear(); }

void Machine::Clear() {
  configurations_.clear();
  places_.clear();
  steps_.clear();
  configuration_table_ = {};
  stacks_.assign(1, {});
  stack_table_ = {};
  Finish();  // kDead
}

int32_t Machine::Start() {
  Reach({program_.entry(), kBottom});
  return Finish();
}

int32_t Machine::NewStep(int32_t configuration, uint8_t byte_class) {
  overflowed_ |= work_ > kMaxWork || Bytes() > kMostBytes;
  if (overflowed_) return kDead;
  const Configuration from = configurations_[static_cast<size_t>(configuration)];
  for (size_t i = 0; i < from.size; ++i) {
    const Place place = places_[from.begin + i];
    if (place.state == kEnded) continue;
    for (const Program::Reads& reads : program_.reads(place.state)) {
      if (byte_class < reads.low || byte_class > reads.high) continue;
      Reach({reads.to, place.stack});
    }
  }
  const int32_t next = Finish();
  if (!overflowed_) steps_[Row(configuration) + byte_class] = next;
  return next;
}

int32_t Machine::Push(int32_t state, int32_t below) {
  const uint64_t hash = Mix(Packed({state, below}));
  const int32_t known = stack_table_.Find(hash, [&](int32_t number) {
    const Stack& stack = stacks_[static_cast<size_t>(number)];
    return stack.state == state && stack.below == below;
  });
  if (known >= 0) return known;
  const auto number = static_cast<int32_t>(stacks_.size());
  stacks_.push_back({.state = state, .below = below});
  stack_table_.Insert(hash, number);
  return number;
}

void Machine::Reach(Place place) {
  const auto look = [this](Place next) {
    // Grown here too, so that a step costs what it finds.
    if ((n_seen_ + 1) * 2 > seen_.size()) {
      std::vector<uint64_t> old = std::exchange(seen_, std::vector<uint64_t>(seen_.size() * 2));
      for (const uint64_t key : old) {
        if (key == 0) continue;
        size_t at = Mix(key) & (seen_.size() - 1);
        while (seen_[at] != 0) at = (at + 1) & (seen_.size() - 1);
        seen_[at] = key;
      }
    }
    const uint64_t key = Packed({next.state + 1, next.stack}) + 1;
    size_t at = Mix(key) & (seen_.size() - 1);
    for (; seen_[at] != 0; at = (at + 1) & (seen_.size() - 1)) {
      if (seen_[at] == key) return;
    }
    seen_[at] = key;
    ++n_seen_;
    fresh_.push_back(next);
  };
  look(place);
  while (!fresh_.empty()) {
    const Place at = fresh_.back();
    fresh_.pop_back();
    if (n_seen_ > kMaxSeen) {
      overflowed_ = true;
      fresh_.clear();
      return;
    }
    if (at.state == kEnded) {
      found_.push_back(at);
      continue;
    }
    if (!program_.reads(at.state).empty()) found_.push_back(at);
    for (const int32_t to : program_.free(at.state)) look({to, at.stack});
    for (const Program::Calls& call : program_.calls(at.state)) {
      // A call at the end of a rule needs no way back, so that a long list takes no stack.
      look({call.entry, program_.OnlyExit(call.to) ? at.stack : Push(call.to, at.stack)});
    }
    if (!program_.IsExit(at.state)) continue;
    const Stack top = stacks_[static_cast<size_t>(at.stack)];
    look(at.stack == kBottom ? Place{kEnded, kBottom} : Place{top.state, top.below});
  }
}

int32_t Machine::Finish() {
  work_ += n_seen_;
  if (n_seen_ > 0) seen_.assign(64, 0);
  n_seen_ = 0;
  if (overflowed_) found_.clear();
  std::ranges::sort(found_, [](const Place& a, const Place& b) {
    return std::pair(a.stack, a.state) < std::pair(b.stack, b.state);
  });
  uint64_t hash = Mix(found_.size());
  for (const Place& place : found_) hash = Mix(hash ^ Packed(place));
  int32_t number = configuration_table_.Find(
      hash, [&](int32_t known) { return std::ranges::equal(Places(known), found_); });
  if (number < 0) {
    number = static_cast<int32_t>(configurations_.size());
    const bool can_end =
        std::ranges::any_of(found_, [](const Place& place) { return place.state == kEnded; });
    configurations_.push_back({places_.size(), found_.size(), can_end});
    places_.insert(places_.end(), found_.begin(), found_.end());
    steps_.resize(steps_.size() + static_cast<size_t>(program_.n_classes()),
                  found_.empty() ? 0 : -1);
    configuration_table_.Insert(hash, number);
  }
  found_.clear();
  return number;
}

int32_t Machine::WithoutStack(std::span<const Place> places) {
  for (const Place& place : places) {
    found_.push_back({place.state == kEnded ? kEnded : program_.Alias(place.state), kBottom});
  }
  std::ranges::sort(found_);
  found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
  return Finish();
}

int32_t Machine::Returned(int32_t stack) {
  const Stack top = stacks_[static_cast<size_t>(stack)];
  if (top.returned >= 0) return top.returned;
  Reach({top.state, top.below});
  const int32_t returned = Finish();
  if (!overflowed_) stacks_[static_cast<size_t>(stack)].returned = returned;
  return returned;
}

size_t Machine::Bytes() const {
  return steps_.size() * sizeof(int32_t) + places_.size() * sizeof(Place) +
         configurations_.size() * sizeof(Configuration) + stacks_.size() * sizeof(Stack);
}

bool Machine::Full() const { return Bytes() > kFullBytes; }

bool Machine::TakeOverflow() {
  work_ = 0;
  return std::exchange(overflowed_, false);
}

void Machine::Restart(std::span<int32_t> in_use) {
  const std::vector<Configuration> configurations = std::move(configurations_);
  const std::vector<Place> places = std::move(places_);
  const std::vector<Stack> stacks = std::move(stacks_);
  Clear();
  // A stack lies on one with a smaller number.
  std::vector<uint8_t> needed(stacks.size());
  for (const int32_t number : in_use) {
    const Configuration& found = configurations[static_cast<size_t>(number)];
    for (size_t i = 0; i < found.size; ++i) {
      needed[static_cast<size_t>(places[found.begin + i].stack)] = 1;
    }
  }
  for (size_t i = stacks.size(); i-- > 1;) {
    if (needed[i] != 0) needed[static_cast<size_t>(stacks[i].below)] = 1;
  }
  std::vector<int32_t> renumbered(stacks.size());
  for (size_t i = 1; i < stacks.size(); ++i) {
    if (needed[i] == 0) continue;
    renumbered[i] = Push(stacks[i].state, renumbered[static_cast<size_t>(stacks[i].below)]);
  }
  for (int32_t& number : in_use) {
    const Configuration& found = configurations[static_cast<size_t>(number)];
    for (size_t i = 0; i < found.size; ++i) {
      const Place& place = places[found.begin + i];
      found_.push_back({place.state, renumbered[static_cast<size_t>(place.stack)]});
    }
    number = Finish();
  }
}

}  // namespace ng::grammar
