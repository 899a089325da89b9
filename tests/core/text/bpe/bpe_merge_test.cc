#include "core/text/bpe/bpe_merge.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace ng {
namespace {

using Merges = std::map<std::pair<int32_t, int32_t>, BpeMerge>;

std::vector<BpeSymbol> Symbols(const std::vector<int32_t>& ids) {
  std::vector<BpeSymbol> symbols;
  for (const int32_t id : ids) symbols.push_back({id, symbols.size(), 1});
  return symbols;
}

auto MergeOf(const Merges& merges, int64_t* n_asked) {
  return
      [&merges, n_asked](const BpeSymbol& left, const BpeSymbol& right) -> std::optional<BpeMerge> {
        ++*n_asked;
        const auto found = merges.find({left.id, right.id});
        return found == merges.end() ? std::nullopt : std::optional(found->second);
      };
}

// Merges of random tokens, some with equal ranks, and with parts that are better or worse than what
// they join to.
Merges RandomMerges(int32_t n_letters, std::mt19937* random) {
  Merges merges;
  const auto n_merges = static_cast<int32_t>((*random)() % 60);
  for (int32_t i = 0; i < n_merges; ++i) {
    const auto n_tokens = static_cast<uint32_t>(n_letters + i);
    const std::pair<int32_t, int32_t> parts((*random)() % n_tokens, (*random)() % n_tokens);
    merges[parts] = {static_cast<double>((*random)() % 40), static_cast<int32_t>(n_tokens)};
  }
  return merges;
}

TEST(MergeSymbols, JoinsAsOneQueueOfAllPairs) {
  std::mt19937 random(4);
  int64_t n_asked = 0;
  for (int i = 0; i < 400; ++i) {
    const auto n_letters = static_cast<int32_t>(1 + random() % 5);
    const Merges merges = RandomMerges(n_letters, &random);
    // As many as are searched without a queue, as have one, and as are merged in windows.
    const size_t most = std::vector<size_t>{12, 34, 500, 5000}[random() % 4];
    std::vector<int32_t> ids(1 + random() % most);
    const auto period = static_cast<int32_t>(1 + random() % 40);
    for (size_t at = 0; at < ids.size(); ++at) {
      const bool repeats = i % 2 == 0 && at >= static_cast<size_t>(period);
      ids[at] = repeats ? ids[at - static_cast<size_t>(period)]
                        : static_cast<int32_t>(random() % static_cast<uint32_t>(n_letters));
    }
    std::vector<BpeSymbol> found = Symbols(ids);
    std::vector<BpeSymbol> wanted = found;
    MergeSymbols(MergeOf(merges, &n_asked), &found);
    MergeSymbolsByQueue(MergeOf(merges, &n_asked), &wanted);
    ASSERT_EQ(found, wanted) << "of " << ids.size() << " symbols, round " << i;
  }
}

// Two windows of a run of one symbol have no token in common if the run becomes a token that grows
// with it, or if its tokens lie otherwise in each window.
TEST(MergeSymbols, JoinsALongRunInAFewStepsForEachSymbol) {
  Merges doubling;  // 0 0 -> 1, 1 1 -> 2, ...
  for (int32_t i = 0; i < 20; ++i) doubling[{i, i}] = {static_cast<double>(i), i + 1};
  Merges growing;  // 0 0 -> 1, 1 0 -> 2, ...; the longer the better
  for (int32_t i = 0; i < 4000; ++i) growing[{i, 0}] = {static_cast<double>(-i), i + 1};
  Merges threes;  // 0 0 -> 1, 1 0 -> 2
  threes[{0, 0}] = {5, 1};
  threes[{1, 0}] = {1, 2};
  constexpr int64_t kSymbols = 1 << 16;
  for (const Merges& merges : {doubling, growing, threes, Merges()}) {
    int64_t n_asked = 0;
    std::vector<BpeSymbol> symbols = Symbols(std::vector<int32_t>(kSymbols, 0));
    std::vector<BpeSymbol> wanted = symbols;
    MergeSymbols(MergeOf(merges, &n_asked), &symbols);
    EXPECT_LT(n_asked, 16 * kSymbols);
    MergeSymbolsByQueue(MergeOf(merges, &n_asked), &wanted);
    EXPECT_EQ(symbols, wanted);
  }
}

}  // namespace
}  // namespace ng
