// Generation: Engine::Generate one step at a time, on the caller's thread; for programs that look
// at a run between two steps, or add to it while it goes on.
//
//   NG_ASSIGN_OR_RETURN(auto generation, engine->Begin(std::move(requests), std::move(options)));
//   for (bool more = true; more;) {
//     NG_ASSIGN_OR_RETURN(more, generation->Step());   // the options' callbacks are called within
//   }
//   NG_ASSIGN_OR_RETURN(std::vector<ng::Completion> done, generation->Finish());
//
// Ids, bits, records, errors and the order of callbacks are those of Generate, which does the same.
//
// Thread: the engine's. The engine must outlive it. No function may be called from a callback.
#ifndef NG_GENERATION_H_
#define NG_GENERATION_H_

#include <memory>
#include <vector>

#include "ng/engine.h"
#include "ng/request.h"
#include "ng/status.h"

#pragma GCC visibility push(default)
namespace ng {

class Generation {
 public:
  // Ends what has not ended, as Finish.
  ~Generation();
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  // Feeds every request that has begun one step's tokens. Whether there is more to do; once the
  // engine's stop flag is set there is not. Errors: as Generate; then all requests have ended, and
  // every further step says the same.
  absl::StatusOr<bool> Step();

  // One more request, which joins at the next step that has room for it. Returns its index: the
  // number of those before it. Errors: as Engine::Begin; RuntimeError after an error or Finish.
  absl::StatusOr<int> Add(GenerateRequest request);
  // Ends a request as interrupted, with on_done. Nothing happens to one that has ended. Errors:
  // UsageError for an index that there is not; those of the callbacks and plugins.
  absl::Status Cancel(int index);

  // What has not ended ends as interrupted, and the probes of the config write what they have
  // gathered. Returns the completions by index. Errors: the run's; RuntimeError when called twice.
  absl::StatusOr<std::vector<Completion>> Finish();
  // Where Finish has given an error: the completions by index, as far as they came.
  std::vector<Completion> Take();

 private:
  friend class Engine;
  struct __attribute__((visibility("hidden"))) State;
  explicit Generation(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_GENERATION_H_
