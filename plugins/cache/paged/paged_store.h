// The cache for many sequences in a fixed budget: a pool of pages of some tokens each, layout
// "tiles16", and for each sequence a list of those it has.
//
// The pool's memory is [n_layers][n_kv_heads][K | V][n_pages][tiles of 16 tokens], in one mapping
// that is reserved by create: neighbouring pages are neighbours in every head, so that a sequence
// that grew undisturbed is read in straight lines. Where keys and values of a page differ in size
// it is [n_pages][K | V], for a view has one list of pages for both.
//
// - Open promises a sequence all pages that its capacity needs, and takes them as it grows. What is
//   neither held nor promised is there for others: Open refuses what does not fit.
// - With a window, a sequence is promised no more than it has at one time; where it needs one more,
//   it gives up its first page, which no query sees any longer. Pages that others hold are promised
//   to it as well, for it may give them up and need others. What is given up stays listed, as
//   below.
// - Fork shares all pages; who writes to a shared one gets a copy of it first. The one that can be
//   told ahead, of a last page partly filled, is promised too.
// - Prefixes (share_prefixes): a page that has become full is listed by its ids and its predecessor
//   (prefix_index.h). OpenFor looks the prompt up page by page. Who fills a page that is listed
//   already gets that one in its place. A page that nobody holds any more stays listed until it is
//   the one longest free and a page is needed.
#ifndef NG_PLUGINS_CACHE_PAGED_PAGED_STORE_H_
#define NG_PLUGINS_CACHE_PAGED_PAGED_STORE_H_

#include <memory>

#include "ng/cache_store.h"
#include "ng/plugin.h"
#include "ng/status.h"

namespace ng {

// As CacheFactory. Options: page_tokens, pool_tokens (0: max_sequences of max_tokens each),
// share_prefixes. Errors: UsageError when page_tokens is no multiple of 16, or pool_tokens none of
// page_tokens; PluginError for a layout, codec or shape that this store cannot hold; LimitError
// when no sequence of max_tokens fits the pool, the bytes overflow or (create) the system does not
// give them.
absl::StatusOr<CachePlan> PlanPagedStore(const PluginContext& context, const CacheSpec& spec);
absl::StatusOr<std::unique_ptr<CacheStore>> CreatePagedStore(const PluginContext& context,
                                                             const CacheSpec& spec);

}  // namespace ng

#endif  // NG_PLUGINS_CACHE_PAGED_PAGED_STORE_H_
