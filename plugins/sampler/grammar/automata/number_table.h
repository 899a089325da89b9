// Numbers values by their hashes: an open table of numbers into something that the user holds.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_NUMBER_TABLE_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_NUMBER_TABLE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
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

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_NUMBER_TABLE_H_
