// A tokenizer.json, and a text through the tokenizer that it describes.
#include "core/text/files/tokenizer_json.h"
#include "tests/fuzz/support.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr char kName[] = "tokenizer.json";
  const auto tokenizer = ng::ReadTokenizerJson(ng::fuzz::Bytes(data, size), kName);
  ng::fuzz::CheckError(tokenizer.status(), kName);
  if (tokenizer.ok()) ng::fuzz::CheckTokenizer(**tokenizer);
  return 0;
}
