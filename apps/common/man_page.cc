#include "apps/common/man_page.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "ng/exit_codes.h"

namespace ng {
namespace {

constexpr char kEnvironment[] = R"(.SH ENVIRONMENT
.TP
.B NG_ISA
the instruction set level, where the config says nothing of it:
.BR scalar ", " avx2 ", " avx_vnni ", " avx512 ", " avx512_vnni " or " avx512_bf16
.TP
.B NO_COLOR
no colors on a terminal
)";

// Text as roff shows it: a '-' that can be copied, and no line that is a command.
std::string Escaped(std::string_view text) {
  std::string out =
      absl::StrReplaceAll(absl::string_view(text.data(), text.size()), {{"\\", "\\e"},
                                                                        {"-", "\\-"},
                                                                        {"'", "\\(aq"},
                                                                        {"`", "\\(ga"},
                                                                        {"^", "\\(ha"},
                                                                        {"~", "\\(ti"}});
  if (out.starts_with('.')) out.insert(0, "\\&");
  return out;
}

// A paragraph in the source: a new line after each sentence, as roff has it.
std::string Paragraph(std::string_view text) {
  return absl::StrCat(absl::StrReplaceAll(Escaped(text), {{". ", ".\n"}}), "\n");
}

void AddSynopsis(const Manual& manual, std::string* out) {
  absl::StrAppend(out, ".SH SYNOPSIS\n");
  bool first = true;
  for (const std::string& use : manual.uses) {
    const size_t name_end = std::min(use.find(' '), use.size());
    absl::StrAppend(out, first ? "" : ".br\n", ".B ", Escaped(use.substr(0, name_end)), "\n");
    if (name_end < use.size()) absl::StrAppend(out, Escaped(use.substr(name_end + 1)), "\n");
    first = false;
  }
}

void AddOptions(const Manual& manual, std::string* out) {
  absl::StrAppend(out, ".SH OPTIONS\n");
  for (const OptionGroup& group : manual.groups) {
    absl::StrAppend(out, ".SS ", Escaped(group.caption), "\n");
    for (const auto& option : group.options.options()) {
      const OptionText text = TextOf(*option);
      absl::StrAppend(out, ".TP\n\\fB", Escaped(text.name), "\\fR");
      if (!text.value.empty()) absl::StrAppend(out, " \\fI", Escaped(text.value), "\\fR");
      absl::StrAppend(out, "\n", Escaped(text.help), "\n");
      if (!text.default_value.empty()) {
        absl::StrAppend(out, "(default: ", Escaped(text.default_value), ")\n");
      }
    }
  }
}

void AddKey(const KnownKey& key, std::string* out) {
  absl::StrAppend(out, ".TP\n\\fB", Escaped(key.key), "\\fR =");
  if (!key.default_value.empty()) absl::StrAppend(out, " ", Escaped(key.default_value));
  absl::StrAppend(out, "\n");
  if (!key.help.empty()) absl::StrAppend(out, Escaped(key.help), "\n");
  absl::StrAppend(out, "(", Escaped(key.allowed), ")\n");
}

void AddSpellings(const Manual& manual, std::string* out) {
  absl::StrAppend(out, Paragraph("Other programs' names for keys do what is meant: --temp 0.2 "
                                 "or --temp=0.2."));
  for (const SpellingText& text : SpellingTexts(manual)) {
    absl::StrAppend(out, ".TP\n\\fB", Escaped(text.names), "\\fR\n", Escaped(text.meaning), "\n");
  }
}

// The engine's keys by sections, then each plugin with its own.
void AddKeys(const Manual& manual, const KnownParts& parts, std::string* out) {
  absl::StrAppend(
      out, ".SH CONFIG KEYS\n",
      Paragraph("A config file has them in sections: [run] and then threads = 4. On the "
                "command line it is --run.threads=4. Each key is shown with its "
                "default."));
  AddSpellings(manual, out);
  std::string_view section;
  for (const KnownKey& key : parts.keys) {
    if (std::ranges::count(key.key, '.') > 1) continue;  // a plugin's
    const std::string_view own = std::string_view(key.key).substr(0, key.key.find('.'));
    if (own != section) {
      absl::StrAppend(out, ".SS ", Escaped(absl::StrCat("[", std::string(own), "]")), "\n");
    }
    section = own;
    AddKey(key, out);
  }
  absl::StrAppend(
      out, ".SH PLUGINS\n",
      Paragraph("These come with ng, each with its own keys. ng-run --list-plugins shows "
                "all that are found."));
  for (const KnownPlugin& plugin : parts.plugins) {
    absl::StrAppend(out, ".SS ", Escaped(absl::StrCat(plugin.kind, " ", plugin.name)), "\n",
                    Escaped(plugin.summary), "\n");
    const std::string prefix = absl::StrCat(plugin.kind, ".", plugin.name, ".");
    for (const KnownKey& key : parts.keys) {
      if (key.key.starts_with(prefix)) AddKey(key, out);
    }
  }
}

}  // namespace

std::string ManPage(const Manual& manual, const KnownParts& parts) {
  const std::string name = manual.program;
  std::string out = absl::StrCat(".TH ", absl::AsciiStrToUpper(Escaped(name)), " 1 \"\" \"ng ",
                                 NG_VERSION, "\" \"User commands\"\n.SH NAME\n", Escaped(name),
                                 " \\- ", Escaped(manual.summary), "\n");
  AddSynopsis(manual, &out);
  if (!manual.notes.empty()) absl::StrAppend(&out, ".SH DESCRIPTION\n");
  for (const std::string& note : manual.notes) {
    absl::StrAppend(&out, &note == manual.notes.data() ? "" : ".PP\n", Paragraph(note));
  }
  if (!manual.examples.empty()) {
    absl::StrAppend(&out, ".SH EXAMPLES\n.nf\n");
    for (const std::string& example : manual.examples) {
      absl::StrAppend(&out, Escaped(example), "\n");
    }
    absl::StrAppend(&out, ".fi\n");
  }
  AddOptions(manual, &out);
  if (manual.keys == ConfigKeys::kDescribed) AddKeys(manual, parts, &out);
  absl::StrAppend(&out, ".SH EXIT STATUS\n");
  for (const ExitMeaning& exit : ExitMeanings()) {
    absl::StrAppend(&out, ".TP\n.B ", exit.code, "\n", Escaped(exit.meaning), "\n");
  }
  absl::StrAppend(&out, kEnvironment);
  if (manual.keys == ConfigKeys::kTaken) {
    absl::StrAppend(&out, ".SH SEE ALSO\n.BR ng\\-run (1),\nwhich describes the config keys\n");
  }
  return out;
}

}  // namespace ng
