// Unigram: of all ways to cut a piece into tokens, the one with the highest sum of scores.
#ifndef NG_CORE_TEXT_PIPELINE_UNIGRAM_MODEL_H_
#define NG_CORE_TEXT_PIPELINE_UNIGRAM_MODEL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/text/pipeline/piece_model.h"

namespace ng {

struct UnigramSpec {
  std::vector<double> scores;      // by id; added tokens may lie behind
  std::optional<int32_t> unknown;  // the token of what no other token covers
  bool byte_fallback = false;      // what is unknown becomes the tokens of its bytes
};

class UnigramModel : public PieceModel {
 public:
  // `path` is for the errors of Encode. REQUIRES: scores are finite, `unknown` has one.
  static std::unique_ptr<PieceModel> Create(UnigramSpec spec, const Vocabulary& vocabulary,
                                            std::string path);

  absl::Status Encode(std::string_view piece, std::span<const int32_t> barred, int64_t most,
                      std::vector<int32_t>* ids) const override;
  bool joins_unknown() const override { return true; }

 private:
  // The best way to cut the text up to some place.
  struct Step {
    double score = 0;
    int32_t begin = -1;  // of the last token; -1: no way is known
    int32_t id = -1;     // -1: unknown
  };

  UnigramModel(UnigramSpec spec, std::string path);
  void AddToken(std::string_view token, int32_t id);
  // [piece.size() + 1], by where the text ends.
  std::vector<Step> BestSteps(std::string_view piece, std::span<const int32_t> barred) const;
  absl::Status AppendUnknown(std::string_view text, std::vector<int32_t>* ids) const;

  UnigramSpec spec_;
  std::string path_;
  double unknown_score_ = 0;
  // A trie: (node << 8 | byte) -> node. The root is 0.
  absl::flat_hash_map<uint64_t, int32_t> children_;
  std::vector<int32_t> id_of_node_;  // -1: no token ends here
  std::vector<int32_t> byte_ids_;    // empty: not all bytes have tokens
};

}  // namespace ng

#endif  // NG_CORE_TEXT_PIPELINE_UNIGRAM_MODEL_H_
