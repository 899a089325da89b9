// What `replay` proposes: the file's answers, wrong as often as it is told.
#include "plugins/drafter/replay/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kReplayVocab = 50;

class Replay : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<Drafter>> Made(const std::string& text, double error) {
    std::ofstream(path()) << text;
    const OptionValue values[] = {
        {.name = "file", .type = OptionType::kText, .text = path()},
        {.name = "error", .type = OptionType::kReal, .real = error, .text = {}},
        {.name = "seed", .type = OptionType::kInt, .integer = 4, .text = {}}};
    PluginContext context;
    context.model.vocab_size = kReplayVocab;
    context.options = OptionValues(values);
    NG_ASSIGN_OR_RETURN(std::unique_ptr<Drafter> drafter, ReplayDrafter::Create(context));
    NG_RETURN_IF_ERROR(drafter->Load({.max_sequences = 2, .max_tokens = 64, .gamma = 8}));
    return drafter;
  }
  static std::vector<int32_t> Drafted(Drafter& drafter, int slot, size_t most) {
    std::vector<int32_t> tokens(most);
    Draft draft{slot, tokens};
    EXPECT_TRUE(drafter.Propose({&draft, 1}).ok());
    tokens.resize(static_cast<size_t>(draft.n_tokens));
    return tokens;
  }
  std::string path() const { return dir_.File("answers"); }

  test::TempDir dir_;
};

TEST_F(Replay, ProposesTheAnswerOfTheRequestFromItsStepOn) {
  auto drafter = Made("1 2 3 4\n\n  7  8 49 \n", 0.0);
  ASSERT_TRUE(drafter.ok()) << drafter.status();
  ASSERT_TRUE((*drafter)->Open(0, {.number = 2, .prompt_ids = {}}).ok());
  ASSERT_TRUE((*drafter)->Open(1, {.number = 0, .prompt_ids = {}, .n_answered = 1}).ok());
  EXPECT_EQ(Drafted(**drafter, 0, 2), (std::vector<int32_t>{7, 8}));
  EXPECT_EQ(Drafted(**drafter, 1, 8), (std::vector<int32_t>{2, 3, 4}));
  ASSERT_TRUE((*drafter)->Accept(0, 30).ok());  // whatever was chosen, the step has passed
  EXPECT_EQ(Drafted(**drafter, 0, 8), (std::vector<int32_t>{8, 49}));
  for (const int64_t number : {1, 3}) {
    ASSERT_TRUE((*drafter)->Open(0, {.number = number, .prompt_ids = {}}).ok());
    EXPECT_EQ(Drafted(**drafter, 0, 8), std::vector<int32_t>()) << number;
  }
}

// Each token by itself: the same in drafts of any length.
TEST_F(Replay, IsWrongAsOftenAsItIsTold) {
  std::string answer;
  constexpr int kTokens = 4000;
  for (int i = 0; i < kTokens; ++i) answer += "49 ";
  for (const double error : {0.0, 0.3, 1.0}) {
    auto drafter = Made(answer, error);
    ASSERT_TRUE(drafter.ok()) << drafter.status();
    ASSERT_TRUE((*drafter)->Open(0, {.number = 0, .prompt_ids = {}}).ok());
    ASSERT_TRUE((*drafter)->Open(1, {.number = 0, .prompt_ids = {}}).ok());
    const std::vector<int32_t> all = Drafted(**drafter, 0, kTokens);
    int n_wrong = 0;
    for (const int32_t token : all) {
      EXPECT_TRUE(token == 49 || token == 0) << token;
      n_wrong += token == 49 ? 0 : 1;
      EXPECT_EQ(Drafted(**drafter, 1, 1), std::vector<int32_t>{token});
      ASSERT_TRUE((*drafter)->Accept(1, 49).ok());
    }
    EXPECT_NEAR(static_cast<double>(n_wrong) / kTokens, error, 0.03);
  }
}

TEST_F(Replay, RefusesAFileThatIsNone) {
  const absl::Status beyond = Made("1 2\n3 50 4\n", 0.0).status();
  EXPECT_EQ(ExitCode(beyond), 3);
  EXPECT_THAT(std::string(beyond.message()),
              HasSubstr("answers:2: '50', must be ids in [0, 49] with blanks between them"));
  EXPECT_EQ(ExitCode(Made("1,2", 0.0).status()), 3);
  EXPECT_EQ(ExitCode(Made("1 x", 0.0).status()), 3);
  EXPECT_EQ(ExitCode(Made("-1", 0.0).status()), 3);
}

}  // namespace
}  // namespace ng
