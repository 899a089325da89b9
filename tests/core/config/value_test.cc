// What each type of option accepts, and how it refuses.
#include "core/config/value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/text.h"
#include "ng/list_item.h"
#include "tests/core/config/config_test_util.h"

namespace ng {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kInf = std::numeric_limits<double>::infinity();

// An option that is given `text` on line 3 of demo.ini.
absl::StatusOr<CheckedValue> Check(const OptionSpec& spec, const std::string& text) {
  const ConfigKey key = {"sampler.x.o", &spec};
  return CheckValue(key, {key.key, text, {ConfigOrigin::Kind::kFile, "demo.ini", 3}});
}

std::string CheckError(const OptionSpec& spec, const std::string& text) {
  const auto checked = Check(spec, text);
  if (checked.ok()) return "";
  EXPECT_EQ(ExitCode(checked.status()), 2);
  return std::string(checked.status().message());
}

OptionSpec Int(double min, double max) {
  return {"o", OptionType::kInt, "0", min, max, false, false, {}, ""};
}
OptionSpec Real(double min, double max, bool min_open, bool max_open) {
  return {"o", OptionType::kReal, "0", min, max, min_open, max_open, {}, ""};
}
OptionSpec List(int64_t min, int64_t max) {
  return IntListOption("o", "", {.min = min, .max = max}, "");
}
const OptionSpec kAnyInt = Int(-0x1p63, 0x1p63);
const OptionSpec kAnyReal = Real(-kInf, kInf, false, false);

TEST(IntValue, AcceptsEveryInt64) {
  EXPECT_EQ(Check(kAnyInt, "9223372036854775807")->value.integer, INT64_MAX);
  EXPECT_EQ(Check(kAnyInt, "-9223372036854775808")->value.integer, INT64_MIN);
  EXPECT_EQ(Check(kAnyInt, " 7\t")->value.integer, 7);
  EXPECT_EQ(Check(kAnyInt, " 7\t")->value.text, "7");
  EXPECT_EQ(Check(kAnyInt, "007")->value.integer, 7);
  EXPECT_EQ(Check(kAnyInt, "-0")->value.integer, 0);
}

TEST(IntValue, RejectsWhatIsNoInteger) {
  for (const char* text : {"", " ", "1e3", "0x10", "12abc", "1.0", "1 2", "+1", "--1", "true", "1,",
                           "\xD9\xA1", "1_000"}) {
    EXPECT_EQ(CheckError(Int(0, 1024), text),
              "demo.ini:3: sampler.x.o = " + (*text == '\0' ? std::string("(empty)") : text) +
                  ", must be an integer in [0, 1024]");
  }
}

TEST(IntValue, RejectsWhatIsOutOfRange) {
  EXPECT_EQ(CheckError(Int(0, 1024), "-1"), "demo.ini:3: sampler.x.o = -1, must be in [0, 1024]");
  EXPECT_EQ(CheckError(Int(0, 1024), "1025"),
            "demo.ini:3: sampler.x.o = 1025, must be in [0, 1024]");
  EXPECT_EQ(CheckError(Int(0, 0x1p63), "9223372036854775808"),
            "demo.ini:3: sampler.x.o = 9223372036854775808, must be in [0, 2^63)");
  EXPECT_EQ(CheckError(kAnyInt, "-9223372036854775809"),
            "demo.ini:3: sampler.x.o = -9223372036854775809, must be in [-2^63, 2^63)");
  EXPECT_THAT(CheckError(Int(0, 1e6), std::string(100, '9')), HasSubstr("must be in [0, 1000000]"));
}

TEST(IntValue, ComparesBoundsExactlyAboveTwoToThe53) {
  const OptionSpec spec = Int(0, 0x1p53);
  EXPECT_TRUE(Check(spec, "9007199254740992").ok());
  EXPECT_FALSE(Check(spec, "9007199254740993").ok());  // the same double
}

TEST(IntValue, ObservesOpenBounds) {
  OptionSpec spec = Int(0, 3);
  spec.min_open = true;
  spec.max_open = true;
  EXPECT_TRUE(Check(spec, "1").ok());
  EXPECT_THAT(CheckError(spec, "0"), HasSubstr("must be in (0, 3)"));
  EXPECT_THAT(CheckError(spec, "3"), HasSubstr("must be in (0, 3)"));
}

TEST(RealValue, AcceptsDecimalAndScientific) {
  EXPECT_DOUBLE_EQ(Check(kAnyReal, "0.95")->value.real, 0.95);
  EXPECT_DOUBLE_EQ(Check(kAnyReal, "-1e3")->value.real, -1000.0);
  EXPECT_DOUBLE_EQ(Check(kAnyReal, " .5 ")->value.real, 0.5);
  EXPECT_DOUBLE_EQ(Check(kAnyReal, "2")->value.real, 2.0);
  EXPECT_EQ(Check(kAnyReal, "0.1")->value.real, 0.1);
}

TEST(RealValue, RejectsWhatIsNoFiniteNumber) {
  for (const char* text :
       {"", "inf", "-inf", "nan", "infinity", "0x1p3", "0,5", "1.5x", "1 2", "e5", "+1"}) {
    EXPECT_THAT(CheckError(kAnyReal, text), HasSubstr("must be a number in (-inf, inf)")) << text;
  }
  EXPECT_THAT(CheckError(kAnyReal, "1e400"), HasSubstr("must be in (-inf, inf)"));
}

TEST(RealValue, ObservesOpenAndClosedBounds) {
  const OptionSpec mass = Real(0, 1, true, false);
  EXPECT_TRUE(Check(mass, "1").ok());
  EXPECT_TRUE(Check(mass, "1e-300").ok());
  EXPECT_EQ(CheckError(mass, "1.7"), "demo.ini:3: sampler.x.o = 1.7, must be in (0, 1]");
  EXPECT_EQ(CheckError(mass, "0"), "demo.ini:3: sampler.x.o = 0, must be in (0, 1]");
  EXPECT_EQ(CheckError(mass, "-0"), "demo.ini:3: sampler.x.o = -0, must be in (0, 1]");
  EXPECT_EQ(CheckError(Real(0, kInf, false, false), "-0.5"),
            "demo.ini:3: sampler.x.o = -0.5, must be in [0, inf)");
  EXPECT_THAT(CheckError(Real(0.5, 1, false, true), "1"), HasSubstr("must be in [0.5, 1)"));
}

TEST(RealValue, RefusesEverythingWhenTheTableHasNanBounds) {
  EXPECT_FALSE(Check(Real(std::nan(""), 1, false, false), "0.5").ok());
  EXPECT_FALSE(Check(Int(std::nan(""), 1), "0").ok());
}

TEST(BoolValue, AcceptsTrueAndFalseOnly) {
  const OptionSpec spec = BoolOption("o", true, "");
  EXPECT_TRUE(Check(spec, " true ")->value.boolean);
  EXPECT_FALSE(Check(spec, "false")->value.boolean);
  for (const char* text : {"", "True", "yes", "1", "0", "on", "truefalse"}) {
    EXPECT_THAT(CheckError(spec, text), HasSubstr("must be true or false")) << text;
  }
}

TEST(IntListValue, AcceptsCommasAndBlanks) {
  const OptionSpec spec = List(0, 99);
  EXPECT_THAT(Check(spec, "1,2 , 3\t4  5\n6")->value.List<int64_t>(),
              ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(Check(spec, " 7 ")->value.List<int64_t>(), ElementsAre(7));
  EXPECT_THAT(Check(spec, "  ")->value.List<int64_t>(), IsEmpty());
}

TEST(IntListValue, RejectsMissingAndWrongItems) {
  const OptionSpec spec = List(0, 99);
  for (const char* text : {",", "1,", ",1", "1,,2", "1, ,2"}) {
    EXPECT_THAT(CheckError(spec, text),
                HasSubstr("must be integers in [0, 99] separated by commas or blanks"))
        << text;
  }
  EXPECT_EQ(CheckError(spec, "1 2x 3"),
            "demo.ini:3: sampler.x.o = 1 2x 3, item 2x must be an integer in [0, 99]");
  EXPECT_EQ(CheckError(spec, "1;2"),
            "demo.ini:3: sampler.x.o = 1;2, item 1;2 must be an integer in [0, 99]");
  EXPECT_EQ(CheckError(spec, "1, 100"),
            "demo.ini:3: sampler.x.o = 1, 100, item 100 must be in [0, 99]");
  EXPECT_EQ(CheckError(spec, "-1"), "demo.ini:3: sampler.x.o = -1, item -1 must be in [0, 99]");
  EXPECT_THAT(CheckError(spec, "auto"), HasSubstr("item auto must be an integer"));
}

TEST(RealListValue, AcceptsAndRejectsAsRealsAndListsDo) {
  const OptionSpec spec = RealListOption("o", "0.5", {.min = 0, .max = 1, .min_open = true}, "");
  EXPECT_THAT(Check(spec, "0.1, 1e-3 1")->value.List<double>(), ElementsAre(0.1, 1e-3, 1.0));
  EXPECT_THAT(Check(spec, "")->value.List<double>(), IsEmpty());
  EXPECT_THAT(CheckError(spec, "0.5,,1"),
              HasSubstr("must be numbers in (0, 1] separated by commas or blanks"));
  EXPECT_EQ(CheckError(spec, "1, 0"), "demo.ini:3: sampler.x.o = 1, 0, item 0 must be in (0, 1]");
  EXPECT_EQ(CheckError(spec, "1 x"),
            "demo.ini:3: sampler.x.o = 1 x, item x must be a number in (0, 1]");
  EXPECT_EQ(CheckError(spec, "inf"),
            "demo.ini:3: sampler.x.o = inf, item inf must be a number in (0, 1]");
}

std::vector<std::string> Texts(const std::string& text) {
  const CheckedValue checked = Check(TextListOption("o", "", ""), text).value();
  const auto texts = checked.value.List<std::string_view>();
  return {texts.begin(), texts.end()};
}

TEST(TextListValue, IsSplitAtCommasAndUnescaped) {
  EXPECT_THAT(Texts("one"), ElementsAre("one"));
  EXPECT_THAT(Texts(" one , two words,*\t"), ElementsAre("one", "two words", "*"));
  EXPECT_THAT(Texts("\\n,a\\,b,\\\\,\\t"), ElementsAre("\n", "a,b", "\\", "\t"));
  EXPECT_THAT(Texts("\\ a,b\\ , \\ "), ElementsAre(" a", "b ", " "));
  EXPECT_THAT(Texts("\"a, \xC3\xA9"), ElementsAre("\"a", "\xC3\xA9"));
  EXPECT_THAT(Texts(""), IsEmpty());
  EXPECT_THAT(Texts(" \t"), IsEmpty());
}

TEST(TextListValue, ItemsAreReadBackAsTheTextsThatTheyWereMadeOf) {
  for (const std::string text :
       {"a", " ", "\n", "\t", "h, i", " a ", "\\", "\\n", "a\r b", "\xC3\xA9"}) {
    EXPECT_THAT(Texts(ListItem(text).value()), ElementsAre(text));
    EXPECT_THAT(Texts(Cat("x,", ListItem(text).value(), ",x")), ElementsAre("x", text, "x"));
  }
  for (const std::string& text :
       {std::string(), std::string("\r"), std::string("a\v"), std::string(1, '\0')}) {
    EXPECT_EQ(ListItem(text), std::nullopt);
  }
}

TEST(TextListValue, RejectsMissingTextsAndOtherEscapes) {
  const OptionSpec spec = TextListOption("o", "", "");
  for (const char* text : {",", "a,", ",a", "a,,b", "a, ,b"}) {
    EXPECT_EQ(CheckError(spec, text),
              Cat("demo.ini:3: sampler.x.o = ", text, ", must be texts separated by commas"));
  }
  for (const char* text : {"\\q", "a\\", "\\\\\\", "\\x41"}) {
    EXPECT_THAT(CheckError(spec, text), HasSubstr("must have n, t, a comma, a blank or a backslash "
                                                  "after a backslash"))
        << text;
  }
}

TEST(TextListValue, CopiesShareTheTexts) {
  std::vector<CheckedValue> copies;
  {
    const CheckedValue checked = Check(TextListOption("o", "", ""), "a,b").value();
    copies.assign(3, checked);
  }
  for (const CheckedValue& copy : copies) {
    EXPECT_THAT(copy.value.List<std::string_view>(), ElementsAre("a", "b"));
  }
}

TEST(DefaultEntry, WritesNumbersAsTheyAreRead) {
  const auto text = [](const OptionSpec& spec) { return DefaultEntry({"x.o", &spec}).text; };
  EXPECT_EQ(text(IntOption("o", -9223372036854775807 - 1, {}, "")), "-9223372036854775808");
  EXPECT_EQ(text(RealOption("o", 0.95, {.min = 0}, "")), "0.95");
  EXPECT_EQ(text(RealOption("o", 1, {}, "")), "1");
  EXPECT_EQ(text(RealOption("o", 1e-9, {}, "")), "1e-09");
  EXPECT_EQ(text(BoolOption("o", false, "")), "false");
  EXPECT_EQ(text(TextListOption("o", "a, b", "")), "a, b");
}

TEST(OptionBuilders, RefuseADefaultOutOfItsBounds) {
  EXPECT_THROW(IntOption("o", 0, {.min = 1}, ""), std::logic_error);
  EXPECT_THROW(IntOption("o", 3, {.max = 2}, ""), std::logic_error);
  EXPECT_THROW(RealOption("o", 0, {.min = 0, .min_open = true}, ""), std::logic_error);
  EXPECT_THROW(RealOption("o", 1, {.max = 1, .max_open = true}, ""), std::logic_error);
  EXPECT_THROW(RealOption("o", std::nan(""), {}, ""), std::logic_error);
}

TEST(TextValue, IsTakenAsItIs) {
  const OptionSpec spec = TextOption("o", "", "");
  EXPECT_EQ(Check(spec, " a\n ")->value.text, " a\n ");
}

TEST(TextValue, RejectsWhatIsNoChoice) {
  const OptionSpec spec = ChoiceOption("o", "a", "a|bc", "");
  EXPECT_EQ(Check(spec, "bc")->value.text, "bc");
  for (const char* text : {"", "b", "A", "a|bc", " a"}) {
    EXPECT_THAT(CheckError(spec, text), HasSubstr("must be one of a, bc")) << text;
  }
}

struct BadSetting {
  std::string setting;  // key=value
  std::string message;  // after "--key=value: "
};

class CoreKeyRejects : public testing::TestWithParam<BadSetting> {};

TEST_P(CoreKeyRejects, BothInAFileAndOnTheCommandLine) {
  const auto& [setting, message] = GetParam();
  const auto overridden = BuildConfig("", {setting});
  ASSERT_FALSE(overridden.ok());
  EXPECT_EQ(ExitCode(overridden.status()), 2);
  EXPECT_EQ(std::string(overridden.status().message()), "--" + setting + ": " + message);

  const size_t dot = setting.find('.');
  const size_t equals = setting.find('=');
  const auto written =
      BuildConfig(Cat("[", setting.substr(0, dot), "]\n", setting.substr(dot + 1), "\n"));
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(std::string(written.status().message()),
            "/etc/demo.ini:2: " + setting.substr(0, equals) + " = " + setting.substr(equals + 1) +
                ", " + message);
}

INSTANTIATE_TEST_SUITE_P(
    BadValues, CoreKeyRejects,
    testing::Values(
        BadSetting{"model.weights=q4_0",
                   "must be one of auto, f32, bf16, f16, int8, int4, mxfp4; did you mean int4?"},
        BadSetting{"model.weights=fp16",
                   "must be one of auto, f32, bf16, f16, int8, int4, mxfp4; did you mean f16?"},
        BadSetting{"cache.codec=bfloat16",
                   "must be one of f32, bf16, f16, int8, int4; did you mean bf16?"},
        BadSetting{"cache.codec=auto", "must be one of f32, bf16, f16, int8, int4"},
        BadSetting{"cache.codec_k=q8",
                   "must be one of f32, bf16, f16, int8, int4, or empty; did you mean int8?"},
        BadSetting{"cache.codec_v=F16",
                   "must be one of f32, bf16, f16, int8, int4, or empty; did you mean f16?"},
        BadSetting{"cache.max_tokens=-1", "must be in [0, 2^63)"},
        BadSetting{"cache.max_sequences=2147483648", "must be in [0, 2147483647]"},
        BadSetting{"sampler.chain=top_k,", "must be names separated by commas"},
        BadSetting{"sampler.seed=-1", "must be in [0, 2^63)"},
        BadSetting{"run.max_new_tokens=many", "must be auto or an integer in [-2^63, 2^63)"},
        BadSetting{"run.stop_ids=none", "item none must be an integer in [0, 2147483647]"},
        BadSetting{"run.stop_ids=auto 2", "item auto must be an integer in [0, 2147483647]"},
        BadSetting{"run.stop_ids=1,",
                   "must be auto or integers in [0, 2147483647] separated by "
                   "commas or blanks"},
        BadSetting{"run.use_cache=no", "must be true or false"},
        BadSetting{"run.prefill_chunk=-5", "must be in [0, 2^63)"},
        BadSetting{"run.threads=1025", "must be in [0, 1024]"},
        BadSetting{"run.isa=avx3",
                   "must be one of auto, scalar, avx2, avx_vnni, avx512, "
                   "avx512_vnni, avx512_bf16; did you mean avx2?"}));

TEST(CoreKey, RejectsAnEmptyChain) {
  EXPECT_EQ(std::string(BuildConfig("", {"sampler.chain="}).status().message()),
            "--sampler.chain=(empty): must be names separated by commas");
}

TEST(CoreKey, AcceptsTheEndsOfItsRange) {
  const auto config = BuildConfig(
      "", {"run.max_new_tokens=-9223372036854775808", "sampler.seed=9223372036854775807",
           "run.threads=1024", "cache.codec_k=int8", "cache.codec_v="});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->Int("run.max_new_tokens"), INT64_MIN);
  EXPECT_EQ(config->Int("sampler.seed"), INT64_MAX);
  EXPECT_EQ(config->Text("cache.codec_k"), "int8");
  EXPECT_EQ(config->Text("cache.codec_v"), "");
}

TEST(EntryError, ShowsLongAndBinaryValuesOnOneShortLine) {
  const std::string text = "x\n" + std::string(77, 'y') + "\xC3\xA9" + std::string(1000, 'z');
  const std::string message = CheckError(Int(0, 1), text);
  EXPECT_THAT(message, HasSubstr("= x\\n" + std::string(77, 'y') + "... (1081 bytes), must be"));
}

}  // namespace
}  // namespace ng
