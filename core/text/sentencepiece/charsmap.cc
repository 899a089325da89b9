#include "core/text/sentencepiece/charsmap.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/cursor.h"

namespace ng {
namespace {

// The library collects the matches along a path in an array of this size on its stack.
constexpr int kMaxMatches = 32;

// One unit of a double-array trie, as darts-clone packs it.
class Unit {
 public:
  explicit Unit(uint32_t bits) : bits_(bits) {}

  bool has_leaf() const { return (bits_ >> 8 & 1) != 0; }
  uint32_t value() const { return bits_ & 0x7FFFFFFFU; }
  // The byte that leads to this node. For a unit that holds a value, it is larger than any byte.
  uint32_t label() const { return bits_ & 0x800000FFU; }
  uint32_t offset() const { return (bits_ >> 10) << ((bits_ & 0x200U) >> 6); }

 private:
  uint32_t bits_;
};

class Trie {
 public:
  Trie(std::vector<Unit> units, size_t n_replacement_bytes)
      : units_(std::move(units)), n_replacement_bytes_(n_replacement_bytes) {}

  // Visits every node that a key can lead to, children before parents.
  absl::Status Check() {
    matches_below_.assign(units_.size(), kUnseen);
    std::vector<Step> path;
    NG_RETURN_IF_ERROR(Enter(0, &path));
    while (!path.empty()) {
      Step& step = path.back();
      if (step.next_byte == 256) {
        Leave(&path);
        continue;
      }
      const uint32_t byte = step.next_byte++;
      const uint32_t child = step.base ^ byte;
      if (units_[child].label() != byte) continue;
      if (matches_below_[child] == kUnseen) {
        NG_RETURN_IF_ERROR(Enter(child, &path));  // `step` is no longer valid
      } else if (matches_below_[child] == kOnPath) {
        return Damaged("a cycle", child);
      } else {
        step.matches = std::max(step.matches, matches_below_[child]);
      }
      if (path.size() > kMaxDepth) return Damaged("a path too long", child);
    }
    // The root is never a match.
    if (matches_below_[0] > kMaxMatches) return Damaged("too many matches on one path", 0);
    return absl::OkStatus();
  }

 private:
  static constexpr int kUnseen = -1;
  static constexpr int kOnPath = -2;
  static constexpr size_t kMaxDepth = 4096;  // bytes of one key

  struct Step {
    uint32_t node;
    uint32_t base;  // the child for a byte is base ^ byte
    uint32_t next_byte = 0;
    int matches = 0;  // the most matches on a path below this node
  };

  static absl::Status Damaged(std::string_view what, uint32_t node) {
    return ModelFileError(absl::StrCat(
        "the normalisation map is damaged: ", absl::string_view(what.data(), what.size()),
        " at node ", node));
  }

  absl::Status Enter(uint32_t node, std::vector<Step>* path) {
    const uint32_t base = node ^ units_[node].offset();
    if ((base | 0xFFU) >= units_.size()) return Damaged("children outside of it", node);
    if (units_[node].has_leaf() && units_[base].value() >= n_replacement_bytes_) {
      return Damaged("a replacement outside of it", node);
    }
    matches_below_[node] = kOnPath;
    path->push_back({node, base});
    return absl::OkStatus();
  }

  void Leave(std::vector<Step>* path) {
    const Step step = path->back();
    path->pop_back();
    const int matches = step.matches + (units_[step.node].has_leaf() ? 1 : 0);
    matches_below_[step.node] = matches;
    if (!path->empty()) path->back().matches = std::max(path->back().matches, matches);
  }

  std::vector<Unit> units_;
  size_t n_replacement_bytes_;
  std::vector<int> matches_below_;  // by node: kUnseen, kOnPath, or the node's own included
};

}  // namespace

absl::Status CheckCharsMap(std::string_view charsmap) {
  if (charsmap.empty()) return absl::OkStatus();
  Cursor cursor(charsmap);
  const std::optional<uint32_t> trie_bytes = cursor.U32();
  const std::optional<std::string_view> trie =
      trie_bytes ? cursor.Bytes(*trie_bytes) : std::nullopt;
  if (!trie || trie->empty() || trie->size() % sizeof(uint32_t) != 0 || cursor.at_end() ||
      charsmap.back() != '\0') {
    return ModelFileError("the normalisation map is damaged: it is no trie with replacements");
  }
  std::vector<Unit> units;
  units.reserve(trie->size() / sizeof(uint32_t));
  for (Cursor words(*trie); !words.at_end();) units.emplace_back(words.U32().value());
  return Trie(std::move(units), cursor.remaining()).Check();
}

absl::StatusOr<CharsMap> CharsMap::Create(std::string charsmap) {
  NG_RETURN_IF_ERROR(CheckCharsMap(charsmap));
  return CharsMap(std::move(charsmap));
}

CharsMap::CharsMap(std::string charsmap) : charsmap_(std::move(charsmap)) {
  if (charsmap_.empty()) return;
  trie_end_ = sizeof(uint32_t) + Cursor(charsmap_).U32().value();
}

std::optional<std::string_view> CharsMap::Find(std::string_view text) const {
  if (trie_end_ == 0) return std::nullopt;
  // The check has shown that no node leads outside of the trie.
  const auto unit = [this](uint32_t node) {
    const size_t at = sizeof(uint32_t) * (node + size_t{1});
    return Unit(Cursor(std::string_view(charsmap_).substr(at, sizeof(uint32_t))).U32().value());
  };
  uint32_t base = unit(0).offset();
  for (const char byte : text) {
    const auto label = static_cast<uint8_t>(byte);
    const uint32_t node = base ^ label;
    const Unit reached = unit(node);
    if (label == 0 || reached.label() != label) return std::nullopt;
    base = node ^ reached.offset();
    if (!reached.has_leaf()) continue;
    const std::string_view replacements = std::string_view(charsmap_).substr(trie_end_);
    const std::string_view found = replacements.substr(unit(base).value());
    return found.substr(0, found.find('\0'));
  }
  return std::nullopt;
}

}  // namespace ng
