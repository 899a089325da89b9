#include "core/model/suggested_sampling.h"

#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"

namespace ng {
namespace {

constexpr SamplingKey kKeys[] = {
    {"temperature", "general.sampling.temp", "temperature", "value", 1},
    {"top_k", "general.sampling.top_k", "top_k", "k", 0},
    {"top_p", "general.sampling.top_p", "top_p", "p", 1},
    {"min_p", "general.sampling.min_p", "min_p", "p", 0},
    {"repetition_penalty", "general.sampling.penalty_repeat", "repetition_penalty", "value", 1},
    {"typical_p", nullptr, nullptr, nullptr, 1},
    {"epsilon_cutoff", nullptr, nullptr, nullptr, 0},
    {"eta_cutoff", nullptr, nullptr, nullptr, 0},
    {"no_repeat_ngram_size", nullptr, nullptr, nullptr, 0},
    {"num_beams", nullptr, nullptr, nullptr, 1},
    {nullptr, "general.sampling.xtc_probability", nullptr, nullptr, 0},
    {nullptr, "general.sampling.mirostat", nullptr, nullptr, 0},
};
constexpr SamplingKey kDoSample = {"do_sample", nullptr, "greedy", nullptr, 1};

constexpr Range<double> kAny = {std::numeric_limits<double>::lowest(),
                                std::numeric_limits<double>::max()};

absl::StatusOr<std::vector<SuggestedSampling>> Read(const JsonFields& fields,
                                                    const char* SamplingKey::*spelling) {
  std::vector<SuggestedSampling> found;
  for (const SamplingKey& key : kKeys) {
    const char* const name = key.*spelling;
    if (name == nullptr) continue;
    NG_ASSIGN_OR_RETURN(const std::optional<double> value, fields.OptionalNumber(name, kAny));
    if (value) found.push_back({&key, *value, absl::StrCat(name, " ", *value)});
  }
  return found;
}

}  // namespace

absl::StatusOr<std::vector<SuggestedSampling>> ReadSuggestedSampling(const JsonFields& fields) {
  NG_ASSIGN_OR_RETURN(std::vector<SuggestedSampling> found, Read(fields, &SamplingKey::name));
  NG_ASSIGN_OR_RETURN(const std::optional<bool> sample, fields.OptionalBool(kDoSample.name));
  if (sample && !*sample) found = {{&kDoSample, 0, "do_sample false"}};
  return found;
}

absl::StatusOr<std::vector<SuggestedSampling>> ReadGgufSampling(const JsonFields& metadata) {
  return Read(metadata, &SamplingKey::gguf_name);
}

}  // namespace ng
