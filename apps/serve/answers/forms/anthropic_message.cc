#include "apps/serve/answers/forms/anthropic_message.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace ng::serve {
namespace {

const char* MessageStopReason(const Choice& choice) {
  if (*choice.stop_reason == StopReason::kMaxNewTokens) return "max_tokens";
  if (!choice.stop_text.empty()) return "stop_sequence";
  return choice.called ? "tool_use" : "end_turn";
}

// A block; without its content it is how a stream begins it.
Json BlockJson(const AnswerItem& item, bool with_content) {
  const std::string text = with_content ? item.text : std::string();
  Json block = Json::object();
  switch (item.kind) {
    case AnswerItem::Kind::kThought:
      block["type"] = "thinking";
      block["thinking"] = text;
      block["signature"] = "";  // whoever sends it back need not prove anything
      break;
    case AnswerItem::Kind::kText:
      block["type"] = "text";
      block["text"] = text;
      break;
    case AnswerItem::Kind::kCall:
      block["type"] = "tool_use";
      block["id"] = item.call_id;
      block["name"] = item.name;
      block["input"] = ArgumentsObject(text);
      break;
  }
  return block;
}

Json DeltaJson(AnswerItem::Kind kind, const std::string& more) {
  struct Names {
    const char* type;
    const char* field;
  };
  constexpr Names kText = {"text_delta", "text"};
  constexpr Names kThought = {"thinking_delta", "thinking"};
  constexpr Names kCall = {"input_json_delta", "partial_json"};
  const Names& names = kind == AnswerItem::Kind::kText      ? kText
                       : kind == AnswerItem::Kind::kThought ? kThought
                                                            : kCall;
  Json delta = Json::object();
  delta["type"] = names.type;
  delta[names.field] = more;
  return delta;
}

// What was in the cache is counted beside what was not.
Json MessageUsageJson(const Usage& usage) {
  Json json = Json::object();
  json["input_tokens"] = usage.prompt_tokens - usage.cached_tokens;
  json["cache_creation_input_tokens"] = 0;
  json["cache_read_input_tokens"] = usage.cached_tokens;
  json["output_tokens"] = usage.completion_tokens;
  return json;
}

class MessageForm : public AnswerForm {
 public:
  explicit MessageForm(AnswerHead head) : head_(std::move(head)) {}

  std::string Whole(std::span<const Choice> choices, const Usage& usage) override {
    last_ = choices.front();
    Json message = MessageJson(usage);
    for (const AnswerItem& item : last_.items) {
      message["content"].push_back(BlockJson(item, /*with_content=*/true));
    }
    AddStop(&message);
    return JsonText(message) + "\n";
  }

  std::string Begin(const Usage& usage) override {
    Json fields = Json::object();
    fields["message"] = MessageJson(usage);
    return MessageEvent("message_start", fields);
  }

  std::string Piece(const Choice& choice, bool /*first*/) override {
    if (choice.stop_reason) last_ = choice;
    const ItemChange change = AddPiece(choice, &items_);
    std::string events;
    if (change.begins) {
      events = EndOfBlock(items_.size() - 1);
      Json block = InBlock();
      block["content_block"] = BlockJson(items_.back(), /*with_content=*/false);
      absl::StrAppend(&events, MessageEvent("content_block_start", block));
    }
    if (change.more.empty()) return events;
    Json delta = InBlock();
    delta["delta"] = DeltaJson(items_.back().kind, change.more);
    return events + MessageEvent("content_block_delta", delta);
  }

  std::string End(const Usage& usage) override {
    std::string events = EndOfBlock(items_.size());
    Json fields = Json::object();
    fields["delta"] = Json::object();
    AddStop(&fields["delta"]);
    fields["usage"] = MessageUsageJson(usage);
    absl::StrAppend(&events, MessageEvent("message_delta", fields),
                    MessageEvent("message_stop", Json::object()));
    return events;
  }

  std::string Error(const ApiError& error) override {
    return NamedEvent("error", ErrorJson(error, ErrorStyle::kAnthropic));
  }

  std::string SignOfLife() override { return MessageEvent("ping", Json::object()); }

 private:
  static std::string MessageEvent(const std::string& type, const Json& fields) {
    Json json = Json::object();
    json["type"] = type;
    json.update(fields);
    return NamedEvent(type, json);
  }

  Json InBlock() const {
    Json json = Json::object();
    json["index"] = items_.size() - 1;
    return json;
  }
  // Of the last of `n` blocks, where there is one.
  static std::string EndOfBlock(size_t n) {
    if (n == 0) return {};
    Json json = Json::object();
    json["index"] = n - 1;
    return MessageEvent("content_block_stop", json);
  }

  // A message that has not ended and has no content yet.
  Json MessageJson(const Usage& usage) const {
    Json json = Json::object();
    json["id"] = head_.id;
    json["type"] = "message";
    json["role"] = "assistant";
    json["model"] = head_.model;
    json["content"] = Json::array();
    json["stop_reason"] = nullptr;
    json["stop_sequence"] = nullptr;
    json["usage"] = MessageUsageJson(usage);
    return json;
  }
  void AddStop(Json* json) const {
    (*json)["stop_reason"] = MessageStopReason(last_);
    (*json)["stop_sequence"] = nullptr;
    if (!last_.stop_text.empty()) (*json)["stop_sequence"] = last_.stop_text;
  }

  AnswerHead head_;
  std::vector<AnswerItem> items_;
  Choice last_;  // that says how it ended
};

}  // namespace

std::unique_ptr<AnswerForm> MakeMessageForm(AnswerHead head, const FormWishes& /*wishes*/) {
  return std::make_unique<MessageForm>(std::move(head));
}

}  // namespace ng::serve
