#include "plugins/sampler/grammar/masks/token_trie.h"

#include <algorithm>
#include <mutex>
#include <string_view>

namespace ng::grammar {

TokenTrie::TokenTrie(const PluginContext& context) {
  const auto text = [&](int32_t id) { return context.token_bytes[static_cast<size_t>(id)]; };
  for (int32_t id = 0; id < std::ssize(context.token_bytes); ++id) {
    const bool special = !context.special.empty() && context.special[static_cast<size_t>(id)] != 0;
    const bool stops = std::ranges::find(context.stop_ids, id) != context.stop_ids.end();
    if (!special && !stops && !text(id).empty()) ids_.push_back(id);
  }
  std::ranges::stable_sort(ids_, [&](int32_t a, int32_t b) { return text(a) < text(b); });

  nodes_.push_back({});
  bytes_.push_back(0);
  std::vector<uint32_t> open = {0};  // the node of each depth on the way to the last text
  std::string_view last;
  const auto close = [&](size_t depth) {
    for (; open.size() > depth; open.pop_back()) {
      nodes_[open.back()].end = static_cast<uint32_t>(nodes_.size());
    }
  };
  for (size_t i = 0; i < ids_.size(); ++i) {
    const std::string_view now = text(ids_[i]);
    const size_t common = static_cast<size_t>(std::ranges::mismatch(last, now).in2 - now.begin());
    if (i > 0 && now == last) continue;
    close(common + 1);
    for (size_t at = common; at < now.size(); ++at) {
      open.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({0, static_cast<uint32_t>(i), static_cast<uint32_t>(at + 1)});
      bytes_.push_back(static_cast<uint8_t>(now[at]));
    }
    depth_ = std::max(depth_, static_cast<uint32_t>(now.size()));
    last = now;
  }
  close(0);
  nodes_.push_back({0, static_cast<uint32_t>(ids_.size()), 0});
}

std::shared_ptr<const TokenTrie> TokenTrie::Shared(const PluginContext& context) {
  // What a host has lent to the stages that hold the trie stays where it is.
  struct Made {
    const void* texts;
    size_t size;
    std::vector<int32_t> stop_ids;
    std::weak_ptr<const TokenTrie> trie;
  };
  static std::mutex mutex;
  static std::vector<Made> all;
  const std::lock_guard lock(mutex);
  std::erase_if(all, [](const Made& made) { return made.trie.expired(); });
  for (const Made& made : all) {
    const bool same = made.texts == context.token_bytes.data() &&
                      made.size == context.token_bytes.size() &&
                      std::ranges::equal(made.stop_ids, context.stop_ids);
    std::shared_ptr<const TokenTrie> trie = made.trie.lock();
    if (same && trie != nullptr) return trie;
  }
  auto trie = std::make_shared<const TokenTrie>(context);
  all.push_back({.texts = context.token_bytes.data(),
                 .size = context.token_bytes.size(),
                 .stop_ids = {context.stop_ids.begin(), context.stop_ids.end()},
                 .trie = trie});
  return trie;
}

}  // namespace ng::grammar
