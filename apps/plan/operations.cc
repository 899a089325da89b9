#include "apps/plan/operations.h"

namespace ng::plan {
namespace {

constexpr double kPerMultiplyAdd = 2.0;

// 1 + 2 + ... + n: the keys that n queries see from the first token on.
double Triangle(double n) { return n * (n + 1.0) / 2.0; }
// 1 + 3 + 6 + ...: the sum of the first n of these sums.
double Tetrahedron(double n) { return n * (n + 1.0) * (n + 2.0) / 6.0; }

Operations Of(const UnitOperations& units, double rows, double keys, const Run& run) {
  const double steps = 1.0 + static_cast<double>(run.decode_tokens);
  return {
      .matrices = units.row * rows, .head = units.logit_row * steps, .attention = units.key * keys};
}

}  // namespace

UnitOperations UnitsOf(const StepCost& cost) {
  return {.row = kPerMultiplyAdd * static_cast<double>(cost.row_multiply_adds),
          .logit_row = kPerMultiplyAdd * static_cast<double>(cost.logit_multiply_adds),
          .key = kPerMultiplyAdd * static_cast<double>(cost.key_multiply_adds)};
}

Operations WithCache(const UnitOperations& units, const Run& run) {
  const auto tokens = static_cast<double>(run.prompt_tokens + run.decode_tokens);
  return Of(units, tokens, Triangle(tokens), run);
}

Operations WithoutCache(const UnitOperations& units, const Run& run) {
  // Steps of P, P + 1, ..., P + N tokens.
  const auto last = static_cast<double>(run.prompt_tokens + run.decode_tokens);
  const auto before = static_cast<double>(run.prompt_tokens - 1);
  return Of(units, Triangle(last) - Triangle(before), Tetrahedron(last) - Tetrahedron(before), run);
}

}  // namespace ng::plan
