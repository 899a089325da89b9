#include "core/plugin/elf_extent.h"

#include <elf.h>

#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "core/plugin/library.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using ::testing::HasSubstr;

class ElfExtent : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string path = std::string(NG_BINARY_DIR "/tests/fixtures/broken_plugins") +
                             "/larger_struct/ng_sampler_larger_struct.so";
    std::ifstream file(path, std::ios::binary);
    library_.assign(std::istreambuf_iterator<char>(file), {});
    ASSERT_GT(library_.size(), sizeof(Elf64_Ehdr));
  }

  // A new file, since a library that opens stays mapped and must not be changed.
  std::string Write(const std::string& bytes) {
    return dir_.Write("library_" + std::to_string(n_files_++), bytes);
  }

  // The library with `value` written at `offset`.
  template <typename T>
  std::string Patched(size_t offset, T value) const {
    std::string bytes = library_;
    std::memcpy(bytes.data() + offset, &value, sizeof(value));
    return bytes;
  }

  std::string library_;
  test::TempDir dir_;
  int n_files_ = 0;
};

TEST_F(ElfExtent, AcceptsACompleteLibrary) {
  const absl::Status status = CheckElfExtent(Write(library_));
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(ElfExtent, LeavesOtherFilesToDlopen) {
  EXPECT_TRUE(CheckElfExtent(Write("")).ok());
  EXPECT_TRUE(CheckElfExtent(Write("text")).ok());
  EXPECT_TRUE(CheckElfExtent(Write(std::string(4096, 'x'))).ok());
}

// Without the check, most of these cuts end the process by SIGBUS.
TEST_F(ElfExtent, EveryTruncatedLibraryIsRefusedOrWhole) {
  int refused = 0;
  for (size_t size = 0; size < library_.size(); size += 199) {
    const absl::Status status = OpenPluginLibrary(Write(library_.substr(0, size))).status();
    if (status.ok()) continue;  // only the section headers are missing
    ++refused;
    EXPECT_EQ(ExitCode(status), 4) << "cut at " << size;
  }
  EXPECT_GT(refused, 20);
}

TEST_F(ElfExtent, RefusesSizesThatOverflow) {
  constexpr uint64_t kHuge = ~uint64_t{0} - 8;
  const absl::Status table = CheckElfExtent(Write(Patched(offsetof(Elf64_Ehdr, e_phoff), kHuge)));
  EXPECT_EQ(ExitCode(table), 4);
  EXPECT_THAT(std::string(table.message()), HasSubstr("truncated: the program header table"));

  Elf64_Ehdr header;
  std::memcpy(&header, library_.data(), sizeof(header));
  for (const size_t field : {offsetof(Elf64_Phdr, p_offset), offsetof(Elf64_Phdr, p_filesz)}) {
    for (int i = 0; i < header.e_phnum; ++i) {
      const size_t at = header.e_phoff + i * sizeof(Elf64_Phdr);
      Elf64_Phdr segment;
      std::memcpy(&segment, library_.data() + at, sizeof(segment));
      if (segment.p_type != PT_LOAD) continue;
      const absl::Status status = CheckElfExtent(Write(Patched(at + field, kHuge)));
      EXPECT_EQ(ExitCode(status), 4);
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("truncated: segment " + std::to_string(i)));
    }
  }
}

}  // namespace
}  // namespace ng
