// The shapes that attention is checked on, and what the formula needs to know of them.
#ifndef NG_CORE_CONFORM_ATTENTION_CASES_H_
#define NG_CORE_CONFORM_ATTENTION_CASES_H_

#include <string_view>
#include <vector>

#include "ng/conform/attention.h"

namespace ng::conform {

// Over f32. The first one is so plain that no backend may refuse it. Lengths are around a tile and
// around splits of 128, 256 and 512 keys.
std::vector<AttentionCase> ShapeCases(const AttentionSubject& subject);
// Over every codec of keys and of values.
std::vector<AttentionCase> CodecCases(const AttentionSubject& subject);
// What a backend that lists the feature must do.
std::vector<AttentionCase> FeatureCases(const AttentionSubject& subject, std::string_view feature);

// The last positions of every sequence and some before, on every head in turn; one of them twice.
std::vector<CaptureRequest> CapturesOf(const AttentionCase& c);

// The case for the formula over rows as they are stored: the rule too, and no codecs.
AttentionCase WithRule(AttentionCase c, const AttentionRule& rule);

// The output [v_width] that these probabilities [pos + 1] make of the stored values.
std::vector<float> WeighValues(const AttentionCase& c, const SequenceData& stored,
                               const CaptureRequest& at, const std::vector<float>& probabilities);

}  // namespace ng::conform

#endif  // NG_CORE_CONFORM_ATTENTION_CASES_H_
