#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "core/config/config.h"
#include "ng/names.h"

namespace ng {
namespace {

TEST(NearestName, FindsATypo) {
  const std::vector<std::string> known = {"greedy", "top_k", "temperature"};
  EXPECT_EQ(NearestName("gredy", known), "greedy");
  EXPECT_EQ(NearestName("topk", known), "top_k");
  EXPECT_EQ(NearestName("temprature", known), "temperature");
  EXPECT_EQ(NearestName("temperatuer", known), "temperature");
}

TEST(NearestName, PrefersTheFirstOfEquallyNearNames) {
  const std::vector<std::string> known = {"codec_k", "codec_v"};
  EXPECT_EQ(NearestName("codec_x", known), "codec_k");
}

TEST(NearestName, CountsASwapOfNeighboursAsOneEdit) {
  const std::vector<std::string> known = {"sedd", "seed"};
  EXPECT_EQ(NearestName("esed", known), "seed");
}

TEST(NearestName, FindsNothingFarAway) {
  const std::vector<std::string> known = {"greedy", "top_k"};
  EXPECT_EQ(NearestName("mirostat", known), std::nullopt);
  EXPECT_EQ(NearestName("greedy", {}), std::nullopt);
}

TEST(NearestName, IgnoresWhatIsTooLongForATypo) {
  const std::string name(101, 'x');
  const std::vector<std::string> known = {name};
  EXPECT_EQ(NearestName(name, known), std::nullopt);
}

}  // namespace
}  // namespace ng
