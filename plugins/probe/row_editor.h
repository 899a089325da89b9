// What the probes share that edit rows: which points and positions an option names, where a prompt
// ends, and what to say at the end of a run.
#ifndef NG_PLUGINS_PROBE_ROW_EDITOR_H_
#define NG_PLUGINS_PROBE_ROW_EDITOR_H_

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ng/probe.h"
#include "ng/safetensors.h"

namespace ng {

// The points that match the patterns of an option, in the model's order. Errors: UsageError that
// begins with `key`, where a pattern matches none or there is no pattern.
inline absl::StatusOr<std::vector<PointShape>> NamedPoints(
    const ProbeModel& model, std::span<const std::string_view> patterns, const std::string& key) {
  if (patterns.empty()) {
    return UsageError(key + " is empty, must be names of points, such as layer0.out");
  }
  std::vector<PointShape> named;
  for (const std::string_view pattern : patterns) {
    auto points = ChoosePoints(model.points, pattern);
    if (!points.ok()) return Annotate(points.status(), key + ": ");
    named.insert(named.end(), points->begin(), points->end());
  }
  std::vector<PointShape> ordered;
  for (const PointShape& point : model.points) {
    if (std::ranges::count(named, point.at, &PointShape::at) > 0) ordered.push_back(point);
  }
  return ordered;
}

// The file that an option names. Errors: UsageError for none, ModelFileError.
inline absl::StatusOr<SafetensorsReader> OpenNamed(std::string_view path, const std::string& key) {
  if (path.empty()) return UsageError(key + " is empty, must be the path of a safetensors file");
  absl::StatusOr<SafetensorsReader> file = SafetensorsReader::Open(std::string(path));
  return file.ok() ? std::move(file) : Annotate(file.status(), key + ": ");
}

// Positions of a sequence: "all", "prompt", "answer", a position, or a range "first..last". A
// negative one counts from the prompt's end: -1 is its last token.
class Positions {
 public:
  // Errors: UsageError that begins with `key`.
  static absl::StatusOr<Positions> Parse(std::span<const std::string_view> items,
                                         const std::string& key) {
    Positions positions;
    for (const std::string_view item : items) {
      const std::optional<Range> range = ParseRange(item);
      if (!range) {
        return UsageError(absl::StrCat(
            key, ": '", absl::string_view(item.data(), item.size()),
            "' is no position, must be all, prompt, answer, a number, or a range as 2..5; -1 is "
            "the prompt's last token"));
      }
      positions.ranges_.push_back(*range);
    }
    if (items.empty()) return UsageError(key + " is empty, must be all, or positions");
    return positions;
  }

  // Whether the prompt's length is needed to know them.
  bool FromPrompt() const {
    return std::ranges::any_of(ranges_,
                               [](const Range& r) { return r.first.from_end || r.last.from_end; });
  }
  bool Has(int64_t pos, int64_t prompt_len) const {
    return std::ranges::any_of(ranges_, [&](const Range& range) {
      return pos >= range.first.At(prompt_len) && pos <= range.last.At(prompt_len);
    });
  }
  // The last one that is named by its number; -1: none is.
  int64_t LastNumber() const {
    int64_t last = -1;
    for (const Range& range : ranges_) {
      if (!range.last.from_end && range.last.value != kNoEnd) {
        last = std::max(last, range.last.value);
      }
    }
    return last;
  }

 private:
  static constexpr int64_t kNoEnd = std::numeric_limits<int64_t>::max();
  struct Place {
    int64_t value = 0;
    bool from_end = false;  // counted from the prompt's length
    int64_t At(int64_t prompt_len) const { return from_end ? prompt_len + value : value; }
  };
  struct Range {
    Place first;
    Place last;
  };

  static std::optional<Place> ParsePlace(std::string_view text) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return Place{value, value < 0};
  }
  static std::optional<Range> ParseRange(std::string_view item) {
    if (item == "all") return Range{{0, false}, {kNoEnd, false}};
    if (item == "prompt") return Range{{0, false}, {-1, true}};
    if (item == "answer") return Range{{0, true}, {kNoEnd, false}};
    const size_t dots = item.find("..");
    const std::optional<Place> first = ParsePlace(item.substr(0, dots));
    const std::optional<Place> last = dots == item.npos ? first : ParsePlace(item.substr(dots + 2));
    if (!first || !last) return std::nullopt;
    if (first->from_end == last->from_end && first->value > last->value) return std::nullopt;
    return Range{*first, *last};
  }

  std::vector<Range> ranges_;
};

// What a RowEditor edits.
struct EditedRows {
  std::vector<PointShape> points;
  Positions positions;
  std::vector<std::string> reads = {};      // files
  std::string key;                          // of its options: "probe.steer"
  bool may_miss = false;                    // a run in which no row is edited is no error
  const std::atomic<bool>* stop = nullptr;  // that of ProbeModel: what was ended misses nothing
};

// The options that all probes have that edit rows.
struct EditOptions {
  std::span<const std::string_view> points = {};  // patterns
  std::span<const std::string_view> positions = {};
  bool may_miss = false;
};

// Errors: UsageError that begins with `key` and the option's name.
inline absl::StatusOr<EditedRows> ReadEditedRows(const ProbeModel& model,
                                                 const EditOptions& options,
                                                 const std::string& key) {
  absl::StatusOr<std::vector<PointShape>> points =
      NamedPoints(model, options.points, key + ".points");
  if (!points.ok()) return points.status();
  absl::StatusOr<Positions> positions = Positions::Parse(options.positions, key + ".positions");
  if (!positions.ok()) return positions.status();
  return EditedRows{.points = *std::move(points),
                    .positions = *std::move(positions),
                    .key = key,
                    .may_miss = options.may_miss,
                    .stop = model.stop};
}

// Edits the rows of some points at some positions. A run whose prompts have all been fed and that
// has edited none of them is an error: most likely the positions are not those that were meant.
class RowEditor : public Probe {
 public:
  explicit RowEditor(EditedRows rows) : rows_(std::move(rows)) {}

  ProbeUse Use() const override {
    ProbeUse use;
    for (const PointShape& point : rows_.points) use.points.push_back({point.at, /*edits=*/true});
    use.reads = rows_.reads;
    return use;
  }

  absl::Status Begin(const ProbeRequest& request) override {
    const auto index = static_cast<size_t>(request.index);
    if (prompt_lens_.size() <= index) prompt_lens_.resize(index + 1);
    const int64_t prompt_len = std::ssize(request.prompt_ids);
    prompt_lens_[index] = prompt_len;
    // What a snapshot or an earlier turn holds was edited when it was fed.
    for (int64_t pos = 0; pos < request.n_held && !hits_; ++pos) {
      hits_ = rows_.positions.Has(pos, prompt_len);
    }
    return absl::OkStatus();
  }

  absl::Status OnPoint(const PointRows& rows) override {
    const auto point = std::ranges::find(rows_.points, rows.at, &PointShape::at);
    const auto index = static_cast<size_t>(point - rows_.points.begin());
    for (int64_t row = 0; row < rows.n_rows(); ++row) {
      const TokenRow& token = rows.tokens[static_cast<size_t>(row)];
      if (token.request < 0 && rows_.positions.FromPrompt()) {
        return UsageError(
            "its positions are counted from a prompt's end, and what is fed step by "
            "step has no prompt");
      }
      const int64_t prompt_len =
          token.request < 0 ? 0 : prompt_lens_[static_cast<size_t>(token.request)];
      was_fed_ = was_fed_ || token.pos + 1 >= prompt_len;
      if (!rows_.positions.Has(token.pos, prompt_len)) continue;
      if (EditRow(index, token.pos, rows.Row(row))) ++n_edited_;
    }
    return absl::OkStatus();
  }

  absl::Status EndRun(const ProbeRun& run) override {
    const bool stopped = rows_.stop != nullptr && rows_.stop->load();
    const bool missed = was_fed_ && !hits_ && n_edited_ == 0;
    if (!missed || stopped || run.failed || rows_.may_miss) return absl::OkStatus();
    return UsageError(
        absl::StrCat("positions: no row of the run is at one of them, so nothing was edited; ",
                     rows_.key, ".may_miss=true lets such a run be"));
  }

  std::string Report() const override {
    return absl::StrCat("edited ", n_edited_, " rows at ", rows_.points.size(),
                        rows_.points.size() == 1 ? " point" : " points");
  }

 protected:
  const std::vector<PointShape>& points() const { return rows_.points; }
  // Whether there is something to do to the row of points()[point]. row: [values]
  virtual bool EditRow(size_t point, int64_t pos, float* row) = 0;

 private:
  const EditedRows rows_;
  std::vector<int64_t> prompt_lens_;  // [n_requests]
  bool was_fed_ = false;              // a whole prompt, or what has none
  bool hits_ = false;                 // a row that had been fed before is at one of the positions
  int64_t n_edited_ = 0;
};

}  // namespace ng

#endif  // NG_PLUGINS_PROBE_ROW_EDITOR_H_
