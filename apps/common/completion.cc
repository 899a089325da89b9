#include "apps/common/completion.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <span>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "apps/common/arguments.h"
#include "ng/spellings.h"

namespace ng {
namespace {

using Kind = ValueWords::Kind;
using Options = std::span<const CompletedOption>;

// What the name of an option's value says (Manual::groups).
ValueWords WordsOf(const std::string& value) {
  if (value.empty()) return {Kind::kNone, {}};
  if (value == "FILE" || value == "PATH") return {Kind::kFile, {}};
  if (value == "DIR") return {Kind::kFolder, {}};
  if (value == "SECTION.KEY=VALUE") return {Kind::kConfigKey, {}};
  if (absl::StrContains(value, '|')) return {Kind::kOneOf, absl::StrSplit(value, '|')};
  return {Kind::kAny, {}};
}

// "ng_run", for the names of functions.
std::string Identifier(const Manual& manual) {
  return absl::StrReplaceAll(manual.program, {{"-", "_"}});
}

// The word by which the scripts know how a value is completed, then the words to choose from.
std::string Rule(const ValueWords& values) {
  switch (values.kind) {
    case Kind::kOneOf:
      return absl::StrCat("one ", absl::StrJoin(values.words, " "));
    case Kind::kListOf:
      return absl::StrCat("list ", absl::StrJoin(values.words, " "));
    case Kind::kFile:
      return "file";
    case Kind::kFolder:
      return "folder";
    case Kind::kConfigKey:
      return "key";
    default:
      return "any";
  }
}

// The branches of a `case` that set `rule` to how the value of an option is completed. Options
// without a value are in none of them.
std::string RuleBranches(Options options) {
  std::string out;
  for (const CompletedOption& option : options) {
    if (option.values.kind == Kind::kNone) continue;
    absl::StrAppend(&out, "    ", option.name, ") rule=", ShellQuoted(Rule(option.values)),
                    " ;;\n");
  }
  return out;
}

// The words that an option can be completed to: a config key with its '='.
std::string OptionWord(const CompletedOption& option) {
  return option.name + (option.is_key ? "=" : "");
}

// In bash a word ends at '=' too, so that key and value are words of their own.
constexpr char kBash[] = R"sh(# Completion of PROGRAM for bash, made by `PROGRAM --completion bash`.

# Sets rule to how the value of option $1 is completed; empty where it has none.
_FUNCTION_rule() {
  rule=
  case $1 in
RULES  esac
}

_FUNCTION() {
  local word=${COMP_WORDS[COMP_CWORD]} option= lead= rule= i
  if [[ $word == -*=* ]]; then
    option=${word%%=*} lead=$option= word=${word#*=}
  elif [[ $word == = ]]; then
    option=${COMP_WORDS[COMP_CWORD-1]} word=
  elif [[ $COMP_CWORD -ge 2 && ${COMP_WORDS[COMP_CWORD-1]} == = ]]; then
    option=${COMP_WORDS[COMP_CWORD-2]}
  elif [[ $COMP_CWORD -ge 1 && ${COMP_WORDS[COMP_CWORD-1]} == -* ]]; then
    option=${COMP_WORDS[COMP_CWORD-1]}
    [[ $option == --*.* ]] && option=
  fi
  [[ $option && $option != -* ]] && option=--$option
  COMPREPLY=()
  [[ $option ]] && _FUNCTION_rule "$option"
  case $rule in
    one\ *)
      mapfile -t COMPREPLY < <(compgen -W "${rule#one }" -- "$word") ;;
    list\ *)
      [[ $word == *,* ]] && lead=$lead${word%,*}, word=${word##*,}
      mapfile -t COMPREPLY < <(compgen -W "${rule#list }" -- "$word")
      compopt -o nospace 2>/dev/null ;;
    file)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      compopt -o filenames 2>/dev/null ;;
    folder)
      [[ $word == *,* ]] && lead=$lead${word%,*}, word=${word##*,}
      mapfile -t COMPREPLY < <(compgen -d -- "$word")
      compopt -o filenames 2>/dev/null ;;
    key)
      mapfile -t COMPREPLY < <(compgen -W 'CONFIGKEYS' -- "$word")
      compopt -o nospace 2>/dev/null ;;
    any) ;;
    *)
      if [[ $word == --*.* ]]; then
        mapfile -t COMPREPLY < <(compgen -W 'KEYS' -- "$word")
        compopt -o nospace 2>/dev/null
      elif [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W 'OPTIONS SECTIONS' -- "$word")
        if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *. ]]; then
          compopt -o nospace 2>/dev/null
        fi
      else
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        compopt -o filenames 2>/dev/null
      fi ;;
  esac
  for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]=$lead${COMPREPLY[i]}; done
}

complete -F _FUNCTION PROGRAM
)sh";

constexpr char kZsh[] = R"sh(#compdef PROGRAM
# Completion of PROGRAM for zsh, made by `PROGRAM --completion zsh`.

_FUNCTION() {
  local option=$words[CURRENT-1] rule=
  local -a options keys sections
  if [[ $PREFIX == --*=* ]]; then
    option=${PREFIX%%=*}
    compset -P 1 '*='
  elif [[ $option == --*.* ]]; then
    option=
  fi
  case $option in
RULES  esac
  case $rule in
    one\ *) compadd -- ${=rule#one } ;;
    list\ *) compset -P '*,'; compadd -q -S , -- ${=rule#list } ;;
    file) _files ;;
    folder) compset -P '*,'; _files -/ ;;
    key) compadd -S '' -- CONFIGKEYS ;;
    any) _message value ;;
    *)
      if [[ $PREFIX == --*.* ]]; then
        keys=(
DESCRIBEDKEYS        )
        _describe 'config key' keys -S ''
      elif [[ $PREFIX == -* ]]; then
        options=(
DESCRIBEDOPTIONS        )
        sections=(SECTIONS)
        _describe -o option options
        compadd -S '' -a sections
      else
        _files
      fi ;;
  esac
}

if [[ $funcstack[1] == _PROGRAM ]]; then
  _FUNCTION "$@"
else
  compdef _FUNCTION PROGRAM
fi
)sh";

// A key is no option for fish: it would put a blank behind it.
constexpr char kFishKeys[] =
    R"sh(# Completion of PROGRAM for fish, made by `PROGRAM --completion fish`.

# The config keys, each with '='; behind that, the values of the key.
function _FUNCTION_keys
  set -l word (commandline -ct)
  set -l lead (string replace -r '[^,=]*$' '' -- $word)
  switch $word
KEYVALUES    case '--*=*'
    case '--*'
      printf '%s\t%s\n' \
DESCRIBEDKEYS
  end
end

complete -c PROGRAM -a '(_FUNCTION_keys)'
# Only the value of some keys is a file.
complete -c PROGRAM -f -n 'string match -q -- "--*.*=*" (commandline -ct)
  and not string match -qr -- "^--(FILEKEYS)=" (commandline -ct)'
)sh";

std::string Names(Options options, bool keys) {
  std::vector<std::string> names;
  for (const CompletedOption& option : options) {
    if (option.is_key == keys) names.push_back(OptionWord(option));
  }
  return absl::StrJoin(names, " ");
}

// The keys without their dashes, as --against has them.
std::string ConfigKeyNames(Options options) {
  const std::string names =
      absl::StrReplaceAll(absl::StrCat(" ", Names(options, true)), {{" --", " "}});
  return names.substr(std::min<size_t>(1, names.size()));
}

// "--cache." and the others.
std::string Sections(Options options) {
  std::vector<std::string> sections;
  for (const CompletedOption& option : options) {
    if (!option.is_key) continue;
    std::string section = option.name.substr(0, option.name.find('.') + 1);
    if (std::ranges::count(sections, section) == 0) sections.push_back(std::move(section));
  }
  return absl::StrJoin(sections, " ");
}

// 'name:help' for zsh's _describe, a line each.
std::string Described(Options options, bool keys) {
  std::string out;
  for (const CompletedOption& option : options) {
    if (option.is_key != keys) continue;
    absl::StrAppend(&out, "          ",
                    ShellQuoted(absl::StrCat(OptionWord(option), ":",
                                             absl::StrReplaceAll(option.help, {{":", "\\:"}}))),
                    "\n");
  }
  return out;
}

// Between single quotes of fish.
std::string FishQuoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

// How fish completes the value of an option.
std::string FishValue(const ValueWords& values, Options options) {
  switch (values.kind) {
    case Kind::kNone:
      return "";
    case Kind::kFile:
      return " -r -F";
    case Kind::kFolder:
      return " -x -a '(__fish_complete_directories)'";
    case Kind::kConfigKey:
      return absl::StrCat(" -x -a ", ShellQuoted(ConfigKeyNames(options)));
    case Kind::kOneOf:
      return absl::StrCat(" -x -a ", ShellQuoted(absl::StrJoin(values.words, " ")));
    default:
      return " -x";
  }
}

std::string FishKeyValues(Options options) {
  std::string out;
  for (const CompletedOption& option : options) {
    if (!option.is_key || option.values.words.empty()) continue;
    absl::StrAppend(&out, "    case '", option.name, "=*'\n      set -l values ",
                    absl::StrJoin(option.values.words, " "),
                    "\n      printf '%s\\n' $lead$values\n");
  }
  return out;
}

std::string FishKeys(Options options) {
  std::vector<std::string> lines;
  for (const CompletedOption& option : options) {
    if (!option.is_key) continue;
    lines.push_back(absl::StrCat("        ", OptionWord(option), " ", FishQuoted(option.help)));
  }
  return absl::StrJoin(lines, " \\\n");
}

// Those with files or folders for values, between '|'.
std::string FileKeys(Options options) {
  std::vector<std::string> names;
  for (const CompletedOption& option : options) {
    const Kind kind = option.values.kind;
    if (option.is_key && (kind == Kind::kFile || kind == Kind::kFolder)) {
      names.push_back(option.name.substr(2));
    }
  }
  return absl::StrJoin(names, "|");
}

std::string FishScript(const Manual& manual, Options options) {
  std::string out;
  for (const CompletedOption& option : options) {
    if (option.is_key) continue;
    const bool is_long = option.name[1] == '-';
    absl::StrAppend(&out, "complete -c ", manual.program, is_long ? " -l " : " -s ",
                    option.name.substr(is_long ? 2 : 1), FishValue(option.values, options), " -d ",
                    FishQuoted(option.help), "\n");
  }
  if (manual.keys == ConfigKeys::kNone) return out;
  return absl::StrReplaceAll(kFishKeys, {{"PROGRAM", manual.program},
                                         {"FUNCTION", Identifier(manual)},
                                         {"KEYVALUES", FishKeyValues(options)},
                                         {"DESCRIBEDKEYS", FishKeys(options)},
                                         {"FILEKEYS", FileKeys(options)}}) +
         out;
}

// Other programs' names for keys; the program's own options have theirs already.
void AddSpellings(const KnownParts& parts, std::vector<CompletedOption>* options) {
  for (const Spelling& spelling : Spellings()) {
    const std::string key(spelling.key);
    if (key.empty()) continue;
    const auto known = std::ranges::find(parts.keys, key, &KnownKey::key);
    const bool joins_alone = spelling.key == "sampler.chain" && !spelling.stage.empty();
    ValueWords values = {spelling.takes_value ? Kind::kAny : Kind::kNone, {}};
    if (known != parts.keys.end() && !joins_alone) values = known->values;
    for (const std::string_view name : spelling.Names()) {
      const std::string option = absl::StrCat("--", std::string(name));
      const bool own = std::ranges::count(*options, option, &CompletedOption::name) != 0;
      if (name.size() > 1 && !own) options->push_back({option, false, key, values});
    }
  }
}

}  // namespace

std::vector<CompletedOption> CompletedOptions(const Manual& manual, const KnownParts& parts) {
  std::vector<CompletedOption> options;
  for (const OptionGroup& group : manual.groups) {
    for (const auto& option : group.options.options()) {
      const OptionText text = TextOf(*option);
      options.push_back({text.name, false, text.help, WordsOf(text.value)});
    }
  }
  const bool takes_keys = manual.keys != ConfigKeys::kNone;
  for (const KnownKey& key : takes_keys ? parts.keys : std::vector<KnownKey>()) {
    options.push_back({absl::StrCat("--", key.key), true,
                       absl::StrCat(key.help, " (", key.allowed, ")"), key.values});
  }
  if (takes_keys) AddSpellings(parts, &options);
  for (const ShortForm& form : manual.short_forms) {
    const auto meant = std::ranges::find_if(options, [&](const CompletedOption& option) {
      return OptionWord(option) == form.spelling;
    });
    if (meant == options.end()) continue;
    options.push_back({std::string{'-', form.letter}, false, form.spelling, meant->values});
  }
  return options;
}

absl::StatusOr<std::string> CompletionScript(const Manual& manual, const KnownParts& parts,
                                             std::string_view shell) {
  const std::vector<CompletedOption> options = CompletedOptions(manual, parts);
  if (shell == "fish") return FishScript(manual, options);
  const bool bash = shell == "bash";
  if (!bash && shell != "zsh") {
    return UsageError(
        absl::StrCat("--completion=", std::string(shell), ": must be bash, zsh or fish"));
  }
  return absl::StrReplaceAll(bash ? kBash : kZsh, {{"PROGRAM", manual.program},
                                                   {"FUNCTION", Identifier(manual)},
                                                   {"RULES", RuleBranches(options)},
                                                   {"CONFIGKEYS", ConfigKeyNames(options)},
                                                   {"DESCRIBEDKEYS", Described(options, true)},
                                                   {"DESCRIBEDOPTIONS", Described(options, false)},
                                                   {"KEYS", Names(options, true)},
                                                   {"OPTIONS", Names(options, false)},
                                                   {"SECTIONS", Sections(options)}});
}

}  // namespace ng
