#include "plugins/cache/paged/pool_shape.h"

#include <algorithm>
#include <limits>
#include <string>

#include "ng/tiles16.h"

namespace ng {
namespace {

constexpr int64_t kMostPages = std::numeric_limits<int32_t>::max() - 1;

absl::Status CheckMultiple(const char* option, int64_t value, const char* unit_name, int64_t unit) {
  if (value % unit == 0) return absl::OkStatus();
  return UsageError("cache.paged." + std::string(option) + " = " + std::to_string(value) +
                    ", must be a multiple of " + unit_name + std::to_string(unit));
}

// Pages of the pool: as asked for, at least enough for one sequence.
absl::StatusOr<int64_t> CountPages(const CacheSpec& spec, int64_t page_tokens,
                                   int64_t pool_tokens) {
  const int64_t pages_each = PagesEach(spec, page_tokens);
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

}  // namespace

int64_t PagesEach(const CacheSpec& spec, int64_t page_tokens) {
  const int64_t all = DivideUp(spec.max_tokens, page_tokens);
  const int64_t held = spec.held_tokens();
  return held == spec.max_tokens ? all : std::min(all, DivideUp(held - 1, page_tokens) + 1);
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
    pages.window = 0;
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
  shape.k_bytes = page.plan.v_in_k ? page.layer_bytes : page.v.offset;
  shape.v_bytes = page.layer_bytes - shape.k_bytes;
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

}  // namespace ng
