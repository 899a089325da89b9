// The guard around attention backends: whatever the plugin does, its caller sees a status that
// names it.
#include "core/plugin/guarded_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ng {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t kRows = 3;
constexpr int64_t kHeads = 2;
constexpr int64_t kDim = 4;

// Does as its functions say.
struct Behaviour {
  std::function<std::vector<std::string_view>()> layouts = [] {
    return std::vector<std::string_view>{kLayoutAny};
  };
  std::function<std::vector<std::string_view>()> features = [] {
    return std::vector<std::string_view>{};
  };
  std::function<absl::Status()> supports = [] { return absl::OkStatus(); };
  std::function<absl::StatusOr<std::unique_ptr<AttentionPlan>>(const AttentionSpec&)> new_plan =
      [](const AttentionSpec& spec) { return std::make_unique<AttentionPlan>(spec); };
  std::function<absl::Status(AttentionPlan&)> plan = [](AttentionPlan& plan) {
    plan.scratch_floats = 32;
    plan.bytes = 5;
    return absl::OkStatus();
  };
  std::function<absl::Status(const AttentionRun&)> run = [](const AttentionRun& run) {
    FillOut(run);
    return absl::OkStatus();
  };

  // Every element of `out`, and every captured row.
  static void FillOut(const AttentionRun& run) {
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t head = 0; head < kHeads; ++head) {
        for (int64_t d = 0; d < kDim; ++d) run.out.Row(row, head)[d] = static_cast<float>(row);
      }
    }
    for (const ProbabilityRow& row : run.captures) {
      for (int64_t j = 0; j <= row.pos; ++j) row.out[j] = 0.5F;
    }
  }
};

class Scripted final : public AttentionBackend {
 public:
  explicit Scripted(Behaviour behaviour) : does_(std::move(behaviour)) {}
  std::span<const std::string_view> layouts() const override {
    names_ = does_.layouts();
    return names_;
  }
  std::span<const std::string_view> features() const override {
    names_ = does_.features();
    return names_;
  }
  absl::Status Supports(const AttentionSpec&, const CacheFormat&) const override {
    return does_.supports();
  }
  absl::StatusOr<std::unique_ptr<AttentionPlan>> NewPlan(const AttentionSpec& spec) override {
    return does_.new_plan(spec);
  }
  absl::Status Plan(std::span<const SequenceRows>, AttentionPlan& plan) override {
    return does_.plan(plan);
  }
  absl::Status Run(const AttentionPlan&, const AttentionRun& run) override {
    return does_.run(run);
  }

 private:
  const Behaviour does_;
  mutable std::vector<std::string_view> names_;
};

class GuardedAttentionTest : public ::testing::Test {
 protected:
  GuardedAttentionTest() {
    descriptor_.kind = "attention";
    descriptor_.name = "here";
    descriptor_.version = "1";
  }

  absl::StatusOr<std::unique_ptr<AttentionBackend>> Guard(const Behaviour& behaviour,
                                                          bool check = false) const {
    return GuardAttention({&descriptor_, "/lib/here.so"}, std::make_unique<Scripted>(behaviour),
                          check);
  }

  static void ExpectFault(const absl::Status& status, const std::string& part, int exit_code = 4) {
    EXPECT_EQ(ExitCode(status), exit_code);
    EXPECT_THAT(std::string(status.message()),
                AllOf(StartsWith("attention plugin 'here' 1 (/lib/here.so)"), HasSubstr(part)));
  }

  // NewPlan, Plan and Run of layer 7 of a step of kRows rows, into the middle of out_.
  absl::Status RunOnce(const Behaviour& behaviour, bool check = false,
                       std::span<const ProbabilityRow> captures = {}) {
    NG_ASSIGN_OR_RETURN(const auto backend, Guard(behaviour, check));
    NG_ASSIGN_OR_RETURN(const auto plan, backend->NewPlan(spec_));
    NG_RETURN_IF_ERROR(backend->Plan({&rows_, 1}, *plan));
    scratch_.assign(static_cast<size_t>(plan->scratch_floats), 0.0F);
    AttentionRun run;
    run.layer = 7;
    run.rows = {&rows_, 1};
    run.out = {out_.data() + 16, {kRows, kHeads, kDim}};
    run.out.stride[0] = 2 * kHeads * kDim;  // rows apart, as a caller may have them
    run.scratch = scratch_;
    run.captures = captures;
    if (asks_missed_) run.missed = {missed_.data(), {kRows, kHeads}};
    return backend->Run(*plan, run);
  }

  bool asks_missed_ = false;
  std::vector<float> missed_ = std::vector<float>(kRows * kHeads);
  PluginDescriptor descriptor_{};
  AttentionSpec spec_{.layer = 3,
                      .n_heads = kHeads,
                      .n_kv_heads = kHeads,
                      .head_dim = kDim,
                      .v_head_dim = kDim,
                      .scale = 0.5F};
  SequenceRows rows_{.sequence = 0, .start_pos = 0, .n_tokens = kRows, .row_begin = 0};
  std::vector<float> scratch_;
  std::vector<float> out_ = std::vector<float>(64 + 16, -1.0F);
};

TEST_F(GuardedAttentionTest, HandsEveryCallOn) {
  Behaviour sound;
  sound.layouts = [] { return std::vector<std::string_view>{"one", "two"}; };
  sound.features = [] { return std::vector<std::string_view>{kFeatureSinks}; };
  const auto backend = Guard(sound);
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_THAT((*backend)->layouts(), ::testing::ElementsAre("one", "two"));
  EXPECT_THAT((*backend)->features(), ::testing::ElementsAre("sinks"));
  EXPECT_TRUE((*backend)->Supports(spec_, {}).ok());
  const auto plan = (*backend)->NewPlan(spec_);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_TRUE((*backend)->Plan({&rows_, 1}, **plan).ok());
  EXPECT_EQ((*plan)->scratch_floats, 32);
  EXPECT_EQ((*plan)->bytes, 5);
  EXPECT_EQ((*plan)->spec.layer, 3);
  for (const bool check : {false, true}) {
    out_.assign(out_.size(), -1.0F);
    ASSERT_TRUE(RunOnce(sound, check).ok());
    for (int64_t row = 0; row < kRows; ++row) {
      const float* written = out_.data() + 16 + row * 2 * kHeads * kDim;
      for (int64_t i = 0; i < kHeads * kDim; ++i) EXPECT_EQ(written[i], static_cast<float>(row));
      EXPECT_EQ(written[kHeads * kDim], -1.0F);  // between the rows
    }
  }
}

TEST_F(GuardedAttentionTest, ReportsAnExceptionOfEveryCall) {
  const auto thrower = []() -> absl::Status { throw std::runtime_error("oh no"); };
  Behaviour layouts;
  layouts.layouts = [] {
    return throw std::runtime_error("oh no"), std::vector<std::string_view>{};
  };
  ExpectFault(Guard(layouts).status(), " threw: oh no");
  Behaviour features;
  features.features = layouts.layouts;
  ExpectFault(Guard(features).status(), " threw: oh no");
  Behaviour supports;
  supports.supports = thrower;
  ExpectFault((*Guard(supports))->Supports(spec_, {}), " threw: oh no");
  Behaviour new_plan;
  new_plan.new_plan = [&](const AttentionSpec&) -> absl::StatusOr<std::unique_ptr<AttentionPlan>> {
    return thrower();
  };
  ExpectFault(RunOnce(new_plan), " threw: oh no");
  Behaviour plan;
  plan.plan = [&](AttentionPlan&) { return thrower(); };
  ExpectFault(RunOnce(plan), " threw: oh no");
  Behaviour run;
  run.run = [](const AttentionRun&) -> absl::Status { throw 7; };
  ExpectFault(RunOnce(run), " threw: an exception of unknown type");
  ExpectFault(RunOnce(run, /*check=*/true), " threw: an exception of unknown type");
}

TEST_F(GuardedAttentionTest, KeepsTheCodesThatAreNotThePluginsFault) {
  const std::pair<absl::Status, int> statuses[] = {{LimitError("why"), 5},
                                                   {NumericError("why"), 6},
                                                   {UsageError("why"), 4},
                                                   {RuntimeError("why"), 4},
                                                   {InterruptedError("why"), 4}};
  for (const auto& [status, exit_code] : statuses) {
    Behaviour run;
    run.run = [status = status](const AttentionRun&) { return status; };
    ExpectFault(RunOnce(run), ": why", exit_code);
  }
}

TEST_F(GuardedAttentionTest, WantsALayoutAndFeaturesThatThereAre) {
  Behaviour none;
  none.layouts = [] { return std::vector<std::string_view>{}; };
  ExpectFault(Guard(none).status(), "layouts() lists no cache layout");
  Behaviour misspelt;
  misspelt.features = [] { return std::vector<std::string_view>{kFeatureWindow, "windows"}; };
  ExpectFault(Guard(misspelt).status(), "features() lists 'windows', there are: window, soft_cap");
}

TEST_F(GuardedAttentionTest, RefusesWhatIsSetAndNotListedWhateverThePluginAnswers) {
  const std::vector<float> per_head = {1.0F, 2.0F};
  const std::pair<const char*, std::function<void(AttentionSpec&, CacheFormat&)>> needs[] = {
      {"window", [](auto& spec, auto&) { spec.window = 8; }},
      {"soft_cap", [](auto& spec, auto&) { spec.soft_cap = 30.0F; }},
      {"sinks", [&](auto& spec, auto&) { spec.sinks = per_head; }},
      {"alibi", [&](auto& spec, auto&) { spec.alibi_slopes = per_head; }},
      {"query_temperature", [](auto& spec, auto&) { spec.query_temperature.coefficient = 0.1; }},
      {"chunked_window", [](auto& spec, auto&) { spec.chunks = true; }},
      {"v_head_dim", [](auto& spec, auto&) { spec.v_head_dim = 2; }},
      {"v_in_k", [](auto& spec, auto&) { spec.v_in_k = true; }},
      {"holes", [](auto&, auto& format) { format.holes = true; }},
      {"attended", [](auto&, auto& format) { format.attended = true; }},
      {"slots", [](auto&, auto& format) { format.slots = true; }},
      {"head_slots", [](auto&, auto& format) { format.head_slots = true; }}};
  for (const auto& [need, set] : needs) {
    AttentionSpec spec = spec_;
    CacheFormat format;
    set(spec, format);
    ExpectFault((*Guard({}))->Supports(spec, format),
                std::string("layer 3 needs '") + need + "', the features that it lists: none");
    Behaviour lists;
    lists.features = [need = need] { return std::vector<std::string_view>{need}; };
    EXPECT_TRUE((*Guard(lists))->Supports(spec, format).ok()) << need;
    Behaviour refuses = lists;
    refuses.supports = [] { return PluginError("not over this cache"); };
    ExpectFault((*Guard(refuses))->Supports(spec, format), ": not over this cache");
  }
}

TEST_F(GuardedAttentionTest, ReportsPlansThatCannotBe) {
  Behaviour null;
  null.new_plan = [](const AttentionSpec&) { return std::unique_ptr<AttentionPlan>(); };
  ExpectFault(RunOnce(null), "NewPlan returned OK and no plan");
  for (const int64_t size : {int64_t{-5}, int64_t{1} << 60}) {
    Behaviour scratch;
    scratch.plan = [size](AttentionPlan& plan) {
      plan.scratch_floats = size;
      return absl::OkStatus();
    };
    ExpectFault(RunOnce(scratch), "Plan set scratch_floats = " + std::to_string(size));
    Behaviour bytes;
    bytes.plan = [size](AttentionPlan& plan) {
      plan.bytes = size;
      return absl::OkStatus();
    };
    ExpectFault(RunOnce(bytes), "Plan set bytes = " + std::to_string(size));
  }
}

TEST_F(GuardedAttentionTest, TakesNoPlanButItsOwnAndNoScratchThatIsTooSmall) {
  const auto one = *Guard({});
  const auto two = *Guard({});
  const auto of_two = *two->NewPlan(spec_);
  AttentionPlan bare(spec_);
  for (AttentionPlan* const foreign : {of_two.get(), &bare}) {
    ExpectFault(one->Plan({&rows_, 1}, *foreign), "Plan was given a plan");
    ExpectFault(one->Run(*foreign, {}), "Run was given a plan");
  }
  ASSERT_TRUE(two->Plan({&rows_, 1}, *of_two).ok());
  ExpectFault(two->Run(*of_two, {}), "Run was given 0 floats of scratch, the plan says 32");
}

// --- with checks ---

class CheckedAttentionTest : public GuardedAttentionTest {
 protected:
  // What a run says that does `then` after all that it should.
  absl::Status RunThen(const std::function<void(const AttentionRun&)>& then) {
    Behaviour behaviour;
    behaviour.run = [&](const AttentionRun& run) {
      Behaviour::FillOut(run);
      then(run);
      return absl::OkStatus();
    };
    return RunOnce(behaviour, /*check=*/true);
  }
};

TEST_F(CheckedAttentionTest, FindsWhatIsWrittenBesideTheMemory) {
  const int64_t n_out = kRows * kHeads * kDim;
  ExpectFault(RunThen([](const AttentionRun& run) { run.scratch.data()[-1] = 0.0F; }),
              "layer 7: Run wrote before the 32 floats of its scratch");
  ExpectFault(RunThen([](const AttentionRun& run) { run.scratch.data()[32] = 0.0F; }),
              "layer 7: Run wrote behind the 32 floats of its scratch");
  ExpectFault(RunThen([](const AttentionRun& run) { run.out.data[-1000] = 0.0F; }),
              "layer 7: Run wrote before the 24 floats of `out`");
  ExpectFault(RunThen([&](const AttentionRun& run) { run.out.data[n_out + 100] = 0.0F; }),
              "layer 7: Run wrote behind the 24 floats of `out`");
  EXPECT_TRUE(RunThen([](const AttentionRun& run) { run.scratch[31] = 1.0F; }).ok());
}

TEST_F(CheckedAttentionTest, FindsWhatIsLeftUnwritten) {
  Behaviour nothing;
  nothing.run = [](const AttentionRun&) { return absl::OkStatus(); };
  EXPECT_TRUE(RunOnce(nothing).ok());
  ExpectFault(RunOnce(nothing, /*check=*/true), "layer 7: Run left out[0, 0, 0] unwritten");
  ExpectFault(RunThen([](const AttentionRun& run) {
                run.out.Row(2, 1)[3] = run.scratch[5];  // which nobody has written
              }),
              "layer 7: Run left out[2, 1, 3] unwritten (or computed it from such a float)");
  // A NaN of the computation's own is not one of these.
  EXPECT_TRUE(RunThen([](const AttentionRun& run) { run.out.data[0] = std::nanf(""); }).ok());
}

TEST_F(CheckedAttentionTest, FindsSharesOfWhatWasMissedThatAreNone) {
  asks_missed_ = true;
  const auto filled_with = [&](float value) {
    return RunThen([value](const AttentionRun& run) {
      std::fill_n(run.missed.data, kRows * kHeads, 0.5F);
      run.missed.Row(1)[1] = value;
    });
  };
  EXPECT_TRUE(filled_with(0.0F).ok());
  EXPECT_TRUE(filled_with(1.0F).ok());
  EXPECT_TRUE(filled_with(std::nanf("")).ok());  // of the computation's own
  ExpectFault(filled_with(1.5F), "layer 7: Run made element 3 of `missed` 1.5, must be in [0, 1]");
  ExpectFault(filled_with(-0.25F), "Run made element 3 of `missed` -0.25, must be in [0, 1]");
  ExpectFault(RunThen([](const AttentionRun& run) { run.missed.data[0] = 0.0F; }),
              "layer 7: Run left element 1 of `missed` unwritten");
}

TEST_F(CheckedAttentionTest, FindsACapturedRowThatIsNotFilled) {
  std::vector<float> first(2);
  std::vector<float> second(2);
  const std::vector<ProbabilityRow> captures = {
      {.sequence = 0, .pos = 1, .head = 1, .out = first.data()},
      {.sequence = 0, .pos = 1, .head = 1, .out = second.data()}};
  Behaviour one_only;
  one_only.run = [&](const AttentionRun& run) {
    AttentionRun less = run;
    less.captures = run.captures.first(1);
    Behaviour::FillOut(less);
    return absl::OkStatus();
  };
  EXPECT_TRUE(RunOnce({}, /*check=*/true, captures).ok());
  EXPECT_EQ(second[1], 0.5F);
  ExpectFault(RunOnce(one_only, /*check=*/true, captures),
              "layer 7: Run left the captured row of sequence 0, position 1, head 1 unwritten");
}

}  // namespace
}  // namespace ng
