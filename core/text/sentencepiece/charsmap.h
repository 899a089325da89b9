// A SentencePiece model's normalisation map: checked before the library walks it, or read here.
//
// The map is a little-endian 32-bit byte count, that many bytes of a double-array trie over UTF-8
// keys, and NUL-terminated replacements that the trie's values point at. The library follows both
// without checking where they end. A damaged map would make it read outside of the map.
#ifndef NG_CORE_TEXT_SENTENCEPIECE_CHARSMAP_H_
#define NG_CORE_TEXT_SENTENCEPIECE_CHARSMAP_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "ng/status.h"

namespace ng {

// An empty map is valid and means no normalisation. Errors: ModelFileError, without a file name.
absl::Status CheckCharsMap(std::string_view charsmap);

class CharsMap {
 public:
  // Errors: those of CheckCharsMap.
  static absl::StatusOr<CharsMap> Create(std::string charsmap);

  // What replaces a text that begins with a key: the replacement of the shortest such key.
  std::optional<std::string_view> Find(std::string_view text) const;

 private:
  explicit CharsMap(std::string charsmap);

  std::string charsmap_;
  size_t trie_end_ = 0;  // where the replacements begin; 0: the map is empty
};

}  // namespace ng

#endif  // NG_CORE_TEXT_SENTENCEPIECE_CHARSMAP_H_
