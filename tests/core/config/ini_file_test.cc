#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <time.h>  // clock_gettime

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/config/config.h"
#include "core/config/text.h"
#include "tests/core/config/config_test_util.h"

namespace ng {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::StartsWith;

using KeysAndValues = std::vector<std::pair<std::string, std::string>>;

KeysAndValues Parsed(std::string_view text) {
  const auto entries = ParseIni(text, "demo.ini");
  EXPECT_TRUE(entries.ok()) << entries.status();
  KeysAndValues pairs;
  if (!entries.ok()) return pairs;
  for (const ConfigEntry& entry : *entries) pairs.emplace_back(entry.key, entry.text);
  return pairs;
}

TEST(IniFile, JoinsSectionAndKey) {
  EXPECT_THAT(Parsed("[run]\nthreads = 2\n[sampler]\nseed=7\ntop_k.k = 50\n"),
              ElementsAre(Pair("run.threads", "2"), Pair("sampler.seed", "7"),
                          Pair("sampler.top_k.k", "50")));
}

TEST(IniFile, AcceptsDottedSectionsAndReturningToASection) {
  EXPECT_THAT(Parsed("[sampler.top_k]\nk = 50\n[run]\na = 1\n[ run ]\nb = 2\n"),
              ElementsAre(Pair("sampler.top_k.k", "50"), Pair("run.a", "1"), Pair("run.b", "2")));
}

TEST(IniFile, AcceptsEmptyTextBlankLinesAndComments) {
  EXPECT_THAT(Parsed(""), IsEmpty());
  EXPECT_THAT(Parsed("\n  \n# note\n\t# note = 1\n[run] # note\n#[x]"), IsEmpty());
}

TEST(IniFile, AcceptsCrLfAndAMissingLastLineEnd) {
  EXPECT_THAT(Parsed("[run]\r\na = 1\r\n\r\nb = \"x\"\r\nc = 2"),
              ElementsAre(Pair("run.a", "1"), Pair("run.b", "x"), Pair("run.c", "2")));
}

TEST(IniFile, KeepsEmptyValuesAndEqualsSigns) {
  EXPECT_THAT(Parsed("[run]\nstop_ids =\na = b = c\nd == \n"),
              ElementsAre(Pair("run.stop_ids", ""), Pair("run.a", "b = c"), Pair("run.d", "=")));
}

TEST(IniFile, CutsACommentAfterABlank) {
  EXPECT_THAT(Parsed("[s]\nids = 1 2 # note\nb = # none\nc = x\t#y#z = \"\n"),
              ElementsAre(Pair("s.ids", "1 2"), Pair("s.b", ""), Pair("s.c", "x")));
}

TEST(IniFile, KeepsBlanksHashesAndEscapesOfQuotedValues) {
  EXPECT_THAT(Parsed("[s]\n"
                     "a = \" C# # \\\"x\\\" \\\\ \\n\\t\" # note\n"
                     "b = \"\"\n"
                     "c=\"1\"#note\n"
                     "d = \"\\101\\x42\"\n"
                     "e = say \"hi\"\n"),
              ElementsAre(Pair("s.a", " C# # \"x\" \\ \n\t"), Pair("s.b", ""), Pair("s.c", "1"),
                          Pair("s.d", "AB"), Pair("s.e", "say \"hi\"")));
}

TEST(IniFile, KeepsBytesAboveAscii) {
  EXPECT_THAT(Parsed("[s]\na = h\xC3\xA9\xFF\n"), ElementsAre(Pair("s.a", "h\xC3\xA9\xFF")));
}

TEST(IniFile, RecordsFileAndLine) {
  const auto entries = ParseIni("# one\n[run]\n\nthreads = 2\n", "dir/demo.ini");
  ASSERT_TRUE(entries.ok());
  ASSERT_EQ(entries->size(), 1U);
  EXPECT_EQ((*entries)[0].origin.kind, ConfigOrigin::Kind::kFile);
  EXPECT_EQ((*entries)[0].origin.ToString(), "dir/demo.ini:4");
}

struct BadIni {
  std::string text;
  std::string message;
};

void PrintTo(const BadIni& bad, std::ostream* out) { *out << testing::PrintToString(bad.text); }

class IniFileRejects : public testing::TestWithParam<BadIni> {};

TEST_P(IniFileRejects, WithFileAndLine) {
  const auto entries = ParseIni(GetParam().text, "demo.ini");
  ASSERT_FALSE(entries.ok());
  EXPECT_EQ(ExitCode(entries.status()), 2);
  const std::string message(entries.status().message());
  EXPECT_THAT(message, StartsWith(GetParam().message));
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_LT(message.size(), 300U) << message;
}

INSTANTIATE_TEST_SUITE_P(
    BadLines, IniFileRejects,
    testing::Values(
        BadIni{"\xEF\xBB\xBF[run]\n", "demo.ini:1: begins with a UTF-8 byte order mark (BOM)"},
        BadIni{std::string("\xFF\xFE[\0r\0", 6), "demo.ini:1: control character 0 in column 4"},
        BadIni{std::string("[run]\na = \0\n", 12),
               "demo.ini:2: control character 0 in column 5, must be plain text (a NUL byte"},
        BadIni{"[run]\na = 1\rb = 2\n", "demo.ini:2: control character 13 in column 6"},
        BadIni{"[run]\na = \x7F", "demo.ini:2: control character 127"},
        BadIni{"[run]\n; note\n", "demo.ini:2: ';' does not begin a comment; use '#'"},
        BadIni{"[run]\n\nthreads\n", "demo.ini:3: 'threads', must be 'key = value' or '[section]'"},
        BadIni{"[run]\nthreads # = 2\n", "demo.ini:2: 'threads', must be 'key = value'"},
        BadIni{"[run]\nthreads # = \"2\"\n", "demo.ini:2: 'threads', must be 'key = value'"},
        BadIni{"[run]\n" + std::string(5000, 'x'), "demo.ini:2: 'xxxx"},
        BadIni{"seed = 1\n", "demo.ini:1: key seed outside a section, must stand below"},
        BadIni{"seed = \"1\"\n", "demo.ini:1: key seed outside a section"},
        BadIni{"[]\n", "demo.ini:1: section name (empty), must not be empty"},
        BadIni{"[ ]\n", "demo.ini:1: section name (empty), must not be empty"},
        BadIni{"[a b]\n", "demo.ini:1: section name a b, must be made of letters"},
        BadIni{"[a[b]\n", "demo.ini:1: section name a[b, must be made of letters"},
        BadIni{"[" + std::string(201, 'a') + "]\n", "demo.ini:1: section name aaaa"},
        BadIni{"[run\n", "demo.ini:1: section header '[run', must be '[section]'"},
        BadIni{"[run]]\n", "demo.ini:1: section header '[run]]', must be '[section]'"},
        BadIni{"[run] a = 1\n", "demo.ini:1: section header '[run] a = 1', must be '[section]'"},
        BadIni{"[\n", "demo.ini:1: section header '[', must be '[section]'"},
        BadIni{"[run]\n= 5\n", "demo.ini:2: key (empty), must not be empty"},
        BadIni{"[run]\n= \"5\"\n", "demo.ini:2: key (empty), must not be empty"},
        BadIni{"[run]\na b = 5\n", "demo.ini:2: key a b, must be made of letters, digits"},
        BadIni{"[run]\n\"a\" = 5\n", "demo.ini:2: key \"a\", must be made of letters, digits"},
        BadIni{"[run]\n" + std::string(201, 'k') + " = 5\n", "demo.ini:2: key kkkk"},
        BadIni{"[run]\na = 1\n# x\na = 2\n",
               "demo.ini:4: key run.a is given twice, first on line 2"},
        BadIni{"[s.t]\nk = 1\n[s]\nt.k = 1\n",
               "demo.ini:4: key s.t.k is given twice, first on line 2"},
        BadIni{"[run]\nsystem = You speak C# well\n", "demo.ini:2: '#' in column 21, must have"},
        BadIni{"[run]\nids =#\n", "demo.ini:2: '#' in column 6, must have a blank before it"},
        BadIni{"[run]#\n", "demo.ini:1: '#' in column 6, must have a blank before it"},
        BadIni{"[run]\na = \"x\n", "demo.ini:2: value \"x, must end with a quote"},
        BadIni{"[run]\na = \"x\\\"\n", "demo.ini:2: value \"x\\\", must end with a quote"},
        BadIni{"[run]\na = \"x\\", "demo.ini:2: value \"x\\, must end with a quote"},
        BadIni{"[run]\na = \"", "demo.ini:2: value \", must end with a quote"},
        BadIni{"[run]\na = \"x\" y\n", "demo.ini:2: 'y' after a quoted value, must be a comment"},
        BadIni{"[run]\na = \"C:\\models\"\n", "demo.ini:2: value \"C:\\models\": "},
        BadIni{"[run]\na = \"x\\000\"\n", "demo.ini:2: value \"x\\000\", must not hold a NUL"}));

TEST(IniFile, ReadsAFileFromDisk) {
  const test::TempDir folder;
  const std::string file = folder.Write("demo.ini", "[run]\nthreads = 2\n");
  const auto entries = ReadIniFile(file);
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), 1U);
  EXPECT_EQ((*entries)[0].origin.ToString(), file + ":2");
}

TEST(IniFile, NamesTheFileInErrors) {
  const test::TempDir folder;
  const std::string file = folder.Write("demo.ini", "[run]\nthreads\n");
  EXPECT_THAT(std::string(ReadIniFile(file).status().message()), StartsWith(file + ":2: "));
}

void ExpectUnreadable(const std::string& path, const std::string& why) {
  const auto entries = ReadIniFile(path);
  ASSERT_FALSE(entries.ok()) << path;
  EXPECT_EQ(ExitCode(entries.status()), 2);
  EXPECT_THAT(std::string(entries.status().message()),
              StartsWith("config file " + path + ": " + why));
}

TEST(IniFile, RejectsWhatIsNoReadableFile) {
  const test::TempDir folder;
  const std::string file = folder.Write("demo.ini", "");
  ExpectUnreadable(folder.File("absent.ini"), "no such file");
  ExpectUnreadable("", "no such file");
  ExpectUnreadable(folder.path(), "is a folder");
  ExpectUnreadable("/dev/null", "is not a regular file");
  ExpectUnreadable("/dev/zero", "is not a regular file");
  ExpectUnreadable(file + "/below", "no such file");
  ExpectUnreadable(folder.File(std::string(300, 'x')), "cannot open: File name");
  std::filesystem::create_symlink("loop", folder.File("loop"));
  ExpectUnreadable(folder.File("loop"), "cannot open: Too many levels");
  ExpectUnreadable("/proc/self/mem", "cannot read: ");  // opens, then fails to read
}

TEST(IniFile, RejectsAFileTooLargeToBeAConfig) {
  const test::TempDir folder;
  const std::string line = "# " + std::string(1021, 'x') + "\n";
  std::string text;
  for (int i = 0; i < 4096; ++i) text += line;
  EXPECT_TRUE(ReadIniFile(folder.Write("4MiB.ini", text)).ok());
  ExpectUnreadable(folder.Write("large.ini", text + "\n"),
                   "has 4194305 bytes, must have at most 4194304");
}

TEST(IniFile, AcceptsAVeryLongLine) {
  const std::string value(1 << 20, 'x');
  EXPECT_THAT(Parsed("[run]\nsystem = " + value + "\n"), ElementsAre(Pair("run.system", value)));
}

// Processor time of this thread, which other programs on the machine do not count towards.
double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Seconds to parse a section of `n` keys; the best of three.
double ParseSeconds(int n) {
  std::string text = "[s]\n";
  for (int i = 0; i < n; ++i) text += Cat("k", std::to_string(i), " = 1\n");
  double best = 1e9;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const double start = ThreadSeconds();
    EXPECT_TRUE(ParseIni(text, "demo.ini").ok());
    best = std::min(best, ThreadSeconds() - start);
  }
  return best;
}

TEST(IniFile, TakesTimeLinearInTheNumberOfKeys) {
  const double small = ParseSeconds(1000);
  const double large = ParseSeconds(16000);
  EXPECT_LT(large, 80 * small);  // 16 if linear, 256 if quadratic
}

RC_GTEST_PROP(IniFileProperty, AnyBytesGiveEntriesOrOneLine, ()) {
  const auto pieces = *rc::gen::container<std::vector<std::string>>(rc::gen::oneOf(
      rc::gen::container<std::string>(rc::gen::arbitrary<char>()),
      rc::gen::element<std::string>("[", "]", "[s]\n", "=", "a = ", "\"", "\\", "#", " ", "\n",
                                    "\r\n", ";", "\xEF\xBB\xBF", "\\x", "\\7", "k=1\n")));
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  const auto entries = ParseIni(text, "demo.ini");
  if (entries.ok()) {
    for (const ConfigEntry& entry : *entries) {
      RC_ASSERT(entry.key.find('.') != std::string::npos);
      RC_ASSERT(entry.text.find('\0') == std::string::npos);
    }
  } else {
    const std::string message(entries.status().message());
    RC_ASSERT(message.starts_with("demo.ini:"));
    RC_ASSERT(message.find('\n') == std::string::npos);
  }
}

}  // namespace
}  // namespace ng
