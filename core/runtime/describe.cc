#include "core/runtime/describe.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/absl_view.h"
#include "core/text/chat/named_templates.h"

namespace ng {
namespace {

std::string Fate(TensorRole role, const ModelFile& model) {
  std::string fate(RoleTitle(role));
  if (role == TensorRole::kTokenEmbedding && model.spec.tied_head) fate += " and head";
  if (role == TensorRole::kHead && model.head_copy) fate += " again, must equal the embedding";
  return fate;
}

std::string Position(const ModelSpec& model) {
  if (model.position == PositionKind::kLearned) return "learned positions";
  std::string text = absl::StrCat(
      "rope ", model.rope_pairing == RopePairing::kHalfSplit ? "half-split" : "interleaved",
      " theta ", model.rope_theta);
  const RopeScaling& scaling = model.rope_scaling;
  switch (scaling.kind) {
    case RopeScalingKind::kNone:
      return model.rope_factors ? text + ", frequencies divided by a tensor's factors" : text;
    case RopeScalingKind::kLinear:
      return absl::StrCat(text, " scaled linear by ", scaling.factor);
    case RopeScalingKind::kLlama3:
      return absl::StrCat(text, " scaled llama3 by ", scaling.factor, " (turns ",
                          scaling.low_freq_factor, " to ", scaling.high_freq_factor, " of ",
                          scaling.original_positions, " positions)");
  }
  return text;
}

const char* ActivationTitle(Activation activation) {
  switch (activation) {
    case Activation::kSwiGlu:
      return "swiglu";
    case Activation::kGeluErf:
      return "gelu by erf";
    case Activation::kGeluTanh:
      return "gelu by tanh";
  }
  return "unknown";
}

// The sliding window, where it is, and what a run that is longer meets.
std::string Window(const Assembly& assembly) {
  const ModelSpec& model = assembly.model.spec;
  std::string text = absl::StrCat("sliding window ", model.window);
  if (const auto n_full = std::ranges::count(model.full_layers, true); n_full > 0) {
    absl::StrAppend(&text, " in ", model.shape.n_layers - n_full, " of ", model.shape.n_layers,
                    " layers");
  }
  return text + (assembly.bounding_window() > 0 ? ", which a run must end within" : "");
}

// What this model's decoder is made of.
std::string Variants(const Assembly& assembly) {
  const ModelSpec& model = assembly.model.spec;
  std::vector<std::string> parts = {
      absl::StrCat(model.norm == NormKind::kRmsNorm ? "rms norm" : "layer norm",
                   model.norm_placement == NormPlacement::kPre ? " before" : " after",
                   " each block", model.norm_affine ? "" : " without weights", ", eps ",
                   model.norm_eps),
      Position(model), ActivationTitle(model.activation)};
  if (model.window > 0) parts.push_back(Window(assembly));
  if (model.qk_norm) parts.emplace_back("norms of q and k heads");
  std::vector<std::string> biases;
  if (model.norm_bias) biases.emplace_back("norms");
  if (model.qkv_bias) biases.emplace_back("q, k, v");
  if (model.attn_out_bias) biases.emplace_back("attention output");
  if (model.mlp_bias) biases.emplace_back("mlp");
  parts.push_back(biases.empty() ? "no biases" : "biases of " + absl::StrJoin(biases, ", "));
  parts.emplace_back(model.tied_head ? "head tied to the embedding" : "head of its own");
  return absl::StrJoin(parts, "; ");
}

void AppendTensor(const TensorInfo& tensor, std::string_view fate, std::string* out) {
  absl::StrAppend(out, "  ", tensor.name, " ", View(DTypeName(tensor.dtype)), " ",
                  ShapeString(tensor.shape), " -> ", View(fate), "\n");
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
    for (const WeightType type :
         {layer.q, layer.k, layer.v, layer.attn_out, layer.gate, layer.up, layer.down}) {
      names.emplace(WeightTypeName(type));
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

}  // namespace

std::string DescribeRun(const Assembly& assembly, const RunPlan& plan) {
  const ModelSpec& model = assembly.model.spec;
  std::string out = "config\n";
  for (const absl::string_view line : absl::StrSplit(assembly.config().ToAnnotated(), '\n')) {
    if (!line.empty()) absl::StrAppend(&out, "  ", line, "\n");
  }
  if (!assembly.warnings.lines().empty()) {
    absl::StrAppend(&out, "warnings\n  ", absl::StrJoin(assembly.warnings.lines(), "\n  "), "\n");
  }
  absl::StrAppend(&out, "plugins\n  ", assembly.selection.attention.Describe(), "\n  ",
                  assembly.selection.cache.Describe(), "\n");
  for (const LoadedPlugin& stage : assembly.selection.stages) {
    absl::StrAppend(&out, "  ", stage.Describe(), "\n");
  }
  for (const PartFactory::Used& part : assembly.parts->used()) {
    absl::StrAppend(&out, "  used by them: ", part.plugin.Describe(),
                    part.options.empty() ? "" : ", ", part.options, "\n");
  }
  if (!assembly.unused_sampling.empty()) {
    absl::StrAppend(&out, "  ", assembly.unused_sampling, "\n");
  }
  absl::StrAppend(&out, "machine\n  isa ", View(IsaName(assembly.isa)), ", threads ",
                  assembly.executor->threads(), "\n");
  absl::StrAppend(&out, "model ", assembly.model.source->path(),
                  assembly.model.made_up ? " with random weights" : "", "\n  family ", model.family,
                  ", layers ", model.shape.n_layers, ", heads ", model.shape.n_heads, "/",
                  model.shape.n_kv_heads, ", head_dim ", model.shape.head_dim, ", width ",
                  model.width, ", ffn ", model.ffn_width, ", vocabulary ", model.shape.vocab_size,
                  ", T_max ", model.context(), ", weights held as ", HeldAs(assembly.weight_types),
                  "\n  ", Variants(assembly), "\n");
  for (const TensorBinding& binding : assembly.model.bindings) {
    const std::string layer = binding.layer < 0 ? "" : absl::StrCat("layer ", binding.layer, " ");
    const std::string part = binding.n_parts == 1 ? "" : absl::StrCat("part ", binding.part, ": ");
    AppendTensor(*binding.tensor, part + layer + Fate(binding.role, assembly.model), &out);
  }
  for (const TensorInfo* tensor : assembly.model.unused) AppendTensor(*tensor, "unused", &out);
  absl::StrAppend(&out, "tokenizer ",
                  assembly.tokenizer == nullptr ? "none" : assembly.tokenizer_path,
                  "\n  chat_template ", ChatText(assembly), ", stop ids ",
                  assembly.stop_ids.empty() ? "none" : absl::StrJoin(assembly.stop_ids, ","), "\n");
  absl::StrAppend(&out, "memory for ", plan.max_sequences, " x ", plan.max_tokens, " tokens, ",
                  StoredAs(plan), "\n  weights ", plan.weights.bytes(), " bytes, cache ",
                  plan.cache.bytes, ", activations ", plan.activation_bytes, ", reading ",
                  plan.load_scratch_bytes, "\n  needed ", plan.needed_bytes(), ", available ",
                  plan.available_bytes, "\n");
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
