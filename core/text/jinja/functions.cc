#include "core/text/jinja/functions.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/absl_view.h"
#include "core/text/jinja/text_functions.h"
#include "ng/names.h"

namespace ng::jinja {
namespace {

const Function* FindIn(std::span<const Function> table, std::string_view name) {
  const auto found = std::ranges::find(table, name, &Function::name);
  return found == table.end() ? nullptr : &*found;
}

Value Unknown(Run& run, std::string_view kind, std::string_view name,
              std::span<const Function> table) {
  std::vector<std::string> names;
  for (const Function& known : table) names.emplace_back(known.name);
  const std::optional<std::string> nearest = NearestName(name, names);
  std::string text = absl::StrCat("unknown ", View(kind), " \"", View(name), "\"");
  if (nearest) absl::StrAppend(&text, "; did you mean ", *nearest, "?");
  return run.Fail(text);
}

// The methods that would change a value. Templates may change nothing.
constexpr std::string_view kChanging[] = {"append",     "clear",   "extend", "insert",
                                          "pop",        "popitem", "remove", "reverse",
                                          "setdefault", "sort",    "update"};

const Function* FindMethod(const Value& of, std::string_view name) {
  if (of.text() != nullptr) return FindIn(TextMethods(), name);
  if (of.dict() != nullptr) return FindIn(DictMethods(), name);
  if (of.sequence() != nullptr && of.sequence()->kind <= SequenceKind::kTuple) {
    return FindIn(SequenceMethods(), name);
  }
  return nullptr;
}

Value LoopAttribute(Run& run, const std::shared_ptr<Loop>& loop, std::string_view name) {
  const auto n = static_cast<int64_t>(loop->items->items.size());
  const auto index = static_cast<int64_t>(loop->index);
  const auto at = [&](int64_t i, const char* which) {
    if (i >= 0 && i < n) return loop->items->items[static_cast<size_t>(i)];
    return run.NewUndefined(absl::StrCat("there is no ", which, " item"));
  };
  if (name == "index") return Value(index + 1);
  if (name == "index0") return Value(index);
  if (name == "revindex") return Value(n - index);
  if (name == "revindex0") return Value(n - index - 1);
  if (name == "first") return Value(index == 0);
  if (name == "last") return Value(index == n - 1);
  if (name == "length") return Value(n);
  if (name == "depth") return Value(int64_t{loop->depth} + 1);
  if (name == "depth0") return Value(int64_t{loop->depth});
  if (name == "previtem") return at(index - 1, "previous");
  if (name == "nextitem") return at(index + 1, "next");
  const auto method = [&](auto function) {
    return Value(std::make_shared<const Callable>(
        Callable{std::string(name), function, loop->items->depth + 2}));
  };
  if (name == "cycle") {
    return method([loop](Call& call) -> Value {
      if (call.positional.empty()) return call.run.Fail("loop.cycle needs values");
      return call.positional[loop->index % call.positional.size()];
    });
  }
  if (name == "changed") {
    return method([loop](Call& call) -> Value {
      bool same = loop->has_changed && loop->last_changed.size() == call.positional.size();
      for (size_t i = 0; same && i < call.positional.size(); ++i) {
        same = Equal(call.run, loop->last_changed[i], call.positional[i]);
      }
      loop->has_changed = true;
      if (!loop->ended) loop->last_changed = call.positional;
      return Value(!same);
    });
  }
  return run.NewUndefined(absl::StrCat("the loop has no attribute \"", View(name), "\""));
}

Value Missing(Run& run, const Value& of, const std::string& what) {
  if (of.IsUndefined()) {
    const auto& why = of.As<Undefined>().what;
    return run.Fail(
        absl::StrCat(why == nullptr ? "the value is undefined" : *why, ", so it has no ", what));
  }
  return run.NewUndefined(absl::StrCat(View(KindOf(of)), " has no ", what));
}

}  // namespace

const Value& Input::operator[](size_t i) const {
  static const Value kNothing;
  return Has(i) ? *values_[i] : kNothing;
}

int64_t Input::Int(size_t i, int64_t standard) const {
  if (!Has(i) || (*this)[i].IsNone()) return standard;
  if ((*this)[i].IsInteger()) return (*this)[i].integer();
  Fail(absl::StrCat("is given ", View(KindOf((*this)[i])), ", must be an integer"));
  return standard;
}

Text Input::TextOf(size_t i) const { return Printed(run, (*this)[i]); }

Value Input::Fail(std::string_view what) const {
  return run.Fail(absl::StrCat(function_, " ", View(what)));
}

bool Input::Bind(std::string_view parameters) {
  if (parameters == "*") return true;
  std::vector<std::string> names = absl::StrSplit(View(parameters), ' ', absl::SkipEmpty());
  values_.resize(names.size());
  if (call.positional.size() > names.size()) {
    Fail(absl::StrCat("is given ", call.positional.size(), " arguments, must be at most ",
                      names.size()));
    return false;
  }
  for (size_t i = 0; i < call.positional.size(); ++i) values_[i] = call.positional[i];
  for (size_t i = 0; i < names.size(); ++i) {
    const bool optional = names[i].back() == '?';
    if (optional) names[i].pop_back();
    for (const auto& [name, value] : call.named) {
      if (name == names[i]) values_[i] = value;
    }
    if (values_[i].has_value() || optional) continue;
    Fail(absl::StrCat("is not given \"", names[i], "\""));
    return false;
  }
  for (const auto& [name, value] : call.named) {
    if (std::ranges::count(names, name) > 0) continue;
    Fail(absl::StrCat("has no parameter \"", name, "\", must be one of: ", View(parameters)));
    return false;
  }
  return true;
}

Value Invoke(const Function& function, Call& call) {
  Input input(call, function.name);
  if (!call.run.Work(1) || !input.Bind(function.parameters)) return {};
  return function.run(input);
}

Value ApplyFilter(std::string_view name, Call& call) {
  const Function* const filter = FindIn(Filters(), name);
  return filter != nullptr ? Invoke(*filter, call) : Unknown(call.run, "filter", name, Filters());
}

bool ApplyTest(std::string_view name, Call& call) {
  const Function* const test = FindIn(Tests(), name);
  return IsTrue(test != nullptr ? Invoke(*test, call) : Unknown(call.run, "test", name, Tests()));
}

Value Attribute(Run& run, const Value& of, std::string_view name) {
  if (const Function* const method = FindMethod(of, name)) {
    return Value(std::make_shared<const Callable>(Callable{std::string(name),
                                                           [method, of](Call& call) {
                                                             call.self = of;
                                                             return Invoke(*method, call);
                                                           },
                                                           of.depth() + 1}));
  }
  if (of.dict() != nullptr) {
    if (const Value* found = Find(*of.dict(), name)) return *found;
  }
  if (of.dict() != nullptr || of.sequence() != nullptr) {
    if (std::ranges::count(kChanging, name) > 0) {
      return run.NewUndefined(
          absl::StrCat("\"", View(name), "\" would change a value, which templates may not"));
    }
  }
  if (of.Is<std::shared_ptr<Namespace>>()) {
    const auto& attributes = of.As<std::shared_ptr<Namespace>>()->attributes;
    const auto found = attributes.find(name);
    if (found != attributes.end()) return found->second;
  }
  if (of.Is<std::shared_ptr<Loop>>()) {
    return LoopAttribute(run, of.As<std::shared_ptr<Loop>>(), name);
  }
  if (of.Is<std::shared_ptr<const Callable>>() && name == "name") {
    return run.NewText(of.As<std::shared_ptr<const Callable>>()->name);
  }
  return Missing(run, of, absl::StrCat("attribute \"", View(name), "\""));
}

Value Item(Run& run, const Value& of, const Value& key) {
  if (of.dict() != nullptr) {
    if (const Value* found = Find(run, *of.dict(), key)) return *found;
  }
  const Sequence* const sequence = of.sequence();
  const bool has_places = sequence != nullptr && sequence->kind <= SequenceKind::kRange;
  if (key.IsInteger() && (has_places || of.text() != nullptr)) {
    const std::vector<size_t> begins =
        of.text() != nullptr ? CharactersOf(run, *of.text()) : std::vector<size_t>();
    const auto n = static_cast<int64_t>(has_places ? sequence->items.size() : begins.size() - 1);
    const int64_t at = key.integer() < 0 ? key.integer() + n : key.integer();
    if (at < 0 || at >= n) return Missing(run, of, absl::StrCat("item ", key.integer()));
    const auto i = static_cast<size_t>(at);
    if (has_places) return sequence->items[i];
    return run.NewText(of.text()->Slice(begins[i], begins[i + 1] - begins[i]));
  }
  if (key.text() != nullptr) return Attribute(run, of, key.text()->bytes());
  return Missing(run, of, "such item");
}

Value Slice(Run& run, const Value& of, std::span<const Value, 3> bounds) {
  const Sequence* const sequence = of.sequence();
  const bool has_places = sequence != nullptr && sequence->kind <= SequenceKind::kRange;
  if (!has_places && of.text() == nullptr) return Missing(run, of, "slices");
  int64_t numbers[3] = {0, 0, 1};
  for (size_t i = 0; i < 3; ++i) {
    const bool given = !bounds[i].IsUndefined() && !bounds[i].IsNone();
    if (given && !bounds[i].IsInteger()) {
      return run.Fail(absl::StrCat("a slice by ", View(KindOf(bounds[i])), ", must be integers"));
    }
    if (given) numbers[i] = bounds[i].integer();
  }
  const int64_t step = numbers[2];
  if (step == 0) return run.Fail("a slice in steps of 0");
  const std::vector<size_t> begins =
      of.text() != nullptr ? CharactersOf(run, *of.text()) : std::vector<size_t>();
  const auto n = static_cast<int64_t>(has_places ? sequence->items.size() : begins.size() - 1);
  const int64_t low = step > 0 ? 0 : -1;
  const int64_t high = step > 0 ? n : n - 1;
  const auto place = [&](size_t i, int64_t standard) {
    if (bounds[i].IsUndefined() || bounds[i].IsNone()) return standard;
    return std::clamp(numbers[i] < 0 ? std::max(numbers[i], -n - 1) + n : numbers[i], low, high);
  };
  const int64_t begin = place(0, step > 0 ? low : high);
  const int64_t end = place(1, step > 0 ? high : low);
  // A step beyond the ends is as good as one to them.
  const int64_t stride = std::clamp(step, -n - 1, n + 1);
  if (of.text() != nullptr && stride == 1) {
    const auto from = begins[static_cast<size_t>(begin)];
    const auto to = begins[static_cast<size_t>(std::max(begin, end))];
    return run.NewText(of.text()->Slice(from, to - from));
  }
  std::vector<Value> items;
  Text text;
  for (int64_t i = begin; stride > 0 ? i < end : i > end; i += stride) {
    const auto at = static_cast<size_t>(i);
    if (has_places) {
      items.push_back(sequence->items[at]);
    } else {
      text.Append(*of.text(), begins[at], begins[at + 1] - begins[at]);
    }
  }
  if (has_places) return run.NewSequence(sequence->kind, std::move(items));
  text.set_safe(of.text()->safe());
  return run.NewText(std::move(text));
}

Value CallValue(const Value& callee, Call& call) {
  if (callee.Is<std::shared_ptr<const Callable>>()) {
    if (!call.run.Work(1)) return {};
    return callee.As<std::shared_ptr<const Callable>>()->run(call);
  }
  if (callee.Is<std::shared_ptr<Loop>>() && callee.As<std::shared_ptr<Loop>>()->recurse) {
    return callee.As<std::shared_ptr<Loop>>()->recurse(call);
  }
  if (callee.IsUndefined() && callee.As<Undefined>().what != nullptr) {
    return call.run.Fail(*callee.As<Undefined>().what + ", so it cannot be called");
  }
  return call.run.Fail(absl::StrCat(View(KindOf(callee)), " cannot be called"));
}

}  // namespace ng::jinja
