#include "apps/serve/answers/forms/openai_choices.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/serve/answers/forms/answer_form.h"

namespace ng::serve {
namespace {

int64_t CountCharacters(std::string_view text) {
  // Each byte of UTF-8 that begins a character.
  return std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; });
}

// A token's text, for programs that tell tokens apart by it: one that is no UTF-8 shows its bytes.
std::string TokenName(const std::string& bytes) {
  if (!FindInvalidUtf8(bytes)) return bytes;
  std::string name = "bytes:";
  for (const char c : bytes) absl::StrAppendFormat(&name, "\\x%02x", static_cast<uint8_t>(c));
  return name;
}

Json NumberOrNull(const std::optional<double>& number) {
  return number ? Json(*number) : Json(nullptr);
}

std::string_view FinishReason(const Choice& choice) {
  if (*choice.stop_reason == StopReason::kMaxNewTokens) return "length";
  return choice.called ? "tool_calls" : "stop";
}

Json CallsJson(const Choice& choice, bool pieces) {
  Json calls = Json::array();
  for (const ToolCall& call : choice.calls) {
    Json& json = calls.emplace_back(Json::object());
    if (pieces) json["index"] = call.index;
    if (!call.id.empty()) {
      json["id"] = call.id;
      json["type"] = "function";
      json["function"]["name"] = call.name;
    }
    json["function"]["arguments"] = call.arguments;
  }
  return calls;
}

// What a message or a piece of it has beside its content.
void AddParts(const Choice& choice, bool pieces, Json* message) {
  if (!choice.reasoning.empty()) {
    // Clients look for thoughts by one of two names.
    for (const char* const name : {"reasoning_content", "reasoning"}) {
      (*message)[name] = choice.reasoning;
    }
  }
  if (!choice.calls.empty()) (*message)["tool_calls"] = CallsJson(choice, pieces);
}

// Of a completion: lists, one item a token.
Json CompletionLogprobs(const Choice& choice) {
  Json names = Json::array();
  Json logprobs = Json::array();
  Json tops = Json::array();
  Json offsets = Json::array();
  int64_t offset = choice.text_offset;
  for (const ShownToken& token : *choice.tokens) {
    names.push_back(TokenName(token.bytes));
    logprobs.push_back(NumberOrNull(token.logprob));
    offsets.push_back(offset);
    if (!token.special) offset += CountCharacters(token.bytes);
    Json top = token.top.empty() ? Json(nullptr) : Json::object();
    for (const LikelyToken& likely : token.top) {
      // The better of two tokens with the same text.
      top.emplace(TokenName(likely.bytes), likely.logprob);
    }
    // The token itself is there, whatever its rank.
    if (!token.top.empty()) top.emplace(TokenName(token.bytes), *token.logprob);
    tops.push_back(std::move(top));
  }
  Json json = Json::object();
  json["tokens"] = std::move(names);
  json["token_logprobs"] = std::move(logprobs);
  json["top_logprobs"] = std::move(tops);
  json["text_offset"] = std::move(offsets);
  return json;
}

Json ChatToken(const std::string& bytes, double logprob) {
  Json json = Json::object();
  json["token"] = bytes;
  json["logprob"] = logprob;
  Json& list = json["bytes"] = Json::array();
  for (const char c : bytes) list.push_back(static_cast<uint8_t>(c));
  return json;
}

Json ChatLogprobs(const Choice& choice) {
  Json content = Json::array();
  for (const ShownToken& token : *choice.tokens) {
    Json& one = content.emplace_back(ChatToken(token.bytes, token.logprob.value_or(0.0)));
    Json& top = one["top_logprobs"] = Json::array();
    for (const LikelyToken& likely : token.top) {
      top.push_back(ChatToken(likely.bytes, likely.logprob));
    }
  }
  Json json = Json::object();
  json["content"] = std::move(content);
  json["refusal"] = nullptr;
  return json;
}

// What whole choices and pieces have alike, with the text at its place.
Json ChoiceJson(AnswerKind kind, const Choice& choice, const char* text_name, Json text) {
  const bool chat = kind == AnswerKind::kChat;
  Json json = Json::object();
  json["index"] = choice.index;
  json[text_name] = std::move(text);
  json["logprobs"] = nullptr;
  if (choice.tokens != nullptr) {
    json["logprobs"] = chat ? ChatLogprobs(choice) : CompletionLogprobs(choice);
  }
  json["finish_reason"] = nullptr;
  if (choice.stop_reason) json["finish_reason"] = FinishReason(choice);
  if (choice.ids) json["token_ids"] = *choice.ids;
  if (choice.prompt_ids) json["prompt_token_ids"] = *choice.prompt_ids;
  return json;
}

Json HeadJson(const AnswerHead& head, const char* object) {
  Json json = Json::object();
  json["id"] = head.id;
  json["object"] = object;
  json["created"] = head.created;
  json["model"] = head.model;
  json["choices"] = Json::array();
  return json;
}

Json UsageJson(const Usage& usage) {
  Json json = Json::object();
  json["prompt_tokens"] = usage.prompt_tokens;
  json["completion_tokens"] = usage.completion_tokens;
  json["total_tokens"] = usage.prompt_tokens + usage.completion_tokens;
  json["prompt_tokens_details"] = {{"cached_tokens", usage.cached_tokens}};
  return json;
}

const char* PieceObject(AnswerKind kind) {
  return kind == AnswerKind::kChat ? "chat.completion.chunk" : "text_completion";
}

class ChoicesForm : public AnswerForm {
 public:
  ChoicesForm(AnswerHead head, bool include_usage)
      : head_(std::move(head)), include_usage_(include_usage) {}

  std::string Whole(std::span<const Choice> choices, const Usage& usage) override {
    return JsonText(AnswerJson(head_, choices, usage)) + "\n";
  }
  std::string Begin(const Usage& /*usage*/) override { return {}; }
  std::string Piece(const Choice& choice, bool first) override {
    Json json = PieceJson(head_, choice, first);
    if (include_usage_) json["usage"] = nullptr;  // until the last event
    return EventOf(json);
  }
  std::string End(const Usage& usage) override {
    return absl::StrCat(include_usage_ ? EventOf(UsagePieceJson(head_, usage)) : "",
                        "data: [DONE]\n\n");
  }
  std::string Error(const ApiError& error) override { return EventOf(ErrorJson(error)); }

 private:
  AnswerHead head_;
  bool include_usage_;
};

}  // namespace

int64_t CountCharacters(std::span<const ShownToken> tokens) {
  int64_t n = 0;
  for (const ShownToken& token : tokens) n += token.special ? 0 : CountCharacters(token.bytes);
  return n;
}

Json AnswerJson(const AnswerHead& head, std::span<const Choice> choices, const Usage& usage) {
  const bool chat = head.kind == AnswerKind::kChat;
  Json json = HeadJson(head, chat ? "chat.completion" : "text_completion");
  for (const Choice& choice : choices) {
    Json text = choice.text;
    if (chat) {
      text = Json::object();
      text["role"] = "assistant";
      text["content"] = choice.text;
      if (choice.text.empty() && !choice.calls.empty()) text["content"] = nullptr;
      text["refusal"] = nullptr;
      AddParts(choice, /*pieces=*/false, &text);
    }
    json["choices"].push_back(
        ChoiceJson(head.kind, choice, chat ? "message" : "text", std::move(text)));
  }
  json["usage"] = UsageJson(usage);
  return json;
}

Json PieceJson(const AnswerHead& head, const Choice& choice, bool first) {
  const bool chat = head.kind == AnswerKind::kChat;
  Json json = HeadJson(head, PieceObject(head.kind));
  Json text = choice.text;
  if (chat) {
    text = Json::object();
    if (first) text["role"] = "assistant";
    if (first || !choice.text.empty()) text["content"] = choice.text;
    if (first && choice.text.empty() && !choice.calls.empty()) text["content"] = nullptr;
    AddParts(choice, /*pieces=*/true, &text);
  }
  json["choices"].push_back(
      ChoiceJson(head.kind, choice, chat ? "delta" : "text", std::move(text)));
  return json;
}

Json UsagePieceJson(const AnswerHead& head, const Usage& usage) {
  Json json = HeadJson(head, PieceObject(head.kind));
  json["usage"] = UsageJson(usage);
  return json;
}

std::string EventOf(const Json& json) { return absl::StrCat("data: ", JsonText(json), "\n\n"); }

std::string NamedEvent(const std::string& name, const Json& json) {
  return absl::StrCat("event: ", name, "\n", EventOf(json));
}

ItemChange AddPiece(const Choice& piece, std::vector<AnswerItem>* items) {
  if (!piece.calls.empty()) return AddCall(piece.calls.front(), items);
  const bool thought = !piece.reasoning.empty();
  return AddText(thought ? AnswerItem::Kind::kThought : AnswerItem::Kind::kText,
                 thought ? piece.reasoning : piece.text, items);
}

std::unique_ptr<AnswerForm> MakeChoicesForm(AnswerHead head, const FormWishes& wishes) {
  return std::make_unique<ChoicesForm>(std::move(head), wishes.include_usage);
}

}  // namespace ng::serve
