#include "apps/fetch/plan.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/common/columns.h"
#include "apps/fetch/file_fetch.h"
#include "apps/fetch/hub/choice.h"
#include "apps/fetch/hub/refusal.h"
#include "apps/fetch/hub/urls.h"
#include "apps/fetch/progress.h"
#include "apps/fetch/web/call.h"

namespace ng::fetch {
namespace {

// A text that is wanted whole.
struct WantedText {
  std::string url;
  std::string name;  // what errors call it
  int64_t max_bytes = 0;
  int tries = 0;
};

absl::Status Pause(Exchanges& web, double seconds) {
  using Clock = std::chrono::steady_clock;
  constexpr double kMilliseconds = 1000.0;
  constexpr int kLookMs = 100;
  const auto until =
      Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(seconds * kMilliseconds));
  while (Clock::now() < until) NG_RETURN_IF_ERROR(web.Wait(kLookMs));
  return absl::OkStatus();
}

absl::StatusOr<std::string> GetText(Exchanges& web, const HubSettings& settings,
                                    const WantedText& wanted) {
  constexpr int kWaitMs = 1000;
  Patience patience(wanted.tries);
  for (;;) {
    std::string text;
    const BodySink sink = [&](const HttpAnswer&, std::string_view bytes) -> absl::Status {
      if (static_cast<int64_t>(text.size() + bytes.size()) > wanted.max_bytes) {
        return ModelFileError(
            absl::StrCat(wanted.name, ": is longer than ", wanted.max_bytes, " bytes"));
      }
      text += bytes;
      return absl::OkStatus();
    };
    Call call(web, settings, {.url = wanted.url}, sink);
    for (;;) {
      NG_ASSIGN_OR_RETURN(const bool ended, call.Step());
      if (ended) break;
      NG_RETURN_IF_ERROR(web.Wait(kWaitMs));
    }
    const HttpAnswer& answer = call.answer();
    NG_RETURN_IF_ERROR(answer.refused);
    if (answer.status == kHttpOk && answer.cut.empty()) return text;
    const bool token = call.from_hub() && !settings.token.empty();
    const absl::Status refusal = RefusalOf(answer, {wanted.name, HostOf(call.url()), token});
    const double seconds =
        IsPassing(answer) ? patience.AfterFailure(answer.retry_after_s, 0) : -1.0;
    if (seconds < 0.0) return refusal;
    NG_RETURN_IF_ERROR(Pause(web, seconds));
  }
}

PlannedFile Planned(const RepoCache& cache, const std::string& commit, const RepoFile& file) {
  PlannedFile planned = {.file = file};
  const std::string etag = ExpectedEtag(file);
  planned.is_there = IsThere(cache, commit, file) ||
                     (!etag.empty() && file.size >= 0 && SizeOfFile(cache.Blob(etag)) == file.size);
  if (planned.is_there) {
    planned.n_bytes = file.size;
  } else if (!etag.empty()) {
    const int64_t n_bytes = SizeOfFile(cache.Partial(etag));
    planned.n_bytes = n_bytes <= file.size ? std::max<int64_t>(n_bytes, 0) : 0;
  }
  return planned;
}

}  // namespace

int64_t Plan::n_all() const {
  int64_t n = 0;
  for (const PlannedFile& planned : files) n += std::max<int64_t>(planned.file.size, 0);
  return n;
}

int64_t Plan::n_missing() const {
  int64_t n = 0;
  for (const PlannedFile& planned : files) {
    n += std::max<int64_t>(planned.file.size - planned.n_bytes, 0);
  }
  return n;
}

absl::StatusOr<Plan> MakePlan(Exchanges& web, const HubSettings& settings, const CommandLine& line,
                              const RepoCache& cache) {
  constexpr int64_t kMostIndexBytes = int64_t{16} << 20;
  const std::string name = absl::StrCat(line.repository, "@", line.revision);
  NG_ASSIGN_OR_RETURN(const std::string json,
                      GetText(web, settings,
                              {ListingUrl(settings.endpoint, line.repository, line.revision), name,
                               kMostListingBytes, line.tries}));
  NG_ASSIGN_OR_RETURN(const Listing listing, ReadListing(json, name));
  const Wanted wanted = {line.repository, line.tag, line.include};
  std::vector<std::string> indexed;
  if (const RepoFile* const index = IndexToRead(listing, wanted)) {
    const std::string of = absl::StrCat(name, ": ", index->path);
    NG_ASSIGN_OR_RETURN(
        const std::string text,
        GetText(web, settings,
                {FileUrl(settings.endpoint, line.repository, listing.commit, index->path), of,
                 kMostIndexBytes, line.tries}));
    NG_ASSIGN_OR_RETURN(indexed, ReadIndex(text, of));
  }
  NG_ASSIGN_OR_RETURN(std::vector<RepoFile> files, ChooseFiles(listing, wanted, indexed));
  Plan plan = {.commit = listing.commit, .files = {}};
  for (const RepoFile& file : files) plan.files.push_back(Planned(cache, listing.commit, file));
  // The small ones first: a model without weights is none, and says so.
  std::ranges::stable_sort(plan.files, {},
                           [](const PlannedFile& planned) { return planned.file.size; });
  return plan;
}

std::string TextOf(const Plan& plan, const CommandLine& line, const HubSettings& settings) {
  std::string text = absl::StrCat(line.repository, "@", line.revision, " of ",
                                  HostOf(settings.endpoint), ", commit ", plan.commit, "\n");
  for (const PlannedFile& planned : plan.files) {
    const int64_t size = planned.file.size;
    const std::string state = planned.is_there      ? "is here"
                              : planned.n_bytes > 0 ? BytesText(planned.n_bytes) + " are here"
                                                    : "";
    absl::StrAppend(&text, absl::StrFormat("%12s  %-18s  %s\n", size < 0 ? "?" : BytesText(size),
                                           state, planned.file.path));
  }
  absl::StrAppend(&text, Counted(static_cast<int64_t>(plan.files.size()), "file"), ", ",
                  BytesText(plan.n_all()), ", to fetch: ", BytesText(plan.n_missing()), "\n");
  return text;
}

absl::Status CheckRoom(const Plan& plan, const HubSettings& settings) {
  NG_ASSIGN_OR_RETURN(const int64_t free, FreeBytes(settings.cache));
  if (plan.n_missing() <= free) return absl::OkStatus();
  return LimitError(absl::StrCat(settings.cache, ": the files need ", BytesText(plan.n_missing()),
                                 ", free: ", BytesText(free)));
}

}  // namespace ng::fetch
