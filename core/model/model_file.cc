#include "core/model/model_file.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/formats/file.h"
#include "core/formats/json.h"
#include "core/formats/safetensors.h"

namespace ng {
namespace {

// Limits that no real model comes near, and whose products fit an int64.
constexpr Range<int64_t> kCount = {1, 1 << 16};
constexpr Range<int64_t> kSize = {1, 1 << 24};
constexpr Range<int64_t> kPositions = {1, std::numeric_limits<int32_t>::max()};

struct RoleName {
  TensorRole role;
  const char* name;  // "{}" stands for the layer
};

// What makes a family: the name its config.json goes by, how that is read, and its tensors' names.
struct Family {
  const char* model_type;
  absl::StatusOr<ModelSpec> (*read_spec)(const JsonFields& config, const std::string& path);
  const char* layer_prefix;  // layer n's tensors are called <prefix>n.<...>
  std::span<const RoleName> names;
};

// niels-gpt: pre-norm RMSNorm, interleaved RoPE, attention without biases, a SwiGLU with biases
// whose gate is fc_g, a head tied to the embedding.
absl::StatusOr<ModelSpec> ReadNielsSpec(const JsonFields& config, const std::string& path) {
  ModelSpec spec;
  NG_ASSIGN_OR_RETURN(spec.shape.vocab_size, config.Int("V", kSize));
  NG_ASSIGN_OR_RETURN(spec.shape.max_positions, config.Int("T", kPositions));
  NG_ASSIGN_OR_RETURN(spec.width, config.Int("C", kSize));
  NG_ASSIGN_OR_RETURN(const int64_t n_layers, config.Int("L", kCount));
  NG_ASSIGN_OR_RETURN(const int64_t n_heads, config.Int("H", {1, spec.width}));
  NG_ASSIGN_OR_RETURN(spec.ffn_width, config.Int("d_ff", kSize));
  NG_ASSIGN_OR_RETURN(spec.rope_theta, config.Number("rope_theta", {1.0, 1e12}));
  spec.norm_eps = 1e-5F;
  spec.shape.n_layers = static_cast<int>(n_layers);
  spec.shape.n_heads = spec.shape.n_kv_heads = static_cast<int>(n_heads);
  if (spec.width % n_heads != 0 || (spec.width / n_heads) % 2 != 0) {
    return ModelFileError(absl::StrCat(path, ": C = ", spec.width, " and H = ", n_heads,
                                       ": C must be a multiple of H, and C / H even for RoPE"));
  }
  spec.shape.head_dim = static_cast<int>(spec.width / n_heads);
  return spec;
}

constexpr RoleName kNielsNames[] = {
    {TensorRole::kTokenEmbedding, "tok_emb.weight"},
    {TensorRole::kHead, "lm_head.weight"},
    {TensorRole::kFinalNorm, "ln_f.weight"},
    {TensorRole::kAttnNorm, "blocks.{}.ln1.weight"},
    {TensorRole::kQkv, "blocks.{}.attn.qkv.weight"},
    {TensorRole::kAttnOut, "blocks.{}.attn.proj.weight"},
    {TensorRole::kMlpNorm, "blocks.{}.ln2.weight"},
    {TensorRole::kMlpGate, "blocks.{}.mlp.fc_g.weight"},
    {TensorRole::kMlpGateBias, "blocks.{}.mlp.fc_g.bias"},
    {TensorRole::kMlpUp, "blocks.{}.mlp.fc_a.weight"},
    {TensorRole::kMlpUpBias, "blocks.{}.mlp.fc_a.bias"},
    {TensorRole::kMlpDown, "blocks.{}.mlp.fc_out.weight"},
    {TensorRole::kMlpDownBias, "blocks.{}.mlp.fc_out.bias"},
};

constexpr Family kFamilies[] = {
    {"niels-gpt", ReadNielsSpec, "blocks.", kNielsNames},
};

std::vector<int64_t> ExpectedShape(TensorRole role, const ModelSpec& spec) {
  switch (role) {
    case TensorRole::kTokenEmbedding:
    case TensorRole::kHead:
      return {spec.shape.vocab_size, spec.width};
    case TensorRole::kFinalNorm:
    case TensorRole::kAttnNorm:
    case TensorRole::kMlpNorm:
    case TensorRole::kMlpDownBias:
      return {spec.width};
    case TensorRole::kQkv:
      return {spec.q_width() + 2 * spec.kv_width(), spec.width};
    case TensorRole::kAttnOut:
      return {spec.width, spec.q_width()};
    case TensorRole::kMlpGate:
    case TensorRole::kMlpUp:
      return {spec.ffn_width, spec.width};
    case TensorRole::kMlpGateBias:
    case TensorRole::kMlpUpBias:
      return {spec.ffn_width};
    case TensorRole::kMlpDown:
      return {spec.width, spec.ffn_width};
  }
  return {};
}

bool InLayer(const RoleName& entry) { return absl::StrContains(entry.name, "{}"); }

std::string NameInLayer(const RoleName& entry, int layer) {
  return absl::StrReplaceAll(entry.name, {{"{}", absl::StrCat(layer)}});
}

// The layers that the file holds, from its tensors' names. Errors: a gap.
absl::StatusOr<int64_t> CountLayers(const TensorSource& source, const std::string& prefix) {
  std::set<int64_t> layers;
  for (const TensorInfo& tensor : source.tensors()) {
    if (!absl::StartsWith(tensor.name, prefix)) continue;
    const char* begin = tensor.name.data() + prefix.size();
    const char* end = tensor.name.data() + tensor.name.size();
    int64_t layer = 0;
    const auto [stop, error] = std::from_chars(begin, end, layer);
    if (error == std::errc() && stop != end && *stop == '.' && layer >= 0) layers.insert(layer);
  }
  const auto count = static_cast<int64_t>(layers.size());
  if (count > 0 && *layers.rbegin() != count - 1) {
    int64_t missing = 0;
    while (layers.count(missing) != 0) ++missing;
    return ModelFileError(absl::StrCat(source.path(), ": has tensors of ", prefix, *layers.rbegin(),
                                       " but none of ", prefix, missing));
  }
  return count;
}

absl::Status CheckTensor(const TensorSource& source, const TensorInfo& tensor, TensorRole role,
                         const ModelSpec& spec) {
  const std::vector<int64_t> expected = ExpectedShape(role, spec);
  if (tensor.shape != expected) {
    return ModelFileError(absl::StrCat(source.path(), ": tensor \"", tensor.name, "\" has shape ",
                                       ShapeString(tensor.shape), ", config.json asks for ",
                                       ShapeString(expected)));
  }
  if (tensor.dtype != DType::kF32 && tensor.dtype != DType::kF16 && tensor.dtype != DType::kBf16) {
    const std::string_view dtype = DTypeName(tensor.dtype);
    return ModelFileError(absl::StrCat(source.path(), ": tensor \"", tensor.name, "\" is ",
                                       absl::string_view(dtype.data(), dtype.size()),
                                       ", must be F32, F16 or BF16"));
  }
  return absl::OkStatus();
}

class Binder {
 public:
  Binder(const Family& family, ModelFile& file) : family_(family), file_(file) {}

  absl::Status BindAll() {
    for (const RoleName& entry : family_.names) {
      if (InLayer(entry)) continue;
      NG_RETURN_IF_ERROR(Bind(entry.role, -1, entry.name, entry.role == TensorRole::kHead));
    }
    TieHead();
    for (int layer = 0; layer < file_.spec.shape.n_layers; ++layer) {
      for (const RoleName& entry : family_.names) {
        if (!InLayer(entry)) continue;
        NG_RETURN_IF_ERROR(Bind(entry.role, layer, NameInLayer(entry, layer), false));
      }
    }
    if (!missing_.empty()) {
      return ModelFileError(absl::StrCat(
          file_.source->path(), ": missing ", missing_.size(),
          missing_.size() == 1 ? " tensor: " : " tensors: ", absl::StrJoin(missing_, ", ")));
    }
    for (const TensorInfo& tensor : file_.source->tensors()) {
      if (bound_.count(&tensor) == 0) file_.unused.push_back(&tensor);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Bind(TensorRole role, int layer, const std::string& name, bool optional) {
    const TensorInfo* tensor = file_.source->Find(name);
    if (tensor == nullptr) {
      // The embedding may be there under the head's name: TieHead looks.
      if (!optional && role != TensorRole::kTokenEmbedding) missing_.push_back(name);
      return absl::OkStatus();
    }
    NG_RETURN_IF_ERROR(CheckTensor(*file_.source, *tensor, role, file_.spec));
    file_.bindings.push_back({role, layer, tensor});
    bound_.insert(tensor);
    return absl::OkStatus();
  }

  // One of the tied names is enough.
  void TieHead() {
    const TensorInfo* embedding = file_.Find(TensorRole::kTokenEmbedding);
    const TensorInfo* head = file_.Find(TensorRole::kHead);
    file_.head_copy = embedding != nullptr && head != nullptr;
    if (embedding != nullptr) return;
    for (TensorBinding& binding : file_.bindings) {
      if (binding.role == TensorRole::kHead) binding.role = TensorRole::kTokenEmbedding;
    }
    if (head == nullptr) missing_.push_back(family_.names[0].name);
  }

  const Family& family_;
  ModelFile& file_;
  std::vector<std::string> missing_;
  std::set<const TensorInfo*> bound_;
};

// model.safetensors, or the one safetensors file of the folder under any other name.
absl::StatusOr<std::string> FindWeights(const std::string& folder) {
  const std::string usual = folder + "/model.safetensors";
  std::error_code error;
  if (std::filesystem::exists(usual, error)) return usual;
  std::vector<std::string> names;
  error = ListDirectory(folder, &names);
  if (error) return ModelFileError(absl::StrCat(folder, ": ", error.message()));
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (absl::EndsWith(name, ".safetensors")) found.push_back(absl::StrCat(folder, "/", name));
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) return ModelFileError(folder + ": holds no .safetensors file");
  return ModelFileError(
      absl::StrCat(folder, ": holds ", found.size(),
                   " .safetensors files and no model.safetensors: ", absl::StrJoin(found, ", ")));
}

absl::StatusOr<const Family*> FindFamily(const JsonFields& config, const std::string& path) {
  NG_ASSIGN_OR_RETURN(const std::string model_type, config.Text("model_type"));
  std::vector<std::string> known;
  for (const Family& family : kFamilies) {
    if (model_type == family.model_type) return &family;
    known.push_back(family.model_type);
  }
  return ModelFileError(absl::StrCat(path, ": key \"model_type\" = \"", model_type,
                                     "\", must be one of: ", absl::StrJoin(known, ", ")));
}

}  // namespace

const TensorInfo* ModelFile::Find(TensorRole role, int layer) const {
  for (const TensorBinding& binding : bindings) {
    if (binding.role == role && binding.layer == layer) return binding.tensor;
  }
  return nullptr;
}

absl::StatusOr<ModelFile> OpenModel(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    return ModelFileError(
        absl::StrCat(path, ": ", error ? error.message() : "is not a folder",
                     "; model.path must be a folder with config.json and one .safetensors file"));
  }
  const std::string config_path = path + "/config.json";
  NG_ASSIGN_OR_RETURN(const nlohmann::json json, ReadJsonFile(config_path));
  NG_ASSIGN_OR_RETURN(const JsonFields config, JsonFields::Of(json, config_path));
  NG_ASSIGN_OR_RETURN(const Family* family, FindFamily(config, config_path));

  ModelFile file;
  NG_ASSIGN_OR_RETURN(file.spec, family->read_spec(config, config_path));
  file.spec.family = family->model_type;
  NG_ASSIGN_OR_RETURN(const std::string weights, FindWeights(path));
  NG_ASSIGN_OR_RETURN(file.source, OpenSafetensors(weights));
  NG_ASSIGN_OR_RETURN(const int64_t n_layers, CountLayers(*file.source, family->layer_prefix));
  if (n_layers != file.spec.shape.n_layers) {
    return ModelFileError(absl::StrCat(file.source->path(), ": holds ", n_layers, " layers, ",
                                       config_path, " says ", file.spec.shape.n_layers));
  }
  NG_RETURN_IF_ERROR(Binder(*family, file).BindAll());
  return file;
}

}  // namespace ng
