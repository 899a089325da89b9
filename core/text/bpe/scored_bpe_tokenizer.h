// ScoredBpeTokenizer: SentencePiece's BPE from plain tokens and scores, as GGUF files hold it.
//
// Ids are those of llama.cpp, or with one_space_prefix those of transformers. Two neighbours
// that form a token are joined; the pair whose token has the best score is joined first. A
// character without a token becomes its bytes.
#ifndef NG_CORE_TEXT_BPE_SCORED_BPE_TOKENIZER_H_
#define NG_CORE_TEXT_BPE_SCORED_BPE_TOKENIZER_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/text/added_tokens.h"
#include "core/text/sentencepiece/sentencepiece_model.h"
#include "ng/tokenizer.h"

namespace ng {

struct ScoredBpeSpec {
  std::vector<std::string> tokens;  // by id; a space is U+2581
  std::vector<float> scores;        // [tokens]
  std::vector<PieceType> types;     // [tokens]
  bool add_space_prefix = true;     // a space before a text, and after each special token
  bool one_space_prefix = false;    // then before a text alone, and only where there is none
  std::vector<int32_t> prefix;      // add_special puts these before a text
  std::vector<int32_t> suffix;      // and these after it
};

class ScoredBpeTokenizer : public Tokenizer {
 public:
  // Errors name `path`. Errors: ModelFileError: a token is empty, is not UTF-8 or occurs twice; a
  // score is not a number; a byte token names no byte.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(ScoredBpeSpec spec,
                                                           const std::string& path);

  int64_t vocab_size() const override { return static_cast<int64_t>(token_bytes_.size()); }
  int64_t longest_token() const override { return longest_; }
  bool knows_ends() const override { return true; }
  // User-defined tokens are found in any text, but for those that look like a chat's markers: these
  // are found where special ones are.
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text,
                                              const EncodeOptions& options) const override;
  absl::StatusOr<std::vector<int32_t>> EncodeAsReference(
      std::string_view text, const EncodeOptions& options) const override;
  absl::StatusOr<std::string> Decode(std::span<const int32_t> ids) const override;
  std::string_view TokenBytes(int32_t id) const override;
  std::optional<int32_t> SpecialId(std::string_view literal) const override;
  std::vector<int32_t> SpecialIds() const override;
  std::vector<WholeToken> WholeTokens() const override { return added_.All(); }
  std::string Spelling(int32_t id) const override;

 private:
  ScoredBpeTokenizer(ScoredBpeSpec spec, std::string path);
  absl::Status Load();
  absl::Status AddToken(int32_t id, std::vector<AddedToken>* added);
  absl::StatusOr<std::vector<int32_t>> EncodeWith(const AddedTokens& added, std::string_view text,
                                                  const EncodeOptions& options) const;
  // Stops when it has more than `most` ids.
  absl::Status EncodeFragment(std::string_view text, int64_t most, std::vector<int32_t>* ids) const;
  absl::Status EncodePart(std::string_view text, std::vector<int32_t>* ids) const;
  int32_t PlainId(std::string_view token) const;  // -1: none

  ScoredBpeSpec spec_;  // without tokens once they are loaded
  std::string path_;
  std::vector<std::string> token_bytes_;  // by id
  std::map<int32_t, std::string> names_;  // spellings that are not the bytes, spaces shown
  int64_t longest_ = 1;                   // bytes of the longest token
  bool parts_at_spaces_ = true;           // no token has a space behind another character
  absl::flat_hash_map<std::string, int32_t> plain_ids_;  // tokens that merging can make
  std::array<int32_t, 256> byte_ids_;                    // -1: none
  AddedTokens added_;                                    // tokens to find in a text
  AddedTokens guarded_;  // the same, and what looks like a marker is special
  std::map<std::string, int32_t, std::less<>> specials_;       // control tokens and markers
  std::map<std::string, int32_t, std::less<>> plain_defined_;  // the other user-defined tokens
  int32_t unknown_id_ = -1;                                    // -1: none
};

}  // namespace ng

#endif  // NG_CORE_TEXT_BPE_SCORED_BPE_TOKENIZER_H_
