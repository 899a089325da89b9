#include "plugins/sampler/grammar/masks/machine.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ng::grammar {
namespace {

constexpr size_t kFullBytes = size_t{64} << 20;  // when to begin again
constexpr size_t kFramesAStep = 4;  // a frame that is returned to costs that much less than a place
constexpr size_t kMostBytes = 3 * kFullBytes;  // of all that is remembered, in the midst of a mask

uint64_t Packed(Place place) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(place.state)) << 32) |
         static_cast<uint32_t>(place.stack);
}

}  // namespace

Machine::Machine(Program program, int64_t reach)
    : program_(std::move(program)), reach_(reach), seen_(64) {
  Clear();
}

absl::StatusOr<Machine> Machine::Make(Program program, int64_t reach) {
  Machine machine(std::move(program), reach);
  machine.ReachStart();
  machine.Finish();  // kStart
  NG_RETURN_IF_ERROR(machine.work_status());
  return machine;
}

absl::Status Machine::work_status() const {
  if (work_ <= kMaxWork) return absl::OkStatus();
  return UsageError(
      absl::StrCat("the grammar is too ambiguous: one token takes more than ", kMaxWork, " steps"));
}

void Machine::Clear() {
  configurations_.clear();
  places_.clear();
  steps_.clear();
  configuration_table_ = {};
  stacks_.clear();
  frames_.clear();
  stack_table_ = {};
  Push({{.state = kEnded, .below = kBottom}});  // kBottom
  Finish();                                     // kDead
}

void Machine::ReachStart() {
  const int32_t root = program_.root();
  called_.push_back({program_.rule(root).rank, root, {.state = kEnded, .below = kBottom}});
  if (program_.may_be_empty()) Reach({kEnded, kBottom});
}

int32_t Machine::NewStep(int32_t configuration, uint16_t read) {
  if (Bytes() > kMostBytes) work_ = kMaxWork + 1;
  const Configuration from = configurations_[static_cast<size_t>(configuration)];
  if (!Spend(from.size)) return kDead;
  for (size_t i = 0; i < from.size; ++i) {
    const Place place = places_[from.begin + i];
    if (place.state == kEnded) continue;
    for (const Program::Reads& reads : program_.reads(place.state)) {
      if (read < reads.low || read > reads.high) continue;
      Reach({reads.to, place.stack});
    }
  }
  const int32_t next = Finish();
  if (work_ <= kMaxWork) steps_[Row(configuration) + read] = next;
  return next;
}

absl::StatusOr<int32_t> Machine::Advance(int32_t configuration, std::string_view bytes) {
  BeginWork();
  for (const char c : bytes) {
    configuration = Step(configuration, program_.ClassOf(static_cast<uint8_t>(c)));
  }
  NG_RETURN_IF_ERROR(work_status());
  return configuration;
}

absl::StatusOr<int32_t> Machine::AdvanceToken(int32_t configuration, uint16_t token) {
  BeginWork();
  configuration = Step(configuration, token);
  NG_RETURN_IF_ERROR(work_status());
  return configuration;
}

bool Machine::MayLeave(const Frame& frame) const {
  return frame.counts < 0 || frame.high >= program_.rule(frame.counts).count.least;
}

// Counts that cannot be told apart become equal. Only the smallest of an interval matters for
// whether it may count on, and only the largest for whether it has counted enough.
void Machine::Normalize(std::vector<Frame>& frames) const {
  std::ranges::sort(frames);
  frames.erase(std::unique(frames.begin(), frames.end()), frames.end());
  if (frames.empty() || frames.front().counts < 0) return;
  const Count count = program_.rule(frames.front().counts).count;
  const auto least = static_cast<uint32_t>(count.least);
  const int64_t room = count.most < 0 ? Count::kLargest : count.most - count.least;
  size_t n = 0;
  for (const Frame& frame : frames) {
    Frame* last = n > 0 ? &frames[n - 1] : nullptr;
    if (last == nullptr || last->state != frame.state || last->below != frame.below) {
      frames[n++] = frame;
    } else if (last->high >= least || int64_t{frame.low} - last->high - 1 <= room) {
      // Nothing that they do not allow lies between them.
      last->high = std::max(last->high, frame.high);
    } else {
      frames[n++] = frame;
    }
  }
  frames.resize(n);
  for (Frame& frame : frames) {
    frame.high = std::min(frame.high, std::max(least, frame.low));
    if (count.most < 0) frame.low = frame.high = std::min(frame.high, least);
  }
}

int32_t Machine::Push(std::vector<Frame> frames) {
  Normalize(frames);
  Spend(frames.size());
  uint64_t hash = Mix(frames.size());
  for (const Frame& frame : frames) {
    hash = Mix(hash ^ Packed({frame.state, frame.below}));
    hash = Mix(hash ^ (uint64_t{frame.low} << 32 | frame.high));
  }
  int32_t number = stack_table_.Find(
      hash, [&](int32_t known) { return std::ranges::equal(Frames(known), frames); });
  if (number >= 0) return number;
  number = static_cast<int32_t>(stacks_.size());
  stack_table_.Insert(hash, number);
  stacks_.push_back({.begin = frames_.size(), .size = frames.size()});
  frames_.insert(frames_.end(), frames.begin(), frames.end());
  SetShape(number);
  return number;
}

// Frames that count belong to the shape where all of them lie on one stack.
void Machine::SetShape(int32_t stack) {
  constexpr int32_t kMaxCounts = 6;
  Stack whole = StackAt(stack);
  std::vector<Frame> shape(Frames(stack).begin(), Frames(stack).end());
  if (shape.front().counts < 0) {
    whole.shape = kBottom;
    whole.lies_on = stack;
    stacks_[static_cast<size_t>(stack)] = whole;
    return;
  }
  whole.lies_on = Below(shape.front().below);
  whole.shape = stack;  // if it is one itself
  for (Frame& frame : shape) {
    const Stack& below = StackAt(frame.below);
    whole.n_counts = std::max(whole.n_counts, below.n_counts + 1);
    if (below.lies_on != whole.lies_on || whole.n_counts > kMaxCounts) whole.lies_on = kMixed;
    frame = Alike(frame);
    frame.below = below.shape;
  }
  stacks_[static_cast<size_t>(stack)] = whole;
  if (whole.lies_on == kMixed) return;
  const int32_t number = Push(std::move(shape));
  stacks_[static_cast<size_t>(stack)].shape = number;
}

Machine::Frame Machine::Alike(Frame frame) const {
  const Program::CalledRule& rule = program_.rule(frame.counts);
  const int64_t near = reach_ + rule.slack;
  const bool far = rule.count.most < 0 || frame.low + near < rule.count.most;
  const bool enough = frame.high >= rule.count.least;
  if (far) frame.low = 0;
  if (enough) frame.high = std::max(static_cast<uint32_t>(rule.count.least), frame.low);
  if (far && frame.high + near < rule.count.least) frame.high = 0;
  return frame;
}

int32_t Machine::CountOne(int32_t stack, const Count& window) {
  std::vector<Frame> frames;
  for (Frame frame : Frames(stack)) {
    const Count count = program_.rule(frame.counts).count;
    const int64_t most = window.most >= 0 ? window.most : count.most;
    const int64_t low = std::max<int64_t>(int64_t{frame.low} + 1, window.least);
    const int64_t high =
        most < 0 ? int64_t{frame.high} + 1 : std::min(int64_t{frame.high} + 1, most);
    if (low > high) continue;
    frame.low = static_cast<uint32_t>(low);
    frame.high = static_cast<uint32_t>(high);
    frames.push_back(frame);
  }
  return frames.empty() ? -1 : Push(std::move(frames));
}

void Machine::Look(Place place) {
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
  const uint64_t key = Packed({place.state + 1, place.stack}) + 1;
  size_t at = Mix(key) & (seen_.size() - 1);
  for (; seen_[at] != 0; at = (at + 1) & (seen_.size() - 1)) {
    if (seen_[at] == key) return;
  }
  seen_[at] = key;
  ++n_seen_;
  fresh_.push_back(place);
}

// `entered`: the stack of a rule in which nothing has been read yet; it is not left then.
void Machine::Follow(int32_t entered) {
  while (!fresh_.empty()) {
    const Place at = fresh_.back();
    fresh_.pop_back();
    if (!Spend(1)) {
      fresh_.clear();
      return;
    }
    if (at.state == kEnded) {
      found_.push_back(at);
      continue;
    }
    if (!program_.reads(at.state).empty()) found_.push_back(at);
    for (const int32_t to : program_.free(at.state)) Look({to, at.stack});
    for (const Program::Counts& one : program_.counts(at.state)) {
      const int32_t stack = CountOne(at.stack, one.window);
      if (stack >= 0) Look({one.to, stack});
    }
    for (const Program::Calls& call : program_.calls(at.state)) {
      const Program::CalledRule& rule = program_.rule(call.rule);
      Call made{rule.rank, call.rule, {call.to, at.stack, rule.counts ? call.rule : -1}};
      const auto add = [&] {
        called_.push_back(made);
        std::ranges::push_heap(called_, std::greater());
      };
      if (rule.counts || !program_.OnlyExit(call.to)) {
        add();
        continue;
      }
      // A call at the end of a rule needs no way back, so that a long list takes no stack.
      for (const Frame& frame : Frames(at.stack)) {
        made.frame.state = frame.state;
        made.frame.below = frame.below;
        add();
      }
      Spend(StackAt(at.stack).size);
    }
    if (!program_.IsExit(at.state) || at.stack == entered) continue;
    Spend(StackAt(at.stack).size / kFramesAStep);
    for (size_t i = 0; i < StackAt(at.stack).size; ++i) {
      const Frame frame = Frames(at.stack)[i];
      if (MayLeave(frame)) Look({frame.state, frame.below});
    }
  }
}

// A rule is entered once, with all that call it here: those begin with it, so they were before it.
void Machine::EnterCalled() {
  while (!called_.empty()) {
    const int32_t rule = called_.front().rule;
    std::vector<Frame> frames;
    while (!called_.empty() && called_.front().rule == rule) {
      std::ranges::pop_heap(called_, std::greater());
      frames.push_back(called_.back().frame);
      called_.pop_back();
    }
    if (!Spend(frames.size())) {
      called_.clear();
      return;
    }
    const int32_t stack = Push(std::move(frames));
    Look({program_.rule(rule).entry, stack});
    Follow(stack);
  }
}

// Places in one state of a rule that counts are one, with the counts of all of them.
void Machine::JoinCounts() {
  std::ranges::sort(found_);
  size_t n = 0;
  for (size_t begin = 0, end = 0; begin < found_.size(); begin = end) {
    std::vector<Frame> frames;
    int32_t joined = -1;
    for (; end < found_.size() && found_[end].state == found_[begin].state; ++end) {
      const std::span<const Frame> more = Frames(found_[end].stack);
      if (more.front().counts < 0) {
        found_[n++] = found_[end];
        continue;
      }
      joined = frames.empty() ? found_[end].stack : -1;
      frames.insert(frames.end(), more.begin(), more.end());
    }
    if (frames.empty()) continue;
    found_[n++] = {found_[begin].state, joined >= 0 ? joined : Push(std::move(frames))};
  }
  found_.resize(n);
}

int32_t Machine::Finish() {
  EnterCalled();
  if (n_seen_ > 0) seen_.assign(64, 0);
  n_seen_ = 0;
  JoinCounts();
  if (work_ > kMaxWork) found_.clear();
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

int32_t Machine::WithoutBelow(std::span<const Place> places) {
  for (const Place& place : places) found_.push_back({place.state, StackAt(place.stack).shape});
  std::ranges::sort(found_);
  found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
  return Finish();
}

int32_t Machine::Returned(int32_t stack) {
  if (StackAt(stack).returned >= 0) return StackAt(stack).returned;
  for (size_t i = 0; i < StackAt(stack).size; ++i) {
    const Frame frame = Frames(stack)[i];
    if (MayLeave(frame)) Reach({frame.state, frame.below});
  }
  const int32_t returned = Finish();
  if (work_ <= kMaxWork) stacks_[static_cast<size_t>(stack)].returned = returned;
  return returned;
}

size_t Machine::Bytes() const {
  return steps_.size() * sizeof(int32_t) + places_.size() * sizeof(Place) +
         configurations_.size() * sizeof(Configuration) + stacks_.size() * sizeof(Stack) +
         frames_.size() * sizeof(Frame);
}

bool Machine::Full() const { return Bytes() > kFullBytes; }

void Machine::Restart(std::span<int32_t> in_use) {
  const std::vector<Configuration> configurations = std::move(configurations_);
  const std::vector<Place> places = std::move(places_);
  const std::vector<Stack> stacks = std::move(stacks_);
  const std::vector<Frame> frames = std::move(frames_);
  BeginWork();
  Clear();
  ReachStart();
  Finish();
  // A stack lies on those with smaller numbers.
  std::vector<uint8_t> needed(stacks.size());
  for (const int32_t number : in_use) {
    const Configuration& found = configurations[static_cast<size_t>(number)];
    for (size_t i = 0; i < found.size; ++i) {
      needed[static_cast<size_t>(places[found.begin + i].stack)] = 1;
    }
  }
  const auto frames_of = [&](size_t stack) {
    return std::span(frames).subspan(stacks[stack].begin, stacks[stack].size);
  };
  for (size_t i = stacks.size(); i-- > 1;) {
    if (needed[i] == 0) continue;
    for (const Frame& frame : frames_of(i)) needed[static_cast<size_t>(frame.below)] = 1;
  }
  std::vector<int32_t> renumbered(stacks.size());
  for (size_t i = 1; i < stacks.size(); ++i) {
    if (needed[i] == 0) continue;
    BeginWork();
    std::vector<Frame> kept(frames_of(i).begin(), frames_of(i).end());
    for (Frame& frame : kept) frame.below = renumbered[static_cast<size_t>(frame.below)];
    renumbered[i] = Push(std::move(kept));
  }
  for (int32_t& number : in_use) {
    const Configuration& found = configurations[static_cast<size_t>(number)];
    for (size_t i = 0; i < found.size; ++i) {
      const Place& place = places[found.begin + i];
      found_.push_back({place.state, renumbered[static_cast<size_t>(place.stack)]});
    }
    BeginWork();
    number = Finish();
  }
}

}  // namespace ng::grammar
