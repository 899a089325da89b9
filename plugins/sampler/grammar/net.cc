#include "plugins/sampler/grammar/net.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "ng/utf8.h"

namespace ng::grammar {
namespace {

constexpr uint32_t kFirstSurrogate = 0xD800;
constexpr uint32_t kLastSurrogate = 0xDFFF;

std::string Encode(uint32_t code) {
  std::string bytes;
  AppendUtf8(code, &bytes);
  return bytes;
}

// Splits a range until the bytes of both ends differ only so that each byte is free within its own
// range, and calls `add(low, high)` with the ends of each piece.
template <class AddPiece>
void SplitRange(uint32_t low, uint32_t high, const AddPiece& add) {
  constexpr std::array<uint32_t, 3> kLastOfSize = {0x7F, 0x7FF, 0xFFFF};
  for (const uint32_t last : kLastOfSize) {
    if (low > last || high <= last) continue;
    SplitRange(low, last, add);
    SplitRange(last + 1, high, add);
    return;
  }
  for (const int shift : {6, 12, 18}) {
    const uint32_t mask = (uint32_t{1} << shift) - 1;
    if (high < 0x80 || (low >> shift) == (high >> shift)) continue;
    if ((low & mask) != 0) {
      SplitRange(low, low | mask, add);
      SplitRange((low | mask) + 1, high, add);
      return;
    }
    if ((high & mask) != mask) {
      SplitRange(low, (high & ~mask) - 1, add);
      SplitRange(high & ~mask, high, add);
      return;
    }
  }
  add(Encode(low), Encode(high));
}

}  // namespace

std::vector<CodeRange> Normal(std::vector<CodeRange> ranges) {
  std::vector<CodeRange> legal;
  for (const CodeRange& range : ranges) {
    const uint32_t high = std::min(range.high, kLastCode);
    if (range.low < kFirstSurrogate) {
      legal.push_back({range.low, std::min(high, kFirstSurrogate - 1)});
    }
    if (high > kLastSurrogate) legal.push_back({std::max(range.low, kLastSurrogate + 1), high});
  }
  std::ranges::sort(legal, {}, &CodeRange::low);
  std::vector<CodeRange> joined;
  for (const CodeRange& range : legal) {
    if (range.low > range.high) continue;
    if (!joined.empty() && range.low <= joined.back().high + 1) {
      joined.back().high = std::max(joined.back().high, range.high);
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

std::vector<CodeRange> Complement(const std::vector<CodeRange>& ranges) {
  std::vector<CodeRange> others;
  uint32_t next = 0;
  for (const CodeRange& range : ranges) {
    if (range.low > next) others.push_back({next, range.low - 1});
    next = range.high + 1;
  }
  if (next <= kLastCode) others.push_back({next, kLastCode});
  return Normal(std::move(others));
}

int32_t Net::NewState() {
  if (alias_.size() >= max_size_) {
    too_large_ = true;
    return 0;
  }
  const auto state = static_cast<int32_t>(alias_.size());
  alias_.push_back(state);
  return state;
}

int32_t Net::NewStates(int64_t n) {
  const int32_t first = NewState();
  for (int64_t i = 1; i < n; ++i) NewState();
  return first;
}

void Net::Add(const Edge& edge) {
  too_large_ |= edges_.size() >= max_size_;
  if (!too_large_) edges_.push_back(edge);
}

void Net::Byte(int32_t from, int32_t to, int low, int high) {
  Add({from, to, EdgeKind::kByte, static_cast<uint8_t>(low), static_cast<uint8_t>(high), -1});
}

Part Net::Nothing() {
  const int32_t state = NewState();
  return {state, state};
}

Part Net::Never() {
  const int32_t in = NewState();
  return {in, NewState()};
}

Part Net::Text(std::string_view text) {
  Part part = Nothing();
  for (const char c : text) {
    const int32_t next = NewState();
    Byte(part.out, next, static_cast<uint8_t>(c), static_cast<uint8_t>(c));
    part.out = next;
  }
  return part;
}

Part Net::Code(const std::vector<CodeRange>& ranges) {
  const Part part = Never();
  // What may follow in full: these are shared by all pieces that end alike.
  std::array<int32_t, 3> tail = {part.out, -1, -1};  // [continuation bytes still to come]
  const auto tail_of = [&](int n) {
    for (int i = 1; i <= n; ++i) {
      auto& state = tail[static_cast<size_t>(i)];
      if (state >= 0) continue;
      state = NewState();
      Byte(state, tail[static_cast<size_t>(i) - 1], 0x80, 0xBF);
    }
    return tail[static_cast<size_t>(n)];
  };
  for (const CodeRange& range : ranges) {
    SplitRange(range.low, range.high, [&](std::string_view low, std::string_view high) {
      int32_t at = part.in;
      for (size_t i = 0; i < low.size(); ++i) {
        const size_t n_rest = low.size() - i - 1;
        bool rest_is_full = n_rest <= 2;
        for (size_t j = i + 1; j < low.size(); ++j) {
          rest_is_full &= low[j] == '\x80' && high[j] == '\xBF';
        }
        const int32_t next = rest_is_full ? tail_of(static_cast<int>(n_rest)) : NewState();
        Byte(at, next, static_cast<uint8_t>(low[i]), static_cast<uint8_t>(high[i]));
        if (rest_is_full) break;
        at = next;
      }
    });
  }
  return part;
}

Part Net::Calling(int32_t rule) {
  const Part part = Never();
  Call(part.in, part.out, rule);
  return part;
}

Part Net::Then(Part first, Part second) {
  Free(first.out, second.in);
  return {first.in, second.out};
}

Part Net::Either(const std::vector<Part>& parts) {
  const Part whole = Never();
  for (const Part& part : parts) {
    Free(whole.in, part.in);
    Free(part.out, whole.out);
  }
  return whole;
}

Part Net::Repeat(Mark begin, Part once, int64_t least, int64_t most) {
  if (most == 0) return Nothing();
  const int64_t copies = most < 0 ? std::max<int64_t>(least, 1) : most;
  const size_t size = alias_.size() - begin.state;
  const size_t end_edge = edges_.size();
  const size_t each = std::max(size, end_edge - begin.edge) + 2;
  if (static_cast<size_t>(copies) > max_size_ / each) {
    too_large_ = true;
    return Nothing();
  }
  const bool may_be_empty = MayBeEmpty(begin, once);
  for (int64_t i = 1; i < copies; ++i) {
    const auto shift = static_cast<int32_t>(static_cast<size_t>(i) * size);
    for (size_t n = 0; n < size && !too_large_; ++n) {
      const int32_t copied = alias_[begin.state + n];
      const int32_t state = NewState();
      alias_[static_cast<size_t>(state)] = copied + shift;
    }
    for (size_t e = begin.edge; e < end_edge && !too_large_; ++e) {
      Edge edge = edges_[e];
      edge.from += shift;
      edge.to += shift;
      Add(edge);
    }
  }
  if (too_large_) return Nothing();
  if (!may_be_empty) ShareMasks(begin, size, least, most < 0 ? -1 : copies);
  const Part whole = Never();
  int32_t last = whole.in;
  if (least == 0) Free(whole.in, whole.out);
  for (int64_t i = 0; i < copies; ++i) {
    const auto shift = static_cast<int32_t>(static_cast<size_t>(i) * size);
    Free(last, once.in + shift);
    last = once.out + shift;
    if (i + 1 >= least) Free(last, whole.out);
    if (most < 0 && i + 1 == copies) Free(last, once.in + shift);
  }
  return whole;
}

bool Net::MayBeEmpty(Mark begin, Part part) const {
  const size_t size = alias_.size() - begin.state;
  std::vector<uint8_t> reached(size);
  const auto index = [&](int32_t state) { return static_cast<size_t>(state) - begin.state; };
  reached[index(part.in)] = 1;
  for (bool more = true; more;) {
    more = false;
    for (size_t e = begin.edge; e < edges_.size(); ++e) {
      const Edge& edge = edges_[e];
      if (edge.kind == EdgeKind::kByte || reached[index(edge.from)] == 0) continue;
      if (reached[index(edge.to)] != 0) continue;
      reached[index(edge.to)] = 1;
      more = true;
    }
  }
  return reached[index(part.out)] != 0;
}

// A token reads at most `reach` bytes, so it ends at most as many copies as that. Copies between
// which such a token sees no difference have one mask.
void Net::ShareMasks(Mark begin, size_t size, int64_t least, int64_t copies) {
  const int64_t all = copies < 0 ? std::max<int64_t>(least, 1) : copies;
  for (int64_t i = 1; i < all; ++i) {
    const bool far_from_last = i + reach_ < all;
    const bool far_from_leaving = i + reach_ < least;
    int64_t like = i;
    if (far_from_leaving && far_from_last) like = 0;
    if (i + 1 >= least && far_from_last && copies >= 0) like = std::max<int64_t>(least - 1, 0);
    if (like == i) continue;
    const auto back = static_cast<int32_t>(static_cast<size_t>(i - like) * size);
    for (size_t n = 0; n < size; ++n) {
      alias_[begin.state + static_cast<size_t>(i) * size + n] -= back;
    }
  }
}

void Net::ShareAlias(const std::vector<int32_t>& of, int32_t times) {
  const auto n = static_cast<int32_t>(of.size());
  if (n_states() < int64_t{times} * n) return;
  for (int32_t i = 0; i < times * n; ++i) {
    alias_[static_cast<size_t>(i)] = i / n * n + of[static_cast<size_t>(i % n)];
  }
}

int32_t Net::NewRule(std::string name) {
  rules_.push_back({.name = std::move(name)});
  return static_cast<int32_t>(rules_.size()) - 1;
}

absl::Status Net::status() const {
  if (!too_large_) return absl::OkStatus();
  return UsageError(absl::StrCat("is too large: it takes more than ", max_size_,
                                 " states or edges (a count in it may be too large)"));
}

}  // namespace ng::grammar
