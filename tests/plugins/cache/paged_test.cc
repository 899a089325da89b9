#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "core/machine/executor.h"
#include "ng/cache_capabilities.h"
#include "ng/conform/attention_rig.h"
#include "ng/conform/cache.h"
#include "plugins/attention/flash/flash_attention.h"
#include "plugins/attention/reference/reference_attention.h"
#include "plugins/cache/contiguous/contiguous_store.h"
#include "plugins/cache/paged/paged_store.h"
#include "plugins/cache/paged/prefix_index.h"
#include "tests/support/sanitized.h"

namespace ng {
namespace {

using conform::AttentionCase;
using conform::AttentionRig;
using conform::CaptureRequest;
using conform::CheckCache;
using conform::CheckCacheScripts;
using conform::FindBitDifference;
using conform::LastTokenSteps;
using conform::MakeAttention;
using conform::MakeCache;
using conform::MakeData;
using conform::RandomSteps;
using conform::WholeSteps;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::string_view kPagedLayouts[] = {kLayoutTiles16};
constexpr int kHeads = 2;
constexpr int kHeadDim = 5;

struct Options {
  int64_t page_tokens = 32;
  int64_t pool_tokens = 0;
  bool share_prefixes = true;
};

std::vector<OptionValue> Values(const Options& options) {
  std::vector<OptionValue> values(3);
  values[0].name = "page_tokens";
  values[0].type = OptionType::kInt;
  values[0].integer = options.page_tokens;
  values[1].name = "pool_tokens";
  values[1].type = OptionType::kInt;
  values[1].integer = options.pool_tokens;
  values[2].name = "share_prefixes";
  values[2].type = OptionType::kBool;
  values[2].boolean = options.share_prefixes;
  return values;
}

absl::StatusOr<std::unique_ptr<CacheStore>> Create(const PluginContext& context,
                                                   const CacheSpec& spec, const Options& options) {
  const std::vector<OptionValue> values = Values(options);
  PluginContext with_options = context;
  with_options.options = OptionValues(values);
  return CreatePagedStore(with_options, spec);
}

MakeCache Maker(const Options& options) {
  return [options](const PluginContext& context, const CacheSpec& spec) {
    return Create(context, spec, options);
  };
}

CacheSpec SmallPagedSpec() {
  return {.n_layers = 2,
          .n_kv_heads = kHeads,
          .head_dim = kHeadDim,
          .max_tokens = 100,
          .max_sequences = 3,
          .layouts = kPagedLayouts};
}

std::vector<int32_t> Ids(int64_t n, int32_t first = 0) {
  std::vector<int32_t> ids(static_cast<size_t>(n));
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

class PagedStoreTest : public testing::Test {
 protected:
  PagedStoreTest() { context_.executor = executor_.get(); }

  std::unique_ptr<CacheStore> Make(const CacheSpec& spec, const Options& options = {}) {
    auto store = Create(context_, spec, options);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  absl::Status PlanStatus(const CacheSpec& spec, const Options& options) {
    const std::vector<OptionValue> values = Values(options);
    context_.options = OptionValues(values);
    absl::Status status = PlanPagedStore(context_, spec).status();
    context_.options = {};
    return status;
  }

  static int64_t Count(CacheStore& store, std::string_view name) {
    return StatisticValue(CapabilityOf<Statistics>(store)->Values().value(), name);
  }

  static absl::StatusOr<SequenceId> OpenFor(CacheStore& store, const std::vector<int32_t>& prompt,
                                            int64_t capacity) {
    return CapabilityOf<PrefixSharing>(store)->OpenFor(prompt, capacity);
  }

  // Feeds ids whose rows hold `value` everywhere.
  static absl::Status Feed(CacheStore& store, SequenceId sequence, std::vector<int32_t> ids,
                           float value = 1.0F) {
    const auto n = static_cast<int64_t>(ids.size());
    const std::vector<float> data(ids.size() * kHeads * kHeadDim, value);
    const TensorView<const float, 3> tensor(data.data(), {n, kHeads, kHeadDim});
    const SequenceRows rows{
        .sequence = sequence, .start_pos = store.Length(sequence), .n_tokens = n, .tokens = ids};
    for (int layer = 0; layer < 2; ++layer) {
      NG_RETURN_IF_ERROR(store.Append(layer, {&rows, 1}, tensor, tensor));
    }
    return store.Commit({&rows, 1});
  }

  static float KeyAt(const CacheStore& store, SequenceId sequence, int64_t token) {
    std::vector<float> row(kHeadDim);
    store.CopyRow(KvPart::kKey, store.View(1, sequence, store.Length(sequence)), token, 1,
                  row.data());
    return row.back();
  }

  std::unique_ptr<Executor> executor_ = MakeExecutor(2);
  PluginContext context_;
};

TEST_F(PagedStoreTest, ConformsWithEveryPageSize) {
  for (const int64_t page_tokens : {16, 48, 256}) {
    const auto seed = static_cast<uint32_t>(page_tokens);
    const bool quick = kSanitized || page_tokens != 48;
    EXPECT_THAT(CheckCache({.settings = {.seed = seed, .quick = quick},
                            .make = Maker({.page_tokens = page_tokens})}),
                IsEmpty())
        << "pages of " << page_tokens;
  }
}

// CheckCacheScripts runs 75 scripts. A pool may be too small for what all sequences may hold.
TEST_F(PagedStoreTest, AgreesWithThePlainModelOverAThousandScripts) {
  for (uint32_t i = 0; i < (kSanitized ? 1 : 7); ++i) {
    // 4 pages are one sequence of the longest, or four short ones.
    for (const int64_t pool_tokens : {0, i % 2 == 0 ? 64 : 96}) {
      EXPECT_EQ(CheckCacheScripts({.settings = {.seed = 1000 + 100 * i},
                                   .make = Maker({.page_tokens = 16, .pool_tokens = pool_tokens})},
                                  80),
                "");
    }
  }
}

TEST_F(PagedStoreTest, ConformsWithoutSharing) {
  EXPECT_THAT(CheckCache({.settings = {.quick = kSanitized},
                          .make = Maker({.page_tokens = 16, .share_prefixes = false})}),
              IsEmpty());
}

TEST_F(PagedStoreTest, PlansWhatItReserves) {
  // 3 sequences x 4 pages x 2 layers x (K + V) x 2 heads x 32 tokens x 5 x 4 bytes.
  const CachePlan plan = Make(SmallPagedSpec())->plan();
  EXPECT_EQ(plan.layout, kLayoutTiles16);
  EXPECT_EQ(plan.bytes, 3 * 4 * 2 * 2 * 2 * 32 * 5 * 4);
  EXPECT_EQ(plan.bytes_per_token, 2 * 2 * 2 * 5 * 4);
  EXPECT_EQ(plan.share_tokens, 32);
  EXPECT_EQ(Make(SmallPagedSpec(), {.pool_tokens = 128})->plan().bytes, 4 * 2 * 2 * 2 * 32 * 5 * 4);
  EXPECT_EQ(Make(SmallPagedSpec(), {.share_prefixes = false})->plan().share_tokens, 0);
}

TEST_F(PagedStoreTest, RefusesSizesThatAreNoMultiplesNamingTheUnit) {
  EXPECT_EQ(PlanStatus(SmallPagedSpec(), {.page_tokens = 40}),
            UsageError("cache.paged.page_tokens = 40, must be a multiple of 16"));
  EXPECT_EQ(PlanStatus(SmallPagedSpec(), {.page_tokens = 48, .pool_tokens = 200}),
            UsageError("cache.paged.pool_tokens = 200, must be a multiple of "
                       "cache.paged.page_tokens = 48"));
}

TEST_F(PagedStoreTest, RefusesAPoolThatNoSequenceFitsWithTheNumbers) {
  EXPECT_EQ(PlanStatus(SmallPagedSpec(), {.pool_tokens = 96}),
            LimitError("cache.paged.pool_tokens = 96 are 3 pages of 32 tokens, a sequence of 100 "
                       "tokens needs 4"));
}

TEST_F(PagedStoreTest, RefusesSizesThatOverflow) {
  for (const int64_t max_tokens : {std::numeric_limits<int64_t>::max(), int64_t{1} << 40}) {
    CacheSpec spec = SmallPagedSpec();
    spec.max_tokens = max_tokens;
    const absl::Status status = PlanStatus(spec, {});
    EXPECT_EQ(ExitCode(status), 5) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::to_string(max_tokens)));
  }
  EXPECT_EQ(ExitCode(PlanStatus(SmallPagedSpec(), {.pool_tokens = int64_t{1} << 62})), 5);
}

TEST_F(PagedStoreTest, RefusesEmptyShapesUnknownCodecsAndLayouts) {
  CacheSpec spec = SmallPagedSpec();
  spec.max_tokens = -1;
  EXPECT_THAT(std::string(PlanStatus(spec, {}).message()), HasSubstr("max_tokens = -1"));
  spec = SmallPagedSpec();
  spec.max_sequences = 0;
  EXPECT_THAT(std::string(PlanStatus(spec, {}).message()), HasSubstr("max_sequences = 0"));
  spec = SmallPagedSpec();
  spec.codec_k = static_cast<Codec>(99);
  EXPECT_EQ(ExitCode(PlanStatus(spec, {})), 4);
  constexpr std::string_view kOthers[] = {"tiles99"};
  spec = SmallPagedSpec();
  spec.layouts = kOthers;
  EXPECT_EQ(ExitCode(PlanStatus(spec, {})), 4);
}

TEST_F(PagedStoreTest, AdmitsWhatFitsWholeAndRefusesTheRestWithTheNumbers) {
  const auto store = Make(SmallPagedSpec(), {.pool_tokens = 192});
  const SequenceId a = *store->Open(100);  // 4 of 6 pages, none taken yet
  const absl::Status status = store->Open(65).status();
  EXPECT_EQ(status, LimitError("a sequence of 65 tokens needs 3 free pages of 32 tokens: of 6 in "
                               "the pool, 0 are in use and 2 free for a new sequence"));
  const SequenceId b = *store->Open(64);
  EXPECT_TRUE(Feed(*store, a, Ids(100)).ok());
  EXPECT_TRUE(Feed(*store, b, Ids(64, 500)).ok());
  EXPECT_EQ(Count(*store, "pages_held"), 6);
  store->Close(a);
  EXPECT_EQ(Count(*store, "pages_held"), 2);
  EXPECT_TRUE(store->Open(100).ok());
}

TEST_F(PagedStoreTest, SharesFullPagesOfOpenAndOfClosedSequences) {
  const auto store = Make(SmallPagedSpec());
  const SequenceId a = *OpenFor(*store, Ids(80), 100);
  EXPECT_EQ(store->Length(a), 0);
  ASSERT_TRUE(Feed(*store, a, Ids(80), 7.0F).ok());
  const SequenceId b = *OpenFor(*store, Ids(80), 100);
  EXPECT_EQ(store->Length(b), 64);
  EXPECT_EQ(store->View(1, a, 64).pages[1], store->View(1, b, 64).pages[1]);
  EXPECT_EQ(Count(*store, "pages_held"), 3);
  store->Close(a);
  store->Close(b);
  EXPECT_EQ(Count(*store, "pages_held"), 0);
  const SequenceId c = *OpenFor(*store, Ids(90), 100);
  EXPECT_EQ(store->Length(c), 64);
  EXPECT_EQ(KeyAt(*store, c, 63), 7.0F);
  EXPECT_EQ(Count(*store, "prompt_tokens"), 80 + 80 + 90);
  EXPECT_EQ(Count(*store, "shared_tokens"), 64 + 64);
}

// The last token's logits must be computed.
TEST_F(PagedStoreTest, NeverSharesTheLastTokenOfAPrompt) {
  const auto store = Make(SmallPagedSpec());
  ASSERT_TRUE(Feed(*store, *store->Open(100), Ids(64)).ok());
  EXPECT_EQ(store->Length(*OpenFor(*store, Ids(64), 64)), 32);
  EXPECT_EQ(store->Length(*OpenFor(*store, Ids(65), 65)), 64);
}

TEST_F(PagedStoreTest, SharesOnlyWhatBeginsAlike) {
  const auto store = Make(SmallPagedSpec());
  ASSERT_TRUE(Feed(*store, *store->Open(100), Ids(96)).ok());
  std::vector<int32_t> other = Ids(96);
  other[3] = 77;  // the second page's ids are the same, what they follow is not
  EXPECT_EQ(store->Length(*OpenFor(*store, other, 100)), 0);
  other = Ids(96, 32);  // that page's ids, first
  EXPECT_EQ(store->Length(*OpenFor(*store, other, 100)), 0);
}

TEST_F(PagedStoreTest, FillsAPageThatIsThereAlreadyWithoutKeepingASecondOne) {
  const auto store = Make(SmallPagedSpec());
  const SequenceId a = *OpenFor(*store, Ids(40), 100);
  const SequenceId b = *OpenFor(*store, Ids(40), 100);
  ASSERT_TRUE(Feed(*store, a, Ids(40)).ok());
  ASSERT_TRUE(Feed(*store, b, Ids(40)).ok());
  EXPECT_EQ(store->View(0, a, 32).pages[0], store->View(0, b, 32).pages[0]);
  EXPECT_EQ(Count(*store, "pages_held"), 3);
}

TEST_F(PagedStoreTest, NeedsThePagesLongestFreeFirst) {
  CacheSpec spec = SmallPagedSpec();
  spec.max_tokens = 64;
  const auto store = Make(spec, {.pool_tokens = 128});
  const SequenceId a = *store->Open(64);
  ASSERT_TRUE(Feed(*store, a, Ids(64)).ok());
  store->Close(a);
  const SequenceId b = *store->Open(64);
  ASSERT_TRUE(Feed(*store, b, Ids(64, 100)).ok());
  store->Close(b);
  EXPECT_EQ(Count(*store, "dropped_pages"), 0);  // there were others
  const SequenceId c = *store->Open(32);
  ASSERT_TRUE(Feed(*store, c, Ids(32, 200)).ok());
  store->Close(c);
  EXPECT_EQ(Count(*store, "dropped_pages"), 1);
  // The end of the first text is gone, its beginning is not.
  EXPECT_EQ(store->Length(*OpenFor(*store, Ids(65), 64)), 32);
  EXPECT_EQ(store->Length(*OpenFor(*store, Ids(65, 100), 64)), 64);
}

TEST_F(PagedStoreTest, CopiesAForksLastPageWhenEitherWritesToIt) {
  for (const bool parent_first : {true, false}) {
    const auto store = Make(SmallPagedSpec(), {.pool_tokens = 192});
    const SequenceId parent = *store->Open(64);
    ASSERT_TRUE(Feed(*store, parent, Ids(40), 1.0F).ok());
    const SequenceId fork = *store->Fork(parent, 64);
    EXPECT_EQ(Count(*store, "pages_held"), 2);
    const SequenceId first = parent_first ? parent : fork;
    const SequenceId second = parent_first ? fork : parent;
    ASSERT_TRUE(Feed(*store, first, Ids(24, 40), 2.0F).ok());
    EXPECT_EQ(Count(*store, "copied_pages"), 1);
    ASSERT_TRUE(Feed(*store, second, Ids(24, 90), 3.0F).ok());
    EXPECT_EQ(Count(*store, "copied_pages"), 1);
    EXPECT_EQ(KeyAt(*store, first, 39), 1.0F);
    EXPECT_EQ(KeyAt(*store, second, 39), 1.0F);
    EXPECT_EQ(KeyAt(*store, first, 40), 2.0F);
    EXPECT_EQ(KeyAt(*store, second, 40), 3.0F);
    EXPECT_EQ(Count(*store, "pages_held"), 3);
  }
}

// A fork's pages, and the one for the copy, are promised: the parent's growth cannot take them.
TEST_F(PagedStoreTest, AForkIsRefusedWhenItsCopyHasNoPage) {
  CacheSpec spec = SmallPagedSpec();
  spec.max_tokens = 64;
  const auto store = Make(spec, {.pool_tokens = 64});
  const SequenceId parent = *store->Open(40);
  ASSERT_TRUE(Feed(*store, parent, Ids(36)).ok());
  EXPECT_EQ(ExitCode(store->Fork(parent, 40).status()), 5);
  ASSERT_TRUE(store->Truncate(parent, 32).ok());
  EXPECT_EQ(ExitCode(store->Fork(parent, 40).status()), 5);
  EXPECT_TRUE(store->Fork(parent, 32).ok());
}

TEST_F(PagedStoreTest, TruncatesWithoutCopyingAndGivesPagesBackAtOnce) {
  const auto store = Make(SmallPagedSpec());
  const SequenceId id = *store->Open(100);
  ASSERT_TRUE(Feed(*store, id, Ids(100), 4.0F).ok());
  const std::byte* page = store->View(0, id, 100).pages[1];
  ASSERT_TRUE(store->Truncate(id, 40).ok());
  EXPECT_EQ(Count(*store, "pages_held"), 2);
  EXPECT_EQ(store->View(0, id, 40).pages[1], page);
  ASSERT_TRUE(Feed(*store, id, Ids(60, 500), 5.0F).ok());
  EXPECT_EQ(store->View(0, id, 100).pages[1], page);
  EXPECT_EQ(Count(*store, "copied_pages"), 0);
  EXPECT_EQ(KeyAt(*store, id, 39), 4.0F);
  EXPECT_EQ(KeyAt(*store, id, 40), 5.0F);
  // What was overwritten is not found any more, what was written is.
  EXPECT_EQ(store->Length(*OpenFor(*store, Ids(100), 100)), 32);
  std::vector<int32_t> written = Ids(40);
  const std::vector<int32_t> rest = Ids(60, 500);
  written.insert(written.end(), rest.begin(), rest.end());
  EXPECT_EQ(store->Length(*OpenFor(*store, written, 100)), 96);
}

// Tokens that others hold still cannot be written anew when nothing is free; nobody else suffers.
TEST_F(PagedStoreTest, WritingAnewWhatOthersHoldNeedsAFreePage) {
  const auto store = Make(SmallPagedSpec(), {.pool_tokens = 128});
  const SequenceId a = *OpenFor(*store, Ids(64), 64);
  ASSERT_TRUE(Feed(*store, a, Ids(64)).ok());
  const SequenceId b = *OpenFor(*store, Ids(70), 70);
  const SequenceId c = *store->Open(32);
  ASSERT_TRUE(store->Truncate(b, 0).ok());
  const absl::Status status = Feed(*store, b, Ids(70, 300));
  EXPECT_EQ(ExitCode(status), 5);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("cache overflow"), HasSubstr("4 pages")));
  EXPECT_TRUE(Feed(*store, c, Ids(32, 200)).ok());
}

TEST_F(PagedStoreTest, CountsTheEmptySlotsOfItsFullestMoment) {
  const auto store = Make(SmallPagedSpec());
  const SequenceId a = *store->Open(100);
  ASSERT_TRUE(Feed(*store, a, Ids(33)).ok());
  ASSERT_TRUE(Feed(*store, *store->Open(100), Ids(1, 50)).ok());
  store->Close(a);
  EXPECT_EQ(Count(*store, "most_pages_held"), 3);
  EXPECT_EQ(Count(*store, "most_held_empty"), 31 + 31);
}

// One bucket: everything collides, and only the same ids behind the same page are found.
TEST(PrefixIndex, ComparesIdsNotHashes) {
  PrefixIndex index(1, 2);
  index.ids(0)[0] = 5;
  index.ids(0)[1] = 6;
  index.Add(0, PrefixIndex::kStart);
  const std::vector<int32_t> same = {5, 6};
  const std::vector<int32_t> other = {6, 5};
  EXPECT_EQ(index.Find(PrefixIndex::kStart, same), 0);
  EXPECT_EQ(index.Find(PrefixIndex::kStart, other), -1);
  EXPECT_EQ(index.Find(index.number(0), same), -1);
  index.Remove(0);
  EXPECT_EQ(index.Find(PrefixIndex::kStart, same), -1);
  EXPECT_EQ(index.number(0), 0U);
}

TEST(PrefixIndex, FindsNothingBehindAPageThatWasListedAnew) {
  PrefixIndex index(2, 1);
  const std::vector<int32_t> child = {9};
  index.ids(0)[0] = 1;
  index.ids(1)[0] = 9;
  index.Add(0, PrefixIndex::kStart);
  index.Add(1, index.number(0));
  EXPECT_EQ(index.Find(index.number(0), child), 1);
  index.Remove(0);
  index.ids(0)[0] = 2;
  index.Add(0, PrefixIndex::kStart);
  EXPECT_EQ(index.Find(index.number(0), child), -1);
}

// A paged store all of whose memory is NaN: the valid prefix is all that anybody may see.
absl::StatusOr<std::unique_ptr<CacheStore>> CreatePoisoned(const PluginContext& context,
                                                           const CacheSpec& spec,
                                                           int64_t page_tokens) {
  NG_ASSIGN_OR_RETURN(std::unique_ptr<CacheStore> store,
                      Create(context, spec, {.page_tokens = page_tokens}));
  const int64_t n = spec.max_tokens;
  const std::vector<float> zeros(static_cast<size_t>(n * spec.n_kv_heads * spec.head_dim));
  const TensorView<const float, 3> tensor(zeros.data(), {n, spec.n_kv_heads, spec.head_dim});
  std::vector<SequenceId> ids;
  for (int i = 0; i < spec.max_sequences; ++i) {
    NG_ASSIGN_OR_RETURN(const SequenceId id, store->Open(n));
    ids.push_back(id);
    const SequenceRows rows{.sequence = id, .n_tokens = n};
    for (int layer = 0; layer < spec.n_layers; ++layer) {
      NG_RETURN_IF_ERROR(store->Append(layer, {&rows, 1}, tensor, tensor));
      const KvView view = store->View(layer, id, n);
      for (const std::byte* page : view.pages) {
        for (int head = 0; head < spec.n_kv_heads; ++head) {
          for (const KvSide& side : {view.k, view.v}) {
            std::memset(const_cast<std::byte*>(page) + side.offset + head * side.head_stride, 0xFF,
                        static_cast<size_t>(page_tokens / kTileTokens * side.tile_bytes));
          }
        }
      }
    }
  }
  for (const SequenceId id : ids) store->Close(id);
  return store;
}

class PagedAttention : public testing::TestWithParam<int64_t> {};

// Pages do not show: neither their size against the keys of a split nor where they lie.
TEST_P(PagedAttention, GivesTheBitsOfTheContiguousStore) {
  const int64_t page_tokens = GetParam();
  const MakeCache paged = [page_tokens](const PluginContext& context, const CacheSpec& spec) {
    return CreatePoisoned(context, spec, page_tokens);
  };
  std::vector<AttentionCase> cases = {
      {.n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .lengths = {15, 16, 270}},
      {.n_heads = 3,
       .n_kv_heads = 1,
       .head_dim = 7,
       .codec_k = Codec::kBf16,
       .codec_v = Codec::kBf16,
       .lengths = {600, 33}},
      {.n_heads = 2,
       .n_kv_heads = 2,
       .head_dim = 64,
       .codec_k = Codec::kF16,
       .codec_v = Codec::kF32,
       .lengths = {257, 1}},
  };
  const auto executor = MakeExecutor(3);
  for (const IsaLevel isa : SupportedIsaLevels()) {
    PluginContext context;
    context.executor = executor.get();
    context.isa = isa;
    for (AttentionCase& c : cases) {
      for (const MakeAttention& attention :
           {MakeAttention(CreateFlashAttention), MakeAttention(CreateReferenceAttention)}) {
        const auto data = MakeData(c);
        const std::vector<CaptureRequest> captures = {{0, c.lengths[0] - 1, 1}, {1, 0, 0}};
        const auto plain = AttentionRig::Make(c, attention, CreateContiguousStore, context);
        const auto pages = AttentionRig::Make(c, attention, paged, context);
        ASSERT_TRUE(plain.ok() && pages.ok()) << plain.status() << pages.status();
        const auto want = (*plain)->Run(data, WholeSteps(c), {.captures = captures});
        std::mt19937 random(c.seed);
        // Twice: the second run finds the pages of the first, in another order.
        for (const auto& steps : {LastTokenSteps(c, 3), RandomSteps(c, &random)}) {
          const auto got = (*pages)->Run(data, steps, {.captures = captures});
          ASSERT_TRUE(want.ok() && got.ok()) << want.status() << got.status();
          EXPECT_EQ(FindBitDifference(got->out, want->out), "") << c.Describe();
          EXPECT_EQ(FindBitDifference(got->captured, want->captured), "") << c.Describe();
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(PageSizes, PagedAttention, testing::Values(16, 32, 48, 80, 112, 256));

}  // namespace
}  // namespace ng
