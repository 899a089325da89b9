#include "core/formats/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ng {
namespace {

std::string SystemReason(int error) { return std::generic_category().message(error); }

absl::Status ReadFailure(const std::string& path, std::string_view what) {
  return ModelFileError(absl::StrCat(path, ": ", absl::string_view(what.data(), what.size())));
}

template <typename Call>
auto RetryOnInterrupt(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

constexpr size_t kWriteBufferBytes = size_t{1} << 16;

}  // namespace

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
  // O_NONBLOCK: opening a FIFO must come back, to be refused.
  FileDescriptor fd(
      RetryOnInterrupt([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
  if (fd.get() < 0) return ReadFailure(path, "cannot open: " + SystemReason(errno));
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) {
    return ReadFailure(path, "cannot stat: " + SystemReason(errno));
  }
  if (S_ISDIR(status.st_mode)) return ReadFailure(path, "is a folder, must be a file");
  if (!S_ISREG(status.st_mode)) return ReadFailure(path, "is not a regular file");
  return InputFile(path, std::move(fd), status.st_size);
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

absl::StatusOr<std::string> ReadWholeFile(const std::string& path, int64_t max_bytes) {
  NG_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  if (file.size() > max_bytes) {
    return ReadFailure(path,
                       absl::StrCat("has ", file.size(), " bytes, must have at most ", max_bytes));
  }
  std::string bytes(static_cast<size_t>(file.size()), '\0');
  NG_RETURN_IF_ERROR(file.ReadAt(0, std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

namespace {

absl::Status WriteFailure(const std::string& path, std::string_view action, int error) {
  return OutputError(absl::StrCat(path, ": cannot ",
                                  absl::string_view(action.data(), action.size()), ": ",
                                  SystemReason(error)));
}

// Whether bytes for `path` go straight into it. What lies under /dev and /proc stands for a device
// or for somebody's open file (/dev/stdout), even where it looks like a regular one.
bool IsWrittenDirectly(const std::string& path) {
  if (path.starts_with("/dev/") || path.starts_with("/proc/")) return true;
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
}

// Creates a new file beside `target`, with the mode of the file it is to replace.
FileDescriptor CreateBeside(const std::string& target, std::string* temporary) {
  constexpr int kAttempts = 100;
  struct stat existing {};
  const bool replaces = ::stat(target.c_str(), &existing) == 0;
  for (int i = 0; i < kAttempts; ++i) {
    *temporary = absl::StrCat(target, ".", ::getpid(), "-", i, ".tmp");
    FileDescriptor fd(RetryOnInterrupt(
        [&] { return ::open(temporary->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); }));
    if (fd.get() < 0 && errno == EEXIST) continue;
    // A file system without modes is no reason to fail.
    if (fd.get() >= 0 && replaces) static_cast<void>(::fchmod(fd.get(), existing.st_mode & 07777));
    return fd;
  }
  return FileDescriptor();
}

}  // namespace

AtomicFileWriter::AtomicFileWriter(std::string path, std::string target)
    : path_(std::move(path)), target_(std::move(target)) {}

AtomicFileWriter::AtomicFileWriter(AtomicFileWriter&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, {})),
      fd_(std::move(other.fd_)),
      buffer_(std::move(other.buffer_)),
      status_(std::move(other.status_)) {}

AtomicFileWriter::~AtomicFileWriter() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

bool MayExist(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error) || error;
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

absl::StatusOr<AtomicFileWriter> AtomicFileWriter::Create(const std::string& path) {
  if (IsWrittenDirectly(path)) {
    // Appending: a redirected /dev/stdout may hold earlier output.
    FileDescriptor fd(
        RetryOnInterrupt([&] { return ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC); }));
    if (fd.get() < 0) return WriteFailure(path, "open for writing", errno);
    AtomicFileWriter writer(path, path);
    writer.fd_ = std::move(fd);
    return writer;
  }
  // Beside the file itself, so that a symbolic link to it stays one.
  std::error_code no_such_file;
  const std::filesystem::path real = std::filesystem::canonical(path, no_such_file);
  AtomicFileWriter writer(path, no_such_file ? path : real.string());
  std::string temporary;
  writer.fd_ = CreateBeside(writer.target_, &temporary);
  if (writer.fd_.get() < 0) return WriteFailure(path, "create a file beside it", errno);
  writer.temporary_ = std::move(temporary);  // nothing can have failed since there is a file
  return writer;
}

absl::Status AtomicFileWriter::Fail(std::string_view action) {
  status_ = WriteFailure(path_, action, errno);
  return status_;
}

absl::Status AtomicFileWriter::WriteThrough(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n =
        RetryOnInterrupt([&] { return ::write(fd_.get(), bytes.data(), bytes.size()); });
    if (n < 0) return Fail("write");
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::Status AtomicFileWriter::Write(std::string_view bytes) {
  if (buffer_.size() + bytes.size() > kWriteBufferBytes) NG_RETURN_IF_ERROR(Flush());
  if (!status_.ok()) return status_;
  if (bytes.size() > kWriteBufferBytes) return WriteThrough(bytes);
  buffer_.append(bytes);
  return absl::OkStatus();
}

absl::Status AtomicFileWriter::Flush() {
  if (!status_.ok()) return status_;
  NG_RETURN_IF_ERROR(WriteThrough(buffer_));
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status AtomicFileWriter::Commit() {
  NG_RETURN_IF_ERROR(Flush());
  if (!fd_.Close()) return Fail("close");
  if (temporary_.empty()) return absl::OkStatus();
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) return Fail("rename into place");
  temporary_.clear();
  return absl::OkStatus();
}

}  // namespace ng
