// The kernels of each level. Compiled once for each level.
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "ng/level.h"
#include "ng/tiles16.h"
#include "plugins/attention/sparse/choose_kernel.h"

NG_BEGIN_LEVEL
namespace ng {
namespace {

using V = level::Vec16;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kMostHeads = 4;  // that share what is loaded

struct TileScorer {
  const TilesToScore& tiles;
  const int group;
  const int64_t n_blocks;  // of 16 dimensions
  float* factors;          // [group][n_blocks][2][16]: of the largest numbers, of the least

  explicit TileScorer(const TilesToScore& work, float* room)
      : tiles(work),
        group(work.spec.n_heads / work.spec.n_kv_heads),
        n_blocks((work.spec.head_dim + 15) / 16),
        factors(room) {
    const V zero = V::Set(0.0F);
    for (int head = 0; head < group; ++head) {
      const float* q = tiles.q + head * tiles.q_stride;
      for (int64_t block = 0; block < n_blocks; ++block) {
        const int64_t n = tiles.spec.head_dim - block * 16;
        const V x = V::LoadFirst(q + block * 16, n < 16 ? static_cast<int>(n) : 16);
        float* const to = factors + (head * n_blocks + block) * 32;
        // A NaN stays one: it is no less than zero.
        V::SelectLess(x, zero, zero, x).Store(to);
        V::SelectLess(x, zero, x, zero).Store(to + 16);
      }
    }
  }

  // The largest products of heads [head, head + kHeads) with a tile of these bounds.
  template <int kHeads>
  NG_INLINE void ScoreHeads(int head, const std::byte* bounds, float* products) const {
    V sums[kHeads];
    for (int h = 0; h < kHeads; ++h) sums[h] = V::Set(0.0F);
    const float* factor = factors + head * n_blocks * 32;
    const int64_t stride = n_blocks * 32;
    for (int64_t block = 0; block < n_blocks; ++block, factor += 32) {
      V least;
      V largest;
      V::LoadBf16Pairs(reinterpret_cast<const uint16_t*>(bounds + block * 64), &least, &largest);
      for (int h = 0; h < kHeads; ++h) {
        sums[h] = V::MulAdd(V::Load(factor + h * stride), largest, sums[h]);
        sums[h] = V::MulAdd(V::Load(factor + h * stride + 16), least, sums[h]);
      }
    }
    for (int h = 0; h < kHeads; ++h) products[h] = sums[h].Sum();
  }

  // What ALiBi makes of a head's largest product with a tile: beside the scale, what the last key
  // loses.
  float WithSlope(int head, int64_t tile, float product) const {
    if (tiles.spec.alibi_slopes.empty()) return product;
    const int at = tiles.kv_head * group + head;
    const double scale =
        static_cast<double>(tiles.spec.scale) * tiles.spec.query_temperature.At(tiles.pos);
    const auto distance = static_cast<float>(tiles.pos - (tile + 1) * kTileTokens + 1);
    return static_cast<float>(scale) * product -
           tiles.spec.alibi_slopes[static_cast<size_t>(at)] * distance;
  }

  float ScoreTile(int64_t tile, const std::byte* bounds) const {
    float score = -kInfinity;
    for (int head = 0; head < group; head += kMostHeads) {
      float products[kMostHeads];
      const int n = group - head < kMostHeads ? group - head : kMostHeads;
      switch (n) {
        case 1:
          ScoreHeads<1>(head, bounds, products);
          break;
        case 2:
          ScoreHeads<2>(head, bounds, products);
          break;
        case 3:
          ScoreHeads<3>(head, bounds, products);
          break;
        default:
          ScoreHeads<kMostHeads>(head, bounds, products);
      }
      for (int h = 0; h < n; ++h) {
        const float own = WithSlope(head + h, tile, products[h]);
        if (own > score) score = own;
        if (own != own) score = kInfinity;
      }
    }
    return score;
  }

  void Score(float* scores) const {
    const int64_t page_tiles = tiles.view.page_tokens / kTileTokens;
    const int64_t bounds_bytes = BoundsBytes(tiles.spec.head_dim);
    for (int64_t tile = tiles.begin; tile < tiles.end;) {
      const std::byte* bounds = BoundsOf(tiles.view, tiles.kv_head, tile, tiles.spec.head_dim);
      int64_t end = (tile / page_tiles + 1) * page_tiles;  // of the page
      if (end > tiles.end) end = tiles.end;
      for (; tile < end; ++tile, bounds += bounds_bytes) *scores++ = ScoreTile(tile, bounds);
    }
  }
};

void ScoreTiles(const TilesToScore& tiles, float* room, float* scores) {
  TileScorer(tiles, room).Score(scores);
}

// Floats by whole numbers in the same order, and back.
float FloatOf(uint32_t order) {
  return std::bit_cast<float>(order >= 0x80000000U ? order ^ 0x80000000U : ~order);
}

// How many of n scores, a multiple of 16, are below a bar.
int64_t CountBelow(const float* scores, int64_t n, float bar) {
  const V one = V::Set(1.0F);
  const V zero = V::Set(0.0F);
  const V bars = V::Set(bar);
  V count = zero;
  for (int64_t i = 0; i < n; i += 16) {
    count = V::Add(count, V::SelectLess(V::Load(scores + i), bars, one, zero));
  }
  return static_cast<int64_t>(count.Sum());
}

// The n_wanted-th largest score is the largest bar that so many reach: found by halving.
void ChooseTiles(float* scores, int64_t n, int64_t n_wanted, int32_t* out) {
  const int64_t n_all = (n + 15) / 16 * 16;
  for (int64_t i = n; i < n_all; ++i) scores[i] = -kInfinity;
  uint32_t low = 0x007FFFFFU;   // of -infinity, which all reach
  uint32_t high = 0xFF800001U;  // behind infinity
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    const int64_t n_reach = n_all - CountBelow(scores, n_all, FloatOf(middle));
    (n_reach >= n_wanted ? low : high) = middle;
    if (n_reach == n_wanted) break;
  }
  const float bar = FloatOf(low);
  int64_t n_equal = n_wanted;
  for (int64_t i = 0; i < n; ++i) n_equal -= scores[i] > bar ? 1 : 0;
  int64_t n_chosen = 0;
  for (int64_t i = 0; i < n; ++i) {
    out[n_chosen] = static_cast<int32_t>(i);
    const bool above = scores[i] > bar;
    const bool equal = scores[i] == bar && n_equal > 0;
    n_equal -= equal ? 1 : 0;
    n_chosen += above || equal ? 1 : 0;
  }
}

}  // namespace

template <>
const ChooseKernel& ChooseKernel::At<kLevel>() {
  static constexpr ChooseKernel kKernel = {ScoreTiles, ChooseTiles};
  return kKernel;
}

}  // namespace ng
NG_END_LEVEL
