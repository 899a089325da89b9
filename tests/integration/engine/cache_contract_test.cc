// What caches may be and may not do, seen from outside: faults by name, approximate stores, stores
// that cannot go back, and what the engine asks of a backend for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ng/engine.h"
#include "tests/integration/run_support.h"
#include "tests/support/temp_dir.h"

namespace ng::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kPlugin = "cache plugin 'cache_faults' 1.0.0 (";

Arguments Faulty(const std::string& fault) {
  return {"--plugins.path=" NG_BINARY_DIR "/tests/fixtures/broken_plugins/cache_faults",
          "--cache.name=cache_faults", "--cache.cache_faults.fault=" + fault};
}

struct Fault {
  const char* name;
  const char* message;
};

TEST(FaultyCache, EndsTheRunWithItsName) {
  constexpr Fault kFaults[] = {
      {"plan_negative", "bytes = -1, must be at least 0"},
      {"view_throws", "threw: no view today"},
      {"close_throws", "threw: no end today"},
      {"interrupts", ": tired"},
      {"commit_ignored", ": Commit: sequence 0 has 0 of "},
  };
  for (const Fault& fault : kFaults) {
    ExpectError(NgRun(DemoTurn(4) + Faulty(fault.name)), 4, {kPlugin, fault.message});
  }
}

TEST(FaultyCache, IsFoundOutByCheckPlugins) {
  const Arguments swaps = DemoTurn(4) + Faulty("swaps_values");
  EXPECT_EQ(NgRun(swaps).exit_code, 0);
  ExpectError(NgRun(swaps + Arguments{"--run.check_plugins=true"}), 4,
              {kPlugin,
               ": Append: token 0 of sequence 0 in layer 0 does not read as it was "
               "appended: value head 0"});
}

// Also says that the checks find nothing in what ships.
TEST(CheckPlugins, ChangesNoAnswer) {
  const std::string plain = NgRun(DemoTurn(8)).out;
  for (const char* cache : {"contiguous", "paged", "cache_faults"}) {
    const Result checked =
        NgRun(DemoTurn(8) + Faulty("none") +
              Arguments{absl::StrCat("--cache.name=", cache), "--run.check_plugins=true"});
    EXPECT_EQ(checked.exit_code, 0) << checked.err;
    EXPECT_EQ(checked.out, plain);
  }
}

TEST(ApproximateCache, IsSaidAndKeepsNoSnapshots) {
  const Arguments run = DemoTurn(2) + Faulty("approximate");
  EXPECT_THAT(NgRun(run).err, HasSubstr("is approximate: it drops tokens or rounds them"));
  EXPECT_THAT(NgRun(run + Arguments{"--dry-run"}).out, HasSubstr("is approximate: it drops"));
  EXPECT_THAT(NgRun(DemoTurn(2) + Arguments{"--dry-run"}).out, Not(HasSubstr("approximate")));
  const TempDir dir;
  for (const char* option : {"--save-cache", "--load-cache"}) {
    ExpectError(NgRun(run + Arguments{option, dir.File("none")}), option[2] == 's' ? 4 : 3,
                {option[2] == 's' ? "is approximate and keeps no snapshots" : "none"});
  }
}

TEST(CacheWithHoles, RunsOnlyWithABackendThatReadsThem) {
  const Arguments run = DemoTurn(2) + Faulty("holes");
  ExpectError(NgRun(run), 4, {"attention plugin 'flash'", "'holes'"});
  EXPECT_EQ(NgRun(run + Arguments{"--attention.name=reference"}).exit_code, 0);
}

TEST(CacheThatWantsTheMass, IsToldAllOfItOrRefused) {
  const Arguments run = DemoTurn(2) + Faulty("attended");
  const std::string more = "/tests/fixtures/broken_plugins/";
  ExpectError(NgRun(run + Arguments{"--plugins.path=" NG_BINARY_DIR + more +
                                        "cache_faults:" + NG_BINARY_DIR + more + "throws_in_worker",
                                    "--attention.name=throws_in_worker"}),
              4, {"attention plugin 'throws_in_worker'", "'attended'"});
  for (const char* const backend : {"flash", "reference"}) {
    const Result told = NgRun(run + Arguments{absl::StrCat("--attention.name=", backend)});
    EXPECT_EQ(told.exit_code, 0) << told.err;
  }
}

class EngineOverFaults : public ::testing::Test {
 protected:
  std::unique_ptr<Engine> Open(const std::string& fault) {
    EngineOptions options;
    options.config_file = NG_SOURCE_DIR "/configs/demo.ini";
    for (const std::string& argument : Faulty(fault))
      options.overrides.push_back(argument.substr(2));
    auto engine = Engine::Open(options);
    EXPECT_TRUE(engine.ok()) << engine.status();
    return *std::move(engine);
  }
};

TEST_F(EngineOverFaults, ASequenceThatCannotGoBackIsAsItWasAndCanBeginAnew) {
  const auto engine = Open("cannot_truncate");
  ASSERT_TRUE(engine->Load({32, 1}).ok());
  const SequenceId id = engine->OpenSequence(32).value();
  const std::vector<std::vector<int32_t>> prompt = {{5, 6, 7, 8}};
  ASSERT_TRUE(engine->Prefill({&id, 1}, prompt).ok());
  const absl::Status back = engine->TruncateSequence(id, 2);
  EXPECT_TRUE(IsUnsupported(back));
  EXPECT_EQ(ExitCode(back), 1);
  EXPECT_THAT(std::string(back.message()), HasSubstr(kPlugin));
  EXPECT_EQ(engine->SequenceLength(id), 4);
  ASSERT_TRUE(engine->TruncateSequence(id, 0).ok());
  EXPECT_TRUE(engine->Prefill({&id, 1}, prompt).ok());
}

TEST_F(EngineOverFaults, SequencesThatAreNotOpenAreNone) {
  const auto engine = Open("none");
  const SequenceId none = 0;
  const std::vector<std::vector<int32_t>> tokens = {{5}};
  const auto expect_none = [&](int exit_code) {
    engine->CloseSequence(none);
    EXPECT_EQ(engine->SequenceLength(none), 0);
    EXPECT_EQ(ExitCode(engine->TruncateSequence(none, 0)), 1);
    EXPECT_EQ(ExitCode(engine->Extend({&none, 1}, tokens).status()), 1);
    EXPECT_EQ(ExitCode(engine->SaveSequence(none, tokens[0], "/dev/null")), 1);
    EXPECT_EQ(ExitCode(engine->LoadSequence("/dev/null", 8).status()), exit_code);
  };
  expect_none(1);  // before Load
  EXPECT_TRUE(engine->CacheStatistics().value().empty());
  ASSERT_TRUE(engine->Load({8, 1}).ok());
  expect_none(1);
}

}  // namespace
}  // namespace ng::test
