#include "apps/serve/answers/forms/openai_response.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace ng::serve {
namespace {

using Kind = AnswerItem::Kind;

// An item has one part, but a call, which has none. Before its end the part has no text.
Json PartOf(const AnswerItem& item, bool ended) {
  Json json = Json::object();
  json["type"] = item.kind == Kind::kThought ? "reasoning_text" : "output_text";
  json["text"] = ended ? item.text : std::string();
  if (item.kind == Kind::kThought) return json;
  json["annotations"] = Json::array();
  json["logprobs"] = Json::array();
  return json;
}

Json ResponseUsageJson(const Usage& usage) {
  Json counts = Json::object();
  counts["input_tokens"] = usage.prompt_tokens;
  // Newer clients want to know what was written to a cache that is paid for, which none is here.
  counts["input_tokens_details"] = {{"cached_tokens", usage.cached_tokens},
                                    {"cache_write_tokens", 0}};
  counts["output_tokens"] = usage.completion_tokens;
  counts["output_tokens_details"] = {{"reasoning_tokens", 0}};
  counts["total_tokens"] = usage.prompt_tokens + usage.completion_tokens;
  return counts;
}

// Events are numbered as they are made, so one is made after the other.
class ResponseForm : public AnswerForm {
 public:
  ResponseForm(AnswerHead head, Json said) : head_(std::move(head)), said_(std::move(said)) {}

  std::string Whole(std::span<const Choice> choices, const Usage& usage) override {
    items_ = choices.front().items;
    TakeReason(choices.front());
    if (items_.empty()) items_.emplace_back();
    return JsonText(ResponseJson(&usage)) + "\n";
  }

  std::string Begin(const Usage& /*usage*/) override {
    std::string events = OfResponse("response.created", nullptr);
    events += OfResponse("response.in_progress", nullptr);
    return events;
  }

  std::string Piece(const Choice& choice, bool /*first*/) override {
    TakeReason(choice);
    const ItemChange change = AddPiece(choice, &items_);
    std::string events;
    if (change.begins) {
      events = EndOfItem(items_.size() - 1);
      events += BeginOfItem();
    }
    if (change.more.empty()) return events;
    const Kind kind = items_.back().kind;
    Json delta = InItem(items_.size() - 1);
    delta["delta"] = change.more;
    if (kind == Kind::kText) delta["logprobs"] = Json::array();
    events += Event(kind == Kind::kCall      ? "response.function_call_arguments.delta"
                    : kind == Kind::kThought ? "response.reasoning_text.delta"
                                             : "response.output_text.delta",
                    std::move(delta));
    return events;
  }

  std::string End(const Usage& usage) override {
    std::string events;
    if (items_.empty()) {  // an answer without a word is a message without one
      items_.emplace_back();
      events = BeginOfItem();
    }
    ended_ = true;
    events += EndOfItem(items_.size());
    events += OfResponse(cut_ ? "response.incomplete" : "response.completed", &usage);
    return events;
  }

  std::string Error(const ApiError& error) override {
    return Event("error", ErrorJson(error)["error"]);
  }

 private:
  void TakeReason(const Choice& choice) {
    if (!choice.stop_reason) return;
    cut_ = *choice.stop_reason == StopReason::kMaxNewTokens;
    ended_ = true;
  }

  std::string Event(const std::string& type, Json fields) {
    Json json = Json::object();
    json["type"] = type;
    json["sequence_number"] = n_events_++;
    for (auto& [name, value] : fields.items()) {
      if (name != "type") json[name] = std::move(value);
    }
    return NamedEvent(type, json);
  }
  std::string OfResponse(const std::string& type, const Usage* usage) {
    Json fields = Json::object();
    fields["response"] = ResponseJson(usage);
    return Event(type, std::move(fields));
  }
  std::string OfItem(const std::string& type, size_t index, bool ended) {
    Json fields = Json::object();
    fields["output_index"] = index;
    fields["item"] = ItemJson(index, ended);
    return Event(type, std::move(fields));
  }
  std::string OfPart(const std::string& type, size_t index, bool ended) {
    Json fields = InItem(index);
    fields["part"] = PartOf(items_[index], ended);
    return Event(type, std::move(fields));
  }

  // Of the last one.
  std::string BeginOfItem() {
    const size_t index = items_.size() - 1;
    std::string events = OfItem("response.output_item.added", index, false);
    if (items_[index].kind == Kind::kCall) return events;
    events += OfPart("response.content_part.added", index, false);
    return events;
  }
  // Of the last of `n`, where there is one.
  std::string EndOfItem(size_t n) {
    if (n == 0) return {};
    const AnswerItem& item = items_[n - 1];
    Json whole = InItem(n - 1);
    std::string events;
    if (item.kind == Kind::kCall) {
      whole["name"] = item.name;
      whole["arguments"] = item.text;
      events = Event("response.function_call_arguments.done", std::move(whole));
    } else {
      whole["text"] = item.text;
      if (item.kind == Kind::kText) whole["logprobs"] = Json::array();
      events = Event(item.kind == Kind::kThought ? "response.reasoning_text.done"
                                                 : "response.output_text.done",
                     std::move(whole));
      events += OfPart("response.content_part.done", n - 1, true);
    }
    events += OfItem("response.output_item.done", n - 1, true);
    return events;
  }

  // Where a piece belongs.
  Json InItem(size_t index) const {
    Json json = Json::object();
    json["output_index"] = index;
    json["item_id"] = ItemId(index);
    if (items_[index].kind != Kind::kCall) json["content_index"] = 0;
    return json;
  }
  std::string ItemId(size_t index) const {
    const Kind kind = items_[index].kind;
    const char* const prefix = kind == Kind::kCall      ? "fc_"
                               : kind == Kind::kThought ? "rs_"
                                                        : "msg_";
    return absl::StrCat(prefix, head_.id, index == 0 ? "" : absl::StrCat("_", index));
  }

  // The last item of an answer that was cut is not whole.
  std::string StatusOf(size_t index, bool ended) const {
    if (!ended) return "in_progress";
    return cut_ && ended_ && index + 1 == items_.size() ? "incomplete" : "completed";
  }

  Json ItemJson(size_t index, bool ended) const {
    const AnswerItem& item = items_[index];
    Json json = Json::object();
    json["id"] = ItemId(index);
    if (item.kind == Kind::kCall) {
      json["type"] = "function_call";
      json["status"] = StatusOf(index, ended);
      json["call_id"] = item.call_id;
      json["name"] = item.name;
      json["arguments"] = ended ? item.text : std::string();
      return json;
    }
    const bool thought = item.kind == Kind::kThought;
    json["type"] = thought ? "reasoning" : "message";
    json["status"] = StatusOf(index, ended);
    if (thought) json["summary"] = Json::array();
    if (!thought) json["role"] = "assistant";
    json["content"] = Json::array();
    if (ended) json["content"].push_back(PartOf(item, true));
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
    json["model"] = head_.model;
    for (const auto& [name, value] : said_.items()) json[name] = value;
    json["output"] = Json::array();
    for (size_t i = 0; ended && i < items_.size(); ++i) {
      json["output"].push_back(ItemJson(i, true));
    }
    json["usage"] = ended ? ResponseUsageJson(*usage) : Json(nullptr);
    return json;
  }

  AnswerHead head_;
  Json said_;
  std::vector<AnswerItem> items_;
  bool cut_ = false;
  bool ended_ = false;
  int64_t n_events_ = 0;
};

}  // namespace

std::unique_ptr<AnswerForm> MakeResponseForm(AnswerHead head, const FormWishes& wishes) {
  return std::make_unique<ResponseForm>(std::move(head), wishes.said);
}

}  // namespace ng::serve
