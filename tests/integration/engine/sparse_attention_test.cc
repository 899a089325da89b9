// Attention over some pages in whole runs: the bit contract on models of many kinds, forks, shared
// prefixes, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ng/engine.h"
#include "tests/integration/engine/last_logits.h"
#include "tests/integration/run_support.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kSparseTokens = 64;  // the models' context: 4 pages

using SparseCase = std::tuple<std::string, std::string>;  // the model, the cache's codec

class SparseRuns : public ::testing::TestWithParam<SparseCase> {
 protected:
  static std::unique_ptr<Engine> Open(const std::vector<std::string>& more) {
    const auto& [model, codec] = GetParam();
    return test::OpenLoaded(
        {"model.path=" NG_TEST_DATA "/golden/" + model, "attention.name=sparse",
         "cache.codec=" + codec, "run.stop_ids=", "sampler.chain=greedy", "run.check_plugins=true"},
        more, {.max_tokens = kSparseTokens, .max_sequences = 3});
  }
  static std::string Pages(int n) { return absl::StrCat("attention.sparse.pages=", n); }

  std::vector<int32_t> RandomTokens(int64_t n) {
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < n; ++i) tokens.push_back(static_cast<int32_t>(random_() % 40));
    return tokens;
  }

  std::mt19937_64 random_{7};
};

TEST_P(SparseRuns, HaveOneSetOfBitsForAllChunksBatchesAndThreads) {
  const std::unique_ptr<Engine> whole = Open({Pages(2)});
  const std::unique_ptr<Engine> other = Open({Pages(2), "run.threads=3", "cache.name=paged"});
  const SequenceId a = whole->OpenSequence(kSparseTokens).value();
  const SequenceId b = other->OpenSequence(kSparseTokens).value();
  const SequenceId beside = other->OpenSequence(kSparseTokens).value();
  std::vector<int32_t> text;
  while (std::ssize(text) < kSparseTokens) {
    const int64_t left = kSparseTokens - std::ssize(text);
    const auto most = static_cast<uint64_t>(std::min<int64_t>(left, 19));
    const std::vector<int32_t> tokens = RandomTokens(1 + static_cast<int64_t>(random_() % most));
    text.insert(text.end(), tokens.begin(), tokens.end());
    ASSERT_TRUE(whole->TruncateSequence(a, 0).ok());
    const std::vector<float> wanted = test::LastLogits(*whole, a, text);
    const int32_t token = RandomTokens(1).front();
    ASSERT_EQ(test::LastLogitsBeside(*other, beside, token, b, tokens), wanted) << text.size();
  }
}

TEST_P(SparseRuns, HaveTheBitsOfFlashWhereAllPagesFit) {
  const std::unique_ptr<Engine> sparse = Open({Pages(4)});
  const std::unique_ptr<Engine> flash = Open({"attention.name=flash"});
  const std::unique_ptr<Engine> fewer = Open({Pages(2)});
  std::vector<SequenceId> ids;
  for (Engine* engine : {sparse.get(), flash.get(), fewer.get()}) {
    ids.push_back(engine->OpenSequence(kSparseTokens).value());
  }
  for (const int64_t n : {int64_t{5}, int64_t{27}, int64_t{1}, kSparseTokens - 33}) {
    const std::vector<int32_t> tokens = RandomTokens(n);
    const std::vector<float> wanted = test::LastLogits(*flash, ids[1], tokens);
    EXPECT_EQ(test::LastLogits(*sparse, ids[0], tokens), wanted);
    // 32 tokens are two pages.
    const std::vector<float> of_fewer = test::LastLogits(*fewer, ids[2], tokens);
    if (fewer->SequenceLength(ids[2]) <= 32) {
      EXPECT_EQ(of_fewer, wanted);
    }
  }
}

TEST_P(SparseRuns, GoBackAnywhereAndFork) {
  for (const char* store : {"contiguous", "paged"}) {
    const std::unique_ptr<Engine> engine = Open({Pages(2), absl::StrCat("cache.name=", store)});
    const SequenceId a = engine->OpenSequence(kSparseTokens).value();
    const SequenceId b = engine->OpenSequence(kSparseTokens).value();
    const std::vector<int32_t> begin = RandomTokens(45);
    const std::vector<int32_t> end = RandomTokens(15);
    test::LastLogits(*engine, a, begin);
    test::LastLogits(*engine, b, begin);
    test::LastLogits(*engine, b, RandomTokens(18));
    ASSERT_TRUE(engine->TruncateSequence(b, 45).ok());
    const SequenceId fork = engine->ForkSequence(a, kSparseTokens).value();
    const std::vector<float> wanted = test::LastLogits(*engine, a, end);
    EXPECT_EQ(test::LastLogits(*engine, b, end), wanted);
    EXPECT_EQ(test::LastLogits(*engine, fork, end), wanted);
  }
}

TEST_P(SparseRuns, ShareTheBeginningsOfPrompts) {
  std::vector<int32_t> prompt = RandomTokens(50);
  const GenerateRequest first{prompt, 4, {}};
  prompt.resize(40);
  for (const int32_t id : RandomTokens(12)) prompt.push_back(id);
  const GenerateRequest second{prompt, 8, {}};
  GenerateOptions keep;
  keep.capture_decode_logits = true;
  std::vector<std::vector<Completion>> done;
  for (const char* share : {"true", "false"}) {
    const std::unique_ptr<Engine> engine =
        Open({Pages(2), "cache.name=paged", "cache.paged.page_tokens=16", "cache.max_sequences=1",
              absl::StrCat("cache.paged.share_prefixes=", share)});
    const GenerateRequest requests[] = {first, second};
    auto completions = engine->Generate(requests, keep);
    ASSERT_TRUE(completions.ok()) << completions.status();
    done.push_back(*std::move(completions));
  }
  EXPECT_EQ(done[0][1].ids, done[1][1].ids);
  EXPECT_EQ(done[0][1].captured.decode_logits, done[1][1].captured.decode_logits);
}

std::string NameOfSparseCase(const ::testing::TestParamInfo<SparseCase>& test) {
  std::string name = absl::StrCat(std::get<0>(test.param), "_", std::get<1>(test.param));
  std::ranges::replace(name, '/', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, SparseRuns,
                         ::testing::Combine(::testing::Values("llama/untied", "qwen3/tiny",
                                                              "gemma3/tiny", "gpt_oss/tiny",
                                                              "llama4/tiny", "bloom/tiny",
                                                              "deepseek_v3/tiny"),
                                            ::testing::Values("bf16", "int8")),
                         NameOfSparseCase);

using test::Arguments;
using test::operator+;  // NOLINT(misc-unused-using-decls): it is used below
using test::ExpectError;
using test::NgRun;

Arguments SparseTurn(const Arguments& more) {
  return test::DemoTurn(90) + Arguments{"--attention.name=sparse", "--run.stop_ids="} + more;
}

TEST(SparseRun, RefusesWhatDoesNotGoTogether) {
  ExpectError(NgRun(SparseTurn({"--attention.sparse.pages=1"})), 2,
              {"attention.sparse.pages=1", "must be in [2, 2^63)"});
  ExpectError(NgRun(SparseTurn({"--cache.name=budget"})), 4,
              {"cache plugin 'budget'", "tokens leave, so there are no bounds of keys",
               "contiguous and paged have them"});
}

TEST(SparseRun, HasItsBoundsInThePlan) {
  const auto cache_of = [](const char* attention) {
    const test::Result planned =
        NgRun(SparseTurn({absl::StrCat("--attention.name=", attention), "--dry-run"}));
    EXPECT_EQ(planned.exit_code, 0) << planned.err;
    const size_t at = planned.out.find(", cache ");
    EXPECT_NE(at, std::string::npos) << planned.out;
    return std::stoll(planned.out.substr(at + 8));
  };
  // 4 bytes for each dimension of a page, beside 8 for each of a token.
  const auto flash = static_cast<double>(cache_of("flash"));
  EXPECT_NEAR(static_cast<double>(cache_of("sparse")), flash * (1.0 + 4.0 / (16 * 8)),
              flash * 1e-3);
}

TEST(SparseRun, SaysWhatItReads) {
  // 5 layers of 5 kv heads of 32 dimensions: 6400 bytes of keys and values, and 4 bytes for each
  // dimension and page.
  const auto planned = [](const Arguments& more) {
    const test::Result run = NgRun(SparseTurn(more + Arguments{"--dry-run"}));
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.out;
  };
  EXPECT_THAT(planned({}), HasSubstr("bounds of keys take 200 of a token's 6600 bytes; the step to "
                                     "98 tokens reads all tokens\n"));
  EXPECT_THAT(planned({"--attention.sparse.pages=3"}),
              HasSubstr("the step to 98 tokens reads 0.307 of 0.627 MB of keys and values, at most "
                        "48 tokens of each kv head, and 0.020 MB of bounds\n"));
  EXPECT_THAT(planned({"--attention.name=flash"}), Not(HasSubstr("bounds of keys")));
}

TEST(SparseRun, SaysWhatItMissedAndChangesNothingByMeasuring) {
  const Arguments few = {"--attention.sparse.pages=3"};
  const test::Result plain = NgRun(SparseTurn(few));
  const test::Result measured =
      NgRun(SparseTurn(few) + Arguments{"--attention.sparse.measure=true"});
  EXPECT_EQ(measured.exit_code, 0) << measured.err;
  EXPECT_EQ(measured.out, plain.out);
  EXPECT_THAT(measured.err, HasSubstr("pages that were not read would have had "));
  const test::Result all = NgRun(SparseTurn({"--attention.sparse.measure=true"}));
  EXPECT_THAT(all.err, HasSubstr("all pages were read"));
}

// The lines of --steps of a run. `pages`: of sparse; 0: flash.
std::vector<test::Json> StepsOf(int pages, const Arguments& more) {
  const test::TempDir temp;
  const std::string file = temp.File("steps");
  const test::Result ran =
      NgRun(SparseTurn(Arguments{"--sampler.chain=greedy",
                                 pages == 0 ? "--attention.name=flash"
                                            : absl::StrCat("--attention.sparse.pages=", pages),
                                 "--steps", file} +
                       more));
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  return test::JsonLines(test::ReadFile(file));
}

TEST(SparseRun, SaysOfEachStepWhatItMissed) {
  const Arguments measure = {"--attention.sparse.measure=true"};
  std::vector<test::Json> plain = StepsOf(3, {});
  const std::vector<test::Json> measured = StepsOf(3, measure);
  const std::vector<test::Json> drafted = StepsOf(3, measure + Arguments{"--drafter.name=ngram"});
  ASSERT_EQ(measured.size(), 90U);
  ASSERT_EQ(plain.size(), 90U);
  ASSERT_EQ(drafted.size(), 90U);
  int n_missed = 0;
  for (size_t i = 0; i < measured.size(); ++i) {
    ASSERT_TRUE(measured[i].contains("missed"));
    EXPECT_FALSE(plain[i].contains("missed"));
    const test::Json& missed = measured[i]["missed"];
    plain[i]["missed"] = missed;
    EXPECT_EQ(plain[i], measured[i]);  // nothing else is another
    EXPECT_EQ(drafted[i]["missed"], missed);
    EXPECT_LE(missed["mean"], missed["most"]);
    EXPECT_LT(missed["most"], 1.0);
    // The prompt has some tokens; three pages are 48.
    const bool some = missed["most"] > 0.0;
    n_missed += some ? 1 : 0;
    EXPECT_EQ(missed.contains("layer"), some);
    EXPECT_EQ(missed.contains("head"), some);
  }
  EXPECT_GT(n_missed, 30);
  EXPECT_LT(n_missed, 90);
  for (const test::Json& step : StepsOf(64, measure)) EXPECT_EQ(step["missed"]["most"], 0.0);
  for (const test::Json& step : StepsOf(0, {})) EXPECT_FALSE(step.contains("missed"));
}

}  // namespace
}  // namespace ng
