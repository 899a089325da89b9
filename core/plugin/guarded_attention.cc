#include "core/plugin/guarded_attention.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/plugin/fenced_floats.h"

namespace ng {
namespace {

using Names = std::vector<std::string_view>;

// More than any machine has: a size that was computed wrongly.
constexpr int64_t kAbsurdFloats = int64_t{1} << 44;

// What rounding adds to a share at most.
constexpr float kSumError = 1e-3F;

std::string Joined(std::span<const std::string_view> names) {
  const auto append = [](std::string* out, std::string_view name) { out->append(name); };
  return names.empty() ? "none" : absl::StrJoin(names, ", ", append);
}

// What spec and format set beyond plain causal attention over whole sequences.
Names NeedsOf(const AttentionSpec& spec, const CacheFormat& format) {
  const std::pair<std::string_view, bool> needs[] = {
      {kFeatureWindow, spec.window != 0},
      {kFeatureSoftCap, spec.soft_cap != 0.0F},
      {kFeatureSinks, !spec.sinks.empty()},
      {kFeatureAlibi, !spec.alibi_slopes.empty()},
      {kFeatureQueryTemperature, spec.query_temperature.coefficient != 0.0},
      {kFeatureChunkedWindow, spec.chunks},
      {kFeatureVHeadDim, spec.v_head_dim != spec.head_dim},
      {kFeatureVInK, spec.v_in_k},
      {kFeatureHoles, format.holes},
      {kFeatureAttended, format.attended},
      {kFeatureSlots, format.slots},
      {kFeatureHeadSlots, format.head_slots}};
  Names set;
  for (const auto& [feature, is_set] : needs) {
    if (is_set) set.push_back(feature);
  }
  return set;
}

// The plan of the plugin's with what it reports; the only kind that a guarded backend takes.
class GuardedPlan final : public AttentionPlan {
 public:
  GuardedPlan(const AttentionSpec& asked, const AttentionBackend* owner,
              std::unique_ptr<AttentionPlan> plugins_own)
      : AttentionPlan(asked), owner(owner), inner(std::move(plugins_own)) {}

  const AttentionBackend* const owner;
  const std::unique_ptr<AttentionPlan> inner;
  // With checks, what the backend writes to; no part of the plan.
  mutable FencedFloats scratch;
  mutable FencedFloats out;
};

class GuardedAttention final : public AttentionBackend {
 public:
  GuardedAttention(const LoadedPlugin& plugin, std::unique_ptr<AttentionBackend> backend,
                   bool check)
      : plugin_(plugin), backend_(std::move(backend)), check_(check) {}

  // Asks what is asked for once only.
  absl::Status Init() {
    NG_RETURN_IF_ERROR(Call([&] {
      const std::span<const std::string_view> layouts = backend_->layouts();
      layouts_.assign(layouts.begin(), layouts.end());
      const std::span<const std::string_view> features = backend_->features();
      features_.assign(features.begin(), features.end());
      most_keys_ = backend_->most_keys();
      return absl::OkStatus();
    }));
    if (layouts_.empty()) return Fault("layouts() lists no cache layout, must list one at least");
    if (most_keys_ < 0) {
      return Fault(absl::StrCat("most_keys() is ", most_keys_, ", must be 0 or more"));
    }
    for (const std::string_view feature : features_) {
      if (std::ranges::count(kAttentionFeatures, feature) != 0) continue;
      return Fault(absl::StrCat("features() lists '", std::string(feature),
                                "', there are: ", Joined(kAttentionFeatures)));
    }
    return absl::OkStatus();
  }

  std::span<const std::string_view> layouts() const override { return layouts_; }
  std::span<const std::string_view> features() const override { return features_; }
  int64_t most_keys() const override { return most_keys_; }

  absl::Status Supports(const AttentionSpec& spec, const CacheFormat& format) const override {
    for (const std::string_view need : NeedsOf(spec, format)) {
      if (std::ranges::count(features_, need) != 0) continue;
      return Fault(absl::StrCat("layer ", spec.layer, " needs '", std::string(need),
                                "', the features that it lists: ", Joined(features_)));
    }
    return Call([&] { return backend_->Supports(spec, format); });
  }

  absl::StatusOr<std::unique_ptr<AttentionPlan>> NewPlan(const AttentionSpec& spec) override {
    std::unique_ptr<AttentionPlan> plan;
    NG_RETURN_IF_ERROR(Call([&]() -> absl::Status {
      NG_ASSIGN_OR_RETURN(plan, backend_->NewPlan(spec));
      return absl::OkStatus();
    }));
    if (plan == nullptr) return Fault("NewPlan returned OK and no plan");
    return std::make_unique<GuardedPlan>(spec, this, std::move(plan));
  }

  absl::Status Plan(std::span<const SequenceRows> rows, AttentionPlan& plan) override {
    if (!IsOwn(plan)) return Foreign("Plan");
    auto& own = static_cast<GuardedPlan&>(plan);
    NG_RETURN_IF_ERROR(Call([&] { return backend_->Plan(rows, *own.inner); }));
    NG_RETURN_IF_ERROR(CheckSize("scratch_floats", own.inner->scratch_floats));
    NG_RETURN_IF_ERROR(CheckSize("bytes", own.inner->bytes));
    own.scratch_floats = own.inner->scratch_floats;
    own.bytes = own.inner->bytes;
    return absl::OkStatus();
  }

  absl::Status Run(const AttentionPlan& plan, const AttentionRun& run) override {
    if (!IsOwn(plan)) return Foreign("Run");
    const auto& own = static_cast<const GuardedPlan&>(plan);
    if (std::ssize(run.scratch) < own.scratch_floats) {
      return Fault(run.layer,
                   absl::StrCat("Run was given ", run.scratch.size(),
                                " floats of scratch, the plan says ", own.scratch_floats));
    }
    if (check_) return CheckedRun(own, run);
    return Call([&] { return backend_->Run(*own.inner, run); });
  }

  std::string Report() const override { return GuardReport(*backend_); }

 private:
  template <typename Body>
  absl::Status Call(Body&& body) const {
    return GuardPlugin(plugin_, body);
  }
  absl::Status Fault(std::string_view what) const {
    return PluginFailed(plugin_, PluginError(what));
  }
  absl::Status Fault(int layer, std::string_view what) const {
    return Fault(absl::StrCat("layer ", layer, ": ", std::string(what)));
  }

  bool IsOwn(const AttentionPlan& plan) const {
    return typeid(plan) == typeid(GuardedPlan) &&
           static_cast<const GuardedPlan&>(plan).owner == this;
  }
  absl::Status Foreign(const char* call) const {
    return Fault(absl::StrCat(call, " was given a plan that NewPlan of this backend did not make"));
  }

  absl::Status CheckSize(const char* name, int64_t size) const {
    if (size >= 0 && size <= kAbsurdFloats) return absl::OkStatus();
    return Fault(
        absl::StrCat("Plan set ", name, " = ", size, ", must be in [0, ", kAbsurdFloats, "]"));
  }

  absl::Status CheckedRun(const GuardedPlan& plan, const AttentionRun& run) const {
    AttentionRun lent = run;
    lent.scratch = plan.scratch.Lend(plan.scratch_floats);
    const int64_t n_out = run.out.extent[0] * run.out.extent[1] * run.out.extent[2];
    lent.out = {plan.out.Lend(n_out).data(), run.out.extent};
    for (const ProbabilityRow& row : run.captures) FillUnwritten({row.out, SizeOf(row)});
    for (const TensorView<float, 3>& mass : run.attended) FillUnwritten(AllOf(mass));
    FillUnwritten(MissedOf(run));
    NG_RETURN_IF_ERROR(Call([&] { return backend_->Run(*plan.inner, lent); }));
    if (const std::string where = plan.scratch.Trespass(); !where.empty()) {
      return Fault(run.layer, absl::StrCat("Run wrote ", where, " the ", plan.scratch_floats,
                                           " floats of its scratch"));
    }
    if (const std::string where = plan.out.Trespass(); !where.empty()) {
      return Fault(run.layer,
                   absl::StrCat("Run wrote ", where, " the ", n_out, " floats of `out`"));
    }
    NG_RETURN_IF_ERROR(CopyOut(run, lent.out));
    NG_RETURN_IF_ERROR(CheckMass(run));
    NG_RETURN_IF_ERROR(CheckMissed(run));
    return CheckCaptures(run);
  }

  // What the backend wrote, to where the caller wants it.
  absl::Status CopyOut(const AttentionRun& run, const TensorView<float, 3>& written) const {
    const auto dim = static_cast<size_t>(run.out.extent[2]);
    for (int64_t row = 0; row < run.out.extent[0]; ++row) {
      for (int64_t head = 0; head < run.out.extent[1]; ++head) {
        const std::span<const float> from(written.Row(row, head), dim);
        if (const int64_t d = FindUnwritten(from); d >= 0) {
          return Fault(run.layer, absl::StrCat("Run left out[", row, ", ", head, ", ", d,
                                               "] unwritten (or computed it from such a float)"));
        }
        std::ranges::copy(from, run.out.Row(row, head));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckMass(const AttentionRun& run) const {
    for (size_t i = 0; i < run.attended.size(); ++i) {
      const int64_t at = FindUnwritten(AllOf(run.attended[i]));
      if (at < 0) continue;
      return Fault(run.layer, absl::StrCat("Run left element ", at, " of `attended` of entry ", i,
                                           " unwritten"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckMissed(const AttentionRun& run) const {
    const std::span<const float> missed = MissedOf(run);
    if (const int64_t at = FindUnwritten(missed); at >= 0) {
      return Fault(run.layer, absl::StrCat("Run left element ", at, " of `missed` unwritten"));
    }
    for (size_t i = 0; i < missed.size(); ++i) {
      // NaN of its inputs may be.
      if (!(missed[i] < 0.0F || missed[i] > 1.0F + kSumError)) continue;
      return Fault(run.layer, absl::StrCat("Run made element ", i, " of `missed` ", missed[i],
                                           ", must be in [0, 1]"));
    }
    return absl::OkStatus();
  }
  static std::span<float> MissedOf(const AttentionRun& run) {
    if (run.missed.data == nullptr) return {};
    return {run.missed.data, static_cast<size_t>(run.missed.extent[0] * run.missed.extent[1])};
  }

  // Without gaps, as the engine lends it.
  static std::span<float> AllOf(const TensorView<float, 3>& mass) {
    return {mass.data, static_cast<size_t>(mass.extent[0] * mass.extent[1] * mass.extent[2])};
  }

  absl::Status CheckCaptures(const AttentionRun& run) const {
    for (const ProbabilityRow& row : run.captures) {
      const int64_t key = FindUnwritten({row.out, SizeOf(row)});
      if (key < 0) continue;
      return Fault(run.layer,
                   absl::StrCat("Run left the captured row of sequence ", row.sequence,
                                ", position ", row.pos, ", head ", row.head, " unwritten from key ",
                                key, " on; each row asked for must be",
                                " filled, those asked for twice as well"));
    }
    return absl::OkStatus();
  }
  static size_t SizeOf(const ProbabilityRow& row) { return static_cast<size_t>(row.pos + 1); }

  const LoadedPlugin plugin_;
  const std::unique_ptr<AttentionBackend> backend_;
  const bool check_;
  Names layouts_;
  Names features_;
  int64_t most_keys_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<AttentionBackend>> GuardAttention(
    const LoadedPlugin& plugin, std::unique_ptr<AttentionBackend> backend, bool check) {
  auto guarded = std::make_unique<GuardedAttention>(plugin, std::move(backend), check);
  NG_RETURN_IF_ERROR(guarded->Init());
  return guarded;
}

}  // namespace ng
