#include "plugins/sampler/grammar/json_numbers.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "plugins/sampler/grammar/regex.h"

namespace ng::grammar {
namespace {

constexpr char kInteger[] = "-?(0|[1-9][0-9]{0,17})";
constexpr char kNumber[] = "-?(0|[1-9][0-9]{0,17})(\\.[0-9]{1,18})?([eE][+-]?[0-9]{1,2})?";
constexpr char kFraction[] = "-?(0\\.[0-9]{0,14}|[1-9][0-9]{0,8}\\.[0-9]{0,5})[1-9]";
// With limits: zero has no sign.
constexpr char kLimitedInteger[] = "0|-?[1-9][0-9]{0,17}";
constexpr char kLimitedNumber[] =
    "0|-?[1-9][0-9]{0,14}|-?[1-9][0-9]{0,8}\\.[0-9]{1,6}|0\\.[0-9]{1,15}|-0\\.[0-9]{0,14}[1-9]";

struct Decimal {
  bool negative = false;
  std::string whole;     // no leading zeros, "0" for none
  std::string fraction;  // no trailing zeros
};

absl::StatusOr<Decimal> ParseDecimal(const Json& number) {
  constexpr int kMaxExponent = 40;
  std::string text = number.dump();
  Decimal decimal;
  decimal.negative = text[0] == '-';
  if (decimal.negative) text.erase(0, 1);
  int exponent = 0;
  if (const size_t e = text.find('e'); e != text.npos) {
    const size_t digits = e + (text[e + 1] == '+' ? 2 : 1);
    std::from_chars(text.data() + digits, text.data() + text.size(), exponent);
    text.resize(e);
  }
  const size_t point = text.find('.');
  decimal.whole = text.substr(0, point);
  if (point != text.npos) decimal.fraction = text.substr(point + 1);
  if (exponent > kMaxExponent || exponent < -kMaxExponent) {
    return UsageError(absl::StrCat("has ", number.dump(), ", must be between 1e-40 and 1e40"));
  }
  for (; exponent > 0; --exponent) {
    decimal.whole += decimal.fraction.empty() ? '0' : decimal.fraction[0];
    if (!decimal.fraction.empty()) decimal.fraction.erase(0, 1);
  }
  for (; exponent < 0; ++exponent) {
    decimal.fraction.insert(0, 1, decimal.whole.empty() ? '0' : decimal.whole.back());
    if (!decimal.whole.empty()) decimal.whole.pop_back();
  }
  while (decimal.whole.size() > 1 && decimal.whole[0] == '0') decimal.whole.erase(0, 1);
  if (decimal.whole.empty()) decimal.whole.push_back('0');
  while (decimal.fraction.ends_with('0')) decimal.fraction.pop_back();
  if (decimal.whole == "0" && decimal.fraction.empty()) decimal.negative = false;
  return decimal;
}

// Reads a number and compares it with another one, digit by digit.
class Comparison {
 public:
  Comparison(const Decimal& with, const NumberLimit& limit) : with_(with), limit_(limit) {}

  Dfa Make() {
    Number({});
    for (size_t i = 0; i < keys_.size(); ++i) {
      const Key key = keys_[i];
      dfa_.accepts[i] = key.n_digits > 0 && Accepts(Result(key)) ? 1 : 0;
      if (key.n_digits == 0 && !key.negative) Go(i, '-', {.negative = true});
      if (!key.in_fraction && key.n_digits > 0) Go(i, '.', InFraction(key));
      for (char c = '0'; c <= '9'; ++c) Go(i, c, Digit(key, c));
    }
    return std::move(dfa_);
  }

 private:
  struct Key {
    bool negative = false;
    bool in_fraction = false;
    size_t n_digits = 0;  // of the whole or of the fraction, as far as they matter
    int order = 0;        // of the magnitude so far: -1, 0, 1
    auto operator<=>(const Key&) const = default;
  };

  int32_t Number(const Key& key) {
    const auto [place, is_new] = known_.emplace(key, dfa_.next.size());
    if (is_new) {
      keys_.push_back(key);
      dfa_.NewState();
    }
    return place->second;
  }
  void Go(size_t from, char byte, const Key& to) {
    const int32_t number = Number(to);
    dfa_.next[from][static_cast<uint8_t>(byte)] = number;
  }
  static int Order(char a, char b) { return a < b ? -1 : a > b ? 1 : 0; }

  Key Digit(Key key, char c) const {
    const std::string& digits = key.in_fraction ? with_.fraction : with_.whole;
    const size_t at = key.n_digits - (key.in_fraction ? 1 : 0);
    if (key.order == 0) key.order = Order(c, at < digits.size() ? digits[at] : '0');
    if (!key.in_fraction && at >= digits.size()) key.order = 1;  // longer is more
    key.n_digits = std::min(key.n_digits + 1, digits.size() + 2);
    return key;
  }
  // The whole is known; in the fraction, n_digits counts one more.
  Key InFraction(Key key) const {
    key.order = WholeOrder(key);
    key.in_fraction = true;
    key.n_digits = 1;
    return key;
  }
  int WholeOrder(const Key& key) const {
    if (key.n_digits < with_.whole.size()) return -1;
    if (key.n_digits > with_.whole.size()) return 1;
    return key.order;
  }
  // Of value and limit.
  int Result(const Key& key) const {
    if (key.negative != with_.negative) return key.negative ? -1 : 1;
    int order = key.in_fraction ? key.order : WholeOrder(key);
    const size_t n_read = key.in_fraction ? key.n_digits - 1 : 0;
    if (order == 0 && n_read < with_.fraction.size()) order = -1;
    return key.negative ? -order : order;
  }
  bool Accepts(int order) const {
    return order < 0 ? limit_.less : order > 0 ? limit_.greater : limit_.equal;
  }

  const Decimal& with_;
  const NumberLimit& limit_;
  Dfa dfa_;
  std::map<Key, int32_t> known_;
  std::vector<Key> keys_;
};

Dfa MultiplesOf(int64_t divisor) {
  Dfa dfa;  // 0: nothing read, 1: a sign, then each remainder
  for (int64_t i = 0; i < divisor + 2; ++i) dfa.NewState();
  for (int64_t from = 0; from < divisor + 2; ++from) {
    const int64_t remainder = std::max<int64_t>(0, from - 2);
    for (int64_t digit = 0; digit < 10; ++digit) {
      dfa.next[static_cast<size_t>(from)][static_cast<size_t>('0' + digit)] =
          static_cast<int32_t>((remainder * 10 + digit) % divisor + 2);
    }
  }
  dfa.next[0]['-'] = 1;
  dfa.accepts[2] = 1;
  return dfa;
}

}  // namespace

absl::StatusOr<Part> AddNumber(const NumberRules& rules, Net& net) {
  if (!rules.integers && !rules.fractions) return net.Never();
  const bool whole = !rules.fractions || !rules.multiples_of.empty();
  const bool limited = !rules.limits.empty() || !rules.multiples_of.empty();
  if (whole && !rules.integers) return net.Never();
  const char* spelling = !rules.integers ? kFraction
                         : limited       ? (whole ? kLimitedInteger : kLimitedNumber)
                                         : (whole ? kInteger : kNumber);
  if (!limited) return AddRegex(spelling, net);
  NG_ASSIGN_OR_RETURN(Dfa dfa, Matching(spelling));
  for (const NumberLimit& limit : rules.limits) {
    NG_ASSIGN_OR_RETURN(const Decimal with, ParseDecimal(limit.number));
    const bool exact = with.whole.size() + with.fraction.size() <= 15 ||
                       (with.fraction.empty() && whole) || limit.equal;
    if (!exact) {
      return UsageError(
          absl::StrCat("excludes ", limit.number.dump(), ", which has more digits than 15"));
    }
    NG_ASSIGN_OR_RETURN(dfa, Combine(dfa, Comparison(with, limit).Make(), Both::kAnd));
  }
  for (const int64_t divisor : rules.multiples_of) {
    NG_ASSIGN_OR_RETURN(dfa, Combine(dfa, MultiplesOf(divisor), Both::kAnd));
  }
  return AddDfa(dfa, net);
}

}  // namespace ng::grammar
