#include "core/text/sentencepiece_tokenizer.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/text/text_checks.h"

namespace ng {
namespace {

// The library counts bytes of a text and of its pieces in 32 bits.
constexpr size_t kMaxTextBytes = size_t{256} << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> SentencePieceTokenizer::FromBytes(
    std::string_view bytes, const std::string& path) {
  std::unique_ptr<SentencePieceTokenizer> tokenizer(new SentencePieceTokenizer(path));
  NG_RETURN_IF_ERROR(tokenizer->Load(bytes));
  return tokenizer;
}

absl::Status SentencePieceTokenizer::Load(std::string_view bytes) {
  NG_ASSIGN_OR_RETURN(const std::vector<Piece> pieces, ReadSentencePieceModel(bytes, path_));
  if (const std::string reason = reference_.Load(bytes); !reason.empty()) {
    return ModelFileError(absl::StrCat(path_, ": the SentencePiece library refuses it: ", reason));
  }
  NG_RETURN_IF_ERROR(CheckVocabulary(reference_, pieces));
  for (size_t id = 0; id < pieces.size(); ++id) {
    NG_RETURN_IF_ERROR(AddToken(static_cast<int32_t>(id), pieces[id]));
  }
  const bool has_user_defined =
      std::ranges::count(pieces, PieceType::kUserDefined, &Piece::type) != 0;
  return has_user_defined ? LoadPlain(bytes, pieces) : absl::OkStatus();
}

absl::Status SentencePieceTokenizer::LoadPlain(std::string_view bytes,
                                               const std::vector<Piece>& pieces) {
  std::vector<Piece> plain_pieces = pieces;
  for (Piece& piece : plain_pieces) {
    if (piece.type == PieceType::kUserDefined) piece.type = PieceType::kControl;
  }
  plain_.emplace();
  if (const std::string reason = plain_->Load(WithoutUserDefinedPieces(bytes)); !reason.empty()) {
    return ModelFileError(absl::StrCat(
        path_, ": the SentencePiece library refuses it without its user-defined pieces: ", reason));
  }
  return CheckVocabulary(*plain_, plain_pieces);
}

// That the library sees the pieces that were read from the same bytes: what is promised about
// special ids hangs on it.
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
      bytes = absl::StrReplaceAll(text, {{"\u2581", " "}});
      break;
  }
  token_bytes_.push_back(std::move(bytes));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> SentencePieceTokenizer::Encode(
    std::string_view text, const EncodeOptions& options) const {
  return EncodeWith(options.parse_special || !plain_ ? reference_ : *plain_, text, options);
}

absl::StatusOr<std::vector<int32_t>> SentencePieceTokenizer::EncodeAsReference(
    std::string_view text, const EncodeOptions& options) const {
  return EncodeWith(reference_, text, options);
}

absl::StatusOr<std::vector<int32_t>> SentencePieceTokenizer::EncodeWith(
    const SentencePieceLibrary& library, std::string_view text,
    const EncodeOptions& options) const {
  if (options.add_special) {
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
  if (const std::string reason = library.Encode(text, &ids); !reason.empty()) {
    return ModelFileError(absl::StrCat(path_, ": the text cannot be encoded: ", reason));
  }
  return ids;
}

absl::StatusOr<std::string> SentencePieceTokenizer::Decode(std::span<const int32_t> ids) const {
  NG_RETURN_IF_ERROR(CheckIds(ids, vocab_size(), path_));
  std::string text;
  if (const std::string reason = reference_.Decode(ids, &text); !reason.empty()) {
    return ModelFileError(absl::StrCat(path_, ": the ids cannot be decoded: ", reason));
  }
  return text;
}

std::string_view SentencePieceTokenizer::TokenBytes(int32_t id) const {
  assert(id >= 0 && id < vocab_size());
  return token_bytes_[static_cast<size_t>(id)];
}

std::optional<int32_t> SentencePieceTokenizer::SpecialId(std::string_view literal) const {
  const auto found = specials_.find(literal);
  return found == specials_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace ng
