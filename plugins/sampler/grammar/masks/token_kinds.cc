#include "plugins/sampler/grammar/masks/token_kinds.h"

#include <array>
#include <cstddef>
#include <string_view>

namespace ng::grammar {
namespace {

constexpr int kFirst = 0x80;  // of the bytes that go on with a character
constexpr int kLast = 0xBF;

// The letters and digits of numbers, those of words, and each sign alone. What is left are
// controls.
std::array<uint8_t, kAsciiBytes> MakeKinds() {
  constexpr uint8_t kControl = 41;
  std::array<uint8_t, kAsciiBytes> kinds = {};
  kinds.fill(kControl);
  const auto set = [&](unsigned char low, unsigned char high, uint8_t kind) {
    for (size_t byte = low; byte <= high; ++byte) kinds[byte] = kind;
  };
  set('0', '9', 0);
  set('a', 'f', 1);
  set('g', 'z', 2);
  set('A', 'F', 3);
  set('G', 'Z', 4);
  uint8_t kind = 5;
  for (const char sign : std::string_view(" !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~\t\n\r")) {
    const auto byte = static_cast<unsigned char>(sign);
    set(byte, byte, kind++);
  }
  return kinds;
}

Within BehindFirst(uint8_t byte) {
  if (byte < 0xE0) return Within::kOneLeft;
  if (byte == 0xE0) return Within::kTwoLeftFromA0;
  if (byte == 0xED) return Within::kTwoLeftTo9F;
  if (byte < 0xF0) return Within::kTwoLeft;
  if (byte == 0xF0) return Within::kThreeLeftFrom90;
  return byte == 0xF4 ? Within::kThreeLeftTo8F : Within::kThreeLeft;
}

}  // namespace

Kinds KindOf(uint8_t ascii) {
  static const std::array<uint8_t, kAsciiBytes> kinds = MakeKinds();
  return Kinds{1} << kinds[ascii];
}

NextOfCharacter NextOf(Within at) {
  switch (at) {
    case Within::kNothing:
      return {};
    case Within::kOneLeft:
      return {kFirst, kLast, Within::kNothing};
    case Within::kTwoLeft:
      return {kFirst, kLast, Within::kOneLeft};
    case Within::kTwoLeftFromA0:
      return {0xA0, kLast, Within::kOneLeft};
    case Within::kTwoLeftTo9F:
      return {kFirst, 0x9F, Within::kOneLeft};
    case Within::kThreeLeft:
      return {kFirst, kLast, Within::kTwoLeft};
    case Within::kThreeLeftFrom90:
      return {0x90, kLast, Within::kTwoLeft};
    case Within::kThreeLeftTo8F:
      return {kFirst, 0x8F, Within::kTwoLeft};
  }
  return {};
}

Kinds ReadKind(uint8_t byte, Within* at) {
  const bool within = *at != Within::kNothing;
  const NextOfCharacter next = NextOf(*at);
  *at = Within::kNothing;
  if (within && next.low <= byte && byte <= next.high) {
    *at = next.behind;
    return 0;
  }
  const Kinds cut = within ? kNoCharacter : 0;
  if (byte < kAsciiBytes) return cut | KindOf(byte);
  if (byte < 0xC2 || byte > 0xF4) return kNoCharacter;
  *at = BehindFirst(byte);
  return cut | (byte < 0xE0 ? kTwoBytes : byte < 0xF0 ? kThreeBytes : kFourBytes);
}

}  // namespace ng::grammar
