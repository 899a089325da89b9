// The named places of a step that can be looked at, in the order in which a token meets them.
//
// Each gives rows of f32, one for each token that the step feeds (`norm` and `logits`: one for each
// token whose logits are made). A model has the points of its own blocks: a layer without attention
// has no `q`, and a layer without a feed-forward no `mlp_act`. With latents in the cache
// (DeepSeek's models) q, k and v are those that attention is handed: one head of k, and v as a part
// of it.
#ifndef NG_POINT_H_
#define NG_POINT_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ng/cache_store.h"
#include "ng/status.h"

#pragma GCC visibility push(default)
namespace ng {

enum class Point : uint8_t {
  kEmbed,      // [width] what the first layer gets
  kAttnIn,     // [width] behind the norm, what the matrices of q, k and v read; or those of a state
  kQ,          // [n_heads, head_dim] as attention gets it: normed and rotated
  kK,          // [n_kv_heads, head_dim] likewise, as it goes to the cache
  kV,          // [n_kv_heads, v_head_dim]
  kAttnHead,   // [n_heads, v_head_dim] what the output matrix reads
  kAttnOut,    // [width] what attention, or a state, adds to the residual stream
  kAttnResid,  // [width] the residual stream behind it
  kMlpIn,      // [width] behind the norm, what the feed-forward or the experts read
  kRouter,     // [n_experts] the router's logits
  kMlpAct,     // [inner width] what the feed-forward's last matrix reads; experts have none
  kMlpOut,     // [width] what the feed-forward or the experts add
  kOut,        // [width] the residual stream behind the layer
  kNorm,       // [width] behind the last norm, what the head reads
  kLogits,     // [vocab_size]
};
inline constexpr int kPoints = 15;

// "embed", "attn_in".
std::string_view PointName(Point point);
// Whether each layer has one of its own.
constexpr bool IsOfLayer(Point point) { return point > Point::kEmbed && point < Point::kNorm; }

// Whether only tokens whose logits are made have a row.
constexpr bool NeedsLogits(Point point) { return point >= Point::kNorm; }

// A place in a step.
struct PointAt {
  Point point = Point::kEmbed;
  int layer = -1;  // -1: of no layer

  bool operator==(const PointAt&) const = default;
};

// "embed", "layer3.attn_in".
std::string PointText(const PointAt& at);

// A point that a model has, and what a row of it is.
struct PointShape {
  PointAt at;
  int64_t n_heads = 0;  // 0: the row has no heads
  int64_t width = 0;    // of a head, or of the row

  int64_t values() const { return (n_heads == 0 ? 1 : n_heads) * width; }
};

// Those of `points` whose names match the pattern, in their order; `*` stands for any text
// ("layer3.q", "layer*.out"). Errors: UsageError when none does, with the nearest name.
absl::StatusOr<std::vector<PointShape>> ChoosePoints(std::span<const PointShape> points,
                                                     std::string_view pattern);

// Whether any of them does (NeedsLogits).
bool NeedLogits(std::span<const PointAt> points);

// The token that a row of a step is of.
struct TokenRow {
  SequenceId sequence = 0;
  int64_t pos = 0;
  int32_t token = 0;
  int request = -1;  // the index of its request in the run; -1: of a sequence fed step by step
};

// What a step holds at a point.
struct PointRows {
  PointAt at;
  float* data = nullptr;             // row i begins at data + i * stride
  int64_t stride = 0;                // floats from one row to the next
  int64_t n_heads = 1;               // of a row; 1 where it has none
  int64_t width = 0;                 // of a head, or of the row
  std::span<const TokenRow> tokens;  // [n_rows]

  int64_t n_rows() const { return static_cast<int64_t>(tokens.size()); }
  int64_t values() const { return n_heads * width; }         // of a row
  float* Row(int64_t i) const { return data + i * stride; }  // [n_heads * width]
};

// A set of points.
class PointSet {
 public:
  constexpr void Add(Point point) { bits_ |= uint32_t{1} << static_cast<int>(point); }
  constexpr void Add(PointSet points) { bits_ |= points.bits_; }
  constexpr bool Has(Point point) const { return (bits_ >> static_cast<int>(point) & 1) != 0; }
  constexpr bool empty() const { return bits_ == 0; }

 private:
  uint32_t bits_ = 0;
};

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_POINT_H_
