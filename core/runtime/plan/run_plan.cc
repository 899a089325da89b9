#include "core/runtime/plan/run_plan.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/checked.h"
#include "core/model/load/read_sizes.h"
#include "core/model/ops/layer_attention.h"
#include "core/model/ops/state_store.h"
#include "core/model/ranks/layer_split.h"
#include "core/model/step/step_sizes.h"
#include "core/model/weights/rank_split.h"
#include "core/model/weights/tensor_roles.h"
#include "core/model/weights/weight_sizes.h"
#include "core/runtime/loop/checkpoints.h"
#include "core/runtime/watch/row_recorder.h"
#include "ng/process_memory.h"

namespace ng {
namespace {

// Tokens fed to each sequence in the largest step, and how many are there after the last such step.
struct Feeding {
  int64_t n_tokens = 0;
  int64_t end = 0;
};

Feeding LargestFeeding(const Assembly& assembly, const PlanChoices& choices,
                       const RunNeeds& needs) {
  const Config& config = assembly.config();
  const CacheSpec& spec = choices.cache;
  Feeding feeding;
  const bool known = needs.max_prompt > 0 && config.Bool("run.use_cache");
  const int64_t first = std::max(needs.max_prompt, 1 + assembly.gamma());
  feeding.end = known ? std::min(first, spec.max_tokens) : spec.max_tokens;
  feeding.n_tokens = std::min(spec.max_step_tokens, feeding.end);
  return feeding;
}

// Where a step ends, and how many tokens have left there.
struct StepEnd {
  int64_t pos = 0;
  int64_t gone = 0;
  bool attended = false;  // the cache is told what was attended
};

// What the attention backend wants for a step in which each sequence gets `n_tokens` that end at
// `end`: its scratch and its plans.
absl::StatusOr<int64_t> AttentionBytes(const Assembly& assembly, int n_sequences, int64_t n_tokens,
                                       const StepEnd& end) {
  std::vector<SequenceRows> rows;
  for (int i = 0; i < n_sequences; ++i) {
    rows.push_back({static_cast<SequenceId>(i), end.pos - n_tokens, n_tokens, i * n_tokens});
    rows.back().gone = end.gone;
    rows.back().mass_tokens = end.attended ? n_tokens : 0;
  }
  NG_ASSIGN_OR_RETURN(LayerAttention attention,
                      LayerAttention::Make(*assembly.attention, assembly.attention_specs));
  NG_RETURN_IF_ERROR(attention.Plan(rows));
  return SaturatingAdd(SaturatingMul(attention.scratch_floats(), sizeof(float)),
                       attention.plan_bytes());
}

// Tokens that the cache has room for: a step feeds no more rows. A store that drops tokens takes
// more than it has room for, and so does one that holds windows.
int64_t CacheTokens(const CachePlan& cache, const CacheSpec& spec, bool holds_windows) {
  if (cache.holes || cache.slots > 0 || holds_windows) {
    return SaturatingMul(spec.max_tokens, spec.max_sequences);
  }
  return SaturatingAdd(cache.bytes, cache.disk_bytes) / cache.bytes_per_token;
}

// Rows of a step of so many that are computed at a time.
int64_t RowsAtATime(const RunPlan& plan, int64_t n_rows) {
  const bool pieces = plan.by_layers && !plan.cache.holes && !plan.cache.attended;
  return pieces ? MostPieceRows(n_rows, plan.ranks) : n_rows;
}

// The same for the largest of a run's steps: its first, the last of a prompt, the last of all.
absl::StatusOr<int64_t> AttentionBytes(const Assembly& assembly, const RunPlan& plan,
                                       int64_t cache_tokens, const Feeding& feeding) {
  int64_t most = 0;
  const Feeding steps[] = {{feeding.n_tokens, feeding.n_tokens},
                           feeding,
                           {std::min(1 + assembly.gamma(), plan.max_tokens), plan.max_tokens}};
  for (const Feeding& step : steps) {
    const int64_t fitting = cache_tokens / std::max<int64_t>(1, step.end);
    const int64_t n_sequences =
        std::min<int64_t>(plan.max_sequences, std::max<int64_t>(1, fitting));
    const int64_t n_rows = RowsAtATime(plan, SaturatingMul(n_sequences, step.n_tokens));
    const int64_t n_tokens = std::min(n_rows, step.n_tokens);
    const int64_t slots = plan.cache.slots > 0 ? plan.cache.most_slots() : step.end;
    const int64_t gone = std::max<int64_t>(0, step.end - slots);
    NG_ASSIGN_OR_RETURN(const int64_t bytes,
                        AttentionBytes(assembly, static_cast<int>((n_rows - 1) / n_tokens + 1),
                                       n_tokens, {step.end, gone, plan.cache.attended}));
    most = std::max(most, bytes);
  }
  return most;
}

// What the queries of a step of so many rows give to slots.
int64_t MassBytes(const RunPlan& plan, const ModelSpec& model, int64_t n_rows) {
  int64_t most_kv_heads = 1;
  for (const SelfAttentionSpec& attention : model.attentions) {
    most_kv_heads = std::max<int64_t>(most_kv_heads, attention.kv_heads());
  }
  const int64_t n_slots = plan.cache.slots > 0 ? plan.cache.most_slots() : plan.max_tokens;
  return SaturatingMul(SaturatingMul(n_rows, n_slots), most_kv_heads * int64_t{sizeof(float)});
}

// The queries of a step of so many rows, as they are before they are rotated.
int64_t QueryBytes(const ModelSpec& model, int64_t n_rows) {
  int64_t widest = 0;
  for (const SelfAttentionSpec& attention : model.attentions) {
    if (attention.rope >= 0) widest = std::max(widest, attention.q_width());
  }
  return SaturatingMul(n_rows, widest * int64_t{sizeof(float)});
}

}  // namespace

int64_t RunPlan::needed_bytes() const {
  const int64_t of_steps = SaturatingAdd(
      SaturatingAdd(cache.bytes, SaturatingAdd(state_bytes, drafter_bytes)), activation_bytes);
  const int64_t held = SaturatingAdd(weights.bytes(), adapter_bytes);
  return SaturatingAdd(held, read_in_step ? SaturatingAdd(load_scratch_bytes, of_steps)
                                          : std::max(load_scratch_bytes, of_steps));
}

std::string HeldLine(const HeldLayers& layers) {
  const std::string which =
      absl::StrCat(layers.n_layers, layers.n_layers == 1 ? " layer holds " : " layers hold ");
  if (layers.window == 0) return absl::StrCat(which, "all tokens");
  return absl::StrCat(which, "the last ", layers.tokens, " tokens, for a window of ",
                      layers.window);
}

std::string CheckpointsLine(int checkpoints) {
  return absl::StrCat("with room for ", checkpoints,
                      checkpoints == 1 ? " checkpoint" : " checkpoints",
                      " of texts, for requests that go on with them");
}

BytesRead ReadAt(std::span<const CacheReads> reads, int64_t length) {
  BytesRead sum;
  for (const CacheReads& of : reads) {
    const int64_t seen = of.window > 0 ? std::min(of.window, length) : length;
    const int64_t bytes = of.bytes_per_token - of.bounds_per_token;
    const bool chooses = of.most_keys > 0 && seen > of.most_keys;
    sum.keys_and_values += bytes * (chooses ? of.most_keys : seen);
    sum.bounds += chooses ? of.bounds_per_token * seen : 0;
    sum.all += bytes * seen;
  }
  return sum;
}

std::string ReadsLine(std::span<const CacheReads> reads, int64_t length) {
  int64_t per_token = 0;
  int64_t bounds = 0;
  for (const CacheReads& of : reads) {
    per_token += of.bytes_per_token;
    bounds += of.bounds_per_token;
  }
  if (bounds == 0) return "";
  const std::string line = absl::StrCat("bounds of keys take ", bounds, " of a token's ", per_token,
                                        " bytes; the step to ", length, " tokens reads ");
  const BytesRead read = ReadAt(reads, length);
  if (read.bounds == 0) return line + "all tokens";
  constexpr double kMegabyte = 1e6;
  return line + absl::StrFormat(
                    "%.3f of %.3f MB of keys and values, at most %d tokens of each kv head, "
                    "and %.3f MB of bounds",
                    static_cast<double>(read.keys_and_values) / kMegabyte,
                    static_cast<double>(read.all) / kMegabyte, reads.front().most_keys,
                    static_cast<double>(read.bounds) / kMegabyte);
}

std::string SlotsLine(const CachePlan& cache) {
  const std::string most = cache.head_slots == 0
                               ? absl::StrCat(cache.slots, " tokens")
                               : absl::StrCat(cache.slots, " tokens in a kv head on the average, ",
                                              cache.head_slots, " in any of them");
  return absl::StrCat("a sequence holds at most ", most, ": others leave ",
                      cache.mark ? "where its context ends"
                                 : absl::StrCat("at multiples of ", cache.boundary_tokens));
}

absl::Status CheckMemory(const RunPlan& plan) {
  if (plan.needed_bytes() <= plan.available_bytes) return absl::OkStatus();
  return LimitError(absl::StrCat(
      "the run needs ", plan.needed_bytes(), " bytes (weights ", plan.weights.bytes(), ", cache ",
      plan.cache.bytes,
      plan.state_bytes > 0 ? absl::StrCat(", states ", plan.state_bytes) : std::string(),
      plan.drafter_bytes > 0 ? absl::StrCat(", drafter ", plan.drafter_bytes) : std::string(),
      plan.adapter_bytes > 0 ? absl::StrCat(", adapters ", plan.adapter_bytes) : std::string(),
      ", activations ", plan.activation_bytes, plan.read_in_step ? ", " : ", or ", "reading ",
      plan.load_scratch_bytes, "), ", plan.available_bytes, " are available",
      plan.remedy.empty() ? "" : "; ", plan.remedy));
}

namespace {

// How the file's matrices are quantised, what they take as they are held, and what of it ng does
// otherwise; empty where they are not.
std::string QuantisedText(const Assembly& assembly, const WeightSizes& held) {
  const ModelFile& model = assembly.model;
  if (model.quantised.empty()) return "";
  int64_t n_values = 0;
  bool computed = false;
  for (const TensorBinding& binding : model.bindings) {
    if (!IsMatrix(binding.role)) continue;
    n_values += binding.n_elements();
    computed = computed || binding.tensor->dtype == DType::kComputed;
  }
  std::string text =
      absl::StrCat("  quantised by ", model.quantised, "; all matrices as they are held: ",
                   absl::StrFormat("%.2f", 8.0 * static_cast<double>(held.matrix_bytes()) /
                                               static_cast<double>(std::max<int64_t>(1, n_values))),
                   " bits a weight\n");
  if (computed && assembly.config().Text("model.weights") == "auto") {
    absl::StrAppend(&text, "  values that no packed type has are held as the nearest bf16; ",
                    "model.weights = f32 holds them as they are\n");
  }
  if (!model.not_rounded.empty()) {
    absl::StrAppend(
        &text, "  not rounded as the format would: ", absl::StrJoin(model.not_rounded, ", "), "\n");
  }
  return text;
}

}  // namespace

absl::StatusOr<RunPlan> PlanWith(const Assembly& assembly, const RunNeeds& needs,
                                 const PlanChoices& choices, int64_t available) {
  const ModelSpec& model = assembly.model.spec;
  const RunCacheSpec& spec = choices.cache;
  const int threads = assembly.executor->threads();
  RunPlan plan;
  plan.available_bytes = available;
  plan.max_tokens = spec.max_tokens;
  plan.max_sequences = spec.max_sequences;
  plan.codec_k = spec.codec_k;
  plan.codec_v = spec.codec_v;
  plan.weights = SizesOf(model, choices.weights);
  for (const std::vector<const ScaledAdapter*>& set : assembly.adapters.Sets()) {
    plan.adapter_bytes = SaturatingAdd(plan.adapter_bytes, AdapterBytes(set, assembly.model));
  }
  plan.quantised = QuantisedText(assembly, plan.weights);
  NG_ASSIGN_OR_RETURN(RunCachePlan cache, assembly.PlanCacheFor(spec));
  plan.cache = std::move(cache.stores);
  if (assembly.HoldsWindows(spec)) {
    for (const auto& [layers, own] : assembly.GroupsOf(spec)) {
      plan.held.push_back({own.n_layers, own.window, own.held_tokens()});
    }
  }
  plan.state_bytes = StateStore::Bytes(model, spec.state_room());
  plan.checkpoints = spec.checkpoints;
  plan.state_bytes =
      SaturatingAdd(plan.state_bytes, Checkpoints::Bytes(spec.checkpoints, spec.max_tokens));
  if (assembly.drafter != nullptr) {
    NG_ASSIGN_OR_RETURN(const DrafterPlan drafter,
                        assembly.drafter->Plan(assembly.DrafterSpecFor(spec)));
    plan.drafter_bytes = drafter.bytes;
  }
  // What is mapped is not read.
  plan.read_in_step = assembly.ReadsInStep(needs);
  plan.load_scratch_bytes = assembly.packed ? 0 : LoadScratchBytes(assembly.model, threads);
  plan.step = CostOf(model, choices.weights);
  plan.by_layers = model.layer_split.ranks > 1;
  plan.rank = plan.by_layers ? model.layer_split.rank : model.split.rank;
  plan.ranks = plan.by_layers ? model.layer_split.ranks : model.split.ranks;
  const GatheredBytes gathered = GatheredOf(model, choices.weights, Kernels(assembly.isa));
  plan.gathered_row_bytes = gathered.row;
  plan.gathered_logit_bytes = gathered.logits;
  plan.gathered_step_bytes = gathered.step;
  plan.gathered_piece_bytes = gathered.piece;
  plan.gathers = gathered.calls;
  plan.step.cache_bytes_per_token = plan.cache.bytes_per_token;
  plan.step.cache_reads = std::move(cache.reads);

  const Feeding feeding = LargestFeeding(assembly, choices, needs);
  const int64_t cache_tokens = CacheTokens(plan.cache, spec, !plan.held.empty());
  StepExtent extent;
  extent.n_rows = std::min(SaturatingMul(feeding.n_tokens, spec.max_sequences), cache_tokens);
  const int64_t n_chosen = SaturatingMul(1 + assembly.gamma(), spec.max_sequences);
  extent.n_logit_rows = needs.prompt_logits ? extent.n_rows : std::min(n_chosen, extent.n_rows);
  if (needs.prompt_logprobs) {
    extent.n_logit_rows =
        std::max(extent.n_logit_rows, std::min(extent.n_rows, n_chosen + kScoredRows));
  }
  extent.n_rows = RowsAtATime(plan, extent.n_rows);
  extent.threads = threads;
  const StepSizes sizes = SizesOfStep(
      model, RankParts(model), WidestRowsOf(Kernels(assembly.isa), model, choices.weights), extent);
  plan.activation_bytes = SaturatingAdd(sizes.bytes(), RopeTableBytes(model, spec.max_tokens));
  if (needs.snapshots) {
    const int64_t n_tokens = needs.max_prompt > 0 ? needs.max_prompt : spec.max_tokens;
    const int64_t tiles = (n_tokens - 1) / kTileTokens + 1;
    const int64_t image = plan.cache.sequence_images
                              ? plan.cache.bytes / std::max(1, spec.max_sequences)
                              : SaturatingMul(tiles, plan.cache.image_tile_bytes);
    plan.activation_bytes = SaturatingAdd(plan.activation_bytes, image);
  }
  if (plan.cache.attended) {
    plan.activation_bytes =
        SaturatingAdd(plan.activation_bytes, MassBytes(plan, model, extent.n_rows));
  }
  if (plan.cache.queries) {
    plan.activation_bytes = SaturatingAdd(plan.activation_bytes, QueryBytes(model, extent.n_rows));
  }
  // A step that is too large already is not worth cutting into items.
  if (plan.needed_bytes() <= available) {
    NG_ASSIGN_OR_RETURN(const int64_t attention,
                        AttentionBytes(assembly, plan, cache_tokens, feeding));
    plan.activation_bytes = SaturatingAdd(plan.activation_bytes, attention);
  }
  return plan;
}

}  // namespace ng
