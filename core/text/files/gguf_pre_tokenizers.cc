#include "core/text/files/gguf_pre_tokenizers.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

namespace ng {
namespace {

// Published patterns.
constexpr std::string_view kGpt2 = RegexOf(SplitPattern::kGpt2);
constexpr std::string_view kLlama3 = RegexOf(SplitPattern::kLlama3);
constexpr std::string_view kQwen2 = RegexOf(SplitPattern::kQwen2);
constexpr std::string_view kEachNumber = RegexOf(SplitPattern::kEachNumber);
constexpr std::string_view kNumbers = RegexOf(SplitPattern::kNumbers);
constexpr std::string_view kThreeDigits = RegexOf(SplitPattern::kThreeDigits);
constexpr std::string_view kPunctuation = RegexOf(SplitPattern::kPunctuation);
constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?)"
    R"([^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?)"
    R"([^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|)"
    R"('re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+)"
    R"([\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kYoutu =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|)"
    R"('re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+)"
    R"([\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepseekV3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kSpark =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view kBailing =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*)"
    R"([\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view kSeedCoder =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kExaoneMoe =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view kJais2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+)"
    R"([\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?)"
    R"(!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})";
constexpr std::string_view kMiniCpm5 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kUfakzeka =
    R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kThreeNumbers = R"(\p{N}{1,3})";
constexpr std::string_view kHanAndKana = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+";
constexpr std::string_view kBloom = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+";

constexpr size_t kMostNames = 9;
constexpr size_t kMostSteps = 6;

struct Row {
  std::array<std::string_view, kMostNames> names;
  std::array<std::string_view, kMostSteps> patterns;  // each splits the pieces of the one before
  bool ignore_merges = false;
  bool add_bos = false;
};

constexpr Row kRows[] = {
    {{"default"}, {kPunctuation, kGpt2, kNumbers, kThreeDigits}},
    {{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"},
     {kLlama3},
     true,
     true},
    {{"tekken"}, {kTekken}, true, true},
    {{"gpt-2", "phi-2", "gigachat", "a.x-4.0", "mellum", "exaone4", "mpt", "olmo", "jais"},
     {kGpt2}},
    {{"trillion", "granite-docling"}, {kGpt2}},
    {{"qwen2", "deepseek-r1-qwen", "kormo", "megrez", "stablelm2", "hunyuan", "solar-open",
      "grok-2"},
     {kQwen2}},
    {{"qwen35"}, {kQwen35}},
    {{"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"}, {kLlama3}},
    {{"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"}, {kO200k}},
    {{"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"},
     {kEachNumber, kGpt2}},
    {{"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"},
     {kThreeNumbers, kHanAndKana, kDeepseekV3}},
    {{"deepseek-coder"},
     {"[\r\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+",
      kEachNumber}},
    {{"falcon"}, {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2, kThreeDigits}},
    {{"spark2_5"}, {kThreeNumbers, kHanAndKana, kSpark, kEachNumber}},
    {{"youtu"},
     {"[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c"
      "\u3001-\u303f\ufe30-\ufe4f]+|[\u3105-\u312f]+|[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
      kYoutu},
     true},
    {{"bailingmoe", "bailingmoe2", "llada-moe"}, {kBailing}},
    {{"seed-coder"}, {kSeedCoder}},
    {{"exaone-moe"}, {kExaoneMoe}},
    {{"jais-2"}, {kJais2}},
    {{"minicpm5"}, {kThreeNumbers, kMiniCpm5}, true},
    {{"ufakzeka"}, {kUfakzeka}},
    {{"laguna"}, {R"([^\n]+|[\n]+)", kQwen2}},
    {{"bloom", "poro-chat", "gpt3-finnish"}, {kBloom}},
    {{"viking"}, {kBloom, kEachNumber}},
    {{"superbpe"}, {kNumbers, R"((?=(\d{3})+(?!\d)))"}},
    {{"tiny_aya", "cohere2moe"}, {R"(\d{1,3}(?=(?:\d{3})*\b))", kO200k}},
    {{"chameleon"},
     {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", R"(([\t\n]|    |  ))",
      kEachNumber, R"([\p{P}!-/:-@\[-`{-~])", kGpt2},
     false,
     true},
};

PreTokenizerStep StepOf(std::string_view pattern) {
  if (const auto scanner = SplitPatternOf(pattern)) return *scanner;
  absl::StatusOr<Regex> regex = Regex::Compile(pattern);
  assert(regex.ok());  // the table is tested
  return SplitAt{*std::move(regex), SplitBehavior::kIsolated};
}

}  // namespace

std::optional<GgufPreTokenizer> GgufPreTokenizerOf(std::string_view name) {
  for (const Row& row : kRows) {
    if (name.empty() || std::ranges::count(row.names, name) == 0) continue;
    GgufPreTokenizer found = {{}, row.ignore_merges, row.add_bos};
    for (const std::string_view pattern : row.patterns) {
      if (!pattern.empty()) found.split.push_back(StepOf(pattern));
    }
    return found;
  }
  return std::nullopt;
}

std::string GgufPreTokenizerNames() {
  std::string names;
  for (const Row& row : kRows) {
    for (const std::string_view name : row.names) {
      if (!name.empty()) names.append(names.empty() ? "" : ", ").append(name);
    }
  }
  return names;
}

}  // namespace ng
