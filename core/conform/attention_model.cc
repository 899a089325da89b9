// The formula in double, and how results are compared.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iomanip>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "ng/conform/attention_rig.h"
#include "ng/conform/plain_tiles.h"

namespace ng::conform {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

// The weights of keys 0..pos for one query, with all that the case asks for. keys: rounded [length,
// n_kv_heads, head_dim]
std::vector<double> ModelWeights(const AttentionCase& c, const std::vector<float>& q,
                                 const std::vector<float>& keys, int64_t pos, int head) {
  const int kv_head = head / (c.n_heads / c.n_kv_heads);
  const auto h = static_cast<size_t>(head);
  const float* query = q.data() + (pos * c.n_heads + head) * c.head_dim;
  std::vector<double> w(static_cast<size_t>(pos + 1));
  for (int64_t j = 0; j <= pos; ++j) {
    const float* k = keys.data() + (j * c.n_kv_heads + kv_head) * c.head_dim;
    double dot = 0.0;
    for (int d = 0; d < c.head_dim; ++d) dot += double{query[d]} * k[d];
    double score = dot * c.Spec().scale;
    if (const QueryTemperature& t = c.query_temperature; t.coefficient != 0.0) {
      const double step = std::floor(static_cast<double>(pos + t.offset) / t.length);
      score *= t.coefficient * std::log(step + 1.0) + 1.0;
    }
    if (c.soft_cap != 0.0F) score = std::tanh(score / c.soft_cap) * c.soft_cap;
    if (!c.alibi_slopes.empty()) score += c.alibi_slopes[h] * static_cast<double>(j - pos);
    const int64_t begin =
        c.chunks ? pos / std::max<int64_t>(1, c.window) * c.window : pos - c.window + 1;
    if (c.window != 0 && j < begin && j >= c.first) score = kNever;
    if (c.holes && IsHole(j)) score = kNever;
    if (c.slots && !HeldAt(pos, kv_head, j, c.head_slots)) score = kNever;
    w[static_cast<size_t>(j)] = score;
  }
  if (c.top_k != 0 && c.top_k <= pos) {
    std::vector<double> sorted = w;
    std::ranges::nth_element(sorted, sorted.begin() + (c.top_k - 1), std::greater<>());
    const double least = sorted[static_cast<size_t>(c.top_k - 1)];
    for (double& score : w) score = score < least ? kNever : score;
  }
  const double sink = c.sinks.empty() ? kNever : c.sinks[h];
  const double max = std::max(sink, *std::max_element(w.begin(), w.end()));
  double sum = std::exp(sink - max);
  for (double& x : w) sum += x = std::exp(x - max);
  for (double& x : w) x /= sum;
  return w;
}

}  // namespace

AttentionResult ModelAttention(const AttentionCase& c, const std::vector<SequenceData>& data,
                               const std::vector<CaptureRequest>& captures) {
  AttentionResult result;
  std::vector<SequenceData> stored = data;
  for (SequenceData& sequence : stored) {
    for (size_t row = 0; row < sequence.k.size(); row += static_cast<size_t>(c.head_dim)) {
      RoundToCodec(c.codec_k, c.head_dim, sequence.k.data() + row);
    }
    for (size_t row = 0; row < sequence.v.size(); row += static_cast<size_t>(c.v_width())) {
      RoundToCodec(c.codec_v, c.v_width(), sequence.v.data() + row);
    }
  }
  const auto v_dim = static_cast<size_t>(c.v_width());
  for (size_t s = 0; s < stored.size(); ++s) {
    std::vector<float> out;
    std::vector<double> attended(static_cast<size_t>(c.n_kv_heads * c.lengths[s]));
    for (int64_t row = 0; row < c.lengths[s] * c.n_heads; ++row) {
      const int head = static_cast<int>(row % c.n_heads);
      const int kv_head = head / (c.n_heads / c.n_kv_heads);
      const auto w = ModelWeights(c, stored[s].q, stored[s].k, row / c.n_heads, head);
      std::vector<double> sum(v_dim);
      for (size_t j = 0; j < w.size(); ++j) {
        const float* v =
            stored[s].v.data() +
            (j * static_cast<size_t>(c.n_kv_heads) + static_cast<size_t>(kv_head)) * v_dim;
        for (size_t d = 0; d < v_dim; ++d) sum[d] += w[j] * v[d];
        attended[static_cast<size_t>(kv_head * c.lengths[s]) + j] += w[j];
      }
      out.insert(out.end(), sum.begin(), sum.end());
    }
    result.out.push_back(std::move(out));
    result.attended.emplace_back(attended.begin(), attended.end());
  }
  for (const CaptureRequest& request : captures) {
    const SequenceData& sequence = stored[static_cast<size_t>(request.sequence)];
    const auto w = ModelWeights(c, sequence.q, sequence.k, request.pos, request.head);
    result.captured.emplace_back(w.begin(), w.end());
  }
  return result;
}

namespace {

template <typename Same>
std::string FindFirst(const std::vector<std::vector<float>>& got,
                      const std::vector<std::vector<float>>& want, const Same& same) {
  if (got.size() != want.size()) return "another number of rows";
  for (size_t s = 0; s < got.size(); ++s) {
    if (got[s].size() != want[s].size()) return "another length of row " + std::to_string(s);
    for (size_t i = 0; i < got[s].size(); ++i) {
      if (same(got[s][i], want[s][i])) continue;
      std::ostringstream text;  // as many digits as tell all bits
      text << std::setprecision(9) << "row " << s << " element " << i << " is " << got[s][i]
           << ", not " << want[s][i];
      return text.str();
    }
  }
  return "";
}

}  // namespace

std::string FindDifference(const std::vector<std::vector<float>>& got,
                           const std::vector<std::vector<float>>& want, float tolerance) {
  return FindFirst(got, want, [tolerance](float a, float b) {
    return std::fabs(a - b) <= tolerance * (1.0F + std::fabs(b));
  });
}

std::string FindBitDifference(const std::vector<std::vector<float>>& got,
                              const std::vector<std::vector<float>>& want) {
  return FindFirst(got, want, [](float a, float b) {
    return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
  });
}

}  // namespace ng::conform
