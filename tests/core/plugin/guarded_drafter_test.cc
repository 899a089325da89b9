// What a plugin's drafter does wrong becomes an error that names the plugin.
#include "core/plugin/guarded_drafter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ng {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using DrafterBody = std::function<absl::Status(Draft*)>;

// Every call does the same: `body`, with the first draft where there is one.
class DrafterHere final : public Drafter {
 public:
  explicit DrafterHere(DrafterBody body) : body_(std::move(body)) {}
  absl::StatusOr<DrafterPlan> Plan(const DrafterSpec& spec) const override {
    NG_RETURN_IF_ERROR(body_(nullptr));
    return DrafterPlan{spec.max_tokens};
  }
  absl::Status Load(const DrafterSpec& /*spec*/) override { return body_(nullptr); }
  absl::Status Open(int /*slot*/, const DraftedRequest& /*request*/) override {
    return body_(nullptr);
  }
  absl::Status Accept(int /*slot*/, int32_t /*token*/) override { return body_(nullptr); }
  absl::Status Close(int /*slot*/) override { return body_(nullptr); }
  absl::Status Propose(std::span<Draft> drafts) override { return body_(drafts.data()); }

 private:
  DrafterBody body_;
};

GuardedDrafter DrafterGuardedBy(DrafterBody body) {
  static constexpr PluginDescriptor kDescriptor = EveryCpuPlugin("drafter", "here", "1", "", {});
  return GuardedDrafter({&kDescriptor, "/lib/here.so"},
                        std::make_unique<DrafterHere>(std::move(body)), /*vocab_size=*/8);
}

// The status of Propose for a draft of up to 3 tokens that `body` fills.
absl::Status Proposed(DrafterBody body) {
  std::vector<int32_t> tokens(4);
  Draft draft{2, std::span(tokens).first(3)};
  return DrafterGuardedBy(std::move(body)).Propose({&draft, 1});
}

TEST(GuardedDrafter, HandsOnADraftOfTheVocabulary) {
  EXPECT_TRUE(Proposed([](Draft* draft) {
                draft->tokens[0] = 7;
                draft->tokens[1] = 0;
                draft->tokens[2] = 99;  // is not proposed
                draft->n_tokens = 2;
                return absl::OkStatus();
              }).ok());
  EXPECT_TRUE(Proposed([](Draft*) { return absl::OkStatus(); }).ok());
}

TEST(GuardedDrafter, RefusesWhatIsNoDraft) {
  struct Case {
    DrafterBody body;
    const char* says;
  };
  const Case cases[] = {
      {[](Draft* draft) {
         draft->n_tokens = 4;
         return absl::OkStatus();
       },
       "Propose gave slot 2 a draft of 4 tokens, must be in [0, 3]"},
      {[](Draft* draft) {
         draft->n_tokens = -1;
         return absl::OkStatus();
       },
       "a draft of -1 tokens"},
      {[](Draft* draft) {
         draft->tokens[0] = 8;
         draft->n_tokens = 1;
         return absl::OkStatus();
       },
       "Propose gave slot 2 the token 8, must be in [0, 8) (the vocabulary)"},
      {[](Draft* draft) {
         draft->slot = 1;
         return absl::OkStatus();
       },
       "Propose changed the draft of slot 2 itself"},
      {[](Draft* draft) {
         draft->tokens = draft->tokens.first(1);
         return absl::OkStatus();
       },
       "Propose changed the draft of slot 2 itself"},
  };
  for (const Case& wrong : cases) {
    const absl::Status status = Proposed(wrong.body);
    EXPECT_EQ(ExitCode(status), 4) << wrong.says;
    EXPECT_THAT(
        std::string(status.message()),
        AllOf(HasSubstr("drafter plugin 'here' 1 (/lib/here.so): "), HasSubstr(wrong.says)));
  }
}

TEST(GuardedDrafter, NamesThePluginOfWhateverFails) {
  const std::function<absl::Status(Drafter&)> calls[] = {
      [](Drafter& drafter) { return drafter.Plan({}).status(); },
      [](Drafter& drafter) { return drafter.Load({}); },
      [](Drafter& drafter) { return drafter.Open(0, {}); },
      [](Drafter& drafter) { return drafter.Accept(0, 1); },
      [](Drafter& drafter) { return drafter.Close(0); },
      [](Drafter& drafter) { return drafter.Propose({}); },
  };
  for (const auto& call : calls) {
    GuardedDrafter throws =
        DrafterGuardedBy([](Draft*) -> absl::Status { throw std::runtime_error("no such thing"); });
    const absl::Status thrown = call(throws);
    EXPECT_EQ(ExitCode(thrown), 4);
    EXPECT_THAT(std::string(thrown.message()),
                HasSubstr("drafter plugin 'here' 1 (/lib/here.so) threw: no such thing"));
    GuardedDrafter full = DrafterGuardedBy([](Draft*) { return LimitError("full"); });
    EXPECT_EQ(ExitCode(call(full)), 5);
  }
}

TEST(GuardedDrafter, LetsInterruptionsAndFilesThrough) {
  GuardedDrafter stopped = DrafterGuardedBy([](Draft*) { return InterruptedError("stopped"); });
  EXPECT_EQ(ExitCode(stopped.Load({})), 130);
  EXPECT_EQ(ExitCode(stopped.Propose({})), 130);
  GuardedDrafter damaged = DrafterGuardedBy([](Draft*) { return ModelFileError("x: damaged"); });
  EXPECT_EQ(damaged.Load({}), ModelFileError("x: damaged"));
}

TEST(GuardedDrafter, RefusesAPlanOfLessThanNothing) {
  GuardedDrafter drafter = DrafterGuardedBy([](Draft*) { return absl::OkStatus(); });
  DrafterSpec spec;
  spec.max_tokens = -5;
  EXPECT_THAT(std::string(drafter.Plan(spec).status().message()),
              HasSubstr("the plan has -5 bytes, must be at least 0"));
}

}  // namespace
}  // namespace ng
