// ChatMessages: a conversation that an API tells in its own words, as the messages that chat
// templates read.
#ifndef NG_APPS_SERVE_REQUESTS_CHAT_MESSAGES_H_
#define NG_APPS_SERVE_REQUESTS_CHAT_MESSAGES_H_

#include <map>
#include <string>

#include "apps/serve/requests/openai_requests.h"

namespace ng::serve {

class ChatMessages {
 public:
  // A message. What the assistant says belongs to the thoughts before it.
  void Say(const std::string& role, const std::string& text);
  // The same, as one message with the one before if that is of this role too.
  void SayOn(const std::string& role, const std::string& text);
  // Of the assistant's answer: what it thought, and what it called. Arguments are JSON text.
  void Think(const std::string& text);
  void Call(const std::string& id, const std::string& name, const std::string& arguments);
  // What came of a call; it has the call's name, which some templates write.
  void Result(const std::string& id, const std::string& text);

  bool empty() const { return list_.empty(); }
  // Whether this call is there, so that it can have a result.
  bool HasCall(const std::string& id) const { return names_.contains(id); }
  // Hands the messages over.
  void Take(ConversationFields* conversation);

 private:
  bool LastIs(const std::string& role) const;
  // The answer that goes on, or a new one.
  Json& Answer();

  Json list_ = Json::array();
  std::map<std::string, std::string> names_;  // of calls, by their ids
};

// Sets a conversation's messages. Where the last is the beginning of an answer it goes on.
void SetMessages(const Json& messages, ConversationFields* conversation);

// The tools that a template is shown, and which of them may be called.
void SetTools(const Json& tools, ToolChoice choice, ConversationFields* conversation);

// A tool of an API that has its fields flat, as templates have it: "name", "description", "strict",
// and the schema of its arguments; null: it has none.
Json ReadTool(Fields& fields, const Json* schema);

// What requests say of thinking, as the variables that chat templates have for it. A template that
// has none of them thinks as it does.
void SetThinking(bool thinks, ConversationFields* conversation);
// How much: "none" is not at all.
void SetEffort(const std::string& effort, ConversationFields* conversation);
// The same from a field with one of the usual words.
void ReadEffort(Fields& fields, const char* name, ConversationFields* conversation);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_REQUESTS_CHAT_MESSAGES_H_
