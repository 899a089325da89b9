#include "core/text/bpe/bpe_merge.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "core/text/text_parts.h"

namespace ng {
namespace {

// So few symbols are searched for the best pair again and again, without a queue.
constexpr size_t kFewSymbols = 32;
// So many are merged at once: their queue stays in the processor's nearest cache.
constexpr size_t kWindowSymbols = 1024;
constexpr size_t kOverlapSymbols = 64;

struct Candidate {
  BpeMerge merge;
  size_t left = 0;    // index of the left symbol
  size_t length = 0;  // length of both symbols

  // The queue gives out the greatest.
  bool operator<(const Candidate& other) const {
    return merge.rank != other.merge.rank ? merge.rank > other.merge.rank : left > other.left;
  }
};

class Merger {
 public:
  Merger(BpeMergeOf merge_of, std::vector<BpeSymbol>& symbols)
      : merge_of_(merge_of), symbols_(symbols), previous_(symbols.size()), next_(symbols.size()) {
    for (size_t i = 0; i < symbols.size(); ++i) {
      previous_[i] = i - 1;  // for the first symbol this is no index
      next_[i] = i + 1;
    }
  }

  void Run() {
    for (size_t i = 0; i < symbols_.size(); ++i) Consider(i);
    while (!queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      // Symbols only grow, so another length means that one of the two has changed.
      const size_t right = next_[best.left];
      if (right >= symbols_.size() || LengthOfPair(best.left) != best.length) continue;
      Join(best);
    }
    std::erase_if(symbols_, [](const BpeSymbol& symbol) { return symbol.length == 0; });
  }

 private:
  size_t LengthOfPair(size_t left) const {
    const size_t length = symbols_[left].length;
    return length == 0 ? 0 : length + symbols_[next_[left]].length;  // 0: it was joined
  }

  void Consider(size_t left) {
    if (left >= symbols_.size() || next_[left] >= symbols_.size()) return;
    const std::optional<BpeMerge> merge = merge_of_(symbols_[left], symbols_[next_[left]]);
    if (merge) queue_.push({*merge, left, LengthOfPair(left)});
  }

  void Join(const Candidate& pair) {
    const size_t right = next_[pair.left];
    symbols_[pair.left].id = pair.merge.id;
    symbols_[pair.left].length = pair.length;
    symbols_[right].length = 0;
    next_[pair.left] = next_[right];
    if (next_[right] < symbols_.size()) previous_[next_[right]] = pair.left;
    Consider(previous_[pair.left]);
    Consider(pair.left);
  }

  BpeMergeOf merge_of_;
  std::vector<BpeSymbol>& symbols_;
  std::vector<size_t> previous_;
  std::vector<size_t> next_;
  std::priority_queue<Candidate> queue_;
};

// REQUIRES: at most kFewSymbols.
void MergeFew(BpeMergeOf merge_of, std::vector<BpeSymbol>& symbols) {
  BpeMerge merges[kFewSymbols];  // of each symbol with the next one; without id: there is none
  const auto consider = [&](size_t left) {
    merges[left] = merge_of(symbols[left], symbols[left + 1]).value_or(BpeMerge());
  };
  size_t n = symbols.size();
  for (size_t i = 0; i + 1 < n; ++i) consider(i);
  while (true) {
    size_t best = n;
    for (size_t i = 0; i + 1 < n; ++i) {
      if (merges[i].id >= 0 && (best == n || merges[i].rank < merges[best].rank)) best = i;
    }
    if (best == n) break;
    symbols[best].id = merges[best].id;
    symbols[best].length += symbols[best + 1].length;
    std::copy(&symbols[best] + 2, symbols.data() + n, &symbols[best] + 1);
    std::copy(merges + best + 2, merges + std::max(n - 1, best + 2), merges + best + 1);
    --n;
    if (best > 0) consider(best - 1);
    if (best + 1 < n) consider(best);
  }
  symbols.resize(n);
}

void MergeAtOnce(BpeMergeOf merge_of, std::vector<BpeSymbol>& symbols) {
  if (symbols.size() <= kFewSymbols) {
    MergeFew(merge_of, symbols);
  } else {
    Merger(merge_of, symbols).Run();
  }
}

}  // namespace

// Many symbols are merged in windows that overlap.
void MergeSymbols(BpeMergeOf merge_of, std::vector<BpeSymbol>* symbols) {
  if (symbols->size() <= kWindowSymbols) return MergeAtOnce(merge_of, *symbols);
  std::vector<BpeSymbol> merged;  // what the symbols before `end` merge to
  std::vector<BpeSymbol> window;
  size_t end = 0;
  size_t overlap = kOverlapSymbols;
  while (end < symbols->size()) {
    // The window begins where a token does, so that both often have this token in common.
    size_t begin = end - std::min(end, overlap);
    if (begin > 0) {
      const auto is_after = [&](const BpeSymbol& token) {
        return token.begin <= (*symbols)[begin].begin;
      };
      const auto token = std::partition_point(merged.begin(), merged.end(), is_after);
      begin = static_cast<size_t>(
          std::ranges::lower_bound(*symbols, std::prev(token)->begin, {}, &BpeSymbol::begin) -
          symbols->begin());
    }
    const size_t new_end = std::min(symbols->size(), end + 16 * overlap);
    window.assign(symbols->begin() + static_cast<ptrdiff_t>(begin),
                  symbols->begin() + static_cast<ptrdiff_t>(new_end));
    MergeAtOnce(merge_of, window);
    if (begin == 0) {
      merged = window;
    } else if (!JoinAtCommonToken(window, &merged)) {
      overlap *= 4;  // and it stays so, so that texts without such tokens do not cost more and more
      continue;
    }
    end = new_end;
  }
  *symbols = std::move(merged);
}

void MergeSymbolsByQueue(BpeMergeOf merge_of, std::vector<BpeSymbol>* symbols) {
  Merger(merge_of, *symbols).Run();
}

}  // namespace ng
