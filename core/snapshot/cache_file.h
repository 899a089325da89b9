// A cache snapshot as a file: keys and values of the first tokens of a text, the ids of these
// tokens, and what else they depend on.
//
// Little-endian, without gaps:
//
//   magic         8 bytes  "NGCACHE\n"
//   version       u32      2
//   n_fields      u32
//   header_bytes  u64      bytes before the first layer
//   n_layers      u64
//   layer_bytes   u64      bytes of one layer's image
//   state_bytes   u64      bytes of the model's state; 0: it keeps none
//   n_tokens      u64      at least 1
//   fields                 n_fields times a name and a value, each a u64 length and its bytes
//   ids                    n_tokens times an i32
//   checksum      u64      of everything before it
//   layers                 n_layers times: the image, as Snapshots::ExportLayer writes it
//                          (ng/cache_capabilities.h), with zeros behind it where another layer's is
//                          larger, and a u64 checksum of all that; of a cache whose tokens leave,
//                          once, what SequenceImages::ExportImage writes, of all layers together
//   state                  where state_bytes > 0: f32 values, layer by layer as StateStore has them
//                          (model/ops/state_store.h), and a u64 checksum of them
//
// Checksums are HashOf (hash.h). The seed of the header's checksum is 0; the seed of layer i is the
// header's checksum plus i, and the state's is that of one layer more. So a layer at another place,
// or from another file, is found too. The file ends with the last of them. Equal contents make
// equal files.
//
// The reader of the file decides what the fields must be (runtime/plan/cache_identity.h).
#ifndef NG_CORE_SNAPSHOT_CACHE_FILE_H_
#define NG_CORE_SNAPSHOT_CACHE_FILE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/file.h"
#include "core/base/output_file.h"
#include "ng/status.h"

namespace ng {

// Something that keys and values depend on.
struct CacheField {
  std::string name;
  std::string value;
};

struct CacheFileHeader {
  std::vector<CacheField> fields;
  std::vector<int32_t> ids;
  int64_t n_layers = 0;
  int64_t layer_bytes = 0;
  int64_t state_bytes = 0;
};

// A file opened for reading. The const methods may be called from any thread.
class CacheFile {
 public:
  // Reads and checks the header, and checks that the file has as many bytes as the header says.
  // Memory: the header, which has at most 64 MiB. Errors: ModelFileError naming the file, what is
  // wrong with it, the value found and the value allowed.
  static absl::StatusOr<CacheFile> Open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const CacheFileHeader& header() const { return header_; }

  // Reads one layer's image and compares it with its checksum. Errors: ModelFileError.
  // REQUIRES: 0 <= layer < n_layers and image has layer_bytes; or, for the state, layer is n_layers
  // and image has state_bytes.
  absl::Status ReadLayer(int64_t layer, std::span<std::byte> image) const;

 private:
  CacheFile(InputFile file, CacheFileHeader header, int64_t header_bytes, uint64_t checksum)
      : file_(std::move(file)),
        header_(std::move(header)),
        header_bytes_(header_bytes),
        checksum_(checksum) {}

  InputFile file_;
  CacheFileHeader header_;
  int64_t header_bytes_;
  uint64_t checksum_;  // the header's
};

// Writes a snapshot beside its target. After Commit the file exists; without it, it does not.
// Errors: OutputError; InterruptedError, as for AtomicFileWriter.
class CacheFileWriter {
 public:
  static absl::StatusOr<CacheFileWriter> Create(const std::string& path,
                                                const CacheFileHeader& header,
                                                const std::atomic<bool>* stop = nullptr);
  // Writes the next layer. REQUIRES: called n_layers times, each time with layer_bytes bytes; then
  // once with state_bytes where the header has any.
  absl::Status WriteLayer(std::span<const std::byte> image);
  absl::Status Commit() { return file_.Commit(); }

 private:
  CacheFileWriter(AtomicFileWriter file, uint64_t checksum)
      : file_(std::move(file)), checksum_(checksum) {}

  AtomicFileWriter file_;
  uint64_t checksum_;  // the header's
  uint64_t n_written_ = 0;
};

}  // namespace ng

#endif  // NG_CORE_SNAPSHOT_CACHE_FILE_H_
