#include "core/text/jinja/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <compare>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/text/jinja/run.h"
#include "core/text/unicode.h"

namespace ng::jinja {
namespace {

// Integers compare exactly; with a float, as floats.
Order CompareNumbers(const Value& a, const Value& b) {
  const auto order = [](const auto& x, const auto& y) {
    if (x < y) return Order::kLess;
    if (x > y) return Order::kGreater;
    return x == y ? Order::kEqual : Order::kNone;
  };
  if (a.IsInteger() && b.IsInteger()) return order(a.integer(), b.integer());
  return order(a.real(), b.real());
}

bool EqualItems(Run& run, const Sequence& a, const Sequence& b) {
  if (a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    if (!Equal(run, a.items[i], b.items[i])) return false;
  }
  return true;
}

bool EqualDicts(Run& run, const Dict& a, const Dict& b) {
  if (a.items.size() != b.items.size()) return false;
  return std::ranges::all_of(a.items, [&](const auto& item) {
    const Value* other = Find(run, b, item.first);
    return other != nullptr && Equal(run, item.second, *other);
  });
}

// One character as Python's repr has it in a text with these quotes; empty: as it is.
std::string EscapeOf(char32_t c, char quote) {
  static constexpr char kHex[] = "0123456789abcdef";
  if (c == static_cast<char32_t>(quote) || c == '\\') return {'\\', static_cast<char>(c)};
  if (c == '\n' || c == '\r' || c == '\t') return c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
  if (IsPrintable(c)) return "";
  const int digits = c < 0x100 ? 2 : c < 0x10000 ? 4 : 8;
  std::string escape = {'\\', digits == 2 ? 'x' : digits == 4 ? 'u' : 'U'};
  for (int i = digits - 1; i >= 0; --i) escape += kHex[c >> (4 * i) & 0xF];
  return escape;
}

Text RepresentedText(const Text& text) {
  const bool single = text.bytes().find('\'') != std::string::npos;
  const bool twice = text.bytes().find('"') != std::string::npos;
  const char quote = single && !twice ? '"' : '\'';
  const std::string_view mark(&quote, 1);
  Text out(text.safe() ? "Markup(" : "", Origin::kTemplate);
  out.Append(mark, Origin::kTemplate);
  out.AppendEscaped(text, [quote](char32_t c) { return EscapeOf(c, quote); });
  out.Append(mark, Origin::kTemplate);
  if (text.safe()) out.Append(")", Origin::kTemplate);
  return out;
}

void AppendItems(Run& run, const std::vector<Value>& items, Text* out) {
  for (size_t i = 0; i < items.size() && run.Work(1); ++i) {
    if (i > 0) out->Append(", ", Origin::kTemplate);
    out->Append(Represented(run, items[i]));
    if (!run.HasRoom(static_cast<int64_t>(4 * out->size()))) return;
  }
}

Text RepresentedSequence(Run& run, const Sequence& sequence) {
  std::string_view begin = "[";
  std::string_view end = "]";
  switch (sequence.kind) {
    case SequenceKind::kList:
      break;
    case SequenceKind::kTuple:
      begin = "(";
      end = sequence.items.size() == 1 ? ",)" : ")";
      break;
    case SequenceKind::kKeys:
    case SequenceKind::kValues:
    case SequenceKind::kItems:
      begin = sequence.kind == SequenceKind::kKeys     ? "dict_keys(["
              : sequence.kind == SequenceKind::kValues ? "dict_values(["
                                                       : "dict_items([";
      end = "])";
      break;
    default:
      run.Fail("prints a range or a generator; the filter list makes a list of it");
      return {};
  }
  Text out(begin, Origin::kTemplate);
  AppendItems(run, sequence.items, &out);
  out.Append(end, Origin::kTemplate);
  return out;
}

Text RepresentedDict(Run& run, const Dict& dict) {
  Text out("{", Origin::kTemplate);
  for (const auto& [key, value] : dict.items) {
    if (!run.Work(1) || !run.HasRoom(static_cast<int64_t>(4 * out.size()))) break;
    if (out.size() > 1) out.Append(", ", Origin::kTemplate);
    out.Append(Represented(run, key));
    out.Append(": ", Origin::kTemplate);
    out.Append(Represented(run, value));
  }
  out.Append("}", Origin::kTemplate);
  return out;
}

}  // namespace

Sequence::Sequence(SequenceKind of, std::vector<Value> held, int levels,
                   std::shared_ptr<int64_t> used)
    : kind(of),
      items(std::move(held)),
      depth(levels),
      holding(std::move(used), static_cast<int64_t>(items.capacity() * sizeof(Value)) + 128) {}

Dict::Dict(std::vector<std::pair<Value, Value>> held,
           std::vector<std::pair<uint64_t, uint32_t>> hashes, int levels,
           std::shared_ptr<int64_t> used)
    : items(std::move(held)),
      places(std::move(hashes)),
      depth(levels),
      holding(std::move(used), static_cast<int64_t>(items.capacity() * 2 * sizeof(Value) +
                                                    places.capacity() * sizeof(places[0])) +
                                   128) {}

const Text* Value::text() const {
  const auto* held = std::get_if<std::shared_ptr<const HeldText>>(&data_);
  return held == nullptr ? nullptr : &(*held)->text;
}
const Sequence* Value::sequence() const {
  const auto* held = std::get_if<std::shared_ptr<Sequence>>(&data_);
  return held == nullptr ? nullptr : held->get();
}
const Dict* Value::dict() const {
  const auto* held = std::get_if<std::shared_ptr<const Dict>>(&data_);
  return held == nullptr ? nullptr : held->get();
}
Origin Value::origin() const { return text() == nullptr ? origin_ : text()->origin(); }
int Value::depth() const {
  if (sequence() != nullptr) return sequence()->depth;
  if (dict() != nullptr) return dict()->depth;
  if (Is<std::shared_ptr<Loop>>()) return As<std::shared_ptr<Loop>>()->items->depth + 1;
  return Is<std::shared_ptr<const Callable>>() ? As<std::shared_ptr<const Callable>>()->depth : 0;
}

std::string_view KindOf(const Value& value) {
  if (value.IsUndefined()) return "an undefined value";
  if (value.IsNone()) return "none";
  if (value.Is<bool>()) return "true or false";
  if (value.Is<int64_t>()) return "an integer";
  if (value.Is<double>()) return "a float";
  if (value.text() != nullptr) return "a text";
  if (value.dict() != nullptr) return "a dict";
  if (value.Is<std::shared_ptr<Namespace>>()) return "a namespace";
  if (value.Is<std::shared_ptr<Loop>>()) return "the loop";
  if (value.sequence() == nullptr) return "a function";
  switch (value.sequence()->kind) {
    case SequenceKind::kList:
      return "a list";
    case SequenceKind::kTuple:
      return "a tuple";
    case SequenceKind::kRange:
      return "a range";
    case SequenceKind::kKeys:
    case SequenceKind::kValues:
    case SequenceKind::kItems:
      return "a part of a dict";
    case SequenceKind::kGenerator:
      break;
  }
  return "a generator";
}

bool IsTrue(const Value& value) {
  if (value.IsUndefined() || value.IsNone()) return false;
  if (value.IsNumber()) return value.real() != 0;
  if (value.text() != nullptr) return !value.text()->empty();
  if (value.dict() != nullptr) return !value.dict()->items.empty();
  if (value.sequence() == nullptr) return true;
  return value.sequence()->kind == SequenceKind::kGenerator || !value.sequence()->items.empty();
}

bool Equal(Run& run, const Value& a, const Value& b) {
  if (!run.Work(1)) return false;
  if (a.IsNumber() && b.IsNumber()) return CompareNumbers(a, b) == Order::kEqual;
  if (a.text() != nullptr && b.text() != nullptr) {
    if (a.text()->size() != b.text()->size()) return false;
    run.Work(static_cast<int64_t>(a.text()->size()) / 64);
    return a.text()->bytes() == b.text()->bytes();
  }
  if (a.IsUndefined() || a.IsNone()) {
    return (a.IsUndefined() && b.IsUndefined()) || (a.IsNone() && b.IsNone());
  }
  if (a.sequence() != nullptr && b.sequence() != nullptr) {
    if (a.sequence() == b.sequence()) return true;
    return a.sequence()->kind == b.sequence()->kind &&
           a.sequence()->kind != SequenceKind::kGenerator &&
           EqualItems(run, *a.sequence(), *b.sequence());
  }
  if (a.dict() != nullptr && b.dict() != nullptr) return EqualDicts(run, *a.dict(), *b.dict());
  const auto same = [&]<typename T>(const T*) {
    return a.Is<T>() && b.Is<T>() && a.As<T>() == b.As<T>();
  };
  return same(static_cast<std::shared_ptr<Namespace>*>(nullptr)) ||
         same(static_cast<std::shared_ptr<Loop>*>(nullptr)) ||
         same(static_cast<std::shared_ptr<const Callable>*>(nullptr));
}

uint64_t HashOf(Run& run, const Value& value) {
  if (!run.Work(1)) return 0;
  if (value.IsNumber()) return absl::HashOf(value.real());
  if (value.text() != nullptr) {
    run.Read(value.text()->size());
    return absl::HashOf(View(value.text()->bytes()));
  }
  uint64_t hash = 0;
  if (value.sequence() != nullptr) {
    for (const Value& item : value.sequence()->items) hash = absl::HashOf(hash, HashOf(run, item));
  }
  return hash;
}

namespace {

// The value of the key for which `is` holds, among those with this hash where the dict has hashes.
template <typename Is>
const Value* FindWhere(const Dict& dict, uint64_t hash, Is is) {
  if (dict.places.empty()) {
    const auto found =
        std::ranges::find_if(dict.items, [&](const auto& item) { return is(item.first); });
    return found == dict.items.end() ? nullptr : &found->second;
  }
  using Place = std::pair<uint64_t, uint32_t>;
  auto place = std::ranges::lower_bound(dict.places, hash, {}, &Place::first);
  for (; place != dict.places.end() && place->first == hash; ++place) {
    const auto& [key, value] = dict.items[place->second];
    if (is(key)) return &value;
  }
  return nullptr;
}

}  // namespace

const Value* Find(Run& run, const Dict& dict, const Value& key) {
  return FindWhere(dict, dict.places.empty() ? 0 : HashOf(run, key),
                   [&](const Value& known) { return Equal(run, known, key); });
}

const Value* Find(const Dict& dict, std::string_view key) {
  return FindWhere(
      dict, dict.places.empty() ? 0 : absl::HashOf(View(key)),
      [&](const Value& known) { return known.text() != nullptr && known.text()->bytes() == key; });
}

Order Compare(Run& run, const Value& a, const Value& b) {
  if (!run.Work(1)) return Order::kEqual;
  if (a.IsNumber() && b.IsNumber()) return CompareNumbers(a, b);
  if (a.text() != nullptr && b.text() != nullptr) {
    run.Work(static_cast<int64_t>(std::min(a.text()->size(), b.text()->size())) / 64);
    const int order = a.text()->bytes().compare(b.text()->bytes());  // UTF-8 keeps the order
    return order < 0 ? Order::kLess : order > 0 ? Order::kGreater : Order::kEqual;
  }
  const Sequence* const x = a.sequence();
  const Sequence* const y = b.sequence();
  if (x == nullptr || y == nullptr || x->kind != y->kind || x->kind > SequenceKind::kTuple) {
    return Order::kNone;
  }
  for (size_t i = 0; i < std::min(x->items.size(), y->items.size()); ++i) {
    if (!Equal(run, x->items[i], y->items[i])) return Compare(run, x->items[i], y->items[i]);
  }
  if (x->items.size() == y->items.size()) return Order::kEqual;
  return x->items.size() < y->items.size() ? Order::kLess : Order::kGreater;
}

Text Printed(Run& run, const Value& value) {
  if (value.IsUndefined()) return {};
  if (value.text() == nullptr) return Represented(run, value);
  // A copy.
  return run.Read(value.text()->size() / 4) ? *value.text() : Text();
}

Text Represented(Run& run, const Value& value) {
  if (value.IsNone()) return {"None", Origin::kTemplate};
  if (value.Is<bool>()) return {value.As<bool>() ? "True" : "False", value.origin()};
  if (value.Is<int64_t>()) return {absl::StrCat(value.As<int64_t>()), value.origin()};
  if (value.Is<double>()) return {FloatText(value.As<double>()), value.origin()};
  if (value.text() != nullptr) {
    const auto size = static_cast<int64_t>(value.text()->size());
    if (!run.Work(size / 16) || !run.HasRoom(8 * size)) return {};
    return RepresentedText(*value.text());
  }
  if (value.sequence() != nullptr) return RepresentedSequence(run, *value.sequence());
  if (value.dict() != nullptr) return RepresentedDict(run, *value.dict());
  if (value.IsUndefined()) return {"Undefined", Origin::kTemplate};
  run.Fail(absl::StrCat("prints ", View(KindOf(value)), ", which has no text"));
  return {};
}

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<size_t>(end.ptr - buffer));
  const size_t e = text.find('e');
  int exponent = 0;
  const std::string_view digits = text.substr(e + (text[e + 1] == '+' ? 2 : 1));
  std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
  if (exponent < -4 || exponent >= 16) return std::string(text);
  const auto fixed =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed);
  std::string out(buffer, static_cast<size_t>(fixed.ptr - buffer));
  return out.find('.') == std::string::npos ? out + ".0" : out;
}

}  // namespace ng::jinja
