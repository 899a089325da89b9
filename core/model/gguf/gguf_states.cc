#include "core/model/gguf/gguf_states.h"

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/model/spec/limits.h"

namespace ng {
namespace {

constexpr char kKvHeads[] = "attention.head_count_kv";
constexpr char kFfnWidth[] = "feed_forward_length";

class StatesMaker {
 public:
  StatesMaker(const GgufSource& source, const GgufStates& states, const GgufLayerCounts& n_layers,
              nlohmann::json* fields)
      : source_(source),
        states_(states),
        n_layers_(n_layers),
        keys_(source.metadata.fields()),
        fields_(*fields) {}

  absl::Status Make() {
    NG_RETURN_IF_ERROR(states_.layers == GgufStateLayers::kListed ? MakeListed() : MakeByCounts());
    for (const GgufStateSize& size : states_.sizes) {
      NG_ASSIGN_OR_RETURN(fields_[size.field], keys_.Int(source_.Key(size.key), kCount));
    }
    if (!std::string_view(states_.value_dim).empty()) NG_RETURN_IF_ERROR(MakeInner());
    if (!std::string_view(states_.conv_bias).empty()) {
      bool has_bias = false;
      for (int64_t layer = 0; layer < n_layers_.used; ++layer) {
        const std::string name = absl::StrCat("blk.", layer, ".ssm_conv1d.bias");
        has_bias = has_bias || source_.tensors.Find(name) != nullptr;
      }
      fields_[states_.conv_bias] = has_bias;
    }
    if (!std::string_view(states_.least_step).empty()) fields_[states_.least_step] = 0.0;
    return absl::OkStatus();
  }

 private:
  void AddLayer(const char* type) { fields_["layer_types"].push_back(type); }

  absl::Status MakeListed() {
    constexpr const char* kList = "attention.recurrent_layers";
    NG_ASSIGN_OR_RETURN(const auto interval,
                        keys_.OptionalInt(source_.Key("full_attention_interval"), kCount));
    std::vector<bool> listed;
    if (keys_.Has(source_.Key(kList))) {
      NG_ASSIGN_OR_RETURN(listed, source_.metadata.Switches(source_.Key(kList)));
      if (std::ssize(listed) != n_layers_.stored) {
        return source_.Refuse(
            kList, absl::StrCat(" lists ", listed.size(), " layers, ", source_.Key("block_count"),
                                " is ", n_layers_.stored));
      }
    }
    for (int64_t i = 0; i < n_layers_.used; ++i) {
      const bool recurs =
          listed.empty() ? (i + 1) % interval.value_or(4) != 0 : listed[static_cast<size_t>(i)];
      AddLayer(recurs ? states_.layer_type : "full_attention");
    }
    return absl::OkStatus();
  }

  // The value of the layers that have one as the field of that name.
  absl::Status AddShared(const char* name, const std::vector<int64_t>& values) {
    int64_t shared = 0;
    for (const int64_t value : values) {
      if (value == 0) continue;
      if (shared != 0 && value != shared) {
        return source_.Refuse(name, absl::StrCat(" lists ", shared, " and ", value,
                                                 ", can run only with one value beside 0"));
      }
      shared = value;
    }
    if (shared != 0) fields_[name] = shared;
    return absl::OkStatus();
  }

  absl::Status MakeByCounts() {
    NG_ASSIGN_OR_RETURN(const std::vector<int64_t> kv_heads, source_.OfLayers(kKvHeads, n_layers_));
    NG_RETURN_IF_ERROR(AddShared(kKvHeads, kv_heads));
    std::vector<int64_t> widths(kv_heads.size(), 0);
    if (states_.layers == GgufStateLayers::kOneBlock) {
      NG_ASSIGN_OR_RETURN(widths, source_.OfLayers(kFfnWidth, n_layers_));
      NG_RETURN_IF_ERROR(AddShared(kFfnWidth, widths));
    }
    for (size_t i = 0; i < kv_heads.size(); ++i) {
      if (kv_heads[i] > 0 && widths[i] > 0) {
        return source_.Refuse(kFfnWidth,
                              absl::StrCat(" has a feed-forward in layer ", i,
                                           ", which has attention: only one of them can be"));
      }
      const std::string router = absl::StrCat("blk.", i, ".ffn_gate_inp.weight");
      const bool mixes = source_.tensors.Find(router) != nullptr;
      if (widths[i] > 0) {
        AddLayer(mixes ? "moe" : "mlp");
      } else {
        AddLayer(kv_heads[i] == 0 ? states_.layer_type : "full_attention");
      }
    }
    return absl::OkStatus();
  }

  absl::Status MakeInner() {
    constexpr const char* kInner = "ssm.inner_size";
    NG_ASSIGN_OR_RETURN(const int64_t inner, keys_.Int(source_.Key(kInner), kSize));
    NG_ASSIGN_OR_RETURN(const int64_t n_heads,
                        keys_.Int(source_.Key("ssm.time_step_rank"), kCount));
    NG_ASSIGN_OR_RETURN(const int64_t width, keys_.Int(source_.Key("embedding_length"), kSize));
    const bool expands = !std::string_view(states_.expansion).empty();
    if (inner % n_heads != 0) {
      return source_.Refuse(kInner,
                            absl::StrCat(" = ", inner, ", must be a multiple of ",
                                         source_.Key("ssm.time_step_rank"), " = ", n_heads));
    }
    if (expands && inner % width != 0) {
      return source_.Refuse(kInner, absl::StrCat(" = ", inner, ", must be a multiple of ",
                                                 source_.Key("embedding_length"), " = ", width));
    }
    fields_[states_.value_dim] = inner / n_heads;
    if (expands) fields_[states_.expansion] = inner / width;
    return absl::OkStatus();
  }

  const GgufSource& source_;
  const GgufStates& states_;
  const GgufLayerCounts& n_layers_;
  JsonFields keys_;
  nlohmann::json& fields_;
};

}  // namespace

absl::Status AddGgufStates(const GgufSource& source, const GgufStates& states,
                           const GgufLayerCounts& n_layers, nlohmann::json* fields) {
  return StatesMaker(source, states, n_layers, fields).Make();
}

}  // namespace ng
