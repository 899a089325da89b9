#include "apps/serve/requests/messages_request.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/serve/requests/chat_messages.h"
#include "apps/serve/requests/field_readers.h"

namespace ng::serve {
namespace {

// What a message says, from its blocks.
struct Blocks {
  std::string text;
  std::string thoughts;
  struct Call {
    std::string id;
    std::string name;
    std::string arguments;
  };
  std::vector<Call> calls;
  struct Result {
    std::string id;
    std::string text;
  };
  std::vector<Result> results;
};

// Which blocks a message may have.
enum BlockSet : unsigned { kOnlyText = 0, kOfUser = 1, kOfAssistant = 2 };

const char* WordsOf(unsigned set) {
  return set == kOfUser        ? "must be text or tool_result: no image or file is read"
         : set == kOfAssistant ? "must be text, thinking, redacted_thinking or tool_use"
                               : "must be text: no image or file is read";
}

void Join(const std::string& text, bool answer, std::string* all) {
  // The blocks of an answer are parts of one text; those of others stand by themselves.
  if (!answer && !all->empty()) *all += '\n';
  *all += text;
}

// A text, or blocks of text.
std::string ReadBlockText(Fields& fields, const char* name, const std::string& prefix);

void ReadResult(Fields& block, const std::string& prefix, Blocks* blocks) {
  Blocks::Result result;
  const std::optional<std::string> id = block.Text("tool_use_id");
  if (!id) block.Refuse("tool_use_id", "must be the id of a tool_use");
  result.id = id.value_or("");
  result.text = ReadBlockText(block, "content", prefix);
  if (block.Bool("is_error").value_or(false)) result.text = "Error: " + result.text;
  blocks->results.push_back(std::move(result));
}

void ReadCall(Fields& block, Blocks* blocks) {
  const std::optional<std::string> id = block.Text("id");
  const std::optional<std::string> name = block.Text("name");
  const Json* const input = block.Object("input");
  if (!id) block.Refuse("id", "must be a text");
  if (!name) block.Refuse("name", "must be the name of a tool");
  for (const char* const label : {"caller", "toolset_name"}) static_cast<void>(block.Value(label));
  blocks->calls.push_back(
      {id.value_or(""), name.value_or(""), input == nullptr ? "{}" : input->dump()});
}

void ReadBlock(Fields& fields, const Json& given, const std::string& prefix, unsigned set,
               Blocks* blocks) {
  const Json none = Json::object();
  Fields block(given.is_object() ? given : none, prefix);
  const std::string type = block.Text("type").value_or("");
  static_cast<void>(block.Object("cache_control"));
  if (type == "text") {
    const std::optional<std::string> text = block.Text("text");
    if (!text) block.Refuse("text", "must be a text");
    const Json* const citations = block.Value("citations");
    if (citations != nullptr && !citations->empty()) block.RefuseField("citations", "");
    Join(text.value_or(""), set == kOfAssistant, &blocks->text);
  } else if (type == "tool_result" && set == kOfUser) {
    ReadResult(block, prefix + "content.", blocks);
  } else if (type == "tool_use" && set == kOfAssistant) {
    ReadCall(block, blocks);
  } else if (type == "thinking" && set == kOfAssistant) {
    blocks->thoughts += block.Text("thinking").value_or("");
    static_cast<void>(block.Text("signature"));
  } else if (type == "redacted_thinking" && set == kOfAssistant) {
    static_cast<void>(block.Text("data"));  // that only its makers can read
  } else {
    block.Refuse("type", WordsOf(set));
  }
  if (block.Finish()) fields.Fail(*block.error());
}

// A text, or a list of blocks.
Blocks ReadBlocks(Fields& fields, const char* name, const std::string& prefix, unsigned set) {
  Blocks blocks;
  const Json* const content = fields.Value(name);
  if (content == nullptr) return blocks;
  if (content->is_string()) {
    blocks.text = content->get<std::string>();
  } else if (content->is_array()) {
    for (const Json& one : *content) ReadBlock(fields, one, prefix, set, &blocks);
  } else {
    fields.Refuse(name, "must be a text, or a list of blocks");
  }
  return blocks;
}

std::string ReadBlockText(Fields& fields, const char* name, const std::string& prefix) {
  return ReadBlocks(fields, name, prefix, kOnlyText).text;
}

// `goes_on`: what comes before these messages is not here.
void AddMessage(Fields& request, const Json& given, bool goes_on, ChatMessages* messages) {
  const Json none = Json::object();
  Fields fields(given.is_object() ? given : none, "messages.");
  const std::string role = fields.Text("role").value_or("");
  const bool known = role == "user" || role == "assistant" || role == "system";
  if (!known) fields.Refuse("role", "must be user, assistant or system");
  if (fields.Value("content") == nullptr) {
    fields.Refuse("content", "must be a text, or a list of blocks");
  }
  const unsigned set = role == "user" ? kOfUser : role == "assistant" ? kOfAssistant : kOnlyText;
  const Blocks blocks = ReadBlocks(fields, "content", "messages.content.", set);
  if (fields.Finish()) return request.Fail(*fields.error());
  // The results of calls stand behind these, whatever is said with them.
  for (const auto& [id, text] : blocks.results) {
    if (!goes_on && !messages->HasCall(id)) request.Fail(NoCallOfResult(id));
    messages->Result(id, text);
  }
  if (!blocks.thoughts.empty()) messages->Think(blocks.thoughts);
  const bool says = !blocks.text.empty() || (blocks.results.empty() && blocks.calls.empty());
  if (says && role == "user") messages->SayOn(role, blocks.text);
  if (says && role != "user") messages->Say(role, blocks.text);
  for (const auto& [id, name, arguments] : blocks.calls) messages->Call(id, name, arguments);
}

Json ReadBlockTool(Fields& request, const Json& given) {
  const Json none = Json::object();
  Fields fields(given.is_object() ? given : none, "tools.");
  if (fields.Text("type").value_or("custom") != "custom") {
    fields.Refuse("type", "must be custom: the server itself has no tools");
  }
  const Json* const schema = fields.Object("input_schema");
  Json tool = ReadTool(fields, schema);
  if (schema == nullptr) fields.Refuse("input_schema", "must be a schema");
  static_cast<void>(fields.Object("cache_control"));
  static_cast<void>(fields.Bool("eager_input_streaming"));
  if (fields.Finish()) request.Fail(*fields.error());
  return tool;
}

ToolChoice ReadBlockChoice(Fields& request, ConversationFields* conversation) {
  ToolChoice choice;
  const Json* const given = request.Object("tool_choice");
  if (given == nullptr) return choice;
  Fields fields(*given, "tool_choice.");
  const std::string type = fields.Text("type").value_or("");
  if (type == "none") {
    choice.mode = ToolChoice::Mode::kNone;
  } else if (type == "any") {
    choice.mode = ToolChoice::Mode::kRequired;
  } else if (type == "tool") {
    choice.mode = ToolChoice::Mode::kRequired;
    const std::optional<std::string> name = fields.Text("name");
    if (!name) fields.Refuse("name", "must be the name of a tool");
    choice.names.push_back(name.value_or(""));
  } else if (type != "auto") {
    fields.Refuse("type", "must be auto, any, tool or none");
  }
  conversation->parallel_calls = !fields.Bool("disable_parallel_tool_use").value_or(false);
  if (fields.Finish()) request.Fail(*fields.error());
  return choice;
}

}  // namespace

ApiError NoCallOfResult(const std::string& id) {
  return {.message = absl::StrCat("messages.content.tool_use_id = '", id.substr(0, 80),
                                  "', must be the id of a tool_use before it"),
          .param = "messages.content.tool_use_id"};
}

void ReadThread(Fields& fields, Request& request) {
  const Json* const given = fields.Object("thread");
  if (given == nullptr) return;
  Fields thread(*given, "thread.");
  const std::string type = thread.Text("type").value_or("");
  if (type == "continue") {
    request.conversation.previous = thread.Text("previous_message_id").value_or("");
    if (request.conversation.previous.empty()) {
      thread.Refuse("previous_message_id", "must be the id of a message of this thread");
    }
    for (const char* const name : {"system", "tools"}) {
      if (fields.Value(name) != nullptr) {
        fields.Refuse(name,
                      "must be left out where a thread goes on: it has those of its beginning");
      }
    }
  } else if (type != "create") {
    thread.Refuse("type", "must be create or continue");
  }
  request.store = true;
  if (thread.Finish()) fields.Fail(*thread.error());
}

void ReadBlockMessages(Fields& fields, Request& request) {
  ChatMessages messages;
  const std::string system = ReadBlockText(fields, "system", "system.");
  if (!system.empty()) messages.Say("system", system);
  const Json* const list = fields.Value("messages");
  if (list == nullptr || !list->is_array() || list->empty()) {
    return fields.Refuse("messages", "must be a list of messages");
  }
  const bool goes_on = !request.conversation.previous.empty();
  for (const Json& one : *list) AddMessage(fields, one, goes_on, &messages);
  messages.Take(&request.conversation);
}

void ReadBlockTools(Fields& fields, Request& request) {
  Json tools = Json::array();
  const Json* const list = fields.Value("tools");
  if (list != nullptr && !list->is_array()) return fields.Refuse("tools", "must be a list");
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    tools.push_back(ReadBlockTool(fields, (*list)[i]));
  }
  ToolChoice choice = ReadBlockChoice(fields, &request.conversation);
  if (!request.conversation.previous.empty()) {
    request.conversation.choice = std::move(choice);  // of the thread's tools
    return;
  }
  CheckToolChoice(fields, "tool_choice", choice, &tools);
  if (request.store && !tools.empty()) request.conversation.thread_tools = tools.dump();
  SetTools(tools, std::move(choice), &request.conversation);
}

void ReadThinkingField(Fields& fields, Request& request) {
  const Json* const given = fields.Object("thinking");
  if (given == nullptr) return;
  Fields inner(*given, "thinking.");
  const std::string type = inner.Text("type").value_or("");
  if (type != "enabled" && type != "adaptive" && type != "disabled") {
    inner.Refuse("type", "must be enabled, adaptive or disabled");
  }
  SetThinking(type != "disabled", &request.conversation);
  ReadThoughtBudget(inner, "budget_tokens", 0, &request);
  static_cast<void>(inner.Text("display"));
  if (inner.Finish()) fields.Fail(*inner.error());
}

void ReadOutputFormat(Fields& fields, const char* name, const std::string& prefix,
                      Request& request) {
  const Json* const format = fields.Object(name);
  if (format == nullptr) return;
  Fields inner(*format, prefix);
  if (inner.Text("type").value_or("") != "json_schema") {
    inner.Refuse("type", "must be json_schema");
  }
  std::string schema = ReadSchema(inner);
  if (inner.Finish()) return fields.Fail(*inner.error());
  SetForm(fields, {.field = name, .option = "json_schema", .value = std::move(schema)},
          &request.answer.sampling);
}

void ReadOutputConfig(Fields& fields, Request& request) {
  const Json* const config = fields.Object("output_config");
  if (config == nullptr) return;
  Fields inner(*config, "output_config.");
  ReadEffort(inner, "effort", &request.conversation);
  ReadOutputFormat(inner, "format", "output_config.format.", request);
  if (inner.Finish()) fields.Fail(*inner.error());
}

bool ManagesNothing(const Json& management) {
  if (!management.is_object()) return false;
  const auto edits = management.find("edits");
  if (edits == management.end()) return management.empty();
  return management.size() == 1 && edits->is_array() &&
         std::ranges::all_of(*edits, [](const Json& edit) {
           return edit.is_object() && edit.contains("keep") && edit["keep"] == "all";
         });
}

}  // namespace ng::serve
