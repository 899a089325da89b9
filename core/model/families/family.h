// What a model family is: how its config.json is read, and what its tensors are called. A family is
// a row of one table (families.h).
#ifndef NG_CORE_MODEL_FAMILIES_FAMILY_H_
#define NG_CORE_MODEL_FAMILIES_FAMILY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/formats/json.h"
#include "core/formats/tensor_source.h"
#include "core/model/spec/model_spec.h"
#include "core/model/weights/tensor_role.h"
#include "ng/status.h"

namespace ng {

// In which order the rows of a tensor lie in a file.
enum class StoredOrder {
  kPlain,
  // In each head, rows 2i and 2i + 1 are the decoder's i and i + head_dim / 2: half-split rotations
  // as GGUF interleaves them.
  kPaired,
  // Of q, k and v: for each head of k, its heads of q, then k, then v.
  kGroups,
  // CodeGen's: four times a quarter of q, of v and of k.
  kQuarters,
  kTurns,  // of gate and up: a row of each in turn
};

// How a file holds its experts: each by itself, or those of a layer in one tensor.
enum class ExpertTensors {
  kEach,
  kStacked,
  kBlocks,  // likewise, with matrices as MXFP4 (core/formats/mxfp4_source.h)
};

struct RoleName {
  const char* name;  // "{}" stands for the layer, "{e}" for the expert
  TensorRole role;
  bool transposed = false;  // the file holds [inputs, outputs]
  StoredOrder order = StoredOrder::kPlain;
  // Where one tensor [n_layers, n_slots, ...] holds several roles of every layer: this one's slot.
  int slot = 0;
  int n_slots = 0;  // 0: the tensor is the role's own

  bool per_layer() const;
  // One tensor [n_experts, ...] holds what each expert has, or [n_heads, ...] what each head.
  bool stacked() const;
  // Whether files that hold their experts so have it.
  bool IsIn(ExpertTensors experts) const;
};

// As the file holds it: RoleShape, turned round where the matrix is transposed, within its slots.
std::vector<int64_t> StoredShape(const RoleName& entry, const ModelSpec& spec, int layer);

// A part of names that a family spells otherwise.
struct Renamed {
  const char* from;
  const char* to;
};

struct Family {
  const char* model_type;  // as config.json spells it
  // Errors: ModelFileError naming `path`, the key, the value found and what is allowed.
  absl::StatusOr<ModelSpec> (*read_spec)(const JsonFields& config, const std::string& path);
  const char* layer_prefix;  // layer n's tensors are called <prefix>n.<...>; empty: none is
  std::span<const RoleName> names;
  // Which a file's names may have or leave out. Those of a base model's file, which was saved
  // without a head, leave out the first part.
  std::string_view optional_prefix = {};
  // Fills in the sizes that this family's config.json leaves to the tensors; null: it leaves none.
  // Errors as above, also naming the tensor.
  absl::Status (*read_sizes)(const TensorSource& tensors, const std::string& path,
                             ModelSpec* spec) = nullptr;
  bool biases_optional = false;  // where nothing is added without them (IsAddedBias)
  // A head that differs from the embedding is a head of its own, though the config ties them.
  bool unties_head = false;

  std::span<const Renamed> renamed = {};        // in `names`
  std::span<const TensorRole> without = {};     // of `names`, those that no model of the family has
  StoredOrder qkv_order = StoredOrder::kPlain;  // of one tensor for q, k and v
  ExpertTensors experts = ExpertTensors::kEach;
  // A key: so many layers behind the last predict further tokens, and no logit is made of them.
  const char* n_further_layers = "";

  // A family whose files come in several forms has a row for each: whether it is this one. Null:
  // there is no other.
  bool (*is_form)(const JsonFields& config) = nullptr;

  // The name that the family has for it, with that layer and expert in it.
  std::string NameOf(const RoleName& entry, const TensorSite& at) const;
  // `name` without the optional prefix.
  std::string_view ShortName(std::string_view name) const;
  // Of a name "<layer_prefix>n.<...>", with the optional prefix or without it: n.
  std::optional<int64_t> LayerOf(std::string_view name) const;
  // The tensor of this name, with the optional prefix or without it. Null: there is none.
  const TensorInfo* FindIn(const TensorSource& tensors, const std::string& name) const;
};

}  // namespace ng

#endif  // NG_CORE_MODEL_FAMILIES_FAMILY_H_
