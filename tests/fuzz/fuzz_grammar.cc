// The stage grammar over any grammar and any logits. The first byte of an input says in which of
// the three languages the grammar is; the grammar ends at a zero byte, and what follows are the
// logits of an answer, in turns. One that is read is also run on its own bytes.
//
// Before the end there is always a token that goes on; what a fork and a truncated answer may go on
// with is what they could before.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "ng/candidate_set.h"
#include "plugins/sampler/grammar/compile.h"
#include "plugins/sampler/grammar/grammar.h"
#include "plugins/sampler/grammar/masks/machine.h"
#include "tests/fuzz/support.h"

namespace {

// Token 0 ends, token 1 is another special one; then come all bytes, and texts that cross the parts
// of grammars.
struct Vocabulary {
  Vocabulary() {
    texts = {"", "<name>"};
    for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
    for (const char* text : {"ab", "abc", "aaaa", "\":", "\", \"", "\"}", "true", "null", "}}",
                             "]}", "[[", "],[", "12", "0.5", "{\"", "{\"a\":", "1,", "é", "\n  "}) {
      texts.emplace_back(text);
    }
    views.assign(texts.begin(), texts.end());
    special.assign(texts.size(), 0);
    special[0] = special[1] = 1;
    context.model = {.vocab_size = std::ssize(texts), .max_positions = 1000};
    context.token_bytes = views;
    context.special = special;
    context.stop_ids = stop_ids;
  }
  std::vector<std::string> texts;
  std::vector<std::string_view> views;
  std::vector<uint8_t> special;
  std::vector<int32_t> stop_ids = {0};
  ng::PluginContext context;
};

// The logits of a step: mostly even, some high, some that say never.
class Logits {
 public:
  explicit Logits(std::string_view bytes) : bytes_(bytes) {}
  uint8_t Next() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    const uint8_t byte = bytes_.empty() ? 0 : static_cast<uint8_t>(bytes_[at_++ % bytes_.size()]);
    return static_cast<uint8_t>(byte ^ (state_ >> 56));
  }
  void Fill(std::vector<float>& logits) {
    const uint8_t step = Next();
    for (size_t i = 0; i < logits.size(); ++i) {
      logits[i] = static_cast<float>((i * (step | 1U)) % 251);
    }
  }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
  uint64_t state_ = 1;
};

// The token with the highest logit that the stage leaves, and what it leaves. -1: the answer takes
// too much work here, which ends it.
int32_t Choose(ng::SamplerStage& stage, int slot, const std::vector<float>& logits,
               std::vector<int32_t>* left) {
  ng::CandidateStorage storage(static_cast<int64_t>(logits.size()));
  ng::CandidateSet set = storage.Begin(logits);
  const absl::Status status = stage.Apply(slot, {}, set);
  if (!status.ok()) {
    ng::fuzz::CheckError(status, "");
    ng::fuzz::Check(status.message().find("too ambiguous") != absl::string_view::npos,
                    "no token goes on: " + std::string(status.message()));
    return -1;
  }
  left->clear();
  for (const ng::Candidate& candidate : set.items()) left->push_back(candidate.id);
  ng::fuzz::Check(!left->empty(), "nothing is left");
  return *std::ranges::max_element(*left, {},
                                   [&](int32_t id) { return logits[static_cast<size_t>(id)]; });
}

// Whether a text would be read as the name of a file.
bool IsName(char language, std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (language == 'r') return text.empty();
  if (language == 'g') return text.find("::=") == text.npos;
  return begin == text.npos || text[begin] != '{';
}

void Answer(char language, std::string_view text, std::string_view bytes) {
  static const Vocabulary vocabulary;
  constexpr int kMostTokens = 60;
  ng::GrammarSource source;
  (language == 'r' ? source.regex : language == 'g' ? source.gbnf : source.json_schema) = text;
  auto created = ng::Grammar::Create(source, vocabulary.context);
  if (!created.ok()) return ng::fuzz::CheckError(created.status(), "");
  ng::SamplerStage& stage = **created;
  ng::fuzz::Check(stage.Open(0, {}).ok(), "is not opened");
  Logits logits(bytes);
  std::vector<float> row(vocabulary.texts.size());
  std::vector<int32_t> left, again;
  for (int n = 0; n < kMostTokens; ++n) {
    logits.Fill(row);
    const int32_t id = Choose(stage, 0, row, &left);
    if (id < 0) return;
    const absl::StatusOr<ng::SequenceEnd> end = stage.Accept(0, id);
    if (!end.ok()) return ng::fuzz::CheckError(end.status(), "");
    if (*end != ng::SequenceEnd::kNo || id == 0) return;
    if (logits.Next() % 8 != 0) continue;
    // There, back, and there once more.
    ng::fuzz::Check(stage.Fork(0, 1).ok() && stage.Truncate(1, n).ok(), "is not taken back");
    if (Choose(stage, 1, row, &again) < 0) return;
    ng::fuzz::Check(again == left, "another mask than before");
    ng::fuzz::Check(stage.Accept(1, id).ok() && stage.Close(1).ok(), "is not accepted again");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto language = static_cast<char>(data[0]);
  const std::string_view input = ng::fuzz::Bytes(data + 1, size - 1);
  const std::string text(input.substr(0, input.find('\0')));
  constexpr int64_t kReach = 8;
  const auto program = language == 'r'   ? ng::grammar::CompileRegex(text)
                       : language == 'g' ? ng::grammar::CompileGbnf(text)
                                         : ng::grammar::CompileSchema(text, {});
  if (!program.ok()) {
    ng::fuzz::CheckError(program.status(), "");
    return 0;
  }
  absl::StatusOr<ng::grammar::Machine> machine = ng::grammar::Machine::Make(*program, kReach);
  if (!machine.ok()) {
    ng::fuzz::CheckError(machine.status(), "");
    return 0;
  }
  const absl::StatusOr<int32_t> behind = machine->Advance(ng::grammar::Machine::kStart, text);
  if (!behind.ok()) ng::fuzz::CheckError(behind.status(), "");
  if (!IsName(language, text)) Answer(language, text, input.substr(text.size()));
  return 0;
}
