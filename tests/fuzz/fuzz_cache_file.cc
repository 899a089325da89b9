// A cache snapshot: its header and its layers. Each input is read as it is, and with the checksum
// that fits its header: else nothing behind it would be reached.
#include <cstring>
#include <string>
#include <vector>

#include "core/base/hash.h"
#include "core/snapshot/cache_file.h"
#include "tests/fuzz/support.h"

namespace {

constexpr size_t kHeaderBytesAt = 16;

void Sign(std::string* bytes) {
  uint64_t header_bytes = 0;
  if (bytes->size() < kHeaderBytesAt + sizeof(header_bytes)) return;
  std::memcpy(&header_bytes, bytes->data() + kHeaderBytesAt, sizeof(header_bytes));
  if (header_bytes < sizeof(uint64_t) || header_bytes > bytes->size()) return;
  const size_t at = header_bytes - sizeof(uint64_t);
  const uint64_t checksum = ng::HashOf(std::string_view(*bytes).substr(0, at));
  std::memcpy(bytes->data() + at, &checksum, sizeof(checksum));
}

void Read(const std::string& path) {
  const absl::StatusOr<ng::CacheFile> file = ng::CacheFile::Open(path);
  ng::fuzz::CheckError(file.status(), path);
  if (!file.ok()) return;
  const ng::CacheFileHeader& header = file->header();
  std::vector<std::byte> image(static_cast<size_t>(header.layer_bytes));
  for (int64_t layer = 0; layer < header.n_layers; ++layer) {
    ng::fuzz::CheckError(file->ReadLayer(layer, image), path);
  }
  if (header.state_bytes == 0) return;
  image.resize(static_cast<size_t>(header.state_bytes));
  ng::fuzz::CheckError(file->ReadLayer(header.n_layers, image), path);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static ng::fuzz::MemoryFile file;
  std::string bytes(ng::fuzz::Bytes(data, size));
  file.Write(bytes);
  Read(file.path());
  Sign(&bytes);
  file.Write(bytes);
  Read(file.path());
  return 0;
}
