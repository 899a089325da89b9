#include "core/text/jinja/template.h"

#include <locale.h>

#include <ctime>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/text/jinja/interpreter.h"
#include "ng/utf8.h"

namespace ng::jinja {
namespace {

using Json = nlohmann::ordered_json;

// The bytes of the texts in a value, and some for each value.
int64_t SizeOf(const Json& json) {
  int64_t size = 8;
  if (json.is_string()) size += static_cast<int64_t>(json.get_ref<const std::string&>().size());
  if (json.is_structured()) {
    for (const auto& [key, value] : json.items()) {
      size += SizeOf(value) + static_cast<int64_t>(key.size());
    }
  }
  return size;
}

// What a template may use with so much data.
Limits LimitsFor(int64_t data, Limits limits) {
  limits.bytes += 16 * data;
  limits.output += 4 * data;
  limits.steps += 4 * data;
  return limits;
}

using Trusted = std::function<bool(std::string_view path, std::string_view text)>;

class Converter {
 public:
  Converter(Run& run, const Trusted& trusted) : run_(run), trusted_(trusted) {}

  // All variables, as a dict.
  Value ConvertAll(const Variables& variables) {
    std::vector<std::pair<Value, Value>> items;
    for (const auto& [name, value] : variables.values.items()) {
      items.emplace_back(ConvertText(name, ""), Convert(value, name));
    }
    if (const SharedVariable* const shared = variables.shared) {
      items.emplace_back(ConvertText(shared->name(), ""), shared->value());
    }
    return run_.failed() ? Value() : run_.NewDict(std::move(items));
  }

  Value Convert(const Json& json, const std::string& path) {
    if (run_.failed()) return {};
    switch (json.type()) {
      case Json::value_t::null:
        return Value(None());
      case Json::value_t::boolean:
        return {json.get<bool>(), Origin::kData};
      case Json::value_t::number_integer:
        return {json.get<int64_t>(), Origin::kData};
      case Json::value_t::number_unsigned:
        if (json.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()}) {
          return run_.Refuse(absl::StrCat(path, " is a number that does not fit 64 bits"));
        }
        return {json.get<int64_t>(), Origin::kData};
      case Json::value_t::number_float:
        return {json.get<double>(), Origin::kData};
      case Json::value_t::string:
        return ConvertText(json.get_ref<const std::string&>(), path);
      case Json::value_t::array: {
        std::vector<Value> items;
        items.reserve(json.size());
        for (size_t i = 0; i < json.size(); ++i) {
          items.push_back(Convert(json[i], absl::StrCat(path, ".", i)));
        }
        return run_.NewList(std::move(items));
      }
      case Json::value_t::object: {
        std::vector<std::pair<Value, Value>> items;
        items.reserve(json.size());
        for (const auto& [key, value] : json.items()) {
          items.emplace_back(ConvertText(key, ""), Convert(value, PathOf(path, key)));
        }
        return run_.NewDict(std::move(items));
      }
      default:
        return run_.Refuse(path + " is no JSON value");
    }
  }

 private:
  // Long paths are cut, so that they do not cost more than the values.
  static std::string PathOf(const std::string& path, const std::string& key) {
    constexpr size_t kLongest = 200;
    if (path.size() + key.size() > kLongest) return path.ends_with("...") ? path : path + "...";
    return path.empty() ? key : absl::StrCat(path, ".", key);
  }

  Value ConvertText(const std::string& text, const std::string& path) {
    if (FindInvalidUtf8(text)) return run_.Refuse(path + " is no valid UTF-8");
    const bool trusted = trusted_ && trusted_(path, text);
    return run_.NewText(text, trusted ? Origin::kTemplate : Origin::kData);
  }

  Run& run_;
  const Trusted& trusted_;
};

// Names of days and decimal points are those of the C locale, whatever locale the program has that
// embeds ng.
class InCLocale {
 public:
  InCLocale() : before_(::uselocale(TheCLocale())) {}
  ~InCLocale() { ::uselocale(before_); }
  InCLocale(const InCLocale&) = delete;
  InCLocale& operator=(const InCLocale&) = delete;

 private:
  static locale_t TheCLocale() {
    static const locale_t locale = ::newlocale(LC_ALL_MASK, "C", nullptr);
    return locale;
  }

  locale_t before_;
};

}  // namespace

Moment LocalNow() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  const bool known = ::localtime_r(&now, &local) != nullptr;
  return {int64_t{now} + (known ? local.tm_gmtoff : 0)};
}

absl::StatusOr<SharedVariable> SharedVariable::Make(std::string name, const Json& value,
                                                    std::string where) {
  SharedVariable made;
  made.bytes_ = SizeOf(value) + static_cast<int64_t>(name.size());
  Run run(std::move(where), LimitsFor(made.bytes_, {}), {});
  made.value_ = Converter(run, {}).Convert(value, name);
  if (run.failed()) return run.status();
  made.name_ = std::move(name);
  return made;
}

absl::StatusOr<Template> Template::Parse(std::string_view source, std::string name) {
  if (FindInvalidUtf8(source)) return ModelFileError(name + ": the template is no valid UTF-8");
  Template parsed;
  parsed.name_ = std::move(name);
  NG_ASSIGN_OR_RETURN(ParsedTemplate nodes, ParseTemplate(source, parsed.name_));
  parsed.parsed_ = std::make_shared<const ParsedTemplate>(std::move(nodes));
  return parsed;
}

absl::StatusOr<Text> Template::Render(const Variables& variables, Moment now,
                                      const Limits& limits) const {
  const int64_t shared = variables.shared == nullptr ? 0 : variables.shared->bytes();
  Run run(name_, LimitsFor(SizeOf(variables.values) + shared, limits), now);
  const InCLocale c_locale;
  Text text;
  const Value converted = Converter(run, variables.trusted).ConvertAll(variables);
  if (!run.failed()) text = Interpreter(run, *converted.dict()).Render(parsed_->body);
  run.Clear();
  if (run.failed()) return run.status();
  return text;
}

}  // namespace ng::jinja
