// The threads that help a team: oneTBB's workers. The only file that knows oneTBB.
//
// Each engine has an arena of its own, so that what else a process does with oneTBB waits for none
// of its helpers, and takes none of them. What is the process's is kept in one place: the
// number of workers that oneTBB may have (the least of all live controls counts there, so there is
// one, of all engines together), and what a fork needs.
//
// oneTBB begins its workers itself, some of them on threads of its own, and ends the process where
// the system gives it none. So it is asked first: as many plain threads as are wanted begin at
// once, end, and oneTBB is told of as many as came.
#ifndef NG_CORE_MACHINE_HELPERS_H_
#define NG_CORE_MACHINE_HELPERS_H_

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "core/machine/team.h"

namespace ng {

class Helpers {
 public:
  // cpus: the CPU that each worker of the team keeps to, the caller's first; empty: they may move.
  Helpers(std::shared_ptr<Team> team, std::vector<int> cpus);
  // Dismisses them, and waits until they have left.
  ~Helpers();
  Helpers(const Helpers&) = delete;
  Helpers& operator=(const Helpers&) = delete;

  // [caller] Up to `n` helpers come to the team, soon after. Returns how many; where they are
  // fewer, *why is the reason. REQUIRES: n >= 1, and the team has none.
  int Begin(int n, std::exception_ptr* why);

  // [caller] The workers that could not be kept to their CPUs since the last call: a sentence each.
  std::vector<std::string> TakePinFaults();

 private:
  class Keeper;
  struct Shared;
  struct Arena;

  const std::vector<int> cpus_;
  const std::shared_ptr<Shared> shared_;
  std::unique_ptr<Arena> arena_;  // while they are there; the keeper's
  bool has_begun_ = false;
};

}  // namespace ng

#endif  // NG_CORE_MACHINE_HELPERS_H_
