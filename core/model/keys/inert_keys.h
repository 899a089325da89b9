// The keys that change nothing in what a model computes: nobody reads them, and nobody need hear of
// it. A table, by family; what a reader reads is none of it.
#ifndef NG_CORE_MODEL_KEYS_INERT_KEYS_H_
#define NG_CORE_MODEL_KEYS_INERT_KEYS_H_

#include <string>
#include <string_view>
#include <vector>

namespace ng {

// The keys of a config.json or of a GGUF file that are not inert in that family, in their order.
std::vector<std::string> WithoutInertKeys(std::vector<std::string> keys, std::string_view family);

// Whether a tensor is part of no computation: masks and frequencies that some programs store.
bool IsInertTensor(std::string_view name);

}  // namespace ng

#endif  // NG_CORE_MODEL_KEYS_INERT_KEYS_H_
