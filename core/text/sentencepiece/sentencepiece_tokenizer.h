// SentencePieceTokenizer: a SentencePiece .model file (unigram, BPE, word, char).
//
// It uses two processors. The reference processor is the library with the file as it is: it parses
// user-defined symbols anywhere in a text. The plain processor is the library with the same model,
// but the user-defined pieces are made control pieces, which are never found in a text. So what a
// user types never gives a special id, and everything else is encoded in the same way. A
// user-defined piece that is plain text and not a marker is not found there either; other pieces
// encode its characters.
#ifndef NG_CORE_TEXT_SENTENCEPIECE_SENTENCEPIECE_TOKENIZER_H_
#define NG_CORE_TEXT_SENTENCEPIECE_SENTENCEPIECE_TOKENIZER_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/added_tokens.h"
#include "core/text/sentencepiece/sentencepiece_library.h"
#include "core/text/sentencepiece/sentencepiece_model.h"
#include "core/text/text_ends.h"
#include "ng/tokenizer.h"

namespace ng {

// Where a space is added. A stretch is a whole text, or the part of it between special tokens.
enum class SpacePrefix {
  kModels,  // before every stretch, if the model's own normaliser does it
  kEach,    // before every stretch that does not begin with a space
  kFirst,   // the same, but not after a special token
  kNever,
};

// How a SentencePiece model is used, according to the files beside it.
struct SentencePieceUse {
  SpacePrefix space_prefix = SpacePrefix::kModels;
  std::optional<TextEnds> ends;  // nothing: no file says what begins and ends a text
  // The tokens that are found in a text as written, the model's control pieces too. Ids may be
  // beyond the model's pieces.
  std::vector<AddedToken> added;
};

class SentencePieceTokenizer : public Tokenizer {
 public:
  // Errors name `path`; `use` is what the files beside the model say. Errors: ModelFileError.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> FromBytes(std::string_view bytes,
                                                              const std::string& path,
                                                              SentencePieceUse use = {});

  int64_t vocab_size() const override { return static_cast<int64_t>(token_bytes_.size()); }
  int64_t n_added() const override { return vocab_size() - n_pieces_; }
  int64_t longest_token() const override { return longest_; }
  bool knows_ends() const override { return use_.ends.has_value(); }
  bool spaces_as_transformers() const override { return use_.ends.has_value(); }
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text,
                                              const EncodeOptions& options) const override;
  absl::StatusOr<std::vector<int32_t>> EncodeAsReference(
      std::string_view text, const EncodeOptions& options) const override;
  absl::StatusOr<std::string> Decode(std::span<const int32_t> ids) const override;
  std::string_view TokenBytes(int32_t id) const override;
  std::optional<int32_t> SpecialId(std::string_view literal) const override;
  std::vector<int32_t> SpecialIds() const override;
  std::vector<WholeToken> WholeTokens() const override { return markers_.All(); }
  std::string Spelling(int32_t id) const override;

 private:
  SentencePieceTokenizer(std::string path, SentencePieceUse use)
      : path_(std::move(path)), use_(std::move(use)) {}
  absl::Status Load(std::string_view bytes);
  absl::Status LoadPlain(std::string_view bytes, const std::vector<Piece>& pieces);
  absl::Status CheckVocabulary(const SentencePieceLibrary& library,
                               const std::vector<Piece>& pieces) const;
  absl::Status AddToken(int32_t id, const Piece& piece);
  absl::Status AddAdded();
  absl::StatusOr<std::vector<int32_t>> EncodeWith(const SentencePieceLibrary& library,
                                                  std::string_view text,
                                                  const EncodeOptions& options) const;
  // Appends the ids of a stretch of a text. `first`: the whole text begins with it.
  absl::Status EncodeStretch(const SentencePieceLibrary& library, std::string_view text, bool first,
                             int64_t most, std::vector<int32_t>* ids) const;
  // How much of a text can be encoded by itself; all of it if no place is known to cut it at.
  absl::StatusOr<size_t> LengthOfPart(const SentencePieceLibrary& library,
                                      std::string_view text) const;
  // Chooses how the library gets a part.
  absl::Status EncodePart(const SentencePieceLibrary& library, std::string_view text,
                          std::vector<int32_t>* ids) const;
  absl::Status EncodeAtOnce(const SentencePieceLibrary& library, std::string_view text,
                            std::vector<int32_t>* ids) const;
  // A piece as the library places it in a text whose spaces are shown.
  struct PlacedToken {
    int32_t id = 0;
    int32_t begin = 0;  // below 0: the space that the library puts before it
    bool operator==(const PlacedToken&) const = default;
  };
  // The same ids, from windows that overlap; false where the places of their tokens are not known.
  // REQUIRES: windows_.
  absl::StatusOr<bool> EncodeInWindows(const SentencePieceLibrary& library, std::string_view text,
                                       std::vector<int32_t>* ids) const;
  // Nothing where that is not known.
  absl::StatusOr<std::optional<std::vector<PlacedToken>>> EncodeWindow(
      const SentencePieceLibrary& library, std::string_view shown, size_t begin, size_t end) const;
  // Whether the text surely has more than `most` ids; then `ids` gets more than `most`.
  absl::StatusOr<bool> IsTooLong(const SentencePieceLibrary& library, std::string_view text,
                                 int64_t most, std::vector<int32_t>* ids) const;

  std::string path_;
  SentencePieceUse use_;
  AddedTokens added_;
  AddedTokens markers_;  // with the model's own control and user-defined pieces
  SentencePieceTraits traits_;
  SentencePieceLibrary reference_;
  std::optional<SentencePieceLibrary> plain_;  // only where there are user-defined pieces
  std::vector<std::string> token_bytes_;       // by id
  std::map<std::string, int32_t, std::less<>> specials_;
  std::map<int32_t, std::string> beyond_;  // the texts of tokens that are none of the pieces
  int32_t unknown_id_ = -1;                // -1: none
  int64_t n_pieces_ = 0;
  int64_t longest_ = 1;           // bytes of the longest piece, a space as the library has it
  bool parts_at_spaces_ = false;  // a text can be encoded in parts that begin with a space
  bool windows_ = false;          // a text can be encoded in windows that overlap
};

}  // namespace ng

#endif  // NG_CORE_TEXT_SENTENCEPIECE_SENTENCEPIECE_TOKENIZER_H_
