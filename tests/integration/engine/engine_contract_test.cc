// What the engine promises of a request and of a step, through the public Engine on a random model.
// (Stop on eot is in tests/core/runtime/generate_test.cc: it drives the loop through a dummy
// model.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ng/engine.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng {
namespace {

using ::testing::HasSubstr;

class EngineContract : public ::testing::TestWithParam<std::string> {
 protected:
  EngineContract() { model_.WriteTo(dir_.path()); }

  std::unique_ptr<Engine> Open(std::vector<std::string> overrides = {}) {
    EngineOptions options;
    options.overrides = {"model.path=" + dir_.path(), "sampler.chain=greedy",
                         "attention.name=" + GetParam()};
    options.overrides.insert(options.overrides.end(), overrides.begin(), overrides.end());
    auto engine = Engine::Open(options);
    EXPECT_TRUE(engine.ok()) << engine.status();
    return *std::move(engine);
  }

  std::vector<int32_t> RandomIds(size_t n) {
    std::vector<int32_t> ids(n);
    for (int32_t& id : ids) id = static_cast<int32_t>(random_() % 61);
    return ids;
  }

  test::TinyNiels model_;
  test::TempDir dir_;
  std::mt19937_64 random_{7};
};

TEST_P(EngineContract, GreedyCachedEqualsGreedyFull) {
  for (int round = 0; round < 6; ++round) {
    const GenerateRequest request{RandomIds(2 + random_() % 40), 16, {}};
    std::vector<std::vector<int32_t>> ids;
    for (const char* use_cache : {"run.use_cache=true", "run.use_cache=false"}) {
      const auto engine = Open({use_cache});
      ASSERT_TRUE(engine->Load(Needs({&request, 1})).ok());
      const auto done = engine->Generate({&request, 1}, {});
      ASSERT_TRUE(done.ok()) << done.status();
      ids.push_back((*done)[0].ids);
    }
    EXPECT_EQ(ids[0].size(), request.prompt_ids.size() + 16);
    EXPECT_EQ(ids[0], ids[1]);
  }
}

TEST_P(EngineContract, AttentionRowHasShapeSumFiniteAndRange) {
  const auto engine = Open();
  const std::vector<GenerateRequest> requests = {{RandomIds(5), 2, {}}, {RandomIds(5), 2, {}}};
  ASSERT_TRUE(engine->Load(Needs(requests)).ok());
  GenerateOptions keep;
  keep.trace_layers = {0};
  int n_rows = 0;
  keep.on_step = [&](int, const StepRecord& record) {
    EXPECT_EQ(record.attn_rows.size(), 3U);  // one per head
    for (const AttentionRow& row : record.attn_rows) {
      // Step 0 has the last prompt token's row, step 1 that of the one decoded token.
      EXPECT_EQ(row.probs.size(), 5U + static_cast<size_t>(record.step));
      double sum = 0.0;
      for (const float p : row.probs) {
        EXPECT_TRUE(std::isfinite(p));
        EXPECT_GE(p, -1e-6F);
        EXPECT_LE(p, 1.0F + 1e-6F);
        sum += p;
      }
      EXPECT_LT(std::abs(sum - 1.0), 1e-4);
      ++n_rows;
    }
    return absl::OkStatus();
  };
  ASSERT_TRUE(engine->Generate(requests, keep).ok());
  EXPECT_EQ(n_rows, 2 * 2 * 3);
}

TEST_P(EngineContract, TracingDoesNotChangeATokenOrALogitBit) {
  const GenerateRequest request{RandomIds(9), 12, {}};
  std::vector<std::vector<float>> logits;
  std::vector<std::vector<int32_t>> ids;
  for (const bool traced : {false, true}) {
    const auto engine = Open();
    ASSERT_TRUE(engine->Load(Needs({&request, 1})).ok());
    GenerateOptions keep;
    keep.capture_decode_logits = true;
    keep.capture_attn_full = traced;
    if (traced) keep.trace_layers = {0, 1};
    const auto done = engine->Generate({&request, 1}, keep);
    ASSERT_TRUE(done.ok());
    ids.push_back((*done)[0].ids);
    logits.push_back((*done)[0].captured.decode_logits);
  }
  EXPECT_EQ(ids[0], ids[1]);
  EXPECT_EQ(logits[0], logits[1]);
}

TEST_P(EngineContract, HardCapIsEnforcedAtEntryCachedAndRecomputed) {
  for (const char* use_cache : {"run.use_cache=true", "run.use_cache=false"}) {
    for (const int64_t total : {63, 64}) {
      const auto engine = Open({use_cache});
      const GenerateRequest request{RandomIds(40), total - 40, {}};
      ASSERT_TRUE(engine->Load(Needs({&request, 1})).ok());
      const auto done = engine->Generate({&request, 1}, {});
      ASSERT_TRUE(done.ok()) << done.status();
      EXPECT_EQ(static_cast<int64_t>((*done)[0].ids.size()), total);
    }
    const auto engine = Open({use_cache});
    for (const int64_t max_new : {int64_t{25}, int64_t{1} << 31, INT64_MAX}) {
      const GenerateRequest over{RandomIds(40), max_new, {}};
      const absl::Status refused = engine->CheckRequest(over);
      EXPECT_EQ(ExitCode(refused), 5);
      EXPECT_THAT(std::string(refused.message()),
                  HasSubstr(absl::StrCat("prompt 40 + max_new_tokens ", max_new)));
      EXPECT_THAT(std::string(refused.message()), HasSubstr("64 T_max"));
    }
    const GenerateRequest too_long{RandomIds(65), 0, {}};
    EXPECT_THAT(std::string(engine->CheckRequest(too_long).message()),
                HasSubstr("prompt length exceeds T_max"));
  }
}

TEST_P(EngineContract, PrefillAndDecodeStepCheckBatchCacheAndCapacity) {
  const auto engine = Open();
  ASSERT_TRUE(engine->Load({64, 3}).ok());
  const auto a = engine->OpenSequence(64);
  const auto b = engine->OpenSequence(5);
  ASSERT_TRUE(a.ok() && b.ok());
  const std::vector<SequenceId> both = {*a, *b};
  const std::vector<std::vector<int32_t>> one_prompt = {{1, 2, 3, 4}};
  const std::vector<std::vector<int32_t>> prompts = {{1, 2, 3, 4}, {5, 6, 7, 8}};
  const auto message = [](const auto& result) { return std::string(result.status().message()); };

  EXPECT_THAT(message(engine->Prefill(both, one_prompt)), HasSubstr("batch size mismatch"));
  const auto too_long =
      engine->Prefill(std::span(both).first(1), std::vector<std::vector<int32_t>>{RandomIds(65)});
  EXPECT_THAT(message(too_long), HasSubstr("prompt length exceeds T_max"));
  EXPECT_EQ(engine->SequenceLength(*a), 0);

  const auto prefilled = engine->Prefill(both, prompts);
  ASSERT_TRUE(prefilled.ok()) << prefilled.status();
  EXPECT_EQ(prefilled->logits.extent[0], 2);
  EXPECT_EQ(prefilled->logits.extent[1], 61);
  EXPECT_EQ(engine->SequenceLength(*a), 4);
  EXPECT_THAT(message(engine->Prefill(both, prompts)), HasSubstr("cache must be empty"));

  EXPECT_THAT(message(engine->DecodeStep(both, std::vector<int32_t>{1})),
              HasSubstr("batch size mismatch"));
  ASSERT_TRUE(engine->DecodeStep(both, std::vector<int32_t>{1, 2}).ok());
  EXPECT_EQ(engine->SequenceLength(*b), 5);
  const std::vector<SequenceId> twice = {*a, *a};
  EXPECT_THAT(message(engine->DecodeStep(twice, std::vector<int32_t>{1, 2})),
              HasSubstr("is there twice"));
  EXPECT_THAT(message(engine->Extend(twice, std::vector<std::vector<int32_t>>{{1}, {2}})),
              HasSubstr("is there twice"));
  EXPECT_EQ(engine->SequenceLength(*a), 5);
  // b is full; nothing moves, for a neither.
  const auto overflow = engine->DecodeStep(both, std::vector<int32_t>{1, 2});
  EXPECT_THAT(message(overflow), HasSubstr("cache overflow"));
  EXPECT_EQ(ExitCode(overflow.status()), 5);
  EXPECT_EQ(engine->SequenceLength(*a), 5);
  const std::vector<SequenceId> only_a = {*a};
  while (engine->SequenceLength(*a) < 64) {
    ASSERT_TRUE(engine->DecodeStep(only_a, std::vector<int32_t>{1}).ok());
  }
  EXPECT_THAT(message(engine->DecodeStep(only_a, std::vector<int32_t>{1})),
              HasSubstr("exceeded T_max during generation"));
}

TEST_P(EngineContract, ARequestsSequenceMustHaveRoomAndSomethingToFeed) {
  const auto engine = Open();
  EXPECT_EQ(ExitCode(engine->OpenSequence(8).status()), 1);  // nothing is loaded yet
  ASSERT_TRUE(engine->Load({16, 1}).ok());
  const auto sequence = engine->OpenSequence(8);
  ASSERT_TRUE(sequence.ok());
  GenerateRequest request{{1, 2, 3, 4}, 3, *sequence};
  ASSERT_TRUE(engine->Generate({&request, 1}, {}).ok());
  EXPECT_EQ(engine->SequenceLength(*sequence), 6);
  request.prompt_ids = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(ExitCode(engine->Generate({&request, 1}, {}).status()), 2);
  request.prompt_ids.push_back(7);
  EXPECT_EQ(ExitCode(engine->Generate({&request, 1}, {}).status()), 5);
  request.max_new_tokens = 1;
  EXPECT_TRUE(engine->Generate({&request, 1}, {}).ok());
}

TEST_P(EngineContract, StepByStepGivesTheIdsOfGenerate) {
  const GenerateRequest request{RandomIds(6), 8, {}};
  const auto engine = Open();
  RunNeeds needs = Needs({&request, 1});
  needs.max_sequences = 2;
  ASSERT_TRUE(engine->Load(needs).ok());
  const auto done = engine->Generate({&request, 1}, {});
  ASSERT_TRUE(done.ok());
  const auto sequence = engine->OpenSequence(14);
  ASSERT_TRUE(sequence.ok());
  std::vector<int32_t> ids = request.prompt_ids;
  const std::vector<std::vector<int32_t>> prompts = {request.prompt_ids};
  auto logits = engine->Prefill(std::span(&*sequence, 1), prompts);
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(logits.ok()) << logits.status();
    const float* row = logits->logits.Row(0);
    ids.push_back(static_cast<int32_t>(std::max_element(row, row + 61) - row));
    logits = engine->DecodeStep(std::span(&*sequence, 1), std::span(&ids.back(), 1));
  }
  EXPECT_EQ(ids, (*done)[0].ids);
}

TEST_P(EngineContract, SetChangesWhatTheNextRunReadsAndNothingElse) {
  const auto engine = Open({"sampler.chain=temperature,top_k"});
  GenerateRequest request{RandomIds(5), 12, {}};
  ASSERT_TRUE(engine->Load(Needs({&request, 1})).ok());
  const auto ids = [&] { return (*engine->Generate({&request, 1}, {}))[0].ids; };
  const auto set = [&](const std::vector<std::string>& overrides) {
    return engine->Set(overrides);
  };
  const std::vector<int32_t> first = ids();
  ASSERT_TRUE(set({"sampler.seed=2"}).ok());
  const std::vector<int32_t> second = ids();
  EXPECT_NE(second, first);
  ASSERT_TRUE(set({"sampler.chain=greedy", "run.max_new_tokens=3"}).ok());  // the seed is as before
  EXPECT_EQ(engine->config().Int("sampler.seed"), 1);
  EXPECT_EQ(engine->default_max_new_tokens(), 3);
  const std::vector<int32_t> greedy = ids();
  for (const std::string wrong : {"run.threads=1", "sampler.chain=no", "run.max_new_tokens=x",
                                  "cache.codec=bf16", "run.on_full=recompute"}) {
    EXPECT_FALSE(set({"sampler.seed=2", wrong}).ok()) << wrong;
    EXPECT_EQ(ids(), greedy) << wrong;
  }
  ASSERT_TRUE(set({"sampler.seed=2"}).ok());
  EXPECT_EQ(ids(), second);
  ASSERT_TRUE(set({}).ok());
  EXPECT_EQ(ids(), first);
}

TEST_P(EngineContract, FullAttentionMatrixIsCausalAndCoversTheLastId) {
  const GenerateRequest request{RandomIds(6), 4, {}};
  const auto engine = Open();
  ASSERT_TRUE(engine->Load(Needs({&request, 1})).ok());
  GenerateOptions keep;
  keep.capture_attn_full = true;
  keep.trace_layers = {1};
  const auto done = engine->Generate({&request, 1}, keep);
  ASSERT_TRUE(done.ok());
  const std::vector<AttentionRow>& rows = (*done)[0].captured.attn_full;
  ASSERT_EQ(rows.size(), 10U * 3U);  // every id, three heads
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].layer, 1);
    EXPECT_EQ(rows[i].head, static_cast<int>(i % 3));
    EXPECT_EQ(rows[i].probs.size(), i / 3 + 1);
  }
}

// Rows come in the order of the model, so whoever names another one would take them for others.
TEST_P(EngineContract, TracedLayersAndHeadsRise) {
  const GenerateRequest request{RandomIds(6), 1, {}};
  const auto engine = Open();
  ASSERT_TRUE(engine->Load(Needs({&request, 1})).ok());
  const auto message = [&](std::vector<int> layers, std::vector<int> heads) {
    GenerateOptions keep;
    keep.trace_layers = std::move(layers);
    keep.trace_heads = std::move(heads);
    return std::string(engine->Generate({&request, 1}, keep).status().message());
  };
  EXPECT_EQ(message({0, 1}, {0, 2}), "");
  EXPECT_THAT(message({0, 1}, {2, 0}), HasSubstr("trace heads 2, 0: they must rise, each once"));
  EXPECT_THAT(message({1, 1}, {}), HasSubstr("trace layers 1, 1: they must rise, each once"));
}

INSTANTIATE_TEST_SUITE_P(Backends, EngineContract, ::testing::Values("reference", "flash"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace ng
