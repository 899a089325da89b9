#include "plugins/sampler/grammar/schema/numbers.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "plugins/sampler/grammar/automata/regex.h"

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

// An automaton whose states are keys, numbered as they are met.
template <class Key>
class KeyedStates {
 protected:
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

  Dfa dfa_;
  std::map<Key, int32_t> known_;
  std::vector<Key> keys_;
};

struct ComparisonKey {
  bool negative = false;
  bool in_fraction = false;
  size_t n_digits = 0;  // of the whole or of the fraction, as far as they matter
  int order = 0;        // of the magnitude so far: -1, 0, 1
  // NOLINTNEXTLINE(modernize-use-nullptr): of clang-tidy 14, which sees a 0 that is not written
  auto operator<=>(const ComparisonKey&) const = default;
};

// Reads a number and compares it with another one, digit by digit.
class Comparison : KeyedStates<ComparisonKey> {
  using Key = ComparisonKey;

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
};

// A divisor is digits * 10^exponent, where the digits do not end in a zero.
struct Divisor {
  int64_t digits = 0;
  int64_t exponent = 0;
};

absl::StatusOr<Divisor> ParseDivisor(const Json& number) {
  constexpr int64_t kMostDigits = 5000;
  constexpr int64_t kMostExponent = 15;
  NG_ASSIGN_OR_RETURN(const Decimal decimal, ParseDecimal(number));
  std::string digits = decimal.whole + decimal.fraction;
  Divisor divisor{.exponent = -std::ssize(decimal.fraction)};
  for (; digits.size() > 1 && digits.back() == '0'; digits.pop_back()) ++divisor.exponent;
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  if (digits.empty() || decimal.negative) {
    return UsageError(absl::StrCat(number.dump(), ", must be above 0"));
  }
  const bool few = digits.size() < 8;
  if (few) std::from_chars(digits.data(), digits.data() + digits.size(), divisor.digits);
  if (!few || divisor.digits > kMostDigits || std::abs(divisor.exponent) > kMostExponent) {
    return UsageError(absl::StrCat(number.dump(), ", must be a power of ten from 1e-",
                                   kMostExponent, " to 1e", kMostExponent,
                                   " times a whole number up to ", kMostDigits));
  }
  return divisor;
}

struct MultiplesKey {
  enum Phase : uint8_t { kBegin, kSign, kWhole, kFraction };

  Phase phase = kBegin;
  int64_t rest = 0;    // of the number without its last zeros
  int64_t zeros = 0;   // these, as far as the divisor has them
  int64_t places = 0;  // read of the fraction
  // NOLINTNEXTLINE(modernize-use-nullptr): of clang-tidy 14, which sees a 0 that is not written
  auto operator<=>(const MultiplesKey&) const = default;
};

// Reads a number: its whole, then as many digits of its fraction as the divisor has, then zeros. A
// state is the rest so far; where the divisor ends in zeros, as many last zeros of the number are
// not yet part of that.
class Multiples : KeyedStates<MultiplesKey> {
  using Key = MultiplesKey;
  using enum MultiplesKey::Phase;

 public:
  explicit Multiples(const Divisor& divisor)
      : divisor_(divisor),
        scale_(std::max<int64_t>(0, -divisor.exponent)),
        zeros_(std::max<int64_t>(0, divisor.exponent)) {}

  Dfa Make() {
    Number({.zeros = zeros_});  // nothing is as zero
    for (size_t i = 0; i < keys_.size(); ++i) {
      const Key key = keys_[i];
      dfa_.accepts[i] = key.phase != kBegin && key.phase != kSign && Accepts(key) ? 1 : 0;
      if (key.phase == kBegin) Go(i, '-', {.phase = kSign, .zeros = zeros_});
      if (key.phase == kWhole) Go(i, '.', {kFraction, key.rest, key.zeros, 0});
      for (int digit = 0; digit < 10; ++digit) {
        Key next = key;
        if (key.phase == kFraction && key.places == scale_) {
          if (digit == 0) Go(i, '0', key);
          continue;
        }
        if (key.phase != kFraction) next.phase = kWhole;
        if (key.phase == kFraction) ++next.places;
        Read(digit, next);
        Go(i, static_cast<char>('0' + digit), next);
      }
    }
    return std::move(dfa_);
  }

 private:
  void Read(int digit, Key& key) const {
    if (digit == 0 && key.zeros < zeros_) {
      ++key.zeros;
      return;
    }
    if (digit != 0) {
      for (; key.zeros > 0; --key.zeros) key.rest = key.rest * 10 % divisor_.digits;
    }
    key.rest = (key.rest * 10 + digit) % divisor_.digits;
  }
  bool Accepts(Key key) const {
    for (; key.places < scale_; ++key.places) key.rest = key.rest * 10 % divisor_.digits;
    return key.rest == 0 && key.zeros == zeros_;
  }

  const Divisor divisor_;
  const int64_t scale_;  // digits that the divisor has behind the point
  const int64_t zeros_;  // that it ends in before the point
};

}  // namespace

absl::StatusOr<Part> AddNumber(const NumberRules& rules, Net& net) {
  Budget& budget = net.budget();
  if (!rules.integers && !rules.fractions) return net.Never();
  std::vector<Divisor> divisors;
  bool whole = !rules.fractions;
  for (const Json& number : rules.multiples_of) {
    NG_ASSIGN_OR_RETURN(divisors.emplace_back(), ParseDivisor(number));
    whole |= divisors.back().exponent >= 0;
  }
  const bool limited = !rules.limits.empty() || !divisors.empty() || !rules.no_multiples_of.empty();
  if (whole && !rules.integers) return net.Never();
  const char* spelling = !rules.integers ? kFraction
                         : limited       ? (whole ? kLimitedInteger : kLimitedNumber)
                                         : (whole ? kInteger : kNumber);
  if (!limited) return AddRegex(spelling, net);
  std::vector<Dfa> all;
  NG_ASSIGN_OR_RETURN(all.emplace_back(), Matching(spelling, budget));
  for (const NumberLimit& limit : rules.limits) {
    NG_ASSIGN_OR_RETURN(const Decimal with, ParseDecimal(limit.number));
    const bool exact = with.whole.size() + with.fraction.size() <= 15 ||
                       (with.fraction.empty() && whole) || limit.equal;
    if (!exact) {
      return UsageError(
          absl::StrCat("excludes ", limit.number.dump(), ", which has more digits than 15"));
    }
    all.push_back(Comparison(with, limit).Make());
  }
  for (const Divisor& divisor : divisors) all.push_back(Multiples(divisor).Make());
  NG_ASSIGN_OR_RETURN(Dfa dfa, InAll(std::move(all), budget));
  for (const Json& number : rules.no_multiples_of) {
    NG_ASSIGN_OR_RETURN(const Divisor divisor, ParseDivisor(number));
    NG_ASSIGN_OR_RETURN(dfa, Combine(dfa, Multiples(divisor).Make(), Both::kAndNot, budget));
  }
  return AddDfa(dfa, net);
}

absl::StatusOr<bool> IsMultiple(const Json& number, const Json& divisor) {
  NG_ASSIGN_OR_RETURN(const Divisor by, ParseDivisor(divisor));
  NG_ASSIGN_OR_RETURN(const Decimal decimal, ParseDecimal(number));
  std::string digits = decimal.whole + decimal.fraction;
  int64_t scale = -by.exponent - std::ssize(decimal.fraction);
  for (; scale < 0 && digits.size() > 1 && digits.back() == '0'; ++scale) digits.pop_back();
  int64_t rest = 0;
  for (const char digit : digits) rest = (rest * 10 + (digit - '0')) % by.digits;
  for (; scale > 0; --scale) rest = rest * 10 % by.digits;
  return digits == "0" || (rest == 0 && scale == 0);
}

}  // namespace ng::grammar
