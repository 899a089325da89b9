#include "apps/fetch/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/common/columns.h"
#include "apps/common/terminal.h"
#include "apps/common/terminal_text.h"
#include "ng/status.h"

namespace ng::fetch {
namespace {

bool ShowsLine() {
  return isatty(STDERR_FILENO) != 0 && TerminalTakesEscapes() && HowLoud() != Loudness::kQuiet;
}

// The columns of the terminal that stderr is.
size_t Columns() {
  constexpr size_t kUsual = 80;
  winsize size = {};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kUsual;
}

}  // namespace

std::string BytesText(int64_t n_bytes) {
  constexpr double kStep = 1000.0;
  constexpr double kRounded = 999.95;  // from here on one shows the next unit
  if (n_bytes < 1000) return Counted(n_bytes, "byte");
  double value = static_cast<double>(n_bytes) / kStep;
  const char* unit = "kB";
  for (const char* const next : {"MB", "GB", "TB"}) {
    if (value < kRounded) break;
    value /= kStep;
    unit = next;
  }
  return absl::StrFormat("%.1f %s", value, unit);
}

std::string TimeText(int64_t seconds) {
  constexpr int64_t kMinute = 60;
  constexpr int64_t kHour = 3600;
  if (seconds < kMinute) return absl::StrCat(seconds, " s");
  const int64_t rest = seconds % kHour;
  if (seconds < kHour) return absl::StrFormat("%d:%02d", rest / kMinute, rest % kMinute);
  return absl::StrFormat("%d:%02d:%02d", seconds / kHour, rest / kMinute, rest % kMinute);
}

FetchProgress::FetchProgress(std::string_view program)
    : program_(program), terminal_(ShowsLine()) {}

FetchProgress::~FetchProgress() { Clear(); }

std::string FetchProgress::Line(const FetchState& state, Clock::time_point now) {
  constexpr std::chrono::seconds kSpan(5);
  constexpr int64_t kHundred = 100;
  came_.emplace_back(now, state.n_came);
  while (came_.size() > 2 && came_[1].first + kSpan < now) came_.pop_front();
  const std::chrono::duration<double> took = now - came_.front().first;
  const auto came = static_cast<double>(state.n_came - came_.front().second);
  const double speed = took.count() > 0.0 ? came / took.count() : 0.0;
  const int64_t all = std::max<int64_t>(state.n_all, 1);
  std::string line =
      absl::StrCat(state.n_done, " of ", Counted(state.n_files, "file"), ", ",
                   static_cast<int64_t>(static_cast<double>(state.n_bytes) /
                                        static_cast<double>(all) * static_cast<double>(kHundred)),
                   " % of ", BytesText(state.n_all));
  if (speed < 1.0) return line;
  absl::StrAppend(&line, ", ", BytesText(static_cast<int64_t>(speed)), "/s");
  const double left = static_cast<double>(state.n_all - state.n_bytes) / speed;
  return absl::StrCat(line, ", ", TimeText(static_cast<int64_t>(left)), " left");
}

void FetchProgress::Show(const FetchState& state, Clock::time_point now) {
  constexpr std::chrono::milliseconds kBetween(100);
  constexpr int64_t kTenths = 10;
  constexpr int64_t kLarge = 100000000;
  if (terminal_) {
    if (now < next_) return;
    next_ = now + kBetween;
    WriteStyledStderr(absl::StrCat("\r\033[K", Line(state, now).substr(0, Columns() - 1)));
    shown_ = true;
    return;
  }
  if (state.n_all < kLarge || HowLoud() == Loudness::kQuiet) return;
  const int64_t tenth = state.n_bytes / (state.n_all / kTenths + 1);
  if (tenth <= told_tenth_) return;
  told_tenth_ = tenth;
  WriteStderr(absl::StrCat(program_, ": ", Line(state, now), "\n"));
}

void FetchProgress::Done(const std::string& path, int64_t size) {
  if (HowLoud() == Loudness::kQuiet) return;
  Clear();
  WriteStderr(absl::StrCat(program_, ": ", TerminalText(path), ", ", BytesText(size), "\n"));
}

void FetchProgress::Tell(std::string_view text) {
  if (HowLoud() != Loudness::kVerbose) return;
  Clear();
  WriteStderr(absl::StrCat(program_, ": ", TerminalText(OneLine(text)), "\n"));
}

void FetchProgress::Clear() {
  if (!shown_) return;
  WriteStyledStderr("\r\033[K");
  shown_ = false;
  next_ = {};
}

}  // namespace ng::fetch
