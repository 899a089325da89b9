// The values of a template: what JSON has, and what Python's Jinja adds to it.
//
// Values never change, but for namespaces and for how much of a generator has been taken. They are
// shared by pointers. Lists and dicts cannot contain themselves.
#ifndef NG_CORE_TEXT_JINJA_VALUE_H_
#define NG_CORE_TEXT_JINJA_VALUE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/text/jinja/text.h"

namespace ng::jinja {

class Run;
class Value;
struct Call;

// A piece of a run's memory; it is given back when this dies.
class Holding {
 public:
  Holding() = default;
  Holding(std::shared_ptr<int64_t> used, int64_t bytes) : used_(std::move(used)), bytes_(bytes) {
    *used_ += bytes_;
  }
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;
  ~Holding() {
    if (used_ != nullptr) *used_ -= bytes_;
  }

 private:
  std::shared_ptr<int64_t> used_;
  int64_t bytes_ = 0;
};

struct Undefined {
  std::shared_ptr<const std::string> what;  // "'name' is undefined"; null: nothing to say
};
struct None {};

struct HeldText {
  HeldText(Text held, std::shared_ptr<int64_t> used)
      : text(std::move(held)),
        holding(std::move(used), 2 * static_cast<int64_t>(text.size()) + 128) {}
  Text text;
  Holding holding;
};

// The kinds of sequences, as Python tells them apart.
enum class SequenceKind { kList, kTuple, kRange, kKeys, kValues, kItems, kGenerator };

struct Sequence {
  Sequence(SequenceKind of, std::vector<Value> held, int levels, std::shared_ptr<int64_t> used);
  SequenceKind kind;
  std::vector<Value> items;
  size_t taken = 0;  // of a generator: how many items have been taken
  int depth;         // levels of lists and dicts, itself included
  Holding holding;
};

struct Dict {
  Dict(std::vector<std::pair<Value, Value>> held, std::vector<std::pair<uint64_t, uint32_t>> hashes,
       int levels, std::shared_ptr<int64_t> used);
  std::vector<std::pair<Value, Value>> items;  // in the order in which they were put in
  // Of a large dict, the hashes of its keys and their places, ascending.
  std::vector<std::pair<uint64_t, uint32_t>> places;
  int depth;
  Holding holding;
};

struct Namespace {
  std::map<std::string, Value, std::less<>> attributes;
  Holding holding;
};

// `loop` in a for block.
struct Loop {
  std::shared_ptr<const Sequence> items;
  size_t index = 0;
  int depth = 0;                    // 0 for the outermost run of a recursive block
  std::vector<Value> last_changed;  // what loop.changed was last asked
  bool has_changed = false;
  bool ended = false;
  std::function<Value(Call&)> recurse;  // empty where the block is not recursive
};

// A macro, a function or a method of a value.
struct Callable {
  std::string name;
  std::function<Value(Call&)> run;
  int depth = 0;  // of the value that a method belongs to
};

class Value {
 public:
  using Data = std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const HeldText>,
                            std::shared_ptr<Sequence>, std::shared_ptr<const Dict>,
                            std::shared_ptr<Namespace>, std::shared_ptr<Loop>,
                            std::shared_ptr<const Callable>>;

  Value() = default;
  template <typename T>
  // NOLINTNEXTLINE(google-explicit-constructor)
  Value(T data, Origin origin = Origin::kTemplate) : data_(std::move(data)), origin_(origin) {}

  template <typename T>
  bool Is() const {
    return std::holds_alternative<T>(data_);
  }
  template <typename T>
  const T& As() const {
    return *std::get_if<T>(&data_);
  }

  bool IsUndefined() const { return Is<Undefined>(); }
  bool IsNone() const { return Is<None>(); }
  // Null where it is another kind of value.
  const Text* text() const;
  const Sequence* sequence() const;
  const Dict* dict() const;
  bool IsNumber() const { return Is<bool>() || Is<int64_t>() || Is<double>(); }
  bool IsInteger() const { return Is<bool>() || Is<int64_t>(); }
  // REQUIRES: IsInteger().
  int64_t integer() const { return Is<bool>() ? (As<bool>() ? 1 : 0) : As<int64_t>(); }
  // REQUIRES: IsNumber().
  double real() const { return Is<double>() ? As<double>() : static_cast<double>(integer()); }
  // Of a number, or of a text as a whole. What is computed from data is data.
  Origin origin() const;
  // Levels of lists and dicts, and of what keeps them alive.
  int depth() const;

 private:
  Data data_;
  Origin origin_ = Origin::kTemplate;
};

// The arguments of a call, and what it is about: the value before a filter, a test or a method.
struct Call {
  Run& run;
  Value self;
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// What Python calls the type of a value, in plain words: "a list".
std::string_view KindOf(const Value& value);
bool IsTrue(const Value& value);
// None of these fails. A number is equal to the same number of another type.
bool Equal(Run& run, const Value& a, const Value& b);
// Equal values have equal hashes.
uint64_t HashOf(Run& run, const Value& value);
// The value of a key, or null.
const Value* Find(Run& run, const Dict& dict, const Value& key);
const Value* Find(const Dict& dict, std::string_view key);

enum class Order { kLess, kEqual, kGreater, kNone };
// How two values compare; kNone for values that Python does not order, which is no failure here.
Order Compare(Run& run, const Value& a, const Value& b);

// A value as Python prints it: `str` and `repr`. Fails for what has an address in its text.
Text Printed(Run& run, const Value& value);
Text Represented(Run& run, const Value& value);
std::string FloatText(double value);

}  // namespace ng::jinja

#endif  // NG_CORE_TEXT_JINJA_VALUE_H_
