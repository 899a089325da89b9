// The filters over single values. Those over lists are in list_filters.cc.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/absl_view.h"
#include "core/text/jinja/functions.h"
#include "core/text/jinja/list_filters.h"
#include "core/text/jinja/text_functions.h"
#include "core/text/unicode.h"

namespace ng::jinja {
namespace {

Value Abs(const Input& in) {
  if (!in.self.IsNumber()) return in.Fail("needs a number");
  return in.self.real() < 0 ? Operate(in.run, "-", Value(int64_t{0}), in.self) : in.self;
}

// An attribute; the keys of a dict are none.
Value AttributeOf(const Input& in) {
  Value found = Attribute(in.run, in.self, in.TextOf(0).bytes());
  if (in.self.dict() == nullptr || found.Is<std::shared_ptr<const Callable>>()) return found;
  return in.run.NewUndefined(
      absl::StrCat("a dict has no attribute \"", in.TextOf(0).bytes(), "\""));
}

Value Default(const Input& in) {
  const bool replaced = in.self.IsUndefined() || (in.Bool(1, false) && !IsTrue(in.self));
  if (!replaced) return in.self;
  return in.Has(0) ? in[0] : in.run.NewText("");
}

// What is before the filter as a text, whose characters the filter goes through.
Text ReadText(const Input& in) {
  Text text = Printed(in.run, in.self);
  in.run.Read(2 * text.size());
  return text;
}

Value Escape(const Input& in) { return in.run.NewText(Escaped(ReadText(in))); }

// Of a safe text too.
Value ForceEscape(const Input& in) {
  Text text = ReadText(in);
  text.set_safe(false);
  return in.run.NewText(Escaped(text));
}

Value Float(const Input& in) {
  double value = 0;
  if (in.self.IsNumber()) return {in.self.real(), in.self.origin()};
  if (in.self.text() != nullptr && in.run.Read(in.self.text()->size()) &&
      ParseFloat(in.self.text()->bytes(), &value)) {
    return {value, in.self.origin()};
  }
  return in.Has(0) ? in[0] : Value(0.0);
}

Value Format(const Input& in) {
  const Text format = Printed(in.run, in.self);
  return in.run.NewText(PercentFormat(in.run, format, in.call.positional));
}

Value Indent(const Input& in) {
  const Text text = ReadText(in);
  const Text by =
      in.Has(0) && in[0].text() != nullptr
          ? *in[0].text()
          : Text(
                std::string(static_cast<size_t>(std::clamp<int64_t>(in.Int(0, 4), 0, 10'000)), ' '),
                Origin::kTemplate);
  Text out;
  bool first = true;
  for (const Text& line : SplitLines(text, true, true)) {
    const bool blank = line.empty() || line.bytes() == "\n";
    if (first ? in.Bool(1, false) : (!blank || in.Bool(2, false))) out.Append(by);
    first = false;
    out.Append(line);
    if (!in.run.Work(1) || !in.run.Read(by.size()) ||
        !in.run.HasRoom(4 * static_cast<int64_t>(out.size())))
      return {};
  }
  out.set_safe(text.safe());
  return in.run.NewText(std::move(out));
}

Value Int(const Input& in) {
  Value standard = in.Has(0) ? in[0] : Value(int64_t{0});
  if (in.self.IsInteger()) return {in.self.integer(), in.self.origin()};
  double real = 0;
  if (in.self.text() != nullptr) {
    if (!in.run.Read(2 * in.self.text()->size())) return {};
    int64_t value = 0;
    if (ParseInteger(in.self.text()->bytes(), in.Int(1, 10), &value)) {
      return {value, in.self.origin()};
    }
    if (!ParseFloat(in.self.text()->bytes(), &real)) return standard;
  } else if (in.self.Is<double>()) {
    real = in.self.real();
  } else {
    return standard;
  }
  if (!std::isfinite(real)) return standard;
  if (std::abs(real) >= 9.2e18) return in.Fail("makes an integer that does not fit 64 bits");
  return {static_cast<int64_t>(real), in.self.origin()};
}

Value Length(const Input& in) {
  if (in.self.IsUndefined()) return Value(int64_t{0});
  if (in.self.text() != nullptr) {
    in.run.Read(in.self.text()->size() / 4);
    return Value(static_cast<int64_t>(CountCharacters(in.self.text()->bytes())));
  }
  if (in.self.dict() != nullptr) return Value(std::ssize(in.self.dict()->items));
  if (in.self.sequence() != nullptr && in.self.sequence()->kind != SequenceKind::kGenerator) {
    return Value(std::ssize(in.self.sequence()->items));
  }
  return in.Fail(absl::StrCat("of ", View(KindOf(in.self)), " is not defined"));
}

Value Replace(const Input& in) {
  return in.run.NewText(
      ReplaceIn(in.run, Printed(in.run, in.self), in.TextOf(0), in.TextOf(1), in.Int(2, -1)));
}

// Half to even, as Python rounds.
Value Round(const Input& in) {
  if (!in.self.IsNumber()) return in.Fail("needs a number");
  const int64_t places = std::clamp<int64_t>(in.Int(0, 0), -300, 300);
  const std::string method = in.Has(1) ? in.TextOf(1).bytes() : "common";
  if (method != "common" && method != "ceil" && method != "floor") {
    return in.Fail(absl::StrCat("by \"", method, "\", must be common, ceil or floor"));
  }
  const double value = in.self.real();
  double rounded = 0;
  if (method == "common") {
    if (in.self.IsInteger() && places >= 0) return {in.self.integer(), in.self.origin()};
    if (places >= 0) {
      char digits[800];
      const auto end = std::to_chars(digits, digits + sizeof(digits), value,
                                     std::chars_format::fixed, static_cast<int>(places));
      std::from_chars(digits, end.ptr, rounded);
    } else {
      const double scale = std::pow(10.0, static_cast<double>(-places));
      rounded = std::nearbyint(value / scale) * scale;
    }
    if (in.self.IsInteger()) return {static_cast<int64_t>(rounded), in.self.origin()};
  } else {
    const double scale = std::pow(10.0, static_cast<double>(places));
    rounded = (method == "ceil" ? std::ceil(value * scale) : std::floor(value * scale)) / scale;
  }
  return {rounded, in.self.origin()};
}

Value Safe(const Input& in) {
  Text text = Printed(in.run, in.self);
  text.set_safe(true);
  return in.run.NewText(std::move(text));
}

Value AsString(const Input& in) { return in.run.NewText(Printed(in.run, in.self)); }

Value ToJson(const Input& in) {
  JsonStyle style;
  style.ascii = in.Bool(0, false);
  style.sort_keys = in.Bool(3, false);
  if (in[1].IsInteger()) {
    style.indent =
        std::string(static_cast<size_t>(std::clamp<int64_t>(in.Int(1, 0), 0, 1000)), ' ');
  } else if (in[1].text() != nullptr) {
    style.indent = in[1].text()->bytes();
  }
  style.item_separator = Text(style.indent ? "," : ", ", Origin::kTemplate);
  style.key_separator = Text(": ", Origin::kTemplate);
  if (in.Has(2) && !in[2].IsNone()) {
    const auto given = ItemsOf(in.run, in[2]);
    if (given == nullptr || given->items.size() != 2 || given->items[0].text() == nullptr ||
        given->items[1].text() == nullptr) {
      return in.Fail("needs separators that are two texts");
    }
    style.item_separator = *given->items[0].text();
    style.key_separator = *given->items[1].text();
  }
  return in.run.NewText(JsonText(in.run, in.self, style));
}

Value Trim(const Input& in) {
  const Text text = ReadText(in);
  const bool given = in.Has(0) && !in[0].IsNone();
  const std::string chars = given ? in.TextOf(0).bytes() : "";
  if (!in.run.Read(2 * chars.size())) return {};
  const Extent left = Strip(text.bytes(), Side::kBoth, given ? &chars : nullptr);
  return in.run.NewText(text.Slice(left.begin, left.end - left.begin));
}

Value Truncate(const Input& in) {
  const Text text = Printed(in.run, in.self);
  const int64_t length = in.Int(0, 255);
  const Text end = in.Has(2) ? in.TextOf(2) : Text("...", Origin::kTemplate);
  const std::vector<size_t> begins = CharactersOf(in.run, text);
  const auto n = static_cast<int64_t>(begins.size()) - 1;
  const auto n_end = static_cast<int64_t>(CountCharacters(end.bytes()));
  if (length < n_end) return in.Fail("needs a length that has room for the end");
  if (n <= length + in.Int(3, 5)) return in.run.NewText(text);
  Text cut = text.Slice(0, begins[static_cast<size_t>(length - n_end)]);
  const size_t space = cut.bytes().rfind(' ');
  if (!in.Bool(1, false) && space != std::string::npos) cut = cut.Slice(0, space);
  cut.Append(cut.safe() ? Escaped(end) : end);
  return in.run.NewText(std::move(cut));
}

// "%41" for each byte that is not allowed in an address.
Value UrlEncode(const Input& in) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  const Text text = ReadText(in);
  Text out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text.bytes()[i]);
    const bool keeps = absl::ascii_isalnum(byte) ||
                       std::string_view("_.-~/").find(text.bytes()[i]) != std::string_view::npos;
    out.Append(keeps ? std::string(1, text.bytes()[i])
                     : std::string{'%', kHex[byte >> 4], kHex[byte & 15]},
               text.OriginAt(i));
  }
  return in.run.NewText(std::move(out));
}

Value WordCount(const Input& in) {
  int64_t n = 0;
  bool in_word = false;
  const std::string text = ReadText(in).bytes();
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = FirstCodePoint(std::string_view(text).substr(i));
    const bool is_word = IsWord(c.value);
    n += is_word && !in_word ? 1 : 0;
    in_word = is_word;
    i += c.length;
  }
  return Value(n);
}

Value Case(const Input& in, Letters letters) {
  return in.run.NewText(WithCase(ReadText(in), letters));
}
Value Capitalize(const Input& in) { return Case(in, Letters::kCapitalized); }
Value Lower(const Input& in) { return Case(in, Letters::kLower); }
Value Upper(const Input& in) { return Case(in, Letters::kUpper); }
Value Title(const Input& in) { return Case(in, Letters::kWords); }
Value Center(const Input& in) {
  return in.run.NewText(
      Justify(in.run, ReadText(in), in.Int(0, 80), Text(" ", Origin::kTemplate), Side::kBoth));
}

constexpr Function kFilters[] = {
    {"abs", "", Abs},
    {"attr", "name", AttributeOf},
    {"batch", "linecount fill_with?", list_filters::Batch},
    {"capitalize", "", Capitalize},
    {"center", "width?", Center},
    {"count", "", Length},
    {"d", "default_value? boolean?", Default},
    {"default", "default_value? boolean?", Default},
    {"dictsort", "case_sensitive? by? reverse?", list_filters::DictSort},
    {"e", "", Escape},
    {"escape", "", Escape},
    {"first", "", list_filters::First},
    {"float", "default?", Float},
    {"forceescape", "", ForceEscape},
    {"format", "*", Format},
    {"groupby", "attribute default? case_sensitive?", list_filters::GroupBy},
    {"indent", "width? first? blank?", Indent},
    {"int", "default? base?", Int},
    {"items", "", list_filters::Items},
    {"join", "d? attribute?", list_filters::Join},
    {"last", "", list_filters::Last},
    {"length", "", Length},
    {"list", "", list_filters::List},
    {"lower", "", Lower},
    {"map", "*", list_filters::Map},
    {"max", "case_sensitive? attribute?", list_filters::Max},
    {"min", "case_sensitive? attribute?", list_filters::Min},
    {"reject", "*", list_filters::Reject},
    {"rejectattr", "*", list_filters::RejectAttr},
    {"replace", "old new count?", Replace},
    {"reverse", "", list_filters::Reverse},
    {"round", "precision? method?", Round},
    {"safe", "", Safe},
    {"select", "*", list_filters::Select},
    {"selectattr", "*", list_filters::SelectAttr},
    {"slice", "slices fill_with?", list_filters::SliceInto},
    {"sort", "reverse? case_sensitive? attribute?", list_filters::Sort},
    {"string", "", AsString},
    {"sum", "attribute? start?", list_filters::Sum},
    {"title", "", Title},
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", ToJson},
    {"trim", "chars?", Trim},
    {"truncate", "length? killwords? end? leeway?", Truncate},
    {"unique", "case_sensitive? attribute?", list_filters::Unique},
    {"upper", "", Upper},
    {"urlencode", "", UrlEncode},
    {"wordcount", "", WordCount},
};

}  // namespace

std::span<const Function> Filters() { return kFilters; }

}  // namespace ng::jinja
