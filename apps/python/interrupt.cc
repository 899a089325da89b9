#include "apps/python/interrupt.h"

#include <unistd.h>

namespace ng::python {
namespace {

std::atomic<std::atomic<bool>*> g_flags[2];
struct sigaction g_python = {};  // the handler that was there

void OnSigint(int number, siginfo_t* info, void* context) {
  for (std::atomic<std::atomic<bool>*>& flag : g_flags) {
    if (std::atomic<bool>* const stop = flag.load()) stop->store(true);
  }
  if ((g_python.sa_flags & SA_SIGINFO) != 0) {
    g_python.sa_sigaction(number, info, context);
  } else {
    g_python.sa_handler(number);
  }
}

bool IsOurs(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == OnSigint;
}

bool IsFunction(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 ||
         (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

}  // namespace

StopOnSigint::StopOnSigint(std::atomic<bool>* first, std::atomic<bool>* second) {
  first->store(false);
  if (second != nullptr) second->store(false);
  if (gettid() != getpid()) return;
  struct sigaction now = {};
  if (sigaction(SIGINT, nullptr, &now) != 0 || !IsFunction(now)) return;
  listens_ = true;
  before_[0] = g_flags[0].exchange(first);
  before_[1] = g_flags[1].exchange(second);
  if (IsOurs(now)) return;
  g_python = now;
  struct sigaction ours = {};
  ours.sa_sigaction = OnSigint;
  ours.sa_flags = SA_SIGINFO | (now.sa_flags & (SA_ONSTACK | SA_RESTART));
  ours.sa_mask = now.sa_mask;
  installed_ = sigaction(SIGINT, &ours, nullptr) == 0;
}

StopOnSigint::~StopOnSigint() {
  if (!listens_) return;
  if (installed_) {
    // Python code that was called may have set another one, which stays.
    struct sigaction now = {};
    if (sigaction(SIGINT, nullptr, &now) == 0 && IsOurs(now)) sigaction(SIGINT, &g_python, nullptr);
  }
  g_flags[0].store(before_[0]);
  g_flags[1].store(before_[1]);
}

}  // namespace ng::python
