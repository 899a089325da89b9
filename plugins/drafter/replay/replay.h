// Proposes the answers that a file has, right or wrong by a set rate: to measure what drafts gain.
//
// Whether the token of a step is proposed rightly is drawn for each token by itself, from (seed,
// request, step). So it does not depend on how many tokens are asked for at a time.
#ifndef NG_PLUGINS_DRAFTER_REPLAY_REPLAY_H_
#define NG_PLUGINS_DRAFTER_REPLAY_REPLAY_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ng/drafter.h"

namespace ng {

class ReplayDrafter final : public Drafter {
 public:
  // Options `file`, `error` and `seed`. Errors: UsageError without a file; ModelFileError where it
  // cannot be read, or holds something else than ids of the vocabulary.
  static absl::StatusOr<std::unique_ptr<Drafter>> Create(const PluginContext& context);

  absl::Status Load(const DrafterSpec& spec) override;
  absl::Status Open(int slot, const DraftedRequest& request) override;
  absl::Status Accept(int slot, int32_t token) override;
  absl::Status Close(int slot) override;
  absl::Status Propose(std::span<Draft> drafts) override;

 private:
  struct Slot {
    int64_t request = 0;
    int64_t step = 0;  // that chooses the next token
  };

  explicit ReplayDrafter(const PluginContext& context)
      : error_(context.options.Real("error")),
        seed_(context.options.Int("seed")),
        vocab_size_(context.model.vocab_size) {}
  absl::Status Read(const std::string& path);
  // A line of the file, with its number from 1.
  absl::Status ReadLine(const std::string& path, const std::string& line, int64_t number);
  int32_t Proposed(const Slot& slot, int64_t step, int32_t token) const;

  const double error_;
  const int64_t seed_;
  const int64_t vocab_size_;
  std::vector<std::vector<int32_t>> answers_;  // by request
  std::vector<Slot> slots_;
};

}  // namespace ng

#endif  // NG_PLUGINS_DRAFTER_REPLAY_REPLAY_H_
