// Which tokens may follow a configuration, as a bit for each token.
//
// The tokens that stay within the rule on top of the stack depend on that rule's states and counts
// alone. So that part of a mask is computed once for a set of states, over the whole tree of
// tokens, and kept. Where in a token the rule can end is kept with it; what follows there depends
// on the stack and is looked up each time, in the few branches of the tree below.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_MASKS_MASKS_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_MASKS_MASKS_H_

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "plugins/sampler/grammar/masks/machine.h"
#include "plugins/sampler/grammar/masks/token_trie.h"

namespace ng::grammar {

class Masks {
 public:
  // Borrows the trie and the machine.
  Masks(const TokenTrie& trie, Machine& machine, int64_t vocab_size,
        std::span<const int32_t> stop_ids);

  // [ceil(vocab_size / 64)] Valid until the next call. A stop id may follow where the text may end.
  // Errors: UsageError when it takes too much work; then nothing of it is kept.
  absl::StatusOr<std::span<const uint64_t>> Of(int32_t configuration);
  // Makes the masks of the places that are near to the beginning, within bounds of work and memory,
  // so that a first answer does not wait for them. `stop`, which may be null, ends it.
  void Prepare(const std::atomic<bool>* stop = nullptr);
  // After the machine's numbers have changed.
  void Forget();

 private:
  struct Kept {
    std::vector<uint64_t> bits;
    std::vector<uint32_t> leaving;  // nodes at which the rule can end
  };

  // Null where it takes too much work.
  const Kept* KeptOf(int32_t configuration);
  // Adds the tokens that may follow places that lie on one stack. False, and
  // nothing of use, where the rule can end in too many places, or it takes too much work.
  bool AddGroup(std::span<const Place> group);
  void Walk(int32_t configuration, size_t node, std::span<uint64_t> bits,
            std::vector<uint32_t>* leaving);

  const TokenTrie& trie_;
  Machine& machine_;
  std::vector<int32_t> stop_ids_;
  std::vector<uint8_t> classes_;   // [n_nodes]
  std::vector<int32_t> at_depth_;  // during a walk
  std::vector<Kept> kept_;         // at most max_kept_
  std::vector<int32_t> kept_of_;   // [configurations so far], -1: none
  size_t max_kept_;
  size_t n_walked_ = 0;         // nodes, in all walks
  std::vector<uint64_t> bits_;  // a mask put together of several
  std::vector<Place> places_;   // of the configuration whose mask is made
};

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_MASKS_MASKS_H_
