#include "core/text/pipeline/bpe_model.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/absl_view.h"
#include "core/formats/json.h"
#include "core/text/bpe/byte_alphabet.h"
#include "core/text/bpe/hash_table.h"
#include "core/text/sentencepiece/sentencepiece_model.h"
#include "core/text/unicode.h"
#include "ng/utf8.h"

namespace ng {
namespace {

constexpr size_t kFewestMeetings = 64;  // words
constexpr size_t kByteTokenSize = 6;    // <0x0A>

// The token of a byte where a vocabulary has bytes.
std::string ByteToken(uint8_t byte) { return absl::StrFormat("<0x%02X>", byte); }

bool IsBarred(std::span<const int32_t> barred, int32_t id) {
  return std::ranges::binary_search(barred, id);
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

// Takes the symbols of a piece one by one, and merges those between two places where no token can
// be.
class BpeModel::Runs {
 public:
  Runs(const BpeModel& model, std::span<const int32_t> barred, int64_t most,
       std::vector<int32_t>* ids)
      : model_(model), barred_(barred), most_(most), ids_(*ids) {
    FindLimit();
  }

  // Whether there are more ids than the caller can use.
  bool has_enough() const { return std::ssize(ids_) > most_; }

  void Add(int32_t symbol) {
    if (!run_.empty() && !model_.MayMeet(run_.back().id, symbol)) Flush();
    // What a symbol is in the text does not matter: it has its place and a length of one.
    run_.push_back({symbol, run_.size(), 1});
    if (run_.size() > limit_) Flush();
  }

  void Flush() {
    const auto merge_of = [this](const BpeSymbol& left,
                                 const BpeSymbol& right) -> std::optional<BpeMerge> {
      const auto found = model_.merges_.find({left.id, right.id});
      if (found == model_.merges_.end() || IsBarred(barred_, found->second.second)) {
        return std::nullopt;
      }
      return BpeMerge{static_cast<double>(found->second.first), found->second.second};
    };
    MergeSymbols(merge_of, &run_);
    for (const BpeSymbol& token : run_) ids_.push_back(token.id);
    run_.clear();
    FindLimit();
  }

 private:
  // More symbols than this give more ids than the caller can use.
  void FindLimit() {
    constexpr int64_t kNoLimit = int64_t{1} << 31;
    const int64_t wanted = std::clamp<int64_t>(most_ - std::ssize(ids_), 0, kNoLimit) + 1;
    limit_ = static_cast<size_t>(wanted * std::min(model_.longest_, kNoLimit));
  }

  const BpeModel& model_;
  const std::span<const int32_t> barred_;
  const int64_t most_;
  std::vector<int32_t>& ids_;
  size_t limit_ = 0;
  std::vector<BpeSymbol> run_;
};

absl::StatusOr<std::unique_ptr<PieceModel>> BpeModel::Create(BpeSpec spec,
                                                             const Vocabulary& vocabulary,
                                                             std::string path) {
  std::unique_ptr<BpeModel> model(new BpeModel(std::move(spec), std::move(path)));
  model->LoadTokens(vocabulary);
  NG_RETURN_IF_ERROR(model->LoadMerges());
  return model;
}

void BpeModel::LoadTokens(const Vocabulary& vocabulary) {
  MakeRoom(vocabulary.tokens.size() + 1, &ids_);
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const std::string& token = vocabulary.tokens[i];
    const auto id = static_cast<int32_t>(i);
    std::optional<std::string> key = token;
    if (spec_.byte_level) key = ByteLevelBytes(token);
    if (!key || key->empty()) continue;
    longest_ = std::max(longest_, std::ssize(*key));
    if (vocabulary.special[i]) {
      special_ids_.emplace(*std::move(key), id);
      continue;
    }
    if (id == spec_.unknown) unknown_text_ = *key;
    ids_.emplace(*std::move(key), id);
  }
  if (!spec_.byte_level && !spec_.byte_fallback) return;
  for (int byte = 0; byte < 256; ++byte) {
    byte_ids_[byte] = IdOf(spec_.byte_level ? std::string(1, static_cast<char>(byte))
                                            : ByteToken(static_cast<uint8_t>(byte)));
  }
}

absl::Status BpeModel::LoadMerges() {
  const auto key_of = [&](const std::string& token) {
    if (!spec_.byte_level) return std::optional(token);
    return FindInvalidUtf8(token) ? std::nullopt : ByteLevelBytes(token);
  };
  MakeRoom(spec_.merges.size(), &merges_);
  // At most one bit in eight is set.
  meetings_.resize(std::max(kFewestMeetings, std::bit_ceil(spec_.merges.size() / 8 + 1)));
  for (size_t i = 0; i < spec_.merges.size(); ++i) {
    const std::string& left = spec_.merges[i].first;
    const std::string& right = spec_.merges[i].second;
    const auto no_token = [&](const std::string& part) {
      return ModelFileError(absl::StrCat("merge ", i, " (", JsonExcerpt(left), ", ",
                                         JsonExcerpt(right), "): ", JsonExcerpt(part),
                                         " is no token that merges can make"));
    };
    const std::optional<std::string> left_key = key_of(left);
    const int32_t left_id = left_key ? IdInMerge(*left_key) : -1;
    if (left_id < 0) return no_token(left);
    const std::optional<std::string> right_key = key_of(right);
    const int32_t right_id = right_key ? IdInMerge(*right_key) : -1;
    if (right_id < 0) return no_token(right);
    const int32_t merged_id = IdInMerge(*left_key + *right_key);
    if (merged_id < 0) return no_token(left + right);
    // Of a merge that is there twice the last place counts, as in the tokenizers library.
    merges_.insert_or_assign(std::pair(left_id, right_id),
                             std::pair(static_cast<int32_t>(i), merged_id));
    NoteMeeting(*left_key, *right_key);
  }
  spec_.merges.clear();
  special_ids_.clear();
  std::ranges::sort(made_specials_);
  return absl::OkStatus();
}

int32_t BpeModel::IdInMerge(const std::string& token) {
  const int32_t id = IdOf(token);
  if (id >= 0) return id;
  const auto special = special_ids_.find(token);
  if (special == special_ids_.end()) return -1;
  made_specials_.push_back(special->second);
  ids_.emplace(token, special->second);
  return special->second;
}

uint64_t BpeModel::HashOfSymbols(int32_t left, int32_t right) {
  const uint64_t both = static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
  return both * 0x9E3779B97F4A7C15 >> 32;
}

void BpeModel::NoteMeeting(std::string_view left, std::string_view right) {
  for (const int32_t last : EdgeSymbols(left, Edge::kLast)) {
    for (const int32_t first : EdgeSymbols(right, Edge::kFirst)) {
      const uint64_t bit = HashOfSymbols(last, first) & (64 * meetings_.size() - 1);
      meetings_[bit / 64] |= uint64_t{1} << (bit % 64);
    }
  }
}

absl::InlinedVector<int32_t, 4> BpeModel::EdgeSymbols(std::string_view token, Edge edge) const {
  const auto part = [&](size_t length) {
    length = std::min(length, token.size());
    return edge == Edge::kFirst ? token.substr(0, length) : token.substr(token.size() - length);
  };
  absl::InlinedVector<int32_t, 4> symbols;
  if (spec_.byte_level) {
    symbols.push_back(byte_ids_[static_cast<uint8_t>(part(1).front())]);
  } else {
    const size_t length =
        edge == Edge::kFirst ? FirstCodePoint(token).length : LastCodePoint(token).length;
    symbols.push_back(IdOf(part(length)));
    // Symbols that are spelled with more than one character: a byte, the last one of a piece.
    const std::optional<char> byte = ByteOfPiece(part(kByteTokenSize));
    if (byte) symbols.push_back(byte_ids_[static_cast<uint8_t>(*byte)]);
    if (!spec_.end_of_word.empty() && token.substr(length) == spec_.end_of_word) {
      symbols.push_back(IdOf(token));
    }
  }
  if (!unknown_text_.empty() && part(unknown_text_.size()) == unknown_text_) {
    symbols.push_back(*spec_.unknown);
  }
  return symbols;
}

int32_t BpeModel::IdOf(std::string_view token) const {
  const auto found = ids_.find(View(token));
  return found == ids_.end() ? -1 : found->second;
}

absl::Status BpeModel::Encode(std::string_view piece, std::span<const int32_t> barred, int64_t most,
                              std::vector<int32_t>* ids) const {
  if (spec_.ignore_merges) {
    const int32_t whole = IdOf(piece);
    if (whole >= 0 && !IsBarred(barred, whole)) {
      ids->push_back(whole);
      return absl::OkStatus();
    }
  }
  Runs runs(*this, barred, most, ids);
  NG_RETURN_IF_ERROR(spec_.byte_level ? ByteSymbols(piece, &runs) : CharSymbols(piece, &runs));
  runs.Flush();
  return absl::OkStatus();
}

absl::Status BpeModel::ByteSymbols(std::string_view piece, Runs* runs) const {
  for (size_t i = 0; i < piece.size() && !runs->has_enough(); ++i) {
    const auto byte = static_cast<uint8_t>(piece[i]);
    const int32_t id = byte_ids_[byte] >= 0 ? byte_ids_[byte] : spec_.unknown.value_or(-1);
    if (id < 0) {
      return UsageError(
          absl::StrCat("the text has the byte ", byte, ", which ", path_, " has no token for"));
    }
    runs->Add(id);
  }
  return absl::OkStatus();
}

absl::Status BpeModel::CharSymbols(std::string_view piece, Runs* runs) const {
  bool holds_unknown = false;
  const auto flush = [&] {
    if (holds_unknown) runs->Add(*spec_.unknown);
    holds_unknown = false;
  };
  for (size_t at = 0; at < piece.size() && !runs->has_enough();) {
    const size_t length = FirstCodePoint(piece.substr(at)).length;
    const std::string_view character = piece.substr(at, length);
    at += length;
    const bool suffixed = at == piece.size() && !spec_.end_of_word.empty();
    const int32_t id =
        suffixed ? IdOf(std::string(character) + spec_.end_of_word) : IdOf(character);
    if (id >= 0) {
      flush();
      runs->Add(id);
    } else if (!spec_.byte_fallback || !FallBackToBytes(character, runs)) {
      if (!spec_.unknown) {
        return UsageError(absl::StrCat("the text has ", JsonExcerpt(std::string(character)),
                                       ", which ", path_, " has no token for"));
      }
      if (!spec_.fuse_unknown) flush();
      holds_unknown = true;
    }
  }
  flush();
  return absl::OkStatus();
}

bool BpeModel::FallBackToBytes(std::string_view character, Runs* runs) const {
  const auto id_of = [&](char byte) { return byte_ids_[static_cast<uint8_t>(byte)]; };
  if (!std::ranges::all_of(character, [&](char byte) { return id_of(byte) >= 0; })) return false;
  for (const char byte : character) runs->Add(id_of(byte));
  return true;
}

}  // namespace ng
