// The files beside a tokenizer.model or a tokenizer.json that say how it is used, read as
// transformers reads them: tokenizer_config.json, special_tokens_map.json, added_tokens.json.
//
// special_tokens_map.json and added_tokens.json count only where tokenizer_config.json has no
// "added_tokens_decoder". Errors are ModelFileErrors naming the file and the key.
#ifndef NG_CORE_TEXT_COMPANIONS_H_
#define NG_CORE_TEXT_COMPANIONS_H_

#include <optional>
#include <string>
#include <vector>

#include "core/formats/key_policy.h"
#include "core/text/added_tokens.h"
#include "core/text/tokenizer_json_file.h"
#include "ng/status.h"

namespace ng {

struct Companions {
  std::string path;             // tokenizer_config.json, or another that is there
  std::string tokenizer_class;  // without "Fast"; empty: not said
  std::optional<bool> add_bos_token;
  std::optional<bool> add_eos_token;
  std::optional<bool> add_prefix_space;
  std::optional<bool> legacy;
  // Empty: there is none.
  std::string bos_token = "<s>";
  std::string eos_token = "</s>";
  std::vector<AddedToken> added;  // those that a file gives an id, in the order of their ids
  // added_tokens.json gave them: a tokenizer.json knows better how they are found.
  bool only_ids = false;
};

// Nothing where none of the files is there. Keys that nobody knows are for `policy`; of those that
// are known, what changes no id is not kept.
absl::StatusOr<std::optional<Companions>> ReadCompanions(const std::string& folder,
                                                         KeyPolicy& policy);

// That add_bos_token and add_eos_token are what a tokenizer.json at `path` does, which counts; else
// it is worth a word.
absl::Status CheckAgreement(const Companions& companions, const TextEnds& ends,
                            const std::string& path, const KeyPolicy& policy);

}  // namespace ng

#endif  // NG_CORE_TEXT_COMPANIONS_H_
