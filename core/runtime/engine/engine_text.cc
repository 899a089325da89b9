// Engine: text to ids and back.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "core/runtime/engine/engine_state.h"
#include "core/runtime/engine/request_checks.h"
#include "core/runtime/plan/describe.h"
#include "core/text/text_checks.h"
#include "ng/engine.h"
#include "ng/process_memory.h"

namespace ng {
namespace {

// The ids of a prompt from `encode`, which is told how many are of use at all.
using EncodeMost = absl::FunctionRef<absl::StatusOr<std::vector<int32_t>>(int64_t most)>;
absl::StatusOr<std::vector<int32_t>> Fitting(const Assembly& assembly, EncodeMost encode) {
  const PromptLimit limit = LimitOfPrompts(assembly);
  NG_ASSIGN_OR_RETURN(std::vector<int32_t> ids, encode(limit.most()));
  NG_RETURN_IF_ERROR(CheckPromptLength(limit, ids.size()));
  return ids;
}

}  // namespace

bool Engine::has_tokenizer() const { return state_->assembly->tokenizer != nullptr; }

std::span<const std::string_view> Engine::token_bytes() const {
  return state_->assembly->token_bytes;
}

std::span<const uint8_t> Engine::special_tokens() const { return state_->assembly->special; }

bool Engine::has_chat_template() const { return state_->assembly->chat != nullptr; }

absl::StatusOr<std::vector<int32_t>> Engine::Encode(std::string_view text,
                                                    const TokenizeOptions& options) const {
  return Guarded([&]() -> absl::StatusOr<std::vector<int32_t>> {
    const Assembly& assembly = *state_->assembly;
    if (!has_tokenizer()) {
      return UsageError(absl::StrCat("the model ", assembly.model.source->path(),
                                     " has no tokenizer; give ids, or tokenizer.path"));
    }
    EncodeOptions encode;
    encode.parse_special = options.parse_special;
    encode.add_special = assembly.tokenizer->knows_ends();
    if (!options.must_fit) return assembly.tokenizer->Encode(text, encode);
    return Fitting(assembly, [&](int64_t most) {
      encode.most = most;
      return assembly.tokenizer->Encode(text, encode);
    });
  });
}

int64_t Engine::max_prompt_bytes() const {
  // Any text of this size is read: it is little, and spaces between words may come to no token.
  constexpr int64_t kAnyText = int64_t{16} << 20;
  constexpr int64_t kMostBytes = int64_t{1} << 30;
  // Ids, their embeddings' rows and what a tokenizer needs of a part go beside the text.
  constexpr int64_t kShareOfMemory = 8;
  const int64_t in_memory = std::min(kMostBytes, AvailableMemory() / kShareOfMemory);
  const Tokenizer* const tokenizer = state_->assembly->tokenizer.get();
  const int64_t most = LimitOfPrompts(*state_->assembly).most();
  if (tokenizer == nullptr || most > kMostBytes / tokenizer->longest_token()) return in_memory;
  return std::min(in_memory, std::max(kAnyText, most * tokenizer->longest_token()));
}

absl::StatusOr<std::string> Engine::Decode(std::span<const int32_t> ids) const {
  return Guarded([&]() -> absl::StatusOr<std::string> {
    if (!has_tokenizer()) return UsageError("the model has no tokenizer");
    NG_RETURN_IF_ERROR(CheckIds(state_->shape(), ids));
    std::string bytes;
    for (const int32_t id : ids) bytes += state_->assembly->token_bytes[static_cast<size_t>(id)];
    return bytes;
  });
}

absl::StatusOr<std::vector<int32_t>> Engine::EncodeMessage(std::string_view message,
                                                           const std::string& tools) const {
  return GuardedReading([&]() -> absl::StatusOr<std::vector<int32_t>> {
    NG_RETURN_IF_ERROR(CheckText(message));
    auto said = nlohmann::ordered_json::array();
    auto& only = said.emplace_back(nlohmann::ordered_json::object());
    only["role"] = "user";
    only["content"] = message;
    return EncodeConversation({.messages = said.dump(), .tools = tools});
  });
}

absl::StatusOr<std::vector<int32_t>> Engine::EncodeConversation(
    const Conversation& conversation, std::span<const int32_t> fed) const {
  return GuardedReading([&]() -> absl::StatusOr<std::vector<int32_t>> {
    const Assembly& assembly = *state_->assembly;
    if (assembly.chat == nullptr) return NoChatTemplate(assembly);
    return Fitting(assembly,
                   [&](int64_t most) { return assembly.chat->Encode(conversation, fed, most); });
  });
}

absl::StatusOr<int64_t> Engine::ContextOf(const Conversation& conversation,
                                          std::span<const int32_t> ids) const {
  return GuardedReading([&]() -> absl::StatusOr<int64_t> {
    auto said = nlohmann::ordered_json::parse(conversation.messages);
    const auto asks = std::find_if(said.rbegin(), said.rend(), [](const auto& message) {
      return message.value("role", "") == "user";
    });
    if (asks == said.rend()) return 0;
    const bool first = std::next(asks) == said.rend();
    if (first && config().Text("run.system").empty()) return 0;
    // Where it says one thing and another, the two have what stands before it in common.
    std::vector<int32_t> other[2];
    for (const size_t i : {size_t{0}, size_t{1}}) {
      (*asks)["content"] = i == 0 ? "A" : "1";
      Conversation with = conversation;
      with.messages = said.dump();
      NG_ASSIGN_OR_RETURN(other[i], EncodeConversation(with));
    }
    const auto before = std::ranges::mismatch(other[0], other[1]).in1;
    const std::span<const int32_t> common(other[0].begin(), before);
    return std::ranges::mismatch(common, ids).in2 - ids.begin();
  });
}

absl::StatusOr<std::unique_ptr<AnswerReader>> Engine::ReadAnswer(
    const Conversation& conversation) const {
  return GuardedReading([&]() -> absl::StatusOr<std::unique_ptr<AnswerReader>> {
    const Assembly& assembly = *state_->assembly;
    if (assembly.chat == nullptr) return NoChatTemplate(assembly);
    return assembly.chat->ReadAnswer(conversation);
  });
}

absl::StatusOr<std::string> Engine::CallGrammar(const Conversation& conversation,
                                                const CallChoice& choice) const {
  return GuardedReading([&]() -> absl::StatusOr<std::string> {
    const Assembly& assembly = *state_->assembly;
    if (assembly.chat == nullptr) return NoChatTemplate(assembly);
    return assembly.chat->CallGrammar(conversation, choice);
  });
}

absl::StatusOr<std::string> Engine::NotWritten(const Conversation& conversation) const {
  return GuardedReading([&]() -> absl::StatusOr<std::string> {
    const Assembly& assembly = *state_->assembly;
    if (assembly.chat == nullptr) return NoChatTemplate(assembly);
    return assembly.chat->NotWritten(conversation);
  });
}

absl::StatusOr<std::string> Engine::ThoughtsGrammar(const Conversation& conversation) const {
  return GuardedReading([&]() -> absl::StatusOr<std::string> {
    const Assembly& assembly = *state_->assembly;
    if (assembly.chat == nullptr) return NoChatTemplate(assembly);
    return assembly.chat->ThoughtsGrammar(conversation);
  });
}

const std::string& Engine::template_date() const {
  static const std::string none;
  return state_->assembly->chat == nullptr ? none : state_->assembly->chat->date();
}

}  // namespace ng
