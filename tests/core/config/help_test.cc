#include "core/config/help.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/core/config/config_test_util.h"

namespace ng {
namespace {

using ::testing::HasSubstr;

TEST(OptionHelp, ShowsKeyDefaultHelpAndAllowedValues) {
  const std::string help = FormatOptionHelp(CoreConfigKeys());
  EXPECT_THAT(help, HasSubstr("\n[run]\n  run.max_new_tokens = auto\n"));
  EXPECT_THAT(
      help,
      HasSubstr("  run.threads = 0\n"
                "      worker threads; 0: one per physical core, within the CPU quota (an integer\n"
                "      in [0, 1024])\n"));
  EXPECT_THAT(help, HasSubstr("  model.path =\n"));
  EXPECT_THAT(help, HasSubstr("(one of auto, f32,\n      bf16, f16, int8, int4, mxfp4)"));
}

TEST(OptionHelp, MentionsEveryKeyOnce) {
  const std::vector<ConfigKey> keys = KeysWithPlugins();
  const std::string help = FormatOptionHelp(keys);
  for (const ConfigKey& key : keys) {
    const std::string line = "\n  " + key.key + " =";
    const size_t first = help.find(line);
    ASSERT_NE(first, std::string::npos) << key.key;
    EXPECT_EQ(help.find(line, first + 1), std::string::npos) << key.key;
    EXPECT_THAT(
        help,
        HasSubstr(key.spec->help == nullptr ? "" : std::string(key.spec->help).substr(0, 20)));
  }
}

TEST(OptionHelp, PutsPluginOptionsIntoTheirSection) {
  const std::string help = FormatOptionHelp(KeysWithPlugins());
  EXPECT_LT(help.find("sampler.top_p.p = 0.95"), help.find("[run]"));
  EXPECT_THAT(help, HasSubstr("probability mass that is kept (a number in (0, 1])"));
}

TEST(OptionHelp, WrapsAtEightyColumns) {
  std::string words = "word";
  for (int i = 0; i < 100; ++i) words += " word";
  words += " " + std::string(150, 'x');
  const OptionSpec spec = TextOption("o", "", words.c_str());
  const ConfigKey key = {"sampler.p.o", &spec};
  std::istringstream lines(FormatOptionHelp({&key, 1}));
  std::string line;
  size_t longest = 0;
  int words_seen = 0;
  while (std::getline(lines, line)) {
    if (line.find("xxx") != std::string::npos) {
      EXPECT_EQ(line, std::string(6, ' ') + std::string(150, 'x'));  // alone: it cannot be split
      continue;
    }
    longest = std::max(longest, line.size());
    for (size_t at = line.find("word"); at != std::string::npos; at = line.find("word", at + 1)) {
      ++words_seen;
    }
  }
  EXPECT_EQ(words_seen, 101);
  EXPECT_LE(longest, 80U);
  EXPECT_GT(longest, 70U);
}

}  // namespace
}  // namespace ng
