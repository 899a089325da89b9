#include "apps/eval/lab/methods.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/eval/card.h"
#include "ng/config.h"
#include "ng/names.h"
#include "ng/plugins.h"

namespace ng::eval {
namespace {

// Keys that a cache without a budget does not read, and the codec, are left out of the options.
EngineOptions PlainOptions(const EngineOptions& given) {
  EngineOptions options = given;
  std::erase_if(options.overrides, [](const std::string& setting) {
    return absl::StartsWith(setting, "cache.budget.") || absl::StartsWith(setting, "policy.");
  });
  options.overrides.push_back("cache.name=contiguous");
  return options;
}

// Of tokens and ratio the one that does not count has its default.
Method PolicyMethod(const EngineOptions& given, const std::string& policy, const Budget& budget) {
  constexpr int64_t kTokensByDefault = 1024;
  Method method;
  method.name = absl::StrCat(policy, " ", budget.Text());
  method.policy = policy;
  method.budget = budget;
  method.chosen = absl::StrCat("--card=", policy, " --budgets=", budget.Text());
  method.engine = given;
  for (const std::string& setting :
       {std::string("cache.name=budget"), absl::StrCat("cache.budget.policy=", policy),
        absl::StrCat("cache.budget.ratio=", budget.ratio == 0.0 ? "0" : budget.Text()),
        absl::StrCat("cache.budget.tokens=",
                     budget.ratio == 0.0 ? budget.tokens : kTokensByDefault)}) {
    method.engine.overrides.push_back(setting);
  }
  return method;
}

// Whether tokens leave at the end of a context.
absl::StatusOr<bool> LeaveAtMark(const EngineOptions& given) {
  EngineOptions options = given;
  options.overrides.emplace_back("cache.name=budget");
  NG_ASSIGN_OR_RETURN(const Config config, Engine::ReadConfig(options));
  return config.Text("cache.budget.when") == "prompt";
}

Method CodecMethod(const EngineOptions& given, const std::string& codec) {
  Method method;
  method.name = codec;
  method.chosen = absl::StrCat("--card=", codec);
  method.engine = PlainOptions(given);
  for (const char* setting : {"cache.codec_k=", "cache.codec_v="}) {
    method.engine.overrides.emplace_back(setting);
  }
  method.engine.overrides.push_back(absl::StrCat("cache.codec=", codec));
  return method;
}

Method FullMethod(const EngineOptions& given) {
  Method method = CodecMethod(given, "f32");
  method.name = kFull;
  method.chosen = absl::StrCat("--card=", method.name);
  return method;
}

}  // namespace

absl::StatusOr<std::vector<Method>> MethodsOf(const CommandLine& line, const EngineOptions& given) {
  NG_ASSIGN_OR_RETURN(const PluginHost host, Engine::FindPlugins(given));
  std::vector<std::string> policies;
  for (const PluginFile& file : host.files()) {
    if (file.kind == "policy") policies.push_back(file.name);
  }
  std::vector<std::string> codecs;
  for (const CodecInfo& info : kCodecTable) {
    if (info.name != "f32") codecs.emplace_back(info.name);
  }
  std::vector<std::string> known = policies;
  known.insert(known.end(), codecs.begin(), codecs.end());
  known.emplace_back(kFull);
  std::vector<Method> methods = {FullMethod(given)};
  for (const std::string& name : line.lab.methods.empty() ? known : line.lab.methods) {
    if (std::ranges::count(known, name) == 0) {
      const auto nearest = NearestName(name, known);
      return PluginError(
          absl::StrCat("--card: no policy or codec '", name, "'",
                       nearest ? absl::StrCat("; did you mean '", *nearest, "'?") : "",
                       "; there are: ", absl::StrJoin(known, ", ")));
    }
    if (std::ranges::count(policies, name) == 0) {
      if (name != kFull) methods.push_back(CodecMethod(given, name));
      continue;
    }
    for (const Budget& budget : line.lab.budgets) {
      methods.push_back(PolicyMethod(given, name, budget));
    }
  }
  methods.push_back(FullMethod(given));
  methods.back().name = kFloor;
  const auto has_policy = [](const Method& method) { return !method.policy.empty(); };
  if (std::ranges::none_of(methods, has_policy)) return methods;
  NG_ASSIGN_OR_RETURN(const bool at_mark, LeaveAtMark(given));
  for (Method& method : methods) {
    if (at_mark && has_policy(method)) {
      method.rule = absl::StrCat(method.policy, ":", method.budget.Text());
    }
  }
  return methods;
}

Json BudgetJson(const Budget& budget) {
  return budget.ratio == 0.0 ? Json(budget.tokens) : Json(budget.ratio);
}

Json MethodJson(const Method& method, const Config& config) {
  const CodecNames codecs = CodecsOf(config);
  Json json = {{"name", method.name},
               {"cache", config.Text("cache.name")},
               {"codec_k", codecs.k},
               {"codec_v", codecs.v}};
  if (method.policy.empty()) return json;
  json["policy"] = method.policy;
  json["budget"] = BudgetJson(method.budget);
  for (const ConfigItem& item : config.items()) {
    const std::string& key = item.declared.key;
    constexpr absl::string_view kBudget = "cache.budget.";
    if (absl::StartsWith(key, kBudget)) json[key.substr(kBudget.size())] = config.Text(key);
    if (absl::StartsWith(key, "policy.")) json[key] = config.Text(key);
  }
  return json;
}

}  // namespace ng::eval
