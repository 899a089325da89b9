#include "core/text/chat_template.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "core/config/config.h"

namespace ng {
namespace {

constexpr std::string_view kNone = "none";

// The special tokens of one template, as its tokenizer spells them.
struct Literals {
  std::string_view name;
  std::string_view sys;   // opens the system text
  std::string_view usr;   // opens a user's turn
  std::string_view asst;  // opens an answer
  std::string_view eot;   // closes each of them

  std::array<std::string_view, 4> tokens() const { return {sys, usr, asst, eot}; }
};

constexpr Literals kTemplates[] = {{
    .name = "niels",
    .sys = "<|ngpt_sys_84a5023f67d74cf29cc4001becde983c|>",
    .usr = "<|ngpt_usr_84a5023f67d74cf29cc4001becde983c|>",
    .asst = "<|ngpt_asst_84a5023f67d74cf29cc4001becde983c|>",
    .eot = "<|ngpt_eot_84a5023f67d74cf29cc4001becde983c|>",
}};

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

std::vector<std::string> AllNames() {
  std::vector<std::string> names = {std::string(kNone)};
  for (const Literals& literals : kTemplates) names.emplace_back(literals.name);
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

}  // namespace

const char* ChatTemplateNames() {
  static const std::string names = JoinedNames();
  return names.c_str();
}

absl::StatusOr<ChatTemplate> ChatTemplate::Bind(std::string_view name, const Tokenizer& tokenizer) {
  if (name == kNone) {
    return UsageError("chat template \"none\": a conversation needs one of " + JoinedNames());
  }
  const Literals* literals = std::ranges::find(kTemplates, name, &Literals::name);
  if (literals == std::end(kTemplates)) return UnknownTemplate(name);

  ChatTemplate bound;
  bound.tokenizer_ = &tokenizer;
  int32_t* const ids[] = {&bound.sys_, &bound.usr_, &bound.asst_, &bound.eot_};
  for (size_t i = 0; i < std::size(ids); ++i) {
    const std::string_view literal = literals->tokens()[i];
    const std::optional<int32_t> id = tokenizer.SpecialId(literal);
    if (!id) {
      return UsageError(absl::StrCat("chat template \"", View(name),
                                     "\": the tokenizer has no special token ", View(literal)));
    }
    *ids[i] = *id;
  }
  return bound;
}

std::string_view ChatTemplate::Recognise(const Tokenizer& tokenizer) {
  for (const Literals& literals : kTemplates) {
    const auto known = [&](std::string_view token) {
      return tokenizer.SpecialId(token).has_value();
    };
    if (std::ranges::all_of(literals.tokens(), known)) return literals.name;
  }
  return kNone;
}

absl::StatusOr<std::vector<int32_t>> ChatTemplate::FirstTurn(std::string_view system,
                                                             std::string_view user) const {
  std::vector<int32_t> ids;
  if (!system.empty()) NG_RETURN_IF_ERROR(AppendTurn(sys_, system, &ids));
  NG_RETURN_IF_ERROR(AppendTurn(usr_, user, &ids));
  ids.push_back(asst_);
  return ids;
}

absl::StatusOr<std::vector<int32_t>> ChatTemplate::NextTurn(std::string_view user) const {
  return FirstTurn("", user);
}

absl::Status ChatTemplate::AppendTurn(int32_t opening, std::string_view text,
                                      std::vector<int32_t>* ids) const {
  NG_ASSIGN_OR_RETURN(const std::vector<int32_t> body, tokenizer_->Encode(text, EncodeOptions{}));
  ids->push_back(opening);
  ids->insert(ids->end(), body.begin(), body.end());
  ids->push_back(eot_);
  return absl::OkStatus();
}

}  // namespace ng
