// The kernels of blocks with a state, on every ISA level, against double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "core/kernels/kernel_table.h"
#include "ng/isa.h"
#include "tests/core/kernels/test_support.h"

namespace ng {
namespace {

class StateKernelsTest : public ::testing::TestWithParam<IsaLevel> {
 protected:
  const KernelTable& kernels() const { return Kernels(GetParam()); }
};

double Silu(double x) { return x / (1.0 + std::exp(-x)); }

TEST_P(StateKernelsTest, SiluGateMultipliesInPlace) {
  for (const int64_t n : {1, 15, 16, 17, 45}) {
    GuardedArray<float> gate(RandomFloats(n, 1));
    const std::vector<float> before = RandomFloats(n, 2);
    GuardedArray<float> x(before);
    kernels().silu_gate(gate.data(), n, x.data());
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_NEAR(x[i], before[static_cast<size_t>(i)] * Silu(gate[i]), 1e-6) << i << " of " << n;
    }
  }
}

TEST_P(StateKernelsTest, ConvolveAddsTheTapsOfEachColumn) {
  for (const int64_t n : {1, 16, 31, 50}) {
    for (const int taps : {1, 3, 4}) {
      GuardedArray<float> weights(RandomFloats(taps * n, 1));
      GuardedArray<float> bias(RandomFloats(n, 2));
      std::vector<std::vector<float>> rows;
      std::vector<const float*> pointers;
      for (int tap = 0; tap < taps; ++tap) {
        rows.push_back(RandomFloats(n, static_cast<uint32_t>(tap) + 3));
        pointers.push_back(rows.back().data());
      }
      for (const bool silu : {false, true}) {
        GuardedArray<float> out(n);
        kernels().convolve({.rows = pointers.data(),
                            .taps = taps,
                            .weights = weights.data(),
                            .weight_stride = n,
                            .bias = silu ? bias.data() : nullptr,
                            .silu = silu,
                            .n = n,
                            .out = out.data()});
        for (int64_t i = 0; i < n; ++i) {
          double sum = silu ? bias[i] : 0.0F;
          for (int tap = 0; tap < taps; ++tap) {
            sum += double{weights[tap * n + i]} * pointers[static_cast<size_t>(tap)][i];
          }
          ASSERT_NEAR(out[i], silu ? Silu(sum) : sum, 2e-6) << i << " of " << n;
        }
      }
    }
  }
}

// One token through a state [keys, values], as its definition has it.
struct Token {
  std::vector<double> state;
  std::vector<double> out;
};
Token Recurred(const RecurArgs& a) {
  Token token;
  for (int64_t i = 0; i < a.key_dim * a.value_dim; ++i) {
    token.state.push_back(double{a.decay} * a.before[i]);
  }
  for (int64_t v = 0; v < a.value_dim; ++v) {
    double written = a.value[v];
    for (int64_t k = 0; a.delta && k < a.key_dim; ++k) {
      written -= a.key[k] * token.state[static_cast<size_t>(k * a.value_dim + v)];
    }
    double& out = token.out.emplace_back(0.0);
    for (int64_t k = 0; k < a.key_dim; ++k) {
      double& state = token.state[static_cast<size_t>(k * a.value_dim + v)];
      state += a.key[k] * a.write * written;
      out += a.query[k] * state;
    }
  }
  return token;
}

TEST_P(StateKernelsTest, RecurFadesWritesAndReads) {
  for (const int64_t keys : {1, 6, 16}) {
    for (const int64_t values : {1, 16, 20, 64, 100, 144}) {
      for (const bool delta : {false, true}) {
        GuardedArray<float> before(RandomFloats(keys * values, 1));
        GuardedArray<float> key(RandomFloats(keys, 2));
        GuardedArray<float> query(RandomFloats(keys, 3));
        GuardedArray<float> value(RandomFloats(values, 4));
        GuardedArray<float> after(keys * values);
        GuardedArray<float> out(values);
        RecurArgs args = {.before = before.data(),
                          .after = after.data(),
                          .key_dim = keys,
                          .value_dim = values,
                          .key = key.data(),
                          .query = query.data(),
                          .value = value.data(),
                          .decay = 0.75F,
                          .write = 0.4F,
                          .delta = delta,
                          .out = out.data()};
        kernels().recur(args);
        const Token want = Recurred(args);
        for (int64_t i = 0; i < keys * values; ++i) {
          ASSERT_NEAR(after[i], want.state[static_cast<size_t>(i)], 3e-6) << keys << " " << values;
        }
        for (int64_t i = 0; i < values; ++i) {
          ASSERT_NEAR(out[i], want.out[static_cast<size_t>(i)], 2e-5) << keys << " " << values;
        }
        // In place it gives the same bits.
        std::vector<float> apart(after.data(), after.data() + keys * values);
        args.after = before.data();
        kernels().recur(args);
        EXPECT_EQ(std::vector<float>(before.data(), before.data() + keys * values), apart);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllLevels, StateKernelsTest,
                         ::testing::ValuesIn(SupportedIsaLevels().begin(),
                                             SupportedIsaLevels().end()),
                         [](const auto& info) { return std::string(IsaName(info.param)); });

}  // namespace
}  // namespace ng
