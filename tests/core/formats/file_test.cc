#include "core/formats/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>

#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(InputFile, ReadsAtPositions) {
  const test::TempDir folder;
  const auto file = InputFile::Open(folder.Write("f", "0123456789"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->size(), 10);
  std::string out(4, '\0');
  ASSERT_TRUE(file->ReadAt(3, std::as_writable_bytes(std::span(out))).ok());
  EXPECT_EQ(out, "3456");
}

TEST(InputFile, RefusesToReadPastTheEnd) {
  const test::TempDir folder;
  const auto file = InputFile::Open(folder.Write("f", "0123456789"));
  ASSERT_TRUE(file.ok());
  std::string out(4, '\0');
  const absl::Status status = file->ReadAt(8, std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(ExitCode(status), 3);
  EXPECT_THAT(Message(status), HasSubstr("/f: ends at offset 10"));
}

TEST(InputFile, ReportsAFileThatShrankAfterItWasOpened) {
  const test::TempDir folder;
  const std::string path = folder.Write("f", std::string(100, 'x'));
  const auto file = InputFile::Open(path);
  ASSERT_TRUE(file.ok());
  std::filesystem::resize_file(path, 10);
  std::string out(100, '\0');
  EXPECT_EQ(ExitCode(file->ReadAt(0, std::as_writable_bytes(std::span(out)))), 3);
}

TEST(InputFile, NamesWhatCannotBeOpened) {
  const test::TempDir folder;
  EXPECT_THAT(Message(InputFile::Open(folder.File("absent")).status()),
              HasSubstr("/absent: cannot open: No such file"));
  EXPECT_THAT(Message(InputFile::Open(folder.File("")).status()), HasSubstr("is a folder"));
}

TEST(InputFile, RefusesAFifoWithoutWaitingForAWriter) {
  const test::TempDir folder;
  ASSERT_EQ(::mkfifo(folder.File("fifo").c_str(), 0600), 0);
  EXPECT_THAT(Message(InputFile::Open(folder.File("fifo")).status()),
              HasSubstr("is not a regular file"));
}

TEST(ReadWholeFile, RefusesAFileAboveTheLimit) {
  const test::TempDir folder;
  const std::string path = folder.Write("f", "12345");
  EXPECT_EQ(ReadWholeFile(path, 5).value(), "12345");
  const auto refused = ReadWholeFile(path, 4);
  EXPECT_EQ(ExitCode(refused.status()), 3);
  EXPECT_THAT(Message(refused.status()), HasSubstr("has 5 bytes, must have at most 4"));
}

absl::Status WriteAll(const std::string& path, std::string_view bytes) {
  NG_ASSIGN_OR_RETURN(AtomicFileWriter writer, AtomicFileWriter::Create(path));
  NG_RETURN_IF_ERROR(writer.Write(bytes));
  return writer.Commit();
}

TEST(AtomicFileWriter, ReplacesTheTargetOnlyAtCommit) {
  const test::TempDir folder;
  const std::string path = folder.Write("out", "old");
  auto writer = AtomicFileWriter::Create(path);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE(writer->Write("new ").ok());
  ASSERT_TRUE(writer->Write(std::string(200'000, 'x')).ok());
  ASSERT_TRUE(writer->Write("end").ok());
  ASSERT_TRUE(writer->Flush().ok());
  EXPECT_EQ(test::Slurp(path), "old");
  ASSERT_TRUE(writer->Commit().ok());
  EXPECT_EQ(test::Slurp(path), "new " + std::string(200'000, 'x') + "end");
  EXPECT_THAT(folder.Names(), ElementsAre("out"));
}

TEST(AtomicFileWriter, LeavesNothingBehindWithoutCommit) {
  const test::TempDir folder;
  {
    auto writer = AtomicFileWriter::Create(folder.File("out"));
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->Write("half").ok());
    ASSERT_TRUE(writer->Flush().ok());
  }
  EXPECT_THAT(folder.Names(), IsEmpty());
}

TEST(AtomicFileWriter, KeepsAMovedFromWriterFromRemovingTheFile) {
  const test::TempDir folder;
  auto first = AtomicFileWriter::Create(folder.File("out"));
  ASSERT_TRUE(first.ok());
  AtomicFileWriter second = *std::move(first);
  ASSERT_TRUE(second.Write("text").ok());
  first = absl::InternalError("gone");
  ASSERT_TRUE(second.Commit().ok());
  EXPECT_EQ(test::Slurp(folder.File("out")), "text");
}

TEST(AtomicFileWriter, KeepsModeAndSymbolicLinkOfTheTarget) {
  const test::TempDir folder;
  const std::string real = folder.Write("real", "old");
  std::filesystem::permissions(real, std::filesystem::perms{0640});
  std::filesystem::create_symlink("real", folder.File("link"));
  ASSERT_TRUE(WriteAll(folder.File("link"), "new").ok());
  EXPECT_TRUE(std::filesystem::is_symlink(folder.File("link")));
  EXPECT_EQ(test::Slurp(real), "new");
  EXPECT_EQ(std::filesystem::status(real).permissions(), std::filesystem::perms{0640});
}

TEST(AtomicFileWriter, ReportsAFullDevice) {
  const absl::Status status = WriteAll("/dev/full", "text");
  EXPECT_EQ(ExitCode(status), 7);
  EXPECT_EQ(Message(status), "/dev/full: cannot write: No space left on device");
}

TEST(AtomicFileWriter, WritesStraightIntoAFifo) {
  const test::TempDir folder;
  const std::string fifo = folder.File("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  std::string received;
  std::thread reader([&] { received = test::Slurp(fifo); });
  EXPECT_TRUE(WriteAll(fifo, "through").ok());
  reader.join();
  EXPECT_EQ(received, "through");
  EXPECT_THAT(folder.Names(), ElementsAre("fifo"));
}

TEST(AtomicFileWriter, NamesAFolderThatIsAbsentOrIsTheTarget) {
  const test::TempDir folder;
  for (const std::string& path : {folder.File("absent/out"), folder.File("")}) {
    const absl::Status status = WriteAll(path, "text");
    EXPECT_EQ(ExitCode(status), 7);
    EXPECT_THAT(Message(status), HasSubstr(path + ": cannot "));
  }
}

// A limit on the size of files stands in for a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limited = {bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limited);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_{};
  void (*old_handler_)(int);
};

TEST(AtomicFileWriter, KeepsTheOldFileAndTheFirstErrorWhenWritingFails) {
  const test::TempDir folder;
  const std::string path = folder.Write("out", "old");
  {
    const FileSizeLimit limit(1000);
    auto writer = AtomicFileWriter::Create(path);
    ASSERT_TRUE(writer.ok());
    const absl::Status failed = writer->Write(std::string(100'000, 'x'));
    EXPECT_EQ(ExitCode(failed), 7);
    EXPECT_THAT(Message(failed), HasSubstr("/out: cannot write: "));
    EXPECT_EQ(writer->Write("more"), failed);
    EXPECT_EQ(writer->Commit(), failed);
  }
  EXPECT_EQ(test::Slurp(path), "old");
  EXPECT_THAT(folder.Names(), ElementsAre("out"));
}

}  // namespace
}  // namespace ng
