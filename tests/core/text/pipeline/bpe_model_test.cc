#include "core/text/pipeline/bpe_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "core/text/unicode.h"
#include "tests/core/text/golden_rows.h"

namespace ng {
namespace {

constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

std::unique_ptr<PieceModel> Make(const BpeSpec& spec, const std::vector<std::string>& tokens) {
  auto model = BpeModel::Create(spec, {tokens, std::vector<bool>(tokens.size())}, "t.json");
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : nullptr;
}

int32_t IdOf(const std::string& token, const std::vector<std::string>& tokens) {
  const auto found = std::ranges::find(tokens, token);
  return found == tokens.end() ? -1 : static_cast<int32_t>(found - tokens.begin());
}

// The symbols that the merges of a piece begin with.
std::vector<std::string> SymbolsOf(std::string_view piece, const BpeSpec& spec,
                                   const std::vector<std::string>& tokens) {
  std::vector<std::string> symbols;
  bool after_unknown = false;
  while (!piece.empty()) {
    std::string character(piece.substr(0, FirstCodePoint(piece).length));
    piece.remove_prefix(character.size());
    const std::string bytes = character;
    if (piece.empty()) character += spec.end_of_word;
    const bool known = IdOf(character, tokens) >= 0;
    if (known) symbols.push_back(character);
    for (size_t i = 0; !known && spec.byte_fallback && i < bytes.size(); ++i) {
      symbols.push_back(absl::StrFormat("<0x%02X>", static_cast<uint8_t>(bytes[i])));
    }
    const bool unknown = !known && !spec.byte_fallback;
    if (unknown && !(after_unknown && spec.fuse_unknown)) {
      symbols.push_back(tokens[static_cast<size_t>(*spec.unknown)]);
    }
    after_unknown = unknown;
  }
  return symbols;
}

// The best merge of all first, and so on.
Ids PlainIds(std::string_view piece, const BpeSpec& spec, const std::vector<std::string>& tokens) {
  std::vector<std::string> symbols = SymbolsOf(piece, spec, tokens);
  while (true) {
    size_t best = spec.merges.size();
    size_t at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto merge = std::ranges::find(spec.merges, std::pair(symbols[i], symbols[i + 1]));
      const auto rank = static_cast<size_t>(merge - spec.merges.begin());
      if (rank < best) at = i;
      best = std::min(best, rank);
    }
    if (best == spec.merges.size()) break;
    symbols[at] += symbols[at + 1];
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
  Ids ids;
  for (const std::string& symbol : symbols) ids.push_back(IdOf(symbol, tokens));
  return ids;
}

// A piece is cut where no token can be, and the parts are merged by themselves.
TEST(BpeModel, MergesAPieceAsIfItWereNotCut) {
  std::mt19937 random(9);
  const std::vector<std::string> characters = {"a", "b", "c", "\u2581", "\u00e9", "\u4f60", "d"};
  for (int round = 0; round < 120; ++round) {
    BpeSpec spec;
    spec.byte_level = false;
    spec.byte_fallback = round % 3 == 0;
    spec.fuse_unknown = round % 2 == 0;
    spec.unknown = 0;
    if (round % 5 == 0) spec.end_of_word = "</w>";
    // The unknown token and those of bytes are parts of merges, too.
    std::vector<std::string> tokens = {"<unk>"};
    tokens.insert(tokens.end(), characters.begin(), characters.begin() + 4);
    for (int byte = 0; spec.byte_fallback && byte < 256; ++byte) {
      tokens.push_back(absl::StrFormat("<0x%02X>", byte));
    }
    std::vector<std::string> parts(tokens.begin(), tokens.begin() + 5);
    if (spec.byte_fallback) parts.insert(parts.end(), {"<0xC3>", "<0xA9>", "<0xE4>", "<0x64>"});
    if (!spec.end_of_word.empty()) {
      tokens.push_back("a</w>");
      parts.push_back("a</w>");
    }
    for (int i = 0; i < 12; ++i) {
      const std::string left = parts[random() % parts.size()];
      const std::string right = parts[random() % parts.size()];
      if (std::ranges::count(spec.merges, std::pair(left, right)) > 0) continue;
      spec.merges.emplace_back(left, right);
      if (IdOf(left + right, tokens) < 0) tokens.push_back(left + right);
      parts.push_back(left + right);
    }
    std::ranges::shuffle(spec.merges, random);
    const auto model = Make(spec, tokens);
    ASSERT_NE(model, nullptr);
    for (int i = 0; i < 25; ++i) {
      std::string piece;
      for (size_t n = 1 + random() % 60; n > 0; --n) piece += characters[random() % 7];
      Ids ids;
      ASSERT_TRUE(model->Encode(piece, {}, kAll, &ids).ok());
      ASSERT_EQ(ids, PlainIds(piece, spec, tokens)) << piece << ", round " << round;
    }
  }
}

TEST(BpeModel, StopsSoonWhenThereAreMoreIdsThanAreOfUse) {
  BpeSpec spec;
  spec.byte_level = false;
  spec.merges = {{"a", "a"}, {"aa", "aa"}};
  const auto model = Make(spec, {"a", "aa", "aaaa", "b"});
  for (const std::string& text : {std::string(100000, 'a'), std::string(100000, 'b')}) {
    Ids ids;
    ASSERT_TRUE(model->Encode(text, {}, 10, &ids).ok());
    EXPECT_GT(ids.size(), 10);
    EXPECT_LT(ids.size(), 100);
  }
  Ids ids;
  ASSERT_TRUE(model->Encode(std::string(44, 'a'), {}, 11, &ids).ok());
  EXPECT_EQ(ids, Ids(11, 2)) << "all of a text that fits";
}

}  // namespace
}  // namespace ng
