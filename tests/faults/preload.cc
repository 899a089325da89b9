// Preloaded into a program: lets calls of the C library fail as NG_FAULT says (fault_page.h).
//
// It stands before the C library's functions, so it meets the calls of the program, its libraries
// and its plugins, but not what the C library does on its own.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/faults/fault_page.h"

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* memory);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace ng::faults {
namespace {

enum class Deed { kError, kShort, kByte, kSignal };

struct PlanEntry {
  CallKind call;
  uint64_t first;
  uint64_t last;
  Deed deed;
  int value;  // of an error or signal
};

constexpr int kMostEntries = 8;
constexpr uid_t kFirstUser = 1U << 30;  // nobody's
PlanEntry plan[kMostEntries];
int n_entries = 0;
FaultPage* page = nullptr;
bool armed = false;
// What a call makes on its own account, and what this library makes, is not counted.
thread_local bool inside __attribute__((tls_model("initial-exec"))) = false;

[[noreturn]] void BadPlan(const char* text) {
  std::fprintf(stderr, "NG_FAULT=%s: cannot be read\n", text);
  _exit(99);
}

template <size_t kSize>
bool Find(const Effect (&effects)[kSize], const char* name, int* value) {
  for (const Effect& effect : effects) {
    if (std::strcmp(effect.name, name) != 0) continue;
    *value = effect.value;
    return true;
  }
  return false;
}

void ReadPlan(const char* text) {
  for (const char* at = text; *at != '\0';) {
    char call[16];
    char from[2] = "";
    char effect[16];
    uint64_t first = 0;
    int used = 0;
    if (n_entries == kMostEntries ||
        std::sscanf(at, "%15[a-z]:%" SCNu64 "%n", call, &first, &used) != 2) {
      BadPlan(text);
    }
    at += used;
    if (*at == '+') from[0] = *at++;
    if (std::sscanf(at, ":%15[A-Za-z]%n", effect, &used) != 1) BadPlan(text);
    at += used;
    if (*at == ',') ++at;
    PlanEntry& entry = plan[n_entries++];
    const auto* const found =
        std::find_if(kCallNames.begin(), kCallNames.end(),
                     [&](const char* n) { return std::strcmp(n, call) == 0; });
    if (found == kCallNames.end()) BadPlan(text);
    entry.call = static_cast<CallKind>(found - kCallNames.begin());
    entry.first = first;
    entry.last = from[0] == '+' ? UINT64_MAX : first;
    if (std::strcmp(effect, "short") == 0) {
      entry.deed = Deed::kShort;
    } else if (std::strcmp(effect, "byte") == 0) {
      entry.deed = Deed::kByte;
    } else if (Find(kErrors, effect, &entry.value)) {
      entry.deed = Deed::kError;
    } else if (Find(kSignals, effect, &entry.value)) {
      entry.deed = Deed::kSignal;
    } else {
      BadPlan(text);
    }
  }
}

// The functions that this library stands before.
#define NG_REPLACED(each)                                                                         \
  each(mmap) each(openat) each(fopen) each(read) each(pread) each(write) each(pwrite) each(close) \
      each(fstatat) each(fstat) each(rename) each(linkat) each(unlink) each(fchmod) each(chmod)   \
          each(opendir) each(readdir) each(pthread_create) each(pipe2) each(poll) each(ppoll)     \
              each(fork) each(posix_spawn) each(wait4) each(sigaction)

// The next definition of a function: the C library's own.
template <typename Pointer>
Pointer LookUp(const char* name) {
  return reinterpret_cast<Pointer>(dlsym(RTLD_NEXT, name));
}
// All of them are looked up before main. A signal handler that did it could wait for ever: dlsym
// takes a lock, which may be the very one that the handler interrupts.
#define NG_KNOWN(name) decltype(&::name) next_##name = nullptr;
NG_REPLACED(NG_KNOWN)
#undef NG_KNOWN

void LookUpAll() {
#define NG_LOOK_UP(name) next_##name = LookUp<decltype(&::name)>(#name);
  NG_REPLACED(NG_LOOK_UP)
#undef NG_LOOK_UP
}

// Constructors of other libraries may call before this one's has run.
template <typename Pointer>
Pointer Next(const Pointer& known) {
  if (known == nullptr) LookUpAll();
  return known;
}
#define NG_NEXT(name) (::ng::faults::Next(::ng::faults::next_##name))

// What a call is about.
struct Target {
  int fd = -1;
  const char* path = nullptr;
  size_t new_bytes = 0;  // of memory
};

// Bytes of memory that the program holds, and may hold.
std::atomic<int64_t> held = 0;
std::atomic<int64_t> most_held = INT64_MAX;

bool IsHit(const PlanEntry& entry, uint64_t n, Target target) {
  if (n < entry.first || n > entry.last) return false;
  if (entry.call != kMalloc || entry.last == entry.first) return true;
  if (n == entry.first) most_held = held.load();
  return held + static_cast<int64_t>(target.new_bytes) > most_held;
}

void NoteWhere(Target target) {
  if (page->n_struck.fetch_add(1) != 0) return;
  char* const where = page->where.data();
  const size_t size = page->where.size() - 1;
  if (target.path != nullptr) {
    std::strncpy(where, target.path, size);
  } else if (target.fd >= 0) {
    char link[64];
    std::snprintf(link, sizeof(link), "/proc/self/fd/%d", target.fd);
    const ssize_t n = readlink(link, where, size);
    where[std::max<ssize_t>(0, n)] = '\0';
    if (target.fd <= 2) std::snprintf(where, size, "fd%d", target.fd);
  }
}

// What is to happen to this call: 0, or an error; less of `*size` where it has one.
int Strike(CallKind call, Target target, size_t* size = nullptr) {
  if (!armed || inside) return 0;
  inside = true;
  const int saved_errno = errno;
  const uint64_t n = page->counts[call].fetch_add(1) + 1;
  int error = 0;
  for (int i = 0; i < n_entries; ++i) {
    const PlanEntry& entry = plan[i];
    if (entry.call != call || !IsHit(entry, n, target)) continue;
    if (entry.deed == Deed::kSignal) {
      kill(getpid(), entry.value);
    } else if (entry.deed == Deed::kError) {
      NoteWhere(target);
      error = entry.value;
    } else if (size != nullptr && *size > 1) {
      NoteWhere(target);
      *size = entry.deed == Deed::kByte ? 1 : *size / 2;
    }
  }
  errno = saved_errno;
  inside = false;
  return error;
}

// Calls `real` with nothing in it counted.
template <typename Real>
auto Quietly(Real real) {
  const bool was_inside = inside;
  inside = true;
  const auto result = real();
  inside = was_inside;
  return result;
}

// A call that answers `failed` and errno where it fails.
template <typename Result, typename Real>
Result Through(CallKind call, Target target, Result failed, Real real) {
  const int error = Strike(call, target);
  if (error == 0) return Quietly(real);
  errno = error;
  return failed;
}

template <typename Real>
void* Allocate(size_t size, Real real) {
  void* const memory = Through<void*>(kMalloc, {-1, nullptr, size}, nullptr, real);
  if (memory != nullptr) held += static_cast<int64_t>(malloc_usable_size(memory));
  return memory;
}

// oneTBB begins threads that end the process where they get no memory, and nobody can catch it
// there. So these are spared; what oneTBB does on ng's own threads is not.
struct Start {
  void* (*run)(void*);
  void* argument;
};

bool IsOfOneTbb(void* (*start)(void*)) {
  Dl_info info;
  return dladdr(reinterpret_cast<void*>(start), &info) != 0 && info.dli_fname != nullptr &&
         std::strstr(info.dli_fname, "libtbb") != nullptr;
}

void* RunSpared(void* memory) {
  const Start start = *static_cast<Start*>(memory);
  __libc_free(memory);
  inside = true;
  return start.run(start.argument);
}

// A limit of processes holds for no process of the superuser's, so this becomes another user's, who
// has no other process; what it may do with files stays.
void LimitProcesses(uint64_t n) {
  if (geteuid() == 0) {
    if (setresuid(kFirstUser + static_cast<uid_t>(getpid()), 0, 0) != 0) _exit(99);
    __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) != 0) _exit(99);
    data[0].effective &= ~(1U << CAP_SYS_ADMIN | 1U << CAP_SYS_RESOURCE);
    if (syscall(SYS_capset, &header, data) != 0) _exit(99);
  }
  const rlimit limit = {n, n};
  if (setrlimit(RLIMIT_NPROC, &limit) != 0) _exit(99);
}

int (*real_main)(int, char**, char**) = nullptr;

int CountedMain(int argc, char** argv, char** environment) {
  if (page == nullptr) return real_main(argc, argv, environment);
  page->main_began = 1;
  const char* const processes = std::getenv("NG_FAULT_PROCESSES");
  if (processes != nullptr) LimitProcesses(std::strtoull(processes, nullptr, 10));
  armed = true;
  const int code = real_main(argc, argv, environment);
  armed = false;
  page->main_ended = 1;
  return code;
}

// Without a file to share, a page of its own does.
__attribute__((constructor)) void Begin() {
  const char* const path = std::getenv("NG_FAULT_PAGE");
  const char* const text = std::getenv("NG_FAULT");
  LookUpAll();
  if (path == nullptr && text == nullptr) return;
  const int fd = path == nullptr ? -1 : open(path, O_RDWR | O_CLOEXEC);
  if (path != nullptr && fd < 0) return;
  void* const memory = mmap(nullptr, sizeof(FaultPage), PROT_READ | PROT_WRITE,
                            MAP_SHARED | (path == nullptr ? MAP_ANONYMOUS : 0), fd, 0);
  if (fd >= 0) close(fd);
  if (memory == MAP_FAILED) return;
  page = static_cast<FaultPage*>(memory);
  if (text != nullptr) ReadPlan(text);
}

}  // namespace
}  // namespace ng::faults

using namespace ng::faults;  // NOLINT(google-build-using-namespace): C functions have no namespace

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {

int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv, void (*init)(),
                      void (*fini)(), void (*rtld_fini)(), void* stack_end) {
  using Start =
      int (*)(int (*)(int, char**, char**), int, char**, void (*)(), void (*)(), void (*)(), void*);
  real_main = main;
  return LookUp<Start>("__libc_start_main")(CountedMain, argc, argv, init, fini, rtld_fini,
                                            stack_end);
}

// --- Memory. A null pointer and ENOMEM, whatever error the plan names.

void* malloc(size_t size) {
  return Allocate(size, [&] { return __libc_malloc(size); });
}
void* calloc(size_t count, size_t size) {
  return Allocate(count * size, [&] { return __libc_calloc(count, size); });
}
void* realloc(void* memory, size_t size) {
  const auto before = static_cast<int64_t>(malloc_usable_size(memory));
  void* const grown = Allocate(size, [&] { return __libc_realloc(memory, size); });
  if (grown != nullptr) held -= before;
  return grown;
}
void* memalign(size_t alignment, size_t size) {
  return Allocate(size, [&] { return __libc_memalign(alignment, size); });
}
void free(void* memory) {
  held -= static_cast<int64_t>(malloc_usable_size(memory));
  __libc_free(memory);
}
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void** memory, size_t alignment, size_t size) {
  void* const allocated = memalign(alignment, size);
  if (allocated == nullptr) return ENOMEM;
  *memory = allocated;
  return 0;
}

void* mmap(void* address, size_t size, int protection, int flags, int fd, off_t offset) {
  return Through<void*>(kMmap, {fd}, MAP_FAILED, [&] {
    return NG_NEXT(mmap)(address, size, protection, flags, fd, offset);
  });
}
void* mmap64(void* address, size_t size, int protection, int flags, int fd, off_t offset) {
  return mmap(address, size, protection, flags, fd, offset);
}

// --- Files

int openat(int folder, const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode =
      static_cast<mode_t>((flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, int) : 0);
  va_end(more);
  return Through(kOpen, {-1, path}, -1, [&] { return NG_NEXT(openat)(folder, path, flags, mode); });
}
int openat64(int folder, const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode =
      static_cast<mode_t>((flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, int) : 0);
  va_end(more);
  return openat(folder, path, flags, mode);
}
int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode =
      static_cast<mode_t>((flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, int) : 0);
  va_end(more);
  return openat(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode =
      static_cast<mode_t>((flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, int) : 0);
  va_end(more);
  return openat(AT_FDCWD, path, flags, mode);
}
FILE* fopen(const char* path, const char* mode) {
  return Through<FILE*>(kOpen, {-1, path}, nullptr, [&] { return NG_NEXT(fopen)(path, mode); });
}
FILE* fopen64(const char* path, const char* mode) { return fopen(path, mode); }

ssize_t read(int fd, void* bytes, size_t size) {
  const int error = Strike(kRead, {fd}, &size);
  if (error == 0) return NG_NEXT(read)(fd, bytes, size);
  errno = error;
  return -1;
}
ssize_t pread(int fd, void* bytes, size_t size, off_t offset) {
  const int error = Strike(kRead, {fd}, &size);
  if (error == 0) return NG_NEXT(pread)(fd, bytes, size, offset);
  errno = error;
  return -1;
}
ssize_t pread64(int fd, void* bytes, size_t size, off_t offset) {
  return pread(fd, bytes, size, offset);
}
ssize_t write(int fd, const void* bytes, size_t size) {
  const int error = Strike(kWrite, {fd}, &size);
  if (error == 0) return NG_NEXT(write)(fd, bytes, size);
  errno = error;
  return -1;
}
ssize_t pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  const int error = Strike(kWrite, {fd}, &size);
  if (error == 0) return NG_NEXT(pwrite)(fd, bytes, size, offset);
  errno = error;
  return -1;
}
ssize_t pwrite64(int fd, const void* bytes, size_t size, off_t offset) {
  return pwrite(fd, bytes, size, offset);
}

// Linux gives the descriptor back whatever close answers.
int close(int fd) {
  const int error = Strike(kClose, {fd});
  const int result = NG_NEXT(close)(fd);
  if (error == 0) return result;
  errno = error;
  return -1;
}

int fstatat(int folder, const char* path, struct stat* out, int flags) {
  return Through(kStat, {-1, path}, -1, [&] { return NG_NEXT(fstatat)(folder, path, out, flags); });
}
int fstatat64(int folder, const char* path, struct stat64* out, int flags) {
  return fstatat(folder, path, reinterpret_cast<struct stat*>(out), flags);
}
int stat(const char* path, struct stat* out) { return fstatat(AT_FDCWD, path, out, 0); }
int stat64(const char* path, struct stat64* out) {
  return stat(path, reinterpret_cast<struct stat*>(out));
}
int lstat(const char* path, struct stat* out) {
  return fstatat(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}
int lstat64(const char* path, struct stat64* out) {
  return lstat(path, reinterpret_cast<struct stat*>(out));
}
int fstat(int fd, struct stat* out) {
  return Through(kStat, {fd}, -1, [&] { return NG_NEXT(fstat)(fd, out); });
}
int fstat64(int fd, struct stat64* out) { return fstat(fd, reinterpret_cast<struct stat*>(out)); }

int rename(const char* from, const char* to) {
  return Through(kRename, {-1, to}, -1, [&] { return NG_NEXT(rename)(from, to); });
}
int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) {
  return Through(kLink, {-1, to}, -1,
                 [&] { return NG_NEXT(linkat)(from_folder, from, to_folder, to, flags); });
}
int link(const char* from, const char* to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }
int unlink(const char* path) {
  return Through(kUnlink, {-1, path}, -1, [&] { return NG_NEXT(unlink)(path); });
}
int fchmod(int fd, mode_t mode) {
  return Through(kChmod, {fd}, -1, [&] { return NG_NEXT(fchmod)(fd, mode); });
}
int chmod(const char* path, mode_t mode) {
  return Through(kChmod, {-1, path}, -1, [&] { return NG_NEXT(chmod)(path, mode); });
}

DIR* opendir(const char* path) {
  return Through<DIR*>(kList, {-1, path}, nullptr, [&] { return NG_NEXT(opendir)(path); });
}
struct dirent* readdir(DIR* folder) {
  return Through<struct dirent*>(kList, {dirfd(folder)}, nullptr,
                                 [&] { return NG_NEXT(readdir)(folder); });
}
struct dirent64* readdir64(DIR* folder) {
  return reinterpret_cast<struct dirent64*>(readdir(folder));
}

// --- Threads, processes, signals

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) {
  const int error = Strike(kThread, {});
  if (error != 0) return error;
  return Quietly([&] {
    if (!IsOfOneTbb(start)) return NG_NEXT(pthread_create)(thread, attributes, start, argument);
    auto* const own = static_cast<Start*>(__libc_malloc(sizeof(Start)));
    *own = {start, argument};
    return NG_NEXT(pthread_create)(thread, attributes, RunSpared, own);
  });
}
int pipe2(int ends[2], int flags) {
  return Through(kPipe, {}, -1, [&] { return NG_NEXT(pipe2)(ends, flags); });
}
int pipe(int ends[2]) { return pipe2(ends, 0); }
int poll(pollfd* fds, nfds_t n, int timeout) {
  const int error = Strike(kPoll, {});
  if (error == 0) return NG_NEXT(poll)(fds, n, timeout);
  errno = error;
  return -1;
}
int ppoll(pollfd* fds, nfds_t n, const timespec* timeout, const sigset_t* mask) {
  const int error = Strike(kPoll, {});
  if (error == 0) return NG_NEXT(ppoll)(fds, n, timeout, mask);
  errno = error;
  return -1;
}
pid_t fork() {
  const int error = Strike(kFork, {});
  if (error == 0) return NG_NEXT(fork)();
  errno = error;
  return -1;
}
int posix_spawn(pid_t* child, const char* path, const posix_spawn_file_actions_t* actions,
                const posix_spawnattr_t* attributes, char* const argv[], char* const envp[]) {
  const int error = Strike(kFork, {-1, path});
  if (error != 0) return error;
  return Quietly(
      [&] { return NG_NEXT(posix_spawn)(child, path, actions, attributes, argv, envp); });
}
pid_t wait4(pid_t child, int* status, int options, struct rusage* usage) {
  const int error = Strike(kWait, {});
  if (error == 0) return NG_NEXT(wait4)(child, status, options, usage);
  errno = error;
  return -1;
}
pid_t waitpid(pid_t child, int* status, int options) {
  return wait4(child, status, options, nullptr);
}

int sigaction(int signal, const struct sigaction* action, struct sigaction* old) {
  const int result = Quietly([&] { return NG_NEXT(sigaction)(signal, action, old); });
  if (result != 0 || page == nullptr || action == nullptr) return result;
  const bool handled = action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN;
  const uint64_t bit = uint64_t{1} << signal;
  if (handled) {
    page->handled |= bit;
  } else {
    page->handled &= ~bit;
  }
  return result;
}
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
