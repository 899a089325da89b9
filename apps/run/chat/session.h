// Session: a chat as its user knows it: messages, commands, and what is shown of both.
//
// It takes what has been typed and hands out what to show, so that it can be tested without a
// terminal. Thread: the engine's.
#ifndef NG_APPS_RUN_CHAT_SESSION_H_
#define NG_APPS_RUN_CHAT_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "apps/run/chat/answer_view.h"
#include "apps/run/chat/chat_file.h"
#include "apps/run/chat/conversation.h"
#include "apps/run/command_line.h"
#include "ng/engine.h"
#include "ng/files.h"
#include "ng/spellings.h"
#include "ng/status.h"

namespace ng::run {

// Where a session shows things, and what it asks of its surroundings. On a terminal texts are shown
// as TerminalText.
struct SessionHost {
  std::function<absl::Status(std::string_view text)> answer;  // as it streams
  std::function<void(std::string_view line)> tell;            // what was asked for
  std::function<void(std::string_view line)> remark;          // about the chat: what has been done
  std::function<void(std::string_view text)> warning;         // what makes an answer another one
  // Tells what is wrong with a message or a command. Errors: the chat ends with it.
  std::function<absl::Status(const absl::Status& error)> fault;
  std::function<size_t()> columns;
  // Whether only the answer was to stop; false: the program ends.
  std::function<bool()> take_interrupt;
  const std::atomic<bool>* stop = nullptr;  // ends the reading of a file
  const InputLog* inputs = nullptr;         // files that /save must not overwrite
  bool closing_lines = false;               // a remark with figures follows each answer
  ViewStyle style;
};

// Whether a text is nothing but blanks, and so no message.
bool IsBlank(std::string_view text);

class Session {
 public:
  // Everything must outlive it. REQUIRES: Load has been called for the capacity.
  Session(Engine& engine, const CommandLine& line, int64_t capacity, SessionHost host);

  // A message, or a command (commands.h). What is wrong with it is a fault. Errors: the chat cannot
  // go on.
  absl::Status Take(const std::string& typed);
  bool ended() const { return ended_; }
  // What the next message begins with: after /edit the last message. The message that follows takes
  // its place, unless the user gives up.
  const std::string& draft() const { return draft_; }
  void GiveUpDraft();

  const Engine& engine() const { return engine_; }
  // "demo | context 256 | temperature 0.9, top_k 50 | seed 1".
  std::string Summary() const;

  // The commands. Errors: what is wrong with the argument, or why it could not be done.
  absl::Status Help(const std::string& argument);
  absl::Status New(const std::string& argument);
  absl::Status Regenerate(const std::string& seed);
  absl::Status Edit(const std::string& argument);
  absl::Status Undo(const std::string& argument);
  absl::Status Model(const std::string& argument);
  absl::Status System(const std::string& text);
  absl::Status Set(const std::string& setting);
  absl::Status Stats(const std::string& argument);
  absl::Status Save(const std::string& file);
  absl::Status Load(const std::string& file);
  absl::Status Exit(const std::string& argument);
  absl::Status Think(const std::string& argument);
  absl::Status More(const std::string& argument);

 private:
  using Turn = absl::FunctionRef<absl::StatusOr<Completion>(const TurnHooks& hooks)>;
  // Runs a turn and shows it. `goes_on`: with the answer that is there.
  absl::Status Run(Turn turn, bool goes_on = false);
  void ShowEnd(const Completion& completion);
  // An error of a command or a turn: the chat goes on unless the program is to end.
  absl::Status Tell(const absl::Status& error);
  // The settings from now on, by their keys. After an error they are as they were.
  absl::Status Change(std::map<std::string, std::string> settings);
  absl::Status ChangeOne(const std::string& key, const std::string& value);
  absl::Status SetSpelled(const Spelling& spelling, const std::string& setting);
  absl::Status ShowSettings();
  SavedChat Saved() const;
  absl::Status Restore(SavedChat chat, const std::string& name);

  Engine& engine_;
  const CommandLine& line_;
  SessionHost host_;
  Conversation conversation_;
  std::optional<AnswerView> view_;  // of the last answer
  std::string draft_;
  bool replaces_ = false;  // the next message takes the place of the last
  bool ended_ = false;
  absl::Status fatal_;                           // the chat cannot go on
  std::map<std::string, std::string> settings_;  // Engine::Set
  int n_turns_ = 0;
  int64_t n_answer_tokens_ = 0;  // in all, with what was answered again
};

}  // namespace ng::run

#endif  // NG_APPS_RUN_CHAT_SESSION_H_
