// The filter tojson: the text that Python's json.dumps writes.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/text/jinja/functions.h"
#include "core/text/unicode.h"

namespace ng::jinja {
namespace {

void AppendUnit(char32_t unit, std::string* out) {
  static constexpr char kHex[] = "0123456789abcdef";
  *out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) *out += kHex[unit >> shift & 0xF];
}

class JsonWriter {
 public:
  JsonWriter(Run& run, const JsonStyle& style) : run_(run), style_(style) {}

  void Write(const Value& value, int level) {
    if (!run_.Work(1) || !run_.HasRoom(4 * static_cast<int64_t>(out.size()))) return;
    if (value.text() != nullptr) {
      WriteText(*value.text());
    } else if (value.dict() != nullptr) {
      WriteDict(*value.dict(), level);
    } else if (value.sequence() != nullptr && value.sequence()->kind <= SequenceKind::kTuple) {
      WriteList(*value.sequence(), level);
    } else if (value.IsNone() || value.IsNumber()) {
      out.Append(Plain(value), value.origin());
    } else {
      run_.Fail(absl::StrCat("tojson of ", View(KindOf(value)), " is not possible"));
    }
  }
  Text out;

 private:
  static std::string Plain(const Value& value) {
    if (value.IsNone()) return "null";
    if (value.Is<bool>()) return value.As<bool>() ? "true" : "false";
    if (value.Is<int64_t>()) return absl::StrCat(value.As<int64_t>());
    const double real = value.As<double>();
    if (std::isnan(real)) return "NaN";
    if (std::isinf(real)) return real < 0 ? "-Infinity" : "Infinity";
    return FloatText(real);
  }

  void Mark(std::string_view text) { out.Append(text, Origin::kTemplate); }

  void WriteText(const Text& text) {
    if (!run_.Read(text.size())) return;
    Mark("\"");
    out.AppendEscaped(text, [this](char32_t c) { return EscapeOf(c); });
    Mark("\"");
  }

  std::string EscapeOf(char32_t c) const {
    static constexpr std::string_view kShort = "\"\\\n\r\t\f\b";
    static constexpr std::string_view kNames = "\"\\nrtfb";
    const size_t known = c < 0x80 ? kShort.find(static_cast<char>(c)) : std::string::npos;
    std::string escape;
    if (known != std::string::npos) {
      escape = {'\\', kNames[known]};
    } else if (c < 0x20 || (style_.ascii && c > 0x7E && c < 0x10000 && c != 0x7F)) {
      AppendUnit(c, &escape);
    } else if (style_.ascii && c >= 0x10000) {
      AppendUnit(0xD800 + ((c - 0x10000) >> 10), &escape);
      AppendUnit(0xDC00 + (c & 0x3FF), &escape);
    }
    return escape;
  }

  void NewLine(int level) {
    if (!style_.indent) return;
    Mark("\n");
    const size_t size = style_.indent->size() * static_cast<size_t>(level);
    if (!run_.Read(size) || !run_.HasRoom(2 * static_cast<int64_t>(size))) return;
    for (int i = 0; i < level; ++i) Mark(*style_.indent);
  }

  void WriteList(const Sequence& list, int level) {
    if (list.items.empty()) return Mark("[]");
    Mark("[");
    bool first = true;
    for (const Value& item : list.items) {
      if (!first) out.Append(style_.item_separator);
      first = false;
      NewLine(level + 1);
      Write(item, level + 1);
      if (run_.failed()) return;
    }
    NewLine(level);
    Mark("]");
  }

  void WriteDict(const Dict& dict, int level) {
    if (dict.items.empty()) return Mark("{}");
    std::vector<const std::pair<Value, Value>*> items;
    for (const auto& item : dict.items) items.push_back(&item);
    if (style_.sort_keys) {
      std::ranges::stable_sort(items, [&](const auto* a, const auto* b) {
        return !run_.failed() && CompareBy(run_, "<", a->first, b->first);
      });
    }
    Mark("{");
    bool first = true;
    for (const auto* item : items) {
      if (!first) out.Append(style_.item_separator);
      first = false;
      NewLine(level + 1);
      WriteKey(item->first);
      out.Append(style_.key_separator);
      Write(item->second, level + 1);
      if (run_.failed()) return;
    }
    NewLine(level);
    Mark("}");
  }

  void WriteKey(const Value& key) {
    if (key.text() != nullptr) return WriteText(*key.text());
    if (!key.IsNone() && !key.IsNumber()) {
      run_.Fail(absl::StrCat("tojson of a dict with ", View(KindOf(key)), " as a key"));
      return;
    }
    Mark("\"");
    out.Append(Plain(key), key.origin());
    Mark("\"");
  }

  Run& run_;
  const JsonStyle& style_;
};

}  // namespace

Text JsonText(Run& run, const Value& value, const JsonStyle& style) {
  JsonWriter writer(run, style);
  writer.Write(value, 0);
  return std::move(writer.out);
}

}  // namespace ng::jinja
