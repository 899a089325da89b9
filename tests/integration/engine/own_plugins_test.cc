// Plugins that a program brings itself (EngineOptions::plugins).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "ng/engine.h"
#include "ng/sampler.h"
#include "tests/support/message.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Leaves one token, that of its option.
class Only final : public SamplerStage {
 public:
  explicit Only(const PluginContext& context)
      : token_(static_cast<int32_t>(context.options.Int("token"))) {}
  absl::Status Apply(int, const DrawKey&, CandidateSet& candidates) override {
    candidates.KeepIds({&token_, 1});
    return token_ == 0 ? RuntimeError("not that one") : absl::OkStatus();
  }

 private:
  int32_t token_;
};

constexpr OptionSpec kOptions[] = {IntOption("token", 7, {.min = 0}, "the token that is left")};
constexpr PluginDescriptor kOnly = SamplerPlugin<Only>("only", "1.0.0", "one token", kOptions);

class OwnPlugins : public ::testing::Test {
 protected:
  OwnPlugins() {
    model_.WriteTo(dir_.path());
    options_.overrides = {"model.path=" + dir_.path(), "sampler.chain=only"};
  }

  test::TinyNiels model_;
  test::TempDir dir_;
  EngineOptions options_;
};

// The last token of an answer of one.
absl::StatusOr<int32_t> Chosen(const EngineOptions& options) {
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Open(options));
  const GenerateRequest request = {{1, 2}, 1};
  NG_RETURN_IF_ERROR(engine->Load(Needs({&request, 1})));
  NG_ASSIGN_OR_RETURN(const std::vector<Completion> done, engine->Generate({&request, 1}, {}));
  return done[0].ids.back();
}

TEST_F(OwnPlugins, AreNamedAndConfiguredLikeThoseInAFolder) {
  EXPECT_EQ(ExitCode(Chosen(options_).status()), 4);  // no folder has it
  options_.plugins = {{&kOnly, "the program"}};
  EXPECT_EQ(Chosen(options_).value(), 7);
  options_.overrides.emplace_back("sampler.only.token=3");
  EXPECT_EQ(Chosen(options_).value(), 3);
}

TEST_F(OwnPlugins, HaveTheSameGuards) {
  options_.plugins = {{&kOnly, "the program"}};
  options_.overrides.emplace_back("sampler.only.token=0");
  const absl::Status failed = Chosen(options_).status();
  EXPECT_EQ(ExitCode(failed), 4);
  EXPECT_THAT(Message(failed), AllOf(HasSubstr("sampler plugin 'only' 1.0.0 (the program)"),
                                     HasSubstr("not that one")));
}

TEST_F(OwnPlugins, AreRefusedWhereTheirDescriptorIsNotSound) {
  PluginDescriptor old = kOnly;
  old.header.build_tag = "another compiler";
  options_.plugins = {{&old, "the program"}};
  const absl::Status failed = Engine::Open(options_).status();
  EXPECT_EQ(ExitCode(failed), 4);
  EXPECT_THAT(Message(failed), HasSubstr("another compiler"));
  PluginDescriptor alien = kOnly;
  alien.kind = "printer";
  alien.sampler = nullptr;
  options_.plugins = {{&alien, "the program"}};
  EXPECT_THAT(Message(Engine::Open(options_).status()), HasSubstr("of kind 'printer'"));
}

TEST_F(OwnPlugins, AreRefusedUnderANameThatIsTaken) {
  PluginDescriptor taken = kOnly;
  taken.name = "top_k";
  options_.plugins = {{&taken, "the program"}};
  EXPECT_THAT(Message(Engine::Open(options_).status()),
              AllOf(HasSubstr("two plugins provide sampler 'top_k'"), HasSubstr("the program")));
  options_.plugins = {{&kOnly, "the program"}, {&kOnly, "the program"}};
  EXPECT_EQ(ExitCode(Engine::Open(options_).status()), 4);
}

}  // namespace
}  // namespace ng
