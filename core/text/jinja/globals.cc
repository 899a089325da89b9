// The functions that every template can call.
#include <ctime>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/text/jinja/functions.h"

namespace ng::jinja {
namespace {

constexpr int64_t kLongestRange = 100'000;  // as in Jinja's sandbox

Value Range(const Input& in) {
  const bool one = !in.Has(1);
  for (size_t i = 0; i < 3; ++i) {
    if (in.Has(i) && !in[i].IsInteger()) return in.Fail("needs integers");
  }
  const int64_t begin = one ? 0 : in.Int(0, 0);
  const int64_t end = one ? in.Int(0, 0) : in.Int(1, 0);
  const int64_t step = in.Int(2, 1);
  if (step == 0) return in.Fail("in steps of 0");
  const double length =
      (static_cast<double>(end) - static_cast<double>(begin)) / static_cast<double>(step);
  if (length > kLongestRange)
    return in.Fail(absl::StrCat("has more than ", kLongestRange, " numbers"));
  const Origin origin = Both(in[0].origin(), Both(in[1].origin(), in[2].origin()));
  std::vector<Value> numbers;
  if (length > 0) {
    for (int64_t i = 0; static_cast<double>(i) < length; ++i) {
      numbers.emplace_back(begin + i * step, origin);
    }
  }
  return in.run.NewSequence(SequenceKind::kRange, std::move(numbers));
}

// dict(a=1), dict(another, a=1), dict([[key, value], ...]).
std::vector<std::pair<Value, Value>> Pairs(const Input& in) {
  std::vector<std::pair<Value, Value>> items;
  if (in.call.positional.size() > 1) in.Fail("takes one dict or list");
  for (const Value& from : in.call.positional) {
    if (from.dict() != nullptr) {
      items = from.dict()->items;
      continue;
    }
    const auto pairs = ItemsOf(in.run, from);
    if (pairs == nullptr) break;
    for (const Value& pair : pairs->items) {
      const auto two = ItemsOf(in.run, pair);
      if (two == nullptr || two->items.size() != 2) {
        in.Fail("needs a list of pairs");
        return {};
      }
      items.emplace_back(two->items[0], two->items[1]);
    }
  }
  for (const auto& [name, value] : in.call.named) items.emplace_back(in.run.NewText(name), value);
  return items;
}

Value MakeDict(const Input& in) { return in.run.NewDict(Pairs(in)); }

Value MakeNamespace(const Input& in) {
  const Value made = in.run.NewNamespace();
  if (in.run.failed()) return {};
  for (auto& [name, value] : Pairs(in)) {
    made.As<std::shared_ptr<Namespace>>()->attributes[Printed(in.run, name).bytes()] = value;
  }
  return made;
}

Value RaiseException(const Input& in) { return in.run.Refuse(in.TextOf(0).bytes()); }

Value StrftimeNow(const Input& in) {
  const auto seconds = static_cast<std::time_t>(in.run.now().seconds_since_1970);
  std::tm parts = {};
  char text[1000];
  const std::string format = in.TextOf(0).bytes();
  if (format.size() > 200 || ::gmtime_r(&seconds, &parts) == nullptr) {
    return in.Fail("has too long a format");
  }
  const size_t n = std::strftime(text, sizeof(text), format.c_str(), &parts);
  return in.run.NewText({text, n}, in[0].origin());
}

// Each call gives the separator, but not the first.
Value Joiner(const Input& in) {
  const Value separator = in.Has(0) ? in[0] : in.run.NewText(", ");
  const auto used = std::make_shared<bool>(false);
  return Value(std::make_shared<const Callable>(Callable{"joiner",
                                                         [separator, used](Call& call) {
                                                           if (*used) return separator;
                                                           *used = true;
                                                           return call.run.NewText("");
                                                         },
                                                         separator.depth() + 1}));
}

constexpr Function kGlobals[] = {
    {"dict", "*", MakeDict},
    {"joiner", "sep?", Joiner},
    {"namespace", "*", MakeNamespace},
    {"raise_exception", "message", RaiseException},
    {"range", "start stop? step?", Range},
    {"strftime_now", "format", StrftimeNow},
};

}  // namespace

std::span<const Function> Globals() { return kGlobals; }

}  // namespace ng::jinja
