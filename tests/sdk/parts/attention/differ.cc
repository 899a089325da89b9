// Runs two other backends side by side, gives on what the first one computed, and reports at the
// end of the run how far the second one was from it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ng/attention_backend.h"
#include "ng/part_host.h"
#include "ng/plugin.h"

namespace {

using Backend = std::unique_ptr<ng::AttentionBackend>;
using Names = std::span<const std::string_view>;

constexpr ng::OptionSpec kOptions[] = {
    ng::TextOption("a", "flash", "the backend that is used"),
    ng::TextOption("b", "reference", "the backend that it is compared with")};

struct DifferPlan final : ng::AttentionPlan {
  using AttentionPlan::AttentionPlan;

  std::unique_ptr<ng::AttentionPlan> a;
  std::unique_ptr<ng::AttentionPlan> b;
  int64_t out_floats = 0;  // of the scratch, for what `b` puts out
};

bool Reads(Names layouts, std::string_view layout) {
  return std::ranges::any_of(layouts,
                             [&](auto own) { return own == layout || own == ng::kLayoutAny; });
}

class Differ final : public ng::AttentionBackend {
 public:
  Differ(Backend a, Backend b) : a_(std::move(a)), b_(std::move(b)) {
    for (const std::string_view layout : a_->layouts()) {
      if (Reads(b_->layouts(), layout)) layouts_.push_back(layout);
    }
    for (const std::string_view layout : b_->layouts()) {
      if (layouts_.empty() && Reads(a_->layouts(), layout)) layouts_.push_back(layout);
    }
    for (const std::string_view feature : a_->features()) {
      if (std::ranges::count(b_->features(), feature) != 0) features_.push_back(feature);
    }
  }

  Names layouts() const override { return layouts_; }
  Names features() const override { return features_; }

  absl::Status Supports(const ng::AttentionSpec& spec,
                        const ng::CacheFormat& format) const override {
    NG_RETURN_IF_ERROR(a_->Supports(spec, format));
    return b_->Supports(spec, format);
  }

  absl::StatusOr<std::unique_ptr<ng::AttentionPlan>> NewPlan(
      const ng::AttentionSpec& spec) override {
    auto plan = std::make_unique<DifferPlan>(spec);
    NG_ASSIGN_OR_RETURN(plan->a, a_->NewPlan(spec));
    NG_ASSIGN_OR_RETURN(plan->b, b_->NewPlan(spec));
    return plan;
  }

  absl::Status Plan(std::span<const ng::SequenceRows> rows, ng::AttentionPlan& own) override {
    auto& plan = static_cast<DifferPlan&>(own);
    NG_RETURN_IF_ERROR(a_->Plan(rows, *plan.a));
    NG_RETURN_IF_ERROR(b_->Plan(rows, *plan.b));
    int64_t n_rows = 0;
    for (const ng::SequenceRows& entry : rows) n_rows += entry.n_tokens;
    const int64_t n_out = n_rows * plan.spec.n_heads * plan.spec.v_head_dim;
    plan.out_floats = (n_out + 15) / 16 * 16;  // what lies behind is aligned
    plan.scratch_floats =
        plan.out_floats + std::max(plan.a->scratch_floats, plan.b->scratch_floats);
    plan.bytes = plan.a->bytes + plan.b->bytes;
    return absl::OkStatus();
  }

  absl::Status Run(const ng::AttentionPlan& own, const ng::AttentionRun& run) override {
    const auto& plan = static_cast<const DifferPlan&>(own);
    ng::AttentionRun used = run;
    used.scratch = run.scratch.subspan(static_cast<size_t>(plan.out_floats));
    NG_RETURN_IF_ERROR(a_->Run(*plan.a, used));
    ng::AttentionRun compared = used;
    compared.out = ng::TensorView<float, 3>(run.scratch.data(), run.out.extent);
    compared.captures = {};
    compared.attended = {};
    NG_RETURN_IF_ERROR(b_->Run(*plan.b, compared));
    for (int64_t row = 0; row < run.out.extent[0]; ++row) {
      for (int64_t head = 0; head < run.out.extent[1]; ++head) {
        const float* x = used.out.Row(row, head);
        const float* y = compared.out.Row(row, head);
        for (int64_t d = 0; d < run.out.extent[2]; ++d) {
          const float difference = std::fabs(x[d] - y[d]);
          if (!(difference <= worst_)) worst_ = difference, layer_ = run.layer;
        }
      }
    }
    return absl::OkStatus();
  }

  std::string Report() const override {
    char line[80];
    std::snprintf(line, sizeof(line), "largest difference %.3g, in layer %d", double{worst_},
                  layer_);
    return layer_ < 0 ? "" : line;
  }

 private:
  const Backend a_;
  const Backend b_;
  std::vector<std::string_view> layouts_;
  std::vector<std::string_view> features_;
  float worst_ = -1.0F;
  int layer_ = -1;
};

absl::StatusOr<Backend> Create(const ng::PluginContext& context) {
  NG_ASSIGN_OR_RETURN(Backend a, context.host->CreateAttention(context.options.Text("a"), {}));
  NG_ASSIGN_OR_RETURN(Backend b, context.host->CreateAttention(context.options.Text("b"), {}));
  return std::make_unique<Differ>(std::move(a), std::move(b));
}

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::AttentionPlugin<Create>("differ", "1.0.0", "compares two backends as they run", kOptions);
