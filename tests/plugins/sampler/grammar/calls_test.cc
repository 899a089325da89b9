// Calls of tools that are held to a template's format: what is drawn at random reads back and fits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ng/candidate_set.h"
#include "plugins/sampler/grammar/grammar.h"
#include "tests/core/text/chat/calls/call_templates.h"
#include "tests/core/text/chat/calls/read_answer.h"

namespace ng::test {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

constexpr const char* kQuestion = R"([{"role": "user", "content": "ask"}])";
constexpr const char* kLookAndJump = R"([{"type": "function", "function": {"name": "look",
  "parameters": {"type": "object", "properties": {
     "city": {"type": "string", "maxLength": 12},
     "days": {"type": "integer", "minimum": 0, "maximum": 99},
     "unit": {"enum": ["warm", "it's \"cold\"", 5, null]},
     "note": {"anyOf": [{"type": "string", "maxLength": 9}, {"type": "null"}]},
     "sure": {"type": "boolean"},
     "where": {"type": "object", "properties": {"x": {"type": "string", "maxLength": 5}},
               "required": ["x"], "additionalProperties": false},
     "tags": {"type": "array", "items": {"type": "string", "maxLength": 4}, "maxItems": 2}},
   "required": ["city", "days"], "additionalProperties": false}}},
  {"type": "function", "function": {"name": "jump"}}])";

// Whether arguments fit the schema above; else what does not.
std::string Unfit(const std::string& name, const Json& arguments) {
  if (!arguments.is_object()) return "is no object";
  if (name == "jump") return arguments.empty() ? "" : "has arguments";
  if (name != "look") return "is no tool";
  if (!arguments.contains("city") || !arguments.contains("days")) return "lacks something";
  const auto is_text = [](const Json& value, size_t most) {
    if (!value.is_string()) return false;
    size_t n = 0;
    for (const char c : value.get<std::string>()) n += (c & 0xC0) != 0x80 ? 1 : 0;
    return n <= most;
  };
  const Json units = {"warm", "it's \"cold\"", 5, nullptr};
  for (const auto& [key, value] : arguments.items()) {
    bool fits = false;
    if (key == "city") fits = is_text(value, 12);
    if (key == "days") fits = value.is_number_integer() && value >= 0 && value <= 99;
    if (key == "unit") fits = std::ranges::find(units, value) != units.end();
    if (key == "note") fits = is_text(value, 9) || value.is_null();
    if (key == "sure") fits = value.is_boolean();
    if (key == "where") {
      fits =
          value.is_object() && value.size() == 1 && value.contains("x") && is_text(value["x"], 5);
    }
    if (key == "tags") {
      fits = value.is_array() && value.size() <= 2 &&
             std::ranges::all_of(value, [&](const Json& one) { return is_text(one, 4); });
    }
    if (!fits) return key + " = " + value.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return "";
}

// The stage over a template's tokenizer.
class HeldAnswer {
 public:
  HeldAnswer(const BoundTemplate& bound, const std::string& gbnf)
      : vocab_size_(bound.tokenizer->vocab_size()),
        special_(static_cast<size_t>(vocab_size_)),
        stop_ids_{bound.chat->eot()},
        storage_(vocab_size_),
        logits_(static_cast<size_t>(vocab_size_)),
        left_(static_cast<size_t>(vocab_size_)) {
    for (int32_t id = 0; id < vocab_size_; ++id) {
      texts_.push_back(bound.tokenizer->TokenBytes(id));
    }
    for (const int32_t id : bound.tokenizer->SpecialIds()) special_[static_cast<size_t>(id)] = 1;
    PluginContext context;
    context.model = {.vocab_size = vocab_size_, .max_positions = 20000};
    context.token_bytes = texts_;
    context.special = special_;
    context.stop_ids = stop_ids_;
    auto stage = Grammar::Create({.gbnf = gbnf}, context);
    EXPECT_TRUE(stage.ok()) << stage.status() << "\n" << gbnf;
    if (stage.ok()) stage_ = *std::move(stage);
  }

  bool made() const { return stage_ != nullptr; }
  void Begin() { EXPECT_TRUE(stage_->Open(0, std::vector<int32_t>{0}).ok()); }
  bool Allows(int32_t id) {
    const std::span<const Candidate> left = Left();
    return std::ranges::find(left, id, &Candidate::id) != left.end();
  }
  bool Accept(int32_t id) { return stage_->Accept(0, id).ok(); }

  // An answer drawn as if all tokens were as likely; empty: it came to no end.
  std::vector<int32_t> Draw(uint64_t seed) {
    constexpr size_t kMostTokens = 1500;
    std::mt19937_64 random(seed);
    Begin();
    std::vector<int32_t> ids;
    while (ids.size() < kMostTokens) {
      const std::span<const Candidate> left = Left();
      if (left.empty()) return {};
      const int32_t id = left[random() % left.size()].id;
      if (std::ranges::find(stop_ids_, id) != stop_ids_.end()) return ids;
      ids.push_back(id);
      const absl::StatusOr<SequenceEnd> end = stage_->Accept(0, id);
      EXPECT_TRUE(end.ok()) << end.status();
      if (!end.ok() || *end == SequenceEnd::kStage) return ids;
    }
    return {};
  }

 private:
  std::span<const Candidate> Left() {
    CandidateSet set = storage_.Begin(logits_);
    const absl::Status applied = stage_->Apply(0, {}, set);
    EXPECT_TRUE(applied.ok()) << applied;
    const size_t n = set.CopyTo(left_);
    // A masked candidate may still be listed.
    const auto end = std::remove_if(left_.begin(), left_.begin() + static_cast<ptrdiff_t>(n),
                                    [](const Candidate& one) { return std::isinf(one.logit); });
    return std::span(left_).first(static_cast<size_t>(end - left_.begin()));
  }

  const int64_t vocab_size_;
  std::vector<std::string_view> texts_;
  std::vector<uint8_t> special_;
  std::vector<int32_t> stop_ids_;
  CandidateStorage storage_;
  std::vector<float> logits_;
  std::vector<Candidate> left_;
  std::unique_ptr<SamplerStage> stage_;
};

class HeldCalls : public testing::TestWithParam<std::pair<const char*, bool>> {
 protected:
  HeldCalls() : bound_(Bind(CallTemplateOf(GetParam().first), GetParam().second)) {}
  absl::StatusOr<std::string> GrammarOf(const CallChoice& choice,
                                        const char* tools = kLookAndJump) {
    return bound_.chat->CallGrammar({.messages = kQuestion, .tools = tools}, choice);
  }
  ReadBack Read(std::span<const int32_t> ids) {
    const auto reader =
        bound_.chat->ReadAnswer({.messages = kQuestion, .tools = kLookAndJump}).value();
    return ReadTokens(*bound_.tokenizer, ids, *reader);
  }
  std::string TextOf(std::span<const int32_t> ids) { return *bound_.tokenizer->Decode(ids); }

  BoundTemplate bound_;
};

TEST_P(HeldCalls, ReadBackAndFitTheirSchemas) {
  const auto forced = GrammarOf({.must = true});
  ASSERT_TRUE(forced.ok()) << forced.status();
  const auto searched = GrammarOf({});
  ASSERT_TRUE(searched.ok()) << searched.status();
  HeldAnswer answer(bound_, *forced);
  HeldAnswer search(bound_, *searched);
  ASSERT_TRUE(answer.made() && search.made());
  constexpr int kAnswers = 20;
  int n_ended = 0;
  size_t most_calls = 0;
  for (uint64_t seed = 1; seed <= kAnswers; ++seed) {
    const std::vector<int32_t> ids = answer.Draw(seed);
    if (ids.empty()) continue;
    ++n_ended;
    const ReadBack read = Read(ids);
    EXPECT_EQ(read.content, "") << TextOf(ids);
    ASSERT_FALSE(read.calls.empty()) << TextOf(ids);
    most_calls = std::max(most_calls, read.calls.size());
    for (const auto& [name, text] : read.calls) {
      const Json arguments = Json::parse(text, nullptr, /*allow_exceptions=*/false);
      EXPECT_EQ(Unfit(name, arguments), "") << text << "\n" << TextOf(ids);
    }
    // Where it need not call it may do the same.
    search.Begin();
    for (const int32_t id : ids) ASSERT_TRUE(search.Accept(id)) << TextOf(ids);
  }
  EXPECT_GT(n_ended, kAnswers / 2);
  EXPECT_EQ(most_calls > 1, CallTemplateOf(GetParam().first).several);
}

TEST_P(HeldCalls, AreOfTheToolsAndAsManyAsWereAskedFor) {
  HeldAnswer one(bound_, GrammarOf({.must = true, .several = false, .names = {"jump"}}).value());
  ASSERT_TRUE(one.made());
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const std::vector<int32_t> ids = one.Draw(seed);
    ASSERT_FALSE(ids.empty());
    const ReadBack read = Read(ids);
    ASSERT_EQ(read.calls.size(), 1U) << TextOf(ids);
    EXPECT_EQ(read.calls[0].first, "jump");
    EXPECT_EQ(Json::parse(read.calls[0].second), Json::object()) << TextOf(ids);
  }
}

TEST_P(HeldCalls, LeaveAllOtherTextFree) {
  HeldAnswer search(bound_, GrammarOf({}).value());
  ASSERT_TRUE(search.made());
  search.Begin();
  const std::string text = "Let me see {\"a\": [1]} <b> (c)\n\n\xff";
  for (const char c : text) {
    const auto id = static_cast<int32_t>(static_cast<unsigned char>(c));
    ASSERT_TRUE(search.Allows(id) && search.Accept(id)) << c;
    ASSERT_TRUE(search.Allows(bound_.chat->eot()));
  }
}

std::vector<std::pair<const char*, bool>> HeldTemplates() {
  std::vector<std::pair<const char*, bool>> all;
  for (const CallTemplate& one : CallTemplates()) {
    all.emplace_back(one.name, true);
    if (!one.marks.empty()) all.emplace_back(one.name, false);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(, HeldCalls, testing::ValuesIn(HeldTemplates()), [](const auto& info) {
  return std::string(info.param.first) + (info.param.second ? "" : "_in_bytes");
});

}  // namespace
}  // namespace ng::test
