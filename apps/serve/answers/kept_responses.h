// KeptResponses: the conversations of the last responses and messages that were to be kept, each by
// its id, for requests that go on from one.
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
#include "apps/serve/requests/openai_requests.h"

namespace ng::serve {

// JSON texts of lists, as templates read them.
struct KeptConversation {
  std::string messages;
  std::string tools = {};  // of a thread; empty: none

  size_t n_bytes() const { return messages.size() + tools.size(); }
};

class KeptResponses {
 public:
  // Keeps so many, and no more than kMostBytes of them all.
  explicit KeptResponses(size_t most) : most_(most) {}
  static constexpr size_t kMostBytes = size_t{64} << 20;

  // What was kept for longest goes.
  void Keep(const std::string& id, KeptConversation conversation);
  std::optional<KeptConversation> Find(const std::string& id) const;

 private:
  const size_t most_;
  mutable std::mutex mutex_;
  std::deque<std::pair<std::string, KeptConversation>> kept_;  // the oldest first
  size_t n_bytes_ = 0;
};

// A conversation with its answer, which is a message of its own or goes on with the last one.
std::string WithAnswer(const std::string& messages, const Choice& answer, bool goes_on);

// Two lists of messages as one.
std::string JoinedMessages(const std::string& before, const std::string& after);

// What a message sends of a thread that goes on, behind what was kept of it: the results have the
// names of their calls. Errors: a result without a call, a choice of a tool that is not there.
Parsed<ConversationFields> InThread(const KeptConversation& before, ConversationFields sent);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_ANSWERS_KEPT_RESPONSES_H_
