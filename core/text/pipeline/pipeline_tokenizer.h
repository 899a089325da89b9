// PipelineTokenizer: the steps of a tokenizer.json one after the other, whatever file they came
// from: find added tokens, normalise, split, give the pieces to a model; and back.
#ifndef NG_CORE_TEXT_PIPELINE_PIPELINE_TOKENIZER_H_
#define NG_CORE_TEXT_PIPELINE_PIPELINE_TOKENIZER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/text/added_tokens.h"
#include "core/text/pipeline/bpe_model.h"
#include "core/text/pipeline/normalizer.h"
#include "core/text/pipeline/pre_tokenizer.h"
#include "core/text/pipeline/token_decoder.h"
#include "core/text/pipeline/unigram_model.h"
#include "ng/tokenizer.h"

namespace ng {

struct PipelineSpec {
  std::vector<std::string> tokens;       // by id, as the file spells them; empty: no token
  std::vector<AddedToken> added_tokens;  // with ids into `tokens`
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> split;
  std::variant<BpeSpec, UnigramSpec> model;
  std::vector<DecoderStep> decoder = {BytesOfAlphabet{}};
  std::vector<int32_t> prefix;  // add_special puts these before a text
  std::vector<int32_t> suffix;  // and these after it
  int64_t n_added = 0;          // the last tokens, behind those of the model's vocabulary
};

class PipelineTokenizer : public Tokenizer {
 public:
  // Errors name `path`. Errors: ModelFileError: there is no token; a token is not UTF-8 or occurs
  // twice; those of BpeModel::Create.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(PipelineSpec spec,
                                                           const std::string& path);

  int64_t vocab_size() const override { return static_cast<int64_t>(token_bytes_.size()); }
  int64_t n_added() const override { return spec_.n_added; }
  int64_t longest_token() const override { return longest_; }
  bool knows_ends() const override { return true; }
  // Tokens in the byte alphabet have their spaces in the text itself.
  bool spaces_as_transformers() const override { return !byte_level_; }
  // Added tokens that are not special are parsed in any text, as the reference does.
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text,
                                              const EncodeOptions& options) const override;
  absl::StatusOr<std::vector<int32_t>> EncodeAsReference(
      std::string_view text, const EncodeOptions& options) const override;
  absl::StatusOr<std::string> Decode(std::span<const int32_t> ids) const override;
  std::string_view TokenBytes(int32_t id) const override;
  std::optional<int32_t> SpecialId(std::string_view literal) const override;
  std::vector<int32_t> SpecialIds() const override;
  std::vector<WholeToken> WholeTokens() const override;
  std::string Spelling(int32_t id) const override;

 private:
  PipelineTokenizer(PipelineSpec spec, std::string path);
  absl::Status Load();
  absl::Status CheckTokens() const;
  absl::Status LoadModel();
  absl::Status LoadBytes();
  absl::Status LoadAddedTokens();
  void DropSpellings();
  // Whether Decode is nothing but the bytes of the tokens, joined.
  bool DecodesToBytes() const;
  struct Stretch {
    std::string_view text;
    std::string_view mask;  // EncodeOptions::special_at of it
    bool begins;            // the whole text begins here
  };
  struct Bounds {
    StepBudget& budget;
    std::span<const int32_t> barred;  // what the model makes of no piece
  };
  std::vector<int32_t> Barred(const EncodeOptions& options) const;
  // A stretch of the text without raw added tokens.
  absl::Status EncodeStretch(const Stretch& stretch, const EncodeOptions& options,
                             const Bounds& bounds, std::vector<int32_t>* ids) const;
  // One without any, in its normal form. Stops when it has more than `most` ids.
  absl::Status EncodeFragment(const Stretch& fragment, int64_t most, const Bounds& bounds,
                              std::vector<int32_t>* ids) const;

  PipelineSpec spec_;  // without tokens, if Decode needs none, and without the model's once loaded
  std::string path_;
  std::unique_ptr<PieceModel> model_;
  bool byte_level_ = false;
  std::vector<std::string> token_bytes_;  // by id
  // Where `spec_` is without tokens: those that the alphabet does not spell.
  std::map<int32_t, std::string> literals_;
  int64_t longest_ = 1;
  AddedTokens raw_added_;
  AddedTokens normalized_added_;
  std::map<std::string, int32_t, std::less<>> specials_;
  std::optional<int32_t> unknown_;
};

}  // namespace ng

#endif  // NG_CORE_TEXT_PIPELINE_PIPELINE_TOKENIZER_H_
