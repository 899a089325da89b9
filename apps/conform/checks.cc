#include "apps/conform/checks.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "apps/common/arguments.h"
#include "apps/conform/allocations.h"
#include "ng/conform/cache.h"
#include "ng/conform/drafter.h"
#include "ng/conform/fabric.h"
#include "ng/conform/policy.h"
#include "ng/conform/probe.h"
#include "ng/conform/sampler.h"
#include "ng/conform/speed.h"
#include "ng/lone_plugin.h"
#include "ng/plugins.h"

namespace ng::conform {
namespace {

constexpr char kSpeed[] = "speed";

// The plugin and its partners, opened.
class Workshop {
 public:
  static absl::StatusOr<std::unique_ptr<Workshop>> Open(const Request& request) {
    auto shop = std::make_unique<Workshop>();
    NG_ASSIGN_OR_RETURN(shop->plugin_,
                        LonePlugin::Open(request.plugin, request.options, request.config));
    for (const std::string& path : request.partners) {
      NG_ASSIGN_OR_RETURN(auto partner, LonePlugin::Open(path, {}, request.config));
      NG_ASSIGN_OR_RETURN(const PluginFile name, PluginFileOf(path));
      const auto reads_keys = [](std::string_view kind) {
        return kind == "attention" || kind == "cache";
      };
      if (name.kind == request.kind || !reads_keys(name.kind) || !reads_keys(request.kind)) {
        return UsageError(absl::StrCat("--with ", path, ": a plugin of kind ", name.kind,
                                       " is no partner of one of kind ", request.kind));
      }
      shop->partners_.emplace_back(name.name, std::move(partner));
    }
    return shop;
  }

  AttentionSubject Attention(const Request& request, IsaLevel isa) {
    AttentionSubject subject{.settings = Settings(request, isa), .make = [this](auto& context) {
                               return Made(plugin_->CreateAttention(context));
                             }};
    const PartProfile profile = ProfileOf(request);
    subject.rule = profile == PartProfile::kMasked ? std::nullopt : std::optional(request.rule);
    for (const auto& [name, partner] : partners_) {
      subject.store = [partner = partner.get()](auto& context, auto& spec) {
        return partner->CreateCache(context, spec);
      };
    }
    for (const char* shipped : {"contiguous", "paged"}) {
      subject.other_stores.emplace_back(shipped, ShippedCache(shipped));
    }
    return subject;
  }
  CacheSubject Cache(const Request& request, IsaLevel isa) {
    CacheSubject subject{
        .settings = Settings(request, isa),
        .make = [this](auto& context,
                       auto& spec) { return Made(plugin_->CreateCache(context, spec)); },
        .plan = [this](auto& context, auto& spec) { return plugin_->PlanCache(context, spec); },
        .must_be_approximate = ProfileOf(request) == PartProfile::kApproximate};
    for (const auto& [name, partner] : partners_) {
      subject.backends.emplace_back(name, [partner = partner.get()](auto& context) {
        return partner->CreateAttention(context);
      });
    }
    for (const char* shipped : {"reference", "flash"}) {
      subject.backends.emplace_back(shipped, ShippedAttention(shipped));
    }
    return subject;
  }
  SamplerSubject Sampler(const Request& request, IsaLevel isa) {
    return {.settings = Settings(request, isa),
            .make = [this](auto& context) { return Made(plugin_->CreateSampler(context)); },
            .constraint = ProfileOf(request) == PartProfile::kConstraint};
  }

  ProbeSubject Probe(const Request& request, IsaLevel isa) {
    return {.settings = Settings(request, isa), .make = [this](auto& context, auto& model) {
              return Made(plugin_->CreateProbe(context, model));
            }};
  }

  DrafterSubject Drafter(const Request& request, IsaLevel isa) {
    return {.settings = Settings(request, isa),
            .make = [this](auto& context) { return Made(plugin_->CreateDrafter(context)); }};
  }

  PolicySubject Policy(const Request& request, IsaLevel isa) {
    return {.settings = Settings(request, isa),
            .make = [this](auto& context) { return Made(plugin_->CreatePolicy(context)); }};
  }

  FabricSubject Fabric(const Request& request, IsaLevel isa) {
    return {.settings = Settings(request, isa), .make = [this](auto& context, auto& spec) {
              return Made(plugin_->CreateFabric(context, spec));
            }};
  }

  // From now on a part is made and not handed on.
  void KeepParts() { keeps_parts_ = true; }
  // Of the first part that was made since.
  const absl::Status& first_made() const { return first_made_; }
  const PluginDescriptor& descriptor() const { return plugin_->descriptor(); }

  // Shipped parts, as an engine has them.
  MakeAttention ShippedAttention(const char* name) {
    return
        [this, name](auto& context) { return plugin_->HostFor(context).CreateAttention(name, {}); };
  }
  MakeCache ShippedCache(const char* name) {
    return [this, name](auto& context, auto& spec) {
      return plugin_->HostFor(context).CreateCache(name, spec, {});
    };
  }
  MakeSampler ShippedSampler(const char* name) {
    return
        [this, name](auto& context) { return plugin_->HostFor(context).CreateSampler(name, {}); };
  }

 private:
  static CheckSettings Settings(const Request& request, IsaLevel isa) {
    return {.isa = isa,
            .seed = request.seed,
            .quick = request.quick,
            .count_allocations = AllocationCounter()};
  }

  PartProfile ProfileOf(const Request& request) const {
    return request.profile.value_or(descriptor().profile);
  }

  template <class Part>
  absl::StatusOr<Part> Made(absl::StatusOr<Part> part) {
    if (!keeps_parts_) return part;
    if (n_made_++ == 0) first_made_ = part.status();
    return RuntimeError("was to be made, and no more");
  }

  std::unique_ptr<LonePlugin> plugin_;
  bool keeps_parts_ = false;
  int64_t n_made_ = 0;
  absl::Status first_made_;
  std::vector<std::pair<std::string, std::unique_ptr<LonePlugin>>> partners_;
};

template <class Subject>
Outcome RunOf(std::span<const Check<Subject>> checks, const Subject& subject,
              std::string_view name) {
  for (const Check<Subject>& check : checks) {
    if (check.name == name) return RunCheck(check, subject);
  }
  return Skip("there is no such check");
}

Outcome SpeedBeside(const char* other, const absl::StatusOr<SpeedRatio>& speed) {
  if (!speed.ok()) return Skip(std::string(speed.status().message()));
  return {Result::kOk, absl::StrFormat("%s: %.1f us, %s %.1f us, %.2f times", speed->of,
                                       speed->own_us, other, speed->other_us, speed->ratio())};
}

// Beside the shipped part of its kind.
Outcome MeasureSpeed(Workshop& shop, const Request& request, IsaLevel isa) {
  if (request.kind == "attention") {
    AttentionSubject own = shop.Attention(request, isa);
    if (!own.store) own.store = shop.ShippedCache("contiguous");
    AttentionSubject other = own;
    other.make = shop.ShippedAttention("flash");
    other.store = shop.ShippedCache("contiguous");
    return SpeedBeside("flash", CompareSpeed(own, other));
  }
  if (request.kind == "cache") {
    const CacheSubject own = shop.Cache(request, isa);
    CacheSubject other = own;
    other.make = shop.ShippedCache("contiguous");
    return SpeedBeside("contiguous", CompareSpeed(own, other));
  }
  const SamplerSubject own = shop.Sampler(request, isa);
  SamplerSubject other = own;
  other.make = shop.ShippedSampler("top_k");
  return SpeedBeside("top_k", CompareSpeed(own, other));
}

Outcome RunIn(Workshop& shop, const Request& request, IsaLevel isa, std::string_view name) {
  if (name == kSpeed) return MeasureSpeed(shop, request, isa);
  if (request.kind == "attention") {
    return RunOf(AttentionChecks(), shop.Attention(request, isa), name);
  }
  if (request.kind == "cache") return RunOf(CacheChecks(), shop.Cache(request, isa), name);
  if (request.kind == "drafter") return RunOf(DrafterChecks(), shop.Drafter(request, isa), name);
  if (request.kind == "fabric") return RunOf(FabricChecks(), shop.Fabric(request, isa), name);
  if (request.kind == "policy") return RunOf(PolicyChecks(), shop.Policy(request, isa), name);
  if (request.kind == "probe") return RunOf(ProbeChecks(), shop.Probe(request, isa), name);
  return RunOf(SamplerChecks(), shop.Sampler(request, isa), name);
}

// What to add to the error of a part that cannot be made: where it names an option that the part
// asks for, all of those that were not given; where nothing was given, the names of all.
std::string OptionsToGive(const PluginDescriptor& plugin, const Request& request,
                          const std::string& error) {
  std::string asked;
  bool named = false;
  std::vector<std::string> names;
  for (const OptionSpec& option : std::span(plugin.options, plugin.n_options)) {
    names.emplace_back(option.name);
    const std::string key = absl::StrCat(option.name, "=");
    const bool given = std::ranges::any_of(
        request.options, [&key](const std::string& text) { return text.starts_with(key); });
    if (option.example == nullptr || given) continue;
    absl::StrAppend(&asked, " --option ", ShellWord(absl::StrCat(key, option.example)));
    named = named || error.find(absl::StrCat(".", option.name)) != error.npos;
  }
  if (named) return absl::StrCat("; give it, for example", asked);
  if (names.empty() || !request.options.empty()) return "";
  return absl::StrCat("; its options are ", absl::StrJoin(names, ", "), ": --option NAME=VALUE");
}

template <class Subject>
void AddNames(std::span<const Check<Subject>> checks, std::vector<CheckName>* names) {
  for (const Check<Subject>& check : checks) {
    names->push_back({std::string(check.name), std::string(check.asks)});
  }
}

}  // namespace

std::vector<CheckName> ChecksOf(std::string_view kind) {
  std::vector<CheckName> names;
  if (kind == "attention") AddNames(AttentionChecks(), &names);
  if (kind == "cache") AddNames(CacheChecks(), &names);
  if (kind == "sampler") AddNames(SamplerChecks(), &names);
  if (kind == "probe") {
    AddNames(ProbeChecks(), &names);
    return names;  // no two probes do the same, so that one would be the faster
  }
  if (kind == "policy") {
    AddNames(PolicyChecks(), &names);
    return names;  // what scoring costs is for the cache that asks for it to say
  }
  if (kind == "drafter") {
    AddNames(DrafterChecks(), &names);
    return names;  // how fast one is hangs on how often it is right
  }
  if (kind == "fabric") {
    AddNames(FabricChecks(), &names);
    return names;  // the speed is that of what lies between the machines
  }
  names.push_back({kSpeed, "how long it takes beside a shipped part; cannot fail"});
  return names;
}

absl::Status OpenAll(const Request& request) { return Workshop::Open(request).status(); }

absl::Status TryToMake(const Request& request, IsaLevel isa) {
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<Workshop> shop, Workshop::Open(request));
  shop->KeepParts();
  RunIn(*shop, request, isa, ChecksOf(request.kind).front().name);
  const absl::Status& made = shop->first_made();
  const int code = ExitCode(made);
  if (code != 2 && code != 3) return absl::OkStatus();
  const std::string message(made.message());
  const std::string told = message + OptionsToGive(shop->descriptor(), request, message);
  return code == 2 ? UsageError(told) : ModelFileError(told);
}

Outcome RunNamed(const Request& request, IsaLevel isa, std::string_view name) {
  const absl::StatusOr<std::unique_ptr<Workshop>> opened = Workshop::Open(request);
  if (!opened.ok()) return Fail(std::string(opened.status().message()));
  return RunIn(**opened, request, isa, name);
}

}  // namespace ng::conform
