// Probes that are put into an open engine and taken out again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ng/engine.h"
#include "ng/generation.h"
#include "ng/probe.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng {
namespace {

using ::testing::HasSubstr;

constexpr PointAt kAddedAt = {Point::kOut, 0};

// Counts the rows of a point, and perhaps adds to them.
class AddedProbe final : public Probe {
 public:
  struct Seen {
    int64_t n_rows = 0;
    bool destroyed = false;
  };
  AddedProbe(ProbeUse use, Seen& seen, float added) : use_(use), seen_(seen), added_(added) {}
  ~AddedProbe() override { seen_.destroyed = true; }
  AddedProbe(const AddedProbe&) = delete;
  AddedProbe& operator=(const AddedProbe&) = delete;

  ProbeUse Use() const override { return use_; }
  absl::Status OnPoint(const PointRows& rows) override {
    seen_.n_rows += rows.n_rows();
    if (!use_.points.front().edits) return absl::OkStatus();
    for (int64_t i = 0; i < rows.n_rows(); ++i) rows.Row(i)[0] += added_;
    return absl::OkStatus();
  }

 private:
  ProbeUse use_;
  Seen& seen_;
  float added_;
};

class AddedProbes : public ::testing::Test {
 protected:
  AddedProbes() { test::TinyNiels().WriteTo(folder_.path()); }

  void Open(std::vector<std::string> overrides = {}) {
    EngineOptions options;
    options.overrides = {"model.path=" + folder_.path(), "run.threads=1", "sampler.chain=greedy",
                         "run.stop_ids="};
    options.overrides.insert(options.overrides.end(), overrides.begin(), overrides.end());
    auto engine = Engine::Open(options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
    RunNeeds needs;
    needs.max_tokens = 20;
    needs.max_sequences = 2;
    needs.snapshots = true;
    const absl::Status loaded = engine_->Load(needs);
    ASSERT_TRUE(loaded.ok()) << loaded;
  }
  absl::Status Add(ProbeUse use, const Probe** added = nullptr) {
    auto probe = std::make_unique<AddedProbe>(std::move(use), seen_, 3.0F);
    if (added != nullptr) *added = probe.get();
    return engine_->AddProbe(std::move(probe));
  }
  // The last logits of a new sequence that is fed three tokens and one.
  std::vector<float> Logits(SequenceId* kept = nullptr) {
    const SequenceId sequence = engine_->OpenSequence(20).value();
    const std::vector<int32_t> prompt = {11, 2, 7};
    EXPECT_TRUE(engine_->Extend({&sequence, 1}, {&prompt, 1}).ok());
    const int32_t next = 5;
    const auto made = engine_->DecodeStep({&sequence, 1}, {&next, 1});
    EXPECT_TRUE(made.ok()) << made.status();
    const float* const row = made->logits.data;
    std::vector<float> logits(row, row + made->logits.extent[1]);
    if (kept != nullptr) {
      *kept = sequence;
    } else {
      engine_->CloseSequence(sequence);
    }
    return logits;
  }

  test::TempDir folder_;
  std::unique_ptr<Engine> engine_;
  AddedProbe::Seen seen_;
};

TEST_F(AddedProbes, SeeEveryRowUntilTheyAreRemovedAndChangeNoBit) {
  Open();
  const std::vector<float> plain = Logits();
  const Probe* added = nullptr;
  ASSERT_TRUE(Add({.points = {{kAddedAt}}}, &added).ok());
  EXPECT_EQ(Logits(), plain);
  EXPECT_EQ(seen_.n_rows, 4);
  const std::vector<GenerateRequest> requests = {{{11, 2, 7}, 2, {}}};
  ASSERT_TRUE(engine_->Generate(requests, {}).ok());
  EXPECT_EQ(seen_.n_rows, 8);  // the last token is not fed
  ASSERT_TRUE(engine_->RemoveProbe(added).ok());
  EXPECT_TRUE(seen_.destroyed);
  EXPECT_TRUE(engine_->RemoveProbe(added).ok());  // nothing happens
  EXPECT_EQ(Logits(), plain);
  EXPECT_EQ(seen_.n_rows, 8);
}

TEST_F(AddedProbes, EditAndTheBitsComeBack) {
  Open();
  const std::vector<float> plain = Logits();
  const Probe* added = nullptr;
  ASSERT_TRUE(Add({.points = {{kAddedAt, /*edits=*/true}}}, &added).ok());
  SequenceId sequence = 0;
  EXPECT_NE(Logits(&sequence), plain);
  // What was edited is in no snapshot, also when the probe has gone.
  const std::vector<int32_t> ids = {11, 2, 7, 5};
  for (int with_probe = 1; with_probe >= 0; --with_probe) {
    const absl::Status saved = engine_->SaveSequence(sequence, ids, folder_.File("cache"));
    EXPECT_TRUE(absl::IsInvalidArgument(saved)) << saved;
    EXPECT_THAT(std::string(saved.message()), HasSubstr("a hook edited"));
    EXPECT_TRUE(engine_->RemoveProbe(added).ok());  // the second time nothing happens
  }
  // Emptied and fed again it holds nothing of it.
  ASSERT_TRUE(engine_->TruncateSequence(sequence, 0).ok());
  ASSERT_TRUE(engine_->Extend({&sequence, 1}, {&ids, 1}).ok());
  const absl::Status saved = engine_->SaveSequence(sequence, ids, folder_.File("cache"));
  EXPECT_TRUE(saved.ok()) << saved;
  engine_->CloseSequence(sequence);
  EXPECT_EQ(Logits(), plain);
}

TEST_F(AddedProbes, AskForPointsOfTheModelAndNothingElse) {
  Open();
  for (const ProbeUse& use :
       {ProbeUse{.points = {{{Point::kOut, 9}}}}, ProbeUse{.points = {{{Point::kRouter, 0}}}},
        ProbeUse{.points = {{kAddedAt}}, .every_token = true},
        ProbeUse{.points = {{kAddedAt}}, .identity = true},
        ProbeUse{.points = {{kAddedAt}}, .reads = {"f"}},
        ProbeUse{.points = {{kAddedAt}}, .writes = {"f"}}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Add(use)));
  }
  Open({"run.on_full=recompute"});
  EXPECT_TRUE(absl::IsInvalidArgument(Add({.points = {{kAddedAt, /*edits=*/true}}})));
  EXPECT_TRUE(Add({.points = {{kAddedAt}}}).ok());
}

TEST_F(AddedProbes, WaitForTheEndOfARun) {
  Open();
  const Probe* added = nullptr;
  ASSERT_TRUE(Add({.points = {{kAddedAt}}}, &added).ok());
  {
    const auto run = engine_->Begin({{{11, 2, 7}, 2, {}}}, {});
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(ExitCode(engine_->RemoveProbe(added)), ExitCode(RuntimeError("")));
    EXPECT_EQ(ExitCode(Add({.points = {{kAddedAt}}})), ExitCode(RuntimeError("")));
  }
  seen_.destroyed = false;  // the one that was refused
  EXPECT_TRUE(engine_->RemoveProbe(added).ok());
  EXPECT_TRUE(seen_.destroyed);
}

}  // namespace
}  // namespace ng
