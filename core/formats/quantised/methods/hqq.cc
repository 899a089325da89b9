// HQQ: "x.W_q", "x.scale", "x.zero", and the rest of what it knows of a matrix as tensors of one
// number or of a text: "x.nbits", "x.packing", ...
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/formats/quantised/factors.h"
#include "core/formats/quantised/formats.h"

namespace ng {
namespace {

// How the codes lie in their elements: the first rows in the uppermost bits.
struct HqqPacking {
  std::string_view name;
  int bits;
  int per_element;
  int element_bytes;
};
constexpr HqqPacking kHqqPackings[] = {{"8bit_u8", 8, 1, 1},
                                       {"4bit_u8", 4, 2, 1},
                                       {"3bit_32", 3, 10, 4},
                                       {"2bit_u8", 2, 4, 1},
                                       {"1bit_u8", 1, 8, 1}};

// All numbers of "x.name", a short tensor. Marks it as read.
absl::StatusOr<std::vector<int64_t>> ShortList(FormFinder& finder, const TensorInfo& beside,
                                               const std::string& name, int64_t most) {
  NG_ASSIGN_OR_RETURN(const TensorInfo* const tensor, finder.Need(beside, name));
  NG_RETURN_IF_ERROR(finder.CheckType(*tensor, {DType::kU8, DType::kI8, DType::kI32, DType::kI64}));
  if (tensor->n_elements > most) {
    return finder.Refuse(
        *tensor, absl::StrCat("is ", std::string(DTypeName(tensor->dtype)), " ",
                              ShapeString(tensor->shape), ", must be at most ", most, " numbers"));
  }
  NG_ASSIGN_OR_RETURN(const std::vector<float> numbers, NumbersOf(finder.source(), *tensor));
  finder.Drop(*tensor);
  return std::vector<int64_t>(numbers.begin(), numbers.end());
}

absl::StatusOr<int64_t> OneNumber(FormFinder& finder, const TensorInfo& beside,
                                  const std::string& name) {
  NG_ASSIGN_OR_RETURN(const std::vector<int64_t> list, ShortList(finder, beside, name, 1));
  if (list.size() == 1) return list[0];
  return finder.Refuse(*finder.Find(name), "must be one number");
}

absl::StatusOr<HqqPacking> ReadPacking(FormFinder& finder, const TensorInfo& codes,
                                       const std::string& module) {
  NG_ASSIGN_OR_RETURN(const std::vector<int64_t> text,
                      ShortList(finder, codes, module + ".packing", 64));
  const std::string name(text.begin(), text.end());
  for (const HqqPacking& packing : kHqqPackings) {
    if (packing.name == name) return packing;
  }
  return finder.Refuse(*finder.Find(module + ".packing"),
                       absl::StrCat("says ", JsonExcerpt(name),
                                    ", can run: 8bit_u8, 4bit_u8, 3bit_32, 2bit_u8, 1bit_u8"));
}

struct HqqSize {
  int64_t rows = 0;
  int64_t inputs = 0;
  int64_t group = 0;
  bool by_columns =
      false;  // a group is a column of [group, the rest], not a row of [the rest, group]
};

absl::StatusOr<HqqSize> ReadSize(FormFinder& finder, const TensorInfo& codes,
                                 const std::string& module) {
  NG_ASSIGN_OR_RETURN(const std::vector<int64_t> shape,
                      ShortList(finder, codes, module + ".shape", 2));
  NG_ASSIGN_OR_RETURN(const int64_t axis, OneNumber(finder, codes, module + ".axis"));
  HqqSize size;
  if (shape.size() != 2 || shape[0] < 1 || shape[1] < 1) {
    return finder.Refuse(*finder.Find(module + ".shape"), "must be two extents");
  }
  size.rows = shape[0];
  size.inputs = shape[1];
  size.group = size.inputs;
  size.by_columns = axis == 0;
  if (finder.Find(module + ".group_size") != nullptr) {
    NG_ASSIGN_OR_RETURN(size.group, OneNumber(finder, codes, module + ".group_size"));
  }
  const int64_t cut = size.by_columns ? size.rows : size.inputs;
  if (size.group < 1 || cut % size.group != 0) {
    return finder.Refuse(
        codes, absl::StrCat("is of ", cut, size.by_columns ? " rows" : " inputs", " in groups of ",
                            size.group, ", can run: whole groups"));
  }
  return size;
}

absl::Status PlaceHqqFactors(const FormFinder& finder, const TensorInfo& tensor,
                             const HqqSize& size, Factors* factors) {
  NG_RETURN_IF_ERROR(finder.CheckType(tensor, {DType::kF16, DType::kBf16, DType::kF32}));
  const int64_t n = size.rows * size.inputs / size.group;
  if (tensor.n_elements != n) return finder.WrongShape(tensor, absl::StrCat("of ", n, " values"));
  *factors = FactorsOf(tensor);
  factors->group_stride = 1;
  factors->row_stride = size.by_columns ? size.inputs : size.inputs / size.group;
  if (size.by_columns) factors->rows_cycle = size.rows / size.group;
  return absl::OkStatus();
}

absl::Status AddHqq(FormFinder& finder, const TensorInfo& codes, const std::string& module) {
  for (const char* quantised : {".quant_scale", ".quant_zero"}) {
    if (finder.Find(module + quantised) == nullptr) continue;
    NG_ASSIGN_OR_RETURN(const int64_t is_quantised, OneNumber(finder, codes, module + quantised));
    if (is_quantised == 0) continue;
    return finder.Refuse(*finder.Find(module + quantised), "is 1, can run only with 0");
  }
  NG_ASSIGN_OR_RETURN(const HqqPacking packing, ReadPacking(finder, codes, module));
  NG_ASSIGN_OR_RETURN(const int64_t bits, OneNumber(finder, codes, module + ".nbits"));
  if (bits != packing.bits) {
    return finder.Refuse(*finder.Find(module + ".nbits"),
                         absl::StrCat("is ", bits, ", must be ", packing.bits, " as packed"));
  }
  NG_ASSIGN_OR_RETURN(const HqqSize size, ReadSize(finder, codes, module));
  const int64_t n_values = size.rows * size.inputs;
  const int64_t width = size.by_columns ? n_values / size.group : size.group;
  const int64_t n_lines = n_values / width;
  const int64_t lines = (n_lines + packing.per_element - 1) / packing.per_element;
  if (codes.n_bytes != lines * width * packing.element_bytes) {
    return finder.WrongShape(
        codes, absl::StrCat("of ", lines * width * packing.element_bytes, " bytes as ",
                            ShapeString(std::vector<int64_t>{size.rows, size.inputs}), " of ", bits,
                            " bits"));
  }
  NG_ASSIGN_OR_RETURN(const TensorInfo* const scale, finder.Need(codes, module + ".scale"));
  NG_ASSIGN_OR_RETURN(const TensorInfo* const zero, finder.Need(codes, module + ".zero"));
  MatrixForm form;
  form.group = size.by_columns ? 1 : size.group;
  form.codes = {.tensor = &codes,
                .order = CodeOrder::kPlanes,
                .bits = packing.bits,
                .plane_elements = lines * width,
                .element_bytes = packing.element_bytes,
                .first_shift = packing.bits * (packing.per_element - 1),
                .next_shift = -packing.bits};
  NG_RETURN_IF_ERROR(PlaceHqqFactors(finder, *scale, size, &form.scales));
  NG_RETURN_IF_ERROR(PlaceHqqFactors(finder, *zero, size, &form.zeros));
  form.parts = {&codes, scale, zero};
  form.what = absl::StrCat("int", bits, " in groups of ", size.group);
  finder.Add(std::move(form), module + ".weight", {size.rows, size.inputs});
  for (const char* rest :
       {".unpack_view_dtype", ".view_as_float", ".compute_dtype", ".channel_wise", ".optimize",
        ".round_zero", ".offload_meta", ".encoded_state_dict", ".stores_quant_config"}) {
    if (const TensorInfo* const tensor = finder.Find(module + rest)) finder.Drop(*tensor);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FindHqq(FormFinder& finder) {
  finder.Inert({"quant_config", "skip_modules"});  // each matrix has its own beside it
  for (const TensorInfo& tensor : finder.source().tensors()) {
    if (const auto module = FormFinder::Before(tensor, ".W_q")) {
      NG_RETURN_IF_ERROR(AddHqq(finder, tensor, *module));
    }
  }
  return absl::OkStatus();
}

}  // namespace ng
