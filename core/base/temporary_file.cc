#include "core/base/temporary_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/system_call.h"

namespace ng {
namespace {

constexpr int kAttempts = 100;

// Names are given and taken away by one thread at a time. That thread takes no signals meanwhile
// and allocates nothing, so a handler that waits here waits for another thread, and for two system
// calls at most.
std::atomic_flag naming = ATOMIC_FLAG_INIT;

void WaitForNaming() {
  while (naming.test_and_set(std::memory_order_acquire)) {
  }
}

class NamingLock {
 public:
  NamingLock() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
    WaitForNaming();
  }
  ~NamingLock() {
    const int error = errno;
    naming.clear(std::memory_order_release);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  NamingLock(const NamingLock&) = delete;
  NamingLock& operator=(const NamingLock&) = delete;

 private:
  sigset_t before_;
};

std::string NameBeside(const std::string& target, int attempt) {
  return absl::StrCat(target, ".", ::getpid(), "-", attempt, ".tmp");
}

std::string DescriptorPath(int fd) { return absl::StrCat("/proc/self/fd/", fd); }

bool Link(const std::string& descriptor, const std::string& name) {
  return ::linkat(AT_FDCWD, descriptor.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

// A file without a name cannot replace another file, so it gets a name for the time of two calls.
bool LinkOver(const std::string& descriptor, const std::string& target) {
  for (int i = 0; i < kAttempts; ++i) {
    const std::string name = NameBeside(target, i);
    const NamingLock lock;
    if (!Link(descriptor, name)) {
      if (errno == EEXIST) continue;
      return false;
    }
    if (::rename(name.c_str(), target.c_str()) == 0) return true;
    const int error = errno;
    ::unlink(name.c_str());
    errno = error;
    return false;
  }
  return false;
}

}  // namespace

// A registered name. It is in a list that is read and changed under the lock.
class TemporaryFile::Name {
 public:
  explicit Name(std::string path) : path_(std::move(path)) {}
  ~Name() {
    if (!held_) return;
    const NamingLock lock;
    ::unlink(path_.c_str());
    Unregister();
  }
  Name(const Name&) = delete;
  Name& operator=(const Name&) = delete;

  int Create() {
    const NamingLock lock;
    const int fd = RetryOnInterrupt(
        [&] { return ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); });
    if (fd < 0) return fd;
    held_ = true;
    next_ = first_;
    if (next_ != nullptr) next_->before_ = this;
    first_ = this;
    return fd;
  }

  bool MoveTo(const std::string& target) {
    const NamingLock lock;
    if (::rename(path_.c_str(), target.c_str()) != 0) return false;
    Unregister();
    return true;
  }

  static void UnlinkAll() {
    for (const Name* name = first_; name != nullptr; name = name->next_) {
      ::unlink(name->path_.c_str());
    }
  }

 private:
  void Unregister() {
    (before_ == nullptr ? first_ : before_->next_) = next_;
    if (next_ != nullptr) next_->before_ = before_;
    held_ = false;
  }

  static inline Name* first_ = nullptr;

  std::string path_;
  bool held_ = false;
  Name* before_ = nullptr;
  Name* next_ = nullptr;
};

TemporaryFile TemporaryFile::Create(const std::string& target) {
  TemporaryFile file;
  file.fd_ = FileDescriptor(RetryOnInterrupt(
      [&] { return ::open(FolderOf(target).c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666); }));
  // The file gets its name through /proc, so /proc must exist.
  if (file.fd() >= 0 && ::access(DescriptorPath(file.fd()).c_str(), F_OK) == 0) return file;
  return CreateNamed(target);
}

TemporaryFile TemporaryFile::CreateNamed(const std::string& target) {
  TemporaryFile file;
  for (int i = 0; i < kAttempts; ++i) {
    file.name_ = std::make_unique<Name>(NameBeside(target, i));
    file.fd_ = FileDescriptor(file.name_->Create());
    if (file.fd() >= 0 || errno != EEXIST) break;
  }
  return file;
}

TemporaryFile::TemporaryFile() = default;
TemporaryFile::TemporaryFile(TemporaryFile&&) noexcept = default;
TemporaryFile& TemporaryFile::operator=(TemporaryFile&&) noexcept = default;
TemporaryFile::~TemporaryFile() = default;

bool TemporaryFile::MoveTo(const std::string& target) {
  if (name_ != nullptr) return fd_.Close() && name_->MoveTo(target);
  const std::string descriptor = DescriptorPath(fd());
  if (!Link(descriptor, target) && (errno != EEXIST || !LinkOver(descriptor, target))) return false;
  return fd_.Close();
}

void RemoveTemporaryFiles() {
  // A handler that interrupts another one must not wait for it.
  static std::atomic<bool> leaving = false;
  if (!leaving.exchange(true)) WaitForNaming();
  TemporaryFile::Name::UnlinkAll();
}

}  // namespace ng
