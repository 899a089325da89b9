// A plugin that is opened in this process without an engine: its descriptor, its options, and a
// host for parts that it makes of other plugins. The one file here that uses core's own headers.
#ifndef NG_APPS_CONFORM_PLUGIN_H_
#define NG_APPS_CONFORM_PLUGIN_H_

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ng/part_host.h"
#include "ng/plugin.h"
#include "ng/status.h"

namespace ng::conform {

// What a file name says: ng_<kind>_<name>.so. Errors: PluginError.
struct PluginName {
  std::string kind;
  std::string name;
};
absl::StatusOr<PluginName> NameOf(const std::string& path);

class OpenPlugin {
 public:
  // Opens and checks the plugin as an engine does. Its options are those of `config`
  // ("<kind>.<name>.<option>=value"); `options` ("<option>=value") win. Inner parts are looked up
  // in plugins.path of the config, and where this installation keeps its own. Errors: PluginError;
  // UsageError for an option.
  static absl::StatusOr<std::unique_ptr<OpenPlugin>> Open(const std::string& path,
                                                          std::span<const std::string> options,
                                                          std::span<const std::string> config);
  virtual ~OpenPlugin() = default;

  // Make a part, or plan one, with this context; the options and the host are added.
  virtual absl::StatusOr<std::unique_ptr<AttentionBackend>> Attention(
      const PluginContext& context) = 0;
  virtual absl::StatusOr<std::unique_ptr<CacheStore>> Cache(const PluginContext& context,
                                                            const CacheSpec& spec) = 0;
  virtual absl::StatusOr<CachePlan> PlanCache(const PluginContext& context,
                                              const CacheSpec& spec) = 0;
  virtual absl::StatusOr<std::unique_ptr<SamplerStage>> Sampler(const PluginContext& context) = 0;

  // For parts of other plugins, made with this context.
  virtual PartHost& HostFor(const PluginContext& context) = 0;
};

}  // namespace ng::conform

#endif  // NG_APPS_CONFORM_PLUGIN_H_
