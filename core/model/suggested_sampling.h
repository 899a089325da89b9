// What a model's authors would have the sampler do, as its metadata say. Nothing of it is used: a
// run says what it leaves out.
#ifndef NG_CORE_MODEL_SUGGESTED_SAMPLING_H_
#define NG_CORE_MODEL_SUGGESTED_SAMPLING_H_

#include <string>
#include <vector>

#include "core/formats/json.h"
#include "ng/status.h"

namespace ng {

// A key of generation_config.json or of a GGUF file, null where it has none, and the option of the
// sampler stage that does the same, if there is one; a stage without an option is it.
struct SamplingKey {
  const char* name;
  const char* gguf_name;
  const char* stage;
  const char* option;
  double neutral;  // the value that changes nothing
};

struct SuggestedSampling {
  const SamplingKey* key;
  double value;
  std::string text;  // "temperature 0.6", the key as the file spells it
};

// The suggestions that stand in a generation_config.json, or in a GGUF file's metadata. With
// do_sample = false the others mean nothing. Errors: ModelFileError for a value that is no number.
absl::StatusOr<std::vector<SuggestedSampling>> ReadSuggestedSampling(const JsonFields& fields);
absl::StatusOr<std::vector<SuggestedSampling>> ReadGgufSampling(const JsonFields& metadata);

}  // namespace ng

#endif  // NG_CORE_MODEL_SUGGESTED_SAMPLING_H_
