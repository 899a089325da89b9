// Models that also read images or sounds: their text part, which is a model of a family by itself.
//
// Their config.json has that part's in "text_config", and their files have its tensors under a
// prefix. With a prompt of text alone the other parts compute nothing.
#ifndef NG_CORE_MODEL_KEYS_TEXT_PART_H_
#define NG_CORE_MODEL_KEYS_TEXT_PART_H_

#include <memory>
#include <optional>
#include <string>

#include "core/formats/json.h"
#include "core/formats/tensor_source.h"
#include "ng/status.h"

namespace ng {

// The text part's config, with what the model around it says for it; nothing where a config.json is
// of no such model. Errors: ModelFileError naming `path`, the key, the value found and what is
// allowed.
absl::StatusOr<std::optional<JsonDocument>> TextConfigOf(const JsonDocument& config,
                                                         const std::string& path);

// The tensors of the text part, under the names that its family has for them.
std::unique_ptr<TensorSource> TextTensorsOf(std::unique_ptr<TensorSource> source);

}  // namespace ng

#endif  // NG_CORE_MODEL_KEYS_TEXT_PART_H_
