// The check of a SentencePiece model's normalisation map before the library walks it.
//
// The map is a little-endian 32-bit byte count, that many bytes of a double-array trie over UTF-8
// keys, and NUL-terminated replacements that the trie's values point at. The library follows both
// without checking where they end. A damaged map would make it read outside of the map.
#ifndef NG_CORE_TEXT_SENTENCEPIECE_CHARSMAP_H_
#define NG_CORE_TEXT_SENTENCEPIECE_CHARSMAP_H_

#include <string_view>

#include "ng/status.h"

namespace ng {

// An empty map is valid and means no normalisation. Errors: ModelFileError, without a file name.
absl::Status CheckCharsMap(std::string_view charsmap);

}  // namespace ng

#endif  // NG_CORE_TEXT_SENTENCEPIECE_CHARSMAP_H_
