// Python's two ways to put values into a text: "%s" % value, and "{}".format(value).
#include <charconv>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/absl_view.h"
#include "core/text/jinja/functions.h"
#include "core/text/jinja/text_functions.h"

namespace ng::jinja {
namespace {

constexpr int64_t kWidest = 10'000;

struct Specification {
  bool left = false;
  bool zeros = false;
  bool plus = false;
  bool escapes = false;  // the format is a safe text
  int64_t width = 0;
  int64_t precision = -1;
  char type = 's';
};

int64_t TakeNumber(std::string_view* text) {
  int64_t number = 0;
  while (!text->empty() && text->front() >= '0' && text->front() <= '9') {
    number = std::min<int64_t>(number * 10 + (text->front() - '0'), kWidest);
    text->remove_prefix(1);
  }
  return number;
}

// A number as printf writes it, without its width.
std::string NumberText(Run& run, const Specification& how, const Value& value) {
  if (!value.IsNumber()) {
    run.Fail(absl::StrCat("a format for a number is given ", View(KindOf(value))));
    return "";
  }
  char text[512];
  int n = 0;
  if (std::string_view("diuxXo").find(how.type) != std::string_view::npos) {
    const char type = how.type == 'i' || how.type == 'u' ? 'd' : how.type;
    const char format[] = {'%', 'l', type, '\0'};
    const int64_t number =
        value.IsInteger() ? value.integer()
                          : static_cast<int64_t>(std::min(std::max(value.real(), -9.2e18), 9.2e18));
    n = std::snprintf(text, sizeof(text), format, static_cast<long>(number));  // NOLINT
  } else {
    const char format[] = {'%', '.', '*', how.type, '\0'};
    const int places =
        how.precision < 0 ? 6 : static_cast<int>(std::min<int64_t>(how.precision, 100));
    n = std::snprintf(text, sizeof(text), format, places, value.real());  // NOLINT
  }
  std::string number(text, static_cast<size_t>(n));
  return how.plus && number[0] != '-' ? "+" + number : number;
}

Text Padded(Run& run, const Specification& how, const Text& text) {
  const bool zeros = how.zeros && !how.left;
  const bool sign = zeros && !text.empty() && (text.bytes()[0] == '-' || text.bytes()[0] == '+');
  Text out = sign ? text.Slice(0, 1) : Text();
  out.Append(Justify(run, text.Slice(sign ? 1 : 0), how.width - (sign ? 1 : 0),
                     Text(zeros ? "0" : " ", Origin::kTemplate),
                     how.left ? Side::kLeft : Side::kRight));
  return out;
}

Text Formatted(Run& run, const Specification& how, const Value& value) {
  if (how.type != 's' && how.type != 'r' && how.type != 'a') {
    return Padded(run, how, Text(NumberText(run, how, value), value.origin()));
  }
  Text text = how.type == 's' ? Printed(run, value) : Represented(run, value);
  if (how.escapes) text = Escaped(text);
  if (how.precision >= 0) {
    const std::vector<size_t> begins = CharactersOf(run, text);
    const auto n = std::min(static_cast<size_t>(how.precision), begins.size() - 1);
    text = text.Slice(0, begins[n]);
  }
  Specification spaces = how;
  spaces.zeros = false;
  return Padded(run, spaces, text);
}

}  // namespace

Text PercentFormat(Run& run, const Text& format, const std::vector<Value>& values) {
  static constexpr std::string_view kTypes = "sradiuxXofFeEgG";
  Text out;
  size_t n_used = 0;
  const std::string_view all = format.bytes();
  run.Read(all.size());
  for (size_t i = 0; i < all.size() && !run.failed();) {
    if (all[i] != '%') {
      const size_t end = std::min(all.find('%', i), all.size());
      out.Append(format, i, end - i);
      i = end;
      continue;
    }
    std::string_view rest = all.substr(i + 1);
    Specification how;
    how.escapes = format.safe();
    for (; !rest.empty() && std::string_view("-0+ #").find(rest[0]) != std::string_view::npos;
         rest.remove_prefix(1)) {
      how.left = how.left || rest[0] == '-';
      how.zeros = how.zeros || rest[0] == '0';
      how.plus = how.plus || rest[0] == '+';
    }
    how.width = TakeNumber(&rest);
    if (rest.starts_with('.')) {
      rest.remove_prefix(1);
      how.precision = TakeNumber(&rest);
    }
    if (rest.empty() || (rest[0] != '%' && kTypes.find(rest[0]) == std::string_view::npos)) {
      run.Fail(
          "a format with \"%\" and no letter that is known; must be one of s r d i x X o f e g %");
      break;
    }
    how.type = rest[0];
    if (how.type == '%') {
      out.Append(format.Slice(i, 1));
    } else if (n_used == values.size()) {
      run.Fail("a format with more places than values");
    } else {
      out.Append(Formatted(run, how, values[n_used++]));
      run.HasRoom(4 * static_cast<int64_t>(out.size()));
    }
    i = all.size() - rest.size() + 1;
  }
  if (n_used < values.size()) run.Fail("a format with more values than places");
  out.set_safe(format.safe());
  return out;
}

namespace {

// "{name.attribute[key]}": the value of a field.
Value FieldValue(Run& run, std::string_view field, const Call& call, size_t* next) {
  const size_t end = field.find_first_of(".[");
  const std::string_view name = field.substr(0, end);
  Value value;
  if (!run.Read(field.size()) || !run.Work(std::ssize(call.named) / 8)) return {};
  std::string_view digits = name;
  const int64_t place = TakeNumber(&digits);
  if (name.empty() || digits.empty()) {
    const size_t i = name.empty() ? (*next)++ : static_cast<size_t>(place);
    if (i >= call.positional.size()) return run.Fail("a format with more places than values");
    value = call.positional[i];
  } else {
    bool found = false;
    for (const auto& [key, given] : call.named) {
      if (key != name) continue;
      value = given;
      found = true;
    }
    if (!found) {
      return run.Fail(absl::StrCat("a format asks for \"", View(name), "\", which is not given"));
    }
  }
  std::string_view path = end == std::string_view::npos ? "" : field.substr(end);
  while (!path.empty() && !run.failed()) {
    const bool is_item = path[0] == '[';
    const size_t stop =
        is_item ? path.find(']') : std::min(path.find_first_of(".[", 1), path.size());
    if (stop == std::string_view::npos) return run.Fail("a format with \"[\" and no \"]\"");
    const std::string_view key = path.substr(1, stop - 1);
    std::string_view left = key;
    const int64_t number = TakeNumber(&left);
    const Value by = is_item && left.empty() && !key.empty() ? Value(number) : run.NewText(key);
    value = is_item ? Item(run, value, by) : Attribute(run, value, key);
    path.remove_prefix(is_item ? stop + 1 : stop);
  }
  return value;
}

// "<10.2f": how a field is written.
Text FieldText(Run& run, const Value& value, std::string_view specification) {
  if (specification.empty()) return Printed(run, value);
  Specification how;
  Text fill(" ", Origin::kTemplate);
  static constexpr std::string_view kAligns = "<>^";
  char align = '\0';
  if (specification.size() > 1 && kAligns.find(specification[1]) != std::string_view::npos) {
    fill = Text(specification.substr(0, 1), Origin::kTemplate);
    align = specification[1];
    specification.remove_prefix(2);
  } else if (kAligns.find(specification[0]) != std::string_view::npos) {
    align = specification[0];
    specification.remove_prefix(1);
  }
  if (specification.starts_with('+')) {
    how.plus = true;
    specification.remove_prefix(1);
  }
  how.zeros = specification.starts_with('0');
  const int64_t width = TakeNumber(&specification);
  const bool commas = specification.starts_with(',');
  if (commas) specification.remove_prefix(1);
  if (specification.starts_with('.')) {
    specification.remove_prefix(1);
    how.precision = TakeNumber(&specification);
  }
  how.type = !specification.empty() ? specification[0] : value.Is<int64_t>() ? 'd' : 's';
  if (specification.size() > 1 || commas ||
      std::string_view("sdxXofFeEgG").find(how.type) == std::string_view::npos) {
    run.Fail("a format of a field that is not known");
    return {};
  }
  if (align == '\0') align = value.IsNumber() ? '>' : '<';
  if (how.zeros) {
    how.width = width;
    return Formatted(run, how, value);
  }
  return Justify(run, Formatted(run, how, value), width, fill,
                 align == '<'   ? Side::kLeft
                 : align == '>' ? Side::kRight
                                : Side::kBoth);
}

}  // namespace

Text BraceFormat(Run& run, const Text& format, const Call& call) {
  Text out;
  size_t next = 0;
  const std::string_view all = format.bytes();
  run.Read(all.size());
  for (size_t i = 0; i < all.size() && !run.failed();) {
    const char c = all[i];
    if (c != '{' && c != '}') {
      const size_t end = std::min(all.find_first_of("{}", i), all.size());
      out.Append(format, i, end - i);
      i = end;
    } else if (i + 1 < all.size() && all[i + 1] == c) {
      out.Append(format.Slice(i, 1));
      i += 2;
    } else {
      const size_t end = all.find('}', i);
      run.Read(std::min(end, all.size()) - i);
      if (c == '}' || end == std::string_view::npos) {
        run.Fail("a format with a single brace");
        break;
      }
      const std::string_view field = all.substr(i + 1, end - i - 1);
      const size_t colon = field.find(':');
      std::string_view name = field.substr(0, colon);
      const bool represents = name.ends_with("!r");
      if (represents || name.ends_with("!s")) name.remove_suffix(2);
      Value value = FieldValue(run, name, call, &next);
      if (represents) value = run.NewText(Represented(run, value));
      const Text written =
          FieldText(run, value, colon == std::string_view::npos ? "" : field.substr(colon + 1));
      out.Append(format.safe() ? Escaped(written) : written);
      run.HasRoom(4 * static_cast<int64_t>(out.size()));
      i = end + 1;
    }
  }
  out.set_safe(format.safe());
  return out;
}

}  // namespace ng::jinja
