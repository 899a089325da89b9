// How far a fetch is: a line that changes on a terminal, and elsewhere a line for each file.
#ifndef NG_APPS_FETCH_PROGRESS_H_
#define NG_APPS_FETCH_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>

namespace ng::fetch {

// "1.2 GB", "3.4 MB", "12 bytes".
std::string BytesText(int64_t n_bytes);
// "1:02:03", "2:03", "3 s".
std::string TimeText(int64_t seconds);

struct FetchState {
  int64_t n_bytes = 0;  // that are there
  int64_t n_came = 0;   // of them: this time
  int64_t n_all = 0;    // what is to be there
  int n_files = 0;
  int n_done = 0;
};

class FetchProgress {
 public:
  using Clock = std::chrono::steady_clock;

  explicit FetchProgress(std::string_view program);
  // Removes the line.
  ~FetchProgress();
  FetchProgress(const FetchProgress&) = delete;
  FetchProgress& operator=(const FetchProgress&) = delete;

  void Show(const FetchState& state, Clock::time_point now);
  // A file is there.
  void Done(const std::string& path, int64_t size);
  // A line for a user who wants to know all.
  void Tell(std::string_view text);
  void Clear();

  // The text of the line.
  std::string Line(const FetchState& state, Clock::time_point now);

 private:
  const std::string program_;
  const bool terminal_;
  bool shown_ = false;
  int64_t told_tenth_ = 0;
  Clock::time_point next_;
  std::deque<std::pair<Clock::time_point, int64_t>> came_;  // of the last seconds
};

}  // namespace ng::fetch

#endif  // NG_APPS_FETCH_PROGRESS_H_
