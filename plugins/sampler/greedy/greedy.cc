#include "plugins/sampler/greedy/greedy.h"

namespace ng {

absl::Status Greedy::Apply(int /*slot*/, const DrawKey& /*key*/, CandidateSet& candidates) {
  candidates.KeepTop(1);
  return candidates.MaxLogit().status();
}

}  // namespace ng
