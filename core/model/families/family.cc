#include "core/model/families/family.h"

#include <charconv>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/model/families/family_names.h"
#include "core/model/weights/tensor_roles.h"

namespace ng {

bool RoleName::per_layer() const { return n_slots > 0 || absl::StrContains(name, "{}"); }
bool RoleName::stacked() const {
  const bool of_head = role == TensorRole::kKUp || role == TensorRole::kVUp;
  return of_head || (IsOfExpert(role) && !absl::StrContains(name, "{e}"));
}

bool RoleName::IsIn(ExpertTensors experts) const {
  if (!IsOfExpert(role)) return true;
  if (!stacked()) return experts == ExpertTensors::kEach;
  if (std::string_view(name).ends_with(kMxfp4Ending)) return experts == ExpertTensors::kBlocks;
  return experts == ExpertTensors::kStacked ||
         (experts == ExpertTensors::kBlocks && !IsMatrix(role));
}

std::string Family::NameOf(const RoleName& entry, const TensorSite& at) const {
  std::vector<std::pair<absl::string_view, std::string>> changes = {
      {"{}", absl::StrCat(at.layer)}, {"{e}", absl::StrCat(at.expert)}};
  for (const Renamed& change : renamed) changes.emplace_back(change.from, change.to);
  return absl::StrReplaceAll(entry.name, changes);
}

std::vector<int64_t> StoredShape(const RoleName& entry, const ModelSpec& spec, int layer) {
  std::vector<int64_t> shape = RoleShape(entry.role, spec, layer);
  if (entry.transposed) std::ranges::reverse(shape);
  if (entry.n_slots > 0) shape.insert(shape.begin(), {spec.shape.n_layers, entry.n_slots});
  if (entry.stacked()) shape.insert(shape.begin(), CopiesOf(entry.role, spec, layer));
  return shape;
}

std::string_view Family::ShortName(std::string_view name) const {
  // A whole model's name may have it once more.
  for (int i = 0; i < 2 && name.starts_with(optional_prefix); ++i) {
    name.remove_prefix(optional_prefix.size());
  }
  return name;
}

std::optional<int64_t> Family::LayerOf(std::string_view name) const {
  const std::string_view prefix = ShortName(layer_prefix);
  name = ShortName(name);
  if (!name.starts_with(prefix)) return std::nullopt;
  const char* const end = name.data() + name.size();
  int64_t layer = 0;
  const auto [stop, error] = std::from_chars(name.data() + prefix.size(), end, layer);
  const bool is_layer = error == std::errc() && stop != end && *stop == '.' && layer >= 0;
  return is_layer ? std::optional(layer) : std::nullopt;
}

const TensorInfo* Family::FindIn(const TensorSource& tensors, const std::string& name) const {
  for (const std::string& spelling :
       {name, std::string(ShortName(name)), std::string(optional_prefix) + name}) {
    if (const TensorInfo* const tensor = tensors.Find(spelling)) return tensor;
  }
  return nullptr;
}

}  // namespace ng
