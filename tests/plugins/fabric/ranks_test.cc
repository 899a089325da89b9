// Runs over several ranks: every rank has the ids, logits, attention rows and points of one
// process, bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ng/engine.h"
#include "tests/plugins/fabric/thread_ranks.h"

namespace ng {
namespace {

using ::testing::HasSubstr;
using Overrides = std::vector<std::string>;

constexpr char kGolden[] = NG_TEST_DATA "/golden/";

struct Case {
  std::string model;
  Overrides overrides = {};
};

absl::StatusOr<std::vector<Completion>> TryRun(const Case& one, bool ranks,
                                               const std::atomic<bool>* stop = nullptr) {
  EngineOptions options;
  options.overrides = {"model.path=" + one.model, "run.threads=1", "run.model_defaults=false",
                       "sampler.chain=greedy", "run.stop_ids="};
  options.overrides.insert(options.overrides.end(), one.overrides.begin(), one.overrides.end());
  options.stop = stop;
  if (ranks) {
    options.plugins = {{&test::kThreadRanks, "the test"}};
    options.overrides.emplace_back("fabric.name=threads");
    options.overrides.emplace_back("run.check_plugins=true");
  }
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Open(options));
  const std::vector<GenerateRequest> requests = {
      {.prompt_ids = {3, 1, 4, 1, 5, 9, 2}, .max_new_tokens = 3},
      {.prompt_ids = {2, 7}, .max_new_tokens = 4}};
  RunNeeds needs = Needs(requests);
  needs.prompt_logits = true;
  NG_RETURN_IF_ERROR(engine->Load(needs));
  GenerateOptions keep;
  keep.capture_logits = keep.capture_decode_logits = keep.capture_attn_full = true;
  keep.trace_layers.assign(engine->attention_layers().begin(), engine->attention_layers().end());
  for (const PointShape& shape : engine->points()) keep.capture_points.push_back(shape.at);
  return engine->Generate(requests, keep);
}

// Compares bits; NaN never comes here.
void ExpectSame(const std::vector<Completion>& a, const std::vector<Completion>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].ids, b[i].ids);
    EXPECT_EQ(a[i].captured.logits, b[i].captured.logits);
    EXPECT_EQ(a[i].captured.decode_logits, b[i].captured.decode_logits);
    ASSERT_EQ(a[i].captured.attn_full.size(), b[i].captured.attn_full.size());
    for (size_t row = 0; row < a[i].captured.attn_full.size(); ++row) {
      ASSERT_EQ(a[i].captured.attn_full[row].probs, b[i].captured.attn_full[row].probs);
    }
    ASSERT_EQ(a[i].captured.points.size(), b[i].captured.points.size());
    for (size_t point = 0; point < a[i].captured.points.size(); ++point) {
      EXPECT_EQ(a[i].captured.points[point].rows, b[i].captured.points[point].rows)
          << PointText(a[i].captured.points[point].at);
    }
  }
}

void ExpectRanksAgree(const Case& one, const std::vector<int>& sizes) {
  const auto alone = TryRun(one, false);
  ASSERT_TRUE(alone.ok()) << one.model << ": " << alone.status();
  for (const int size : sizes) {
    SCOPED_TRACE(absl::StrCat(one.model, " on ", size, " ranks"));
    std::vector<absl::StatusOr<std::vector<Completion>>> seen(static_cast<size_t>(size));
    test::OnRanks(size, [&](int rank) { seen[static_cast<size_t>(rank)] = TryRun(one, true); });
    for (const auto& of_rank : seen) {
      ASSERT_TRUE(of_rank.ok()) << of_rank.status();
      ExpectSame(*of_rank, *alone);
    }
  }
}

// Every model of the goldens that ng opens.
std::vector<std::string> Models() {
  std::vector<std::string> models;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kGolden)) {
    const std::string name = entry.path().filename();
    if (name == "config.json") models.push_back(entry.path().parent_path());
    if (entry.path().extension() == ".gguf") models.push_back(entry.path());
  }
  std::ranges::sort(models);
  return models;
}

TEST(Ranks, HaveTheBitsOfOneProcessInEveryFamily) {
  const std::vector<std::string> models = Models();
  ASSERT_GT(models.size(), 40U);
  for (const std::string& model : models) ExpectRanksAgree({model}, {2, 3, 4});
}

TEST(Ranks, HaveTheBitsOfOneProcessWithEveryWeightTypeCacheAndChunk) {
  const std::string model = absl::StrCat(kGolden, "llama/tied_gqa");
  for (const char* weights : {"f32", "bf16", "f16", "int8", "int4"}) {
    ExpectRanksAgree({model, {absl::StrCat("model.weights=", weights)}}, {1, 2});
  }
  for (const char* codec : {"bf16", "int8", "int4"}) {
    ExpectRanksAgree({model, {absl::StrCat("cache.codec=", codec), "cache.name=paged"}}, {2});
  }
  ExpectRanksAgree({model, {"run.prefill_chunk=2", "attention.name=reference"}}, {2});
}

}  // namespace
}  // namespace ng
