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
#include <vector>

#include "core/model/ops/state_store.h"
#include "core/plugin/cache_groups.h"
#include "core/snapshot/cache_file.h"
#include "ng/cache_store.h"
#include "ng/status.h"

namespace ng {

// That a prompt begins with the file's ids. Errors: UsageError naming the file, the first position
// that differs and both ids, or both lengths.
absl::Status CheckBegins(const CacheFile& file, std::span<const int32_t> prompt);

// That a file was made with what this run has; what is empty in `identity` is not compared. Errors:
// ModelFileError naming the file, the field, what the file has and what it must have.
absl::Status CheckIdentity(const CacheFile& file, const std::vector<CacheField>& identity);

class CacheSnapshots {
 public:
  // What is saved and loaded; borrowed. REQUIRES: the store's plan().image_tile_bytes > 0.
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
  // keeps a state all tokens of the file, or none: the state is the one behind the last. Errors:
  // ModelFileError, then nothing has been added; what the store answers. REQUIRES: the sequence
  // begins as the file does; end <= the file's tokens.
  absl::Status Load(const CacheFile& file, int64_t end, SequenceId sequence) const;

  // ids: [length], those of the sequence's tokens. Errors: OutputError; what the store answers.
  absl::Status Save(SequenceId sequence, std::span<const int32_t> ids,
                    const std::string& path) const;

 private:
  // A file gives every layer the bytes of the largest image.
  int64_t LayerBytes(int64_t n_tokens) const;

  CacheGroups& store_;
  StateStore& states_;
  const std::vector<CacheField> identity_;
  const std::atomic<bool>* const stop_;
};

}  // namespace ng

#endif  // NG_CORE_SNAPSHOT_CACHE_SNAPSHOT_H_
