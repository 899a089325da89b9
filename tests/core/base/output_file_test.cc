#include "core/base/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>

#include "core/base/file.h"
#include "core/base/temporary_file.h"
#include "ng/files.h"
#include "tests/support/message.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
  fs::permissions(real, fs::perms{0640});
  fs::create_symlink("real", folder.File("link"));
  ASSERT_TRUE(WriteAll(folder.File("link"), "new").ok());
  EXPECT_TRUE(fs::is_symlink(folder.File("link")));
  EXPECT_EQ(test::Slurp(real), "new");
  EXPECT_EQ(fs::status(real).permissions(), fs::perms{0640});
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
    EXPECT_THAT(Message(status), HasSubstr(path + ": "));
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

// The file has no name on its way, so that nothing is left whatever ends the process.
TEST(AtomicFileWriter, HasNoNameBeforeCommit) {
  const test::TempDir folder;
  auto writer = AtomicFileWriter::Create(folder.File("out"));
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->Write("text").ok());
  ASSERT_TRUE(writer->Flush().ok());
  EXPECT_THAT(folder.Names(), IsEmpty());
  ASSERT_TRUE(writer->Commit().ok());
  EXPECT_THAT(folder.Names(), ElementsAre("out"));
}

TEST(AtomicFileWriter, WritesFilesThatLieInFileSystemsUnderDev) {
  const std::string path = "/dev/shm/ng_output_file_test." + std::to_string(::getpid());
  {
    auto writer = AtomicFileWriter::Create(path);
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE(writer->Write("text").ok());
    EXPECT_FALSE(fs::exists(path));
    ASSERT_TRUE(writer->Commit().ok());
  }
  EXPECT_EQ(test::Slurp(path), "text");
  fs::remove(path);
}

TEST(AtomicFileWriter, AppendsToAFileThatSomebodyHasOpen) {
  const test::TempDir folder;
  const FileDescriptor open(::open(folder.File("log").c_str(), O_WRONLY | O_CREAT, 0600));
  ASSERT_EQ(::write(open.get(), "one ", 4), 4);
  const std::string path = "/proc/self/fd/" + std::to_string(open.get());
  fs::create_symlink(path, folder.File("link"));
  EXPECT_TRUE(WriteAll(path, "two ").ok());
  EXPECT_TRUE(WriteAll(folder.File("link"), "three").ok());
  EXPECT_EQ(test::Slurp(folder.File("log")), "one two three");
}

TEST(AtomicFileWriter, RefusesLinksThatLeadNowhere) {
  const test::TempDir folder;
  fs::create_symlink("absent", folder.File("dangling"));
  fs::create_symlink("b", folder.File("a"));
  fs::create_symlink("a", folder.File("b"));
  for (const auto& [name, why] :
       {std::pair{"dangling", "/absent, which is not there"}, {"a", "in a circle of links"}}) {
    const absl::Status status = WriteAll(folder.File(name), "text");
    EXPECT_EQ(ExitCode(status), 7);
    EXPECT_THAT(Message(status), HasSubstr(folder.File(name) + ": is a link "));
    EXPECT_THAT(Message(status), HasSubstr(why));
  }
  EXPECT_TRUE(fs::is_symlink(folder.File("dangling")));
  EXPECT_EQ(folder.Names().size(), 3U);
}

TEST(AtomicFileWriter, NamesTheFolderThatIsMissing) {
  const test::TempDir folder;
  EXPECT_EQ(Message(WriteAll(folder.File("absent/out"), "")),
            folder.File("absent/out") + ": no such folder: " + folder.File("absent"));
  EXPECT_THAT(Message(WriteAll("~/out", "")), HasSubstr("no such folder: ~; nobody but the shell"));
  folder.Write("file", "");
  EXPECT_THAT(Message(WriteAll(folder.File("file/out"), "")), HasSubstr("Not a directory"));
}

// A FIFO that nobody reads would be waited for for ever.
TEST(AtomicFileWriter, WaitsForAReaderUntilItIsStopped) {
  const test::TempDir folder;
  const std::string fifo = folder.File("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  std::atomic<bool> stop = false;
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stop = true;
  });
  EXPECT_EQ(ExitCode(AtomicFileWriter::Create(fifo, &stop).status()), 130);
  stopper.join();
}

TEST(AtomicFileWriter, GivesUpOnAReaderThatDoesNotReadWhenItIsStopped) {
  const test::TempDir folder;
  const std::string fifo = folder.File("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const FileDescriptor reader(::open(fifo.c_str(), O_RDONLY | O_NONBLOCK));
  const std::atomic<bool> stop = true;
  auto writer = AtomicFileWriter::Create(fifo, &stop);
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_EQ(ExitCode(writer->Write(std::string(size_t{1} << 20, 'x'))), 130);
}

TEST(AtomicFileWriter, LetsManyWriteAtTheSameTime) {
  const test::TempDir folder;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (int n = 0; n < 20; ++n) {
        EXPECT_TRUE(WriteAll(folder.File("shared"), std::string(1000, 'x')).ok());
        EXPECT_TRUE(WriteAll(folder.File(std::to_string(i)), "own").ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(folder.Names().size(), 9U);
}

TEST(OutputPlace, TellsWhetherTwoAreOneFile) {
  const test::TempDir folder;
  const auto place = [&](const std::string& path) { return FindOutputPlace(path).value(); };
  const std::string file = folder.Write("file", "");
  fs::create_hard_link(file, folder.File("hard"));
  fs::create_symlink("file", folder.File("soft"));
  fs::create_directory_symlink(".", folder.File("here"));
  for (const char* name : {"hard", "soft", "here/file", "./file"}) {
    EXPECT_TRUE(IsSameFile(place(file), place(folder.File(name)))) << name;
  }
  EXPECT_TRUE(IsSameFile(place(folder.File("new")), place(folder.File("here/new"))));
  EXPECT_FALSE(IsSameFile(place(folder.File("new")), place(folder.File("newer"))));
  EXPECT_FALSE(IsSameFile(place(folder.File("new")), place(file)));
  EXPECT_FALSE(IsSameFile(place("/dev/null"), place("/dev/null")));
}

TEST(CheckWritable, DoesNotOpenWhatIsWrittenInPlace) {
  const test::TempDir folder;
  const std::string fifo = folder.File("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_TRUE(CheckWritable(fifo, FindOutputPlace(fifo).value()).ok());  // nobody reads it
  const std::string file = folder.File("new");
  EXPECT_TRUE(CheckWritable(file, FindOutputPlace(file).value()).ok());
  EXPECT_THAT(folder.Names(), ElementsAre("fifo"));
}

// Where the file system has no files without names.
TEST(TemporaryFile, WithANameIsRemovedOrMoved) {
  const test::TempDir folder;
  const std::string path = folder.Write("out", "old");
  { EXPECT_GE(TemporaryFile::CreateNamed(path).fd(), 0); }
  EXPECT_THAT(folder.Names(), ElementsAre("out"));
  TemporaryFile first = TemporaryFile::CreateNamed(path);
  TemporaryFile second = TemporaryFile::CreateNamed(path);
  EXPECT_EQ(folder.Names().size(), 3U);
  ASSERT_EQ(::write(second.fd(), "new", 3), 3);
  EXPECT_TRUE(second.MoveTo(path));
  EXPECT_EQ(test::Slurp(path), "new");
  EXPECT_EQ(folder.Names().size(), 2U);
}

TEST(TemporaryFile, IsRemovedByAHandlerThatEndsTheProcess) {
  const test::TempDir folder;
  EXPECT_EXIT(
      {
        const TemporaryFile first = TemporaryFile::CreateNamed(folder.File("a"));
        const TemporaryFile second = TemporaryFile::CreateNamed(folder.File("a"));
        std::signal(SIGTERM, [](int) {
          RemoveTemporaryFiles();
          ::_exit(3);
        });
        std::raise(SIGTERM);
      },
      ::testing::ExitedWithCode(3), "");
  EXPECT_THAT(folder.Names(), IsEmpty());
}

}  // namespace
}  // namespace ng
