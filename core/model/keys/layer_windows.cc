#include "core/model/keys/layer_windows.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "core/model/keys/config_fields.h"
#include "core/model/spec/limits.h"

namespace ng {
namespace {

// Which layers attend to everything, the others to a window only, where the config lists what each
// one does. Errors: one does anything else, or so where the config uses no window.
absl::StatusOr<std::optional<std::vector<bool>>> ReadLayerTypes(const JsonFields& config,
                                                                const std::string& path,
                                                                std::string_view no_window,
                                                                const ModelSpec& spec) {
  constexpr const char* kKey = "layer_types";
  NG_ASSIGN_OR_RETURN(const auto types, config.OptionalTexts(kKey));
  if (!types) return std::nullopt;
  if (std::ssize(*types) != spec.shape.n_layers) {
    return ModelFileError(absl::StrCat(path, ": key \"", kKey, "\" lists ", types->size(),
                                       " layers, num_hidden_layers is ", spec.shape.n_layers));
  }
  std::vector<bool> full;
  for (size_t i = 0; i < types->size(); ++i) {
    const std::string& type = (*types)[i];
    const bool has_window = no_window.empty() && type == "sliding_attention";
    full.push_back(!has_window);
    // "attention" is its older name.
    if (has_window || type == "full_attention" || type == "attention") continue;
    const std::string allowed = no_window.empty() ? " or \"sliding_attention\""
                                                  : absl::StrCat(" where ", std::string(no_window));
    return ModelFileError(absl::StrCat(path, ": key \"", kKey, "[", i, "]\" = ", JsonExcerpt(type),
                                       ", must be \"full_attention\"", allowed));
  }
  return full;
}

// The first max_window_layers.
absl::StatusOr<std::vector<bool>> ReadFullLayers(const JsonFields& config, const LlamaRow& row,
                                                 const ModelSpec& spec) {
  NG_ASSIGN_OR_RETURN(const int64_t n_full,
                      IntOr(config, "max_window_layers", {0, kPositions.max}, row.full_layers));
  std::vector<bool> full(static_cast<size_t>(spec.shape.n_layers), false);
  std::fill_n(full.begin(), std::min<int64_t>(n_full, spec.shape.n_layers), true);
  return full;
}

// Those that layer_types lists, or those behind max_window_layers.
absl::StatusOr<LayerWindows> ReadUsedWindows(const JsonFields& config, const std::string& path,
                                             const LlamaRow& row, const ModelSpec& spec) {
  LayerWindows windows = {0, std::vector<bool>(static_cast<size_t>(spec.shape.n_layers), true)};
  NG_ASSIGN_OR_RETURN(const std::optional<bool> said, config.OptionalBool("use_sliding_window"));
  const bool used = said.value_or(false);
  NG_ASSIGN_OR_RETURN(
      const std::optional<std::vector<bool>> listed,
      ReadLayerTypes(config, path, used ? "" : "use_sliding_window is not true", spec));
  if (!used) return windows;
  if (listed) {
    windows.full = *listed;
  } else if (row.windows == WindowKeys::kListed) {
    return ModelFileError(
        path + ": key \"layer_types\" is missing, it must say which layers have a window");
  } else {
    NG_ASSIGN_OR_RETURN(windows.full, ReadFullLayers(config, row, spec));
  }
  if (std::ranges::count(windows.full, false) == 0 || config.IsNull(row.window_key)) {
    return windows;
  }
  NG_ASSIGN_OR_RETURN(windows.window, IntOr(config, row.window_key, kPositions, row.window));
  return windows;
}

absl::StatusOr<LayerWindows> ReadTypedWindows(const JsonFields& config, const std::string& path,
                                              const LlamaRow& row, const ModelSpec& spec) {
  LayerWindows windows;
  if (!config.IsNull(row.window_key)) {
    NG_ASSIGN_OR_RETURN(windows.window, IntOr(config, row.window_key, kPositions, row.window));
  }
  NG_ASSIGN_OR_RETURN(
      const std::optional<std::vector<bool>> listed,
      ReadLayerTypes(config, path, windows.window > 0 ? "" : "sliding_window is not set", spec));
  if (!listed && row.windows == WindowKeys::kMaxWindowLayers) {
    NG_ASSIGN_OR_RETURN(windows.full, ReadFullLayers(config, row, spec));
    return windows;
  }
  if (listed) {
    (void)config.Find(row.pattern_key);  // the list has what it says
    windows.full = *listed;
    return windows;
  }
  int64_t every = row.full_every;
  if (!std::string_view(row.pattern_key).empty()) {
    NG_ASSIGN_OR_RETURN(every, IntOr(config, row.pattern_key, kCount, every));
  }
  for (int64_t i = 0; i < spec.shape.n_layers; ++i) {
    windows.full.push_back(every > 0 && (row.full_first ? i : i + 1) % every == 0);
  }
  return windows;
}

// GPT-Neo's: attention_types is a list of [kinds, n], the kinds n times over, and attention_layers
// says what that comes to.
absl::StatusOr<std::vector<std::string>> ReadLocalKinds(const JsonFields& config,
                                                        const std::string& path, int n_layers) {
  constexpr const char* kKey = "attention_types";
  const nlohmann::json* const types = config.Find(kKey);
  NG_ASSIGN_OR_RETURN(auto kinds, config.OptionalTexts("attention_layers"));
  if (kinds) return *kinds;
  if (types == nullptr) {
    std::vector<std::string> usual;
    for (int i = 0; i < 24; ++i) usual.emplace_back(i % 2 == 0 ? "global" : "local");
    return usual;
  }
  kinds.emplace();
  const auto is_text = [](const nlohmann::json& kind) { return kind.is_string(); };
  for (const nlohmann::json& item : *types) {
    const bool fits = item.is_array() && item.size() == 2 && item[0].is_array() &&
                      std::ranges::all_of(item[0], is_text) && item[1].is_number_integer();
    if (!fits) {
      return ModelFileError(absl::StrCat(path, ": key \"", kKey, "\" = ", JsonExcerpt(*types),
                                         ", must be a list like [[[\"global\", \"local\"], 12]]"));
    }
    for (int64_t i = 0; i < item[1].get<int64_t>() && std::ssize(*kinds) <= n_layers; ++i) {
      for (const nlohmann::json& kind : item[0]) kinds->push_back(kind.get<std::string>());
      if (item[0].empty()) break;
    }
  }
  return *kinds;
}

absl::StatusOr<LayerWindows> ReadLocalWindows(const JsonFields& config, const std::string& path,
                                              const LlamaRow& row, const ModelSpec& spec) {
  LayerWindows windows;
  NG_ASSIGN_OR_RETURN(windows.window, IntOr(config, "window_size", kPositions, row.window));
  NG_ASSIGN_OR_RETURN(const std::vector<std::string> kinds,
                      ReadLocalKinds(config, path, spec.shape.n_layers));
  if (std::ssize(kinds) != spec.shape.n_layers) {
    return ModelFileError(
        absl::StrCat(path, ": keys \"attention_layers\", \"attention_types\": ", kinds.size(),
                     " layers, ", row.keys.n_layers.key, " is ", spec.shape.n_layers));
  }
  for (const std::string& kind : kinds) {
    windows.full.push_back(kind == "global");
    if (kind == "global" || kind == "local") continue;
    return ModelFileError(absl::StrCat(path, ": key \"attention_layers[", windows.full.size() - 1,
                                       "]\" = ", JsonExcerpt(kind),
                                       ", must be \"global\" or \"local\""));
  }
  return windows;
}

}  // namespace

absl::StatusOr<LayerWindows> ReadWindows(const JsonFields& config, const std::string& path,
                                         const LlamaRow& row, const ModelSpec& spec) {
  if (row.windows == WindowKeys::kLocal) return ReadLocalWindows(config, path, row, spec);
  if (row.windows == WindowKeys::kTypes || row.windows == WindowKeys::kMaxWindowLayers) {
    return ReadTypedWindows(config, path, row, spec);
  }
  if (row.windows == WindowKeys::kQwen || row.windows == WindowKeys::kListed) {
    return ReadUsedWindows(config, path, row, spec);
  }
  LayerWindows windows;
  bool used = row.windows == WindowKeys::kAll;
  if (row.windows == WindowKeys::kUsed) {
    NG_ASSIGN_OR_RETURN(used, BoolOr(config, "use_sliding_window", false));
  }
  if (used && !config.IsNull(row.window_key)) {
    NG_ASSIGN_OR_RETURN(windows.window, IntOr(config, row.window_key, kPositions, row.window));
  }
  windows.full.assign(static_cast<size_t>(spec.shape.n_layers), windows.window == 0);
  return windows;
}

}  // namespace ng
