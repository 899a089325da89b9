// Runs a Program over bytes: a pushdown automaton that may be in many places at once.
//
// A place is a state with a stack. A stack is a set of frames: each is a state to return to with
// the stack below it and, where the rule that was called counts, an interval of counts. So callers
// that call one rule at one byte share the stack above them, and what many ways have in common is
// there once. A configuration is a set of places. Equal stacks are one, and so are equal
// configurations; a configuration is a number. The step from a configuration by a class is
// computed when it is first asked for, and remembered. So what is met again costs one load.
//
// Memory: what is remembered grows with what is new, and allocates. `Full` says when it is time to
// begin again; `Restart` keeps the configurations that are in use.
//
// Work: it is counted from `BeginWork` on. When it is too much, steps that are new give kDead, are
// not remembered, and `work_status` is an error.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_MASKS_MACHINE_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_MASKS_MACHINE_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "plugins/sampler/grammar/automata/number_table.h"
#include "plugins/sampler/grammar/automata/program.h"

namespace ng::grammar {

struct Place {
  int32_t state = 0;
  int32_t stack = 0;
  auto operator<=>(const Place&) const = default;
};

class Machine {
 public:
  static constexpr int32_t kDead = 0;    // the empty configuration: nothing goes on
  static constexpr int32_t kStart = 1;   // where nothing has been read
  static constexpr int32_t kBottom = 0;  // the stack of the first rule
  static constexpr int32_t kMixed = -1;
  // The state of a place that has left the first rule: the text may end here.
  static constexpr int32_t kEnded = -1;
  static constexpr size_t kMaxWork = size_t{2} << 20;  // of BeginWork: places and frames

  // `reach` is the length of the longest token: counts that are further from their bounds than that
  // are alike for a mask. Errors: UsageError when the beginning of the grammar takes too much work.
  static absl::StatusOr<Machine> Make(Program program, int64_t reach);

  const Program& program() const { return program_; }
  int32_t Step(int32_t configuration, uint16_t read) {
    const int32_t next = steps_[Row(configuration) + read];
    return next >= 0 ? next : NewStep(configuration, read);
  }
  // Behind these bytes; kDead where they do not go on. Errors: UsageError when it is too much work.
  absl::StatusOr<int32_t> Advance(int32_t configuration, std::string_view bytes);
  // Behind a token that is read as a whole, of this class.
  absl::StatusOr<int32_t> AdvanceToken(int32_t configuration, uint16_t token);
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

  // The stack below the frames of rules that count: what the mask of a place depends on beside the
  // shape of those. kMixed: there are several, or too many frames that count.
  int32_t Below(int32_t stack) const { return stacks_[static_cast<size_t>(stack)].lies_on; }
  // The configuration of places with the same Below without that, their counts replaced by others
  // that are alike: it has their mask as far as they do not return to what lies below. REQUIRES:
  // it is not kMixed.
  int32_t WithoutBelow(std::span<const Place> places);
  // The configuration that returning to the top of a stack gives. REQUIRES: stack != kBottom.
  int32_t Returned(int32_t stack);

  void BeginWork() { work_ = 0; }
  // Whether there is still something left afterwards.
  bool Spend(size_t work) { return (work_ += work) <= kMaxWork; }
  size_t work() const { return work_; }
  absl::Status work_status() const;

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
  struct Frame {
    int32_t state = 0;  // to return to
    int32_t below = 0;
    int32_t counts = -1;  // the rule that was called, where it counts
    uint32_t low = 0;     // how often it has counted
    uint32_t high = 0;
    auto operator<=>(const Frame&) const = default;
  };
  struct Stack {
    size_t begin = 0;
    size_t size = 0;
    int32_t shape = 0;      // without what it lies on, with counts that are alike
    int32_t lies_on = 0;    // itself where its frames do not count
    int32_t n_counts = 0;   // frames that count on each other
    int32_t returned = -1;  // the configuration of that, -1: not yet known
  };
  struct Call {
    int32_t rank = 0;
    int32_t rule = 0;
    Frame frame;
    auto operator<=>(const Call&) const = default;
  };

  Machine(Program program, int64_t reach);
  size_t Row(int32_t configuration) const {
    return static_cast<size_t>(configuration) * static_cast<size_t>(program_.n_classes());
  }
  const Stack& StackAt(int32_t stack) const { return stacks_[static_cast<size_t>(stack)]; }
  std::span<const Frame> Frames(int32_t stack) const {
    return std::span(frames_).subspan(StackAt(stack).begin, StackAt(stack).size);
  }
  bool MayLeave(const Frame& frame) const;
  int32_t NewStep(int32_t configuration, uint16_t read);
  // The number of a set of frames. REQUIRES: all are of calls of one rule.
  int32_t Push(std::vector<Frame> frames);
  void Normalize(std::vector<Frame>& frames) const;
  void SetShape(int32_t stack);
  Frame Alike(Frame frame) const;
  // The same stack where its rule has counted one more; -1: it may not.
  int32_t CountOne(int32_t stack, const Count& window);
  // Adds a place, and all that are reached from it without a byte, to what Finish makes a
  // configuration of. Rules that are called are entered in Finish, when all callers are known.
  void Reach(Place place) { Look(place), Follow(/*entered=*/-1); }
  void Look(Place place);
  void Follow(int32_t entered);
  void EnterCalled();
  void JoinCounts();
  int32_t Finish();
  void Clear();
  void ReachStart();
  size_t Bytes() const;

  Program program_;
  int64_t reach_;
  std::vector<Configuration> configurations_;
  std::vector<Place> places_;
  std::vector<int32_t> steps_;  // [n_configurations, n_classes], -1: not yet known
  NumberTable configuration_table_;
  std::vector<Stack> stacks_;
  std::vector<Frame> frames_;
  NumberTable stack_table_;
  size_t work_ = 0;
  // During a step.
  std::vector<Place> found_;
  std::vector<Place> fresh_;
  std::vector<Call> called_;    // a heap, the smallest rank first
  std::vector<uint64_t> seen_;  // an open table of places, 0: none
  size_t n_seen_ = 0;
};

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_MASKS_MACHINE_H_
