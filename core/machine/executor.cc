#include "core/machine/executor.h"

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/machine/cpus.h"
#include "core/machine/helpers.h"
#include "core/machine/team.h"
#include "ng/status.h"

namespace ng {
namespace {

std::string Text(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    return "out of memory";
  } catch (const std::exception& caught) {
    return caught.what();
  }
}

// The helpers begin when they are first wanted. Where the system gives no more of them, those that
// there are do the work: every range is claimed by somebody, and no bit depends on by whom.
class TeamExecutor : public Executor {
 public:
  // cpus: the CPU that each worker keeps to, the caller's first; empty: they may move.
  TeamExecutor(int threads, int n_cpus, std::vector<int> cpus, Tell warning)
      : threads_(threads),
        most_helpers_(std::min(threads, n_cpus) - 1),
        first_cpu_(cpus.empty() ? -1 : cpus[0]),
        warning_(std::move(warning)),
        team_(std::make_shared<Team>(threads)),
        helpers_(team_, std::move(cpus)) {}
  TeamExecutor(const TeamExecutor&) = delete;
  TeamExecutor& operator=(const TeamExecutor&) = delete;

  int threads() const override { return threads_; }

  absl::Status Run(int64_t n_items, Task task, void* context) override {
    // The outer region fails too, for its task may not look at what it gets back.
    if (team_->IsInside()) {
      constexpr const char* kNested = "a parallel region inside another one: regions do not nest";
      team_->Fail(std::make_exception_ptr(std::logic_error(kNested)));
      return RuntimeError(kNested);
    }
    if (n_items <= 0) return absl::OkStatus();
    const int n_ranges = static_cast<int>(std::min<int64_t>(n_items, threads_));
    const int n_wanted = std::min(most_helpers_, n_ranges - 1);
    if (n_wanted > 0 && !team_->Rouse(n_wanted)) BeginHelpers();
    if (first_cpu_ >= 0) KeepToCpus();
    return team_->Run({task, context, n_items, n_ranges});
  }

 private:
  // Where the system gives fewer, no more are asked for later on.
  void BeginHelpers() {
    std::exception_ptr why;
    const int n_begun = helpers_.Begin(most_helpers_, &why);
    const int n_wanted = std::exchange(most_helpers_, n_begun);
    if (n_begun == n_wanted) return;
    Warn(absl::StrCat("run.threads: only ", n_begun + 1, " of ", n_wanted + 1,
                      " threads could be begun (", Text(why), "); the run goes on with them"));
  }

  // The calling thread is not the executor's, so it may go where it likes afterwards. But what it
  // reads is near the first core, and the others are taken.
  void KeepToCpus() {
    for (const std::string& fault : helpers_.TakePinFaults()) {
      Warn(absl::StrCat("run.pin: ", fault, "; the run goes on without"));
    }
    cpu_set_t may;
    if (sched_getcpu() == first_cpu_ || sched_getaffinity(0, sizeof(may), &may) != 0 ||
        !CPU_ISSET(first_cpu_, &may)) {
      return;
    }
    if (KeepThreadOn(first_cpu_)) sched_setaffinity(0, sizeof(may), &may);
  }

  void Warn(const std::string& text) const {
    if (warning_) warning_(text);
  }

  const int threads_;
  int most_helpers_;
  const int first_cpu_;  // of pinned workers; -1: they are not
  const Tell warning_;   // may be empty
  const std::shared_ptr<Team> team_;
  Helpers helpers_;
};

}  // namespace

std::unique_ptr<Executor> MakeExecutor(int threads, int n_cpus, Tell warning) {
  return std::make_unique<TeamExecutor>(threads, n_cpus, std::vector<int>(), std::move(warning));
}

std::unique_ptr<Executor> MakeExecutor(int threads, Tell warning) {
  return MakeExecutor(threads, AllowedCpus(), std::move(warning));
}

std::unique_ptr<Executor> MakePinnedExecutor(int threads, Tell warning) {
  std::vector<int> cpus = CpusByCore();
  const auto n_cpus = static_cast<int>(cpus.size());
  return std::make_unique<TeamExecutor>(threads, n_cpus, std::move(cpus), std::move(warning));
}

}  // namespace ng
