#include "core/text/bpe/byte_bpe_tokenizer.h"

#include <algorithm>
#include <cassert>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "core/formats/json.h"
#include "core/text/bpe/bpe_merge.h"
#include "core/text/bpe/byte_alphabet.h"
#include "core/text/bpe/hash_table.h"
#include "core/text/text_checks.h"
#include "core/text/unicode.h"
#include "ng/utf8.h"

namespace ng {
namespace {

// The mask (EncodeOptions::special_at) of the normal form of a text. No character joins with an
// ASCII character that follows it, so the text is normalised in stretches that begin with one.
std::string MaskOfNormalized(std::string_view text, std::string_view mask, bool nfc) {
  if (!nfc) return std::string(mask);
  std::string normalized;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin + 1;
    while (end < text.size() && (text[end] & 0x80) != 0) ++end;
    const std::string_view stretch = text.substr(begin, end - begin);
    const std::string_view of_stretch = mask.substr(begin, end - begin);
    const std::string form = stretch.size() == 1 ? std::string(stretch) : NormalizeNfc(stretch);
    if (form == stretch) {
      normalized += of_stretch;
    } else {
      const bool allowed = of_stretch.find('\0') == std::string_view::npos;
      normalized.append(form.size(), static_cast<char>(allowed));
    }
    begin = end;
  }
  return normalized;
}

}  // namespace

std::optional<std::pair<std::string, std::string>> ParseMerge(std::string_view merge) {
  const size_t space = merge.find(' ');
  if (space == 0 || space == merge.npos || space + 1 == merge.size() ||
      merge.find(' ', space + 1) != merge.npos) {
    return std::nullopt;
  }
  return std::pair(std::string(merge.substr(0, space)), std::string(merge.substr(space + 1)));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> ByteBpeTokenizer::Create(ByteBpeSpec spec,
                                                                    const std::string& path) {
  std::unique_ptr<ByteBpeTokenizer> tokenizer(new ByteBpeTokenizer(std::move(spec), path));
  NG_RETURN_IF_ERROR(Annotate(tokenizer->Load(), path + ": "));
  return tokenizer;
}

ByteBpeTokenizer::ByteBpeTokenizer(ByteBpeSpec spec, std::string path)
    : spec_(std::move(spec)), path_(std::move(path)) {
  byte_ids_.fill(-1);
}

absl::Status ByteBpeTokenizer::Load() {
  for (const AddedToken& token : spec_.added_tokens) {
    if (token.special) specials_.emplace(token.text, token.id);
  }
  NG_RETURN_IF_ERROR(LoadTokens());
  NG_RETURN_IF_ERROR(LoadMerges());
  LoadAddedTokens();
  spec_.tokens.clear();
  spec_.merges.clear();
  return absl::OkStatus();
}

absl::Status ByteBpeTokenizer::LoadTokens() {
  if (spec_.tokens.empty()) return ModelFileError("the tokenizer has no tokens");
  std::unordered_set<std::string_view> seen;
  MakeRoom(spec_.tokens.size(), &plain_ids_);
  for (const std::string& token : spec_.tokens) {
    const auto id = static_cast<int32_t>(token_bytes_.size());
    if (token.empty()) return ModelFileError(absl::StrCat("token ", id, " is empty"));
    if (FindInvalidUtf8(token)) {
      return ModelFileError(absl::StrCat("token ", id, " is not valid UTF-8"));
    }
    if (!seen.insert(token).second) {
      return ModelFileError(
          absl::StrCat("token ", id, " = ", JsonExcerpt(token), " is there twice"));
    }
    const std::optional<std::string> bytes = ByteLevelBytes(token);
    token_bytes_.push_back(bytes.value_or(token));
    longest_ = std::max(longest_, std::ssize(token_bytes_.back()));
    if (bytes && !specials_.contains(token)) plain_ids_.emplace(std::string(*bytes), id);
  }
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = plain_ids_.find(std::string(1, static_cast<char>(byte)));
    if (found != plain_ids_.end()) byte_ids_[byte] = found->second;
  }
  return absl::OkStatus();
}

absl::Status ByteBpeTokenizer::LoadMerges() {
  const auto id_of = [&](const std::string& token) {
    const std::optional<std::string> bytes =
        FindInvalidUtf8(token) ? std::nullopt : ByteLevelBytes(token);
    const auto found = bytes ? plain_ids_.find(*bytes) : plain_ids_.end();
    return found == plain_ids_.end() ? -1 : found->second;
  };
  MakeRoom(spec_.merges.size(), &merges_);
  for (size_t i = 0; i < spec_.merges.size(); ++i) {
    const auto& [left, right] = spec_.merges[i];
    const std::string merged = left + right;
    for (const std::string* part : {&left, &right, &merged}) {
      if (id_of(*part) >= 0) continue;
      return ModelFileError(absl::StrCat("merge ", i, " (", JsonExcerpt(left), ", ",
                                         JsonExcerpt(right), "): ", JsonExcerpt(*part),
                                         " is no token that merges can make"));
    }
    const std::pair parts(id_of(left), id_of(right));
    if (!merges_.try_emplace(parts, static_cast<int32_t>(i), id_of(merged)).second) {
      return ModelFileError(absl::StrCat("merge ", i, " (", JsonExcerpt(left), ", ",
                                         JsonExcerpt(right), ") is there twice"));
    }
  }
  return absl::OkStatus();
}

void ByteBpeTokenizer::LoadAddedTokens() {
  std::vector<AddedToken> raw;
  std::vector<AddedToken> normalized;
  for (AddedToken& token : spec_.added_tokens) {
    if (token.normalized && spec_.nfc) token.text = NormalizeNfc(token.text);
    (token.normalized ? normalized : raw).push_back(std::move(token));
  }
  raw_added_ = AddedTokens(std::move(raw));
  normalized_added_ = AddedTokens(std::move(normalized));
  spec_.added_tokens.clear();
}

absl::StatusOr<std::vector<int32_t>> ByteBpeTokenizer::Encode(std::string_view text,
                                                              const EncodeOptions& options) const {
  NG_RETURN_IF_ERROR(CheckText(text));
  std::vector<int32_t> ids;
  if (options.add_special) ids = spec_.prefix;
  const std::string_view mask = options.special_at;
  for (const TextFragment& raw : raw_added_.Split(text, options.parse_special, mask)) {
    if (std::ssize(ids) > options.most) return ids;
    if (raw.id >= 0) {
      ids.push_back(raw.id);
      continue;
    }
    const std::string normalized = spec_.nfc ? NormalizeNfc(raw.text) : std::string(raw.text);
    std::string normalized_mask;
    if (!mask.empty() && !normalized_added_.empty()) {
      normalized_mask = MaskOfNormalized(
          raw.text, mask.substr(raw.text.data() - text.data(), raw.text.size()), spec_.nfc);
    }
    for (const TextFragment& part :
         normalized_added_.Split(normalized, options.parse_special, normalized_mask)) {
      if (part.id >= 0) {
        ids.push_back(part.id);
      } else {
        NG_RETURN_IF_ERROR(EncodeFragment(part.text, options.most, &ids));
      }
    }
  }
  if (options.add_special) ids.insert(ids.end(), spec_.suffix.begin(), spec_.suffix.end());
  return ids;
}

absl::StatusOr<std::vector<int32_t>> ByteBpeTokenizer::EncodeAsReference(
    std::string_view text, const EncodeOptions& options) const {
  return Encode(text, options);
}

absl::Status ByteBpeTokenizer::EncodeFragment(std::string_view text, int64_t most,
                                              std::vector<int32_t>* ids) const {
  std::string prefixed;
  if (spec_.add_prefix_space && !text.starts_with(' ')) text = prefixed.append(" ").append(text);
  absl::Status status;
  SplitText(text, spec_.split, [&](std::string_view piece) {
    status = EncodePiece(piece, most, ids);
    return status.ok() && std::ssize(*ids) <= most;
  });
  return status;
}

absl::Status ByteBpeTokenizer::EncodePiece(std::string_view piece, int64_t most,
                                           std::vector<int32_t>* ids) const {
  // This many bytes give more ids than the caller can use.
  const auto longest = static_cast<size_t>(longest_);
  const auto wanted = static_cast<size_t>(std::max<int64_t>(0, most - std::ssize(*ids)));
  if (piece.size() / longest > wanted) piece = piece.substr(0, (wanted + 1) * longest);
  if (spec_.ignore_merges) {
    const auto whole = plain_ids_.find(std::string(piece));
    if (whole != plain_ids_.end()) {
      ids->push_back(whole->second);
      return absl::OkStatus();
    }
  }
  std::vector<BpeSymbol> symbols;
  symbols.reserve(piece.size());
  for (size_t i = 0; i < piece.size(); ++i) {
    const auto byte = static_cast<uint8_t>(piece[i]);
    if (byte_ids_[byte] < 0) {
      return UsageError(
          absl::StrCat("the text has the byte ", byte, ", which ", path_, " has no token for"));
    }
    symbols.push_back({byte_ids_[byte], i, 1});
  }
  const auto merge_of = [this](const BpeSymbol& left,
                               const BpeSymbol& right) -> std::optional<BpeMerge> {
    const auto found = merges_.find({left.id, right.id});
    if (found == merges_.end()) return std::nullopt;
    return BpeMerge{static_cast<double>(found->second.first), found->second.second};
  };
  MergeSymbols(merge_of, &symbols);
  for (const BpeSymbol& symbol : symbols) ids->push_back(symbol.id);
  return absl::OkStatus();
}

absl::StatusOr<std::string> ByteBpeTokenizer::Decode(std::span<const int32_t> ids) const {
  NG_RETURN_IF_ERROR(CheckIds(ids, vocab_size(), path_));
  std::string bytes;
  for (const int32_t id : ids) bytes += TokenBytes(id);
  return ReplaceInvalidUtf8(bytes);
}

std::string_view ByteBpeTokenizer::TokenBytes(int32_t id) const {
  assert(id >= 0 && id < vocab_size());
  return token_bytes_[static_cast<size_t>(id)];
}

std::optional<int32_t> ByteBpeTokenizer::SpecialId(std::string_view literal) const {
  const auto found = specials_.find(literal);
  return found == specials_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<int32_t> ByteBpeTokenizer::SpecialIds() const {
  std::vector<int32_t> ids;
  for (const auto& [literal, id] : specials_) ids.push_back(id);
  return ids;
}

}  // namespace ng
