// Numbers by chance for tasks: the same ones on every machine, because they come of whole numbers
// alone.
#ifndef NG_APPS_EVAL_TASKS_DRAWS_H_
#define NG_APPS_EVAL_TASKS_DRAWS_H_

#include <cstdint>

namespace ng::eval {

// What a stream of numbers is for: other keys give other numbers, which do not depend on each
// other.
struct DrawsKey {
  int64_t seed = 0;
  uint64_t task = 0;     // a number of the task's name
  int64_t example = 0;   // of the task
  int64_t sentence = 0;  // of the example; 0: the puzzle itself
};

// The generator SplitMix64 (Steele, Lea and Flood 2014).
class Draws {
 public:
  explicit Draws(const DrawsKey& key) {
    for (const uint64_t part :
         {static_cast<uint64_t>(key.seed), key.task, static_cast<uint64_t>(key.example),
          static_cast<uint64_t>(key.sentence)}) {
      state_ ^= part;
      state_ = Next();
    }
  }

  uint64_t Next() {
    state_ += 0x9E3779B97F4A7C15U;
    uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30U)) * 0xBF58476D1CE4E5B9U;
    mixed = (mixed ^ (mixed >> 27U)) * 0x94D049BB133111EBU;
    return mixed ^ (mixed >> 31U);
  }

  // A whole number in [0, n). REQUIRES: 0 < n < 2^32.
  int64_t Below(int64_t n) {
    return static_cast<int64_t>(((Next() >> 32U) * static_cast<uint64_t>(n)) >> 32U);
  }

 private:
  uint64_t state_ = 0;
};

}  // namespace ng::eval

#endif  // NG_APPS_EVAL_TASKS_DRAWS_H_
