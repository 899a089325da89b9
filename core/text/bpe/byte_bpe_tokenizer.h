// ByteBpeTokenizer: byte-level BPE, as GPT-2, Llama 3 and Qwen have it, whatever file it came from.
#ifndef NG_CORE_TEXT_BPE_BYTE_BPE_TOKENIZER_H_
#define NG_CORE_TEXT_BPE_BYTE_BPE_TOKENIZER_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/text/added_tokens.h"
#include "core/text/bpe/split_pattern.h"
#include "ng/tokenizer.h"

namespace ng {

struct ByteBpeSpec {
  // By id, in the byte alphabet. A token with any other character stands for its own text.
  std::vector<std::string> tokens;
  // The two parts of each merge, best first.
  std::vector<std::pair<std::string, std::string>> merges;
  std::vector<AddedToken> added_tokens;  // with ids into `tokens`
  std::vector<SplitStep> split;
  bool nfc = false;               // texts are brought into normal form C first
  bool add_prefix_space = false;  // put before a text that does not begin with a space
  bool ignore_merges = false;     // a piece that is a token is not built by merges
  std::vector<int32_t> prefix;    // add_special puts these before a text
  std::vector<int32_t> suffix;    // and these after it
  int64_t n_added = 0;            // the last tokens, which a file beside the tokenizer adds
};

// The two parts of a merge that is written "left right"; nothing for any other text.
std::optional<std::pair<std::string, std::string>> ParseMerge(std::string_view merge);

class ByteBpeTokenizer : public Tokenizer {
 public:
  // Errors name `path`. Errors: ModelFileError: a token is empty, is not UTF-8 or occurs twice; a
  // part or the result of a merge is not a token; a merge makes a special token.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(ByteBpeSpec spec,
                                                           const std::string& path);

  int64_t vocab_size() const override { return static_cast<int64_t>(token_bytes_.size()); }
  int64_t n_added() const override { return spec_.n_added; }
  int64_t longest_token() const override { return longest_; }
  bool knows_ends() const override { return true; }
  // Added tokens that are not special are parsed in any text, as the reference does.
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text,
                                              const EncodeOptions& options) const override;
  absl::StatusOr<std::vector<int32_t>> EncodeAsReference(
      std::string_view text, const EncodeOptions& options) const override;
  absl::StatusOr<std::string> Decode(std::span<const int32_t> ids) const override;
  std::string_view TokenBytes(int32_t id) const override;
  std::optional<int32_t> SpecialId(std::string_view literal) const override;
  std::vector<int32_t> SpecialIds() const override;

 private:
  ByteBpeTokenizer(ByteBpeSpec spec, std::string path);
  absl::Status Load();
  absl::Status LoadTokens();
  absl::Status LoadMerges();
  void LoadAddedTokens();
  // Both stop when they have more than `most` ids.
  absl::Status EncodeFragment(std::string_view text, int64_t most, std::vector<int32_t>* ids) const;
  absl::Status EncodePiece(std::string_view piece, int64_t most, std::vector<int32_t>* ids) const;

  ByteBpeSpec spec_;  // without tokens and merges once they are loaded
  std::string path_;
  std::vector<std::string> token_bytes_;  // by id
  int64_t longest_ = 1;                   // bytes of the longest token
  // The tokens that merging can make: those of the byte alphabet that are not special, by bytes.
  absl::flat_hash_map<std::string, int32_t> plain_ids_;
  std::array<int32_t, 256> byte_ids_;  // -1: none
  // (left id, right id) -> rank and id of the joined token
  absl::flat_hash_map<std::pair<int32_t, int32_t>, std::pair<int32_t, int32_t>> merges_;
  AddedTokens raw_added_;
  AddedTokens normalized_added_;
  std::map<std::string, int32_t, std::less<>> specials_;
};

}  // namespace ng

#endif  // NG_CORE_TEXT_BPE_BYTE_BPE_TOKENIZER_H_
