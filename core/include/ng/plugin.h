// The plugin boundary: one exported symbol per library.
//
//   extern "C" NG_EXPORT const ng::PluginDescriptor ng_plugin = {...};
//
// The descriptor is constant-initialised data. It begins with a frozen C-layout header; the host
// reads nothing behind the header, and calls nothing, before magic, ABI version, struct size and
// build tag have been compared. The structs here are append only.
//
// A library is named ng_<kind>_<name>.so and stays mapped for the life of the process. Plugins
// include no Boost, start no threads, and do not throw across this boundary (the host has one
// safety catch, and reports what it caught with the plugin's path).
#ifndef NG_PLUGIN_H_
#define NG_PLUGIN_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "absl/base/config.h"
#include "ng/executor.h"
#include "ng/isa.h"
#include "ng/option.h"
#include "ng/status.h"

#define NG_EXPORT __attribute__((visibility("default")))

// The build tag says which C++ both sides were compiled as; it is compared as text.
#define NG_SDK_VERSION "17"
#define NG_TAG_STRING_INNER_(x) #x
#define NG_TAG_STRING_(x) NG_TAG_STRING_INNER_(x)
#if defined(__clang__)
#define NG_TAG_COMPILER_ "clang" NG_TAG_STRING_(__clang_major__)
#else
#define NG_TAG_COMPILER_ "gcc" NG_TAG_STRING_(__GNUC__)
#endif
#if ABSL_OPTION_USE_INLINE_NAMESPACE == 1
#define NG_TAG_ABSL_ NG_TAG_STRING_(ABSL_OPTION_INLINE_NAMESPACE_NAME)
#else
#define NG_TAG_ABSL_ "head"
#endif
#define NG_BUILD_TAG                                                                       \
  NG_TAG_COMPILER_ ",cxxabi" NG_TAG_STRING_(__GXX_ABI_VERSION) ",cxx11abi" NG_TAG_STRING_( \
      _GLIBCXX_USE_CXX11_ABI) ",absl-" NG_TAG_ABSL_ ",sdk" NG_SDK_VERSION

#pragma GCC visibility push(default)
namespace ng {

class AttentionBackend;
class CacheStore;
class Drafter;
class Fabric;
class PartHost;
class Policy;
class Probe;
class SamplerStage;
struct CacheSpec;
struct CachePlan;
struct FabricSpec;
struct ProbeModel;

inline constexpr char kPluginMagic[8] = {'N', 'G', 'P', 'L', 'U', 'G', 'I', 'N'};
inline constexpr uint32_t kPluginAbiVersion = 1;

// Frozen: never changes in size, order or meaning.
struct PluginHeader {
  char magic[8];          // kPluginMagic
  uint32_t abi_version;   // kPluginAbiVersion
  uint32_t struct_size;   // sizeof(PluginDescriptor) when the plugin was compiled
  const char* build_tag;  // NG_BUILD_TAG when the plugin was compiled
};

// The model a plugin is created for.
struct ModelShape {
  int n_layers = 0;
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  int64_t vocab_size = 0;
  int64_t max_positions = 0;  // the model's context; 0: unbounded
};

// What a plugin is given when it is created. Everything it points to is the host's and outlives
// the created object, except `options`, which is valid during create only.
struct PluginContext {
  Executor* executor = nullptr;
  IsaLevel isa = IsaLevel::kScalar;
  ModelShape model;
  std::span<const std::string_view> token_bytes;  // [vocab_size], empty without a tokenizer
  // [vocab_size], empty without a tokenizer; 1: a special, control or unknown token, whose bytes
  // are no text of the model's, but nothing or the token's name.
  std::span<const uint8_t> special;
  std::span<const int32_t> stop_ids;  // each ends a sequence (run.stop_ids, or the model's own)
  OptionValues options;
  PartHost* host = nullptr;  // makes parts of other plugins (ng/part_host.h); null in tests without
  bool check = false;        // run.check_plugins: the run is to find mistakes, it need not be fast
  // Ends what takes long with an InterruptedError, once it is true; may be null.
  const std::atomic<bool>* stop = nullptr;
};

// [load] Create functions. Errors become exit code 4 and carry the plugin's name and path, but for
// a UsageError about an option's value, which stays exit code 2, and the ModelFileError of a probe
// or a drafter about a file that an option names, which stays exit code 3.
struct AttentionFactory {
  absl::StatusOr<std::unique_ptr<AttentionBackend>> (*create)(const PluginContext& context);
};
struct CacheFactory {
  // Says what `create` with the same arguments would reserve, or why it cannot run. Reserves
  // nothing: it is asked before weights load.
  absl::StatusOr<CachePlan> (*plan)(const PluginContext& context, const CacheSpec& spec);
  absl::StatusOr<std::unique_ptr<CacheStore>> (*create)(const PluginContext& context,
                                                        const CacheSpec& spec);
};
struct SamplerFactory {
  absl::StatusOr<std::unique_ptr<SamplerStage>> (*create)(const PluginContext& context);
};

struct ProbeFactory {
  absl::StatusOr<std::unique_ptr<Probe>> (*create)(const PluginContext& context,
                                                   const ProbeModel& model);
};
struct DrafterFactory {
  absl::StatusOr<std::unique_ptr<Drafter>> (*create)(const PluginContext& context);
};

struct PolicyFactory {
  absl::StatusOr<std::unique_ptr<Policy>> (*create)(const PluginContext& context);
};

struct FabricFactory {
  // A RuntimeError keeps its exit code: other ranks are missing.
  absl::StatusOr<std::unique_ptr<Fabric>> (*create)(const PluginContext& context,
                                                    const FabricSpec& spec);
};

// What a part does on purpose that is forbidden to others of its kind: what the checks of its kind
// hold it against (ng/conform/).
enum class PartProfile : int32_t {
  kPlain,        // nothing
  kMasked,       // attention: it has a rule of its own, and is held against itself alone
  kConstraint,   // sampler: its state follows the answer, as a grammar's does
  kApproximate,  // cache: it drops or rounds tokens, whatever its options, and its plan says so
};
struct PartProfileName {
  PartProfile profile;
  const char* name;
  const char* kind;  // the only kind that may have it; null: any
};
inline constexpr PartProfileName kPartProfiles[] = {
    {PartProfile::kPlain, "plain", nullptr},
    {PartProfile::kMasked, "masked", "attention"},
    {PartProfile::kConstraint, "constraint", "sampler"},
    {PartProfile::kApproximate, "approximate", "cache"},
};

struct PluginDescriptor {
  PluginHeader header;
  const char* kind;           // "attention", "cache", "drafter", "fabric", "policy", "probe" or
                              // "sampler"
  const char* name;           // as the config and the file name spell it
  const char* version;        // the plugin's own
  const char* summary;        // one line
  const OptionSpec* options;  // [n_options], may be null
  uint32_t n_options;
  // [load] Null when this CPU can run the plugin, else one line saying what it lacks. Compiled for
  // the baseline instruction set; called before anything else.
  const char* (*supported)();
  // The factory of the plugin's kind; the others are null.
  const AttentionFactory* attention;
  const CacheFactory* cache;
  const SamplerFactory* sampler;
  const ProbeFactory* probe;
  const DrafterFactory* drafter;
  const FabricFactory* fabric;
  PartProfile profile = PartProfile::kPlain;
  const PolicyFactory* policy = nullptr;
};

// The header of a descriptor compiled here.
#define NG_PLUGIN_HEADER                                                    \
  {                                                                         \
    {'N', 'G', 'P', 'L', 'U', 'G', 'I', 'N'}, ::ng::kPluginAbiVersion,      \
        static_cast<uint32_t>(sizeof(::ng::PluginDescriptor)), NG_BUILD_TAG \
  }

// The descriptor of a plugin that runs on every CPU, by kind:
//   extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
//       ng::SamplerPlugin<Create>("name", "1.0.0", "what it does", kOptions);
// and alike ng::AttentionPlugin<Create>, ng::CachePlugin<Plan, Create>, ng::ProbePlugin<Create>,
// ng::DrafterPlugin<Create>, ng::FabricPlugin<Create>, ng::PolicyPlugin<Create>; without options,
// {}. A stage, backend, drafter or policy whose constructor takes the PluginContext needs no create
// function: its class stands in its place, as in ng::SamplerPlugin<MyStage>(...). WithProfile
// around it says what else it is.
constexpr PluginDescriptor EveryCpuPlugin(const char* kind, const char* name, const char* version,
                                          const char* summary,
                                          std::span<const OptionSpec> options) {
  return {.header = NG_PLUGIN_HEADER,
          .kind = kind,
          .name = name,
          .version = version,
          .summary = summary,
          .options = options.data(),
          .n_options = static_cast<uint32_t>(options.size()),
          .supported = []() -> const char* { return nullptr; },
          .attention = nullptr,
          .cache = nullptr,
          .sampler = nullptr,
          .probe = nullptr,
          .drafter = nullptr,
          .fabric = nullptr,
          .profile = PartProfile::kPlain,
          .policy = nullptr};
}

constexpr PluginDescriptor WithProfile(PartProfile profile, PluginDescriptor plugin) {
  plugin.profile = profile;
  return plugin;
}

template <auto kCreate>
inline constexpr AttentionFactory kAttentionFactory = {kCreate};
template <auto kPlan, auto kCreate>
inline constexpr CacheFactory kCacheFactory = {kPlan, kCreate};
template <auto kCreate>
inline constexpr SamplerFactory kSamplerFactory = {kCreate};
template <auto kCreate>
inline constexpr ProbeFactory kProbeFactory = {kCreate};
template <auto kCreate>
inline constexpr DrafterFactory kDrafterFactory = {kCreate};
template <auto kCreate>
inline constexpr FabricFactory kFabricFactory = {kCreate};
template <auto kCreate>
inline constexpr PolicyFactory kPolicyFactory = {kCreate};

// Makes a part by its constructor.
template <class Interface, class Part>
absl::StatusOr<std::unique_ptr<Interface>> Construct(const PluginContext& context) {
  return std::make_unique<Part>(context);
}

template <auto kCreate>
constexpr PluginDescriptor AttentionPlugin(const char* name, const char* version,
                                           const char* summary,
                                           std::span<const OptionSpec> options) {
  PluginDescriptor plugin = EveryCpuPlugin("attention", name, version, summary, options);
  plugin.attention = &kAttentionFactory<kCreate>;
  return plugin;
}
template <class Backend>
constexpr PluginDescriptor AttentionPlugin(const char* name, const char* version,
                                           const char* summary,
                                           std::span<const OptionSpec> options) {
  return AttentionPlugin<Construct<AttentionBackend, Backend>>(name, version, summary, options);
}

template <auto kPlan, auto kCreate>
constexpr PluginDescriptor CachePlugin(const char* name, const char* version, const char* summary,
                                       std::span<const OptionSpec> options) {
  PluginDescriptor plugin = EveryCpuPlugin("cache", name, version, summary, options);
  plugin.cache = &kCacheFactory<kPlan, kCreate>;
  return plugin;
}

template <auto kCreate>
constexpr PluginDescriptor SamplerPlugin(const char* name, const char* version, const char* summary,
                                         std::span<const OptionSpec> options) {
  PluginDescriptor plugin = EveryCpuPlugin("sampler", name, version, summary, options);
  plugin.sampler = &kSamplerFactory<kCreate>;
  return plugin;
}
template <class Stage>
constexpr PluginDescriptor SamplerPlugin(const char* name, const char* version, const char* summary,
                                         std::span<const OptionSpec> options) {
  return SamplerPlugin<Construct<SamplerStage, Stage>>(name, version, summary, options);
}

template <auto kCreate>
constexpr PluginDescriptor ProbePlugin(const char* name, const char* version, const char* summary,
                                       std::span<const OptionSpec> options) {
  PluginDescriptor plugin = EveryCpuPlugin("probe", name, version, summary, options);
  plugin.probe = &kProbeFactory<kCreate>;
  return plugin;
}

template <auto kCreate>
constexpr PluginDescriptor DrafterPlugin(const char* name, const char* version, const char* summary,
                                         std::span<const OptionSpec> options) {
  PluginDescriptor plugin = EveryCpuPlugin("drafter", name, version, summary, options);
  plugin.drafter = &kDrafterFactory<kCreate>;
  return plugin;
}
template <class Part>
constexpr PluginDescriptor DrafterPlugin(const char* name, const char* version, const char* summary,
                                         std::span<const OptionSpec> options) {
  return DrafterPlugin<Construct<Drafter, Part>>(name, version, summary, options);
}

template <auto kCreate>
constexpr PluginDescriptor FabricPlugin(const char* name, const char* version, const char* summary,
                                        std::span<const OptionSpec> options) {
  PluginDescriptor plugin = EveryCpuPlugin("fabric", name, version, summary, options);
  plugin.fabric = &kFabricFactory<kCreate>;
  return plugin;
}

template <auto kCreate>
constexpr PluginDescriptor PolicyPlugin(const char* name, const char* version, const char* summary,
                                        std::span<const OptionSpec> options) {
  PluginDescriptor plugin = EveryCpuPlugin("policy", name, version, summary, options);
  plugin.policy = &kPolicyFactory<kCreate>;
  return plugin;
}
template <class Part>
constexpr PluginDescriptor PolicyPlugin(const char* name, const char* version, const char* summary,
                                        std::span<const OptionSpec> options) {
  return PolicyPlugin<Construct<Policy, Part>>(name, version, summary, options);
}

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_PLUGIN_H_
