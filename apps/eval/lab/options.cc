#include "apps/eval/lab/options.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "apps/eval/tasks/puzzle.h"
#include "ng/names.h"

namespace ng::eval {
namespace {

constexpr const char* kLabOptions[] = {"methods",  "budgets", "tasks", "lengths",
                                       "examples", "report",  "lines", "resume"};
constexpr int64_t kMostLength = int64_t{1} << 30;
constexpr int64_t kMostExamples = 10000;

bool IsLabOption(std::string_view argument) {
  return std::ranges::any_of(kLabOptions, [&](const char* option) {
    const std::string name = absl::StrCat("--", option);
    return argument == name || argument.starts_with(name + "=");
  });
}

bool NamesMethods(std::string_view word, bool lab) {
  if (word.empty() || word.starts_with('-') || word.find_first_of("/.") != word.npos) return false;
  return lab || word.find(',') != word.npos;
}

// The items of a list that must differ; none where the option is not given.
absl::StatusOr<std::vector<std::string>> ReadNames(const Arguments& arguments, const char* option) {
  std::vector<std::string> names;
  if (arguments.values.count(option) == 0) return names;
  names = absl::StrSplit(arguments.values[option].as<std::string>(), ',');
  for (auto name = names.begin(); name != names.end(); ++name) {
    const char* const shown = std::string_view(option) == "methods" ? "card" : option;
    if (name->empty()) return UsageError(absl::StrCat("--", shown, ": a name is empty"));
    if (std::find(names.begin(), name, *name) == name) continue;
    return UsageError(absl::StrCat("--", shown, ": '", *name, "' is given twice"));
  }
  return names;
}

// A number of tokens: "512", "2k" for 2048.
absl::StatusOr<int64_t> ParseTokens(const char* option, const std::string& item) {
  constexpr int64_t kKilo = 1024;
  const bool kilo = item.ends_with('k');
  const int64_t unit = kilo ? kKilo : 1;
  const absl::StatusOr<int64_t> n = ParseWholeNumber(
      option, item.substr(0, item.size() - (kilo ? 1 : 0)), {1, kMostLength / unit});
  if (n.ok()) return *n * unit;
  return UsageError(absl::StrCat("--", option, ": '", item, "' must be a number of tokens in [1, ",
                                 kMostLength, "], or in units of 1024: 2k"));
}

absl::StatusOr<std::vector<int64_t>> ReadTokens(const Arguments& arguments, const char* option) {
  std::vector<int64_t> tokens;
  NG_ASSIGN_OR_RETURN(const std::vector<std::string> items, ReadNames(arguments, option));
  for (const std::string& item : items) {
    NG_ASSIGN_OR_RETURN(const int64_t n, ParseTokens(option, item));
    if (std::ranges::count(tokens, n) > 0) {
      return UsageError(absl::StrCat("--", option, ": ", n, " is given twice"));
    }
    tokens.push_back(n);
  }
  return tokens;
}

// "512", "2k", and "0.25", a share of a context.
absl::StatusOr<std::vector<Budget>> ReadBudgets(const Arguments& arguments) {
  std::vector<Budget> budgets;
  NG_ASSIGN_OR_RETURN(const std::vector<std::string> items, ReadNames(arguments, "budgets"));
  for (const std::string& item : items) {
    Budget budget;
    if (item.find('.') == item.npos) {
      NG_ASSIGN_OR_RETURN(budget.tokens, ParseTokens("budgets", item));
    } else if (!absl::SimpleAtod(item, &budget.ratio) ||
               !(budget.ratio > 0.0 && budget.ratio < 1.0)) {
      return UsageError(absl::StrCat("--budgets: '", item,
                                     "' must be a share of a context between 0 and 1, or a number "
                                     "of tokens"));
    }
    const auto same = [&](const Budget& other) { return other.Text() == budget.Text(); };
    if (std::ranges::any_of(budgets, same)) {
      return UsageError(absl::StrCat("--budgets: ", budget.Text(), " is given twice"));
    }
    budgets.push_back(budget);
  }
  return budgets;
}

absl::StatusOr<std::vector<std::string>> ReadTasks(const Arguments& arguments) {
  std::vector<std::string> all;
  for (const TaskInfo& task : Tasks()) all.emplace_back(task.name);
  if (arguments.values.count("tasks") == 0) return all;
  const std::string& text = arguments.values["tasks"].as<std::string>();
  if (text == "all") return all;
  if (text == "none") return std::vector<std::string>();
  NG_ASSIGN_OR_RETURN(std::vector<std::string> names, ReadNames(arguments, "tasks"));
  for (const std::string& name : names) {
    if (FindTask(name) != nullptr) continue;
    const auto nearest = NearestName(name, all);
    return UsageError(absl::StrCat("--tasks: no task '", name, "'",
                                   nearest ? absl::StrCat("; did you mean '", *nearest, "'?") : "",
                                   "; there are: ", absl::StrJoin(all, ", "), ", all, none"));
  }
  return names;
}

absl::StatusOr<std::optional<std::string>> ReadFileName(const Arguments& arguments,
                                                        const char* option) {
  if (arguments.values.count(option) == 0) return std::nullopt;
  const std::string& name = arguments.values[option].as<std::string>();
  if (name.empty()) return UsageError(absl::StrCat("--", option, " needs a file name"));
  return name;
}

}  // namespace

std::string Budget::Text() const {
  return ratio == 0.0 ? absl::StrCat(tokens) : absl::StrFormat("%g", ratio);
}

std::vector<std::string> WithMethods(const std::vector<std::string>& arguments) {
  constexpr std::string_view kCard = "--card";
  constexpr const char* kMethods = "--methods=";
  const bool lab = std::ranges::any_of(arguments, IsLabOption);
  std::vector<std::string> out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (absl::StartsWith(argument, "--card=")) {
      out.emplace_back(kCard);
      out.push_back(absl::StrCat(kMethods, argument.substr(kCard.size() + 1)));
      continue;
    }
    out.push_back(argument);
    if (argument != kCard || i + 1 == arguments.size()) continue;
    if (NamesMethods(arguments[i + 1], lab)) out.push_back(absl::StrCat(kMethods, arguments[++i]));
  }
  return out;
}

OptionGroup LabGroup() {
  OptionGroup lab = {"A card of methods, policies and codecs: --card=METHOD,...", {}};
  lab.options.add_options()  //
      ("methods", TextValue("METHOD,..."),
       "the same as --card=METHOD,...; default: all policies and codecs")  //
      ("budgets", TextValue("N,..."),
       "tokens that a policy keeps, or shares of the context: 256,0.25; default: a quarter and "
       "half of the longest length")  //
      ("tasks", TextValue("TASK,..."),
       "needle, needles, lookup, variables, copying, counting; all; none; default: all")  //
      ("lengths", TextValue("N,..."),
       "tokens of a task, its answer among them; 2k: 2048; default: 1k")                       //
      ("examples", TextValue("N", "5"), "puzzles of each task and length, by sampler.seed")    //
      ("report", TextValue("FILE"), "a page that shows the card, without a network")           //
      ("lines", TextValue("FILE"), "a line of JSON for each part of the work, as it is done")  //
      ("resume", "go on with the file of --lines: what it has is not run again");
  return lab;
}

absl::StatusOr<LabOptions> ReadLab(const Arguments& arguments) {
  LabOptions lab;
  lab.on = std::ranges::any_of(kLabOptions, [&](const char* option) {
    const auto& value = arguments.values[option];
    return !value.empty() && !value.defaulted();
  });
  if (!lab.on) return lab;
  NG_ASSIGN_OR_RETURN(lab.methods, ReadNames(arguments, "methods"));
  NG_ASSIGN_OR_RETURN(lab.tasks, ReadTasks(arguments));
  NG_ASSIGN_OR_RETURN(lab.lengths, ReadTokens(arguments, "lengths"));
  constexpr int64_t kUsualLength = 1024;
  if (lab.lengths.empty()) lab.lengths = {kUsualLength};
  NG_ASSIGN_OR_RETURN(lab.budgets, ReadBudgets(arguments));
  if (lab.budgets.empty()) {
    const int64_t longest = std::ranges::max(lab.lengths);
    lab.budgets = {{.tokens = std::max<int64_t>(1, longest / 4)},
                   {.tokens = std::max<int64_t>(2, longest / 2)}};
  }
  NG_ASSIGN_OR_RETURN(lab.examples,
                      ParseWholeNumber("examples", arguments.values["examples"].as<std::string>(),
                                       {1, kMostExamples}));
  NG_ASSIGN_OR_RETURN(lab.report, ReadFileName(arguments, "report"));
  NG_ASSIGN_OR_RETURN(lab.lines, ReadFileName(arguments, "lines"));
  lab.resume = arguments.values.count("resume") != 0;
  if (lab.resume && !lab.lines) {
    return UsageError("--resume needs --lines, the file with what is done");
  }
  return lab;
}

}  // namespace ng::eval
