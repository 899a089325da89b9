#include "apps/common/manual.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "apps/common/columns.h"
#include "ng/spellings.h"

namespace ng {

namespace po = boost::program_options;

po::typed_value<std::string>* TextValue(const char* name) {
  return po::value<std::string>()->value_name(name);
}

po::typed_value<std::string>* TextValue(const char* name, const char* value) {
  return TextValue(name)->default_value(value);
}

OptionGroup AboutOptions(const char* help, const char* verbose) {
  OptionGroup about = {"About", {}};
  about.options.add_options()                                               //
      ("quiet", "nothing on stderr but errors; also -q")                    //
      ("verbose", verbose)                                                  //
      ("help", help)                                                        //
      ("version", "version, instruction set level, build tag")              //
      ("completion", TextValue("bash|zsh|fish"),                            //
       "a script that completes the program's command line in this shell")  //
      ("man-page", "the program's man page, as man reads it");
  return about;
}

About ReadAbout(const po::variables_map& values) {
  About about;
  about.quiet = values.count("quiet") != 0;
  about.verbose = values.count("verbose") != 0;
  about.help = values.count("help") != 0;
  about.version = values.count("version") != 0;
  about.man_page = values.count("man-page") != 0;
  if (values.count("completion") != 0) about.completion = values["completion"].as<std::string>();
  return about;
}

po::options_description OptionsOf(const Manual& manual) {
  po::options_description all;
  for (const OptionGroup& group : manual.groups) all.add(group.options);
  return all;
}

std::vector<SpellingText> SpellingTexts(const Manual& manual) {
  std::vector<SpellingText> texts;
  for (const Spelling& spelling : Spellings()) {
    if (spelling.key.empty()) continue;
    SpellingText& text = texts.emplace_back();
    for (const std::string_view name : spelling.Names()) {
      const bool own = std::ranges::any_of(manual.short_forms, [&](const ShortForm& form) {
        return name == std::string_view(&form.letter, 1);
      });
      if (own) continue;
      absl::StrAppend(&text.names, text.names.empty() ? "" : ", ", name.size() > 1 ? "--" : "-",
                      std::string(name));
    }
    text.meaning = spelling.key;
    const std::string stage(spelling.stage);
    if (!stage.empty()) absl::StrAppend(&text.meaning, "; ", stage, " joins sampler.chain");
  }
  return texts;
}

std::string OptionText::Left() const {
  return absl::StrCat(name, value.empty() ? "" : " ", value,
                      default_value.empty() ? "" : absl::StrCat(" (=", default_value, ")"));
}

OptionText TextOf(const po::option_description& option) {
  OptionText text = {absl::StrCat("--", option.long_name()), "", "", option.description()};
  if (option.semantic()->max_tokens() == 0) return text;
  // "FILE", or "text|jsonl (=text)".
  text.value = option.semantic()->name();
  constexpr char kDefault[] = " (=";
  const size_t end = text.value.find(kDefault);
  if (end == text.value.npos) return text;
  text.default_value = text.value.substr(end + sizeof(kDefault) - 1);
  text.default_value.pop_back();
  text.value.resize(end);
  return text;
}

namespace {

// A command line as a shell reads it in several lines: what is quoted stays in one.
std::string ShellLines(std::string_view command, size_t width) {
  constexpr const char* kQuotedBlank = "\u00A0";
  constexpr size_t kIndent = 6;
  std::string words;
  char quote = 0;
  for (const char c : command) {
    if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    }
    words += c == ' ' && quote != 0 ? kQuotedBlank : std::string(1, c);
  }
  return absl::StrReplaceAll(Wrapped(words, kIndent, width),
                             {{"\n", " \\\n"}, {kQuotedBlank, " "}});
}

}  // namespace

std::string UsageText(const Manual& manual, int width) {
  constexpr size_t kMostLeft = 34;
  constexpr size_t kGap = 2;
  const auto columns = static_cast<size_t>(width);
  std::string out;
  for (const std::string& use : manual.uses) {
    absl::StrAppend(&out, out.empty() ? "usage: " : "       ", Wrapped(use, 11, columns), "\n");
  }
  for (const std::string& note : manual.notes) {
    absl::StrAppend(&out, Wrapped(note, 0, columns), "\n");
  }
  if (!manual.examples.empty()) out += "\nexamples:\n";
  for (const std::string& example : manual.examples) {
    absl::StrAppend(&out, "  ", ShellLines(example, columns - 2), "\n");
  }
  for (const OptionGroup& group : manual.groups) {
    std::vector<TextRow> rows;
    size_t left = 0;
    for (const auto& option : group.options.options()) {
      const OptionText text = TextOf(*option);
      rows.push_back({text.Left(), text.help});
      const size_t size = 2 + rows.back().left.size() + kGap;
      if (size <= kMostLeft) left = std::max(left, size);
    }
    absl::StrAppend(&out, "\n", group.caption, ":\n", TwoColumns(rows, left, columns));
  }
  if (manual.keys == ConfigKeys::kTaken) {
    absl::StrAppend(&out, "\n",
                    Wrapped("Config keys are written --section.key=value, or as other programs "
                            "spell them: --temp, --ctx-size. ng-run --help all lists both.",
                            0, columns),
                    "\n");
  }
  if (manual.keys != ConfigKeys::kDescribed) return out;
  std::vector<TextRow> rows;
  for (SpellingText& text : SpellingTexts(manual)) {
    rows.push_back({std::move(text.names), std::move(text.meaning)});
  }
  absl::StrAppend(&out, "\nConfig keys, as other programs spell them:\n",
                  TwoColumns(rows, kMostLeft, columns));
  return out;
}

}  // namespace ng
