#include "core/text/files/open_tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/file.h"
#include "core/formats/gguf.h"
#include "core/formats/json.h"
#include "core/text/char_tokenizer.h"
#include "core/text/files/companions.h"
#include "core/text/files/gguf_vocabulary.h"
#include "core/text/files/sentencepiece_use.h"
#include "core/text/files/tokenizer_json.h"
#include "core/text/pipeline/pipeline_tokenizer.h"
#include "core/text/sentencepiece/sentencepiece_tokenizer.h"
#include "core/text/text_parts.h"

namespace ng {
namespace {

namespace fs = std::filesystem;

// Well above the largest published vocabularies (4 MB), well below what the library can count.
constexpr int64_t kMaxTokenizerBytes = int64_t{64} << 20;

// The names that a tokenizer has in a model folder, the preferred one first.
constexpr const char* kFileNames[] = {"tokenizer.model", "tokenizer.json", "meta.pkl"};

// Whether some step puts a space before a text.
bool PrefixesSpace(const PipelineSpec& spec) {
  const auto shows = [](const PreTokenizerStep& step) {
    const auto* const spaces = std::get_if<ShowSpaces>(&step);
    return std::holds_alternative<PrefixSpace>(step) ||
           (spaces != nullptr && spaces->prepend != ShowSpaces::Prepend::kNever);
  };
  return std::ranges::any_of(spec.split, shows) ||
         std::ranges::any_of(spec.normalizer, [](const NormalizerStep& step) {
           return std::holds_alternative<PrependStep>(step);
         });
}

// What transformers' LlamaTokenizer does with spaces, whatever the tokenizer.json says.
absl::Status ApplyLlamaClass(const Companions& companions, const std::string& path,
                             PipelineSpec* spec) {
  const auto* const bpe = std::get_if<BpeSpec>(&spec->model);
  if (bpe == nullptr || bpe->byte_level) return absl::OkStatus();
  NG_ASSIGN_OR_RETURN(const bool as_it_stands,
                      OpensAsItStands(companions, fs::path(path).parent_path().string()));
  if (as_it_stands) return absl::OkStatus();
  using Prepend = ShowSpaces::Prepend;
  const SpacePrefix prefix = PrefixOfLlamaClass(companions);
  const Prepend prepend = prefix == SpacePrefix::kNever   ? Prepend::kNever
                          : prefix == SpacePrefix::kFirst ? Prepend::kFirst
                                                          : Prepend::kAlways;
  spec->normalizer.clear();
  spec->split = {ShowSpaces{kShownSpace, prepend}};
  return absl::OkStatus();
}

// Applies what the files beside a tokenizer.json say about it: tokens that it lacks, and a prefix
// that some classes of transformers take from there.
absl::Status ApplyCompanions(const Companions& companions, const std::string& path,
                             const KeyPolicy& policy, PipelineSpec* spec) {
  NG_RETURN_IF_ERROR(ApplyLlamaClass(companions, path, spec));
  NG_RETURN_IF_ERROR(CheckAgreement(companions, {spec->prefix, spec->suffix}, path, policy));
  const auto refuse = [&](const auto&... parts) {
    return ModelFileError(absl::StrCat(companions.path, ": ", parts..., " ", path));
  };
  const bool prefixes = PrefixesSpace(*spec);
  if (companions.add_prefix_space.value_or(prefixes) != prefixes) {
    return refuse("add_prefix_space = ", prefixes ? "false" : "true",
                  ", must be what its pre_tokenizer has in");
  }
  for (const AddedToken& token : companions.added) {
    const auto same = std::ranges::find(spec->added_tokens, token.id, &AddedToken::id);
    const auto n_tokens = static_cast<int64_t>(spec->tokens.size());
    if (same != spec->added_tokens.end() &&
        (companions.only_ids ? same->text == token.text : FoundAlike(*same, token))) {
      continue;
    }
    const bool is_next = same == spec->added_tokens.end() && token.id >= n_tokens;
    if (!is_next || token.id > n_tokens) {
      return refuse("the added token ", JsonExcerpt(token.text), " with the id ", token.id,
                    " must be as in, or follow the tokens of");
    }
    spec->tokens.push_back(token.text);
    spec->added_tokens.push_back(token);
    ++spec->n_added;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(const std::string& path,
                                                         KeyPolicy& policy) {
  std::error_code not_found;
  std::string file = path;
  if (fs::is_directory(path, not_found)) {
    const std::optional<std::string> found = FindTokenizer(path);
    if (!found) {
      return ModelFileError(absl::StrCat(path, ": has no ", absl::StrJoin(kFileNames, ", no ")));
    }
    file = *found;
  }
  const fs::path extension = fs::path(file).extension();
  NG_ASSIGN_OR_RETURN(InputFile input, InputFile::Open(file));
  NG_ASSIGN_OR_RETURN(const bool is_gguf, IsGguf(input));
  if (is_gguf) {
    NG_ASSIGN_OR_RETURN(const GgufFile gguf, ReadGguf(std::move(input)));
    return ReadGgufTokenizer(gguf.metadata);
  }
  NG_ASSIGN_OR_RETURN(const std::string bytes, input.ReadAll(kMaxTokenizerBytes));
  if (extension == ".pkl") return CharTokenizer::FromMetaPickle(bytes, file);
  const std::string folder = fs::path(file).parent_path().string();
  if (extension == ".json") {
    NG_ASSIGN_OR_RETURN(PipelineSpec spec, ReadTokenizerJsonSpec(bytes, file, policy));
    NG_ASSIGN_OR_RETURN(const std::optional<Companions> companions, ReadCompanions(folder, policy));
    if (companions) NG_RETURN_IF_ERROR(ApplyCompanions(*companions, file, policy, &spec));
    return PipelineTokenizer::Create(std::move(spec), file);
  }
  NG_ASSIGN_OR_RETURN(const std::vector<Piece> pieces, ReadSentencePieceModel(bytes, file));
  NG_ASSIGN_OR_RETURN(SentencePieceUse use,
                      ReadSentencePieceUse(folder, pieces, ReadSentencePieceTraits(bytes), policy));
  return SentencePieceTokenizer::FromBytes(bytes, file, std::move(use));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(
    const std::string& path, const std::function<void(std::string_view)>& warning) {
  KeyPolicy policy(false, {}, warning);
  return OpenTokenizer(path, policy);
}

std::optional<std::string> FindTokenizer(const std::string& folder) {
  for (const char* const name : kFileNames) {
    const std::string file = (fs::path(folder) / name).string();
    if (MayExist(file)) return file;
  }
  return std::nullopt;
}

}  // namespace ng
