// Models that are known by name: what other programs have brought to this machine, and what lies in
// the folders that model.folders names. `model.path` may be such a name.
//
//   place                            a model's name
//   Hugging Face's cache             ORG/NAME, ORG/NAME@REVISION, and :QUANT or :FILE for a GGUF
//   file Ollama's store                   NAME:TAG, NAME (its tag latest), HOST/OWNER/NAME:TAG LM
//   Studio's folder               OWNER/NAME, and :QUANT or :FILE llama.cpp's cache OWNER/NAME:TAG,
//   or the file's name the folders of model.folders     the path in the folder, or a file's name
//
// They are looked through in this order; nothing is written there, and nobody else is asked.
//
// Sources: huggingface_hub's "manage your cache"; Ollama's manifests, which are those of OCI
// images.
#ifndef NG_NAMED_MODELS_H_
#define NG_NAMED_MODELS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ng/config.h"
#include "ng/status.h"

#pragma GCC visibility push(default)
namespace ng {

struct NamedModel {
  std::string name;    // that model.path takes
  std::string source;  // "huggingface", "ollama", "lmstudio", "llama.cpp" or "folder"
  std::string path;    // of the folder or file
  std::string family;  // what its files call it: "qwen3"; empty: they do not say
  std::string type;    // of its weights: "bf16", "Q4_K_M"; empty: likewise
  int64_t bytes = 0;   // of its weights
  std::string fault;   // why it cannot be opened, "a link leads nowhere"; empty: nothing is wrong
};

// All of them, in the order above and by name; those that are broken too. [any thread]
std::vector<NamedModel> FindNamedModels(const Config& config);

// The path of what `text` names, for a program without a config: itself where it is a path, or where
// no model goes by it. Errors: UsageError: several models have this name; ModelFileError: the one
// that has it is broken.
absl::StatusOr<std::string> PathOfModel(const std::string& text);

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_NAMED_MODELS_H_
