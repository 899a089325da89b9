// Runs of ranks that are threads, for tests.
#ifndef NG_TESTS_PLUGINS_FABRIC_RANK_RUNS_H_
#define NG_TESTS_PLUGINS_FABRIC_RANK_RUNS_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ng/engine.h"
#include "ng/sampler.h"
#include "tests/plugins/fabric/thread_ranks.h"

namespace ng::test {

using Overrides = std::vector<std::string>;

inline constexpr char kGolden[] = NG_TEST_DATA "/golden/";

struct Case {
  std::string model;  // a shape (.json) gets random weights
  Overrides overrides = {};
  std::vector<int32_t> prompt = {3, 1, 4, 1, 5, 9, 2};
  int n_prompts = 1;  // so many, each a little different
};

// Of a rank that draws nothing.
inline EngineOptions GreedyRank(const std::string& model) {
  EngineOptions options;
  options.overrides = {absl::StrCat("model.path=", kGolden, model),
                       "run.threads=1",
                       "fabric.name=threads",
                       "run.model_defaults=false",
                       "sampler.chain=greedy",
                       "run.stop_ids="};
  options.plugins = {{&kThreadRanks, "the test"}};
  options.ranks = true;
  return options;
}

// `looks`: keeps attention rows and points, which ranks with some of the layers do not have.
inline absl::StatusOr<std::vector<Completion>> TryRun(const Case& one, bool ranks,
                                                      bool looks = true,
                                                      const std::atomic<bool>* stop = nullptr) {
  EngineOptions options;
  options.overrides = {"run.threads=1", "run.model_defaults=false", "sampler.chain=greedy",
                       "run.stop_ids="};
  if (one.model.ends_with(".json")) {
    options.random_weights = one.model;
  } else {
    options.overrides.push_back("model.path=" + one.model);
  }
  options.overrides.insert(options.overrides.end(), one.overrides.begin(), one.overrides.end());
  options.stop = stop;
  options.ranks = true;
  if (ranks) {
    options.plugins = {{&kThreadRanks, "the test"}};
    options.overrides.emplace_back("fabric.name=threads");
    options.overrides.emplace_back("run.check_plugins=true");
  }
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Open(options));
  std::vector<GenerateRequest> requests = {{.prompt_ids = {2, 7}, .max_new_tokens = 4}};
  for (int i = 0; i < one.n_prompts; ++i) {
    requests.push_back({.prompt_ids = one.prompt, .max_new_tokens = 3});
    requests.back().prompt_ids[0] = (one.prompt[0] + i) % 20;
  }
  RunNeeds needs = Needs(requests);
  needs.prompt_logits = true;
  NG_RETURN_IF_ERROR(engine->Load(needs));
  GenerateOptions keep;
  keep.capture_logits = keep.capture_decode_logits = true;
  if (!looks) return engine->Generate(requests, keep);
  keep.capture_attn_full = true;
  keep.trace_layers.assign(engine->attention_layers().begin(), engine->attention_layers().end());
  for (const PointShape& shape : engine->points()) keep.capture_points.push_back(shape.at);
  return engine->Generate(requests, keep);
}

// Compares bits; NaN never comes here.
inline void ExpectSame(const std::vector<Completion>& a, const std::vector<Completion>& b) {
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

// Every model of the goldens that ng opens.
inline std::vector<std::string> Models() {
  std::vector<std::string> models;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kGolden)) {
    const std::string name = entry.path().filename();
    if (name == "config.json") models.push_back(entry.path().parent_path());
    if (entry.path().extension() == ".gguf") models.push_back(entry.path());
  }
  std::ranges::sort(models);
  return models;
}

// The error that each rank ends with, when rank r runs with overrides[r].
inline std::vector<absl::Status> ErrorsOf(const std::vector<Overrides>& overrides) {
  const std::string model = absl::StrCat(kGolden, "llama/tied_gqa");
  std::vector<absl::Status> seen(overrides.size());
  OnRanks(static_cast<int>(overrides.size()), [&](int rank) {
    const auto at = static_cast<size_t>(rank);
    seen[at] = TryRun({model, overrides[at]}, true).status();
  });
  return seen;
}

// A sampler's stage that fails for the sixth prompt.
class FailsForOne final : public SamplerStage {
 public:
  static absl::StatusOr<std::unique_ptr<SamplerStage>> Create(const PluginContext& /*context*/) {
    return std::make_unique<FailsForOne>();
  }
  absl::Status Apply(int /*slot*/, const DrawKey& key, CandidateSet& /*candidates*/) override {
    return key.request == 5 ? NumericError("no") : absl::OkStatus();
  }
};
inline constexpr PluginDescriptor kFailsForOne =
    SamplerPlugin<FailsForOne::Create>("fails", "1.0.0", "fails for one", {});

// A sampler's stage that is slow on rank 1, and knows which requests each of two ranks had.
inline std::array<std::set<int64_t>, 2> requests_of_rank;
class IsSlowOnRank1 final : public SamplerStage {
 public:
  static absl::StatusOr<std::unique_ptr<SamplerStage>> Create(const PluginContext& /*context*/) {
    return std::make_unique<IsSlowOnRank1>();
  }
  absl::Status Apply(int /*slot*/, const DrawKey& key, CandidateSet& /*candidates*/) override {
    requests_of_rank.at(static_cast<size_t>(rank_)).insert(key.request);
    std::this_thread::sleep_for(std::chrono::milliseconds(rank_ == 1 ? 40 : 3));
    return absl::OkStatus();
  }

 private:
  const int rank_ = t_rank.second;
};
inline constexpr PluginDescriptor kIsSlowOnRank1 =
    SamplerPlugin<IsSlowOnRank1::Create>("slow", "1.0.0", "is slow on rank 1", {});

// What rank 0 of a dealt run sees: "3.0" is step 0 of request 3, "3." its end.
struct Dealt {
  std::vector<absl::StatusOr<std::vector<Completion>>> of_rank;
  std::vector<std::string> told;
};

struct DealtCase {
  int ranks;
  int groups;
  Overrides overrides = {};
  int stopped = -1;  // the rank that is stopped at its first steps; -1: none
  bool looks = true;
};

inline Dealt RunDealt(const DealtCase& one) {
  Dealt dealt;
  dealt.of_rank.resize(static_cast<size_t>(one.ranks));
  std::vector<GenerateRequest> requests;
  for (int32_t i = 0; i < 11; ++i) {
    requests.push_back({.prompt_ids = {3, 1, i, 4}, .max_new_tokens = 1 + i * 5 % 7});
  }
  OnRanks(one.ranks, [&](int rank) {
    EngineOptions options;
    std::atomic<bool> stop = false;
    options.stop = &stop;
    options.overrides = {absl::StrCat("model.path=", kGolden, "llama/tied_gqa"),
                         "run.threads=1",
                         "run.model_defaults=false",
                         "run.stop_ids=",
                         "sampler.chain=temperature,top_k",
                         "cache.max_sequences=2",
                         "run.check_plugins=true",
                         absl::StrCat("fabric.groups=", one.groups)};
    if (one.ranks > 1) options.overrides.emplace_back("fabric.name=threads");
    options.overrides.insert(options.overrides.end(), one.overrides.begin(), one.overrides.end());
    options.plugins = {
        {&kThreadRanks, "the test"}, {&kFailsForOne, "the test"}, {&kIsSlowOnRank1, "the test"}};
    options.ranks = true;
    auto& own = dealt.of_rank[static_cast<size_t>(rank)];
    const auto engine = Engine::Open(options);
    if (!engine.ok()) {
      own = engine.status();
      return;
    }
    ASSERT_TRUE((*engine)->Load(Needs(requests)).ok());
    stop = rank == one.stopped;
    GenerateOptions keep;
    keep.capture_decode_logits = keep.steps = true;
    if (one.looks) keep.trace_layers = {0};
    keep.on_step = [&](int index, const StepRecord& record) {
      EXPECT_EQ(rank, 0);
      EXPECT_FALSE(record.top_k.empty() || (one.looks && record.attn_rows.empty()));
      dealt.told.push_back(absl::StrCat(index, ".", record.step));
      return absl::OkStatus();
    };
    keep.on_done = [&](int index, const Completion& /*completion*/) {
      dealt.told.push_back(absl::StrCat(index, "."));
      return absl::OkStatus();
    };
    own = (*engine)->Generate(requests, keep);
  });
  return dealt;
}

}  // namespace ng::test

#endif  // NG_TESTS_PLUGINS_FABRIC_RANK_RUNS_H_
