#include "core/formats/gguf_shards.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/formats/merged_source.h"

namespace ng {
namespace {

constexpr const char* kNumber = "split.no";
constexpr const char* kCount = "split.count";
constexpr const char* kTensors = "split.tensors.count";
constexpr int64_t kMostFiles = 65535;

// "-00001-of-00003.gguf"
std::string Ending(int64_t number, int64_t count) {
  return absl::StrFormat("-%05d-of-%05d.gguf", number + 1, count);
}

// The file's place among `count` must be this.
absl::Status CheckPlace(const GgufMetadata& metadata, int64_t number, int64_t count) {
  const JsonFields fields = metadata.fields();
  NG_RETURN_IF_ERROR(fields.Int(kCount, {count, count}).status());
  return fields.Int(kNumber, {number, number}).status();
}

}  // namespace

absl::StatusOr<GgufFile> WithFurtherGgufs(GgufFile first) {
  const std::string path = first.metadata.path();
  const JsonFields fields = first.metadata.fields();
  NG_ASSIGN_OR_RETURN(const auto count, fields.OptionalInt(kCount, {0, kMostFiles}));
  if (count.value_or(0) <= 1) return first;
  NG_ASSIGN_OR_RETURN(const int64_t number, fields.Int(kNumber, {0, *count - 1}));
  const std::string ending = Ending(number, *count);
  if (!path.ends_with(ending)) {
    return ModelFileError(absl::StrCat(path, ": is file ", number + 1, " of ", *count,
                                       ", so its name must end in ", ending));
  }
  const std::string stem = path.substr(0, path.size() - ending.size());
  if (number > 0) {
    return ModelFileError(absl::StrCat(path, ": is file ", number + 1, " of ", *count,
                                       "; take the first: ", stem, Ending(0, *count)));
  }
  NG_ASSIGN_OR_RETURN(const int64_t n_tensors, fields.Int(kTensors, {1, int64_t{1} << 24}));
  auto merged = std::make_unique<MergedSource>(path);
  NG_RETURN_IF_ERROR(merged->Add(std::move(first.tensors)));
  for (int64_t i = 1; i < *count; ++i) {
    absl::StatusOr<InputFile> file = InputFile::Open(stem + Ending(i, *count));
    if (!file.ok()) {
      return Annotate(file.status(), absl::StrCat(path, ": is the first of ", *count, " files: "));
    }
    NG_ASSIGN_OR_RETURN(GgufFile further, ReadGguf(*std::move(file)));
    NG_RETURN_IF_ERROR(CheckPlace(further.metadata, i, *count));
    NG_RETURN_IF_ERROR(merged->Add(std::move(further.tensors)));
  }
  if (std::ssize(merged->tensors()) != n_tensors) {
    return ModelFileError(absl::StrCat(path, ": key \"", kTensors, "\" = ", n_tensors, ", the ",
                                       *count, " files hold ", merged->tensors().size(),
                                       " tensors"));
  }
  first.tensors = std::move(merged);
  return first;
}

}  // namespace ng
