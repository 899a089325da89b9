#include "core/snapshot/cache_file.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "core/base/checked.h"
#include "core/base/cursor.h"
#include "core/base/hash.h"
#include "core/formats/json.h"

namespace ng {
namespace {

static_assert(std::endian::native == std::endian::little, "ids are stored as they lie");

constexpr std::string_view kMagic = "NGCACHE\n";
constexpr uint32_t kVersion = 2;
constexpr int64_t kFixedBytes = 56;  // up to the fields
constexpr int64_t kChecksumBytes = 8;
constexpr int64_t kLeastBytes = kFixedBytes + kChecksumBytes;
constexpr int64_t kMostHeaderBytes = int64_t{1} << 26;  // sixteen million ids
constexpr size_t kMostFieldBytes = 4096;                // in a name or a value

template <typename T>
void AppendNumber(std::string* out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) *out += static_cast<char>(value >> (8 * i));
}

void AppendText(std::string* out, const std::string& text) {
  AppendNumber(out, uint64_t{text.size()});
  *out += text;
}

// The header without its checksum.
std::string HeaderBytes(const CacheFileHeader& header) {
  std::string tail;
  for (const CacheField& field : header.fields) {
    AppendText(&tail, field.name);
    AppendText(&tail, field.value);
  }
  tail.append(reinterpret_cast<const char*>(header.ids.data()),
              header.ids.size() * sizeof(int32_t));
  std::string bytes(kMagic);
  AppendNumber(&bytes, kVersion);
  AppendNumber(&bytes, static_cast<uint32_t>(header.fields.size()));
  AppendNumber(&bytes, uint64_t{tail.size()} + kLeastBytes);
  AppendNumber(&bytes, static_cast<uint64_t>(header.n_layers));
  AppendNumber(&bytes, static_cast<uint64_t>(header.layer_bytes));
  AppendNumber(&bytes, static_cast<uint64_t>(header.state_bytes));
  AppendNumber(&bytes, uint64_t{header.ids.size()});
  return bytes + tail;
}

// Reads the header of one file.
class HeaderReader {
 public:
  explicit HeaderReader(const InputFile& file) : file_(file) {}

  absl::Status Read() {
    NG_RETURN_IF_ERROR(ReadStart());
    std::string bytes(static_cast<size_t>(header_bytes), '\0');
    NG_RETURN_IF_ERROR(file_.ReadAt(0, std::as_writable_bytes(std::span(bytes))));
    const size_t n_summed = bytes.size() - kChecksumBytes;
    checksum = HashOf(std::string_view(bytes).substr(0, n_summed));
    const uint64_t stored = *Cursor(std::string_view(bytes).substr(n_summed)).U64();
    if (stored != checksum) return BadChecksum(file_, "the header's", stored, checksum);
    return Parse(std::string_view(bytes).substr(0, n_summed));
  }

  static absl::Status BadChecksum(const InputFile& file, std::string_view whose, uint64_t stored,
                                  uint64_t computed) {
    return ModelFileError(absl::StrCat(
        file.path(), ": ", absl::string_view(whose.data(), whose.size()), " checksum is ",
        HexOf(stored), ", must be ", HexOf(computed), ": the snapshot is damaged"));
  }

  CacheFileHeader header;
  int64_t header_bytes = 0;
  uint64_t checksum = 0;

 private:
  template <typename... Parts>
  absl::Status Wrong(const Parts&... parts) const {
    return ModelFileError(absl::StrCat(file_.path(), ": ", parts...));
  }

  // The fields that say how much to read.
  absl::Status ReadStart() {
    if (file_.size() < kLeastBytes) {
      return Wrong("has ", file_.size(), " bytes, a cache snapshot has at least ", kLeastBytes);
    }
    std::string bytes(static_cast<size_t>(kFixedBytes), '\0');
    NG_RETURN_IF_ERROR(file_.ReadAt(0, std::as_writable_bytes(std::span(bytes))));
    Cursor cursor(bytes);
    const std::string_view magic = *cursor.Bytes(kMagic.size());
    if (magic != kMagic) {
      return Wrong("is no cache snapshot: begins with ", JsonExcerpt(std::string(magic)),
                   ", must begin with ", JsonExcerpt(std::string(kMagic)));
    }
    const uint32_t version = *cursor.U32();
    if (version != kVersion) {
      return Wrong("is a cache snapshot of version ", version, ", must be ", kVersion);
    }
    cursor.U32();  // n_fields
    const uint64_t n = *cursor.U64();
    const int64_t most = std::min(file_.size(), kMostHeaderBytes);
    if (n < uint64_t{kLeastBytes} || n > static_cast<uint64_t>(most)) {
      return Wrong("header_bytes is ", n, ", must be in [", kLeastBytes, ", ", most, "]");
    }
    header_bytes = static_cast<int64_t>(n);
    const uint64_t n_layers = *cursor.U64();
    const uint64_t layer_bytes = *cursor.U64();
    return CheckSize(n_layers, layer_bytes, *cursor.U64());
  }

  // The whole header without its checksum.
  absl::Status Parse(std::string_view bytes) {
    Cursor cursor(bytes);
    cursor.Bytes(kMagic.size() + sizeof(kVersion));
    const uint32_t n_fields = *cursor.U32();
    cursor.U64();  // header_bytes
    cursor.U64();  // n_layers
    cursor.U64();  // layer_bytes
    cursor.U64();  // state_bytes
    const uint64_t n_tokens = *cursor.U64();
    for (uint32_t i = 0; i < n_fields; ++i) {
      const std::optional<std::string_view> name = cursor.LengthPrefixedString();
      const std::optional<std::string_view> value =
          name ? cursor.LengthPrefixedString() : std::nullopt;
      if (!value) {
        return Wrong("field ", i, " of ", n_fields, " at offset ", cursor.position(),
                     " is longer than the ", cursor.remaining(), " bytes of the header behind it");
      }
      if (std::max(name->size(), value->size()) > kMostFieldBytes) {
        return Wrong("field ", i, " has a name of ", name->size(), " bytes and a value of ",
                     value->size(), ", may have ", kMostFieldBytes, " each");
      }
      header.fields.push_back({std::string(*name), std::string(*value)});
    }
    return ParseIds(n_tokens, cursor);
  }

  absl::Status ParseIds(uint64_t n_tokens, Cursor& cursor) {
    const uint64_t n_there = cursor.remaining() / sizeof(int32_t);
    if (n_tokens == 0 || n_tokens != n_there || cursor.remaining() % sizeof(int32_t) != 0) {
      return Wrong("n_tokens is ", n_tokens, ", the header has ", cursor.remaining(),
                   " bytes of ids; must be at least 1, of 4 bytes each");
    }
    header.ids.reserve(n_there);
    while (!cursor.at_end()) header.ids.push_back(static_cast<int32_t>(*cursor.U32()));
    for (const int32_t id : header.ids) {
      if (id < 0) return Wrong("holds the token id ", id, ", must be 0 or more");
    }
    return absl::OkStatus();
  }

  // The file must end with the last layer, or with the state behind it.
  absl::Status CheckSize(uint64_t n_layers, uint64_t layer_bytes, uint64_t state_bytes) {
    const std::optional<uint64_t> layer = CheckedAdd(layer_bytes, uint64_t{kChecksumBytes});
    const std::optional<uint64_t> layers = layer ? CheckedMul(n_layers, *layer) : std::nullopt;
    const std::optional<uint64_t> state =
        state_bytes == 0 ? 0 : CheckedAdd(state_bytes, uint64_t{kChecksumBytes});
    const std::optional<uint64_t> images =
        layers && state ? CheckedAdd(*layers, *state) : std::nullopt;
    const std::optional<uint64_t> all =
        images ? CheckedAdd(*images, static_cast<uint64_t>(header_bytes)) : std::nullopt;
    if (!all || n_layers == 0 || layer_bytes == 0 || *all != static_cast<uint64_t>(file_.size())) {
      return Wrong("has ", file_.size(), " bytes, must have ",
                   all ? absl::StrCat(*all) : "more than 2^64", ": a header of ", header_bytes,
                   " and ", n_layers, " layers of ", layer_bytes,
                   state_bytes == 0 ? "" : absl::StrCat(" and a state of ", state_bytes),
                   " with their checksums");
    }
    header.n_layers = static_cast<int64_t>(n_layers);
    header.layer_bytes = static_cast<int64_t>(layer_bytes);
    header.state_bytes = static_cast<int64_t>(state_bytes);
    return absl::OkStatus();
  }

  const InputFile& file_;
};

}  // namespace

absl::StatusOr<CacheFile> CacheFile::Open(const std::string& path) {
  NG_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path));
  HeaderReader reader(file);
  NG_RETURN_IF_ERROR(reader.Read());
  return CacheFile(std::move(file), std::move(reader.header), reader.header_bytes, reader.checksum);
}

absl::Status CacheFile::ReadLayer(int64_t layer, std::span<std::byte> image) const {
  const int64_t offset = header_bytes_ + layer * (header_.layer_bytes + kChecksumBytes);
  NG_RETURN_IF_ERROR(file_.ReadAt(offset, image));
  char bytes[kChecksumBytes];
  NG_RETURN_IF_ERROR(
      file_.ReadAt(offset + std::ssize(image), std::as_writable_bytes(std::span(bytes))));
  const uint64_t stored = *Cursor({bytes, sizeof(bytes)}).U64();
  const uint64_t computed = HashOf(image, checksum_ + static_cast<uint64_t>(layer));
  if (stored == computed) return absl::OkStatus();
  const std::string whose =
      layer == header_.n_layers ? "the state's" : absl::StrCat("layer ", layer, "'s");
  return HeaderReader::BadChecksum(file_, whose, stored, computed);
}

absl::StatusOr<CacheFileWriter> CacheFileWriter::Create(const std::string& path,
                                                        const CacheFileHeader& header,
                                                        const std::atomic<bool>* stop) {
  std::string bytes = HeaderBytes(header);
  const uint64_t checksum = HashOf(bytes);
  AppendNumber(&bytes, checksum);
  if (std::ssize(bytes) > kMostHeaderBytes) {
    return OutputError(absl::StrCat(path, ": the header of a cache snapshot would have ",
                                    bytes.size(), " bytes, may have ", kMostHeaderBytes));
  }
  NG_ASSIGN_OR_RETURN(AtomicFileWriter file, AtomicFileWriter::Create(path, stop));
  NG_RETURN_IF_ERROR(file.Write(bytes));
  return CacheFileWriter(std::move(file), checksum);
}

absl::Status CacheFileWriter::WriteLayer(std::span<const std::byte> image) {
  std::string checksum;
  AppendNumber(&checksum, HashOf(image, checksum_ + n_written_++));
  NG_RETURN_IF_ERROR(file_.Write({reinterpret_cast<const char*>(image.data()), image.size()}));
  return file_.Write(checksum);
}

}  // namespace ng
