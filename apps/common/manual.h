// What a program says of itself: its --help, its man page and the completion of its command line
// are made of this one description.
#ifndef NG_APPS_COMMON_MANUAL_H_
#define NG_APPS_COMMON_MANUAL_H_

#include <boost/program_options/options_description.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <boost/program_options/variables_map.hpp>
#include <string>
#include <vector>

namespace ng {

// What a program has to do with --section.key=value.
enum class ConfigKeys {
  kNone,      // it takes none
  kTaken,     // its man page names ng-run's, which describes them
  kDescribed  // its man page lists them
};

struct OptionGroup {
  const char* caption;
  boost::program_options::options_description options;
};

// An option of one letter, and the option or key ("--model.path=") that it stands for.
struct ShortForm {
  char letter;
  const char* spelling;
};

struct Manual {
  const char* program;                // "ng-plan"
  const char* summary;                // what it does, as half a sentence
  std::vector<std::string> uses;      // command lines
  std::vector<std::string> notes;     // paragraphs between these and the options
  std::vector<std::string> examples;  // command lines of the man page
  // Options by groups. The value name of an option says how its value is completed: a file for
  // FILE, DIR and PATH, one of the words in "text|jsonl", a config key for SECTION.KEY=VALUE.
  std::vector<OptionGroup> groups;
  std::vector<ShortForm> short_forms = {};
  ConfigKeys keys = ConfigKeys::kTaken;
};

// An option's value, for options with that value name.
boost::program_options::typed_value<std::string>* TextValue(const char* name);
// The same with a default.
boost::program_options::typed_value<std::string>* TextValue(const char* name, const char* value);

// What every program answers about itself: --help, --version, --man-page, --completion SHELL. And
// --quiet and --verbose.
struct About {
  // How much it says beside: these ask for no answer.
  bool quiet = false;
  bool verbose = false;

  bool help = false;
  bool version = false;
  bool man_page = false;
  std::string completion;  // a shell; empty: not asked for

  // Whether the program is asked for one of these, and so for nothing else.
  bool asked() const { return help || version || man_page || !completion.empty(); }
};

// The last group of a program's options. `help`: what --help prints; `verbose`: what --verbose
// does.
OptionGroup AboutOptions(const char* help = "this text",
                         const char* verbose = "a line on stderr for each phase; also -v");
About ReadAbout(const boost::program_options::variables_map& values);

// Of --wide, in programs with tables (apps/common/table.h).
inline constexpr const char* kWideHelp = "all columns of tables, however wide the screen is";

// All groups as one, for ParseArguments.
boost::program_options::options_description OptionsOf(const Manual& manual);

// The text of --help, in lines of at most `width` columns.
std::string UsageText(const Manual& manual, int width);

// Other programs' names for config keys, that every program takes which takes keys: "--temperature,
// --temp", and what they set (ng/spellings.h). Those that mean something else, elsewhere or as the
// program's own letters, are left out.
struct SpellingText {
  std::string names;
  std::string meaning;
};
std::vector<SpellingText> SpellingTexts(const Manual& manual);

// "--config FILE", "--output text|jsonl (=text)": an option as --help shows it.
struct OptionText {
  std::string name;           // "--config"
  std::string value;          // "FILE"; empty: it takes none
  std::string default_value;  // "text"; empty: none
  std::string help;

  std::string Left() const;
};
OptionText TextOf(const boost::program_options::option_description& option);

}  // namespace ng

#endif  // NG_APPS_COMMON_MANUAL_H_
