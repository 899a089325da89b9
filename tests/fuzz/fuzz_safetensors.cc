// The header of a safetensors file; and the index of several, whose files lie beside it.
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "core/formats/safetensors.h"
#include "core/formats/safetensors_index.h"
#include "tests/fuzz/support.h"

namespace {

namespace fs = std::filesystem;
using ng::fuzz::Check;
using ng::fuzz::CheckError;

// Two files that an index can name, beside an index that is `index` under another name.
class Folder {
 public:
  explicit Folder(const std::string& index)
      : path_(fs::temp_directory_path() / ("ng-fuzz-" + std::to_string(getpid()))) {
    fs::create_directories(path_);
    for (const std::string name : {"a", "b"}) {
      const std::string file = path_ / (name + ".safetensors");
      Check(ng::WriteSafetensors(file, {{name, {2}, {1, 2}}}).ok(), "cannot write " + file);
    }
    fs::create_symlink(index, Index());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code error;
    fs::remove_all(path_, error);
  }

  const std::string& path() const { return path_.native(); }
  std::string Index() const { return path_ / "model.safetensors.index.json"; }

 private:
  fs::path path_;
};

// What a source lists can be read.
void CheckSource(const absl::StatusOr<std::unique_ptr<ng::TensorSource>>& source,
                 std::string_view path) {
  CheckError(source.status(), path);
  if (!source.ok()) return;
  for (const ng::TensorInfo& tensor : (*source)->tensors()) {
    std::vector<std::byte> bytes(static_cast<size_t>(tensor.n_bytes));
    Check((*source)->Read(tensor, bytes).ok(), "a tensor that cannot be read");
    Check((*source)->Find(tensor.name) != nullptr, "a tensor that is not found");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static ng::fuzz::MemoryFile file;
  static const Folder folder(file.path());
  const std::string_view bytes = ng::fuzz::Bytes(data, size);
  file.Write(bytes);
  if (bytes.starts_with('{')) {
    auto index = ng::OpenSafetensorsIndex(folder.Index());
    if (index.ok()) {
      CheckSource(std::move(index->source), folder.path());
    } else {
      CheckError(index.status(), folder.path());
    }
  } else {
    CheckSource(ng::OpenSafetensors(file.path()), file.path());
  }
  return 0;
}
