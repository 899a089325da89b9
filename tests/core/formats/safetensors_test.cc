#include "core/formats/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The bytes of a file with this header and so many bytes of data.
std::string FileBytes(std::string_view header, size_t n_data_bytes) {
  std::string bytes(8, '\0');
  const uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes.append(header).append(n_data_bytes, '\1');
}

class SafetensorsTest : public testing::Test {
 protected:
  absl::Status Open(std::string_view header, size_t n_data_bytes) const {
    return OpenSafetensors(folder_.Write("model.safetensors", FileBytes(header, n_data_bytes)))
        .status();
  }
  std::string ErrorOf(std::string_view header, size_t n_data_bytes) const {
    const absl::Status status = Open(header, n_data_bytes);
    EXPECT_EQ(ExitCode(status), 3) << header;
    EXPECT_THAT(std::string(status.message()), HasSubstr("model.safetensors: "));
    return std::string(status.message());
  }

  const test::TempDir folder_;
};

TEST(SafetensorsFiles, OpenOrAreRefusedAsTheManifestSays) {
  const std::string folder = NG_TEST_DATA "/malformed/";
  const nlohmann::json manifest = nlohmann::json::parse(test::Slurp(folder + "manifest.json"));
  int n_opened = 0;
  for (const nlohmann::json& file : manifest["files"]) {
    const std::string path = file["path"];
    if (!path.starts_with("st_")) continue;
    const absl::Status status = OpenSafetensors(folder + path).status();
    EXPECT_EQ(status.ok(), file["expect"] == "ok") << path << ": " << file["reason"] << status;
    if (!status.ok()) {
      EXPECT_EQ(ExitCode(status), 3);
      EXPECT_THAT(std::string(status.message()), HasSubstr(path));
    }
    ++n_opened;
  }
  EXPECT_EQ(n_opened, 26);
}

TEST_F(SafetensorsTest, GivesTensorsSortedByNameWithTheirData) {
  const std::string header =
      R"({"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("a":{"dtype":"U8","shape":[],"data_offsets":[8,9]},"__metadata__":{"k":"v"}}   )";
  std::string bytes = FileBytes(header, 9);
  const float values[] = {1.5F, -2.0F};
  std::memcpy(bytes.data() + 8 + header.size(), values, sizeof(values));
  const auto source = OpenSafetensors(folder_.Write("model.safetensors", bytes));
  ASSERT_TRUE(source.ok()) << source.status();

  ASSERT_EQ((*source)->tensors().size(), 2);
  const TensorInfo& a = (*source)->tensors()[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.dtype, DType::kU8);
  EXPECT_EQ(a.n_elements, 1);
  EXPECT_EQ((*source)->Find("c"), nullptr);
  const TensorInfo* b = (*source)->Find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_THAT(b->shape, ElementsAre(2));
  EXPECT_EQ(b->n_bytes, 8);
  std::vector<std::byte> raw(8);
  ASSERT_TRUE((*source)->Read(*b, raw).ok());
  float found[2];
  std::memcpy(found, raw.data(), sizeof(found));
  EXPECT_THAT(found, ElementsAre(values[0], values[1]));
}

TEST_F(SafetensorsTest, AcceptsUnusualButValidHeaders) {
  EXPECT_TRUE(Open("{}", 0).ok());
  EXPECT_TRUE(Open(R"({"__metadata__":null})", 0).ok());
  EXPECT_TRUE(Open(R"({"":{"dtype":"I64","shape":[],"data_offsets":[0,8]}})", 8).ok());
  EXPECT_TRUE(
      Open("{\"a\":{\"dtype\":\"BOOL\",\"shape\":[1],\"data_offsets\":[0,1]}}\n\t ", 1).ok());
  // No elements: before, after and beside the data, also with a product that overflows after a 0.
  EXPECT_TRUE(Open(R"({"z":{"dtype":"F32","shape":[0,4],"data_offsets":[0,0]},)"
                   R"("y":{"dtype":"F32","shape":[0,9223372036854775807,9],"data_offsets":[4,4]},)"
                   R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                   4)
                  .ok());
}

TEST_F(SafetensorsTest, NamesTheTensorTheValueAndWhatIsAllowed) {
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8),
              HasSubstr("tensor \"a\": F32 [3] needs 12 bytes, 8 lie between its data_offsets"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F13","shape":[2],"data_offsets":[0,8]}})", 8),
              HasSubstr("tensor \"a\": dtype = \"F13\", must be one of F32, F16, BF16"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 12),
              HasSubstr("the tensors cover 8 bytes of data, the file has 12"));
}

TEST_F(SafetensorsTest, RefusesGapsAndOverlaps) {
  constexpr char kTwo[] = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                          R"("b":{"dtype":"U8","shape":[4],"data_offsets":[%,&]}})";
  for (const auto& [begin, end] : {std::pair("3", "7"), std::pair("5", "9"), std::pair("0", "4")}) {
    std::string header = kTwo;
    header.replace(header.find('%'), 1, begin).replace(header.find('&'), 1, end);
    EXPECT_THAT(ErrorOf(header, std::stoul(end)), HasSubstr("tensor \"b\": data_offsets"));
  }
  EXPECT_THAT(ErrorOf(R"({"z":{"dtype":"F32","shape":[0],"data_offsets":[2,2]},)"
                      R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                      4),
              HasSubstr("tensor \"z\""));
}

TEST_F(SafetensorsTest, RefusesShapesThatOverflow) {
  for (const char* const shape :
       {"[4294967296,4294967296]", "[9223372036854775807,9223372036854775807,0]",
        "[4611686018427387904]", "[18446744073709551615,0]"}) {
    ErrorOf(R"({"a":{"dtype":"F32","shape":)" + std::string(shape) + R"(,"data_offsets":[0,0]}})",
            0);
  }
}

TEST_F(SafetensorsTest, RefusesFieldsOfTheWrongKind) {
  for (const char* const fields :
       {R"([])", R"("F32")", R"({"shape":[2],"data_offsets":[0,8]})",
        R"({"dtype":"F32","data_offsets":[0,8]})", R"({"dtype":"F32","shape":[2]})",
        R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1})",
        R"({"dtype":3,"shape":[2],"data_offsets":[0,8]})",
        R"({"dtype":"f32","shape":[2],"data_offsets":[0,8]})",
        R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})",
        R"({"dtype":"F32","shape":["2"],"data_offsets":[0,8]})",
        R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})",
        R"({"dtype":"F32","shape":[2],"data_offsets":[0,8,8]})",
        R"({"dtype":"F32","shape":[2],"data_offsets":[8]})",
        R"({"dtype":"F32","shape":[2],"data_offsets":[-0,8]})",
        R"({"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]})",
        R"({"dtype":"F32","shape":[[2]],"data_offsets":[0,8]})"}) {
    ErrorOf(R"({"a":)" + std::string(fields) + "}", 8);
  }
}

TEST_F(SafetensorsTest, RefusesHeadersThatAreNoObjectOfTensors) {
  for (const char* const header :
       {"[]", "3", " {}", "\xEF\xBB\xBF{}", "{}x", "{", "{\"__metadata__\":{\"a\":1}}",
        "{\"__metadata__\":[]}", "{\"__metadata__\":{\"a\":{\"b\":\"c\"}}}"}) {
    ErrorOf(header, 0);
  }
}

TEST_F(SafetensorsTest, RefusesAHeaderAboveTheLimitWithoutReadingIt) {
  const std::string path = folder_.Write("model.safetensors", "");
  std::string length("\x01\xE1\xF5\x05\0\0\0\0{", 9);  // 100,000,001
  folder_.Write("model.safetensors", length);
  std::filesystem::resize_file(path, 200'000'000);  // sparse
  const absl::Status status = OpenSafetensors(path).status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("header length 100000001, must be in [1, 100000000]"));
}

TEST_F(SafetensorsTest, ReportsAFileThatShrankAfterItWasOpened) {
  const std::string path =
      folder_.Write("model.safetensors",
                    FileBytes(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8));
  const auto source = OpenSafetensors(path);
  ASSERT_TRUE(source.ok());
  std::filesystem::resize_file(path, 64);
  std::vector<std::byte> raw(8);
  const absl::Status status = (*source)->Read(*(*source)->Find("a"), raw);
  EXPECT_EQ(ExitCode(status), 3);
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor \"a\": "));
}

TEST_F(SafetensorsTest, ReadsBackWhatItWrites) {
  const std::vector<NamedTensor> tensors = {
      {"logits.0", {2, 3}, {1, 2, 3, 4, 5, std::numeric_limits<float>::infinity()}},
      {"caf\xC3\xA9 \"x\"", {}, {-0.0F}},
      {"empty", {0, 7}, {}}};
  const std::string path = folder_.File("out.safetensors");
  ASSERT_TRUE(WriteSafetensors(path, tensors).ok());
  EXPECT_EQ(static_cast<uint8_t>(test::Slurp(path)[0]) % 8, 0) << "the data is aligned";

  const auto source = OpenSafetensors(path);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->tensors().size(), tensors.size());
  for (const NamedTensor& written : tensors) {
    const TensorInfo* info = (*source)->Find(written.name);
    ASSERT_NE(info, nullptr) << written.name;
    EXPECT_EQ(info->dtype, DType::kF32);
    EXPECT_EQ(info->shape, written.shape);
    std::vector<float> data(written.data.size());
    ASSERT_TRUE((*source)->Read(*info, std::as_writable_bytes(std::span(data))).ok());
    EXPECT_EQ(data, written.data);
  }
}

TEST_F(SafetensorsTest, AProgramReadsTensorsByNameAndByPosition) {
  const std::string path = folder_.path() + "/read.safetensors";
  const std::vector<NamedTensor> tensors = {{"b", {2, 3}, {0, 1, 2, 3, 4, 5}}, {"a", {1}, {7}}};
  ASSERT_TRUE(WriteSafetensors(path, tensors, {.metadata = {{"made", "here"}}}).ok());
  const absl::StatusOr<SafetensorsReader> file = SafetensorsReader::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->metadata().at("made"), "here");
  ASSERT_EQ(file->tensors().size(), 2);
  EXPECT_EQ(file->tensors()[0].name, "a");
  EXPECT_THAT(file->tensors()[1].shape, ElementsAre(2, 3));
  const absl::StatusOr<NamedTensor> b = file->Read("b");
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_THAT(b->data, ElementsAre(0, 1, 2, 3, 4, 5));
  std::vector<float> row(3);
  ASSERT_TRUE(file->ReadAt(*file->Find("b"), 3, row).ok());
  EXPECT_THAT(row, ElementsAre(3, 4, 5));
  EXPECT_EQ(file->Find("c"), nullptr);
  EXPECT_EQ(ExitCode(file->Read("bb").status()), 3);
  EXPECT_THAT(std::string(file->Read("bb").status().message()), HasSubstr("the nearest is b"));
}

TEST_F(SafetensorsTest, WritesNothingThatItCouldNotRead) {
  const std::string path = folder_.File("out.safetensors");
  for (const std::vector<NamedTensor>& tensors : {
           std::vector<NamedTensor>{{"a", {2}, {1}}},
           {{"a", {-1}, {1}}},
           {{"a", {1}, {1}}, {"a", {1}, {1}}},
           {{"__metadata__", {1}, {1}}},
           {{"\xFF", {1}, {1}}},
       }) {
    EXPECT_EQ(ExitCode(WriteSafetensors(path, tensors)), 7);
  }
  EXPECT_TRUE(folder_.Names().empty());
}

TEST_F(SafetensorsTest, ReportsAFullDevice) {
  const absl::Status status = WriteSafetensors("/dev/full", {{"a", {1}, {1}}});
  EXPECT_EQ(ExitCode(status), 7);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/dev/full: cannot write"));
}

TEST(TensorSource, ConvertsHalvesExactlyFromUnalignedBytes) {
  // 1.0, -2.5, the smallest subnormal and infinity in each format, behind one byte.
  const std::string f16("\0\x00\x3C\x00\xC1\x01\x00\x00\x7C", 9);
  const std::string bf16("\0\x80\x3F\x20\xC0\x01\x00\x80\x7F", 9);
  const auto convert = [](DType dtype, const std::string& bytes) {
    std::vector<float> out(4);
    ConvertToF32(dtype, reinterpret_cast<const std::byte*>(bytes.data()) + 1, out);
    return out;
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(convert(DType::kF16, f16), ElementsAre(1.0F, -2.5F, 0x1p-24F, kInfinity));
  EXPECT_THAT(convert(DType::kBf16, bf16), ElementsAre(1.0F, -2.5F, 0x1p-133F, kInfinity));
}

TEST(TensorSource, PrintsShapes) {
  EXPECT_EQ(ShapeString(std::vector<int64_t>{480, 160}), "[480, 160]");
  EXPECT_EQ(ShapeString({}), "[]");
}

}  // namespace
}  // namespace ng
