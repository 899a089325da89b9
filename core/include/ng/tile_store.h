// Bases for stores of layouts "tiles16" and "tiles16_bounds", whose bounds they write too: their
// memory, and rows written to and read from it.
//
// A store that derives from TileStore only decides which pages a sequence has, and shows them by
// its View; all rows go in and out through such views, as floats or as images of snapshots. It
// writes all codecs, at the speed of the shipped stores. MakePageShape (ng/tiles16.h) says how
// large pages are and where things lie in them; ReserveTiles gives their memory.
//
// ContiguousTileStore is the whole store of one page for each sequence, over memory of whatever
// kind.
#ifndef NG_TILE_STORE_H_
#define NG_TILE_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ng/cache_capabilities.h"
#include "ng/cache_store.h"
#include "ng/executor.h"
#include "ng/plugin.h"
#include "ng/status.h"
#include "ng/tiles16.h"

#pragma GCC visibility push(default)
namespace ng {

// [load] Memory for a cache, from MapPages (ng/pages.h): the system gives each page when it is
// first written. Errors: LimitError when the system does not give it.
absl::StatusOr<std::shared_ptr<std::byte>> ReserveTiles(int64_t bytes);

class TileStore : public CacheStore, public Snapshots {
 public:
  void* Capability(std::string_view name) override;
  void CopyRow(KvPart part, const KvView& view, int64_t token, int kv_head,
               float* out) const override;
  absl::Status Append(int layer, std::span<const SequenceRows> rows,
                      const TensorView<const float, 3>& k,
                      const TensorView<const float, 3>& v) final;
  absl::Status ExportLayer(int layer, SequenceId sequence, std::span<std::byte> image) const final;
  absl::Status ImportLayer(int layer, const SequenceRows& rows,
                           std::span<const std::byte> image) final;

 protected:
  TileStore(const PluginContext& context, const CacheSpec& spec);

  // The pages that the rows go to are there afterwards, and nobody else's; they fit the capacity.
  virtual absl::Status MakeRoom(const SequenceRows& rows) = 0;

  // What Open, Truncate, Append and Commit refuse whatever the store, in its words.
  absl::Status CheckCapacity(int64_t capacity) const;
  absl::Status CheckForkCapacity(SequenceId sequence, int64_t capacity) const;
  absl::Status CheckTruncation(SequenceId sequence, int64_t length) const;
  // UnsupportedError where tokens are gone that are needed behind `length` tokens; `first` is held.
  absl::Status CheckHeld(SequenceId sequence, int64_t length, int64_t first) const;
  absl::Status CheckFits(std::span<const SequenceRows> rows) const;

  // Decodes what a kv head has in its first slots. out: [n_slots, head_dim], or of V [n_slots,
  // value_dim]
  void CopySlots(KvPart part, const KvView& view, int kv_head, int64_t n_slots, float* out) const;
  // Puts what a kv head has in one slot, K and V, into another one, bit for bit. The bounds of
  // layout "tiles16_bounds" stay as they are.
  void MoveSlot(const KvView& view, int kv_head, int64_t from, int64_t to);

  const int n_layers_;
  const int n_kv_heads_;
  const int64_t max_tokens_;
  const int64_t window_;  // 0 where all tokens are held

 private:
  // The rows of one sequence and kv head, tile by tile. [worker]
  void WriteHead(const KvView& view, const SequenceRows& entry, int kv_head,
                 const TensorView<const float, 3>& k, const TensorView<const float, 3>& v) const;
  absl::Status CheckImage(size_t n_bytes, int64_t n_tokens) const;

  Executor& executor_;
  const int64_t max_step_tokens_;  // where there is a window
  const int head_dim_;
  const int value_dim_;
  const bool v_in_k_;  // V is not held
  const TileWriter key_writer_;
  const TileWriter value_writer_;
};

// Every sequence owns one run of memory from the start, big enough for all tokens that it holds:
//   [n_layers][K | V][n_kv_heads][tiles of 16 tokens, bounds of K where the layout has them]
// so a view has one page and a kernel walks each head's keys in one straight line. With a window
// the run is a ring: token t is where token t - page_tokens was, and a view has the same page
// several times.
class ContiguousTileStore : public TileStore {
 public:
  // shape: as MakePageShape(spec) gave it; plan() returns its plan, in which the caller may have
  // changed what `bytes` are of. memory: [max_sequences][page_bytes], 64-byte aligned.
  ContiguousTileStore(const PluginContext& context, const CacheSpec& spec, const PageShape& shape,
                      std::shared_ptr<std::byte> memory);

  CachePlan plan() const override { return shape_.plan; }
  absl::StatusOr<SequenceId> Open(int64_t capacity) override;
  void Close(SequenceId sequence) override;
  int64_t Length(SequenceId sequence) const override;
  int64_t Capacity(SequenceId sequence) const override;
  absl::Status Truncate(SequenceId sequence, int64_t length) override;
  absl::StatusOr<SequenceId> Fork(SequenceId sequence, int64_t capacity) override;
  absl::Status Commit(std::span<const SequenceRows> rows) override;
  KvView View(int layer, SequenceId sequence, int64_t length) const override;

 private:
  struct Slot {
    bool open = false;
    int64_t length = 0;
    int64_t capacity = 0;
    int64_t written = 0;  // tokens before this one have been written, some by abandoned steps
  };

  absl::Status MakeRoom(const SequenceRows& rows) override;
  int64_t FirstHeld(SequenceId sequence) const;
  const Slot& At(SequenceId sequence) const;
  Slot& At(SequenceId sequence);
  std::byte* HeadTiles(SequenceId sequence, int layer, const KvSide& side, int kv_head);

  const PageShape shape_;
  const std::shared_ptr<std::byte> memory_;
  const size_t n_pages_;                 // of a view of max_tokens
  std::vector<const std::byte*> pages_;  // [max_sequences][n_pages]
  std::vector<Slot> slots_;              // [max_sequences]
};

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_TILE_STORE_H_
