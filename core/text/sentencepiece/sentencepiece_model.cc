#include "core/text/sentencepiece/sentencepiece_model.h"

#include <bit>
#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/base/cursor.h"
#include "core/text/sentencepiece/charsmap.h"
#include "ng/utf8.h"

namespace ng {
namespace {

enum class WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// One field of a protobuf message.
struct Field {
  uint32_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t integer = 0;      // of kVarint, kFixed32
  std::string_view payload;  // of kBytes
  std::string_view raw;      // the whole field with its tag

  bool Is(uint32_t wanted_number, WireType wanted_type) const {
    return number == wanted_number && type == wanted_type;
  }
};

// Reads the fields of a message in turn. Groups count as malformed; no SentencePiece model has
// them.
class MessageReader {
 public:
  explicit MessageReader(std::string_view message) : message_(message), cursor_(message) {}

  bool at_end() const { return cursor_.at_end(); }
  size_t position() const { return cursor_.position(); }

  // The next field, or nullopt when the bytes are no message.
  std::optional<Field> Next() {
    const size_t start = cursor_.position();
    const std::optional<uint64_t> tag = cursor_.Varint();
    if (!tag || *tag > UINT32_MAX || (*tag >> 3) == 0) return std::nullopt;
    Field field;
    field.number = static_cast<uint32_t>(*tag >> 3);
    field.type = static_cast<WireType>(*tag & 7);
    if (!ReadValue(&field)) return std::nullopt;
    field.raw = message_.substr(start, cursor_.position() - start);
    return field;
  }

 private:
  bool ReadValue(Field* field) {
    switch (field->type) {
      case WireType::kVarint: {
        const std::optional<uint64_t> value = cursor_.Varint();
        field->integer = value.value_or(0);
        return value.has_value();
      }
      case WireType::kFixed64:
        return cursor_.U64().has_value();
      case WireType::kFixed32: {
        const std::optional<uint32_t> value = cursor_.U32();
        field->integer = value.value_or(0);
        return value.has_value();
      }
      case WireType::kBytes: {
        const std::optional<uint64_t> length = cursor_.Varint();
        const std::optional<std::string_view> payload =
            length ? cursor_.Bytes(*length) : std::nullopt;
        field->payload = payload.value_or(std::string_view());
        return payload.has_value();
      }
    }
    return false;
  }

  std::string_view message_;
  Cursor cursor_;
};

// Field numbers of the model, of a piece and of a normaliser.
constexpr uint32_t kModelPiece = 1;
constexpr uint32_t kModelTrainer = 2;
constexpr uint32_t kModelNormalizer = 3;
constexpr uint32_t kModelSelfTest = 4;
constexpr uint32_t kModelDenormalizer = 5;
constexpr uint32_t kPieceText = 1;
constexpr uint32_t kPieceScore = 2;
constexpr uint32_t kPieceType = 3;
constexpr uint32_t kTrainerModelType = 3;
constexpr uint32_t kTrainerByteFallback = 35;
constexpr uint32_t kNormalizerCharsMap = 2;
constexpr uint32_t kNormalizerDummyPrefix = 3;
constexpr uint32_t kNormalizerExtraSpaces = 4;
constexpr uint64_t kModelTypeBpe = 2;

std::optional<Piece> ReadPiece(std::string_view message) {
  Piece piece;
  MessageReader reader(message);
  while (!reader.at_end()) {
    const std::optional<Field> field = reader.Next();
    if (!field) return std::nullopt;
    if (field->Is(kPieceText, WireType::kBytes)) piece.text = field->payload;
    if (field->Is(kPieceScore, WireType::kFixed32)) {
      piece.score = std::bit_cast<float>(static_cast<uint32_t>(field->integer));
    }
    if (field->Is(kPieceType, WireType::kVarint)) {
      // As protobuf reads an enum: 32 bits, and a value that it does not know counts as absent.
      const auto value = static_cast<int32_t>(static_cast<uint32_t>(field->integer));
      if (value >= 1 && value <= 6) piece.type = static_cast<PieceType>(value);
    }
  }
  return piece;
}

// The normalisation map of a normaliser; nullopt when the bytes are no message.
std::optional<std::string_view> CharsMapOf(std::string_view normalizer) {
  std::string_view charsmap;
  MessageReader reader(normalizer);
  while (!reader.at_end()) {
    const std::optional<Field> field = reader.Next();
    if (!field) return std::nullopt;
    if (field->Is(kNormalizerCharsMap, WireType::kBytes)) charsmap = field->payload;
  }
  return charsmap;
}

// What is wrong with a piece by itself, or nothing.
std::string_view FaultOf(const Piece& piece) {
  if (piece.text.empty()) return "is empty";
  if (FindInvalidUtf8(piece.text)) return "is not valid UTF-8";
  if (piece.text.find('\0') != piece.text.npos) return "holds a NUL byte";
  if (std::isnan(piece.score)) return "has the score NaN";
  return "";
}

absl::Status CheckPieces(const std::vector<Piece>& pieces, const std::string& path) {
  if (pieces.empty()) return ModelFileError(path + ": the tokenizer has no pieces");
  int64_t n_unknown = 0;
  for (size_t id = 0; id < pieces.size(); ++id) {
    if (const std::string_view fault = FaultOf(pieces[id]); !fault.empty()) {
      return ModelFileError(
          absl::StrCat(path, ": piece ", id, " ", absl::string_view(fault.data(), fault.size())));
    }
    if (pieces[id].type == PieceType::kUnknown) ++n_unknown;
  }
  if (n_unknown != 1) {
    return ModelFileError(
        absl::StrCat(path, ": ", n_unknown, " pieces of type UNKNOWN, must be exactly one"));
  }
  return absl::OkStatus();
}

void AppendVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

void AppendVarintField(uint32_t number, uint64_t value, std::string* out) {
  AppendVarint(uint64_t{number} << 3 | static_cast<uint32_t>(WireType::kVarint), out);
  AppendVarint(value, out);
}

void AppendBytesField(uint32_t number, std::string_view payload, std::string* out) {
  AppendVarint(uint64_t{number} << 3 | static_cast<uint32_t>(WireType::kBytes), out);
  AppendVarint(payload.size(), out);
  out->append(payload);
}

// A message without one of its fields.
std::string Without(std::string_view message, uint32_t number) {
  std::string rest;
  for (MessageReader reader(message); !reader.at_end();) {
    const std::optional<Field> field = reader.Next();
    if (!field) break;  // not reached: the message has been read before
    if (!field->Is(number, WireType::kVarint)) rest += field->raw;
  }
  return rest;
}

// A message with a field set to an integer.
std::string With(std::string_view message, uint32_t number, uint64_t value) {
  std::string changed = Without(message, number);
  AppendVarintField(number, value, &changed);
  return changed;
}

}  // namespace

std::optional<char> ByteOfPiece(std::string_view piece) {
  constexpr std::string_view kPrefix = "<0x";
  if (piece.size() != 6 || !piece.starts_with(kPrefix) || piece.back() != '>') return std::nullopt;
  const char* const last = piece.data() + 5;
  uint8_t value = 0;
  const auto [end, error] = std::from_chars(piece.data() + kPrefix.size(), last, value, 16);
  if (error != std::errc() || end != last) return std::nullopt;
  return static_cast<char>(value);
}

absl::StatusOr<std::vector<Piece>> ReadSentencePieceModel(std::string_view bytes,
                                                          const std::string& path) {
  std::vector<Piece> pieces;
  MessageReader reader(bytes);
  while (!reader.at_end()) {
    const size_t offset = reader.position();
    const auto damaged = [&] {
      return ModelFileError(
          absl::StrCat(path, ": is not a SentencePiece model, or damaged at offset ", offset));
    };
    const std::optional<Field> field = reader.Next();
    if (!field) return damaged();
    if (field->Is(kModelPiece, WireType::kBytes)) {
      const std::optional<Piece> piece = ReadPiece(field->payload);
      if (!piece) return damaged();
      pieces.push_back(*piece);
    }
    if (field->Is(kModelNormalizer, WireType::kBytes)) {
      const std::optional<std::string_view> charsmap = CharsMapOf(field->payload);
      if (!charsmap) return damaged();
      NG_RETURN_IF_ERROR(Annotate(CheckCharsMap(*charsmap), path + ": "));
    }
    if (field->Is(kModelDenormalizer, WireType::kBytes)) {
      const std::optional<std::string_view> charsmap = CharsMapOf(field->payload);
      if (!charsmap) return damaged();
      if (!charsmap->empty()) {
        return ModelFileError(path + ": the tokenizer has a denormaliser, must have none");
      }
    }
  }
  NG_RETURN_IF_ERROR(CheckPieces(pieces, path));
  return pieces;
}

SentencePieceTraits ReadSentencePieceTraits(std::string_view bytes) {
  SentencePieceTraits traits;
  // Visits each integer in a part of the model. A field that occurs again replaces the earlier one.
  const auto read = [](std::string_view message, auto set) {
    for (MessageReader reader(message); !reader.at_end();) {
      const std::optional<Field> field = reader.Next();
      if (!field) return;  // not reached: REQUIRES
      set(*field);
    }
  };
  read(bytes, [&](const Field& part) {
    if (part.Is(kModelTrainer, WireType::kBytes)) {
      read(part.payload, [&](const Field& field) {
        if (field.number == kTrainerModelType) traits.bpe = field.integer == kModelTypeBpe;
        if (field.number == kTrainerByteFallback) traits.byte_fallback = field.integer != 0;
      });
    }
    if (part.Is(kModelNormalizer, WireType::kBytes)) {
      read(part.payload, [&](const Field& field) {
        if (field.number == kNormalizerCharsMap) traits.normalises = !field.payload.empty();
        if (field.number == kNormalizerDummyPrefix) traits.add_dummy_prefix = field.integer != 0;
        if (field.number == kNormalizerExtraSpaces) {
          traits.remove_extra_whitespaces = field.integer != 0;
        }
      });
    }
  });
  return traits;
}

std::string Changed(std::string_view bytes, const SentencePieceChange& change) {
  std::string changed;
  bool has_normalizer = false;
  for (MessageReader reader(bytes); !reader.at_end();) {
    const std::optional<Field> field = reader.Next();
    if (!field) break;  // not reached: REQUIRES
    if (field->Is(kModelSelfTest, WireType::kBytes)) continue;
    const std::optional<Piece> piece =
        change.hide_user_defined && field->Is(kModelPiece, WireType::kBytes)
            ? ReadPiece(field->payload)
            : std::nullopt;
    if (piece && piece->type == PieceType::kUserDefined) {
      AppendBytesField(kModelPiece,
                       With(field->payload, kPieceType, static_cast<uint64_t>(PieceType::kControl)),
                       &changed);
    } else if (change.no_dummy_prefix && field->Is(kModelNormalizer, WireType::kBytes)) {
      has_normalizer = true;
      AppendBytesField(kModelNormalizer, With(field->payload, kNormalizerDummyPrefix, 0), &changed);
    } else {
      changed += field->raw;
    }
  }
  if (change.no_dummy_prefix && !has_normalizer) {
    AppendBytesField(kModelNormalizer, With("", kNormalizerDummyPrefix, 0), &changed);
  }
  return changed;
}

}  // namespace ng
