// Byte pair encoding by a list of merges: over bytes, as GPT-2 has it, or over characters, as
// tokenizer.json files that were made from a SentencePiece model have it.
#ifndef NG_CORE_TEXT_PIPELINE_BPE_MODEL_H_
#define NG_CORE_TEXT_PIPELINE_BPE_MODEL_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "core/text/bpe/bpe_merge.h"
#include "core/text/pipeline/piece_model.h"

namespace ng {

struct BpeSpec {
  // The two parts of each merge, best first.
  std::vector<std::pair<std::string, std::string>> merges;
  bool byte_level = true;          // tokens are spelled in the byte alphabet
  bool ignore_merges = false;      // a piece that is a token is not built by merges
  bool byte_fallback = false;      // a character without a token becomes the tokens of its bytes
  bool fuse_unknown = false;       // unknown characters in a row are one unknown token
  std::optional<int32_t> unknown;  // the token of a character without one
  std::string end_of_word;         // belongs to the last character of a piece
};

// The two parts of a merge that is written "left right"; nothing for any other text.
std::optional<std::pair<std::string, std::string>> ParseMerge(std::string_view merge);

class BpeModel : public PieceModel {
 public:
  // Errors: ModelFileError: a part or the result of a merge is not a token. `path` is for the
  // errors of Encode. REQUIRES: all tokens are UTF-8.
  static absl::StatusOr<std::unique_ptr<PieceModel>> Create(BpeSpec spec,
                                                            const Vocabulary& vocabulary,
                                                            std::string path);

  absl::Status Encode(std::string_view piece, std::span<const int32_t> barred, int64_t most,
                      std::vector<int32_t>* ids) const override;
  std::span<const int32_t> made_specials() const override { return made_specials_; }
  bool joins_unknown() const override { return spec_.fuse_unknown && !spec_.byte_fallback; }

 private:
  class Runs;

  BpeModel(BpeSpec spec, std::string path) : spec_(std::move(spec)), path_(std::move(path)) {
    byte_ids_.fill(-1);
  }
  void LoadTokens(const Vocabulary& vocabulary);
  absl::Status LoadMerges();
  // Notes that symbols which the left token may end with can meet those that the right one may
  // begin with. Both as the keys of ids_.
  void NoteMeeting(std::string_view left, std::string_view right);
  enum class Edge { kFirst, kLast };
  // The symbols that a token of this text may begin or end with; -1: none.
  absl::InlinedVector<int32_t, 4> EdgeSymbols(std::string_view token, Edge edge) const;
  // False: no token has these two symbols beside each other.
  bool MayMeet(int32_t left, int32_t right) const {
    const uint64_t bit = HashOfSymbols(left, right) & (64 * meetings_.size() - 1);
    return (meetings_[bit / 64] >> (bit % 64) & 1) != 0;
  }
  static uint64_t HashOfSymbols(int32_t left, int32_t right);
  absl::Status ByteSymbols(std::string_view piece, Runs* runs) const;
  absl::Status CharSymbols(std::string_view piece, Runs* runs) const;
  bool FallBackToBytes(std::string_view character, Runs* runs) const;
  int32_t IdOf(std::string_view token) const;  // as Encode sees it; -1: none
  // The same for a part of a merge, or for what it makes: a special token is made from now on.
  int32_t IdInMerge(const std::string& token);

  BpeSpec spec_;  // without merges once they are loaded
  std::string path_;
  int64_t longest_ = 1;                         // bytes of the longest token
  std::map<std::string, int32_t> special_ids_;  // until the merges are loaded; not in ids_
  std::vector<int32_t> made_specials_;
  // The tokens that merging can make; at the byte level by their bytes.
  absl::flat_hash_map<std::string, int32_t> ids_;
  std::array<int32_t, 256>
      byte_ids_;              // of single bytes; without byte level the fallback's. -1: none
  std::string unknown_text_;  // of the unknown token, if merging can make it
  // (left id, right id) -> rank and id of the joined token
  absl::flat_hash_map<std::pair<int32_t, int32_t>, std::pair<int32_t, int32_t>> merges_;
  // A bit for the hash of each two symbols that some token has beside each other; as many words as
  // a power of two. A piece is cut where this bit is not set.
  std::vector<uint64_t> meetings_;
};

}  // namespace ng

#endif  // NG_CORE_TEXT_PIPELINE_BPE_MODEL_H_
