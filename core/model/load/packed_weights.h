// A model's weights in a file as the kernels read them (".ngw"). A start that has one maps it: it
// reads no tensor and packs nothing, and processes that map the same file share its memory.
//
// `ng-pack` writes it; the config key model.packed names it. It stands beside the model, whose own
// files say all but the weights. It knows them by their names, sizes, times and the hash of the
// first MiB of each, and is refused when one has changed. Matrices are packed alike on every
// instruction set level, so one file is for all of them.
//
//   "NGPACKED"                            8 bytes
//   version, layout of packed matrices    u32 each
//   bytes of the text                     u64
//   text: a JSON object                   PackedText in packed_weights.cc
//   XXH3 of all before                    u64
//   zeros up to a whole page
//   the matrices, as MakeWeights has them one behind the other
//   the vectors, as ForEachVector has them: f32
//
// All numbers are little endian. The vectors are checked by a hash at every start. The matrices are
// not read then, so their hash is for Verify.
#ifndef NG_CORE_MODEL_LOAD_PACKED_WEIGHTS_H_
#define NG_CORE_MODEL_LOAD_PACKED_WEIGHTS_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/model/files/model_file.h"
#include "core/model/weights/weight_types.h"
#include "core/model/weights/weights.h"
#include "ng/status.h"

namespace ng {

// A file of the model that a packed file was made of.
struct SourceFile {
  std::string name;  // without its folder
  int64_t size = 0;
  int64_t modified_ns = 0;
  uint64_t head_hash = 0;  // of its first MiB
};

// What a packed file says of itself.
struct PackedText {
  std::vector<SourceFile> sources;  // by their names
  std::string weights;              // model.weights
  uint64_t types_hash = 0;          // of what each matrix is held as
  int64_t matrix_bytes = 0;
  int64_t n_values = 0;  // of all vectors
  uint64_t tensors_hash = 0;
  uint64_t matrices_hash = 0;
  uint64_t vectors_hash = 0;
};

// The same of all its files as a text of names, sizes and hashes: another model's, or another
// version's, is another text. Errors: ModelFileError.
absl::StatusOr<std::string> HashOfModelFiles(const std::string& model_path);

class PackedWeights {
 public:
  // Opens a packed file of the model at `model_path`. Errors: ModelFileError naming the file: it is
  // no packed file, is damaged or cut, or was made by an ng with another layout; a file of the
  // model that has changed since.
  static absl::StatusOr<PackedWeights> Open(const std::string& path, const std::string& model_path);

  const std::string& path() const { return file_.path(); }
  // model.weights that it was made with.
  const std::string& weights() const { return text_.weights; }
  // Errors: UsageError where the matrices are held as other types than these.
  absl::Status CheckTypes(const WeightTypes& types) const;

  // The weights, with their matrices in the file. The file may be closed then. Errors:
  // ModelFileError. REQUIRES: CheckTypes(types).
  absl::StatusOr<ModelWeights> Map(const ModelFile& model, const WeightTypes& types) const;

  // Whether the file holds these weights, and nothing else: reads all of it. Errors:
  // ModelFileError, InterruptedError.
  absl::Status Verify(const ModelFile& model, ModelWeights& weights,
                      const std::atomic<bool>* stop) const;

 private:
  PackedWeights(InputFile file, PackedText text, int64_t begin)
      : file_(std::move(file)), text_(std::move(text)), begin_(begin) {}

  InputFile file_;
  PackedText text_;
  int64_t begin_ = 0;  // of the matrices
};

// Of weights that LoadWeights has read, with their hash. They are not changed.
struct PackedSource {
  std::string model_path;
  std::string weights;  // model.weights
  const ModelFile& model;
  ModelWeights& loaded;
};
// Writes the file whole or not at all. Errors: OutputError, InterruptedError, ModelFileError for
// files of the model.
absl::Status WritePackedWeights(const std::string& path, const PackedSource& source,
                                const std::atomic<bool>* stop);

}  // namespace ng

#endif  // NG_CORE_MODEL_LOAD_PACKED_WEIGHTS_H_
