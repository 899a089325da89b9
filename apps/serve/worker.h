// Worker: a thread that does one thing after the other. Requests are read and encoded on it, so
// that the server's thread never waits for a long one.
//
// Thread: Do may be called from any thread.
#ifndef NG_APPS_SERVE_WORKER_H_
#define NG_APPS_SERVE_WORKER_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace ng::serve {

class Worker {
 public:
  Worker();
  // Ends what it does; what waits is dropped.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void Do(std::function<void()> work);
  // Whether it does something, or something waits.
  bool busy() const;

 private:
  void Run();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool works_ = false;
  bool ends_ = false;
  std::thread thread_;  // the last: it uses the others
};

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_WORKER_H_
