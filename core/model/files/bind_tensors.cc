#include "core/model/files/bind_tensors.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/model/files/mlx_tensors.h"
#include "core/model/keys/inert_keys.h"

namespace ng {
namespace {

// The layers that the file holds, from its tensors' names, as far as they are below `end`. Errors:
// a gap.
absl::StatusOr<int64_t> CountLayers(const TensorSource& source, const Family& family, int64_t end) {
  std::set<int64_t> layers;
  for (const TensorInfo& tensor : source.tensors()) {
    const std::optional<int64_t> layer = family.LayerOf(tensor.name);
    if (layer && *layer < end) layers.insert(*layer);
  }
  const auto count = static_cast<int64_t>(layers.size());
  if (count > 0 && *layers.rbegin() != count - 1) {
    int64_t missing = 0;
    while (layers.count(missing) != 0) ++missing;
    const std::string prefix(family.ShortName(family.layer_prefix));
    return ModelFileError(absl::StrCat(source.path(), ": has tensors of ", prefix, *layers.rbegin(),
                                       " but none of ", prefix, missing));
  }
  return count;
}

// [columns, taps, 1] in place of [columns, 1, taps], as MLX has it: the same numbers in a row.
bool IsTurnedConvolution(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  constexpr size_t kRank = 3;
  return a.size() == kRank && b.size() == kRank && a[0] == b[0] && a[1] == b[2] && a[2] == 1 &&
         b[1] == 1;
}

// A value by itself may lie in a list of one (Gemma 4's layer_scalar), and the only row of a matrix
// be a list (the gate of the shared expert in GGUF files of Qwen 1.5's and Qwen 3.5's mixtures), or
// a list be such a row. A matrix in another list is no published model's.
bool HoldTheSame(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  constexpr size_t kMatrix = 2;
  if (IsTurnedConvolution(a, b)) return true;
  const auto without_ones = [](const std::vector<int64_t>& shape) {
    return std::span(std::ranges::find_if(shape, [](int64_t extent) { return extent != 1; }),
                     shape.end());
  };
  return a == b || (a.size() <= kMatrix && b.size() <= kMatrix &&
                    std::ranges::equal(without_ones(a), without_ones(b)));
}

absl::Status CheckTensor(const TensorSource& source, const TensorInfo& tensor,
                         const std::vector<int64_t>& expected, const ModelSpec& spec) {
  if (!HoldTheSame(tensor.shape, expected)) {
    return ModelFileError(absl::StrCat(source.path(), ": tensor \"", tensor.name, "\" has shape ",
                                       ShapeString(tensor.shape), ", must be ",
                                       ShapeString(expected), " in this ", spec.family, " model"));
  }
  if (!IsWeightDType(tensor.dtype)) {
    const std::string_view dtype = DTypeName(tensor.dtype);
    return ModelFileError(absl::StrCat(source.path(), ": tensor \"", tensor.name, "\" is ",
                                       absl::string_view(dtype.data(), dtype.size()),
                                       ", must be F32, F16, BF16 or quantised"));
  }
  return absl::OkStatus();
}

class Binder {
 public:
  Binder(const Family& family, ModelFile& file)
      : family_(family), file_(file), mlx_(*file.source, family, file.spec) {}

  absl::Status BindAll() {
    absl::Status status;
    const ExpertTensors experts = mlx_.has_experts()
                                      ? ExpertTensors::kEach
                                      : ExpertTensorsIn(*file_.source, family_, file_.spec);
    ForEachTensor(family_, file_.spec, experts,
                  [&](const RoleName& entry, const TensorSite& at, const std::string& name) {
                    if (!status.ok() || mlx_.Replace(entry.role, at.layer)) return;
                    status = Bind(entry, at, name);
                  });
    NG_RETURN_IF_ERROR(status);
    NG_RETURN_IF_ERROR(BindMlx());
    if (file_.spec.head.tied) TieHead();
    if (!missing_.empty()) return Missing();
    for (const TensorInfo& tensor : file_.source->tensors()) {
      if (bound_.count(&tensor) == 0) file_.unused.push_back(&tensor);
    }
    return absl::OkStatus();
  }

 private:
  // Of a mixture they may be thousands: those named are enough to see which kind is not there.
  absl::Status Missing() const {
    constexpr size_t kMostNamed = 12;
    const auto named = std::span(missing_).first(std::min(kMostNamed, missing_.size()));
    const size_t n_more = missing_.size() - named.size();
    return ModelFileError(
        absl::StrCat(file_.source->path(), ": missing ", missing_.size(),
                     missing_.size() == 1 ? " tensor: " : " tensors: ", absl::StrJoin(named, ", "),
                     n_more == 0 ? std::string() : absl::StrCat(" and ", n_more, " more")));
  }

  absl::Status Bind(const RoleName& entry, const TensorSite& at, const std::string& name) {
    const TensorRole role = entry.role;
    const TensorInfo* tensor = family_.FindIn(*file_.source, name);
    if (tensor == nullptr && family_.biases_optional && IsAddedBias(role)) {
      return absl::OkStatus();
    }
    if (tensor == nullptr) {
      // One of two tied names is enough: TieHead looks.
      const bool may_be_tied = role == TensorRole::kTokenEmbedding || role == TensorRole::kHead;
      const bool said = !missing_.empty() && missing_.back() == name;  // of another of its parts
      if (!said && !(file_.spec.head.tied && may_be_tied)) missing_.push_back(name);
      return absl::OkStatus();
    }
    NG_RETURN_IF_ERROR(
        CheckTensor(*file_.source, *tensor, StoredShape(entry, file_.spec, at.layer), file_.spec));
    TensorBinding binding{role, at, tensor, entry.transposed};
    binding.order = entry.order;
    const bool is_qkv = role == TensorRole::kQkv || role == TensorRole::kQkvBias;
    if (is_qkv && binding.order == StoredOrder::kPlain) binding.order = family_.qkv_order;
    if (entry.n_slots > 0) {
      binding.part = int64_t{at.layer} * entry.n_slots + entry.slot;
      binding.n_parts = int64_t{file_.spec.shape.n_layers} * entry.n_slots;
    }
    if (entry.stacked()) {
      binding.part = at.expert;
      binding.n_parts = CopiesOf(role, file_.spec, at.layer);
    }
    if (role == TensorRole::kKvUp) {
      BindHeads(binding);
    } else {
      file_.bindings.push_back(binding);
    }
    bound_.insert(tensor);
    return absl::OkStatus();
  }

  absl::Status BindMlx() {
    for (const auto& [place, tensor] : mlx_.all()) {
      const auto& [layer, role] = place;
      const int n_copies = CopiesOf(role, file_.spec, layer);
      std::vector<int64_t> shape = RoleShape(role, file_.spec, layer);
      if (n_copies > 0) shape.insert(shape.begin(), n_copies);
      NG_RETURN_IF_ERROR(CheckTensor(*file_.source, *tensor, shape, file_.spec));
      if (n_copies == 0) file_.bindings.push_back({role, {layer}, tensor});
      for (int i = 0; i < n_copies; ++i) {
        TensorBinding binding{role, {layer, i}, tensor};
        binding.part = i;
        binding.n_parts = n_copies;
        file_.bindings.push_back(binding);
      }
      bound_.insert(tensor);
    }
    for (std::string& name : mlx_.Missing(file_.spec)) missing_.push_back(std::move(name));
    return absl::OkStatus();
  }

  // Of each head the rows of k, which are read as columns, and the rows of v.
  void BindHeads(const TensorBinding& all) {
    const auto& block = *file_.spec.Find(static_cast<size_t>(all.at.layer), Operation::kAttention);
    const SelfAttentionSpec& attention = file_.spec.AttentionOf(block);
    const int64_t n_k = attention.nope_dim();
    const int64_t n_v = attention.value_dim();
    for (int head = 0; head < attention.n_heads; ++head) {
      TensorBinding rows = all;
      rows.at.expert = head;
      rows.part = head;
      rows.n_parts = attention.n_heads;
      rows.role = TensorRole::kKUp;
      rows.transposed = true;
      rows.rows = {0, n_k, n_k + n_v};
      file_.bindings.push_back(rows);
      rows.role = TensorRole::kVUp;
      rows.transposed = false;
      rows.rows = {n_k, n_v, n_k + n_v};
      file_.bindings.push_back(rows);
    }
  }

  void TieHead() {
    const TensorInfo* embedding = file_.Find(TensorRole::kTokenEmbedding);
    const TensorInfo* head = file_.Find(TensorRole::kHead);
    file_.head_copy = embedding != nullptr && head != nullptr;
    if (embedding != nullptr) return;
    for (TensorBinding& binding : file_.bindings) {
      if (binding.role == TensorRole::kHead) binding.role = TensorRole::kTokenEmbedding;
    }
    if (head == nullptr) missing_.push_back(family_.NameOf(family_.names[0], {}));
  }

  const Family& family_;
  ModelFile& file_;
  MlxTensors mlx_;
  std::vector<std::string> missing_;
  std::set<const TensorInfo*> bound_;
};

// Whether two tensors have the same bytes.
absl::StatusOr<bool> AreAlike(const TensorSource& source, const TensorInfo& a,
                              const TensorInfo& b) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  if (a.dtype != b.dtype || a.n_bytes != b.n_bytes) return false;
  std::vector<std::byte> of_a(static_cast<size_t>(std::min(kPiece, a.n_bytes)));
  std::vector<std::byte> of_b(of_a.size());
  for (int64_t at = 0; at < a.n_bytes; at += kPiece) {
    const auto n = static_cast<size_t>(std::min(kPiece, a.n_bytes - at));
    const std::span piece_a = std::span(of_a).first(n);
    const std::span piece_b = std::span(of_b).first(n);
    NG_RETURN_IF_ERROR(source.ReadAt(a, at, piece_a));
    NG_RETURN_IF_ERROR(source.ReadAt(b, at, piece_b));
    if (!std::ranges::equal(piece_a, piece_b)) return false;
  }
  return true;
}

bool IsOfFurtherLayer(const TensorInfo& tensor, const ModelSpec& spec, const Family& family,
                      int64_t n_further) {
  const int64_t n_layers = spec.shape.n_layers;
  for (int64_t layer = n_layers; layer < n_layers + n_further; ++layer) {
    const std::string prefix = absl::StrCat(family.layer_prefix, layer, ".");
    if (family.ShortName(tensor.name).starts_with(family.ShortName(prefix))) return true;
  }
  return false;
}

// Some files hold the matrices of keys and values also of layers that read another's.
bool IsOfSharedKeys(const TensorInfo& tensor, const ModelSpec& spec, const Family& family) {
  constexpr TensorRole kRoles[] = {TensorRole::kK, TensorRole::kV, TensorRole::kKNorm,
                                   TensorRole::kKBias, TensorRole::kVBias};
  for (const int layer : spec.LayersWith(Operation::kAttention)) {
    const BlockSpec& block = *spec.Find(static_cast<size_t>(layer), Operation::kAttention);
    if (spec.AttentionOf(block).has_keys()) continue;
    for (const RoleName& entry : family.names) {
      if (std::ranges::count(kRoles, entry.role) == 0) continue;
      const std::string name = family.NameOf(entry, {layer});
      if (family.ShortName(name) == family.ShortName(tensor.name)) return true;
    }
  }
  return false;
}

}  // namespace

absl::Status CheckLayerCount(const ModelFile& file, const Family& family, const std::string& says,
                             std::optional<int64_t> n_further) {
  const int64_t n_said = file.spec.shape.n_layers;
  const int64_t end = n_further ? std::numeric_limits<int64_t>::max() : n_said;
  NG_ASSIGN_OR_RETURN(const int64_t n_layers, CountLayers(*file.source, family, end));
  if (n_layers == n_said || n_layers == n_said + n_further.value_or(0)) return absl::OkStatus();
  return ModelFileError(absl::StrCat(file.source->path(), ": holds ", n_layers, " layers, ", says,
                                     " says ", file.spec.shape.n_layers));
}

absl::Status BindTensors(const Family& family, ModelFile* file) {
  return Binder(family, *file).BindAll();
}

absl::Status UntieHead(const KeyPolicy& keys, ModelFile* file) {
  if (!file->head_copy) return absl::OkStatus();
  const TensorInfo& embedding = *file->Find(TensorRole::kTokenEmbedding);
  const TensorInfo& head = *file->Find(TensorRole::kHead);
  NG_ASSIGN_OR_RETURN(const bool alike, AreAlike(*file->source, embedding, head));
  if (alike) return absl::OkStatus();
  file->spec.head.tied = file->head_copy = false;
  return keys.Doubt(absl::StrCat(file->source->path(), ": tensor \"", head.name,
                                 "\" differs from \"", embedding.name,
                                 "\", which it is tied to by the config; it is taken as it is"));
}

bool IsUnasked(const TensorInfo& tensor, const ModelSpec& spec, const Family& family,
               int64_t n_further) {
  return IsOfFurtherLayer(tensor, spec, family, n_further) || IsOfSharedKeys(tensor, spec, family);
}

absl::Status CheckUnusedTensors(const ModelFile& file, const Family& family, int64_t n_further,
                                const KeyPolicy& keys) {
  constexpr size_t kShown = 3;
  std::vector<std::string> names;
  for (const TensorInfo* tensor : file.unused) {
    if (IsInertTensor(tensor->name) || IsUnasked(*tensor, file.spec, family, n_further)) continue;
    names.push_back(tensor->name);
  }
  if (names.empty()) return absl::OkStatus();
  const size_t count = names.size();
  names.resize(std::min(count, kShown));
  return keys.Doubt(absl::StrCat(file.source->path(), ": ", count,
                                 count == 1 ? " tensor has" : " tensors have", " no place in a ",
                                 file.spec.family, " model: ", absl::StrJoin(names, ", "),
                                 count > kShown ? ", ..." : ""));
}

}  // namespace ng
