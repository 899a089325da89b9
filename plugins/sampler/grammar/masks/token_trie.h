// The texts of a vocabulary as a tree of bytes, in the order in which a walk meets its nodes: a
// node, all that lies below it, then its next sibling.
//
// Made once for a vocabulary, and shared by all stages over it; afterwards only read, by any
// thread.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_MASKS_TOKEN_TRIE_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_MASKS_TOKEN_TRIE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ng/plugin.h"
#include "plugins/sampler/grammar/masks/token_kinds.h"

namespace ng::grammar {

class TokenTrie {
 public:
  struct Node {
    uint32_t end = 0;     // the node behind all that lies below this one
    uint32_t tokens = 0;  // of `ids`: the tokens with exactly this text
    uint32_t depth = 0;   // bytes; 0: the root, which is node 0
  };

  // Without special tokens, stop ids, and tokens that have no text.
  explicit TokenTrie(const PluginContext& context);
  // The one of this context's vocabulary. It is kept as long as somebody has it, and the last one
  // that was asked for until another one is. Thread: any.
  static std::shared_ptr<const TokenTrie> Shared(const PluginContext& context);

  std::span<const Node> nodes() const { return {nodes_.data(), nodes_.size() - 1}; }
  // [n_nodes] The byte that leads to a node.
  std::span<const uint8_t> bytes() const { return bytes_; }
  std::span<const int32_t> Tokens(size_t node) const {
    return std::span(ids_).subspan(nodes_[node].tokens,
                                   nodes_[node + 1].tokens - nodes_[node].tokens);
  }
  // Of the nodes from `begin` up to `end`.
  std::span<const int32_t> Tokens(size_t begin, size_t end) const {
    return std::span(ids_).subspan(nodes_[begin].tokens, nodes_[end].tokens - nodes_[begin].tokens);
  }
  const Below& BelowOf(size_t node) const { return below_[node]; }
  // [>= ids / 64] A bit for each token with a node.
  std::span<const uint64_t> all() const { return all_; }
  // [n_tokens] In the order of their nodes.
  std::span<const int32_t> ids() const { return ids_; }
  // Of the longest text.
  uint32_t depth() const { return depth_; }
  int64_t n_tokens() const { return static_cast<int64_t>(ids_.size()); }

 private:
  void AddKinds();

  std::vector<Node> nodes_;  // one more at the end
  std::vector<uint8_t> bytes_;
  std::vector<int32_t> ids_;
  std::vector<Below> below_;  // [n_nodes]
  std::vector<uint64_t> all_;
  uint32_t depth_ = 0;
};

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_MASKS_TOKEN_TRIE_H_
