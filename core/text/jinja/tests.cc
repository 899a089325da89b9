// The tests: what may follow "is". (They are Jinja's word, not tests of this code.)
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/text/jinja/functions.h"
#include "core/text/unicode.h"

namespace ng::jinja {
namespace {

bool IsSequenceLike(const Value& value) {
  return value.text() != nullptr || value.dict() != nullptr ||
         (value.sequence() != nullptr && value.sequence()->kind <= SequenceKind::kRange);
}

// Whether a text has a letter with a case, and all of them have it.
bool AllHaveCase(const Input& in, bool (*has)(char32_t), bool (*other)(char32_t)) {
  const std::string text = Printed(in.run, in.self).bytes();
  if (!in.run.Read(2 * text.size())) return false;
  bool any = false;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = FirstCodePoint(std::string_view(text).substr(i));
    if (other(c.value)) return false;
    any = any || has(c.value);
    i += c.length;
  }
  return any;
}

int64_t Remainder(const Input& in, int64_t by) {
  if (!in.self.IsInteger() || by == 0) {
    in.Fail("needs integers, and no division by 0");
    return 0;
  }
  return by == -1 ? 0 : in.self.integer() % by;
}

template <typename T>
Value IsA(const Input& in) {
  return Value(in.self.Is<T>());
}
Value Defined(const Input& in) { return Value(!in.self.IsUndefined()); }
Value True(const Input& in) { return Value(in.self.Is<bool>() && in.self.As<bool>()); }
Value False(const Input& in) { return Value(in.self.Is<bool>() && !in.self.As<bool>()); }
Value Number(const Input& in) { return Value(in.self.IsNumber()); }
Value String(const Input& in) { return Value(in.self.text() != nullptr); }
Value Mapping(const Input& in) { return Value(in.self.dict() != nullptr); }
Value SequenceTest(const Input& in) {
  return Value(IsSequenceLike(in.self) || in.self.IsUndefined());
}
Value Iterable(const Input& in) {
  return Value(IsSequenceLike(in.self) || in.self.sequence() != nullptr || in.self.IsUndefined() ||
               in.self.Is<std::shared_ptr<Loop>>());
}
Value IsCallable(const Input& in) {
  return Value(in.self.Is<std::shared_ptr<const Callable>>() ||
               (in.self.Is<std::shared_ptr<Loop>>()));
}
Value Odd(const Input& in) { return Value(Remainder(in, 2) != 0); }
Value Even(const Input& in) { return Value(Remainder(in, 2) == 0); }
Value DivisibleBy(const Input& in) { return Value(Remainder(in, in.Int(0, 0)) == 0); }
Value LowerTest(const Input& in) { return Value(AllHaveCase(in, IsLower, IsUpper)); }
Value UpperTest(const Input& in) { return Value(AllHaveCase(in, IsUpper, IsLower)); }
template <int kWhich>
Value CompareTest(const Input& in) {
  static constexpr std::string_view kNames[] = {"==", "!=", "<", "<=", ">", ">=", "in"};
  return Value(CompareBy(in.run, kNames[kWhich], in.self, in[0]));
}
// The same object: for what has no identity here, the same value of the same type.
Value SameAs(const Input& in) {
  return Value(KindOf(in.self) == KindOf(in[0]) && Equal(in.run, in.self, in[0]));
}
Value IsFilter(const Input& in) {
  const auto table = Filters();
  return Value(std::ranges::find(table, Printed(in.run, in.self).bytes(), &Function::name) !=
               table.end());
}
Value IsTest(const Input& in) {
  const auto table = Tests();
  return Value(std::ranges::find(table, Printed(in.run, in.self).bytes(), &Function::name) !=
               table.end());
}
Value IsEscaped(const Input& in) {
  return Value(in.self.text() != nullptr && in.self.text()->safe());
}

constexpr Function kTests[] = {
    {"!=", "other", CompareTest<1>},
    {"<", "other", CompareTest<2>},
    {"<=", "other", CompareTest<3>},
    {"==", "other", CompareTest<0>},
    {">", "other", CompareTest<4>},
    {">=", "other", CompareTest<5>},
    {"boolean", "", IsA<bool>},
    {"callable", "", IsCallable},
    {"defined", "", Defined},
    {"divisibleby", "num", DivisibleBy},
    {"eq", "other", CompareTest<0>},
    {"equalto", "other", CompareTest<0>},
    {"escaped", "", IsEscaped},
    {"even", "", Even},
    {"false", "", False},
    {"filter", "", IsFilter},
    {"float", "", IsA<double>},
    {"ge", "other", CompareTest<5>},
    {"greaterthan", "other", CompareTest<4>},
    {"gt", "other", CompareTest<4>},
    {"in", "seq", CompareTest<6>},
    {"integer", "", IsA<int64_t>},
    {"iterable", "", Iterable},
    {"le", "other", CompareTest<3>},
    {"lessthan", "other", CompareTest<2>},
    {"lower", "", LowerTest},
    {"lt", "other", CompareTest<2>},
    {"mapping", "", Mapping},
    {"ne", "other", CompareTest<1>},
    {"none", "", IsA<None>},
    {"number", "", Number},
    {"odd", "", Odd},
    {"sameas", "other", SameAs},
    {"sequence", "", SequenceTest},
    {"string", "", String},
    {"test", "", IsTest},
    {"true", "", True},
    {"undefined", "", IsA<Undefined>},
    {"upper", "", UpperTest},
};

}  // namespace

std::span<const Function> Tests() { return kTests; }

}  // namespace ng::jinja
