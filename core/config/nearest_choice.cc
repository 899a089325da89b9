#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "core/config/config.h"
#include "core/config/text.h"
#include "ng/names.h"

namespace ng {
namespace {

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
                                 {"avxvnni", "avx_vnni"},
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

}  // namespace ng
