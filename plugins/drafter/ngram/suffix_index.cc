#include "plugins/drafter/ngram/suffix_index.h"

#include <algorithm>
#include <bit>

namespace ng {
namespace {

// The hash of a run of tokens, from its last one to its first.
uint64_t Longer(uint64_t hash, int32_t token) {
  hash = (hash ^ static_cast<uint32_t>(token)) * 0x9E3779B97F4A7C15U;
  return hash ^ (hash >> 29);
}

size_t TableSize(int64_t min, int64_t max, int64_t max_tokens) {
  return std::bit_ceil(static_cast<size_t>((max - min + 1) * max_tokens) * 2);
}

}  // namespace

SuffixIndex::SuffixIndex(int64_t min, int64_t max, int64_t max_tokens)
    : min_(min), max_(max), max_tokens_(max_tokens), table_(TableSize(min, max, max_tokens)) {
  tokens_.reserve(static_cast<size_t>(max_tokens));
}

int64_t SuffixIndex::Bytes(int64_t min, int64_t max, int64_t max_tokens) {
  return static_cast<int64_t>(TableSize(min, max, max_tokens) * sizeof(Entry)) +
         max_tokens * static_cast<int64_t>(sizeof(int32_t));
}

void SuffixIndex::Clear() {
  tokens_.clear();
  std::ranges::fill(table_, Entry());
}

bool SuffixIndex::SameRun(int64_t end, int64_t other_end, int64_t length) const {
  const auto begin = tokens_.begin();
  return std::equal(begin + end - length, begin + end, begin + other_end - length);
}

size_t SuffixIndex::PlaceOf(int64_t end, int64_t length, uint64_t hash) const {
  const size_t mask = table_.size() - 1;
  size_t place = hash & mask;
  while (table_[place].end != 0 &&
         !(table_[place].length == length && SameRun(end, table_[place].end, length))) {
    place = (place + 1) & mask;
  }
  return place;
}

void SuffixIndex::Add(int32_t token) {
  const int64_t end = std::ssize(tokens_);
  if (end == max_tokens_) return;
  // The runs that end here have something behind them now.
  uint64_t hash = 0;
  for (int64_t length = 1; length <= std::min(max_, end); ++length) {
    hash = Longer(hash, tokens_[static_cast<size_t>(end - length)]);
    if (length < min_) continue;
    table_[PlaceOf(end, length, hash)] = {static_cast<int32_t>(end), static_cast<int32_t>(length)};
  }
  tokens_.push_back(token);
}

int64_t SuffixIndex::FindContinuation() const {
  const int64_t end = std::ssize(tokens_);
  int64_t found = -1;
  uint64_t hash = 0;
  for (int64_t length = 1; length <= std::min(max_, end); ++length) {
    hash = Longer(hash, tokens_[static_cast<size_t>(end - length)]);
    if (length < min_) continue;
    const int32_t place = table_[PlaceOf(end, length, hash)].end;
    if (place == 0) break;  // no longer one has been there either
    found = place;
  }
  return found;
}

}  // namespace ng
