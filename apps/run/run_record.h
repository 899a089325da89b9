// A record of a run, as a file: what ran, what came out, and a hash of each step's logits. What
// --record writes and --replay reads.
//
// The file is one JSON object, as README.md beside this file describes. Reading is strict: it knows
// every field, and refuses any other.
#ifndef NG_APPS_RUN_RUN_RECORD_H_
#define NG_APPS_RUN_RUN_RECORD_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ng/engine.h"
#include "ng/fingerprint.h"
#include "ng/status.h"

namespace ng::run {

struct RecordedStep {
  int32_t id = 0;
  uint64_t logits_hash = 0;  // StepRecord::logits_hash
};

struct RecordedRequest {
  std::vector<int32_t> prompt_ids;
  int64_t max_new_tokens = 0;
  int64_t context_tokens = 0;  // GenerateRequest::context_tokens
  std::vector<RecordedStep> steps;
  std::string stop_reason;  // StopReasonName

  // Whether it ended by itself: not by a signal or an error.
  bool ended() const { return stop_reason != "interrupted" && stop_reason != "error"; }
};

struct RunRecord {
  RunFingerprint made_of;
  std::vector<std::pair<std::string, std::string>> config;  // {key, value}, every key
  std::vector<RecordedRequest> requests;
  // Of a record that was read: its checksum does not fit, so that it is not as it was written.
  bool edited = false;
};

std::string RecordText(const RunRecord& record);

// `stop` ends the wait for a pipe's writer. Errors: ModelFileError that names the field, the value
// and what it must be; InterruptedError.
absl::StatusOr<RunRecord> ReadRecord(const std::string& path, const std::atomic<bool>* stop);
// The same of the text of a file that is called `name`.
absl::StatusOr<RunRecord> ParseRecord(const std::string& text, const std::string& name);

}  // namespace ng::run

#endif  // NG_APPS_RUN_RUN_RECORD_H_
