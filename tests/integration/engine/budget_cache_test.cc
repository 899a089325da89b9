// The cache with a budget in whole runs: the bit contract where tokens leave, on models of many
// kinds, and what is refused.
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

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kBudgetTokens = 64;  // the models' context; their windows are 6 tokens
constexpr int32_t kBudgetVocabulary = 40;

// The model, the attention backend, the cache's codec, and the policy, with "_pyramid" in a
// pyramid, with "_adaptive" over the kv heads of a layer, with "_both" both.
using BudgetCase = std::tuple<std::string, std::string, std::string, std::string>;

class BudgetCache : public ::testing::TestWithParam<BudgetCase> {
 protected:
  static std::vector<std::string> Budget(int64_t tokens) {
    const std::string& policy = std::get<3>(GetParam());
    const size_t end = std::min(policy.size(), policy.rfind('_'));
    const std::string shape = policy.substr(end);
    const bool shaped = shape == "_pyramid" || shape == "_adaptive" || shape == "_both";
    const bool pyramid = shape == "_pyramid" || shape == "_both";
    return {
        "cache.name=budget",
        absl::StrCat("cache.budget.tokens=", tokens),
        "cache.budget.every=8",
        "cache.budget.sinks=2",
        "cache.budget.recent=4",
        "cache.budget.policy=" + (shaped ? policy.substr(0, end) : policy),
        absl::StrCat("cache.budget.layers=", pyramid ? "pyramid" : "even"),
        absl::StrCat("cache.budget.heads=", shaped && shape != "_pyramid" ? "adaptive" : "even"),
        "cache.budget.beta=2",
        "policy.lagkv.lag=4",
        "policy.snapkv.queries=4",
        "policy.expected_attention.sinks=2"};
  }
  static std::unique_ptr<Engine> Open(const std::vector<std::string>& more,
                                      const RunNeeds& needs = {.max_tokens = kBudgetTokens,
                                                               .max_sequences = 3}) {
    const auto& [model, attention, codec, policy] = GetParam();
    return test::OpenLoaded(
        {"model.path=" NG_TEST_DATA "/golden/" + model, "attention.name=" + attention,
         "cache.codec=" + codec, "run.stop_ids=", "sampler.chain=greedy", "run.check_plugins=true"},
        more, needs);
  }

  std::vector<int32_t> RandomTokens(int64_t n) {
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < n; ++i) {
      tokens.push_back(static_cast<int32_t>(random_() % static_cast<uint64_t>(kBudgetVocabulary)));
    }
    return tokens;
  }
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

  std::mt19937_64 random_{7};
};

TEST_P(BudgetCache, HasOneSetOfBitsForAllChunksBatchesAndThreads) {
  const std::unique_ptr<Engine> whole = Open(Budget(14));
  const std::unique_ptr<Engine> other = Open([] {
    std::vector<std::string> options = Budget(14);
    options.emplace_back("run.threads=3");
    return options;
  }());
  const SequenceId a = whole->OpenSequence(kBudgetTokens).value();
  const SequenceId b = other->OpenSequence(kBudgetTokens).value();
  const SequenceId beside = other->OpenSequence(kBudgetTokens).value();
  std::vector<int32_t> text;
  while (std::ssize(text) < kBudgetTokens) {
    const int64_t left = kBudgetTokens - std::ssize(text);
    const std::vector<int32_t> tokens = RandomTokens(1 + Below(std::min<int64_t>(left, 11)));
    text.insert(text.end(), tokens.begin(), tokens.end());
    // All of it anew, or what is new alone, with another sequence in the step.
    ASSERT_TRUE(whole->TruncateSequence(a, 0).ok());
    const std::vector<float> wanted = test::LastLogits(*whole, a, text);
    const int32_t token = RandomTokens(1).front();
    ASSERT_EQ(test::LastLogitsBeside(*other, beside, token, b, tokens), wanted) << text.size();
    if (other->SequenceLength(beside) < 20) continue;
    ASSERT_TRUE(other->TruncateSequence(beside, 0).ok());
  }
}

TEST_P(BudgetCache, OfALongBudgetHasTheBitsOfContiguous) {
  const std::unique_ptr<Engine> budget = Open(Budget(kBudgetTokens));
  const std::unique_ptr<Engine> contiguous = Open({"cache.name=contiguous"});
  const SequenceId a = budget->OpenSequence(kBudgetTokens).value();
  const SequenceId b = contiguous->OpenSequence(kBudgetTokens).value();
  for (const int64_t n : {int64_t{5}, int64_t{30}, int64_t{1}, kBudgetTokens - 36}) {
    const std::vector<int32_t> tokens = RandomTokens(n);
    EXPECT_EQ(test::LastLogits(*budget, a, tokens), test::LastLogits(*contiguous, b, tokens));
  }
}

TEST_P(BudgetCache, GoesBackToItsLastBoundaryAndForks) {
  const std::unique_ptr<Engine> engine = Open(Budget(14));
  const SequenceId a = engine->OpenSequence(kBudgetTokens).value();
  const SequenceId b = engine->OpenSequence(kBudgetTokens).value();
  const std::vector<int32_t> begin = RandomTokens(40);
  const std::vector<int32_t> end = RandomTokens(20);
  test::LastLogits(*engine, a, begin);
  test::LastLogits(*engine, b, begin);
  test::LastLogits(*engine, b, RandomTokens(5));
  EXPECT_TRUE(IsUnsupported(engine->TruncateSequence(b, 39)));
  ASSERT_TRUE(engine->TruncateSequence(b, 40).ok());
  const SequenceId fork = engine->ForkSequence(a, kBudgetTokens).value();
  const std::vector<float> wanted = test::LastLogits(*engine, a, end);
  EXPECT_EQ(test::LastLogits(*engine, b, end), wanted);
  EXPECT_EQ(test::LastLogits(*engine, fork, end), wanted);
}

// What is saved in the middle of a text goes on in another engine with the same bits.
TEST_P(BudgetCache, GoesOnFromASnapshot) {
  const RunNeeds needs = {.max_tokens = kBudgetTokens, .max_sequences = 3, .snapshots = true};
  const test::TempDir temp;
  for (const int64_t n : {int64_t{5}, int64_t{24}, int64_t{39}}) {
    const std::unique_ptr<Engine> saving = Open(Budget(14), needs);
    const SequenceId a = saving->OpenSequence(kBudgetTokens).value();
    std::vector<int32_t> text = RandomTokens(n - 1);
    test::LastLogits(*saving, a, text);
    text.push_back(RandomTokens(1).front());  // alone: what a step of one leaves is saved too
    test::LastLogits(*saving, a, {text.back()});
    const std::string path = temp.File(absl::StrCat("cache", n));
    const absl::Status saved = saving->SaveSequence(a, text, path);
    ASSERT_TRUE(saved.ok()) << saved;
    std::vector<std::string> options = Budget(14);
    options.emplace_back("run.threads=3");
    const std::unique_ptr<Engine> loading = Open(options, needs);
    const auto loaded = loading->LoadSequence(path, kBudgetTokens);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(loaded->ids, text);
    for (const int64_t more : {1, 7, 15}) {
      const std::vector<int32_t> tokens = RandomTokens(more);
      ASSERT_EQ(test::LastLogits(*loading, loaded->sequence, tokens),
                test::LastLogits(*saving, a, tokens))
          << n << " " << more;
    }
    const std::unique_ptr<Engine> other = Open(Budget(15), needs);
    const absl::Status refused = other->LoadSequence(path, kBudgetTokens).status();
    EXPECT_EQ(ExitCode(refused), 3);
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr(path + ": was made by a cache that lets tokens leave by budget"),
                      HasSubstr("tokens = 14"), HasSubstr("tokens = 15")));
  }
}

TEST_P(BudgetCache, GivesAllLogitsUpToABoundary) {
  const std::unique_ptr<Engine> engine = Open(Budget(14), {.max_tokens = kBudgetTokens});
  const SequenceId id = engine->OpenSequence(kBudgetTokens).value();
  EXPECT_EQ(engine->MostLogitRows(id), 8);
  const std::vector<int32_t> tokens = RandomTokens(5);
  ASSERT_TRUE(engine->Extend({&id, 1}, {&tokens, 1}, LogitRows::kAll).ok());
  EXPECT_EQ(engine->MostLogitRows(id), 3);
  const absl::Status refused = engine->Extend({&id, 1}, {&tokens, 1}, LogitRows::kAll).status();
  EXPECT_EQ(ExitCode(refused), 5);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("the logits of 5 tokens behind 5 are asked for at once: the cache changes "
                        "behind 8 tokens, and a step ends there"));
}

// What each query of a run attended to stands at the tokens' positions, whoever computes it.
TEST_P(BudgetCache, AttentionRowsStandAtTheirPositions) {
  if (std::get<1>(GetParam()) != "flash") GTEST_SKIP() << "it is what flash is held against";
  const GenerateRequest request{RandomTokens(46), 1, {}};
  std::vector<CapturedTensors> captured;
  for (const char* const backend : {"flash", "reference"}) {
    std::vector<std::string> options = Budget(14);
    options.push_back(absl::StrCat("attention.name=", backend));
    const std::unique_ptr<Engine> engine = Open(options);
    GenerateOptions keep;
    keep.capture_attn_full = true;
    keep.trace_layers = {0, 1};
    const auto done = engine->Generate({&request, 1}, keep);
    ASSERT_TRUE(done.ok()) << done.status();
    captured.push_back(done->front().captured);
  }
  ASSERT_EQ(captured[0].attn_full.size(), captured[1].attn_full.size());
  int64_t n_gone = 0;
  for (size_t i = 0; i < captured[0].attn_full.size(); ++i) {
    const AttentionRow& row = captured[0].attn_full[i];
    const AttentionRow& wanted = captured[1].attn_full[i];
    ASSERT_EQ(row.probs.size(), wanted.probs.size());
    for (size_t j = 0; j < row.probs.size(); ++j) {
      EXPECT_NEAR(row.probs[j], wanted.probs[j], 0.02) << row.probs.size() - 1 << " to " << j;
      n_gone += row.probs[j] == 0.0F && wanted.probs[j] == 0.0F ? 1 : 0;
    }
  }
  EXPECT_GT(n_gone, 1000);
}

std::string NameOfBudgetCase(const ::testing::TestParamInfo<BudgetCase>& test) {
  const auto& [model, attention, codec, policy] = test.param;
  std::string name = absl::StrCat(model, "_", attention, "_", codec, "_", policy);
  std::ranges::replace(name, '/', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(
    Models, BudgetCache,
    ::testing::Combine(::testing::Values("llama/untied", "gemma3/tiny", "gpt_oss/tiny",
                                         "llama4/tiny", "gemma4/inputs", "bloom/tiny",
                                         "deepseek_v3/tiny", "ministral3/tiny"),
                       ::testing::Values("flash"), ::testing::Values("bf16"),
                       ::testing::Values("keydiff")),
    NameOfBudgetCase);
INSTANTIATE_TEST_SUITE_P(Reference, BudgetCache,
                         ::testing::Combine(::testing::Values("gemma3/tiny", "bloom/tiny"),
                                            ::testing::Values("reference"),
                                            ::testing::Values("f32"), ::testing::Values("knorm")),
                         NameOfBudgetCase);
INSTANTIATE_TEST_SUITE_P(Policies, BudgetCache,
                         ::testing::Combine(::testing::Values("qwen3/tiny"),
                                            ::testing::Values("flash"), ::testing::Values("int8"),
                                            ::testing::Values("window", "random", "knorm", "lagkv",
                                                              "observed", "tova", "snapkv",
                                                              "expected_attention")),
                         NameOfBudgetCase);
INSTANTIATE_TEST_SUITE_P(Attended, BudgetCache,
                         ::testing::Combine(::testing::Values("llama/untied", "gemma3/tiny",
                                                              "gpt_oss/tiny", "gemma4/inputs",
                                                              "bloom/tiny", "deepseek_v3/tiny"),
                                            ::testing::Values("flash"), ::testing::Values("bf16"),
                                            ::testing::Values("observed")),
                         NameOfBudgetCase);
INSTANTIATE_TEST_SUITE_P(AttendedReference, BudgetCache,
                         ::testing::Combine(::testing::Values("gemma3/tiny"),
                                            ::testing::Values("reference"),
                                            ::testing::Values("f32"),
                                            ::testing::Values("observed", "snapkv")),
                         NameOfBudgetCase);

// Layers hold other numbers of tokens.
INSTANTIATE_TEST_SUITE_P(
    Pyramid, BudgetCache,
    ::testing::Combine(::testing::Values("llama/untied", "gemma3/tiny", "gemma4/inputs"),
                       ::testing::Values("flash"), ::testing::Values("bf16"),
                       ::testing::Values("keydiff_pyramid", "observed_pyramid")),
    NameOfBudgetCase);
INSTANTIATE_TEST_SUITE_P(PyramidReference, BudgetCache,
                         ::testing::Combine(::testing::Values("gemma3/tiny"),
                                            ::testing::Values("reference"),
                                            ::testing::Values("f32"),
                                            ::testing::Values("snapkv_pyramid")),
                         NameOfBudgetCase);

// Kv heads of a layer hold other numbers of tokens. In f32: with rounded keys two backends may keep
// another token where scores of two heads lie close together.
INSTANTIATE_TEST_SUITE_P(
    Adaptive, BudgetCache,
    ::testing::Combine(::testing::Values("llama/untied", "gemma3/tiny", "gpt_oss/tiny",
                                         "gemma4/inputs", "bloom/tiny", "ministral3/tiny"),
                       ::testing::Values("flash"), ::testing::Values("f32"),
                       ::testing::Values("knorm_adaptive", "observed_adaptive", "snapkv_both")),
    NameOfBudgetCase);
INSTANTIATE_TEST_SUITE_P(AdaptiveReference, BudgetCache,
                         ::testing::Combine(::testing::Values("gemma3/tiny", "bloom/tiny"),
                                            ::testing::Values("reference"),
                                            ::testing::Values("f32"),
                                            ::testing::Values("tova_adaptive", "keydiff_both")),
                         NameOfBudgetCase);
INSTANTIATE_TEST_SUITE_P(AdaptivePolicies, BudgetCache,
                         ::testing::Combine(::testing::Values("qwen3/tiny"),
                                            ::testing::Values("flash"), ::testing::Values("int8"),
                                            ::testing::Values("window_adaptive", "lagkv_adaptive",
                                                              "expected_attention_adaptive")),
                         NameOfBudgetCase);
// Queries of windows, without rotation, of part of a head, of pairs side by side. In f32: rounded
// keys of two backends differ by more than scores may.
INSTANTIATE_TEST_SUITE_P(Queries, BudgetCache,
                         ::testing::Combine(::testing::Values("llama/untied", "gemma3/tiny",
                                                              "gpt_oss/tiny", "gemma4/inputs",
                                                              "bloom/tiny", "ministral3/tiny"),
                                            ::testing::Values("flash"), ::testing::Values("f32"),
                                            ::testing::Values("expected_attention")),
                         NameOfBudgetCase);

using test::Arguments;
using test::operator+;  // NOLINT(misc-unused-using-decls): it is used below
using test::ExpectError;
using test::NgRun;

Arguments BudgetTurn(int max_new_tokens, const Arguments& more) {
  return test::DemoTurn(max_new_tokens) + Arguments{"--cache.name=budget"} + more;
}

TEST(BudgetRun, RefusesWhatDoesNotGoTogether) {
  ExpectError(NgRun(BudgetTurn(20, {"--cache.budget.tokens=0"})), 2,
              {"cache.budget.tokens=0", "must be in [1, 2^63)"});
  ExpectError(NgRun(BudgetTurn(20, {"--cache.budget.tokens=30"})), 2,
              {"cache.budget.tokens = 30, must be at least cache.budget.sinks = 4 and "
               "cache.budget.recent = 32 together"});
  ExpectError(NgRun(BudgetTurn(20, {"--cache.budget.tokens=40", "--cache.budget.when=often"})), 2,
              {"cache.budget.when=often", "must be one of every, prompt"});
  ExpectError(NgRun(BudgetTurn(20, {"--cache.budget.tokens=40", "--cache.budget.every=0"})), 2,
              {"cache.budget.every=0", "must be"});
  ExpectError(NgRun(BudgetTurn(20, {"--cache.budget.tokens=40", "--cache.budget.per=page"})), 2,
              {"cache.budget.per=page", "head", "layer"});
  ExpectError(NgRun(BudgetTurn(20, {"--cache.budget.tokens=40", "--cache.budget.heads=adaptive",
                                    "--cache.budget.per=layer"})),
              2, {"cache.budget.heads = adaptive and cache.budget.per = layer", "must be head"});
  ExpectError(NgRun(BudgetTurn(20, {"--cache.budget.tokens=40", "--cache.budget.safeguard=2"})), 2,
              {"cache.budget.safeguard=2", "must be in [0, 1]"});
}

TEST(BudgetRun, NamesThePoliciesThatThereAre) {
  const Arguments turn = BudgetTurn(20, {"--cache.budget.tokens=40"});
  ExpectError(NgRun(turn + Arguments{"--cache.budget.policy=keydif"}), 4,
              {"keydif", "keydiff", "knorm"});
  ExpectError(NgRun(turn + Arguments{"--cache.budget.policy=lagkv", "--policy.lagkv.lag=0"}), 2,
              {"policy.lagkv.lag=0", "must be in [1, 1048576]"});
  ExpectError(NgRun(turn + Arguments{"--policy.random.sed=1"}), 2, {"policy.random.sed", "seed"});
  ExpectError(NgRun(turn + Arguments{"--cache.budget.policy=snapkv", "--cache.budget.every=32"}), 2,
              {"policy 'snapkv' looks at the attention of the last 64 queries, must be at most "
               "cache.budget.every = 32"});
  const test::Result listed = NgRun({"--list-plugins"});
  for (const char* policy : {"expected_attention", "keydiff", "knorm", "lagkv", "observed",
                             "random", "snapkv", "tova", "window"}) {
    EXPECT_THAT(listed.out, HasSubstr(absl::StrCat("policy ", policy, " 1.0.0  ")));
  }
}

TEST(BudgetRun, RefusesAPolicyThatGoesByQueriesWhereThereAreNone) {
  EngineOptions options;
  options.overrides = {"model.path=" NG_TEST_DATA "/golden/deepseek_v3/tiny", "cache.name=budget",
                       "cache.budget.policy=expected_attention"};
  const auto opened = Engine::Open(options);
  EXPECT_EQ(ExitCode(opened.status()), 4);
  EXPECT_THAT(std::string(opened.status().message()),
              AllOf(HasSubstr("cache plugin 'budget'"),
                    HasSubstr("its policy goes by the queries as they are before they are rotated, "
                              "and layer 0 of the model has queries which meet latents in place "
                              "of keys")));
}

TEST(BudgetRun, RefusesABackendThatDoesNotReadSlots) {
  const Arguments turn = BudgetTurn(20, {"--cache.budget.tokens=40"});
  const Arguments faulty = {"--plugins.path=" NG_BINARY_DIR
                            "/tests/fixtures/broken_plugins/throws_in_worker",
                            "--attention.name=throws_in_worker"};
  ExpectError(NgRun(turn + faulty), 4,
              {"cache plugin 'budget'",
               "lets tokens leave, which takes a backend with the feature "
               "'slots'"});
}

TEST(BudgetRun, SaysWhatItHoldsAndWhatHasLeft) {
  const Arguments turn = BudgetTurn(
      90, {"--cache.budget.tokens=24", "--cache.budget.recent=8", "--cache.budget.every=16"});
  const test::Result planned = NgRun(turn + Arguments{"--dry-run"});
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  EXPECT_THAT(
      planned.out,
      AllOf(HasSubstr("a sequence holds at most 40 tokens: others leave at multiples of 16"),
            HasSubstr("policy plugin 'window'")));
  const test::Result ran = NgRun(turn + Arguments{"--run.stop_ids="});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.err, AllOf(HasSubstr("policy window let "), Not(HasSubstr("approximate"))));
}

}  // namespace
}  // namespace ng
