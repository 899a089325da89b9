// What a model's authors would have the sampler do, as its metadata say: generation_config.json of
// a folder, general.sampling.* of a GGUF file.
//
// Called when a config is read ([load]), before the model is opened.
#ifndef NG_CORE_MODEL_FILES_SUGGESTED_SAMPLING_H_
#define NG_CORE_MODEL_FILES_SUGGESTED_SAMPLING_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/formats/json.h"
#include "ng/status.h"

namespace ng {

// What a key says of its stage.
enum class SamplingRole {
  kStage,   // the stage runs, unless the value is the neutral one
  kDetail,  // how it runs, if it does
  kAlways,  // the stage runs, also where nothing is drawn
};

// A key of generation_config.json or of a GGUF file, null where it has none, and the option of the
// sampler stage that does the same, if there is one; a stage without an option is it.
struct SamplingKey {
  const char* name;
  const char* gguf_name;
  const char* stage;
  const char* option;
  double neutral;  // the value that changes nothing
  SamplingRole role = SamplingRole::kStage;
  // What transformers does where a file that has other keys lacks this one.
  double absent = neutral;
  bool list = false;  // of tokens; the value is how many there are

  bool IsOf(std::string_view other) const { return stage != nullptr && stage == other; }
};

// The keys in the order in which transformers applies what they ask for.
std::span<const SamplingKey> SamplingKeys();

struct SuggestedSampling {
  const SamplingKey* key;
  double value;
  std::string number;  // the value in the shortest form, "0.6"; or the list, "3,5"
  std::string origin;  // "/models/llama/generation_config.json: key \"temperature\""
  std::string text;    // "temperature 0.6", the key as the file spells it
};

struct SamplingSuggestions {
  std::vector<SuggestedSampling> values;  // in the order of SamplingKeys
  std::string path;                       // of the file that says so
};

// That an answer ends before each of these texts, which no file of these kinds says. Errors:
// ModelFileError: a text that no config can hold. REQUIRES: there are texts.
absl::StatusOr<SuggestedSampling> SuggestStops(std::span<const std::string> texts,
                                               const std::string& path);

// What counts of those who know a model by its name and of its own file: the first ones, with the
// file's behind them where they are lists alone, which say nothing of how tokens are drawn.
SamplingSuggestions Together(const SamplingSuggestions& named, SamplingSuggestions of_file);

// The suggestions that stand in a generation_config.json, or in a GGUF file's metadata. With
// do_sample = false, or a temperature of 0, which mean the same, those about drawing mean nothing.
// Tokens outside the vocabulary are never drawn anyway. Errors: ModelFileError for a value that is
// no number.
absl::StatusOr<SamplingSuggestions> ReadSuggestedSampling(const JsonFields& fields,
                                                          const std::string& path,
                                                          int64_t vocab_size);
absl::StatusOr<SamplingSuggestions> ReadGgufSampling(const JsonFields& metadata,
                                                     const std::string& path);

}  // namespace ng

#endif  // NG_CORE_MODEL_FILES_SUGGESTED_SAMPLING_H_
