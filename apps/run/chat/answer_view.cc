#include "apps/run/chat/answer_view.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/common/columns.h"
#include "apps/common/terminal_text.h"

namespace ng::run {
std::string Dim(std::string_view text, const ViewStyle& style) {
  const absl::string_view plain(text.data(), text.size());
  return style.colors && !text.empty() ? absl::StrCat("\033[2m", plain, "\033[0m")
                                       : std::string(text);
}

AnswerView::AnswerView(const ViewStyle& style, std::string_view prompt_end, std::string_view said)
    : style_(style), thoughts_(prompt_end) {
  for (const Piece& piece : thoughts_.Push(said)) {
    if (piece.thought) thought_ += piece.text;
  }
}

std::string AnswerView::Show(const std::vector<Piece>& pieces) {
  std::string shown;
  for (const Piece& piece : pieces) {
    if (piece.thought) thought_ += piece.text;
    if (!style_.terminal) {
      shown += piece.text;
    } else if (piece.thought && style_.folded) {
      if (!folding_) shown += Flush() + Dim("(thinking)", style_);
      folding_ = true;
    } else if (piece.thought) {
      shown += InLines(piece.text, /*dim=*/true);
    } else {
      shown += EndFold();
      std::string_view text = piece.text;
      if (drop_blanks_) {
        text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
      }
      if (!text.empty()) drop_blanks_ = false;
      shown += InLines(text, /*dim=*/false);
    }
  }
  if (folding_ && !thoughts_.within()) shown += EndFold();
  return shown;
}

std::string AnswerView::Flush() {
  const std::string held = wrap_.Flush();
  return dim_ ? Dim(held, style_) : held;
}

std::string AnswerView::InLines(std::string_view text, bool dim) {
  std::string shown = dim == dim_ ? "" : Flush();
  dim_ = dim;
  const std::string lines = wrap_.Push(TerminalText(text), style_.columns ? style_.columns() : 0);
  return shown + (dim ? Dim(lines, style_) : lines);
}

std::string AnswerView::EndFold() {
  if (!folding_) return "";
  folding_ = false;
  drop_blanks_ = true;
  const std::string line =
      absl::StrCat("(", Counted(n_thought_tokens_, "token"), " of thought, /think shows them)");
  wrap_.BeginLine();
  return (style_.moves ? "\r\033[K" : "\n") + Dim(line, style_) + "\n";
}

std::string AnswerView::Noted(std::string shown) {
  if (!shown.empty()) ends_line_ = shown.ends_with('\n');
  return shown;
}

std::string AnswerView::Push(std::string_view text) {
  const std::vector<Piece> pieces = thoughts_.Push(text);
  if (thoughts_.within() || (!pieces.empty() && pieces.front().thought)) ++n_thought_tokens_;
  return Noted(Show(pieces));
}

std::string AnswerView::Finish() {
  std::string last = Show(thoughts_.Finish());
  last += Flush();
  last += EndFold();
  const std::string rest = Noted(std::move(last));
  // Of a file the text is what it is.
  return ends_line_ && style_.terminal ? rest : rest + "\n";
}

std::string StatusLine(const TurnFigures& figures, size_t columns) {
  std::vector<std::string> parts;
  const auto rate = [](int64_t tokens, double seconds) {
    return seconds > 0.0 && tokens > 0
               ? absl::StrFormat(", %.1f/s", static_cast<double>(tokens) / seconds)
               : std::string();
  };
  switch (figures.stop_reason) {
    case StopReason::kMaxNewTokens:
      parts.emplace_back(figures.full ? absl::StrCat("cut, ", kFullHelp) : "cut, /more goes on");
      break;
    case StopReason::kInterrupted:
      parts.emplace_back("stopped, /more goes on");
      break;
    case StopReason::kStage:
    case StopReason::kStopText:
    case StopReason::kEot:
    case StopReason::kError:
      break;
  }
  const size_t least = parts.size() + 1;
  parts.push_back(absl::StrCat("context ", figures.length, " of ", figures.capacity, ", ",
                               figures.capacity - figures.length, " left"));
  const Timings& timings = figures.timings;
  parts.push_back(absl::StrCat(Counted(figures.n_answer, "token"),
                               rate(timings.decode_tokens, timings.decode_s)));
  parts.push_back(absl::StrCat("prefill ", timings.prefill_tokens,
                               rate(timings.prefill_tokens, timings.prefill_s)));
  parts.push_back(absl::StrCat("seed ", figures.seed));
  std::string line;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string more = absl::StrCat(line.empty() ? "" : " | ", parts[i]);
    if (i >= least && line.size() + more.size() + 2 > columns) break;
    line += more;
  }
  return absl::StrCat("[", line, "]");
}

}  // namespace ng::run
