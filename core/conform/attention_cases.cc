#include "core/conform/attention_cases.h"

#include <charconv>
#include <cmath>
#include <cstddef>
#include <string>
#include <system_error>
#include <utility>

namespace ng::conform {
namespace {

// Gives each case a seed of its own.
std::vector<AttentionCase> Seeded(std::vector<AttentionCase> cases, uint32_t seed, uint32_t group) {
  for (AttentionCase& c : cases) c.seed = seed * 10000 + ++group;
  return cases;
}

// The slopes of Press et al. 2022 for `n` heads.
std::vector<float> AlibiSlopes(int n) {
  std::vector<float> slopes;
  int power = 1;  // the largest power of two that is no more than the heads
  while (power * 2 <= n) power *= 2;
  for (int h = 0; h < n; ++h) {
    const double exponent =
        h < power ? -8.0 * (h + 1) / power : -4.0 * (2 * (h - power) + 1) / power;
    slopes.push_back(static_cast<float>(std::exp2(exponent)));
  }
  return slopes;
}

template <typename T>
bool ParseNumber(std::string_view text, T* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() && *out > T{0};
}

}  // namespace

std::vector<AttentionCase> ShapeCases(const AttentionSubject& subject) {
  std::vector<AttentionCase> cases = {
      {.n_heads = 2, .n_kv_heads = 2, .head_dim = 4, .lengths = {1, 17, 40}},
      {.n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .lengths = {15, 16, 270}},
      {.n_heads = 3, .n_kv_heads = 1, .head_dim = 33, .lengths = {129, 9}},
      {.n_heads = 6, .n_kv_heads = 2, .head_dim = 64, .lengths = {31, 40}},
      {.n_heads = 2, .n_kv_heads = 1, .head_dim = 80, .lengths = {70}},
      {.n_heads = 1, .n_kv_heads = 1, .head_dim = 6, .lengths = {600}},
  };
  if (subject.settings.quick) cases.resize(3);
  return Seeded(std::move(cases), subject.settings.seed, 0);
}

std::vector<AttentionCase> CodecCases(const AttentionSubject& subject) {
  constexpr std::pair<Codec, Codec> kCodecs[] = {
      {Codec::kBf16, Codec::kBf16}, {Codec::kF16, Codec::kF16},   {Codec::kInt8, Codec::kInt8},
      {Codec::kInt4, Codec::kInt4}, {Codec::kF32, Codec::kF16},   {Codec::kBf16, Codec::kF32},
      {Codec::kInt8, Codec::kInt4}, {Codec::kInt4, Codec::kInt8}, {Codec::kInt4, Codec::kBf16}};
  std::vector<AttentionCase> cases;
  for (const auto& [k, v] : kCodecs) {
    cases.push_back({.n_heads = 4,
                     .n_kv_heads = 2,
                     .head_dim = 7,
                     .codec_k = k,
                     .codec_v = v,
                     .lengths = {50, 16, 261}});
    if (subject.settings.quick) cases.back().lengths = {50, 16};
  }
  return Seeded(std::move(cases), subject.settings.seed, 50);
}

std::vector<AttentionCase> FeatureCases(const AttentionSubject& subject, std::string_view feature) {
  const AttentionCase plain{.n_heads = 4, .n_kv_heads = 2, .head_dim = 6, .lengths = {40, 9}};
  std::vector<AttentionCase> cases(1, plain);
  if (feature == kFeatureWindow || feature == kFeatureChunkedWindow) {
    cases.assign(3, plain);
    cases[0].window = 1;
    cases[1].window = 5;
    cases[2].window = 64;
    cases[2].lengths = {270};
    // Longer than what a backend may take at a time, in every codec; the first key that a query
    // sees lies within what is packed together.
    for (AttentionCase& c : CodecCases(subject)) {
      c.window = 37;
      c.lengths = {subject.settings.quick ? 60 : 300};
      cases.push_back(c);
    }
    for (AttentionCase& c : cases) c.chunks = feature == kFeatureChunkedWindow;
  } else if (feature == kFeatureSoftCap) {
    cases[0].soft_cap = 0.75F;
  } else if (feature == kFeatureSinks) {
    cases[0].sinks = {-1.5F, 0.0F, 3.0F, 30.0F};
  } else if (feature == kFeatureAlibi) {
    cases[0].alibi_slopes = {0.25F, 0.0625F, 0.0F, 1.0F};
  } else if (feature == kFeatureQueryTemperature) {
    cases.assign(2, plain);
    cases[0].query_temperature = {.coefficient = 0.5, .length = 8, .offset = 1};
    cases[1].query_temperature = {.coefficient = 0.1, .length = 16, .offset = 0};
  } else if (feature == kFeatureVHeadDim) {
    cases.assign(3, plain);
    cases[0].v_head_dim = 4;
    cases[1].v_head_dim = 19;  // and wider ones
    cases[2] = {.n_heads = 2, .n_kv_heads = 2, .head_dim = 48, .lengths = {270}, .v_head_dim = 32};
    for (AttentionCase& c : CodecCases(subject)) {
      c.v_head_dim = c.head_dim - 2;
      cases.push_back(c);
    }
  } else if (feature == kFeatureVInK) {
    cases.assign(3, plain);
    cases[0].v_head_dim = 4;
    // Of a head for all, as latents are; whole vectors of dimensions and not, from a window on.
    cases[1] = {.n_heads = 8, .n_kv_heads = 1, .head_dim = 48, .lengths = {270, 5}};
    cases[1].v_head_dim = 32;
    cases[2] = {.n_heads = 2, .n_kv_heads = 1, .head_dim = 52, .lengths = {270}};
    cases[2].v_head_dim = 41;
    for (AttentionCase& c : CodecCases(subject)) {
      c.v_head_dim = c.head_dim - 2;
      cases.push_back(c);
      c.n_kv_heads = 1;
      c.n_heads = 9;
      c.head_dim = 70;
      c.v_head_dim = 67;
      cases.push_back(c);
    }
    for (AttentionCase& c : cases) c.v_in_k = true;
  } else if (feature == kFeatureHoles) {
    cases[0].holes = true;
  } else if (feature == kFeatureSlots || feature == kFeatureHeadSlots) {
    // Also what goes by positions, more keys than are read at a time, and rows in 16 bits.
    cases.assign(6, plain);
    cases[1].window = 50;
    cases[2].alibi_slopes = {0.25F, 0.0625F, 0.0F, 1.0F};
    cases[3].query_temperature = {.coefficient = 0.5, .length = 8, .offset = 1};
    cases[4].window = 60;
    cases[4].chunks = true;
    cases[5].codec_k = cases[5].codec_v = Codec::kBf16;
    for (AttentionCase& c : cases) {
      c.lengths = {130, 47};
      c.slots = true;
      c.head_slots = feature == kFeatureHeadSlots;
    }
    for (const int i : {0, 1, 2}) cases[static_cast<size_t>(i)].lengths = {400, 49};
    // What the backend's own rule has takes the place of the case's.
    const auto has = [&](std::string_view other) {
      return subject.rule && subject.rule->Has(other);
    };
    std::erase_if(cases, [&](const AttentionCase& c) {
      return (c.window != 0 && has(kFeatureWindow)) ||
             (!c.alibi_slopes.empty() && has(kFeatureAlibi));
    });
  }
  if (feature == kFeatureAttended) {
    // More keys than are read at a time; many heads for one; what hides keys; all codecs.
    cases.assign(6, plain);
    cases[1].lengths = {subject.settings.quick ? 290 : 530, 49};
    cases[2].n_heads = 7;
    cases[2].n_kv_heads = 1;
    cases[2].sinks = {-1.5F, 0.0F, 3.0F, 1.0F, 0.5F, 2.0F, 4.0F};
    cases[3].window = 37;
    cases[3].lengths = {300};
    cases[4].slots = cases[5].slots = cases[5].head_slots = true;
    cases[4].lengths = cases[5].lengths = {400, 49};
    const std::vector<AttentionCase> codecs = CodecCases(subject);
    cases.insert(cases.end(), codecs.begin(), codecs.end());
  }
  return Seeded(std::move(cases), subject.settings.seed, 100);
}

std::vector<CaptureRequest> CapturesOf(const AttentionCase& c) {
  std::vector<CaptureRequest> requests;
  for (size_t s = 0; s < c.lengths.size(); ++s) {
    const int64_t last = c.lengths[s] - 1;
    for (const int64_t pos : {last, last / 2, int64_t{0}}) {
      requests.push_back({.sequence = static_cast<int>(s),
                          .pos = pos,
                          .head = static_cast<int>(requests.size()) % c.n_heads});
    }
  }
  requests.push_back(requests.front());
  return requests;
}

AttentionCase WithRule(AttentionCase c, const AttentionRule& rule) {
  c.codec_k = c.codec_v = Codec::kF32;
  if (rule.window != 0) c.window = rule.window;
  if (rule.soft_cap != 0.0F) c.soft_cap = rule.soft_cap;
  if (rule.alibi) c.alibi_slopes = AlibiSlopes(c.n_heads);
  c.first = rule.first;
  c.top_k = rule.top_k;
  return c;
}

std::vector<float> WeighValues(const AttentionCase& c, const SequenceData& stored,
                               const CaptureRequest& at, const std::vector<float>& probabilities) {
  const int kv_head = at.head / (c.n_heads / c.n_kv_heads);
  std::vector<double> sums(static_cast<size_t>(c.v_width()));
  for (int64_t j = 0; j <= at.pos; ++j) {
    if (c.holes && IsHole(j)) continue;
    const float* v = stored.v.data() + (j * c.n_kv_heads + kv_head) * c.v_width();
    const double weight = double{probabilities[static_cast<size_t>(j)]};
    for (size_t d = 0; d < sums.size(); ++d) sums[d] += weight * double{v[d]};
  }
  return {sums.begin(), sums.end()};
}

bool AttentionRule::Has(std::string_view feature) const {
  const bool windowed = feature == kFeatureWindow || feature == kFeatureChunkedWindow;
  return (windowed && window != 0) || (feature == kFeatureSoftCap && soft_cap != 0.0F) ||
         (feature == kFeatureAlibi && alibi);
}

absl::StatusOr<AttentionRule> AttentionRule::Parse(std::string_view text) {
  AttentionRule rule;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t equals = std::min(part.find('='), part.size());
    const std::string_view name = part.substr(0, equals);
    const std::string_view value = part.substr(std::min(equals + 1, part.size()));
    bool known = false;
    if (name == "alibi") known = rule.alibi = value.empty();
    if (name == "window") known = ParseNumber(value, &rule.window);
    if (name == "first") known = ParseNumber(value, &rule.first);
    if (name == "top_k") known = ParseNumber(value, &rule.top_k);
    if (name == "soft_cap") known = ParseNumber(value, &rule.soft_cap);
    if (!known) {
      return UsageError("rule '" + std::string(part) +
                        "', must be alibi, or window, first, top_k or soft_cap with = and a number "
                        "above 0");
    }
  }
  return rule;
}

}  // namespace ng::conform
