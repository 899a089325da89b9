// KeptResponses: the conversations of the last responses, each by the id of its response, for
// requests that go on from one.
//
// Thread: any.
#ifndef NG_APPS_SERVE_ANSWERS_KEPT_RESPONSES_H_
#define NG_APPS_SERVE_ANSWERS_KEPT_RESPONSES_H_

#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "apps/serve/answers/forms/openai_choices.h"

namespace ng::serve {

class KeptResponses {
 public:
  // Keeps so many, and no more than kMostBytes of them all.
  explicit KeptResponses(size_t most) : most_(most) {}
  static constexpr size_t kMostBytes = size_t{64} << 20;

  // `messages`: JSON text of a list, as templates read it. What was kept for longest goes.
  void Keep(const std::string& id, std::string messages);
  std::optional<std::string> Find(const std::string& id) const;

 private:
  const size_t most_;
  mutable std::mutex mutex_;
  std::deque<std::pair<std::string, std::string>> kept_;  // the oldest first
  size_t n_bytes_ = 0;
};

// A conversation with its answer, which is a message of its own or goes on with the last one.
std::string WithAnswer(const std::string& messages, const Choice& answer, bool goes_on);

// Two lists of messages as one.
std::string JoinedMessages(const std::string& before, const std::string& after);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_ANSWERS_KEPT_RESPONSES_H_
