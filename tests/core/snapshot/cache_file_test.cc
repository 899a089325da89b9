#include "core/snapshot/cache_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/hash.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using testing::HasSubstr;

constexpr int kLayers = 3;
constexpr size_t kLayerBytes = 40;
constexpr size_t kStateBytes = 12;
constexpr size_t kFixedBytes = 56;

CacheFileHeader SmallHeader() {
  return {.fields = {{"model", "0123"}, {"codec", "bf16"}, {"none", ""}},
          .ids = {7, 0, 2147483647},
          .n_layers = kLayers,
          .layer_bytes = kLayerBytes,
          .state_bytes = kStateBytes};
}

// The one behind the last layer's is of the state.
std::vector<std::byte> Image(int layer) {
  std::vector<std::byte> image(layer == kLayers ? kStateBytes : kLayerBytes);
  for (size_t i = 0; i < image.size(); ++i) image[i] = static_cast<std::byte>(layer * 50 + i);
  return image;
}

absl::Status Write(const std::string& path, const CacheFileHeader& header = SmallHeader()) {
  NG_ASSIGN_OR_RETURN(CacheFileWriter file, CacheFileWriter::Create(path, header));
  for (int layer = 0; layer <= kLayers; ++layer) NG_RETURN_IF_ERROR(file.WriteLayer(Image(layer)));
  return file.Commit();
}

// Everything that a reader does with a file.
absl::Status ReadAll(const std::string& path) {
  NG_ASSIGN_OR_RETURN(const CacheFile file, CacheFile::Open(path));
  std::vector<std::byte> image(static_cast<size_t>(file.header().layer_bytes));
  for (int64_t layer = 0; layer < file.header().n_layers; ++layer) {
    NG_RETURN_IF_ERROR(file.ReadLayer(layer, image));
  }
  image.resize(static_cast<size_t>(file.header().state_bytes));
  return file.ReadLayer(file.header().n_layers, image);
}

class CacheFileTest : public testing::Test {
 protected:
  CacheFileTest() {
    EXPECT_TRUE(Write(path_).ok());
    std::ifstream file(path_, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
  }

  absl::Status Try(const std::string& bytes) const {
    return ReadAll(dir_.Write("changed.cache", bytes));
  }

  // Refused in one line that names the file and holds `part`.
  void ExpectRefused(const std::string& bytes, const std::string& part = "") const {
    const absl::Status status = Try(bytes);
    EXPECT_EQ(ExitCode(status), 3) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("changed.cache: "));
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
    EXPECT_EQ(status.message().find('\n'), absl::string_view::npos);
  }

  size_t header_bytes() const {
    return bytes_.size() - kLayers * (kLayerBytes + 8) - (kStateBytes + 8);
  }

  // The header with other bytes at an offset and a checksum that fits them: what only somebody who
  // means harm, or another program, writes.
  std::string Forge(size_t offset, uint64_t value, size_t n_bytes) const {
    std::string bytes = bytes_;
    for (size_t i = 0; i < n_bytes; ++i) bytes[offset + i] = static_cast<char>(value >> (8 * i));
    const uint64_t sum = HashOf(std::string_view(bytes).substr(0, header_bytes() - 8));
    for (size_t i = 0; i < 8; ++i) bytes[header_bytes() - 8 + i] = static_cast<char>(sum >> 8 * i);
    return bytes;
  }

  const test::TempDir dir_;
  const std::string path_ = dir_.path() + "/whole.cache";
  std::string bytes_;
};

TEST_F(CacheFileTest, GivesBackWhatWasWritten) {
  const auto file = CacheFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  const CacheFileHeader& header = file->header();
  ASSERT_EQ(header.fields.size(), 3U);
  EXPECT_EQ(header.fields[1].name, "codec");
  EXPECT_EQ(header.fields[1].value, "bf16");
  EXPECT_EQ(header.fields[2].value, "");
  EXPECT_EQ(header.ids, SmallHeader().ids);
  EXPECT_EQ(header.n_layers, kLayers);
  EXPECT_EQ(header.layer_bytes, int64_t{kLayerBytes});
  EXPECT_EQ(header.state_bytes, int64_t{kStateBytes});
  for (int layer = kLayers; layer >= 0; --layer) {
    std::vector<std::byte> image(Image(layer).size());
    ASSERT_TRUE(file->ReadLayer(layer, image).ok());
    EXPECT_EQ(image, Image(layer));
  }
}

TEST_F(CacheFileTest, IsWrittenAlikeEveryTime) {
  const std::string again = dir_.path() + "/again.cache";
  ASSERT_TRUE(Write(again).ok());
  std::ifstream file(again, std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), bytes_);
}

TEST_F(CacheFileTest, RefusesEveryFlippedBit) {
  for (size_t i = 0; i < bytes_.size() * 8; ++i) {
    std::string bytes = bytes_;
    bytes[i / 8] = static_cast<char>(bytes[i / 8] ^ (1 << (i % 8)));
    ExpectRefused(bytes);
  }
}

TEST_F(CacheFileTest, RefusesEveryTruncationAndTrailingBytes) {
  for (size_t n = 0; n < bytes_.size(); ++n) ExpectRefused(bytes_.substr(0, n));
  ExpectRefused(bytes_ + '\0', "must have");
  ExpectRefused(bytes_ + bytes_, "must have");
}

TEST_F(CacheFileTest, SaysWhatIsDamaged) {
  ExpectRefused("", "has 0 bytes, a cache snapshot has at least 64");
  ExpectRefused("{\"a\":" + bytes_, "is no cache snapshot: begins with");
  std::string other = bytes_;
  other[8] = 1;
  ExpectRefused(other, "version 1, must be 2");
  other = bytes_;
  other[kFixedBytes + 10] ^= 1;
  ExpectRefused(other, "the header's checksum is ");
  other = bytes_;
  other[header_bytes() + kLayerBytes + 8] ^= 1;
  ExpectRefused(other, "layer 1's checksum is ");
  other = bytes_;
  other[other.size() - 9] ^= 1;
  ExpectRefused(other, "the state's checksum is ");
}

TEST_F(CacheFileTest, RefusesLayersThatChangedPlaces) {
  std::string bytes = bytes_.substr(0, header_bytes());
  const size_t layer = kLayerBytes + 8;
  for (const size_t i : {1, 0, 2}) bytes += bytes_.substr(header_bytes() + i * layer, layer);
  bytes += bytes_.substr(header_bytes() + kLayers * layer);
  ExpectRefused(bytes, "layer 0's checksum is ");
}

TEST_F(CacheFileTest, RefusesLayersOfAnotherFile) {
  CacheFileHeader header = SmallHeader();
  header.ids[0] = 8;
  const std::string path = dir_.path() + "/other.cache";
  ASSERT_TRUE(Write(path, header).ok());
  std::ifstream file(path, std::ios::binary);
  const std::string other(std::istreambuf_iterator<char>(file), {});
  ExpectRefused(other.substr(0, header_bytes()) + bytes_.substr(header_bytes()),
                "layer 0's checksum is ");
}

// Sizes are checked before anything is read or reserved by them, whatever the checksum says.
TEST_F(CacheFileTest, RefusesForgedSizes) {
  const size_t n_fields = 12, header = 16, n_layers = 24, layer_bytes = 32, n_tokens = 48;
  for (const uint64_t value : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 31, uint64_t{1} << 62,
                               uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{7}}) {
    ExpectRefused(Forge(n_fields, value, 4));
    ExpectRefused(Forge(header, value, 8), "header_bytes is ");
    ExpectRefused(Forge(n_layers, value, 8), "must have");
    ExpectRefused(Forge(layer_bytes, value, 8), "must have");
    ExpectRefused(Forge(layer_bytes + 8, value, 8), "must have");
    ExpectRefused(Forge(n_tokens, value, 8), absl::StrCat("n_tokens is ", value));
    ExpectRefused(Forge(kFixedBytes, value, 8));
  }
  ExpectRefused(Forge(header_bytes() - 12, ~uint64_t{0}, 4), "token id -1, must be 0 or more");
  ExpectRefused(Forge(header_bytes() - 12, 5, 4), "layer 0's checksum is ");
}

TEST_F(CacheFileTest, RefusesWhatIsNoFile) {
  EXPECT_EQ(ExitCode(ReadAll(dir_.path())), 3);
  EXPECT_EQ(ExitCode(ReadAll(dir_.path() + "/absent")), 3);
  EXPECT_EQ(ExitCode(ReadAll("/dev/null")), 3);
}

TEST_F(CacheFileTest, ReportsATargetThatCannotBeWritten) {
  EXPECT_EQ(ExitCode(Write("/dev/full")), 7);
  EXPECT_EQ(ExitCode(Write(dir_.path() + "/absent/file")), 7);
}

// No half file is left where writing ended early.
TEST_F(CacheFileTest, IsThereWholeOrNotAtAll) {
  const std::string path = dir_.path() + "/half.cache";
  {
    auto file = CacheFileWriter::Create(path, SmallHeader());
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->WriteLayer(Image(0)).ok());
  }
  EXPECT_FALSE(std::ifstream(path).is_open());
}

RC_GTEST_FIXTURE_PROP(CacheFileTest, RefusesAnyChangedByte, ()) {
  std::string bytes = bytes_;
  const auto i = *rc::gen::inRange<size_t>(0, bytes.size());
  bytes[i] = static_cast<char>(bytes[i] ^ *rc::gen::inRange(1, 256));
  RC_ASSERT(ExitCode(Try(bytes)) == 3);
}

}  // namespace
}  // namespace ng
