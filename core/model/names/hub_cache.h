// Hugging Face's cache: a folder models--ORG--NAME for each repository, with refs/REVISION, which
// names a commit, and snapshots/COMMIT, whose files are links into blobs.
//
// Source: huggingface_hub, "Understand caching".
#ifndef NG_CORE_MODEL_NAMES_HUB_CACHE_H_
#define NG_CORE_MODEL_NAMES_HUB_CACHE_H_

#include <string>
#include <vector>

#include "core/model/names/found_model.h"

namespace ng {

// The models of every repository. The one that refs/main names, or else the only one, has an empty
// revision.
std::vector<FoundModel> ModelsOfHubCache(const std::string& folder);

}  // namespace ng

#endif  // NG_CORE_MODEL_NAMES_HUB_CACHE_H_
