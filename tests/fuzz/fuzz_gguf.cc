// A GGUF file: its header, the model that its key-values describe, its weights and its vocabulary.
#include <memory>

#include "core/formats/gguf.h"
#include "core/machine/executor.h"
#include "core/model/files/model_file.h"
#include "core/model/load/file_types.h"
#include "core/model/load/load_weights.h"
#include "core/model/load/read_sizes.h"
#include "core/model/weights/weight_sizes.h"
#include "core/model/weights/weight_types.h"
#include "core/model/weights/weights.h"
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

// The weights of a model that is not much larger than the file can be.
void CheckWeights(const ng::ModelFile& model, const std::string& path) {
  constexpr int64_t kMostBytes = int64_t{1} << 22;
  static const std::unique_ptr<ng::Executor> executor = ng::MakeExecutor(1);
  const auto types = ng::WeightTypesFor(model, "auto");
  ng::fuzz::CheckError(types.status(), path);
  if (!types.ok() || ng::SizesOf(model.spec, *types).bytes() > kMostBytes) return;
  if (ng::LoadScratchBytes(model, 1) > kMostBytes) return;
  ng::fuzz::CheckError(
      ng::LoadWeights(model, {.types = *types, .executor = executor.get()}).status(), path);
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
  const absl::StatusOr<ng::ModelFile> model = ng::OpenModel(file.path());
  ng::fuzz::CheckError(model.status(), file.path());
  if (model.ok()) CheckWeights(*model, file.path());
  return 0;
}
