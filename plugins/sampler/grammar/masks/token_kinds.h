// Of which kinds of bytes the texts below a node of the tree of tokens are made. A grammar's free
// text reads most kinds as a whole, so that one look tells that everything below a node goes on.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_MASKS_TOKEN_KINDS_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_MASKS_TOKEN_KINDS_H_

#include <cstdint>

namespace ng::grammar {

// A set of kinds, a bit for each. Bytes of ASCII have one that depends on nothing else. The others
// are characters of UTF-8 by their number of bytes, or bytes that are no part of one.
using Kinds = uint64_t;
inline constexpr Kinds kTwoBytes = Kinds{1} << 42;
inline constexpr Kinds kThreeBytes = Kinds{1} << 43;
inline constexpr Kinds kFourBytes = Kinds{1} << 44;
inline constexpr Kinds kNoCharacter = Kinds{1} << 45;
inline constexpr int kNumKinds = 46;
inline constexpr int kAsciiBytes = 0x80;
Kinds KindOf(uint8_t ascii);

// How much of a character has been read: none of it, or all but so many bytes.
enum class Within : uint8_t {
  kNothing,
  kOneLeft,
  kTwoLeft,
  kTwoLeftFromA0,
  kTwoLeftTo9F,
  kThreeLeft,
  kThreeLeftFrom90,
  kThreeLeftTo8F
};
struct NextOfCharacter {
  int low = 0;
  int high = -1;
  Within behind = Within::kNothing;
};
// What the next byte may be. REQUIRES: something is left.
NextOfCharacter NextOf(Within at);

// Reads a byte behind `*at`, and says of which kind it is: of none within a character.
Kinds ReadKind(uint8_t byte, Within* at);

// What lies below a node.
struct Below {
  static constexpr uint32_t kMostHeight = 1023;

  Kinds kinds : kNumKinds = 0;
  uint64_t height : 10 = 0;          // bytes; kMostHeight: or more
  Within at : 3 = Within::kNothing;  // of the node itself
};

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_MASKS_TOKEN_KINDS_H_
