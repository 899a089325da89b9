// A tokenizer.json and, behind a byte 0, a text through the tokenizer that it describes.
#include <algorithm>
#include <string>
#include <vector>

#include "core/text/files/tokenizer_json.h"
#include "tests/fuzz/support.h"

namespace {

// As a part of what someone says in a chat, whose marks are all that is found whole.
void CheckSaid(const ng::Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> marks;
  for (const ng::WholeToken& token : tokenizer.WholeTokens()) marks.push_back(token.id);
  std::ranges::sort(marks);
  std::string special_at(text.size(), '\0');
  const auto said =
      tokenizer.Encode(text, {.parse_special = true, .special_at = special_at, .marks = marks});
  if (!said.ok()) return;
  for (const ng::WholeToken& token : tokenizer.WholeTokens()) {
    const bool forged = token.text.starts_with("<|") && token.text.size() > 4 &&
                        std::ranges::count(*said, token.id) != 0;
    ng::fuzz::Check(!forged, "a mark that somebody says: " + token.text);
  }
  for (size_t i = 0; i < special_at.size(); i += 3) special_at[i] = '\1';
  static_cast<void>(tokenizer.Encode(
      text, {.parse_special = true, .most = 5, .special_at = special_at, .marks = marks}));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr char kName[] = "tokenizer.json";
  const std::string_view bytes = ng::fuzz::Bytes(data, size);
  const size_t end = std::min(bytes.find('\0'), bytes.size());
  const auto tokenizer = ng::ReadTokenizerJson(bytes.substr(0, end), kName);
  ng::fuzz::CheckError(tokenizer.status(), kName);
  if (!tokenizer.ok()) return 0;
  ng::fuzz::CheckTokenizer(**tokenizer);
  const std::string_view text = bytes.substr(std::min(end + 1, bytes.size()));
  ng::fuzz::CheckText(**tokenizer, text);
  CheckSaid(**tokenizer, text);
  return 0;
}
