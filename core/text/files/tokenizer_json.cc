#include "core/text/files/tokenizer_json.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/formats/json.h"
#include "core/text/bpe/byte_bpe_tokenizer.h"
#include "core/text/files/tokenizer_json_file.h"

namespace ng {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 32;
const Json& At(const Json& object, const char* key) { return TokenizerJsonFile::At(object, key); }

// Reads the file's parts one by one into a spec.
class TokenizerJsonReader {
 public:
  explicit TokenizerJsonReader(const TokenizerJsonFile& file) : file_(file) {}

  absl::StatusOr<ByteBpeSpec> Read() {
    NG_RETURN_IF_ERROR(ReadModel());
    NG_ASSIGN_OR_RETURN(spec_.added_tokens, file_.AddedTokens());
    NG_RETURN_IF_ERROR(OrderTokens());
    NG_RETURN_IF_ERROR(ReadNormalizer());
    NG_RETURN_IF_ERROR(ReadPreTokenizer());
    NG_ASSIGN_OR_RETURN(TextEnds ends, file_.Ends(static_cast<int64_t>(spec_.tokens.size())));
    spec_.prefix = std::move(ends.prefix);
    spec_.suffix = std::move(ends.suffix);
    NG_RETURN_IF_ERROR(ReadDecoder());
    return std::move(spec_);
  }

 private:
  std::string Where(std::string_view part) const { return file_.Where(part); }
  absl::Status Wrong(std::string_view part, const Json& found, std::string_view allowed) const {
    return file_.Wrong(part, found, allowed);
  }

  absl::Status ReadModel();
  absl::Status ReadVocabulary(const Json& vocabulary);
  absl::Status ReadMerges(const Json& merges);
  absl::Status OrderTokens();
  absl::Status ReadNormalizer();
  absl::Status ReadPreTokenizer();
  absl::Status ReadSplit(const Json& split, const std::string& part);
  absl::Status ReadByteLevel(const Json& byte_level, const std::string& part);
  absl::Status ReadDecoder();

  const TokenizerJsonFile& file_;
  ByteBpeSpec spec_;
  std::vector<std::pair<int64_t, std::string>> tokens_;  // (id, token), in no order
  bool byte_level_ = false;
};

absl::Status TokenizerJsonReader::ReadModel() {
  const Json& model = file_.At("model");
  if (model.is_null()) return ModelFileError(Where("has no \"model\""));
  NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(model, Where("model")));
  NG_ASSIGN_OR_RETURN(const std::string type, fields.Text("type"));
  if (type != "BPE") return Wrong("model.type", type, "\"BPE\" at the byte level");
  NG_ASSIGN_OR_RETURN(const std::optional<double> dropout,
                      fields.OptionalNumber("dropout", {0, 1}));
  if (dropout.value_or(0) != 0) return Wrong("model.dropout", *dropout, "null");
  for (const char* const key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    NG_ASSIGN_OR_RETURN(const std::optional<std::string> affix, fields.OptionalText(key));
    if (!affix.value_or("").empty()) return Wrong(absl::StrCat("model.", key), *affix, "null");
  }
  NG_ASSIGN_OR_RETURN(const std::optional<bool> byte_fallback,
                      fields.OptionalBool("byte_fallback"));
  if (byte_fallback.value_or(false)) {
    return Wrong("model.byte_fallback", true, "false: only byte-level BPE is supported");
  }
  NG_ASSIGN_OR_RETURN(const std::optional<bool> ignore, fields.OptionalBool("ignore_merges"));
  spec_.ignore_merges = ignore.value_or(false);
  NG_RETURN_IF_ERROR(ReadVocabulary(At(model, "vocab")));
  return ReadMerges(At(model, "merges"));
}

absl::Status TokenizerJsonReader::ReadVocabulary(const Json& vocabulary) {
  if (!vocabulary.is_object()) return Wrong("model.vocab", vocabulary, "an object");
  for (const auto& [token, id] : vocabulary.items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= uint64_t{kMaxTokenId}) {
      return Wrong(absl::StrCat("model.vocab[", JsonExcerpt(token), "]"), id, "an id");
    }
    tokens_.emplace_back(id.get<int64_t>(), token);
  }
  return absl::OkStatus();
}

absl::Status TokenizerJsonReader::ReadMerges(const Json& merges) {
  if (!merges.is_array()) return Wrong("model.merges", merges, "a list");
  for (size_t i = 0; i < merges.size(); ++i) {
    const Json& merge = merges[i];
    std::optional<std::pair<std::string, std::string>> parts;
    if (merge.is_string()) {
      parts = ParseMerge(merge.get_ref<const std::string&>());
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      parts.emplace(merge[0], merge[1]);
    }
    if (!parts) return Wrong(absl::StrCat("model.merges[", i, "]"), merge, "two tokens");
    spec_.merges.push_back(*std::move(parts));
  }
  return absl::OkStatus();
}

// Puts the tokens of both lists in the order of their ids.
absl::Status TokenizerJsonReader::OrderTokens() {
  for (const AddedToken& added : spec_.added_tokens) tokens_.emplace_back(added.id, added.text);
  std::ranges::sort(tokens_);
  // A token may be listed as one of the vocabulary and as an added one.
  tokens_.erase(std::unique(tokens_.begin(), tokens_.end()), tokens_.end());
  for (auto& [id, token] : tokens_) {
    const auto expected = static_cast<int64_t>(spec_.tokens.size());
    if (id < expected) {
      return ModelFileError(absl::StrCat(Where("id "), id, " is both ",
                                         JsonExcerpt(spec_.tokens.back()), " and ",
                                         JsonExcerpt(token)));
    }
    if (id > expected) {
      return ModelFileError(absl::StrCat(Where("no token has the id "), expected,
                                         ", must be one for each up to ", tokens_.back().first));
    }
    spec_.tokens.push_back(std::move(token));
  }
  return absl::OkStatus();
}

absl::Status TokenizerJsonReader::ReadNormalizer() {
  NG_ASSIGN_OR_RETURN(const auto members, file_.Members("normalizer", "normalizers"));
  for (const Json* const member : members) {
    NG_ASSIGN_OR_RETURN(const std::string type, file_.TypeOf(*member, "normalizer"));
    if (type != "NFC") return Wrong("normalizer.type", type, "\"NFC\" or no normalizer");
    spec_.nfc = true;
  }
  return absl::OkStatus();
}

absl::Status TokenizerJsonReader::ReadPreTokenizer() {
  NG_ASSIGN_OR_RETURN(const auto members, file_.Members("pre_tokenizer", "pretokenizers"));
  for (size_t i = 0; i < members.size(); ++i) {
    const std::string part = members.size() == 1
                                 ? "pre_tokenizer"
                                 : absl::StrCat("pre_tokenizer.pretokenizers[", i, "]");
    NG_ASSIGN_OR_RETURN(const std::string type, file_.TypeOf(*members[i], part));
    if (byte_level_) return Wrong(part + ".type", type, "nothing after \"ByteLevel\"");
    if (type == "ByteLevel") {
      NG_RETURN_IF_ERROR(ReadByteLevel(*members[i], part));
    } else if (type == "Split") {
      NG_RETURN_IF_ERROR(ReadSplit(*members[i], part));
    } else if (type == "Digits") {
      NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(*members[i], Where(part)));
      NG_ASSIGN_OR_RETURN(const bool each, fields.Bool("individual_digits"));
      spec_.split.push_back(each ? SplitStep::kEachNumber : SplitStep::kNumbers);
    } else {
      return Wrong(part + ".type", type, "\"ByteLevel\", \"Split\" or \"Digits\"");
    }
  }
  if (byte_level_) return absl::OkStatus();
  return Wrong("pre_tokenizer", file_.At("pre_tokenizer"), "or end with one of type \"ByteLevel\"");
}

absl::Status TokenizerJsonReader::ReadSplit(const Json& split, const std::string& part) {
  const Json& pattern = At(split, "pattern");
  const Json& regex = At(pattern, "Regex");
  const std::optional<SplitStep> step =
      regex.is_string() ? SplitStepOf(regex.get_ref<const std::string&>()) : std::nullopt;
  if (!step) {
    // The whole pattern and not an excerpt, because only the whole one identifies it.
    return ModelFileError(absl::StrCat(
        Where(part),
        ".pattern = ", pattern.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace),
        ", must be the regular expression of one of: ", SplitPatternNames()));
  }
  NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(split, Where(part)));
  NG_ASSIGN_OR_RETURN(const std::string behavior, fields.Text("behavior"));
  NG_ASSIGN_OR_RETURN(const std::optional<bool> invert, fields.OptionalBool("invert"));
  // A pattern that matches every character leaves nothing between its matches. So removing what is
  // not matched means the same as isolating the matches.
  const bool isolated = behavior == "Isolated" && !invert.value_or(false);
  if (!isolated && !(behavior == "Removed" && invert.value_or(false))) {
    return Wrong(part + ".behavior", behavior, "\"Isolated\", or \"Removed\" with invert");
  }
  spec_.split.push_back(*step);
  return absl::OkStatus();
}

absl::Status TokenizerJsonReader::ReadByteLevel(const Json& byte_level, const std::string& part) {
  NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(byte_level, Where(part)));
  NG_ASSIGN_OR_RETURN(spec_.add_prefix_space, fields.Bool("add_prefix_space"));
  NG_ASSIGN_OR_RETURN(const std::optional<bool> use_regex, fields.OptionalBool("use_regex"));
  if (spec_.add_prefix_space && !spec_.split.empty()) {
    return Wrong(part + ".add_prefix_space", true, "false after another pre-tokenizer");
  }
  if (use_regex.value_or(true)) spec_.split.push_back(SplitStep::kGpt2);
  byte_level_ = true;
  return absl::OkStatus();
}

absl::Status TokenizerJsonReader::ReadDecoder() {
  const Json& decoder = file_.At("decoder");
  NG_ASSIGN_OR_RETURN(const std::string type, file_.TypeOf(decoder, "decoder"));
  if (type == "ByteLevel") return absl::OkStatus();
  return Wrong("decoder", decoder, "of type \"ByteLevel\"");
}

}  // namespace

absl::StatusOr<ByteBpeSpec> ReadTokenizerJsonSpec(std::string_view bytes, const std::string& path,
                                                  KeyPolicy& policy) {
  NG_ASSIGN_OR_RETURN(Json file, ParseJson(bytes, path, kMaxDepth));
  NG_RETURN_IF_ERROR(JsonFields::Of(file, path).status());
  policy.LeaveOutIgnored(path, file);
  const TokenizerJsonFile parts(file, path);
  NG_ASSIGN_OR_RETURN(ByteBpeSpec spec, TokenizerJsonReader(parts).Read());
  NG_RETURN_IF_ERROR(policy.Unread(path, parts.UnknownKeys()));
  return spec;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> ReadTokenizerJson(std::string_view bytes,
                                                             const std::string& path) {
  KeyPolicy policy;
  NG_ASSIGN_OR_RETURN(ByteBpeSpec spec, ReadTokenizerJsonSpec(bytes, path, policy));
  return ByteBpeTokenizer::Create(std::move(spec), path);
}

}  // namespace ng
