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
using ::testing::Not;

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
    {"smaller_struct", "descriptor of 136 bytes, expected at least 144"},
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

// A stage between two of ours.
struct Misdeed {
  const char* what;
  int exit_code;
  const char* part;        // of the message
  const char* check = "";  // --run.check_plugins=true where it finds what else is not found
};

class Misbehaving : public ::testing::TestWithParam<Misdeed> {};

TEST_P(Misbehaving, StageIsNamed) {
  const Misdeed& misdeed = GetParam();
  Arguments run = DemoTurn(2) + Arguments{absl::StrCat("--plugins.path=", kFixtures, "misbehaves"),
                                          "--sampler.chain=temperature,misbehaves,top_k",
                                          absl::StrCat("--sampler.misbehaves.what=", misdeed.what)};
  if (*misdeed.check != '\0') run.push_back(misdeed.check);
  const Result result = NgRun(run);
  ExpectError(result, misdeed.exit_code, {"misbehaves", misdeed.part});
}

INSTANTIATE_TEST_SUITE_P(
    All, Misbehaving,
    ::testing::Values(
        Misdeed{"open", 4, "told to"}, Misdeed{"accept", 4, "threw: thrown by Accept"},
        Misdeed{"close", 4, "threw: thrown by Close"}, Misdeed{"cancel", 4, ": stop please"},
        Misdeed{"nan", 6, "stage misbehaves left behind: the logit of token 3 is nan"},
        Misdeed{"nan", 6, "Apply left behind: ", "--run.check_plugins=true"},
        Misdeed{"too_many", 4, "KeepFirst(1124): must be in [0, 1024]"},
        Misdeed{"sparse", 4, "LogitOf(900): the set is not dense"},
        Misdeed{"foreign", 4, "Apply left token 100000", "--run.check_plugins=true"},
        Misdeed{"moved", 4, "moved token 500 of a dense set", "--run.check_plugins=true"}),
    [](const auto& info) {
      return absl::StrCat(info.param.what, *info.param.check == '\0' ? "" : "Checked");
    });

// The words are those of an unchecked run.
TEST(CheckedPlugins, RunAsUnchecked) {
  for (const char* chain : {"temperature,top_k", "repetition_penalty,temperature,top_p,min_p"}) {
    const Arguments run = DemoTurn(20) + Arguments{absl::StrCat("--sampler.chain=", chain)};
    const Result plain = NgRun(run);
    const Result checked = NgRun(run + Arguments{"--run.check_plugins=true"});
    EXPECT_EQ(checked.exit_code, 0) << checked.err;
    EXPECT_EQ(checked.out, plain.out);
  }
}

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

const Arguments kWrap = {"--sampler.chain=wraps_another", "--sampler.wraps_another.stage=top_k"};

TEST(WrappedPlugin, DoesWhatItDoesAlone) {
  const Arguments turn = With({"wraps_another", ""});
  const Arguments one = {"--sampler.wraps_another.option=k", "--sampler.wraps_another.value=1"};
  const Result greedy = NgRun(DemoTurn(4) + Arguments{"--sampler.chain=greedy"});
  ASSERT_EQ(greedy.exit_code, 0) << greedy.err;

  const Result overridden = NgRun(turn + kWrap + one);
  EXPECT_EQ(overridden.exit_code, 0) << overridden.err;
  EXPECT_EQ(overridden.out, greedy.out);
  EXPECT_THAT(overridden.err, HasSubstr("sampler wraps_another: asked top_k 4 times"));

  // The config's own value for the inner stage counts where the wrapper gives none.
  const Result configured = NgRun(turn + kWrap + Arguments{"--sampler.top_k.k=1"});
  EXPECT_EQ(configured.out, greedy.out) << configured.err;
  EXPECT_THAT(configured.err, Not(HasSubstr("not used")));
  EXPECT_THAT(NgRun(turn + kWrap + one + Arguments{"--dry-run"}).out,
              HasSubstr("used by them: sampler plugin 'top_k'"));
}

TEST(WrappedPlugin, ThatCannotBeMadeIsNamed) {
  const auto fails = [](const Arguments& more, int code, const char* message) {
    ExpectError(NgRun(With({"wraps_another", ""}) + kWrap + more), code, {message});
  };
  fails({"--sampler.wraps_another.stage=top_q"}, 4, "top_k");
  fails({"--sampler.wraps_another.stage=wraps_another"}, 4, "more than 4 deep");
  const Arguments option = {"--sampler.wraps_another.option=k"};
  fails(option + Arguments{"--sampler.wraps_another.value=0"}, 2, "sampler.top_k.k");
  fails({"--sampler.wraps_another.option=kk"}, 2, "sampler.top_k.kk");
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
