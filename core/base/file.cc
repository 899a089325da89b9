#include "core/base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/hash.h"
#include "core/base/system_call.h"

namespace ng {
namespace {

// The beginning of the small text that Git keeps in place of a file that is stored elsewhere.
constexpr std::string_view kLfsPointer = "version https://git-lfs.github.com/spec/";
constexpr int64_t kMostLfsBytes = 1024;

thread_local InputLog* innermost_log = nullptr;

absl::Status ReadFailure(const std::string& path, std::string_view what) {
  return ModelFileError(absl::StrCat(path, ": ", absl::string_view(what.data(), what.size())));
}

absl::Status TooLarge(const std::string& path, const std::string& size, int64_t max_bytes) {
  return ReadFailure(path, absl::StrCat("has ", size, " bytes, must have at most ", max_bytes));
}

// Where the link at `path` leads; empty where there is none.
std::string LinkAt(const std::string& path) {
  std::array<char, 4096> target;
  const ssize_t n = ::readlink(path.c_str(), target.data(), target.size());
  return n < 0 ? std::string() : std::string(target.data(), static_cast<size_t>(n));
}

absl::Status OpenFailure(const std::string& path, int error) {
  if (error != ENOENT && error != ENOTDIR) {
    return ReadFailure(path, "cannot open: " + SystemReason(error));
  }
  const std::string link = LinkAt(path);
  if (link.empty()) return ReadFailure(path, "no such file" + HomeHint(path));
  return ReadFailure(path, absl::StrCat("is a link to ", link, ", which is not there"));
}

struct OpenedFile {
  FileDescriptor fd;
  struct stat status;
};

// Opens any file that has bytes to read, without waiting.
absl::StatusOr<OpenedFile> OpenToRead(const std::string& path) {
  // O_NONBLOCK, so that opening a FIFO returns at once.
  FileDescriptor fd(RetryOnInterrupt(
      [&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); }));
  if (fd.get() < 0) return OpenFailure(path, errno);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) {
    return ReadFailure(path, "cannot stat: " + SystemReason(errno));
  }
  if (S_ISDIR(status.st_mode)) return ReadFailure(path, "is a folder, must be a file");
  InputLog::Note(status, path);
  return OpenedFile{std::move(fd), status};
}

// Reads up to the end. The end of a pipe is there when all its writers have closed it.
absl::StatusOr<std::string> ReadToEnd(const std::string& path, const OpenedFile& file,
                                      int64_t max_bytes, const std::atomic<bool>* stop) {
  const int fd = file.fd.get();
  std::string text;
  text.reserve(static_cast<size_t>(std::min<int64_t>(file.status.st_size, max_bytes)));
  std::array<char, 65536> piece;
  while (!IsSet(stop)) {
    const ssize_t n = ::read(fd, piece.data(), piece.size());
    if (n == 0) return text;
    if (n < 0 && errno == EAGAIN) {
      pollfd wait = {fd, POLLIN, 0};
      ::poll(&wait, 1, kLookMilliseconds);
    } else if (n < 0 && errno != EINTR) {
      return ReadFailure(path, "cannot read: " + SystemReason(errno));
    } else if (n > 0) {
      text.append(piece.data(), static_cast<size_t>(n));
      if (std::ssize(text) > max_bytes) {
        return TooLarge(path, absl::StrCat(text.size(), " and more"), max_bytes);
      }
    }
  }
  return InterruptedError("interrupted");
}

}  // namespace

InputLog::InputLog() : outer_(std::exchange(innermost_log, this)) {}
InputLog::~InputLog() { innermost_log = outer_; }

const std::string* InputLog::Find(const FileId& id) const {
  const auto found = paths_.find(id);
  return found == paths_.end() ? nullptr : &found->second;
}

void InputLog::Note(const struct stat& status, const std::string& path) {
  if (innermost_log != nullptr) innermost_log->paths_.emplace(FileId(status), path);
}

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

FileDescriptor::~FileDescriptor() { Close(); }

bool FileDescriptor::Close() {
  // Linux releases the descriptor even when close reports EINTR: never call it twice.
  return fd_ < 0 || ::close(std::exchange(fd_, -1)) == 0 || errno == EINTR;
}

absl::StatusOr<InputFile> InputFile::Open(const std::string& path) {
  NG_ASSIGN_OR_RETURN(OpenedFile opened, OpenToRead(path));
  if (!S_ISREG(opened.status.st_mode)) return ReadFailure(path, "is not a regular file");
  const timespec& modified = opened.status.st_mtim;
  InputFile file(path, std::move(opened.fd), opened.status.st_size,
                 int64_t{modified.tv_sec} * 1'000'000'000 + modified.tv_nsec);
  if (file.size() >= std::ssize(kLfsPointer) && file.size() < kMostLfsBytes) {
    std::string begin(kLfsPointer.size(), '\0');
    NG_RETURN_IF_ERROR(file.ReadAt(0, std::as_writable_bytes(std::span(begin))));
    if (begin == kLfsPointer) {
      return ReadFailure(path,
                         "is a Git LFS pointer, not the file itself; fetch it with git lfs pull");
    }
  }
  return file;
}

void InputFile::Announce(int64_t offset, int64_t n_bytes) const {
  constexpr int64_t kLooked = int64_t{1} << 20;   // between two looks
  constexpr int64_t kAsked = int64_t{128} << 10;  // Linux takes no more than its read-ahead at once
  for (const int64_t end = offset + n_bytes; offset < end;) {
    const int64_t piece_end = std::min(offset + kLooked, end);
    // What is in memory already costs a look, and not a walk over its pages.
    std::byte last{};
    iovec look = {&last, 1};
    const bool there =
        ::preadv2(fd_.get(), &look, 1, static_cast<off_t>(piece_end - 1), RWF_NOWAIT) == 1;
    for (; offset < piece_end && !there; offset += kAsked) {
      static_cast<void>(::posix_fadvise(fd_.get(), static_cast<off_t>(offset),
                                        static_cast<off_t>(std::min(kAsked, piece_end - offset)),
                                        POSIX_FADV_WILLNEED));
    }
    offset = piece_end;
  }
}

absl::Status InputFile::ReadAt(int64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t n = RetryOnInterrupt(
        [&] { return ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset)); });
    if (n < 0) {
      return ReadFailure(path_, absl::StrCat("cannot read ", out.size(), " bytes at offset ",
                                             offset, ": ", SystemReason(errno)));
    }
    if (n == 0) {
      return ReadFailure(path_, absl::StrCat("ends at offset ", offset, ", ", out.size(),
                                             " more bytes were expected there"));
    }
    out = out.subspan(static_cast<size_t>(n));
    offset += n;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<std::byte>> InputFile::Map(int64_t offset, int64_t bytes) const {
  const auto n = static_cast<size_t>(bytes);
  void* const mapped =
      ::mmap(nullptr, n, PROT_READ, MAP_SHARED, fd_.get(), static_cast<off_t>(offset));
  if (mapped == MAP_FAILED) {
    return ReadFailure(path_, absl::StrCat("cannot map ", bytes, " bytes at offset ", offset, ": ",
                                           SystemReason(errno)));
  }
  ::madvise(mapped, n, MADV_WILLNEED);  // a hint
  return std::shared_ptr<std::byte>(static_cast<std::byte*>(mapped),
                                    [n](std::byte* p) { ::munmap(p, n); });
}

absl::StatusOr<std::string> InputFile::ReadAll(int64_t max_bytes) const {
  if (size_ > max_bytes) return TooLarge(path_, absl::StrCat(size_), max_bytes);
  std::string bytes(static_cast<size_t>(size_), '\0');
  NG_RETURN_IF_ERROR(ReadAt(0, std::as_writable_bytes(std::span(bytes))));
  char more = 0;
  const ssize_t n = RetryOnInterrupt([&] { return ::pread(fd_.get(), &more, 1, size_); });
  if (n == 0) return bytes;
  return ReadFailure(path_, n < 0
                                ? "cannot read: " + SystemReason(errno)
                                : absl::StrCat("has more than the ", size_, " bytes of its size"));
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path, int64_t max_bytes) {
  NG_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  return file.ReadAll(max_bytes);
}

absl::StatusOr<uint64_t> HashOfFile(const std::string& path) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  NG_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  std::vector<std::byte> piece;
  uint64_t hash = 0;
  for (int64_t begin = 0; begin < file.size(); begin += kPiece) {
    piece.resize(static_cast<size_t>(std::min(kPiece, file.size() - begin)));
    NG_RETURN_IF_ERROR(file.ReadAt(begin, piece));
    hash = HashOf(piece, hash);
  }
  return hash;
}

absl::StatusOr<std::string> ReadText(const std::string& path, int64_t max_bytes,
                                     const std::atomic<bool>* stop) {
  NG_ASSIGN_OR_RETURN(OpenedFile opened, OpenToRead(path));
  const mode_t mode = opened.status.st_mode;
  if (!S_ISREG(mode) && !S_ISFIFO(mode)) {
    return ReadFailure(path, "is neither a regular file nor a pipe");
  }
  if (opened.status.st_size > max_bytes) {
    return TooLarge(path, absl::StrCat(opened.status.st_size), max_bytes);
  }
  return ReadToEnd(path, opened, max_bytes, stop);
}

std::string FolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder;
}

std::string HomeHint(const std::string& path) {
  const bool names_home = path.starts_with('~') || path.find("/~") != std::string::npos;
  return names_home ? "; nobody but the shell knows what '~' stands for: write the folder out" : "";
}

bool MayExist(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

std::error_code ListDirectory(const std::string& path, std::vector<std::string>* names) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), ::closedir);
  if (directory == nullptr) return {errno, std::generic_category()};
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(directory.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names->emplace_back(name);
  }
  if (errno != 0) return {errno, std::generic_category()};
  std::sort(names->begin(), names->end());
  return {};
}

}  // namespace ng
