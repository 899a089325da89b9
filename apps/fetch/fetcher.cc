#include "apps/fetch/fetcher.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace ng::fetch {

absl::Status FetchFiles(const FetchContext& context, const Plan& plan, int connections,
                        FetchProgress* progress) {
  constexpr int kWaitMs = 100;
  FetchState done = {.n_all = plan.n_all(), .n_files = static_cast<int>(plan.files.size())};
  std::vector<std::unique_ptr<FileFetch>> active;
  size_t next = 0;
  while (next < plan.files.size() || !active.empty()) {
    while (next < plan.files.size() && active.size() < static_cast<size_t>(connections)) {
      active.push_back(std::make_unique<FileFetch>(context, plan.files[next++].file));
    }
    FetchState state = done;
    bool busy = false;
    for (std::unique_ptr<FileFetch>& fetch : active) {
      NG_ASSIGN_OR_RETURN(const bool is_there, fetch->Step());
      state.n_bytes += fetch->n_bytes();
      state.n_came += fetch->n_came();
      busy |= fetch->is_busy() || is_there;
      if (!is_there) continue;
      done.n_bytes += fetch->n_bytes();
      done.n_came += fetch->n_came();
      state.n_done = ++done.n_done;
      if (fetch->n_came() > 0) progress->Done(fetch->file().path, fetch->n_bytes());
      fetch.reset();
    }
    std::erase(active, nullptr);
    progress->Show(state, FetchProgress::Clock::now());
    NG_RETURN_IF_ERROR(context.web.Wait(busy ? 0 : kWaitMs));
  }
  return absl::OkStatus();
}

}  // namespace ng::fetch
