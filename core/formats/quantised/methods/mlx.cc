// MLX: "x.weight" in words of 32 bits beside "x.scales" and, of affine values, "x.biases". A tensor
// without scales is plain.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/formats/quantised/factors.h"
#include "core/formats/quantised/formats.h"
#include "core/formats/quantised/methods/parts.h"

namespace ng {
namespace {

constexpr int64_t kMlxWordBits = 32;
constexpr Range<int64_t> kMlxBits = {2, 8};
constexpr Range<int64_t> kMlxGroups = {16, 1024};

struct MlxMode {
  std::string mode = "affine";
  int64_t bits = 0;
  int64_t group = 0;
};

// What the fields say, beyond what they do not.
absl::StatusOr<MlxMode> ReadMode(const FormFinder& finder, const JsonFields& fields, MlxMode mode) {
  NG_ASSIGN_OR_RETURN(const auto bits, fields.OptionalInt("bits", kMlxBits));
  NG_ASSIGN_OR_RETURN(const auto group, fields.OptionalInt("group_size", kMlxGroups));
  NG_ASSIGN_OR_RETURN(const auto name, fields.OptionalText("mode"));
  mode.mode = name.value_or(mode.mode);
  mode.bits = bits.value_or(mode.bits);
  mode.group = group.value_or(mode.group);
  for (const char* known : {"affine", "mxfp4", "nvfp4", "mxfp8"}) {
    if (mode.mode == known) return mode;
  }
  return finder.RefuseKey("mode", "can run: affine, mxfp4, nvfp4, mxfp8");
}

// Of words [.., words]: [.., values]
std::vector<int64_t> ValueShape(const TensorInfo& weight, int64_t bits) {
  std::vector<int64_t> shape = weight.shape;
  shape.back() = shape.back() * kMlxWordBits / bits;
  return shape;
}

absl::Status AddMlxFloat8(FormFinder& finder, const TensorInfo& weight, const TensorInfo& scales) {
  constexpr int64_t kGroup = 32;
  NG_RETURN_IF_ERROR(finder.CheckType(scales, {DType::kU8}));
  std::vector<int64_t> shape = ValueShape(weight, 8);
  MatrixForm form;
  form.codes = {.tensor = &weight, .bits = 8};
  form.table = Float8E4m3Values();
  const MatrixSize size = {weight.n_elements / weight.shape.back(), shape.back()};
  NG_RETURN_IF_ERROR(PlaceFactors(finder, scales, size, {1, kGroup}, &form.scales, &form.group));
  form.scales.read = [&scales](const TensorSource& source) { return PowersOf(source, scales); };
  form.parts = {&weight, &scales};
  form.what = "mxfp8";
  finder.Add(std::move(form), weight.name, std::move(shape));
  return absl::OkStatus();
}

absl::Status AddMlx(FormFinder& finder, const TensorInfo& weight, const std::string& module,
                    const MlxMode& mode) {
  NG_ASSIGN_OR_RETURN(const TensorInfo* const scales, finder.Need(weight, module + ".scales"));
  NG_RETURN_IF_ERROR(finder.CheckType(weight, {DType::kU32}));
  NG_RETURN_IF_ERROR(finder.CheckRank(weight, 2, 3));
  const Float4Parts parts = {.packed = &weight, .scale = scales};
  if (mode.mode == "mxfp4") return AddMxfp4(finder, weight.name, parts);
  if (mode.mode == "nvfp4") return AddNvfp4(finder, weight.name, parts);
  if (mode.mode == "mxfp8") return AddMlxFloat8(finder, weight, *scales);
  if (mode.bits == 7 || mode.bits < 2) {
    return finder.RefuseKey("bits", "must be 2, 3, 4, 5, 6 or 8");
  }
  if (mode.group == 0) return finder.RefuseKey("group_size", "must be an integer");
  NG_ASSIGN_OR_RETURN(const TensorInfo* const biases, finder.Need(weight, module + ".biases"));
  std::vector<int64_t> shape = ValueShape(weight, mode.bits);
  if (weight.shape.back() * kMlxWordBits % mode.bits != 0 || shape.back() % mode.group != 0) {
    return finder.WrongShape(weight, absl::StrCat("of whole groups of ", mode.group, " values of ",
                                                  mode.bits, " bits in a row"));
  }
  MatrixForm form;
  form.codes = {.tensor = &weight, .bits = static_cast<int>(mode.bits)};
  const MatrixSize size = {weight.n_elements / weight.shape.back(), shape.back()};
  for (const auto& [tensor, factors] :
       {std::pair(scales, &form.scales), std::pair(biases, &form.biases)}) {
    NG_RETURN_IF_ERROR(finder.CheckType(*tensor, {DType::kF16, DType::kBf16, DType::kF32}));
    *factors = FactorsOf(*tensor);
    NG_RETURN_IF_ERROR(PlaceFactors(finder, *tensor, size, {1, mode.group}, factors, &form.group));
  }
  form.parts = {&weight, scales, biases};
  form.what = absl::StrCat("int", mode.bits, " in groups of ", mode.group);
  finder.Add(std::move(form), weight.name, std::move(shape));
  return absl::OkStatus();
}

// The module's own fields, also where the file's names have lost what is before the text part's.
std::optional<std::string> OwnKey(const nlohmann::json& object, const std::string& module) {
  if (object.contains(module)) return module;
  for (const auto& [key, value] : object.items()) {
    if (key.ends_with("." + module)) return key;
  }
  return std::nullopt;
}

}  // namespace

absl::Status FindMlx(FormFinder& finder) {
  NG_ASSIGN_OR_RETURN(const MlxMode all, ReadMode(finder, finder.config(), MlxMode()));
  for (const TensorInfo& tensor : finder.source().tensors()) {
    const auto module = FormFinder::Before(tensor, ".weight");
    if (!module || finder.Find(*module + ".scales") == nullptr) continue;
    MlxMode mode = all;
    const std::optional<std::string> own = OwnKey(finder.object(), *module);
    if (own && finder.object()[*own].is_object()) {
      NG_ASSIGN_OR_RETURN(const auto fields, finder.config().OptionalObject(*own));
      NG_ASSIGN_OR_RETURN(mode, ReadMode(finder, *fields, all));
    }
    NG_RETURN_IF_ERROR(AddMlx(finder, tensor, *module, mode));
  }
  // Of modules that are plain, or not in the file.
  const std::vector<std::string> unread = finder.config().Unread();
  for (const auto& [key, value] : finder.object().items()) {
    const bool of_module = key.find('.') != std::string::npos || key == "lm_head";
    const bool asked = std::ranges::any_of(
        unread, [&, name = key](const std::string& full) { return full.ends_with(name); });
    if (of_module && asked && (value.is_object() || value.is_boolean())) finder.Inert({key});
  }
  return absl::OkStatus();
}

}  // namespace ng
