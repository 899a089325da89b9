#include "apps/common/arguments.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <charconv>
#include <filesystem>
#include <set>
#include <span>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "ng/names.h"
#include "ng/spellings.h"

namespace ng {
namespace {

namespace po = boost::program_options;

// Other programs' names for options; those for config keys are in ng/spellings.h.
struct OptionSpelling {
  std::string_view names;   // with blanks between them and '-' for '_'
  std::string_view option;  // perhaps with its value
};
constexpr OptionSpelling kOptionSpellings[] = {
    {"file f", "prompt-file"},    {"interactive conversation i cnv c", "chat"},
    {"input text p", "prompt"},   {"json", "output=jsonl"},
    {"n n-gen", "decode-tokens"}, {"n-prompt p", "prompt-tokens"},
    {"r repetitions", "repeat"},
};

constexpr std::string_view kModel = "model.path=";

// Of every program.
constexpr std::pair<const char*, const char*> kShortOptions[] = {
    {"-h", "help"}, {"-q", "quiet"}, {"-v", "verbose"}};

std::string_view NameIn(std::string_view option) { return option.substr(0, option.find('=')); }

const po::option_description* FindOption(std::string_view name,
                                         const po::options_description& options) {
  return name.empty() ? nullptr : options.find_nothrow(std::string(name), /*approx=*/false);
}

// The option of the program that another one calls so; empty: there is none.
std::string_view OptionSpelled(std::string_view name, const po::options_description& options) {
  std::string typed(name);
  std::ranges::replace(typed, '_', '-');
  for (const OptionSpelling& spelling : kOptionSpellings) {
    const std::vector<std::string> names =
        absl::StrSplit(absl::string_view(spelling.names.data(), spelling.names.size()), ' ');
    const bool meant = std::ranges::count(names, typed) != 0;
    if (meant && FindOption(NameIn(spelling.option), options) != nullptr) return spelling.option;
  }
  return {};
}

absl::Status UnknownOption(std::string_view name, const po::options_description& options) {
  std::vector<std::string> names;
  for (const auto& option : options.options()) names.push_back(option->long_name());
  for (const Spelling& spelling : Spellings()) {
    for (const std::string_view other : spelling.Names()) {
      if (other.size() > 1) names.emplace_back(other);
    }
  }
  const auto nearest = NearestName(name, names);
  return UsageError(absl::StrCat("unknown option --", std::string(name),
                                 nearest ? absl::StrCat("; did you mean --", *nearest, "?") : "",
                                 " (see --help; config keys are written --section.key=value)"));
}

// What there is to read, one argument after the other.
class ArgumentReader {
 public:
  ArgumentReader(const std::vector<std::string>& all, const po::options_description& options)
      : all_(all), options_(options) {}

  // What has been read: the program's own options go to `own`.
  absl::Status Read(std::vector<std::string>* own, Arguments* read) {
    std::vector<std::string>* const overrides = &read->overrides;
    for (next_ = 0; next_ < all_.size(); ++next_) {
      const std::string& argument = all_[next_];
      const size_t n_dashes = options_may_come_ ? DashesOf(argument) : 0;
      if (n_dashes == 0) {
        NG_RETURN_IF_ERROR(ReadBare(argument, own, read));
        continue;
      }
      const std::string text = argument.substr(n_dashes);
      const std::string_view name = NameIn(text);
      const bool has_value = name.size() < text.size();
      const std::string option(OptionSpelled(name, options_));
      if (argument == "--") {
        options_may_come_ = false;
      } else if (name.find('.') != name.npos) {
        if (!has_value) {
          return UsageError(
              absl::StrCat(argument, ": a config key is given as ", argument, "=VALUE"));
        }
        overrides->push_back(text);
      } else if (FindOption(name, options_) != nullptr) {
        AddOwn(argument, name, has_value, own);
      } else if (!option.empty()) {
        AddOwn(absl::StrCat("--", option, text.substr(name.size())), NameIn(option),
               has_value || option.find('=') != option.npos, own);
      } else if (const Spelling* const spelling = FindSpelling(name)) {
        NG_ASSIGN_OR_RETURN(std::string set, Setting(*spelling, text, has_value));
        overrides->push_back(std::move(set));
      } else {
        return UnknownOption(name, options_);
      }
    }
    return CheckModel(*overrides);
  }

 private:
  // Two models are named: one without an option, and one with it. An .ini file is no model.
  absl::Status CheckModel(const std::vector<std::string>& overrides) const {
    if (model_.empty() || model_.ends_with(".ini")) return absl::OkStatus();
    for (const std::string& setting : std::span(overrides).subspan(1)) {  // the first is model_'s
      const std::string_view name = NameIn(setting);
      const Spelling* const spelling = FindSpelling(name);
      const std::string_view key = spelling == nullptr ? name : spelling->key;
      const std::string value = setting.substr(std::min(name.size() + 1, setting.size()));
      if (key != NameIn(kModel) || value.empty() || value.ends_with(".ini")) continue;
      return UsageError(absl::StrCat("argument '", model_, "': the model is '", value,
                                     "' already; options begin with --"));
    }
    return absl::OkStatus();
  }

  // Of "--port" and, where another program has it so, of "-np"; 0: the argument is no such option.
  size_t DashesOf(const std::string& argument) const {
    if (argument.starts_with("--")) return 2;
    if (!argument.starts_with('-')) return 0;
    return IsSpelling(NameIn(argument).substr(1), options_) ? 1 : 0;
  }

  // An option of the program's own, and the value that follows it.
  void AddOwn(const std::string& argument, std::string_view name, bool has_value,
              std::vector<std::string>* own) {
    own->push_back(argument);
    const po::option_description* const option = FindOption(name, options_);
    const bool value_follows = option != nullptr && option->semantic()->max_tokens() > 0;
    if (value_follows && !has_value && next_ + 1 < all_.size()) own->push_back(all_[++next_]);
  }

  // Whether -m, --model or --model.path is there.
  bool OptionNamesModel() const {
    return std::ranges::any_of(all_, [this](const std::string& argument) {
      const size_t n_dashes = DashesOf(argument);
      if (n_dashes == 0) return false;
      const std::string_view name = NameIn(std::string_view(argument).substr(n_dashes));
      const Spelling* const spelling = FindSpelling(name);
      return (spelling == nullptr ? name : std::string_view(spelling->key)) == NameIn(kModel);
    });
  }

  absl::Status ReadBare(const std::string& argument, std::vector<std::string>* own,
                        Arguments* read) {
    for (const auto& [letter, option] : kShortOptions) {
      if (argument != letter || FindOption(option, options_) == nullptr) continue;
      own->push_back(absl::StrCat("--", option));
      return absl::OkStatus();
    }
    const bool option = options_may_come_ && argument.starts_with('-') && argument.size() > 1;
    if (option || FindOption("config", options_) == nullptr) {
      return UsageError(absl::StrCat("argument '", argument,
                                     "' does not belong to any option; options begin with --"));
    }
    if (FindOption("message", options_) != nullptr && (!model_.empty() || OptionNamesModel())) {
      read->texts.push_back(argument);
      return absl::OkStatus();
    }
    if (!model_.empty()) {
      return UsageError(absl::StrCat("argument '", argument, "': the model is '", model_,
                                     "' already; options begin with --"));
    }
    model_ = argument;
    read->overrides.insert(read->overrides.begin(), std::string(kModel) + argument);
    return absl::OkStatus();
  }

  // "temp=0.2" from "--temp=0.2" or "--temp 0.2".
  absl::StatusOr<std::string> Setting(const Spelling& spelling, const std::string& text,
                                      bool has_value) {
    if (has_value) return text;
    if (!spelling.takes_value) return text + "=";
    if (next_ + 1 < all_.size()) return absl::StrCat(text, "=", all_[++next_]);
    return UsageError(absl::StrCat(all_[next_], " needs a value"));
  }

  const std::vector<std::string>& all_;
  const po::options_description& options_;
  size_t next_ = 0;
  bool options_may_come_ = true;
  std::string model_;  // that was named without an option
};

// A program_options error as one line.
absl::Status Explain(const po::error& error) {
  if (const auto* syntax = dynamic_cast<const po::invalid_command_line_syntax*>(&error)) {
    if (syntax->kind() == po::invalid_command_line_syntax::empty_adjacent_parameter) {
      return UsageError(absl::StrCat(syntax->get_option_name(), "= is empty, must have a value"));
    }
  }
  return UsageError(error.what());
}

}  // namespace

bool IsSpelling(std::string_view name, const po::options_description& options) {
  return FindSpelling(name) != nullptr || !OptionSpelled(name, options).empty();
}

bool TakesValue(std::string_view name, const po::options_description& options) {
  std::string_view option = name;
  if (FindOption(name, options) == nullptr) {
    option = OptionSpelled(name, options);
    if (option.find('=') != option.npos) return false;
    const Spelling* const spelling = option.empty() ? FindSpelling(name) : nullptr;
    if (spelling != nullptr) return spelling->takes_value;
  }
  const po::option_description* const found = FindOption(option, options);
  return found != nullptr && found->semantic()->max_tokens() > 0;
}

absl::StatusOr<Arguments> ParseArguments(int argc, const char* const* argv,
                                         const po::options_description& options) {
  return ParseArguments(std::vector<std::string>(argv + 1, argv + argc), options);
}

absl::StatusOr<Arguments> ParseArguments(const std::vector<std::string>& all,
                                         const po::options_description& options) {
  Arguments arguments;
  std::vector<std::string> own;
  NG_RETURN_IF_ERROR(ArgumentReader(all, options).Read(&own, &arguments));
  try {
    using po::command_line_style::allow_long;
    using po::command_line_style::long_allow_adjacent;
    using po::command_line_style::long_allow_next;
    // There are no positional options, so every argument without an option is an error.
    const po::positional_options_description none;
    po::store(po::command_line_parser(own)
                  .options(options)
                  .positional(none)
                  .style(allow_long | long_allow_adjacent | long_allow_next)
                  .run(),
              arguments.values);
  } catch (const po::error& error) {
    return Explain(error);
  }
  return arguments;
}

std::string ShellWord(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./,:+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) return std::string(word);
  return ShellQuoted(word);
}

std::string ShellQuoted(std::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(std::string(text), {{"'", "'\\''"}}), "'");
}

namespace {

// Whether what is named as a config is a model: a file of weights, or a folder of a model.
bool IsModel(const std::string& path) {
  std::error_code ignored;
  return path.ends_with(".gguf") || path.ends_with(".safetensors") ||
         (!path.empty() && std::filesystem::exists(path + "/config.json", ignored));
}

}  // namespace

EngineOptions EngineOptionsOf(const Arguments& arguments) {
  const po::variables_map& values = arguments.values;
  EngineOptions options;
  if (values.count("config") != 0) options.config_file = values["config"].as<std::string>();
  std::vector<std::string> overrides = arguments.overrides;
  if (IsModel(options.config_file)) {
    overrides.insert(overrides.begin(), std::string(kModel) + options.config_file);
    options.config_file.clear();
  }
  const auto config = std::ranges::find_if(overrides, [&](const std::string& setting) {
    return setting.starts_with(kModel) && setting.ends_with(".ini");
  });
  if (config != overrides.end() && options.config_file.empty()) {
    options.config_file = config->substr(kModel.size());
    overrides.erase(config);
  }
  if (values.count("random-weights") != 0) {
    options.random_weights = values["random-weights"].as<std::string>();
    // They take the place of the config file's model. A model on the command line too is refused.
    options.overrides = {"model.path=", "model.packed=", "model.adapters=", "model.named_adapters=",
                         "tokenizer.path="};
  }
  options.overrides.insert(options.overrides.end(), overrides.begin(), overrides.end());
  return options;
}

absl::StatusOr<bool> WantsJsonl(const Arguments& arguments) {
  const std::string& output = arguments.values["output"].as<std::string>();
  if (output == "jsonl") return true;
  if (output == "text") return false;
  return UsageError("--output=" + output + ": must be text or jsonl");
}

bool IsSetting(std::string_view setting) {
  const std::string_view key = NameIn(setting);
  const bool known = key.find('.') != key.npos || FindSpelling(key) != nullptr;
  return known && key.size() < setting.size();
}

absl::StatusOr<std::vector<std::string>> ParseSettings(const Arguments& arguments,
                                                       const char* option) {
  if (arguments.values.count(option) == 0) return std::vector<std::string>();
  std::set<std::string> keys;
  const auto& settings = arguments.values[option].as<std::vector<std::string>>();
  for (const std::string& setting : settings) {
    if (!IsSetting(setting)) {
      return UsageError(absl::StrCat("--", option, ": '", setting, "' must be SECTION.KEY=VALUE"));
    }
    const std::string key = setting.substr(0, setting.find('='));
    if (keys.insert(key).second) continue;
    return UsageError(absl::StrCat("--", option, ": ", key, " is given twice"));
  }
  return settings;
}

absl::StatusOr<int64_t> ParseWholeNumber(std::string_view option, std::string_view text,
                                         WholeRange range) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < range.min ||
      value > range.max) {
    return UsageError(absl::StrCat("--", std::string(option), ": '", std::string(text),
                                   "' must be a whole number in [", range.min, ", ", range.max,
                                   "]"));
  }
  return value;
}

absl::StatusOr<std::vector<int64_t>> ParseWholeNumbers(const Arguments& arguments,
                                                       const char* option, WholeRange range) {
  std::vector<int64_t> numbers;
  const po::variables_map& values = arguments.values;
  if (values.count(option) == 0) return numbers;
  for (const absl::string_view part : absl::StrSplit(values[option].as<std::string>(), ',')) {
    NG_ASSIGN_OR_RETURN(const int64_t number,
                        ParseWholeNumber(option, {part.data(), part.size()}, range));
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace ng
