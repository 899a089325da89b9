#include "core/text/chat/chat_template.h"

#include <algorithm>
#include <array>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "ng/names.h"

namespace ng {

// Where a template removes the spaces at the ends of what is said.
enum class Trim {
  kNowhere,
  kEachText,
  kTurn,  // at the ends of system and user text together
};

// A conversation is: begin, system (if any), user | again, user | again, user ... In each string
// - {} is what is said;
// - { } is a space. Only a tokenizer that treats spaces as transformers does is given it; other
//   tokenizers put a space there themselves;
// - a literal of `specials` is the token with this name.
struct ChatTemplateRow {
  std::string_view name;
  std::array<std::string_view, 4> specials;  // unused ones are empty
  std::string_view begin;
  std::string_view system;
  std::string_view user;  // a user's turn, and the beginning of the answer
  std::string_view again;
  std::string_view eot;  // the one of `specials` that ends an answer
  Trim trim = Trim::kNowhere;
};

namespace {

constexpr std::string_view kNone = "none";
constexpr std::string_view kPlace = "{}";
constexpr std::string_view kGap = "{ }";

#define NG_NIELS(role) "<|ngpt_" role "_84a5023f67d74cf29cc4001becde983c|>"

// If several rows have the same name, the first one is taken whose special tokens the tokenizer
// has.
constexpr ChatTemplateRow kRows[] = {
    {.name = "niels",
     .specials = {NG_NIELS("sys"), NG_NIELS("usr"), NG_NIELS("asst"), NG_NIELS("eot")},
     .begin = "",
     .system = NG_NIELS("sys") "{}" NG_NIELS("eot"),
     .user = NG_NIELS("usr") "{}" NG_NIELS("eot") NG_NIELS("asst"),
     .again = "",
     .eot = NG_NIELS("eot")},
    {.name = "chatml",
     .specials = {"<|im_start|>", "<|im_end|>"},
     .begin = "",
     .system = "<|im_start|>system\n{}<|im_end|>\n",
     .user = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n",
     .again = "\n",
     .eot = "<|im_end|>"},
    {.name = "llama2",
     .specials = {"<s>", "</s>"},
     .begin = "<s>[INST] ",
     .system = "<<SYS>>\n{}\n<</SYS>>\n\n",
     .user = "{} [/INST]",
     .again = "<s>[INST] ",
     .eot = "</s>",
     .trim = Trim::kTurn},
    {.name = "llama3",
     .specials = {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
     .begin = "<|begin_of_text|>",
     .system = "<|start_header_id|>system<|end_header_id|>\n\n{}<|eot_id|>",
     .user = "<|start_header_id|>user<|end_header_id|>\n\n{}<|eot_id|>"
             "<|start_header_id|>assistant<|end_header_id|>\n\n",
     .again = "",
     .eot = "<|eot_id|>",
     .trim = Trim::kEachText},
    {.name = "zephyr",
     .specials = {"</s>"},
     .begin = "",
     .system = "<|system|>\n{}</s>\n",
     .user = "<|user|>\n{}</s>\n<|assistant|>\n",
     .again = "\n",
     .eot = "</s>"},
    // Two rows: the marks of an instruction are tokens (version 3 of the tokenizer), or text.
    {.name = "mistral",
     .specials = {"<s>", "</s>", "[INST]", "[/INST]"},
     .begin = "<s>[INST]{ }",
     .system = "{}\n\n",
     .user = "{}[/INST]",
     .again = "[INST]{ }",
     .eot = "</s>"},
    {.name = "mistral",
     .specials = {"<s>", "</s>"},
     .begin = "<s>[INST] ",
     .system = "{}\n\n",
     .user = "{} [/INST]",
     .again = "[INST] ",
     .eot = "</s>"},
};

#undef NG_NIELS

std::vector<std::string> AllNames() {
  std::vector<std::string> names = {std::string(kNone)};
  for (const ChatTemplateRow& row : kRows) {
    if (names.back() != row.name) names.emplace_back(row.name);
  }
  return names;
}

std::string JoinedNames() {
  std::string joined;
  for (const std::string& name : AllNames()) {
    absl::StrAppend(&joined, joined.empty() ? "" : "|", name);
  }
  return joined;
}

absl::Status UnknownTemplate(std::string_view name) {
  const std::vector<std::string> names = AllNames();
  const std::optional<std::string> nearest = NearestName(name, names);
  return UsageError(absl::StrCat("chat template \"", View(name), "\", must be one of ",
                                 ChatTemplateNames(),
                                 nearest ? "; did you mean " + *nearest + "?" : ""));
}

// The special token of a row that a tokenizer lacks, if any.
std::string_view MissingToken(const ChatTemplateRow& row, const Tokenizer& tokenizer) {
  const auto missing = std::ranges::find_if(row.specials, [&](std::string_view literal) {
    return !literal.empty() && !tokenizer.SpecialId(literal);
  });
  return missing == row.specials.end() ? std::string_view() : *missing;
}

}  // namespace

const char* ChatTemplateNames() {
  static const std::string names = JoinedNames();
  return names.c_str();
}

absl::StatusOr<ChatTemplate> ChatTemplate::Bind(const ChatTemplateChoice& choice,
                                                const Tokenizer& tokenizer) {
  const std::string_view name = choice.name;
  if (name == kNone) {
    return UsageError("chat template \"none\": a conversation needs one of " + JoinedNames());
  }
  std::string_view missing;
  for (const ChatTemplateRow& row : kRows) {
    if (row.name != name) continue;
    missing = MissingToken(row, tokenizer);
    if (!missing.empty()) continue;
    ChatTemplate bound;
    bound.row_ = &row;
    bound.tokenizer_ = &tokenizer;
    bound.default_system_ = choice.default_system;
    bound.before_again_ = choice.before_again;
    for (const std::string_view literal : row.specials) {
      if (!literal.empty()) bound.specials_.emplace_back(literal, *tokenizer.SpecialId(literal));
    }
    bound.eot_ = *tokenizer.SpecialId(row.eot);
    return bound;
  }
  if (missing.empty()) return UnknownTemplate(name);
  return UsageError(absl::StrCat("chat template \"", View(name),
                                 "\": the tokenizer has no special token ", View(missing)));
}

std::string_view ChatTemplate::Recognise(const Tokenizer& tokenizer) {
  // Base models have the tokens of the other templates too, so only niels can be recognised.
  const ChatTemplateRow& niels = kRows[0];
  return MissingToken(niels, tokenizer).empty() ? niels.name : kNone;
}

// Collects text up to the next special token, so that text without one is encoded as a whole.
class ChatTemplate::Writer {
 public:
  // `begins`: the conversation begins here.
  Writer(const ChatTemplate& bound, bool begins, int64_t most)
      : bound_(bound), begins_(begins), most_(most) {}

  // `said` takes the place of {}. Special tokens are not searched for in it.
  absl::Status Add(std::string_view pattern, std::string_view said) {
    while (!pattern.empty()) {
      if (pattern.starts_with(kPlace)) {
        text_ += said;
        pattern.remove_prefix(kPlace.size());
        continue;
      }
      if (pattern.starts_with(kGap)) {
        if (bound_.tokenizer_->spaces_as_transformers()) text_ += ' ';
        pattern.remove_prefix(kGap.size());
        continue;
      }
      const auto special = std::ranges::find_if(
          bound_.specials_, [&](const auto& known) { return pattern.starts_with(known.first); });
      if (special == bound_.specials_.end()) {
        text_ += pattern.front();
        pattern.remove_prefix(1);
        continue;
      }
      NG_RETURN_IF_ERROR(EncodeText());
      ids_.push_back(special->second);
      pattern.remove_prefix(special->first.size());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<int32_t>> Finish() {
    NG_RETURN_IF_ERROR(EncodeText());
    return std::move(ids_);
  }

 private:
  absl::Status EncodeText() {
    EncodeOptions options;
    options.continues = !begins_ || !ids_.empty();
    options.most = std::max<int64_t>(0, most_ - std::ssize(ids_));
    NG_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, bound_.tokenizer_->Encode(text_, options));
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    text_.clear();
    return absl::OkStatus();
  }

  const ChatTemplate& bound_;
  bool begins_;
  int64_t most_;
  std::string text_;
  std::vector<int32_t> ids_;
};

absl::StatusOr<std::vector<int32_t>> ChatTemplate::FirstTurn(std::string_view system,
                                                             std::string_view user,
                                                             int64_t most) const {
  absl::string_view system_text = View(system.empty() ? default_system_ : system);
  absl::string_view user_text = View(user);
  if (row_->trim == Trim::kEachText) system_text = absl::StripAsciiWhitespace(system_text);
  if (row_->trim != Trim::kNowhere) user_text = absl::StripTrailingAsciiWhitespace(user_text);
  if (row_->trim == Trim::kEachText || (row_->trim == Trim::kTurn && system_text.empty())) {
    user_text = absl::StripLeadingAsciiWhitespace(user_text);
  }
  Writer writer(*this, true, most);
  NG_RETURN_IF_ERROR(writer.Add(row_->begin, ""));
  if (!system_text.empty()) {
    NG_RETURN_IF_ERROR(writer.Add(row_->system, {system_text.data(), system_text.size()}));
  }
  NG_RETURN_IF_ERROR(writer.Add(row_->user, {user_text.data(), user_text.size()}));
  return writer.Finish();
}

absl::StatusOr<std::vector<int32_t>> ChatTemplate::NextTurn(std::string_view user,
                                                            int64_t most) const {
  const absl::string_view text =
      row_->trim == Trim::kNowhere ? View(user) : absl::StripAsciiWhitespace(View(user));
  Writer writer(*this, false, most);
  NG_RETURN_IF_ERROR(writer.Add(before_again_, ""));
  NG_RETURN_IF_ERROR(writer.Add(row_->again, ""));
  NG_RETURN_IF_ERROR(writer.Add(row_->user, {text.data(), text.size()}));
  return writer.Finish();
}

}  // namespace ng
