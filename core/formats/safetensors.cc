#include "core/formats/safetensors.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/checked.h"
#include "core/base/cursor.h"
#include "core/base/file.h"
#include "core/formats/json.h"
#include "core/formats/tensor_file.h"

namespace ng {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference reader's limit
// A parsed value takes up to fifty times the memory of its text. The models with the most tensors
// have half as many values.
constexpr int64_t kMostValues = 2'000'000;
constexpr int64_t kLengthBytes = 8;
constexpr int kHeaderDepth = 3;  // {"name": {"shape": [...]}}

// A tensor and where its bytes are, counted from the end of the header.
struct Entry : PlacedTensor {
  int64_t end = 0;
};

absl::Status Refuse(const std::string& where, std::string_view reason) {
  return ModelFileError(absl::StrCat(where, ": ", View(reason)));
}

std::string TensorLabel(const std::string& path, const std::string& name) {
  return absl::StrCat(path, ": tensor ", JsonExcerpt(name));
}

absl::StatusOr<std::string> ReadHeader(const InputFile& file) {
  if (file.size() < kLengthBytes) {
    return Refuse(file.path(), absl::StrCat("has ", file.size(),
                                            " bytes, a safetensors file begins with the 8-byte "
                                            "length of its header"));
  }
  std::string prefix(kLengthBytes, '\0');
  NG_RETURN_IF_ERROR(file.ReadAt(0, std::as_writable_bytes(std::span(prefix))));
  const uint64_t length = Cursor(prefix).U64().value();
  const auto rest = static_cast<uint64_t>(file.size() - kLengthBytes);
  if (length == 0 || length > std::min(kMaxHeaderBytes, rest)) {
    return Refuse(file.path(),
                  absl::StrCat("header length ", length, ", must be in [1, ",
                               std::min(kMaxHeaderBytes, rest), "] (", rest, " bytes follow it)"));
  }
  std::string header(length, '\0');
  NG_RETURN_IF_ERROR(file.ReadAt(kLengthBytes, std::as_writable_bytes(std::span(header))));
  if (header.front() != '{') return Refuse(file.path(), "header must begin with '{'");
  const auto n_values = std::ranges::count(header, ',') + 1;
  if (n_values > kMostValues) {
    return Refuse(file.path(), absl::StrCat("header lists ", n_values,
                                            " values, must list at most ", kMostValues));
  }
  return header;
}

absl::Status CheckMetadata(const Json& metadata, const std::string& path) {
  if (metadata.is_null()) return absl::OkStatus();
  const bool strings_only =
      metadata.is_object() &&
      std::ranges::all_of(metadata, [](const Json& value) { return value.is_string(); });
  if (strings_only) return absl::OkStatus();
  return Refuse(path, absl::StrCat("header: __metadata__ = ", JsonExcerpt(metadata),
                                   ", must map strings to strings"));
}

absl::StatusOr<DType> ReadDType(const Json& value, const std::string& where) {
  std::string known;
  for (auto i = static_cast<int32_t>(DType::kF32); i <= static_cast<int32_t>(DType::kF8E5M2); ++i) {
    const std::string_view name = DTypeName(static_cast<DType>(i));
    if (value == name) return static_cast<DType>(i);
    absl::StrAppend(&known, known.empty() ? "" : ", ", View(name));
  }
  return Refuse(where, absl::StrCat("dtype = ", JsonExcerpt(value), ", must be one of ", known));
}

// A list of integers that are not negative.
absl::StatusOr<std::vector<int64_t>> ReadIntegers(const Json& value, std::string_view key,
                                                  const std::string& where) {
  const auto is_size = [](const Json& item) {
    return item.is_number_unsigned() && item.get<uint64_t>() <= uint64_t{INT64_MAX};
  };
  if (!value.is_array() || !std::ranges::all_of(value, is_size)) {
    return Refuse(where, absl::StrCat(View(key), " = ", JsonExcerpt(value),
                                      ", must be a list of integers in [0, ", INT64_MAX, "]"));
  }
  return value.get<std::vector<int64_t>>();
}

absl::Status CheckKeys(const Json& fields, const std::string& where) {
  constexpr std::string_view kKeys[] = {"dtype", "shape", "data_offsets"};
  if (!fields.is_object()) {
    return Refuse(where, absl::StrCat("is ", JsonExcerpt(fields), ", must be a JSON object"));
  }
  for (const std::string_view key : kKeys) {
    if (!fields.contains(key)) return Refuse(where, absl::StrCat(View(key), " is missing"));
  }
  for (const auto& [key, value] : fields.items()) {
    if (std::ranges::find(kKeys, key) == std::end(kKeys)) {
      return Refuse(where, absl::StrCat("unknown key ", JsonExcerpt(key),
                                        ", allowed are dtype, shape and data_offsets"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Entry> ReadEntry(const std::string& name, const Json& fields,
                                const std::string& path) {
  const std::string where = TensorLabel(path, name);
  NG_RETURN_IF_ERROR(CheckKeys(fields, where));

  Entry entry;
  entry.info.name = name;
  NG_ASSIGN_OR_RETURN(entry.info.dtype, ReadDType(fields["dtype"], where));
  NG_ASSIGN_OR_RETURN(entry.info.shape, ReadIntegers(fields["shape"], "shape", where));
  NG_ASSIGN_OR_RETURN(const std::vector<int64_t> offsets,
                      ReadIntegers(fields["data_offsets"], "data_offsets", where));
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    return Refuse(where, absl::StrCat("data_offsets = ", JsonExcerpt(fields["data_offsets"]),
                                      ", must be [begin, end] with begin <= end"));
  }
  entry.begin = offsets[0];
  entry.end = offsets[1];

  std::optional<int64_t> count = 1;
  for (const int64_t dim : entry.info.shape) {
    if (count) count = CheckedMul(*count, dim);
  }
  const std::optional<int64_t> bytes =
      count ? CheckedMul(*count, DTypeBytes(entry.info.dtype)) : std::nullopt;
  if (!bytes || *bytes != entry.end - entry.begin) {
    return Refuse(
        where, absl::StrCat(View(DTypeName(entry.info.dtype)), " ", ShapeString(entry.info.shape),
                            " needs ", bytes ? absl::StrCat(*bytes) : "more than 2^63", " bytes, ",
                            entry.end - entry.begin, " lie between its data_offsets"));
  }
  entry.info.n_elements = *count;
  entry.info.n_bytes = *bytes;
  return entry;
}

// The data of all tensors, in the order of their offsets, fills the file without a gap, an overlap
// or a byte left over.
absl::Status CheckLayout(std::vector<Entry>& entries, int64_t data_bytes, const std::string& path) {
  std::ranges::sort(entries, {},
                    [](const Entry& entry) { return std::pair(entry.begin, entry.end); });
  int64_t end = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != end || entry.end > data_bytes) {
      return Refuse(TensorLabel(path, entry.info.name),
                    absl::StrCat("data_offsets [", entry.begin, ", ", entry.end,
                                 "], must begin at ", end, " and end by ", data_bytes));
    }
    end = entry.end;
  }
  if (end != data_bytes) {
    return Refuse(
        path, absl::StrCat("the tensors cover ", end, " bytes of data, the file has ", data_bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<PlacedTensor>> ReadTensors(
    const InputFile& file, std::map<std::string, std::string>* metadata) {
  NG_ASSIGN_OR_RETURN(const std::string header, ReadHeader(file));
  NG_ASSIGN_OR_RETURN(const JsonDocument tensors,
                      ParseJson(header, file.path() + ": header", kHeaderDepth));
  std::vector<Entry> entries;
  entries.reserve(tensors->size());
  for (const auto& [name, fields] : tensors->items()) {
    if (name == "__metadata__") {
      NG_RETURN_IF_ERROR(CheckMetadata(fields, file.path()));
      if (metadata != nullptr && fields.is_object()) fields.get_to(*metadata);
      continue;
    }
    NG_ASSIGN_OR_RETURN(Entry entry, ReadEntry(name, fields, file.path()));
    entries.push_back(std::move(entry));
  }
  const int64_t data_start = kLengthBytes + static_cast<int64_t>(header.size());
  NG_RETURN_IF_ERROR(CheckLayout(entries, file.size() - data_start, file.path()));
  std::vector<PlacedTensor> placed;
  for (Entry& entry : entries) {
    placed.push_back({std::move(entry.info), data_start + entry.begin});
  }
  return placed;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TensorSource>> OpenSafetensors(
    const std::string& path, std::map<std::string, std::string>* metadata) {
  NG_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path));
  NG_ASSIGN_OR_RETURN(std::vector<PlacedTensor> placed, ReadTensors(file, metadata));
  return MakeTensorFile(std::move(file), std::move(placed));
}

}  // namespace ng
