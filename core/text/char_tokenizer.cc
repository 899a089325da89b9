#include "core/text/char_tokenizer.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/formats/json.h"
#include "core/text/pickle.h"
#include "core/text/text_checks.h"
#include "core/text/unicode.h"

namespace ng {
namespace {

// The last value under a key; null where there is none.
const PickleValue* Find(const PickleDict& dict, std::string_view key) {
  const PickleValue* found = nullptr;
  for (const auto& [name, value] : dict) {
    const auto* const text = std::get_if<std::string>(&name.value);
    if (text != nullptr && *text == key) found = &value;
  }
  return found;
}

const PickleDict* FindDict(const PickleDict& dict, std::string_view key) {
  const PickleValue* const value = Find(dict, key);
  return value == nullptr ? nullptr : std::get_if<PickleDict>(&value->value);
}

bool IsOneCharacter(const std::string& text) {
  return !text.empty() && FirstCodePoint(text).length == text.size();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> CharTokenizer::FromMetaPickle(std::string_view bytes,
                                                                         const std::string& path) {
  std::unique_ptr<CharTokenizer> tokenizer(new CharTokenizer(path));
  NG_RETURN_IF_ERROR(tokenizer->Load(bytes));
  return tokenizer;
}

absl::Status CharTokenizer::Load(std::string_view bytes) {
  NG_ASSIGN_OR_RETURN(const PickleValue meta, ReadPickle(bytes, path_));
  const auto* const dict = std::get_if<PickleDict>(&meta.value);
  const PickleDict* const itos = dict == nullptr ? nullptr : FindDict(*dict, "itos");
  const PickleDict* const stoi = dict == nullptr ? nullptr : FindDict(*dict, "stoi");
  if (itos == nullptr || stoi == nullptr || itos->empty()) {
    return ModelFileError(path_ +
                          ": must be a dictionary with \"itos\" and \"stoi\" of characters");
  }
  chars_.resize(itos->size());
  for (const auto& [key, value] : *itos) {
    const auto* const id = std::get_if<int64_t>(&key.value);
    const auto* const text = std::get_if<std::string>(&value.value);
    if (id == nullptr || *id < 0 || *id >= vocab_size() || text == nullptr ||
        !IsOneCharacter(*text) || !ids_.emplace(*text, static_cast<int32_t>(*id)).second ||
        !chars_[*id].empty()) {
      return ModelFileError(absl::StrCat(path_, ": \"itos\" must give each id in [0, ",
                                         vocab_size(), ") a character of its own"));
    }
    chars_[*id] = *text;
  }
  return CheckAgainst(*stoi, Find(*dict, "vocab_size"));
}

absl::Status CharTokenizer::CheckAgainst(const PickleDict& stoi, const PickleValue* size) const {
  const auto agrees = [this](const PickleEntry& entry) {
    const auto* const text = std::get_if<std::string>(&entry.key.value);
    const auto* const id = std::get_if<int64_t>(&entry.value.value);
    const auto found = text == nullptr ? ids_.end() : ids_.find(*text);
    return found != ids_.end() && id != nullptr && *id == found->second;
  };
  const auto* const n_chars = size == nullptr ? nullptr : std::get_if<int64_t>(&size->value);
  const bool counts = size == nullptr || (n_chars != nullptr && *n_chars == vocab_size());
  if (!counts || stoi.size() != ids_.size() || !std::ranges::all_of(stoi, agrees)) {
    return ModelFileError(
        absl::StrCat(path_, ": \"stoi\" and \"vocab_size\" do not say what \"itos\" says"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> CharTokenizer::Encode(std::string_view text,
                                                           const EncodeOptions& options) const {
  NG_RETURN_IF_ERROR(CheckText(text));
  if (options.add_special) {
    return UsageError(absl::StrCat(
        path_, ": add_special = true, must be false: there are no tokens to begin and end a text"));
  }
  std::vector<int32_t> ids;
  for (size_t at = 0; at < text.size() && std::ssize(ids) <= options.most;) {
    const std::string_view character = text.substr(at, FirstCodePoint(text.substr(at)).length);
    const auto found = ids_.find(character);
    if (found == ids_.end()) {
      return UsageError(absl::StrCat("the character ", JsonExcerpt(std::string(character)),
                                     " at byte ", at, " is none of the ", vocab_size(),
                                     " characters of ", path_));
    }
    ids.push_back(found->second);
    at += character.size();
  }
  return ids;
}

absl::StatusOr<std::vector<int32_t>> CharTokenizer::EncodeAsReference(
    std::string_view text, const EncodeOptions& options) const {
  return Encode(text, options);
}

absl::StatusOr<std::string> CharTokenizer::Decode(std::span<const int32_t> ids) const {
  NG_RETURN_IF_ERROR(CheckIds(ids, vocab_size(), path_));
  std::string text;
  for (const int32_t id : ids) text += TokenBytes(id);
  return text;
}

std::string_view CharTokenizer::TokenBytes(int32_t id) const {
  assert(id >= 0 && id < vocab_size());
  return chars_[static_cast<size_t>(id)];
}

}  // namespace ng
