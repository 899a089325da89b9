#include "core/text/bpe/bpe_merge.h"

#include <algorithm>
#include <queue>
#include <utility>

namespace ng {
namespace {

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

}  // namespace

void MergeSymbols(BpeMergeOf merge_of, std::vector<BpeSymbol>* symbols) {
  Merger(merge_of, *symbols).Run();
}

}  // namespace ng
