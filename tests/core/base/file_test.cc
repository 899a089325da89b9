#include "core/base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>

#include "tests/support/message.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using ::testing::HasSubstr;

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

TEST(InputFile, HasTheSystemFetchWhatIsAnnounced) {
  constexpr int64_t kSize = (int64_t{3} << 20) + 5;
  const test::TempDir folder;
  const std::string path = folder.Write("f", std::string(kSize, 'x'));
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  const auto in_memory = [&](int64_t at) {
    char byte = 0;
    iovec one = {&byte, 1};
    return ::preadv2(fd, &one, 1, at, RWF_NOWAIT) == 1;
  };
  const auto all_in_memory = [&] {
    return in_memory(0) && in_memory(kSize / 2) && in_memory(kSize - 1);
  };
  ASSERT_EQ(::fsync(fd), 0);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  if (in_memory(0) || in_memory(kSize - 1)) GTEST_SKIP() << "this file system keeps it in memory";
  const auto file = InputFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  file->Announce(0, kSize);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!all_in_memory() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(all_in_memory());
  ::close(fd);
}

TEST(InputFile, NamesWhatCannotBeOpened) {
  const test::TempDir folder;
  EXPECT_THAT(Message(InputFile::Open(folder.File("absent")).status()),
              HasSubstr("/absent: no such file"));
  EXPECT_THAT(Message(InputFile::Open(folder.File("")).status()), HasSubstr("is a folder"));
}

TEST(InputFile, RefusesAFifoWithoutWaitingForAWriter) {
  const test::TempDir folder;
  ASSERT_EQ(::mkfifo(folder.File("fifo").c_str(), 0600), 0);
  EXPECT_THAT(Message(InputFile::Open(folder.File("fifo")).status()),
              HasSubstr("is not a regular file"));
}

TEST(InputFile, NamesALinkThatLeadsNowhereAndAHomeThatIsNotExpanded) {
  const test::TempDir folder;
  std::filesystem::create_symlink("absent", folder.File("link"));
  EXPECT_THAT(Message(InputFile::Open(folder.File("link")).status()),
              HasSubstr("/link: is a link to absent, which is not there"));
  for (const std::string path : {"~/model", "/etc/~me/model"}) {
    EXPECT_THAT(Message(InputFile::Open(path).status()),
                HasSubstr(path + ": no such file; nobody but the shell knows what '~' stands for"));
  }
}

TEST(InputFile, RefusesAGitLfsPointer) {
  const test::TempDir folder;
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a21\nsize 12345\n";
  EXPECT_THAT(Message(InputFile::Open(folder.Write("model.safetensors", pointer)).status()),
              HasSubstr("is a Git LFS pointer, not the file itself; fetch it with git lfs pull"));
  EXPECT_TRUE(InputFile::Open(folder.Write("large", pointer + std::string(2000, ' '))).ok());
  EXPECT_TRUE(ReadText(folder.File("model.safetensors"), 1000, nullptr).ok());  // a user's text
}

TEST(InputLog, KnowsEveryFileThatWasOpenedOnItsThread) {
  const test::TempDir folder;
  const std::string before = folder.Write("before", "");
  const std::string opened = folder.Write("opened", "");
  std::filesystem::create_symlink("opened", folder.File("link"));
  const auto id_of = [](const std::string& path) {
    struct stat status {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0);
    return FileId(status);
  };
  ASSERT_TRUE(InputFile::Open(before).ok());
  const InputLog log;
  ASSERT_TRUE(ReadWholeFile(folder.File("link"), 10).ok());
  EXPECT_EQ(log.Find(id_of(before)), nullptr);
  ASSERT_NE(log.Find(id_of(opened)), nullptr);
  EXPECT_EQ(*log.Find(id_of(opened)), folder.File("link"));
}

TEST(ReadText, TakesAPipeUpToItsEnd) {
  const test::TempDir folder;
  const std::string fifo = folder.File("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const std::string text(300'000, 'x');  // more than a pipe holds
  FileDescriptor keeps_it_open(::open(fifo.c_str(), O_RDWR | O_NONBLOCK));
  FileDescriptor writer(::open(fifo.c_str(), O_WRONLY));
  std::thread thread([&] {
    EXPECT_EQ(::write(writer.get(), text.data(), text.size()), std::ssize(text));
    writer.Close();
    keeps_it_open.Close();
  });
  EXPECT_EQ(ReadText(fifo, 1'000'000, nullptr).value(), text);
  thread.join();
  EXPECT_EQ(ReadText(fifo, 10, nullptr).value(), "");  // nobody writes to it
}

TEST(ReadText, StopsWaitingWhenItIsToldTo) {
  const test::TempDir folder;
  const std::string fifo = folder.File("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const FileDescriptor silent(::open(fifo.c_str(), O_RDWR | O_NONBLOCK));
  std::atomic<bool> stop = false;
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stop = true;
  });
  EXPECT_EQ(ExitCode(ReadText(fifo, 10, &stop).status()), 130);
  stopper.join();
}

TEST(ReadText, RefusesADeviceAndAPipeAboveTheLimit) {
  EXPECT_THAT(Message(ReadText("/dev/zero", 10, nullptr).status()),
              HasSubstr("is neither a regular file nor a pipe"));
  const test::TempDir folder;
  const std::string fifo = folder.File("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const FileDescriptor writer(::open(fifo.c_str(), O_RDWR | O_NONBLOCK));
  ASSERT_EQ(::write(writer.get(), "12345", 5), 5);
  EXPECT_THAT(Message(ReadText(fifo, 4, nullptr).status()), HasSubstr("must have at most 4"));
}

TEST(MayExist, AsksForAnEntryNotForWhatItLeadsTo) {
  const test::TempDir folder;
  std::filesystem::create_symlink("absent", folder.File("dangling"));
  std::filesystem::create_symlink("loop", folder.File("loop"));
  EXPECT_TRUE(MayExist(folder.File("dangling")));
  EXPECT_TRUE(MayExist(folder.File("loop")));
  EXPECT_FALSE(MayExist(folder.File("absent")));
}

TEST(ReadWholeFile, RefusesAFileAboveTheLimit) {
  const test::TempDir folder;
  const std::string path = folder.Write("f", "12345");
  EXPECT_EQ(ReadWholeFile(path, 5).value(), "12345");
  const auto refused = ReadWholeFile(path, 4);
  EXPECT_EQ(ExitCode(refused.status()), 3);
  EXPECT_THAT(Message(refused.status()), HasSubstr("has 5 bytes, must have at most 4"));
}

}  // namespace
}  // namespace ng
