// The options that say what a program runs, the same in every program that takes prompts.
#ifndef NG_APPS_COMMON_PROMPT_OPTIONS_H_
#define NG_APPS_COMMON_PROMPT_OPTIONS_H_

#include <boost/program_options/options_description.hpp>
#include <boost/program_options/variables_map.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ng/status.h"

namespace ng {

struct PromptOptions {
  // At most one of these is given; it says what to run.
  std::optional<std::string> prompt;
  std::optional<std::string> prompt_file;
  std::optional<std::string> prompt_ids;
  std::optional<std::string> prompts;
  std::optional<std::string> message;
  // Each is a message where the model has a chat template, else a text to complete. "-" is what is
  // on stdin, and makes one text of all.
  std::vector<std::string> texts;
  bool chat = false;  // a conversation, where a program has one; texts are its first messages

  std::string context_file;  // empty: none
  std::string context;       // its text, once it has been read; it stands before every prompt
  bool parse_special = false;
  std::string tools_file;  // empty: none
  std::string tools;       // its text, once it has been read
  std::string load_cache;  // empty: none
  std::string save_cache;  // empty: none
  // Where no prompt is given, what is piped into the program is one. Where one text is given, it
  // stands before that.
  bool reads_pipe = true;
  // Whether run.max_new_tokens = auto gives answers what fits, in a program where they may be long.
  bool open_answers = false;

  // Whether one of those above says what to run.
  bool given() const {
    return prompt || prompt_file || prompt_ids || prompts || message || !texts.empty();
  }
};

// Adds --prompt, --prompt-file, --prompt-ids, --prompts, --message, --context, --tools,
// --parse-special and --load-cache.
void AddPromptOptions(boost::program_options::options_description* options);

// Reads their values, and --chat, into `prompts`, whose texts are there already. Errors:
// UsageError.
absl::Status ReadPromptOptions(const boost::program_options::variables_map& values,
                               PromptOptions* prompts);

}  // namespace ng

#endif  // NG_APPS_COMMON_PROMPT_OPTIONS_H_
