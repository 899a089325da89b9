#include "core/text/pipeline/bpe_model.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/absl_view.h"
#include "core/formats/json.h"
#include "core/text/bpe/byte_alphabet.h"
#include "core/text/bpe/hash_table.h"
#include "core/text/text_parts.h"
#include "core/text/unicode.h"
#include "ng/utf8.h"

namespace ng {
namespace {

// The token of a byte where a vocabulary has bytes.
std::string ByteToken(uint8_t byte) { return absl::StrFormat("<0x%02X>", byte); }

}  // namespace

std::optional<std::pair<std::string, std::string>> ParseMerge(std::string_view merge) {
  const size_t space = merge.find(' ');
  if (space == 0 || space == merge.npos || space + 1 == merge.size() ||
      merge.find(' ', space + 1) != merge.npos) {
    return std::nullopt;
  }
  return std::pair(std::string(merge.substr(0, space)), std::string(merge.substr(space + 1)));
}

absl::StatusOr<std::unique_ptr<PieceModel>> BpeModel::Create(BpeSpec spec,
                                                             const Vocabulary& vocabulary,
                                                             std::string path) {
  std::unique_ptr<BpeModel> model(new BpeModel(std::move(spec), std::move(path)));
  model->LoadTokens(vocabulary);
  NG_RETURN_IF_ERROR(model->LoadMerges());
  return model;
}

void BpeModel::LoadTokens(const Vocabulary& vocabulary) {
  MakeRoom(vocabulary.tokens.size(), &ids_);
  parts_at_spaces_ = !spec_.byte_level && spec_.end_of_word.empty() && !spec_.ignore_merges;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const std::string& token = vocabulary.tokens[i];
    const auto id = static_cast<int32_t>(i);
    std::optional<std::string> key = token;
    if (spec_.byte_level) key = ByteLevelBytes(token);
    if (!key || key->empty()) continue;
    longest_ = std::max(longest_, std::ssize(*key));
    parts_at_spaces_ = parts_at_spaces_ && !SpansASpace(*key);
    if (!vocabulary.special[i]) ids_.emplace(*std::move(key), id);
  }
  if (!spec_.byte_level && !spec_.byte_fallback) return;
  for (int byte = 0; byte < 256; ++byte) {
    byte_ids_[byte] = IdOf(spec_.byte_level ? std::string(1, static_cast<char>(byte))
                                            : ByteToken(static_cast<uint8_t>(byte)));
  }
}

absl::Status BpeModel::LoadMerges() {
  const auto id_of = [&](const std::string& token) {
    if (!spec_.byte_level) return IdOf(token);
    const std::optional<std::string> bytes =
        FindInvalidUtf8(token) ? std::nullopt : ByteLevelBytes(token);
    return bytes ? IdOf(*bytes) : -1;
  };
  MakeRoom(spec_.merges.size(), &merges_);
  for (size_t i = 0; i < spec_.merges.size(); ++i) {
    const auto& [left, right] = spec_.merges[i];
    const std::string merged = left + right;
    int32_t ids[3] = {};
    size_t n_ids = 0;
    for (const std::string* part : {&left, &right, &merged}) {
      ids[n_ids] = id_of(*part);
      if (ids[n_ids++] >= 0) continue;
      return ModelFileError(absl::StrCat("merge ", i, " (", JsonExcerpt(left), ", ",
                                         JsonExcerpt(right), "): ", JsonExcerpt(*part),
                                         " is no token that merges can make"));
    }
    const std::pair parts(ids[0], ids[1]);
    if (!merges_.try_emplace(parts, static_cast<int32_t>(i), ids[2]).second) {
      return ModelFileError(absl::StrCat("merge ", i, " (", JsonExcerpt(left), ", ",
                                         JsonExcerpt(right), ") is there twice"));
    }
  }
  spec_.merges.clear();
  return absl::OkStatus();
}

int32_t BpeModel::IdOf(std::string_view token) const {
  const auto found = ids_.find(View(token));
  return found == ids_.end() ? -1 : found->second;
}

absl::Status BpeModel::Encode(std::string_view piece, int64_t most,
                              std::vector<int32_t>* ids) const {
  if (spec_.ignore_merges) {
    const int32_t whole = IdOf(piece);
    if (whole >= 0) {
      ids->push_back(whole);
      return absl::OkStatus();
    }
  }
  while (!piece.empty() && std::ssize(*ids) <= most) {
    size_t length = parts_at_spaces_ ? EndOfPart(piece, kShownSpace) : piece.size();
    // This many bytes give more ids than the caller can use.
    const auto longest = static_cast<size_t>(longest_);
    const auto wanted = static_cast<size_t>(most - std::ssize(*ids));
    if (length / longest > wanted && !joins_unknown()) {
      length = (wanted + 1) * longest;
      if (!spec_.byte_level) length = EndOfCharacter(piece, length);
    }
    NG_RETURN_IF_ERROR(EncodePart(piece.substr(0, length), length == piece.size(), ids));
    piece.remove_prefix(length);
  }
  return absl::OkStatus();
}

absl::Status BpeModel::EncodePart(std::string_view part, bool ends_piece,
                                  std::vector<int32_t>* ids) const {
  std::vector<BpeSymbol> symbols;
  symbols.reserve(part.size());
  NG_RETURN_IF_ERROR(spec_.byte_level ? ByteSymbols(part, &symbols)
                                      : CharSymbols(part, ends_piece, &symbols));
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

absl::Status BpeModel::ByteSymbols(std::string_view part, std::vector<BpeSymbol>* symbols) const {
  for (size_t i = 0; i < part.size(); ++i) {
    const auto byte = static_cast<uint8_t>(part[i]);
    const int32_t id = byte_ids_[byte] >= 0 ? byte_ids_[byte] : spec_.unknown.value_or(-1);
    if (id < 0) {
      return UsageError(
          absl::StrCat("the text has the byte ", byte, ", which ", path_, " has no token for"));
    }
    symbols->push_back({id, i, 1});
  }
  return absl::OkStatus();
}

absl::Status BpeModel::CharSymbols(std::string_view part, bool ends_piece,
                                   std::vector<BpeSymbol>* symbols) const {
  size_t unknown_begin = 0;
  size_t unknown_end = 0;  // equal: no unknown characters are held
  const auto flush = [&] {
    if (unknown_begin == unknown_end) return;
    symbols->push_back({*spec_.unknown, unknown_begin, unknown_end - unknown_begin});
    unknown_begin = unknown_end;
  };
  for (size_t at = 0; at < part.size();) {
    const size_t length = FirstCodePoint(part.substr(at)).length;
    const std::string_view character = part.substr(at, length);
    const bool is_last = ends_piece && at + length == part.size();
    const bool suffixed = is_last && !spec_.end_of_word.empty();
    const int32_t id =
        suffixed ? IdOf(std::string(character) + spec_.end_of_word) : IdOf(character);
    if (id >= 0) {
      flush();
      symbols->push_back({id, at, length});
    } else if (!spec_.byte_fallback || !FallBackToBytes(character, at, symbols)) {
      if (!spec_.unknown) {
        return UsageError(absl::StrCat("the text has ", JsonExcerpt(std::string(character)),
                                       ", which ", path_, " has no token for"));
      }
      if (!spec_.fuse_unknown || unknown_begin == unknown_end) {
        flush();
        unknown_begin = at;
      }
      unknown_end = at + length;
    }
    at += length;
  }
  flush();
  return absl::OkStatus();
}

bool BpeModel::FallBackToBytes(std::string_view character, size_t begin,
                               std::vector<BpeSymbol>* symbols) const {
  const auto id_of = [&](size_t i) { return byte_ids_[static_cast<uint8_t>(character[i])]; };
  for (size_t i = 0; i < character.size(); ++i) {
    if (id_of(i) < 0) return false;
  }
  for (size_t i = 0; i < character.size(); ++i) symbols->push_back({id_of(i), begin + i, 1});
  return true;
}

}  // namespace ng
