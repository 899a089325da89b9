// The bytes of a SentencePiece .model file: checks what the library does not check, and changes
// what the library has no option to change.
//
// The file is a serialized protobuf message (the library's sentencepiece_model.proto). It is read
// here field by field through the bounds-checked cursor.
#ifndef NG_CORE_TEXT_SENTENCEPIECE_SENTENCEPIECE_MODEL_H_
#define NG_CORE_TEXT_SENTENCEPIECE_SENTENCEPIECE_MODEL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ng/status.h"

namespace ng {

enum class PieceType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

struct Piece {
  std::string_view text;  // borrowed from the model's bytes
  float score = 0;
  PieceType type = PieceType::kNormal;
};

// The byte that a byte piece "<0xNN>" stands for; nothing for any other text.
std::optional<char> ByteOfPiece(std::string_view piece);

// The vocabulary, by id. Errors: ModelFileError beginning with `path`, when
// - the bytes are no such message, or it has no piece;
// - a piece is empty or is not UTF-8;
// - there is no piece for unknown text, or several;
// - the normalisation map is damaged (the library would read outside of it);
// - there is a denormaliser. It is not supported, because what a token adds to a text would then
//   depend on the rest of the text.
absl::StatusOr<std::vector<Piece>> ReadSentencePieceModel(std::string_view bytes,
                                                          const std::string& path);

// What a model says about itself beside its pieces.
struct SentencePieceTraits {
  bool bpe = false;
  bool byte_fallback = false;    // a character without a piece becomes its bytes
  bool normalises = false;       // it has a normalisation map
  bool add_dummy_prefix = true;  // a space is put before a text
  bool remove_extra_whitespaces = true;

  // BPE over the characters as they are.
  bool plain_bpe() const { return bpe && !normalises && !remove_extra_whitespaces; }
};
// REQUIRES: ReadSentencePieceModel accepts `bytes`.
SentencePieceTraits ReadSentencePieceTraits(std::string_view bytes);

// The changes to a model. Everything that is not named here stays the same, also the scores.
struct SentencePieceChange {
  // User-defined pieces become control pieces, which the library never finds in a text.
  bool hide_user_defined = false;
  bool no_dummy_prefix = false;
};
// The bytes of the changed model. They lack the model's self-test samples: these may be wrong for
// the changed model, and the unchanged model has been checked against them. REQUIRES:
// ReadSentencePieceModel accepts `bytes`.
std::string Changed(std::string_view bytes, const SentencePieceChange& change);

}  // namespace ng

#endif  // NG_CORE_TEXT_SENTENCEPIECE_SENTENCEPIECE_MODEL_H_
