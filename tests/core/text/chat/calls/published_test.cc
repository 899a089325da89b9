// Calls that published chat templates write are read back. By hand, because the templates are not
// part of ng:
//
//   NG_CHAT_TEMPLATES=FOLDER build/bin/core_text_test --gtest_filter=PublishedTemplates.*
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "core/text/chat/template_metadata.h"
#include "tests/core/text/chat/calls/call_templates.h"
#include "tests/core/text/chat/calls/random_calls.h"
#include "tests/core/text/chat/calls/read_answer.h"

namespace ng::test {
namespace {

using Json = nlohmann::ordered_json;

// What models have tokens for, of what stands in a template.
std::vector<std::string> MarksOf(const std::string& program) {
  static const std::regex marks(
      R"(<\|[^|<>\s'"]{1,60}\|>|<｜[^<>'"]{1,80}｜>|\[/?[A-Z_]{3,}\]|</?(?:[a-z]+:)?think>|)"
      R"(</?(?:[a-z]+:)?tool_(?:calls?|response)>|</?arg_(?:key|value)>|<\|?[a-z_]+\|>|<\|[a-z_]+>|)"
      R"(<(?:start|end)_[a-z_]+>|<escape>|<[A-Z_]+[0-9]*>|</?s>)");
  std::set<std::string> found = {"<s>", "</s>"};
  // Models of this family have tokens that their templates do not write.
  if (absl::StrContains(program, "List of tools: ")) {
    found.insert({"<|tool_call_start|>", "<|tool_call_end|>"});
  }
  for (std::sregex_iterator it(program.begin(), program.end(), marks), end; it != end; ++it) {
    found.insert(it->str());
  }
  return {found.begin(), found.end()};
}

struct Tally {
  int equal = 0;
  int differ = 0;
  int cut_differ = 0;
  int beyond = 0;     // what the format cannot write
  int refused = 0;    // by the template
  int unwritten = 0;  // by the template, which leaves calls out
};

class PublishedTemplate {
 public:
  PublishedTemplate(const BoundTemplate& bound, std::vector<std::string> marks)
      : bound_(&bound), marks_(std::move(marks)) {
    RandomCalls random(1, {}, {});
    MadeUp two = MakeUp(random, true);
    while (two.said.calls.size() < 2) two = MakeUp(random, true);
    two.messages[1]["content"] = nullptr;
    const auto written = AnswerIds(two);
    several_ = written.ok() && Names(*written, two);
  }

  // Why the template refused a conversation.
  std::string why() const { return std::string(why_.message()); }

  Tally RoundTrips() {
    Tally tally;
    RandomCalls random(7, marks_, {});
    for (int i = 0; i < 20; ++i) RoundTrip(MakeUp(random, several_), &tally);
    return tally;
  }

 private:
  // Of the whole conversation, or of the prompt that asks for its answer.
  absl::StatusOr<std::vector<int32_t>> IdsOf(const MadeUp& made, bool asks) const {
    const Json messages = asks ? Json::array({made.messages[0]}) : made.messages;
    return bound_->chat->Encode(
        {.messages = messages.dump(), .tools = made.tools.dump(), .asks = asks});
  }

  struct Written {
    std::vector<int32_t> ids;  // of the answer
    bool goes_on = false;      // all of the prompt stands before it
  };
  absl::StatusOr<Written> AnswerIds(const MadeUp& made) const {
    const auto whole = IdsOf(made, /*asks=*/false);
    const auto prompt = IdsOf(made, /*asks=*/true);
    if (!whole.ok()) return whole.status();
    if (!prompt.ok()) return prompt.status();
    const auto differs = std::ranges::mismatch(*whole, *prompt);
    Written written = {{differs.in1, whole->end()}, differs.in2 == prompt->end()};
    std::vector<int32_t>& ids = written.ids;
    ids.resize(static_cast<size_t>(std::ranges::find(ids, bound_->chat->eot()) - ids.begin()));
    return written;
  }
  bool Names(const Written& written, const MadeUp& made) const {
    const std::string text = bound_->tokenizer->Decode(written.ids).value();
    return std::ranges::all_of(
        made.said.calls, [&](const auto& call) { return absl::StrContains(text, call.first); });
  }

  void RoundTrip(MadeUp made, Tally* tally) {
    auto written = AnswerIds(made);
    if (written.ok() && !Names(*written, made)) {
      // Some templates end a turn between what is said and its calls.
      made.said.content = "";
      made.messages[1]["content"] = nullptr;
      written = AnswerIds(made);
    }
    if (!written.ok()) {
      why_ = written.status();
      return static_cast<void>(++tally->refused);
    }
    if (!Names(*written, made)) return static_cast<void>(++tally->unwritten);
    // Where the template leaves out thoughts that the prompt has begun, so does this answer.
    const Conversation asked = {.messages = Json::array({made.messages[0]}).dump(),
                                .tools = made.tools.dump(),
                                .asks = written->goes_on};
    const auto reader = [&] { return bound_->chat->ReadAnswer(asked).value(); };
    const ReadBack read = ReadTokens(*bound_->tokenizer, written->ids, *reader());
    constexpr uint64_t kCuts = 50;  // of each of 20 conversations
    for (uint64_t seed = 1; seed <= kCuts; ++seed) {
      if (ReadCut(*bound_->tokenizer, written->ids, seed, *reader()) != read) ++tally->cut_differ;
    }
    if (Values(read) == Values(made.said)) return static_cast<void>(++tally->equal);
    const Conversation whole = {
        .messages = made.messages.dump(), .tools = made.tools.dump(), .asks = false};
    if (!bound_->chat->NotWritten(whole)->empty()) return static_cast<void>(++tally->beyond);
    ++tally->differ;
    for (const auto& [name, arguments] : made.said.calls)
      std::cout << "said " << name << arguments << "\n";
    for (const auto& [name, arguments] : read.calls)
      std::cout << "read " << name << arguments << "\n";
    std::cout << "of   " << bound_->tokenizer->Decode(written->ids).value() << "\n";
  }

  const BoundTemplate* bound_;
  std::vector<std::string> marks_;
  bool several_ = false;
  absl::Status why_;
};

TEST(PublishedTemplates, GiveTheSameCalls) {
  const char* const folder = std::getenv("NG_CHAT_TEMPLATES");
  if (folder == nullptr) GTEST_SKIP() << "NG_CHAT_TEMPLATES names no folder of templates";
  int served = 0;
  int refused = 0;
  int without = 0;
  std::set<std::string> seen;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".jinja") continue;
    const std::string name = entry.path().filename();
    const TemplateSource source = ReadTemplate(entry.path()).value();
    if (!seen.insert(source.text).second) continue;
    const std::vector<std::string> marks = MarksOf(source.text);
    const auto bound = BindProgram(
        {.own = source, .special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}}}, marks);
    if (!bound.ok() || !absl::StrContains(source.text, "tools")) {
      ++without;
      std::cout << "no tools  " << name << "\n";
      continue;
    }
    const absl::Status calls = bound->chat->DescribeCalls().status();
    if (!calls.ok()) {
      ++refused;
      std::cout << "refused   " << calls.message() << "\n";
      continue;
    }
    ++served;
    PublishedTemplate published(*bound, marks);
    const Tally tally = published.RoundTrips();
    std::cout << "served    " << name << ": " << tally.equal << " equal, " << tally.differ
              << " differ, " << tally.cut_differ << " cuts differ, " << tally.beyond
              << " beyond the format, " << tally.refused << " refused and " << tally.unwritten
              << " left out by the template " << published.why() << "\n";
    EXPECT_EQ(tally.differ, 0) << name;
    EXPECT_EQ(tally.cut_differ, 0) << name;
  }
  std::cout << served << " served, " << refused << " refused, " << without << " take no tools\n";
  EXPECT_GE(served, 9 * refused);
}

}  // namespace
}  // namespace ng::test
