#include "core/plugin/handshake.h"

#include <cstring>
#include <exception>
#include <iterator>
#include <span>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace ng {
namespace {

// Found and expected values are shown escaped: a broken plugin's text may hold anything.
std::string Quoted(std::string_view text) {
  return absl::StrCat("'", absl::CHexEscape(absl::string_view(text.data(), text.size())), "'");
}

std::string Quoted(const char* text) {
  return text == nullptr ? "null" : Quoted(std::string_view(text));
}

absl::Status CheckHeader(const PluginHeader& header) {
  if (std::memcmp(header.magic, kPluginMagic, sizeof(kPluginMagic)) != 0) {
    return PluginError(absl::StrCat("not an ng plugin: magic ",
                                    Quoted({header.magic, sizeof(header.magic)}), ", expected ",
                                    Quoted({kPluginMagic, sizeof(kPluginMagic)})));
  }
  if (header.abi_version != kPluginAbiVersion) {
    return PluginError(absl::StrCat("plugin ABI version ", header.abi_version, ", expected ",
                                    kPluginAbiVersion, "; rebuild it with this ng's headers"));
  }
  if (header.struct_size < sizeof(PluginDescriptor)) {
    return PluginError(absl::StrCat("descriptor of ", header.struct_size,
                                    " bytes, expected at least ", sizeof(PluginDescriptor),
                                    "; rebuild it with this ng's headers"));
  }
  if (header.build_tag == nullptr || std::strcmp(header.build_tag, NG_BUILD_TAG) != 0) {
    return PluginError(absl::StrCat("built as ", Quoted(header.build_tag), ", this ng as ",
                                    Quoted(NG_BUILD_TAG),
                                    "; rebuild it with the same compiler and libraries"));
  }
  return absl::OkStatus();
}

absl::Status CheckIdentity(const PluginDescriptor& plugin, std::string_view kind,
                           std::string_view name) {
  if (plugin.kind == nullptr || plugin.kind != kind) {
    return PluginError(
        absl::StrCat("is of kind ", Quoted(plugin.kind), ", its file name says ", Quoted(kind)));
  }
  if (plugin.name == nullptr || plugin.name != name) {
    return PluginError(
        absl::StrCat("is named ", Quoted(plugin.name), ", its file name says ", Quoted(name)));
  }
  if (plugin.version == nullptr) return PluginError("version is null, expected a text");
  if (plugin.summary == nullptr) return PluginError("summary is null, expected a text");
  if (plugin.supported == nullptr) return PluginError("supported is null, expected a function");
  return absl::OkStatus();
}

absl::Status CheckFactory(const PluginDescriptor& plugin) {
  const std::string_view kind = plugin.kind;
  struct Factory {
    std::string_view kind;
    bool present;
    bool complete;
  };
  const Factory factories[] = {
      {"attention", plugin.attention != nullptr,
       plugin.attention != nullptr && plugin.attention->create != nullptr},
      {"cache", plugin.cache != nullptr,
       plugin.cache != nullptr && plugin.cache->plan != nullptr && plugin.cache->create != nullptr},
      {"sampler", plugin.sampler != nullptr,
       plugin.sampler != nullptr && plugin.sampler->create != nullptr},
      {"probe", plugin.probe != nullptr,
       plugin.probe != nullptr && plugin.probe->create != nullptr},
      {"drafter", plugin.drafter != nullptr,
       plugin.drafter != nullptr && plugin.drafter->create != nullptr},
      {"fabric", plugin.fabric != nullptr,
       plugin.fabric != nullptr && plugin.fabric->create != nullptr},
      {"policy", plugin.policy != nullptr,
       plugin.policy != nullptr && plugin.policy->create != nullptr},
  };
  for (const Factory& factory : factories) {
    const std::string quoted = Quoted(factory.kind);
    if (factory.kind != kind && factory.present) {
      return PluginError(
          absl::StrCat("has a factory of kind ", quoted, ", expected only ", Quoted(kind)));
    }
    if (factory.kind == kind && !factory.present) {
      return PluginError(absl::StrCat("has no factory of its kind ", quoted));
    }
    if (factory.kind == kind && !factory.complete) {
      return PluginError(absl::StrCat("a function of its ", quoted, " factory is null"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckProfile(const PluginDescriptor& plugin) {
  for (const PartProfileName& known : kPartProfiles) {
    if (plugin.profile != known.profile) continue;
    if (known.kind == nullptr || std::string_view(known.kind) == plugin.kind) {
      return absl::OkStatus();
    }
    return PluginError(absl::StrCat("has the profile ", Quoted(known.name), ", which is for ",
                                    "plugins of kind ", Quoted(known.kind)));
  }
  return PluginError(absl::StrCat("has profile ", static_cast<int32_t>(plugin.profile),
                                  ", expected 0 to ", std::size(kPartProfiles) - 1));
}

bool IsNumeric(OptionType type) {
  return type == OptionType::kInt || type == OptionType::kReal || type == OptionType::kIntList ||
         type == OptionType::kRealList;
}

absl::Status CheckOptions(const PluginDescriptor& plugin) {
  if (plugin.n_options > 0 && plugin.options == nullptr) {
    return PluginError(
        absl::StrCat("option table is null, expected ", plugin.n_options, " options"));
  }
  const std::span options(plugin.options, plugin.n_options);
  for (size_t i = 0; i < options.size(); ++i) {
    const OptionSpec& option = options[i];
    const std::string which = absl::StrCat("option ", i);
    if (option.name == nullptr || *option.name == '\0') {
      return PluginError(which + " has no name");
    }
    const std::string quoted = absl::StrCat(which, " ", Quoted(option.name));
    const auto type = static_cast<int32_t>(option.type);
    if (type < 0 || type > static_cast<int32_t>(kLastOptionType)) {
      return PluginError(absl::StrCat(quoted, " has type ", type, ", expected 0 to ",
                                      static_cast<int32_t>(kLastOptionType)));
    }
    const bool number = option.type == OptionType::kInt || option.type == OptionType::kReal;
    if (option.default_value == nullptr && !number) {
      return PluginError(quoted + " has no default");
    }
    if (option.help == nullptr) return PluginError(quoted + " has no help text");
    if (IsNumeric(option.type) && !(option.min <= option.max)) {
      return PluginError(
          absl::StrCat(quoted, " allows nothing: min ", option.min, ", max ", option.max));
    }
    for (const OptionSpec& earlier : options.first(i)) {
      if (std::strcmp(earlier.name, option.name) == 0) {
        return PluginError(quoted + " is declared twice");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCpu(const PluginDescriptor& plugin) {
  try {
    const char* lacking = plugin.supported();
    if (lacking == nullptr) return absl::OkStatus();
    return PluginError(absl::StrCat("cannot run on this CPU: ", lacking));
  } catch (const std::exception& error) {
    return PluginError(absl::StrCat("supported() threw: ", error.what()));
  } catch (...) {
    return PluginError("supported() threw an exception of unknown type");
  }
}

}  // namespace

absl::Status CheckDescriptor(const PluginDescriptor& plugin, std::string_view kind,
                             std::string_view name) {
  NG_RETURN_IF_ERROR(CheckHeader(plugin.header));
  NG_RETURN_IF_ERROR(CheckIdentity(plugin, kind, name));
  NG_RETURN_IF_ERROR(CheckFactory(plugin));
  NG_RETURN_IF_ERROR(CheckProfile(plugin));
  NG_RETURN_IF_ERROR(CheckOptions(plugin));
  return CheckCpu(plugin);
}

}  // namespace ng
