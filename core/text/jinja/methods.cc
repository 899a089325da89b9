// The methods of texts, lists and dicts that change nothing.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/text/find.h"
#include "core/text/jinja/functions.h"
#include "core/text/jinja/text_functions.h"
#include "core/text/unicode.h"

namespace ng::jinja {
namespace {

const Text& Self(const Input& in) { return *in.self.text(); }
Value NewText(const Input& in, Text text) { return in.run.NewText(std::move(text)); }

// An argument that must be a text. Null after a failure.
const Text* TextArgument(const Input& in, size_t i) {
  if (in[i].text() == nullptr) {
    in.Fail(absl::StrCat("is given ", View(KindOf(in[i])), ", must be a text"));
  }
  return in[i].text();
}

Value TextList(const Input& in, std::vector<Text> texts) {
  std::vector<Value> values;
  if (!in.run.HasRoom(static_cast<int64_t>(texts.size()) * 256)) return {};
  for (Text& text : texts) values.push_back(in.run.NewText(std::move(text)));
  return in.run.NewList(std::move(values));
}

template <Letters kLetters>
Value Case(const Input& in) {
  return in.run.Read(2 * Self(in).size()) ? NewText(in, WithCase(Self(in), kLetters)) : Value();
}

template <Side kSide>
Value StripText(const Input& in) {
  const bool given = in.Has(0) && !in[0].IsNone();
  const std::string chars = given ? in.TextOf(0).bytes() : "";
  if (!in.run.Read(Self(in).size() + 2 * chars.size())) return {};
  const Extent left = Strip(Self(in).bytes(), kSide, given ? &chars : nullptr);
  return NewText(in, Self(in).Slice(left.begin, left.end - left.begin));
}

template <bool kFromRight>
Value SplitText(const Input& in) {
  const bool given = in.Has(0) && !in[0].IsNone();
  if (given && TextArgument(in, 0) == nullptr) return {};
  if (given && in[0].text()->empty()) return in.Fail("cannot split at an empty text");
  if (given && !in.run.Read(in[0].text()->size())) return {};
  if (!in.run.Read(2 * Self(in).size())) return {};
  if (!in.run.HasRoom(4 * static_cast<int64_t>(Self(in).size()))) return {};
  return TextList(in, Split(Self(in), given ? in[0].text() : nullptr, in.Int(1, -1), kFromRight));
}

// Where `part` is between two places, as characters; -1 where it is not.
int64_t Place(const Input& in, bool from_right) {
  const Text* const part = TextArgument(in, 0);
  if (part == nullptr) return -1;
  const std::vector<size_t> begins = CharactersOf(in.run, Self(in));
  if (!in.run.Read(part->size())) return -1;
  const auto n = static_cast<int64_t>(begins.size()) - 1;
  const auto bound = [&](size_t i, int64_t standard) {
    const int64_t given = in.Int(i, standard);
    return given < 0 ? std::max<int64_t>(given + n, 0) : given;
  };
  const int64_t first = bound(1, 0);
  const int64_t last = std::min(bound(2, n), n);
  if (first > n || first > last) return -1;
  const size_t from = begins[static_cast<size_t>(first)];
  const std::string_view range =
      std::string_view(Self(in).bytes()).substr(from, begins[static_cast<size_t>(last)] - from);
  const size_t found =
      from_right ? FindLast(range, part->bytes()) : FindFirst(range, part->bytes());
  if (found == std::string_view::npos) return -1;
  return first + static_cast<int64_t>(CountCharacters(range.substr(0, found)));
}
template <bool kFromRight>
Value FindText(const Input& in) {
  return Value(Place(in, kFromRight));
}
template <bool kFromRight>
Value IndexText(const Input& in) {
  const int64_t place = Place(in, kFromRight);
  return place < 0 ? in.Fail("does not find the text") : Value(place);
}

Value CountText(const Input& in) {
  const Text* const part = TextArgument(in, 0);
  if (part == nullptr) return {};
  const std::string& text = Self(in).bytes();
  if (!in.run.Read(text.size() + part->size())) return {};
  if (part->empty()) return Value(static_cast<int64_t>(CountCharacters(text)) + 1);
  int64_t n = 0;
  for (size_t at = FindFirst(text, part->bytes()); at != std::string::npos;
       at = FindFirst(text, part->bytes(), at + part->size())) {
    ++n;
  }
  return Value(n);
}

// startswith and endswith: of one text, or of any of a tuple.
template <bool kAtEnd>
Value Borders(const Input& in) {
  std::string_view text = Self(in).bytes();
  if (in.Has(1) || in.Has(2)) {
    const std::vector<size_t> begins = CharactersOf(in.run, Self(in));
    const auto n = static_cast<int64_t>(begins.size()) - 1;
    const auto bound = [&](size_t i, int64_t standard) {
      const int64_t given = in.Int(i, standard);
      return begins[static_cast<size_t>(std::clamp<int64_t>(given < 0 ? given + n : given, 0, n))];
    };
    if (in.Int(1, 0) > n || bound(1, 0) > bound(2, n)) return Value(false);
    text = text.substr(bound(1, 0), bound(2, n) - bound(1, 0));
  }
  const auto holds = [&](const Value& part) {
    if (part.text() == nullptr) {
      in.Fail(
          absl::StrCat("is given ", View(KindOf(part)), ", must be a text or a tuple of texts"));
      return false;
    }
    if (!in.run.Work(1) || !in.run.Read(std::min(text.size(), part.text()->size()))) return false;
    return kAtEnd ? text.ends_with(part.text()->bytes()) : text.starts_with(part.text()->bytes());
  };
  if (in[0].sequence() != nullptr && in[0].sequence()->kind == SequenceKind::kTuple) {
    return Value(std::ranges::any_of(in[0].sequence()->items, holds));
  }
  return Value(holds(in[0]));
}

// Whether all characters are of a class, and there is one.
template <bool (*kIs)(char32_t)>
Value All(const Input& in) {
  const std::string_view text = Self(in).bytes();
  if (!in.run.Read(2 * text.size())) return {};
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = FirstCodePoint(text.substr(i));
    if (!kIs(c.value)) return Value(false);
    i += c.length;
  }
  return Value(!text.empty());
}
bool IsAlnum(char32_t c) { return IsLetter(c) || IsNumeric(c); }
Value IsAscii(const Input& in) {
  if (!in.run.Read(Self(in).size())) return {};
  return Value(std::ranges::all_of(Self(in).bytes(), [](char c) { return (c & 0x80) == 0; }));
}
template <bool (*kIs)(char32_t), bool (*kOther)(char32_t)>
Value HasCase(const Input& in) {
  const std::string_view text = Self(in).bytes();
  if (!in.run.Read(2 * text.size())) return {};
  bool any = false;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = FirstCodePoint(text.substr(i));
    if (kOther(c.value)) return Value(false);
    any = any || kIs(c.value);
    i += c.length;
  }
  return Value(any);
}

Value JoinTexts(const Input& in) {
  const std::shared_ptr<const Sequence> items = ItemsOf(in.run, in[0]);
  if (items == nullptr) return {};
  Text text;
  for (size_t i = 0; i < items->items.size(); ++i) {
    const Text* const part = items->items[i].text();
    if (part == nullptr) return in.Fail("needs a list of texts");
    if (i > 0) text.Append(Self(in));
    text.Append(Self(in).safe() ? Escaped(*part) : *part);
    if (!in.run.Work(1) || !in.run.Read((Self(in).size() + part->size()) / 4) ||
        !in.run.HasRoom(4 * static_cast<int64_t>(text.size())))
      return {};
  }
  text.set_safe(Self(in).safe());
  return NewText(in, std::move(text));
}

template <Side kStays>
Value JustifyText(const Input& in) {
  Text fill = in.Has(1) ? in.TextOf(1) : Text(" ", Origin::kTemplate);
  if (Self(in).safe()) fill = Escaped(fill);
  if (CountCharacters(fill.bytes()) != 1) return in.Fail("needs one character to fill with");
  return NewText(in, Justify(in.run, Self(in), in.Int(0, 0), fill, kStays));
}
Value ZFill(const Input& in) {
  const Text& text = Self(in);
  const bool sign = !text.empty() && (text.bytes()[0] == '-' || text.bytes()[0] == '+');
  Text out = sign ? text.Slice(0, 1) : Text();
  out.set_safe(text.safe());
  out.Append(Justify(in.run, text.Slice(sign ? 1 : 0), in.Int(0, 0) - (sign ? 1 : 0),
                     Text("0", Origin::kTemplate), Side::kRight));
  return NewText(in, std::move(out));
}

Value RemovePrefix(const Input& in) {
  const Text* const part = TextArgument(in, 0);
  if (part == nullptr || !Self(in).bytes().starts_with(part->bytes())) return in.self;
  return NewText(in, Self(in).Slice(part->size()));
}
Value RemoveSuffix(const Input& in) {
  const Text* const part = TextArgument(in, 0);
  if (part == nullptr || part->empty() || !Self(in).bytes().ends_with(part->bytes())) {
    return in.self;
  }
  return NewText(in, Self(in).Slice(0, Self(in).size() - part->size()));
}

template <bool kFromRight>
Value Partition(const Input& in) {
  const Text* const by = TextArgument(in, 0);
  if (by == nullptr) return {};
  if (by->empty()) return in.Fail("cannot split at an empty text");
  const std::string& text = Self(in).bytes();
  if (!in.run.Read(text.size() + by->size())) return {};
  const size_t at = kFromRight ? FindLast(text, by->bytes()) : FindFirst(text, by->bytes());
  std::vector<Value> parts(3, in.run.NewText(""));
  if (at == std::string::npos) {
    parts[kFromRight ? 2 : 0] = in.self;
  } else {
    parts[0] = in.run.NewText(Self(in).Slice(0, at));
    parts[1] = in[0];
    parts[2] = in.run.NewText(Self(in).Slice(at + by->size()));
  }
  return in.run.NewSequence(SequenceKind::kTuple, std::move(parts));
}

Value ReplaceText(const Input& in) {
  const Text* const old = TextArgument(in, 0);
  const Text* const by = TextArgument(in, 1);
  if (old == nullptr || by == nullptr) return {};
  const bool safe = Self(in).safe();
  Text text = ReplaceIn(in.run, Self(in), *old, safe ? Escaped(*by) : *by, in.Int(2, -1));
  text.set_safe(safe);
  return NewText(in, std::move(text));
}
Value Lines(const Input& in) {
  if (!in.run.Read(2 * Self(in).size())) return {};
  if (!in.run.HasRoom(4 * static_cast<int64_t>(Self(in).size()))) return {};
  return TextList(in, SplitLines(Self(in), in.Bool(0, false), false));
}
Value FormatText(const Input& in) { return NewText(in, BraceFormat(in.run, Self(in), in.call)); }

constexpr Function kTextMethods[] = {
    {"capitalize", "", Case<Letters::kCapitalized>},
    {"casefold", "", Case<Letters::kLower>},
    {"center", "width fillchar?", JustifyText<Side::kBoth>},
    {"count", "sub", CountText},
    {"endswith", "suffix start? end?", Borders<true>},
    {"find", "sub start? end?", FindText<false>},
    {"format", "*", FormatText},
    {"index", "sub start? end?", IndexText<false>},
    {"isalnum", "", All<IsAlnum>},
    {"isalpha", "", All<IsLetter>},
    {"isascii", "", IsAscii},
    {"isdecimal", "", All<IsDecimal>},
    {"isdigit", "", All<IsDigit>},
    {"islower", "", HasCase<IsLower, IsUpper>},
    {"isnumeric", "", All<IsNumeric>},
    {"isspace", "", All<IsPythonSpace>},
    {"isupper", "", HasCase<IsUpper, IsLower>},
    {"join", "iterable", JoinTexts},
    {"ljust", "width fillchar?", JustifyText<Side::kLeft>},
    {"lower", "", Case<Letters::kLower>},
    {"lstrip", "chars?", StripText<Side::kLeft>},
    {"partition", "sep", Partition<false>},
    {"removeprefix", "prefix", RemovePrefix},
    {"removesuffix", "suffix", RemoveSuffix},
    {"replace", "old new count?", ReplaceText},
    {"rfind", "sub start? end?", FindText<true>},
    {"rindex", "sub start? end?", IndexText<true>},
    {"rjust", "width fillchar?", JustifyText<Side::kRight>},
    {"rpartition", "sep", Partition<true>},
    {"rsplit", "sep? maxsplit?", SplitText<true>},
    {"rstrip", "chars?", StripText<Side::kRight>},
    {"split", "sep? maxsplit?", SplitText<false>},
    {"splitlines", "keepends?", Lines},
    {"startswith", "prefix start? end?", Borders<false>},
    {"strip", "chars?", StripText<Side::kBoth>},
    {"title", "", Case<Letters::kTitle>},
    {"upper", "", Case<Letters::kUpper>},
    {"zfill", "width", ZFill},
};

Value CountItem(const Input& in) {
  int64_t n = 0;
  for (const Value& item : in.self.sequence()->items) n += Equal(in.run, item, in[0]) ? 1 : 0;
  return Value(n);
}
Value IndexItem(const Input& in) {
  const auto& items = in.self.sequence()->items;
  for (size_t i = 0; i < items.size(); ++i) {
    if (Equal(in.run, items[i], in[0])) return Value(static_cast<int64_t>(i));
  }
  return in.Fail("does not find the item");
}
Value Copy(const Input& in) { return in.self; }

constexpr Function kSequenceMethods[] = {
    {"copy", "", Copy}, {"count", "value", CountItem}, {"index", "value", IndexItem}};

Value Get(const Input& in) {
  const Value* const found = Find(in.run, *in.self.dict(), in[0]);
  if (found != nullptr) return *found;
  return in.Has(1) ? in[1] : Value(None());
}
// keys, values and items of a dict.
template <int kPart>
Value DictView(const Input& in) {
  std::vector<Value> items;
  for (const auto& [key, value] : in.self.dict()->items) {
    items.push_back(kPart == 0   ? key
                    : kPart == 1 ? value
                                 : in.run.NewSequence(SequenceKind::kTuple, {key, value}));
  }
  static constexpr SequenceKind kKinds[] = {SequenceKind::kKeys, SequenceKind::kValues,
                                            SequenceKind::kItems};
  return in.run.NewSequence(kKinds[kPart], std::move(items));
}

constexpr Function kDictMethods[] = {{"copy", "", Copy},
                                     {"get", "key default?", Get},
                                     {"items", "", DictView<2>},
                                     {"keys", "", DictView<0>},
                                     {"values", "", DictView<1>}};

}  // namespace

std::span<const Function> TextMethods() { return kTextMethods; }
std::span<const Function> SequenceMethods() { return kSequenceMethods; }
std::span<const Function> DictMethods() { return kDictMethods; }

}  // namespace ng::jinja
