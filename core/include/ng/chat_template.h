// ChatTemplate: a conversation -> the text, or the ids, that a model expects.
//
// A model brings its template with it: a program in the Jinja language, in chat_template.jinja, in
// tokenizer_config.json or in a GGUF file. It is run as transformers' apply_chat_template runs it,
// within bounds of steps, memory, nesting and output. An engine has its own
// (Engine::EncodeMessage, Engine::EncodeConversation). This is for programs that need no model.
//
// Nobody forges a turn: the literal of a special token, or of another token that the template
// writes, becomes its id only where the template wrote every byte of it. In all else ids are those
// of transformers.
//
// Thread: const methods may be called from any thread.
#ifndef NG_CHAT_TEMPLATE_H_
#define NG_CHAT_TEMPLATE_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ng/answer_reader.h"
#include "ng/status.h"
#include "ng/tokenizer.h"

#pragma GCC visibility push(default)
namespace ng {

// What has been said, as JSON text.
struct Conversation {
  // A list of objects, at least one: "role" (system, user, assistant, tool or another word that the
  // template knows), "content" (a text, or a list of {"type": "text", "text"}), and what else the
  // template reads: "tool_calls", "name", "reasoning_content" ... A key that is null counts as
  // absent. Beside "tool_calls" a "content" that is null is what the template can take: null, else
  // an empty text. The arguments of a call may be JSON text or an object: they are shown to the
  // template as it takes them.
  std::string messages;
  // A list: what the model may call, in the form that the template expects, mostly
  // {"type": "function", "function": {"name", "description", "parameters"}}. Empty: nothing.
  std::string tools = {};
  // Ends with what comes before an answer.
  bool asks = true;
  // An object: variables of the template, over those of ChatOptions. One that the template does not
  // read changes nothing. Empty: none.
  std::string variables = {};
  // The last message is the beginning of an answer, and the conversation ends with its content. Not
  // with `asks`.
  bool goes_on = false;

  bool operator==(const Conversation&) const = default;
};

struct ChatOptions {
  // As tokenizer.chat_template: "auto" is the model's own template, "none" is none; otherwise a
  // name, or the path of a file.
  std::string chat_template = "auto";
  // As run.template.<name>: variables of the template. What is JSON is taken as such (true, 3,
  // "3"), all else is a text.
  std::vector<std::pair<std::string, std::string>> variables = {};
  // As run.system: the system text of conversations that do not begin with one. Empty: none.
  std::string system = {};
  // As run.date: today for the template, "2026-11-22". Empty: today.
  std::string date = {};
};

// Which tools of a conversation its answer calls.
struct CallChoice {
  // The answer is calls, and nothing comes before the first but thoughts that the conversation ends
  // with. Else there are only calls that the model begins of its own accord.
  bool must = false;
  bool several = true;  // there may be more than one, where the template writes more
  std::vector<std::string> names = {};  // those that may be called; empty: all
  // The tools whose schemas the arguments fit, as the conversation has them. Empty: those.
  std::string tools = {};

  bool operator==(const CallChoice&) const = default;
};

class ChatTemplate {
 public:
  static constexpr int64_t kAnyLength = std::numeric_limits<int64_t>::max();

  virtual ~ChatTemplate() = default;

  // Its name, or the file that it is from.
  virtual const std::string& name() const = 0;
  // The text of a conversation. Errors of this and Encode: UsageError naming the message and what
  // is wrong with it, or what the template does not take; ModelFileError naming template and line
  // where the template is wrong, or takes too much.
  virtual absl::StatusOr<std::string> Render(const Conversation& conversation) const = 0;
  // Its ids. `most` is that of EncodeOptions.
  //
  // `fed`: the ids of the beginning of this conversation, up to where the last answer in it ends,
  // without the token that ended it; or empty. An answer's ids need not be those that its text
  // gives. So they are kept: the result begins with `fed`, unless the template writes what was said
  // before in another way (it drops old thoughts, or trims answers). Then all of it is encoded from
  // its text.
  virtual absl::StatusOr<std::vector<int32_t>> Encode(const Conversation& conversation,
                                                      std::span<const int32_t> fed,
                                                      int64_t most) const = 0;
  // All of them, of a conversation of which nothing has been fed.
  absl::StatusOr<std::vector<int32_t>> Encode(const Conversation& conversation) const {
    return Encode(conversation, {}, kAnyLength);
  }
  // A reader of the answer to a conversation. Calls are read where it has tools; thoughts, where
  // the template has marks for them. The template outlives the reader. How calls are written is
  // learned from the template when this or one of the next four is asked for the first time, which
  // takes some 0.1 s. Errors: those of Render, and UsageError that names the template where the
  // conversation has tools and its calls cannot be read.
  virtual absl::StatusOr<std::unique_ptr<AnswerReader>> ReadAnswer(
      const Conversation& conversation) const = 0;
  // A grammar of the answer to a conversation with tools, for sampler.grammar.gbnf: its calls are
  // written as the template writes them, their names are declared ones, and their arguments fit the
  // schemas. A tool with "strict": true is kept to all of its schema; of others the stage leaves
  // out what it cannot keep. Errors: those of ReadAnswer, and UsageError for what cannot be written
  // so.
  virtual absl::StatusOr<std::string> CallGrammar(const Conversation& conversation,
                                                  const CallChoice& choice) const = 0;
  // The thoughts that the answer to a conversation may have before a form that it is held to, for
  // sampler.grammar.before: items of GBNF; empty: none. Errors: those of Render.
  virtual absl::StatusOr<std::string> ThoughtsGrammar(const Conversation& conversation) const = 0;
  // What of the calls in a conversation the template cannot write as they were made, so that a
  // model reads others, for people; empty: nothing. Errors: those of Render.
  virtual absl::StatusOr<std::string> NotWritten(const Conversation& conversation) const = 0;
  // What was learned of calls and thoughts, for people: JSON text. Errors: UsageError where calls
  // cannot be read.
  virtual absl::StatusOr<std::string> DescribeCalls() const = 0;
  // How the template writes thoughts, for sampler.thoughts.marks: JSON text; empty: it has no marks
  // for them.
  virtual std::string ThoughtMarks() const = 0;
  // The token that the template puts after an answer, special or not, or else the one that the
  // model's files call eos_token; -1 where there is none.
  virtual int32_t eot() const = 0;
  // The date that it may write into a conversation; empty where it does not ask for one.
  virtual const std::string& date() const = 0;
};

// The template for a tokenizer, which must outlive it. `path` is what OpenTokenizer opened. Errors:
// UsageError for options that the template does not take, or where there is no template;
// ModelFileError where the file is damaged, or the template is none in Jinja.
absl::StatusOr<std::unique_ptr<ChatTemplate>> OpenChatTemplate(const std::string& path,
                                                               const Tokenizer& tokenizer,
                                                               const ChatOptions& options = {});

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_CHAT_TEMPLATE_H_
