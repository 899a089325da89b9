// Filters, tests, methods and global functions: tables of names, parameters and what they do.
#ifndef NG_CORE_TEXT_JINJA_FUNCTIONS_H_
#define NG_CORE_TEXT_JINJA_FUNCTIONS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/jinja/run.h"
#include "core/text/jinja/value.h"

namespace ng::jinja {

// What a function is given: the value before it, and its arguments in the order of its parameters.
// A parameter that is not given is an undefined value.
class Input {
 public:
  Input(Call& call, std::string_view function)
      : run(call.run), self(call.self), call(call), function_(function) {}

  Run& run;
  const Value& self;
  Call& call;

  const Value& operator[](size_t i) const;
  bool Has(size_t i) const { return i < values_.size() && values_[i].has_value(); }
  // These fail for a value of another type. The default is for a parameter that is not given.
  int64_t Int(size_t i, int64_t standard) const;
  bool Bool(size_t i, bool standard) const { return Has(i) ? IsTrue((*this)[i]) : standard; }
  Text TextOf(size_t i) const;  // of any value: as Python prints it
  // Takes the arguments to their parameters: names with spaces between them, "?" after those that
  // may be left out. "*" alone: the function reads the call itself.
  bool Bind(std::string_view parameters);
  Value Fail(std::string_view what) const;

 private:
  std::string function_;
  std::vector<std::optional<Value>> values_;
};

struct Function {
  std::string_view name;
  std::string_view parameters;
  Value (*run)(const Input& in);
};

std::span<const Function> Filters();
std::span<const Function> Tests();
std::span<const Function> TextMethods();
std::span<const Function> SequenceMethods();
std::span<const Function> DictMethods();
std::span<const Function> Globals();

Value Invoke(const Function& function, Call& call);
// They fail for a name that is not known.
Value ApplyFilter(std::string_view name, Call& call);
bool ApplyTest(std::string_view name, Call& call);
// A method or an attribute of a value, then a key of it; undefined where it has neither.
Value Attribute(Run& run, const Value& of, std::string_view name);
// A key or a place of a value, then an attribute.
Value Item(Run& run, const Value& of, const Value& key);
// x[begin:end:step]; undefined values mean that nothing is given.
Value Slice(Run& run, const Value& of, std::span<const Value, 3> bounds);
Value CallValue(const Value& callee, Call& call);

// The operators of two values, as Python has them.
Value Operate(Run& run, std::string_view name, const Value& a, const Value& b);
// ==, !=, <, <=, >, >=, in, not in.
bool CompareBy(Run& run, std::string_view name, const Value& a, const Value& b);
bool Contains(Run& run, const Value& whole, const Value& part);

// What json.dumps of Python writes.
struct JsonStyle {
  bool ascii = false;
  std::optional<std::string> indent;  // for each level
  Text item_separator;
  Text key_separator;
  bool sort_keys = false;
};
Text JsonText(Run& run, const Value& value, const JsonStyle& style);
// "%s of %d" % (...)
Text PercentFormat(Run& run, const Text& format, const std::vector<Value>& values);
// "{} of {name}".format(...)
Text BraceFormat(Run& run, const Text& format, const Call& call);

}  // namespace ng::jinja

#endif  // NG_CORE_TEXT_JINJA_FUNCTIONS_H_
