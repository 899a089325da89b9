// CharTokenizer: one token for each character of a list, as nanoGPT's meta.pkl holds it.
#ifndef NG_CORE_TEXT_CHAR_TOKENIZER_H_
#define NG_CORE_TEXT_CHAR_TOKENIZER_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/pickle.h"
#include "ng/tokenizer.h"

namespace ng {

class CharTokenizer : public Tokenizer {
 public:
  // Reads a pickled dictionary: "itos" gives each id, from 0 on, its character; "stoi" is the other
  // way round; "vocab_size" may be absent and counts the characters. Errors name `path`.
  // Errors: ModelFileError.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> FromMetaPickle(std::string_view bytes,
                                                                   const std::string& path);

  int64_t vocab_size() const override { return static_cast<int64_t>(chars_.size()); }
  int64_t longest_token() const override { return 4; }
  bool knows_ends() const override { return false; }
  // There are no special tokens. A character that is not in the list is a UsageError too.
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text,
                                              const EncodeOptions& options) const override;
  absl::StatusOr<std::vector<int32_t>> EncodeAsReference(
      std::string_view text, const EncodeOptions& options) const override;
  absl::StatusOr<std::string> Decode(std::span<const int32_t> ids) const override;
  std::string_view TokenBytes(int32_t id) const override;
  std::optional<int32_t> SpecialId(std::string_view) const override { return std::nullopt; }
  std::vector<int32_t> SpecialIds() const override { return {}; }

 private:
  explicit CharTokenizer(std::string path) : path_(std::move(path)) {}
  absl::Status Load(std::string_view bytes);
  // `size` is null when the file does not count its characters.
  absl::Status CheckAgainst(const PickleDict& stoi, const PickleValue* size) const;

  std::string path_;
  std::vector<std::string> chars_;  // by id
  std::map<std::string, int32_t, std::less<>> ids_;
};

}  // namespace ng

#endif  // NG_CORE_TEXT_CHAR_TOKENIZER_H_
