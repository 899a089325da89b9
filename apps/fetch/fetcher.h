// Fetches the files of a plan, several at once.
#ifndef NG_APPS_FETCH_FETCHER_H_
#define NG_APPS_FETCH_FETCHER_H_

#include "apps/fetch/file_fetch.h"
#include "apps/fetch/plan.h"
#include "apps/fetch/progress.h"
#include "ng/status.h"

namespace ng::fetch {

// Ends with the first error; what has come of other files by then is kept. Errors: those of
// FileFetch::Step; InterruptedError.
absl::Status FetchFiles(const FetchContext& context, const Plan& plan, int connections,
                        FetchProgress* progress);

}  // namespace ng::fetch

#endif  // NG_APPS_FETCH_FETCHER_H_
