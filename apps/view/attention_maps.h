// AttentionMaps: the attention of a run, as the page shows it. Rows come query by query, while the
// run goes on, and are kept as bytes.
#ifndef NG_APPS_VIEW_ATTENTION_MAPS_H_
#define NG_APPS_VIEW_ATTENTION_MAPS_H_

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "ng/request.h"

namespace ng::view {

// What a head does, each a mean over queries.
struct HeadScores {
  double entropy = 0.0;         // of the row, in nats
  double first_token = 0.0;     // the mass on token 0; without query 0
  double previous_token = 0.0;  // the mass on the token before; without query 0
  // The mass on the tokens that followed the query's own token where it occurred before; of the
  // queries that have such tokens before them. 0 where there is none.
  double induction = 0.0;
};

// One head. All sizes grow with the queries.
struct HeadMap {
  std::vector<uint8_t> bytes;    // row after row, [pos + 1] each (byte_scale.h)
  std::vector<float> received;   // [n_queries] that each key receives in all
  std::vector<float> entropies;  // [n_queries] of each query's row, nats
  HeadScores sums;               // over the queries that count

  uint8_t At(int64_t query, int64_t key) const {
    return bytes[static_cast<size_t>(query * (query + 1) / 2 + key)];
  }
};

class AttentionMaps {
 public:
  // These layers are kept, of all rows that come.
  explicit AttentionMaps(std::vector<int> layers) : layers_(std::move(layers)) {}

  // REQUIRES: the next query.
  void Add(const QueryRows& query);

  int64_t n_queries() const { return n_queries_; }
  // Their heads, each under its number.
  const std::map<int, std::map<int, HeadMap>>& layers() const { return maps_; }
  HeadScores Scores(const HeadMap& head) const;

  // The largest bytes of squares of the matrix, [n][n] with n = ThumbnailSide(): cell (i, j) covers
  // the queries from i * n_queries / n to (i + 1) * n_queries / n, and the keys likewise.
  std::vector<uint8_t> Thumbnail(const HeadMap& head) const {
    return Squares(head, thumbnail_side());
  }
  int64_t thumbnail_side() const;
  std::vector<uint8_t> Squares(const HeadMap& head, int64_t n) const;

 private:
  std::vector<int> layers_;
  std::map<int, std::map<int, HeadMap>> maps_;  // [layer][head]
  int64_t n_queries_ = 0;
  int64_t n_repeating_ = 0;  // queries that count for induction
};

// Bytes that the page holds of `n_heads` heads with so many queries, as base64 and with what stands
// beside them.
int64_t PageBytes(int64_t n_heads, int64_t n_queries);

}  // namespace ng::view

#endif  // NG_APPS_VIEW_ATTENTION_MAPS_H_
