// Probes in a run: those that look change no bit, and those that edit do what the same edit by hand
// does, however the ids are fed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "ng/engine.h"
#include "ng/safetensors.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using Overrides = std::vector<std::string>;
using Ids = std::vector<int32_t>;

const Ids kPrompt = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5};
const Ids kOther = {2, 7, 1, 8, 2, 8, 1, 8, 2, 8, 4};

absl::StatusOr<std::unique_ptr<Engine>> TryOpen(const std::string& model, const Overrides& more) {
  EngineOptions options;
  options.overrides = {"model.path=" NG_TEST_DATA "/golden/" + model,
                       "model.weights=f32",
                       "run.stop_ids=",
                       "sampler.chain=greedy",
                       "run.threads=1",
                       "run.check_plugins=true"};
  options.overrides.insert(options.overrides.end(), more.begin(), more.end());
  return Engine::Open(options);
}

// How a model is run.
struct ProbedRun {
  Overrides overrides = {};
  std::vector<Ids> prompts = {kPrompt};
  int64_t n_new = 4;
  std::string save_cache = {};
  std::string load_cache = {};
  bool logits = true;  // of the prompt
};

absl::StatusOr<std::vector<Completion>> TryGenerate(const std::string& model,
                                                    const ProbedRun& run) {
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, TryOpen(model, run.overrides));
  std::vector<GenerateRequest> requests;
  for (const Ids& prompt : run.prompts) {
    requests.push_back({.prompt_ids = prompt,
                        .max_new_tokens = run.n_new,
                        .load_cache = run.load_cache,
                        .save_cache = run.save_cache});
  }
  RunNeeds needs = Needs(requests);
  needs.prompt_logits = run.logits;
  NG_RETURN_IF_ERROR(engine->Load(needs));
  GenerateOptions options;
  options.capture_logits = run.logits;
  options.capture_decode_logits = true;
  return engine->Generate(requests, options);
}

std::vector<Completion> Generated(const std::string& model, const ProbedRun& run) {
  auto done = TryGenerate(model, run);
  EXPECT_TRUE(done.ok()) << done.status();
  return done.ok() ? *std::move(done) : std::vector<Completion>(run.prompts.size());
}

void ExpectSame(const Completion& found, const Completion& expected) {
  EXPECT_EQ(found.ids, expected.ids);
  EXPECT_EQ(found.captured.logits, expected.captured.logits);
  EXPECT_EQ(found.captured.decode_logits, expected.captured.decode_logits);
}

Overrides Capturing(const std::string& points, const std::string& file) {
  return {"probe.chain=capture", "probe.capture.points=" + points, "probe.capture.file=" + file};
}
Overrides Patching(const std::string& points, const std::string& file) {
  return {"probe.chain=patch", "probe.patch.points=" + points, "probe.patch.file=" + file};
}

class Probes : public ::testing::TestWithParam<std::string> {
 protected:
  // The rows of a point as another run has them, after `edit` of each value.
  std::string EditedByHand(const std::string& point,
                           const std::function<float(size_t element, float value)>& edit) {
    const std::string clean = dir_.File("clean");
    Generated(GetParam(), {.overrides = Capturing(point, clean), .n_new = 0});
    auto file = SafetensorsReader::Open(clean);
    EXPECT_TRUE(file.ok()) << file.status();
    NamedTensor tensor = *file->Read(point + ".0");
    const size_t n_values = tensor.data.size() / static_cast<size_t>(tensor.shape[0]);
    for (size_t i = 0; i < tensor.data.size(); ++i) {
      tensor.data[i] = edit(i % n_values, tensor.data[i]);
    }
    EXPECT_TRUE(WriteSafetensors(dir_.File("edited"), {tensor}).ok());
    return dir_.File("edited");
  }
  int64_t Values(const std::string& point) {
    const auto engine = TryOpen(GetParam(), {});
    return ChoosePoints((*engine)->points(), point)->front().values();
  }
  // What `edit` does, it does in whatever way the ids are fed.
  void ExpectTheSameInEveryWay(const Overrides& edit) {
    const Completion whole = Generated(GetParam(), {.overrides = edit})[0];
    EXPECT_NE(whole.captured.logits, Generated(GetParam(), {})[0].captured.logits);
    for (const char* way :
         {"run.prefill_chunk=3", "run.use_cache=false", "run.threads=2", "cache.name=paged"}) {
      ProbedRun run = {.overrides = edit, .prompts = {kPrompt, kOther, kPrompt}};
      run.overrides.emplace_back(way);
      const std::vector<Completion> done = Generated(GetParam(), run);
      ExpectSame(done[0], whole);
      ExpectSame(done[2], whole);
    }
  }

  test::TempDir dir_;
};

// Positions behind the end of the run, or that the file has no row for.
TEST_P(Probes, ThatEditNothingAreAnError) {
  const std::string rows = EditedByHand("layer0.out", [](size_t, float value) { return value; });
  struct Case {
    std::string key;
    std::string positions;
    Overrides edit;
  };
  const std::vector<Case> cases = {
      {"probe.ablate.", "500..600", {"probe.chain=ablate", "probe.ablate.points=layer0.out"}},
      {"probe.patch.", "answer", Patching("layer0.out", rows)}};
  for (auto [key, positions, edit] : cases) {
    edit.push_back(absl::StrCat(key, "positions=", positions));
    for (const int64_t n_new : {0, 4}) {
      const auto missed = TryGenerate(GetParam(), {.overrides = edit, .n_new = n_new});
      EXPECT_EQ(ExitCode(missed.status()), 2) << missed.status();
      EXPECT_THAT(std::string(missed.status().message()),
                  AllOf(HasSubstr(": positions: no row"), HasSubstr(key + "may_miss=true")));
    }
    // One prompt of a batch is enough.
    edit.back() = absl::StrCat(key, "positions=", kPrompt.size() - 1);
    Generated(GetParam(), {.overrides = edit, .prompts = {{3, 1}, kPrompt}, .n_new = 1});
    edit.back() = absl::StrCat(key, "positions=", positions);
    edit.push_back(key + "may_miss=true");
    ExpectSame(Generated(GetParam(), {.overrides = edit})[0], Generated(GetParam(), {})[0]);
  }
}

TEST_P(Probes, ThatOnlyLookChangeNothingAndSeeWhatTheEngineKeeps) {
  const ProbedRun plain = {.prompts = {kPrompt, kPrompt}};
  const std::vector<Completion> expected = Generated(GetParam(), plain);
  for (const char* way : {"run.prefill_chunk=0", "run.prefill_chunk=4", "cache.name=paged"}) {
    ProbedRun run = plain;
    run.overrides = Capturing("*", dir_.File("all"));
    run.overrides.insert(run.overrides.end(),
                         {"probe.chain=capture,logit_lens", way, "probe.logit_lens.positions=all",
                          "probe.logit_lens.file=" + dir_.File("lens")});
    const std::vector<Completion> seen = Generated(GetParam(), run);
    for (size_t i = 0; i < seen.size(); ++i) ExpectSame(seen[i], expected[i]);

    const auto engine = TryOpen(GetParam(), {way});
    std::vector<GenerateRequest> requests = {{kPrompt, 4, {}}, {kPrompt, 4, {}}};
    RunNeeds needs = Needs(requests);
    needs.prompt_logits = true;
    ASSERT_TRUE((*engine)->Load(needs).ok());
    GenerateOptions options;
    for (const PointShape& point : (*engine)->points()) options.capture_points.push_back(point.at);
    const auto kept = (*engine)->Generate(requests, options);
    ASSERT_TRUE(kept.ok()) << kept.status();
    auto file = SafetensorsReader::Open(dir_.File("all"));
    ASSERT_TRUE(file.ok()) << file.status();
    for (size_t i = 0; i < kept->size(); ++i) {
      for (const CapturedPoint& point : (*kept)[i].captured.points) {
        const auto tensor = file->Read(absl::StrCat(PointText(point.at), ".", i));
        ASSERT_TRUE(tensor.ok()) << tensor.status();
        EXPECT_EQ(tensor->data, point.rows) << tensor->name << " with " << way;
      }
    }
    EXPECT_THAT(file->metadata().at("tokens.1"), HasSubstr("\"prompt_len\":11,\"ids\":[3,1,4"));
    EXPECT_THAT(file->metadata().at("config"), HasSubstr("chain = capture,logit_lens"));
    EXPECT_EQ(file->metadata().at("probes"), "none");
    EXPECT_EQ(file->metadata().at("model").size(), 16U);
  }
}

TEST_P(Probes, PatchingARunWithItsOwnRowsChangesNothing) {
  const Completion plain =
      Generated(GetParam(), {.overrides = Capturing("*", dir_.File("own"))})[0];
  ExpectSame(Generated(GetParam(), {.overrides = Patching("*", dir_.File("own"))})[0], plain);
}

TEST_P(Probes, PatchingAllRowsBehindALayerGivesTheOtherRun) {
  const ProbedRun other = {.overrides = Capturing("layer*.out", dir_.File("b")),
                           .prompts = {kOther}};
  const Completion b = Generated(GetParam(), other)[0];
  for (const char* point : {"layer0.out", "layer1.out"}) {
    Overrides patch = Patching(point, dir_.File("b"));
    const Completion patched = Generated(GetParam(), {.overrides = patch})[0];
    EXPECT_EQ(patched.captured.logits, b.captured.logits) << point;
    EXPECT_EQ(patched.captured.decode_logits, b.captured.decode_logits) << point;
    patch.emplace_back("probe.patch.positions=0..4");
    const Completion partly = Generated(GetParam(), {.overrides = patch})[0];
    EXPECT_NE(partly.captured.logits, b.captured.logits) << point;
  }
}

TEST_P(Probes, SteerAsByHand) {
  const auto n = static_cast<size_t>(Values("layer0.out"));
  NamedTensor vector{"v", {static_cast<int64_t>(n)}, std::vector<float>(n)};
  for (size_t i = 0; i < n; ++i) vector.data[i] = 0.01F * static_cast<float>(i % 7) - 0.02F;
  ASSERT_TRUE(WriteSafetensors(dir_.File("v"), {vector}).ok());
  const Overrides steer = {"probe.chain=steer", "probe.steer.points=layer0.out",
                           "probe.steer.file=" + dir_.File("v"), "probe.steer.coefficient=2.5"};
  const std::string edited = EditedByHand("layer0.out", [&](size_t element, float value) {
    return value + vector.data[element] * 2.5F;
  });
  const Completion by_hand =
      Generated(GetParam(), {.overrides = Patching("layer0.out", edited), .n_new = 0})[0];
  const Completion steered = Generated(GetParam(), {.overrides = steer, .n_new = 0})[0];
  EXPECT_EQ(steered.captured.logits, by_hand.captured.logits);
  ExpectTheSameInEveryWay(steer);
}

TEST_P(Probes, AblateAsByHand) {
  const std::string point =
      GetParam() == "granite_hybrid/tiny" ? "layer1.attn_head" : "layer0.attn_head";
  const auto engine = TryOpen(GetParam(), {});
  const PointShape shape = ChoosePoints((*engine)->points(), point)->front();
  const auto width = static_cast<size_t>(shape.width);
  const Overrides ablate = {"probe.chain=ablate", "probe.ablate.points=" + point,
                            "probe.ablate.heads=1"};
  const std::string edited = EditedByHand(
      point, [&](size_t element, float value) { return element / width == 1 ? 0.0F : value; });
  const Completion by_hand =
      Generated(GetParam(), {.overrides = Patching(point, edited), .n_new = 0})[0];
  const Completion ablated = Generated(GetParam(), {.overrides = ablate, .n_new = 0})[0];
  EXPECT_EQ(ablated.captured.logits, by_hand.captured.logits);
  ExpectTheSameInEveryWay(ablate);

  // Single elements, to means.
  NamedTensor means{"layer1.mlp_out", {Values("layer1.mlp_out")}, {}};
  means.data.assign(static_cast<size_t>(means.shape[0]), 0.125F);
  ASSERT_TRUE(WriteSafetensors(dir_.File("means"), {means}).ok());
  const Overrides to_means = {"probe.chain=ablate", "probe.ablate.points=layer1.mlp_out",
                              "probe.ablate.elements=0,5",
                              "probe.ablate.means=" + dir_.File("means")};
  const std::string other = EditedByHand("layer1.mlp_out", [&](size_t element, float value) {
    return element == 0 || element == 5 ? 0.125F : value;
  });
  EXPECT_EQ(Generated(GetParam(), {.overrides = to_means, .n_new = 0})[0].captured.logits,
            Generated(GetParam(), {.overrides = Patching("layer1.mlp_out", other), .n_new = 0})[0]
                .captured.logits);
}

INSTANTIATE_TEST_SUITE_P(Families, Probes,
                         ::testing::Values("llama/tied_gqa", "gpt2/tiny", "qwen3_moe/tiny",
                                           "granite_hybrid/tiny"),
                         [](const auto& info) {
                           return absl::StrReplaceAll(info.param, {{"/", "_"}});
                         });

constexpr char kLlama[] = "llama/tied_gqa";

class EditedRun : public ::testing::Test {
 protected:
  Overrides Steering(const std::string& coefficient) {
    NamedTensor vector{"v", {64}, std::vector<float>(64, 0.5F)};
    const auto engine = TryOpen(kLlama, {});
    vector.shape[0] = (*engine)->points().front().values();
    vector.data.resize(static_cast<size_t>(vector.shape[0]), 0.5F);
    EXPECT_TRUE(WriteSafetensors(dir_.File("v"), {vector}).ok());
    return {"probe.chain=steer", "probe.steer.points=layer0.out",
            "probe.steer.file=" + dir_.File("v"), "probe.steer.coefficient=" + coefficient};
  }
  test::TempDir dir_;
};

TEST_F(EditedRun, IsNeverTakenForAnotherFromASnapshot) {
  const std::string snapshot = dir_.File("snapshot");
  const ProbedRun steered = {.overrides = Steering("2"), .save_cache = snapshot, .logits = false};
  const Completion expected = Generated(kLlama, steered)[0];
  ProbedRun next = {.load_cache = snapshot, .logits = false};
  const absl::Status unedited = TryGenerate(kLlama, next).status();
  EXPECT_EQ(ExitCode(unedited), 3) << unedited;
  EXPECT_THAT(std::string(unedited.message()), HasSubstr("was made with probes = steer 1.0.0"));
  next.overrides = Steering("3");
  EXPECT_EQ(ExitCode(TryGenerate(kLlama, next).status()), 3);
  next.overrides = Steering("2");
  ExpectSame(Generated(kLlama, next)[0], expected);
  // The same path, other bytes.
  NamedTensor vector{"v", {(*TryOpen(kLlama, {}))->points().front().values()}, {}};
  vector.data.assign(static_cast<size_t>(vector.shape[0]), 0.25F);
  ASSERT_TRUE(WriteSafetensors(dir_.File("v"), {vector}).ok());
  EXPECT_EQ(ExitCode(TryGenerate(kLlama, next).status()), 3);
}

TEST_F(EditedRun, SharesNothingThatOthersComputed) {
  Ids prompt;
  for (int32_t i = 0; i < 50; ++i) prompt.push_back(i % 40);
  ProbedRun run = {
      .overrides = {"cache.name=paged", "cache.paged.page_tokens=16", "cache.max_sequences=1"},
      .prompts = {prompt, prompt},
      .logits = false};
  EXPECT_GT(Generated(kLlama, run)[1].timings.shared_tokens, 0);
  for (const Overrides& probe : {Steering("2"), Capturing("layer0.q", dir_.File("rows"))}) {
    ProbedRun probed = run;
    probed.overrides.insert(probed.overrides.end(), probe.begin(), probe.end());
    const std::vector<Completion> done = Generated(kLlama, probed);
    EXPECT_EQ(done[1].timings.shared_tokens, 0);
    ExpectSame(done[1], done[0]);
  }
  // One that needs not see every token leaves sharing as it is.
  run.overrides.insert(run.overrides.end(),
                       {"probe.chain=logit_lens", "probe.logit_lens.file=" + dir_.File("lens")});
  EXPECT_GT(Generated(kLlama, run)[1].timings.shared_tokens, 0);
}

TEST_F(EditedRun, IsTheSameStepByStep) {
  Overrides both = Steering("2");
  both[0] = "probe.chain=steer,capture";
  both.insert(both.end(),
              {"probe.capture.points=layer0.out", "probe.capture.file=" + dir_.File("rows")});
  const Completion expected = Generated(kLlama, {.overrides = both})[0];
  const auto whole = *SafetensorsReader::Open(dir_.File("rows"))->Read("layer0.out.0");
  const auto engine = TryOpen(kLlama, both);
  ASSERT_TRUE((*engine)->Load({.max_tokens = 20}).ok());
  const SequenceId sequence = *(*engine)->OpenSequence(20);
  auto logits = (*engine)->Prefill({&sequence, 1}, std::vector<Ids>{kPrompt});
  ASSERT_TRUE(logits.ok()) << logits.status();
  std::vector<float> found;
  for (size_t i = kPrompt.size();; ++i) {
    const float* row = logits->logits.Row(0);
    found.insert(found.end(), row, row + logits->logits.extent[1]);
    if (i + 1 == expected.ids.size()) break;
    logits = (*engine)->DecodeStep({&sequence, 1}, {&expected.ids[i], 1});
    ASSERT_TRUE(logits.ok()) << logits.status();
  }
  EXPECT_EQ(found, expected.captured.decode_logits);
  ASSERT_TRUE((*engine)->EndRun().ok());
  auto file = SafetensorsReader::Open(dir_.File("rows"));
  EXPECT_EQ(file->Read(absl::StrCat("layer0.out.s", sequence))->data, whole.data);
}

// The lens behind the last layer is what the run itself says; a chosen token is then the first.
TEST_F(EditedRun, LensBehindTheLastLayerIsTheRun) {
  const Overrides lens = {"probe.chain=logit_lens", "probe.logit_lens.file=" + dir_.File("lens")};
  const auto engine = TryOpen(kLlama, lens);
  const std::vector<GenerateRequest> requests = {{kPrompt, 5, {}}};
  ASSERT_TRUE((*engine)->Load(Needs(requests)).ok());
  std::vector<StepRecord> steps;
  GenerateOptions options;
  options.steps = true;
  options.on_step = [&](int /*index*/, const StepRecord& record) {
    steps.push_back(record);
    return absl::OkStatus();
  };
  ASSERT_TRUE((*engine)->Generate(requests, options).ok());
  std::ifstream file(dir_.File("lens"));
  std::string line;
  size_t n = 0;
  while (std::getline(file, line)) {
    const auto json = nlohmann::json::parse(line);
    ASSERT_LT(n, steps.size());
    const StepRecord& step = steps[n];
    EXPECT_EQ(json["pos"], static_cast<int64_t>(kPrompt.size() - 1 + n++));
    EXPECT_EQ(json["next"], step.token_id);
    EXPECT_EQ(json["layers"].size(), (*engine)->model_shape().n_layers);
    const auto& last = json["layers"].back();
    EXPECT_EQ(last["rank"], 0);
    ASSERT_EQ(last["top"].size(), step.top_k.size());
    for (size_t i = 0; i < step.top_k.size(); ++i) {
      EXPECT_EQ(last["top"][i][0], step.top_k[i].first);
      EXPECT_NEAR(last["top"][i][1].get<double>(), step.top_k[i].second, 1e-6);
    }
  }
  EXPECT_EQ(n, steps.size());
}

struct Refused {
  Overrides overrides;
  int exit_code;
  std::vector<std::string> says;
};

TEST_F(EditedRun, RefusesWhatCannotRun) {
  const std::string v = "probe.steer.file=" + dir_.File("v");
  Steering("1");
  const std::string text = "probe.steer.file=" + dir_.Write("text", "no tensors");
  const Refused cases[] = {
      {{"probe.chain=ster"}, 4, {"no probe plugin 'ster'", "did you mean 'steer'"}},
      {{"probe.chain=steer,steer"}, 2, {"probe.chain: probe 'steer' is named twice"}},
      {{"probe.chain=steer"}, 2, {"probe.steer.points is empty"}},
      {{"probe.chain=steer", v, "probe.steer.points=layer0.uot"},
       2,
       {"probe.steer.points: ", "'layer0.uot' is no point", "layer0.out"}},
      {{"probe.chain=steer", v, "probe.steer.points=layer9*.out"}, 2, {"no point of this model"}},
      {{"probe.chain=steer", v, "probe.steer.points=embed", "probe.steer.positions=2..x"},
       2,
       {"probe.steer.positions: '2..x' is no position"}},
      {{"probe.chain=steer", v, "probe.steer.points=embed", "probe.steer.file="},
       2,
       {"probe.steer.file is empty"}},
      {{"probe.chain=steer", "probe.steer.points=embed", "probe.steer.file=/no/such"},
       3,
       {"probe.steer.file: ", "/no/such"}},
      {{"probe.chain=steer", "probe.steer.points=embed", text}, 3, {"text"}},
      {{"probe.chain=steer", v, "probe.steer.points=logits"},
       3,
       {"tensor v has", "a row of logits has"}},
      {{"probe.chain=steer", v, "probe.steer.points=embed", "probe.steer.tensor=w"}, 3, {"w"}},
      {{"probe.chain=steer", v, "probe.steer.points=embed", "probe.steer.coefficient=1e39"},
       3,
       {"not finite"}},
      {{"probe.chain=ablate", "probe.ablate.points=layer0.attn_head", "probe.ablate.heads=99"},
       2,
       {"probe.ablate.heads: 99 of layer0.attn_head, must be in [0, "}},
      {{"probe.chain=ablate", "probe.ablate.points=layer0.out", "probe.ablate.heads=0"},
       2,
       {"layer0.out has no heads"}},
      {{"probe.chain=ablate", "probe.ablate.points=layer0.out",
        "probe.ablate.means=" + dir_.File("v")},
       3,
       {"layer0.out"}},
      {{"probe.chain=patch", "probe.patch.points=layer0.out", "probe.patch.file=" + dir_.File("v")},
       3,
       {"layer0.out.0"}},
      {{"probe.chain=steer", v, "probe.steer.points=embed", "run.on_full=recompute"},
       2,
       {"run.on_full = recompute"}},
      {{"probe.chain=capture"}, 2, {"probe.capture.file is empty"}},
      {{"probe.chain=logit_lens", "probe.logit_lens.file=x", "probe.logit_lens.layers=99"},
       2,
       {"probe.logit_lens.layers: 99, must be in [0, "}},
      {{"probe.steer.coefficent=1"}, 2, {"probe.steer.coefficient"}},
  };
  for (const Refused& refused : cases) {
    const absl::Status status = TryOpen(kLlama, refused.overrides).status();
    EXPECT_EQ(ExitCode(status), refused.exit_code) << status;
    for (const std::string& text : refused.says) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    }
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\n")));
  }
  const absl::Status unwritable =
      TryGenerate(kLlama, {.overrides = Capturing("embed", "/no/such/folder/x")}).status();
  EXPECT_EQ(ExitCode(unwritable), 7) << unwritable;
  EXPECT_THAT(std::string(unwritable.message()), HasSubstr("probe.capture: /no/such/folder/x"));
  // A position whose row the other run has not.
  Generated(kLlama, {.overrides = Capturing("embed", dir_.File("rows"))});
  Overrides beyond = Patching("embed", dir_.File("rows"));
  beyond.emplace_back("probe.patch.positions=14");
  const absl::Status refused = TryOpen(kLlama, beyond).status();
  EXPECT_EQ(ExitCode(refused), 2);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("has rows 0 to 13"));
}

}  // namespace
}  // namespace ng
