// Cache snapshots: sequences of a store to files (snapshot/cache_file.h) and back, bit for bit.
//
// Used by the engine and its generate loop, on their thread. A layer at a time is in memory; a
// sequence that is read gets its length when all of the file has been read and checked.
#ifndef NG_CORE_SNAPSHOT_CACHE_SNAPSHOT_H_
#define NG_CORE_SNAPSHOT_CACHE_SNAPSHOT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/ops/state_store.h"
#include "core/plugin/cache_groups.h"
#include "core/snapshot/cache_file.h"
#include "ng/cache_store.h"
#include "ng/status.h"

namespace ng {

// The field of a cache whose tokens leave that says by what they do; a file and a run without it
// have all tokens.
inline constexpr std::string_view kLeavingField = "cache";

// That a prompt begins with the file's ids. Errors: UsageError naming the file, the first position
// that differs and both ids, or both lengths.
absl::Status CheckBegins(const CacheFile& file, std::span<const int32_t> prompt);

// That a file was made with what this run has; what is empty in `identity` is not compared. Errors:
// ModelFileError naming the file, the field, what the file has and what it must have.
absl::Status CheckIdentity(const CacheFile& file, const std::vector<CacheField>& identity);

class CacheSnapshots {
 public:
  // What is saved and loaded; borrowed. REQUIRES: the store's plan has image_tile_bytes or
  // sequence_images.
  struct Stores {
    CacheGroups& cache;
    StateStore& states;
  };
  // `stop` is borrowed; it may be null, and ends a wait for the reader of a pipe that is saved to.
  CacheSnapshots(const Stores& stores, std::vector<CacheField> identity,
                 const std::atomic<bool>* stop = nullptr);

  // Errors: ModelFileError for a file that is damaged or was made with anything else.
  absl::StatusOr<CacheFile> Open(const std::string& path) const;

  // Adds the file's tokens from the sequence's length up to `end` to the sequence. Of a model that
  // keeps a state all tokens of the file, or none: the state is the one behind the last. Likewise
  // of a store whose tokens leave, unless it can go back to `end`. Errors: ModelFileError, then
  // nothing has been added; what the store answers. REQUIRES: the sequence begins as the file does;
  // end <= the file's tokens.
  absl::Status Load(const CacheFile& file, int64_t end, SequenceId sequence) const;

  // ids: [length], those of the sequence's tokens. Errors: OutputError; what the store answers.
  absl::Status Save(SequenceId sequence, std::span<const int32_t> ids,
                    const std::string& path) const;

 private:
  // A file gives every layer the bytes of the largest image.
  int64_t LayerBytes(int64_t n_tokens) const;
  // Whether a file has one image of all layers, for tokens leave.
  bool whole() const {
    const CachePlan plan = store_.plan();
    return plan.sequence_images && plan.image_tile_bytes == 0;
  }
  int n_layers() const { return whole() ? 1 : store_.n_layers(); }
  absl::Status LoadWhole(const CacheFile& file, int64_t end, SequenceId sequence) const;
  absl::Status LoadState(const CacheFile& file, SequenceId sequence) const;

  CacheGroups& store_;
  StateStore& states_;
  const std::vector<CacheField> identity_;
  const std::atomic<bool>* const stop_;
};

}  // namespace ng

#endif  // NG_CORE_SNAPSHOT_CACHE_SNAPSHOT_H_
