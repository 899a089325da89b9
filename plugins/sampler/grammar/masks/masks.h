// Which tokens may follow a configuration, as a bit for each token. What a grammar reads as a whole
// is looked up token by token, everything else over the tree of texts:
//
// The tokens that stay within the rule on top of the stack depend on that rule's states and counts
// alone. So that part of a mask is computed once for a set of states, over the whole tree of
// tokens, and kept. Where in a token the rule can end is kept with it; what follows there depends
// on the stack: the few tokens in the branches of the tree below are kept for it too.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_MASKS_MASKS_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_MASKS_MASKS_H_

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "plugins/sampler/grammar/automata/number_table.h"
#include "plugins/sampler/grammar/masks/free_text.h"
#include "plugins/sampler/grammar/masks/machine.h"
#include "plugins/sampler/grammar/masks/token_trie.h"

namespace ng::grammar {

class Masks {
 public:
  // Borrows the trie and the machine.
  Masks(const TokenTrie& trie, Machine& machine, int64_t vocab_size,
        std::span<const int32_t> stop_ids);
  // The tokens that the machine reads as a whole and that have no class of their own.
  void SetOthers(std::span<const int32_t> ids);

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
    // Nodes at which the rule can end, and below which not all goes on: the first kMaxLeaving + 1.
    std::vector<uint32_t> leaving;
  };
  // The tokens that go on where a rule ends within them.
  struct Behind {
    int32_t kept = 0;
    int32_t returned = 0;  // the configuration behind the rule
    size_t begin = 0;      // in behind_ids_
    size_t size = 0;
  };

  // Without the tokens that are read as a whole.
  absl::StatusOr<std::span<const uint64_t>> OfTexts(int32_t configuration);
  // Sets the bits of those.
  void SetTokens(int32_t configuration, std::span<uint64_t> bits);
  // Null where it takes too much work, here and below.
  const Kept* KeptOf(int32_t configuration);
  const Behind* BehindOf(const Kept& kept, int32_t returned);
  void ForgetBehind();
  // What a configuration is without the one stack that its places lie on; -1 where they lie on
  // several.
  int32_t ShapeOf(int32_t configuration);
  // Adds the tokens that may follow a shape on a stack to bits_, or begins these where it is the
  // first one. False, and nothing of use, where the rule can end in too many places, or it takes
  // too much work.
  bool AddGroup(int32_t shape, int32_t below, bool first);
  // Calls `visit(begin, end)` for runs of nodes below one to which the machine goes on, in their
  // order. `leaving`, which may be null: that of Kept.
  template <class Visit>
  void Walk(int32_t configuration, size_t node, std::vector<uint32_t>* leaving, const Visit& visit);
  // The bits of the tokens of runs_.
  std::vector<uint64_t> BitsOfRuns() const;

  const TokenTrie& trie_;
  Machine& machine_;
  FreeText free_text_;
  std::vector<int32_t> stop_ids_;
  std::vector<uint64_t> others_;  // a bit for each, empty: there are none
  std::vector<uint8_t> classes_;  // [n_nodes]
  // During a walk.
  std::vector<int32_t> at_depth_;
  std::vector<std::span<const int32_t>> runs_;  // of the trie's ids, none behind another one
  std::vector<Kept> kept_;                      // at most max_kept_
  std::vector<int32_t> kept_of_;                // [configurations so far], -1: none
  std::vector<int32_t> shape_of_;               // [configurations so far], see ShapeOf
  std::vector<Behind> behind_;
  NumberTable behind_table_;
  std::vector<int32_t> behind_ids_;
  size_t max_kept_;
  size_t n_walked_ = 0;         // nodes that were looked at, and words of masks
  std::vector<uint64_t> bits_;  // a mask put together of several
  std::vector<Place> places_;   // of the configuration whose mask is made
};

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_MASKS_MASKS_H_
