// A model that was found, and what a name may call it.
#ifndef NG_CORE_MODEL_NAMES_FOUND_MODEL_H_
#define NG_CORE_MODEL_NAMES_FOUND_MODEL_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "ng/named_models.h"

namespace ng {

struct FoundModel {
  NamedModel shown = {};
  // A name is BASE[@REVISION][:TAG].
  std::string base = {};  // "Qwen/Qwen3-0.6B", "qwen3"
  std::string revision =
      {};                   // a reference or the beginning of a commit; empty: the one that counts
  std::string commit = {};  // of the revision, where there is one
  std::string tag = {};     // "Q4_K_M", "0.6b"; empty: a folder
  std::string file = {};    // its own name, without .gguf; empty: a folder
  // Of Ollama's: the files of its defaults, empty where there is none.
  std::string parameters = {};
  std::string system = {};
};

// The model's name, of its parts; without a base that of its file.
inline std::string NameOf(const FoundModel& model) {
  if (model.base.empty()) return model.file;
  return absl::StrCat(model.base, model.revision.empty() ? "" : "@", model.revision,
                      model.tag.empty() ? "" : ":", model.tag);
}

}  // namespace ng

#endif  // NG_CORE_MODEL_NAMES_FOUND_MODEL_H_
