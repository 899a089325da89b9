#include "core/model/adapters/open_adapters.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/model/adapters/replaced_tensors.h"

namespace ng {
namespace {

constexpr const char* kAlwaysKey = "model.adapters";
constexpr const char* kNamedKey = "model.named_adapters";
constexpr double kMostScale = 1e6;

// "PATH" or "PATH:SCALE", as Config::Text has it: the path is absolute.
absl::StatusOr<ScaledAdapter> Open(const std::string& origin, const std::string& item,
                                   const KeyPolicy& keys, const ModelFile& model) {
  const size_t colon = item.rfind(':');
  const std::string path = item.substr(0, colon);
  ScaledAdapter opened;
  if (colon != std::string::npos) {
    const std::string scale = item.substr(colon + 1);
    if (!absl::SimpleAtod(scale, &opened.scale) || !(std::abs(opened.scale) <= kMostScale)) {
      return UsageError(absl::StrCat(origin, ": the scale of ", path, " is \"", scale,
                                     "\", must be a number in [-1e6, 1e6]"));
    }
  }
  NG_ASSIGN_OR_RETURN(opened.file, OpenAdapter(path, model, keys));
  return opened;
}

const ScaledAdapter* WithReplaced(const std::vector<ScaledAdapter>& adapters) {
  const auto found = std::ranges::find_if(
      adapters, [](const ScaledAdapter& one) { return !one.file.replaced.empty(); });
  return found == adapters.end() ? nullptr : &*found;
}

absl::Status CannotReplace(const ScaledAdapter& adapter, const std::string& why) {
  return UsageError(absl::StrCat(adapter.file.path, ": holds the whole of \"",
                                 adapter.file.replaced.front().target, "\", ", why));
}

}  // namespace

std::vector<std::vector<const ScaledAdapter*>> RunAdapters::Sets() const {
  std::vector<std::vector<const ScaledAdapter*>> sets;
  if (always.empty() && named.empty()) return sets;
  std::vector<const ScaledAdapter*>& first = sets.emplace_back();
  for (const ScaledAdapter& adapter : always) first.push_back(&adapter);
  for (const ScaledAdapter& adapter : named) {
    std::vector<const ScaledAdapter*> set = sets.front();
    set.push_back(&adapter);
    sets.push_back(std::move(set));
  }
  return sets;
}

absl::StatusOr<RunAdapters> OpenAdapters(const Config& config, const KeyPolicy& keys,
                                         ModelFile* model) {
  RunAdapters adapters;
  for (const std::string& item : config.Names(kAlwaysKey)) {
    NG_ASSIGN_OR_RETURN(ScaledAdapter opened,
                        Open(config.Describe(kAlwaysKey), item, keys, *model));
    adapters.always.push_back(std::move(opened));
  }
  for (const std::string& item : config.Names(kNamedKey)) {
    const size_t equals = item.find('=');
    const std::string name = item.substr(0, equals);
    if (std::ranges::count(adapters.names, name) > 0) {
      return UsageError(
          absl::StrCat(config.Describe(kNamedKey), ": two adapters are called ", name));
    }
    NG_ASSIGN_OR_RETURN(ScaledAdapter opened,
                        Open(config.Describe(kNamedKey), item.substr(equals + 1), keys, *model));
    adapters.named.push_back(std::move(opened));
    adapters.names.push_back(name);
  }
  if (const ScaledAdapter* const adapter = WithReplaced(adapters.named)) {
    return CannotReplace(*adapter, "which is the same for all requests; give it to model.adapters");
  }
  const ScaledAdapter* const adapter = WithReplaced(adapters.always);
  if (adapter != nullptr && !config.Text("model.packed").empty()) {
    return CannotReplace(*adapter,
                         absl::StrCat("which ", config.Describe("model.packed"), " has packed"));
  }
  NG_RETURN_IF_ERROR(ReplaceTensors(adapters.always, model));
  return adapters;
}

}  // namespace ng
