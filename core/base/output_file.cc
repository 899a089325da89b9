#include "core/base/output_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/system_call.h"
#include "core/base/temporary_file.h"

namespace ng {
namespace {

namespace fs = std::filesystem;

constexpr size_t kWriteBufferBytes = size_t{1} << 16;
constexpr int kMostLinks = 40;  // the kernel's limit
// When a run is stopped, a reader who is only slow gets this much time for the rest of the output.
constexpr int kGraceMilliseconds = 500;

absl::Status Refuse(const std::string& path, std::string_view why) {
  return OutputError(absl::StrCat(path, ": ", absl::string_view(why.data(), why.size())));
}

absl::Status WriteFailure(const std::string& path, std::string_view action, int error) {
  return Refuse(path, absl::StrCat("cannot ", absl::string_view(action.data(), action.size()), ": ",
                                   SystemReason(error)));
}

// Whether the entries of a folder are links to files that processes have open.
bool IsProc(const std::string& folder) {
  struct statfs system {};
  return ::statfs(folder.c_str(), &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

absl::StatusOr<FileId> FindFolder(const std::string& path, const std::string& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return FileId(status);
    errno = ENOTDIR;
  }
  if (errno == ENOENT) {
    return Refuse(path, absl::StrCat("no such folder: ", folder, HomeHint(path)));
  }
  return WriteFailure(path, "write in " + folder, errno);
}

}  // namespace

absl::StatusOr<OutputPlace> FindOutputPlace(const std::string& path) {
  if (path.empty()) return OutputError("an output has an empty name");
  OutputPlace place;
  place.target = path;
  struct stat status {};
  for (int n_links = 0;; ++n_links) {
    const std::string folder = FolderOf(place.target);
    NG_ASSIGN_OR_RETURN(place.folder, FindFolder(path, folder));
    if (::lstat(place.target.c_str(), &status) != 0) {
      if (errno != ENOENT) return WriteFailure(path, "look at it", errno);
      if (n_links == 0) return place;
      return Refuse(path, absl::StrCat("is a link to ", place.target, ", which is not there"));
    }
    place.in_place = IsProc(folder);
    if (!S_ISLNK(status.st_mode)) break;
    if (place.in_place) {
      if (::stat(place.target.c_str(), &status) != 0) return WriteFailure(path, "open", errno);
      break;
    }
    if (n_links == kMostLinks) return Refuse(path, "is a link in a circle of links");
    std::error_code error;
    const fs::path next = fs::read_symlink(place.target, error);
    if (error) return WriteFailure(path, "read the link", error.value());
    // An absolute path replaces what stands before it.
    place.target = fs::path(place.target).parent_path() / next;
  }
  if (S_ISDIR(status.st_mode)) return Refuse(path, "is a folder, must be a file");
  place.file = FileId(status);
  place.is_pipe = S_ISFIFO(status.st_mode);
  place.in_place = place.in_place || !S_ISREG(status.st_mode);
  return place;
}

bool IsSameFile(const OutputPlace& a, const OutputPlace& b) {
  if (a.in_place || b.in_place || a.file.has_value() != b.file.has_value()) return false;
  if (a.file) return a.file == b.file;
  return a.folder == b.folder && fs::path(a.target).filename() == fs::path(b.target).filename();
}

absl::Status CheckWritable(const std::string& path, const OutputPlace& place) {
  if (!place.in_place) return AtomicFileWriter::Create(path).status();
  if (::access(place.target.c_str(), W_OK) == 0) return absl::OkStatus();
  return WriteFailure(path, "open for writing", errno);
}

// Where the bytes go, and what of them has gone.
struct AtomicFileWriter::State {
  absl::Status Open();
  absl::Status OpenInPlace();
  absl::Status WriteThrough(std::string_view bytes);
  absl::Status WaitForReader(int* waited);
  absl::Status Fail(std::string_view action);

  std::string path;  // as the caller wrote it: what errors name
  OutputPlace place;
  const std::atomic<bool>* stop;
  FileDescriptor in_place = {};
  TemporaryFile temporary = {};
  std::string buffer = {};
  absl::Status status = {};
};

AtomicFileWriter::AtomicFileWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
AtomicFileWriter::AtomicFileWriter(AtomicFileWriter&& other) noexcept = default;
AtomicFileWriter& AtomicFileWriter::operator=(AtomicFileWriter&& other) noexcept = default;
AtomicFileWriter::~AtomicFileWriter() = default;

absl::StatusOr<AtomicFileWriter> AtomicFileWriter::Create(const std::string& path,
                                                          const std::atomic<bool>* stop) {
  NG_ASSIGN_OR_RETURN(OutputPlace place, FindOutputPlace(path));
  auto state = std::make_unique<State>(State{path, std::move(place), stop});
  NG_RETURN_IF_ERROR(state->Open());
  return AtomicFileWriter(std::move(state));
}

absl::Status AtomicFileWriter::State::Open() {
  if (place.in_place) return OpenInPlace();
  temporary = TemporaryFile::Create(place.target);
  if (temporary.fd() < 0) return Fail("create a file beside it");
  struct stat replaced {};
  // It is no error if the file system has no modes.
  if (place.file && ::stat(place.target.c_str(), &replaced) == 0) {
    static_cast<void>(::fchmod(temporary.fd(), replaced.st_mode & 07777));
  }
  return absl::OkStatus();
}

absl::Status AtomicFileWriter::State::OpenInPlace() {
  while (true) {
    // Appending: a redirected /dev/stdout may hold earlier output.
    in_place = FileDescriptor(RetryOnInterrupt([&] {
      return ::open(place.target.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    }));
    if (in_place.get() >= 0) return absl::OkStatus();
    if (errno != ENXIO || !place.is_pipe) return Fail("open for writing");
    if (IsSet(stop)) return status = InterruptedError("interrupted");
    ::poll(nullptr, 0, kLookMilliseconds);  // nobody has opened it to read
  }
}

absl::Status AtomicFileWriter::State::Fail(std::string_view action) {
  status = WriteFailure(path, action, errno);
  return status;
}

absl::Status AtomicFileWriter::State::WaitForReader(int* waited) {
  if (IsSet(stop)) *waited += kLookMilliseconds;
  if (*waited > kGraceMilliseconds) return status = InterruptedError("interrupted");
  pollfd wait = {in_place.get(), POLLOUT, 0};
  ::poll(&wait, 1, kLookMilliseconds);
  return absl::OkStatus();
}

absl::Status AtomicFileWriter::State::WriteThrough(std::string_view bytes) {
  const int fd = place.in_place ? in_place.get() : temporary.fd();
  int waited = 0;
  while (!bytes.empty()) {
    const ssize_t n = RetryOnInterrupt([&] { return ::write(fd, bytes.data(), bytes.size()); });
    if (n < 0 && errno == EAGAIN && place.in_place) {
      NG_RETURN_IF_ERROR(WaitForReader(&waited));
    } else if (n < 0) {
      return Fail("write");
    } else {
      bytes.remove_prefix(static_cast<size_t>(n));
      waited = 0;
    }
  }
  return absl::OkStatus();
}

absl::Status AtomicFileWriter::Write(std::string_view bytes) {
  if (state_->buffer.size() + bytes.size() > kWriteBufferBytes) NG_RETURN_IF_ERROR(Flush());
  if (!state_->status.ok()) return state_->status;
  if (bytes.size() > kWriteBufferBytes) return state_->WriteThrough(bytes);
  state_->buffer.append(bytes);
  return absl::OkStatus();
}

absl::Status AtomicFileWriter::Flush() {
  if (!state_->status.ok()) return state_->status;
  NG_RETURN_IF_ERROR(state_->WriteThrough(state_->buffer));
  state_->buffer.clear();
  return absl::OkStatus();
}

absl::Status AtomicFileWriter::Commit() {
  NG_RETURN_IF_ERROR(Flush());
  State& state = *state_;
  if (state.place.in_place) return state.in_place.Close() ? absl::OkStatus() : state.Fail("close");
  const bool moved = state.temporary.MoveTo(state.place.target);
  return moved ? absl::OkStatus() : state.Fail("move into place");
}

}  // namespace ng
