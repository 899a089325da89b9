// What the stores of layout "tiles16" share: their memory, and rows written to and read from it.
//
// A store that derives from this one only decides which pages a sequence has, and shows them by its
// View; all rows go in and out through such views, as floats or as images of snapshots.
#ifndef NG_PLUGINS_CACHE_TILES_TILE_STORE_H_
#define NG_PLUGINS_CACHE_TILES_TILE_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "ng/cache_capabilities.h"
#include "ng/cache_store.h"
#include "ng/executor.h"
#include "ng/plugin.h"
#include "ng/status.h"
#include "plugins/cache/tiles/tile_writer.h"

namespace ng {

struct UnmapTiles {
  size_t bytes;
  void operator()(std::byte* memory) const;
};
using TileMemory = std::unique_ptr<std::byte, UnmapTiles>;

// Anonymous memory, touched when first written. Errors: LimitError when the system does not give
// it.
absl::StatusOr<TileMemory> ReserveTiles(int64_t bytes);

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
  absl::Status CheckFits(std::span<const SequenceRows> rows) const;

  const int n_layers_;
  const int n_kv_heads_;
  const int64_t max_tokens_;

 private:
  // The rows of one sequence and kv head, tile by tile. [worker]
  void WriteHead(const KvView& view, const SequenceRows& entry, int kv_head,
                 const TensorView<const float, 3>& k, const TensorView<const float, 3>& v) const;
  absl::Status CheckImage(size_t n_bytes, int64_t n_tokens) const;

  Executor& executor_;
  const int head_dim_;
  const TileWriter key_writer_;
  const TileWriter value_writer_;
};

}  // namespace ng

#endif  // NG_PLUGINS_CACHE_TILES_TILE_STORE_H_
