#include "core/text/files/gguf_vocabulary.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/formats/json.h"
#include "core/text/added_tokens.h"
#include "core/text/bpe/scored_bpe_tokenizer.h"
#include "core/text/files/gguf_pre_tokenizers.h"
#include "core/text/pipeline/pipeline_tokenizer.h"
#include "core/text/text_parts.h"

namespace ng {
namespace {

// "</s>", "[EOS]", "<|im_end|>".
bool IsInBrackets(std::string_view token) {
  return token.size() > 2 && ((token.starts_with('<') && token.ends_with('>')) ||
                              (token.starts_with('[') && token.ends_with(']')));
}

// Markers and runs of newlines.
bool IsFoundWhole(std::string_view token) {
  const bool newlines = token.size() > 1 && token.find_first_not_of('\n') == token.npos;
  return newlines || LooksLikeMarker(token);
}

class Maker {
 public:
  Maker(GgufVocabulary vocabulary, std::string path)
      : vocabulary_(std::move(vocabulary)), path_(std::move(path)) {}

  absl::StatusOr<std::unique_ptr<Tokenizer>> Make() {
    if (vocabulary_.token_type.empty()) {
      vocabulary_.token_type.assign(vocabulary_.tokens.size(),
                                    static_cast<int32_t>(PieceType::kNormal));
    }
    NG_RETURN_IF_ERROR(CheckSize("token_type", vocabulary_.token_type.size()));
    for (size_t id = 0; id < vocabulary_.token_type.size(); ++id) {
      const int32_t type = vocabulary_.token_type[id];
      if (type >= 1 && type <= 6) continue;
      return Wrong(absl::StrCat("token_type[", id, "]"), type, "in [1, 6]");
    }
    if (vocabulary_.model == "llama") return MakeScored();
    if (vocabulary_.model == "gpt2") return MakeByteLevel();
    if (vocabulary_.model == "gemma4") return MakeOfCharacters();
    return Wrong("model", vocabulary_.model, "\"llama\", \"gpt2\" or \"gemma4\"");
  }

 private:
  absl::Status Wrong(const std::string& key, const nlohmann::json& found,
                     const std::string& allowed) const {
    return ModelFileError(absl::StrCat(path_, ": tokenizer.ggml.", key, " = ", JsonExcerpt(found),
                                       ", must be ", allowed));
  }
  absl::Status CheckSize(const char* key, size_t size) const {
    if (size == vocabulary_.tokens.size()) return absl::OkStatus();
    return ModelFileError(absl::StrCat(path_, ": tokenizer.ggml.", key, " has ", size,
                                       " entries, must have one for each of ",
                                       vocabulary_.tokens.size(), " tokens"));
  }
  PieceType TypeOf(size_t id) const { return static_cast<PieceType>(vocabulary_.token_type[id]); }
  // Whether the file says that the token begins or ends something. Then it is found whole, also
  // where its type is that of ordinary ones.
  bool IsEnd(size_t id) const {
    const auto& of = vocabulary_;
    const std::optional<int64_t> ends[] = {of.bos_token_id, of.eos_token_id, of.eot_token_id,
                                           of.eom_token_id};
    return std::ranges::count(ends, std::optional(static_cast<int64_t>(id))) != 0;
  }

  // The token that begins or ends a text, where the file asks for it.
  absl::StatusOr<std::vector<int32_t>> Edge(const char* key, std::optional<int64_t> id,
                                            std::optional<bool> wanted, bool by_default) const {
    if (!id) {
      if (!wanted.value_or(false)) return std::vector<int32_t>();
      return ModelFileError(absl::StrCat(path_, ": tokenizer.ggml.", key,
                                         " is missing, and the file says to add it"));
    }
    const auto n_tokens = static_cast<int64_t>(vocabulary_.tokens.size());
    if (*id < 0 || *id >= n_tokens) return Wrong(key, *id, absl::StrCat("in [0, ", n_tokens, ")"));
    if (!wanted.value_or(by_default)) return std::vector<int32_t>();
    return std::vector<int32_t>{static_cast<int32_t>(*id)};
  }

  template <typename Spec>
  absl::Status SetEdges(bool adds_bos, Spec* spec) const {
    NG_ASSIGN_OR_RETURN(spec->prefix, Edge("bos_token_id", vocabulary_.bos_token_id,
                                           vocabulary_.add_bos_token, adds_bos));
    NG_ASSIGN_OR_RETURN(spec->suffix, Edge("eos_token_id", vocabulary_.eos_token_id,
                                           vocabulary_.add_eos_token, false));
    return absl::OkStatus();
  }

  // Mistral's vocabularies from v0.3 on. Their tokenizer.json puts a space before a text alone that
  // begins with none ("prepend_scheme": "first"), that of older ones before every text and after
  // each special token; a GGUF file has no key that tells them apart.
  bool HasInstructionTokens() const {
    const auto& tokens = vocabulary_.tokens;
    const auto found = std::ranges::find(tokens, "[INST]");
    if (found == tokens.end()) return false;
    return TypeOf(static_cast<size_t>(found - tokens.begin())) == PieceType::kControl;
  }

  absl::StatusOr<std::unique_ptr<Tokenizer>> MakeScored() {
    NG_RETURN_IF_ERROR(CheckSize("scores", vocabulary_.scores.size()));
    ScoredBpeSpec spec;
    NG_RETURN_IF_ERROR(SetEdges(true, &spec));
    for (size_t id = 0; id < vocabulary_.tokens.size(); ++id) {
      const bool ordinary = TypeOf(id) == PieceType::kNormal || TypeOf(id) == PieceType::kUnused;
      const bool whole = ordinary && IsEnd(id) && IsInBrackets(vocabulary_.tokens[id]);
      spec.types.push_back(whole ? PieceType::kUserDefined : TypeOf(id));
    }
    spec.add_space_prefix = vocabulary_.add_space_prefix.value_or(true);
    spec.one_space_prefix = HasInstructionTokens();
    spec.scores = std::move(vocabulary_.scores);
    spec.tokens = std::move(vocabulary_.tokens);
    return ScoredBpeTokenizer::Create(std::move(spec), path_);
  }

  absl::StatusOr<std::unique_ptr<Tokenizer>> MakeByteLevel() {
    const std::string pre = vocabulary_.pre.empty() ? "default" : vocabulary_.pre;
    std::optional<GgufPreTokenizer> known = GgufPreTokenizerOf(pre);
    if (!known) return Wrong("pre", pre, "one of " + GgufPreTokenizerNames());
    PipelineSpec spec;
    spec.split = std::move(known->split);
    spec.split.emplace_back(ToByteAlphabet{});
    NG_RETURN_IF_ERROR(SetEdges(known->add_bos, &spec));
    BpeSpec bpe;
    bpe.ignore_merges = known->ignore_merges;
    return MakePipeline(std::move(bpe), std::move(spec));
  }

  // Merges of characters, as the tokenizer.json of the same models has them. Each text begins with
  // the token for that, whatever the file says: some of these files say it wrongly.
  absl::StatusOr<std::unique_ptr<Tokenizer>> MakeOfCharacters() {
    PipelineSpec spec;
    spec.normalizer = {ReplaceStep{" ", kShownSpace}};
    spec.decoder = {ReplaceInToken{kShownSpace, " "}, BytesOfNames{}, Fuse{}};
    vocabulary_.add_bos_token = true;
    NG_RETURN_IF_ERROR(SetEdges(true, &spec));
    BpeSpec bpe;
    bpe.byte_level = false;
    bpe.byte_fallback = bpe.fuse_unknown = true;
    return MakePipeline(std::move(bpe), std::move(spec));
  }

  absl::StatusOr<std::unique_ptr<Tokenizer>> MakePipeline(BpeSpec bpe, PipelineSpec spec) {
    absl::flat_hash_set<std::string> merged;
    for (size_t i = 0; i < vocabulary_.merges.size(); ++i) {
      auto merge = ParseMerge(vocabulary_.merges[i]);
      if (!merge) {
        return Wrong(absl::StrCat("merges[", i, "]"), vocabulary_.merges[i], "two tokens");
      }
      if (const std::string both = merge->first + merge->second;
          IsFoundWhole(both) || IsInBrackets(both)) {
        merged.insert(both);
      }
      bpe.merges.push_back(*std::move(merge));
    }
    for (size_t i = 0; i < vocabulary_.tokens.size(); ++i) {
      const std::string& token = vocabulary_.tokens[i];
      if (token.empty()) return Wrong(absl::StrCat("tokens[", i, "]"), "", "not empty");
      const auto id = static_cast<int32_t>(i);
      const PieceType type = TypeOf(i);
      bool special = type == PieceType::kControl || type == PieceType::kUnknown;
      bool added = special || type == PieceType::kUserDefined ||
                   (IsEnd(i) && IsInBrackets(token) && !merged.contains(token));
      if (!bpe.byte_level) {
        if (type == PieceType::kUnknown) bpe.unknown = id;
        // Some files give these the type of ordinary tokens, though no merge makes them.
        added = added || (IsFoundWhole(token) && !merged.contains(token));
        special = special || (added && LooksLikeMarker(token));
      }
      if (added) spec.added_tokens.push_back({.id = id, .text = token, .special = special});
    }
    spec.model = std::move(bpe);
    spec.tokens = std::move(vocabulary_.tokens);
    return PipelineTokenizer::Create(std::move(spec), path_);
  }

  GgufVocabulary vocabulary_;
  std::string path_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeTokenizer(GgufVocabulary vocabulary,
                                                         const std::string& path) {
  return Maker(std::move(vocabulary), path).Make();
}

absl::StatusOr<std::unique_ptr<Tokenizer>> ReadGgufTokenizer(const GgufMetadata& metadata) {
  NG_ASSIGN_OR_RETURN(GgufVocabulary vocabulary, ReadGgufVocabulary(metadata));
  return MakeTokenizer(std::move(vocabulary), metadata.path());
}

}  // namespace ng
