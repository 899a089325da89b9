// Numbers values by their hashes: an open table of numbers into something that the user holds, and
// two of sets.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_NUMBER_TABLE_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_NUMBER_TABLE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

namespace ng::grammar {

inline uint64_t Mix(uint64_t value) {
  value ^= value >> 33;
  value *= 0xFF51AFD7ED558CCDULL;
  value ^= value >> 33;
  value *= 0xC4CEB9FE1A85EC53ULL;
  return value ^ (value >> 33);
}

class NumberTable {
 public:
  // The number of an equal value, or -1: then `Insert` what is new before anything else is found.
  template <class Equal>
  int32_t Find(uint64_t hash, const Equal& equal) {
    if (slots_.empty()) Grow();
    for (place_ = hash & (slots_.size() - 1); slots_[place_].number >= 0;
         place_ = (place_ + 1) & (slots_.size() - 1)) {
      if (slots_[place_].hash == hash && equal(slots_[place_].number)) return slots_[place_].number;
    }
    return -1;
  }
  void Insert(uint64_t hash, int32_t number) {
    slots_[place_] = {hash, number};
    if (++size_ * 2 > slots_.size()) Grow();
  }

 private:
  struct Slot {
    uint64_t hash = 0;
    int32_t number = -1;
  };
  void Grow() {
    std::vector<Slot> old =
        std::exchange(slots_, std::vector<Slot>(std::max<size_t>(64, slots_.size() * 2)));
    for (const Slot& slot : old) {
      if (slot.number < 0) continue;
      size_t place = slot.hash & (slots_.size() - 1);
      while (slots_[place].number >= 0) place = (place + 1) & (slots_.size() - 1);
      slots_[place] = slot;
    }
  }

  std::vector<Slot> slots_;
  size_t size_ = 0;
  size_t place_ = 0;
};

// Sets of numbers, numbered in the order in which they are met.
class NumberedSets {
 public:
  // The number of a set, and whether it is new. REQUIRES: it rises.
  std::pair<int32_t, bool> Number(std::vector<int32_t> set) {
    uint64_t hash = Mix(set.size());
    for (const int32_t each : set) hash = Mix(hash ^ static_cast<uint64_t>(each));
    const int32_t known =
        table_.Find(hash, [&](int32_t other) { return sets_[static_cast<size_t>(other)] == set; });
    if (known >= 0) return {known, false};
    const auto number = static_cast<int32_t>(sets_.size());
    table_.Insert(hash, number);
    sets_.push_back(std::move(set));
    return {number, true};
  }
  size_t size() const { return sets_.size(); }
  // It stays where it is.
  const std::vector<int32_t>& operator[](size_t number) const { return sets_[number]; }

 private:
  NumberTable table_;
  std::deque<std::vector<int32_t>> sets_;
};

// Sets of numbers that grow out of one another: a set is another one, its base, and what it has
// besides. It takes time and room for that alone, however much the base has. Equal sets have one
// number, whatever they grew out of; they are numbered in the order in which they are met.
class GrownSets {
 public:
  static constexpr int32_t kNone = -1;
  struct Set {
    int32_t base = kNone;      // it has a smaller number; kNone: the set has its own members alone
    std::vector<int32_t> own;  // rising; none of them is in the base
    int32_t members = 0;       // all of them, as a tree
  };

  // Of numbers from 0 below the bound.
  explicit GrownSets(size_t bound) {
    while (bound > size_t{64} << n_levels_) ++n_levels_;
  }

  // The number of a set, and whether it is new. REQUIRES: as Set says of both.
  std::pair<int32_t, bool> Number(int32_t base, std::vector<int32_t> own) {
    const int32_t of_base = base == kNone ? 0 : sets_[static_cast<size_t>(base)].members;
    const int32_t members = With(of_base, own, n_levels_);
    if (static_cast<size_t>(members) >= numbers_.size()) {
      numbers_.resize(static_cast<size_t>(members) + 1, kNone);
    }
    int32_t& number = numbers_[static_cast<size_t>(members)];
    if (number != kNone) return {number, false};
    number = static_cast<int32_t>(sets_.size());
    sets_.push_back({base, std::move(own), members});
    return {number, true};
  }
  bool Holds(int32_t set, int32_t member) const {
    auto at = static_cast<size_t>(sets_[static_cast<size_t>(set)].members);
    for (int level = n_levels_; level > 0; --level) {
      at = static_cast<size_t>(pairs_[at][static_cast<size_t>(member >> (5 + level) & 1)]);
    }
    return (words_[at] >> (member & 63) & 1) != 0;
  }
  size_t size() const { return sets_.size(); }
  // It stays where it is.
  const Set& operator[](int32_t number) const { return sets_[static_cast<size_t>(number)]; }

 private:
  // A tree with these besides, which are all of its range: the halves of the range, down to 64
  // members as bits. Equal trees have one number on their level; that of the empty one is 0.
  int32_t With(int32_t tree, std::span<const int32_t> more, int level) {
    if (more.empty()) return tree;
    if (level == 0) {
      uint64_t word = words_[static_cast<size_t>(tree)];
      for (const int32_t member : more) word |= uint64_t{1} << (member & 63);
      return NumberOf(word, Mix(word), words_, word_table_);
    }
    const auto is_low = [level](int32_t member) { return (member >> (5 + level) & 1) == 0; };
    const auto n_low =
        static_cast<size_t>(std::ranges::partition_point(more, is_low) - more.begin());
    std::array<int32_t, 2> both = pairs_[static_cast<size_t>(tree)];
    both[0] = With(both[0], more.first(n_low), level - 1);
    both[1] = With(both[1], more.subspan(n_low), level - 1);
    const uint64_t hash =
        Mix(static_cast<uint64_t>(both[0]) << 32 | static_cast<uint64_t>(both[1]));
    return NumberOf(both, hash, pairs_, pair_table_);
  }
  template <class Value>
  static int32_t NumberOf(const Value& value, uint64_t hash, std::vector<Value>& values,
                          NumberTable& table) {
    const int32_t known = table.Find(
        hash, [&](int32_t other) { return values[static_cast<size_t>(other)] == value; });
    if (known >= 0) return known;
    table.Insert(hash, static_cast<int32_t>(values.size()));
    values.push_back(value);
    return static_cast<int32_t>(values.size()) - 1;
  }

  int n_levels_ = 0;
  std::vector<uint64_t> words_ = {0};
  std::vector<std::array<int32_t, 2>> pairs_ = {{0, 0}};
  NumberTable word_table_;
  NumberTable pair_table_;
  std::vector<int32_t> numbers_;  // of the sets, by their trees
  std::deque<Set> sets_;
};

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_NUMBER_TABLE_H_
