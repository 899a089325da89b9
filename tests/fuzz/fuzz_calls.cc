// An answer with calls of tools. The first byte chooses a way of writing calls, and the second one
// whether its marks are tokens; the rest is what the model writes. It reads the same wherever it is
// cut, and an answer without calls loses nothing.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/core/text/chat/calls/call_templates.h"
#include "tests/core/text/chat/calls/read_answer.h"
#include "tests/fuzz/support.h"

namespace {

using ng::fuzz::Check;

constexpr const char* kMessages = R"([{"role": "user", "content": "ask"}])";
constexpr const char* kTools = R"([{"type": "function", "function": {"name": "look", "parameters":
  {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"},
   "list": {"type": "array"}, "place": {"type": "object"}, "any": {}}}}},
  {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}])";
constexpr char kInNoMark = 'Q';

const ng::test::BoundTemplate& BoundTo(size_t choice, bool marks_are_tokens) {
  static std::vector<ng::test::BoundTemplate> all(2 * ng::test::CallTemplates().size());
  choice %= ng::test::CallTemplates().size();
  ng::test::BoundTemplate& bound = all[2 * choice + (marks_are_tokens ? 1 : 0)];
  if (bound.chat == nullptr) {
    bound = ng::test::Bind(ng::test::CallTemplates()[choice], marks_are_tokens);
  }
  return bound;
}

// A model may write any bytes, which a tokenizer does not encode.
std::vector<int32_t> IdsOf(const ng::Tokenizer& tokenizer, std::string_view answer) {
  const std::vector<ng::WholeToken> marks = tokenizer.WholeTokens();
  std::vector<int32_t> ids;
  while (!answer.empty()) {
    const auto mark = std::ranges::find_if(
        marks, [&](const ng::WholeToken& one) { return answer.starts_with(one.text); });
    ids.push_back(mark != marks.end() ? mark->id : static_cast<uint8_t>(answer[0]));
    answer.remove_prefix(mark != marks.end() ? mark->text.size() : 1);
  }
  return ids;
}

void CheckNothingIsLost(std::string_view answer, const ng::test::ReadBack& read) {
  if (!read.calls.empty()) return;
  const auto count = [](std::string_view text) { return std::ranges::count(text, kInNoMark); };
  Check(count(read.content) + count(read.reasoning) == count(answer), "an answer lost a byte");
}

void CheckAnswer(const ng::test::BoundTemplate& bound, std::string_view answer, uint64_t seed) {
  const std::vector<int32_t> ids = IdsOf(*bound.tokenizer, answer);
  const auto reader = [&] {
    auto made = bound.chat->ReadAnswer({.messages = kMessages, .tools = kTools});
    Check(made.ok(), std::string(made.status().message()));
    return *std::move(made);
  };
  const ng::test::ReadBack read = ng::test::ReadTokens(*bound.tokenizer, ids, *reader());
  Check(ng::test::ReadCut(*bound.tokenizer, ids, seed, *reader()) == read,
        "an answer that reads otherwise where it is cut elsewhere");
  CheckNothingIsLost(answer, read);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  CheckAnswer(BoundTo(data[0] - size_t{'0'}, data[1] % 2 != 0), ng::fuzz::Bytes(data + 2, size - 2),
              size);
  return 0;
}
