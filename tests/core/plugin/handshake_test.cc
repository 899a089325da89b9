#include "core/plugin/handshake.h"

#include <array>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ng/attention_backend.h"
#include "ng/cache_store.h"
#include "ng/sampler.h"
#include "tests/fixtures/broken_plugins/sound_sampler.h"

namespace ng {
namespace {

using ::testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr std::array<OptionSpec, 2> kSoundOptions = {{
    IntOption("k", 50, {.min = 1, .max = 1000}, "how many"),
    ChoiceOption("mode", "a", "a|b", "which"),
}};

// The result of checking a sound descriptor after `spoil` has changed it.
absl::Status Check(const std::function<void(PluginDescriptor&)>& spoil) {
  PluginDescriptor plugin = broken::SoundSampler("here");
  plugin.options = kSoundOptions.data();
  plugin.n_options = kSoundOptions.size();
  spoil(plugin);
  return CheckDescriptor(plugin, "sampler", "here");
}

void ExpectRefused(const std::string& fragment,
                   const std::function<void(PluginDescriptor&)>& spoil) {
  const absl::Status status = Check(spoil);
  EXPECT_EQ(ExitCode(status), 4) << fragment;
  EXPECT_THAT(std::string(status.message()), HasSubstr(fragment));
}

void ExpectOptionRefused(const std::string& fragment,
                         const std::function<void(OptionSpec&)>& spoil) {
  std::array<OptionSpec, 2> options = kSoundOptions;
  spoil(options[1]);
  ExpectRefused(fragment, [&](PluginDescriptor& plugin) { plugin.options = options.data(); });
}

TEST(Handshake, AcceptsASoundDescriptor) {
  const absl::Status status = Check([](PluginDescriptor&) {});
  EXPECT_TRUE(status.ok()) << status;
}

TEST(Handshake, ShowsForeignMagicEscaped) {
  ExpectRefused("magic '\\x01\\xffPLUGIN'", [](PluginDescriptor& plugin) {
    plugin.header.magic[0] = 1;
    plugin.header.magic[1] = static_cast<char>(0xff);
  });
}

TEST(Handshake, ReadsNothingBehindAHeaderThatFails) {
  // The rest of such a descriptor is poison: a call or a read through it would crash.
  auto* const poison = reinterpret_cast<const char*>(8);
  ExpectRefused("ABI version 2", [&](PluginDescriptor& plugin) {
    plugin.header.abi_version = 2;
    plugin.header.build_tag = plugin.kind = plugin.name = poison;
    plugin.supported = reinterpret_cast<const char* (*)()>(8);
  });
}

TEST(Handshake, RefusesAnAbsentBuildTag) {
  ExpectRefused("built as null, this ng as '" NG_BUILD_TAG "'",
                [](PluginDescriptor& plugin) { plugin.header.build_tag = nullptr; });
}

TEST(Handshake, RefusesAbsentTexts) {
  ExpectRefused("is of kind null", [](PluginDescriptor& plugin) { plugin.kind = nullptr; });
  ExpectRefused("is named null", [](PluginDescriptor& plugin) { plugin.name = nullptr; });
  ExpectRefused("version is null", [](PluginDescriptor& plugin) { plugin.version = nullptr; });
  ExpectRefused("summary is null", [](PluginDescriptor& plugin) { plugin.summary = nullptr; });
}

TEST(Handshake, RequiresExactlyTheFactoryOfItsKind) {
  static constexpr AttentionFactory kAttention = {};
  static constexpr CacheFactory kCache = {};
  static constexpr ProbeFactory kNoProbe = {};
  static constexpr SamplerFactory kIncomplete = {};
  ExpectRefused("has no factory of its kind 'sampler'",
                [](PluginDescriptor& plugin) { plugin.sampler = nullptr; });
  ExpectRefused("has a factory of kind 'attention', expected only 'sampler'",
                [](PluginDescriptor& plugin) { plugin.attention = &kAttention; });
  ExpectRefused("has a factory of kind 'probe', expected only 'sampler'",
                [](PluginDescriptor& plugin) { plugin.probe = &kNoProbe; });
  ExpectRefused("has a factory of kind 'cache', expected only 'sampler'",
                [](PluginDescriptor& plugin) { plugin.cache = &kCache; });
  ExpectRefused("a function of its 'sampler' factory is null",
                [](PluginDescriptor& plugin) { plugin.sampler = &kIncomplete; });
}

TEST(Handshake, RequiresBothFunctionsOfACache) {
  static constexpr CacheFactory kPlanOnly = {
      [](const PluginContext&, const CacheSpec&) -> absl::StatusOr<CachePlan> {
        return CachePlan{};
      },
      nullptr};
  PluginDescriptor plugin = broken::SoundSampler("here", nullptr);
  plugin.kind = "cache";
  plugin.cache = &kPlanOnly;
  const absl::Status status = CheckDescriptor(plugin, "cache", "here");
  EXPECT_EQ(ExitCode(status), 4);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("a function of its 'cache' factory is null"));
}

TEST(Handshake, RefusesAProfileThatIsNotOfItsKind) {
  const absl::Status status =
      Check([](PluginDescriptor& plugin) { plugin.profile = PartProfile::kConstraint; });
  EXPECT_TRUE(status.ok()) << status;
  ExpectRefused("has the profile 'masked', which is for plugins of kind 'attention'",
                [](PluginDescriptor& plugin) { plugin.profile = PartProfile::kMasked; });
  ExpectRefused("has profile 4, expected 0 to 3",
                [](PluginDescriptor& plugin) { plugin.profile = static_cast<PartProfile>(4); });
}

TEST(Handshake, RefusesAnAbsentOptionTable) {
  ExpectRefused("option table is null, expected 2 options",
                [](PluginDescriptor& plugin) { plugin.options = nullptr; });
}

TEST(Handshake, AcceptsAPluginWithoutOptions) {
  const absl::Status status = Check([](PluginDescriptor& plugin) {
    plugin.options = nullptr;
    plugin.n_options = 0;
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(Handshake, RefusesAnUnsoundOption) {
  ExpectOptionRefused("option 1 has no name", [](OptionSpec& option) { option.name = nullptr; });
  ExpectOptionRefused("option 1 has no name", [](OptionSpec& option) { option.name = ""; });
  ExpectOptionRefused("option 1 'k' is declared twice",
                      [](OptionSpec& option) { option.name = "k"; });
  ExpectOptionRefused("option 1 'mode' has type 7, expected 0 to 6",
                      [](OptionSpec& option) { option.type = static_cast<OptionType>(7); });
  ExpectOptionRefused("option 1 'mode' has type -1",
                      [](OptionSpec& option) { option.type = static_cast<OptionType>(-1); });
  ExpectOptionRefused("option 1 'mode' has no default",
                      [](OptionSpec& option) { option.default_value = nullptr; });
  ExpectOptionRefused("option 1 'mode' has no help text",
                      [](OptionSpec& option) { option.help = nullptr; });
}

TEST(Handshake, RefusesBoundsThatAllowNothing) {
  ExpectOptionRefused("allows nothing: min 2, max 1", [](OptionSpec& option) {
    option.type = OptionType::kReal;
    option.min = 2;
    option.max = 1;
  });
  ExpectOptionRefused("allows nothing: min nan", [](OptionSpec& option) {
    option.type = OptionType::kInt;
    option.min = std::numeric_limits<double>::quiet_NaN();
    option.max = kInfinity;
  });
}

TEST(Handshake, ReportsWhatTheCpuLacksAndWhatSupportedThrows) {
  ExpectRefused("supported is null", [](PluginDescriptor& plugin) { plugin.supported = nullptr; });
  ExpectRefused("cannot run on this CPU: needs AMX", [](PluginDescriptor& plugin) {
    plugin.supported = []() -> const char* { return "needs AMX"; };
  });
  ExpectRefused("supported() threw: oops", [](PluginDescriptor& plugin) {
    plugin.supported = []() -> const char* { throw std::runtime_error("oops"); };
  });
  ExpectRefused("supported() threw an exception of unknown type", [](PluginDescriptor& plugin) {
    plugin.supported = []() -> const char* { throw 1; };
  });
}

}  // namespace
}  // namespace ng
