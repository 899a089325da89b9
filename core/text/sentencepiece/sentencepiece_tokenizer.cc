#include "core/text/sentencepiece/sentencepiece_tokenizer.h"

#include <malloc.h>

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/absl_view.h"
#include "core/text/text_checks.h"
#include "core/text/text_parts.h"
#include "ng/utf8.h"

namespace ng {
namespace {

// The library counts the bytes of a text and of its pieces in 32 bits, and takes hundreds of bytes
// of memory for each byte. So it gets a text in parts where that makes no difference.
constexpr size_t kMaxTextBytes = size_t{256} << 20;

// REQUIRES: valid UTF-8.
size_t BeginOfCharacter(std::string_view text, size_t at) {
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> SentencePieceTokenizer::FromBytes(
    std::string_view bytes, const std::string& path, SentencePieceUse use) {
  std::unique_ptr<SentencePieceTokenizer> tokenizer(
      new SentencePieceTokenizer(path, std::move(use)));
  NG_RETURN_IF_ERROR(tokenizer->Load(bytes));
  return tokenizer;
}

absl::Status SentencePieceTokenizer::Load(std::string_view bytes) {
  NG_ASSIGN_OR_RETURN(const std::vector<Piece> pieces, ReadSentencePieceModel(bytes, path_));
  traits_ = ReadSentencePieceTraits(bytes);
  std::string changed;
  if (use_.space_prefix != SpacePrefix::kModels) {
    bytes = changed = Changed(bytes, {.no_dummy_prefix = true});
    traits_.add_dummy_prefix = false;
  }
  if (const std::string reason = reference_.Load(bytes); !reason.empty()) {
    return ModelFileError(absl::StrCat(path_, ": the SentencePiece library refuses it: ", reason));
  }
  NG_RETURN_IF_ERROR(CheckVocabulary(reference_, pieces));
  n_pieces_ = static_cast<int64_t>(pieces.size());
  // The others drop spaces that come twice, so that a part's own space is put before it again.
  parts_at_spaces_ =
      traits_.plain_bpe() || (traits_.remove_extra_whitespaces && traits_.add_dummy_prefix);
  for (size_t id = 0; id < pieces.size(); ++id) {
    NG_RETURN_IF_ERROR(AddToken(static_cast<int32_t>(id), pieces[id]));
    longest_ = std::max(longest_, static_cast<int64_t>(pieces[id].text.size()));
    if (SpansASpace(pieces[id].text)) parts_at_spaces_ = false;
  }
  // How the library splits a piece that is not used depends on all of the text.
  windows_ =
      traits_.plain_bpe() && std::ranges::count(pieces, PieceType::kUnused, &Piece::type) == 0;
  NG_RETURN_IF_ERROR(AddAdded());
  const bool has_user_defined =
      std::ranges::count(pieces, PieceType::kUserDefined, &Piece::type) != 0;
  return has_user_defined ? LoadPlain(bytes, pieces) : absl::OkStatus();
}

// Adds the tokens beyond the model's pieces, and those that are found in texts.
absl::Status SentencePieceTokenizer::AddAdded() {
  for (const AddedToken& token : use_.added) {
    if (token.special) specials_.emplace(token.text, token.id);
    if (token.id < n_pieces_) continue;
    const auto id = static_cast<size_t>(token.id);
    constexpr size_t kMostAdded = size_t{1} << 20;
    if (id >= static_cast<size_t>(n_pieces_) + kMostAdded) {
      return ModelFileError(absl::StrCat(path_, ": an added token has the id ", id,
                                         ", must be below ", n_pieces_ + kMostAdded));
    }
    if (id >= token_bytes_.size()) token_bytes_.resize(id + 1);
    beyond_.emplace(token.id, token.text);
    // As with the model's own control pieces, a special one adds nothing to a text.
    if (!token.special) token_bytes_[id] = token.text;
  }
  std::vector<AddedToken> markers = use_.added;
  for (const auto& [text, id] : specials_) {
    if (std::ranges::count(use_.added, text, &AddedToken::text) != 0) continue;
    markers.push_back({.id = id, .text = text, .special = true});
  }
  added_ = AddedTokens(std::move(use_.added));
  markers_ = AddedTokens(std::move(markers));
  return absl::OkStatus();
}

absl::Status SentencePieceTokenizer::LoadPlain(std::string_view bytes,
                                               const std::vector<Piece>& pieces) {
  std::vector<Piece> plain_pieces = pieces;
  for (Piece& piece : plain_pieces) {
    if (piece.type == PieceType::kUserDefined) piece.type = PieceType::kControl;
  }
  plain_.emplace();
  if (const std::string reason = plain_->Load(Changed(bytes, {.hide_user_defined = true}));
      !reason.empty()) {
    return ModelFileError(absl::StrCat(
        path_, ": the SentencePiece library refuses it without its user-defined pieces: ", reason));
  }
  return CheckVocabulary(*plain_, plain_pieces);
}

// Checks that the library has the same pieces as were read here from the same bytes. The promise
// about special ids depends on it.
absl::Status SentencePieceTokenizer::CheckVocabulary(const SentencePieceLibrary& library,
                                                     const std::vector<Piece>& pieces) const {
  const auto n_pieces = static_cast<int64_t>(pieces.size());
  if (library.vocab_size() != n_pieces) {
    return ModelFileError(absl::StrCat(path_, ": the SentencePiece library finds ",
                                       library.vocab_size(), " pieces, the file has ", n_pieces));
  }
  for (int32_t id = 0; id < n_pieces; ++id) {
    const Piece& piece = pieces[id];
    if (library.Piece(id) != piece.text ||
        library.IsControl(id) != (piece.type == PieceType::kControl)) {
      return ModelFileError(
          absl::StrCat(path_, ": the SentencePiece library reads piece ", id, " differently"));
    }
  }
  return absl::OkStatus();
}

absl::Status SentencePieceTokenizer::AddToken(int32_t id, const Piece& piece) {
  const std::string text(piece.text);
  std::string bytes;
  switch (piece.type) {
    case PieceType::kControl:
      specials_.emplace(text, id);
      break;
    case PieceType::kUnknown:
      unknown_id_ = id;
      if (const std::string reason = reference_.Decode({&id, 1}, &bytes); !reason.empty()) {
        return ModelFileError(absl::StrCat(path_, ": piece ", id, " cannot be decoded: ", reason));
      }
      break;
    case PieceType::kByte: {
      const std::optional<char> byte = ByteOfPiece(piece.text);
      if (!byte) {
        return ModelFileError(absl::StrCat(path_, ": byte piece ", id, " = \"", text,
                                           "\", must be <0x00> to <0xFF>"));
      }
      bytes.assign(1, *byte);
      break;
    }
    case PieceType::kUserDefined:
      specials_.emplace(text, id);
      [[fallthrough]];
    case PieceType::kNormal:
    case PieceType::kUnused:
      bytes = absl::StrReplaceAll(text, {{kShownSpace, " "}});
      break;
  }
  token_bytes_.push_back(std::move(bytes));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> SentencePieceTokenizer::Encode(
    std::string_view text, const EncodeOptions& options) const {
  const bool everywhere = options.parse_special && options.special_at.empty();
  return EncodeWith(everywhere || !plain_ ? reference_ : *plain_, text, options);
}

absl::StatusOr<std::vector<int32_t>> SentencePieceTokenizer::EncodeAsReference(
    std::string_view text, const EncodeOptions& options) const {
  return EncodeWith(reference_, text, options);
}

absl::StatusOr<std::vector<int32_t>> SentencePieceTokenizer::EncodeWith(
    const SentencePieceLibrary& library, std::string_view text,
    const EncodeOptions& options) const {
  if (options.add_special && !use_.ends) {
    return UsageError(
        absl::StrCat(path_,
                     ": add_special = true, must be false: a SentencePiece model does not "
                     "say which tokens begin and end a text"));
  }
  NG_RETURN_IF_ERROR(CheckText(text));
  if (text.size() > kMaxTextBytes) {
    return UsageError(
        absl::StrCat("the text has ", text.size(), " bytes, must have at most ", kMaxTextBytes));
  }
  std::vector<int32_t> ids;
  if (options.add_special) ids = use_.ends->prefix;
  bool first = !options.continues;
  const AddedTokens& parsed = options.special_at.empty() ? added_ : markers_;
  for (const TextFragment& fragment :
       parsed.Split(text, options.parse_special, options.special_at, options.marks)) {
    if (std::ssize(ids) > options.most) return ids;
    if (fragment.id >= 0) {
      ids.push_back(fragment.id);
    } else {
      NG_RETURN_IF_ERROR(EncodeStretch(library, fragment.text, first, options.most, &ids));
    }
    first = false;
  }
  if (options.add_special) {
    ids.insert(ids.end(), use_.ends->suffix.begin(), use_.ends->suffix.end());
  }
  return ids;
}

absl::Status SentencePieceTokenizer::EncodeStretch(const SentencePieceLibrary& library,
                                                   std::string_view text, bool first, int64_t most,
                                                   std::vector<int32_t>* ids) const {
  const SpacePrefix prefix = use_.space_prefix;
  const bool wanted = prefix == SpacePrefix::kEach || (prefix == SpacePrefix::kFirst && first);
  const bool prefixed = wanted && !text.starts_with(' ') && !text.starts_with(kShownSpace);
  if (!parts_at_spaces_ || !traits_.plain_bpe()) {
    NG_ASSIGN_OR_RETURN(const bool too_long, IsTooLong(library, text, most, ids));
    if (too_long) return absl::OkStatus();
  }
  for (bool begins = true; !text.empty() && std::ssize(*ids) <= most; begins = false) {
    NG_ASSIGN_OR_RETURN(size_t length, LengthOfPart(library, text));
    const auto wanted_ids = static_cast<size_t>(most - std::ssize(*ids));
    const auto longest = static_cast<size_t>(longest_);
    // This many bytes give more ids than the caller can use.
    if (traits_.byte_fallback && traits_.plain_bpe() && parts_at_spaces_ &&
        length / longest > wanted_ids) {
      length = EndOfCharacter(text, (wanted_ids + 1) * longest);
    }
    std::string_view part = text.substr(0, length);
    text.remove_prefix(length);
    // A model that puts a space before a text puts one before each part, so the part's own space is
    // left out.
    if (!begins && traits_.add_dummy_prefix && part.starts_with(' ')) part.remove_prefix(1);
    NG_RETURN_IF_ERROR(begins && prefixed ? EncodePart(library, absl::StrCat(" ", View(part)), ids)
                                          : EncodePart(library, part, ids));
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> SentencePieceTokenizer::LengthOfPart(const SentencePieceLibrary& library,
                                                            std::string_view text) const {
  const size_t length = parts_at_spaces_ ? EndOfPart(text, " ") : text.size();
  if (length == text.size() || traits_.plain_bpe()) return length;
  // A normaliser may make something of what stands on both sides of the place, so what is near it
  // is tried.
  constexpr size_t kNear = 256;
  const size_t begin = EndOfCharacter(text, length - std::min(length, kNear));
  const size_t end = EndOfCharacter(text, std::min(text.size(), length + kNear));
  std::vector<int32_t> whole;
  std::vector<int32_t> apart;
  NG_RETURN_IF_ERROR(EncodePart(library, text.substr(begin, end - begin), &whole));
  NG_RETURN_IF_ERROR(EncodePart(library, text.substr(begin, length - begin), &apart));
  NG_RETURN_IF_ERROR(EncodePart(library, text.substr(length + 1, end - length - 1), &apart));
  return whole == apart ? length : text.size();
}

absl::Status SentencePieceTokenizer::EncodePart(const SentencePieceLibrary& library,
                                                std::string_view text,
                                                std::vector<int32_t>* ids) const {
  if (windows_ && text.size() >= 2 * kPartBytes) {
    NG_ASSIGN_OR_RETURN(const bool done, EncodeInWindows(library, text, ids));
    if (done) return absl::OkStatus();
  }
  return EncodeAtOnce(library, text, ids);
}

absl::Status SentencePieceTokenizer::EncodeAtOnce(const SentencePieceLibrary& library,
                                                  std::string_view text,
                                                  std::vector<int32_t>* ids) const {
  std::vector<int32_t> more;
  if (const std::string reason = library.Encode(text, &more); !reason.empty()) {
    return ModelFileError(absl::StrCat(path_, ": the text cannot be encoded: ", reason));
  }
  ids->insert(ids->end(), more.begin(), more.end());
  // The library's memory for a long text would stay with the process.
  constexpr size_t kLong = 16 * kPartBytes;
  if (text.size() >= kLong) ::malloc_trim(0);
  return absl::OkStatus();
}

absl::StatusOr<bool> SentencePieceTokenizer::EncodeInWindows(const SentencePieceLibrary& library,
                                                             std::string_view text,
                                                             std::vector<int32_t>* ids) const {
  const std::string shown = absl::StrReplaceAll(View(text), {{" ", kShownSpace}});
  std::vector<PlacedToken> tokens;  // of the text before `end`
  size_t end = 0;
  size_t overlap = 1024;
  while (end < shown.size()) {
    size_t begin = 0;
    if (end > overlap) {
      // Where a token begins, so that both windows often have this token; one character before it
      // where the library puts a space before the window, which may join that.
      const auto token = std::prev(std::ranges::upper_bound(
          tokens, static_cast<int32_t>(end - overlap), {}, &PlacedToken::begin));
      begin = static_cast<size_t>(std::max(0, token->begin));
      if (traits_.add_dummy_prefix && begin > 0) begin = BeginOfCharacter(shown, begin - 1);
    }
    const size_t new_end = EndOfCharacter(shown, std::min(shown.size(), end + kPartBytes));
    NG_ASSIGN_OR_RETURN(const auto window, EncodeWindow(library, shown, begin, new_end));
    if (!window) return false;
    if (begin == 0) {
      tokens = *window;
    } else if (!JoinAtCommonToken(*window, &tokens)) {
      overlap *= 4;  // and it stays so, so that texts without such tokens do not cost more and more
      continue;
    }
    end = new_end;
  }
  for (const PlacedToken& token : tokens) ids->push_back(token.id);
  return true;
}

absl::StatusOr<std::optional<std::vector<SentencePieceTokenizer::PlacedToken>>>
SentencePieceTokenizer::EncodeWindow(const SentencePieceLibrary& library, std::string_view shown,
                                     size_t begin, size_t end) const {
  std::vector<int32_t> ids;
  NG_RETURN_IF_ERROR(EncodeAtOnce(library, shown.substr(begin, end - begin), &ids));
  constexpr int32_t kShownBytes = sizeof(kShownSpace) - 1;
  auto at = static_cast<int32_t>(begin) - (traits_.add_dummy_prefix ? kShownBytes : 0);
  std::vector<PlacedToken> tokens;
  for (const int32_t id : ids) {
    if (id == unknown_id_) return std::nullopt;
    tokens.push_back({id, at});
    for (const char c : TokenBytes(id)) at += c == ' ' ? kShownBytes : 1;
  }
  if (at != static_cast<int32_t>(end)) return std::nullopt;
  return tokens;
}

// A token stands for at most longest_ bytes, so the bytes of the parts give the fewest ids that the
// whole text can have.
absl::StatusOr<bool> SentencePieceTokenizer::IsTooLong(const SentencePieceLibrary& library,
                                                       std::string_view text, int64_t most,
                                                       std::vector<int32_t>* ids) const {
  if (text.size() < 4 * kPartBytes || most == std::numeric_limits<int64_t>::max()) return false;
  const size_t n_before = ids->size();
  int64_t n_bytes = 0;
  int64_t n_parts = 0;
  while (!text.empty()) {
    const size_t length = EndOfCharacter(text, std::min(text.size(), kPartBytes));
    const size_t n_ids = ids->size();
    NG_RETURN_IF_ERROR(EncodePart(library, text.substr(0, length), ids));
    for (size_t i = n_ids; i < ids->size(); ++i) n_bytes += std::ssize(TokenBytes((*ids)[i]));
    // The ends of a part may be normalised in another way than within the text.
    if ((n_bytes - 64 * ++n_parts) / longest_ > most) return true;
    text.remove_prefix(length);
  }
  ids->resize(n_before);
  return false;
}

absl::StatusOr<std::string> SentencePieceTokenizer::Decode(std::span<const int32_t> ids) const {
  NG_RETURN_IF_ERROR(CheckIds(ids, vocab_size(), path_));
  std::string text;
  const bool only_pieces = std::ranges::all_of(ids, [this](int32_t id) { return id < n_pieces_; });
  if (!only_pieces || use_.space_prefix != SpacePrefix::kModels) {
    for (const int32_t id : ids) text += TokenBytes(id);
    if (use_.space_prefix != SpacePrefix::kNever && text.starts_with(' ')) text.erase(0, 1);
    return ReplaceInvalidUtf8(text);
  }
  if (const std::string reason = reference_.Decode(ids, &text); !reason.empty()) {
    return ModelFileError(absl::StrCat(path_, ": the ids cannot be decoded: ", reason));
  }
  return text;
}

std::string_view SentencePieceTokenizer::TokenBytes(int32_t id) const {
  assert(id >= 0 && id < vocab_size());
  return token_bytes_[static_cast<size_t>(id)];
}

std::string SentencePieceTokenizer::Spelling(int32_t id) const {
  assert(id >= 0 && id < vocab_size());
  if (id < n_pieces_) return std::string(reference_.Piece(id));
  const auto found = beyond_.find(id);
  return found == beyond_.end() ? "" : found->second;
}

std::optional<int32_t> SentencePieceTokenizer::SpecialId(std::string_view literal) const {
  const auto found = specials_.find(literal);
  return found == specials_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<int32_t> SentencePieceTokenizer::SpecialIds() const {
  std::vector<int32_t> ids;
  for (const auto& [literal, id] : specials_) ids.push_back(id);
  if (unknown_id_ >= 0) ids.push_back(unknown_id_);
  return ids;
}

}  // namespace ng
