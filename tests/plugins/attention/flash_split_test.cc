// Keys shared out over threads: the same bits as when one thread walks them all.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "ng/conform/scattered_store.h"
#include "plugins/attention/flash/flash_attention.h"
#include "plugins/attention/flash/flash_kernel.h"
#include "plugins/cache/contiguous/contiguous_store.h"
#include "tests/plugins/attention/flash_testing.h"
#include "tests/support/sanitized.h"

namespace ng {
namespace {

using conform::FindBitDifference;
using conform::MakeData;
using conform::ScatteredStore;
using conform::WholeSteps;

class FlashSplitTest : public testing::TestWithParam<IsaLevel> {
 protected:
  // One thread shares nothing out, whatever the steps.
  AttentionResult Unsplit(const AttentionCase& c, const std::vector<SequenceData>& data,
                          const std::vector<CaptureRequest>& captures = {}) const {
    return Workbench(c, CreateFlashAttention, ScatteredStore::Create, GetParam(), 1)
        .Run(data, WholeSteps(c), captures);
  }
  AttentionResult Run(const AttentionCase& c, const std::vector<SequenceData>& data, int threads,
                      const std::vector<Step>& steps,
                      const std::vector<CaptureRequest>& captures = {}) const {
    return Workbench(c, CreateFlashAttention, CreateContiguousStore, GetParam(), threads)
        .Run(data, steps, captures);
  }
};

// Positions on both sides of every tile's end near a split's end, and of some other tiles' ends.
std::vector<int64_t> AwkwardPositions(int64_t length) {
  std::vector<int64_t> positions;
  for (int64_t split = kSplitKeys; split <= length; split += kSplitKeys) {
    for (const int64_t pos : {split - 17, split - 16, split - 2, split - 1, split, split + 1,
                              split + 15, split + 16, split + 100}) {
      if (pos < length) positions.push_back(pos);
    }
  }
  return positions;
}

// One sequence: each of the positions in a step of its own, what lies between in one step.
std::vector<Step> SingleSteps(const std::vector<int64_t>& positions, int64_t length) {
  std::vector<Step> steps;
  int64_t done = 0;
  for (const int64_t pos : positions) {
    if (pos > done) steps.push_back({{0, pos - done}});
    steps.push_back({{0, 1}});
    done = pos + 1;
  }
  if (done < length) steps.push_back({{0, length - done}});
  return steps;
}

TEST_P(FlashSplitTest, LoneQueriesKeepTheirBitsOnAnyNumberOfThreads) {
  constexpr int64_t kLength = 3 * kSplitKeys + 21;
  const auto steps = SingleSteps(AwkwardPositions(kLength), kLength);
  for (const Codec codec : kCodecs) {
    for (const int group : {1, 3, 4, 8}) {
      if (kSanitized && group == 4) continue;
      const AttentionCase c{.n_heads = group,
                            .n_kv_heads = 1,
                            .head_dim = 34,
                            .codec_k = codec,
                            .codec_v = codec,
                            .lengths = {kLength}};
      const auto data = MakeData(c);
      const AttentionResult unsplit = Unsplit(c, data);
      ASSERT_FALSE(unsplit.out.empty());
      for (const int threads : {1, 2, 5}) {
        EXPECT_EQ(FindBitDifference(Run(c, data, threads, steps).out, unsplit.out), "")
            << c.Describe() << ", " << threads << " threads";
      }
    }
  }
}

TEST_P(FlashSplitTest, MixedCodecsAndSmallChunksKeepTheirBits) {
  const AttentionCase c{.n_heads = 6,
                        .n_kv_heads = 2,
                        .head_dim = 19,
                        .codec_k = Codec::kBf16,
                        .codec_v = Codec::kF16,
                        .lengths = {4 * kSplitKeys}};
  const auto data = MakeData(c);
  const AttentionResult unsplit = Unsplit(c, data);
  std::vector<Step> steps = {{{0, 2 * kSplitKeys - 5}}};
  int64_t left = 2 * kSplitKeys + 5;
  for (int64_t n = 1; left > 0; n = n % 40 + 3) {
    steps.push_back({{0, std::min(n, left)}});
    left -= std::min(n, left);
  }
  for (const int threads : {2, 3, 5}) {
    EXPECT_EQ(FindBitDifference(Run(c, data, threads, steps).out, unsplit.out), "") << threads;
  }
}

// The long sequence decodes while the others are prefilled.
TEST_P(FlashSplitTest, ALongRowBesidePrefillChunksKeepsItsBits) {
  const AttentionCase c{.n_heads = 3,
                        .n_kv_heads = 1,
                        .head_dim = 64,
                        .codec_k = Codec::kBf16,
                        .codec_v = Codec::kBf16,
                        .lengths = {1200, 300, 70}};
  const auto data = MakeData(c);
  const AttentionResult unsplit = Unsplit(c, data);
  const std::vector<Step> steps = {{{0, 1195}},
                                   {{1, 130}, {0, 1}},
                                   {{2, 37}, {0, 1}, {1, 30}},
                                   {{0, 1}, {1, 139}, {2, 33}},
                                   {{1, 1}, {0, 2}}};
  for (const int threads : {2, 4}) {
    EXPECT_EQ(FindBitDifference(Run(c, data, threads, steps).out, unsplit.out), "") << threads;
  }
}

TEST_P(FlashSplitTest, CapturedRowsOfSharedOutKeysKeepTheirBits) {
  constexpr int64_t kLength = 3 * kSplitKeys + 2;
  for (const Codec codec : kCodecs) {
    const AttentionCase c{.n_heads = 4,
                          .n_kv_heads = 2,
                          .head_dim = 16,
                          .codec_k = codec,
                          .codec_v = codec,
                          .lengths = {kLength}};
    const auto data = MakeData(c);
    const auto positions = AwkwardPositions(kLength);
    std::vector<CaptureRequest> captures;
    for (const int64_t pos : positions) {
      captures.push_back({.sequence = 0, .pos = pos, .head = static_cast<int>(pos % 4)});
    }
    captures.push_back(captures.back());  // twice
    const AttentionResult unsplit = Unsplit(c, data, captures);
    ASSERT_FALSE(unsplit.captured.empty());
    for (const int threads : {2, 3}) {
      const AttentionResult split =
          Run(c, data, threads, SingleSteps(positions, kLength), captures);
      EXPECT_EQ(FindBitDifference(split.captured, unsplit.captured), "") << c.Describe();
      EXPECT_EQ(FindBitDifference(split.out, unsplit.out), "") << c.Describe();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, FlashSplitTest, testing::ValuesIn(SupportedIsaLevels()),
                         [](const auto& info) { return std::string(IsaName(info.param)); });

}  // namespace
}  // namespace ng
