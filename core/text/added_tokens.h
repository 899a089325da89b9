// Added tokens: they are found in a text exactly as written, before anything else looks at it.
#ifndef NG_CORE_TEXT_ADDED_TOKENS_H_
#define NG_CORE_TEXT_ADDED_TOKENS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ng/tokenizer.h"

namespace ng {

struct AddedToken {
  int32_t id = 0;
  std::string text;
  bool special = false;      // found only where specials are parsed
  bool single_word = false;  // not found next to a letter, a digit, ...
  bool lstrip = false;       // takes the spaces before it
  bool rstrip = false;       // takes the spaces after it
  bool normalized = false;   // searched for in the normalised text
};

// Whether two descriptions of a token let it be found in the same texts.
bool FoundAlike(const AddedToken& a, const AddedToken& b);

// Whether a token that a file defines is written as those are that frame the turns of a chat:
// "<|user|>", "<start_of_turn>", "[INST]". Others are ordinary text: "<table>", runs of newlines.
bool LooksLikeMarker(std::string_view text);

// A stretch of a text: an added token, or the text between two of them.
struct TextFragment {
  int32_t id = -1;  // -1: text
  std::string_view text;
};

// Thread: const methods may be called from any thread.
class AddedTokens {
 public:
  AddedTokens() = default;
  // REQUIRES: no text is empty.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  // Splits a text into its stretches, in order, borrowed from it; a stretch of text is never empty.
  // Where several tokens begin at one place, the longest is taken. A token that is not parsed here,
  // or that must be a word by itself and is not, stays text as a whole: no other token is found in
  // it. `special_at` and `marks` are those of EncodeOptions: a token that they forbid is as if it
  // were not there. The work is that of the text's length, whatever the tokens are.
  // REQUIRES: valid UTF-8.
  std::vector<TextFragment> Split(std::string_view text, bool parse_special,
                                  std::string_view special_at = {},
                                  std::span<const int32_t> marks = {}) const;

  bool empty() const { return tokens_.empty(); }
  std::vector<WholeToken> All() const;

 private:
  // A token, or -1, that begins at a place of a text.
  struct Start {
    size_t at;
    int32_t token;
  };
  // A beginning, read from right to left, of what some tokens end with.
  struct Node {
    int32_t children = 0;  // the first of them; they are in a row, by their bytes, up to next's
    int32_t rest = 0;      // the longest node that is a beginning of this one's text
    int32_t token = -1;    // the longest token that is a beginning of this one's text
    uint8_t byte = 0;      // the first of its text, which its parent lacks
  };

  void AddNodes();
  void LinkNodes();
  int32_t ChildOf(int32_t node, uint8_t byte) const;  // -1: none
  int32_t Next(int32_t node, uint8_t byte) const;
  // The longest tokens that begin at each place where one does, from the last place to the first.
  std::vector<Start> Starts(std::string_view text) const;
  std::vector<Start> AllowedStarts(std::string_view text, std::string_view special_at,
                                   std::span<const int32_t> marks) const;

  std::vector<AddedToken> tokens_;   // by their texts from the last byte to the first
  std::vector<int32_t> beginnings_;  // [tokens]: the longest other token that it begins with; or -1
  std::vector<int32_t> by_length_;   // the tokens, the shortest first
  std::vector<Node> nodes_;          // level by level; the last is the end of the others' children
  std::array<bool, 256> ends_ = {};  // whether a token ends with this byte
};

}  // namespace ng

#endif  // NG_CORE_TEXT_ADDED_TOKENS_H_
