#include "core/conform/cache_script.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string_view>
#include <utility>

#include "core/conform/cache_rig.h"
#include "core/conform/kept_rows.h"
#include "core/conform/texts.h"
#include "ng/cache_capabilities.h"
#include "ng/conform/plain_tiles.h"

namespace ng::conform {
namespace {

constexpr int kTexts = 3;

// One script over one store and its model. Each check returns what is wrong, or nothing.
class Script {
 public:
  Script(CacheStore& store, const CacheSpec& spec, uint32_t ops, uint32_t seed)
      : store_(store),
        plan_(store.plan()),
        sharing_(CapabilityOf<PrefixSharing>(store)),
        images_(CapabilityOf<Snapshots>(store)),
        statistics_(CapabilityOf<Statistics>(store)),
        attended_(CapabilityOf<AttendedMass>(store)),
        queries_(CapabilityOf<PlainQueries>(store)),
        spec_(spec),
        may_be_full_(plan_.bytes + plan_.disk_bytes <
                         plan_.bytes_per_token * spec.held_tokens() * spec.max_sequences &&
                     plan_.slots == 0),
        random_(seed) {
    for (const auto& [op, weight, act] : kOps) {
      for (int i = 0; i < weight && (op & ops) != 0; ++i) acts_.push_back(act);
    }
    for (auto& text : texts_) {
      for (int64_t i = 0; i < spec.max_tokens; ++i) text.push_back(static_cast<int32_t>(Below(2)));
    }
  }

  std::string Run(int n_steps) {
    for (int i = 0; i < n_steps; ++i) {
      std::string wrong = DoOne();
      if (wrong.empty()) wrong = Compare();
      if (!wrong.empty()) return "step " + std::to_string(i) + " " + did_ + ": " + wrong;
    }
    return CloseAll();
  }

 private:
  using Entry = std::map<SequenceId, KeptSequence>::iterator;
  // What a script may do, and how often.
  using Act = std::string (Script::*)();
  struct Op {
    CacheOp op;
    int weight;
    Act act;
  };
  static const std::array<Op, 10> kOps;

  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  Entry Any() { return std::next(models_.begin(), Below(static_cast<int64_t>(models_.size()))); }

  std::string DoOne() {
    if (models_.empty()) return Open();
    return (this->*acts_[static_cast<size_t>(Below(std::ssize(acts_)))])();
  }

  // Holds the answer to Open or Fork against whether there is room.
  std::string Take(const absl::StatusOr<SequenceId>& id, bool fits, const KeptSequence& model) {
    if (!fits) {
      if (id.ok()) return "was accepted";
      return ExitCode(id.status()) == 5 ? "" : "is not a LimitError: " + Text(id.status());
    }
    const bool full = may_be_full_ && !models_.empty() && ExitCode(id.status()) == 5;
    if (!id.ok()) return full ? "" : "was refused: " + Text(id.status());
    if (!models_.emplace(*id, model).second) return "gave an id that is in use";
    return "";
  }

  bool Full() const { return static_cast<int>(models_.size()) == spec_.max_sequences; }

  std::string Open() {
    KeptSequence model;
    model.capacity = Below(spec_.max_tokens + 3);
    model.text = static_cast<int>(Below(kTexts));
    did_ = "open " + std::to_string(model.capacity);
    return Take(store_.Open(model.capacity), !Full() && model.capacity <= spec_.max_tokens, model);
  }

  // For the beginning of a text, perhaps with another id somewhere.
  std::string OpenFor() {
    KeptSequence model;
    model.text = static_cast<int>(Below(kTexts));
    std::vector<int32_t> prompt = texts_[model.text];
    prompt.resize(static_cast<size_t>(Below(spec_.max_tokens + 1)));
    if (Below(3) == 0 && !prompt.empty()) {
      prompt[static_cast<size_t>(Below(static_cast<int64_t>(prompt.size())))] ^= 1;
    }
    const auto n_prompt = static_cast<int64_t>(prompt.size());
    model.capacity = n_prompt + Below(spec_.max_tokens - n_prompt + 2);
    did_ =
        "open " + std::to_string(model.capacity) + " for a prompt of " + std::to_string(n_prompt);
    const auto id = sharing_ == nullptr ? store_.Open(model.capacity)
                                        : sharing_->OpenFor(prompt, model.capacity);
    if (id.ok()) {
      const int64_t length = store_.Length(*id);
      if (length > std::max<int64_t>(0, n_prompt - 1)) return "shares the whole prompt";
      const int64_t piece = store_.plan().share_tokens;
      if (length > 0 && (piece == 0 || length % piece != 0)) return "shares no whole pieces";
      n_shared_ += length;
      prompt.resize(static_cast<size_t>(length));
      for (const int32_t token : prompt) {
        kept_.AddToken(Mix(LastSum(model), Known(token)), token, &model);
      }
    }
    return Take(id, !Full() && model.capacity <= spec_.max_tokens, model);
  }

  // Everything is given back and can be had again.
  std::string CloseAll() {
    for (const auto& [id, model] : models_) store_.Close(id);
    models_.clear();
    std::vector<Statistic> counted;
    if (statistics_ != nullptr) {
      const auto values = statistics_->Values();
      if (!values.ok()) return "has no statistics: " + Text(values.status());
      counted = *values;
    }
    const auto value = [&](std::string_view name) { return StatisticValue(counted, name); };
    const int64_t n_held = value("pages_held");
    if (n_held != 0) return std::to_string(n_held) + " pages are still held";
    int64_t n_fit = spec_.max_sequences;
    const int64_t page_tokens = value("page_tokens");
    if (value("n_pages") > 0 && page_tokens > 0) {
      if (value("shared_tokens") != n_shared_) return "miscounts shared tokens";
      const int64_t pages_each = (spec_.max_tokens - 1) / page_tokens + 1;
      n_fit = std::min(n_fit, value("n_pages") / pages_each);
    }
    for (int64_t i = 0; i < n_fit; ++i) {
      const auto id = store_.Open(spec_.max_tokens);
      if (!id.ok()) return "once all is closed, open was refused: " + Text(id.status());
    }
    return "";
  }

  std::string Fork() {
    const auto from = Any();
    KeptSequence model = from->second;
    model.capacity = Below(spec_.max_tokens + 3);
    did_ = "fork " + std::to_string(from->first) + " to " + std::to_string(model.capacity);
    const bool fits =
        !Full() && model.capacity <= spec_.max_tokens && model.capacity >= model.length();
    return Take(store_.Fork(from->first, model.capacity), fits, model);
  }

  std::string Close() {
    const auto entry = Any();
    did_ = "close " + std::to_string(entry->first);
    store_.Close(entry->first);
    models_.erase(entry);
    return "";
  }

  std::string Truncate() {
    const auto entry = Any();
    KeptSequence& model = entry->second;
    const int64_t length = Below(model.length() + 3) - 1;
    did_ = "truncate " + std::to_string(entry->first) + " to " + std::to_string(length);
    const absl::Status status = store_.Truncate(entry->first, length);
    if (length < 0 || length > model.length()) {
      if (status.ok()) return "was accepted at length " + std::to_string(model.length());
      return ExitCode(status) == 1 ? "" : "is not a RuntimeError: " + Text(status);
    }
    // What tokens got of rows that go cannot always be taken from them.
    const bool may_refuse =
        plan_.approximate || plan_.attended || plan_.queries || Gone(entry->first, length);
    if (may_refuse && length > 0 && IsUnsupported(status)) return "";
    if (!status.ok()) return "was refused: " + Text(status);
    for (auto& rows : model.rows) rows.resize(static_cast<size_t>(length));
    model.sums.resize(static_cast<size_t>(length));
    model.ids.resize(static_cast<size_t>(length));
    model.truncated = true;
    return "";
  }

  // Whether tokens are no longer held that are needed behind `length` tokens.
  bool Gone(SequenceId id, int64_t length) const {
    for (int layer = 0; layer < spec_.n_layers; ++layer) {
      const KvView view = store_.View(layer, id, store_.Length(id));
      if (view.first > spec_.FirstSeen(length)) return true;
      for (int head = 0; head < spec_.n_kv_heads; ++head) {
        const HeadSlots own = view.SlotsOf(head);
        if (own.gone > 0 && length < own.n_kept + own.gone) return true;
      }
    }
    return false;
  }

  static uint64_t LastSum(const KeptSequence& model) {
    return model.sums.empty() ? 0 : model.sums.back();
  }
  // Known ids differ from what stands for an unknown one.
  static uint64_t Known(int32_t id) { return static_cast<uint64_t>(id) + 1; }

  // Rows of the step under way: [n_rows][n_layers, n_kv_heads, WidthOf(part)], not yet rounded.
  struct StepRows {
    std::vector<SequenceRows> entries;
    std::vector<std::vector<int32_t>> ids;  // [entry][n_tokens], or empty
    std::vector<uint64_t> sums;             // [n_rows]
    std::vector<std::vector<float>> rows[2];
  };

  void AddRows(const Entry& entry, int64_t n, StepRows* step) {
    const KeptSequence& model = entry->second;
    step->entries.push_back({.sequence = entry->first,
                             .start_pos = model.length(),
                             .n_tokens = n,
                             .row_begin = static_cast<int64_t>(step->rows[0].size())});
    const bool known = Below(8) != 0;
    std::vector<int32_t> ids;
    uint64_t sum = LastSum(model);
    for (int64_t i = 0; i < n; ++i) {
      const auto pos = static_cast<size_t>(model.length() + i);
      const std::vector<int32_t>& text = texts_[model.text];
      int32_t id = pos < text.size() ? text[pos] : 0;
      if (Below(40) == 0) id ^= 1;
      if (known) ids.push_back(id);
      sum = Mix(sum, known ? Known(id) : random_());
      step->sums.push_back(sum);
      for (int part = 0; part < 2; ++part) step->rows[part].push_back(kept_.RowOf(sum, part));
    }
    step->ids.push_back(std::move(ids));
    for (size_t i = 0; i < step->ids.size(); ++i) step->entries[i].tokens = step->ids[i];
    SequenceRows& added = step->entries.back();
    if (attended_ != nullptr) added.mass_tokens = attended_->MassTokens(added);
  }

  absl::Status AppendLayer(int layer, const StepRows& step) {
    std::vector<float> flat[2];
    for (int part = 0; part < 2; ++part) {
      const int64_t width = int64_t{spec_.n_kv_heads} * WidthOf(spec_, kParts[part]);
      for (const auto& row : step.rows[part]) {
        flat[part].insert(flat[part].end(), row.begin() + layer * width,
                          row.begin() + (layer + 1) * width);
      }
    }
    const auto n_rows = static_cast<int64_t>(step.rows[0].size());
    for (const SequenceRows& entry : step.entries) {
      if (queries_ == nullptr) break;
      NG_RETURN_IF_ERROR(TellMadeUpQueries(*queries_, layer, entry, spec_, &made_));
    }
    return store_.Append(layer, step.entries,
                         {flat[0].data(), {n_rows, spec_.n_kv_heads, spec_.head_dim}},
                         {flat[1].data(), {n_rows, spec_.n_kv_heads, spec_.value_dim()}});
  }

  std::string Append() { return Append(/*commit=*/true); }
  std::string Abandon() { return Append(/*commit=*/false); }

  std::string Append(bool commit) {
    StepRows step;
    for (auto entry = models_.begin(); entry != models_.end(); ++entry) {
      const int64_t room = entry->second.capacity - entry->second.length();
      const int64_t most =
          std::min({room, spec_.max_step_tokens, plan_.ToBoundary(entry->second.length())});
      const int64_t n = std::min(most, Below(3) == 0 ? Below(spec_.max_step_tokens + 1) : Below(4));
      if (n > 0 && Below(3) != 0) AddRows(entry, n, &step);
    }
    did_ = std::string(commit ? "append" : "abandoned append") + " of " +
           std::to_string(step.rows[0].size()) + " rows";
    for (int layer = 0; layer < spec_.n_layers; ++layer) {
      const absl::Status status = AppendLayer(layer, step);
      if (!status.ok() && layer == 0 && MayRefuse(step, status)) return "";
      if (!status.ok()) return "was refused: " + Text(status);
      // Before commit: readable in this layer, but no length has moved.
      std::string wrong = CompareLengths();
      for (const SequenceRows& entry : step.entries) {
        KeptSequence grown = models_.at(entry.sequence);
        Extend(step, entry, &grown);
        if (wrong.empty()) wrong = kept_.CompareLayer(store_, entry.sequence, grown, layer);
        if (wrong.empty()) wrong = TellAttended(layer, entry);
      }
      if (!wrong.empty()) return "before commit: " + wrong;
    }
    if (!commit) return "";
    for (const SequenceRows& entry : step.entries) {
      Extend(step, entry, &models_.at(entry.sequence));
    }
    const absl::Status status = store_.Commit(step.entries);
    return status.ok() ? "" : "commit was refused: " + Text(status);
  }

  std::string TellAttended(int layer, const SequenceRows& entry) {
    if (entry.mass_tokens == 0) return "";
    const absl::Status status = TellMadeUpMass(store_, layer, entry, spec_.n_kv_heads, &shares_);
    return status.ok() ? "" : "Attended: " + Text(status);
  }

  // One row too many, behind rows of another sequence that fit.
  std::string Overflow() {
    const auto full = Any();
    StepRows step;
    const auto other = Any();
    if (other != full && other->second.length() < other->second.capacity) {
      AddRows(other, 1, &step);
    }
    AddRows(full, full->second.capacity - full->second.length() + 1, &step);
    did_ = "append past the capacity of " + std::to_string(full->first);
    const absl::Status status = AppendLayer(0, step);
    if (status.ok()) return "was accepted";
    if (ExitCode(status) != 5) return "is not a LimitError: " + Text(status);
    if (step.entries.back().n_tokens > spec_.max_step_tokens) return "";
    return Text(status).find("cache overflow") == std::string::npos
               ? "does not say 'cache overflow': " + Text(status)
               : "";
  }

  bool MayRefuse(const StepRows& step, const absl::Status& status) const {
    const bool truncated = std::ranges::any_of(step.entries, [this](const SequenceRows& entry) {
      return models_.at(entry.sequence).truncated;
    });
    return may_be_full_ && truncated && ExitCode(status) == 5;
  }

  void Extend(const StepRows& step, const SequenceRows& entry, KeptSequence* model) const {
    for (int64_t i = 0; i < entry.n_tokens; ++i) {
      const int32_t id = entry.tokens.empty() ? kUnknown : entry.tokens[static_cast<size_t>(i)];
      kept_.AddToken(step.sums[static_cast<size_t>(entry.row_begin + i)], id, model);
    }
  }

  // A sequence's image must be as it should, and makes another sequence, whole or in part.
  std::string Snapshot() {
    if (images_ == nullptr) return "";
    const auto [from, model] = *Any();  // copied: another sequence comes
    did_ = "snapshot of " + std::to_string(from);
    std::vector<std::vector<std::byte>> images;
    for (int layer = 0; layer < spec_.n_layers; ++layer) {
      images.push_back(kept_.ImageOf(model, layer));
      std::vector<std::byte> image(images.back().size(), std::byte{0xA5});
      const absl::Status status = images_->ExportLayer(layer, from, image);
      if (!status.ok()) return "export was refused: " + Text(status);
      if (image != images.back()) {
        return "the image of layer " + std::to_string(layer) + " is wrong";
      }
    }
    KeptSequence fresh;
    fresh.text = model.text;
    fresh.capacity = model.length() + Below(spec_.max_tokens - model.length() + 1);
    const auto id = store_.Open(fresh.capacity);
    std::string wrong = Take(id, !Full(), fresh);
    if (!id.ok() || !wrong.empty()) return wrong;
    // The whole tiles of the beginning, then some of what follows.
    const int64_t first = Below(TilesFor(model.length()) + 1) * kTileTokens;
    const int64_t end = std::max(std::min(first, model.length()), Below(model.length() + 1));
    if (first < end) wrong = Import(*id, model, images, first);
    return wrong.empty() ? Import(*id, model, images, end) : wrong;
  }

  // Brings a sequence from its length to `end`, which is a copy's.
  std::string Import(SequenceId id, const KeptSequence& from,
                     const std::vector<std::vector<std::byte>>& images, int64_t end) {
    KeptSequence& model = models_.at(id);
    SequenceRows rows{.sequence = id, .start_pos = model.length()};
    rows.n_tokens = end - rows.start_pos;
    const auto ids = std::span(from.ids).subspan(static_cast<size_t>(rows.start_pos),
                                                 static_cast<size_t>(rows.n_tokens));
    if (std::ranges::count(ids, kUnknown) == 0) rows.tokens = ids;
    KeptSequence grown = model;
    for (auto i = static_cast<size_t>(rows.start_pos); i < static_cast<size_t>(end); ++i) {
      kept_.AddToken(from.sums[i], from.ids[i], &grown);
    }
    did_ += ", import of " + std::to_string(rows.start_pos) + " to " + std::to_string(end);
    for (int layer = 0; layer < spec_.n_layers; ++layer) {
      const auto tiles =
          std::span<const std::byte>(images[static_cast<size_t>(layer)])
              .subspan(static_cast<size_t>(TilesFor(rows.start_pos) * kept_.ImageTileBytes()),
                       static_cast<size_t>(TilesFor(rows.n_tokens) * kept_.ImageTileBytes()));
      const absl::Status status = images_->ImportLayer(layer, rows, tiles);
      if (!status.ok()) return "was refused: " + Text(status);
      std::string wrong = CompareLengths();
      if (wrong.empty()) wrong = kept_.CompareLayer(store_, id, grown, layer);
      if (!wrong.empty()) return "before commit: " + wrong;
    }
    model = grown;
    const absl::Status status = store_.Commit({&rows, 1});
    return status.ok() ? "" : "commit was refused: " + Text(status);
  }

  // Images of a wrong size, too many rows, rows that begin within a tile.
  std::string BadImport() {
    if (images_ == nullptr) return "";
    const auto [id, model] = *Any();
    SequenceRows rows{.sequence = id, .start_pos = model.length(), .n_tokens = 1};
    std::vector<std::byte> image(static_cast<size_t>(kept_.ImageTileBytes()));
    did_ = "bad import into " + std::to_string(id);
    std::vector<std::byte> wrong_size(
        static_cast<size_t>(TilesFor(model.length()) * kept_.ImageTileBytes() + 1));
    if (ExitCode(images_->ExportLayer(0, id, wrong_size)) != 1) {
      return "an image of another size is not a RuntimeError";
    }
    if (model.length() % kTileTokens != 0) {
      const absl::Status within = images_->ImportLayer(0, rows, image);
      return ExitCode(within) == 1 ? "" : "within a tile is not a RuntimeError: " + Text(within);
    }
    rows.n_tokens = model.capacity - model.length() + 1;
    image.resize(static_cast<size_t>(TilesFor(rows.n_tokens) * kept_.ImageTileBytes()));
    const absl::Status overflow = images_->ImportLayer(0, rows, image);
    if (ExitCode(overflow) != 5 || Text(overflow).find("cache overflow") == std::string::npos) {
      return "too many rows are not a 'cache overflow': " + Text(overflow);
    }
    rows.n_tokens = std::min<int64_t>(1, model.capacity - model.length());
    image.resize(static_cast<size_t>(TilesFor(rows.n_tokens) * kept_.ImageTileBytes() + 1));
    const absl::Status size = images_->ImportLayer(0, rows, image);
    return ExitCode(size) == 1 ? "" : "another size is not a RuntimeError: " + Text(size);
  }

  std::string CompareLengths() const {
    for (const auto& [id, model] : models_) {
      if (store_.Length(id) != model.length()) {
        return "sequence " + std::to_string(id) + " has length " +
               std::to_string(store_.Length(id)) + ", not " + std::to_string(model.length());
      }
      if (store_.Capacity(id) != model.capacity) return "a capacity changed";
    }
    return "";
  }

  std::string Compare() {
    std::string wrong = CompareLengths();
    for (const auto& [id, model] : models_) {
      for (int layer = 0; layer < spec_.n_layers; ++layer) {
        if (wrong.empty()) wrong = kept_.CompareLayer(store_, id, model, layer);
      }
    }
    return wrong;
  }

  CacheStore& store_;
  const CachePlan plan_;
  // The store's, null where it has not the capability.
  PrefixSharing* const sharing_;
  Snapshots* const images_;
  Statistics* const statistics_;
  AttendedMass* const attended_;
  PlainQueries* const queries_;
  std::vector<float> made_;  // queries
  std::vector<float> shares_;
  const CacheSpec spec_;
  KeptRows kept_{spec_, plan_};
  const bool may_be_full_;
  std::vector<Act> acts_;  // to choose from
  std::mt19937_64 random_;
  std::vector<int32_t> texts_[kTexts];  // [max_tokens]
  int64_t n_shared_ = 0;                // tokens, in all
  std::map<SequenceId, KeptSequence> models_;
  std::string did_;
};

const std::array<Script::Op, 10> Script::kOps = {{{kOpen, 1, &Script::Open},
                                                  {kOpenFor, 1, &Script::OpenFor},
                                                  {kFork, 1, &Script::Fork},
                                                  {kTruncate, 1, &Script::Truncate},
                                                  {kClose, 1, &Script::Close},
                                                  {kOverflow, 1, &Script::Overflow},
                                                  {kAbandon, 1, &Script::Abandon},
                                                  {kSnapshot, 1, &Script::Snapshot},
                                                  {kSnapshot, 1, &Script::BadImport},
                                                  {kAppend, 3, &Script::Append}}};

}  // namespace

std::string RunCacheScript(CacheStore& store, const CacheSpec& spec, const CacheScript& script) {
  return Script(store, spec, script.ops, script.seed).Run(script.n_steps);
}

}  // namespace ng::conform
