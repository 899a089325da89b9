#include "core/text/tokenizer.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/formats/file.h"
#include "core/formats/gguf.h"
#include "core/text/char_tokenizer.h"
#include "core/text/gguf_vocabulary.h"
#include "core/text/sentencepiece_tokenizer.h"
#include "core/text/tokenizer_json.h"

namespace ng {
namespace {

namespace fs = std::filesystem;

// Well above the largest published vocabularies (4 MB), well below what the library can count.
constexpr int64_t kMaxTokenizerBytes = int64_t{64} << 20;

// The names that a tokenizer has in a model folder, the preferred one first.
constexpr const char* kFileNames[] = {"tokenizer.model", "tokenizer.json", "meta.pkl"};

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(const std::string& path) {
  std::error_code not_found;
  std::string file = path;
  if (fs::is_directory(path, not_found)) {
    const std::optional<std::string> found = FindTokenizer(path);
    if (!found) {
      return ModelFileError(absl::StrCat(path, ": has no ", absl::StrJoin(kFileNames, ", no ")));
    }
    file = *found;
  }
  const fs::path extension = fs::path(file).extension();
  NG_ASSIGN_OR_RETURN(InputFile input, InputFile::Open(file));
  NG_ASSIGN_OR_RETURN(const bool is_gguf, IsGguf(input));
  if (is_gguf) {
    NG_ASSIGN_OR_RETURN(const GgufFile gguf, ReadGguf(std::move(input)));
    return ReadGgufTokenizer(gguf.metadata);
  }
  NG_ASSIGN_OR_RETURN(const std::string bytes, input.ReadAll(kMaxTokenizerBytes));
  if (extension == ".json") return ReadTokenizerJson(bytes, file);
  if (extension == ".pkl") return CharTokenizer::FromMetaPickle(bytes, file);
  return SentencePieceTokenizer::FromBytes(bytes, file);
}

std::optional<std::string> FindTokenizer(const std::string& folder) {
  for (const char* const name : kFileNames) {
    const std::string file = (fs::path(folder) / name).string();
    if (MayExist(file)) return file;
  }
  return std::nullopt;
}

}  // namespace ng
