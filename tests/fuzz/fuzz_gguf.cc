// A GGUF file: its header, the model that its key-values describe and its vocabulary.
#include "core/formats/gguf.h"
#include "core/model/model_file.h"
#include "core/text/chat/template_metadata.h"
#include "core/text/files/gguf_vocabulary.h"
#include "tests/fuzz/support.h"

namespace {

void CheckVocabulary(const ng::GgufMetadata& metadata, const std::string& path) {
  if (!ng::HasVocabulary(metadata)) return;
  const auto tokenizer = ng::ReadGgufTokenizer(metadata);
  ng::fuzz::CheckError(tokenizer.status(), path);
  if (tokenizer.ok()) ng::fuzz::CheckTokenizer(**tokenizer);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static ng::fuzz::MemoryFile file;
  file.Write(ng::fuzz::Bytes(data, size));
  const absl::StatusOr<ng::GgufFile> gguf = ng::OpenGguf(file.path());
  ng::fuzz::CheckError(gguf.status(), file.path());
  if (!gguf.ok()) return 0;
  CheckVocabulary(gguf->metadata, file.path());
  ng::fuzz::CheckError(ng::FindTemplateMetadata(gguf->metadata).status(), file.path());
  ng::fuzz::CheckError(ng::OpenModel(file.path()).status(), file.path());
  return 0;
}
