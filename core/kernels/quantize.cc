#include "core/kernels/quantize.h"

#include <array>
#include <cstdint>
#include <cstring>

#include "core/kernels/words.h"
#include "ng/half.h"

namespace ng {
namespace {

// One number of each of four blocks.
using FourFloats = float __attribute__((vector_size(16)));
using FourInts = int32_t __attribute__((vector_size(16)));

// Value i of all blocks, for i = 0 to 31.
using Values = std::array<FourFloats, kQuantBlock>;

// Their integers, each with the zero of its grid added.
struct Quants {
  std::array<FourWords, kQuantBlock / 4> words;  // four integers of a block each
  std::array<uint16_t, 4> d;
};

// Without its sign, a float's bits order as its magnitude does.
FourInts MagnitudeBits(FourFloats x) { return reinterpret_cast<FourInts>(x) & 0x7FFFFFFF; }

Values Load(const FourBlocks& blocks) {
  Values values;
  for (int64_t i = 0; i < kQuantBlock; i += 4) {
    const std::array<FourWords, 4> four =
        Transposed({blocks[0] + i, blocks[1] + i, blocks[2] + i, blocks[3] + i});
    std::memcpy(&values[static_cast<size_t>(i)], four.data(), sizeof(four));
  }
  return values;
}

// Rounds the scale to f16. Returns what it then is.
FourFloats Narrow(FourFloats scale, std::array<uint16_t, 4>* d) {
  FourFloats narrow;
  for (int block = 0; block < 4; ++block) {
    (*d)[static_cast<size_t>(block)] = F32ToF16(scale[block]);
    narrow[block] = F16ToF32((*d)[static_cast<size_t>(block)]);
  }
  return narrow;
}

// Rounds to the nearest whole number of scales, adds `zero`, and limits the result to [0, high].
Values Round(const Values& values, FourFloats scale, float zero, float high) {
  const FourFloats inverse = scale == 0.0F ? FourFloats{} : 1.0F / scale;
  const FourFloats most = FourFloats{} + high;
  Values rounded;
  for (size_t i = 0; i < values.size(); ++i) {
    const FourFloats shifted = values[i] * inverse + zero + 0.5F;
    const FourFloats limited = _mm_min_ps(_mm_max_ps(shifted, FourFloats{}), most);
    rounded[i] = __builtin_convertvector(__builtin_convertvector(limited, FourInts), FourFloats);
  }
  return rounded;
}

std::array<FourWords, kQuantBlock / 4> QuantWords(const Values& rounded) {
  const auto integers = [&](size_t i) {
    return reinterpret_cast<FourWords>(__builtin_convertvector(rounded[i], FourInts));
  };
  std::array<FourWords, kQuantBlock / 4> words;
  for (size_t w = 0; w < words.size(); ++w) {
    words[w] = integers(4 * w) | integers(4 * w + 1) << 8U | integers(4 * w + 2) << 16U |
               integers(4 * w + 3) << 24U;
  }
  return words;
}

FourSpans FourSpansOf(const Quants& quants) {
  FourSpans spans;
  for (size_t half = 0; half < quants.words.size(); half += 4) {
    const FourWords* const words = &quants.words[half];
    const std::array<FourWords, 4> four = Transposed({words, words + 1, words + 2, words + 3});
    for (size_t block = 0; block < 4; ++block) {
      std::memcpy(spans[block].q + half * 4, &four[block], sizeof(FourWords));
    }
  }
  for (size_t block = 0; block < 4; ++block) spans[block].d = quants.d[block];
  return spans;
}

struct Fit {
  FourFloats error;  // sum of squared differences
  FourFloats scale;  // the best one for these integers
};

Fit Measure(const Values& values, const Values& rounded, FourFloats scale, float zero) {
  FourFloats error = {};
  FourFloats xq = {};
  FourFloats qq = {};
  for (size_t i = 0; i < values.size(); ++i) {
    const FourFloats q = rounded[i] - zero;
    const FourFloats difference = values[i] - scale * q;
    error += difference * difference;
    xq += values[i] * q;
    qq += q * q;
  }
  return {error, qq > 0.0F ? xq / qq : FourFloats{}};
}

}  // namespace

FourSpans QuantizeInt8(const FourBlocks& blocks) {
  const Values values = Load(blocks);
  FourInts most = {};
  for (const FourFloats x : values) most = MagnitudeBits(x) > most ? MagnitudeBits(x) : most;
  Quants quants;
  const FourFloats scale = Narrow(reinterpret_cast<FourFloats>(most) / 127.0F, &quants.d);
  quants.words = QuantWords(Round(values, scale, 128.0F, 255.0F));
  return FourSpansOf(quants);
}

FourSpans QuantizeInt4(const FourBlocks& blocks) {
  constexpr float kZero = 8.0F;
  constexpr int kRefinements = 2;
  const Values values = Load(blocks);
  FourFloats most = values[0];  // the first one of the largest magnitude, with its sign
  for (const FourFloats x : values) most = MagnitudeBits(x) > MagnitudeBits(most) ? x : most;
  Quants best;
  FourFloats best_error = {};
  FourFloats scale = most / -8.0F;
  for (int i = 0; i <= kRefinements; ++i) {
    Quants quants;
    scale = Narrow(scale, &quants.d);
    const Values rounded = Round(values, scale, kZero, 15.0F);
    quants.words = QuantWords(rounded);
    const Fit fit = Measure(values, rounded, scale, kZero);
    if (i == 0) {
      best = quants;
      best_error = fit.error;
    } else {
      const FourInts better = fit.error < best_error;
      for (size_t w = 0; w < best.words.size(); ++w) {
        best.words[w] = better ? quants.words[w] : best.words[w];
      }
      for (int block = 0; block < 4; ++block) {
        const auto b = static_cast<size_t>(block);
        if (better[block] != 0) best.d[b] = quants.d[b];
      }
      best_error = better ? fit.error : best_error;
    }
    scale = fit.scale;
  }
  return FourSpansOf(best);
}

}  // namespace ng
