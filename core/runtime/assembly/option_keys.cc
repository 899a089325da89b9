#include "core/runtime/assembly/option_keys.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace ng {

std::vector<ConfigKey> OptionKeys(const LoadedPlugin& plugin) {
  const PluginDescriptor& descriptor = *plugin.descriptor;
  std::vector<ConfigKey> keys;
  for (uint32_t i = 0; i < descriptor.n_options; ++i) {
    const OptionSpec& option = descriptor.options[i];
    keys.push_back({absl::StrCat(descriptor.kind, ".", descriptor.name, ".", option.name), &option,
                    ConfigForm::kPlain});
  }
  return keys;
}

}  // namespace ng
