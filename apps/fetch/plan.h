// What is to be fetched, and what of it is there.
#ifndef NG_APPS_FETCH_PLAN_H_
#define NG_APPS_FETCH_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "apps/fetch/cache/layout.h"
#include "apps/fetch/command_line.h"
#include "apps/fetch/hub/listing.h"
#include "apps/fetch/hub/settings.h"
#include "apps/fetch/web/exchange.h"
#include "ng/status.h"

namespace ng::fetch {

struct PlannedFile {
  RepoFile file;
  bool is_there = false;
  int64_t n_bytes = 0;  // that are there, of it or of its beginning
};

struct Plan {
  std::string commit;
  std::vector<PlannedFile> files;

  int64_t n_all() const;      // bytes of all files
  int64_t n_missing() const;  // of those that are not there
};

// Asks the hub for the list, and where it must for the index. Errors: those of ReadListing,
// ChooseFiles and RefusalOf; InterruptedError.
absl::StatusOr<Plan> MakePlan(Exchanges& web, const HubSettings& settings, const CommandLine& line,
                              const RepoCache& cache);

// A line for each file: its size, what of it is there, its path.
std::string TextOf(const Plan& plan, const CommandLine& line, const HubSettings& settings);

// Errors: LimitError: less is free than the plan needs; OutputError.
absl::Status CheckRoom(const Plan& plan, const HubSettings& settings);

}  // namespace ng::fetch

#endif  // NG_APPS_FETCH_PLAN_H_
