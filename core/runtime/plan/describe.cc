#include "core/runtime/plan/describe.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/absl_view.h"
#include "core/model/spec/spec_text.h"
#include "core/text/chat/named_templates.h"

namespace ng {
namespace {

std::string Fate(TensorRole role, const ModelFile& model) {
  std::string fate(RoleTitle(role));
  if (role == TensorRole::kTokenEmbedding && model.spec.head.tied) fate += " and head";
  if (role == TensorRole::kHead && model.head_copy) fate += " again, must equal the embedding";
  return fate;
}

// The model's blocks, and what a run that is longer than a sliding window meets.
std::string Blocks(const Assembly& assembly) {
  const std::vector<std::string> lines = SpecLines(assembly.model.spec);
  const int64_t window = assembly.bounding_window();
  return absl::StrCat(absl::StrJoin(lines, "\n  "),
                      window > 0
                          ? absl::StrCat("\n  a run must end within the sliding window ", window)
                          : std::string());
}

void AppendTensor(const TensorInfo& tensor, std::string_view fate, std::string* out) {
  absl::StrAppend(out, "  ", tensor.name, " ", View(DTypeName(tensor.dtype)), " ",
                  ShapeString(tensor.shape), " -> ", View(fate), "\n");
}

// Each key and where its value comes from; for a screen without the keys of ng-serve that nobody
// sets.
void AppendConfig(const Config& config, DescribeDetail detail, std::string* out) {
  *out += "config\n";
  for (const absl::string_view line : absl::StrSplit(config.ToAnnotated(), '\n')) {
    const bool of_the_server =
        absl::StartsWith(line, "serve.") && absl::EndsWith(line, "  (default)");
    if (line.empty() || (of_the_server && detail == DescribeDetail::kScreen)) continue;
    absl::StrAppend(out, "  ", line, "\n");
  }
}

// What becomes of each tensor; for a screen, of how many.
void AppendTensors(const ModelFile& model, DescribeDetail detail, std::string* out) {
  if (detail == DescribeDetail::kScreen) {
    std::set<const TensorInfo*> used;
    for (const TensorBinding& binding : model.bindings) used.insert(binding.tensor);
    // A tensor of another shape, or one that is missing, is an error before this.
    absl::StrAppend(out, "  tensors: ", used.size(), " used, all of the expected shapes, ",
                    model.unused.size(), " unused; -v lists them\n");
    return;
  }
  for (const TensorBinding& binding : model.bindings) {
    const auto& [layer, expert] = binding.at;
    std::string place = binding.n_parts == 1 ? "" : absl::StrCat("part ", binding.part, ": ");
    if (layer >= 0) absl::StrAppend(&place, "layer ", layer, " ");
    if (expert >= 0) {
      absl::StrAppend(&place, IsOfExpert(binding.role) ? "expert " : "head ", expert, " ");
    }
    AppendTensor(*binding.tensor, place + Fate(binding.role, model), out);
  }
  for (const TensorInfo* tensor : model.unused) AppendTensor(*tensor, "unused", out);
}

// What keys and values are stored as, and what is to be known of how.
std::string StoredAs(const RunPlan& plan) {
  const std::string& codec = plan.cache.codec;
  if (!codec.empty()) return absl::StrCat("keys and values ", OneLine(codec));
  return absl::StrCat("keys ", View(CodecName(plan.codec_k)), ", values ",
                      View(CodecName(plan.codec_v)));
}

// The types of the layers' matrices, then those of embedding and head where they differ.
std::string HeldAs(const WeightTypes& types) {
  std::set<std::string> names;
  for (const LayerWeightTypes& layer : types.layers) {
    for (const BlockWeightTypes& block : layer) {
      for (const WeightType type : block.All()) names.emplace(WeightTypeName(type));
    }
  }
  std::string text = absl::StrJoin(names, "+");
  if (names.count(std::string(WeightTypeName(types.embedding))) == 0) {
    absl::StrAppend(&text, ", embedding as ", View(WeightTypeName(types.embedding)));
  }
  if (types.head != types.embedding) {
    absl::StrAppend(&text, ", head as ", View(WeightTypeName(types.head)));
  }
  return text;
}

// The chat template, and what it is told that is another thing tomorrow.
std::string ChatText(const Assembly& assembly) {
  if (assembly.chat == nullptr) return std::string(kNoTemplate);
  const std::string& date = assembly.chat->date();
  if (date.empty()) return assembly.chat->name();
  return absl::StrCat(assembly.chat->name(), " told the date ", date,
                      assembly.config().IsDefault("run.date") ? ", which is today's" : "");
}

// Where the model's own end tokens stand, if they end a run.
std::string StopOrigin(const Assembly& assembly) {
  const bool own = assembly.config().Text("run.stop_ids") == "auto";
  if (!own || assembly.model.eos_ids.empty()) return "";
  return absl::StrCat("  stop ids ", absl::StrJoin(assembly.model.eos_ids, ","), " from ",
                      assembly.model.eos_origin, "\n");
}

// "looks at embed", "edits layer1.out and 3 more points".
std::string UseText(const ProbeUse& use) {
  if (use.points.empty()) return "looks at no point";
  const bool edits = std::ranges::any_of(use.points, &ProbePoint::edits);
  std::string text = absl::StrCat(edits ? "edits " : "looks at ", PointText(use.points.front().at));
  const size_t n_more = use.points.size() - 1;
  if (n_more > 0) absl::StrAppend(&text, " and ", n_more, n_more == 1 ? " more" : " more points");
  return text;
}

void AppendAdapters(const RunAdapters& adapters, std::string* out) {
  const auto append = [&](const std::string& what, const ScaledAdapter& adapter) {
    absl::StrAppend(out, "  ", what, adapter.file.path, ", scale ", adapter.scale, ", adds to ",
                    adapter.file.pairs.size(), " tensors, replaces ", adapter.file.replaced.size(),
                    "\n");
  };
  for (const ScaledAdapter& adapter : adapters.always) append("adapter ", adapter);
  for (size_t i = 0; i < adapters.named.size(); ++i) {
    append(absl::StrCat("adapter ", adapters.names[i], " of requests, "), adapters.named[i]);
  }
}

}  // namespace

std::string DescribeRun(const Assembly& assembly, const RunPlan& plan, DescribeDetail detail) {
  const ModelSpec& model = assembly.model.spec;
  std::string out;
  AppendConfig(assembly.config(), detail, &out);
  if (!assembly.warnings.lines().empty()) {
    absl::StrAppend(&out, "warnings\n  ", absl::StrJoin(assembly.warnings.lines(), "\n  "), "\n");
  }
  absl::StrAppend(&out, "plugins\n  ", assembly.selection.attention.Describe(), "\n  ",
                  assembly.selection.cache.Describe(), "\n");
  for (const LoadedPlugin& stage : assembly.selection.stages) {
    absl::StrAppend(&out, "  ", stage.Describe(), "\n");
  }
  for (size_t i = 0; i < assembly.selection.probes.size(); ++i) {
    absl::StrAppend(&out, "  ", assembly.selection.probes[i].Describe(), ", ",
                    UseText(assembly.probes->use(i)), "\n");
  }
  if (assembly.selection.drafter) {
    absl::StrAppend(&out, "  ", assembly.selection.drafter->Describe(), ", up to ",
                    assembly.gamma(), " tokens a step",
                    assembly.WhyNoDrafts().empty() ? "" : "; drafts nothing: ",
                    View(assembly.WhyNoDrafts()), "\n");
  }
  if (plan.ranks > 1) {
    absl::StrAppend(
        &out, "  ", assembly.selection.fabric.Describe(), ", rank ", plan.rank, " of ", plan.ranks,
        "; ", plan.by_layers ? "each rank hands on " : "all ranks give together ",
        plan.gathered_row_bytes, " bytes for a token", plan.by_layers ? ", and " : " and ",
        plan.gathered_logit_bytes, plan.by_layers ? " are sent" : "", " for its logits\n");
  }
  for (const PartFactory::Used& part : assembly.parts->used()) {
    absl::StrAppend(&out, "  used by them: ", part.plugin.Describe(),
                    part.options.empty() ? "" : ", ", part.options, "\n");
  }
  if (!assembly.unused_sampling.empty()) {
    absl::StrAppend(&out, "  ", assembly.unused_sampling, "\n");
  }
  absl::StrAppend(&out, "machine\n  isa ", View(IsaName(assembly.isa)), ", arithmetic ",
                  ArithmeticOf(assembly.isa).ToString(), ", threads ", assembly.executor->threads(),
                  "\n");
  absl::StrAppend(&out, "model ", assembly.model.source->path(),
                  assembly.model.random_weights ? " with random weights" : "", "\n  family ",
                  model.family, ", layers ", model.shape.n_layers, ", heads ", model.shape.n_heads,
                  "/", model.shape.n_kv_heads, ", head_dim ", model.shape.head_dim, ", width ",
                  model.width, ", vocabulary ", model.shape.vocab_size, ", T_max ", model.context(),
                  ", weights held as ", HeldAs(assembly.weight_types),
                  assembly.packed ? ", mapped from " + assembly.packed->path() : "", "\n  ",
                  Blocks(assembly), "\n", plan.quantised);
  AppendAdapters(assembly.adapters, &out);
  AppendTensors(assembly.model, detail, &out);
  absl::StrAppend(&out, "tokenizer ",
                  assembly.tokenizer == nullptr ? "none" : assembly.tokenizer_path,
                  "\n  chat_template ", ChatText(assembly), ", stop ids ",
                  assembly.stop_ids.empty() ? "none" : absl::StrJoin(assembly.stop_ids, ","), "\n",
                  StopOrigin(assembly));
  absl::StrAppend(&out, "memory for ", plan.max_sequences, " x ", plan.max_tokens, " tokens, ",
                  StoredAs(plan), "\n  weights ", plan.weights.bytes(), " bytes, cache ",
                  plan.cache.bytes,
                  plan.state_bytes > 0 ? absl::StrCat(", states ", plan.state_bytes) : "",
                  plan.drafter_bytes > 0 ? absl::StrCat(", drafter ", plan.drafter_bytes) : "",
                  plan.adapter_bytes > 0 ? absl::StrCat(", adapters ", plan.adapter_bytes) : "",
                  ", activations ", plan.activation_bytes, ", reading ", plan.load_scratch_bytes,
                  plan.read_in_step ? " in the first step" : "", "\n  needed ", plan.needed_bytes(),
                  ", available ", plan.available_bytes, "\n");
  for (const HeldLayers& layers : plan.held) absl::StrAppend(&out, "  ", HeldLine(layers), "\n");
  if (plan.cache.slots > 0) absl::StrAppend(&out, "  ", SlotsLine(plan.cache), "\n");
  const std::string reads = ReadsLine(plan.step.cache_reads, plan.max_tokens);
  if (!reads.empty()) absl::StrAppend(&out, "  ", reads, "\n");
  if (plan.checkpoints > 0) absl::StrAppend(&out, "  ", CheckpointsLine(plan.checkpoints), "\n");
  if (plan.cache.disk_bytes > 0) {
    absl::StrAppend(&out, "  the cache's files ", plan.cache.disk_bytes, " bytes\n");
  }
  if (plan.cache.approximate) {
    absl::StrAppend(&out, "  ", ApproximateText(assembly.selection.cache), "\n");
  }
  return out;
}

std::string ApproximateText(const LoadedPlugin& cache) {
  return absl::StrCat(cache.Describe(), " is approximate: it drops tokens or rounds them by what ",
                      "was attended, so an answer may depend on how its text was split into steps");
}

absl::Status NoChatTemplate(const Assembly& assembly) {
  return UsageError(absl::StrCat("the model ", assembly.model.source->path(),
                                 " has no chat template; set tokenizer.chat_template (",
                                 ChatTemplateNames(), " or a file), or use --prompt"));
}

}  // namespace ng
