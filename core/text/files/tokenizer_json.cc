#include "core/text/files/tokenizer_json.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/formats/json.h"
#include "core/text/files/tokenizer_json_file.h"
#include "core/text/files/tokenizer_json_parts.h"
#include "core/text/pipeline/pipeline_tokenizer.h"

namespace ng {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 32;
const Json& At(const Json& object, const char* key) { return TokenizerJsonFile::At(object, key); }

// Reads the file's parts one by one into a spec.
class TokenizerJsonReader {
 public:
  explicit TokenizerJsonReader(const TokenizerJsonFile& file) : file_(file) {}

  absl::StatusOr<PipelineSpec> Read() {
    NG_ASSIGN_OR_RETURN(spec_.normalizer, ReadNormalizer(file_, &unread_));
    NG_ASSIGN_OR_RETURN(spec_.split, ReadPreTokenizer(file_, &unread_));
    NG_ASSIGN_OR_RETURN(spec_.decoder, ReadDecoder(file_, &unread_));
    NG_RETURN_IF_ERROR(ReadModel());
    NG_ASSIGN_OR_RETURN(std::vector<AddedToken> added, file_.AddedTokens());
    NumberAddedTokens(std::move(added));
    NG_RETURN_IF_ERROR(OrderTokens());
    NG_ASSIGN_OR_RETURN(TextEnds ends, file_.Ends(static_cast<int64_t>(spec_.tokens.size())));
    spec_.prefix = std::move(ends.prefix);
    spec_.suffix = std::move(ends.suffix);
    return std::move(spec_);
  }

  // The keys of the parts that nobody knows.
  const std::vector<std::string>& unread() const { return unread_; }
  // Added tokens that are read as other ids than the file's.
  const std::vector<std::string>& renumbered() const { return renumbered_; }

 private:
  std::string Where(std::string_view part) const { return file_.Where(part); }
  absl::Status Wrong(std::string_view part, const Json& found, std::string_view allowed) const {
    return file_.Wrong(part, found, allowed);
  }

  absl::Status ReadModel();
  absl::Status ReadBpe(const Json& model, const JsonFields& fields);
  absl::Status ReadUnigram(const Json& model, const JsonFields& fields);
  absl::Status ReadVocabulary(const Json& vocabulary);
  absl::Status ReadMerges(const Json& merges, BpeSpec* bpe) const;
  void NumberAddedTokens(std::vector<AddedToken> added);
  absl::Status OrderTokens();

  const TokenizerJsonFile& file_;
  PipelineSpec spec_;
  std::vector<std::pair<int64_t, std::string>> tokens_;  // (id, token), in no order
  std::vector<std::string> unread_;
  std::vector<std::string> renumbered_;
};

absl::Status TokenizerJsonReader::ReadModel() {
  const Json& model = file_.At("model");
  if (model.is_null()) return ModelFileError(Where("has no \"model\""));
  NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(model, Where("model")));
  // Old files of BPE say no type.
  NG_ASSIGN_OR_RETURN(const auto said, fields.OptionalText("type"));
  const std::string type = said.value_or(model.contains("merges") ? "BPE" : "");
  if (type == "BPE") return ReadBpe(model, fields);
  if (type == "Unigram") return ReadUnigram(model, fields);
  return Wrong("model.type", type, "\"BPE\" or \"Unigram\"");
}

absl::Status TokenizerJsonReader::ReadBpe(const Json& model, const JsonFields& fields) {
  BpeSpec bpe;
  bpe.byte_level = std::ranges::any_of(spec_.split, [](const PreTokenizerStep& step) {
    return std::holds_alternative<ToByteAlphabet>(step);
  });
  NG_ASSIGN_OR_RETURN(const std::optional<double> dropout,
                      fields.OptionalNumber("dropout", {0, 1}));
  if (dropout.value_or(0) != 0) return Wrong("model.dropout", *dropout, "null");
  NG_ASSIGN_OR_RETURN(const auto subword, fields.OptionalText("continuing_subword_prefix"));
  if (!subword.value_or("").empty()) {
    return Wrong("model.continuing_subword_prefix", *subword, "null");
  }
  NG_ASSIGN_OR_RETURN(const auto word_end, fields.OptionalText("end_of_word_suffix"));
  bpe.end_of_word = word_end.value_or("");
  const std::pair<const char*, bool*> flags[] = {{"byte_fallback", &bpe.byte_fallback},
                                                 {"fuse_unk", &bpe.fuse_unknown},
                                                 {"ignore_merges", &bpe.ignore_merges}};
  for (const auto& [key, flag] : flags) {
    NG_ASSIGN_OR_RETURN(const std::optional<bool> value, fields.OptionalBool(key));
    *flag = value.value_or(false);
  }
  if (bpe.byte_level && !bpe.end_of_word.empty()) {
    return Wrong("model.end_of_word_suffix", bpe.end_of_word, "null at the byte level");
  }
  if (bpe.byte_level && bpe.byte_fallback) {
    return Wrong("model.byte_fallback", true, "false at the byte level");
  }
  NG_RETURN_IF_ERROR(ReadVocabulary(At(model, "vocab")));
  NG_ASSIGN_OR_RETURN(const auto unknown, fields.OptionalText("unk_token"));
  if (!unknown.value_or("").empty()) {
    const auto found =
        std::ranges::find(tokens_, *unknown, &std::pair<int64_t, std::string>::second);
    if (found == tokens_.end()) return Wrong("model.unk_token", *unknown, "a token of model.vocab");
    bpe.unknown = static_cast<int32_t>(found->first);
  }
  NG_RETURN_IF_ERROR(ReadMerges(At(model, "merges"), &bpe));
  spec_.model = std::move(bpe);
  return absl::OkStatus();
}

// "vocab": [[token, score], ...], by id.
absl::Status TokenizerJsonReader::ReadUnigram(const Json& model, const JsonFields& fields) {
  for (const PreTokenizerStep& step : spec_.split) {
    if (!std::holds_alternative<ToByteAlphabet>(step)) continue;
    return Wrong("model.type", "Unigram", "\"BPE\" with a pre_tokenizer \"ByteLevel\"");
  }
  UnigramSpec unigram;
  const Json& vocabulary = At(model, "vocab");
  if (!vocabulary.is_array()) return Wrong("model.vocab", vocabulary, "a list");
  for (const Json& entry : vocabulary) {
    const bool is_pair = entry.is_array() && entry.size() == 2 && entry[0].is_string() &&
                         !entry[0].get_ref<const std::string&>().empty() && entry[1].is_number();
    if (!is_pair || !std::isfinite(entry[1].get<double>())) {
      return Wrong(absl::StrCat("model.vocab[", tokens_.size(), "]"), entry, "a token and a score");
    }
    tokens_.emplace_back(static_cast<int64_t>(tokens_.size()), entry[0].get<std::string>());
    unigram.scores.push_back(entry[1].get<double>());
  }
  NG_ASSIGN_OR_RETURN(
      const auto unknown,
      fields.OptionalInt("unk_id", {0, static_cast<int64_t>(unigram.scores.size()) - 1}));
  if (unknown) unigram.unknown = static_cast<int32_t>(*unknown);
  NG_ASSIGN_OR_RETURN(const auto byte_fallback, fields.OptionalBool("byte_fallback"));
  unigram.byte_fallback = byte_fallback.value_or(false);
  spec_.model = std::move(unigram);
  return absl::OkStatus();
}

absl::Status TokenizerJsonReader::ReadVocabulary(const Json& vocabulary) {
  if (!vocabulary.is_object()) return Wrong("model.vocab", vocabulary, "an object");
  for (const auto& [token, id] : vocabulary.items()) {
    if (token.empty()) return Wrong("model.vocab[\"\"]", id, "absent: a token is not empty");
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= uint64_t{kMaxTokenId}) {
      return Wrong(absl::StrCat("model.vocab[", JsonExcerpt(token), "]"), id, "an id");
    }
    tokens_.emplace_back(id.get<int64_t>(), token);
  }
  return absl::OkStatus();
}

absl::Status TokenizerJsonReader::ReadMerges(const Json& merges, BpeSpec* bpe) const {
  if (!merges.is_array()) return Wrong("model.merges", merges, "a list");
  for (size_t i = 0; i < merges.size(); ++i) {
    const Json& merge = merges[i];
    std::optional<std::pair<std::string, std::string>> parts;
    if (merge.is_string()) {
      const auto& line = merge.get_ref<const std::string&>();
      if (line.starts_with("#version")) continue;  // the head of a merges.txt
      parts = ParseMerge(line);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      parts.emplace(merge[0], merge[1]);
    }
    if (!parts) return Wrong(absl::StrCat("model.merges[", i, "]"), merge, "two tokens");
    bpe->merges.push_back(*std::move(parts));
  }
  return absl::OkStatus();
}

// As the tokenizers library does: a token that the vocabulary has keeps its id there, others have
// those behind it in turn, whatever the file says. A vocabulary with gaps leaves them as they are.
void TokenizerJsonReader::NumberAddedTokens(std::vector<AddedToken> added) {
  std::unordered_map<std::string, int64_t> ids;
  const auto n_own = static_cast<int64_t>(tokens_.size());
  int64_t end = 0;
  for (const auto& [id, token] : tokens_) {
    end = std::max(end, id + 1);
    ids.emplace(token, id);
  }
  int64_t next = n_own;
  std::unordered_map<int64_t, size_t> places;  // in spec_.added_tokens
  for (AddedToken& token : added) {
    const int64_t said = token.id;
    if (end == n_own) {
      const auto [place, is_new] = ids.emplace(token.text, next);
      token.id = static_cast<int32_t>(place->second);
      next += is_new ? 1 : 0;
    }
    if (token.id != said) {
      renumbered_.push_back(absl::StrCat(file_.Where("the added token "), JsonExcerpt(token.text),
                                         " has the id ", said, ", and is read as ", token.id,
                                         ", as the tokenizers library reads it"));
    }
    const auto [place, is_new] = places.emplace(token.id, spec_.added_tokens.size());
    const bool same = !is_new && spec_.added_tokens[place->second].text == token.text;
    if (same) {
      spec_.added_tokens[place->second] = std::move(token);
    } else {
      spec_.added_tokens.push_back(std::move(token));
    }
  }
}

// Puts the tokens of both lists in the order of their ids. An id without a token stays empty, as
// published vocabularies have it.
absl::Status TokenizerJsonReader::OrderTokens() {
  constexpr int64_t kMostGap = 1 << 16;
  int64_t n_own = 0;  // of the model's vocabulary; a model may lack rows for what is behind them
  for (const auto& [id, token] : tokens_) n_own = std::max(n_own, id + 1);
  for (const AddedToken& added : spec_.added_tokens) tokens_.emplace_back(added.id, added.text);
  std::ranges::sort(tokens_);
  // A token may be listed as one of the vocabulary and as an added one.
  tokens_.erase(std::unique(tokens_.begin(), tokens_.end()), tokens_.end());
  for (auto& [id, token] : tokens_) {
    const auto next = static_cast<int64_t>(spec_.tokens.size());
    if (id < next) {
      return ModelFileError(absl::StrCat(Where("id "), id, " is both ",
                                         JsonExcerpt(spec_.tokens.back()), " and ",
                                         JsonExcerpt(token)));
    }
    if (id - next > kMostGap) {
      return ModelFileError(absl::StrCat(Where("no token has the ids "), next, " to ", id - 1,
                                         ", which are more than ", kMostGap));
    }
    spec_.tokens.resize(static_cast<size_t>(id));
    spec_.tokens.push_back(std::move(token));
  }
  spec_.n_added = std::ssize(spec_.tokens) - n_own;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PipelineSpec> ReadTokenizerJsonSpec(std::string_view bytes, const std::string& path,
                                                   KeyPolicy& policy) {
  NG_ASSIGN_OR_RETURN(JsonDocument file, ParseJson(bytes, path, kMaxDepth));
  NG_RETURN_IF_ERROR(JsonFields::Of(*file, path).status());
  policy.LeaveOutIgnored(path, *file);
  const TokenizerJsonFile parts(*file, path);
  TokenizerJsonReader reader(parts);
  NG_ASSIGN_OR_RETURN(PipelineSpec spec, reader.Read());
  std::vector<std::string> unknown = parts.UnknownKeys();
  unknown.insert(unknown.end(), reader.unread().begin(), reader.unread().end());
  NG_RETURN_IF_ERROR(policy.Unread(path, unknown));
  for (const std::string& doubt : reader.renumbered()) NG_RETURN_IF_ERROR(policy.Doubt(doubt));
  return spec;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> ReadTokenizerJson(std::string_view bytes,
                                                             const std::string& path) {
  KeyPolicy policy;
  NG_ASSIGN_OR_RETURN(PipelineSpec spec, ReadTokenizerJsonSpec(bytes, path, policy));
  return PipelineTokenizer::Create(std::move(spec), path);
}

}  // namespace ng
