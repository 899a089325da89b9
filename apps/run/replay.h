// --record: keeps what a run does. --replay: runs a record again, and verifies each step.
#ifndef NG_APPS_RUN_REPLAY_H_
#define NG_APPS_RUN_REPLAY_H_

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/run/command_line.h"
#include "apps/run/run_record.h"
#include "ng/engine.h"
#include "ng/files.h"
#include "ng/status.h"

namespace ng::run {

class Recorder {
 public:
  // REQUIRES: the engine has been loaded with RunNeeds::identity.
  static absl::StatusOr<Recorder> Begin(AtomicFileWriter file, const Engine& engine,
                                        std::span<const GenerateRequest> requests);

  void OnStep(int index, const StepRecord& step);
  void OnDone(int index, const Completion& completion);
  absl::Status Commit();

 private:
  Recorder(AtomicFileWriter file, RunRecord record)
      : file_(std::move(file)), record_(std::move(record)) {}

  AtomicFileWriter file_;
  RunRecord record_;
};

// The overrides that give the record's config, for EngineOptions.
std::vector<std::string> OverridesOf(const RunRecord& record);

// The record's requests, each checked by the engine. One that did not end by itself asks for the
// tokens that were recorded. Where run.max_new_tokens is another one than the record's, those that
// asked for the record's ask for that. Errors: ModelFileError, LimitError.
absl::StatusOr<std::vector<GenerateRequest>> RequestsOf(const RunRecord& record,
                                                        const CommandLine& line,
                                                        const Engine& engine);

class Replay {
 public:
  // Compares all but the steps. The record is borrowed. Errors: ModelFileError when the model is
  // another one, unless `line` allows it. REQUIRES: as Recorder::Begin.
  static absl::StatusOr<Replay> Begin(const RunRecord& record, const CommandLine& line,
                                      const Engine& engine);

  // What is not as recorded though no step has been computed, a line each:
  // "sampler.top_k.k = 40, recorded: 50".
  const std::vector<std::string>& changed() const { return changed_; }

  // Errors: DifferenceError that says what differs and what else is not as recorded.
  absl::Status OnStep(int index, const StepRecord& step);
  absl::Status OnDone(int index, const Completion& completion);

  // "equal: 2 requests, 24 steps", behind a run without a difference.
  std::string Verdict() const;

 private:
  explicit Replay(const RunRecord& record) : record_(&record) {}
  absl::Status Differs(int index, int64_t step, const std::string& how) const;

  const RunRecord* record_;
  std::vector<std::string> changed_;
  int64_t n_steps_ = 0;  // that were equal
};

}  // namespace ng::run

#endif  // NG_APPS_RUN_REPLAY_H_
