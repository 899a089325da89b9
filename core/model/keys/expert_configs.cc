#include "core/model/keys/expert_configs.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "core/model/spec/limits.h"

namespace ng {
namespace {

constexpr Range<int64_t> kFromZero = {0, 1 << 16};

bool IsKey(const char* name) { return !std::string_view(name).empty(); }

// One that must be there where nothing says what an absent one means.
absl::StatusOr<int64_t> ReadCount(const JsonFields& config, const SizeKey& key, int64_t absent) {
  if (absent > 0) return key.Read(config, kCount, absent);
  return config.Int(config.Has(key.other_name) ? key.other_name : key.key, kCount);
}

// The experts of a row, one number for all layers or one for each.
absl::StatusOr<std::vector<int64_t>> ReadUsed(const JsonFields& config, const std::string& path,
                                              const ExpertsRow& row, int n_layers) {
  const char* const key =
      config.Has(row.n_used.other_name) ? row.n_used.other_name : row.n_used.key;
  const nlohmann::json* const value = config.Find(key);
  if (value == nullptr || !value->is_array()) {
    NG_ASSIGN_OR_RETURN(const int64_t n_used, ReadCount(config, row.n_used, row.n_used_absent));
    return std::vector<int64_t>(static_cast<size_t>(n_layers), n_used);
  }
  NG_ASSIGN_OR_RETURN(const auto listed, config.OptionalInts(key, kCount));
  if (std::ssize(*listed) == n_layers) return *listed;
  return ModelFileError(absl::StrCat(path, ": key \"", key, "\" lists ", listed->size(),
                                     " layers, num_hidden_layers is ", n_layers));
}

absl::Status ReadGroups(const JsonFields& config, const std::string& path, const ExpertsRow& row,
                        RouterSpec* router) {
  NG_ASSIGN_OR_RETURN(const int64_t n_groups, IntOr(config, row.n_groups, kCount, 1));
  NG_ASSIGN_OR_RETURN(const int64_t n_used, IntOr(config, row.n_groups_used, {1, n_groups}, 1));
  if (router->n_experts % n_groups != 0 || (n_groups > 1 && router->n_experts < 2 * n_groups)) {
    return ModelFileError(absl::StrCat(path, ": key \"", row.n_groups, "\" = ", n_groups,
                                       ", must be groups of at least 2 of ", router->n_experts,
                                       " experts, all of one size"));
  }
  router->n_groups = static_cast<int>(n_groups);
  router->n_groups_used = static_cast<int>(n_used);
  return absl::OkStatus();
}

// DeepSeek V2's: whether experts are chosen in groups, which go by their best one then.
absl::StatusOr<bool> ReadGroupMethod(const JsonFields& config, const std::string& path) {
  constexpr const char* kKey = "topk_method";
  constexpr std::string_view kGroups = "group_limited_greedy";
  NG_ASSIGN_OR_RETURN(const auto method, config.OptionalText(kKey));
  if (!config.IsNull(kKey) && (!method || *method == "greedy" || *method == kGroups)) {
    return method && *method == kGroups;
  }
  return ModelFileError(absl::StrCat(path, ": key \"", kKey,
                                     "\" = ", method ? JsonExcerpt(*method) : "null",
                                     ", must be \"greedy\" or \"group_limited_greedy\""));
}

absl::StatusOr<RouterSpec> ReadRouter(const JsonFields& config, const std::string& path,
                                      const ExpertsRow& row) {
  RouterSpec router = {.sigmoid = row.sigmoid,
                       .bias = row.router_bias,
                       .selection_bias = row.selection_bias,
                       .normalised = row.normalised,
                       .least_sum = static_cast<float>(row.least_sum),
                       .added_to_sum = static_cast<float>(row.added_to_sum),
                       .scale = static_cast<float>(row.scale_absent),
                       .weighs_input = row.weighs_input};
  NG_ASSIGN_OR_RETURN(const int64_t n_experts,
                      ReadCount(config, row.n_experts, row.n_experts_absent));
  router.n_experts = static_cast<int>(n_experts);
  bool groups = row.groups;
  if (row.group_method) {
    NG_ASSIGN_OR_RETURN(groups, ReadGroupMethod(config, path));
    router.n_best = groups ? 1 : 2;
  }
  if (groups) NG_RETURN_IF_ERROR(ReadGroups(config, path, row, &router));
  if (IsKey(row.gating_key)) {
    NG_ASSIGN_OR_RETURN(const int64_t gating,
                        IntOr(config, row.gating_key, {1, 2}, row.sigmoid ? 2 : 1));
    router.sigmoid = gating == 2;
  }
  if (IsKey(row.norm_key)) {
    NG_ASSIGN_OR_RETURN(router.normalised, BoolOr(config, row.norm_key, row.normalised));
  }
  if (IsKey(row.selection_bias_key)) {
    NG_ASSIGN_OR_RETURN(router.selection_bias,
                        BoolOr(config, row.selection_bias_key, row.selection_bias));
  }
  if (IsKey(row.least_sum_key)) {
    NG_ASSIGN_OR_RETURN(const std::optional<double> least,
                        config.OptionalNumber(row.least_sum_key, {0.0, 1.0}));
    router.least_sum = static_cast<float>(least.value_or(row.least_sum));
  }
  if (IsKey(row.scale)) {
    NG_ASSIGN_OR_RETURN(const double scale, FactorOr(config, row.scale, row.scale_absent));
    router.scale = static_cast<float>(scale);
  }
  return router;
}

// The width of what all rows share; 0: nothing.
absl::StatusOr<int64_t> ReadSharedWidth(const JsonFields& config, const ExpertsRow& row,
                                        int64_t expert_width) {
  if (IsKey(row.n_shared)) {
    NG_ASSIGN_OR_RETURN(const int64_t n,
                        IntOr(config, row.n_shared, kFromZero, row.n_shared_absent));
    return n * expert_width;
  }
  return IntOr(config, row.shared_width, {0, kSize.max}, row.shared_width_absent);
}

absl::StatusOr<std::vector<bool>> ReadListed(const JsonFields& config, const std::string& path,
                                             int n_layers) {
  constexpr const char* kKey = "mlp_layer_types";
  NG_ASSIGN_OR_RETURN(const auto types, config.OptionalTexts(kKey));
  if (!types) return std::vector<bool>();
  if (std::ssize(*types) != n_layers) {
    return ModelFileError(absl::StrCat(path, ": key \"", kKey, "\" lists ", types->size(),
                                       " layers, num_hidden_layers is ", n_layers));
  }
  std::vector<bool> sparse;
  for (const std::string& type : *types) {
    sparse.push_back(type == "sparse");
    if (type == "sparse" || type == "dense") continue;
    return ModelFileError(absl::StrCat(path, ": key \"", kKey, "[", sparse.size() - 1, "]\" = ",
                                       JsonExcerpt(type), ", must be \"dense\" or \"sparse\""));
  }
  return sparse;
}

absl::StatusOr<std::vector<bool>> ReadStep(const JsonFields& config, int n_layers) {
  NG_ASSIGN_OR_RETURN(const int64_t step, IntOr(config, "decoder_sparse_step", kCount, 1));
  NG_ASSIGN_OR_RETURN(const auto dense, config.OptionalInts("mlp_only_layers", kFromZero));
  std::vector<bool> sparse;
  for (int64_t i = 0; i < n_layers; ++i) {
    const bool listed = dense && std::ranges::count(*dense, i) > 0;
    sparse.push_back(!listed && (i + 1) % step == 0);
  }
  return sparse;
}

absl::StatusOr<std::vector<bool>> ReadRange(const JsonFields& config, int n_layers) {
  NG_ASSIGN_OR_RETURN(const int64_t step, IntOr(config, "moe_layer_interval", kCount, 1));
  NG_ASSIGN_OR_RETURN(const int64_t first, IntOr(config, "moe_layer_start_index", kFromZero, 1));
  NG_ASSIGN_OR_RETURN(int64_t last, IntOr(config, "moe_layer_end_index", {-1, kFromZero.max}, -1));
  if (last == -1) last = n_layers - 1;
  std::vector<bool> sparse;
  for (int64_t i = 0; i < n_layers; ++i) {
    sparse.push_back((i + 1) % step == 0 && i >= first && i <= last);
  }
  return sparse;
}

absl::StatusOr<std::vector<bool>> ReadMoeLayers(const JsonFields& config, int n_layers) {
  NG_ASSIGN_OR_RETURN(const int64_t step, IntOr(config, "interleave_moe_layer_step", kCount, 1));
  NG_ASSIGN_OR_RETURN(const auto listed, config.OptionalInts("moe_layers", kFromZero));
  std::vector<bool> sparse;
  for (int64_t i = 0; i < n_layers; ++i) {
    sparse.push_back(listed ? std::ranges::count(*listed, i) > 0 : (i + 1) % step == 0);
  }
  return sparse;
}

// Which layers have experts.
absl::StatusOr<std::vector<bool>> ReadLayers(const JsonFields& config, const std::string& path,
                                             const ExpertsRow& row, int n_layers) {
  if (row.layers == ExpertLayers::kStep) return ReadStep(config, n_layers);
  if (row.layers == ExpertLayers::kRange) return ReadRange(config, n_layers);
  if (row.layers == ExpertLayers::kMoeLayers) return ReadMoeLayers(config, n_layers);
  if (row.layers == ExpertLayers::kListed) {
    NG_ASSIGN_OR_RETURN(std::vector<bool> listed, ReadListed(config, path, n_layers));
    if (!listed.empty()) return listed;
  }
  int64_t n_dense = 0;
  if (row.layers != ExpertLayers::kAll) {
    n_dense = row.n_dense_absent;
    if (IsKey(row.n_dense)) {
      NG_ASSIGN_OR_RETURN(n_dense, IntOr(config, row.n_dense, kFromZero, n_dense));
    }
  }
  std::vector<bool> sparse(static_cast<size_t>(n_layers), true);
  std::fill_n(sparse.begin(), std::min<int64_t>(n_dense, n_layers), false);
  return sparse;
}

}  // namespace

absl::StatusOr<std::vector<std::optional<MixtureSpec>>> ReadMixtures(
    const JsonFields& config, const std::string& path, const ExpertsRow& row, const ModelSpec& spec,
    const FeedForwardSpec& feed_forward) {
  const int n_layers = spec.shape.n_layers;
  MixtureSpec mixture;
  NG_ASSIGN_OR_RETURN(mixture.router, ReadRouter(config, path, row));
  mixture.expert = feed_forward;
  if (IsKey(row.width)) {
    const int64_t absent = row.width_absent > 0 ? row.width_absent : feed_forward.width;
    NG_ASSIGN_OR_RETURN(mixture.expert.width, IntOr(config, row.width, kSize, absent));
  }
  if (row.clamped) {
    NG_ASSIGN_OR_RETURN(const double slope, FactorOr(config, "swiglu_alpha", 1.702));
    NG_ASSIGN_OR_RETURN(const double limit, FactorOr(config, "swiglu_limit", 7.0));
    mixture.expert.slope = static_cast<float>(slope);
    mixture.expert.limit = static_cast<float>(limit);
    mixture.expert.up_offset = 1.0F;
  }
  if (row.shared_is_dense) {
    mixture.shared = feed_forward;
  } else if (IsKey(row.n_shared) || IsKey(row.shared_width)) {
    NG_ASSIGN_OR_RETURN(const int64_t width, ReadSharedWidth(config, row, mixture.expert.width));
    if (width > 0) mixture.shared = feed_forward;
    mixture.shared.width = width;
  }
  mixture.shared_gate = row.shared_gate;
  NG_ASSIGN_OR_RETURN(const std::vector<int64_t> n_used, ReadUsed(config, path, row, n_layers));
  NG_ASSIGN_OR_RETURN(const std::vector<bool> sparse, ReadLayers(config, path, row, n_layers));
  RouterSpec& router = mixture.router;
  const int64_t n_allowed = int64_t{router.group_size()} * router.n_groups_used;
  std::vector<std::optional<MixtureSpec>> layers(static_cast<size_t>(n_layers));
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!sparse[i]) continue;
    if (n_used[i] > n_allowed) {
      return ModelFileError(absl::StrCat(path, ": key \"", row.n_used.key, "\" = ", n_used[i],
                                         ", must be at most ", n_allowed,
                                         ", the experts that a token may go to"));
    }
    router.n_used = static_cast<int>(n_used[i]);
    layers[i] = mixture;
  }
  return layers;
}

}  // namespace ng
