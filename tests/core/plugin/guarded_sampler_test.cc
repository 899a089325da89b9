// What a plugin's stage does wrong becomes an error that names the plugin.
#include "core/plugin/guarded_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/floats.h"

namespace ng {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kVocab = 200;

using Body = std::function<absl::Status(CandidateSet&)>;

// Every call does the same: `body`, or without one nothing.
class Stage final : public SamplerStage {
 public:
  explicit Stage(Body body) : body_(std::move(body)) {}
  absl::Status Open(int /*slot*/, std::span<const int32_t> /*ids*/) override { return Do(); }
  absl::StatusOr<SequenceEnd> Accept(int /*slot*/, int32_t token) override {
    NG_RETURN_IF_ERROR(Do());
    return static_cast<SequenceEnd>(token);
  }
  absl::Status Fork(int /*from*/, int /*to*/) override { return Do(); }
  absl::Status Truncate(int /*slot*/, int64_t /*n_tokens*/) override { return Do(); }
  absl::Status Close(int /*slot*/) override { return Do(); }
  absl::Status Apply(int /*slot*/, const DrawKey& /*key*/, CandidateSet& candidates) override {
    return body_(candidates);
  }

 private:
  absl::Status Do() {
    CandidateSet none({});
    return body_(none);
  }

  Body body_;
};

GuardedSampler Guarded(Body body, bool check) {
  static constexpr PluginDescriptor kDescriptor = [] {
    PluginDescriptor plugin = EveryCpuPlugin("sampler", "here", "1", "", {});
    return plugin;
  }();
  PluginContext context;
  context.model.vocab_size = kVocab;
  context.check = check;
  return {{&kDescriptor, "/lib/here.so"}, std::make_unique<Stage>(std::move(body)), context};
}

constexpr char kWho[] = "sampler plugin 'here' 1 (/lib/here.so)";

// The statuses of all calls.
std::vector<absl::Status> Call(SamplerStage& stage) {
  std::vector<Candidate> list(kVocab);
  CandidateSet set(list);
  return {stage.Open(0, {}), stage.Accept(0, 0).status(), stage.Fork(0, 1), stage.Truncate(0, 0),
          stage.Close(0),    stage.Apply(0, {}, set)};
}

TEST(GuardedSampler, CatchesWhatAnyCallThrows) {
  for (const bool check : {false, true}) {
    GuardedSampler throws =
        Guarded([](CandidateSet&) -> absl::Status { throw std::runtime_error("boom"); }, check);
    for (const absl::Status& status : Call(throws)) {
      EXPECT_EQ(status, PluginError(std::string(kWho) + " threw: boom"));
    }
    GuardedSampler throws_int = Guarded([](CandidateSet&) -> absl::Status { throw 42; }, check);
    for (const absl::Status& status : Call(throws_int)) {
      EXPECT_EQ(status, PluginError(std::string(kWho) + " threw: an exception of unknown type"));
    }
  }
}

TEST(GuardedSampler, NamesThePluginInEveryError) {
  struct Case {
    absl::Status status;
    int exit_code;
  };
  const Case cases[] = {{RuntimeError("r"), 4},      {UsageError("u"), 4},
                        {LimitError("l"), 5},        {NumericError("n"), 6},
                        {OutputError("o"), 4},       {InterruptedError("i"), 4},
                        {absl::UnknownError("x"), 4}};
  for (const Case& c : cases) {
    GuardedSampler fails = Guarded([&](CandidateSet&) { return c.status; }, false);
    for (const absl::Status& status : Call(fails)) {
      EXPECT_EQ(ExitCode(status), c.exit_code) << c.status;
      EXPECT_EQ(status.message(), std::string(kWho) + ": " + std::string(c.status.message()));
    }
  }
}

TEST(GuardedSampler, HandsOnTheEndOfASequenceAndNoOtherNumber) {
  GuardedSampler stage = Guarded([](CandidateSet&) { return absl::OkStatus(); }, false);
  EXPECT_EQ(*stage.Accept(0, 1), SequenceEnd::kStage);
  EXPECT_EQ(*stage.Accept(0, 2), SequenceEnd::kStopText);
  for (const int32_t wrong : {-1, 3}) {
    const absl::Status status = stage.Accept(0, wrong).status();
    EXPECT_EQ(ExitCode(status), 4);
    EXPECT_THAT(std::string(status.message()), HasSubstr("returned the SequenceEnd"));
  }
}

TEST(GuardedSampler, AWrongCallOfTheCandidatesIsAnErrorOfThePlugin) {
  const std::vector<float> row(kVocab, 1.0F);
  CandidateStorage storage(kVocab);
  CandidateSet set = storage.Begin(row);
  GuardedSampler stage = Guarded(
      [](CandidateSet& candidates) {
        candidates.KeepFirst(candidates.size() + 1);
        return absl::OkStatus();
      },
      false);
  EXPECT_EQ(stage.Apply(0, {}, set),
            PluginError(std::string(kWho) +
                        " threw: CandidateSet::KeepFirst(201): must be in [0, 200], the number of "
                        "candidates"));
}

// What the check says of a body over a row of rising logits: as a row, as a list, as a sparse set.
struct Broken {
  std::string name;
  Body body;
  int exit_code;
  std::string fragment;
};

class CheckedSampler : public ::testing::TestWithParam<Broken> {};

TEST_P(CheckedSampler, NamesWhatTheStageLeftWrong) {
  const Broken& broken = GetParam();
  std::vector<float> row(kVocab);
  for (int64_t id = 0; id < kVocab; ++id) row[id] = static_cast<float>(id) / 16.0F;
  CandidateStorage storage(kVocab);
  GuardedSampler stage = Guarded(broken.body, true);
  const auto apply = [&](bool sparse) {
    CandidateSet set = storage.Begin(row);
    if (sparse) set.KeepTop(50);
    return stage.Apply(0, {}, set);
  };
  for (const bool sparse : {false, true}) {
    const absl::Status status = apply(sparse);
    EXPECT_EQ(ExitCode(status), broken.exit_code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(kWho));
    EXPECT_THAT(std::string(status.message()), HasSubstr(broken.fragment));
  }
}

Body Writing(std::function<void(std::span<Candidate>)> write) {
  return [write = std::move(write)](CandidateSet& set) {
    write(set.items());
    return absl::OkStatus();
  };
}

INSTANTIATE_TEST_SUITE_P(
    Faults, CheckedSampler,
    ::testing::Values(
        Broken{"Nothing",
               [](CandidateSet& set) {
                 set.KeepFirst(0);
                 return absl::OkStatus();
               },
               4, "left no candidate"},
        Broken{"Nan", Writing([](auto items) { items[3].logit = kNan; }), 6,
               "left behind: the logit of token"},
        Broken{"Infinity", Writing([](auto items) { items.back().logit = kInf; }), 6, "is inf"},
        Broken{"NothingToDraw", Writing([](auto items) {
                 for (Candidate& item : items) item.logit = -kInf;
               }),
               6, "candidates have logit -inf"},
        Broken{"ForeignId", Writing([](auto items) { items[4].id = kVocab; }), 4,
               "left token 200, must be in [0, 200)"},
        Broken{"NegativeId", Writing([](auto items) { items[4].id = -7; }), 4, "left token -7"},
        Broken{"Repeated", Writing([](auto items) { items[4] = items[5]; }), 4, "twice"}),
    [](const auto& test) { return test.param.name; });

TEST(GuardedSampler, FindsAnIdThatWasRemovedBefore) {
  std::vector<Candidate> list(kVocab);
  for (int32_t id = 0; id < kVocab; ++id) list[id].id = id;
  CandidateSet set(list);
  set.KeepFirst(10);
  GuardedSampler stage = Guarded(Writing([](auto items) { items[4].id = 11; }), true);
  EXPECT_EQ(
      stage.Apply(0, {}, set),
      PluginError(std::string(kWho) + ": Apply left token 11, which was none of the candidates"));
}

TEST(GuardedSampler, FindsADenseSetMovedAndNothingElseMoved) {
  const std::vector<float> row(kVocab, 1.0F);
  CandidateStorage storage(kVocab);
  const auto swapped = [](CandidateSet& set) { std::swap(set.items()[0], set.items()[5]); };
  const auto apply = [&](const Body& body, int64_t keep) {
    CandidateSet set = storage.Begin(row);
    if (keep < kVocab) set.KeepFirst(keep);
    return Guarded(body, true).Apply(0, {}, set);
  };
  const Body moves = [&](CandidateSet& set) {
    swapped(set);
    return absl::OkStatus();
  };
  const absl::Status moved = apply(moves, kVocab);
  EXPECT_EQ(ExitCode(moved), 4);
  EXPECT_THAT(std::string(moved.message()), HasSubstr("moved token 5 of a dense set to place 0"));
  EXPECT_TRUE(apply(moves, 9).ok());
  const Body narrows = [&](CandidateSet& set) {
    swapped(set);
    set.KeepFirst(set.size());
    return absl::OkStatus();
  };
  EXPECT_TRUE(apply(narrows, kVocab).ok());
}

// The same token must be drawn with and without the check.
TEST(GuardedSampler, TheCheckListsNoCandidates) {
  std::vector<float> row(kVocab, 1.0F);
  CandidateStorage storage(kVocab);
  CandidateSet set = storage.Begin(row);
  GuardedSampler stage = Guarded(
      [](CandidateSet& candidates) {
        candidates.DivideBy(2.0F);
        return absl::OkStatus();
      },
      true);
  EXPECT_TRUE(stage.Apply(0, {}, set).ok());
  EXPECT_FALSE(set.listed());
  EXPECT_TRUE(set.dense());
}

TEST(GuardedSampler, WithoutTheCheckOnlyTheErrorsOfTheStageCount) {
  std::vector<Candidate> list(kVocab);
  CandidateSet set(list);
  GuardedSampler stage = Guarded(Writing([](auto items) { items[4].id = -7; }), false);
  EXPECT_TRUE(stage.Apply(0, {}, set).ok());
}

}  // namespace
}  // namespace ng
