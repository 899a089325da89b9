#include "apps/serve/answers/forms/ollama_answer.h"

#include <chrono>
#include <ctime>
#include <utility>

#include "absl/strings/str_format.h"

namespace ng::serve {
namespace {

constexpr int64_t kMicros = 1000000;

int64_t Nanos(double seconds) {
  constexpr double kNanos = 1e9;
  return static_cast<int64_t>(seconds * kNanos);
}

// What all objects of an answer begin with.
Json OllamaHeadJson(const std::string& model) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  Json json = Json::object();
  json["model"] = model;
  json["created_at"] =
      OllamaTime(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
  return json;
}

Json OllamaCallJson(const AnswerItem& item, int index) {
  Json call = Json::object();
  call["id"] = item.call_id;
  call["function"]["index"] = index;
  call["function"]["name"] = item.name;
  call["function"]["arguments"] = ArgumentsObject(item.text);
  return call;
}

// A piece's or an answer's texts and calls.
struct OllamaParts {
  std::string text;
  std::string thinking;
  Json calls = Json::array();
};

class OllamaForm : public AnswerForm {
 public:
  explicit OllamaForm(AnswerHead head) : head_(std::move(head)) {}

  const char* stream_type() const override { return "application/x-ndjson"; }

  std::string Whole(std::span<const Choice> choices, const Usage& usage) override {
    const Choice& choice = choices.front();
    OllamaParts parts = {.text = choice.text, .thinking = choice.reasoning};
    for (const AnswerItem& item : choice.items) {
      if (item.kind == AnswerItem::Kind::kCall) {
        parts.calls.push_back(OllamaCallJson(item, n_calls_++));
      }
    }
    cut_ = *choice.stop_reason == StopReason::kMaxNewTokens;
    return Line(parts, &usage);
  }
  std::string Begin(const Usage& /*usage*/) override { return {}; }
  std::string Piece(const Choice& choice, bool /*first*/) override {
    if (choice.stop_reason) cut_ = *choice.stop_reason == StopReason::kMaxNewTokens;
    // A call is told when it is whole.
    const ItemChange change = AddPiece(choice, &items_);
    std::string lines = change.begins ? CallBefore(items_.size() - 1) : std::string();
    if (change.more.empty() || items_.back().kind == AnswerItem::Kind::kCall) return lines;
    OllamaParts parts;
    (items_.back().kind == AnswerItem::Kind::kText ? parts.text : parts.thinking) = change.more;
    lines += Line(parts, nullptr);
    return lines;
  }
  std::string End(const Usage& usage) override {
    std::string lines = CallBefore(items_.size());
    lines += Line({}, &usage);
    return lines;
  }
  std::string Error(const ApiError& error) override {
    return JsonText(ErrorJson(error, ErrorStyle::kOllama)) + "\n";
  }
  // Before a line JSON may have spaces; between them a line must be an object.
  std::string SignOfLife() override { return " "; }

 private:
  // The last of `n` items, if it is a call.
  std::string CallBefore(size_t n) {
    if (n == 0 || items_[n - 1].kind != AnswerItem::Kind::kCall) return {};
    OllamaParts parts;
    parts.calls.push_back(OllamaCallJson(items_[n - 1], n_calls_++));
    return Line(parts, nullptr);
  }

  // With usage: the last one.
  std::string Line(const OllamaParts& parts, const Usage* usage) const {
    Json json = OllamaHeadJson(head_.model);
    if (head_.kind == AnswerKind::kOllamaChat) {
      Json& message = json["message"] = Json::object();
      message["role"] = "assistant";
      message["content"] = parts.text;
      if (!parts.thinking.empty()) message["thinking"] = parts.thinking;
      if (!parts.calls.empty()) message["tool_calls"] = parts.calls;
    } else {
      json["response"] = parts.text;
      if (!parts.thinking.empty()) json["thinking"] = parts.thinking;
    }
    json["done"] = usage != nullptr;
    if (usage == nullptr) return JsonText(json) + "\n";
    json["done_reason"] = cut_ ? "length" : "stop";
    json["total_duration"] = Nanos(usage->total_s);
    json["load_duration"] = 0;
    json["prompt_eval_count"] = usage->prompt_tokens;
    json["prompt_eval_duration"] = Nanos(usage->prompt_s);
    json["eval_count"] = usage->completion_tokens;
    json["eval_duration"] = Nanos(usage->completion_s);
    return JsonText(json) + "\n";
  }

  AnswerHead head_;
  std::vector<AnswerItem> items_;
  int n_calls_ = 0;
  bool cut_ = false;
};

}  // namespace

std::unique_ptr<AnswerForm> MakeOllamaForm(AnswerHead head, const FormWishes& /*wishes*/) {
  return std::make_unique<OllamaForm>(std::move(head));
}

Json OllamaLoadedJson(AnswerKind kind, const std::string& model) {
  Json json = OllamaHeadJson(model);
  if (kind == AnswerKind::kOllamaChat) {
    json["message"]["role"] = "assistant";
    json["message"]["content"] = "";
  } else {
    json["response"] = "";
  }
  json["done"] = true;
  json["done_reason"] = "load";
  return json;
}

std::string OllamaTime(int64_t micros_since_1970) {
  const std::time_t seconds = micros_since_1970 / kMicros;
  std::tm parts = {};
  gmtime_r(&seconds, &parts);
  char text[40];
  const size_t n = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
  return absl::StrFormat("%s.%06dZ", std::string(text, n), micros_since_1970 % kMicros);
}

}  // namespace ng::serve
