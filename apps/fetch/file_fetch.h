// One file on its way from the hub into the cache.
#ifndef NG_APPS_FETCH_FILE_FETCH_H_
#define NG_APPS_FETCH_FILE_FETCH_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "apps/fetch/cache/blob.h"
#include "apps/fetch/cache/layout.h"
#include "apps/fetch/hub/listing.h"
#include "apps/fetch/hub/refusal.h"
#include "apps/fetch/hub/settings.h"
#include "apps/fetch/web/call.h"
#include "apps/fetch/web/exchange.h"
#include "ng/status.h"

namespace ng::fetch {

// What all files of a fetch have in common. It outlives them.
struct FetchContext {
  Exchanges& web;
  const HubSettings& settings;
  const RepoCache& cache;
  std::string repository;
  std::string commit;
  int tries = 0;                                    // after a failure that may pass
  std::function<void(std::string_view)> tell = {};  // what happens, for whoever wants to know
  std::function<void(std::string_view)> warn = {};  // what everybody should know
};

// What is known of a file before anything is asked: its place in the cache.
std::string ExpectedEtag(const RepoFile& file);
// Whether the file is there, whole as far as its size says.
bool IsThere(const RepoCache& cache, const std::string& commit, const RepoFile& file);

class FileFetch {
 public:
  FileFetch(const FetchContext& context, RepoFile file);

  // Goes on. True: the file is whole, right, and visible. Errors: ModelFileError: the hub does not
  // have it, not for this user, or gives something else; RuntimeError: it cannot be reached;
  // OutputError. What has come stays for another time.
  absl::StatusOr<bool> Step();

  const RepoFile& file() const { return file_; }
  int64_t n_bytes() const;                    // that are there
  int64_t n_came() const { return n_came_; }  // of them: from the hub, this time
  // Whether it goes on without an answer of the hub.
  bool is_busy() const { return state_ == State::kBegin || state_ == State::kHash; }

 private:
  using Clock = std::chrono::steady_clock;
  enum class State { kBegin, kAsk, kLock, kHash, kGet, kPause, kDone };

  absl::Status Begin();
  absl::Status Ask();
  absl::Status TakeFacts(const HttpAnswer& answer);
  absl::Status TakeHashes(const HttpAnswer& answer);
  absl::Status Lock();
  absl::Status Hash();
  absl::Status Get();
  absl::Status TakeBody(const HttpAnswer& answer, std::string_view bytes);
  absl::Status TakeEnd(const HttpAnswer& answer);
  absl::Status Finish();
  absl::Status Show();
  absl::Status TryAgain(const HttpAnswer& answer, const std::string& why);
  void Pause(double seconds, State next);
  Subject SubjectOf(const std::string& url) const;

  const FetchContext& context_;
  const RepoFile file_;
  State state_ = State::kBegin;
  State after_pause_ = State::kAsk;
  Clock::time_point until_;
  Patience patience_;
  std::unique_ptr<Call> call_;

  std::string etag_;
  std::string url_;  // where the bytes are
  BlobFacts facts_;
  std::unique_ptr<BlobLock> lock_;
  std::unique_ptr<PartialBlob> partial_;
  int64_t from_ = 0;         // of the bytes that are asked for
  bool began_ = false;       // they come
  bool from_start_ = false;  // the place of the first one cannot be chosen
  bool was_wrong_ = false;   // they have been whole and not right
  bool told_waiting_ = false;
  int64_t n_came_ = 0;
};

}  // namespace ng::fetch

#endif  // NG_APPS_FETCH_FILE_FETCH_H_
