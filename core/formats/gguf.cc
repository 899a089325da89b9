#include "core/formats/gguf.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstddef>
#include <set>
#include <span>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/checked.h"
#include "core/base/cursor.h"
#include "core/base/file.h"
#include "core/base/file_cursor.h"
#include "core/formats/gguf_shards.h"
#include "core/formats/tensor_file.h"

namespace ng {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kMagic = "GGUF";
// Far beyond any real file. What a header claims is compared with these before memory is taken.
constexpr uint64_t kMostHeaderBytes = 100'000'000;
constexpr uint64_t kMostKeyValues = 65536;
constexpr uint64_t kMostTensors = 100'000;
constexpr uint64_t kMostElements = uint64_t{1} << 22;  // in an array
constexpr int64_t kDefaultAlignment = 32;
constexpr uint32_t kMaxDims = 4;
constexpr size_t kMaxNameBytes = 63;  // of a tensor
// The fewest bytes that a key-value, a tensor and a text take, to check counts before reading
// anything.
constexpr uint64_t kLeastKeyValue = 8 + 4 + 1;
constexpr uint64_t kLeastTensor = 8 + 4 + 4 + 8;
constexpr uint64_t kLeastText = 8;

// The types of tensors, numbered as in the file.
struct TensorType {
  uint32_t number;
  DType dtype;
};
constexpr TensorType kTensorTypes[] = {
    {0, DType::kF32},     {1, DType::kF16},    {2, DType::kQ40},     {3, DType::kQ41},
    {6, DType::kQ50},     {7, DType::kQ51},    {8, DType::kQ80},     {10, DType::kQ2K},
    {11, DType::kQ3K},    {12, DType::kQ4K},   {13, DType::kQ5K},    {14, DType::kQ6K},
    {16, DType::kIq2Xxs}, {17, DType::kIq2Xs}, {18, DType::kIq3Xxs}, {19, DType::kIq1S},
    {20, DType::kIq4Nl},  {21, DType::kIq3S},  {22, DType::kIq2S},   {23, DType::kIq4Xs},
    {24, DType::kI8},     {25, DType::kI16},   {26, DType::kI32},    {27, DType::kI64},
    {28, DType::kF64},    {29, DType::kIq1M},  {30, DType::kBf16},   {34, DType::kTq1},
    {35, DType::kTq2},    {39, DType::kMxfp4},
};

// Bytes of a value, 0 for those whose length varies.
uint64_t FixedBytes(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
      return 8;
    case GgufType::kText:
    case GgufType::kArray:
      return 0;
  }
  return 0;
}

// As the file has it: the length, then the bytes.
void AppendText(std::string_view text, std::string* out) {
  for (size_t i = 0; i < sizeof(uint64_t); ++i) {
    *out += static_cast<char>(uint64_t{text.size()} >> (8 * i));
  }
  out->append(text);
}

// Everything before the data.
class Header {
 public:
  explicit Header(const InputFile& file)
      : metadata(file.path()),
        path_(file.path()),
        file_bytes_(file.size()),
        cursor_(file, kMostHeaderBytes) {}

  absl::Status Read() {
    NG_RETURN_IF_ERROR(ReadCounts());
    for (uint64_t i = 0; i < n_values_; ++i) NG_RETURN_IF_ERROR(ReadKeyValue());
    for (uint64_t i = 0; i < n_tensors_; ++i) NG_RETURN_IF_ERROR(ReadTensor());
    return PlaceTensors();
  }

  // Key-values up to this one, of the first few.
  absl::Status ReadUpTo(std::string_view key) {
    constexpr uint64_t kFew = 16;
    NG_RETURN_IF_ERROR(ReadCounts());
    for (uint64_t i = 0; i < std::min(n_values_, kFew) && !metadata.fields().Has(key); ++i) {
      NG_RETURN_IF_ERROR(ReadKeyValue());
    }
    return absl::OkStatus();
  }

  GgufMetadata metadata;
  std::vector<PlacedTensor>
      tensors;  // in the file's order; before the end, begin counts in the data

 private:
  absl::Status Refuse(std::string_view reason) const {
    return ModelFileError(absl::StrCat(path_, ": ", View(reason)));
  }

  absl::Status ReadCounts() {
    NG_RETURN_IF_ERROR(ReadMagic());
    NG_ASSIGN_OR_RETURN(n_tensors_, Count("tensor count", {kLeastTensor, kMostTensors}));
    NG_ASSIGN_OR_RETURN(n_values_, Count("key-value count", {kLeastKeyValue, kMostKeyValues}));
    return absl::OkStatus();
  }

  absl::Status ReadMagic() {
    NG_ASSIGN_OR_RETURN(const std::string_view magic,
                        cursor_.Bytes(kMagic.size(), "the letters GGUF"));
    if (magic != kMagic) {
      return Refuse(absl::StrCat("begins with ", JsonExcerpt(std::string(magic)),
                                 ", must be \"GGUF\"; a model in another format is a folder"));
    }
    NG_ASSIGN_OR_RETURN(const uint32_t version, cursor_.U32("the version"));
    if (version == 2 || version == 3) return absl::OkStatus();
    return Refuse(absl::StrCat("GGUF version ", version, ", must be 2 or 3"));
  }

  // Checks a number of things against a limit, and against the fewest bytes that each of them
  // takes.
  struct Bounds {
    uint64_t least_bytes;
    uint64_t most;
  };

  absl::StatusOr<uint64_t> Count(std::string_view what, Bounds bounds) {
    NG_ASSIGN_OR_RETURN(const uint64_t count, cursor_.U64(what));
    const uint64_t most = std::min(bounds.most, cursor_.left() / bounds.least_bytes);
    if (count <= most) return count;
    return Refuse(absl::StrCat(View(what), " = ", count, ", must be in [0, ", most, "] (",
                               cursor_.left(), " bytes are left)"));
  }

  // Borrowed until the next value is read.
  absl::StatusOr<std::string_view> Text(std::string_view what) {
    NG_ASSIGN_OR_RETURN(const uint64_t length, cursor_.U64(what));
    if (length <= cursor_.left()) return cursor_.Bytes(length, what);
    return Refuse(
        absl::StrCat(View(what), " has ", length, " bytes, ", cursor_.left(), " are left"));
  }

  absl::Status ReadKeyValue() {
    NG_ASSIGN_OR_RETURN(const std::string_view taken, Text("a key"));
    const std::string key(taken);
    if (key.empty()) return Refuse("a key is empty");
    const std::string where = absl::StrCat("key ", JsonExcerpt(key));
    NG_ASSIGN_OR_RETURN(const GgufType type, ReadType(where));
    bool added = false;
    if (type == GgufType::kArray) {
      NG_ASSIGN_OR_RETURN(GgufMetadata::Array array, ReadArray(where));
      added = metadata.Add(key, std::move(array));
    } else {
      NG_ASSIGN_OR_RETURN(Json value, ReadSingle(type, where));
      added = metadata.Add(key, std::move(value));
    }
    return added ? absl::OkStatus() : Refuse(where + " appears twice");
  }

  absl::StatusOr<GgufType> ReadType(const std::string& where) {
    NG_ASSIGN_OR_RETURN(const uint32_t number, cursor_.U32(where));
    constexpr auto kLast = static_cast<uint32_t>(GgufType::kF64);
    if (number <= kLast) return static_cast<GgufType>(number);
    return Refuse(
        absl::StrCat(where, " has a value of type ", number, ", must be in [0, ", kLast, "]"));
  }

  absl::StatusOr<Json> ReadSingle(GgufType type, const std::string& where) {
    if (type == GgufType::kText) {
      NG_ASSIGN_OR_RETURN(const std::string_view text, Text(where));
      return Json(std::string(text));
    }
    NG_ASSIGN_OR_RETURN(const std::string_view bytes, cursor_.Bytes(FixedBytes(type), where));
    Cursor value(bytes);
    switch (type) {
      case GgufType::kU8:
        return Json(value.U8().value());
      case GgufType::kI8:
        return Json(static_cast<int8_t>(value.U8().value()));
      case GgufType::kU16:
        return Json(value.U16().value());
      case GgufType::kI16:
        return Json(static_cast<int16_t>(value.U16().value()));
      case GgufType::kU32:
        return Json(value.U32().value());
      case GgufType::kI32:
        return Json(static_cast<int32_t>(value.U32().value()));
      case GgufType::kF32:
        return Json(value.F32().value());
      case GgufType::kU64:
        return Json(value.U64().value());
      case GgufType::kI64:
        return Json(static_cast<int64_t>(value.U64().value()));
      case GgufType::kF64:
        return Json(std::bit_cast<double>(value.U64().value()));
      default:
        break;
    }
    assert(type == GgufType::kBool);
    const uint8_t truth = value.U8().value();
    if (truth <= 1) return Json(truth == 1);
    return Refuse(absl::StrCat(where, " is a bool of ", truth, ", must be 0 or 1"));
  }

  absl::StatusOr<GgufMetadata::Array> ReadArray(const std::string& where) {
    GgufMetadata::Array array;
    NG_ASSIGN_OR_RETURN(array.type, ReadType(where));
    if (array.type == GgufType::kArray) {
      return Refuse(where + " is an array of arrays, must be one of single values");
    }
    const uint64_t fixed = FixedBytes(array.type);
    NG_ASSIGN_OR_RETURN(const uint64_t count,
                        Count(where + ": count", {fixed == 0 ? kLeastText : fixed, kMostElements}));
    array.count = static_cast<int64_t>(count);
    if (fixed > 0) {
      // The product fits: Count has compared it with the file.
      NG_ASSIGN_OR_RETURN(const std::string_view bytes, cursor_.Bytes(count * fixed, where));
      array.bytes = bytes;
      return array;
    }
    for (uint64_t i = 0; i < count; ++i) {
      NG_ASSIGN_OR_RETURN(const std::string_view text, Text(where));
      AppendText(text, &array.bytes);
    }
    return array;
  }

  absl::Status ReadTensor() {
    PlacedTensor& entry = tensors.emplace_back();
    TensorInfo& info = entry.info;
    NG_ASSIGN_OR_RETURN(const std::string_view name, Text("a tensor's name"));
    info.name = name;
    const std::string where = absl::StrCat("tensor ", JsonExcerpt(info.name));
    if (info.name.size() > kMaxNameBytes) {
      return Refuse(absl::StrCat(where, ": the name has ", info.name.size(), " bytes, at most ",
                                 kMaxNameBytes, " are allowed"));
    }
    if (!names_.insert(info.name).second) return Refuse(where + " appears twice");
    NG_RETURN_IF_ERROR(ReadShape(where, info));
    NG_ASSIGN_OR_RETURN(info.dtype, ReadTensorType(where));
    NG_RETURN_IF_ERROR(Measure(where, info));
    NG_ASSIGN_OR_RETURN(const uint64_t offset, cursor_.U64(where));
    if (offset > static_cast<uint64_t>(file_bytes_)) {
      return Refuse(
          absl::StrCat(where, " has offset ", offset, ", the file has ", file_bytes_, " bytes"));
    }
    entry.begin = static_cast<int64_t>(offset);
    return absl::OkStatus();
  }

  absl::Status ReadShape(const std::string& where, TensorInfo& info) {
    NG_ASSIGN_OR_RETURN(const uint32_t n_dims, cursor_.U32(where));
    if (n_dims > kMaxDims) {
      return Refuse(
          absl::StrCat(where, " has ", n_dims, " dimensions, must be in [0, ", kMaxDims, "]"));
    }
    for (uint32_t i = 0; i < n_dims; ++i) {
      NG_ASSIGN_OR_RETURN(const uint64_t dim, cursor_.U64(where));
      if (dim == 0 || dim > uint64_t{INT64_MAX}) {
        return Refuse(
            absl::StrCat(where, " has a dimension of ", dim, ", must be in [1, ", INT64_MAX, "]"));
      }
      info.shape.push_back(static_cast<int64_t>(dim));
    }
    std::ranges::reverse(info.shape);  // the file has the innermost first
    return absl::OkStatus();
  }

  absl::StatusOr<DType> ReadTensorType(const std::string& where) {
    NG_ASSIGN_OR_RETURN(const uint32_t number, cursor_.U32(where));
    std::string known;
    for (const TensorType& type : kTensorTypes) {
      if (type.number == number) return type.dtype;
      absl::StrAppend(&known, known.empty() ? "" : ", ", View(DTypeName(type.dtype)), " (",
                      type.number, ")");
    }
    return Refuse(absl::StrCat(where, " is of ggml type ", number, ", must be one of ", known));
  }

  absl::Status Measure(const std::string& where, TensorInfo& info) const {
    const int64_t block = DTypeBlock(info.dtype);
    const int64_t inner = info.shape.empty() ? 1 : info.shape.back();
    if (inner % block != 0) {
      return Refuse(absl::StrCat(where, " is ", View(DTypeName(info.dtype)), " ",
                                 ShapeString(info.shape), ", its rows must be whole blocks of ",
                                 block));
    }
    std::optional<int64_t> count = 1;
    for (const int64_t dim : info.shape) {
      if (count) count = CheckedMul(*count, dim);
    }
    const std::optional<int64_t> bytes =
        count ? CheckedMul(*count / block, DTypeBytes(info.dtype)) : std::nullopt;
    if (!bytes || *bytes > file_bytes_) {
      return Refuse(absl::StrCat(
          where, " is ", View(DTypeName(info.dtype)), " ", ShapeString(info.shape), " and needs ",
          bytes ? absl::StrCat(*bytes) : "more than 2^63", " bytes, the file has ", file_bytes_));
    }
    info.n_elements = *count;
    info.n_bytes = *bytes;
    return absl::OkStatus();
  }

  // From offsets in the data to positions in the file.
  absl::Status PlaceTensors() {
    NG_ASSIGN_OR_RETURN(const int64_t alignment, ReadAlignment());
    const auto pad = [alignment](int64_t bytes) {
      return SaturatingAdd(bytes, alignment - 1) & -alignment;
    };
    const int64_t data = pad(static_cast<int64_t>(cursor_.position()));
    int64_t next = 0;
    for (PlacedTensor& entry : tensors) {
      const std::string where = absl::StrCat("tensor ", JsonExcerpt(entry.info.name));
      if (entry.begin != next) {
        return Refuse(absl::StrCat(where, " has offset ", entry.begin, ", must be ", next,
                                   ": where the one before ends, at a multiple of ", alignment));
      }
      const int64_t end = SaturatingAdd(SaturatingAdd(data, entry.begin), entry.info.n_bytes);
      if (end > file_bytes_) {
        return Refuse(absl::StrCat(where, " ends at byte ", end, ", the file has ", file_bytes_));
      }
      next = pad(SaturatingAdd(entry.begin, entry.info.n_bytes));
      entry.begin += data;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> ReadAlignment() const {
    constexpr char kKey[] = "general.alignment";
    constexpr int64_t kLeast = 8;
    NG_ASSIGN_OR_RETURN(const std::optional<int64_t> found,
                        metadata.fields().OptionalInt(kKey, {0, 1 << 30}));
    const int64_t alignment = found.value_or(kDefaultAlignment);
    if (alignment >= kLeast && std::has_single_bit(static_cast<uint64_t>(alignment))) {
      return alignment;
    }
    return Refuse(absl::StrCat("key \"", kKey, "\" = ", alignment,
                               ", must be a power of two and at least ", kLeast));
  }

  std::string path_;
  int64_t file_bytes_;
  uint64_t n_tensors_ = 0;
  uint64_t n_values_ = 0;
  FileCursor cursor_;
  std::set<std::string> names_;
};

}  // namespace

absl::StatusOr<bool> IsGguf(const InputFile& file) {
  if (file.path().ends_with(".gguf")) return true;
  std::string magic(kMagic.size(), '\0');
  if (file.size() < std::ssize(magic)) return false;
  NG_RETURN_IF_ERROR(file.ReadAt(0, std::as_writable_bytes(std::span(magic))));
  return magic == kMagic;
}

std::string GgufArchitecture(const std::string& path) {
  constexpr const char* kKey = "general.architecture";
  const absl::StatusOr<InputFile> file = InputFile::Open(path);
  if (!file.ok()) return {};
  Header header(*file);
  if (!header.ReadUpTo(kKey).ok()) return {};
  return header.metadata.fields().OptionalText(kKey).value_or(std::nullopt).value_or("");
}

absl::StatusOr<GgufFile> OpenGguf(const std::string& path) {
  NG_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path));
  NG_ASSIGN_OR_RETURN(GgufFile gguf, ReadGguf(std::move(file)));
  return WithFurtherGgufs(std::move(gguf));
}

absl::StatusOr<GgufFile> ReadGguf(InputFile file) {
  Header header(file);
  NG_RETURN_IF_ERROR(header.Read());
  std::vector<PlacedTensor> tensors = std::move(header.tensors);
  GgufMetadata metadata = std::move(header.metadata);
  return GgufFile{std::move(metadata), MakeTensorFile(std::move(file), std::move(tensors))};
}

}  // namespace ng
