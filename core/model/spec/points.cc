#include "core/model/spec/points.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "ng/names.h"

namespace ng {
namespace {

constexpr std::array<std::string_view, kPoints> kPointNames = {
    "embed",  "attn_in", "q",       "k",       "v",   "attn_head", "attn_out", "attn_resid",
    "mlp_in", "router",  "mlp_act", "mlp_out", "out", "norm",      "logits"};
static_assert(kPointNames.back() == "logits");

// `*` in the pattern stands for any text.
bool Matches(std::string_view pattern, std::string_view name) {
  while (!pattern.empty() && pattern.front() != '*') {
    if (name.empty() || name.front() != pattern.front()) return false;
    pattern.remove_prefix(1);
    name.remove_prefix(1);
  }
  if (pattern.empty()) return name.empty();
  // As much of the name as the next star leaves for what is behind it; names are short.
  for (size_t skipped = 0; skipped <= name.size(); ++skipped) {
    if (Matches(pattern.substr(1), name.substr(skipped))) return true;
  }
  return false;
}

// Adds the points of a model in their order.
class Lister {
 public:
  explicit Lister(const ModelSpec& spec) : spec_(spec) {}

  std::vector<PointShape> List() {
    Add(Point::kEmbed, spec_.width);
    for (layer_ = 0; layer_ < spec_.shape.n_layers; ++layer_) {
      for (const BlockSpec& block : spec_.layers[static_cast<size_t>(layer_)]) AddBlock(block);
      Add(Point::kOut, spec_.width);
    }
    layer_ = -1;
    Add(Point::kNorm, spec_.width);
    Add(Point::kLogits, spec_.shape.vocab_size);
    return std::move(points_);
  }

 private:
  void Add(Point point, int64_t width, int64_t n_heads = 0) {
    points_.push_back({{point, layer_}, n_heads, width});
  }
  void AddBlock(const BlockSpec& block) {
    if (block.operation == Operation::kLayerInput) return;
    Add(block.mixes() ? Point::kAttnIn : Point::kMlpIn, spec_.width);
    AddInner(block);
    Add(block.mixes() ? Point::kAttnOut : Point::kMlpOut, spec_.width);
    if (block.mixes()) Add(Point::kAttnResid, spec_.width);
  }
  void AddInner(const BlockSpec& block) {
    switch (block.operation) {
      case Operation::kAttention: {
        const SelfAttentionSpec& attention = spec_.AttentionOf(block);
        Add(Point::kQ, attention.key_dim(), attention.n_heads);
        if (attention.has_keys()) {
          Add(Point::kK, attention.key_dim(), attention.kv_heads());
          Add(Point::kV, attention.attended_dim(), attention.kv_heads());
        }
        return Add(Point::kAttnHead, attention.value_dim(), attention.n_heads);
      }
      case Operation::kState: {
        const StateSpec& state = spec_.StateOf(block);
        const int64_t n_heads = std::max(1, state.n_heads);
        return Add(Point::kAttnHead, state.out_width() / n_heads, n_heads);
      }
      case Operation::kMixture:
        return Add(Point::kRouter, spec_.MixtureOf(block).router.n_experts);
      case Operation::kFeedForward:
        return Add(Point::kMlpAct, spec_.FeedForwardOf(block).width);
      case Operation::kLayerInput:
        return;
    }
  }

  const ModelSpec& spec_;
  int layer_ = -1;
  std::vector<PointShape> points_;
};

}  // namespace

std::vector<PointShape> PointsOf(const ModelSpec& spec) { return Lister(spec).List(); }

absl::StatusOr<std::vector<PointShape>> ChoosePoints(std::span<const PointShape> points,
                                                     std::string_view pattern) {
  std::vector<PointShape> chosen;
  std::vector<std::string> names;
  for (const PointShape& point : points) {
    names.push_back(PointText(point.at));
    if (Matches(pattern, names.back())) chosen.push_back(point);
  }
  if (!chosen.empty()) return chosen;
  const std::optional<std::string> nearest = NearestName(pattern, names);
  return UsageError(absl::StrCat("'", View(pattern), "' is no point of this model",
                                 nearest ? absl::StrCat("; the nearest is ", *nearest) : "",
                                 "; points are embed, layer<L>.out and the like, norm, logits, and "
                                 "* stands for any text"));
}

std::string_view PointName(Point point) { return kPointNames[static_cast<size_t>(point)]; }

bool NeedLogits(std::span<const PointAt> points) {
  return std::ranges::any_of(points, NeedsLogits, &PointAt::point);
}

std::string PointText(const PointAt& at) {
  const std::string name(PointName(at.point));
  return at.layer < 0 ? name : absl::StrCat("layer", at.layer, ".", name);
}

}  // namespace ng
