#include "apps/common/prompt_options.h"

#include <boost/program_options.hpp>

#include "absl/strings/str_cat.h"
#include "apps/common/manual.h"

namespace ng {

namespace po = boost::program_options;

void AddPromptOptions(po::options_description* options) {
  options->add_options()                                                                    //
      ("prompt", TextValue("TEXT"), "a text to complete")                                   //
      ("prompt-file", TextValue("FILE"), "a file whose whole text is completed; -: stdin")  //
      ("prompt-ids", TextValue("IDS"), "token ids, separated by blanks or commas")          //
      ("prompts", TextValue("FILE"),
       "a JSONL file, decoded as one batch: {\"prompt\", \"prompt_ids\" or \"messages\", "
       "\"max_new_tokens\", \"context_tokens\"}")                                //
      ("message", TextValue("TEXT"), "one user turn through the chat template")  //
      ("context", TextValue("FILE"),
       "a file whose text stands before each prompt or message, as the context of it")  //
      ("tools", TextValue("FILE"),
       "a JSON file: what the model may call, for its chat template")               //
      ("parse-special", "special tokens written in the prompt become special ids")  //
      ("load-cache", TextValue("FILE"),
       "a file from --save-cache; every prompt begins with its tokens, only the rest is computed");
}

absl::Status ReadPromptOptions(const po::variables_map& values, PromptOptions* prompts) {
  const auto text = [&](const char* name) -> std::optional<std::string> {
    if (values.count(name) == 0) return std::nullopt;
    return values[name].as<std::string>();
  };
  prompts->prompt = text("prompt");
  prompts->prompt_file = text("prompt-file");
  prompts->prompt_ids = text("prompt-ids");
  prompts->prompts = text("prompts");
  prompts->message = text("message");
  prompts->chat = values.count("chat") != 0;
  prompts->parse_special = values.count("parse-special") != 0;
  const int sources = prompts->prompt.has_value() + prompts->prompt_file.has_value() +
                      prompts->prompt_ids.has_value() + prompts->prompts.has_value() +
                      prompts->message.has_value() +
                      static_cast<int>(prompts->chat || !prompts->texts.empty());
  if (sources > 1) {
    return UsageError(absl::StrCat(
        "only one of --prompt, --prompt-file, --prompt-ids, --prompts, --message",
        prompts->chat ? ", --chat" : "", " may be given",
        prompts->texts.empty()
            ? ""
            : absl::StrCat(", and no text without an option, as '", prompts->texts.front(), "'")));
  }
  if (prompts->parse_special && !prompts->prompt && !prompts->prompt_file && !prompts->prompts) {
    return UsageError("--parse-special needs --prompt, --prompt-file or --prompts");
  }
  prompts->context_file = text("context").value_or("");
  if (values.count("context") != 0 && prompts->context_file.empty()) {
    return UsageError("--context needs a file name");
  }
  if (!prompts->context_file.empty() && (prompts->chat || prompts->prompt_ids)) {
    return UsageError(prompts->chat
                          ? "--context does not go with --chat; what run.system says is the "
                            "context of a conversation"
                          : "--context does not go with --prompt-ids; run.context_tokens says how "
                            "many of them are the context");
  }
  prompts->tools_file = text("tools").value_or("");
  if (values.count("tools") != 0 && prompts->tools_file.empty()) {
    return UsageError("--tools needs a file name");
  }
  const bool talks =
      prompts->message || prompts->chat || prompts->prompts || !prompts->texts.empty();
  if (!prompts->tools_file.empty() && !talks) {
    return UsageError("--tools needs --message, --chat or --prompts");
  }
  prompts->load_cache = text("load-cache").value_or("");
  if (values.count("load-cache") != 0 && prompts->load_cache.empty()) {
    return UsageError("--load-cache needs a file name");
  }
  return absl::OkStatus();
}

}  // namespace ng
