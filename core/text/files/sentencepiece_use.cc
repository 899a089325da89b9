#include "core/text/files/sentencepiece_use.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/formats/json.h"
#include "core/text/files/companions.h"
#include "core/text/text_parts.h"

namespace ng {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr JsonLimits kTokenizerJson = {.max_bytes = int64_t{64} << 20, .max_depth = 32};

class SentencePieceUseReader {
 public:
  SentencePieceUseReader(const std::string& folder, const std::vector<Piece>& pieces,
                         const SentencePieceTraits& traits, KeyPolicy& policy)
      : folder_(folder), pieces_(pieces), traits_(traits), policy_(policy) {}

  absl::StatusOr<SentencePieceUse> Read() {
    NG_ASSIGN_OR_RETURN(companions_, ReadCompanions(folder_, policy_));
    const std::string path = (fs::path(folder_) / "tokenizer.json").string();
    if (MayExist(path)) {
      NG_ASSIGN_OR_RETURN(JsonDocument json, ReadJsonFile(path, kTokenizerJson));
      NG_RETURN_IF_ERROR(JsonFields::Of(*json, path).status());
      policy_.LeaveOutIgnored(path, *json);
      const TokenizerJsonFile file(*json, path);
      NG_RETURN_IF_ERROR(ReadTokenizerJson(file));
      NG_RETURN_IF_ERROR(policy_.Unread(path, file.UnknownKeys()));
    } else if (companions_) {
      NG_RETURN_IF_ERROR(ReadEndsOfConfig());
      NG_RETURN_IF_ERROR(AddTokens(companions_->added, companions_->path));
      if (IsLlamaClass(*companions_)) use_.space_prefix = PrefixOfLlamaClass(*companions_);
    } else {
      return use_;
    }
    NG_RETURN_IF_ERROR(CheckPrefix());
    if (companions_) AddNamed();
    AddControlPieces();
    return std::move(use_);
  }

 private:
  absl::Status ReadTokenizerJson(const TokenizerJsonFile& file) {
    NG_RETURN_IF_ERROR(CheckModel(file));
    NG_ASSIGN_OR_RETURN(const std::vector<AddedToken> added, file.AddedTokens());
    NG_RETURN_IF_ERROR(AddTokens(added, file.path()));
    if (companions_) NG_RETURN_IF_ERROR(AddTokens(companions_->added, companions_->path));
    NG_ASSIGN_OR_RETURN(use_.ends, file.Ends(NumTokens()));
    if (!companions_) return ReadPrefix(file);
    NG_RETURN_IF_ERROR(CheckAgreement(*companions_, *use_.ends, file.path(), policy_));
    NG_ASSIGN_OR_RETURN(const bool as_it_stands, OpensAsItStands(*companions_, folder_));
    if (as_it_stands) return ReadPrefix(file);
    use_.space_prefix = PrefixOfLlamaClass(*companions_);
    return absl::OkStatus();
  }

  int64_t NumTokens() const {
    auto n_tokens = static_cast<int64_t>(pieces_.size());
    for (const AddedToken& token : use_.added) {
      n_tokens = std::max<int64_t>(n_tokens, token.id + int64_t{1});
    }
    return n_tokens;
  }

  // Checks that the file has the same model as tokenizer.model.
  absl::Status CheckModel(const TokenizerJsonFile& file) const {
    const Json& model = file.At("model");
    NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(model, file.Where("model")));
    for (const char* const key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      NG_ASSIGN_OR_RETURN(const auto affix, fields.OptionalText(key));
      if (!affix.value_or("").empty()) {
        return file.Wrong(absl::StrCat("model.", key), *affix, "null");
      }
    }
    NG_ASSIGN_OR_RETURN(const auto dropout, fields.OptionalNumber("dropout", {0, 1}));
    if (dropout.value_or(0) != 0) return file.Wrong("model.dropout", *dropout, "null");
    NG_ASSIGN_OR_RETURN(const auto ignore, fields.OptionalBool("ignore_merges"));
    if (ignore.value_or(false)) return file.Wrong("model.ignore_merges", true, "false");
    NG_ASSIGN_OR_RETURN(const auto bytes, fields.OptionalBool("byte_fallback"));
    if (bytes && *bytes != traits_.byte_fallback) {
      return file.Wrong(
          "model.byte_fallback", *bytes,
          traits_.byte_fallback ? "true, as in tokenizer.model" : "false, as in tokenizer.model");
    }
    return CheckVocabulary(file, TokenizerJsonFile::At(model, "vocab"));
  }

  absl::Status CheckVocabulary(const TokenizerJsonFile& file, const Json& vocabulary) const {
    const auto check = [&](const Json& id, const std::string& text) -> absl::Status {
      const bool known = id.is_number_unsigned() && id.get<uint64_t>() < pieces_.size();
      if (known && pieces_[id.get<size_t>()].text == text) return absl::OkStatus();
      return file.Wrong(absl::StrCat("model.vocab[", JsonExcerpt(text), "]"), id,
                        "the id that it has in tokenizer.model; tokenizer.path can name one of "
                        "the two in a folder of its own");
    };
    if (vocabulary.is_object()) {  // BPE: {token: id}
      for (const auto& [text, id] : vocabulary.items()) NG_RETURN_IF_ERROR(check(id, text));
      return absl::OkStatus();
    }
    if (!vocabulary.is_array()) return file.Wrong("model.vocab", vocabulary, "a list or an object");
    for (size_t id = 0; id < vocabulary.size(); ++id) {  // unigram: [[token, score]]
      const Json& entry = vocabulary[id];
      if (!entry.is_array() || entry.empty() || !entry[0].is_string()) {
        return file.Wrong(absl::StrCat("model.vocab[", id, "]"), entry, "a token and its score");
      }
      NG_RETURN_IF_ERROR(check(id, entry[0].get_ref<const std::string&>()));
    }
    return absl::OkStatus();
  }

  // A normaliser that puts a space before each stretch, or a pre-tokenizer that does.
  absl::Status ReadPrefix(const TokenizerJsonFile& file) {
    NG_ASSIGN_OR_RETURN(const auto normalizers, file.Members("normalizer", "normalizers"));
    NG_ASSIGN_OR_RETURN(const auto splitters, file.Members("pre_tokenizer", "pretokenizers"));
    bool prepends = false;
    bool replaces = false;  // spaces are gone before the text is split
    for (const auto& [part, type, member] : normalizers) {
      if (type == "Prepend" && TokenizerJsonFile::At(*member, "prepend") == kShownSpace) {
        prepends = true;
      } else if (type == "Precompiled" && traits_.normalises) {
        continue;  // tokenizer.model has it
      } else if (type == "Replace" && TokenizerJsonFile::At(*member, "content") == kShownSpace) {
        replaces = true;
      } else {
        return file.Wrong("normalizer", *member,
                          "what tokenizer.model does: \"Prepend\" or \"Replace\" by U+2581");
      }
    }
    use_.space_prefix = prepends ? SpacePrefix::kModels : SpacePrefix::kNever;
    for (const AddedToken& token : use_.added) {
      if (!prepends || !token.normalized || token.special) continue;
      return file.Wrong("added_tokens", token.text,
                        "normalized = false, or special: it would be found behind a space alone");
    }
    for (const auto& [part, type, member] : splitters) {
      const Json& pattern = TokenizerJsonFile::At(*member, "pattern");
      const bool at_space = pattern.size() == 1 && TokenizerJsonFile::At(pattern, "String") == " ";
      if (replaces && type == "Split" && at_space) continue;
      if (type != "Metaspace" || prepends) {
        return file.Wrong("pre_tokenizer.type", type, "\"Metaspace\" alone, or none");
      }
      NG_RETURN_IF_ERROR(ReadMetaspace(file, *member));
    }
    return absl::OkStatus();
  }

  absl::Status ReadMetaspace(const TokenizerJsonFile& file, const Json& metaspace) {
    NG_ASSIGN_OR_RETURN(const JsonFields fields,
                        JsonFields::Of(metaspace, file.Where("pre_tokenizer")));
    NG_ASSIGN_OR_RETURN(const std::string replacement, fields.Text("replacement"));
    if (replacement != kShownSpace) {
      return file.Wrong("pre_tokenizer.replacement", replacement, "U+2581");
    }
    // Older files have a flag in place of the scheme.
    NG_ASSIGN_OR_RETURN(const auto flag, fields.OptionalBool("add_prefix_space"));
    NG_ASSIGN_OR_RETURN(const auto scheme, fields.OptionalText("prepend_scheme"));
    const std::string name = scheme.value_or(flag.value_or(true) ? "always" : "never");
    const std::pair<std::string_view, SpacePrefix> schemes[] = {{"always", SpacePrefix::kEach},
                                                                {"first", SpacePrefix::kFirst},
                                                                {"never", SpacePrefix::kNever}};
    const auto known =
        std::ranges::find(schemes, name, &std::pair<std::string_view, SpacePrefix>::first);
    if (known == std::end(schemes)) {
      return file.Wrong("pre_tokenizer.prepend_scheme", name, "always, first or never");
    }
    use_.space_prefix = known->second;
    return absl::OkStatus();
  }

  // The tokens around a text according to tokenizer_config.json, when there is no tokenizer.json.
  absl::Status ReadEndsOfConfig() {
    const Companions& config = *companions_;
    if (!config.add_bos_token && IsLlamaClass(config)) {
      NG_RETURN_IF_ERROR(policy_.Doubt(
          config.path + ": does not say add_bos_token; no token is put before a text"));
    }
    use_.ends.emplace();
    if (config.add_bos_token.value_or(false) && !config.bos_token.empty()) {
      NG_ASSIGN_OR_RETURN(const int32_t id, IdOf("bos_token", config.bos_token));
      use_.ends->prefix.push_back(id);
    }
    if (config.add_eos_token.value_or(false) && !config.eos_token.empty()) {
      NG_ASSIGN_OR_RETURN(const int32_t id, IdOf("eos_token", config.eos_token));
      use_.ends->suffix.push_back(id);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<int32_t> IdOf(const char* key, const std::string& text) const {
    for (size_t id = 0; id < pieces_.size(); ++id) {
      if (pieces_[id].text == text) return static_cast<int32_t>(id);
    }
    for (const AddedToken& token : companions_->added) {
      if (token.text == text) return token.id;
    }
    return ModelFileError(absl::StrCat(companions_->path, ": key \"", key, "\" = ",
                                       JsonExcerpt(text), ", must be a token of tokenizer.model"));
  }

  // Adds the tokens with the ids that a file gives them. A piece of the model keeps its own id.
  absl::Status AddTokens(const std::vector<AddedToken>& tokens, const std::string& path) {
    for (const AddedToken& token : tokens) {
      const auto id = static_cast<size_t>(token.id);
      const auto same = std::ranges::find(use_.added, token.id, &AddedToken::id);
      const bool is_new = same == use_.added.end();
      const std::string_view held = !is_new               ? std::string_view(same->text)
                                    : id < pieces_.size() ? pieces_[id].text
                                                          : std::string_view(token.text);
      if (held != token.text) {
        return ModelFileError(absl::StrCat(path, ": the added token ", JsonExcerpt(token.text),
                                           " has the id ", id, ", which is ",
                                           JsonExcerpt(std::string(held))));
      }
      if (is_new) {
        use_.added.push_back(token);
      } else if (!(companions_ && companions_->only_ids) && !FoundAlike(*same, token)) {
        return ModelFileError(absl::StrCat(path, ": the added token ", JsonExcerpt(token.text),
                                           " is not described as in tokenizer.json"));
      }
    }
    return absl::OkStatus();
  }

  // Special tokens that have a name and no id: that of the piece, or the next one.
  void AddNamed() {
    std::map<std::string, int32_t> pieces;
    for (size_t id = 0; id < pieces_.size(); ++id) {
      pieces.emplace(pieces_[id].text, static_cast<int32_t>(id));
    }
    std::map<std::string, size_t> known;  // places in use_.added
    for (size_t i = 0; i < use_.added.size(); ++i) known.emplace(use_.added[i].text, i);
    auto next = static_cast<int32_t>(NumTokens());
    for (const auto* const list : {&companions_->named, &companions_->listed}) {
      for (AddedToken token : *list) {
        const auto [place, is_new] = known.emplace(token.text, use_.added.size());
        if (is_new) {
          const auto piece = pieces.find(token.text);
          token.id = piece != pieces.end() ? piece->second : next++;
          use_.added.push_back(std::move(token));
        } else if (list == &companions_->named) {
          use_.added[place->second].special = true;
        }
      }
    }
  }

  absl::Status CheckPrefix() {
    if (use_.space_prefix != SpacePrefix::kModels && !traits_.plain_bpe()) {
      use_.space_prefix = SpacePrefix::kModels;
      return policy_.Doubt(
          (companions_ ? companions_->path : folder_) +
          ": asks for a tokenizer without a normaliser; tokenizer.model's own is used");
    }
    return absl::OkStatus();
  }

  void AddControlPieces() {
    for (size_t id = 0; id < pieces_.size(); ++id) {
      if (pieces_[id].type != PieceType::kControl) continue;
      const auto number = static_cast<int32_t>(id);
      if (std::ranges::count(use_.added, number, &AddedToken::id) != 0) continue;
      use_.added.push_back({.id = number, .text = std::string(pieces_[id].text), .special = true});
    }
  }

  const std::string& folder_;
  const std::vector<Piece>& pieces_;
  const SentencePieceTraits& traits_;
  KeyPolicy& policy_;
  std::optional<Companions> companions_;
  SentencePieceUse use_;
};

}  // namespace

absl::StatusOr<SentencePieceUse> ReadSentencePieceUse(const std::string& folder,
                                                      const std::vector<Piece>& pieces,
                                                      const SentencePieceTraits& traits,
                                                      KeyPolicy& policy) {
  return SentencePieceUseReader(folder, pieces, traits, policy).Read();
}

}  // namespace ng
