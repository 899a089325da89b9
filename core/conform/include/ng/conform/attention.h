// What every attention backend must do, as a list of checks.
//
// A backend runs over a scattered store whose unwritten bytes are NaN (or over a store of the
// author's). It is held against the formula in double: values, captured rows, every feature that it
// lists; and against itself, bit by bit: over chunks, batches, threads, captures.
#ifndef NG_CONFORM_ATTENTION_H_
#define NG_CONFORM_ATTENTION_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ng/conform/attention_rig.h"
#include "ng/conform/check.h"

namespace ng::conform {

// What a backend does that the spec does not ask of it: which keys a query sees, what becomes of
// the scores. The formula then has it too.
struct AttentionRule {
  int64_t window = 0;     // as in AttentionSpec; 0: all keys
  int64_t first = 0;      // so many first keys are seen in spite of the window
  int64_t top_k = 0;      // so many keys of the largest scores are seen; 0: all
  float soft_cap = 0.0F;  // as in AttentionSpec; 0: none
  bool alibi = false;     // slopes as in Press et al. 2022

  // "window=64,first=4", "alibi", "top_k=8", "soft_cap=30". Errors: UsageError.
  static absl::StatusOr<AttentionRule> Parse(std::string_view text);

  // Whether it does what the feature does where the spec asks.
  bool Has(std::string_view feature) const;
  bool operator==(const AttentionRule&) const = default;
};

struct AttentionSubject {
  CheckSettings settings = {};
  MakeAttention make;
  // The store that it runs over; empty: a ScatteredStore, of layout "tiles16".
  MakeCache store = {};
  // More stores, over which its bits must be the same.
  std::vector<std::pair<std::string, MakeCache>> other_stores = {};
  // The rule that it is held against, none: it is held against itself only.
  std::optional<AttentionRule> rule = AttentionRule{};
  PluginContext context = {};  // that it is made with, but for executor and isa

  // Relative to 1 + |value|. Where keys or values are bf16 it is 1e-2 on a level with dot products
  // of bf16, because a backend may round queries and weights alike.
  float tolerance = 3e-5F;
  // Where keys or values are int8 or int4: a backend may round the others to 16-bit integers.
  float int_tolerance = 3e-4F;
};

using AttentionCheck = Check<AttentionSubject>;
std::span<const AttentionCheck> AttentionChecks();

// All of them: RunChecks.
std::vector<std::string> CheckAttention(const AttentionSubject& subject);

}  // namespace ng::conform

#endif  // NG_CONFORM_ATTENTION_H_
