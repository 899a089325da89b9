// How fast RoPE's pairs turn, by both styles of config.json.
#include "core/model/rows/rope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string>
#include <vector>

#include "core/model/keys/rope_keys.h"

namespace ng {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

absl::StatusOr<RopeSpec> Read(const Json& config) {
  NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(config, "config.json"));
  return ReadRope(fields, "config.json", {.head_dim = 64, .max_positions = 2048});
}

void ExpectRopeRefused(const Json& config, const std::vector<std::string>& parts) {
  SCOPED_TRACE(config.dump());
  const auto spec = Read(config);
  ASSERT_FALSE(spec.ok());
  EXPECT_EQ(ExitCode(spec.status()), 3);
  for (const std::string& part : parts) {
    EXPECT_THAT(std::string(spec.status().message()), HasSubstr(part));
  }
}

const Json kLlama3 = {{"rope_type", "llama3"},
                      {"factor", 8.0},
                      {"low_freq_factor", 1.0},
                      {"high_freq_factor", 4.0},
                      {"original_max_position_embeddings", 256}};

TEST(RopeConfig, TakesTheBaseFromEitherStyle) {
  EXPECT_EQ(Read(Json::object())->theta, 10000.0);
  EXPECT_EQ(Read({{"rope_theta", 5e5}, {"rope_scaling", nullptr}})->theta, 5e5);
  const Json parameters = {{"rope_type", "default"}, {"rope_theta", 250.0}};
  EXPECT_EQ(Read({{"rope_parameters", parameters}})->theta, 250.0);
}

TEST(RopeConfig, TakesTheScalingFromEitherStyle) {
  const auto old_style = Read({{"rope_scaling", {{"type", "linear"}, {"factor", 4}}}});
  ASSERT_TRUE(old_style.ok()) << old_style.status();
  EXPECT_EQ(old_style->scaling.kind, RopeScalingKind::kLinear);
  EXPECT_EQ(old_style->scaling.factor, 4.0);
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const auto spec = Read({{key, kLlama3}});
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(spec->scaling.kind, RopeScalingKind::kLlama3);
    EXPECT_EQ(spec->scaling.high_freq_factor, 4.0);
    EXPECT_EQ(spec->scaling.original_positions, 256);
  }
}

TEST(RopeConfig, TakesTheOlderObjectAsAWholeAsTransformersDoes) {
  const auto spec = Read({{"rope_theta", 500.0},
                          {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 250.0}}},
                          {"rope_scaling", {{"type", "linear"}, {"factor", 4}}}});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->theta, 500.0);
  EXPECT_EQ(spec->scaling.factor, 4.0);
  const auto empty =
      Read({{"rope_parameters", {{"rope_theta", 250.0}}}, {"rope_scaling", Json::object()}});
  EXPECT_EQ(empty->theta, 250.0);
}

TEST(RopeConfig, TakesAbsentKeysAsTransformersDoes) {
  const auto scaling = [](const Json& config) { return Read(config)->scaling; };
  EXPECT_EQ(scaling({{"rope_scaling", {{"factor", 8.0}}}}), RopeScaling());
  EXPECT_EQ(scaling({{"rope_scaling", {{"type", "linear"}, {"factor", 0.5}}}}).factor, 0.5);
  EXPECT_EQ(scaling({{"rope_scaling", {{"type", "mrope"}, {"rope_type", "default"}}}}),
            RopeScaling());
  Json llama3 = kLlama3;
  llama3.erase("original_max_position_embeddings");
  EXPECT_EQ(scaling({{"rope_scaling", llama3}}).original_positions, 2048);
  // What stands beside the object goes before.
  EXPECT_EQ(scaling({{"rope_scaling", kLlama3}, {"original_max_position_embeddings", 512}})
                .original_positions,
            512);
}

TEST(RopeConfig, RunsTypesThatAreAnotherWithinThePositions) {
  const auto scaling = [](const Json& rope) { return Read({{"rope_scaling", rope}})->scaling; };
  EXPECT_EQ(scaling({{"type", "dynamic"}, {"factor", 2.0}}), RopeScaling());
  EXPECT_EQ(scaling({{"type", "proportional"}}), RopeScaling());
  EXPECT_EQ(scaling({{"type", "proportional"}, {"factor", 2.0}}),
            scaling({{"type", "linear"}, {"factor", 2.0}}));
}

TEST(RopeConfig, RefusesOtherScalingsNamingThemAndWhatCanRun) {
  for (const char* type : {"axial", "mrope"}) {
    for (const char* key : {"rope_parameters", "rope_scaling"}) {
      ExpectRopeRefused({{key, {{"rope_type", type}, {"factor", 8.0}}}},
                        {std::string(key) + ".rope_type", type,
                         "default, linear, proportional, dynamic, llama3, yarn, longrope"});
    }
    ExpectRopeRefused({{"rope_scaling", {{"type", type}, {"factor", 8.0}}}}, {"rope_scaling.type"});
  }
}

TEST(RopeConfig, ReadsYarnAndLongRope) {
  const auto yarn =
      Read({{"rope_parameters",
             {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 512}}}});
  ASSERT_TRUE(yarn.ok()) << yarn.status();
  EXPECT_DOUBLE_EQ(yarn->scaling.magnitude, 0.1 * std::log(4.0) + 1.0);
  const auto plain = RopeFrequencies(*Read(Json::object()));
  const auto scaled = RopeFrequencies(*yarn);
  EXPECT_DOUBLE_EQ(scaled[0], plain[0]);
  EXPECT_DOUBLE_EQ(scaled[31], plain[31] / 4.0);
  const std::vector<double> factors(32, 2.0);
  const Json longrope = {{"type", "longrope"},
                         {"short_factor", factors},
                         {"long_factor", factors},
                         {"original_max_position_embeddings", 1024}};
  const auto divided = Read({{"rope_scaling", longrope}});
  ASSERT_TRUE(divided.ok()) << divided.status();
  EXPECT_DOUBLE_EQ(RopeFrequencies(*divided)[16], plain[16] / 2.0);
  EXPECT_DOUBLE_EQ(divided->scaling.magnitude, std::sqrt(1.0 + std::log(2.0) / std::log(1024.0)));
  Json few = longrope;
  few["short_factor"] = {1.0, 2.0};
  ExpectRopeRefused({{"rope_scaling", few}}, {"rope_scaling.short_factor", "must list 32 factors"});
  ExpectRopeRefused({{"rope_scaling", {{"type", "yarn"}}}}, {"rope_scaling.factor", "missing"});
}

TEST(RopeConfig, TurnsThePartOfAHeadThatIsAsked) {
  const auto read = [](const Json& config) -> absl::StatusOr<RopeSpec> {
    NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(config, "config.json"));
    return ReadRope(fields, "config.json", {.head_dim = 64, .max_positions = 2048, .part = 0.5});
  };
  EXPECT_EQ(read(Json::object())->n_dims, 32);
  EXPECT_EQ(read({{"partial_rotary_factor", 0.25}})->n_dims, 16);
  EXPECT_EQ(read({{"rope_parameters", {{"partial_rotary_factor", 1.0}}}})->n_dims, 64);
  const auto odd = read({{"partial_rotary_factor", 0.05}});
  EXPECT_THAT(std::string(odd.status().message()), HasSubstr("3 of 64 dimensions of a head turn"));
  const auto part = read({{"rope_scaling", {{"rope_type", "proportional"}}}});
  EXPECT_THAT(std::string(part.status().message()),
              HasSubstr("\"proportional\", can run only where all of a head turns"));
}

TEST(RopeConfig, RefusesValuesThatCannotBe) {
  ExpectRopeRefused({{"rope_scaling", {{"type", "linear"}}}}, {"rope_scaling.factor", "missing"});
  ExpectRopeRefused({{"rope_scaling", {{"type", "linear"}, {"factor", 0.0}}}}, {"0"});
  for (const char* key : {"low_freq_factor", "high_freq_factor", "factor"}) {
    Json scaling = kLlama3;
    scaling.erase(key);
    ExpectRopeRefused({{"rope_parameters", scaling}}, {key, "missing"});
  }
  Json scaling = kLlama3;
  scaling["high_freq_factor"] = 1.0;
  ExpectRopeRefused({{"rope_parameters", scaling}},
                    {"high_freq_factor", "above low_freq_factor = 1"});
  const Json half = {{"rope_type", "linear"}, {"factor", 2.0}, {"partial_rotary_factor", 0.5}};
  ExpectRopeRefused({{"rope_parameters", half}}, {"rope_parameters.partial_rotary_factor", "0.5"});
  ExpectRopeRefused({{"partial_rotary_factor", 0.25}, {"rope_parameters", kLlama3}},
                    {"partial_rotary_factor", "0.25"});
}

TEST(RopeFrequencies, LinearDividesEveryOne) {
  const auto plain = RopeFrequencies(*Read(Json::object()));
  const auto scaled =
      RopeFrequencies(*Read({{"rope_scaling", {{"type", "linear"}, {"factor", 4}}}}));
  ASSERT_EQ(plain.size(), 32U);
  EXPECT_EQ(plain[0], 1.0);
  EXPECT_DOUBLE_EQ(plain[16], 0.01);
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_DOUBLE_EQ(scaled[i], plain[i] / 4.0);
}

// By wavelength, as Llama 3.1's own code has it.
TEST(RopeFrequencies, Llama3StretchesLongWavesOnlyAndBlendsBetween) {
  const auto plain = RopeFrequencies(*Read(Json::object()));
  const auto scaled = RopeFrequencies(*Read({{"rope_scaling", kLlama3}}));
  int n_kept = 0;
  int n_blended = 0;
  int n_stretched = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    const double wavelength = 2.0 * std::numbers::pi / plain[i];
    double expected = plain[i] / 8.0;
    if (wavelength < 256.0 / 4.0) {
      expected = plain[i];
      ++n_kept;
    } else if (wavelength <= 256.0 / 1.0) {
      const double smooth = (256.0 / wavelength - 1.0) / (4.0 - 1.0);
      expected = (1.0 - smooth) * plain[i] / 8.0 + smooth * plain[i];
      ++n_blended;
    } else {
      ++n_stretched;
    }
    EXPECT_NEAR(scaled[i], expected, 1e-14) << i;
  }
  EXPECT_GT(n_kept, 4);
  EXPECT_GT(n_blended, 2);
  EXPECT_GT(n_stretched, 4);
}

}  // namespace
}  // namespace ng
