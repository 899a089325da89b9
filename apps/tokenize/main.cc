// ng-tokenize: text on stdin -> token ids on stdout, and back.
//
// It does what the tokenizer's reference implementation does, for scripts and for comparing. Each
// result is a line on stdout, written at once, so that a program at the other end can answer it.
#include <unistd.h>

#include <atomic>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/common/about.h"
#include "apps/common/input.h"
#include "apps/common/standard_input.h"
#include "apps/common/terminal.h"
#include "apps/tokenize/command_line.h"
#include "apps/tokenize/line_fields.h"
#include "ng/chat_template.h"
#include "ng/engine.h"
#include "ng/json.h"
#include "ng/named_models.h"
#include "ng/status.h"
#include "ng/tokenizer.h"

namespace ng::tokenize {
namespace {

using OrderedJson = nlohmann::ordered_json;
using Action = CommandLine::Action;

constexpr const char* kName = "ng-tokenize";

absl::Status PrintIds(const Tokenizer& tokenizer) {
  NG_ASSIGN_OR_RETURN(const std::string text, StandardInput().ReadAll());
  NG_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer.EncodeAsReference(text, {}));
  return WriteStdout(absl::StrJoin(ids, " ") + "\n");
}

// {"text", "parse_special"?, "add_special"?} -> {"ids", "decoded"}
absl::StatusOr<OrderedJson> EncodeLine(const Tokenizer& tokenizer, const LineFields& fields) {
  EncodeOptions options;
  NG_ASSIGN_OR_RETURN(const std::string text, fields.Text("text"));
  NG_ASSIGN_OR_RETURN(options.parse_special, fields.Flag("parse_special"));
  NG_ASSIGN_OR_RETURN(options.add_special, fields.Flag("add_special"));
  NG_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer.EncodeAsReference(text, options));
  NG_ASSIGN_OR_RETURN(const std::string decoded, tokenizer.Decode(ids));
  return OrderedJson{{"ids", ids}, {"decoded", decoded}};
}

// {"ids"} -> {"text"}
absl::StatusOr<OrderedJson> DecodeLine(const Tokenizer& tokenizer, const LineFields& fields) {
  NG_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, fields.Ids("ids", tokenizer.vocab_size()));
  NG_ASSIGN_OR_RETURN(const std::string text, tokenizer.Decode(ids));
  return OrderedJson{{"text", text}};
}

absl::StatusOr<OrderedJson> ConvertLine(const Tokenizer& tokenizer, bool decode,
                                        const std::string& line) {
  NG_ASSIGN_OR_RETURN(const LineFields fields, LineFields::Parse(line));
  return decode ? DecodeLine(tokenizer, fields) : EncodeLine(tokenizer, fields);
}

absl::Status ConvertLines(const Tokenizer& tokenizer, bool decode) {
  StandardInput input;
  for (int64_t number = 1;; ++number) {
    NG_ASSIGN_OR_RETURN(const std::optional<std::string> line, input.NextLine());
    if (!line) return absl::OkStatus();
    const absl::StatusOr<OrderedJson> result = ConvertLine(tokenizer, decode, *line);
    if (!result.ok()) {  // the line is wrong, whatever kind of error its parts report
      return UsageError(absl::StrCat("stdin line ", number, ": ", result.status().message()));
    }
    NG_RETURN_IF_ERROR(WriteStdout(result->dump() + "\n"));
  }
}

// A file with a list of messages, or with an object that has one, as /save of ng-run writes it.
absl::StatusOr<Conversation> ReadConversation(const CommandLine& line,
                                              const std::atomic<bool>* stop) {
  constexpr int kMaxDepth = 36;
  Conversation conversation;
  if (line.chat.empty()) {
    conversation.messages = R"([{"role": "user", "content": "?"}])";
  } else {
    NG_ASSIGN_OR_RETURN(conversation.messages, ReadUserFile(line.chat, stop));
  }
  if (CheckJson(conversation.messages, line.chat, kMaxDepth).ok()) {
    const auto file = OrderedJson::parse(conversation.messages);
    if (file.is_object() && file.contains("messages")) {
      conversation.messages = file["messages"].dump();
      if (file.contains("tools")) conversation.tools = file["tools"].dump();
    }
  }
  if (!line.tools.empty()) {
    NG_ASSIGN_OR_RETURN(conversation.tools, ReadUserFile(line.tools, stop));
  }
  return conversation;
}

// {"content", "reasoning", "tool_calls": [{"name", "arguments"}]} of an answer. Its special tokens
// are found in its text.
absl::StatusOr<OrderedJson> ReadAnswer(const Tokenizer& tokenizer, const std::string& answer,
                                       AnswerReader* reader) {
  std::map<int32_t, std::string> whole;
  for (const WholeToken& token : tokenizer.WholeTokens()) whole[token.id] = token.text;
  NG_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                      tokenizer.Encode(answer, {.parse_special = true, .continues = true}));
  for (const int32_t id : ids) {
    const auto literal = whole.find(id);
    reader->Push(id, literal == whole.end() ? tokenizer.TokenBytes(id) : literal->second);
  }
  reader->Finish();
  std::string content;
  std::string reasoning;
  OrderedJson calls = OrderedJson::array();
  for (const AnswerDelta& delta : reader->Take()) {
    switch (delta.kind) {
      case AnswerDelta::Kind::kContent:
        content += delta.text;
        break;
      case AnswerDelta::Kind::kReasoning:
        reasoning += delta.text;
        break;
      case AnswerDelta::Kind::kCall:
        calls.push_back({{"name", delta.text}, {"arguments", ""}});
        break;
      case AnswerDelta::Kind::kArguments:
        calls.back()["arguments"].get_ref<std::string&>() += delta.text;
        break;
    }
  }
  return OrderedJson{{"content", content}, {"reasoning", reasoning}, {"tool_calls", calls}};
}

// What was learned of the template's calls, or an answer read by it.
absl::Status PrintCalls(const Tokenizer& tokenizer, const ChatTemplate& chat,
                        const Conversation& conversation) {
  std::string answer;
  if (isatty(STDIN_FILENO) == 0) {
    NG_ASSIGN_OR_RETURN(answer, StandardInput().ReadAll());
  }
  if (answer.empty()) {
    NG_ASSIGN_OR_RETURN(const std::string described, chat.DescribeCalls());
    return WriteStdout(described + "\n");
  }
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<AnswerReader> reader, chat.ReadAnswer(conversation));
  NG_ASSIGN_OR_RETURN(const OrderedJson read, ReadAnswer(tokenizer, answer, reader.get()));
  return WriteStdout(read.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n");
}

absl::Status PrintText(const ChatTemplate& chat, const Conversation& conversation, bool render) {
  if (render) {
    NG_ASSIGN_OR_RETURN(const std::string text, chat.Render(conversation));
    return WriteStdout(text);
  }
  NG_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, chat.Encode(conversation));
  return WriteStdout(absl::StrJoin(ids, " ") + "\n");
}

// The text of a conversation, its ids, or what answers to it are like.
absl::Status PrintConversation(const Tokenizer& tokenizer, const CommandLine& line,
                               const std::atomic<bool>* stop) {
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<ChatTemplate> chat,
                      OpenChatTemplate(line.tokenizer, tokenizer, line.template_options));
  NG_ASSIGN_OR_RETURN(const Conversation conversation, ReadConversation(line, stop));
  const absl::Status printed = line.calls ? PrintCalls(tokenizer, *chat, conversation)
                                          : PrintText(*chat, conversation, line.render);
  for (const auto& [begin, file] : {std::pair("messages: ", line.chat), {"tools: ", line.tools}}) {
    if (absl::StartsWith(printed.message(), begin)) {
      return Annotate(printed, file.empty() ? file : file + ": ");
    }
  }
  return printed;
}

absl::Status Run(CommandLine line, const EngineOptions& options) {
  NG_ASSIGN_OR_RETURN(line.tokenizer, PathOfModel(line.tokenizer));
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                      OpenTokenizer(line.tokenizer, options.warning));
  if (line.action >= Action::kChat) return PrintConversation(*tokenizer, line, options.stop);
  if (line.action == Action::kPrintIds) return PrintIds(*tokenizer);
  return ConvertLines(*tokenizer, line.action == Action::kDecodeLines);
}

int Main(int argc, const char* const* argv) {
  HoldStandardStreams(ClosedStdin::kFails);
  const absl::StatusOr<CommandLine> line = ParseCommandLine(argc, argv);
  if (!line.ok()) return Fail(kName, line.status());
  return RunAsked(line->about, TheManual(), {},
                  [&](const EngineOptions& options, ProgressBar&) { return Run(*line, options); });
}

}  // namespace
}  // namespace ng::tokenize

int main(int argc, char** argv) {
  return ng::RunProgram(ng::tokenize::kName, ng::tokenize::Main, argc, argv);
}
