#include "core/text/jinja/list_filters.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/absl_view.h"
#include "core/text/jinja/text_functions.h"

namespace ng::jinja::list_filters {
namespace {

using ItemsPtr = std::shared_ptr<const Sequence>;

Value Generator(Run& run, std::vector<Value> items) {
  return run.NewSequence(SequenceKind::kGenerator, std::move(items));
}

// "a.b.0" of a value, or its item by a number. A step that leads nowhere gives `standard`.
Value AtPath(Run& run, const Value& of, const Value& path, const Value& standard = {}) {
  if (path.text() == nullptr) return Item(run, of, path);
  if (!run.Read(path.text()->size())) return {};
  Value at = of;
  for (const absl::string_view part : absl::StrSplit(View(path.text()->bytes()), '.')) {
    int64_t number = 0;
    const bool is_number = !part.empty() && part[0] != '-' && absl::SimpleAtoi(part, &number);
    at = Item(run, at, is_number ? Value(number) : run.NewText({part.data(), part.size()}));
    if (at.IsUndefined() && !standard.IsUndefined()) at = standard;
  }
  return at;
}

// How values are compared by sort, unique, min, max and groupby: texts without their case.
Value KeyOf(Run& run, const Value& of, const Value& attribute, bool case_sensitive,
            const Value& standard = {}) {
  Value key =
      attribute.IsUndefined() || attribute.IsNone() ? of : AtPath(run, of, attribute, standard);
  if (case_sensitive || key.text() == nullptr) return key;
  return run.Read(2 * key.text()->size()) ? run.NewText(WithCase(*key.text(), Letters::kLower))
                                          : Value();
}

// Sorts by keys that Python orders; fails for others. Equal ones keep their order.
void SortBy(Run& run, std::vector<std::pair<Value, Value>>* keyed, bool reverse) {
  std::ranges::stable_sort(*keyed, [&](const auto& a, const auto& b) {
    if (run.failed()) return false;
    return reverse ? CompareBy(run, "<", b.first, a.first) : CompareBy(run, "<", a.first, b.first);
  });
}

std::vector<std::pair<Value, Value>> Keyed(const Input& in, const Value& attributes,
                                           bool case_sensitive) {
  std::vector<std::pair<Value, Value>> keyed;
  const ItemsPtr items = ItemsOf(in.run, in.self);
  if (items == nullptr) return keyed;
  for (const Value& item : items->items) {
    if (in.run.failed()) break;
    keyed.emplace_back(KeyOf(in.run, item, attributes, case_sensitive), item);
  }
  return keyed;
}

// "name,age" sorts by two attributes.
std::vector<std::pair<Value, Value>> KeyedBySeveral(const Input& in, size_t attribute,
                                                    bool case_sensitive) {
  const Text* const text = in[attribute].text();
  if (text == nullptr || text->bytes().find(',') == std::string::npos) {
    return Keyed(in, in[attribute], case_sensitive);
  }
  std::vector<std::pair<Value, Value>> keyed;
  const ItemsPtr items = ItemsOf(in.run, in.self);
  if (items == nullptr) return keyed;
  for (const Value& item : items->items) {
    std::vector<Value> keys;
    for (const absl::string_view part : absl::StrSplit(View(text->bytes()), ',')) {
      keys.push_back(
          KeyOf(in.run, item, in.run.NewText({part.data(), part.size()}), case_sensitive));
    }
    keyed.emplace_back(in.run.NewList(std::move(keys)), item);
    if (in.run.failed()) break;
  }
  return keyed;
}

Value Values(Run& run, std::vector<std::pair<Value, Value>> keyed) {
  std::vector<Value> values;
  for (auto& [key, value] : keyed) values.push_back(std::move(value));
  return run.NewList(std::move(values));
}

Value Extreme(const Input& in, std::string_view better) {
  const auto keyed = Keyed(in, in[1], in.Bool(0, false));
  if (in.run.failed()) return {};
  if (keyed.empty()) return in.run.NewUndefined("the list is empty");
  const auto* best = &keyed[0];
  for (const auto& candidate : keyed) {
    if (CompareBy(in.run, better, candidate.first, best->first)) best = &candidate;
  }
  return best->second;
}

// select and reject with a test, of the items or of an attribute of theirs.
Value Choose(const Input& in, bool by_attribute, bool wanted) {
  std::vector<Value> arguments = in.call.positional;
  Value attribute;
  if (by_attribute) {
    if (arguments.empty()) return in.Fail("needs the name of an attribute");
    attribute = arguments[0];
    arguments.erase(arguments.begin());
  }
  std::string test;
  if (!arguments.empty()) {
    test = Printed(in.run, arguments[0]).bytes();
    arguments.erase(arguments.begin());
  }
  if (!IsTrue(in.self)) return Generator(in.run, {});  // none too
  const ItemsPtr items = ItemsOf(in.run, in.self);
  if (items == nullptr) return {};
  std::vector<Value> chosen;
  for (const Value& item : items->items) {
    const Value about = by_attribute ? AtPath(in.run, item, attribute) : item;
    bool holds = IsTrue(about);
    if (!test.empty()) {
      if (!in.run.Work(std::ssize(arguments) + std::ssize(in.call.named))) return {};
      Call call{in.run, about, arguments, in.call.named};
      holds = ApplyTest(test, call);
    }
    if (in.run.failed()) return {};
    if (holds == wanted) chosen.push_back(item);
  }
  return Generator(in.run, std::move(chosen));
}

}  // namespace

Value Batch(const Input& in) {
  const ItemsPtr items = ItemsOf(in.run, in.self);
  const int64_t size = in.Int(0, 1);
  if (items == nullptr || in.run.failed()) return {};
  if (size < 1) return in.Fail("needs a size of at least 1");
  std::vector<Value> batches;
  std::vector<Value> batch;
  for (const Value& item : items->items) {
    batch.push_back(item);
    if (std::ssize(batch) == size) batches.push_back(in.run.NewList(std::exchange(batch, {})));
  }
  if (!batch.empty()) {
    const bool fills = in.Has(1) && !in[1].IsNone();
    if (fills && !in.run.HasRoom(size * static_cast<int64_t>(sizeof(Value)))) return {};
    while (fills && std::ssize(batch) < size) batch.push_back(in[1]);
    batches.push_back(in.run.NewList(std::move(batch)));
  }
  return Generator(in.run, std::move(batches));
}

Value DictSort(const Input& in) {
  if (in.self.dict() == nullptr) return in.Fail("needs a dict");
  const std::string by = in.Has(1) ? in.TextOf(1).bytes() : "key";
  if (by != "key" && by != "value") return in.Fail("by must be key or value");
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [key, value] : in.self.dict()->items) {
    keyed.emplace_back(KeyOf(in.run, by == "key" ? key : value, {}, in.Bool(0, false)),
                       in.run.NewSequence(SequenceKind::kTuple, {key, value}));
  }
  SortBy(in.run, &keyed, in.Bool(2, false));
  return Values(in.run, std::move(keyed));
}

// The first item; one that a generator gives is taken from it.
Value First(const Input& in) {
  if (in.self.sequence() != nullptr && in.self.sequence()->kind == SequenceKind::kGenerator) {
    const auto& generator = in.self.As<std::shared_ptr<Sequence>>();
    if (generator->taken < generator->items.size()) return generator->items[generator->taken++];
    return in.run.NewUndefined("the list is empty, so its first item");
  }
  const ItemsPtr items = ItemsOf(in.run, in.self);
  if (items == nullptr || !items->items.empty())
    return items == nullptr ? Value() : items->items[0];
  return in.run.NewUndefined("the list is empty, so its first item");
}

Value Last(const Input& in) {
  if (in.self.sequence() != nullptr && in.self.sequence()->kind == SequenceKind::kGenerator) {
    return in.Fail("of a generator is not defined; the filter list makes a list of it");
  }
  const ItemsPtr items = ItemsOf(in.run, in.self);
  if (items == nullptr) return {};
  if (!items->items.empty()) return items->items.back();
  return in.run.NewUndefined("the list is empty, so its last item");
}

Value GroupBy(const Input& in) {
  const bool case_sensitive = in.Bool(2, false);
  const ItemsPtr items = ItemsOf(in.run, in.self);
  if (items == nullptr) return {};
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : items->items) {
    keyed.emplace_back(KeyOf(in.run, item, in[0], case_sensitive, in[1]), item);
  }
  SortBy(in.run, &keyed, false);
  std::vector<Value> groups;
  for (size_t i = 0; i < keyed.size() && !in.run.failed();) {
    std::vector<Value> group;
    const size_t first = i;
    while (i < keyed.size() && Equal(in.run, keyed[i].first, keyed[first].first)) {
      group.push_back(keyed[i++].second);
    }
    if (group.empty()) break;
    // The first item's own spelling names the group.
    const Value name = KeyOf(in.run, group[0], in[0], true, in[1]);
    const Value list = in.run.NewList(std::move(group));
    groups.push_back(in.run.NewSequence(SequenceKind::kTuple, {name, list}));
  }
  return in.run.NewList(std::move(groups));
}

Value Items(const Input& in) {
  if (in.self.IsUndefined()) return Generator(in.run, {});
  if (in.self.dict() == nullptr) return in.Fail("needs a dict");
  std::vector<Value> items;
  for (const auto& [key, value] : in.self.dict()->items) {
    items.push_back(in.run.NewSequence(SequenceKind::kTuple, {key, value}));
  }
  return Generator(in.run, std::move(items));
}

Value Join(const Input& in) {
  const Text between = in.TextOf(0);
  const ItemsPtr items = ItemsOf(in.run, in.self);
  if (items == nullptr) return {};
  Text text;
  bool first = true;
  for (const Value& item : items->items) {
    if (!first) text.Append(between);
    if (!in.run.Read(between.size() / 4)) return {};
    first = false;
    const bool by_attribute = in.Has(1) && !in[1].IsNone();
    text.Append(Printed(in.run, by_attribute ? AtPath(in.run, item, in[1]) : item));
    if (!in.run.Work(1) || !in.run.HasRoom(4 * static_cast<int64_t>(text.size()))) return {};
  }
  return in.run.NewText(std::move(text));
}

Value List(const Input& in) {
  const ItemsPtr items = ItemsOf(in.run, in.self);
  return items == nullptr ? Value() : in.run.NewList(items->items);
}

Value Map(const Input& in) {
  std::vector<Value> arguments = in.call.positional;
  Value attribute;
  Value standard;
  for (const auto& [name, value] : in.call.named) {
    if (name == "attribute") attribute = value;
    if (name == "default") standard = value;
  }
  const bool by_attribute = arguments.empty() && !attribute.IsUndefined();
  if (!by_attribute && arguments.empty()) return in.Fail("needs the name of a filter");
  std::string filter;
  if (!by_attribute) {
    filter = Printed(in.run, arguments[0]).bytes();
    arguments.erase(arguments.begin());
  }
  if (!IsTrue(in.self)) return Generator(in.run, {});  // none too
  const ItemsPtr items = ItemsOf(in.run, in.self);
  if (items == nullptr) return {};
  std::vector<Value> mapped;
  for (const Value& item : items->items) {
    if (by_attribute) {
      mapped.push_back(AtPath(in.run, item, attribute, standard));
    } else {
      if (!in.run.Work(std::ssize(arguments) + std::ssize(in.call.named))) return {};
      Call call{in.run, item, arguments, in.call.named};
      mapped.push_back(ApplyFilter(filter, call));
    }
    if (!in.run.Work(1)) return {};
  }
  return Generator(in.run, std::move(mapped));
}

Value Max(const Input& in) { return Extreme(in, ">"); }
Value Min(const Input& in) { return Extreme(in, "<"); }
Value Reject(const Input& in) { return Choose(in, false, false); }
Value RejectAttr(const Input& in) { return Choose(in, true, false); }
Value Select(const Input& in) { return Choose(in, false, true); }
Value SelectAttr(const Input& in) { return Choose(in, true, true); }

Value Reverse(const Input& in) {
  const ItemsPtr items = ItemsOf(in.run, in.self);
  if (items == nullptr) return {};
  if (in.self.text() != nullptr) {
    Text text;
    for (auto item = items->items.rbegin(); item != items->items.rend(); ++item) {
      text.Append(*item->text());
    }
    return in.run.NewText(std::move(text));
  }
  return Generator(in.run, std::vector<Value>(items->items.rbegin(), items->items.rend()));
}

// As many lists as are asked for, of sizes as equal as can be.
Value SliceInto(const Input& in) {
  const ItemsPtr items = ItemsOf(in.run, in.self);
  const int64_t slices = in.Int(0, 1);
  if (items == nullptr || in.run.failed()) return {};
  if (slices < 1 || slices > 10'000) return in.Fail("needs 1 to 10000 slices");
  const auto n = std::ssize(items->items);
  std::vector<Value> lists;
  auto next = items->items.begin();
  for (int64_t i = 0; i < slices; ++i) {
    const auto end = next + n / slices + (i < n % slices ? 1 : 0);
    std::vector<Value> list(next, end);
    next = end;
    if (in.Has(1) && !in[1].IsNone() && i >= n % slices) list.push_back(in[1]);
    lists.push_back(in.run.NewList(std::move(list)));
  }
  return Generator(in.run, std::move(lists));
}

Value Sort(const Input& in) {
  auto keyed = KeyedBySeveral(in, 2, in.Bool(1, false));
  SortBy(in.run, &keyed, in.Bool(0, false));
  return Values(in.run, std::move(keyed));
}

Value Sum(const Input& in) {
  const ItemsPtr items = ItemsOf(in.run, in.self);
  Value sum = in.Has(1) ? in[1] : Value(int64_t{0});
  if (items == nullptr) return {};
  for (const Value& item : items->items) {
    const bool by_attribute = in.Has(0) && !in[0].IsNone();
    sum = Operate(in.run, "+", sum, by_attribute ? AtPath(in.run, item, in[0]) : item);
    if (!in.run.Work(1)) return {};
  }
  return sum;
}

Value Unique(const Input& in) {
  const auto keyed = Keyed(in, in[1], in.Bool(0, false));
  std::vector<Value> seen;
  std::vector<Value> unique;
  for (const auto& entry : keyed) {
    const auto& key = entry.first;
    const bool known =
        std::ranges::any_of(seen, [&](const Value& other) { return Equal(in.run, other, key); });
    if (in.run.failed()) return {};
    if (known) continue;
    seen.push_back(key);
    unique.push_back(entry.second);
  }
  return Generator(in.run, std::move(unique));
}

}  // namespace ng::jinja::list_filters
