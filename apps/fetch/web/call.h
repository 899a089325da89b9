// A request to the hub and, where its answer leads elsewhere, to there. The token goes to the hub
// alone.
#ifndef NG_APPS_FETCH_WEB_CALL_H_
#define NG_APPS_FETCH_WEB_CALL_H_

#include <cstdint>
#include <memory>
#include <string>

#include "apps/fetch/hub/settings.h"
#include "apps/fetch/web/exchange.h"
#include "ng/status.h"

namespace ng::fetch {

struct Asked {
  std::string url;
  bool head = false;
  int64_t from = 0;
  // An answer that says what the file is ends the call, wherever the file lies.
  bool until_linked = false;
};

class Call {
 public:
  // `web` and `settings` outlive the call.
  Call(Exchanges& web, const HubSettings& settings, Asked asked, BodySink sink);

  // Goes on. True: it has ended. Errors: ModelFileError: it leads nowhere or in a circle;
  // RuntimeError.
  absl::StatusOr<bool> Step();

  // REQUIRES: Step has returned true.
  const HttpAnswer& answer() const { return exchange_->answer(); }
  // Where the answer came from.
  const std::string& url() const { return asked_.url; }
  bool from_hub() const;
  // Where the file lies, of an answer that leads there; empty: here.
  const std::string& leads_to() const { return leads_to_; }

 private:
  Exchanges& web_;
  const HubSettings& settings_;
  Asked asked_;
  const BodySink sink_;
  int n_hops_ = 0;
  std::string leads_to_;
  std::unique_ptr<Exchange> exchange_;
};

// How long to wait before another try, and when to give up.
class Patience {
 public:
  // Gives up after `tries` failures, of which none has brought anything.
  explicit Patience(int tries) : tries_(tries) {}

  // The seconds to wait after a failure; negative: it is enough. `n_bytes`: what is there by now.
  double AfterFailure(int64_t retry_after_s, int64_t n_bytes);

 private:
  const int tries_;
  int n_failures_ = 0;
  int64_t n_bytes_ = 0;
};

}  // namespace ng::fetch

#endif  // NG_APPS_FETCH_WEB_CALL_H_
