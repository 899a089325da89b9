#include "apps/common/arguments.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <charconv>
#include <set>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "ng/names.h"

namespace ng {
namespace {

namespace po = boost::program_options;

// What other programs call by other names: llama.cpp, transformers, ollama, vLLM.
struct Habit {
  std::string_view names;  // as they are typed, with blanks between them and '-' for '_'
  const char* spelling;
};
constexpr Habit kHabits[] = {
    {"model model-path", "--model.path=DIR"},
    {"temperature temp", "--sampler.temperature.value=VALUE"},
    {"top-k", "--sampler.top_k.k=VALUE"},
    {"top-p", "--sampler.top_p.p=VALUE"},
    {"min-p", "--sampler.min_p.p=VALUE"},
    {"typical typical-p", "--sampler.typical_p.p=VALUE"},
    {"top-n-sigma top-nsigma", "--sampler.top_n_sigma.n=VALUE"},
    {"xtc-probability", "--sampler.xtc.probability=VALUE"},
    {"xtc-threshold", "--sampler.xtc.threshold=VALUE"},
    {"dry-multiplier", "--sampler.dry.multiplier=VALUE"},
    {"mirostat", "--sampler.chain=temperature,mirostat"},
    {"repeat-penalty repetition-penalty", "--sampler.repetition_penalty.value=VALUE"},
    {"repeat-last-n", "--sampler.repetition_penalty.window=VALUE"},
    {"frequency-penalty", "--sampler.frequency_penalty.value=VALUE"},
    {"presence-penalty", "--sampler.presence_penalty.value=VALUE"},
    {"logit-bias", "--sampler.logit_bias.bias=ID=VALUE"},
    {"samplers sampler sampler-seq", "--sampler.chain=STAGE,..."},
    {"greedy no-sample", "--sampler.chain=greedy"},
    {"stop reverse-prompt stop-sequences",
     "--sampler.stop_texts.texts=TEXT,... with the stage stop_texts in sampler.chain"},
    {"grammar grammar-file", "--sampler.grammar.gbnf=FILE with the stage grammar in sampler.chain"},
    {"json-schema j json-schema-file guided-json",
     "--sampler.grammar.json_schema=FILE with the stage grammar in sampler.chain"},
    {"seed s", "--sampler.seed=VALUE"},
    {"n-predict predict max-tokens max-new-tokens num-predict n-tokens",
     "--run.max_new_tokens=VALUE"},
    {"threads num-threads n-threads", "--run.threads=VALUE"},
    {"system system-prompt sys", "--run.system=TEXT"},
    {"ctx-size context n-ctx max-model-len num-ctx context-length", "--cache.max_tokens=VALUE"},
    {"chat-template jinja chat-template-file", "--tokenizer.chat_template=NAME or FILE"},
    {"tokenizer", "--tokenizer.path=PATH"},
    {"dtype torch-dtype quantization weights", "--model.weights=TYPE"},
    {"cache-type-k", "--cache.codec_k=TYPE"},
    {"cache-type-v", "--cache.codec_v=TYPE"},
    {"attention attn-implementation", "--attention.name=NAME"},
    {"file f", "--prompt-file FILE"},
    {"interactive conversation i cnv", "--chat"},
    {"input text", "--prompt TEXT"},
    {"json", "--output jsonl"},
};

// A program_options error as one line, with the nearest option for an unknown one.
absl::Status Explain(const po::error& error, const po::options_description& options) {
  if (const auto* unknown = dynamic_cast<const po::unknown_option*>(&error)) {
    std::vector<std::string> names;
    for (const auto& option : options.options()) names.push_back(option->long_name());
    std::string name = unknown->get_option_name();
    name.erase(0, name.find_first_not_of('-'));
    name.resize(std::min(name.find('='), name.size()));
    const std::string spelling = RightSpelling(name);
    const std::string option = spelling.substr(0, spelling.find_first_of("=, "));
    const bool is_key = option.find('.') != option.npos;  // else it is an option of some programs
    if (is_key || (!option.empty() && std::ranges::count(names, option.substr(2)) != 0)) {
      return UsageError(absl::StrCat("unknown option --", name, "; write ", spelling));
    }
    const auto nearest = NearestName(name, names);
    return UsageError(absl::StrCat("unknown option --", name,
                                   nearest ? absl::StrCat("; did you mean --", *nearest, "?") : "",
                                   " (see --help; config keys are written --section.key=value)"));
  }
  if (const auto* syntax = dynamic_cast<const po::invalid_command_line_syntax*>(&error)) {
    if (syntax->kind() == po::invalid_command_line_syntax::empty_adjacent_parameter) {
      return UsageError(absl::StrCat(syntax->get_option_name(), "= is empty, must have a value"));
    }
  }
  return UsageError(error.what());
}

}  // namespace

std::string RightSpelling(std::string_view name) {
  std::string typed(name);
  std::ranges::replace(typed, '_', '-');
  for (const Habit& habit : kHabits) {
    for (const absl::string_view other :
         absl::StrSplit(absl::string_view(habit.names.data(), habit.names.size()), ' ')) {
      if (other == typed) return habit.spelling;
    }
  }
  return "";
}

absl::StatusOr<Arguments> ParseArguments(int argc, const char* const* argv,
                                         const po::options_description& options) {
  return ParseArguments(std::vector<std::string>(argv + 1, argv + argc), options);
}

absl::StatusOr<Arguments> ParseArguments(const std::vector<std::string>& all,
                                         const po::options_description& options) {
  Arguments arguments;
  std::vector<std::string> own;
  for (const std::string& argument : all) {
    const size_t name_end = std::min(argument.find('='), argument.size());
    if (argument.rfind("--", 0) == 0 && argument.find('.') < name_end) {
      if (name_end == argument.size()) {
        return UsageError(
            absl::StrCat(argument, ": a config key is given as ", argument, "=VALUE"));
      }
      arguments.overrides.push_back(argument.substr(2));
    } else {
      own.push_back(argument);
    }
  }
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
  } catch (const po::too_many_positional_options_error&) {
    return UsageError("an argument does not belong to any option; options begin with --");
  } catch (const po::error& error) {
    return Explain(error, options);
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

EngineOptions EngineOptionsOf(const Arguments& arguments) {
  const po::variables_map& values = arguments.values;
  EngineOptions options;
  if (values.count("config") != 0) options.config_file = values["config"].as<std::string>();
  if (values.count("random-weights") != 0) {
    options.random_weights = values["random-weights"].as<std::string>();
    // They take the place of the config file's model. A model on the command line too is refused.
    options.overrides = {"model.path=", "model.packed=", "tokenizer.path="};
  }
  options.overrides.insert(options.overrides.end(), arguments.overrides.begin(),
                           arguments.overrides.end());
  return options;
}

absl::StatusOr<bool> WantsJsonl(const Arguments& arguments) {
  const std::string& output = arguments.values["output"].as<std::string>();
  if (output == "jsonl") return true;
  if (output == "text") return false;
  return UsageError("--output=" + output + ": must be text or jsonl");
}

absl::StatusOr<std::vector<std::string>> ParseSettings(const Arguments& arguments,
                                                       const char* option) {
  if (arguments.values.count(option) == 0) return std::vector<std::string>();
  std::set<std::string> keys;
  const auto& settings = arguments.values[option].as<std::vector<std::string>>();
  for (const std::string& setting : settings) {
    const size_t dot = setting.find('.');
    const size_t equals = setting.find('=');
    if (dot == setting.npos || equals == setting.npos || dot > equals) {
      return UsageError(absl::StrCat("--", option, ": '", setting, "' must be SECTION.KEY=VALUE"));
    }
    const std::string key = setting.substr(0, equals);
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
