#include "core/text/bpe/scored_bpe_tokenizer.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/formats/json.h"
#include "core/text/bpe/bpe_merge.h"
#include "core/text/bpe/hash_table.h"
#include "core/text/text_checks.h"
#include "core/text/text_parts.h"
#include "core/text/unicode.h"
#include "ng/utf8.h"

namespace ng {
namespace {

constexpr char kUnknownText[] = " \u2047 ";  // how SentencePiece shows unknown text

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> ScoredBpeTokenizer::Create(ScoredBpeSpec spec,
                                                                      const std::string& path) {
  std::unique_ptr<ScoredBpeTokenizer> tokenizer(new ScoredBpeTokenizer(std::move(spec), path));
  NG_RETURN_IF_ERROR(Annotate(tokenizer->Load(), path + ": "));
  return tokenizer;
}

ScoredBpeTokenizer::ScoredBpeTokenizer(ScoredBpeSpec spec, std::string path)
    : spec_(std::move(spec)), path_(std::move(path)) {
  byte_ids_.fill(-1);
}

absl::Status ScoredBpeTokenizer::Load() {
  if (spec_.tokens.empty()) return ModelFileError("the tokenizer has no tokens");
  std::vector<AddedToken> added;
  MakeRoom(spec_.tokens.size(), &plain_ids_);
  token_bytes_.reserve(spec_.tokens.size());
  for (size_t id = 0; id < spec_.tokens.size(); ++id) {
    const absl::Status status = AddToken(static_cast<int32_t>(id), &added);
    if (status.ok()) continue;
    return Annotate(status, absl::StrCat("token ", id, " = ", JsonExcerpt(spec_.tokens[id]), " "));
  }
  added_ = AddedTokens(added);
  for (AddedToken& token : added) token.special = token.special || LooksLikeMarker(token.text);
  guarded_ = AddedTokens(std::move(added));
  spec_.tokens.clear();
  return absl::OkStatus();
}

absl::Status ScoredBpeTokenizer::AddToken(int32_t id, std::vector<AddedToken>* added) {
  const std::string& text = spec_.tokens[id];
  if (text.empty()) return ModelFileError("is empty");
  if (FindInvalidUtf8(text)) return ModelFileError("is not valid UTF-8");
  if (std::isnan(spec_.scores[id])) return ModelFileError("has the score NaN");
  bool is_new = true;
  std::string bytes;
  switch (spec_.types[id]) {
    case PieceType::kControl:
      is_new = specials_.emplace(text, id).second;
      added->push_back({.id = id, .text = text, .special = true});
      break;
    case PieceType::kUnknown:
      unknown_id_ = id;
      added->push_back({.id = id, .text = text, .special = true});
      bytes = kUnknownText;
      break;
    case PieceType::kByte: {
      const std::optional<char> byte = ByteOfPiece(text);
      if (!byte) return ModelFileError("is a byte token, must be <0x00> to <0xFF>");
      int32_t& byte_id = byte_ids_[static_cast<uint8_t>(*byte)];
      is_new = byte_id < 0;
      byte_id = id;
      bytes.assign(1, *byte);
      break;
    }
    case PieceType::kUserDefined:
      is_new = (LooksLikeMarker(text) ? specials_ : plain_defined_).emplace(text, id).second;
      added->push_back({.id = id, .text = text});
      bytes = absl::StrReplaceAll(text, {{kShownSpace, " "}});
      break;
    case PieceType::kNormal:
    case PieceType::kUnused:
      is_new = plain_ids_.emplace(std::string(text), id).second;
      bytes = absl::StrReplaceAll(text, {{kShownSpace, " "}});
      break;
  }
  if (!is_new) return ModelFileError("is there twice");
  if (absl::StrReplaceAll(bytes, {{" ", kShownSpace}}) != text) names_.emplace(id, text);
  longest_ = std::max(longest_, std::ssize(text));
  parts_at_spaces_ = parts_at_spaces_ && !SpansASpace(text);
  token_bytes_.push_back(std::move(bytes));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> ScoredBpeTokenizer::Encode(
    std::string_view text, const EncodeOptions& options) const {
  return EncodeWith(guarded_, text, options);
}

absl::StatusOr<std::vector<int32_t>> ScoredBpeTokenizer::EncodeAsReference(
    std::string_view text, const EncodeOptions& options) const {
  return EncodeWith(options.special_at.empty() ? added_ : guarded_, text, options);
}

absl::StatusOr<std::vector<int32_t>> ScoredBpeTokenizer::EncodeWith(
    const AddedTokens& added, std::string_view text, const EncodeOptions& options) const {
  NG_RETURN_IF_ERROR(CheckText(text));
  std::vector<int32_t> ids;
  if (options.add_special) ids = spec_.prefix;
  bool prefixed = spec_.add_space_prefix;
  for (const TextFragment& fragment :
       added.Split(text, options.parse_special, options.special_at, options.marks)) {
    if (std::ssize(ids) > options.most) return ids;
    if (fragment.id >= 0) {
      ids.push_back(fragment.id);
    } else {
      std::string escaped =
          absl::StrReplaceAll({fragment.text.data(), fragment.text.size()}, {{" ", kShownSpace}});
      const bool has_space = spec_.one_space_prefix && escaped.starts_with(kShownSpace);
      if (prefixed && !has_space) escaped.insert(0, kShownSpace);
      NG_RETURN_IF_ERROR(EncodeFragment(escaped, options.most, &ids));
    }
    prefixed = fragment.id >= 0 && spec_.add_space_prefix && !spec_.one_space_prefix;
  }
  if (options.add_special) ids.insert(ids.end(), spec_.suffix.begin(), spec_.suffix.end());
  return ids;
}

absl::Status ScoredBpeTokenizer::EncodeFragment(std::string_view text, int64_t most,
                                                std::vector<int32_t>* ids) const {
  while (!text.empty() && std::ssize(*ids) <= most) {
    size_t length = parts_at_spaces_ ? EndOfPart(text, kShownSpace) : text.size();
    // This many bytes give more ids than the caller can use.
    const auto longest = static_cast<size_t>(longest_);
    const auto wanted = static_cast<size_t>(most - std::ssize(*ids));
    if (length / longest > wanted) length = EndOfCharacter(text, (wanted + 1) * longest);
    NG_RETURN_IF_ERROR(EncodePart(text.substr(0, length), ids));
    text.remove_prefix(length);
  }
  return absl::OkStatus();
}

absl::Status ScoredBpeTokenizer::EncodePart(std::string_view text,
                                            std::vector<int32_t>* ids) const {
  std::vector<BpeSymbol> symbols;
  for (size_t at = 0; at < text.size();) {
    const size_t length = FirstCodePoint(text.substr(at)).length;
    symbols.push_back({PlainId(text.substr(at, length)), at, length});
    at += length;
  }
  const auto merge_of = [&](const BpeSymbol& left,
                            const BpeSymbol& right) -> std::optional<BpeMerge> {
    const int32_t id = PlainId(text.substr(left.begin, left.length + right.length));
    if (id < 0) return std::nullopt;
    return BpeMerge{-static_cast<double>(spec_.scores[id]), id};
  };
  MergeSymbols(merge_of, &symbols);
  for (const BpeSymbol& symbol : symbols) {
    if (symbol.id >= 0) {
      ids->push_back(symbol.id);
      continue;
    }
    for (const char byte : text.substr(symbol.begin, symbol.length)) {
      const int32_t id = byte_ids_[static_cast<uint8_t>(byte)];
      if (id < 0) {
        return UsageError(absl::StrCat("the text has the byte ", static_cast<uint8_t>(byte),
                                       ", which ", path_, " has no token for"));
      }
      ids->push_back(id);
    }
  }
  return absl::OkStatus();
}

int32_t ScoredBpeTokenizer::PlainId(std::string_view token) const {
  const auto found = plain_ids_.find(absl::string_view(token.data(), token.size()));
  return found == plain_ids_.end() ? -1 : found->second;
}

absl::StatusOr<std::string> ScoredBpeTokenizer::Decode(std::span<const int32_t> ids) const {
  NG_RETURN_IF_ERROR(CheckIds(ids, vocab_size(), path_));
  std::string bytes;
  for (const int32_t id : ids) bytes += TokenBytes(id);
  if (spec_.add_space_prefix && bytes.starts_with(' ')) bytes.erase(0, 1);
  return ReplaceInvalidUtf8(bytes);
}

std::string_view ScoredBpeTokenizer::TokenBytes(int32_t id) const {
  assert(id >= 0 && id < vocab_size());
  return token_bytes_[static_cast<size_t>(id)];
}

std::string ScoredBpeTokenizer::Spelling(int32_t id) const {
  const auto name = names_.find(id);
  if (name != names_.end()) return name->second;
  const std::string_view bytes = TokenBytes(id);
  return absl::StrReplaceAll({bytes.data(), bytes.size()}, {{" ", kShownSpace}});
}

std::optional<int32_t> ScoredBpeTokenizer::SpecialId(std::string_view literal) const {
  const auto found = specials_.find(literal);
  return found == specials_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<int32_t> ScoredBpeTokenizer::SpecialIds() const {
  std::vector<int32_t> ids;
  for (const auto& [literal, id] : specials_) ids.push_back(id);
  if (unknown_id_ >= 0) ids.push_back(unknown_id_);
  return ids;
}

}  // namespace ng
