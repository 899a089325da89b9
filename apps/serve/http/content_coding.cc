#include "apps/serve/http/content_coding.h"

#include <algorithm>
#include <array>
#include <boost/beast/zlib/error.hpp>
#include <boost/beast/zlib/inflate_stream.hpp>
#include <boost/crc.hpp>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "apps/serve/http/exchange.h"

namespace ng::serve {
namespace {

namespace zlib = boost::beast::zlib;

// A member of a gzip file (RFC 1952): a header, raw deflate, and 8 bytes at its end.
constexpr size_t kHeaderBytes = 10;
constexpr size_t kTrailerBytes = 8;
enum HeaderFlag : unsigned {
  kHeaderCrc = 2,
  kExtra = 4,
  kName = 8,
  kComment = 16,
  kUnknown = 0xE0
};

uint32_t Word(std::string_view bytes, int n_bytes) {
  uint32_t word = 0;
  for (int i = n_bytes; i-- > 0;)
    word = word << 8U | static_cast<uint8_t>(bytes[static_cast<size_t>(i)]);
  return word;
}

// How long the header is; nothing where it is none.
std::optional<size_t> HeaderSize(std::string_view file) {
  if (file.size() < kHeaderBytes || !file.starts_with("\x1f\x8b\x08")) return std::nullopt;
  const auto flags = static_cast<uint8_t>(file[3]);
  if ((flags & kUnknown) != 0) return std::nullopt;
  size_t size = kHeaderBytes;
  if ((flags & kExtra) != 0) {
    if (file.size() < size + 2) return std::nullopt;
    size += 2 + Word(file.substr(size), 2);
  }
  for (const unsigned text : {kName, kComment}) {
    if ((flags & text) == 0) continue;
    const size_t end = file.find('\0', size);
    if (end == file.npos) return std::nullopt;
    size = end + 1;
  }
  if ((flags & kHeaderCrc) != 0) size += 2;
  return size <= file.size() ? std::optional(size) : std::nullopt;
}

// Inflates one member behind what is in `out`, and drops it from `file`.
int InflateMember(std::string_view* file, int64_t max_bytes, std::string* out) {
  const std::optional<size_t> header = HeaderSize(*file);
  if (!header) return kBadRequest;
  zlib::inflate_stream stream;
  zlib::z_params state;
  state.next_in = file->data() + *header;
  state.avail_in = file->size() - *header;
  const size_t begin = out->size();
  std::array<char, size_t{16} << 10> piece;
  boost::system::error_code error;
  while (error != zlib::error::end_of_stream) {
    state.next_out = piece.data();
    state.avail_out = piece.size();
    stream.write(state, zlib::Flush::none, error);
    const size_t n = piece.size() - state.avail_out;
    if (n > static_cast<size_t>(max_bytes) - out->size()) return kTooLarge;
    out->append(piece.data(), n);
    const bool ended = error == zlib::error::end_of_stream;
    if (error && !ended && error != zlib::error::need_buffers) return kBadRequest;
    if (!ended && n == 0) return kBadRequest;  // it is cut
    if (!ended) error.clear();
  }
  file->remove_prefix(file->size() - state.avail_in);
  if (file->size() < kTrailerBytes) return kBadRequest;
  boost::crc_32_type crc;
  crc.process_bytes(out->data() + begin, out->size() - begin);
  const bool whole = crc.checksum() == Word(*file, 4) &&
                     static_cast<uint32_t>(out->size() - begin) == Word(file->substr(4), 4);
  file->remove_prefix(kTrailerBytes);
  return whole ? 0 : kBadRequest;
}

}  // namespace

int RemoveContentCoding(std::string_view coding, int64_t max_bytes, std::string* body) {
  const std::string name = absl::AsciiStrToLower(std::string(coding));
  if (name.empty() || name == "identity") return 0;
  if (name != "gzip" && name != "x-gzip") return kUnknownCoding;
  std::string out;
  std::string_view file = *body;
  do {
    const int refused = InflateMember(&file, max_bytes, &out);
    if (refused != 0) return refused;
  } while (!file.empty());
  *body = std::move(out);
  return 0;
}

}  // namespace ng::serve
