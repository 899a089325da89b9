// Other programs' names for ng's keys: what they set, and which stages they bring.
#include "ng/spellings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/core/config/config_test_util.h"

namespace ng {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;
using Chain = std::vector<std::string>;

// The entries of a file and a command line, stages joined: the last of each key.
std::map<std::string, std::string> Entries(std::string_view ini,
                                           const std::vector<std::string>& overrides) {
  std::vector<ConfigEntry> entries = ParseIni(ini, "/etc/demo.ini").value();
  const absl::StatusOr<std::vector<ConfigEntry>> more = ParseOverrides(overrides);
  EXPECT_TRUE(more.ok()) << more.status();
  entries.insert(entries.end(), more->begin(), more->end());
  JoinStages(&entries);
  std::map<std::string, std::string> texts;
  for (const ConfigEntry& entry : entries) texts[entry.key] = entry.text;
  return texts;
}

std::string ChainOf(std::string_view ini, const std::vector<std::string>& overrides) {
  const auto entries = Entries(ini, overrides);
  const auto found = entries.find("sampler.chain");
  return found == entries.end() ? "default" : found->second;
}

std::string ErrorOf(const std::string& override_text) {
  return std::string(ParseOverrides({{override_text}}).status().message());
}

TEST(Spellings, EachNameIsOfOneRowWhoseKeyThereIs) {
  std::set<std::string_view> names;
  std::set<std::string_view> core;
  for (const ConfigKey& key : CoreConfigKeys()) core.insert(key.key);
  for (const Spelling& spelling : Spellings()) {
    for (const std::string_view name : spelling.Names()) {
      EXPECT_TRUE(names.insert(name).second) << name;
      EXPECT_EQ(FindSpelling(name), &spelling);
      EXPECT_EQ(name.find_first_of("_.= "), name.npos) << name;
    }
    const bool of_plugin = spelling.key.find('.') != spelling.key.rfind('.');
    EXPECT_TRUE(spelling.key.empty() || of_plugin || core.contains(spelling.key)) << spelling.key;
    EXPECT_EQ(spelling.key.empty() && spelling.why.empty(), false) << spelling.names;
  }
  EXPECT_EQ(FindSpelling("top_k"), FindSpelling("top-k"));
  EXPECT_EQ(FindSpelling("run.threads"), nullptr);
}

TEST(Spellings, SetTheKey) {
  EXPECT_THAT(Entries("", {"threads=3", "max_tokens=5", "system=Be brief"}),
              UnorderedElementsAre(Pair("run.threads", "3"), Pair("run.max_new_tokens", "5"),
                                   Pair("run.system", "Be brief")));
}

TEST(Spellings, SetTheKeysOfAServer) {
  EXPECT_THAT(Entries("", {"port=80", "host=::1", "api-key=k", "alias=a", "np=2"}),
              UnorderedElementsAre(Pair("serve.port", "80"), Pair("serve.host", "::1"),
                                   Pair("serve.key", "k"), Pair("serve.model", "a"),
                                   Pair("cache.max_sequences", "2")));
  EXPECT_EQ(Entries("", {"p=80"}).at("serve.port"), "80");
}

TEST(Spellings, LaterOnesWinOverKeysAndOtherNames) {
  EXPECT_EQ(Entries("", {"threads=3", "run.threads=4"}).at("run.threads"), "4");
  EXPECT_EQ(Entries("", {"run.threads=4", "threads=3"}).at("run.threads"), "3");
  EXPECT_EQ(Entries("", {"threads=3", "num-threads=5"}).at("run.threads"), "5");
  EXPECT_EQ(Entries("[run]\nthreads = 9\n", {"threads=3"}).at("run.threads"), "3");
}

TEST(Spellings, BringTheirStageToItsUsualPlace) {
  EXPECT_EQ(ChainOf("", {"temp=0.5"}), "default");  // it is there
  EXPECT_EQ(ChainOf("", {"min-p=0.1"}), "temperature,top_k,min_p");
  EXPECT_EQ(ChainOf("", {"repeat-penalty=1.2", "top-p=0.9"}),
            "repetition_penalty,temperature,top_k,top_p");
  EXPECT_EQ(ChainOf("[sampler]\nchain = top_p, mine\n", {"top-k=3"}), "top_k,top_p,mine");
  EXPECT_EQ(ChainOf("", {"xtc-threshold=0.2"}), "default");  // by itself it asks for nothing
}

TEST(Spellings, TemperatureZeroIsGreedyAndAnotherOneDraws) {
  EXPECT_EQ(ChainOf("", {"temp=0"}), "greedy");
  EXPECT_FALSE(Entries("", {"temp=0.0"}).contains("sampler.temperature.value"));
  EXPECT_EQ(ChainOf("[sampler]\nchain = greedy\n", {"temperature=0.7"}), "temperature");
  EXPECT_EQ(ChainOf("", {"temp=0", "temp=0.3"}), "temperature");
  EXPECT_EQ(ChainOf("", {"repeat-penalty=1.2", "greedy="}), "repetition_penalty,greedy");
  EXPECT_THAT(ErrorOf("temp=-0.5"),
              HasSubstr("--temp=-0.5 (sampler.temperature.value): must be 0"));
}

TEST(Spellings, ZeroTakesAStageOutWhereItDoesElsewhere) {
  EXPECT_EQ(ChainOf("", {"top-k=0"}), "temperature");
  EXPECT_FALSE(Entries("", {"top-k=-1"}).contains("sampler.top_k.k"));
  EXPECT_EQ(ChainOf("[sampler]\nchain = temperature\n", {"top-k=0"}), "temperature");
  EXPECT_EQ(ChainOf("", {"mirostat=2"}), "temperature,top_k,mirostat");
  EXPECT_EQ(ChainOf("", {"mirostat=2", "mirostat=0"}), "default");
  EXPECT_EQ(ChainOf("", {"reasoning-budget=0"}), "thoughts,temperature,top_k");
  EXPECT_EQ(Entries("", {"thinking-budget=9"}).at("sampler.thoughts.budget"), "9");
  EXPECT_EQ(ChainOf("", {"reasoning-budget=9", "reasoning-budget=-1"}), "default");
}

TEST(Spellings, AChainThatIsNamedLaterIsTakenAsItIs) {
  EXPECT_EQ(ChainOf("", {"min-p=0.1", "sampler.chain=top_k"}), "top_k");
  EXPECT_EQ(ChainOf("", {"sampler.chain=top_k", "min-p=0.1"}), "top_k,min_p");
  EXPECT_EQ(ChainOf("", {"samplers=top_k", "temp=2"}), "temperature,top_k");
}

TEST(Spellings, ThatMeanSomethingElseElsewhereAreRefusedWithWhatToWrite) {
  EXPECT_THAT(ErrorOf("n-predict=-2"),
              HasSubstr("--n-predict=-2 (run.max_new_tokens): is not a number of tokens"));
  EXPECT_THAT(ErrorOf("repeat-last-n=0"), HasSubstr("sampler.repetition_penalty.window=0"));
  EXPECT_THAT(ErrorOf("mirostat=1"), HasSubstr("ng has 2"));
  EXPECT_THAT(ErrorOf("mirostat=3"), HasSubstr("ng has 2"));
  EXPECT_THAT(ErrorOf("mirostat=yes"), HasSubstr("ng has 2"));
  EXPECT_THAT(ErrorOf("ngl=99"), HasSubstr("--ngl: gives layers to a GPU elsewhere"));
  EXPECT_THAT(ErrorOf("sampler_seq=edkypmxt"), HasSubstr("--sampler.chain=STAGE"));
  EXPECT_THAT(ErrorOf("greedy=2"), HasSubstr("takes no value"));
}

TEST(Spellings, ErrorsNameWhatWasTypedAndTheKey) {
  const auto built = BuildConfig("", {"threads=many"});
  EXPECT_THAT(std::string(built.status().message()),
              HasSubstr("--threads=many (run.threads): must be an integer in"));
}

TEST(WithStage, LeavesWhatIsThereAndStagesOfSomebodysOwn) {
  EXPECT_THAT(WithStage({"mine", "top_k", "yours"}, "temperature"),
              ElementsAre("mine", "temperature", "top_k", "yours"));
  EXPECT_THAT(WithStage({"top_k"}, "top_k"), ElementsAre("top_k"));
  EXPECT_THAT(WithStage({"top_k", "mine", "stop_texts"}, "greedy"),
              ElementsAre("mine", "greedy", "stop_texts"));
  EXPECT_THAT(WithStage({"greedy"}, "temperature"), ElementsAre("temperature"));
}

}  // namespace
}  // namespace ng
