// What a run writes: completions on stdout, and the steps file. (Tensors: tensor_saver.h.)
#ifndef NG_APPS_RUN_OUTPUTS_H_
#define NG_APPS_RUN_OUTPUTS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/common/token_text.h"
#include "apps/run/command_line.h"
#include "ng/engine.h"
#include "ng/files.h"
#include "ng/status.h"

namespace ng::run {

// Completions to stdout, in the order of the requests whatever order they finish in.
class CompletionWriter {
 public:
  // `first_index` is the index of the first request; the turns of a conversation go on counting.
  CompletionWriter(const Engine& engine, bool jsonl, size_t n_requests, int first_index);

  // Streams the token's text when there is one request and text is asked for.
  absl::Status OnStep(const StepRecord& record);
  absl::Status OnDone(int index, const Completion& completion);

  // Where streamed text goes instead of to stdout: each piece as it comes, without the line's end.
  using Sink = std::function<absl::Status(std::string_view text)>;
  void set_sink(Sink sink) { sink_ = std::move(sink); }

 private:
  absl::Status Write(int index, const Completion& completion);

  const Engine& engine_;
  bool jsonl_;
  bool stream_;
  int first_index_;
  Sink sink_;
  AnswerStream text_;                                // that is streamed
  std::vector<std::optional<Completion>> finished_;  // [n_requests]; each waits for those before
  size_t next_ = 0;
};

// --steps: writes a line for each generated token.
class StepsWriter {
 public:
  // What a line has beside the step itself.
  struct Shown {
    bool stages = false;
    bool attn_rows = false;
  };
  StepsWriter(AtomicFileWriter file, const Engine& engine, Shown shown)
      : file_(std::move(file)), engine_(&engine), shown_(shown) {}
  absl::Status OnStep(int index, const StepRecord& record);
  absl::Status Commit() { return file_.Commit(); }

 private:
  AtomicFileWriter file_;
  const Engine* engine_;
  Shown shown_;
};

// --kept: writes a line for each layer and kv head whenever tokens have left the cache.
class KeptWriter {
 public:
  explicit KeptWriter(AtomicFileWriter file) : file_(std::move(file)) {}
  absl::Status OnLeft(int index, const HeldPositions& held);
  absl::Status Commit() { return file_.Commit(); }

 private:
  AtomicFileWriter file_;
};

// --debug-cache: writes lines about the cache to stderr, if the command line asks for them.
void AddCacheDebug(const CommandLine& line, GenerateOptions* options);

// "seed 1, eot, prefill 12 tokens at 340.1 tok/s, generated 46 tokens, decode at 512.3 tok/s". With
// a snapshot it goes on ", loaded 8 of 12 prompt tokens", with a cache of pages ", cache 3 of 8
// pages (12.5 % empty), shared 0 of 12 prompt tokens".
absl::StatusOr<std::string> ClosingLine(const Engine& engine,
                                        std::span<const Completion> completions);

// Of the first completion that its number of tokens cut: ", cut after 64 tokens; -n 128 gives
// more". Empty: none was cut.
std::string HowToGetMore(const Engine& engine, std::span<const GenerateRequest> requests,
                         std::span<const Completion> completions);

}  // namespace ng::run

#endif  // NG_APPS_RUN_OUTPUTS_H_
