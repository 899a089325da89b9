// The parts of a tokenizer.json file that mean the same whatever its model is: its added tokens,
// and what its post-processor puts around a text. Errors are ModelFileErrors that name the file,
// the part, the value found and what is allowed.
#ifndef NG_CORE_TEXT_FILES_TOKENIZER_JSON_FILE_H_
#define NG_CORE_TEXT_FILES_TOKENIZER_JSON_FILE_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/formats/json.h"
#include "core/text/added_tokens.h"
#include "core/text/text_ends.h"
#include "ng/status.h"
#include "ng/tokenizer.h"

namespace ng {

inline constexpr int64_t kMaxTokenId = (int64_t{1} << 30) - 1;

// The token that an object describes. "id" is not read. Errors name `where`.
absl::StatusOr<AddedToken> ReadAddedToken(const JsonFields& fields, const std::string& where);

class TokenizerJsonFile {
 public:
  // Borrows the file, which must outlive it.
  TokenizerJsonFile(const nlohmann::json& file, std::string path)
      : file_(file), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  // The value of a key; JSON null where the key is absent or `object` is not an object.
  static const nlohmann::json& At(const nlohmann::json& object, const char* key);
  const nlohmann::json& At(const char* key) const { return At(file_, key); }
  std::string Where(std::string_view part) const;
  absl::Status Wrong(std::string_view part, const nlohmann::json& found,
                     std::string_view allowed) const;
  // The "type" of an object; empty for null, because the part may be absent.
  absl::StatusOr<std::string> TypeOf(const nlohmann::json& value, std::string_view part) const;
  // One of the parts of a "Sequence".
  struct Member {
    std::string part;  // its dotted name
    std::string type;
    const nlohmann::json* value = nullptr;
  };
  // The members of a "Sequence", also of one within it, or the part itself if it is no sequence.
  absl::StatusOr<std::vector<Member>> Members(const char* part, const char* list_key) const;

  absl::StatusOr<std::vector<AddedToken>> AddedTokens() const;
  // The tokens that its post-processor puts around a text, checked against this number of tokens.
  absl::StatusOr<TextEnds> Ends(int64_t n_tokens) const;
  // The keys of the file that nobody reads, by their dotted names.
  std::vector<std::string> UnknownKeys() const;

 private:
  absl::Status AddMembers(const nlohmann::json& value, const std::string& part,
                          const char* list_key, std::vector<Member>* members) const;
  absl::Status ReadTemplate(const nlohmann::json& processor, int64_t n_tokens,
                            TextEnds* ends) const;
  absl::Status ReadTemplateToken(const nlohmann::json& processor, const nlohmann::json& token,
                                 int64_t n_tokens, std::vector<int32_t>* ids) const;

  const nlohmann::json& file_;
  std::string path_;
};

}  // namespace ng

#endif  // NG_CORE_TEXT_FILES_TOKENIZER_JSON_FILE_H_
