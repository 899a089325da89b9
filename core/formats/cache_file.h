// A cache snapshot as a file: keys and values of the first tokens of a text, the ids of these
// tokens, and what else they depend on.
//
// Little-endian, without gaps:
//
//   magic         8 bytes  "NGCACHE\n"
//   version       u32      1
//   n_fields      u32
//   header_bytes  u64      from the file's start up to the first layer
//   n_layers      u64
//   layer_bytes   u64      of one layer's image
//   n_tokens      u64      at least 1
//   fields                 n_fields times a name and a value, each a u64 length and so many bytes
//   ids                    n_tokens times an i32
//   checksum      u64      of everything before it
//   layers                 n_layers times: the image, as CacheStore::ExportLayer writes it
//                          (ng/cache_store.h), and a u64 checksum of it
//
// Checksums are HashOf (hash.h): the header's with seed 0, that of layer i with the header's plus i
// as its seed. So layers that change places, or come from another file, do not pass either. The
// file ends with the last layer. Equal contents make equal files.
//
// What the fields must be is for who reads them to say (runtime/cache_identity.h).
#ifndef NG_CORE_FORMATS_CACHE_FILE_H_
#define NG_CORE_FORMATS_CACHE_FILE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/formats/file.h"
#include "core/formats/output_file.h"
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
};

// A file opened for reading. The const methods may be called from any thread.
class CacheFile {
 public:
  // Reads and checks the header, and that the file has the bytes that it tells of. Memory: the
  // header, of at most 64 MiB. Errors: ModelFileError naming the file, what is
  // wrong with it, the value found and the value allowed.
  static absl::StatusOr<CacheFile> Open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const CacheFileHeader& header() const { return header_; }

  // Reads one layer's image and holds it against its checksum. Errors: ModelFileError.
  // REQUIRES: 0 <= layer < n_layers; image has layer_bytes.
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

// Writes one beside its target; it is there after Commit, or not at all. Errors: OutputError;
// InterruptedError as AtomicFileWriter.
class CacheFileWriter {
 public:
  static absl::StatusOr<CacheFileWriter> Create(const std::string& path,
                                                const CacheFileHeader& header,
                                                const std::atomic<bool>* stop = nullptr);
  // The layers in their order. REQUIRES: n_layers of them, each of layer_bytes.
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

#endif  // NG_CORE_FORMATS_CACHE_FILE_H_
