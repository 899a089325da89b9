// What the campaign and the library that it preloads into a program say to each other.
//
// The plan goes in by the environment: NG_FAULT="write:3:ENOSPC,read:1+:short". An entry is
// CALL:NTH:EFFECT or, from the Nth on, CALL:NTH+:EFFECT. CALL is one of kCallNames. EFFECT is an
// error (ENOSPC, or any of kErrors), `short` (half of what is read or written), `byte` (one byte of
// it) or a signal (SIGINT), which the program sends to itself before it goes on with the call.
// Calls are counted from the beginning of main to its end, over all threads.
//
// malloc:NTH+ is a limit: from the Nth on, no more memory may be held than then.
//
// NG_FAULT_PROCESSES="3" is a limit of processes and threads, from the beginning of main on.
//
// What happened comes out by a file, mapped by both: NG_FAULT_PAGE names it, where it is given.
#ifndef NG_TESTS_FAULTS_FAULT_PAGE_H_
#define NG_TESTS_FAULTS_FAULT_PAGE_H_

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>

namespace ng::faults {

enum CallKind {
  kOpen,   // open, openat, fopen
  kRead,   // read, pread
  kWrite,  // write, pwrite
  kStat,   // stat, lstat, fstat, fstatat
  kClose,
  kRename,
  kLink,  // link, linkat
  kUnlink,
  kChmod,  // chmod, fchmod
  kMmap,
  kThread,  // pthread_create
  kPipe,    // pipe, pipe2
  kPoll,    // poll, ppoll
  kList,    // opendir, readdir
  kFork,    // fork, posix_spawn
  kWait,    // wait4, waitpid
  kMalloc,  // malloc and its like, so operator new too
  kCallKinds,
};

inline constexpr std::array<const char*, kCallKinds> kCallNames = {
    "open", "read",   "write", "stat", "close", "rename", "link", "unlink", "chmod",
    "mmap", "thread", "pipe",  "poll", "list",  "fork",   "wait", "malloc"};

struct Effect {
  const char* name;
  int value;
};

inline constexpr Effect kErrors[] = {
    {"ENOSPC", ENOSPC}, {"EIO", EIO},       {"EINTR", EINTR},   {"EMFILE", EMFILE},
    {"ENFILE", ENFILE}, {"EAGAIN", EAGAIN}, {"ENOMEM", ENOMEM}, {"EACCES", EACCES},
    {"EPERM", EPERM},   {"EDQUOT", EDQUOT}, {"EROFS", EROFS},   {"EOPNOTSUPP", EOPNOTSUPP},
    {"EXDEV", EXDEV},   {"ENOENT", ENOENT}, {"EPIPE", EPIPE}};
inline constexpr Effect kSignals[] = {
    {"SIGINT", SIGINT}, {"SIGTERM", SIGTERM}, {"SIGHUP", SIGHUP}, {"SIGQUIT", SIGQUIT}};

struct FaultPage {
  std::atomic<uint32_t> main_began;
  std::atomic<uint32_t> main_ended;
  std::atomic<uint64_t> handled;  // bit n: signal n has a handler
  std::array<std::atomic<uint64_t>, kCallKinds> counts;
  std::atomic<uint64_t> n_struck;  // calls that got an error or less than they asked for
  std::array<char, 1024> where;    // the file of the first of them; empty: none is known
};

}  // namespace ng::faults

#endif  // NG_TESTS_FAULTS_FAULT_PAGE_H_
