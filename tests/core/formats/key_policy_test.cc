#include "core/formats/key_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ng {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class KeyPolicyTest : public ::testing::Test {
 protected:
  KeyPolicy Make(bool strict, std::vector<std::string> ignored = {}) {
    return {strict, std::move(ignored),
            [this](std::string_view line) { lines_.emplace_back(line); }};
  }
  std::vector<std::string> lines_;
};

TEST_F(KeyPolicyTest, LeavesOutIgnoredKeysAndSaysSo) {
  KeyPolicy policy = Make(false, {"a", "rope.factor", "dotted.key", "absent", "rope.absent.key"});
  nlohmann::json json = nlohmann::json::parse(
      R"({"a": 1, "b": 2, "rope": {"factor": 8, "type": "x"}, "dotted.key": true})");
  policy.LeaveOutIgnored("config.json", json);
  EXPECT_EQ(json, nlohmann::json::parse(R"({"b": 2, "rope": {"type": "x"}})"));
  EXPECT_THAT(lines_,
              ElementsAre("config.json: key \"a\" = 1 is left out, as model.ignore_keys says",
                          "config.json: key \"rope.factor\" = 8 is left out, as model.ignore_keys "
                          "says",
                          "config.json: key \"dotted.key\" = true is left out, as "
                          "model.ignore_keys says"));
  EXPECT_THAT(policy.Unmatched(), ElementsAre("absent", "rope.absent.key"));
}

TEST_F(KeyPolicyTest, LeavesOutKeysOfGgufFiles) {
  GgufMetadata metadata("model.gguf");
  metadata.Add("llama.a", nlohmann::json(1));
  metadata.Add("llama.list", GgufMetadata::Array{GgufType::kU8, 2, "ab"});
  metadata.Add("llama.b", nlohmann::json(2));
  KeyPolicy policy = Make(false, {"llama.list", "llama.a"});
  policy.LeaveOutIgnored(metadata);
  EXPECT_THAT(metadata.Unread(), ElementsAre("llama.b"));
  EXPECT_FALSE(metadata.Ints("llama.list").ok());
  EXPECT_EQ(lines_.size(), 2U);
  EXPECT_THAT(policy.Unmatched(), IsEmpty());
}

TEST_F(KeyPolicyTest, WarnsOfUnreadKeysOrRefusesThem) {
  EXPECT_TRUE(Make(true).Unread("config.json", {}).ok());
  EXPECT_TRUE(Make(false).Unread("config.json", {"a"}).ok());
  EXPECT_TRUE(Make(false).Unread("config.json", {"a", "b.c"}).ok());
  EXPECT_THAT(lines_, ElementsAre("config.json: nobody reads this key: a",
                                  "config.json: nobody reads these keys: a, b.c"));
  const absl::Status refused = Make(true).Unread("config.json", {"a"});
  EXPECT_EQ(ExitCode(refused), 3);
  EXPECT_EQ(refused.message(),
            "config.json: nobody reads this key: a; model.strict = true refuses it, false runs it");
  EXPECT_EQ(lines_.size(), 2U);
}

}  // namespace
}  // namespace ng
