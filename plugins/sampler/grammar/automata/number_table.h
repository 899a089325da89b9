// Numbers values by their hashes: an open table of numbers into something that the user holds, and
// one of sets.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_NUMBER_TABLE_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_NUMBER_TABLE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
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

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_NUMBER_TABLE_H_
