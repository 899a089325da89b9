#include "core/text/tokenizer_json.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/formats/json.h"
#include "core/text/byte_bpe_tokenizer.h"

namespace ng {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 32;
constexpr int64_t kMaxId = int64_t{1} << 30;

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

const Json kNothing;

// The value of a key; JSON null where there is none. REQUIRES: an object.
const Json& At(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? kNothing : *found;
}

// Reads the file's parts one by one into a spec; `where_` of an error is the path to a part.
class Reader {
 public:
  Reader(const Json& file, std::string path) : file_(file), path_(std::move(path)) {}

  absl::StatusOr<ByteBpeSpec> Read() {
    NG_RETURN_IF_ERROR(JsonFields::Of(file_, path_).status());
    NG_RETURN_IF_ERROR(ReadModel());
    NG_RETURN_IF_ERROR(ReadAddedTokens());
    NG_RETURN_IF_ERROR(OrderTokens());
    NG_RETURN_IF_ERROR(ReadNormalizer());
    NG_RETURN_IF_ERROR(ReadPreTokenizer());
    NG_RETURN_IF_ERROR(ReadPostProcessor());
    NG_RETURN_IF_ERROR(ReadDecoder());
    return std::move(spec_);
  }

 private:
  std::string Where(std::string_view part) const { return absl::StrCat(path_, ": ", View(part)); }
  absl::Status Wrong(std::string_view part, const Json& found, std::string_view allowed) const {
    return ModelFileError(
        absl::StrCat(Where(part), " = ", JsonExcerpt(found), ", must be ", View(allowed)));
  }
  // An object's "type"; empty for null, whose place may be empty.
  absl::StatusOr<std::string> TypeOf(const Json& value, std::string_view part) const {
    if (value.is_null()) return std::string();
    NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(value, Where(part)));
    return fields.Text("type");
  }
  // The members of a "Sequence", or the one thing itself.
  absl::StatusOr<std::vector<const Json*>> Members(const Json& value, const char* part,
                                                   const char* list_key) const {
    NG_ASSIGN_OR_RETURN(const std::string type, TypeOf(value, part));
    std::vector<const Json*> members;
    if (type.empty()) return members;
    if (type != "Sequence") return std::vector{&value};
    const Json& list = At(value, list_key);
    if (!list.is_array()) return Wrong(absl::StrCat(part, ".", list_key), list, "a list");
    for (const Json& member : list) members.push_back(&member);
    return members;
  }

  absl::Status ReadModel();
  absl::Status ReadVocabulary(const Json& vocabulary);
  absl::Status ReadMerges(const Json& merges);
  absl::Status ReadAddedTokens();
  absl::Status ReadAddedToken(const Json& token, const std::string& part);
  absl::Status OrderTokens();
  absl::Status ReadNormalizer();
  absl::Status ReadPreTokenizer();
  absl::Status ReadSplit(const Json& split, const std::string& part);
  absl::Status ReadByteLevel(const Json& byte_level, const std::string& part);
  absl::Status ReadPostProcessor();
  absl::Status ReadTemplate(const Json& processor, const std::string& part);
  absl::Status ReadTemplateToken(const Json& processor, const Json& token, const std::string& part,
                                 std::vector<int32_t>* ids);
  absl::Status ReadDecoder();

  const Json& file_;
  std::string path_;
  ByteBpeSpec spec_;
  std::vector<std::pair<int64_t, std::string>> tokens_;  // (id, token), in no order
  bool byte_level_ = false;
};

absl::Status Reader::ReadModel() {
  const Json& model = At(file_, "model");
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

absl::Status Reader::ReadVocabulary(const Json& vocabulary) {
  if (!vocabulary.is_object()) return Wrong("model.vocab", vocabulary, "an object");
  for (const auto& [token, id] : vocabulary.items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= uint64_t{kMaxId}) {
      return Wrong(absl::StrCat("model.vocab[", JsonExcerpt(token), "]"), id, "an id");
    }
    tokens_.emplace_back(id.get<int64_t>(), token);
  }
  return absl::OkStatus();
}

absl::Status Reader::ReadMerges(const Json& merges) {
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

absl::Status Reader::ReadAddedTokens() {
  const Json& added = At(file_, "added_tokens");
  if (added.is_null()) return absl::OkStatus();
  if (!added.is_array()) return Wrong("added_tokens", added, "a list");
  for (size_t i = 0; i < added.size(); ++i) {
    NG_RETURN_IF_ERROR(ReadAddedToken(added[i], absl::StrCat("added_tokens[", i, "]")));
  }
  return absl::OkStatus();
}

absl::Status Reader::ReadAddedToken(const Json& token, const std::string& part) {
  NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(token, Where(part)));
  AddedToken added;
  NG_ASSIGN_OR_RETURN(const int64_t id, fields.Int("id", {0, kMaxId - 1}));
  added.id = static_cast<int32_t>(id);
  NG_ASSIGN_OR_RETURN(added.text, fields.Text("content"));
  if (added.text.empty()) return Wrong(part + ".content", added.text, "not empty");
  const std::pair<const char*, bool*> flags[] = {{"special", &added.special},
                                                 {"single_word", &added.single_word},
                                                 {"lstrip", &added.lstrip},
                                                 {"rstrip", &added.rstrip},
                                                 {"normalized", &added.normalized}};
  for (const auto& [key, flag] : flags) {
    NG_ASSIGN_OR_RETURN(*flag, fields.Bool(key));
  }
  spec_.added_tokens.push_back(std::move(added));
  return absl::OkStatus();
}

// Puts the tokens of both lists in the order of their ids.
absl::Status Reader::OrderTokens() {
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

absl::Status Reader::ReadNormalizer() {
  NG_ASSIGN_OR_RETURN(const auto members,
                      Members(At(file_, "normalizer"), "normalizer", "normalizers"));
  for (const Json* const member : members) {
    NG_ASSIGN_OR_RETURN(const std::string type, TypeOf(*member, "normalizer"));
    if (type != "NFC") return Wrong("normalizer.type", type, "\"NFC\" or no normalizer");
    spec_.nfc = true;
  }
  return absl::OkStatus();
}

absl::Status Reader::ReadPreTokenizer() {
  NG_ASSIGN_OR_RETURN(const auto members,
                      Members(At(file_, "pre_tokenizer"), "pre_tokenizer", "pretokenizers"));
  for (size_t i = 0; i < members.size(); ++i) {
    const std::string part = members.size() == 1
                                 ? "pre_tokenizer"
                                 : absl::StrCat("pre_tokenizer.pretokenizers[", i, "]");
    NG_ASSIGN_OR_RETURN(const std::string type, TypeOf(*members[i], part));
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
  return Wrong("pre_tokenizer", At(file_, "pre_tokenizer"),
               "or end with one of type \"ByteLevel\"");
}

absl::Status Reader::ReadSplit(const Json& split, const std::string& part) {
  const Json& pattern = At(split, "pattern");
  const Json& regex = pattern.is_object() ? At(pattern, "Regex") : kNothing;
  const std::optional<SplitStep> step =
      regex.is_string() ? SplitStepOf(regex.get_ref<const std::string&>()) : std::nullopt;
  if (!step) {
    // Whole and not an excerpt: it is what tells one pattern from another.
    return ModelFileError(absl::StrCat(
        Where(part),
        ".pattern = ", pattern.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace),
        ", must be the regular expression of one of: ", SplitPatternNames()));
  }
  NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(split, Where(part)));
  NG_ASSIGN_OR_RETURN(const std::string behavior, fields.Text("behavior"));
  NG_ASSIGN_OR_RETURN(const std::optional<bool> invert, fields.OptionalBool("invert"));
  // A pattern that matches every character leaves nothing between its matches: to remove what is
  // not matched isolates the matches too.
  const bool isolated = behavior == "Isolated" && !invert.value_or(false);
  if (!isolated && !(behavior == "Removed" && invert.value_or(false))) {
    return Wrong(part + ".behavior", behavior, "\"Isolated\", or \"Removed\" with invert");
  }
  spec_.split.push_back(*step);
  return absl::OkStatus();
}

absl::Status Reader::ReadByteLevel(const Json& byte_level, const std::string& part) {
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

absl::Status Reader::ReadPostProcessor() {
  NG_ASSIGN_OR_RETURN(const auto members,
                      Members(At(file_, "post_processor"), "post_processor", "processors"));
  bool has_template = false;
  for (const Json* const member : members) {
    NG_ASSIGN_OR_RETURN(const std::string type, TypeOf(*member, "post_processor"));
    if (type == "ByteLevel") continue;  // moves offsets, no ids
    if (type != "TemplateProcessing" || has_template) {
      return Wrong("post_processor.type", type, "\"ByteLevel\", or \"TemplateProcessing\" once");
    }
    has_template = true;
    NG_RETURN_IF_ERROR(ReadTemplate(*member, "post_processor"));
  }
  return absl::OkStatus();
}

absl::Status Reader::ReadTemplate(const Json& processor, const std::string& part) {
  const Json& single = At(processor, "single");
  if (!single.is_array()) return Wrong(part + ".single", single, "a list");
  std::vector<int32_t>* ids = &spec_.prefix;
  for (size_t i = 0; i < single.size(); ++i) {
    const std::string item = absl::StrCat(part, ".single[", i, "]");
    const bool is_object = single[i].is_object();
    if (is_object && single[i].contains("SpecialToken")) {
      NG_RETURN_IF_ERROR(ReadTemplateToken(processor, single[i]["SpecialToken"], item, ids));
    } else if (is_object && single[i].contains("Sequence") && ids == &spec_.prefix) {
      ids = &spec_.suffix;
    } else {
      return Wrong(item, single[i], "a SpecialToken, or the one Sequence");
    }
  }
  if (ids == &spec_.suffix) return absl::OkStatus();
  return Wrong(part + ".single", single, "a list with one Sequence");
}

absl::Status Reader::ReadTemplateToken(const Json& processor, const Json& token,
                                       const std::string& part, std::vector<int32_t>* ids) {
  NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(token, Where(part)));
  NG_ASSIGN_OR_RETURN(const std::string name, fields.Text("id"));
  NG_ASSIGN_OR_RETURN(const JsonFields of_processor, JsonFields::Of(processor, Where(part)));
  NG_ASSIGN_OR_RETURN(const auto tokens, of_processor.OptionalObject("special_tokens"));
  if (!tokens) return Wrong("post_processor.special_tokens", kNothing, "an object");
  NG_ASSIGN_OR_RETURN(const auto named, tokens->OptionalObject(name));
  if (!named) return Wrong(part, token, "a token of special_tokens");
  const auto last_id = static_cast<int64_t>(spec_.tokens.size()) - 1;
  NG_ASSIGN_OR_RETURN(const std::vector<int64_t> wide_ids, named->IntList("ids", {0, last_id}));
  for (const int64_t id : wide_ids) ids->push_back(static_cast<int32_t>(id));
  return absl::OkStatus();
}

absl::Status Reader::ReadDecoder() {
  const Json& decoder = At(file_, "decoder");
  NG_ASSIGN_OR_RETURN(const std::string type, TypeOf(decoder, "decoder"));
  if (type == "ByteLevel") return absl::OkStatus();
  return Wrong("decoder", decoder, "of type \"ByteLevel\"");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> ReadTokenizerJson(std::string_view bytes,
                                                             const std::string& path) {
  NG_ASSIGN_OR_RETURN(const Json file, ParseJson(bytes, path, kMaxDepth));
  NG_ASSIGN_OR_RETURN(ByteBpeSpec spec, Reader(file, path).Read());
  return ByteBpeTokenizer::Create(std::move(spec), path);
}

}  // namespace ng
