// One run of a template: what it has used of its limits, and its first failure.
//
// After a failure every function returns soon, with values that mean nothing. Whoever started the
// run looks at status() in the end. So the code of filters and operators has no error paths.
#ifndef NG_CORE_TEXT_JINJA_RUN_H_
#define NG_CORE_TEXT_JINJA_RUN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text/jinja/value.h"
#include "ng/status.h"

namespace ng::jinja {

// What a template may use. The sizes are for a template with little data; Run adds to them what
// the data need.
struct Limits {
  int64_t steps = 1'000'000;          // a step takes some 100 ns
  int64_t bytes = int64_t{20} << 20;  // of values that live at a time
  int64_t output = int64_t{4} << 20;
  int depth = 60;   // levels of lists and dicts
  int calls = 400;  // levels of expressions, blocks and macros
};

// The time that strftime_now tells.
struct Moment {
  int64_t seconds_since_1970 = 0;  // local time
};

class Run {
 public:
  Run(std::string name, const Limits& limits, Moment now)
      : name_(std::move(name)), limits_(limits), now_(now) {}

  // Ends the run; only the first failure counts. Returns a value for callers to return.
  Value Fail(std::string_view what);
  // The same for raise_exception: the template refuses the conversation.
  Value Refuse(std::string_view what);
  bool failed() const { return !status_.ok(); }
  const absl::Status& status() const { return status_; }

  // Counts steps of work. Returns false when the run has failed.
  bool Work(int64_t steps);
  // The same for bytes that a function goes through: those of a text that it reads or writes.
  bool Read(size_t bytes) { return Work(static_cast<int64_t>(bytes / kBytesOfStep)); }
  void set_line(int line) { line_ = line; }
  int line() const { return line_; }
  const Limits& limits() const { return limits_; }
  Limits& limits() { return limits_; }
  const Moment& now() const { return now_; }

  Value NewText(Text text);
  Value NewText(std::string_view bytes, Origin origin = Origin::kTemplate) {
    return NewText(Text(bytes, origin));
  }
  Value NewSequence(SequenceKind kind, std::vector<Value> items);
  Value NewList(std::vector<Value> items) {
    return NewSequence(SequenceKind::kList, std::move(items));
  }
  // A later value of an equal key takes the place of an earlier one.
  Value NewDict(std::vector<std::pair<Value, Value>> items);
  Value NewNamespace();
  Value NewUndefined(std::string what);
  // Keeps something alive until the run ends, so that values that refer to each other in a circle
  // or in a long chain die one by one.
  void Keep(std::function<void()> clear) { kept_.push_back(std::move(clear)); }
  // Ends what Keep began. Call it when the run is over.
  void Clear();
  std::shared_ptr<int64_t> used() { return used_; }
  // Whether memory for so many bytes is left; fails if not.
  bool HasRoom(int64_t bytes);

  int64_t steps() const { return steps_; }  // that have been counted

 private:
  static constexpr size_t kBytesOfStep = 16;

  std::string name_;
  Limits limits_;
  Moment now_;
  int line_ = 1;
  int64_t steps_ = 0;
  std::shared_ptr<int64_t> used_ = std::make_shared<int64_t>(0);
  std::vector<std::function<void()>> kept_;
  absl::Status status_;
};

// The items that a for block runs over: of a sequence, the characters of a text, the keys of a
// dict; none of an undefined value. Takes what is left of a generator. Null after a failure.
std::shared_ptr<const Sequence> ItemsOf(Run& run, const Value& value);

}  // namespace ng::jinja

#endif  // NG_CORE_TEXT_JINJA_RUN_H_
