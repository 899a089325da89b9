// SamplerMaker: makes the sampler chains of a session's requests on a thread of its own. A grammar
// may take half a second, in which the session's thread goes on with everybody else's steps.
//
// The shortest settings come first, so that a temperature need not wait for grammars. A chain takes
// memory: so many are made ahead as the session allows.
//
// Thread: the session's, but for `made`, which is called on the maker's.
#ifndef NG_CORE_RUNTIME_ENGINE_SAMPLER_MAKER_H_
#define NG_CORE_RUNTIME_ENGINE_SAMPLER_MAKER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/runtime/assembly/request_samplers.h"
#include "ng/status.h"

namespace ng {

class SamplerMaker {
 public:
  // What is made for a request, which the caller calls by a number.
  struct Job {
    int64_t id = 0;
    std::vector<std::string> settings;
    absl::StatusOr<RequestSampler> sampler;
    std::shared_ptr<std::atomic<bool>> stop;
    bool dropped = false;
  };
  using Jobs = std::list<Job>;

  // Borrows the samplers. `made` is called when there is something to Take; it must not throw.
  SamplerMaker(RequestSamplers& samplers, std::function<void()> made);
  ~SamplerMaker() { Stop(); }
  SamplerMaker(const SamplerMaker&) = delete;
  SamplerMaker& operator=(const SamplerMaker&) = delete;

  // Starts the thread. Errors: RuntimeError where the system gives none.
  absl::Status Start();
  // How many may be made that Take has not given.
  void Allow(int64_t n);
  void Ask(int64_t id, std::vector<std::string> settings);
  // Nothing is made for this request any more.
  void Drop(int64_t id);
  // What is made, or could not be, in the order in which that was found.
  Jobs Take();
  // Ends what is being made, forgets the rest, and ends the thread.
  void Stop();

 private:
  void Work();

  RequestSamplers& samplers_;
  const std::function<void()> made_;
  std::mutex mutex_;  // of all that follows
  std::condition_variable changed_;
  // A job goes from list to list as it is, so the thread needs no memory of its own.
  Jobs asked_;   // the shortest first
  Jobs making_;  // at most one
  Jobs done_;
  int64_t allowed_ = 0;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace ng

#endif  // NG_CORE_RUNTIME_ENGINE_SAMPLER_MAKER_H_
