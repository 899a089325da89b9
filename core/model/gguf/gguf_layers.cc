#include "core/model/gguf/gguf_layers.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/model/gguf/gguf_rows.h"
#include "core/model/spec/limits.h"

namespace ng {
namespace {

constexpr char kFfnWidths[] = "feed_forward_length";
constexpr char kKvHeadCounts[] = "attention.head_count_kv";
constexpr char kSharedLayers[] = "attention.shared_kv_layers";

class LayersMaker {
 public:
  LayersMaker(const GgufSource& source, const GgufLayerCounts& n_layers, nlohmann::json* fields)
      : source_(source), n_layers_(n_layers), keys_(source.metadata.fields()), fields_(*fields) {}

  absl::Status Make() {
    NG_RETURN_IF_ERROR(ReadWindows());
    NG_RETURN_IF_ERROR(MakeHeads());
    NG_RETURN_IF_ERROR(MakeSharing());
    NG_RETURN_IF_ERROR(MakeWidths());
    NG_RETURN_IF_ERROR(MakeRopes());
    NG_ASSIGN_OR_RETURN(fields_["hidden_size_per_layer_input"],
                        Int("embedding_length_per_layer_input", {0, kSize.max}));
    fields_["vocab_size_per_layer_input"] = fields_["vocab_size"];
    // As the format has it, 0 is no cap; the reader of the field takes null for that.
    constexpr const char* kCap = "final_logit_softcapping";
    NG_ASSIGN_OR_RETURN(const auto cap, keys_.OptionalNumber(source_.Key(kCap), {0.0, 1e9}));
    if (cap == 0.0) fields_[kCap] = nullptr;
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<int64_t> Int(std::string_view name, Range<int64_t> range) const {
    return keys_.Int(source_.Key(name), range);
  }
  size_t n_used() const { return static_cast<size_t>(n_layers_.used); }

  absl::Status ReadWindows() {
    NG_ASSIGN_OR_RETURN(full_, source_.metadata.Switches(source_.Key(kGgufPattern)));
    if (std::ssize(full_) != n_layers_.stored) {
      return source_.Refuse(kGgufPattern,
                            absl::StrCat(" lists ", full_.size(), " layers, ",
                                         source_.Key("block_count"), " is ", n_layers_.stored));
    }
    full_.resize(n_used());
    full_.flip();
    for (const bool full : full_) {
      fields_["layer_types"].push_back(full ? "full_attention" : "sliding_attention");
    }
    return Int(kGgufWindow, kPositions).status();
  }

  // A head of k and of v have the same width.
  absl::StatusOr<int64_t> HeadDim(const std::string& ending) {
    NG_ASSIGN_OR_RETURN(const int64_t head_dim, Int("attention.key_length" + ending, kCount));
    NG_RETURN_IF_ERROR(Int("attention.value_length" + ending, {head_dim, head_dim}).status());
    return head_dim;
  }

  absl::Status MakeHeads() {
    NG_ASSIGN_OR_RETURN(full_head_dim_, HeadDim(""));
    NG_ASSIGN_OR_RETURN(window_head_dim_, HeadDim("_swa"));
    NG_ASSIGN_OR_RETURN(const std::vector<int64_t> n_kv_heads,
                        source_.OfLayers(kKvHeadCounts, n_layers_));
    fields_["attention.key_length"] = window_head_dim_;
    fields_[kKvHeadCounts] = n_kv_heads.front();
    nlohmann::json& each = fields_["per_layer_config"];
    bool k_is_v = false;
    for (size_t i = 0; i < n_used(); ++i) {
      if (n_kv_heads[i] == 0) {
        return source_.Refuse(kKvHeadCounts,
                              absl::StrCat(" is 0 in layer ", i, ", must be above 0"));
      }
      each[absl::StrCat(i)] = {{"head_dim", full_[i] ? full_head_dim_ : window_head_dim_},
                               {"num_key_value_heads", n_kv_heads[i]}};
      k_is_v = k_is_v || (full_[i] && Has(i, "attn_k") && !Has(i, "attn_v"));
    }
    fields_["attention_k_eq_v"] = k_is_v;
    return absl::OkStatus();
  }

  bool Has(size_t layer, std::string_view name) const {
    return source_.tensors.Find(absl::StrCat("blk.", layer, ".", std::string(name), ".weight")) !=
           nullptr;
  }

  absl::Status MakeSharing() {
    NG_ASSIGN_OR_RETURN(const auto n_shared,
                        keys_.OptionalInt(source_.Key(kSharedLayers), {0, n_layers_.used - 1}));
    n_shared_ = n_shared.value_or(0);
    fields_["num_kv_shared_layers"] = n_shared_;
    return absl::OkStatus();
  }

  // The same in all layers, or twice that in those that read another's keys.
  absl::Status MakeWidths() {
    NG_ASSIGN_OR_RETURN(const std::vector<int64_t> widths, source_.OfLayers(kFfnWidths, n_layers_));
    const int64_t width = widths.front();
    fields_[kFfnWidths] = width;
    const bool doubled = widths.back() != width;
    for (size_t i = 0; i < n_used(); ++i) {
      const bool shares = static_cast<int64_t>(i) >= n_layers_.used - n_shared_;
      const int64_t wanted = doubled && shares ? 2 * width : width;
      if (widths[i] == wanted) continue;
      return source_.Refuse(
          kFfnWidths, absl::StrCat(" lists ", widths[i], " for layer ", i, ", must list ", wanted));
    }
    fields_["use_double_wide_mlp"] = doubled;
    return absl::OkStatus();
  }

  // What stands still in a head of a layer that sees all keys, a tensor of factors says.
  absl::Status MakeRopes() {
    NG_RETURN_IF_ERROR(RequirePlainRope());
    NG_RETURN_IF_ERROR(MakeRope("full_attention", "", full_head_dim_));
    return MakeRope("sliding_attention", "_swa", window_head_dim_);
  }

  // Keys of scaling are of all layers; where no factor says something, none of them does.
  absl::Status RequirePlainRope() const {
    for (const char* name : {"rope.scaling.factor", "rope.scale_linear"}) {
      NG_ASSIGN_OR_RETURN(const auto factor, keys_.OptionalNumber(source_.Key(name), {0.0, 1e6}));
      if (factor.value_or(1.0) == 1.0 || *factor == 0.0) continue;
      return source_.Refuse(name, absl::StrCat(" = ", *factor, ", can run only with 1"));
    }
    NG_RETURN_IF_ERROR(
        keys_.OptionalNumber(source_.Key("rope.scaling.attn_factor"), {1.0, 1.0}).status());
    constexpr const char* kType = "rope.scaling.type";
    NG_ASSIGN_OR_RETURN(const auto type, keys_.OptionalText(source_.Key(kType)));
    constexpr std::string_view kTypes[] = {"none", "linear", "yarn", "longrope"};
    if (!type || std::ranges::count(kTypes, *type) > 0) return absl::OkStatus();
    return source_.Refuse(kType, absl::StrCat(" = ", JsonExcerpt(*type),
                                              ", must be one of: none, linear, yarn, longrope"));
  }

  // All dimensions of a head turn.
  absl::Status MakeRope(const char* type, const std::string& ending, int64_t head_dim) {
    const std::string n_dims = source_.Key("rope.dimension_count" + ending);
    NG_RETURN_IF_ERROR(keys_.OptionalInt(n_dims, {head_dim, head_dim}).status());
    constexpr double kAbsentTheta = 1e4;
    NG_ASSIGN_OR_RETURN(const auto theta,
                        keys_.OptionalNumber(source_.Key("rope.freq_base" + ending), kTheta));
    fields_["rope_parameters"][type] = {{"rope_type", "default"},
                                        {"rope_theta", theta.value_or(kAbsentTheta)}};
    return absl::OkStatus();
  }

  const GgufSource& source_;
  const GgufLayerCounts& n_layers_;
  JsonFields keys_;
  nlohmann::json& fields_;
  std::vector<bool> full_;  // [n_used]: the layer sees all keys
  int64_t full_head_dim_ = 0;
  int64_t window_head_dim_ = 0;
  int64_t n_shared_ = 0;  // of the last layers, that read the keys of layers before them
};

}  // namespace

absl::Status AddGgufLayers(const GgufSource& source, const GgufLayerCounts& n_layers,
                           nlohmann::json* fields) {
  return LayersMaker(source, n_layers, fields).Make();
}

}  // namespace ng
