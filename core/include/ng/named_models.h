// Models that are known by name: what other programs have brought to this machine, and what lies in
// the folders that model.folders names. `model.path` may be such a name.
//
// The places are looked through in this order; nothing is written there, and nobody else is asked:
// - Hugging Face's cache: ORG/NAME, ORG/NAME@REVISION; behind it :QUANT or :FILE for a GGUF file.
// - Ollama's store: NAME:TAG, OWNER/NAME:TAG, HOST/OWNER/NAME:TAG; without a tag "latest", or the
//   only one.
// - LM Studio's folder: OWNER/NAME; behind it :QUANT or :FILE.
// - llama.cpp's cache: ORG/NAME; behind it :QUANT or :FILE.
// - the folders of model.folders: a model's path in there; behind it :QUANT or :FILE.
// A file's own name does in every place, if nothing else has that name.
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

// The path of what `text` names, for a program without a config: itself where it is a path. Errors:
// UsageError: several models have this name; ModelFileError: none has it, or the one that has it is
// broken.
absl::StatusOr<std::string> PathOfModel(const std::string& text);

// A name of Hugging Face's hub, and its parts: ORG/NAME[@REVISION][:TAG].
struct HubName {
  std::string repository;  // "Qwen/Qwen3-0.6B"
  std::string revision;    // a branch, a tag or a commit; empty: not said
  std::string tag;         // "Q4_K_M", or a file; empty: not said
};
// Errors: UsageError: no repository can have this name.
absl::StatusOr<HubName> ParseHubName(const std::string& name);

// A model that is one GGUF file of a repository, or several.
struct HubGguf {
  std::string tag;                 // that tells it from the others
  std::vector<std::string> files;  // paths in the repository, in order
  std::string missing;             // a file of it that is not there; empty: none
};
// Those among the files of a repository, of which a name with `tag` can mean each; an empty tag can
// mean all.
std::vector<HubGguf> GgufsOfHub(const std::vector<std::string>& paths, const std::string& tag);

// Hugging Face's cache on this machine, and the folder with its token; empty where the environment
// says nothing of a home.
std::string HubCacheFolder();
std::string HubHomeFolder();

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_NAMED_MODELS_H_
