// Added tokens: they are found in a text exactly as written, before anything else looks at it.
#ifndef NG_CORE_TEXT_ADDED_TOKENS_H_
#define NG_CORE_TEXT_ADDED_TOKENS_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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
  // it. `special_at` is that of EncodeOptions: a special token that it forbids is as if it were not
  // there. REQUIRES: valid UTF-8.
  std::vector<TextFragment> Split(std::string_view text, bool parse_special,
                                  std::string_view special_at = {}) const;

  bool empty() const { return tokens_.empty(); }

 private:
  const AddedToken* LongestAt(std::string_view text, std::string_view special_at) const;

  std::vector<AddedToken> tokens_;     // by text
  std::array<bool, 256> begins_ = {};  // whether a token begins with this byte
};

}  // namespace ng

#endif  // NG_CORE_TEXT_ADDED_TOKENS_H_
