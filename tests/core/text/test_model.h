// A SentencePiece model put together by a test, field by field.
#ifndef NG_TESTS_CORE_TEXT_TEST_MODEL_H_
#define NG_TESTS_CORE_TEXT_TEST_MODEL_H_

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/text/sentencepiece/sentencepiece_model.h"

namespace ng {

inline std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

inline std::string IntField(uint32_t number, uint64_t value) {
  return Varint(number << 3) + Varint(value);
}

inline std::string BytesField(uint32_t number, std::string_view payload) {
  return Varint(number << 3 | 2) + Varint(payload.size()) + std::string(payload);
}

inline std::string FloatField(uint32_t number, float value) {
  std::string bytes = Varint(number << 3 | 5);
  const auto bits = std::bit_cast<uint32_t>(value);
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(bits >> (8 * i)));
  return bytes;
}

inline std::string PieceFields(std::string_view text, PieceType type, float score = 0) {
  return BytesField(1, text) + FloatField(2, score) + IntField(3, static_cast<uint64_t>(type));
}

inline std::string PieceField(std::string_view text, PieceType type, float score = 0) {
  return BytesField(1, PieceFields(text, type, score));
}

// A unigram model whose normaliser changes nothing: the unknown, a control piece and the letters.
inline std::string SmallModel() {
  return PieceField("<unk>", PieceType::kUnknown) + PieceField("<s>", PieceType::kControl) +
         PieceField("a", PieceType::kNormal, -1) + PieceField("b", PieceType::kNormal, -2) +
         PieceField("ab", PieceType::kNormal, -2.5F) +
         PieceField("\u2581", PieceType::kNormal, -2.5F) +
         BytesField(3, IntField(3, 0) + IntField(4, 0) + IntField(5, 1));
}

}  // namespace ng

#endif  // NG_TESTS_CORE_TEXT_TEST_MODEL_H_
