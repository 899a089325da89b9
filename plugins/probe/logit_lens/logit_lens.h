// The logit lens (nostalgebraist, 2020): what the final norm and the head make of the residual
// stream behind each layer, as if the layers above it were not there. Written as JSON, a line for
// each position:
//
//   {"index": 0, "pos": 7, "token": 6, "next": 518, "layers": [
//     {"layer": 0, "rank": 41, "top": [[311, 0.08, "ly"], ...]}, ...]}
//
// `next` is the token that followed, and its rank in each layer is 0 for the most probable one. The
// texts are null without a tokenizer.
#ifndef NG_PLUGINS_PROBE_LOGIT_LENS_LOGIT_LENS_H_
#define NG_PLUGINS_PROBE_LOGIT_LENS_LOGIT_LENS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ng/probe.h"

namespace ng {

struct LogitLensOptions {
  std::string_view file = {};
  std::span<const int64_t> layers = {};  // empty: all
  bool every_position = false;           // not only those whose logits chose a token
  int64_t top = 10;
};

class LogitLens final : public Probe {
 public:
  // Errors: UsageError for an option.
  static absl::StatusOr<std::unique_ptr<Probe>> Create(const LogitLensOptions& options,
                                                       const PluginContext& context,
                                                       const ProbeModel& model);

  ProbeUse Use() const override;
  absl::Status Begin(const ProbeRequest& request) override;
  absl::Status OnPoint(const PointRows& rows) override;
  absl::Status Accept(int request, int32_t token) override;
  absl::Status EndRun(const ProbeRun& run) override;

 private:
  // What a layer made of a position.
  struct Seen {
    int layer = 0;
    int64_t rank = 0;  // of the token that followed
    std::vector<std::pair<int32_t, float>> top;
  };
  struct Position {
    int32_t token = 0;
    int32_t next = 0;
    std::vector<Seen> layers;
  };
  struct Request {
    std::vector<int32_t> ids;
    std::map<int64_t, Position> positions;
    // The newest row of each layer, which waits for the token that follows. [n_layers, width]
    std::vector<float> newest;
    TokenRow newest_token;
  };

  LogitLens(const LogitLensOptions& options, std::vector<PointShape> points,
            const PluginContext& context, const ProbeModel& model);
  // What the head makes of `n` rows, [n, vocab_size] in logits_.
  absl::Status Look(const float* rows, int64_t stride, int64_t n);
  // Adds what row `row` of logits_ says of a position behind a layer. next: the token that followed
  void Add(Request& request, const TokenRow& token, int32_t next, int layer, int64_t row);
  std::string LineOf(int64_t index, int64_t pos, const Position& position) const;

  const std::string path_;
  const bool every_position_;
  const int64_t top_;
  const std::vector<PointShape> points_;                 // the `out` of each layer, in order
  const std::span<const std::string_view> token_bytes_;  // [vocab_size] or empty
  const int64_t vocab_size_;
  const std::atomic<bool>* const stop_;
  LogitHead* const head_;
  std::vector<float> logits_;
  std::vector<Request> requests_;
};

}  // namespace ng

#endif  // NG_PLUGINS_PROBE_LOGIT_LENS_LOGIT_LENS_H_
