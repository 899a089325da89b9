// The models that have names (ng/named_models.h), and the one that a name means.
//
// Thread: pure functions, but for the environment and the files.
#ifndef NG_CORE_MODEL_NAMES_MODEL_NAMES_H_
#define NG_CORE_MODEL_NAMES_MODEL_NAMES_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/names/found_model.h"
#include "ng/status.h"

namespace ng {

// A name and its parts, BASE[@REVISION][:TAG].
struct NameParts {
  std::string name;
  std::string base;
  std::string revision;
  std::string tag;
};
// Nothing where a part is empty.
std::optional<NameParts> NamePartsOf(const std::string& name);
// A name without what may stand before it where it is of the hub: "hf.co/".
std::string WithoutHubsHost(const std::string& name);
// Whether the tag is one of the model's: any where it is empty.
bool IsTag(const std::string& tag, const FoundModel& model);

// A folder that is looked through.
struct ModelPlace {
  std::string source;  // as in NamedModel
  std::string folder;
};

// Where this user's programs keep models, in the order of the search, and then `folders`. The
// environment counts as it does for these programs: HF_HUB_CACHE, HF_HOME, OLLAMA_MODELS,
// LLAMA_CACHE, XDG_CACHE_HOME, HOME.
std::vector<ModelPlace> ModelPlaces(const std::vector<std::string>& folders);

// A place that cannot be read, or a folder of model.folders that is not there, is a model with a
// fault.
std::vector<FoundModel> ModelsOf(const ModelPlace& place);

// Whether a text can be a name: it does not begin as a path does ("/", "./", "../", "~").
bool CanBeModelName(std::string_view text);

// What to say of a name that nobody knows.
std::string UnknownName(std::string_view name);

// The model that a name means: of the first place that has such a one without a fault. A whole name
// counts before a file's own, and its spelling before one with other letters. Nothing where no
// place has such a model. Errors: UsageError: several have this name, which lists them;
// ModelFileError: it has a fault, or only other revisions or tags are there, which are listed.
absl::StatusOr<std::optional<FoundModel>> FindModel(const std::string& name,
                                                    const std::vector<ModelPlace>& places);

}  // namespace ng

#endif  // NG_CORE_MODEL_NAMES_MODEL_NAMES_H_
