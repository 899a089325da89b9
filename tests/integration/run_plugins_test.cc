// ng-run and its plugins: every broken one is refused in one line, every sound one can be swapped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/integration/run_support.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng::test {
namespace {

using ::testing::HasSubstr;

constexpr char kFixtures[] = NG_BINARY_DIR "/tests/fixtures/broken_plugins/";

// What happens is listed in tests/fixtures/broken_plugins/README.md.
struct Broken {
  const char* directory;
  const char* part;  // of the message
  const char* kind = "sampler";
};

void PrintTo(const Broken& broken, std::ostream* out) { *out << broken.directory; }

Arguments With(const Broken& broken) {
  const std::string kind = broken.kind;
  const char* key = kind == "sampler" ? "--sampler.chain=" : "--attention.name=";
  return DemoTurn(4) + Arguments{absl::StrCat("--plugins.path=", kFixtures, broken.directory),
                                 absl::StrCat(key, broken.directory)};
}

class BrokenPlugin : public ::testing::TestWithParam<Broken> {};

TEST_P(BrokenPlugin, ExitsFourWithOneLineNamingItsPath) {
  const Broken& broken = GetParam();
  const Result result = NgRun(With(broken));
  ExpectError(
      result, 4,
      {absl::StrCat(kFixtures, broken.directory, "/ng_", broken.kind, "_", broken.directory, ".so"),
       broken.part});
  EXPECT_EQ(result.out, "");
}

const Broken kBroken[] = {
    {"no_symbol", "no symbol 'ng_plugin'"},
    {"wrong_magic", "magic 'XGPLUGIN', expected 'NGPLUGIN'"},
    {"wrong_abi_version", "ABI version 999, expected 1"},
    {"smaller_struct", "descriptor of 96 bytes"},
    {"wrong_build_tag", "built as 'gcc2,"},
    {"wrong_kind", "is of kind 'attention'"},
    {"wrong_name", "is named 'something_else'"},
    {"unsupported_cpu", "cannot run on this CPU: no time travel instructions"},
    {"undefined_symbol", "FunctionThatNobodyDefines"},
    {"not_a_library", "cannot be loaded"},
    {"empty_file", "cannot be loaded"},
    {"truncated", "truncated"},
    {"dangling_link", "No such file"},
    {"create_returns_error", "the moon is in the wrong phase"},
    {"create_returns_nothing", "returned OK and no object"},
    {"create_throws_exception", "threw: thrown by create"},
    {"create_throws_int", "threw: "},
    {"fails_in_step", "no candidate pleases me"},
    {"throws_in_step", "threw: thrown by Apply"},
    {"throws_in_worker", "thrown by a worker", "attention"},
};

INSTANTIATE_TEST_SUITE_P(All, BrokenPlugin, ::testing::ValuesIn(kBroken),
                         [](const auto& info) { return std::string(info.param.directory); });

// Each would end the program, or exit with another code, without the host's guard.
TEST(FaultyAttention, ExitsFourNamingThePlugin) {
  const std::pair<const char*, const char*> faults[] = {
      {"layouts_throw", "threw: no layouts today"},
      {"plan_missing", "NewPlan returned OK and no plan"},
      {"scratch_negative", "Plan set scratch_floats = -5"},
      {"scratch_absurd", "Plan set scratch_floats = 1152921504606846976"},
      {"interrupts", "tired"}};
  const Arguments run = With({"attention_faults", "", "attention"});
  for (const auto& [fault, part] : faults) {
    ExpectError(NgRun(run + Arguments{absl::StrCat("--attention.attention_faults.fault=", fault)}),
                4, {"attention plugin 'attention_faults' 1.0.0 (", part});
  }
}

TEST(CheckedAttention, IsToldWhatItOverwrites) {
  const Arguments run =
      With({"attention_faults", "", "attention"}) + Arguments{"--run.check_plugins=true"};
  EXPECT_EQ(NgRun(run).exit_code, 0);
  for (const auto& [fault, part] : {std::pair("writes_behind_out", "of `out`"),
                                    std::pair("writes_behind_scratch", "of its scratch")}) {
    ExpectError(NgRun(run + Arguments{absl::StrCat("--attention.attention_faults.fault=", fault)}),
                4, {"attention plugin 'attention_faults'", "layer 0: Run wrote behind the ", part});
  }
}

TEST(SoundPlugin, RunsThoughItIsUnusual) {
  for (const char* name : {"larger_struct", "flushes_denormals"}) {
    const Result result = NgRun(With({name, ""}));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(result.out, "");
  }
}

TEST(PluginFolders, ThatLackThePluginOrHoldOneTwiceAreRefused) {
  ExpectError(NgRun(With({"missing", ""})), 4,
              {"no sampler plugin 'missing'", absl::StrCat(kFixtures, "missing"), "top_k"});
  ExpectError(NgRun(With({"absent", ""})), 2, {absl::StrCat(kFixtures, "absent")});
  const std::string clash = absl::StrCat(kFixtures, "name_clash/");
  ExpectError(
      NgRun(DemoTurn(1) + Arguments{absl::StrCat("--plugins.path=", clash, "a:", clash, "b"),
                                    "--sampler.chain=twin"}),
      4, {"two plugins provide sampler 'twin'", clash + "a/", clash + "b/"});
}

TEST(ListPlugins, ShowsABrokenOneWithTheReason) {
  const Result result =
      NgRun({"--list-plugins", absl::StrCat("--plugins.path=", kFixtures, "wrong_abi_version")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("sampler wrong_abi_version  unusable: plugin /"));
  EXPECT_THAT(result.out, HasSubstr("sampler.top_k.k = 50"));
}

TEST(CurrentFolder, IsNeverSearchedForPlugins) {
  const TempDir temp;
  const std::string greedy = NG_BINARY_DIR "/lib/ng/plugins/ng_sampler_greedy.so";
  std::filesystem::create_directories(temp.File("lib/ng/plugins"));
  for (const char* copy : {"ng_sampler_local.so", "lib/ng/plugins/ng_sampler_local.so"}) {
    std::filesystem::copy_file(greedy, temp.File(copy));
  }
  const Result result =
      Shell("cd \"$1\" && shift && exec \"$NG\" \"$@\"",
            Arguments{temp.path()} + DemoTurn(1) + Arguments{"--sampler.chain=local"});
  ExpectError(result, 4, {"no sampler plugin 'local'"});
}

using Cell = std::tuple<const char*, const char*, const char*>;

class Swap : public ::testing::TestWithParam<Cell> {};

// The demo's config with these three values changed and nothing else.
TEST_P(Swap, Runs) {
  const auto& [attention, codec, chain] = GetParam();
  const Result result =
      NgRun(DemoTurn(8) + Arguments{absl::StrCat("--attention.name=", attention),
                                    absl::StrCat("--cache.codec=", codec),
                                    absl::StrCat("--sampler.chain=", chain), "--output=jsonl"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json line = JsonLines(result.out).at(0);
  EXPECT_EQ(line["ids"].size(), line["prompt_ids"].size() + 8);
}

INSTANTIATE_TEST_SUITE_P(
    Matrix, Swap,
    ::testing::Combine(::testing::Values("reference", "flash"),
                       ::testing::Values("f32", "bf16", "f16", "int8", "int4"),
                       ::testing::Values("greedy", "temperature,top_k",
                                         "repetition_penalty,temperature,top_p,min_p")));

TEST(Attention, BackendsAgreeOnTheGreedyAnswer) {
  const Arguments greedy = DemoTurn(24) + Arguments{"--sampler.chain=greedy"};
  EXPECT_EQ(NgRun(greedy + Arguments{"--attention.name=reference"}).out,
            NgRun(greedy + Arguments{"--attention.name=flash"}).out);
}

}  // namespace
}  // namespace ng::test
