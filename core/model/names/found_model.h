// A model that was found, and what a name may call it.
#ifndef NG_CORE_MODEL_NAMES_FOUND_MODEL_H_
#define NG_CORE_MODEL_NAMES_FOUND_MODEL_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ng/named_models.h"

namespace ng {

struct FoundModel {
  NamedModel shown = {};
  // A name is BASE[@REVISION][:TAG].
  std::string base = {};      // "Qwen/Qwen3-0.6B", "qwen3"
  std::string revision = {};  // empty: the one that counts
  std::string tag = {};       // "Q4_K_M", "0.6b"; empty: a folder
  // What else may stand there: every branch of the commit, the beginning of the commit; what the
  // file's name says of its weights, its name without .gguf, its place in the repository.
  std::vector<std::string> branches = {};
  std::string commit = {};
  std::string quant = {};
  std::string file = {};
  std::string within = {};
  // Of Ollama's: the files of its defaults and of its template, empty where there is none.
  std::string parameters = {};
  std::string go_template = {};
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
