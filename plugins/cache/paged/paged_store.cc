#include "plugins/cache/paged/paged_store.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ng/tile_store.h"
#include "ng/tiles16.h"
#include "plugins/cache/paged/page_pool.h"
#include "plugins/cache/paged/prefix_index.h"

namespace ng {
namespace {

constexpr int64_t kMostPages = std::numeric_limits<int32_t>::max() - 1;

int64_t DivideUp(int64_t n, int64_t unit) { return n / unit + (n % unit != 0 ? 1 : 0); }

struct PoolShape {
  KvSide k;  // of layer 0; head_stride: from one kv head's pool to the next
  KvSide v;
  int64_t k_bytes = 0;      // of a page, for one kv head in one layer
  int64_t v_bytes = 0;      //
  int64_t page_stride = 0;  // from one page to the next
  int32_t n_pages = 0;
  CachePlan plan;
};

absl::Status CheckMultiple(const char* option, int64_t value, const char* unit_name, int64_t unit) {
  if (value % unit == 0) return absl::OkStatus();
  return UsageError("cache.paged." + std::string(option) + " = " + std::to_string(value) +
                    ", must be a multiple of " + unit_name + std::to_string(unit));
}

// Pages of the pool: as asked for, at least enough for one sequence.
absl::StatusOr<int64_t> CountPages(const CacheSpec& spec, int64_t page_tokens,
                                   int64_t pool_tokens) {
  const int64_t pages_each = DivideUp(spec.max_tokens, page_tokens);
  int64_t n_pages = pool_tokens / page_tokens;
  if (pool_tokens > 0 && n_pages < pages_each) {
    return LimitError("cache.paged.pool_tokens = " + std::to_string(pool_tokens) + " are " +
                      std::to_string(n_pages) + " pages of " + std::to_string(page_tokens) +
                      " tokens, a sequence of " + std::to_string(spec.max_tokens) +
                      " tokens needs " + std::to_string(pages_each));
  }
  const bool overflowed =
      pool_tokens == 0 && __builtin_mul_overflow(pages_each, spec.max_sequences, &n_pages);
  if (!overflowed && n_pages <= kMostPages) return n_pages;
  return LimitError("a cache of " + std::to_string(spec.max_sequences) + " sequences of " +
                    std::to_string(spec.max_tokens) + " tokens in a pool of " +
                    std::to_string(pool_tokens) + " needs more than " + std::to_string(kMostPages) +
                    " pages of " + std::to_string(page_tokens));
}

absl::StatusOr<PoolShape> MakePoolShape(const OptionValues& options, const CacheSpec& spec) {
  const int64_t page_tokens = options.Int("page_tokens");
  const int64_t pool_tokens = options.Int("pool_tokens");
  NG_RETURN_IF_ERROR(CheckMultiple("page_tokens", page_tokens, "", kTileTokens));
  NG_RETURN_IF_ERROR(
      CheckMultiple("pool_tokens", pool_tokens, "cache.paged.page_tokens = ", page_tokens));
  CacheSpec pages = spec;  // what is wrong with other sizes MakePageShape says
  if (std::min({spec.n_layers, spec.n_kv_heads, spec.max_sequences}) > 0 && spec.max_tokens > 0) {
    NG_ASSIGN_OR_RETURN(const int64_t n_pages, CountPages(spec, page_tokens, pool_tokens));
    pages.max_tokens = page_tokens;
    pages.max_sequences = static_cast<int>(n_pages);
    // Each kv head of a layer is a layer of its own: head-major, the pages of a head side by side.
    if (__builtin_mul_overflow(spec.n_layers, spec.n_kv_heads, &pages.n_layers)) {
      return LimitError(std::to_string(spec.n_layers) + " layers of " +
                        std::to_string(spec.n_kv_heads) + " kv heads are too many");
    }
    pages.n_kv_heads = 1;
  }
  NG_ASSIGN_OR_RETURN(const PageShape page, MakePageShape(pages));
  PoolShape shape;
  shape.k = page.k;
  shape.v = page.v;
  shape.k_bytes = page.v.offset;
  shape.v_bytes = page.layer_bytes - page.v.offset;
  shape.page_stride = page.layer_bytes;
  shape.n_pages = pages.max_sequences;
  if (shape.k_bytes == shape.v_bytes) {
    // The keys of neighbouring pages side by side, and so their values. It takes one stride for
    // both.
    shape.page_stride = shape.k_bytes;
    shape.v.offset = shape.n_pages * shape.page_stride;
  }
  shape.k.head_stride = shape.v.head_stride = shape.n_pages * page.layer_bytes;
  shape.plan = page.plan;
  shape.plan.image_tile_bytes *= spec.n_kv_heads;
  shape.plan.share_tokens = options.Bool("share_prefixes") ? page_tokens : 0;
  return shape;
}

// What Values() says, kept as it is counted.
struct Counts {
  int64_t most_pages_held = 0;  // at one time, and the slots in them that no token was in: of the
  int64_t most_held_empty = 0;  // last page of every sequence that has it alone
  int64_t prompt_tokens = 0;    // that OpenFor was asked for
  int64_t shared_tokens = 0;    // of these, found
  int64_t copied_pages = 0;     // shared ones that somebody wrote to
  int64_t dropped_pages = 0;    // kept for sharing, then needed for something else
};

class PagedStore : public TileStore, public PrefixSharing, public Statistics {
 public:
  PagedStore(const PluginContext& context, const CacheSpec& spec, const PoolShape& shape,
             std::shared_ptr<std::byte> memory)
      : TileStore(context, spec),
        shape_(shape),
        page_tokens_(context.options.Int("page_tokens")),
        memory_(std::move(memory)),
        pool_(shape.n_pages),
        index_(shape.n_pages, page_tokens_),
        slots_(static_cast<size_t>(spec.max_sequences)) {
    const auto most = static_cast<size_t>(PagesFor(spec.max_tokens));
    found_.reserve(most);
    for (Slot& slot : slots_) {
      slot.table.reserve(most);
      slot.pages.reserve(most);
    }
  }

  void* Capability(std::string_view name) override {
    return OfferCapability<PrefixSharing, Snapshots, Statistics>(this, name);
  }

  CachePlan plan() const override { return shape_.plan; }

  absl::StatusOr<SequenceId> Open(int64_t capacity) override { return OpenFor({}, capacity); }

  absl::StatusOr<SequenceId> OpenFor(std::span<const int32_t> prompt, int64_t capacity) override {
    NG_RETURN_IF_ERROR(CheckCapacity(capacity));
    NG_ASSIGN_OR_RETURN(const SequenceId id, FindClosedSlot());
    FindPrefix(prompt, capacity);
    const auto n_found = static_cast<int64_t>(found_.size());
    const int64_t n_promised = PagesFor(capacity) - n_found;
    const int64_t n_free_found =
        std::ranges::count_if(found_, [this](int32_t page) { return pool_.holders(page) == 0; });
    NG_RETURN_IF_ERROR(CheckRoom(capacity, n_promised + n_free_found));
    Slot& slot = slots_[static_cast<size_t>(id)];
    for (const int32_t page : found_) Add(slot, page);
    slot.open = true;
    slot.length = slot.n_known = n_found * page_tokens_;
    slot.capacity = capacity;
    slot.n_promised = n_promised;
    pool_.Promise(n_promised);
    counts_.prompt_tokens += static_cast<int64_t>(prompt.size());
    counts_.shared_tokens += slot.length;
    return id;
  }

  // From the end: of what is kept, the beginning of a text is the last to go.
  void Close(SequenceId sequence) override {
    Slot& slot = At(sequence);
    while (!slot.table.empty()) DropLast(slot);
    pool_.EndPromise(slot.n_promised);
    slot.open = false;
  }

  int64_t Length(SequenceId sequence) const override { return At(sequence).length; }
  int64_t Capacity(SequenceId sequence) const override { return At(sequence).capacity; }

  absl::Status Truncate(SequenceId sequence, int64_t length) override {
    NG_RETURN_IF_ERROR(CheckTruncation(sequence, length));
    Slot& slot = At(sequence);
    slot.length = length;
    slot.n_known = std::min(slot.n_known, length);
    while (static_cast<int64_t>(slot.table.size()) > PagesFor(length)) {
      DropLast(slot);
      // The page can be had again; if others hold it still, another one as long as there is one.
      if (pool_.n_unpromised() == 0) continue;
      pool_.Promise(1);
      ++slot.n_promised;
    }
    if (length % page_tokens_ != 0 && pool_.n_unpromised() > 0) {
      pool_.PromiseCopy(slot.table.back());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<SequenceId> Fork(SequenceId sequence, int64_t capacity) override {
    NG_RETURN_IF_ERROR(CheckForkCapacity(sequence, capacity));
    NG_ASSIGN_OR_RETURN(const SequenceId id, FindClosedSlot());
    const Slot& from = At(sequence);
    const int64_t n_shared = PagesFor(from.length);
    const int64_t n_promised = PagesFor(capacity) - n_shared;
    const bool partly = from.length % page_tokens_ != 0;
    NG_RETURN_IF_ERROR(CheckRoom(capacity, n_promised + (partly ? 1 : 0)));
    Slot& slot = slots_[static_cast<size_t>(id)];
    for (int64_t i = 0; i < n_shared; ++i) Add(slot, from.table[static_cast<size_t>(i)]);
    slot.open = true;
    slot.length = from.length;
    slot.n_known = from.n_known;
    slot.capacity = capacity;
    slot.n_promised = n_promised;
    pool_.Promise(n_promised);
    if (partly) pool_.PromiseCopy(slot.table.back());
    return id;
  }

  absl::Status Commit(std::span<const SequenceRows> rows) override {
    NG_RETURN_IF_ERROR(CheckFits(rows));
    for (const SequenceRows& entry : rows) {
      Slot& slot = At(entry.sequence);
      if (shape_.plan.share_tokens > 0) NoteIds(slot, entry);
      slot.length += entry.n_tokens;
    }
    if (pool_.n_held() > counts_.most_pages_held) {
      counts_.most_pages_held = pool_.n_held();
      counts_.most_held_empty = CountEmpty();
    }
    return absl::OkStatus();
  }

  KvView View(int layer, SequenceId sequence, int64_t length) const override {
    assert(layer >= 0 && layer < n_layers_ && length >= 0);
    KvView view{.layout = kLayoutTiles16,
                .pages = std::span(At(sequence).pages).first(static_cast<size_t>(PagesFor(length))),
                .page_tokens = page_tokens_,
                .length = length,
                .k = shape_.k,
                .v = shape_.v,
                .store = this,
                .sequence = sequence,
                .layer = layer};
    view.k.offset += layer * n_kv_heads_ * view.k.head_stride;
    view.v.offset += layer * n_kv_heads_ * view.v.head_stride;
    return view;
  }

  absl::StatusOr<std::vector<Statistic>> Values() const override {
    return std::vector<Statistic>{{"page_tokens", page_tokens_, "tokens"},
                                  {"n_pages", pool_.n_pages(), "pages"},
                                  {"pages_held", pool_.n_held(), "pages"},
                                  {"most_pages_held", counts_.most_pages_held, "pages"},
                                  {"most_held_empty", counts_.most_held_empty, "tokens"},
                                  {"prompt_tokens", counts_.prompt_tokens, "tokens"},
                                  {"shared_tokens", counts_.shared_tokens, "tokens"},
                                  {"copied_pages", counts_.copied_pages, "pages"},
                                  {"dropped_pages", counts_.dropped_pages, "pages"}};
  }

 private:
  struct Slot {
    bool open = false;
    int64_t length = 0;
    int64_t capacity = 0;
    int64_t n_known = 0;                  // of its tokens, from the first on, the ids are known
    int64_t n_promised = 0;               // free pages that are its own to take
    std::vector<int32_t> table;           // its pages
    std::vector<const std::byte*> pages;  // where they are in head 0 of layer 0
  };

  int64_t PagesFor(int64_t tokens) const { return DivideUp(tokens, page_tokens_); }
  std::byte* Address(int32_t page) const { return memory_.get() + page * shape_.page_stride; }

  const Slot& At(SequenceId sequence) const {
    assert(sequence >= 0 && static_cast<size_t>(sequence) < slots_.size());
    assert(slots_[static_cast<size_t>(sequence)].open);
    return slots_[static_cast<size_t>(sequence)];
  }
  Slot& At(SequenceId sequence) { return const_cast<Slot&>(std::as_const(*this).At(sequence)); }

  absl::StatusOr<SequenceId> FindClosedSlot() const {
    const auto slot = std::ranges::find(slots_, false, &Slot::open);
    if (slot != slots_.end()) return static_cast<SequenceId>(slot - slots_.begin());
    return LimitError("all " + std::to_string(slots_.size()) + " sequences of the cache are open");
  }

  absl::Status CheckRoom(int64_t capacity, int64_t n_wanted) const {
    if (n_wanted <= pool_.n_unpromised()) return absl::OkStatus();
    return LimitError("a sequence of " + std::to_string(capacity) + " tokens needs " +
                      std::to_string(n_wanted) + " free pages of " + std::to_string(page_tokens_) +
                      " tokens: of " + std::to_string(pool_.n_pages()) + " in the pool, " +
                      std::to_string(pool_.n_held()) + " are in use and " +
                      std::to_string(pool_.n_unpromised()) + " free for a new sequence");
  }

  // Into found_: the listed pages that the prompt begins with, all but its last token at most.
  void FindPrefix(std::span<const int32_t> prompt, int64_t capacity) {
    found_.clear();
    if (shape_.plan.share_tokens == 0 || prompt.empty()) return;
    const auto n_most = std::min(static_cast<int64_t>(prompt.size()) - 1, capacity) / page_tokens_;
    uint64_t previous = PrefixIndex::kStart;
    for (int64_t i = 0; i < n_most; ++i) {
      const int32_t page = index_.Find(previous, PageOf(prompt, i));
      if (page < 0) return;
      found_.push_back(page);
      previous = index_.number(page);
    }
  }

  std::span<const int32_t> PageOf(std::span<const int32_t> ids, int64_t i) const {
    return ids.subspan(static_cast<size_t>(i * page_tokens_), static_cast<size_t>(page_tokens_));
  }

  // Puts a page at the end of the sequence's list, as one more that holds it.
  void Add(Slot& slot, int32_t page) {
    pool_.Hold(page);
    slot.table.push_back(page);
    slot.pages.push_back(Address(page));
  }

  // In place of another one, with a hold that the page already has.
  void Replace(Slot& slot, size_t i, int32_t page) {
    slot.table[i] = page;
    slot.pages[i] = Address(page);
  }

  void Release(int32_t page) { pool_.Release(page, /*keep=*/index_.number(page) != 0); }

  void DropLast(Slot& slot) {
    Release(slot.table.back());
    slot.table.pop_back();
    slot.pages.pop_back();
  }

  // A page to write to, held once. REQUIRES: one that is promised has been given up for it.
  int32_t Take() {
    const int32_t page = pool_.Take();
    if (index_.number(page) != 0) ++counts_.dropped_pages;
    index_.Remove(page);
    return page;
  }

  absl::Status CheckUnpromised(const SequenceRows& entry) const {
    if (pool_.n_unpromised() > 0) return absl::OkStatus();
    return LimitError("cache overflow: sequence " + std::to_string(entry.sequence) +
                      " has given up tokens that others hold, and none of the pool's " +
                      std::to_string(pool_.n_pages()) + " pages is free to write them anew");
  }

  absl::Status MakeRoom(const SequenceRows& entry) override {
    Slot& slot = At(entry.sequence);
    const auto first = static_cast<size_t>(entry.start_pos / page_tokens_);
    if (entry.n_tokens > 0 && first < slot.table.size()) NG_RETURN_IF_ERROR(MakeOwn(entry, first));
    const int64_t n_pages = PagesFor(entry.start_pos + entry.n_tokens);
    while (static_cast<int64_t>(slot.table.size()) < n_pages) {
      if (slot.n_promised == 0) NG_RETURN_IF_ERROR(CheckUnpromised(entry));
      if (slot.n_promised > 0) {
        --slot.n_promised;
        pool_.EndPromise(1);
      }
      slot.table.push_back(Take());
      slot.pages.push_back(Address(slot.table.back()));
    }
    return absl::OkStatus();
  }

  // The page that the sequence goes on writing to.
  absl::Status MakeOwn(const SequenceRows& entry, size_t i) {
    Slot& slot = At(entry.sequence);
    const int32_t page = slot.table[i];
    if (pool_.holders(page) == 1) {
      index_.Remove(page);  // it will hold something else
      return absl::OkStatus();
    }
    if (!pool_.EndPromiseOfCopy(page)) NG_RETURN_IF_ERROR(CheckUnpromised(entry));
    const int32_t copy = Take();
    CopyRows(page, copy);
    std::ranges::copy(index_.ids(page), index_.ids(copy).begin());
    Release(page);
    Replace(slot, i, copy);
    ++counts_.copied_pages;
    return absl::OkStatus();
  }

  void CopyRows(int32_t from, int32_t to) {
    for (int64_t head = 0; head < int64_t{n_layers_} * n_kv_heads_; ++head) {
      const auto copy = [&](const KvSide& side, int64_t bytes) {
        const int64_t offset = side.offset + head * side.head_stride;
        std::memcpy(Address(to) + offset, Address(from) + offset, static_cast<size_t>(bytes));
      };
      copy(shape_.k, shape_.k_bytes);
      copy(shape_.v, shape_.v_bytes);
    }
  }

  // Writes down the ids of rows that are being committed, and lists the pages that they fill.
  void NoteIds(Slot& slot, const SequenceRows& entry) {
    if (slot.n_known < slot.length) return;
    for (const int32_t id : entry.tokens) {
      const auto page = static_cast<size_t>(slot.n_known / page_tokens_);
      index_.ids(slot.table[page])[static_cast<size_t>(slot.n_known % page_tokens_)] = id;
      if (++slot.n_known % page_tokens_ == 0) List(slot, page);
    }
  }

  // Lists a page that has become full, or puts the one like it that is listed in its place.
  void List(Slot& slot, size_t i) {
    const int32_t page = slot.table[i];
    const uint64_t previous = i == 0 ? PrefixIndex::kStart : index_.number(slot.table[i - 1]);
    assert(i == 0 || previous != PrefixIndex::kStart);  // known ids, in order: it was listed
    const int32_t listed = index_.Find(previous, index_.ids(page));
    if (listed < 0) return index_.Add(page, previous);
    Release(page);
    pool_.Hold(listed);
    Replace(slot, i, listed);
  }

  // Slots without a token in the pages that one sequence alone holds.
  int64_t CountEmpty() const {
    int64_t n_empty = 0;
    for (const Slot& slot : slots_) {
      if (!slot.open || slot.table.empty() || pool_.holders(slot.table.back()) > 1) continue;
      n_empty += static_cast<int64_t>(slot.table.size()) * page_tokens_ - slot.length;
    }
    return n_empty;
  }

  const PoolShape shape_;
  const int64_t page_tokens_;
  const std::shared_ptr<std::byte> memory_;  // [n_layers, n_kv_heads, n_pages][k_bytes + v_bytes]
  PagePool pool_;
  PrefixIndex index_;
  std::vector<Slot> slots_;     // [max_sequences]
  std::vector<int32_t> found_;  // of the prompt that is being opened
  Counts counts_;
};

}  // namespace

absl::StatusOr<CachePlan> PlanPagedStore(const PluginContext& context, const CacheSpec& spec) {
  NG_ASSIGN_OR_RETURN(const PoolShape shape, MakePoolShape(context.options, spec));
  return shape.plan;
}

absl::StatusOr<std::unique_ptr<CacheStore>> CreatePagedStore(const PluginContext& context,
                                                             const CacheSpec& spec) {
  NG_ASSIGN_OR_RETURN(const PoolShape shape, MakePoolShape(context.options, spec));
  NG_ASSIGN_OR_RETURN(std::shared_ptr<std::byte> memory, ReserveTiles(shape.plan.bytes));
  return std::make_unique<PagedStore>(context, spec, shape, std::move(memory));
}

}  // namespace ng
