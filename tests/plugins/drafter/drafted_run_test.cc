// Runs with drafts: whatever is drafted, the run is the plain run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ng/engine.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Overrides = std::vector<std::string>;
using Ids = std::vector<int32_t>;

constexpr char kGolden[] = NG_TEST_DATA "/golden/";
constexpr char kDemo[] = NG_SOURCE_DIR "/configs/demo";

// A run, and all that can be seen of it but its times.
struct DraftedRun {
  std::string model;  // a folder
  Overrides overrides = {};
  std::vector<Ids> prompts = {};
  int64_t n_new = 12;
};

struct Seen {
  std::vector<Completion> completions;
  std::vector<std::vector<StepRecord>> steps;  // of each request
  std::string report;
};

absl::StatusOr<std::unique_ptr<Engine>> OpenDrafted(const DraftedRun& run) {
  EngineOptions options;
  options.overrides = {"model.path=" + run.model, "run.threads=1", "run.model_defaults=false"};
  options.overrides.insert(options.overrides.end(), run.overrides.begin(), run.overrides.end());
  return Engine::Open(options);
}

absl::StatusOr<Seen> TryRun(const DraftedRun& run, GenerateOptions options = {}) {
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, OpenDrafted(run));
  std::vector<GenerateRequest> requests;
  for (const Ids& prompt : run.prompts) {
    requests.push_back({.prompt_ids = prompt, .max_new_tokens = run.n_new});
  }
  NG_RETURN_IF_ERROR(engine->Load(Needs(requests)));
  Seen seen;
  seen.steps.resize(requests.size());
  options.steps = options.stages = options.logits_hash = options.capture_decode_logits = true;
  options.on_step = [&](int index, const StepRecord& record) {
    seen.steps[static_cast<size_t>(index)].push_back(record);
    return absl::OkStatus();
  };
  NG_ASSIGN_OR_RETURN(seen.completions, engine->Generate(requests, options));
  NG_ASSIGN_OR_RETURN(const std::vector<std::string> reports, engine->Reports());
  seen.report = absl::StrJoin(reports, "; ");
  return seen;
}

Seen SeenOf(const DraftedRun& run) {
  absl::StatusOr<Seen> seen = TryRun(run);
  EXPECT_TRUE(seen.ok()) << seen.status() << ": " << absl::StrJoin(run.overrides, " ");
  return seen.ok() ? *std::move(seen) : Seen();
}

void ExpectSameStep(const StepRecord& found, const StepRecord& plain) {
  EXPECT_EQ(found.step, plain.step);
  EXPECT_EQ(found.token_id, plain.token_id);
  EXPECT_EQ(found.logprob, plain.logprob);
  EXPECT_EQ(found.entropy, plain.entropy);
  EXPECT_EQ(found.top_k, plain.top_k);
  EXPECT_EQ(found.logits_hash, plain.logits_hash);
  EXPECT_EQ(found.held_bytes, plain.held_bytes);
  ASSERT_EQ(found.stages.size(), plain.stages.size());
  for (size_t i = 0; i < found.stages.size(); ++i) {
    EXPECT_EQ(found.stages[i].n_left, plain.stages[i].n_left);
    EXPECT_EQ(found.stages[i].top, plain.stages[i].top);
  }
}

// Every bit but the times and `drafted`.
void ExpectSameRun(const Seen& found, const Seen& plain) {
  ASSERT_EQ(found.completions.size(), plain.completions.size());
  for (size_t i = 0; i < found.completions.size(); ++i) {
    const Completion& completion = found.completions[i];
    EXPECT_EQ(completion.ids, plain.completions[i].ids) << "request " << i;
    EXPECT_EQ(completion.stop_reason, plain.completions[i].stop_reason);
    EXPECT_EQ(completion.held_bytes, plain.completions[i].held_bytes);
    EXPECT_EQ(completion.captured.decode_logits, plain.completions[i].captured.decode_logits);
    EXPECT_EQ(completion.timings.decode_tokens, plain.completions[i].timings.decode_tokens);
    ASSERT_EQ(found.steps[i].size(), plain.steps[i].size());
    for (size_t s = 0; s < found.steps[i].size(); ++s) {
      EXPECT_TRUE(found.steps[i][s].drafted.has_value());
      EXPECT_FALSE(plain.steps[i][s].drafted.has_value());
      ExpectSameStep(found.steps[i][s], plain.steps[i][s]);
    }
  }
}

class Drafted : public ::testing::Test {
 protected:
  // The overrides of a drafter that proposes what `plain` has chosen, wrong at this rate.
  Overrides Replaying(const Seen& plain, double error) {
    std::string text;
    for (const Completion& completion : plain.completions) {
      const auto answer = std::span(completion.ids).subspan(completion.prompt_len);
      absl::StrAppend(&text, absl::StrJoin(answer, " "), "\n");
    }
    const std::string path = dir_.File("answers");
    std::ofstream(path) << text;
    return {"drafter.name=replay", "drafter.replay.file=" + path,
            absl::StrCat("drafter.replay.error=", error)};
  }
  static DraftedRun With(DraftedRun run, const Overrides& more) {
    run.overrides.insert(run.overrides.end(), more.begin(), more.end());
    return run;
  }

  test::TempDir dir_;
};

// Runs that are made up: model, prompts, sampler chain, cache, drafter.
class MadeUpRuns {
 public:
  explicit MadeUpRuns(uint32_t seed) : random_(seed) {}

  DraftedRun Plain() {
    struct Model {
      std::string path;
      int64_t vocab_size;
      bool windows;
    };
    const std::vector<Model> models = {{absl::StrCat(kGolden, "olmo2/tiny"), 41, false},
                                       {absl::StrCat(kGolden, "mistral/window"), 41, true},
                                       {absl::StrCat(kGolden, "gemma3/tiny"), 41, true},
                                       {absl::StrCat(kGolden, "llama4/tiny"), 41, true},
                                       {kDemo, 512, false}};
    const Model& model = Any(models);
    DraftedRun run{.model = model.path};
    demo_ = model.path == kDemo;
    const int64_t n_prompts = Upto(2) == 0 ? 8 : 1 + Upto(3);
    // Some begin alike.
    const Ids common = SomeIds(Upto(2) == 0 ? 20 : 0, model.vocab_size);
    for (int64_t i = 0; i < n_prompts; ++i) {
      Ids prompt = common;
      const Ids own = SomeIds(1 + Upto(12), model.vocab_size);
      prompt.insert(prompt.end(), own.begin(), own.end());
      run.prompts.push_back(std::move(prompt));
    }
    run.n_new = 1 + Upto(20);
    run.overrides = {
        absl::StrCat("sampler.seed=", Upto(1000)),
        absl::StrCat("run.prefill_chunk=", Any<int>({0, 0, 3, 1})),
        absl::StrCat("cache.codec=", Any<std::string>({"f32", "bf16", "int8", "int4"})),
        absl::StrCat("cache.max_sequences=", 1 + Upto(n_prompts)),
        absl::StrCat("run.stop_ids=", Upto(3) == 0 ? "1,2,3,5,7" : "")};
    const int64_t cache = Upto(3);
    if (cache == 0) {
      run.overrides.insert(run.overrides.end(), {"cache.name=paged", "cache.paged.page_tokens=16"});
      // The smallest pool that holds one sequence.
      if (Upto(2) == 0) run.overrides.emplace_back("cache.paged.pool_tokens=64");
    } else if (cache == 1) {
      // Tokens leave, behind which no draft is taken back.
      run.overrides.insert(run.overrides.end(),
                           {"cache.name=budget", "cache.budget.sinks=1", "cache.budget.recent=2",
                            absl::StrCat("cache.budget.tokens=", 4 + Upto(20)),
                            absl::StrCat("cache.budget.every=", 1 + Upto(12)),
                            absl::StrCat("cache.budget.policy=",
                                         Any<std::string>({"keydiff", "observed", "tova"}))});
    }
    if (cache != 1 && Upto(2) == 0) {
      run.overrides.insert(
          run.overrides.end(),
          {"attention.name=sparse", absl::StrCat("attention.sparse.pages=", 2 + Upto(2))});
    }
    for (std::string& setting : Chain()) run.overrides.push_back(std::move(setting));
    return run;
  }

  // A drafter for a run, but for `replay`.
  Overrides Drafter(const DraftedRun& run) {
    if (Upto(2) == 0) {
      return {"drafter.name=ngram", absl::StrCat("drafter.ngram.min=", 1 + Upto(2))};
    }
    const bool same = demo_ || Upto(2) == 0;
    return {"drafter.name=model",
            absl::StrCat("drafter.model.path=",
                         same ? run.model : absl::StrCat(kGolden, "olmo2/tiny"))};
  }
  Overrides Lengths() {
    return {absl::StrCat("drafter.gamma=", 1 + Upto(9)),
            absl::StrCat("drafter.adapt=", Upto(4) == 0 ? "true" : "false")};
  }
  double Error() { return Any<double>({0.0, 0.2, 0.5, 1.0}); }

 private:
  int64_t Upto(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  template <class T>
  const T& Any(const std::vector<T>& values) {
    return values[static_cast<size_t>(Upto(std::ssize(values)))];
  }
  template <class T>
  T Any(std::initializer_list<T> values) {
    return *(values.begin() + Upto(static_cast<int64_t>(values.size())));
  }
  Ids SomeIds(int64_t n, int64_t vocab_size) {
    Ids ids;
    for (int64_t i = 0; i < n; ++i) {
      ids.push_back(static_cast<int32_t>(6 + Upto(vocab_size - 6)));
    }
    return ids;
  }
  // Greedy, or sampled at 0.7 or 1.3 behind a stage of any kind.
  Overrides Chain() {
    if (Upto(4) == 0) return {"sampler.chain=greedy"};
    struct Stage {
      const char* name;
      Overrides options;
    };
    std::vector<Stage> stages = {
        {"top_k", {"sampler.top_k.k=5"}},
        {"top_p", {"sampler.top_p.p=0.8"}},
        {"min_p", {"sampler.min_p.p=0.05"}},
        {"typical_p", {}},
        {"top_n_sigma", {}},
        {"xtc", {"sampler.xtc.probability=0.5"}},
        {"mirostat", {}},
        {"repetition_penalty", {}},
        {"frequency_penalty", {"sampler.frequency_penalty.value=0.4"}},
        {"presence_penalty", {"sampler.presence_penalty.value=0.4"}},
        {"dry", {}},
        {"logit_bias", {"sampler.logit_bias.bias=7=3,9=-3"}},
        {"banned_tokens", {"sampler.banned_tokens.ids=8,11"}},
    };
    if (demo_) {
      stages.push_back({"stop_texts", {"sampler.stop_texts.texts=e,the"}});
      stages.push_back({"grammar", {"sampler.grammar.regex=[a-z ,]*\\."}});
    } else {
      stages.push_back(
          {"thoughts",
           {"sampler.thoughts.budget=3",
            R"(sampler.thoughts.marks={"begin":[7],"ends":[[12,13],[10]],"close":[12,13]})"}});
    }
    Overrides settings = {
        absl::StrCat("sampler.temperature.value=", Any<std::string>({"0.7", "1.3"}))};
    const Stage& first = Any(stages);
    const Stage& second = Any(stages);
    std::string chain = first.name;
    settings.insert(settings.end(), first.options.begin(), first.options.end());
    if (std::string(first.name) != second.name) {
      // What it forces must still be there.
      const bool leads = chain == "thoughts";
      chain = leads ? absl::StrCat(chain, ",", second.name) : absl::StrCat(second.name, ",", chain);
      settings.insert(settings.end(), second.options.begin(), second.options.end());
    }
    settings.push_back(absl::StrCat("sampler.chain=", chain, ",temperature"));
    return settings;
  }

  std::mt19937 random_;
  bool demo_ = false;
};

// NG_DRAFT_RUNS=1000 NG_DRAFT_SEED=1 is a long form.
TEST_F(Drafted, AnyRunIsThePlainRun) {
  const char* const asked = std::getenv("NG_DRAFT_RUNS");
  const char* const seed = std::getenv("NG_DRAFT_SEED");
  const int n_runs = asked == nullptr ? 24 : std::atoi(asked);
  MadeUpRuns runs(seed == nullptr ? 5 : static_cast<uint32_t>(std::atoi(seed)));
  int64_t n_drafted = 0;
  int64_t n_kept = 0;
  for (int i = 0; i < n_runs && !HasFailure(); ++i) {
    const DraftedRun run = runs.Plain();
    const Overrides own = runs.Drafter(run);
    const absl::StatusOr<Seen> tried = TryRun(run);
    if (!tried.ok()) {  // as where a stage leaves no token that the grammar allows
      EXPECT_EQ(TryRun(With(run, own)).status(), tried.status());
      continue;
    }
    const Seen& plain = *tried;
    for (const Overrides& drafter : {own, Replaying(plain, runs.Error())}) {
      const DraftedRun drafted = With(With(run, drafter), runs.Lengths());
      const Seen seen = SeenOf(drafted);
      ExpectSameRun(seen, plain);
      for (const Completion& completion : seen.completions) {
        n_drafted += completion.timings.drafted_tokens;
        n_kept += completion.timings.kept_tokens;
      }
      if (!HasFailure()) continue;
      ADD_FAILURE() << "run " << i << ": " << run.model << " "
                    << absl::StrJoin(drafted.overrides, " ");
      break;
    }
  }
  EXPECT_GT(n_drafted, 20 * n_runs);
  EXPECT_GT(n_kept, 5 * n_runs);
}

DraftedRun Simple() {
  return {.model = absl::StrCat(kGolden, "olmo2/tiny"),
          .overrides = {"sampler.chain=temperature", "run.stop_ids=", "drafter.adapt=false"},
          .prompts = {{7, 8, 9, 10, 11}}};
}

// All of a draft is kept, half of it, or nothing: the steps are what that makes.
TEST_F(Drafted, SavesTheStepsWhoseTokensWereDrafted) {
  DraftedRun run = Simple();
  run.n_new = 21;
  const Seen plain = SeenOf(run);
  EXPECT_EQ(plain.completions[0].timings.decode_steps, 0);
  run.overrides.emplace_back("drafter.gamma=4");
  const Seen right = SeenOf(With(run, Replaying(plain, 0.0)));
  ExpectSameRun(right, plain);
  const Timings& all = right.completions[0].timings;
  EXPECT_EQ(all.decode_steps, 4);  // of 5 tokens each, behind the prefill's one
  EXPECT_EQ(all.drafted_tokens, 16);
  EXPECT_EQ(all.kept_tokens, 16);
  EXPECT_EQ(right.steps[0][0].drafted, false);
  EXPECT_EQ(right.steps[0][4].drafted, true);
  EXPECT_EQ(right.steps[0][5].drafted, false);  // chosen behind the draft
  EXPECT_EQ(right.report, "drafter replay: 5.00 tokens a step, 100.0 % of 16 drafted tokens kept");
  const Seen wrong = SeenOf(With(run, Replaying(plain, 1.0)));
  ExpectSameRun(wrong, plain);
  EXPECT_EQ(wrong.completions[0].timings.decode_steps, 20);
  EXPECT_EQ(wrong.completions[0].timings.kept_tokens, 0);
}

// A draft never goes beyond what may be generated, and the model's last position can be reached.
TEST_F(Drafted, EndsWhereThePlainRunEnds) {
  for (int64_t n_new = 0; n_new <= 12; ++n_new) {
    DraftedRun run = Simple();
    run.n_new = n_new;
    const Seen plain = SeenOf(run);
    ExpectSameRun(SeenOf(With(run, Replaying(plain, 0.0))), plain);
  }
  DraftedRun to_the_end = Simple();
  to_the_end.n_new = 64 - 5;  // T_max
  const Seen plain = SeenOf(to_the_end);
  EXPECT_EQ(plain.completions[0].ids.size(), 64U);
  ExpectSameRun(SeenOf(With(to_the_end, Replaying(plain, 0.3))), plain);
  // Each of the answer's tokens ends it in turn.
  for (int64_t at = 5; at < 20; ++at) {
    DraftedRun run = Simple();
    run.n_new = 20;
    run.overrides.push_back(
        absl::StrCat("run.stop_ids=", plain.completions[0].ids[static_cast<size_t>(at)]));
    const Seen stopped = SeenOf(run);
    EXPECT_EQ(stopped.completions[0].stop_reason, StopReason::kEot);
    ExpectSameRun(SeenOf(With(run, Replaying(plain, 0.0))), stopped);
  }
}

// A sequence that the program goes on with holds what it would without drafts, also when the run
// was cut within one.
TEST_F(Drafted, LeavesSequencesAsThePlainRunDoes) {
  DraftedRun run = Simple();
  run.n_new = 16;
  const Seen plain = SeenOf(run);
  run = With(run, Replaying(plain, 0.0));
  const auto engine = OpenDrafted(run);
  ASSERT_TRUE(engine.ok()) << engine.status();
  ASSERT_TRUE((*engine)->Load({.max_tokens = 64}).ok());
  for (const int n_steps : {1, 3, 16}) {
    const auto sequence = (*engine)->OpenSequence(64);
    ASSERT_TRUE(sequence.ok());
    GenerateOptions options;
    int n_told = 0;
    Ids ids;
    options.on_step = [&](int /*index*/, const StepRecord& /*record*/) {
      return ++n_told < n_steps ? absl::OkStatus() : InterruptedError("enough");
    };
    options.on_done = [&](int /*index*/, const Completion& completion) {
      ids = completion.ids;
      return absl::OkStatus();
    };
    const GenerateRequest request = {
        .prompt_ids = run.prompts[0], .max_new_tokens = 16, .sequence = *sequence};
    ASSERT_TRUE((*engine)->Generate({&request, 1}, options).ok());
    ASSERT_EQ(std::ssize(ids), 5 + n_steps);
    EXPECT_EQ((*engine)->SequenceLength(*sequence), std::ssize(ids) - 1);
    // It goes on as the plain run does.
    const GenerateRequest more = {.prompt_ids = ids,
                                  .max_new_tokens = 16 - n_steps,
                                  .sequence = *sequence,
                                  .n_answered = n_steps};
    const auto done = (*engine)->Generate({&more, 1}, {});
    ASSERT_TRUE(done.ok()) << done.status();
    EXPECT_EQ((*done)[0].ids, plain.completions[0].ids);
    (*engine)->CloseSequence(*sequence);
  }
}

TEST_F(Drafted, DraftsNothingWhereSomebodyLooksAndSaysSo) {
  DraftedRun run = Simple();
  run.overrides.emplace_back("drafter.name=ngram");
  GenerateOptions points;
  points.capture_points = {{Point::kOut, 0}};
  GenerateOptions rows;
  rows.trace_layers = {0};
  GenerateOptions lines;
  lines.on_cache_debug = [](std::string_view) {};
  for (const GenerateOptions& options : {points, rows, lines}) {
    const auto seen = TryRun(run, options);
    ASSERT_TRUE(seen.ok()) << seen.status();
    EXPECT_THAT(seen->report, HasSubstr("drafter ngram: drafts nothing: "));
    EXPECT_FALSE(seen->steps[0][3].drafted.has_value());
  }
  run.overrides.insert(run.overrides.end(), {"probe.chain=capture", "probe.capture.points=embed",
                                             "probe.capture.file=" + dir_.File("rows")});
  EXPECT_THAT(SeenOf(run).report,
              HasSubstr("drafter ngram: drafts nothing: probe.chain looks at every step"));
  const auto text = (*OpenDrafted(run))->Describe({.max_tokens = 8});
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(*text, HasSubstr("drafts nothing: probe.chain looks at every step"));
}

TEST_F(Drafted, HasItsMemoryInThePlan) {
  DraftedRun run = Simple();
  const auto plain = OpenDrafted(run);
  run.overrides.insert(run.overrides.end(), {"drafter.name=model",
                                             "drafter.model.path=" + run.model, "drafter.gamma=6"});
  const auto drafted = OpenDrafted(run);
  ASSERT_TRUE(plain.ok() && drafted.ok()) << drafted.status();
  const RunNeeds needs = {.max_tokens = 40, .max_sequences = 3, .max_prompt = 2};
  const auto without = (*plain)->Plan(needs);
  const auto with = (*drafted)->Plan(needs);
  ASSERT_TRUE(without.ok() && with.ok());
  EXPECT_EQ(without->drafter_bytes, 0);
  // The same model once more, and steps of 7 rows of each sequence in place of 2.
  EXPECT_GE(with->drafter_bytes, without->needed_bytes());
  EXPECT_GT(with->activation_bytes, without->activation_bytes);
  EXPECT_EQ(with->needed_bytes(), with->weights.bytes() + with->drafter_bytes + with->cache.bytes +
                                      with->activation_bytes);
  const auto text = (*drafted)->Describe(needs);
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(*text, AllOf(HasSubstr("drafter plugin 'model'"), HasSubstr("up to 6 tokens a step"),
                           HasSubstr(absl::StrCat(", drafter ", with->drafter_bytes))));
}

TEST_F(Drafted, IsRefusedWhereItCannotBe) {
  const std::string olmo2 = absl::StrCat(kGolden, "olmo2/tiny");
  struct Refused {
    std::string model;
    Overrides overrides;
    int exit_code;
    std::vector<std::string> says;
  };
  const std::vector<Refused> cases = {
      {olmo2, {"drafter.name=ngrm"}, 4, {"no drafter plugin 'ngrm'", "did you mean 'ngram'"}},
      {olmo2,
       {"drafter.name=ngram", "drafter.gamma=0"},
       2,
       {"drafter.gamma=0: must be in [1, 64]"}},
      {olmo2,
       {"drafter.name=ngram", "drafter.gamma=65"},
       2,
       {"drafter.gamma=65: must be in [1, 64]"}},
      {olmo2, {"drafter.name=ngram", "drafter.ngram.mni=2"}, 2, {"drafter.ngram.mni", "min"}},
      {olmo2,
       {"drafter.name=ngram", "drafter.ngram.min=9"},
       2,
       {"drafter.ngram.min = 9, must be at most drafter.ngram.max = 8"}},
      {olmo2,
       {"drafter.name=ngram", "run.use_cache=false"},
       2,
       {"drafter.name", "drafts need a cache"}},
      {absl::StrCat(kGolden, "lfm2/tiny"),
       {"drafter.name=ngram"},
       4,
       {"drafter.name", "lfm2", "keeps a state"}},
      {olmo2, {"drafter.name=model"}, 2, {"drafter.model.path is empty"}},
      {olmo2,
       {"drafter.name=model", "drafter.model.path=/no/such"},
       3,
       {"drafter.model.path = /no/such: "}},
      {olmo2,
       {"drafter.name=model", absl::StrCat("drafter.model.path=", kGolden, "llama/untied")},
       3,
       {"has a vocabulary of 83, must be that of the model, which has 41"}},
      {olmo2, {"drafter.name=replay"}, 2, {"drafter.replay.file is empty"}},
      {olmo2, {"drafter.name=replay", "drafter.replay.file=/no/such"}, 3, {"/no/such: is no file"}},
  };
  for (const Refused& refused : cases) {
    const absl::Status status =
        OpenDrafted({.model = refused.model, .overrides = refused.overrides}).status();
    EXPECT_EQ(ExitCode(status), refused.exit_code) << status;
    for (const std::string& words : refused.says) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(words));
    }
  }
}

// What is wrong with a plugin's drafter ends the run with its name.
TEST_F(Drafted, EndsWithThePluginsNameWhereItMisbehaves) {
  for (const char* fault : {"propose_throws", "propose_refuses", "proposes_too_many",
                            "proposes_no_token", "open_throws", "accept_throws", "close_throws"}) {
    DraftedRun run = Simple();
    run.overrides.insert(
        run.overrides.end(),
        {"plugins.path=" NG_BINARY_DIR "/tests/fixtures/broken_plugins/drafter_faults",
         "drafter.name=drafter_faults", absl::StrCat("drafter.drafter_faults.fault=", fault)});
    const absl::Status status = TryRun(run).status();
    EXPECT_EQ(ExitCode(status), 4) << fault << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("drafter plugin 'drafter_faults'"));
  }
}

}  // namespace
}  // namespace ng
