// The kernel of the backends flash and sparse: one work item, on one thread, on one ISA level.
//
// A key's number is its position, or where tokens have left, its slot (KvView::gone); where a query
// reads some tiles only, it counts those (FlashItem::skipped). The keys of a sequence are cut at
// multiples of kSplitKeys from number 0. Within a split a query meets, from the first key that its
// window leaves it, scores (soft cap and ALiBi applied), their maximum, e^(score - maximum) in key
// order and the weighted values, each value dimension summed key by key; then (maximum, sum, out)
// is merged into the splits to its left. The softmax over splits is that of Milakov & Gimelshein
// 2018 and Dao et al. 2022. Every query goes through exactly these operations whatever else is
// computed beside it and whoever computes which split: this is the bit contract.
//
// Keys and values are widened to f32, in which everything is computed; but on the level avx512_bf16
// a query that meets bf16 keys and weights that meet bf16 values are rounded to bf16, and products
// of pairs are summed in f32. And on every level a query that meets int8 or int4 keys, and the
// weights of a split times the scales of such values, are rounded to 16-bit integers relative to
// the largest of them, and products are summed exactly, in 32 bits. A few rows read the integers as
// they are packed; for many, each tile is unpacked once, to 16 bits, of which the bits are the
// same.
#ifndef NG_PLUGINS_ATTENTION_FLASH_FLASH_KERNEL_H_
#define NG_PLUGINS_ATTENTION_FLASH_FLASH_KERNEL_H_

#include <cstdint>
#include <span>

#include "ng/attention_backend.h"
#include "ng/isa.h"

namespace ng {

// Part of the bit contract: never depends on the shape or the machine.
inline constexpr int kSplitKeys = 256;

inline int64_t SplitsOf(int64_t n_keys) { return (n_keys + kSplitKeys - 1) / kSplitKeys; }

// Whether tokens have left the entry, in any kv head.
inline bool HasLeft(const SequenceRows& rows) { return rows.gone > 0 || !rows.heads.empty(); }

// Of the keys that a query of the entry reads, the first one whose place is known before the views
// are. Where tokens have left, a window begins in another slot in every head.
inline int64_t FirstPlannedKey(const AttentionSpec& spec, const SequenceRows& rows, int64_t query) {
  return HasLeft(rows) ? 0 : spec.FirstKey(rows.start_pos + query);
}

// One piece of work: queries [query_begin, query_end) (token offsets within the sequence's rows) of
// the heads that share `kv_head`, over keys [key_begin, key_end). key_begin begins a split, of
// which a window may hide the first keys.
struct FlashItem {
  int32_t sequence = 0;  // index into the step's rows
  int32_t kv_head = 0;
  int64_t query_begin = 0;
  int64_t query_end = 0;
  int64_t key_begin = 0;
  int64_t key_end = 0;
  // Where several items share the keys of the same queries: the place in the scratch, in floats, of
  // what each of them got. -1: this item has all the keys that its queries see.
  int64_t partials = -1;
  // The same of the weights of keys, where AttentionRun::attended is asked for. -1: the worker's
  // own place.
  int64_t weights = -1;
  // Where a query reads some tiles only: how many keys it passes over, and the place in the scratch
  // of the tiles that it reads, int32_t, rising. Key numbers then count keys that are read: the
  // first tile that the query sees has its own number, each other one the next. In the list it is
  // the first. 0: all keys are read. Such an item has one query, of a sequence whose tokens are all
  // there (KvView::gone).
  int64_t skipped = 0;
  int64_t chosen = 0;
};

// The tile that a chosen one is, by its number among those that are read; before the first of them
// each is itself. REQUIRES: item.skipped > 0.
inline int64_t TileOf(const FlashItem& item, int64_t first, int64_t number,
                      std::span<const float> scratch) {
  if (number < first) return number;
  return reinterpret_cast<const int32_t*>(scratch.data() + item.chosen)[number - first];
}

struct FlashWork {
  const AttentionSpec& spec;
  const FlashItem& item;
  const FlashItem* next;  // what the worker will do after; fetched ahead; may be null
};

struct FlashKernel {
  int block_rows;  // rows that share what is loaded of the keys and values
  // [worker] scratch: a WorkerScratch for the item's rows (flash_scratch.h), 64-byte aligned.
  void (*attend)(const AttentionRun& run, const FlashWork& work, float* scratch);

  template <IsaLevel>
  static const FlashKernel& At();  // one for each level: flash_kernel_levels.cc
};

}  // namespace ng

#endif  // NG_PLUGINS_ATTENTION_FLASH_FLASH_KERNEL_H_
