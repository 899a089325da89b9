// Assembly: what the cache must hold for a run, and whether cache and attention backend can do it
// together.
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/absl_view.h"
#include "core/config/cache_codecs.h"
#include "core/model/ops/layer_attention.h"
#include "core/runtime/assembly/assembly.h"
#include "ng/tiles16.h"

namespace ng {
namespace {

// Where a config does not say in which pieces a prompt is fed, and a window is held alone: matmuls
// are at their full speed, and the pieces take little memory beside a window.
constexpr int64_t kWindowStepTokens = 512;

// The window where holding no more saves a fourth of the memory or more, else 0: what is gone
// cannot be gone back to.
int64_t HeldWindow(const RunCacheSpec& all, int64_t window) {
  CacheSpec spec = all;
  spec.window = window;
  return all.windows_alone && spec.held_tokens() <= all.max_tokens / 4 * 3 ? window : 0;
}

// Sequences of a store that holds windows: each checkpoint keeps its own.
int WithCheckpoints(const RunCacheSpec& all) {
  const int64_t n = int64_t{all.max_sequences} + all.checkpoints;
  return static_cast<int>(std::min<int64_t>(n, std::numeric_limits<int>::max()));
}

// Whether layers with these specs can be in one store.
bool HoldTheSame(const CacheSpec& a, const CacheSpec& b) {
  const auto asked = [](const CacheSpec& spec) {
    return std::tuple(spec.n_kv_heads, spec.head_dim, spec.v_head_dim, spec.v_in_k, spec.window);
  };
  return asked(a) == asked(b);
}

}  // namespace

absl::Status Assembly::CheckFeatures(const CacheFormat& format) const {
  for (const auto& [wanted, feature, does] :
       {std::tuple(format.holes, kFeatureHoles, "drops tokens, which takes a backend"),
        {format.attended, kFeatureAttended, "goes by what was attended, which takes a backend"},
        {format.slots, kFeatureSlots, "lets tokens leave, which takes a backend"},
        {format.head_slots, kFeatureHeadSlots,
         "holds other numbers of tokens in each kv head, which takes a backend"}}) {
    if (!wanted || std::ranges::count(attention->features(), feature) != 0) continue;
    return PluginError(absl::StrCat(selection.cache.Describe(), ": ", does, " with the feature '",
                                    View(feature), "'; ", selection.attention.Describe(),
                                    " has not, attention.name = reference has"));
  }
  return absl::OkStatus();
}

absl::StatusOr<CachePlan> Assembly::PlanGroup(const CacheGroupSpec& group) const {
  const LoadedPlugin& plugin = selection.cache;
  const std::vector<OptionValue> values = PluginValues(config(), "cache", plugin.descriptor->name);
  CacheSpec spec = group.spec;
  spec.layers = group.layers;
  NG_ASSIGN_OR_RETURN(const CachePlan plan, PlanCache(plugin, Context(values), spec));
  const bool several = model.spec.split.ranks > 1 || whole.has_value();
  if (plan.slots > 0 && several) {
    return PluginError(absl::StrCat(plugin.Describe(), ": lets tokens leave by what all kv heads ",
                                    "hold, which no process of several has; contiguous and paged ",
                                    "run with fabric.name = ", config().Text("fabric.name")));
  }
  const CacheFormat format = {.layout = plan.layout,
                              .codec_k = spec.codec_k,
                              .codec_v = spec.codec_v,
                              .holes = plan.holes,
                              .attended = plan.attended,
                              .slots = plan.slots > 0,
                              .head_slots = plan.head_slots > 0};
  NG_RETURN_IF_ERROR(CheckFeatures(format));
  if (plan.queries) NG_RETURN_IF_ERROR(CheckQueries(group));
  std::set<int> asked;  // the same of several layers once
  for (const AttentionSpec& wanted : ReadersOf(group)) {
    if (asked.insert(wanted.layer).second) {
      NG_RETURN_IF_ERROR(attention->Supports(wanted, format));
    }
  }
  return plan;
}

absl::Status Assembly::CheckQueries(const CacheGroupSpec& group) const {
  const std::vector<int> layers = model.spec.LayersWith(Operation::kAttention);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!std::ranges::binary_search(group.layers, cache_layers[i])) continue;
    const auto layer = static_cast<size_t>(layers[i]);
    const SelfAttentionSpec& attention =
        model.spec.AttentionOf(*model.spec.Find(layer, Operation::kAttention));
    const char* why = nullptr;
    if (attention.latent.is_there()) why = "which meet latents in place of keys";
    const bool normed = attention.qk_norm.is_there();
    if (normed && attention.qk_norm_kind == QkNormKind::kHeadsAfterRope) {
      why = "which are normed behind that";
    }
    if (why == nullptr) continue;
    return PluginError(absl::StrCat(selection.cache.Describe(),
                                    ": its policy goes by the queries as they are before they are "
                                    "rotated, and layer ",
                                    layer, " of the model has queries ", why,
                                    "; policies that go by keys or by attention run"));
  }
  return absl::OkStatus();
}

std::vector<AttentionSpec> Assembly::ReadersOf(const CacheGroupSpec& group) const {
  std::vector<AttentionSpec> readers;
  for (size_t i = 0; i < cache_layers.size(); ++i) {
    if (std::ranges::binary_search(group.layers, cache_layers[i])) {
      readers.push_back(attention_specs[i]);
    }
  }
  return readers;
}

absl::StatusOr<RunCachePlan> Assembly::PlanCacheFor(const RunCacheSpec& spec) const {
  std::vector<CachePlan> plans;
  std::map<int64_t, CacheReads> reads;  // by window
  for (const CacheGroupSpec& group : GroupsOf(spec)) {
    NG_ASSIGN_OR_RETURN(const CachePlan plan, PlanGroup(group));
    plans.push_back(plan);
    std::map<int64_t, int64_t> n_layers;
    for (const AttentionSpec& reader : ReadersOf(group)) ++n_layers[reader.window];
    for (const auto& [window, n] : n_layers) {
      // What has left is not read either.
      int64_t most = window;
      if (plan.slots > 0 && (most == 0 || plan.slots < most)) most = plan.slots;
      CacheReads& of = reads[most];
      of.window = most;
      of.most_keys = attention->most_keys();
      of.bytes_per_token += plan.bytes_per_token * n / group.spec.n_layers;
      if (plan.layout != kLayoutTiles16Bounds) continue;
      of.bounds_per_token +=
          n * group.spec.n_kv_heads * (BoundsBytes(group.spec.head_dim) / kTileTokens);
    }
  }
  RunCachePlan all = {CombinedPlan(plans), {}};
  for (const auto& [window, of] : reads) all.reads.push_back(of);
  return all;
}

absl::StatusOr<std::unique_ptr<CacheGroups>> Assembly::MakeCache(const RunCacheSpec& spec) const {
  const LoadedPlugin& plugin = selection.cache;
  const std::vector<OptionValue> values = PluginValues(config(), "cache", plugin.descriptor->name);
  std::vector<CacheGroups::Group> groups;
  for (const CacheGroupSpec& group : GroupsOf(spec)) {
    CacheGroups::Group& made = groups.emplace_back();
    made.of = group;
    CacheSpec asked = group.spec;
    asked.layers = group.layers;
    NG_ASSIGN_OR_RETURN(made.store, CreateCache(plugin, Context(values), asked));
  }
  return std::make_unique<CacheGroups>(std::move(groups));
}

std::vector<CacheGroupSpec> Assembly::GroupsOf(const RunCacheSpec& all) const {
  std::vector<CacheGroupSpec> groups;
  int layer = 0;
  for (size_t i = 0; i < cache_layers.size(); ++i) {
    if (cache_layers[i] != layer) continue;  // it reads what another one has made
    const AttentionSpec& attention = attention_specs[i];
    CacheSpec spec = all;
    spec.n_kv_heads = attention.n_kv_heads;
    spec.n_heads = attention.n_heads;
    spec.head_dim = attention.head_dim;
    if (attention.v_head_dim != attention.head_dim) spec.v_head_dim = attention.v_head_dim;
    spec.v_in_k = attention.v_in_k;
    spec.window = HeldWindow(all, attention.window);
    if (spec.window > 0) spec.max_sequences = WithCheckpoints(all);
    auto group = std::ranges::find_if(
        groups, [&](const CacheGroupSpec& other) { return HoldTheSame(other.spec, spec); });
    if (group == groups.end()) group = groups.insert(groups.end(), {{}, spec});
    group->layers.push_back(layer++);
    group->spec.n_run_layers = *std::ranges::max_element(cache_layers) + 1;
    group->spec.n_heads = std::max(group->spec.n_heads, spec.n_heads);
    group->spec.n_layers = static_cast<int>(group->layers.size());
  }
  return groups;
}

bool Assembly::HoldsWindows(const RunCacheSpec& all) const {
  // Of the whole model, also where this rank has some of its layers: all ranks take the same steps.
  return sees_windows && std::ranges::any_of(model.spec.attentions, [&](const auto& attention) {
           return HeldWindow(all, attention.window) > 0;
         });
}

int64_t Assembly::StepTokens(const RunNeeds& needs) const {
  const int64_t chunk = config().Int("run.prefill_chunk");
  // Without a cache, and where a full context moves on, all tokens are fed again.
  const bool once = config().Bool("run.use_cache") && !Recomputes();
  int64_t most = std::numeric_limits<int64_t>::max();
  if (once && needs.max_prompt > 0) most = needs.max_prompt;
  return chunk > 0 ? std::min(chunk, most) : most;
}

RunCacheSpec Assembly::CacheSpecFor(const RunNeeds& needs) const {
  RunCacheSpec spec;
  spec.n_layers = *std::ranges::max_element(cache_layers) + 1;
  spec.max_tokens = config().Int("cache.max_tokens");
  if (spec.max_tokens == 0) spec.max_tokens = std::min(needs.max_tokens, ContextTokens());
  spec.max_sequences = static_cast<int>(config().Int("cache.max_sequences"));
  // Each group of ranks has its part of the prompts.
  if (spec.max_sequences == 0) spec.max_sequences = (needs.max_sequences - 1) / groups() + 1;
  spec.layouts = attention->layouts();

  const CodecNames codecs = CodecsOf(config());
  spec.codec_k = CodecFromName(codecs.k).value();
  spec.codec_v = CodecFromName(codecs.v).value();
  // A step that feeds a prompt drafts nothing.
  spec.max_step_tokens = std::min(std::max(StepTokens(needs), 1 + gamma()), spec.max_tokens);
  // A snapshot has all tokens, and so has a step whose logits are all wanted.
  // Nor does a store that lets tokens go by itself forget what a window hides.
  spec.windows_alone =
      !needs.snapshots && !needs.prompt_logits && boundary_tokens == 0 && !wants_context;
  RunCacheSpec in_pieces = spec;
  in_pieces.max_step_tokens = std::min(spec.max_step_tokens, kWindowStepTokens);
  const bool free_to_choose = config().Int("run.prefill_chunk") == 0;
  if (free_to_choose && HoldsWindows(in_pieces)) spec = in_pieces;
  if (boundary_tokens > 0) spec.max_step_tokens = std::min(spec.max_step_tokens, boundary_tokens);
  if (selection.drafter) spec.draft_tokens = 1 + gamma();
  spec.checkpoints = CheckpointsFor(spec);
  return spec;
}

int Assembly::CheckpointsFor(const RunCacheSpec& all) const {
  const bool needed = !model.spec.states.empty() || HoldsWindows(all);
  const bool shares = shares_pages && config().Bool("run.use_cache") && link == nullptr;
  return needed && shares ? static_cast<int>(config().Int("cache.checkpoints")) : 0;
}

int64_t Assembly::bounding_window() const { return sees_windows ? 0 : model.spec.window(); }

absl::Status Assembly::ChooseAttentionSpecs() {
  cache_layers = model.spec.CacheLayers();
  // A backend that cannot read values out of keys gets them apart.
  const bool v_in_k = std::ranges::count(attention->features(), kFeatureVInK) > 0;
  const auto specs_of = [&](bool with_window) {
    std::vector<AttentionSpec> specs = AttentionSpecsOf(model.spec, with_window);
    for (AttentionSpec& spec : specs) spec.v_in_k = spec.v_in_k && v_in_k;
    return specs;
  };
  sees_windows = true;
  attention_specs = specs_of(sees_windows);
  if (model.spec.window() == 0 || PlanCacheFor(SmallestCache()).ok()) return CheckCacheRuns();
  sees_windows = false;
  attention_specs = specs_of(sees_windows);
  return CheckCacheRuns();
}

RunCacheSpec Assembly::SmallestCache() const {
  RunCacheSpec spec = CacheSpecFor({1, 1});
  spec.max_tokens = spec.max_step_tokens = spec.max_sequences = 1;
  return spec;
}

absl::Status Assembly::CheckCacheRuns() {
  RunCacheSpec spec = SmallestCache();
  const absl::StatusOr<RunCachePlan> plan = PlanCacheFor(spec);
  if (plan.ok()) {
    shares_pages = plan->stores.share_tokens > 0;
    boundary_tokens = plan->stores.boundary_tokens;
    wants_context = plan->stores.mark;
    if (!wants_context || !Recomputes()) return absl::OkStatus();
    return UsageError(absl::StrCat(
        config().Describe("run.on_full"), " = recompute moves tokens to other positions, and ",
        selection.cache.Describe(), " lets tokens go at one; run.on_full = error does not"));
  }
  absl::Status status = plan.status();
  const std::string asked = absl::StrCat("keys ", View(CodecName(spec.codec_k)), ", values ",
                                         View(CodecName(spec.codec_v)));
  std::vector<std::string> runnable;
  for (const CodecInfo& info : kCodecTable) {
    spec.codec_k = spec.codec_v = info.codec;
    if (PlanCacheFor(spec).ok()) runnable.emplace_back(info.name);
  }
  if (runnable.empty()) return status;  // it is not the codecs
  return PluginError(
      absl::StrCat(config().Describe("cache.codec"), " = ", config().Text("cache.codec"), " (",
                   asked, "): ", selection.cache.Describe(), " with ",
                   selection.attention.Describe(), " can run: ", absl::StrJoin(runnable, ", ")));
}

}  // namespace ng
