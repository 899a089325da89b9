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
constexpr std::string_view kJais2 = RegexOf(SplitPattern::kJais2);
constexpr std::string_view kMiniCpm5 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kUfakzeka =
    R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kThreeNumbers = R"(\p{N}{1,3})";
constexpr std::string_view kHanAndKana = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+";
constexpr std::string_view kBloom = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+";

// DeepSeek LLM: the letters with a case of an older Unicode, with some left out.
constexpr std::string_view kDeepseekWords =
    R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})"
    R"(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}-\x{377}\x{37B}-\x{37D}\x{37F}\x{386})"
    R"(\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F})"
    R"(\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA})"
    R"(\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15})"
    R"(\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B})"
    R"(\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4})"
    R"(\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4})"
    R"(\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124})"
    R"(\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F})"
    R"(\x{2145}-\x{2149}\x{214E}\x{2183}-\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})"
    R"(\x{2CEB}-\x{2CEE}\x{2CF2}-\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F})"
    R"(\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17})"
    R"(\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3})"
    R"(\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF})"
    R"(\x{1E900}-\x{1E943}]+)";
constexpr std::string_view kDeepseekMarks =
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)";
constexpr std::string_view kDeepseekHanAndHangul = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+";
// The letters and marks of Kimi K2's words are those that are not Han: a class of all that they are
// not.
constexpr std::string_view kKimiK2 =
    R"(\p{Han}+|[^\r\n\p{L}\p{N}]?[^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{Han}]*)"
    R"([^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{Han}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{Han}]+)"
    R"([^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{Han}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kThreesFromRight = R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))";
constexpr std::string_view kAfmoeScripts =
    "[\u4e00-\u9fff\u3400-\u4dbf\u8c48-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf"
    "\u0e40-\u0e7f\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af"
    "\u1100-\u11ff]+";

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
    {{"dbrx", "smaug-bpe", "chatglm-bpe"}, {kLlama3}},
    {{"glm4", "glm5"}, {kLlama3}, true},
    {{"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"}, {kO200k}},
    {{"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"},
     {kEachNumber, kGpt2}},
    {{"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"},
     {kThreeNumbers, kHanAndKana, kDeepseekV3}},
    {{"deepseek-coder"},
     {"[\r\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepseekHanAndHangul, kEachNumber}},
    {{"deepseek-llm"},
     {"[\r\n]", kDeepseekWords, kDeepseekMarks, R"(\s+$)", kDeepseekHanAndHangul, kNumbers}},
    {{"kimi-k2"}, {kKimiK2}},
    {{"afmoe"}, {kThreesFromRight, kAfmoeScripts, kDeepseekV3}},
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
  absl::StatusOr<Finder> finder = FinderOf(pattern);
  assert(finder.ok());  // the table is tested
  return SplitAt{*std::move(finder), SplitBehavior::kIsolated};
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
