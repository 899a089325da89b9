// compressed-tensors: "x.weight_packed" or "x.weight" beside "x.weight_scale" and others. Which
// scheme a matrix has its tensors say; of what they leave open a scheme of the config must fit.
#include <algorithm>
#include <cstring>
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

constexpr int64_t kPackedWordBits = 32;

// Of a group in the config what it says of weights.
struct Scheme {
  int64_t bits = 8;
  bool is_float = false;
  bool symmetric = true;
  Sharing sharing = {};
};

absl::StatusOr<Sharing> ReadSharing(const JsonFields& weights, const std::string& file) {
  NG_ASSIGN_OR_RETURN(const auto strategy, weights.OptionalText("strategy"));
  NG_ASSIGN_OR_RETURN(const auto group, weights.OptionalInt("group_size", {-1, 1 << 20}));
  NG_ASSIGN_OR_RETURN(const auto block, weights.OptionalInts("block_structure", {1, 65536}));
  const std::string name = strategy.value_or(group.value_or(-1) > 0 ? "group" : "channel");
  if (name == "tensor" || name == "channel") return Sharing{};
  if (name == "block" && block && block->size() == 2) return Sharing{(*block)[0], (*block)[1]};
  if ((name == "group" || name == "tensor_group") && group.value_or(0) > 0) {
    return Sharing{1, *group};
  }
  return ModelFileError(absl::StrCat(
      file, ": strategy \"", name,
      "\" of quantised weights, can run: tensor, channel, group or tensor_group with group_size, "
      "block with block_structure of two"));
}

absl::StatusOr<Scheme> ReadScheme(const JsonFields& weights, const std::string& file) {
  Scheme scheme;
  NG_ASSIGN_OR_RETURN(const auto bits, weights.OptionalInt("num_bits", {1, 16}));
  NG_ASSIGN_OR_RETURN(const auto type, weights.OptionalText("type"));
  NG_ASSIGN_OR_RETURN(const auto symmetric, weights.OptionalBool("symmetric"));
  NG_ASSIGN_OR_RETURN(scheme.sharing, ReadSharing(weights, file));
  scheme.bits = bits.value_or(8);
  scheme.is_float = type.value_or("int") == "float";
  scheme.symmetric = symmetric.value_or(true);
  if (!scheme.is_float && type.value_or("int") != "int") {
    return ModelFileError(
        absl::StrCat(file, ": type \"", *type, "\" of quantised weights, can run: int, float"));
  }
  for (const char* key :
       {"dynamic", "observer", "observer_kwargs", "actorder", "scale_dtype", "zp_dtype"}) {
    weights.Find(key);
  }
  return scheme;
}

absl::Status CheckFormatName(const JsonFields& fields, const std::string& file) {
  constexpr std::string_view kFormats[] = {
      "dense",           "pack-quantized",       "int-quantized",        "float-quantized",
      "naive-quantized", "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mixed-precision"};
  NG_ASSIGN_OR_RETURN(const auto format, fields.OptionalText("format"));
  if (!format || std::ranges::count(kFormats, *format) > 0) return absl::OkStatus();
  std::string known;
  for (const std::string_view name : kFormats) {
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  return ModelFileError(absl::StrCat(file, ": format ", JsonExcerpt(*format),
                                     " of compressed-tensors, can run: ", known));
}

absl::StatusOr<std::vector<Scheme>> ReadSchemes(FormFinder& finder) {
  std::vector<Scheme> schemes;
  const std::string& file = finder.file();
  NG_ASSIGN_OR_RETURN(const auto groups, finder.config().OptionalObject("config_groups"));
  if (!groups) return finder.RefuseKey("config_groups", "must be an object");
  for (const auto& [name, value] : finder.object()["config_groups"].items()) {
    NG_ASSIGN_OR_RETURN(const auto group, groups->OptionalObject(name));
    if (!group) continue;
    group->Find("targets");
    NG_RETURN_IF_ERROR(CheckFormatName(*group, file));
    for (const char* key : {"input_activations", "output_activations"}) {
      if (group->Find(key) != nullptr) finder.Note("inputs of products");
    }
    NG_ASSIGN_OR_RETURN(const auto weights, group->OptionalObject("weights"));
    if (!weights) continue;
    NG_ASSIGN_OR_RETURN(schemes.emplace_back(), ReadScheme(*weights, file));
  }
  return schemes;
}

// The numbers of a matrix's scales or zeros by their shapes.
bool Fits(const TensorInfo& scale, MatrixSize size, Sharing sharing) {
  const int64_t shared = sharing.inputs == 0 ? size.inputs : sharing.inputs;
  const int64_t n =
      (size.inputs + shared - 1) / shared * ((size.rows + sharing.rows - 1) / sharing.rows);
  return scale.n_elements == n || (sharing.inputs == 0 && scale.n_elements == 1);
}

// The first scheme that a matrix can be of; else one that says of what kind it is, whose error
// tells what is wrong.
const Scheme* SchemeOf(const std::vector<Scheme>& schemes, const TensorInfo& scale, MatrixSize size,
                       int64_t bits, bool is_float) {
  const Scheme* near = nullptr;
  for (const Scheme& scheme : schemes) {
    if (scheme.bits != bits || scheme.is_float != is_float) continue;
    if (Fits(scale, size, scheme.sharing)) return &scheme;
    if (near == nullptr) near = &scheme;
  }
  return near;
}

absl::Status NoScheme(const FormFinder& finder, const TensorInfo& weight, std::string_view kind) {
  return finder.Refuse(weight, absl::StrCat("is ", std::string(kind),
                                            ", and no group of config_groups describes it"));
}

// Zeros of packed matrices: [words of rows, groups], each column a stream of bits.
absl::StatusOr<std::vector<float>> UnpackZeros(const TensorSource& source, const TensorInfo& zeros,
                                               int64_t rows, int64_t bits) {
  NG_ASSIGN_OR_RETURN(const std::vector<int32_t> words, IntegersOf(source, zeros));
  const int64_t n_groups = zeros.shape[1];
  const auto word_at = [&](int64_t word, int64_t group) {
    return uint64_t{static_cast<uint32_t>(words[static_cast<size_t>(word * n_groups + group)])};
  };
  std::vector<float> numbers(static_cast<size_t>(rows * n_groups));
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t bit = row * bits;
    for (int64_t group = 0; group < n_groups; ++group) {
      uint64_t stream = word_at(bit / kPackedWordBits, group);
      if (bit % kPackedWordBits + bits > kPackedWordBits) {
        stream |= word_at(bit / kPackedWordBits + 1, group) << 32U;
      }
      numbers[static_cast<size_t>(row * n_groups + group)] =
          static_cast<float>(stream >> (bit % kPackedWordBits) & ((1U << bits) - 1));
    }
  }
  return numbers;
}

struct IntegerParts {
  const TensorInfo* weight = nullptr;
  const TensorInfo* scale = nullptr;
  const TensorInfo* zeros = nullptr;        // null: symmetric
  const TensorInfo* group_index = nullptr;  // null: in order
  MatrixSize size;
  int64_t bits = 8;
  bool packed = false;
};

absl::Status AddZeros(const FormFinder& finder, const IntegerParts& parts, const Scheme& scheme,
                      MatrixForm* form) {
  const auto half = static_cast<float>(1 << (parts.bits - 1));
  if (parts.zeros == nullptr) {
    if (!scheme.symmetric) {
      return finder.Refuse(*parts.weight, "is not symmetric, and has no weight_zero_point");
    }
    form->zeros = ConstantFactor(half);
    return absl::OkStatus();
  }
  form->parts.push_back(parts.zeros);
  form->zeros = form->scales;
  if (parts.packed) {
    NG_RETURN_IF_ERROR(finder.CheckType(*parts.zeros, {DType::kI32}));
    const int64_t words = (parts.size.rows * parts.bits + kPackedWordBits - 1) / kPackedWordBits;
    NG_RETURN_IF_ERROR(
        finder.CheckShape(*parts.zeros, {words, form->n_groups_of(parts.size.inputs)}));
    form->zeros.read = [zeros = parts.zeros, rows = parts.size.rows,
                        bits = parts.bits](const TensorSource& source) {
      return UnpackZeros(source, *zeros, rows, bits);
    };
    return absl::OkStatus();
  }
  NG_RETURN_IF_ERROR(finder.CheckType(*parts.zeros, {DType::kI8}));
  NG_RETURN_IF_ERROR(finder.CheckShape(*parts.zeros, parts.scale->shape));
  form->zeros.read = [zeros = parts.zeros,
                      half](const TensorSource& source) -> absl::StatusOr<std::vector<float>> {
    NG_ASSIGN_OR_RETURN(std::vector<float> numbers, NumbersOf(source, *zeros));
    for (float& number : numbers) number += half;
    return numbers;
  };
  return absl::OkStatus();
}

absl::Status AddInteger(FormFinder& finder, const std::vector<Scheme>& schemes,
                        const std::string& name, const IntegerParts& parts, Codes codes) {
  NG_RETURN_IF_ERROR(finder.CheckType(*parts.scale, {DType::kF32, DType::kBf16, DType::kF16}));
  const Scheme* const scheme = SchemeOf(schemes, *parts.scale, parts.size, parts.bits, false);
  if (scheme == nullptr) {
    return NoScheme(finder, *parts.weight, absl::StrCat("of integers of ", parts.bits, " bits"));
  }
  MatrixForm form;
  form.codes = codes;
  form.scales = FactorsOf(*parts.scale);
  NG_RETURN_IF_ERROR(
      PlaceFactors(finder, *parts.scale, parts.size, scheme->sharing, &form.scales, &form.group));
  form.parts = {parts.weight, parts.scale};
  NG_RETURN_IF_ERROR(AddZeros(finder, parts, *scheme, &form));
  const int64_t n_groups = form.n_groups_of(parts.size.inputs);
  if (parts.group_index != nullptr) {
    NG_RETURN_IF_ERROR(finder.CheckType(*parts.group_index, {DType::kI32}));
    NG_RETURN_IF_ERROR(finder.CheckShape(*parts.group_index, {parts.size.inputs}));
    NG_ASSIGN_OR_RETURN(form.group_of,
                        ReadGroupIndex(finder, *parts.group_index, form.group, n_groups));
    form.parts.push_back(parts.group_index);
  }
  form.what = absl::StrCat(
      "int", parts.bits, n_groups > 1 ? absl::StrCat(" in groups of ", form.group) : std::string(),
      form.group_of.empty() ? "" : " by activation order");
  finder.Add(std::move(form), name, {parts.size.rows, parts.size.inputs});
  return absl::OkStatus();
}

// The bits of a scheme by which so many words hold a row. Sets how many a word has where some of
// its bits are unused, as older versions packed.
int64_t BitsOfRow(const std::vector<Scheme>& schemes, int64_t words, int64_t inputs, Codes* codes) {
  for (const Scheme& scheme : schemes) {
    if (scheme.is_float || scheme.bits > 8) continue;
    const int64_t per_word = kPackedWordBits / scheme.bits;
    codes->per_word = 0;
    if (words == (inputs * scheme.bits + kPackedWordBits - 1) / kPackedWordBits) return scheme.bits;
    codes->per_word = static_cast<int>(per_word);
    if (words == (inputs + per_word - 1) / per_word) return scheme.bits;
  }
  return 0;
}

absl::Status AddPacked(FormFinder& finder, const std::vector<Scheme>& schemes,
                       const TensorInfo& packed, const std::string& module) {
  NG_ASSIGN_OR_RETURN(const TensorInfo* const scale, finder.Need(packed, module + ".weight_scale"));
  const std::string name = module + ".weight";
  if (packed.dtype == DType::kU8) {
    Float4Parts parts = {.packed = &packed, .scale = scale, .divides = true};
    if (scale->dtype == DType::kU8) return AddMxfp4(finder, name, parts);
    NG_ASSIGN_OR_RETURN(parts.global, finder.Need(packed, module + ".weight_global_scale"));
    return AddNvfp4(finder, name, parts);
  }
  NG_RETURN_IF_ERROR(finder.CheckType(packed, {DType::kI32, DType::kU8}));
  NG_RETURN_IF_ERROR(finder.CheckRank(packed, 2, 2));
  NG_ASSIGN_OR_RETURN(const TensorInfo* const shape, finder.Need(packed, module + ".weight_shape"));
  NG_RETURN_IF_ERROR(finder.CheckType(*shape, {DType::kI64, DType::kI32}));
  NG_RETURN_IF_ERROR(finder.CheckShape(*shape, {2}));
  NG_ASSIGN_OR_RETURN(const std::vector<std::byte> stored, BytesOf(finder.source(), *shape));
  int64_t extents[2] = {};
  for (size_t i = 0; i < 2; ++i) {
    const auto bytes = static_cast<size_t>(DTypeBytes(shape->dtype));
    std::memcpy(&extents[i], stored.data() + i * bytes, bytes);  // little endian
  }
  if (extents[0] != packed.shape[0] || extents[1] < 1 || extents[1] > int64_t{1} << 40) {
    return finder.Refuse(*shape, absl::StrCat("holds ", ShapeString(extents), ", must begin with ",
                                              packed.shape[0], " as ", JsonExcerpt(packed.name)));
  }
  IntegerParts parts = {.weight = &packed,
                        .scale = scale,
                        .zeros = finder.Find(module + ".weight_zero_point"),
                        .group_index = finder.Find(module + ".weight_g_idx"),
                        .size = {extents[0], extents[1]},
                        .packed = true};
  Codes codes = {.tensor = &packed};
  parts.bits = BitsOfRow(schemes, packed.shape[1], extents[1], &codes);
  if (parts.bits == 0) {
    return NoScheme(finder, packed,
                    absl::StrCat(packed.shape[1], " words for ", extents[1], " inputs"));
  }
  codes.bits = static_cast<int>(parts.bits);
  finder.Drop(*shape);
  return AddInteger(finder, schemes, name, parts, codes);
}

absl::Status AddPlain(FormFinder& finder, const std::vector<Scheme>& schemes,
                      const TensorInfo& weight) {
  NG_ASSIGN_OR_RETURN(const TensorInfo* const scale, finder.Need(weight, weight.name + "_scale"));
  NG_RETURN_IF_ERROR(finder.CheckRank(weight, 2, 2));
  const MatrixSize size = {weight.shape[0], weight.shape[1]};
  if (weight.dtype == DType::kF8E4M3) {
    const Scheme* const scheme = SchemeOf(schemes, *scale, size, 8, true);
    if (scheme == nullptr) return NoScheme(finder, weight, "FP8");
    return AddFloat8(finder, weight, *scale, scheme->sharing);
  }
  const IntegerParts parts = {.weight = &weight,
                              .scale = scale,
                              .zeros = finder.Find(weight.name + "_zero_point"),
                              .group_index = finder.Find(weight.name + "_g_idx"),
                              .size = size};
  return AddInteger(finder, schemes, weight.name, parts,
                    {.tensor = &weight, .bits = 8, .is_signed = true});
}

}  // namespace

absl::Status FindCompressedTensors(FormFinder& finder) {
  finder.Inert({"ignore", "global_compression_ratio", "quantization_status", "version",
                "compression_ratio"});
  NG_RETURN_IF_ERROR(CheckFormatName(finder.config(), finder.file()));
  NG_ASSIGN_OR_RETURN(const std::vector<Scheme> schemes, ReadSchemes(finder));
  if (finder.config().Find("kv_cache_scheme") != nullptr) {
    finder.Note("keys and values of the cache");
  }
  NG_ASSIGN_OR_RETURN(const auto sparsity, finder.config().OptionalObject("sparsity_config"));
  if (sparsity) {
    NG_ASSIGN_OR_RETURN(const auto format, sparsity->OptionalText("format"));
    if (format.value_or("dense") != "dense") {
      return finder.RefuseKey("sparsity_config", "can run only with the format \"dense\"");
    }
    finder.config().Find("sparsity_config");
  }
  for (const TensorInfo& tensor : finder.source().tensors()) {
    if (const auto module = FormFinder::Before(tensor, ".weight_packed")) {
      NG_RETURN_IF_ERROR(AddPacked(finder, schemes, tensor, *module));
    } else if (tensor.name.ends_with(".weight") &&
               (tensor.dtype == DType::kF8E4M3 || tensor.dtype == DType::kI8)) {
      NG_RETURN_IF_ERROR(AddPlain(finder, schemes, tensor));
    }
  }
  finder.DropEnding({".input_scale", ".input_zero_point", ".input_global_scale", ".output_scale",
                     ".output_zero_point", ".k_scale", ".v_scale", ".q_scale", ".k_zero_point",
                     ".v_zero_point"});
  return absl::OkStatus();
}

}  // namespace ng
