#include "apps/common/screen_text.h"

#include <unicode/ubrk.h>
#include <unicode/uchar.h>
#include <unicode/utext.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "ng/utf8.h"

namespace ng {
namespace {

constexpr size_t kTab = 8;
constexpr UChar32 kEmojiStyle = 0xFE0F;  // what comes before it is shown as an emoji

bool IsAscii(char byte) { return static_cast<uint8_t>(byte) < 0x80; }

size_t ColumnsOfCodePoint(UChar32 c) {
  const auto is = [&](int32_t category) { return (U_GET_GC_MASK(c) & category) != 0; };
  constexpr UChar32 kSoftHyphen = 0xAD;
  if (is(U_GC_CC_MASK | U_GC_MN_MASK | U_GC_ME_MASK | U_GC_ZL_MASK | U_GC_ZP_MASK)) return 0;
  if (is(U_GC_CF_MASK)) return c == kSoftHyphen ? 1 : 0;
  if (c >= 0x1160 && c <= 0x11FF) return 0;  // the later parts of a Hangul syllable
  const int32_t width = u_getIntPropertyValue(c, UCHAR_EAST_ASIAN_WIDTH);
  return width == U_EA_FULLWIDTH || width == U_EA_WIDE ? 2 : 1;
}

// A cluster is as wide as its widest code point. Flags, and what is to be shown as an emoji, are as
// wide as emojis.
size_t ColumnsOfCluster(std::string_view text) {
  size_t columns = 0;
  int n_flag_letters = 0;
  for (int32_t i = 0; i < static_cast<int32_t>(text.size());) {
    UChar32 c = 0;
    U8_NEXT_OR_FFFD(text.data(), i, static_cast<int32_t>(text.size()), c);
    columns = std::max(columns, ColumnsOfCodePoint(c));
    n_flag_letters += u_hasBinaryProperty(c, UCHAR_REGIONAL_INDICATOR) ? 1 : 0;
    if (columns > 0 && (c == kEmojiStyle || n_flag_letters == 2)) columns = 2;
  }
  return columns;
}

// Finds where clusters end.
class ClusterBreaks {
 public:
  ClusterBreaks() {
    UErrorCode error = U_ZERO_ERROR;
    breaks_.reset(ubrk_open(UBRK_CHARACTER, "", nullptr, 0, &error));
  }
  // Appends the clusters of text[begin, end).
  void Find(std::string_view text, size_t begin, size_t end, std::vector<Cluster>* clusters) {
    UErrorCode error = U_ZERO_ERROR;
    const int64_t size = static_cast<int64_t>(end - begin);
    text_.reset(utext_openUTF8(text_.release(), text.data() + begin, size, &error));
    if (breaks_ != nullptr) ubrk_setUText(breaks_.get(), text_.get(), &error);
    size_t from = begin;
    while (from < end) {
      const int32_t next =
          U_SUCCESS(error) && breaks_ != nullptr ? ubrk_next(breaks_.get()) : UBRK_DONE;
      const size_t to = next == UBRK_DONE ? from + 1 : begin + static_cast<size_t>(next);
      clusters->push_back({from, to - from, ColumnsOfCluster(text.substr(from, to - from))});
      from = to;
    }
  }

 private:
  struct CloseBreaks {
    void operator()(UBreakIterator* breaks) const { ubrk_close(breaks); }
  };
  struct CloseText {
    void operator()(UText* text) const { utext_close(text); }
  };
  std::unique_ptr<UText, CloseText> text_;
  std::unique_ptr<UBreakIterator, CloseBreaks> breaks_;
};

bool IsBlankCluster(std::string_view text, const Cluster& cluster) {
  return cluster.size == 1 && (text[cluster.begin] == ' ' || text[cluster.begin] == '\t');
}

}  // namespace

std::vector<Cluster> ClustersOf(std::string_view text) {
  static thread_local ClusterBreaks breaks;
  std::vector<Cluster> clusters;
  clusters.reserve(text.size());
  const auto alone = [&](size_t i) {  // an ASCII character with nothing that could join it
    return IsAscii(text[i]) && (i + 1 == text.size() || IsAscii(text[i + 1]));
  };
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && !alone(end)) ++end;
    if (end > i) {
      // What is not ASCII may also join the character behind it.
      end = std::min(end + 1, text.size());
      breaks.Find(text, i, end, &clusters);
      i = end;
    } else {
      const bool control = text[i] < ' ' || text[i] == '\x7F';
      clusters.push_back({i, 1, control ? size_t{0} : size_t{1}});
      ++i;
    }
  }
  return clusters;
}

size_t ColumnBehind(std::string_view part, size_t column) {
  for (const Cluster& cluster : ClustersOf(part)) {
    const bool tab = part[cluster.begin] == '\t';
    column = tab ? (column / kTab + 1) * kTab : column + cluster.columns;
  }
  return column;
}

size_t ColumnsOf(std::string_view line) { return ColumnBehind(line, 0); }

std::string FoldedCase(std::string_view text) {
  std::string folded;
  for (int32_t i = 0; i < static_cast<int32_t>(text.size());) {
    UChar32 c = 0;
    U8_NEXT_OR_FFFD(text.data(), i, static_cast<int32_t>(text.size()), c);
    AppendUtf8(static_cast<char32_t>(u_foldCase(c, U_FOLD_CASE_DEFAULT)), &folded);
  }
  return folded;
}

std::string WordWrap::Emit(std::string_view blanks, std::string_view word) {
  const size_t behind = ColumnBehind(word, ColumnBehind(blanks, column_));
  const size_t columns = ColumnsOf(word);
  const bool begins = column_ == 0;
  if (behind <= columns_ || begins) {
    column_ = std::min(behind, columns_);
    return std::string(blanks) + std::string(word);
  }
  if (word.empty()) return "";  // blanks at the end of a line
  column_ = std::min(columns, columns_);
  return "\n" + std::string(word);
}

std::string WordWrap::Push(std::string_view text, size_t columns) {
  held_ += text;
  columns_ = columns;
  if (columns == 0) return std::exchange(held_, {});
  std::string shown;
  const std::vector<Cluster> clusters = ClustersOf(held_);
  const auto bytes = [&](size_t from, size_t to) {  // of the clusters [from, to)
    const size_t begin = from == clusters.size() ? held_.size() : clusters[from].begin;
    const size_t end = to == clusters.size() ? held_.size() : clusters[to].begin;
    return std::string_view(held_).substr(begin, end - begin);
  };
  const auto ends_line = [&](size_t i) { return held_[clusters[i].begin] == '\n'; };
  size_t done = 0;
  while (done < clusters.size()) {
    if (ends_line(done)) {
      shown += '\n';
      column_ = 0;
      in_long_ = false;
      ++done;
      continue;
    }
    size_t word = done;
    while (word < clusters.size() && IsBlankCluster(held_, clusters[word])) ++word;
    if (word > done) in_long_ = false;
    size_t end = word;
    bool whole = false;
    for (; end < clusters.size(); ++end) {
      const bool beside_wide =
          end > word && (clusters[end].columns == 2 || clusters[end - 1].columns == 2);
      whole = ends_line(end) || IsBlankCluster(held_, clusters[end]) || beside_wide;
      if (whole) break;
    }
    const std::string_view piece = bytes(word, end);
    if (!whole && !in_long_ && ColumnsOf(piece) <= columns_) break;  // the word may go on
    shown += in_long_ ? std::string(piece) : Emit(bytes(done, word), piece);
    if (in_long_) column_ = columns_;
    in_long_ = !whole;
    done = end;
  }
  held_.erase(0, done == clusters.size() ? held_.size() : clusters[done].begin);
  return shown;
}

std::string WordWrap::Flush() {
  std::string held = std::exchange(held_, {});
  if (columns_ == 0 || held.empty()) return held;
  const size_t word = std::min(held.find_first_not_of(" \t"), held.size());
  return Emit(std::string_view(held).substr(0, word), std::string_view(held).substr(word));
}

std::string WrappedText(std::string_view text, size_t columns) {
  WordWrap wrap;
  std::string shown = wrap.Push(text, columns);
  return shown + wrap.Flush();
}

}  // namespace ng
