#include "apps/fetch/cache/blob.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ng::fetch {
namespace {

constexpr mode_t kMode = 0666;  // less the umask
constexpr mode_t kLockMode = 0664;

// Whether the file of a path is this one still.
bool IsFileOf(const std::string& path, int fd) {
  struct stat named {};
  struct stat open {};
  return ::stat(path.c_str(), &named) == 0 && ::fstat(fd, &open) == 0 &&
         named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BlobLock>> BlobLock::Try(const std::string& path) {
  for (;;) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, kLockMode);
    if (fd < 0) {
      return OutputError(absl::StrCat(path, ": cannot open it: ", std::strerror(errno)));
    }
    std::unique_ptr<BlobLock> lock(new BlobLock(fd));
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return nullptr;
      if (errno == EINTR) continue;
      return OutputError(absl::StrCat(path, ": cannot lock it: ", std::strerror(errno)));
    }
    // Another program may have removed the file that was opened.
    if (IsFileOf(path, fd)) return lock;
  }
}

BlobLock::~BlobLock() { ::close(fd_); }

absl::StatusOr<std::unique_ptr<PartialBlob>> PartialBlob::Open(const std::string& path,
                                                               const BlobFacts& facts) {
  const int fd =
      ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, kMode);
  struct stat status {};
  if (fd < 0 || ::fstat(fd, &status) != 0) {
    const int reason = errno;
    if (fd >= 0) ::close(fd);
    return OutputError(absl::StrCat(path, ": cannot open it: ", std::strerror(reason)));
  }
  std::unique_ptr<PartialBlob> blob(new PartialBlob(path, fd, facts, status.st_size));
  if (!S_ISREG(status.st_mode)) return OutputError(path + ": is no file");
  if (blob->n_bytes_ > facts.size) NG_RETURN_IF_ERROR(blob->Clear());
  return blob;
}

PartialBlob::PartialBlob(std::string path, int fd, BlobFacts facts, int64_t n_bytes)
    : path_(std::move(path)), fd_(fd), facts_(std::move(facts)), n_bytes_(n_bytes) {
  BeginHash();
}

PartialBlob::~PartialBlob() { ::close(fd_); }

void PartialBlob::BeginHash() {
  n_hashed_ = 0;
  digest_.reset();
  if (!facts_.sha256.empty()) {
    digest_ = Digest::Sha256();
  } else if (!facts_.git_sha1.empty()) {
    digest_ = Digest::GitSha1(facts_.size);
  } else {
    n_hashed_ = n_bytes_;  // nothing to compare it with
  }
}

absl::Status PartialBlob::Failed(const char* action) const {
  return OutputError(absl::StrCat(path_, ": cannot ", action, ": ", std::strerror(errno)));
}

absl::Status PartialBlob::HashMore() {
  constexpr int64_t kPiece = int64_t{1} << 23;
  std::vector<char> bytes(static_cast<size_t>(std::min(kPiece, n_bytes_ - n_hashed_)));
  const ssize_t n = ::pread(fd_, bytes.data(), bytes.size(), n_hashed_);
  if (n < 0 && errno == EINTR) return absl::OkStatus();
  if (n < 0) return Failed("read it");
  if (n == 0) n_bytes_ = n_hashed_;  // somebody has cut it
  if (digest_) digest_->Add({bytes.data(), static_cast<size_t>(n)});
  n_hashed_ += n;
  return absl::OkStatus();
}

absl::Status PartialBlob::Append(std::string_view bytes) {
  constexpr int64_t kSend = int64_t{1} << 25;
  if (static_cast<int64_t>(bytes.size()) > facts_.size - n_bytes_) {
    return ModelFileError(absl::StrCat("more bytes come than the ", facts_.size, " of the file"));
  }
  // At a place of its own: where locks do not work, another program writes the same bytes there.
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), n_bytes_);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Failed("write");
    if (digest_) digest_->Add(bytes.substr(0, static_cast<size_t>(n)));
    n_bytes_ += n;
    n_hashed_ = n_bytes_;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  if (n_bytes_ - n_sent_ >= kSend) {
    static_cast<void>(::sync_file_range(fd_, n_sent_, n_bytes_ - n_sent_, SYNC_FILE_RANGE_WRITE));
    n_sent_ = n_bytes_;
  }
  return absl::OkStatus();
}

absl::Status PartialBlob::Clear() {
  if (::ftruncate(fd_, 0) != 0) return Failed("cut it");
  n_bytes_ = n_sent_ = 0;
  BeginHash();
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string>> PartialBlob::MoveTo(const std::string& blob) {
  const std::string& known = facts_.sha256.empty() ? facts_.git_sha1 : facts_.sha256;
  const std::string hash = digest_ ? digest_->Hex() : known;
  struct stat status {};
  std::string wrong;
  if (hash != known) {
    wrong = absl::StrCat(facts_.sha256.empty() ? "git's sha1" : "sha256", " of what has come is ",
                         hash, ", must be ", known);
  } else if (::fstat(fd_, &status) != 0 || status.st_size != facts_.size) {
    wrong = absl::StrCat("has ", status.st_size, " bytes, must have ", facts_.size);
  }
  if (!wrong.empty()) {
    NG_RETURN_IF_ERROR(Clear());
    return std::optional<std::string>(wrong);
  }
  // What is visible must be whole after a power failure too.
  if (::fdatasync(fd_) != 0) return Failed("write");
  if (::rename(path_.c_str(), blob.c_str()) != 0) return Failed("move it into place");
  return std::optional<std::string>();
}

}  // namespace ng::fetch
