// Policy: which tokens a cache with a budget keeps.
//
// A policy gives every token that a kv head of a layer holds a score; the tokens of the lowest
// scores leave. How many stay, when tokens leave, and which ones are never asked about (sinks, the
// newest) is the store's: the cache `budget` works with any policy. Of equal scores the token at
// the lower position stays.
//
// Bit contract: scores depend on what Score is given and on the options alone, never on threads,
// the batch, what was scored before or how the text was split into steps. What is random comes of
// layer, kv head and position, and of a seed that is an option.
//
// Implemented by policy plugins; called by cache stores, on the engine's thread, and for what is
// marked [worker] by the Executor's threads too, many at once.
#ifndef NG_POLICY_H_
#define NG_POLICY_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "ng/plugin.h"
#include "ng/rotation.h"
#include "ng/status.h"
#include "ng/tensor_view.h"

#pragma GCC visibility push(default)
namespace ng {

// What is known of the queries of a sequence, as they are before they are rotated: of each query
// head that shares the kv head, over the tokens from first_query() on, those that have left among
// them. Where tokens leave at the end of a context it is over the context. Added up in double row
// by row, in the order of positions.
struct QueryStatistics {
  int64_t n_queries = 0;                        // 0: none has come, and mean and covariance are 0
  TensorView<const double, 2> mean = {};        // [n_heads, head_dim]
  TensorView<const double, 3> covariance = {};  // [n_heads, head_dim, head_dim]
  double scale = 0.0;                           // of a query's product with a key; above 0

  int64_t n_heads() const { return mean.extent[0]; }
};

// The tokens that one kv head of one layer holds, in the order of their positions. Borrowed for the
// call.
struct HeldTokens {
  int layer = 0;       // from 0, among the layers of the model that keep keys and values
  int kv_head = 0;     // from 0
  int n_kv_heads = 0;  // of the layer
  int64_t length = 0;  // tokens that the sequence has had by now, those that have left among them
  std::span<const int32_t> positions = {};  // [n_tokens], rising
  // As they are stored: rounded to the cache's codec, keys already rotated. Without rows where the
  // policy has not asked for them.
  TensorView<const float, 2> keys = {};    // [n_tokens, head_dim]
  TensorView<const float, 2> values = {};  // [n_tokens, value_dim]
  // The attention that each token got: probabilities, summed over the query heads that share the kv
  // head, and over the last attended_queries() queries of the sequence, or all of them, row by row
  // in the order of their positions. Where several layers read the keys of one, it is that layer's
  // own. Empty where the policy has not asked for it.
  std::span<const float> attended = {};  // [n_tokens] or empty
  // Where the policy has asked for it.
  QueryStatistics queries = {};
  Rotation rotation = {};  // of the layer's queries and keys

  int64_t n_tokens() const { return static_cast<int64_t>(positions.size()); }
};

// The names of what a policy may need beside positions, for Policy::needs. A store refuses a policy
// that needs what the store does not give, by this name.
inline constexpr std::string_view kNeedKeys = "keys";          // HeldTokens::keys
inline constexpr std::string_view kNeedValues = "values";      // HeldTokens::values
inline constexpr std::string_view kNeedAttended = "attended";  // HeldTokens::attended
// HeldTokens::queries
inline constexpr std::string_view kNeedQueryStatistics = "query_statistics";
inline constexpr std::string_view kNeedRotation = "rotation";  // HeldTokens::rotation
// Not given by any store yet: the last queries.
inline constexpr std::string_view kNeedQueries = "queries";
// All of them.
inline constexpr std::string_view kPolicyNeeds[] = {
    kNeedKeys, kNeedValues, kNeedAttended, kNeedQueryStatistics, kNeedRotation, kNeedQueries};

class Policy {
 public:
  virtual ~Policy() = default;

  // [load] What Score looks at, of the names above. Static text.
  virtual std::span<const std::string_view> needs() const { return {}; }

  // [load] Of so many queries HeldTokens::attended is, the newest ones of those that came before
  // the tokens are scored; 0: of all. A store may refuse more than come between two boundaries.
  virtual int64_t attended_queries() const { return 0; }

  // [load] Queries of tokens before this position are in no statistics.
  virtual int64_t first_query() const { return 0; }

  // [worker] Writes the score of every token; those of the lowest scores leave. Several heads may
  // be scored at once. It is called once for many tokens, so it may allocate what it works in.
  // scores: [n_tokens], none may be NaN.
  virtual absl::Status Score(const HeldTokens& tokens, std::span<float> scores) const = 0;
};

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_POLICY_H_
