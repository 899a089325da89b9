#include "core/text/chat/jinja_chat.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/absl_view.h"
#include "core/text/chat/calls/argument_kinds.h"
#include "core/text/chat/calls/call_grammar.h"
#include "core/text/chat/calls/call_parser.h"
#include "core/text/chat/calls/learn/learn.h"
#include "core/text/chat/conversation_json.h"
#include "core/text/chat/named_templates.h"
#include "core/text/chat/template_marks.h"
#include "core/text/chat/template_variables.h"
#include "core/text/jinja/template.h"
#include "ng/memory_reserve.h"
#include "ng/names.h"
#include "ng/recent.h"

namespace ng {
namespace {

using OrderedJson = nlohmann::ordered_json;  // what a template prints keeps its order

// The JSON library's destructors allocate, and do not survive that it fails.
constexpr size_t kReservedBytes = size_t{1} << 20;

// The roles that are ng's own words, not a user's: templates make special tokens of them.
constexpr std::string_view kRoles[] = {"system", "developer", "user",   "assistant",
                                       "tool",   "function",  "ipython"};

absl::StatusOr<jinja::Template> Parse(const TemplateSource& source) {
  const bool is_alone = absl::EndsWith(source.path, ".jinja");
  return jinja::Template::Parse(source.text, source.path + (is_alone ? "" : ": chat template"));
}

size_t Count(std::string_view text, std::string_view word) {
  size_t n = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++n;
  return n;
}

class JinjaChat final : public ChatTemplate {
 public:
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> Make(TemplateMetadata found,
                                                            const Tokenizer& tokenizer,
                                                            const ChatOptions& options) {
    auto chat = std::make_unique<JinjaChat>();
    chat->name_ = found.own->path;
    chat->tokenizer_ = &tokenizer;
    chat->system_ = options.system;
    chat->marks_ = TemplateMarks(tokenizer);
    NG_ASSIGN_OR_RETURN(chat->own_, Parse(*found.own));
    chat->marks_.AddOfProgram(found.own->text);
    if (const auto tools = found.named.find(kWithTools); tools != found.named.end()) {
      NG_ASSIGN_OR_RETURN(chat->with_tools_, Parse(tools->second));
      chat->marks_.AddOfProgram(tools->second.text);
    }
    std::set<std::string, std::less<>> names = chat->own_->names();
    if (chat->with_tools_) {
      names.insert(chat->with_tools_->names().begin(), chat->with_tools_->names().end());
    }
    NG_ASSIGN_OR_RETURN(chat->variables_,
                        TemplateVariables::Make(std::move(found.special_tokens), std::move(names),
                                                chat->name_, options));
    chat->program_ = (chat->with_tools_ ? found.named.find(kWithTools)->second : *found.own).text;
    chat->Probe();
    return chat;
  }

  const std::string& name() const override { return name_; }
  int32_t eot() const override { return eot_; }
  const std::string& date() const override { return variables_.date(); }

  absl::StatusOr<std::string> Render(const Conversation& conversation) const override {
    NG_ASSIGN_OR_RETURN(const Rendering rendered, RenderedOf(conversation));
    return rendered->bytes();
  }

  using ChatTemplate::Encode;
  absl::StatusOr<std::vector<int32_t>> Encode(const Conversation& conversation,
                                              std::span<const int32_t> fed,
                                              int64_t most) const override {
    NG_ASSIGN_OR_RETURN(const Rendering rendered, RenderedOf(conversation));
    if (!fed.empty()) {
      NG_ASSIGN_OR_RETURN(const Given given, Values(conversation));
      NG_ASSIGN_OR_RETURN(std::optional<std::vector<int32_t>> ids,
                          Continue(given, *rendered, fed, most));
      if (ids) return *std::move(ids);
    }
    return EncodeText(*rendered, {.most = most});
  }

  absl::StatusOr<std::unique_ptr<AnswerReader>> ReadAnswer(
      const Conversation& conversation) const override {
    NG_ASSIGN_OR_RETURN(const bool thinks, AnswerThinks(conversation));
    const calls::Learned& learned = LearnedCalls();
    NG_ASSIGN_OR_RETURN(const KnownTools tools, ToolsOf(conversation.tools));
    const bool calls = !tools->list.is_null() && !tools->list.empty();
    if (calls) NG_RETURN_IF_ERROR(Readable(learned));
    return std::make_unique<calls::CallParser>(learned.format, tools->schemas,
                                               calls::CallParser::Begins{calls, thinks});
  }

  absl::StatusOr<std::string> CallGrammar(const Conversation& conversation,
                                          const CallChoice& choice) const override {
    NG_ASSIGN_OR_RETURN(const bool thinks, AnswerThinks(conversation));
    const calls::Learned& learned = LearnedCalls();
    NG_RETURN_IF_ERROR(Readable(learned));
    AskedGrammar asked = {choice, thinks};
    if (choice.tools.empty()) asked.choice.tools = conversation.tools;
    if (const auto kept = grammars_.Find(asked)) return *kept;
    NG_ASSIGN_OR_RETURN(const KnownTools tools, ToolsOf(asked.choice.tools));
    NG_ASSIGN_OR_RETURN(std::string grammar,
                        calls::CallGrammar(learned.format, tools->list, choice, thinks));
    const size_t bytes = asked.choice.tools.size() + grammar.size();
    return *grammars_.Add(std::move(asked), std::move(grammar), bytes);
  }

  absl::StatusOr<std::string> NotWritten(const Conversation& conversation) const override {
    if (!absl::StrContains(conversation.messages, "\"tool_calls\"")) return std::string();
    NG_ASSIGN_OR_RETURN(const OrderedJson messages, ParseList(conversation.messages, "messages"));
    const calls::Learned& learned = LearnedCalls();
    if (!learned.calls.ok()) return std::string();
    for (const OrderedJson& arguments : ArgumentsOfCalls(messages)) {
      const std::string what = calls::NotWritten(learned.format, arguments);
      if (what.empty()) continue;
      return absl::StrCat("a call that was made before has ", what, ", which the chat template ",
                          name_, " cannot write: the model reads other arguments");
    }
    return std::string();
  }

  absl::StatusOr<std::string> ThoughtsGrammar(const Conversation& conversation) const override {
    NG_ASSIGN_OR_RETURN(const Thoughts thoughts, ThoughtsOf(conversation));
    if (thoughts == Thoughts::kClosed || !conversation.asks) return std::string();
    return calls::ThoughtsGrammar(LearnedCalls().format, thoughts == Thoughts::kBegun);
  }

  absl::StatusOr<std::string> DescribeCalls() const override {
    const calls::Learned& learned = LearnedCalls();
    NG_RETURN_IF_ERROR(Readable(learned));
    constexpr int kIndent = 2;
    return calls::Described(learned.format)
        .dump(kIndent, ' ', false, OrderedJson::error_handler_t::replace);
  }

  std::string ThoughtMarks() const override {
    const calls::CallFormat& format = LearnedCalls().format;
    if (format.reasoning_begin.empty() || format.reasoning_end.empty()) return {};
    const jinja::Text end(calls::TextOf(format.reasoning_end, format.tokens),
                          jinja::Origin::kTemplate);
    const absl::StatusOr<std::vector<int32_t>> close = EncodeText(end, {.continues = true});
    if (!close.ok()) return {};
    OrderedJson marks = calls::ThoughtMarks(format);
    marks["close"] = *close;
    return marks.dump();
  }

 private:
  absl::Status Readable(const calls::Learned& learned) const {
    return Annotate(learned.calls, absl::StrCat("tools: the chat template ", name_, " "));
  }

  // A conversation as the template writes it. Who asks for an answer asks for its prompt, its
  // grammar and what reads it, one after the other.
  using Rendering = std::shared_ptr<const jinja::Text>;
  absl::StatusOr<Rendering> RenderedOf(const Conversation& conversation) const {
    if (Rendering kept = rendered_.Find(conversation)) return kept;
    NG_ASSIGN_OR_RETURN(const Given given, Values(conversation));
    NG_ASSIGN_OR_RETURN(jinja::Text text, TextOf(conversation, given));
    const size_t bytes = 2 * text.bytes().size() + conversation.messages.size() +
                         conversation.tools.size() + conversation.variables.size();
    return rendered_.Add(conversation, std::move(text), bytes);
  }

  // Clients send the same tools with every request.
  // NOLINTNEXTLINE(bugprone-exception-escape): of the JSON library, whose moves do not throw
  struct Tools {
    OrderedJson list;  // null: none were given
    jinja::SharedVariable variable;
    calls::ToolSchemas schemas;
  };
  using KnownTools = std::shared_ptr<const Tools>;
  absl::StatusOr<KnownTools> ToolsOf(const std::string& text) const {
    static const KnownTools kNone = std::make_shared<const Tools>(*MadeTools(nullptr));
    if (text.empty()) return kNone;
    if (KnownTools kept = tools_.Find(text)) return kept;
    NG_ASSIGN_OR_RETURN(OrderedJson list, ParseList(text, "tools"));
    NG_ASSIGN_OR_RETURN(Tools tools, MadeTools(std::move(list)));
    constexpr size_t kJsonFactor = 24;  // what the values take more than their text
    return tools_.Add(text, std::move(tools), kJsonFactor * text.size());
  }
  absl::StatusOr<Tools> MadeTools(OrderedJson list) const {
    NG_ASSIGN_OR_RETURN(jinja::SharedVariable variable,
                        jinja::SharedVariable::Make("tools", list, own_->name()));
    calls::ToolSchemas schemas(list);
    return Tools{std::move(list), std::move(variable), std::move(schemas)};
  }
  // The variables for a rendering.
  // NOLINTNEXTLINE(bugprone-exception-escape): of the JSON library, whose moves do not throw
  struct Given {
    OrderedJson values;
    KnownTools tools;
  };
  struct AskedGrammar {
    CallChoice choice;  // with its tools
    bool thinks;

    bool operator==(const AskedGrammar&) const = default;
  };

  // What a prompt says of thoughts where it ends: with what the template says of itself.
  enum class Thoughts { kOpen, kBegun, kClosed };
  absl::StatusOr<Thoughts> ThoughtsOf(const Conversation& conversation) const {
    Conversation ended = conversation;
    ended.goes_on = false;
    NG_ASSIGN_OR_RETURN(const Rendering rendered, RenderedOf(ended));
    const jinja::Text& text = *rendered;
    const calls::CallFormat& format = LearnedCalls().format;
    const size_t said = text.origins().find_last_of(static_cast<char>(jinja::Origin::kData));
    const calls::Symbols end = SymbolsOf(text.Slice(said == std::string::npos ? 0 : said + 1));
    constexpr size_t kNowhere = calls::Symbols::npos;
    if (format.reasoning_begin.empty()) return Thoughts::kOpen;
    const size_t begins = end.rfind(format.reasoning_begin);
    // Some templates write only what ends them.
    const size_t ends = end.find(format.reasoning_end, begins == kNowhere ? 0 : begins);
    if (ends != kNowhere) return Thoughts::kClosed;
    return begins == kNowhere ? Thoughts::kOpen : Thoughts::kBegun;
  }
  absl::StatusOr<bool> AnswerThinks(const Conversation& conversation) const {
    NG_ASSIGN_OR_RETURN(const Thoughts thoughts, ThoughtsOf(conversation));
    return thoughts == Thoughts::kBegun;
  }

  // A text with the tokens that the template wrote in it.
  calls::Symbols SymbolsOf(const jinja::Text& text) const {
    calls::Symbols symbols;
    for (const TextFragment& part : marks_.PartsOf(text)) {
      if (part.id >= 0) {
        symbols += calls::kFirstToken + static_cast<char32_t>(part.id);
      } else {
        symbols += calls::SymbolsOf(part.text);
      }
    }
    return symbols;
  }

  const calls::Learned& LearnedCalls() const {
    std::call_once(learned_once_, [this] {
      const MemoryReserve reserve(kReservedBytes, MemoryReserve::For::kEverything);
      Learn();
      if (reserve.used()) throw std::bad_alloc();
    });
    return learned_;
  }

  void Learn() const {
    const bool takes_tools = (with_tools_ ? *with_tools_ : *own_).names().contains("tools");
    const auto tools =
        std::make_shared<const Tools>(*MadeTools(takes_tools ? calls::ProbeTools() : nullptr));
    calls::ProbedTemplate probed;
    probed.program = program_;
    if (eot_ >= 0) probed.end = calls::kFirstToken + static_cast<char32_t>(eot_);
    probed.mark = [this](std::string_view literal) {
      return SymbolsOf(jinja::Text(literal, jinja::Origin::kTemplate));
    };
    probed.token_text = [this](char32_t token) {
      return std::string(marks_.TextOf(static_cast<int32_t>(token - calls::kFirstToken)));
    };
    probed.render = [&](const OrderedJson& given, bool asks) -> std::optional<calls::Symbols> {
      OrderedJson messages = OrderedJson::array();
      for (const OrderedJson& one : given) {
        absl::StatusOr<OrderedJson> message = ReadMessage(one, no_content_, "");
        if (!message.ok()) return std::nullopt;
        messages.push_back(*std::move(message));
      }
      Given shown = {variables_.values(), tools};
      shown.values["messages"] = std::move(messages);
      shown.values["add_generation_prompt"] = asks;
      const absl::StatusOr<jinja::Text> text = RenderText(shown);
      if (!text.ok()) return std::nullopt;
      return SymbolsOf(*text);
    };
    learned_ = calls::LearnFormat(probed);
    if (!takes_tools) learned_.calls = UsageError("takes none");
  }

  // The template for these variables.
  const jinja::Template& For(const Given& given) const {
    return with_tools_ && !given.tools->list.is_null() ? *with_tools_ : *own_;
  }

  // The variables for a conversation.
  absl::StatusOr<Given> Values(const Conversation& conversation) const {
    NG_ASSIGN_OR_RETURN(const OrderedJson list, ParseList(conversation.messages, "messages"));
    if (list.empty()) return UsageError("messages: the list is empty");
    OrderedJson messages = OrderedJson::array();
    for (const OrderedJson& one : list) {
      const std::string where = absl::StrCat("messages: message ", messages.size() + 1);
      NG_ASSIGN_OR_RETURN(OrderedJson message, ReadMessage(one, no_content_, where));
      messages.push_back(std::move(message));
    }
    const OrderedJson& first = messages.front()["role"];
    if (!system_.empty() && first != "system" && first != "developer") {
      messages.insert(messages.begin(), MessageOf("system", system_));
    }
    if (HasArgumentTexts(messages)) {
      const calls::Learned& learned = LearnedCalls();
      if (learned.calls.ok() && !learned.format.arguments_text) ReadArgumentTexts(&messages);
    }
    Given given = {variables_.values(), nullptr};
    NG_RETURN_IF_ERROR(variables_.AddTo(conversation.variables, &given.values));
    given.values["messages"] = std::move(messages);
    if (!conversation.asks) given.values["add_generation_prompt"] = false;
    NG_ASSIGN_OR_RETURN(given.tools, ToolsOf(conversation.tools));
    if (!conversation.tools.empty() && !For(given).names().contains("tools")) {
      return UsageError(absl::StrCat("tools: the chat template ", name_, " takes none"));
    }
    return given;
  }

  absl::StatusOr<jinja::Text> TextOf(const Conversation& conversation, const Given& given) const {
    return conversation.goes_on ? RenderUnended(conversation, given) : RenderText(given);
  }

  // Up to where the content of the last message ends. As in transformers this is where the template
  // puts a mark that stands behind the content; where it trims contents, the spaces go, too.
  absl::StatusOr<jinja::Text> RenderUnended(const Conversation& conversation, Given given) const {
    constexpr std::string_view kMark = "ng goes on from here ";
    constexpr std::string_view kWord = kMark.substr(0, kMark.size() - 1);
    if (conversation.asks) {
      return UsageError(
          "messages: they end with the beginning of an answer, and with what asks for another one; "
          "leave one of these out");
    }
    std::string* const content = LastText(given.values["messages"].back());
    if (content == nullptr) {
      return UsageError("messages: the last one has no text that could go on");
    }
    const std::string said = *content;
    *content += kMark;
    NG_ASSIGN_OR_RETURN(const jinja::Text text, RenderText(given));
    const std::string& bytes = text.bytes();
    const size_t at = bytes.rfind(kWord);
    const jinja::Extent words = jinja::Strip(said, jinja::Side::kBoth);
    if (at == bytes.npos ||
        bytes.find(said.substr(words.begin, words.end - words.begin)) == bytes.npos) {
      return UsageError(absl::StrCat("messages: the chat template ", name_,
                                     " leaves out the last one, which is to go on"));
    }
    if (bytes.compare(at, kMark.size(), kMark) == 0) return text.Slice(0, at);
    return text.Slice(0,
                      jinja::Strip(std::string_view(bytes).substr(0, at), jinja::Side::kRight).end);
  }

  absl::StatusOr<jinja::Text> RenderText(const Given& given) const {
    // The model's own words, and ng's.
    const auto is_trusted = [this](std::string_view path, std::string_view text) {
      if (path.find('.') == path.npos) {
        return variables_.special_tokens().contains(std::string(path));
      }
      return path.starts_with("messages.") && path.ends_with(".role") &&
             std::ranges::count(path, '.') == 2 && std::ranges::count(kRoles, text) > 0;
    };
    return For(given).Render({given.values, is_trusted, &given.tools->variable}, variables_.now());
  }

  absl::StatusOr<std::vector<int32_t>> EncodeText(const jinja::Text& text,
                                                  EncodeOptions options) const {
    const std::vector<int32_t> marks = marks_.With(text);
    options.parse_special = true;
    options.special_at = text.origins();
    options.marks = marks;
    return tokenizer_->Encode(text.bytes(), options);
  }

  // `fed` and what follows it; nothing where the text does not begin as it did before.
  absl::StatusOr<std::optional<std::vector<int32_t>>> Continue(const Given& given,
                                                               const jinja::Text& text,
                                                               std::span<const int32_t> fed,
                                                               int64_t most) const {
    const OrderedJson& messages = given.values["messages"];
    const auto answer =
        std::find_if(messages.rbegin(), messages.rend(),
                     [](const OrderedJson& message) { return message["role"] == "assistant"; });
    if (answer == messages.rend() || !answer->contains("content")) return std::nullopt;
    const auto n_before = messages.rend() - answer - 1;
    if (!(*answer)["content"].is_string() || n_before == 0) return std::nullopt;
    Given before = given;
    before.values["messages"] = OrderedJson(messages.begin(), messages.begin() + n_before);
    before.values["add_generation_prompt"] = true;
    const absl::StatusOr<jinja::Text> shorter = RenderText(before);
    if (!shorter.ok()) return std::nullopt;
    const std::string said = shorter->bytes() + (*answer)["content"].get<std::string>();
    if (!absl::StartsWith(text.bytes(), said)) return std::nullopt;
    const int64_t left = std::max<int64_t>(0, most - std::ssize(fed));
    NG_ASSIGN_OR_RETURN(const std::vector<int32_t> more,
                        EncodeText(text.Slice(said.size()), {.continues = true, .most = left}));
    // Other tokens could be parts of what the answer ends with.
    if (more.empty() || !marks_.Has(more.front())) return std::nullopt;
    std::vector<int32_t> ids(fed.begin(), fed.end());
    ids.insert(ids.end(), more.begin(), more.end());
    return ids;
  }

  // What the template does in conversations that are made up here.
  void Probe() {
    const MemoryReserve reserve(kReservedBytes, MemoryReserve::For::kEverything);
    for (const std::string_view role : kRoles) ProbeRole(role);
    no_content_ = ProbeNoContent();
    eot_ = FindEot();
    if (reserve.used()) throw std::bad_alloc();
  }

  // The marks that a template puts around what this role says.
  void ProbeRole(std::string_view role) {
    OrderedJson messages = OrderedJson::array();
    if (role != "system" && role != "developer") messages.push_back(MessageOf("user", "?"));
    messages.push_back(MessageOf(role, "?"));
    messages.push_back(MessageOf("user", "?"));
    const absl::StatusOr<jinja::Text> text = RenderMessages(std::move(messages), true);
    if (text.ok()) marks_.AddOfText(*text);
  }

  absl::StatusOr<jinja::Text> RenderMessages(OrderedJson messages, bool asks) const {
    Given given = {variables_.values(), std::make_shared<const Tools>()};
    given.values["messages"] = std::move(messages);
    given.values["add_generation_prompt"] = asks;
    return RenderText(given);
  }

  // What follows an answer, found in a conversation that has one.
  int32_t FindEot() const {
    constexpr std::string_view kAnswer = "ng asks what follows";
    OrderedJson messages = OrderedJson::array();
    messages.push_back(MessageOf("user", "?"));
    messages.push_back(MessageOf("assistant", kAnswer));
    const absl::StatusOr<jinja::Text> text = RenderMessages(std::move(messages), false);
    const size_t at = text.ok() ? text->bytes().rfind(kAnswer) : std::string::npos;
    if (at != std::string::npos) {
      const auto ids = EncodeText(text->Slice(at + kAnswer.size()), {.continues = true});
      for (const int32_t id : ids.value_or(std::vector<int32_t>())) {
        if (marks_.Has(id)) return id;
      }
    }
    const auto eos = variables_.special_tokens().find("eos_token");
    return eos == variables_.special_tokens().end() ? -1 : marks_.Find(eos->second).value_or(-1);
  }

  // The text of a conversation whose answer is a call of a tool, with this as the answer's content.
  std::optional<std::string> RenderCall(const OrderedJson& content, const OrderedJson& arguments) {
    constexpr const char* kId = "ng0000001";  // of the form that all templates take
    OrderedJson call = OrderedJson::object();
    call["id"] = kId;
    call["type"] = "function";
    call["function"]["name"] = "ng";
    call["function"]["arguments"] = arguments;
    OrderedJson answer = MessageOf("assistant", "");
    answer["content"] = content;
    answer["tool_calls"] = OrderedJson::array();
    answer["tool_calls"].push_back(std::move(call));
    OrderedJson result = MessageOf("tool", "?");
    result["tool_call_id"] = kId;
    OrderedJson messages = OrderedJson::array();
    messages.push_back(MessageOf("user", "?"));
    messages.push_back(std::move(answer));
    messages.push_back(std::move(result));
    absl::StatusOr<jinja::Text> text = RenderMessages(std::move(messages), true);
    if (!text.ok()) return std::nullopt;
    marks_.AddOfText(*text);
    return text->bytes();
  }

  // What the template can take as a content that is null: null, unless it fails then or prints it.
  OrderedJson ProbeNoContent() {
    const OrderedJson nothing = OrderedJson::object();
    for (const OrderedJson& arguments : {nothing, OrderedJson("{}")}) {
      const std::optional<std::string> empty = RenderCall("", arguments);
      const std::optional<std::string> null = RenderCall(nullptr, arguments);
      if (null && (!empty || Count(*null, "None") <= Count(*empty, "None"))) return nullptr;
      if (empty) break;
    }
    return "";
  }

  std::string name_;
  const Tokenizer* tokenizer_ = nullptr;
  std::string system_;
  std::optional<jinja::Template> own_;
  std::optional<jinja::Template> with_tools_;
  TemplateVariables variables_;
  OrderedJson no_content_ = "";  // for a content that is null
  TemplateMarks marks_;
  int32_t eot_ = -1;
  std::string program_;  // of the template for conversations with tools
  // What was asked for last, each up to some megabytes.
  mutable Recent<Conversation, jinja::Text> rendered_{4, size_t{4} << 20};
  mutable Recent<std::string, Tools> tools_{8, size_t{12} << 20};
  mutable Recent<AskedGrammar, std::string> grammars_{8, size_t{4} << 20};
  mutable std::once_flag learned_once_;
  mutable calls::Learned learned_;
};

// The names of the templates that a model brings.
std::vector<std::string> OwnNames(const TemplateMetadata& found) {
  std::vector<std::string> names;
  if (found.own) names.emplace_back(kDefaultTemplate);
  for (const auto& [name, source] : found.named) names.push_back(name);
  return names;
}

absl::Status NoDefaultTemplate(const TemplateMetadata& found) {
  return UsageError(
      absl::StrCat(found.named.begin()->second.path, ": no chat template of the model is named ",
                   View(kDefaultTemplate), "; tokenizer.chat_template must be one of ",
                   absl::StrJoin(OwnNames(found), ", ")));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChatTemplate>> BindChatTemplate(TemplateMetadata found,
                                                               const Tokenizer& tokenizer,
                                                               const ChatOptions& options) {
  std::string_view name = options.chat_template;
  if (name == kOwnTemplate && !found.own) {
    if (!found.named.empty()) return NoDefaultTemplate(found);
    name = RecognisedTemplate(tokenizer);
  }
  if (name == kNoTemplate) return nullptr;
  if (name != kOwnTemplate && !(name == kDefaultTemplate && found.own)) {
    const auto named = found.named.find(name);
    if (named != found.named.end()) {
      found.own = std::move(named->second);
    } else if (name.find_first_of("/.") != std::string_view::npos) {
      NG_ASSIGN_OR_RETURN(found.own, ReadTemplate(std::string(name)));
    } else {
      NG_ASSIGN_OR_RETURN(std::string program, NamedTemplate(name, tokenizer, OwnNames(found)));
      found.own = {std::string(name), std::move(program)};
    }
    found.named.clear();
  }
  return JinjaChat::Make(std::move(found), tokenizer, options);
}

absl::StatusOr<std::unique_ptr<ChatTemplate>> OpenChatTemplate(const std::string& path,
                                                               const Tokenizer& tokenizer,
                                                               const ChatOptions& options) {
  NG_ASSIGN_OR_RETURN(TemplateMetadata found, FindTemplateMetadataOf(path));
  NG_ASSIGN_OR_RETURN(std::unique_ptr<ChatTemplate> chat,
                      BindChatTemplate(std::move(found), tokenizer, options));
  if (chat != nullptr) return chat;
  return UsageError(absl::StrCat(path, ": brings no chat template; name a file, or one of ",
                                 ChatTemplateNames()));
}

}  // namespace ng
