// Mirostat 2 (Basu et al. 2021, "Mirostat: A Neural Text Decoding Algorithm that Directly Controls
// Perplexity", algorithm 2; as llama.cpp has it): keeps the candidates whose surprise, -log2 p, is
// at most mu, at least the best; and moves mu by eta times how far the surprise of the token drawn,
// among those kept, is from tau. mu begins at 2 tau. The last stage of a chain: what a later one
// removes it does not know.
#ifndef NG_PLUGINS_SAMPLER_MIROSTAT_MIROSTAT_H_
#define NG_PLUGINS_SAMPLER_MIROSTAT_MIROSTAT_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ng/history_stage.h"
#include "ng/plugin.h"

namespace ng {

struct MirostatOptions {
  double tau = 5.0;  // in (0, 100], bits
  double eta = 0.1;  // in [0, 10]
};

// What it remembers behind each token is mu.
class Mirostat final : public HistoryStage<double> {
 public:
  // Errors: UsageError when an option is out of range.
  static absl::StatusOr<std::unique_ptr<SamplerStage>> Create(const MirostatOptions& options,
                                                              const ModelShape& model);

  absl::Status Open(int slot, std::span<const int32_t> prompt_ids) override;
  absl::Status Fork(int from, int to) override;
  absl::Status Truncate(int slot, int64_t n_tokens) override;
  // A token that was not drawn of what an Apply left moves nothing: another one, or one more.
  absl::StatusOr<SequenceEnd> Accept(int slot, int32_t token) override;
  absl::Status Apply(int slot, const DrawKey& key, CandidateSet& candidates) override;

 private:
  // The candidates that the last Apply of a slot left, until one is drawn.
  struct Left {
    std::vector<Candidate> items;  // [vocab_size]
    int64_t n = 0;
    double log_total = 0.0;
  };

  Mirostat(const MirostatOptions& options, const ModelShape& model);
  Left& LeftOf(int slot);

  const MirostatOptions options_;
  const int64_t vocab_size_;
  std::vector<Left> left_;  // [slot]
};

}  // namespace ng

#endif  // NG_PLUGINS_SAMPLER_MIROSTAT_MIROSTAT_H_
