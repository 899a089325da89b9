// How many tokens an answer may have where the config leaves it open: run.max_new_tokens = auto, or
// -1, which is the same for a text to go on with and without the bound at the end of the next
// lines.
//
// A text to go on with gets 64 then. An answer to a message ends when the model ends it, so it gets
// what fits: the model's context, the cache, and half of the memory that a run of 64 new tokens
// leaves; at most 8,192.
//
// Thread: the engine's.
#ifndef NG_APPS_COMMON_ANSWER_ROOM_H_
#define NG_APPS_COMMON_ANSWER_ROOM_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "ng/config.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng {

inline constexpr int64_t kMostAnswerTokens = 8192;

// Whether run.max_new_tokens is auto, or -1.
bool AnswersAreOpen(const Config& config);
// Whether it is -1: nothing but the context and the memory ends an answer, or a text to go on with.
bool NothingLimits(const Config& config);
// Refuses other numbers below 0. Errors: UsageError.
absl::Status CheckMostTokens(const Config& config);
// The new tokens that an open answer has where there is room for them.
int64_t MostOfOpenAnswer(const Engine& engine);

// Gives the request the most new tokens up to `most` with which CheckRequest takes it, at least
// one. Errors: those of CheckRequest with one.
absl::Status FitContext(const Engine& engine, int64_t most, GenerateRequest* request);

// The largest number in [from, to] that fits; `from` fits. It is asked for few of them.
int64_t Largest(int64_t from, int64_t to, absl::FunctionRef<bool(int64_t)> fits);

// Tokens that all of a run's sequences have room for together.
int64_t SharedTokens(const RunPlan& plan);
// Tokens that each of a run's sequences has room for when all of them are open.
int64_t SequenceShare(const RunPlan& plan);

// Lowers the new tokens of the requests `open`, whose contexts they fit, to what the memory gives.
// What 64 new tokens would need is never lowered: Load says whether it is there. Returns why they
// are no more: "the most of an answer", for --dry-run. `needs`: what the run of these requests
// needs.
using NeedsOfRequests = absl::FunctionRef<RunNeeds(std::span<const GenerateRequest>)>;
std::string_view FitMemory(const Engine& engine, std::span<const size_t> open,
                           NeedsOfRequests needs, std::vector<GenerateRequest>* requests);

}  // namespace ng

#endif  // NG_APPS_COMMON_ANSWER_ROOM_H_
