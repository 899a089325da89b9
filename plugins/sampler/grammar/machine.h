// Runs a Program over bytes: a pushdown automaton that may be in many places at once.
//
// A place is a state with the stack of states to return to. A configuration is a set of places.
// Stacks share what they have in common, equal ones are one, and so are equal configurations; a
// configuration is a number. The step from a configuration by a class of bytes is computed when it
// is first asked for, and remembered. So what is met again costs one load.
//
// Memory: what is remembered grows with what is new, and allocates. `Full` says when it is time to
// begin again; `Restart` keeps the configurations that are in use.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_MACHINE_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_MACHINE_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "plugins/sampler/grammar/program.h"

namespace ng::grammar {

// Numbers values by their hashes: an open table of numbers into something that the user holds.
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
  void Grow();

  std::vector<Slot> slots_;
  size_t size_ = 0;
  size_t place_ = 0;
};

struct Place {
  int32_t state = 0;
  int32_t stack = 0;
  auto operator<=>(const Place&) const = default;
};

class Machine {
 public:
  static constexpr int32_t kDead = 0;    // the empty configuration: nothing goes on
  static constexpr int32_t kBottom = 0;  // the empty stack
  // The state of a place that has left the rule at the bottom: the text may end here.
  static constexpr int32_t kEnded = -1;

  explicit Machine(Program program);

  const Program& program() const { return program_; }
  int32_t Start();
  // The configuration behind a byte of this class. kDead also when the grammar is too ambiguous;
  // then `overflowed` says so.
  int32_t Step(int32_t configuration, uint8_t byte_class) {
    const int32_t next = steps_[Row(configuration) + byte_class];
    return next >= 0 ? next : NewStep(configuration, byte_class);
  }
  bool CanEnd(int32_t configuration) const {
    return configurations_[static_cast<size_t>(configuration)].can_end;
  }
  // Whether nothing but the end may come.
  bool MustEnd(int32_t configuration) const {
    const Configuration& found = configurations_[static_cast<size_t>(configuration)];
    return found.can_end && found.size == 1;
  }
  // By stack, then by state. Valid until the next new configuration.
  std::span<const Place> Places(int32_t configuration) const {
    const Configuration& found = configurations_[static_cast<size_t>(configuration)];
    return std::span(places_).subspan(found.begin, found.size);
  }
  // The configuration of these places on an empty stack, their states replaced by their aliases: it
  // has their mask as far as they do not return. REQUIRES: all have one stack.
  int32_t WithoutStack(std::span<const Place> places);
  // The configuration that returning to the top of a stack gives. REQUIRES: stack != kBottom.
  int32_t Returned(int32_t stack);

  // Whether a configuration or the work of a step passed its bound since this was last asked.
  bool TakeOverflow();
  bool Full() const;
  // Forgets everything but these configurations, whose numbers change.
  void Restart(std::span<int32_t> in_use);
  int32_t n_configurations() const { return static_cast<int32_t>(configurations_.size()); }

 private:
  struct Configuration {
    size_t begin = 0;
    size_t size = 0;
    bool can_end = false;
  };
  struct Stack {
    int32_t state = 0;  // to return to
    int32_t below = 0;
    int32_t returned = -1;  // the configuration of that, -1: not yet known
  };

  size_t Row(int32_t configuration) const {
    return static_cast<size_t>(configuration) * static_cast<size_t>(program_.n_classes());
  }
  int32_t NewStep(int32_t configuration, uint8_t byte_class);
  int32_t Push(int32_t state, int32_t below);
  // Adds a place, and all that are reached from it without a byte, to what Finish makes a
  // configuration of.
  void Reach(Place place);
  int32_t Finish();
  void Clear();
  size_t Bytes() const;

  Program program_;
  std::vector<Configuration> configurations_;
  std::vector<Place> places_;
  std::vector<int32_t> steps_;  // [n_configurations, n_classes], -1: not yet known
  NumberTable configuration_table_;
  std::vector<Stack> stacks_;
  NumberTable stack_table_;
  bool overflowed_ = false;
  size_t work_ = 0;  // places looked at since TakeOverflow
  // During a step.
  std::vector<Place> found_;
  std::vector<Place> fresh_;
  std::vector<uint64_t> seen_;  // an open table of places, 0: none
  size_t n_seen_ = 0;
};

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_MACHINE_H_
