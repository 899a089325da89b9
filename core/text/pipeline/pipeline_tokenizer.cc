#include "core/text/pipeline/pipeline_tokenizer.h"

#include <algorithm>
#include <cassert>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/formats/json.h"
#include "core/text/bpe/byte_alphabet.h"
#include "core/text/text_checks.h"
#include "ng/utf8.h"

namespace ng {
namespace {

// Where steps may drop or shorten text, a token may stand for any number of its bytes.
constexpr int64_t kAnyNumberOfBytes = int64_t{1} << 20;

// Whether a step leaves about as many bytes as there were.
bool KeepsLength(const NormalizerStep& step) {
  if (const auto* const replace = std::get_if<ReplaceStep>(&step)) {
    const auto* const literal = std::get_if<std::string>(&replace->from);
    return literal != nullptr && literal->size() <= replace->to.size();
  }
  return std::holds_alternative<NormalForm>(step) || std::holds_alternative<PrependStep>(step);
}

size_t SizeOf(const std::vector<std::string>& tokens) {
  size_t size = 0;
  for (const std::string& token : tokens) size += token.size();
  return size;
}

// What a step says of a token when the file is read.
absl::Status OfToken(size_t id, const absl::Status& status) {
  return ModelFileError(absl::StrCat("token ", id, ": ", status.message()));
}

bool Removes(const PreTokenizerStep& step) {
  const auto* const split = std::get_if<SplitAt>(&step);
  return split != nullptr && split->behavior == SplitBehavior::kRemoved;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> PipelineTokenizer::Create(PipelineSpec spec,
                                                                     const std::string& path) {
  std::unique_ptr<PipelineTokenizer> tokenizer(new PipelineTokenizer(std::move(spec), path));
  NG_RETURN_IF_ERROR(Annotate(tokenizer->Load(), path + ": "));
  return tokenizer;
}

PipelineTokenizer::PipelineTokenizer(PipelineSpec spec, std::string path)
    : spec_(std::move(spec)), path_(std::move(path)) {}

absl::Status PipelineTokenizer::Load() {
  for (const AddedToken& token : spec_.added_tokens) {
    if (token.special) specials_.emplace(token.text, token.id);
  }
  NG_RETURN_IF_ERROR(CheckTokens());
  NG_RETURN_IF_ERROR(LoadModel());
  NG_RETURN_IF_ERROR(LoadAddedTokens());
  NG_RETURN_IF_ERROR(LoadBytes());
  if (DecodesToBytes()) DropSpellings();
  return absl::OkStatus();
}

absl::Status PipelineTokenizer::CheckTokens() const {
  if (spec_.tokens.empty()) return ModelFileError("the tokenizer has no tokens");
  std::unordered_set<std::string_view> seen;
  seen.reserve(spec_.tokens.size());
  for (size_t id = 0; id < spec_.tokens.size(); ++id) {
    const std::string& token = spec_.tokens[id];
    if (FindInvalidUtf8(token)) {
      return ModelFileError(absl::StrCat("token ", id, " is not valid UTF-8"));
    }
    if (token.empty() || seen.insert(token).second) continue;
    return ModelFileError(absl::StrCat("token ", id, " = ", JsonExcerpt(token), " is there twice"));
  }
  return absl::OkStatus();
}

absl::Status PipelineTokenizer::LoadModel() {
  Vocabulary vocabulary;
  vocabulary.tokens = std::move(spec_.tokens);
  vocabulary.special.resize(vocabulary.tokens.size());
  for (const auto& [literal, id] : specials_) vocabulary.special[static_cast<size_t>(id)] = true;
  absl::Status status;
  if (auto* const bpe = std::get_if<BpeSpec>(&spec_.model)) {
    unknown_ = bpe->unknown;
    byte_level_ = bpe->byte_level;
    absl::StatusOr<std::unique_ptr<PieceModel>> model =
        BpeModel::Create(std::move(*bpe), vocabulary, path_);
    status = model.status();
    if (model.ok()) model_ = *std::move(model);
  } else {
    auto& unigram = std::get<UnigramSpec>(spec_.model);
    unknown_ = unigram.unknown;
    model_ = UnigramModel::Create(std::move(unigram), vocabulary, path_);
  }
  spec_.model = BpeSpec();
  spec_.tokens = std::move(vocabulary.tokens);
  return status;
}

absl::Status PipelineTokenizer::LoadBytes() {
  token_bytes_.reserve(spec_.tokens.size());
  StepBudget budget(SizeOf(spec_.tokens));
  for (size_t id = 0; id < spec_.tokens.size(); ++id) {
    const std::string& token = spec_.tokens[id];
    absl::StatusOr<std::string> bytes = BytesWithin(spec_.decoder, token, budget);
    if (!bytes.ok()) return OfToken(id, bytes.status());
    longest_ = std::max({longest_, std::ssize(*bytes), std::ssize(token)});
    token_bytes_.push_back(*std::move(bytes));
  }
  const bool keeps_all = std::ranges::all_of(spec_.normalizer, KeepsLength) &&
                         std::ranges::none_of(spec_.split, Removes) && !model_->joins_unknown();
  if (!keeps_all) longest_ = std::max(longest_, kAnyNumberOfBytes);
  return absl::OkStatus();
}

absl::Status PipelineTokenizer::LoadAddedTokens() {
  std::vector<AddedToken> raw;
  std::vector<AddedToken> normalized;
  StepBudget budget(SizeOf(spec_.tokens));
  for (AddedToken& token : spec_.added_tokens) {
    // Such a token is found, and shown, as its normal form.
    if (token.normalized) {
      absl::StatusOr<MaskedText> text =
          ApplySteps(spec_.normalizer, {std::move(token.text), {}}, budget);
      if (!text.ok()) return OfToken(static_cast<size_t>(token.id), text.status());
      token.text = std::move(text->text);
      if (token.text.empty()) continue;  // no text has it
      spec_.tokens[static_cast<size_t>(token.id)] = token.text;
    }
    (token.normalized ? normalized : raw).push_back(std::move(token));
  }
  raw_added_ = AddedTokens(std::move(raw));
  normalized_added_ = AddedTokens(std::move(normalized));
  spec_.added_tokens.clear();
  return absl::OkStatus();
}

// The bytes say how a token is spelled. One with a character outside the alphabet stands for its
// own bytes, as one of ASCII alone does, too.
void PipelineTokenizer::DropSpellings() {
  const auto is_ascii = [](char c) { return c >= '!' && c <= '~'; };
  for (size_t id = 0; id < spec_.tokens.size(); ++id) {
    std::string& token = spec_.tokens[id];
    if (token != token_bytes_[id] || std::ranges::all_of(token, is_ascii)) continue;
    literals_.emplace(static_cast<int32_t>(id), std::move(token));
  }
  spec_.tokens.clear();
}

bool PipelineTokenizer::DecodesToBytes() const {
  return spec_.decoder.size() == 1 && std::holds_alternative<BytesOfAlphabet>(spec_.decoder[0]);
}

absl::StatusOr<std::vector<int32_t>> PipelineTokenizer::Encode(std::string_view text,
                                                               const EncodeOptions& options) const {
  NG_RETURN_IF_ERROR(CheckText(text));
  std::vector<int32_t> ids;
  if (options.add_special) ids = spec_.prefix;
  StepBudget budget(text.size());
  const std::vector<int32_t> barred = Barred(options);
  const std::string_view mask = options.special_at;
  for (const TextFragment& raw :
       raw_added_.Split(text, options.parse_special, mask, options.marks)) {
    if (std::ssize(ids) > options.most) return ids;
    if (raw.id >= 0) {
      ids.push_back(raw.id);
      continue;
    }
    const auto at = static_cast<size_t>(raw.text.data() - text.data());
    const std::string_view mask_of_raw =
        mask.empty() || normalized_added_.empty() ? "" : mask.substr(at, raw.text.size());
    const Stretch stretch = {raw.text, mask_of_raw, at == 0 && !options.continues};
    NG_RETURN_IF_ERROR(EncodeStretch(stretch, options, {budget, barred}, &ids));
  }
  if (options.add_special) ids.insert(ids.end(), spec_.suffix.begin(), spec_.suffix.end());
  return ids;
}

// Text gives no special token where special tokens are text, and no mark.
std::vector<int32_t> PipelineTokenizer::Barred(const EncodeOptions& options) const {
  std::vector<int32_t> barred(options.marks.begin(), options.marks.end());
  if (!options.parse_special || !options.special_at.empty()) {
    const std::span<const int32_t> specials = model_->made_specials();
    barred.insert(barred.end(), specials.begin(), specials.end());
    std::ranges::sort(barred);
  }
  return barred;
}

absl::Status PipelineTokenizer::EncodeStretch(const Stretch& stretch, const EncodeOptions& options,
                                              const Bounds& bounds,
                                              std::vector<int32_t>* ids) const {
  NG_ASSIGN_OR_RETURN(
      const MaskedText normalized,
      ApplySteps(spec_.normalizer, {std::string(stretch.text), std::string(stretch.mask)},
                 bounds.budget));
  for (const TextFragment& part : normalized_added_.Split(normalized.text, options.parse_special,
                                                          normalized.mask, options.marks)) {
    if (part.id >= 0) {
      ids->push_back(part.id);
      continue;
    }
    const bool is_first = part.text.data() == normalized.text.data();
    const Stretch fragment = {part.text, {}, stretch.begins && is_first};
    NG_RETURN_IF_ERROR(EncodeFragment(fragment, options.most, bounds, ids));
  }
  return absl::OkStatus();
}

absl::Status PipelineTokenizer::EncodeFragment(const Stretch& fragment, int64_t most,
                                               const Bounds& bounds,
                                               std::vector<int32_t>* ids) const {
  absl::Status status;
  const auto take = [&](std::string_view piece) {
    status = model_->Encode(piece, bounds.barred, most, ids);
    return status.ok() && std::ssize(*ids) <= most;
  };
  NG_RETURN_IF_ERROR(SplitText(fragment.text, fragment.begins, spec_.split, bounds.budget, take));
  return status;
}

absl::StatusOr<std::vector<int32_t>> PipelineTokenizer::EncodeAsReference(
    std::string_view text, const EncodeOptions& options) const {
  return Encode(text, options);
}

absl::StatusOr<std::string> PipelineTokenizer::Decode(std::span<const int32_t> ids) const {
  NG_RETURN_IF_ERROR(CheckIds(ids, vocab_size(), path_));
  if (DecodesToBytes()) {
    std::string bytes;
    for (const int32_t id : ids) bytes += TokenBytes(id);
    return ReplaceInvalidUtf8(bytes);
  }
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const int32_t id : ids) {
    const std::string& token = spec_.tokens[static_cast<size_t>(id)];
    if (!token.empty()) tokens.push_back(token);
  }
  StepBudget budget(SizeOf(tokens));
  return DecodeTokens(spec_.decoder, std::move(tokens), budget);
}

std::string_view PipelineTokenizer::TokenBytes(int32_t id) const {
  assert(id >= 0 && id < vocab_size());
  return token_bytes_[static_cast<size_t>(id)];
}

std::optional<int32_t> PipelineTokenizer::SpecialId(std::string_view literal) const {
  const auto found = specials_.find(literal);
  return found == specials_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<int32_t> PipelineTokenizer::SpecialIds() const {
  std::vector<int32_t> ids;
  for (const auto& [literal, id] : specials_) ids.push_back(id);
  if (unknown_ && std::ranges::count(ids, *unknown_) == 0) ids.push_back(*unknown_);
  return ids;
}

std::string PipelineTokenizer::Spelling(int32_t id) const {
  assert(id >= 0 && id < vocab_size());
  if (!spec_.tokens.empty()) return spec_.tokens[static_cast<size_t>(id)];
  const auto literal = literals_.find(id);
  return literal == literals_.end() ? ByteLevelText(TokenBytes(id)) : literal->second;
}

std::vector<WholeToken> PipelineTokenizer::WholeTokens() const {
  std::vector<WholeToken> all = raw_added_.All();
  const std::vector<WholeToken> normalized = normalized_added_.All();
  all.insert(all.end(), normalized.begin(), normalized.end());
  return all;
}

}  // namespace ng
