#include "apps/serve/answers/answer_form.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace ng::serve {
namespace {

class ChoicesForm : public AnswerForm {
 public:
  ChoicesForm(AnswerHead head, bool include_usage)
      : head_(std::move(head)), include_usage_(include_usage) {}

  std::string Whole(std::span<const Choice> choices, const Usage& usage) override {
    return JsonText(AnswerJson(head_, choices, usage)) + "\n";
  }
  std::string Begin() override { return {}; }
  std::string Piece(const Choice& choice, bool first) override {
    Json json = PieceJson(head_, choice, first);
    if (include_usage_) json["usage"] = nullptr;  // until the last event
    return EventOf(json);
  }
  std::string End(const Usage& usage) override {
    return absl::StrCat(include_usage_ ? EventOf(UsagePieceJson(head_, usage)) : "", kLastEvent);
  }
  std::string Error(const ApiError& error) override { return EventOf(ErrorJson(error)); }

 private:
  AnswerHead head_;
  bool include_usage_;
};

// An answer is a list of items, of which this server gives one: a message with one text.
class ResponseForm : public AnswerForm {
 public:
  ResponseForm(AnswerHead head, Json said) : head_(std::move(head)), said_(std::move(said)) {}

  std::string Whole(std::span<const Choice> choices, const Usage& usage) override {
    Take(choices.front());
    return JsonText(ResponseJson(&usage)) + "\n";
  }

  std::string Begin() override {
    std::string events = OfResponse("response.created", nullptr);
    absl::StrAppend(&events, OfResponse("response.in_progress", nullptr));
    Json item = Place();
    item["item"] = ItemJson(false);
    absl::StrAppend(&events, Event("response.output_item.added", std::move(item)));
    return events + OfPart("response.content_part.added");
  }

  std::string Piece(const Choice& choice, bool /*first*/) override {
    Take(choice);
    if (choice.text.empty()) return {};
    Json delta = InItem();
    delta["delta"] = choice.text;
    delta["logprobs"] = Json::array();
    return Event("response.output_text.delta", std::move(delta));
  }

  std::string End(const Usage& usage) override {
    Json text = InItem();
    text["text"] = text_;
    text["logprobs"] = Json::array();
    std::string events = Event("response.output_text.done", std::move(text));
    absl::StrAppend(&events, OfPart("response.content_part.done"));
    Json item = Place();
    item["item"] = ItemJson(true);
    absl::StrAppend(&events, Event("response.output_item.done", std::move(item)));
    return events + OfResponse(cut_ ? "response.incomplete" : "response.completed", &usage);
  }

  std::string Error(const ApiError& error) override {
    return Event("error", ErrorJson(error)["error"]);
  }

 private:
  void Take(const Choice& choice) {
    text_ += choice.text;
    if (choice.stop_reason) cut_ = *choice.stop_reason == StopReason::kMaxNewTokens;
  }

  std::string Event(const std::string& type, Json fields) {
    Json json = Json::object();
    json["type"] = type;
    json["sequence_number"] = n_events_++;
    for (auto& [name, value] : fields.items()) {
      if (name != "type") json[name] = std::move(value);
    }
    return absl::StrCat("event: ", type, "\n", EventOf(json));
  }
  std::string OfResponse(const std::string& type, const Usage* usage) {
    Json fields = Json::object();
    fields["response"] = ResponseJson(usage);
    return Event(type, std::move(fields));
  }
  std::string OfPart(const std::string& type) {
    Json fields = InItem();
    fields["part"] = PartJson();
    return Event(type, std::move(fields));
  }

  static Json Place() {
    Json json = Json::object();
    json["output_index"] = 0;
    return json;
  }
  Json InItem() const {
    Json json = Place();
    json["item_id"] = ItemId();
    json["content_index"] = 0;
    return json;
  }

  std::string ItemId() const { return "msg_" + head_.id; }
  Json PartJson() const {
    Json json = Json::object();
    json["type"] = "output_text";
    json["text"] = text_;
    json["annotations"] = Json::array();
    json["logprobs"] = Json::array();
    return json;
  }
  Json ItemJson(bool ended) const {
    Json json = Json::object();
    json["type"] = "message";
    json["id"] = ItemId();
    json["status"] = !ended ? "in_progress" : cut_ ? "incomplete" : "completed";
    json["role"] = "assistant";
    json["content"] = Json::array();
    if (ended) json["content"].push_back(PartJson());
    return json;
  }

  // Without usage: the answer has begun.
  Json ResponseJson(const Usage* usage) const {
    const bool ended = usage != nullptr;
    Json json = Json::object();
    json["id"] = head_.id;
    json["object"] = "response";
    json["created_at"] = head_.created;
    json["status"] = !ended ? "in_progress" : cut_ ? "incomplete" : "completed";
    json["error"] = nullptr;
    json["incomplete_details"] = nullptr;
    if (ended && cut_) json["incomplete_details"] = {{"reason", "max_output_tokens"}};
    json["metadata"] = Json::object();
    json["model"] = head_.model;
    for (const auto& [name, value] : said_.items()) json[name] = value;
    json["output"] = Json::array();
    if (ended) json["output"].push_back(ItemJson(true));
    json["parallel_tool_calls"] = false;
    json["tool_choice"] = "none";
    json["tools"] = Json::array();
    json["store"] = false;
    json["usage"] = nullptr;
    if (!ended) return json;
    Json counts = Json::object();
    counts["input_tokens"] = usage->prompt_tokens;
    // Newer clients want to know what was written to a cache that is paid for, which none is here.
    counts["input_tokens_details"] = {{"cached_tokens", usage->cached_tokens},
                                      {"cache_write_tokens", 0}};
    counts["output_tokens"] = usage->completion_tokens;
    counts["output_tokens_details"] = {{"reasoning_tokens", 0}};
    counts["total_tokens"] = usage->prompt_tokens + usage->completion_tokens;
    json["usage"] = std::move(counts);
    return json;
  }

  AnswerHead head_;
  Json said_;
  std::string text_;
  bool cut_ = false;
  int64_t n_events_ = 0;
};

}  // namespace

std::unique_ptr<AnswerForm> MakeChoicesForm(AnswerHead head, bool include_usage) {
  return std::make_unique<ChoicesForm>(std::move(head), include_usage);
}

std::unique_ptr<AnswerForm> MakeResponseForm(AnswerHead head, Json said) {
  return std::make_unique<ResponseForm>(std::move(head), std::move(said));
}

}  // namespace ng::serve
