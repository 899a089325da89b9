// The files beside a tokenizer.model or a tokenizer.json that say how it is used, read as
// transformers reads them: tokenizer_config.json, special_tokens_map.json, added_tokens.json.
//
// special_tokens_map.json and added_tokens.json count only where tokenizer_config.json has no
// "added_tokens_decoder". Errors are ModelFileErrors naming the file and the key.
#ifndef NG_CORE_TEXT_FILES_COMPANIONS_H_
#define NG_CORE_TEXT_FILES_COMPANIONS_H_

#include <optional>
#include <string>
#include <vector>

#include "core/formats/key_policy.h"
#include "core/text/added_tokens.h"
#include "core/text/files/tokenizer_json_file.h"
#include "core/text/sentencepiece/sentencepiece_tokenizer.h"
#include "core/text/text_ends.h"
#include "ng/status.h"

namespace ng {

struct Companions {
  std::string path;             // tokenizer_config.json, or the file that exists in its place
  std::string tokenizer_class;  // without "Fast"; empty: no file says it
  std::optional<bool> add_bos_token;
  std::optional<bool> add_eos_token;
  std::optional<bool> add_prefix_space;
  std::optional<bool> legacy;
  // Empty: the tokenizer has no such token.
  std::string bos_token = "<s>";
  std::string eos_token = "</s>";
  std::vector<AddedToken> added;  // the tokens that a file gives an id, in the order of their ids
  // `added` is from added_tokens.json, which has ids only. If a tokenizer.json has the same tokens,
  // it says how they are found.
  bool only_ids = false;
  // Special tokens that have no ids there, in the order in which transformers adds those that the
  // tokenizer lacks: those with a name ("pad_token", "image_token"), which are special whatever
  // else is said of them, and then those of lists.
  std::vector<AddedToken> named;
  std::vector<AddedToken> listed;
};

// Returns nothing where none of the files exists. `policy` decides about keys that nobody knows.
// Known keys that change no id are not kept.
absl::StatusOr<std::optional<Companions>> ReadCompanions(const std::string& folder,
                                                         KeyPolicy& policy);

// Whether transformers opens the folder's tokenizer.json as it stands. Its LlamaTokenizer takes no
// more than the vocabulary from there, unless the model is a Mistral.
absl::StatusOr<bool> OpensAsItStands(const Companions& companions, const std::string& folder);
// Where it does not: how LlamaTokenizer puts a space before a text.
bool IsLlamaClass(const Companions& companions);
SpacePrefix PrefixOfLlamaClass(const Companions& companions);

// Checks that add_bos_token and add_eos_token say the same as the tokenizer.json at `path`. The
// tokenizer.json counts; where they differ, the user is told.
absl::Status CheckAgreement(const Companions& companions, const TextEnds& ends,
                            const std::string& path, const KeyPolicy& policy);

}  // namespace ng

#endif  // NG_CORE_TEXT_FILES_COMPANIONS_H_
