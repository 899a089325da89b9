#include "plugins/sampler/grammar/automata/net.h"

#include <algorithm>
#include <array>
#include <utility>

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
  if (static_cast<size_t>(n_states_) >= kMaxSize || !budget_->Spend(1)) {
    too_large_ = true;
    return 0;
  }
  return n_states_++;
}

int32_t Net::NewStates(int64_t n) {
  const int32_t first = NewState();
  for (int64_t i = 1; i < n && !too_large_; ++i) NewState();
  return first;
}

void Net::Add(const Edge& edge) {
  too_large_ |= edges_.size() >= kMaxSize || !budget_->Spend(1);
  if (!too_large_) edges_.push_back(edge);
}

void Net::Byte(int32_t from, int32_t to, int low, int high) {
  Add({from, to, EdgeKind::kByte, static_cast<uint8_t>(low), static_cast<uint8_t>(high), -1});
}

void Net::CountOne(int32_t from, int32_t to, int32_t rule, Count window) {
  Rule& counting = rules_[static_cast<size_t>(rule)];
  if (window.least > 0) {
    counting.slack = std::max(counting.slack, counting.count.least - window.least);
  }
  if (window.most >= 0) {
    counting.slack = std::max(counting.slack, counting.count.most - window.most);
  }
  if (!window.any()) windows_.push_back(window);
  const size_t number = window.any() ? 0 : windows_.size() - 1;
  Add({from, to, EdgeKind::kCount, 0, 0, static_cast<int32_t>(number)});
}

bool Net::counts() const {
  return std::ranges::any_of(rules_, [](const Rule& rule) { return rule.counts; });
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

Part Net::Texts(std::vector<std::string> texts) {
  std::ranges::sort(texts);
  const Part part = Never();
  std::vector<int32_t> open = {part.in};  // the state behind each byte of the last text
  std::string_view last;
  for (const std::string& text : texts) {
    const auto common = static_cast<size_t>(std::ranges::mismatch(last, text).in2 - text.begin());
    open.resize(common + 1);
    for (size_t i = common; i < text.size(); ++i) {
      const auto byte = static_cast<uint8_t>(text[i]);
      open.push_back(NewState());
      Byte(open[i], open[i + 1], byte, byte);
    }
    Free(open.back(), part.out);
    last = text;
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

namespace {

// Whether to repeat what is repeated is to repeat it with another count, which this is then.
bool Multiply(const Count& inner, const Count& outer, Count* product) {
  // What n times gives and what n + 1 times gives must leave nothing out between them; the smallest
  // n is the hardest.
  const bool far = inner.most < 0 && outer.least > 0;
  const bool together =
      outer.least == outer.most || far ||
      (outer.least + 1) * inner.least <= (outer.least == 0 ? 0 : outer.least * inner.most) + 1;
  if (!together) return false;
  const bool any = (inner.most < 0 && outer.most != 0) || (outer.most < 0 && inner.most != 0);
  *product = {inner.least * outer.least, any ? -1 : inner.most * outer.most};
  return product->least <= Count::kLargest && product->most <= Count::kLargest;
}

}  // namespace

Part Net::Repeat(Mark begin, Part once, Count count) {
  constexpr size_t kMaxCopied = 160;  // states and edges of all copies: few of them are faster
  const bool again = last_.whole.in == once.in && last_.whole.out == once.out &&
                     last_.begin == begin && !too_large_;
  if (Count product; again && Multiply(last_.count, count, &product)) {
    // As if the inner one had not been.
    n_states_ = static_cast<int32_t>(last_.end.state);
    edges_.resize(last_.end.edge);
    rules_.resize(last_.end.rule);
    once = last_.once;
    count = product;
  }
  if (count.most == 0) return Nothing();
  const Mark end = Here();
  const int64_t copies = count.most < 0 ? std::max<int64_t>(count.least, 1) : count.most;
  const size_t each = std::max(end.state - begin.state, end.edge - begin.edge) + 2;
  const bool few = static_cast<size_t>(copies) <= kMaxCopied / each || copies == 1;
  const bool counts_inside =
      std::any_of(rules_.begin() + static_cast<ptrdiff_t>(begin.rule), rules_.end(),
                  [](const Rule& rule) { return rule.counts; });
  Part whole;
  if (counting_ && (!few || (counts_inside && copies > 1))) {
    whole = Counted(begin, once, count);
  } else if (static_cast<size_t>(copies) > kMaxSize / each) {
    too_large_ = true;
    return Nothing();
  } else {
    whole = Copies(begin, once, count);
  }
  last_ = {whole, begin, end, once, count};
  return whole;
}

Part Net::Copies(Mark begin, Part once, Count count) {
  const int64_t copies = count.most < 0 ? std::max<int64_t>(count.least, 1) : count.most;
  const auto size = n_states_ - static_cast<int32_t>(begin.state);
  const size_t end_edge = edges_.size();
  for (int64_t i = 1; i < copies && !too_large_; ++i) {
    const int32_t shift = static_cast<int32_t>(i) * size;
    NewStates(size);
    for (size_t e = begin.edge; e < end_edge && !too_large_; ++e) {
      Edge edge = edges_[e];
      edge.from += shift;
      edge.to += shift;
      Add(edge);
    }
  }
  if (too_large_) return Nothing();
  const Part whole = Never();
  int32_t last = whole.in;
  if (count.least == 0) Free(whole.in, whole.out);
  for (int64_t i = 0; i < copies; ++i) {
    const int32_t shift = static_cast<int32_t>(i) * size;
    Free(last, once.in + shift);
    last = once.out + shift;
    if (i + 1 >= count.least) Free(last, whole.out);
    if (count.most < 0 && i + 1 == copies) Free(last, once.in + shift);
  }
  return whole;
}

// What may read nothing is a rule of its own, so that only what reads something is counted.
Part Net::Counted(Mark begin, Part once, Count count) {
  const bool may_be_empty = MayBeEmpty(begin, once);
  const int32_t rule = NewRule("a count", count);
  const Part part = Never();
  Part body = once;
  if (may_be_empty) {
    const int32_t inside = NewRule("a repeated part");
    SetRule(inside, once);
    body = Never();
    Add({body.in, body.out, EdgeKind::kRead, 0, 0, inside});
  }
  const int32_t before = NewState();
  Free(part.in, before);
  CountOne(before, body.in, rule);
  Free(body.out, before);
  Free(body.out, part.out);
  if (count.least == 0) Free(part.in, part.out);
  SetRule(rule, part);
  return Calling(rule);
}

// A rule that is called may.
bool Net::MayBeEmpty(Mark begin, Part part) const {
  if (too_large_) return false;  // then the part may not be there
  const size_t size = static_cast<size_t>(n_states_) - begin.state;
  const auto index = [&](int32_t state) { return static_cast<size_t>(state) - begin.state; };
  std::vector<std::vector<int32_t>> next(size);
  for (size_t e = begin.edge; e < edges_.size(); ++e) {
    const Edge& edge = edges_[e];
    if (!edge.reads()) next[index(edge.from)].push_back(edge.to);
  }
  budget_->Spend(size + edges_.size() - begin.edge);
  std::vector<uint8_t> reached(size);
  std::vector<int32_t> fresh = {part.in};
  reached[index(part.in)] = 1;
  while (!fresh.empty()) {
    const int32_t state = fresh.back();
    fresh.pop_back();
    for (const int32_t to : next[index(state)]) {
      if (std::exchange(reached[index(to)], uint8_t{1}) == 0) fresh.push_back(to);
    }
  }
  return reached[index(part.out)] != 0;
}

bool Net::IsPlain(Mark begin, Part part) const {
  const auto calls = [](const Edge& edge) { return !edge.reads() && edge.kind != EdgeKind::kFree; };
  return std::none_of(edges_.begin() + static_cast<ptrdiff_t>(begin.edge), edges_.end(), calls) &&
         !MayBeEmpty(begin, part);
}

Part Net::Append(const Net& other, Part part) {
  std::vector<int32_t> numbers;
  for (const Rule& rule : other.rules()) {
    const auto own = static_cast<int32_t>(rules_.size() + numbers.size());
    numbers.push_back(
        rule.meaning.empty() ? own : meanings_.try_emplace(rule.meaning, own).first->second);
  }
  return AppendWith(other, part, numbers, [this](const Edge& edge) { Add(edge); });
}

int32_t Net::NewRule(std::string name) {
  rules_.push_back({.name = std::move(name)});
  return static_cast<int32_t>(rules_.size()) - 1;
}

int32_t Net::NewRule(std::string name, Count count) {
  rules_.push_back({.name = std::move(name), .counts = true, .count = count});
  return static_cast<int32_t>(rules_.size()) - 1;
}

absl::Status Net::status() const {
  NG_RETURN_IF_ERROR(budget_->status());
  if (!too_large_) return absl::OkStatus();
  return UsageError(
      absl::StrCat("is too large: it takes more than ", kMaxSize, " states or edges"));
}

}  // namespace ng::grammar
