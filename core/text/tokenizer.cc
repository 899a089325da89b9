#include "core/text/tokenizer.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/formats/file.h"
#include "core/text/sentencepiece_tokenizer.h"

namespace ng {
namespace {

namespace fs = std::filesystem;

// Well above the largest published vocabularies (4 MB), well below what the library can count.
constexpr int64_t kMaxTokenizerBytes = int64_t{64} << 20;

constexpr char kModelFile[] = "tokenizer.model";
constexpr char kSupported[] = "a SentencePiece .model file or a folder with tokenizer.model";

// A file that cannot be looked at counts as there, so that opening it gives the reason.
bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error) || error;
}

absl::Status Unsupported(const std::string& path, const char* format) {
  return ModelFileError(absl::StrCat(path, ": is a ", format, " tokenizer, must be ", kSupported));
}

absl::StatusOr<std::string> ModelFileIn(const std::string& folder) {
  if (std::optional<std::string> found = FindTokenizer(folder)) return *std::move(found);
  const fs::path json = fs::path(folder) / "tokenizer.json";
  if (Exists(json)) return Unsupported(json.string(), "tokenizer.json");
  return ModelFileError(absl::StrCat(folder, ": has no ", kModelFile));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(const std::string& path) {
  std::error_code not_found;
  std::string file = path;
  if (fs::is_directory(path, not_found)) {
    NG_ASSIGN_OR_RETURN(file, ModelFileIn(path));
  }
  NG_ASSIGN_OR_RETURN(const InputFile opened, InputFile::Open(file));
  const fs::path extension = fs::path(file).extension();
  if (extension == ".json") return Unsupported(file, "tokenizer.json");
  if (extension == ".gguf") return Unsupported(file, "GGUF");
  NG_ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(file, kMaxTokenizerBytes));
  return SentencePieceTokenizer::FromBytes(bytes, file);
}

std::optional<std::string> FindTokenizer(const std::string& model_dir) {
  const fs::path file = fs::path(model_dir) / kModelFile;
  return Exists(file) ? std::optional(file.string()) : std::nullopt;
}

}  // namespace ng
