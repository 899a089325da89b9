// A blob that is being fetched: what has come of it lies in blobs/ETAG.incomplete, which becomes
// blobs/ETAG when it is whole and right. A lock keeps other programs from fetching it meanwhile.
#ifndef NG_APPS_FETCH_CACHE_BLOB_H_
#define NG_APPS_FETCH_CACHE_BLOB_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "apps/fetch/cache/digest.h"
#include "ng/status.h"

namespace ng::fetch {

// The lock of the hub's library: flock of a file that stays. The destructor gives it back.
class BlobLock {
 public:
  // Null: somebody else has it. Errors: OutputError.
  static absl::StatusOr<std::unique_ptr<BlobLock>> Try(const std::string& path);
  ~BlobLock();
  BlobLock(const BlobLock&) = delete;
  BlobLock& operator=(const BlobLock&) = delete;

 private:
  explicit BlobLock(int fd) : fd_(fd) {}
  const int fd_;
};

// What the bytes must be.
struct BlobFacts {
  int64_t size = 0;
  std::string sha256 = {};    // empty: not known
  std::string git_sha1 = {};  // likewise
};

// Errors: OutputError: it cannot be written. REQUIRES: its lock is held.
class PartialBlob {
 public:
  // Goes on with what is there.
  static absl::StatusOr<std::unique_ptr<PartialBlob>> Open(const std::string& path,
                                                           const BlobFacts& facts);
  ~PartialBlob();
  PartialBlob(const PartialBlob&) = delete;
  PartialBlob& operator=(const PartialBlob&) = delete;

  int64_t n_bytes() const { return n_bytes_; }
  bool is_whole() const { return n_bytes_ == facts_.size; }
  // Whether all that was there has been hashed.
  bool is_hashed() const { return n_hashed_ == n_bytes_; }
  // Hashes a piece of it.
  absl::Status HashMore();
  // REQUIRES: is_hashed(). Errors: also ModelFileError: more bytes come than the file has.
  absl::Status Append(std::string_view bytes);
  // Drops all bytes.
  absl::Status Clear();
  // Moves it into place. Nothing where the bytes are right; else what is wrong, and the bytes are
  // dropped. REQUIRES: is_whole() and is_hashed(); the last call, unless something is wrong.
  absl::StatusOr<std::optional<std::string>> MoveTo(const std::string& blob);

 private:
  PartialBlob(std::string path, int fd, BlobFacts facts, int64_t n_bytes);
  absl::Status Failed(const char* action) const;
  void BeginHash();

  const std::string path_;
  const int fd_;
  const BlobFacts facts_;
  int64_t n_bytes_;
  int64_t n_hashed_ = 0;
  int64_t n_sent_ = 0;  // to the disk, so that the end need not wait for all of it
  std::optional<Digest> digest_;
};

}  // namespace ng::fetch

#endif  // NG_APPS_FETCH_CACHE_BLOB_H_
