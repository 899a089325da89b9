// The bytes of a SentencePiece .model file: what the library does not check, and what it cannot be
// asked to change.
//
// The file is a serialized protobuf message (the library's sentencepiece_model.proto). It is walked
// here field by field over the bounds-checked cursor.
#ifndef NG_CORE_TEXT_SENTENCEPIECE_MODEL_H_
#define NG_CORE_TEXT_SENTENCEPIECE_MODEL_H_

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

// The vocabulary, by id. Errors (ModelFileError, beginning with `path`): not such a message, no
// piece, a piece that is empty or no UTF-8 text, no piece or several for the unknown, a damaged
// normalisation map (the library would read outside of it), a denormaliser (not supported: what a
// token adds to a text would depend on the rest of it).
absl::StatusOr<std::vector<Piece>> ReadSentencePieceModel(std::string_view bytes,
                                                          const std::string& path);

// What a model says of itself beside its pieces.
struct SentencePieceTraits {
  bool bpe = false;
  bool byte_fallback = false;    // a character without a piece becomes its bytes
  bool normalises = false;       // has a normalisation map
  bool add_dummy_prefix = true;  // a space is put before a text
  bool remove_extra_whitespaces = true;

  // BPE over the characters as they are.
  bool plain_bpe() const { return bpe && !normalises && !remove_extra_whitespaces; }
};
// REQUIRES: ReadSentencePieceModel accepts `bytes`.
SentencePieceTraits ReadSentencePieceTraits(std::string_view bytes);

// What a model is changed to; everything that is not named stays the same, scores included.
struct SentencePieceChange {
  // User-defined pieces become control pieces, which the library never finds in a text.
  bool hide_user_defined = false;
  bool no_dummy_prefix = false;
};
// The model's samples of itself are left out: they may not hold any more, and the unchanged model
// has been checked against them. REQUIRES: ReadSentencePieceModel accepts `bytes`.
std::string Changed(std::string_view bytes, const SentencePieceChange& change);

}  // namespace ng

#endif  // NG_CORE_TEXT_SENTENCEPIECE_MODEL_H_
