#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "core/config/config.h"
#include "core/config/text.h"

namespace ng {
namespace {

// Edit distance with adjacent transpositions (Damerau-Levenshtein, optimal string alignment).
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min(
          {d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

// What other programs call the values of our keys.
struct Synonym {
  std::string_view name;
  std::string_view ours;
};
constexpr Synonym kSynonyms[] = {{"fp32", "f32"},
                                 {"float32", "f32"},
                                 {"float", "f32"},
                                 {"fp16", "f16"},
                                 {"float16", "f16"},
                                 {"half", "f16"},
                                 {"bfloat16", "bf16"},
                                 {"bfp16", "bf16"},
                                 {"q8_0", "int8"},
                                 {"q8", "int8"},
                                 {"i8", "int8"},
                                 {"8bit", "int8"},
                                 {"q4_0", "int4"},
                                 {"q4", "int4"},
                                 {"i4", "int4"},
                                 {"4bit", "int4"},
                                 {"avx512bf16", "avx512_bf16"},
                                 {"vnni", "avx512_vnni"}};

}  // namespace

std::optional<std::string> NearestChoice(std::string_view text, std::string_view choices) {
  std::vector<std::string> names;
  for (const std::string_view name : SplitTrimmed(choices, "|")) names.emplace_back(name);
  const std::string lower = absl::AsciiStrToLower({text.data(), text.size()});
  for (const Synonym& synonym : kSynonyms) {
    if (lower == synonym.name && std::ranges::count(names, synonym.ours) != 0) {
      return std::string(synonym.ours);
    }
  }
  return NearestName(lower, names);
}

std::optional<std::string> NearestName(std::string_view name, std::span<const std::string> known) {
  constexpr size_t kLongestName = 100;  // a longer text is not a typo
  if (name.size() > kLongestName) return std::nullopt;
  std::optional<std::string> best;
  size_t best_distance = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const size_t distance = EditDistance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace ng
