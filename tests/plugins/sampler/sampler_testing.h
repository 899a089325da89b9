// What the tests of the sampler stages share: running a stage on plain vectors, and comparing what
// the chain draws with the distribution that it should have.
#ifndef NG_TESTS_PLUGINS_SAMPLER_SAMPLER_TESTING_H_
#define NG_TESTS_PLUGINS_SAMPLER_SAMPLER_TESTING_H_

#include <rapidcheck.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ng/sampler.h"
#include "tests/support/floats.h"

namespace ng {

inline bool operator==(const Candidate& a, const Candidate& b) {
  return a.id == b.id && a.logit == b.logit;
}

// Candidate i is token i.
std::vector<Candidate> Candidates(std::span<const float> logits);

// By falling logit, equal ones by rising id: the order in which candidates are kept.
std::vector<Candidate> Ordered(std::span<const float> logits);

// The softmax in double.
std::vector<double> Softmax(std::span<const float> logits);

// What slot 0 of the stage leaves of dense logits, in rising order of id.
absl::StatusOr<std::vector<Candidate>> Apply(SamplerStage& stage, std::span<const float> logits);

// The same after all candidates were moved: the set is sparse, in falling order of id.
absl::StatusOr<std::vector<Candidate>> ApplySparse(SamplerStage& stage,
                                                   std::span<const float> logits);

// Fails the test unless 20000 draws of a chain of this stage fit `probabilities` by a chi-square
// test at 1e-4. The draws have fixed keys, so the verdict is the same in every run. Tokens of
// probability 0 must not be drawn at all.
void ExpectDraws(std::unique_ptr<SamplerStage> stage, std::span<const int32_t> prompt_ids,
                 std::span<const float> logits, std::span<const double> probabilities);

// 1 to 60 logits, half of the vectors with many equal values.
rc::Gen<std::vector<float>> Logits();

// A fraction in [0, 1].
rc::Gen<double> Fraction();

}  // namespace ng

#endif  // NG_TESTS_PLUGINS_SAMPLER_SAMPLER_TESTING_H_
