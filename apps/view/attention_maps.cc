#include "apps/view/attention_maps.h"

#include <algorithm>
#include <cmath>

#include "apps/view/byte_scale.h"

namespace ng::view {
namespace {

constexpr int64_t kThumbnailSide = 32;

// The keys before the last id that follow an earlier occurrence of it.
std::vector<size_t> Followers(std::span<const int32_t> ids) {
  std::vector<size_t> keys;
  for (size_t key = 1; key + 1 < ids.size(); ++key) {
    if (ids[key - 1] == ids.back()) keys.push_back(key);
  }
  return keys;
}

double Entropy(std::span<const float> probs) {
  double entropy = 0.0;
  for (const float p : probs) {
    if (p > 0.0F) entropy -= static_cast<double>(p) * std::log(p);
  }
  return entropy;
}

void AddRow(std::span<const float> probs, std::span<const size_t> followers, HeadMap* head) {
  const double entropy = Entropy(probs);
  head->entropies.push_back(static_cast<float>(entropy));
  head->received.push_back(0.0F);
  for (size_t key = 0; key < probs.size(); ++key) {
    head->bytes.push_back(ToByte(probs[key]));
    head->received[key] += probs[key];
  }
  head->sums.entropy += entropy;
  for (const size_t key : followers) head->sums.induction += probs[key];
  if (probs.size() < 2) return;
  head->sums.first_token += probs.front();
  head->sums.previous_token += probs[probs.size() - 2];
}

}  // namespace

void AttentionMaps::Add(const QueryRows& query) {
  const std::vector<size_t> followers = Followers(query.ids);
  for (const AttentionRow& row : query.rows) {
    if (!std::ranges::binary_search(layers_, row.layer)) continue;
    AddRow(row.probs, followers, &maps_[row.layer][row.head]);
  }
  ++n_queries_;
  if (!followers.empty()) ++n_repeating_;
}

HeadScores AttentionMaps::Scores(const HeadMap& head) const {
  const auto mean = [](double sum, int64_t n) {
    return n == 0 ? 0.0 : sum / static_cast<double>(n);
  };
  return {.entropy = mean(head.sums.entropy, n_queries_),
          .first_token = mean(head.sums.first_token, n_queries_ - 1),
          .previous_token = mean(head.sums.previous_token, n_queries_ - 1),
          .induction = mean(head.sums.induction, n_repeating_)};
}

int64_t AttentionMaps::thumbnail_side() const { return std::min(n_queries_, kThumbnailSide); }

std::vector<uint8_t> AttentionMaps::Squares(const HeadMap& head, int64_t n) const {
  std::vector<uint8_t> largest(static_cast<size_t>(n * n));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t query = i * n_queries_ / n; query < (i + 1) * n_queries_ / n; ++query) {
      for (int64_t j = 0; j <= i; ++j) {
        uint8_t& cell = largest[static_cast<size_t>(i * n + j)];
        const int64_t end = std::min(query + 1, (j + 1) * n_queries_ / n);
        for (int64_t key = j * n_queries_ / n; key < end; ++key) {
          cell = std::max(cell, head.At(query, key));
        }
      }
    }
  }
  return largest;
}

int64_t PageBytes(int64_t n_heads, int64_t n_queries) {
  const int64_t bytes = n_queries * (n_queries + 1) / 2 + kThumbnailSide * kThumbnailSide +
                        2 * n_queries * static_cast<int64_t>(sizeof(float));
  return n_heads * (bytes + 2) / 3 * 4;
}

}  // namespace ng::view
