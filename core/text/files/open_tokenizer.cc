#include "core/text/files/open_tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
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

// Adds the tokens that files beside a tokenizer.json have, as transformers does: one that it has
// gets what is said of it, one of the vocabulary keeps its id, and the others follow in order.
class TokenAdder {
 public:
  TokenAdder(const Companions& companions, const KeyPolicy& policy, PipelineSpec* spec)
      : companions_(companions), policy_(policy), spec_(*spec) {}

  absl::Status AddAll() {
    FindKnown();
    std::set<int32_t> taken;
    for (const AddedToken& token : spec_.added_tokens) taken.insert(token.id);
    for (const AddedToken& token : companions_.added) {
      AddedToken* const same = Find(token.text);
      // The tokenizer.json goes before added_tokens.json, id by id.
      if (same == nullptr && companions_.only_ids && taken.contains(token.id)) continue;
      if (same != nullptr && !companions_.only_ids) {
        const AddedToken before = std::exchange(*same, token);
        same->id = before.id;
        same->special = before.special || token.special;
      }
      const int32_t id = same != nullptr ? same->id : Add(token);
      if (id == token.id) continue;
      NG_RETURN_IF_ERROR(policy_.Doubt(absl::StrCat(
          companions_.path, ": the added token ", JsonExcerpt(token.text), " has the id ", token.id,
          ", and is read as ", id, ", as transformers reads it")));
    }
    const ptrdiff_t n_before = std::ssize(spec_.added_tokens);
    for (const AddedToken& token : companions_.named) {
      AddedToken* const same = Find(token.text);
      if (same == nullptr) {
        Add(token);
      } else if (same - spec_.added_tokens.data() < n_before) {
        same->special = true;
      } else {  // under two names: the last one counts
        const int32_t id = same->id;
        *same = token;
        same->id = id;
      }
    }
    for (const AddedToken& token : companions_.listed) {
      if (Find(token.text) == nullptr) Add(token);
    }
    return absl::OkStatus();
  }

 private:
  // What the tokenizer has of the tokens that are to be added.
  void FindKnown() {
    for (const auto* list : {&companions_.added, &companions_.named, &companions_.listed}) {
      for (const AddedToken& token : *list) ids_.emplace(token.text, -1);
    }
    for (size_t id = 0; id < spec_.tokens.size(); ++id) {
      const auto found = ids_.find(spec_.tokens[id]);
      if (found != ids_.end()) found->second = static_cast<int32_t>(id);
    }
    for (size_t i = 0; i < spec_.added_tokens.size(); ++i) {
      places_.emplace(spec_.added_tokens[i].id, i);
    }
  }

  AddedToken* Find(const std::string& text) {
    const auto place = places_.find(ids_.at(text));
    return place == places_.end() ? nullptr : &spec_.added_tokens[place->second];
  }

  // Returns its id.
  int32_t Add(AddedToken token) {
    int32_t& id = ids_.at(token.text);
    const bool is_new = id < 0;
    if (is_new) {
      id = static_cast<int32_t>(spec_.tokens.size());
      spec_.tokens.push_back(token.text);
      ++spec_.n_added;
    }
    token.id = id;
    places_.emplace(id, spec_.added_tokens.size());
    spec_.added_tokens.push_back(std::move(token));
    return id;
  }

  const Companions& companions_;
  const KeyPolicy& policy_;
  PipelineSpec& spec_;
  std::map<std::string, int32_t> ids_;  // of the texts of all that are to be added; -1: none yet
  std::map<int32_t, size_t> places_;    // in spec_.added_tokens, by id
};

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
  TokenAdder adder(companions, policy, spec);
  return adder.AddAll();
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
