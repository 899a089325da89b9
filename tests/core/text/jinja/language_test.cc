// The language, against what Python's Jinja makes of the same templates.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "core/text/jinja/template.h"
#include "tests/support/temp_dir.h"

namespace ng::jinja {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Lt;
using ::testing::SizeIs;
using Json = nlohmann::ordered_json;

absl::StatusOr<std::string> Rendered(const std::string& source, const Json& values = Json::object(),
                                     int64_t now = 0) {
  NG_ASSIGN_OR_RETURN(const Template parsed, Template::Parse(source, "t.jinja"));
  NG_ASSIGN_OR_RETURN(const Text text, parsed.Render({values, nullptr}, {now}));
  return text.bytes();
}

std::string ErrorOf(const std::string& source) {
  const auto run = Rendered(source);
  EXPECT_FALSE(run.ok()) << source << " gives " << *run;
  return run.ok() ? "" : std::string(run.status().message());
}

TEST(Language, IsThatOfPython) {
  std::ifstream file(NG_TEST_DATA "/jinja/cases.json");
  const Json data = Json::parse(file);
  ASSERT_GT(data["cases"].size(), 700U);
  for (const Json& example : data["cases"]) {
    const auto source = example["template"].get<std::string>();
    const auto run = Rendered(source, data["variables"], data["now"].get<int64_t>());
    if (example.contains("error")) {
      EXPECT_FALSE(run.ok()) << source << "\ngives " << *run;
    } else {
      ASSERT_TRUE(run.ok()) << source << "\n" << run.status();
      EXPECT_EQ(*run, example["output"].get<std::string>()) << source;
    }
  }
}

// As a program has it that embeds ng and calls setlocale.
class Locale {
 public:
  explicit Locale(const std::string& folder) {
    std::ofstream(folder + "/source") << R"(comment_char %
escape_char /
LC_NUMERIC
decimal_point ","
thousands_sep "."
grouping 3;3
END LC_NUMERIC
LC_TIME
abday "So";"Mo";"Di";"Mi";"Do";"Fr";"Sa"
day "Sonntag";"Montag";"Dienstag";"Mittwoch";"Donnerstag";"Freitag";"Samstag"
abmon "Jan";"Feb";"Mrz";"Apr";"Mai";"Jun";"Jul";"Aug";"Sep";"Okt";"Nov";"Dez"
mon "Jan";"Feb";"Mrz";"Apr";"Mai";"Jun";"Jul";"Aug";"Sep";"Okt";"Nov";"Dez"
d_t_fmt "%d.%m.%Y %T"
d_fmt "%d.%m.%Y"
t_fmt "%T"
am_pm "";""
t_fmt_ampm ""
END LC_TIME
)";
    const std::string compile =
        "localedef -c -i " + folder + "/source " + folder + "/xx_XX >/dev/null 2>&1";
    (void)std::system(compile.c_str());  // it warns of what the source does not have
    ::setenv("LOCPATH", folder.c_str(), 1);
    is_set_ = std::setlocale(LC_ALL, "xx_XX") != nullptr;
  }
  ~Locale() {
    std::setlocale(LC_ALL, "C");
    ::unsetenv("LOCPATH");
  }
  Locale(const Locale&) = delete;
  Locale& operator=(const Locale&) = delete;

  bool is_set() const { return is_set_; }

 private:
  bool is_set_ = false;
};

TEST(Language, DoesNotFollowTheLocaleOfTheProgram) {
  const test::TempDir folder;
  const Locale locale(folder.path());
  ASSERT_TRUE(locale.is_set());
  const auto of_program = [] {
    char text[8] = {};
    std::snprintf(text, sizeof(text), "%.1f", 1.5);
    return std::string(text);
  };
  ASSERT_EQ(of_program(), "1,5");
  constexpr int64_t kNow = 1764028800;  // a Tuesday
  EXPECT_EQ(*Rendered("{{ strftime_now('%A %d %b %x') }} {{ '%.1f' % 1.5 }} {{ 1.5 }}",
                      Json::object(), kNow),
            "Tuesday 25 Nov 11/25/25 1.5 1.5");
  EXPECT_EQ(of_program(), "1,5") << "as it was";
}

TEST(Language, NamesTemplateLineAndWhatWasMet) {
  EXPECT_THAT(ErrorOf("a\n{% nosuch %}"),
              AllOf(HasSubstr("t.jinja: line 2: unexpected \"nosuch\", must be one of if, for"),
                    HasSubstr("generation")));
  EXPECT_EQ(ErrorOf("\n\n{{ x|uper }}"),
            "t.jinja: line 3: unknown filter \"uper\"; did you mean upper?");
  EXPECT_EQ(ErrorOf("{{ 1 is strin }}"),
            "t.jinja: line 1: unknown test \"strin\"; did you mean string?");
  EXPECT_EQ(ErrorOf("{{ x.y }}"),
            "t.jinja: line 1: \"x\" is undefined, so it has no attribute \"y\"");
  EXPECT_EQ(ErrorOf("{{ 1 +\n\"a\" }}"),
            "t.jinja: line 2: \"+\" of an integer and a text is not possible");
  EXPECT_EQ(ErrorOf("{{ [1].append(2) }}"),
            "t.jinja: line 1: \"append\" would change a value, which templates may not, so it "
            "cannot be called");
  EXPECT_EQ(ErrorOf("{% if x %}"),
            "t.jinja: line 1: unexpected the end of the template, must be {% endif %}");
}

TEST(Language, TellsAUsersFaultFromATemplates) {
  EXPECT_EQ(ExitCode(Rendered("{{ raise_exception('No.') }}").status()), 2);
  EXPECT_EQ(ExitCode(Rendered("{{ 1 + '' }}").status()), 3);
  EXPECT_EQ(ErrorOf("{{ raise_exception('one\ntwo') }}"),
            "t.jinja: line 1: the template refuses the conversation: one two");
  // A long reason is cut between characters, of which each has two bytes here.
  std::string reason;
  for (int i = 0; i < 400; ++i) reason += "ф";
  EXPECT_THAT(ErrorOf("{{ raise_exception('" + reason + "') }}"),
              AllOf(HasSubstr("conversation: ф"), EndsWith("ф"), SizeIs(Lt(400U))));
}

TEST(Language, RefusesNumbersBeyond64Bits) {
  EXPECT_EQ(ErrorOf("{{ 9223372036854775807 + 1 }}"),
            "t.jinja: line 1: a number that does not fit 64 bits");
  EXPECT_THAT(ErrorOf("{{ 9223372036854775808 }}"), HasSubstr("an integer of 64 bits"));
  EXPECT_FALSE(Rendered("{{ x }}", {{"x", uint64_t{1} << 63}}).ok());
}

TEST(Language, RefusesBrokenUtf8) {
  EXPECT_FALSE(Rendered("\xFF").ok());
  EXPECT_EQ(ExitCode(Rendered("{{ x }}", {{"x", "\xC3"}}).status()), 2);
}

}  // namespace
}  // namespace ng::jinja
