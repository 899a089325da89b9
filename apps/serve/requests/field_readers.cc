#include "apps/serve/requests/field_readers.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/common/json.h"
#include "apps/serve/requests/chat_messages.h"
#include "apps/serve/requests/sampler_settings.h"
#include "ng/json.h"
#include "ng/list_item.h"

namespace ng::serve {
namespace {

constexpr int kMostTopLogprobs = 20;
constexpr size_t kMostStops = 16;
constexpr double kMostBias = 100.0;
constexpr int kMaxSchemaDepth = 36;

bool IsId(const Json& value) {
  return value.is_number_integer() && value >= 0 && value <= std::numeric_limits<int32_t>::max();
}

// The setting of a field; of another name for the same it must be the same.
void AddStage(Fields& fields, StageSetting setting, SamplingFields* sampling) {
  const auto same = std::ranges::find_if(sampling->stages, [&](const StageSetting& other) {
    return other.stage == setting.stage && other.option == setting.option;
  });
  if (same == sampling->stages.end()) return sampling->stages.push_back(std::move(setting));
  if (same->value == setting.value) return;
  fields.Refuse(setting.field,
                absl::StrCat("must be ", same->field, " = ", same->value, " where both are set"));
}

bool IsText(const Json& value, bool may_be_empty) {
  if (!value.is_string()) return false;
  const auto& text = value.get_ref<const std::string&>();
  return may_be_empty || !text.empty();
}

}  // namespace

void ReadStageNumber(Fields& fields, const char* name, const StageNumber& number,
                     SamplingFields* sampling) {
  std::optional<double> value;
  if (number.whole) {
    const auto whole = fields.Int(
        name, {static_cast<int64_t>(number.range.min), static_cast<int64_t>(number.range.max)});
    if (whole) value = static_cast<double>(*whole);
  } else {
    value = fields.Real(name, number.range);
  }
  if (!value) return;
  AddStage(fields,
           {.field = name,
            .stage = number.stage,
            .option = number.option,
            .value = number.whole ? absl::StrCat(static_cast<int64_t>(*value)) : Digits(*value),
            .off = number.off != nullptr && number.off(*value),
            .alone = number.alone,
            .added = number.added},
           sampling);
}

void ReadWindow(Fields& fields, const char* name, const char* stage, SamplingFields* sampling) {
  const auto window = fields.Int(name, {-1, std::numeric_limits<int32_t>::max()});
  if (!window) return;
  AddStage(fields,
           {.field = name,
            .stage = stage,
            .option = "window",
            .value = absl::StrCat(std::max<int64_t>(0, *window)),
            .off = *window == 0,
            .alone = false},
           sampling);
}

void ReadBreakers(Fields& fields, const char* name, SamplingFields* sampling) {
  const Json* const list = fields.Value(name);
  if (list == nullptr) return;
  std::string joined;
  const bool are_texts = list->is_array() && std::ranges::all_of(*list, [&](const Json& one) {
                           if (!IsText(one, false)) return false;
                           const std::optional<std::string> item =
                               ListItem(one.get_ref<const std::string&>());
                           if (item) absl::StrAppend(&joined, joined.empty() ? "" : ",", *item);
                           return item.has_value();
                         });
  if (!are_texts) {
    return fields.Refuse(name, absl::StrCat("must be a list of texts, ", kListItemWords));
  }
  AddStage(fields,
           {.field = name, .stage = "dry", .option = "breakers", .value = joined, .alone = false},
           sampling);
}

void ReadMirostat(Fields& fields, SamplingFields* sampling) {
  const auto mode = fields.Int("mirostat", {0, 2});
  if (mode == 1) return fields.Refuse("mirostat", "must be 0 (off) or 2");
  sampling->mirostat = mode == 2;
}

void ReadThoughtBudget(Fields& fields, const char* name, int64_t min, Request* request) {
  const auto budget = fields.Int(name, {min, std::numeric_limits<int32_t>::max()});
  if (!budget) return;
  AddStage(fields,
           {.field = name,
            .stage = "thoughts",
            .option = "budget",
            .value = absl::StrCat(*budget),
            .off = *budget < 0},
           &request->answer.sampling);
  if (*budget >= 0) request->conversation.variables["thinking_budget"] = *budget;
}

void ReadMaxTokens(Fields& fields, const char* name, int64_t min, AnswerFields* answer) {
  constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
  std::optional<int64_t> most = fields.Int(name, {min, kAll});
  if (!most) return;
  if (*most < 0) most = kAll;
  if (answer->max_tokens && *answer->max_tokens != *most) {
    return fields.Refuse(name, absl::StrCat("must be ", answer->max_tokens_field, " = ",
                                            *answer->max_tokens, " where both are set"));
  }
  answer->max_tokens = most;
  answer->max_tokens_field = name;
}

void ReadModel(Fields& fields, AnswerFields* answer) {
  const std::optional<std::string> model = fields.Text("model");
  if (!model) fields.Refuse("model", "must be the name of the model, as /v1/models has it");
  answer->model = model.value_or("");
}

// A text, or a list of texts.
void ReadStop(Fields& fields, const char* name, SamplingFields* sampling) {
  const Json* const stop = fields.Value(name);
  if (stop == nullptr) return;
  const Json list = stop->is_array() ? *stop : Json::array({*stop});
  const auto is_text = [](const Json& one) { return IsText(one, false); };
  if (list.size() > kMostStops || !std::ranges::all_of(list, is_text)) {
    return fields.Refuse(
        name, absl::StrCat("must be a text or up to ", kMostStops, " texts, none of them empty"));
  }
  for (const Json& text : list) {
    if (!ListItem(text.get_ref<const std::string&>())) {
      return fields.Refuse(name, absl::StrCat("must be texts, ", kListItemWords));
    }
    sampling->stop.push_back(text.get<std::string>());
  }
}

void ReadLogitBias(Fields& fields, SamplingFields* sampling) {
  const Json* const bias = fields.Object("logit_bias");
  if (bias == nullptr) return;
  std::set<int32_t> ids;
  for (const auto& [key, value] : bias->items()) {
    int32_t id = -1;
    const char* const end = key.data() + key.size();
    const auto read = std::from_chars(key.data(), end, id);
    const bool is_id = read.ec == std::errc() && read.ptr == end && id >= 0;
    const bool is_bias = value.is_number() && value >= -kMostBias && value <= kMostBias;
    if (!is_id || !is_bias || !ids.insert(id).second) {
      return fields.Fail(
          {.message = absl::StrCat("logit_bias has \"", key.substr(0, 40), "\": ", ShownJson(value),
                                   ", must be an object of token ids, each once, "
                                   "with numbers in [-100, 100]"),
           .param = "logit_bias"});
    }
    sampling->logit_bias.emplace_back(id, value.get<double>());
  }
}

void SetForm(Fields& fields, FormSetting form, SamplingFields* sampling) {
  if (!sampling->form.option.empty()) {
    return fields.Refuse(form.field,
                         absl::StrCat("must be absent where there is ", sampling->form.field,
                                      ": an answer has one form"));
  }
  sampling->form = std::move(form);
}

std::string ReadSchema(Fields& fields) {
  // What it is called and what for is for readers; a grammar is always kept strictly.
  static_cast<void>(fields.Text("name"));
  static_cast<void>(fields.Text("description"));
  static_cast<void>(fields.Bool("strict"));
  const Json* const schema = fields.Object("schema");
  if (schema == nullptr) fields.Refuse("schema", "must be an object");
  return schema == nullptr ? "" : schema->dump();
}

// {"type": "text"}, "json_object", "json_schema" with the schema, or "grammar" with one.
void ReadResponseFormat(Fields& fields, SamplingFields* sampling) {
  const Json* const format = fields.Object("response_format");
  if (format == nullptr) return;
  Fields inner(*format, "response_format.");
  const std::string type = inner.Text("type").value_or("");
  FormSetting form = {.field = "response_format", .option = "json_schema", .value = {}};
  if (type == "json_object") {
    const Json* const schema = inner.Object("schema");
    form.value = schema == nullptr ? kAnyObjectSchema : schema->dump();
  } else if (type == "json_schema" && format->contains("schema")) {
    form.value = ReadSchema(inner);
  } else if (type == "json_schema") {
    const Json none = Json::object();
    const Json* const named = inner.Object("json_schema");
    Fields schema(named == nullptr ? none : *named, "response_format.json_schema.");
    form.value = ReadSchema(schema);
    if (schema.Finish()) fields.Fail(*schema.error());
  } else if (type == "grammar") {
    SamplingFields read;
    ReadFormText(inner, "grammar", "gbnf", &read);
    if (read.form.option.empty()) {
      inner.Refuse("grammar", "must be a grammar of GBNF: root ::= ...");
    }
    form.option = read.form.option;
    form.value = std::move(read.form.value);
  } else {
    form.option = {};
    if (type != "text") inner.Refuse("type", "must be text, json_object, json_schema or grammar");
  }
  if (inner.Finish()) fields.Fail(*inner.error());
  if (!form.option.empty()) SetForm(fields, std::move(form), sampling);
}

void ReadSchemaField(Fields& fields, const char* name, SamplingFields* sampling) {
  const Json* const value = fields.Value(name);
  if (value == nullptr) return;
  std::string schema;
  if (value->is_object()) {
    schema = value->dump();
  } else if (value->is_string()) {
    const auto& text = value->get_ref<const std::string&>();
    const bool is_object = text.find_first_not_of(" \t\r\n") == text.find('{');
    if (is_object && CheckJson(text, name, kMaxSchemaDepth).ok()) schema = text;
  }
  if (schema.empty()) return fields.Refuse(name, "must be a schema: an object of JSON");
  SetForm(fields, {.field = name, .option = "json_schema", .value = schema}, sampling);
}

void ReadFormText(Fields& fields, const char* name, std::string_view option,
                  SamplingFields* sampling) {
  const std::optional<std::string> text = fields.Text(name);
  if (!text || text->empty()) return;
  // The stage takes what is no grammar for the name of a file, which no client may read.
  if (option == "gbnf" && text->find("::=") == std::string::npos) {
    return fields.Refuse(name, "must be a grammar of GBNF: root ::= ...");
  }
  if (text->find('\0') != std::string::npos) return fields.Refuse(name, "must hold no NUL");
  SetForm(fields, {.field = name, .option = option, .value = *text}, sampling);
}

void ReadStream(Fields& fields, AnswerFields* answer) {
  answer->stream = fields.Bool("stream").value_or(false);
  const Json* const options = fields.Object("stream_options");
  if (options == nullptr) return;
  if (!answer->stream) fields.Refuse("stream_options", "needs stream = true");
  Fields inner(*options, "stream_options.");
  answer->include_usage = inner.Bool("include_usage").value_or(false);
  // Nothing is ever added to hide the sizes of pieces.
  if (inner.Bool("include_obfuscation").value_or(false)) {
    inner.Refuse("include_obfuscation", "must be false");
  }
  if (inner.Finish()) fields.Fail(*inner.error());
}

void ReadChatLogprobs(Fields& fields, AnswerFields* answer) {
  answer->logprobs = fields.Bool("logprobs").value_or(false);
  const std::optional<int64_t> top = fields.Int("top_logprobs", {0, kMostTopLogprobs});
  if (top.value_or(0) > 0 && !answer->logprobs) {
    fields.Refuse("top_logprobs", "needs logprobs = true");
  }
  answer->top_logprobs = static_cast<int>(top.value_or(0));
}

void ReadCompletionLogprobs(Fields& fields, AnswerFields* answer) {
  const std::optional<int64_t> logprobs = fields.Int("logprobs", {0, kMostTopLogprobs});
  answer->logprobs = logprobs.has_value();
  answer->top_logprobs = static_cast<int>(logprobs.value_or(0));
}

namespace {

// A list of ids; nothing where it is none.
std::optional<std::vector<int32_t>> IdsOf(const Json& list) {
  if (!list.is_array() || list.empty() || !std::ranges::all_of(list, IsId)) return std::nullopt;
  return list.get<std::vector<int32_t>>();
}

// What templates read of a message. What is in it is for the template to say.
void CheckMessage(Fields& fields, const Json& message) {
  static constexpr const char* kRead[] = {"role",       "content",      "name",
                                          "tool_calls", "tool_call_id", "reasoning_content",
                                          "reasoning",  "thinking"};
  if (!message.is_object()) return;  // the template's own error says it better
  Fields inner(message, "messages.");
  for (const char* const name : kRead) static_cast<void>(inner.Value(name));
  // Answers that clients send back have these. litellm puts into the first two what it has found
  // in an answer beside its content, and that is in the other fields too.
  for (const char* const name : {"provider_specific_fields", "thinking_blocks"}) {
    static_cast<void>(inner.Value(name));
  }
  const Json* const annotations = inner.Value("annotations");
  if (annotations != nullptr && !annotations->empty()) inner.RefuseField("annotations", "");
  if (inner.Finish()) fields.Fail(*inner.error());
}

}  // namespace

// A text, texts, ids, or lists of ids.
void ReadPrompts(Fields& fields, Request* request) {
  const Json* const prompt = fields.Value("prompt");
  std::vector<PromptField>& prompts = request->prompts;
  const Json list = prompt == nullptr                       ? Json::array()
                    : prompt->is_array() && !IdsOf(*prompt) ? *prompt
                                                            : Json::array({*prompt});
  for (const Json& one : list) {
    if (one.is_string()) {
      prompts.emplace_back(one.get<std::string>());
      continue;
    }
    std::optional<std::vector<int32_t>> ids = IdsOf(one);
    if (!ids) prompts.clear();
    if (!ids) break;
    prompts.emplace_back(*std::move(ids));
  }
  if (prompts.empty()) {
    fields.Refuse("prompt", "must be a text, a list of texts, a list of token ids, or several");
  }
}

void ReadMessages(Fields& fields, ConversationFields* conversation) {
  const Json* const messages = fields.Value("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    return fields.Refuse("messages", "must be a list of messages");
  }
  for (const Json& message : *messages) CheckMessage(fields, message);
  SetMessages(*messages, conversation);
}

void ReadTools(Fields& fields, ConversationFields* conversation) {
  const Json* const tools = fields.Value("tools");
  if (tools != nullptr && !tools->is_array()) return fields.Refuse("tools", "must be a list");
  const Json none = Json::array();
  SetTools(tools == nullptr ? none : *tools, ReadToolChoice(fields, tools), conversation);
}

void ReadTokenizePrompt(Fields& fields, Request* request) {
  if (fields.Value("messages") != nullptr) return ReadMessages(fields, &request->conversation);
  const std::optional<std::string> prompt = fields.Text("prompt");
  if (!prompt) fields.Refuse("prompt", "must be a text, or there must be messages");
  request->prompts.emplace_back(prompt.value_or(""));
}

}  // namespace ng::serve
