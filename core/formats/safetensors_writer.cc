#include <bit>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/checked.h"
#include "core/base/output_file.h"
#include "core/formats/json.h"
#include "core/formats/safetensors.h"

namespace ng {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor data is stored as it lies");

constexpr const char* kMetadata = "__metadata__";

std::optional<int64_t> ElementCount(const std::vector<int64_t>& shape) {
  std::optional<int64_t> count = 1;
  for (const int64_t dim : shape) {
    if (count) count = dim < 0 ? std::nullopt : CheckedMul(*count, dim);
  }
  return count;
}

// The JSON header, padded with blanks so that the data begins at a multiple of 8.
absl::StatusOr<std::string> BuildHeader(const std::string& path,
                                        const std::vector<NamedTensor>& tensors,
                                        const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  int64_t offset = 0;
  for (const NamedTensor& tensor : tensors) {
    const std::string where = absl::StrCat(path, ": tensor ", JsonExcerpt(tensor.name));
    const auto n_elements = static_cast<int64_t>(tensor.data.size());
    if (ElementCount(tensor.shape) != n_elements) {
      return OutputError(absl::StrCat(where, ": shape ", ShapeString(tensor.shape), " with ",
                                      n_elements, " elements"));
    }
    if (tensor.name == kMetadata || header.contains(tensor.name)) {
      return OutputError(absl::StrCat(where, ": the name is taken"));
    }
    const int64_t end = offset + n_elements * static_cast<int64_t>(sizeof(float));
    header[tensor.name] = {{"dtype", DTypeName(DType::kF32)},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, end}}};
    offset = end;
  }
  try {
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    return text;
  } catch (const nlohmann::json::exception&) {
    return OutputError(absl::StrCat(path, ": a tensor's name or the metadata is not valid UTF-8"));
  }
}

std::string LittleEndian(uint64_t value) {
  std::string bytes(sizeof(value), '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(value >> (8 * i));
  return bytes;
}

}  // namespace

absl::Status WriteSafetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                              const SafetensorsOptions& options) {
  NG_ASSIGN_OR_RETURN(const std::string header, BuildHeader(path, tensors, options.metadata));
  NG_ASSIGN_OR_RETURN(AtomicFileWriter file, AtomicFileWriter::Create(path, options.stop));
  NG_RETURN_IF_ERROR(file.Write(LittleEndian(header.size())));
  NG_RETURN_IF_ERROR(file.Write(header));
  for (const NamedTensor& tensor : tensors) {
    NG_RETURN_IF_ERROR(file.Write(
        {reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size() * sizeof(float)}));
  }
  return file.Commit();
}

}  // namespace ng
