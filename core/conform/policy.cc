#include "ng/conform/policy.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/conform/fence.h"
#include "core/conform/texts.h"
#include "ng/conform/executor.h"
#include "ng/status.h"

namespace ng::conform {
namespace {

// That share a kv head.
constexpr int64_t kQueryHeads = 2;

using Scores = std::vector<float>;

// The tokens that a head is made to hold.
struct HeadShape {
  int64_t n_tokens = 1;
  int head_dim = 1;
  int value_dim = 1;
};

// Many lengths, as some policies work in pieces.
std::vector<HeadShape> HeadShapes(bool quick) {
  std::vector<HeadShape> shapes = {{1, 1, 1}, {2, 5, 5}, {17, 64, 64}, {300, 16, 8}};
  if (!quick) shapes.insert(shapes.end(), {{1100, 128, 128}, {4099, 32, 64}});
  return shapes;
}

// What a head holds: some of the positions up to the newest, keys and values.
class Head {
 public:
  Head(const HeadShape& shape, uint32_t seed) : shape_(shape) {
    std::mt19937_64 random(seed);
    const auto number = [&] { return static_cast<float>(random() % 2001) * 1e-3F - 1.0F; };
    int32_t position = 0;
    for (int64_t i = 0; i < shape.n_tokens; ++i) {
      positions_.push_back(position);
      position += 1 + static_cast<int32_t>(random() % 3 == 0);
    }
    keys_.resize(static_cast<size_t>(shape.n_tokens * shape.head_dim));
    values_.resize(static_cast<size_t>(shape.n_tokens * shape.value_dim));
    std::ranges::generate(keys_, number);
    std::ranges::generate(values_, number);
    const auto share = [&] { return static_cast<float>(random() % 1000) * 1e-3F; };
    attended_.resize(static_cast<size_t>(shape.n_tokens));
    std::ranges::generate(attended_, share);
    const int64_t n = shape.head_dim;
    mean_.resize(static_cast<size_t>(kQueryHeads * n));
    std::ranges::generate(mean_, number);
    covariance_.resize(static_cast<size_t>(kQueryHeads * n * n));
    for (int64_t i = 0; i < std::ssize(covariance_); ++i) {  // of two rows in each head
      const int64_t head = i / (n * n);
      const double* const row = mean_.data() + head * n;
      const double spread = i / n % n == i % n ? 0.25 : 0.0;
      covariance_[static_cast<size_t>(i)] = row[i / n % n] * row[i % n] + spread;
    }
    for (int64_t pair = 0; pair < n / 2; ++pair) {
      angles_.push_back(
          std::pow(10000.0, -2.0 * static_cast<double>(pair) / static_cast<double>(n)));
    }
  }

  // Every row the same, or zero.
  void SetAll(float x) {
    std::ranges::fill(keys_, x);
    std::ranges::fill(values_, x);
    std::ranges::fill(attended_, std::fabs(x));
    std::ranges::fill(mean_, x);
    std::ranges::fill(covariance_, 0.0);
  }

  HeldTokens For(const Policy& policy, int layer = 1, int kv_head = 0) const {
    HeldTokens tokens{.layer = layer,
                      .kv_head = kv_head,
                      .n_kv_heads = 2,
                      .length = int64_t{positions_.back()} + 1,
                      .positions = positions_};
    if (Lists(policy.needs(), kNeedKeys)) {
      tokens.keys = {keys_.data(), {shape_.n_tokens, shape_.head_dim}};
    }
    if (Lists(policy.needs(), kNeedValues)) {
      tokens.values = {values_.data(), {shape_.n_tokens, shape_.value_dim}};
    }
    if (Lists(policy.needs(), kNeedAttended)) tokens.attended = attended_;
    if (Lists(policy.needs(), kNeedQueryStatistics)) {
      const int64_t n = shape_.head_dim;
      tokens.queries = {.n_queries = tokens.length,
                        .mean = {mean_.data(), {kQueryHeads, n}},
                        .covariance = {covariance_.data(), {kQueryHeads, n, n}},
                        .scale = 1.0 / std::sqrt(static_cast<double>(n))};
    }
    if (Lists(policy.needs(), kNeedRotation)) tokens.rotation.angles = angles_;
    return tokens;
  }

 private:
  const HeadShape shape_;
  std::vector<int32_t> positions_;
  std::vector<float> keys_;         // [n_tokens, head_dim]
  std::vector<float> values_;       // [n_tokens, value_dim]
  std::vector<float> attended_;     // [n_tokens]
  std::vector<double> mean_;        // [kQueryHeads, head_dim]
  std::vector<double> covariance_;  // [kQueryHeads, head_dim, head_dim]
  std::vector<double> angles_;      // [head_dim / 2]
};

std::string Named(const HeldTokens& tokens) {
  return absl::StrCat(tokens.n_tokens(), " tokens, head_dim ", tokens.keys.extent[1],
                      ", value_dim ", tokens.values.extent[1]);
}

bool SameScores(const Scores& a, const Scores& b) {
  return std::ranges::equal(a, b, [](float x, float y) {
    return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y);
  });
}

// Makes a policy and asks it; notes the first thing that is wrong.
class PolicyRig {
 public:
  explicit PolicyRig(const PolicySubject& subject) : subject_(subject) {}

  std::unique_ptr<Policy> Make() {
    PluginContext context;
    context.executor = &executor_;
    context.isa = subject_.settings.isa;
    context.model = {.n_layers = 3, .n_heads = 4, .n_kv_heads = 2, .head_dim = 16};
    absl::StatusOr<std::unique_ptr<Policy>> made = subject_.make(context);
    if (!made.ok()) {
      Note(Text(made.status()));
      return nullptr;
    }
    if (*made == nullptr) Note("create returned OK and no object");
    return *std::move(made);
  }

  Scores Ask(const Policy& policy, const HeldTokens& tokens) {
    Fenced room;
    const std::span<float> lent = room.Lend(tokens.n_tokens());
    const absl::Status status = policy.Score(tokens, lent);
    if (!status.ok()) Note(absl::StrCat(Named(tokens), ": ", Text(status)));
    if (const std::string where = room.Trespass(); !where.empty()) {
      Note(absl::StrCat(Named(tokens), ": writes ", where, " the scores"));
    }
    if (const int64_t i = room.FindUnwritten(); i >= 0) {
      Note(absl::StrCat(Named(tokens), ": leaves the score of token ", i, " unwritten"));
    }
    const auto nan = std::ranges::find_if(lent, [](float x) { return std::isnan(x); });
    if (nan != lent.end()) {
      Note(absl::StrCat(Named(tokens), ": the score of token ", nan - lent.begin(), " is NaN"));
    }
    return {lent.begin(), lent.end()};
  }

  void Note(std::string_view wrong) {
    if (!noted()) outcome_ = Fail(wrong);
  }
  bool noted() const { return outcome_.result != Result::kOk; }
  const Outcome& outcome() const { return outcome_; }

 private:
  const PolicySubject& subject_;
  UnevenExecutor executor_{2};
  Outcome outcome_ = Ok();
};

Outcome CheckPolicyNeeds(const PolicySubject& subject) {
  PolicyRig rig(subject);
  const auto policy = rig.Make();
  if (rig.noted()) return rig.outcome();
  for (const std::string_view need : policy->needs()) {
    if (Lists(kPolicyNeeds, need)) continue;
    rig.Note(absl::StrCat("needs() lists '", std::string(need), "', which is no name of ng's"));
  }
  if (policy->attended_queries() < 0) {
    rig.Note(absl::StrCat("attended_queries() gave ", policy->attended_queries(),
                          ", must be at least 0"));
  }
  if (policy->first_query() < 0) {
    rig.Note(absl::StrCat("first_query() gave ", policy->first_query(), ", must be at least 0"));
  }
  return rig.outcome();
}

Outcome CheckPolicyScores(const PolicySubject& subject) {
  PolicyRig rig(subject);
  const auto policy = rig.Make();
  if (rig.noted()) return rig.outcome();
  uint32_t seed = subject.settings.seed;
  for (const HeadShape& shape : HeadShapes(subject.settings.quick)) {
    Head head(shape, ++seed);
    rig.Ask(*policy, head.For(*policy));
    for (const float x : {0.0F, -0.5F}) {
      head.SetAll(x);
      rig.Ask(*policy, head.For(*policy));
    }
  }
  return rig.outcome();
}

Outcome CheckPolicyAgain(const PolicySubject& subject) {
  PolicyRig rig(subject);
  const auto policy = rig.Make();
  const auto other = rig.Make();
  if (rig.noted()) return rig.outcome();
  uint32_t seed = subject.settings.seed;
  for (const HeadShape& shape : HeadShapes(subject.settings.quick)) {
    const Head head(shape, ++seed);
    const HeldTokens tokens = head.For(*policy);
    const Scores first = rig.Ask(*policy, tokens);
    rig.Ask(*policy, Head({33, 7, 3}, ++seed).For(*policy, 2, 1));
    if (!SameScores(first, rig.Ask(*policy, tokens))) {
      rig.Note(absl::StrCat(Named(tokens), ": gives other scores when it is asked again"));
    }
    if (!SameScores(first, rig.Ask(*other, tokens))) {
      rig.Note(absl::StrCat(Named(tokens), ": another policy of the same options gives others"));
    }
  }
  return rig.outcome();
}

Outcome CheckPolicyThreads(const PolicySubject& subject) {
  PolicyRig rig(subject);
  const auto policy = rig.Make();
  if (rig.noted()) return rig.outcome();
  constexpr int64_t kHeads = 12;
  std::vector<Head> heads;
  std::vector<Scores> wanted;
  for (int64_t i = 0; i < kHeads; ++i) {
    heads.emplace_back(HeadShape{150 + 31 * i, 24, 24},
                       subject.settings.seed + static_cast<uint32_t>(i));
    wanted.push_back(rig.Ask(
        *policy, heads.back().For(*policy, static_cast<int>(i / 2), static_cast<int>(i % 2))));
  }
  std::vector<Scores> found(kHeads);
  std::vector<absl::Status> scored(kHeads);
  UnevenExecutor executor(4);
  const absl::Status run = ParallelFor(executor, kHeads, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<size_t>(i);
      found[at].resize(wanted[at].size());
      scored[at] = policy->Score(
          heads[at].For(*policy, static_cast<int>(i / 2), static_cast<int>(i % 2)), found[at]);
    }
  });
  if (!run.ok()) rig.Note(Text(run));
  for (size_t i = 0; i < heads.size(); ++i) {
    if (!scored[i].ok()) rig.Note(Text(scored[i]));
    if (!SameScores(found[i], wanted[i])) {
      rig.Note("gives other scores when several heads are scored at once");
    }
  }
  return rig.outcome();
}

constexpr PolicyCheck kPolicyChecks[] = {
    {"needs", "needs only what there is a name for", CheckPolicyNeeds},
    {"scores", "gives every token a score, none is NaN, and writes nothing else",
     CheckPolicyScores},
    {"again", "the same tokens have the same scores, whatever was scored before", CheckPolicyAgain},
    {"threads", "several heads may be scored at once", CheckPolicyThreads},
};

}  // namespace

std::span<const PolicyCheck> PolicyChecks() { return kPolicyChecks; }

std::vector<std::string> CheckPolicy(const PolicySubject& subject) {
  return RunChecks(PolicyChecks(), subject);
}

}  // namespace ng::conform
