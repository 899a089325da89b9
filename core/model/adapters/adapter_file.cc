#include "core/model/adapters/adapter_file.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/base/file.h"
#include "core/formats/gguf.h"
#include "core/formats/safetensors.h"
#include "core/model/adapters/peft_config.h"
#include "core/model/weights/tensor_roles.h"

namespace ng {
namespace {

// What a tensor of an adapter is, by the end of its name.
enum class TensorPart { kA, kB, kEmbeddingA, kEmbeddingB, kMagnitude, kWhole };
struct Ending {
  std::string_view text;
  TensorPart part;
};
constexpr std::array kPeftEndings = {
    Ending{".lora_A.weight", TensorPart::kA},
    Ending{".lora_B.weight", TensorPart::kB},
    Ending{".lora_embedding_A", TensorPart::kEmbeddingA},
    Ending{".lora_embedding_B", TensorPart::kEmbeddingB},
    Ending{".lora_magnitude_vector.weight", TensorPart::kMagnitude},
    Ending{".lora_magnitude_vector", TensorPart::kMagnitude},
};
// Parameters that hold a matrix of every expert.
constexpr const char* kGateUp = "gate_up_proj";
constexpr const char* kDown = "down_proj";

constexpr std::array kGgufEndings = {Ending{".lora_a", TensorPart::kA},
                                     Ending{".lora_b", TensorPart::kB}};

// A tensor's part, and the name before it.
template <size_t n>
std::pair<TensorPart, std::string> SplitName(const std::array<Ending, n>& endings,
                                             const std::string& name) {
  for (const Ending& ending : endings) {
    if (!name.ends_with(ending.text)) continue;
    return {ending.part, name.substr(0, name.size() - ending.text.size())};
  }
  return {TensorPart::kWhole, name};
}

class AdapterReader {
 public:
  AdapterReader(std::string path, const ModelFile& model, std::unique_ptr<TensorSource> source)
      : model_(model), bindings_(BindingsByTensorOf(model)) {
    file_.path = std::move(path);
    file_.source = std::move(source);
  }

  absl::StatusOr<AdapterFile> ReadPeft(const PeftConfig& config) {
    for (const TensorInfo& tensor : file_.source->tensors()) {
      NG_RETURN_IF_ERROR(AddPeft(tensor));
    }
    NG_RETURN_IF_ERROR(NameExperts(config));
    NG_RETURN_IF_ERROR(Finish());
    for (auto& [module, pair] : found_) {
      NG_ASSIGN_OR_RETURN(const int64_t rank, config.RankOf(module));
      if (AdapterFile::RankOf(pair) != rank) {
        return Wrong(*pair.b, absl::StrCat("adapter_config.json says rank ", rank));
      }
      if ((pair.magnitude != nullptr) != config.magnitudes) {
        return Wrong(*pair.b, config.magnitudes ? "has no magnitudes, which \"use_dora\" asks for"
                                                : "has magnitudes, which need \"use_dora\"");
      }
      NG_ASSIGN_OR_RETURN(pair.scale, config.ScaleOf(module));
      file_.pairs.push_back(pair);
    }
    return std::move(file_);
  }

  absl::StatusOr<AdapterFile> ReadGguf(double alpha) {
    for (const TensorInfo& tensor : file_.source->tensors()) {
      const auto [part, target] = SplitName(kGgufEndings, tensor.name);
      if (part == TensorPart::kWhole) return Wrong(tensor, "must end in .lora_a or .lora_b");
      NG_RETURN_IF_ERROR(AddPart(tensor, part, target));
    }
    NG_RETURN_IF_ERROR(Finish());
    for (auto& [module, pair] : found_) {
      // As llama.cpp: 0 says that the products count as they are.
      if (alpha != 0.0) pair.scale = alpha / static_cast<double>(AdapterFile::RankOf(pair));
      file_.pairs.push_back(pair);
    }
    return std::move(file_);
  }

 private:
  // What PEFT puts between a module and a tensor of what it has wrapped.
  static inline const std::string kBase = ".base_layer";

  absl::Status Wrong(const TensorInfo& tensor, const std::string& what) const {
    return ModelFileError(absl::StrCat(file_.source->path(), ": tensor \"", tensor.name, "\" ",
                                       ShapeString(tensor.shape), ": ", what));
  }

  absl::Status AddPeft(const TensorInfo& tensor) {
    constexpr std::string_view kPrefix = "base_model.model.";
    if (!tensor.name.starts_with(kPrefix)) {
      return Wrong(tensor, "the name must begin with base_model.model.");
    }
    // Older files name the adapter, which is called default.
    const std::string name = absl::StrReplaceAll(tensor.name.substr(kPrefix.size()),
                                                 {{".default", ""}, {".modules_to_save", ""}});
    auto [part, module] = SplitName(kPeftEndings, name);
    if (part == TensorPart::kWhole) module = absl::StrReplaceAll(name, {{kBase, ""}});
    if (part == TensorPart::kWhole && absl::StrContains(name, ".lora_")) {
      return Wrong(tensor, "is a part of LoRA that ng does not run");
    }
    return AddPart(tensor, part, module);
  }

  absl::Status AddPart(const TensorInfo& tensor, TensorPart part, const std::string& module) {
    if (!IsWeightDType(tensor.dtype)) {
      return Wrong(tensor, absl::StrCat("has type ", std::string(DTypeName(tensor.dtype)),
                                        ", which weights cannot have"));
    }
    if (part == TensorPart::kWhole) return AddWhole(tensor, module);
    AdapterPair& pair = found_[module];
    pair.of_embedding |= part == TensorPart::kEmbeddingA || part == TensorPart::kEmbeddingB;
    const TensorInfo*& place = part == TensorPart::kMagnitude ? pair.magnitude
                               : part == TensorPart::kA || part == TensorPart::kEmbeddingA ? pair.a
                                                                                           : pair.b;
    if (place != nullptr) {
      return Wrong(tensor, absl::StrCat("is the same as \"", place->name, "\""));
    }
    place = &tensor;
    return absl::OkStatus();
  }

  absl::Status AddWhole(const TensorInfo& tensor, const std::string& name) {
    const TensorBinding* const binding = FindBinding(name);
    if (binding == nullptr) return Wrong(tensor, NotThere(name));
    if (binding->tensor->shape != tensor.shape) {
      return Wrong(tensor,
                   absl::StrCat("the model's tensor is ", ShapeString(binding->tensor->shape)));
    }
    file_.replaced.push_back({binding->tensor->name, &tensor});
    return absl::OkStatus();
  }

  std::string NotThere(const std::string& name) const {
    const bool tied = model_.spec.head.tied && name == "lm_head.weight";
    return absl::StrCat("the model has no tensor \"", name, "\"",
                        tied ? ", its head is tied to the embedding" : "", ": ",
                        model_.source->path());
  }

  // A name may come from a program that holds the model without its head, or with it.
  const TensorBinding* FindBinding(const std::string& name) const {
    std::vector<std::string> names = {name, absl::StrCat("model.", name)};
    if (name.starts_with("model.")) names.push_back(name.substr(6));
    for (const std::string& one : names) {
      const auto found = bindings_.find(one);
      if (found == bindings_.end()) continue;
      for (const TensorBinding* const binding : found->second) {
        if (!model_.head_copy || binding->role != TensorRole::kHead) return binding;
      }
    }
    return nullptr;
  }

  // Pairs of parameters of experts have the module's name. Of two parameters the first is wrapped
  // first, so its tensors are those of the base.
  absl::Status NameExperts(const PeftConfig& config) {
    if (config.parameters.empty()) return absl::OkStatus();
    for (const std::string& parameter : config.parameters) {
      if (parameter.ends_with(kGateUp) || parameter.ends_with(kDown)) continue;
      return ModelFileError(absl::StrCat(file_.path,
                                         "/adapter_config.json: key "
                                         "\"target_parameters\" has \"",
                                         parameter,
                                         "\", must be gate_up_proj or down_proj of experts"));
    }
    const auto targets = [&](std::string_view name) {
      return std::ranges::any_of(config.parameters,
                                 [&](const std::string& one) { return one.ends_with(name); });
    };
    std::map<std::string, AdapterPair> named;
    for (const auto& [module, pair] : found_) {
      const bool inner = module.ends_with(kBase);
      const std::string experts = module.substr(0, module.size() - (inner ? kBase.size() : 0));
      if (!experts.ends_with("experts")) {
        named.emplace(module, pair);
        continue;
      }
      const bool both = inner || found_.count(experts + kBase) > 0;
      const bool gate_up = both ? inner : targets(kGateUp);
      AdapterPair& own = named[absl::StrCat(experts, ".", gate_up ? kGateUp : kDown)] = pair;
      own.target = gate_up ? kGateUp : kDown;
      const TensorInfo* const any = pair.a != nullptr ? pair.a : pair.b;
      if (!both && targets(kGateUp) && targets(kDown)) {
        return Wrong(*any, "is of one of two parameters of the experts, without the other");
      }
      own.experts_layer = LayerIn(experts);
      if (own.experts_layer < 0) return Wrong(*any, NotThere(experts));
    }
    found_ = std::move(named);
    return absl::OkStatus();
  }

  // The layer with experts that a name such as "model.layers.3.mlp.experts" is of; -1: none.
  int LayerIn(const std::string& name) const {
    for (const absl::string_view part : absl::StrSplit(name, '.')) {
      int layer = -1;
      if (!absl::SimpleAtoi(part, &layer)) continue;
      const bool there = layer >= 0 && layer < model_.spec.shape.n_layers;
      return there && ExpertsOf(model_.spec, layer) > 0 ? layer : -1;
    }
    return -1;
  }

  // A pair of all experts of a layer.
  absl::Status CheckExperts(AdapterPair* pair) const {
    const int layer = pair->experts_layer;
    const bool gate_up = pair->target == kGateUp;
    const std::vector<int64_t> shape = RoleShape(
        gate_up ? TensorRole::kExpertGateUp : TensorRole::kExpertDown, model_.spec, layer);
    pair->n_experts = ExpertsOf(model_.spec, layer);
    if (shape.size() != 2) return Wrong(*pair->b, NotThere(pair->target));
    // PEFT takes the last extent of a parameter for the inputs, unless the module says otherwise;
    // in transformers gpt_oss alone does.
    const auto stored = std::ranges::find_if(model_.bindings, [&](const TensorBinding& binding) {
      return binding.at.layer == layer && IsOfExpert(binding.role) && IsMatrix(binding.role);
    });
    pair->turned = stored->transposed && model_.spec.family != "gpt_oss";
    const int64_t n_inputs = shape[pair->turned ? 0 : 1];
    const int64_t n_outputs = shape[pair->turned ? 1 : 0];
    const int64_t columns = pair->b->shape.size() == 2 ? pair->b->shape[1] : 0;
    const std::string of = absl::StrCat(" for ", pair->target, " of layer ", layer);
    if (columns < 1 || columns % pair->n_experts != 0 || pair->b->shape[0] != n_outputs) {
      return Wrong(*pair->b,
                   absl::StrCat("must be [", n_outputs, ", rank * ", pair->n_experts, "]", of));
    }
    if (pair->a->shape == std::vector<int64_t>{columns, n_inputs}) return absl::OkStatus();
    return Wrong(*pair->a, absl::StrCat("must be [", columns, ", ", n_inputs, "]", of));
  }

  // Finds the target of each pair, and compares their shapes.
  absl::Status Finish() {
    for (auto& [module, pair] : found_) {
      const TensorInfo* const any = pair.a != nullptr   ? pair.a
                                    : pair.b != nullptr ? pair.b
                                                        : pair.magnitude;
      if (pair.a == nullptr || pair.b == nullptr) {
        return Wrong(*any, absl::StrCat("has no ", pair.a == nullptr ? "a" : "b",
                                        " beside it: a pair of matrices adds to a weight"));
      }
      if (pair.experts_layer >= 0) {
        NG_RETURN_IF_ERROR(CheckExperts(&pair));
        continue;
      }
      const std::string name = model_.of_gguf ? module : module + ".weight";
      const TensorBinding* const binding = FindBinding(name);
      if (binding == nullptr) return Wrong(*any, NotThere(name));
      pair.target = binding->tensor->name;
      NG_RETURN_IF_ERROR(CheckPair(*binding, &pair));
    }
    if (found_.empty() && file_.replaced.empty()) {
      return ModelFileError(file_.source->path() + ": holds no tensor");
    }
    return absl::OkStatus();
  }

  absl::Status CheckPair(const TensorBinding& binding, AdapterPair* pair) const {
    const std::vector<int64_t>& shape = binding.tensor->shape;
    const bool embedding = binding.role == TensorRole::kTokenEmbedding;
    if (binding.role == TensorRole::kLayerEmbedding) {
      return Wrong(*pair->a, absl::StrCat("adds to \"", pair->target,
                                          "\", the layers' own embedding, which does not run"));
    }
    if (embedding != pair->of_embedding && !model_.of_gguf) {
      return Wrong(*pair->a, embedding ? "an embedding has lora_embedding_A" : "is no embedding");
    }
    pair->of_embedding = embedding;
    pair->rows_first = embedding && model_.of_gguf;
    const bool of_head = binding.role == TensorRole::kKUp || binding.role == TensorRole::kVUp;
    const bool whole = binding.n_parts == 1 || of_head;
    if (shape.size() != 2 || !whole || !IsMatrix(binding.role)) {
      return Wrong(*pair->a, absl::StrCat("adds to \"", pair->target, "\" ", ShapeString(shape),
                                          ", which is not one matrix"));
    }
    if (embedding && pair->magnitude != nullptr) {
      return Wrong(*pair->magnitude, "an embedding with magnitudes does not run");
    }
    // A linear layer is [outputs, inputs], but in GPT-2; an embedding [vocab_size, width].
    const bool turned = embedding || (binding.transposed && !of_head);
    const int64_t n_inputs = shape[turned ? 0 : 1];
    const int64_t n_outputs = shape[turned ? 1 : 0];
    const auto is = [](const TensorInfo& tensor, int64_t rows, int64_t columns) {
      return tensor.shape == std::vector<int64_t>{rows, columns};
    };
    if (pair->b->shape.size() != 2) return Wrong(*pair->b, "must be [outputs, rank]");
    const int64_t rank = pair->b->shape[1];
    if (rank < 1 || !is(*pair->b, n_outputs, rank)) {
      return Wrong(*pair->b, absl::StrCat("must be [", n_outputs, ", rank] for \"", pair->target,
                                          "\" ", ShapeString(shape)));
    }
    const bool fits =
        pair->rows_first ? is(*pair->a, n_inputs, rank) : is(*pair->a, rank, n_inputs);
    if (!fits) {
      return Wrong(*pair->a, absl::StrCat("must be [", pair->rows_first ? n_inputs : rank, ", ",
                                          pair->rows_first ? rank : n_inputs, "] for \"",
                                          pair->target, "\" ", ShapeString(shape)));
    }
    if (pair->magnitude != nullptr && pair->magnitude->n_elements != n_outputs) {
      return Wrong(*pair->magnitude, absl::StrCat("must have ", n_outputs, " values"));
    }
    return absl::OkStatus();
  }

  const ModelFile& model_;
  const BindingsByTensor bindings_;
  AdapterFile file_;
  std::map<std::string, AdapterPair> found_;  // by the module's name, or a GGUF tensor's
};

absl::StatusOr<AdapterFile> OpenPeft(const std::string& path, const ModelFile& model,
                                     const KeyPolicy& keys) {
  if (model.of_gguf) {
    return ModelFileError(absl::StrCat(path, ": is an adapter of a folder's tensors, the model ",
                                       model.source->path(),
                                       " is a GGUF file; llama.cpp's convert_lora_to_gguf.py "
                                       "makes a GGUF adapter of it"));
  }
  NG_ASSIGN_OR_RETURN(const PeftConfig config, ReadPeftConfig(path + "/adapter_config.json", keys));
  const std::string weights = path + "/adapter_model.safetensors";
  if (!MayExist(weights) && MayExist(path + "/adapter_model.bin")) {
    return ModelFileError(weights +
                          ": is not there but adapter_model.bin, which may hold code and is not "
                          "read; save_pretrained of PEFT writes the .safetensors file");
  }
  NG_ASSIGN_OR_RETURN(std::unique_ptr<TensorSource> source, OpenSafetensors(weights));
  return AdapterReader(path, model, std::move(source)).ReadPeft(config);
}

absl::StatusOr<AdapterFile> OpenGgufAdapter(const std::string& path, const ModelFile& model) {
  NG_ASSIGN_OR_RETURN(GgufFile gguf, OpenGguf(path));
  const JsonFields fields = gguf.metadata.fields();
  NG_ASSIGN_OR_RETURN(const auto type, fields.OptionalText("general.type"));
  NG_ASSIGN_OR_RETURN(const auto kind, fields.OptionalText("adapter.type"));
  if (type.value_or("") != "adapter" || kind.value_or("") != "lora") {
    return ModelFileError(absl::StrCat(path, ": key \"general.type\" = \"", type.value_or(""),
                                       "\", \"adapter.type\" = \"", kind.value_or(""),
                                       "\": an adapter has \"adapter\" and \"lora\""));
  }
  if (!model.of_gguf) {
    return ModelFileError(absl::StrCat(path, ": is an adapter of a GGUF file's tensors, the model ",
                                       model.source->path(), " is a folder"));
  }
  NG_ASSIGN_OR_RETURN(const double alpha, fields.Number("adapter.lora.alpha", {-1e6, 1e6}));
  return AdapterReader(path, model, std::move(gguf.tensors)).ReadGguf(alpha);
}

}  // namespace

BindingsByTensor BindingsByTensorOf(const ModelFile& model) {
  BindingsByTensor bindings;
  for (const TensorBinding& binding : model.bindings) {
    bindings[binding.tensor->name].push_back(&binding);
  }
  return bindings;
}

absl::StatusOr<AdapterFile> OpenAdapter(const std::string& path, const ModelFile& model,
                                        const KeyPolicy& keys) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    if (MayExist(path + "/adapter_config.json")) return OpenPeft(path, model, keys);
    return ModelFileError(path + ": holds no adapter_config.json");
  }
  return OpenGgufAdapter(path, model);
}

}  // namespace ng
