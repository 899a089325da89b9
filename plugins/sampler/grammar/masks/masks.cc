#include "plugins/sampler/grammar/masks/masks.h"

#include <algorithm>
#include <utility>

namespace ng::grammar {
namespace {

constexpr size_t kKeptBytes = size_t{32} << 20;  // of masks, about
// With more places to leave a rule than these, one walk of the whole tree is faster.
constexpr size_t kMaxLeaving = 4096;
constexpr size_t kMaxBehind = size_t{2} << 20;  // tokens that are kept behind rules

void SetBit(int32_t id, bool on, std::span<uint64_t> bits) {
  const uint64_t bit = uint64_t{1} << (id % 64);
  uint64_t& word = bits[static_cast<size_t>(id) / 64];
  word = on ? word | bit : word & ~bit;
}

}  // namespace

Masks::Masks(const TokenTrie& trie, Machine& machine, int64_t vocab_size,
             std::span<const int32_t> stop_ids)
    : trie_(trie),
      machine_(machine),
      free_text_(machine),
      stop_ids_(stop_ids.begin(), stop_ids.end()),
      at_depth_(trie.depth() + size_t{1}),
      bits_(static_cast<size_t>((vocab_size + 63) / 64)) {
  for (const uint8_t byte : trie.bytes()) classes_.push_back(machine.program().ClassOf(byte));
  max_kept_ = std::max<size_t>(64, kKeptBytes / (bits_.size() * sizeof(uint64_t)));
  std::erase_if(stop_ids_, [&](int32_t id) { return id < 0 || id >= vocab_size; });
}

void Masks::SetOthers(std::span<const int32_t> ids) {
  others_.assign(ids.empty() ? 0 : bits_.size(), 0);
  for (const int32_t id : ids) SetBit(id, true, others_);
}

void Masks::Forget() {
  kept_.clear();
  kept_of_.clear();
  shape_of_.clear();
  free_text_.Forget();
  ForgetBehind();
}

void Masks::ForgetBehind() {
  behind_.clear();
  behind_ids_.clear();
  behind_table_ = {};
}

void Masks::Prepare(const std::atomic<bool>* stop) {
  constexpr size_t kMaxWalked = size_t{1} << 20;  // some thousandths of a second
  constexpr size_t kMaxConfigurations = 500;
  constexpr size_t kMaxSteps = 2 * Machine::kMaxWork;
  size_t n_steps = 0;
  std::vector<int32_t> near = {Machine::kStart};
  std::vector<uint8_t> known(size_t{Machine::kStart} + 1, 1);
  for (size_t i = 0; i < near.size() && i < kMaxConfigurations; ++i) {
    if (n_walked_ > kMaxWalked || n_steps > kMaxSteps || kept_.size() + 16 > max_kept_) return;
    if (stop != nullptr && *stop) return;
    if (!Of(near[i]).ok()) return;
    for (int read = 0; read < machine_.program().n_classes(); ++read) {
      const int32_t next = machine_.Step(near[i], static_cast<uint16_t>(read));
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
  NG_ASSIGN_OR_RETURN(const std::span<const uint64_t> mask, OfTexts(configuration));
  if (machine_.program().tokens().empty() && others_.empty()) return mask;
  if (mask.data() != bits_.data()) std::ranges::copy(mask, bits_.begin());
  SetTokens(configuration, bits_);
  NG_RETURN_IF_ERROR(machine_.work_status());
  return bits_;
}

void Masks::SetTokens(int32_t configuration, std::span<uint64_t> bits) {
  const Program& program = machine_.program();
  const auto goes_on = [&](size_t i) {
    return machine_.Step(configuration, program.ClassOfToken(i)) != Machine::kDead;
  };
  const bool may_end = machine_.CanEnd(configuration);
  for (size_t i = 0; i < program.tokens().size(); ++i) {
    const int32_t id = program.tokens()[i];
    const bool ends = may_end && std::ranges::find(stop_ids_, id) != stop_ids_.end();
    SetBit(id, ends || goes_on(i), bits);
  }
  if (others_.empty() || !goes_on(program.tokens().size())) return;
  for (size_t i = 0; i < bits.size(); ++i) bits[i] |= others_[i];
}

absl::StatusOr<std::span<const uint64_t>> Masks::OfTexts(int32_t configuration) {
  machine_.BeginWork();
  if (kept_.size() + 8 > max_kept_) Forget();
  const int32_t shape = ShapeOf(configuration);
  const auto whole = [&](int32_t of) -> absl::StatusOr<std::span<const uint64_t>> {
    const Kept* kept = KeptOf(of);
    if (kept == nullptr) return machine_.work_status();
    return kept->bits;
  };
  const std::span<const Place> places = machine_.Places(configuration);
  const auto below_of = [this](const Place& place) { return machine_.Below(place.stack); };
  if (shape >= 0) {
    const int32_t below = places.empty() ? Machine::kBottom : below_of(places.front());
    // What lies on nothing else is kept whole.
    if (below == Machine::kBottom) return whole(shape);
    const bool added = AddGroup(shape, below, /*first=*/true);
    NG_RETURN_IF_ERROR(machine_.work_status());
    if (!added) return whole(configuration);
    return bits_;
  }
  places_.assign(places.begin(), places.end());
  std::ranges::sort(places_, {}, below_of);
  for (size_t begin = 0, end = 0; begin < places_.size(); begin = end) {
    const int32_t below = below_of(places_[begin]);
    while (end < places_.size() && below_of(places_[end]) == below) ++end;
    const std::span<const Place> group = std::span(places_).subspan(begin, end - begin);
    if (below == Machine::kMixed ||
        !AddGroup(machine_.WithoutBelow(group), below, /*first=*/begin == 0)) {
      NG_RETURN_IF_ERROR(machine_.work_status());
      return whole(configuration);
    }
    if (kept_.size() + 8 > max_kept_) Forget();
  }
  NG_RETURN_IF_ERROR(machine_.work_status());
  return bits_;
}

int32_t Masks::ShapeOf(int32_t configuration) {
  constexpr int32_t kUnknown = -2;
  const auto index = static_cast<size_t>(configuration);
  if (index >= shape_of_.size()) shape_of_.resize(index + 1, kUnknown);
  if (shape_of_[index] != kUnknown) return shape_of_[index];
  const std::span<const Place> places = machine_.Places(configuration);
  places_.assign(places.begin(), places.end());
  const bool one = std::ranges::all_of(places_, [&](const Place& place) {
    const int32_t below = machine_.Below(place.stack);
    return below != Machine::kMixed && below == machine_.Below(places_.front().stack);
  });
  const int32_t shape = one ? machine_.WithoutBelow(places_) : -1;
  if (machine_.Spend(0)) shape_of_[index] = shape;
  return shape;
}

bool Masks::AddGroup(int32_t shape, int32_t below, bool first) {
  const Kept* kept = KeptOf(shape);
  if (kept == nullptr || kept->leaving.size() > kMaxLeaving) return false;
  if (first) {
    std::ranges::copy(kept->bits, bits_.begin());
  } else {
    for (size_t i = 0; i < bits_.size(); ++i) bits_[i] |= kept->bits[i];
  }
  if (below == Machine::kBottom || kept->leaving.empty()) return true;
  const Behind* behind = BehindOf(*kept, machine_.Returned(below));
  if (behind == nullptr) return false;
  for (const int32_t id : std::span(behind_ids_).subspan(behind->begin, behind->size)) {
    bits_[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
  }
  return true;
}

const Masks::Behind* Masks::BehindOf(const Kept& kept, int32_t returned) {
  const auto number = static_cast<int32_t>(&kept - kept_.data());
  const uint64_t hash = Mix(static_cast<uint64_t>(number) << 32 | static_cast<uint32_t>(returned));
  if (behind_ids_.size() + behind_.size() > kMaxBehind) ForgetBehind();
  const int32_t known = behind_table_.Find(hash, [&](int32_t other) {
    const Behind& found = behind_[static_cast<size_t>(other)];
    return found.kept == number && found.returned == returned;
  });
  if (known >= 0) return &behind_[static_cast<size_t>(known)];
  Behind behind{.kept = number, .returned = returned, .begin = behind_ids_.size()};
  for (const uint32_t node : kept.leaving) {
    Walk(returned, node, nullptr, [&](size_t begin, size_t end) {
      const std::span<const int32_t> tokens = trie_.Tokens(begin, end);
      behind_ids_.insert(behind_ids_.end(), tokens.begin(), tokens.end());
    });
    if (machine_.Spend(0)) continue;
    behind_ids_.resize(behind.begin);
    return nullptr;
  }
  behind.size = behind_ids_.size() - behind.begin;
  behind_table_.Insert(hash, static_cast<int32_t>(behind_.size()));
  behind_.push_back(behind);
  return &behind_.back();
}

const Masks::Kept* Masks::KeptOf(int32_t configuration) {
  const auto index = static_cast<size_t>(configuration);
  if (index >= kept_of_.size()) kept_of_.resize(index + 1, -1);
  if (kept_of_[index] >= 0) return &kept_[static_cast<size_t>(kept_of_[index])];
  Kept kept;
  runs_.clear();
  Walk(configuration, 0, &kept.leaving, [&](size_t begin, size_t end) {
    const std::span<const int32_t> tokens = trie_.Tokens(begin, end);
    if (tokens.empty()) return;
    const bool goes_on =
        !runs_.empty() && runs_.back().data() + runs_.back().size() == tokens.data();
    if (goes_on) {
      runs_.back() = {runs_.back().data(), runs_.back().size() + tokens.size()};
    } else {
      runs_.push_back(tokens);
    }
  });
  if (!machine_.Spend(0)) return nullptr;
  kept.bits = BitsOfRuns();
  n_walked_ += kept.bits.size();
  if (machine_.CanEnd(configuration)) {
    for (const int32_t id : stop_ids_) {
      kept.bits[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
    }
  }
  kept_of_[index] = static_cast<int32_t>(kept_.size());
  kept_.push_back(std::move(kept));
  return &kept_.back();
}

// Of the tokens that are in runs, and of those that are not, the fewer are written one by one.
std::vector<uint64_t> Masks::BitsOfRuns() const {
  size_t n = 0;
  for (const std::span<const int32_t> run : runs_) n += run.size();
  std::vector<uint64_t> bits(bits_.size());
  const auto set = [&](std::span<const int32_t> ids, bool on) {
    for (const int32_t id : ids) SetBit(id, on, bits);
  };
  const std::span<const int32_t> ids = trie_.ids();
  if (2 * n <= ids.size()) {
    for (const std::span<const int32_t> run : runs_) set(run, true);
    return bits;
  }
  std::ranges::copy(trie_.all().first(std::min(trie_.all().size(), bits.size())), bits.begin());
  const int32_t* last = ids.data();
  for (const std::span<const int32_t> run : runs_) {
    set({last, run.data()}, false);
    last = run.data() + run.size();
  }
  set({last, ids.data() + ids.size()}, false);
  return bits;
}

template <class Visit>
void Masks::Walk(int32_t configuration, size_t node, std::vector<uint32_t>* leaving,
                 const Visit& visit) {
  constexpr size_t kNodesAStep = 4;  // a node that is known costs that much less than a place
  constexpr size_t kMany = 16;       // nodes that are worth a look at all of them,
  constexpr size_t kLook = 4;        // which costs as much as so many
  const std::span<const TokenTrie::Node> nodes = trie_.nodes();
  at_depth_[nodes[node].depth] = configuration;
  const size_t end = nodes[node].end;
  size_t n = 0;
  size_t n_seen = 0;
  for (size_t i = node + 1; i < end; ++n_seen) {
    const uint32_t depth = nodes[i].depth;
    const size_t behind = nodes[i].end;
    const int32_t next = machine_.Step(at_depth_[depth - 1], classes_[i]);
    if (next == Machine::kDead) {
      i = behind;
      continue;
    }
    at_depth_[depth] = next;
    ++n;
    const bool looks = behind - i > kMany;
    if (looks) n_seen += kLook;
    const bool all = looks && free_text_.GoesOn(next, trie_.BelowOf(i));
    // Where all goes on anyway, nothing is to be found behind the rule.
    if (leaving != nullptr && !all && behind > i + 1 && leaving->size() <= kMaxLeaving &&
        machine_.CanEnd(next)) {
      leaving->push_back(static_cast<uint32_t>(i));
    }
    const size_t after = all ? behind : i + 1;
    visit(i, after);
    i = after;
  }
  n_walked_ += n_seen;
  machine_.Spend(n / kNodesAStep);
}

}  // namespace ng::grammar
