// The cache: names, links, and blobs that come in pieces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "apps/fetch/cache/blob.h"
#include "apps/fetch/cache/digest.h"
#include "apps/fetch/cache/layout.h"
#include "apps/fetch/command_line.h"
#include "apps/fetch/progress.h"
#include "apps/fetch/web/call.h"
#include "tests/support/temp_dir.h"

namespace ng::fetch {
namespace {

namespace fs = std::filesystem;
using test::Slurp;
using test::TempDir;
using ::testing::HasSubstr;

// Known values: FIPS 180-4's examples and `git hash-object`.
constexpr const char* kSha256OfAbc =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr const char* kGitSha1OfAbc = "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f";

TEST(FetchDigest, IsThatOfTheHub) {
  Digest sha256 = Digest::Sha256();
  sha256.Add("a");
  sha256.Add("bc");
  EXPECT_EQ(sha256.Hex(), kSha256OfAbc);
  Digest git = Digest::GitSha1(3);
  git.Add("abc");
  EXPECT_EQ(git.Hex(), kGitSha1OfAbc);
}

TEST(FetchCache, TakesEtagsThatAreNamesOfFiles) {
  EXPECT_EQ(EtagOf("\"abc\"").value(), "abc");
  EXPECT_EQ(EtagOf("W/\"a-b_c.d\"").value(), "a-b_c.d");
  EXPECT_EQ(EtagOf("abc").value(), "abc");
  for (const char* const etag :
       {"", "\"\"", "\"../x\"", "\"a/b\"", "\".hidden\"", "\"a b\"", "W/\"", "\"a\x01\""}) {
    EXPECT_FALSE(EtagOf(etag).ok()) << etag;
  }
  EXPECT_FALSE(EtagOf(std::string(200, 'a')).ok());
}

TEST(FetchCache, ShowsBlobsByRelativeLinks) {
  const TempDir dir;
  const RepoCache cache(dir.path(), "org/name");
  ASSERT_TRUE(cache.MakeFolders().ok());
  dir.Write("models--org--name/blobs/one", "1");
  dir.Write("models--org--name/blobs/two", "22");
  ASSERT_TRUE(cache.Link("c", "a/b/file", "one").ok());
  EXPECT_EQ(fs::read_symlink(cache.File("c", "a/b/file")), "../../../../blobs/one");
  EXPECT_EQ(Slurp(cache.File("c", "a/b/file")), "1");
  ASSERT_TRUE(cache.Link("c", "a/b/file", "one").ok());  // as it is
  ASSERT_TRUE(cache.Link("c", "a/b/file", "two").ok());  // another file there is replaced
  EXPECT_EQ(Slurp(cache.File("c", "a/b/file")), "22");
  ASSERT_TRUE(cache.WriteRef("refs/pr/1", "c").ok());
  EXPECT_EQ(Slurp(cache.folder() + "/refs/refs/pr/1"), "c");
  ASSERT_TRUE(cache.WriteRef("c", "c").ok());
  EXPECT_FALSE(fs::exists(cache.folder() + "/refs/c"));
}

class FetchBlob : public ::testing::Test {
 protected:
  std::unique_ptr<PartialBlob> Open(const BlobFacts& facts) const {
    absl::StatusOr<std::unique_ptr<PartialBlob>> blob = PartialBlob::Open(partial_, facts);
    EXPECT_TRUE(blob.ok()) << blob.status();
    return blob.ok() ? *std::move(blob) : nullptr;
  }

  TempDir dir_;
  const std::string partial_ = dir_.File("x.incomplete");
  const std::string blob_ = dir_.File("x");
};

TEST_F(FetchBlob, GoesOnWithWhatIsThere) {
  for (const BlobFacts& facts : {BlobFacts{3, kSha256OfAbc, ""}, BlobFacts{3, "", kGitSha1OfAbc}}) {
    dir_.Write("x.incomplete", "ab");
    const auto blob = Open(facts);
    EXPECT_EQ(blob->n_bytes(), 2);
    EXPECT_FALSE(blob->is_hashed());
    while (!blob->is_hashed()) ASSERT_TRUE(blob->HashMore().ok());
    ASSERT_TRUE(blob->Append("c").ok());
    EXPECT_TRUE(blob->is_whole());
    EXPECT_EQ(blob->MoveTo(blob_).value(), std::nullopt);
    EXPECT_EQ(Slurp(blob_), "abc");
    EXPECT_FALSE(fs::exists(partial_));
  }
}

TEST_F(FetchBlob, IsNotShownWhereItsBytesAreWrong) {
  dir_.Write("x.incomplete", "aX");
  const auto blob = Open({3, kSha256OfAbc, ""});
  while (!blob->is_hashed()) ASSERT_TRUE(blob->HashMore().ok());
  ASSERT_TRUE(blob->Append("c").ok());
  const std::optional<std::string> wrong = blob->MoveTo(blob_).value();
  ASSERT_TRUE(wrong.has_value());
  EXPECT_THAT(*wrong, HasSubstr(kSha256OfAbc));
  EXPECT_FALSE(fs::exists(blob_));
  EXPECT_EQ(blob->n_bytes(), 0);
  ASSERT_TRUE(blob->Append("abc").ok());
  EXPECT_EQ(blob->MoveTo(blob_).value(), std::nullopt);
}

TEST_F(FetchBlob, TakesNoMoreBytesThanItHas) {
  dir_.Write("x.incomplete", "abcdefgh");  // of something else
  const auto blob = Open({3, kSha256OfAbc, ""});
  EXPECT_EQ(blob->n_bytes(), 0);
  ASSERT_TRUE(blob->Append("ab").ok());
  EXPECT_THAT(std::string(blob->Append("cd").message()), HasSubstr("more bytes come than the 3"));
}

TEST_F(FetchBlob, IsNoLinkAndNoDevice) {
  fs::create_symlink(dir_.File("elsewhere"), partial_);
  EXPECT_FALSE(PartialBlob::Open(partial_, {3, "", ""}).ok());
  EXPECT_FALSE(fs::exists(dir_.File("elsewhere")));
}

TEST_F(FetchBlob, IsOfOneProgramAtATime) {
  const std::string path = dir_.File("x.lock");
  std::unique_ptr<BlobLock> first = BlobLock::Try(path).value();
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(BlobLock::Try(path).value(), nullptr);
  first.reset();
  EXPECT_NE(BlobLock::Try(path).value(), nullptr);
}

TEST(FetchPatience, EndsUnlessSomethingComes) {
  Patience patience(2);
  EXPECT_EQ(patience.AfterFailure(0, 0), 0.25);
  EXPECT_EQ(patience.AfterFailure(7, 10), 7.0);
  EXPECT_LT(patience.AfterFailure(0, 20), 0.0);
  Patience other(2);
  for (int64_t n = 1; n < 20; ++n) EXPECT_EQ(other.AfterFailure(0, n << 20), 0.25);
  EXPECT_LT(other.AfterFailure(100000, 0), 0.0);
}

TEST(FetchProgress, SaysHowFastAndHowLong) {
  EXPECT_EQ(BytesText(1), "1 byte");
  EXPECT_EQ(BytesText(999), "999 bytes");
  EXPECT_EQ(BytesText(999949), "999.9 kB");
  EXPECT_EQ(BytesText(999951), "1.0 MB");
  EXPECT_EQ(BytesText(1234567890), "1.2 GB");
  EXPECT_EQ(TimeText(59), "59 s");
  EXPECT_EQ(TimeText(3723), "1:02:03");
  FetchProgress progress("x");
  const FetchProgress::Clock::time_point begin;
  FetchState state = {.n_bytes = 500, .n_came = 0, .n_all = 1500, .n_files = 2, .n_done = 1};
  EXPECT_EQ(progress.Line(state, begin), "1 of 2 files, 33 % of 1.5 kB");
  state.n_bytes = 700;
  state.n_came = 200;
  EXPECT_EQ(progress.Line(state, begin + std::chrono::seconds(2)),
            "1 of 2 files, 46 % of 1.5 kB, 100 bytes/s, 8 s left");
}

std::string Parsed(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "ng-fetch");
  const absl::StatusOr<CommandLine> line =
      ParseCommandLine(static_cast<int>(arguments.size()), arguments.data());
  if (!line.ok()) return std::string(line.status().message());
  return line->repository + " " + line->revision + " " + line->tag;
}

TEST(FetchCommandLine, TakesNamesOfModels) {
  EXPECT_EQ(Parsed({"Qwen/Qwen3-0.6B"}), "Qwen/Qwen3-0.6B main ");
  EXPECT_EQ(Parsed({"hf.co/o/n@refs/pr/1:Q4_K_M"}), "o/n refs/pr/1 Q4_K_M");
  EXPECT_EQ(Parsed({"o/n:Q8_0", "--revision", "v1"}), "o/n v1 Q8_0");
  EXPECT_THAT(Parsed({"o/n@a", "--revision=b"}), HasSubstr("names one too"));
  for (const char* const name :
       {"../x", "o/../x", "/etc", "o/n/m", "o//n", "o/", "a--b/c", "o/n@", "o/n:", "o/.n", "o n"}) {
    EXPECT_THAT(Parsed({name}), HasSubstr("is no name of a model")) << name;
  }
  EXPECT_THAT(Parsed({"o/n@../../x"}), HasSubstr("must be a branch"));
  EXPECT_THAT(Parsed({}), HasSubstr("one model is needed"));
  EXPECT_THAT(Parsed({"o/n", "p/m"}), HasSubstr("given: o/n p/m"));
  EXPECT_THAT(Parsed({"o/n", "--run.threads=2"}), HasSubstr("has no config"));
  EXPECT_THAT(Parsed({"o/n", "--connections=0"}), HasSubstr("connections"));
  EXPECT_THAT(Parsed({"o/n", "--dry-rum"}), HasSubstr("--dry-run"));
}

}  // namespace
}  // namespace ng::fetch
