#include "core/model/rows/activation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "core/kernels/packed_matrix.h"

namespace ng {
namespace {

// The values are kXieluValues, as the file has them.
void Xielu(std::span<const float> values, const float* x, int64_t n, float* out) {
  const auto softplus = [](float v) { return v > 20.0F ? v : std::log1p(std::exp(v)); };
  const float beta = values[2];
  const float eps = values[3];
  const float alpha_p = softplus(values[0]);
  const float alpha_n = beta + softplus(values[1]);
  for (int64_t i = 0; i < n; ++i) {
    const float curved =
        x[i] > 0.0F ? alpha_p * x[i] * x[i] : (std::expm1(std::min(x[i], eps)) - x[i]) * alpha_n;
    out[i] = curved + beta * x[i];
  }
}

// One row of n values; out may be x. REQUIRES: the activation runs without a gate and has no values
// of its own.
void ActivateRow(const KernelTable& kernels, Activation activation, const float* x, int64_t n,
                 float* out) {
  switch (activation) {
    case Activation::kSilu:
    case Activation::kXielu:
      break;  // as silu_mul alone, and with values
    case Activation::kGeluErf:
      kernels.gelu_erf(x, n, out);
      break;
    case Activation::kGeluTanh:
      kernels.gelu_tanh(x, n, out);
      break;
    case Activation::kRelu:
      for (int64_t i = 0; i < n; ++i) out[i] = std::max(x[i], 0.0F);
      break;
    case Activation::kReluSquared:
      for (int64_t i = 0; i < n; ++i) {
        const float positive = std::max(x[i], 0.0F);
        out[i] = positive * positive;
      }
      break;
  }
}

// The n gates of a row of gate and up, 16 each in turn; and out times the ups.
void TakeGates(const float* gate_up, int64_t n, float* out) {
  for (int64_t i = 0; i < n; i += kBlockColumns, gate_up += 2 * kBlockColumns) {
    std::copy_n(gate_up, std::min(kBlockColumns, n - i), out + i);
  }
}
void MultiplyByUps(const float* gate_up, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] *= gate_up[i / kBlockColumns * kBlockColumns + kBlockColumns + i];
  }
}

// The same as silu_mul, of gates and ups that are changed before.
void ActivateClamped(const KernelTable& kernels, const FeedForwardSpec& feed_forward,
                     const float* gate_up, int64_t n, float* out) {
  const float limit =
      feed_forward.limit > 0.0F ? feed_forward.limit : std::numeric_limits<float>::infinity();
  const float slope = feed_forward.slope;
  for (int64_t i = 0; i < n; i += kBlockColumns, gate_up += 2 * kBlockColumns) {
    std::array<float, 2 * kBlockColumns> changed;
    for (size_t j = 0; j < kBlockColumns; ++j) {
      const float up = std::clamp(gate_up[kBlockColumns + j], -limit, limit);
      changed[j] = std::min(gate_up[j], limit) * slope;
      changed[kBlockColumns + j] = (up + feed_forward.up_offset) / slope;
    }
    kernels.silu_mul(changed.data(), std::min(kBlockColumns, n - i), out + i);
  }
}

}  // namespace

void ActivateTile(const KernelTable& kernels, const FeedForwardSpec& feed_forward,
                  const MatrixPair& w, const MatmulTile& gate_up, float* activated) {
  const bool gated = feed_forward.gated;
  const int64_t width = feed_forward.width;
  const int64_t column = gated ? gate_up.column / 2 : gate_up.column;
  const int64_t n = gated ? std::min(gate_up.n_columns / 2, width - column) : gate_up.n_columns;
  for (int64_t row = gate_up.row; row < gate_up.row + gate_up.n_rows; ++row) {
    const float* in = gate_up.Row(row);
    float* out = activated + row * width + column;
    if (!feed_forward.plain_gate()) {
      ActivateClamped(kernels, feed_forward, in, n, out);
    } else if (gated && feed_forward.activation == Activation::kSilu) {
      kernels.silu_mul(in, n, out);
    } else if (gated) {
      TakeGates(in, n, out);
      ActivateRow(kernels, feed_forward.activation, out, n, out);
      MultiplyByUps(in, n, out);
    } else if (feed_forward.activation == Activation::kXielu) {
      Xielu(w.xielu, in, n, out);
    } else {
      ActivateRow(kernels, feed_forward.activation, in, n, out);
    }
  }
}

}  // namespace ng
