// What a tokenizer's model is: the ids of one piece of a text.
#ifndef NG_CORE_TEXT_PIPELINE_PIECE_MODEL_H_
#define NG_CORE_TEXT_PIPELINE_PIECE_MODEL_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ng/status.h"

namespace ng {

// The tokens that a model may give ids to.
struct Vocabulary {
  // By id, as the file spells them. Empty: no token has this id, or only an added token has it.
  std::vector<std::string> tokens;
  std::vector<bool> special;  // [tokens]: the model gives no piece one of these, if it can
};

// Thread: any.
class PieceModel {
 public:
  virtual ~PieceModel() = default;

  // Appends the ids of a piece, which borrows from the call. May stop when there are more than
  // `most`. No tokens of `barred`, which is ascending, are among them, as if the model had not got
  // these: they have several characters. Errors: UsageError naming what there is no token for.
  // REQUIRES: not empty.
  virtual absl::Status Encode(std::string_view piece, std::span<const int32_t> barred, int64_t most,
                              std::vector<int32_t>* ids) const = 0;
  // The special tokens that it makes all the same, unless they are barred: others are made of them.
  // Ascending.
  virtual std::span<const int32_t> made_specials() const { return {}; }
  // Whether one id can stand for a text of any length, because unknown characters are joined.
  virtual bool joins_unknown() const = 0;
};

}  // namespace ng

#endif  // NG_CORE_TEXT_PIPELINE_PIECE_MODEL_H_
