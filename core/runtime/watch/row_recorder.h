// RowRecorder: what a run wants to keep of its steps beside the tokens: logits, attention rows. It
// asks for them before a step, and copies them afterwards. Off, it costs a test per sequence and
// step.
#ifndef NG_CORE_RUNTIME_WATCH_ROW_RECORDER_H_
#define NG_CORE_RUNTIME_WATCH_ROW_RECORDER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/model/step/language_model.h"
#include "core/model/step/step_batch.h"
#include "ng/attention_backend.h"
#include "ng/request.h"
#include "ng/tensor_view.h"

namespace ng {

// The rows of logits that a step may have for prompts that are scored, beside those that choose
// tokens: a row has the size of the vocabulary.
inline constexpr int64_t kScoredRows = 128;

// What a step feeds of one request: its ids at [begin, end) of the sequence.
struct FedTokens {
  int index = 0;  // of the request
  int entry = 0;  // its place in the step
  int64_t begin = 0;
  int64_t end = 0;
  bool newest = false;  // the request's newest id is among them
  bool again = false;   // only for the rows of the newest id: its token has been chosen already
};

// How far a request's tensors have been kept.
struct KeptRows {
  int64_t n_logits = 0;                 // prompt rows in captured.logits
  int64_t n_queries = 0;                // queries in captured.attn_full
  std::vector<AttentionRow> last_rows;  // of the newest id, as far as the run traces them
  // Of the query whose token is about to be chosen, where it is asked for.
  std::optional<MissedAttention> missed = {};
  bool scoring = false;  // tokens of its prompt are still to be scored
};

class RowRecorder {
 public:
  // The options are borrowed.
  RowRecorder(const LanguageModel& model, const GenerateOptions& options);

  // Every row of the prompt is kept, not only what chooses a token.
  bool keeps_prompt() const {
    return options_.capture_logits || every_query() || !options_.capture_points.empty();
  }
  // Whether the newest id is to be fed although generating does not need it, for its rows.
  bool WantsNewest(const Completion& completion, const KeptRows& kept, int64_t capacity) const;

  // Forgets the last step.
  void BeginStep();
  // Asks for what the run keeps of these ids. Called with rising `entry`. Returns how many of the
  // ids, the last ones, need logits.
  int64_t Want(const FedTokens& fed, const Completion& completion, const KeptRows& kept);
  // The rows to capture in this step, per layer; empty when none is wanted.
  std::span<const std::vector<ProbabilityRow>> captures() const;
  // What the rows of a step missed, for StepBatch::missed; empty where it is not asked for.
  std::span<MissedRow> missed() { return missed_; }
  // The same of one of these ids, the first being 0.
  std::optional<MissedAttention> MissedOf(const FedTokens& fed, int64_t row) const;
  // Copies what was wanted of these ids. logits: [n, vocab_size], row 0 is the first that Want
  // said.
  void Keep(const FedTokens& fed, const TensorView<const float, 2>& logits, Completion* completion,
            KeptRows* kept);
  // Copies the logits that chose a token. [vocab_size]
  void KeepChoice(std::span<const float> logits, Completion* completion) const;

 private:
  // A run of queries of one entry; their rows lie in held_ ordered by (pos, layer, head).
  struct Run {
    int entry = 0;
    int64_t first_pos = 0;
    size_t held_begin = 0;
  };

  // The rows of all positions are wanted, not only those of the newest id.
  bool every_query() const { return options_.capture_attn_full || options_.on_attn_rows; }
  bool rows_on() const { return !options_.trace_layers.empty(); }
  bool KeepsLogits(const Completion& completion, const KeptRows& kept) const {
    return options_.capture_logits && kept.n_logits < completion.prompt_len;
  }
  // The first query of these ids whose rows are wanted; fed.end: none of them.
  int64_t FirstQuery(const FedTokens& fed, const KeptRows& kept) const;
  // The rows of one query, ordered by (layer, head). REQUIRES: they were wanted, and not taken yet.
  std::vector<AttentionRow> Take(int entry, int64_t pos);

  const GenerateOptions& options_;
  const int64_t max_positions_;
  const bool all_logits_;  // points behind the layers are kept or looked at
  const bool asks_missed_;
  std::vector<int> heads_;
  std::vector<Run> runs_;
  std::vector<AttentionRow> held_;
  std::vector<MissedRow> missed_;                      // [n_rows] where it is asked for
  std::vector<int64_t> first_missed_;                  // the first of them of each entry
  std::vector<std::vector<ProbabilityRow>> captures_;  // [n_layers]
};

}  // namespace ng

#endif  // NG_CORE_RUNTIME_WATCH_ROW_RECORDER_H_
