#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/text/find.h"
#include "core/text/jinja/functions.h"
#include "core/text/jinja/text_functions.h"

namespace ng::jinja {
namespace {

Value TooLarge(Run& run) { return run.Fail("a number that does not fit 64 bits"); }

int64_t FloorDivide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

Value IntegerPower(Run& run, int64_t base, int64_t exponent, Origin origin) {
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return TooLarge(run);
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return TooLarge(run);
  }
  return {result, origin};
}

Value OperateIntegers(Run& run, std::string_view name, int64_t a, int64_t b, Origin origin) {
  int64_t result = 0;
  bool overflow = false;
  if (name == "+") overflow = __builtin_add_overflow(a, b, &result);
  if (name == "-") overflow = __builtin_sub_overflow(a, b, &result);
  if (name == "*") overflow = __builtin_mul_overflow(a, b, &result);
  if (name == "**") return IntegerPower(run, a, b, origin);
  if (name == "//" || name == "%") {
    if (b == -1) {  // the processor's division traps for the smallest integer
      if (name == "%") return {int64_t{0}, origin};
      overflow = __builtin_sub_overflow(int64_t{0}, a, &result);
    } else {
      result = name == "//" ? FloorDivide(a, b) : a - FloorDivide(a, b) * b;
    }
  }
  if (overflow) return TooLarge(run);
  return {result, origin};
}

Value OperateFloats(Run& run, std::string_view name, double a, double b, Origin origin) {
  if (name == "+") return {a + b, origin};
  if (name == "-") return {a - b, origin};
  if (name == "*") return {a * b, origin};
  if (name == "/") return {a / b, origin};
  if (name == "**") {
    if (a == 0 && b < 0) return run.Fail("0 to a negative power");
    const double power = std::pow(a, b);
    if (!std::isfinite(power) && std::isfinite(a) && std::isfinite(b)) return TooLarge(run);
    return {power, origin};
  }
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  if (name == "%") return {rest, origin};
  return {std::floor((a - rest) / b + 0.5), origin};
}

Value OperateNumbers(Run& run, std::string_view name, const Value& a, const Value& b) {
  const Origin origin = Both(a.origin(), b.origin());
  const bool divides = name == "/" || name == "//" || name == "%";
  if (divides && b.real() == 0) return run.Fail("a division by 0");
  const bool to_float = name == "/" || (name == "**" && b.IsInteger() && b.integer() < 0);
  if (a.IsInteger() && b.IsInteger() && !to_float) {
    return OperateIntegers(run, name, a.integer(), b.integer(), origin);
  }
  return OperateFloats(run, name, a.real(), b.real(), origin);
}

// text * n and list * n.
Value Repeat(Run& run, const Value& what, int64_t times) {
  times = std::max<int64_t>(times, 0);
  const auto size = static_cast<int64_t>(what.text() != nullptr ? what.text()->size()
                                                                : what.sequence()->items.size());
  int64_t bytes = 0;
  if (__builtin_mul_overflow(size, times, &bytes) || bytes > run.limits().bytes / 2) {
    return run.Fail("a repetition that is too long");
  }
  if (size == 0) times = 0;
  if (what.text() != nullptr) {
    if (!run.HasRoom(2 * bytes)) return {};
    Text text;
    for (int64_t i = 0; i < times; ++i) text.Append(*what.text());
    text.set_safe(what.text()->safe());
    return run.NewText(std::move(text));
  }
  if (!run.HasRoom(static_cast<int64_t>(sizeof(Value)) * bytes)) return {};
  std::vector<Value> items;
  const auto& from = what.sequence()->items;
  for (int64_t i = 0; i < times; ++i) items.insert(items.end(), from.begin(), from.end());
  return run.NewSequence(what.sequence()->kind, std::move(items));
}

bool CanRepeat(const Value& value) {
  return value.text() != nullptr ||
         (value.sequence() != nullptr && value.sequence()->kind <= SequenceKind::kTuple);
}

Value Add(Run& run, const Value& a, const Value& b) {
  if (a.text() != nullptr) {
    if (!run.HasRoom(2 * static_cast<int64_t>(a.text()->size() + b.text()->size()))) return {};
    const bool safe = a.text()->safe() || b.text()->safe();
    Text text = safe ? Escaped(*a.text()) : *a.text();
    text.Append(safe ? Escaped(*b.text()) : *b.text());
    return run.NewText(std::move(text));
  }
  std::vector<Value> items = a.sequence()->items;
  items.insert(items.end(), b.sequence()->items.begin(), b.sequence()->items.end());
  return run.NewSequence(a.sequence()->kind, std::move(items));
}

bool AreAlike(const Value& a, const Value& b) {
  if (a.text() != nullptr) return b.text() != nullptr;
  return CanRepeat(a) && b.sequence() != nullptr && a.sequence()->kind == b.sequence()->kind;
}

Value CannotOperate(Run& run, std::string_view name, const Value& a, const Value& b) {
  for (const Value* value : {&a, &b}) {
    if (value->IsUndefined() && value->As<Undefined>().what != nullptr) {
      return run.Fail(absl::StrCat(*value->As<Undefined>().what, ", so \"", View(name),
                                   "\" cannot work with it"));
    }
  }
  return run.Fail(absl::StrCat("\"", View(name), "\" of ", View(KindOf(a)), " and ",
                               View(KindOf(b)), " is not possible"));
}

}  // namespace

Value Operate(Run& run, std::string_view name, const Value& a, const Value& b) {
  if (a.IsNumber() && b.IsNumber()) return OperateNumbers(run, name, a, b);
  if (name == "+" && AreAlike(a, b)) return Add(run, a, b);
  if (name == "*" && CanRepeat(a) && b.IsInteger()) return Repeat(run, a, b.integer());
  if (name == "*" && CanRepeat(b) && a.IsInteger()) return Repeat(run, b, a.integer());
  if (name == "%" && a.text() != nullptr && !b.IsUndefined()) {
    const bool is_tuple = b.sequence() != nullptr && b.sequence()->kind == SequenceKind::kTuple;
    return run.NewText(
        PercentFormat(run, *a.text(), is_tuple ? b.sequence()->items : std::vector<Value>{b}));
  }
  return CannotOperate(run, name, a, b);
}

bool Contains(Run& run, const Value& whole, const Value& part) {
  if (whole.text() != nullptr) {
    if (part.text() == nullptr) {
      CannotOperate(run, "in", part, whole);
      return false;
    }
    if (!run.Read(whole.text()->size() + part.text()->size())) return false;
    return FindFirst(whole.text()->bytes(), part.text()->bytes()) != std::string_view::npos;
  }
  if (whole.dict() != nullptr) return Find(run, *whole.dict(), part) != nullptr;
  const std::shared_ptr<const Sequence> items = ItemsOf(run, whole);
  if (items == nullptr) return false;
  for (const Value& item : items->items) {
    if (Equal(run, item, part)) return true;
  }
  return false;
}

bool CompareBy(Run& run, std::string_view name, const Value& a, const Value& b) {
  if (name == "==") return Equal(run, a, b);
  if (name == "!=") return !Equal(run, a, b);
  if (name == "in") return Contains(run, b, a);
  if (name == "not in") return !Contains(run, b, a);
  const Order order = Compare(run, a, b);
  if (order == Order::kNone) {
    if (!a.IsNumber() || !b.IsNumber()) CannotOperate(run, name, a, b);
    return false;
  }
  if (name == "<") return order == Order::kLess;
  if (name == "<=") return order != Order::kGreater;
  if (name == ">") return order == Order::kGreater;
  return order != Order::kLess;
}

}  // namespace ng::jinja
