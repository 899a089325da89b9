#include "tests/core/text/chat/calls/read_answer.h"

#include <map>
#include <random>
#include <string_view>

namespace ng::test {
namespace {

// Tokens as a server hands them over: special ones with their literals.
std::vector<std::pair<int32_t, std::string>> Pieces(const Tokenizer& tokenizer,
                                                    std::span<const int32_t> ids) {
  std::map<int32_t, std::string> whole;
  for (const WholeToken& token : tokenizer.WholeTokens()) whole[token.id] = token.text;
  std::vector<std::pair<int32_t, std::string>> pieces;
  for (const int32_t id : ids) {
    const auto literal = whole.find(id);
    pieces.emplace_back(
        id, literal != whole.end() ? literal->second : std::string(tokenizer.TokenBytes(id)));
  }
  return pieces;
}

void Add(AnswerReader& reader, ReadBack* read) {
  for (const AnswerDelta& delta : reader.Take()) {
    switch (delta.kind) {
      case AnswerDelta::Kind::kContent:
        read->content += delta.text;
        break;
      case AnswerDelta::Kind::kReasoning:
        read->reasoning += delta.text;
        break;
      case AnswerDelta::Kind::kCall:
        read->calls.emplace_back(delta.text, "");
        break;
      case AnswerDelta::Kind::kArguments:
        read->calls.at(static_cast<size_t>(delta.call)).second += delta.text;
        break;
    }
  }
}

}  // namespace

ReadBack ReadTokens(const Tokenizer& tokenizer, std::span<const int32_t> ids,
                    AnswerReader& reader) {
  ReadBack read;
  for (const auto& [id, bytes] : Pieces(tokenizer, ids)) {
    reader.Push(id, bytes);
    Add(reader, &read);
  }
  reader.Finish();
  Add(reader, &read);
  return read;
}

ReadBack ReadCut(const Tokenizer& tokenizer, std::span<const int32_t> ids, uint64_t seed,
                 AnswerReader& reader) {
  constexpr int32_t kBytes = 256;  // ids of bytes are below
  constexpr size_t kLongest = 40;
  std::mt19937_64 random(seed);
  ReadBack read;
  std::string bytes;
  const auto push = [&] {
    // As a token of several bytes, with an id that is no mark's.
    if (!bytes.empty()) reader.Push(0, bytes);
    bytes.clear();
    if (random() % 2 == 0) Add(reader, &read);
  };
  for (const auto& [id, piece] : Pieces(tokenizer, ids)) {
    if (id >= kBytes || bytes.size() > random() % kLongest) push();
    if (id >= kBytes) {
      reader.Push(id, piece);
    } else {
      bytes += piece;
    }
  }
  push();
  reader.Finish();
  Add(reader, &read);
  return read;
}

ReadBack ReadText(const Tokenizer& tokenizer, const std::string& text, AnswerReader& reader) {
  return ReadTokens(tokenizer, tokenizer.Encode(text, {.parse_special = true}).value(), reader);
}

}  // namespace ng::test
