#include "core/text/files/tokenizer_json_parts.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/formats/json.h"
#include "core/text/unicode.h"

namespace ng {
namespace {

using Json = nlohmann::json;

constexpr Range<int64_t> kCount = {0, 1 << 20};
constexpr size_t kMostStepsOfAPart = 64;  // published files have up to 8

bool IsAsciiPunctuation(char32_t value) {
  return (value >= '!' && value <= '/') || (value >= ':' && value <= '@') ||
         (value >= '[' && value <= '`') || (value >= '{' && value <= '~');
}
// By the tables of Unicode that the tokenizers library has for it.
bool IsAnyPunctuation(char32_t value) {
  return IsAsciiPunctuation(value) || IsPunctuationOf8(value);
}

// One step of a part, being read.
template <typename Step>
struct Member {
  const TokenizerJsonFile& file;
  const std::string& part;
  const Json& value;
  JsonFields fields;
  std::vector<Step>* steps;

  absl::Status Wrong(const char* key, const Json& found, std::string_view allowed) const {
    return file.Wrong(absl::StrCat(part, ".", key), found, allowed);
  }
};

template <typename Step>
struct Kind {
  std::string_view type;
  absl::Status (*read)(const Member<Step>& member);
};

template <typename Step>
absl::StatusOr<std::vector<Step>> ReadSteps(const TokenizerJsonFile& file,
                                            std::pair<const char*, const char*> part_and_list,
                                            std::span<const Kind<Step>> kinds,
                                            std::vector<std::string>* unread) {
  NG_ASSIGN_OR_RETURN(const auto members, file.Members(part_and_list.first, part_and_list.second));
  if (members.size() > kMostStepsOfAPart) {
    return file.Wrong(absl::StrCat(part_and_list.first, ": number of its steps"), members.size(),
                      absl::StrCat("at most ", kMostStepsOfAPart));
  }
  std::vector<Step> steps;
  for (const TokenizerJsonFile::Member& member : members) {
    const auto kind = std::ranges::find(kinds, member.type, &Kind<Step>::type);
    if (kind == kinds.end()) {
      std::string allowed = "one of";
      for (const Kind<Step>& known : kinds) {
        absl::StrAppend(&allowed, &known == kinds.data() ? " " : ", ", std::string(known.type));
      }
      return file.Wrong(member.part + ".type", member.type, allowed);
    }
    NG_ASSIGN_OR_RETURN(const JsonFields fields,
                        JsonFields::Of(*member.value, file.Where(member.part)));
    fields.Find("type");
    NG_RETURN_IF_ERROR(kind->read({file, member.part, *member.value, fields, &steps}));
    for (const std::string& key : fields.Unread()) {
      unread->push_back(absl::StrCat(member.part, ".", key));
    }
  }
  return steps;
}

// {"String": a literal} or {"Regex": a pattern}: one of the two is null.
struct PatternText {
  const std::string* literal = nullptr;
  const std::string* regex = nullptr;
};

template <typename Step>
absl::StatusOr<PatternText> ReadPatternText(const Member<Step>& member) {
  const Json* const pattern = member.fields.Find("pattern");
  if (pattern != nullptr && pattern->is_object() && pattern->size() == 1) {
    const auto* const literal =
        TokenizerJsonFile::At(*pattern, "String").template get_ptr<const std::string*>();
    if (literal != nullptr && !literal->empty()) return PatternText{literal, nullptr};
    const auto* const regex =
        TokenizerJsonFile::At(*pattern, "Regex").template get_ptr<const std::string*>();
    if (regex != nullptr) return PatternText{nullptr, regex};
  }
  return member.Wrong("pattern", pattern == nullptr ? Json() : *pattern,
                      "{\"String\": TEXT} or {\"Regex\": PATTERN}");
}

template <typename Step>
absl::StatusOr<Finder> MakeFinder(const Member<Step>& member, const PatternText& text) {
  if (text.literal != nullptr) return Finder(*text.literal);
  absl::StatusOr<Finder> finder = FinderOf(*text.regex);
  if (finder.ok()) return finder;
  return Annotate(finder.status(), member.file.Where(member.part) + ".pattern: ");
}

template <typename Step>
absl::StatusOr<Finder> ReadPattern(const Member<Step>& member) {
  NG_ASSIGN_OR_RETURN(const PatternText text, ReadPatternText(member));
  return MakeFinder(member, text);
}

// Normalizers.

using NormalizerMember = Member<NormalizerStep>;

template <NormalForm kForm>
absl::Status ReadForm(const NormalizerMember& member) {
  member.steps->emplace_back(kForm);
  return absl::OkStatus();
}

template <CharMapStep kMap>
absl::Status ReadMap(const NormalizerMember& member) {
  member.steps->emplace_back(kMap);
  return absl::OkStatus();
}

absl::Status ReadReplace(const NormalizerMember& member) {
  NG_ASSIGN_OR_RETURN(Finder from, ReadPattern(member));
  NG_ASSIGN_OR_RETURN(std::string to, member.fields.Text("content"));
  member.steps->emplace_back(ReplaceStep{std::move(from), std::move(to)});
  return absl::OkStatus();
}

absl::Status ReadPrepend(const NormalizerMember& member) {
  NG_ASSIGN_OR_RETURN(std::string text, member.fields.Text("prepend"));
  member.steps->emplace_back(PrependStep{std::move(text)});
  return absl::OkStatus();
}

absl::Status ReadStrip(const NormalizerMember& member) {
  StripStep step;
  NG_ASSIGN_OR_RETURN(step.left, member.fields.Bool("strip_left"));
  NG_ASSIGN_OR_RETURN(step.right, member.fields.Bool("strip_right"));
  member.steps->emplace_back(step);
  return absl::OkStatus();
}

absl::Status ReadPrecompiled(const NormalizerMember& member) {
  NG_ASSIGN_OR_RETURN(const auto text, member.fields.OptionalText("precompiled_charsmap"));
  std::string bytes;
  if (text && !absl::Base64Unescape(*text, &bytes)) {
    return member.Wrong("precompiled_charsmap", *text, "base64");
  }
  absl::StatusOr<CharsMap> map = CharsMap::Create(std::move(bytes));
  if (!map.ok()) return Annotate(map.status(), member.file.Where(member.part) + ": ");
  member.steps->emplace_back(std::make_shared<const CharsMap>(*std::move(map)));
  return absl::OkStatus();
}

absl::Status ReadBert(const NormalizerMember& member) {
  NG_ASSIGN_OR_RETURN(const bool clean, member.fields.Bool("clean_text"));
  NG_ASSIGN_OR_RETURN(const bool ideographs, member.fields.Bool("handle_chinese_chars"));
  NG_ASSIGN_OR_RETURN(const bool lowercase, member.fields.Bool("lowercase"));
  NG_ASSIGN_OR_RETURN(const auto strip, member.fields.OptionalBool("strip_accents"));
  if (clean) member.steps->emplace_back(CleanAsBert);
  if (ideographs) member.steps->emplace_back(SpaceAroundIdeograph);
  if (strip.value_or(lowercase)) {
    member.steps->emplace_back(NormalForm::kD);
    member.steps->emplace_back(DropSpacelessMark);
  }
  if (lowercase) member.steps->emplace_back(LowerChar);
  return absl::OkStatus();
}

constexpr Kind<NormalizerStep> kNormalizers[] = {
    {"NFC", ReadForm<NormalForm::kC>},
    {"NFD", ReadForm<NormalForm::kD>},
    {"NFKC", ReadForm<NormalForm::kKc>},
    {"NFKD", ReadForm<NormalForm::kKd>},
    {"Replace", ReadReplace},
    {"Prepend", ReadPrepend},
    {"Strip", ReadStrip},
    {"StripAccents", ReadMap<DropMark>},
    {"Lowercase", ReadMap<LowerChar>},
    {"Nmt", ReadMap<CleanAsNmt>},
    {"Precompiled", ReadPrecompiled},
    {"BertNormalizer", ReadBert},
};

// Pre-tokenizers.

using SplitMember = Member<PreTokenizerStep>;

absl::StatusOr<SplitBehavior> BehaviorOf(const SplitMember& member, const std::string& name) {
  constexpr std::pair<std::string_view, SplitBehavior> kBehaviors[] = {
      {"Isolated", SplitBehavior::kIsolated},
      {"Removed", SplitBehavior::kRemoved},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous}};
  for (const auto& [known, behavior] : kBehaviors) {
    if (known == name) return behavior;
  }
  return member.Wrong("behavior", name,
                      "Isolated, Removed, MergedWithPrevious, MergedWithNext or Contiguous");
}

absl::Status ReadByteLevel(const SplitMember& member) {
  NG_ASSIGN_OR_RETURN(const bool prefixes, member.fields.Bool("add_prefix_space"));
  NG_ASSIGN_OR_RETURN(const auto use_regex, member.fields.OptionalBool("use_regex"));
  member.fields.Find("trim_offsets");  // says where tokens are in the text, and changes no id
  for (const PreTokenizerStep& step : *member.steps) {
    if (!std::holds_alternative<ToByteAlphabet>(step)) continue;
    return member.Wrong("type", "ByteLevel", "there once");
  }
  if (prefixes) member.steps->emplace_back(PrefixSpace{});
  if (use_regex.value_or(true)) member.steps->emplace_back(SplitPattern::kGpt2);
  member.steps->emplace_back(ToByteAlphabet{});
  return absl::OkStatus();
}

absl::Status ReadSplit(const SplitMember& member) {
  NG_ASSIGN_OR_RETURN(const std::string name, member.fields.Text("behavior"));
  NG_ASSIGN_OR_RETURN(const SplitBehavior behavior, BehaviorOf(member, name));
  NG_ASSIGN_OR_RETURN(const auto inverts, member.fields.OptionalBool("invert"));
  const bool invert = inverts.value_or(false);
  NG_ASSIGN_OR_RETURN(const PatternText pattern, ReadPatternText(member));
  const auto scanner = pattern.regex == nullptr ? std::nullopt : SplitPatternOf(*pattern.regex);
  const bool isolates = behavior == SplitBehavior::kIsolated && !invert;
  // Where nothing is left between matches, removing what is not matched is isolating the matches.
  const bool removes_nothing =
      behavior == SplitBehavior::kRemoved && invert && scanner && MatchesAnyText(*scanner);
  if (scanner && (isolates || removes_nothing)) {
    member.steps->emplace_back(*scanner);
  } else {
    NG_ASSIGN_OR_RETURN(Finder finder, MakeFinder(member, pattern));
    member.steps->emplace_back(SplitAt{std::move(finder), behavior, invert});
  }
  return absl::OkStatus();
}

absl::Status ReadDigits(const SplitMember& member) {
  NG_ASSIGN_OR_RETURN(const bool each, member.fields.Bool("individual_digits"));
  member.steps->emplace_back(each ? SplitPattern::kEachNumber : SplitPattern::kNumbers);
  return absl::OkStatus();
}

absl::Status ReadPunctuation(const SplitMember& member) {
  NG_ASSIGN_OR_RETURN(const auto name, member.fields.OptionalText("behavior"));
  NG_ASSIGN_OR_RETURN(const SplitBehavior behavior, BehaviorOf(member, name.value_or("Isolated")));
  member.steps->emplace_back(SplitAt{IsAnyPunctuation, behavior});
  return absl::OkStatus();
}

// How a "Metaspace" puts a space in front. Older files have only "add_prefix_space".
template <typename Step>
absl::StatusOr<ShowSpaces::Prepend> ReadPrepending(const Member<Step>& member) {
  using Prepend = ShowSpaces::Prepend;
  NG_ASSIGN_OR_RETURN(const auto scheme, member.fields.OptionalText("prepend_scheme"));
  NG_ASSIGN_OR_RETURN(const auto prefixes, member.fields.OptionalBool("add_prefix_space"));
  if (!scheme) return prefixes.value_or(true) ? Prepend::kAlways : Prepend::kNever;
  if (*scheme == "never") return Prepend::kNever;
  if (prefixes.value_or(true)) {
    if (*scheme == "first") return Prepend::kFirst;
    if (*scheme == "always") return Prepend::kAlways;
  }
  return member.Wrong("prepend_scheme", *scheme,
                      "first, always or never; never with add_prefix_space = false");
}

template <typename Step>
absl::StatusOr<std::string> ReadSpaceMark(const Member<Step>& member) {
  NG_ASSIGN_OR_RETURN(std::string mark, member.fields.Text("replacement"));
  member.fields.Find("str_rep");  // the same, in older files
  if (mark.empty()) return member.Wrong("replacement", mark, "not empty");
  return mark;
}

absl::Status ReadMetaspace(const SplitMember& member) {
  ShowSpaces step;
  NG_ASSIGN_OR_RETURN(step.space, ReadSpaceMark(member));
  NG_ASSIGN_OR_RETURN(step.prepend, ReadPrepending(member));
  NG_ASSIGN_OR_RETURN(const auto splits, member.fields.OptionalBool("split"));
  const std::string mark = step.space;
  member.steps->emplace_back(std::move(step));
  if (splits.value_or(true)) {
    member.steps->emplace_back(SplitAt{mark, SplitBehavior::kMergedWithNext});
  }
  return absl::OkStatus();
}

absl::Status ReadWhitespace(const SplitMember& member) {
  member.steps->emplace_back(SplitAt{IsSpace, SplitBehavior::kRemoved});
  member.steps->emplace_back(SplitAt{IsWord, SplitBehavior::kContiguous});
  return absl::OkStatus();
}

absl::Status ReadWhitespaceSplit(const SplitMember& member) {
  member.steps->emplace_back(SplitAt{IsSpace, SplitBehavior::kRemoved});
  return absl::OkStatus();
}

absl::Status ReadBertPreTokenizer(const SplitMember& member) {
  member.steps->emplace_back(SplitAt{IsSpace, SplitBehavior::kRemoved});
  member.steps->emplace_back(SplitAt{IsAnyPunctuation, SplitBehavior::kIsolated});
  return absl::OkStatus();
}

absl::Status ReadDelimiter(const SplitMember& member) {
  NG_ASSIGN_OR_RETURN(std::string delimiter, member.fields.Text("delimiter"));
  if (delimiter.empty()) return member.Wrong("delimiter", delimiter, "not empty");
  member.steps->emplace_back(SplitAt{std::move(delimiter), SplitBehavior::kRemoved});
  return absl::OkStatus();
}

constexpr Kind<PreTokenizerStep> kPreTokenizers[] = {
    {"ByteLevel", ReadByteLevel},
    {"Split", ReadSplit},
    {"Digits", ReadDigits},
    {"Punctuation", ReadPunctuation},
    {"Metaspace", ReadMetaspace},
    {"Whitespace", ReadWhitespace},
    {"WhitespaceSplit", ReadWhitespaceSplit},
    {"BertPreTokenizer", ReadBertPreTokenizer},
    {"CharDelimiterSplit", ReadDelimiter},
};

// Decoders.

using DecoderMember = Member<DecoderStep>;

absl::Status ReadByteLevelDecoder(const DecoderMember& member) {
  // What these say is not done when ids become text.
  for (const char* const key : {"add_prefix_space", "trim_offsets", "use_regex"}) {
    member.fields.Find(key);
  }
  member.steps->emplace_back(BytesOfAlphabet{});
  return absl::OkStatus();
}

template <typename Step>
absl::Status ReadPlainDecoder(const DecoderMember& member) {
  member.steps->emplace_back(Step{});
  return absl::OkStatus();
}

absl::Status ReadReplaceDecoder(const DecoderMember& member) {
  NG_ASSIGN_OR_RETURN(Finder from, ReadPattern(member));
  NG_ASSIGN_OR_RETURN(std::string to, member.fields.Text("content"));
  member.steps->emplace_back(ReplaceInToken{std::move(from), std::move(to)});
  return absl::OkStatus();
}

absl::Status ReadStripDecoder(const DecoderMember& member) {
  StripToken step;
  NG_ASSIGN_OR_RETURN(step.character, member.fields.Text("content"));
  if (step.character.empty()) return member.Wrong("content", "", "a character");
  NG_ASSIGN_OR_RETURN(step.start, member.fields.Int("start", kCount));
  NG_ASSIGN_OR_RETURN(step.stop, member.fields.Int("stop", kCount));
  member.steps->emplace_back(std::move(step));
  return absl::OkStatus();
}

absl::Status ReadMetaspaceDecoder(const DecoderMember& member) {
  HideSpaces step;
  NG_ASSIGN_OR_RETURN(step.space, ReadSpaceMark(member));
  NG_ASSIGN_OR_RETURN(const ShowSpaces::Prepend prepend, ReadPrepending(member));
  member.fields.Find("split");
  step.drops_first = prepend != ShowSpaces::Prepend::kNever;
  member.steps->emplace_back(std::move(step));
  return absl::OkStatus();
}

absl::Status ReadWordEndDecoder(const DecoderMember& member) {
  NG_ASSIGN_OR_RETURN(std::string mark, member.fields.Text("suffix"));
  if (mark.empty()) return member.Wrong("suffix", mark, "not empty");
  member.steps->emplace_back(HideWordEnds{std::move(mark)});
  return absl::OkStatus();
}

constexpr Kind<DecoderStep> kDecoders[] = {
    {"ByteLevel", ReadByteLevelDecoder}, {"ByteFallback", ReadPlainDecoder<BytesOfNames>},
    {"Fuse", ReadPlainDecoder<Fuse>},    {"Replace", ReadReplaceDecoder},
    {"Strip", ReadStripDecoder},         {"Metaspace", ReadMetaspaceDecoder},
    {"BPEDecoder", ReadWordEndDecoder},
};

}  // namespace

absl::StatusOr<std::vector<NormalizerStep>> ReadNormalizer(const TokenizerJsonFile& file,
                                                           std::vector<std::string>* unread) {
  return ReadSteps<NormalizerStep>(file, {"normalizer", "normalizers"}, kNormalizers, unread);
}

absl::StatusOr<std::vector<PreTokenizerStep>> ReadPreTokenizer(const TokenizerJsonFile& file,
                                                               std::vector<std::string>* unread) {
  return ReadSteps<PreTokenizerStep>(file, {"pre_tokenizer", "pretokenizers"}, kPreTokenizers,
                                     unread);
}

absl::StatusOr<std::vector<DecoderStep>> ReadDecoder(const TokenizerJsonFile& file,
                                                     std::vector<std::string>* unread) {
  NG_ASSIGN_OR_RETURN(auto steps,
                      ReadSteps<DecoderStep>(file, {"decoder", "decoders"}, kDecoders, unread));
  if (file.At("decoder").is_null()) steps.emplace_back(SpacesBetween{});
  if (steps.empty()) return file.Wrong("decoder", file.At("decoder"), "of a type that ng knows");
  return steps;
}

}  // namespace ng
