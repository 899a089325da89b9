#include "core/plugin/elf_extent.h"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/file.h"

namespace ng {
namespace {

// True when [offset, offset + length) lies within [0, size); no sum, so nothing can overflow.
bool Within(uint64_t offset, uint64_t length, uint64_t size) {
  return length <= size && offset <= size - length;
}

template <typename T>
absl::Status ReadAt(const InputFile& file, uint64_t offset, T* out) {
  return file.ReadAt(static_cast<int64_t>(offset), std::as_writable_bytes(std::span(out, 1)));
}

// As a fault of the plugin; who asks names the file.
absl::Status Unreadable(const std::string& path, const absl::Status& status) {
  absl::string_view why = status.message();
  absl::ConsumePrefix(&why, path + ": ");
  return PluginError({why.data(), why.size()});
}

}  // namespace

absl::Status CheckElfExtent(const std::string& path) {
  const absl::StatusOr<InputFile> file = InputFile::Open(path);
  if (!file.ok()) return Unreadable(path, file.status());
  const auto size = static_cast<uint64_t>(file->size());

  Elf64_Ehdr header;
  if (size < sizeof(header) || !ReadAt(*file, 0, &header).ok() ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_phentsize != sizeof(Elf64_Phdr)) {
    return absl::OkStatus();
  }
  const uint64_t table_bytes = uint64_t{header.e_phnum} * sizeof(Elf64_Phdr);
  if (!Within(header.e_phoff, table_bytes, size)) {
    return PluginError(absl::StrCat("truncated: the program header table of ", table_bytes,
                                    " bytes at ", header.e_phoff, " is not within the file's ",
                                    size, " bytes"));
  }
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    const absl::Status read = ReadAt(*file, header.e_phoff + i * sizeof(segment), &segment);
    if (!read.ok()) return Unreadable(path, read);
    if (segment.p_type == PT_LOAD && !Within(segment.p_offset, segment.p_filesz, size)) {
      return PluginError(absl::StrCat("truncated: segment ", i, " has ", segment.p_filesz,
                                      " bytes at ", segment.p_offset, ", the file has ", size));
    }
  }
  return absl::OkStatus();
}

}  // namespace ng
