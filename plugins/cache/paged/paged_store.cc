#include "plugins/cache/paged/paged_store.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ng/tile_store.h"
#include "ng/tiles16.h"
#include "plugins/cache/paged/page_pool.h"
#include "plugins/cache/paged/pool_shape.h"
#include "plugins/cache/paged/prefix_index.h"

namespace ng {
namespace {

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
        most_pages_(PagesEach(spec, page_tokens_)),
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
    const int64_t length = std::ssize(found_) * page_tokens_;
    const int64_t n_dropped = PagesBefore(length);
    int64_t n_wanted = PagesWanted(capacity, n_dropped);
    if (window_ == 0) {  // those of others cost nothing
      n_wanted -=
          std::ranges::count_if(found_, [this](int32_t page) { return pool_.holders(page) > 0; });
    }
    NG_RETURN_IF_ERROR(CheckRoom(capacity, n_wanted));
    Slot& slot = slots_[static_cast<size_t>(id)];
    for (size_t i = 0; i < found_.size(); ++i) {
      if (std::cmp_less(i, n_dropped)) {
        AddGone(slot, index_.number(found_[i]));
      } else {
        Add(slot, found_[i]);
      }
    }
    slot.open = true;
    slot.length = slot.n_known = length;
    slot.capacity = capacity;
    PromiseWanted(slot);
    counts_.prompt_tokens += static_cast<int64_t>(prompt.size());
    counts_.shared_tokens += slot.length;
    return id;
  }

  // From the end: of what is kept, the beginning of a text is the last to go.
  void Close(SequenceId sequence) override {
    Slot& slot = At(sequence);
    while (!slot.table.empty()) DropLast(slot);
    pool_.EndPromise(std::exchange(slot.n_promised, 0));
    slot.open = false;
  }

  int64_t Length(SequenceId sequence) const override { return At(sequence).length; }
  int64_t Capacity(SequenceId sequence) const override { return At(sequence).capacity; }

  absl::Status Truncate(SequenceId sequence, int64_t length) override {
    NG_RETURN_IF_ERROR(CheckTruncation(sequence, length));
    Slot& slot = At(sequence);
    NG_RETURN_IF_ERROR(CheckHeld(sequence, length, slot.n_dropped * page_tokens_));
    slot.length = length;
    slot.n_known = std::min(slot.n_known, length);
    while (static_cast<int64_t>(slot.table.size()) > PagesFor(length)) {
      DropLast(slot);
      // The page can be had again; if others hold it still, another one as long as there is one.
      PromiseWanted(slot);
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
    const bool partly = from.length % page_tokens_ != 0;
    int64_t n_wanted = PagesWanted(capacity, from.n_dropped);
    if (window_ == 0) n_wanted -= n_shared - (partly ? 1 : 0);
    NG_RETURN_IF_ERROR(CheckRoom(capacity, n_wanted));
    Slot& slot = slots_[static_cast<size_t>(id)];
    for (int64_t i = 0; i < n_shared; ++i) {
      const int32_t page = from.table[static_cast<size_t>(i)];
      if (page == kNoPage) {
        AddGone(slot, from.number_before);
      } else {
        Add(slot, page);
      }
    }
    slot.open = true;
    slot.length = from.length;
    slot.n_known = from.n_known;
    slot.capacity = capacity;
    PromiseWanted(slot);
    if (window_ == 0 && partly) pool_.PromiseCopy(slot.table.back());
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
    KvView view{.layout = shape_.plan.layout,
                .pages = std::span(At(sequence).pages).first(static_cast<size_t>(PagesFor(length))),
                .page_tokens = page_tokens_,
                .length = length,
                .k = shape_.k,
                .v = shape_.v,
                .store = this,
                .sequence = sequence,
                .layer = layer,
                .first = At(sequence).n_dropped * page_tokens_,
                .v_in_k = shape_.plan.v_in_k};
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
    int64_t n_dropped = 0;                // pages that it has given up, from the first on
    uint64_t number_before = 0;           // of the last of these, for the list of pages
    std::vector<int32_t> table;           // its pages; kNoPage: given up
    std::vector<const std::byte*> pages;  // where they are in head 0 of layer 0
  };

  static constexpr int32_t kNoPage = -1;

  // Pages that hold nothing but tokens which no query sees behind `length` tokens.
  int64_t PagesBefore(int64_t length) const {
    return window_ == 0 ? 0 : std::max<int64_t>(0, length - window_ + 1) / page_tokens_;
  }
  // The most that a sequence comes to have at one time.
  int64_t PagesWanted(int64_t capacity, int64_t n_dropped) const {
    return std::min(PagesFor(capacity) - n_dropped, most_pages_);
  }
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
    Hold(page);
    slot.table.push_back(page);
    slot.pages.push_back(Address(page));
  }

  // The same of one that is given up already, which was listed by this number.
  void AddGone(Slot& slot, uint64_t number) {
    slot.table.push_back(kNoPage);
    slot.pages.push_back(nullptr);
    slot.number_before = number;
    ++slot.n_dropped;
  }

  // Whoever goes on from a page that others hold needs one in its place. With a window everybody
  // goes on from every page, so each has one promised.
  void Hold(int32_t page) {
    pool_.Hold(page);
    if (window_ > 0 && pool_.holders(page) > 1) pool_.PromiseCopy(page);
  }

  // In place of another one, with a hold that the page already has.
  void Replace(Slot& slot, size_t i, int32_t page) {
    slot.table[i] = page;
    slot.pages[i] = Address(page);
  }

  void Release(int32_t page) { pool_.Release(page, /*keep=*/index_.number(page) != 0); }

  void DropLast(Slot& slot) {
    if (slot.table.back() != kNoPage) Release(slot.table.back());
    slot.table.pop_back();
    slot.pages.pop_back();
    slot.n_dropped = std::min(slot.n_dropped, std::ssize(slot.table));
  }

  // Gives up the first page that the sequence has, for another one.
  void DropFirst(Slot& slot) {
    const auto i = static_cast<size_t>(slot.n_dropped++);
    slot.number_before = index_.number(slot.table[i]);
    Release(slot.table[i]);
    slot.table[i] = kNoPage;
    slot.pages[i] = nullptr;
    PromiseWanted(slot);
  }

  // Promises a sequence what it may still come to need, as far as there is.
  void PromiseWanted(Slot& slot) {
    const int64_t n_own = std::ssize(slot.table) - slot.n_dropped;
    const int64_t n_wanted = PagesWanted(slot.capacity, slot.n_dropped) - n_own - slot.n_promised;
    const int64_t n = std::min(n_wanted, pool_.n_unpromised());
    if (n <= 0) return;
    pool_.Promise(n);
    slot.n_promised += n;
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
      // With all that it may have at a time, the first is one that no query of the step sees.
      if (std::ssize(slot.table) - slot.n_dropped == most_pages_) {
        assert(slot.n_dropped < PagesBefore(entry.start_pos));
        DropFirst(slot);
      }
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

  // What the page before the i-th is, or was, listed as.
  uint64_t NumberBefore(const Slot& slot, size_t i) const {
    if (i == 0) return PrefixIndex::kStart;
    const int32_t before = slot.table[i - 1];
    return before == kNoPage ? slot.number_before : index_.number(before);
  }

  // Lists a page that has become full, or puts the one like it that is listed in its place.
  void List(Slot& slot, size_t i) {
    const int32_t page = slot.table[i];
    const uint64_t previous = NumberBefore(slot, i);
    assert(i == 0 || previous != PrefixIndex::kStart);  // known ids, in order: it was listed
    const int32_t listed = index_.Find(previous, index_.ids(page));
    if (listed < 0) return index_.Add(page, previous);
    Release(page);
    Hold(listed);
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
  const int64_t most_pages_;                 // of a sequence at one time
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
