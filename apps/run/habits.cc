#include "apps/run/habits.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "apps/common/arguments.h"
#include "apps/common/columns.h"
#include "ng/spellings.h"

namespace ng::run {
namespace {

namespace po = boost::program_options;

struct ShortOption {
  char letter;
  const char* option;  // a config key ends in '='
  bool takes_value;
};
constexpr ShortOption kShortOptions[] = {
    {'m', "--model.path=", true},  {'p', "--prompt", true},
    {'c', "--chat", false},        {'n', "--run.max_new_tokens=", true},
    {'t', "--run.threads=", true}, {'q', "--quiet", false},
    {'v', "--verbose", false},     {'h', "--help", false},
};

// What there is to read: the arguments that are left.
class Reader {
 public:
  Reader(int argc, const char* const* argv) : next_(argv + 1), end_(argv + argc) {}
  bool done() const { return next_ == end_; }
  std::string Next() { return *next_++; }
  bool Skip(std::string_view argument) {
    if (done() || *next_ != argument) return false;
    ++next_;
    return true;
  }

 private:
  const char* const* next_;
  const char* const* end_;
};

// "--steps FILE", with the value that follows it.
void AddLong(const std::string& argument, Reader& reader, const po::options_description& options,
             std::vector<std::string>* arguments) {
  arguments->push_back(argument);
  const bool value_follows = argument.find('=') == argument.npos &&
                             TakesValue(argument.substr(2), options) && !reader.done();
  if (value_follows) arguments->push_back(reader.Next());
}

// "-n 20" or "-n20"; "-ctk bf16", as other programs have it.
absl::Status AddShort(const std::string& argument, Reader& reader,
                      const po::options_description& options, std::vector<std::string>* arguments) {
  const auto* const option = std::ranges::find(kShortOptions, argument[1], &ShortOption::letter);
  const bool known = option != std::end(kShortOptions);
  const bool text = known && option->takes_value && option->letter != 'n' && option->letter != 't';
  const std::string name = argument.substr(1, argument.find('=') - 1);
  if ((!known || argument.size() > 2) && !text && IsSpelling(name, options)) {
    AddLong("-" + argument, reader, options, arguments);
    return absl::OkStatus();
  }
  if (!known || (!option->takes_value && argument.size() > 2)) {
    return UsageError(absl::StrCat("unknown option ", argument,
                                   " (short options are -m, -p, -c, -n, -t, -q, -v and -h; "
                                   "see --help)"));
  }
  std::string spelled = option->option;
  if (option->takes_value) {
    if (argument.size() == 2 && reader.done()) {
      return UsageError(absl::StrCat(argument, " needs a value"));
    }
    const std::string value = argument.size() > 2 ? argument.substr(2) : reader.Next();
    if (!spelled.ends_with('=')) {
      arguments->push_back(spelled);
      spelled.clear();
    }
    spelled += value;
  }
  arguments->push_back(spelled);
  return absl::OkStatus();
}

bool NamesModel(const std::string& argument) {
  if (!argument.starts_with("--")) return false;
  const std::string name = argument.substr(2, argument.find('=') - 2);
  const Spelling* const spelling = FindSpelling(name);
  return name == "config" || name == "model.path" ||
         (spelling != nullptr && spelling->key == "model.path");
}

struct HelpRow {
  const char* left;
  const char* right;
};
constexpr HelpRow kUses[] = {
    {"ng-run MODEL [TEXT ...]", "answers each text, or completes it"},
    {"ng-run [-c] MODEL", "a conversation; -c MODEL TEXT begins it"},
    {"ng-run --config FILE [TEXT ...]", "the same, as a config file says"},
};
constexpr HelpRow kExamples[] = {
    {"ng-run ~/models/Qwen3-0.6B \"Who art thou?\"", ""},
    {"ng-run -c model.gguf --sampler.temperature.value=0.7", ""},
    {"git diff | ng-run MODEL -n 200", ""},
};
constexpr HelpRow kOptions[] = {
    {"-m MODEL, --model.path=MODEL", "a folder, a GGUF file, or a name"},
    {"-p TEXT, --prompt TEXT", "completes it; --prompt-file FILE, -: stdin"},
    {"--message TEXT", "one user message; -c, --chat: a conversation"},
    {"-n N, --run.max_new_tokens=N", "the most tokens to generate"},
    {"-t N, --run.threads=N", "worker threads"},
    {"--sampler.chain=STAGE,...", "how tokens are chosen; --temp N, ..."},
    {"--SECTION.KEY=VALUE", "any other key of a config file"},
    {"--output jsonl, --steps FILE", "what is written"},
    {"--record FILE, --replay FILE", "keeps a run; runs it again and compares"},
    {"--view FILE.html", "a page that shows the run; -: in the terminal"},
    {"--dry-run, -q, -v", "what a run would do; says less; says more"},
    {"--list-models, --list-plugins", "the models with names; the parts"},
    {"--help all, --version", "every option and config key; the version"},
};

void AppendRows(std::span<const HelpRow> rows, int width, std::string* out) {
  constexpr size_t kLeft = 35;  // where the second column begins
  std::vector<TextRow> texts;
  for (const HelpRow& row : rows) texts.push_back({row.left, row.right});
  absl::StrAppend(out, TwoColumns(texts, kLeft, static_cast<size_t>(width)));
}

}  // namespace

absl::StatusOr<SpelledOut> SpellOut(int argc, const char* const* argv,
                                    const po::options_description& options) {
  SpelledOut spelled;
  Reader reader(argc, argv);
  bool options_may_come = true;
  while (!reader.done()) {
    const std::string argument = reader.Next();
    const bool option = options_may_come && argument.size() > 1 && argument[0] == '-';
    if (!option) {
      spelled.texts.push_back(argument);
    } else if (argument == "--") {
      options_may_come = false;
    } else if (argument[1] != '-') {
      NG_RETURN_IF_ERROR(AddShort(argument, reader, options, &spelled.arguments));
    } else if (argument == "--help=all") {
      spelled.arguments.emplace_back("--help");
      spelled.help_all = true;
    } else {
      AddLong(argument, reader, options, &spelled.arguments);
    }
    const bool help = !spelled.arguments.empty() && spelled.arguments.back() == "--help";
    if (option && help && reader.Skip("all")) spelled.help_all = true;
  }
  const bool first_is_model = std::ranges::none_of(spelled.arguments, NamesModel);
  if (first_is_model && !spelled.texts.empty()) {
    // Not behind an option that lacks its value.
    spelled.arguments.insert(spelled.arguments.begin(), "--model.path=" + spelled.texts.front());
    spelled.texts.erase(spelled.texts.begin());
  }
  return spelled;
}

std::string ShortHelp(int width) {
  std::string out = "usage:\n";
  AppendRows(kUses, width, &out);
  out += "\nexamples:\n";
  AppendRows(kExamples, width, &out);
  out += "\noptions:\n";
  AppendRows(kOptions, width, &out);
  return out;
}

std::string ShortUsage(int width) {
  std::string out = "usage:\n";
  AppendRows(kUses, width, &out);
  out += "\nexamples:\n";
  AppendRows(kExamples, width, &out);
  return out + "\nng-run --help lists the options\n";
}

std::vector<std::string> Examples() {
  std::vector<std::string> examples;
  for (const HelpRow& row : kExamples) examples.emplace_back(row.left);
  return examples;
}

std::vector<ShortForm> ShortForms() {
  std::vector<ShortForm> forms;
  for (const ShortOption& option : kShortOptions) forms.push_back({option.letter, option.option});
  return forms;
}

}  // namespace ng::run
