// Survival: when each token of a run left the cache, by layer and kv head.
#ifndef NG_APPS_VIEW_SURVIVAL_H_
#define NG_APPS_VIEW_SURVIVAL_H_

#include <cstdint>
#include <vector>

#include "ng/request.h"

namespace ng::view {

// In place of a number of tokens.
inline constexpr int32_t kNotLeft = -1;  // it has not left
inline constexpr int32_t kNoHead = -2;   // the layer has fewer heads

class Survival {
 public:
  // What GenerateOptions::on_left is told of one request.
  void Add(const HeldPositions& held);

  bool empty() const { return heads_.empty(); }
  int64_t n_layers() const { return n_layers_; }  // that keep keys and values
  int64_t n_kv_heads() const { return n_kv_heads_; }
  // How many tokens there were when each of the first n_tokens left, or kNotLeft, or kNoHead.
  // [n_layers, n_kv_heads, n_tokens]
  std::vector<int32_t> LeftAt(int64_t n_tokens) const;

 private:
  struct Head {
    int layer = 0;
    int kv_head = 0;
    std::vector<int32_t> left_at;  // [tokens so far]
  };

  std::vector<Head> heads_;  // of all layers, in their order
  int64_t n_layers_ = 0;
  int64_t n_kv_heads_ = 0;  // the most of any layer
};

}  // namespace ng::view

#endif  // NG_APPS_VIEW_SURVIVAL_H_
