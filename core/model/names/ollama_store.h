// Ollama's store: a manifest for each model, manifests/HOST/OWNER/NAME/TAG, which names its parts,
// and the parts as blobs.
#ifndef NG_CORE_MODEL_NAMES_OLLAMA_STORE_H_
#define NG_CORE_MODEL_NAMES_OLLAMA_STORE_H_

#include <string>
#include <vector>

#include "core/config/config.h"
#include "core/model/files/suggested_sampling.h"
#include "core/model/names/found_model.h"
#include "ng/status.h"

namespace ng {

// All models of the store. What it is known by: "qwen3" for registry.ollama.ai/library/qwen3,
// "owner/name" for another one of that host, "hf.co/org/name" for another host's.
std::vector<FoundModel> ModelsOfOllama(const std::string& folder);

// What Ollama would run the model with where the user says nothing.
struct OllamaDefaults {
  std::vector<ConfigEntry> entries;  // run.system, run.max_new_tokens and such
  SamplingSuggestions sampling;
};

// Errors: ModelFileError.
absl::StatusOr<OllamaDefaults> ReadOllamaDefaults(const FoundModel& model);

// A template for conversations in Go's language, which ng does not run.
struct ForeignTemplate {
  std::string what;     // what to say of it; empty: there is none, or it writes a text as it is
  std::string same_as;  // ng's own template that writes the same (tokenizer.chat_template); empty:
                        // not known
};
ForeignTemplate ForeignTemplateOf(const FoundModel& model);

}  // namespace ng

#endif  // NG_CORE_MODEL_NAMES_OLLAMA_STORE_H_
