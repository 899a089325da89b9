// The cache with a budget whose tokens leave once, where the context of a prompt ends, in whole
// runs: the bit contract, who says where the context ends, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ng/engine.h"
#include "tests/integration/engine/last_logits.h"
#include "tests/integration/run_support.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kPromptTokens = 64;  // the models' context

class BudgetPrompt : public ::testing::TestWithParam<std::string> {
 protected:
  static std::unique_ptr<Engine> Open(const std::vector<std::string>& more,
                                      const RunNeeds& needs = {.max_tokens = kPromptTokens,
                                                               .max_sequences = 3}) {
    return test::OpenLoaded(
        {"model.path=" NG_TEST_DATA "/golden/" + GetParam(), "cache.name=budget",
         "cache.budget.when=prompt", "cache.budget.tokens=14", "cache.budget.sinks=2",
         "cache.budget.recent=4", "cache.budget.policy=keydiff",
         "run.stop_ids=", "sampler.chain=greedy", "run.check_plugins=true"},
        more, needs);
  }

  std::vector<int32_t> SomeTokens(int64_t n) {
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < n; ++i) tokens.push_back(static_cast<int32_t>(random_() % 40));
    return tokens;
  }

  // One set of bits for all chunks, batches and threads.
  void ExpectOneSetOfBits(const std::vector<std::string>& policy) {
    const std::unique_ptr<Engine> whole = Open(policy);
    std::vector<std::string> threads = policy;
    threads.emplace_back("run.threads=3");
    const std::unique_ptr<Engine> other = Open(threads);
    const std::vector<int32_t> text = SomeTokens(kPromptTokens);
    for (const int64_t context : {17, 31, 48}) {
      const SequenceId a = whole->OpenSequence(kPromptTokens).value();
      const SequenceId b = other->OpenSequence(kPromptTokens).value();
      const SequenceId beside = other->OpenSequence(kPromptTokens).value();
      ASSERT_TRUE(whole->SetContext(a, context).ok());
      ASSERT_TRUE(other->SetContext(b, context).ok());
      ASSERT_TRUE(other->SetContext(beside, 19).ok());
      for (int64_t at = 0; at < kPromptTokens;) {
        const int64_t n = std::min<int64_t>(kPromptTokens - at, 1 + random_() % 9);
        const std::vector<int32_t> so_far(text.begin(), text.begin() + at + n);
        ASSERT_TRUE(whole->TruncateSequence(a, 0).ok());
        const std::vector<float> wanted = test::LastLogits(*whole, a, so_far);
        const int32_t token = SomeTokens(1).front();
        ASSERT_EQ(test::LastLogitsBeside(*other, beside, token, b,
                                         std::vector<int32_t>{so_far.begin() + at, so_far.end()}),
                  wanted)
            << at + n;
        at += n;
      }
      for (const SequenceId id : {b, beside}) other->CloseSequence(id);
      whole->CloseSequence(a);
    }
  }

  std::mt19937_64 random_{11};
};

TEST_P(BudgetPrompt, HasOneSetOfBitsForAllChunksBatchesAndThreads) { ExpectOneSetOfBits({}); }

TEST_P(BudgetPrompt, SoHaveThePoliciesThatGoByAttentionOrQueries) {
  for (const std::vector<std::string>& policy :
       {std::vector<std::string>{"cache.budget.policy=observed"},
        {"cache.budget.policy=tova", "cache.budget.per=layer"},
        {"cache.budget.policy=snapkv", "policy.snapkv.queries=6"},
        {"cache.budget.policy=snapkv", "policy.snapkv.queries=6", "cache.budget.layers=pyramid",
         "cache.budget.beta=2"},
        {"cache.budget.policy=knorm", "cache.budget.heads=adaptive"},
        {"cache.budget.policy=tova", "cache.budget.heads=adaptive", "cache.budget.safeguard=0"},
        {"cache.budget.policy=expected_attention", "policy.expected_attention.sinks=2"}}) {
    SCOPED_TRACE(absl::StrJoin(policy, " "));
    const bool queries = policy.front() == "cache.budget.policy=expected_attention";
    if (queries && GetParam() == "deepseek_v3/tiny") continue;  // refused
    ExpectOneSetOfBits(policy);
  }
}

TEST_P(BudgetPrompt, OfABudgetAsLongAsTheContextHasTheBitsOfContiguous) {
  const std::unique_ptr<Engine> budget = Open({"cache.budget.tokens=30"});
  const std::unique_ptr<Engine> contiguous = Open({"cache.name=contiguous"});
  EXPECT_TRUE(budget->wants_context());
  EXPECT_FALSE(contiguous->wants_context());
  const SequenceId a = budget->OpenSequence(kPromptTokens).value();
  const SequenceId b = contiguous->OpenSequence(kPromptTokens).value();
  ASSERT_TRUE(budget->SetContext(a, 30).ok());
  ASSERT_TRUE(contiguous->SetContext(b, 30).ok());  // says nothing
  for (const int64_t n : {int64_t{5}, int64_t{30}, int64_t{1}, kPromptTokens - 36}) {
    const std::vector<int32_t> tokens = SomeTokens(n);
    EXPECT_EQ(test::LastLogits(*budget, a, tokens), test::LastLogits(*contiguous, b, tokens));
  }
}

// A context is read once, and forks of it have the bits of engines that know one policy and budget.
TEST_P(BudgetPrompt, ForksByRulesHaveTheBitsOfEnginesOfTheirOwn) {
  const std::string options[] = {"policy.snapkv.queries=6"};
  const std::unique_ptr<Engine> all = Open(
      {options[0], "cache.budget.rules=knorm:9,observed:14,tova:20,snapkv:10,snapkv:30,knorm:0.3"});
  const std::vector<int32_t> context = SomeTokens(40);
  const std::vector<int32_t> question = SomeTokens(kPromptTokens - 40);
  const SequenceId read = all->OpenSequence(kPromptTokens).value();
  ASSERT_TRUE(all->SetContext(read, 40).ok());
  test::LastLogits(*all, read, {context.begin(), context.end() - 1});
  for (const char* const rule :
       {"keydiff:14", "knorm:9", "observed:14", "tova:20", "snapkv:10", "snapkv:30", "knorm:0.3"}) {
    SCOPED_TRACE(rule);
    const std::string text = rule;
    const size_t colon = text.find(':');
    const std::unique_ptr<Engine> own =
        text.find('.') != text.npos
            ? Open({options[0], "cache.budget.policy=knorm", "cache.budget.tokens=1024",
                    "cache.budget.ratio=0.3"})
            : Open({options[0], "cache.budget.policy=" + text.substr(0, colon),
                    "cache.budget.tokens=" + text.substr(colon + 1)});
    const SequenceId fork = all->ForkSequence(read, kPromptTokens).value();
    const SequenceId id = own->OpenSequence(kPromptTokens).value();
    ASSERT_TRUE(own->SetContext(id, 40).ok());
    ASSERT_TRUE(all->SetKeepRule(fork, rule).ok());
    std::vector<int32_t> whole = context;
    whole.insert(whole.end(), question.begin(), question.end());
    std::vector<int32_t> rest(context.end() - 1, context.end());
    rest.insert(rest.end(), question.begin(), question.end());
    EXPECT_EQ(test::LastLogits(*all, fork, rest), test::LastLogits(*own, id, whole));
    EXPECT_TRUE(IsUnsupported(all->SetKeepRule(fork, "keydiff:14")));
    all->CloseSequence(fork);
  }
  const absl::Status unknown = all->SetKeepRule(read, "knorm:10");
  EXPECT_EQ(ExitCode(unknown), 2);
  EXPECT_THAT(std::string(unknown.message()),
              AllOf(HasSubstr("no tokens go by 'knorm:10'"), HasSubstr("keydiff:14, knorm:9, ")));
  all->CloseSequence(read);
  EXPECT_THAT(std::string(all->SetKeepRule(read, "knorm:9").message()), HasSubstr("not open"));
  const std::unique_ptr<Engine> contiguous = Open({"cache.name=contiguous"});
  const SequenceId plain = contiguous->OpenSequence(kPromptTokens).value();
  EXPECT_THAT(std::string(contiguous->SetKeepRule(plain, "knorm:9").message()),
              HasSubstr("it can by: none"));
}

// One answer, whether a request runs alone or in a batch, in chunks, or with nothing kept.
TEST_P(BudgetPrompt, RequestsHaveOneAnswer) {
  std::vector<GenerateRequest> requests;
  for (const int64_t context : {25, 40, 44}) {
    GenerateRequest& request = requests.emplace_back();
    request.prompt_ids = SomeTokens(44);
    request.context_tokens = context;
    request.max_new_tokens = 12;
  }
  const auto ids_of = [&](const std::vector<std::string>& more, size_t n_at_once) {
    const std::unique_ptr<Engine> engine = Open(more);
    std::vector<std::vector<int32_t>> ids;
    for (size_t i = 0; i < requests.size(); i += n_at_once) {
      const auto done = engine->Generate(std::span(requests).subspan(i, n_at_once), {});
      EXPECT_TRUE(done.ok()) << done.status();
      if (!done.ok()) return ids;
      for (const Completion& completion : *done) ids.push_back(completion.ids);
    }
    return ids;
  };
  const std::vector<std::vector<int32_t>> wanted = ids_of({}, 1);
  EXPECT_EQ(ids_of({}, 3), wanted);
  EXPECT_EQ(ids_of({"run.prefill_chunk=7"}, 3), wanted);
  EXPECT_EQ(ids_of({"run.use_cache=false"}, 1), wanted);
  EXPECT_EQ(ids_of({"drafter.name=ngram"}, 3), wanted);
  EXPECT_NE(ids_of({"cache.name=contiguous"}, 3), wanted);
}

TEST_P(BudgetPrompt, TellsWhichTokensAreHeld) {
  const std::unique_ptr<Engine> engine = Open({});
  GenerateRequest request;
  request.prompt_ids = SomeTokens(44);
  request.context_tokens = 40;
  request.max_new_tokens = 3;
  std::vector<HeldPositions> told;
  GenerateOptions options;
  options.on_left = [&](int index, const HeldPositions& held) {
    EXPECT_EQ(index, 0);
    told.push_back(held);
    return absl::OkStatus();
  };
  ASSERT_TRUE(engine->Generate({&request, 1}, options).ok());
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].length, 40);
  EXPECT_GE(told[0].heads.size(), 2U);
  for (const HeldPositions::Head& head : told[0].heads) {
    EXPECT_EQ(head.positions.size(), 14U);
    EXPECT_EQ(head.positions[1], 1);    // sinks
    EXPECT_EQ(head.positions[10], 36);  // the newest four
  }
}

TEST_P(BudgetPrompt, WhatDoesNotSayItsContextIsRefused) {
  const std::unique_ptr<Engine> engine = Open({});
  GenerateRequest request = {SomeTokens(20), 4, {}};
  const absl::Status silent = engine->CheckRequest(request);
  EXPECT_EQ(ExitCode(silent), 2);
  EXPECT_THAT(std::string(silent.message()),
              AllOf(HasSubstr("cache plugin 'budget'"),
                    HasSubstr("lets tokens go where a text's context ends, and the prompt does not "
                              "say where that is"),
                    HasSubstr("run.context_tokens = N")));
  EXPECT_EQ(engine->Generate({&request, 1}, {}).status(), silent);
  for (const int64_t wrong : {-1, 21}) {
    request.context_tokens = wrong;
    EXPECT_THAT(std::string(engine->CheckRequest(request).message()),
                HasSubstr(absl::StrCat("context_tokens = ", wrong, ", must be in [0, 20]")));
  }
  const SequenceId id = engine->OpenSequence(kPromptTokens).value();
  const std::vector<int32_t> tokens = SomeTokens(5);
  const absl::Status fed = engine->Extend({&id, 1}, {&tokens, 1}).status();
  EXPECT_EQ(ExitCode(fed), 2);
  EXPECT_THAT(std::string(fed.message()), HasSubstr("sequence 0 does not say where that is"));
  EXPECT_EQ(ExitCode(engine->DecodeStep({&id, 1}, {tokens.data(), 1}).status()), 2);
  EXPECT_EQ(ExitCode(engine->SetContext(id, 0)), 2);
  request.context_tokens = 0;
  request.sequence = id;
  EXPECT_EQ(ExitCode(engine->Generate({&request, 1}, {}).status()), 2);
  ASSERT_TRUE(engine->SetContext(id, 18).ok());
  EXPECT_TRUE(engine->Generate({&request, 1}, {}).ok());
  EXPECT_TRUE(IsUnsupported(engine->TruncateSequence(id, 17)));
  EXPECT_TRUE(IsUnsupported(engine->SetContext(id, 30)));
  EXPECT_TRUE(engine->TruncateSequence(id, 18).ok());
}

TEST_P(BudgetPrompt, TheConfigSaysItForAll) {
  const std::unique_ptr<Engine> engine = Open({"run.context_tokens=20"});
  GenerateRequest request = {SomeTokens(30), 4, {}};
  const auto by_config = engine->Generate({&request, 1}, {});
  ASSERT_TRUE(by_config.ok()) << by_config.status();
  request.context_tokens = 20;
  EXPECT_EQ(engine->Generate({&request, 1}, {})->front().ids, by_config->front().ids);
  const GenerateRequest shorter = {SomeTokens(12), 4, {}};
  EXPECT_THAT(std::string(engine->CheckRequest(shorter).message()),
              HasSubstr("run.context_tokens = 20: the prompt has 12 tokens"));
  const SequenceId id = engine->OpenSequence(kPromptTokens).value();
  EXPECT_EQ(engine->MostLogitRows(id), 20);
}

INSTANTIATE_TEST_SUITE_P(Models, BudgetPrompt,
                         ::testing::Values("llama/untied", "gemma3/tiny", "deepseek_v3/tiny"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

using test::Arguments;
using test::operator+;  // NOLINT(misc-unused-using-decls): it is used below
using test::ExpectError;
using test::NgRun;

Arguments PromptBudget(const Arguments& more) {
  const std::string demo = NG_SOURCE_DIR "/configs/demo.ini";
  return Arguments{"--config", demo, "--cache.name=budget", "--cache.budget.when=prompt",
                   "--cache.budget.recent=4"} +
         more;
}

class BudgetPromptRun : public ::testing::Test {
 protected:
  BudgetPromptRun() {
    std::ofstream(context_) << "To be, or not to be, that is the question: Whether 'tis nobler in "
                               "the mind to suffer the slings and arrows of outrageous fortune";
  }
  const test::TempDir temp_;
  const std::string context_ = temp_.File("context.txt");
  const std::string kept_ = temp_.File("kept.jsonl");
};

TEST_F(BudgetPromptRun, RefusesWhatDoesNotGoTogether) {
  const Arguments turn = PromptBudget({"--message", "Who art thou?"});
  ExpectError(NgRun(turn), 2, {"the prompt does not say where that is", "--context FILE"});
  ExpectError(NgRun(turn + Arguments{"--dry-run"}), 2, {"the prompt does not say"});
  ExpectError(NgRun(turn + Arguments{"--cache.budget.ratio=0.5", "--cache.budget.tokens=40"}), 2,
              {"cache.budget.ratio = 0.5 and cache.budget.tokens = 40"});
  ExpectError(NgRun(turn + Arguments{"--cache.budget.ratio=0.5", "--cache.budget.when=every"}), 2,
              {"cache.budget.ratio = 0.5 is a share of a context"});
  ExpectError(NgRun(turn + Arguments{"--cache.budget.ratio=1.5"}), 2,
              {"cache.budget.ratio=1.5", "must be in [0, 1]"});
  ExpectError(NgRun(turn + Arguments{"--run.on_full=recompute", "--run.context_tokens=4"}), 2,
              {"run.on_full", "recompute moves tokens to other positions"});
  ExpectError(NgRun(turn + Arguments{"--run.context_tokens=400"}), 2,
              {"run.context_tokens", " = 400: the prompt has "});
  ExpectError(NgRun(turn + Arguments{"--context", ""}), 2, {"--context needs a file name"});
  ExpectError(NgRun(turn + Arguments{"--context", "/nowhere"}), 2, {"/nowhere"});
  ExpectError(NgRun(PromptBudget({"--chat", "--context", context_})), 2,
              {"--context does not go with --chat"});
  ExpectError(NgRun(PromptBudget({"--prompt-ids", "1 2", "--context", context_})), 2,
              {"--context does not go with --prompt-ids"});
}

TEST_F(BudgetPromptRun, AFileIsTheContext) {
  const Arguments with = {"--context", context_, "--cache.budget.ratio=0.5", "--kept", kept_,
                          "-n",        "4"};
  for (const Arguments& prompt : {Arguments{"--message", "Who art thou?"},
                                  {"--prompt", "Who art thou?"},
                                  {"Who art thou?"}}) {
    const test::Result ran = NgRun(PromptBudget(with + prompt));
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr("policy window let "));
    std::ifstream lines(kept_);
    int64_t n_lines = 0;
    for (std::string line; std::getline(lines, line); ++n_lines) {
      const auto json = nlohmann::json::parse(line);
      const int64_t length = json["length"];
      EXPECT_GT(length, 30);  // of the context's tokens
      EXPECT_EQ(std::ssize(json["held"]), length / 2);
    }
    EXPECT_GT(n_lines, 0);
  }
}

TEST_F(BudgetPromptRun, ALineOrWhatWasSaidBeforeIsTheContext) {
  const std::string prompts = temp_.File("prompts.jsonl");
  std::ofstream(prompts)
      << R"({"prompt": "To be, or not to be, that is the question", "context_tokens": 9})"
      << "\n"
      << R"({"messages": [{"role": "user", "content": "Who art thou, and what doest thou here?"},)"
      << R"({"role": "assistant", "content": "A clown, my lord."},)"
      << R"({"role": "user", "content": "What?"}]})"
      << "\n";
  const Arguments turn = PromptBudget({"--cache.budget.ratio=0.6", "--cache.budget.sinks=1",
                                       "--prompts", prompts, "--kept", kept_, "-n", "2"});
  const test::Result ran = NgRun(turn);
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  std::ifstream lines(kept_);
  std::vector<int64_t> lengths(2);
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    lengths[json["index"].get<size_t>()] = json["length"];
  }
  EXPECT_EQ(lengths[0], 9);
  EXPECT_GT(lengths[1], 12);
  ExpectError(NgRun(turn + Arguments{"--context", context_}), 2,
              {prompts + ":2: --context does not go with \"messages\""});
  std::ofstream(prompts) << R"({"prompt": "To be", "context_tokens": 90})";
  ExpectError(NgRun(turn), 2, {prompts + ":1: ", "context_tokens = 90, must be in [0, "});
  std::ofstream(prompts) << R"({"prompt": "To be", "context_tokens": "x"})";
  ExpectError(NgRun(turn), 2, {prompts + ":1: \"context_tokens\" = \"x\", must be an integer"});
}

TEST_F(BudgetPromptRun, ARecordHasTheContext) {
  const std::string record = temp_.File("record.json");
  const Arguments turn = PromptBudget(
      {"--context", context_, "--message", "Who art thou?", "--cache.budget.ratio=0.5", "-n", "6"});
  const test::Result ran = NgRun(turn + Arguments{"--record", record});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const test::Result again = NgRun({"--replay", record});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(again.out, ran.out);
}

TEST_F(BudgetPromptRun, AChatGoesOnFromItsFirstMessage) {
  const Arguments chat = PromptBudget({"--chat", "--cache.budget.ratio=0.5", "-n", "8",
                                       "--cache.budget.sinks=1", "--cache.budget.recent=1"});
  const std::string said = "Who art thou?\nWhat?\n";
  const test::Result silent = NgRun(chat, said);
  EXPECT_THAT(silent.err, HasSubstr("the prompt does not say where that is"));
  const test::Result ran =
      NgRun(chat + Arguments{"--run.system=Thou art a clown, and speakest merrily."}, said);
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.err, Not(HasSubstr("does not say")));
}

TEST_F(BudgetPromptRun, ThePlanSaysThatAllIsHeld) {
  const test::Result planned =
      NgRun(PromptBudget({"--message", "Who art thou?", "--context", context_, "-n", "10",
                          "--cache.max_tokens=200", "--dry-run"}));
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  EXPECT_THAT(planned.out, HasSubstr("a sequence holds at most 200 tokens: others leave where its "
                                     "context ends"));
}

}  // namespace
}  // namespace ng
