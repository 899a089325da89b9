#include "plugins/sampler/grammar/masks/token_trie.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <string_view>
#include <utility>

#include "plugins/sampler/grammar/automata/number_table.h"

namespace ng::grammar {
namespace {

constexpr size_t kWord = sizeof(uint64_t);

// The first bytes of a text as a number that is ordered as the texts are.
uint64_t BeginningOf(std::string_view text) {
  uint64_t number = 0;
  for (size_t i = 0; i < kWord; ++i) {
    number = number << 8 | (i < text.size() ? static_cast<uint8_t>(text[i]) : 0);
  }
  return number;
}

void SortByText(std::span<const std::string_view> texts, std::vector<int32_t>& ids) {
  struct Keyed {
    uint64_t beginning;
    std::string_view text;
    int32_t id;
    // Those of one text stay in the order of their ids.
    bool operator<(const Keyed& other) const {
      if (beginning != other.beginning) return beginning < other.beginning;
      const int order = text.compare(other.text);
      return order != 0 ? order < 0 : id < other.id;
    }
  };
  std::vector<Keyed> keyed;
  keyed.reserve(ids.size());
  for (const int32_t id : ids) {
    const std::string_view text = texts[static_cast<size_t>(id)];
    keyed.push_back({BeginningOf(text), text, id});
  }
  std::ranges::sort(keyed, std::less());
  std::ranges::transform(keyed, ids.begin(), &Keyed::id);
}

// What tells a vocabulary from another one of its size.
uint64_t HashOf(const PluginContext& context) {
  uint64_t hash = 0;
  const auto add = [&](uint64_t number) { hash = Mix(hash ^ number); };
  for (std::string_view text : context.token_bytes) {
    add(text.size());
    for (; !text.empty(); text.remove_prefix(std::min(text.size(), kWord))) add(BeginningOf(text));
  }
  for (const uint8_t special : context.special) add(special);
  for (const int32_t id : context.stop_ids) add(static_cast<uint32_t>(id));
  return hash;
}

}  // namespace

TokenTrie::TokenTrie(const PluginContext& context) {
  const auto text = [&](int32_t id) { return context.token_bytes[static_cast<size_t>(id)]; };
  for (int32_t id = 0; id < std::ssize(context.token_bytes); ++id) {
    const bool special = !context.special.empty() && context.special[static_cast<size_t>(id)] != 0;
    const bool stops = std::ranges::find(context.stop_ids, id) != context.stop_ids.end();
    if (!special && !stops && !text(id).empty()) ids_.push_back(id);
  }
  SortByText(context.token_bytes, ids_);

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
  AddKinds();
  all_.resize((context.token_bytes.size() + 63) / 64);
  for (const int32_t id : ids_) all_[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
}

void TokenTrie::AddKinds() {
  below_.resize(bytes_.size());
  std::vector<size_t> way = {0};            // the node of each depth on the way to the last one
  std::vector<Kinds> kinds(bytes_.size());  // of the byte that leads to a node
  const auto close = [&](size_t depth) {
    for (; way.size() > depth; way.pop_back()) {
      const Below& below = below_[way.back()];
      if (way.size() < 2) continue;
      Below& parent = below_[way[way.size() - 2]];
      parent.kinds |= below.kinds | kinds[way.back()];
      parent.height = std::max<uint32_t>(parent.height,
                                         std::min<uint32_t>(below.height + 1U, Below::kMostHeight));
    }
  };
  for (size_t i = 1; i < bytes_.size(); ++i) {
    close(nodes_[i].depth);
    Within at = below_[way.back()].at;
    kinds[i] = ReadKind(bytes_[i], &at);
    below_[i].at = at;
    way.push_back(i);
  }
  close(0);
}

std::shared_ptr<const TokenTrie> TokenTrie::Shared(const PluginContext& context) {
  struct Made {
    uint64_t hash = 0;
    size_t size = 0;
    std::weak_ptr<const TokenTrie> trie;
  };
  static std::mutex mutex;
  static std::vector<Made> all;
  static std::shared_ptr<const TokenTrie> last;
  const uint64_t hash = HashOf(context);
  const std::lock_guard lock(mutex);
  std::erase_if(all, [](const Made& made) { return made.trie.expired(); });
  for (const Made& made : all) {
    if (made.hash != hash || made.size != context.token_bytes.size()) continue;
    std::shared_ptr<const TokenTrie> trie = made.trie.lock();
    if (trie != nullptr) return last = std::move(trie);
  }
  last = std::make_shared<const TokenTrie>(context);
  all.push_back({.hash = hash, .size = context.token_bytes.size(), .trie = last});
  return last;
}

}  // namespace ng::grammar
