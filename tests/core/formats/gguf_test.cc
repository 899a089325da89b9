#include "core/formats/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using test::GgufBuilder;
using test::Raw;
using test::RawText;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kF32Number = 0;
constexpr uint32_t kQ4KNumber = 12;

class GgufTest : public ::testing::Test {
 protected:
  absl::StatusOr<GgufFile> Open(const std::string& bytes) const {
    return OpenGguf(folder_.Write("model.gguf", bytes));
  }
  void ExpectError(const std::string& bytes, const std::string& part) const {
    const absl::Status status = Open(bytes).status();
    EXPECT_EQ(ExitCode(status), 3) << part;
    EXPECT_THAT(std::string(status.message()), HasSubstr("model.gguf: "));
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
    EXPECT_EQ(status.message().find('\n'), absl::string_view::npos);
  }

  const test::TempDir folder_;
};

TEST_F(GgufTest, GivesSingleValuesAsTheFieldsOfAnObject) {
  for (const uint32_t version : {2U, 3U}) {
    GgufBuilder builder;
    builder.version = version;
    builder.Text("t", "caf\xC3\xA9")
        .Value("i8", GgufType::kI8, Raw(int8_t{-5}))
        .Value("u16", GgufType::kU16, Raw(uint16_t{65535}))
        .Value("i64", GgufType::kI64, Raw(int64_t{-1}))
        .Value("u64", GgufType::kU64, Raw(~uint64_t{0}))
        .Value("yes", GgufType::kBool, Raw(uint8_t{1}))
        .Value("f64", GgufType::kF64, Raw(0.1))
        .F32("f32", 1e-5F)
        .F32("nan", NAN);
    const auto file = Open(builder.Bytes());
    ASSERT_TRUE(file.ok()) << file.status();
    const JsonFields fields = file->metadata.fields();
    EXPECT_EQ(*fields.Text("t"), "caf\xC3\xA9");
    EXPECT_EQ(*fields.Int("i8", {-10, 10}), -5);
    EXPECT_EQ(*fields.Int("u16", {0, 1 << 20}), 65535);
    EXPECT_EQ(*fields.Int("i64", {-1, 1}), -1);
    EXPECT_FALSE(fields.Int("u64", {std::numeric_limits<int64_t>::min(), INT64_MAX}).ok());
    EXPECT_TRUE(*fields.Bool("yes"));
    EXPECT_EQ(*fields.Number("f64", {0, 1}), 0.1);
    EXPECT_EQ(static_cast<float>(*fields.Number("f32", {0, 1})), 1e-5F);
    EXPECT_FALSE(fields.Number("nan", {-INFINITY, INFINITY}).ok());
    EXPECT_FALSE(fields.Has("absent"));
  }
}

TEST_F(GgufTest, GivesArraysByTheirElement) {
  GgufBuilder builder;
  builder.Array("texts", GgufType::kText, 3, RawText("a") + RawText("") + RawText("b c"))
      .Array("floats", GgufType::kF32, 2, Raw(1.5F) + Raw(-2.0F))
      .Array("ints", GgufType::kI32, 2, Raw(int32_t{-7}) + Raw(int32_t{8}))
      .Array("large", GgufType::kU64, 2, Raw(uint64_t{1}) + Raw(~uint64_t{0}))
      .Array("none", GgufType::kText, 0, "")
      .U32("single", 7);
  const auto file = Open(builder.Bytes());
  ASSERT_TRUE(file.ok()) << file.status();
  const GgufMetadata& metadata = file->metadata;
  EXPECT_THAT(*metadata.Texts("texts"), ElementsAre("a", "", "b c"));
  EXPECT_THAT(*metadata.Floats("floats"), ElementsAre(1.5F, -2.0F));
  EXPECT_THAT(*metadata.Ints("ints"), ElementsAre(-7, 8));
  EXPECT_THAT(*metadata.Texts("none"), ElementsAre());
  EXPECT_EQ(*metadata.fields().OptionalObject("texts")->value().Int("count", {0, 9}), 3);

  const auto message = [](const absl::Status& status) { return std::string(status.message()); };
  EXPECT_THAT(message(metadata.Floats("texts").status()),
              HasSubstr("model.gguf: key \"texts\" is an array of text, must be an array of "
                        "float32"));
  EXPECT_THAT(message(metadata.Ints("floats").status()), HasSubstr("an array of integers"));
  EXPECT_THAT(message(metadata.Texts("absent").status()), HasSubstr("key \"absent\" is missing"));
  EXPECT_THAT(message(metadata.Texts("single").status()), HasSubstr("key \"single\" = 7"));
  EXPECT_THAT(message(metadata.Ints("large").status()), HasSubstr("key \"large\"[1] is above"));
  EXPECT_THAT(message(metadata.fields().Int("ints", {0, 9}).status()),
              HasSubstr("key \"ints\" = {\"array of\":\"int32\",\"count\":2}, must be an integer"));
}

TEST_F(GgufTest, GivesTensorsOutermostFirstWithTheirData) {
  for (const int64_t alignment : {8, 32, 64}) {
    GgufBuilder builder;
    builder.alignment = alignment;
    if (alignment != 32) builder.U32("general.alignment", static_cast<uint32_t>(alignment));
    const std::vector<float> values = {1, 2, 3, 4, 5, 6};
    const std::string blocks(size_t{2} * 144, '\x11');
    builder.Tensor("z", std::vector<int64_t>{2, 3}, DType::kF32, values)
        .Tensor("a", std::vector<int64_t>{2, 256}, kQ4KNumber, blocks);
    const auto file = Open(builder.Bytes());
    ASSERT_TRUE(file.ok()) << file.status();
    const TensorSource& source = *file->tensors;
    ASSERT_EQ(source.tensors().size(), 2U);
    EXPECT_EQ(source.tensors()[0].name, "a");
    EXPECT_EQ(source.tensors()[0].dtype, DType::kQ4K);
    EXPECT_EQ(source.tensors()[0].n_bytes, 288);
    const TensorInfo& z = *source.Find("z");
    EXPECT_THAT(z.shape, ElementsAre(2, 3));
    std::vector<std::byte> raw(24);
    ASSERT_TRUE(source.Read(z, raw).ok());
    EXPECT_EQ(std::memcmp(raw.data(), values.data(), raw.size()), 0);
    std::filesystem::resize_file(folder_.File("model.gguf"), 100);
    std::vector<std::byte> rest(288);
    EXPECT_EQ(ExitCode(source.Read(source.tensors()[0], rest)), 3);
  }
}

// More than is read at first: a vocabulary beyond a megabyte, and its data behind it.
TEST_F(GgufTest, ReadsALongHeaderInSteps) {
  std::string texts;
  constexpr uint64_t kTexts = 350'000;
  for (uint64_t i = 0; i < kTexts; ++i) texts += RawText(std::to_string(i));
  GgufBuilder builder;
  builder.Array("texts", GgufType::kText, kTexts, texts);
  const float value = 3.0F;
  builder.Tensor("t", std::vector<int64_t>{1}, DType::kF32, std::span(&value, 1));
  const std::string bytes = builder.Bytes();
  ASSERT_GT(bytes.size(), size_t{4} << 20);
  const auto file = Open(bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->metadata.Texts("texts")->back(), "349999");
  float read = 0.0F;
  const auto raw = std::as_writable_bytes(std::span(&read, 1));
  ASSERT_TRUE(file->tensors->Read(*file->tensors->Find("t"), raw).ok());
  EXPECT_EQ(read, value);
  ExpectError(bytes.substr(0, size_t{2} << 20), "key \"texts\"");
}

TEST_F(GgufTest, RefusesEveryFileThatIsCutShort) {
  GgufBuilder builder;
  const std::vector<float> values(8, 1.0F);
  builder.Text("t", "text")
      .Array("a", GgufType::kText, 2, RawText("a") + RawText("b"))
      .Tensor("x", std::vector<int64_t>{8}, DType::kF32, values);
  const std::string bytes = builder.Bytes();
  ASSERT_TRUE(Open(bytes).ok());
  for (size_t n = 0; n < bytes.size(); ++n) {
    const absl::Status status = Open(bytes.substr(0, n)).status();
    EXPECT_EQ(ExitCode(status), 3) << n << " of " << bytes.size();
  }
}

TEST_F(GgufTest, NamesTheKeyAndItsFault) {
  ExpectError(GgufBuilder().U32("k", 1).U32("k", 1).Bytes(), "key \"k\" appears twice");
  ExpectError(GgufBuilder().U32("", 1).Bytes(), "a key is empty");
  ExpectError(GgufBuilder().Value("k", static_cast<GgufType>(13), Raw(0)).Bytes(),
              "key \"k\" has a value of type 13, must be in [0, 12]");
  ExpectError(GgufBuilder().Value("k", GgufType::kBool, Raw(uint8_t{2})).Bytes(),
              "key \"k\" is a bool of 2, must be 0 or 1");
  ExpectError(GgufBuilder().Array("k", GgufType::kArray, 0, "").Bytes(),
              "key \"k\" is an array of arrays");
  // Counts whose product with the element's size wraps round to a small number.
  for (const GgufType type : {GgufType::kU64, GgufType::kText, GgufType::kU8}) {
    ExpectError(GgufBuilder().Array("k", type, uint64_t{1} << 61, "12345678").Bytes(),
                "key \"k\": count = 2305843009213693952, must be in [0, ");
  }
  for (const uint32_t alignment : {0U, 4U, 24U, 1U << 31}) {
    ExpectError(GgufBuilder().U32("general.alignment", alignment).Bytes(),
                "key \"general.alignment\" = " + std::to_string(alignment));
  }
}

TEST_F(GgufTest, NamesTheTensorAndItsFault) {
  using Shape = std::vector<int64_t>;
  const std::string data(32, '\0');
  const auto with = [&](const Shape& shape, uint32_t type) {
    return GgufBuilder().Tensor("x", shape, type, data).Bytes();
  };
  EXPECT_TRUE(Open(with({}, kF32Number)).ok());
  EXPECT_TRUE(Open(with({1, 1, 1, 8}, kF32Number)).ok());
  ExpectError(with({1, 1, 1, 1, 1}, kF32Number), "tensor \"x\" has 5 dimensions");
  ExpectError(with({0}, kF32Number), "tensor \"x\" has a dimension of 0");
  ExpectError(with({-1}, kF32Number), "tensor \"x\" has a dimension of 18446744073709551615");
  ExpectError(with({9}, kF32Number), "tensor \"x\" ends at byte");
  ExpectError(with({INT64_MAX, 2}, kF32Number), "more than 2^63 bytes");
  ExpectError(with({2, 128}, kQ4KNumber), "its rows must be whole blocks of 256");
  ExpectError(with({8}, 4), "tensor \"x\" is of ggml type 4, must be one of F32 (0), F16 (1)");
  ExpectError(GgufBuilder().Tensor(std::string(64, 'n'), Shape{8}, kF32Number, data).Bytes(),
              "the name has 64 bytes, at most 63 are allowed");
  GgufBuilder twice;
  twice.Tensor("x", Shape{8}, kF32Number, data).Tensor("x", Shape{8}, kF32Number, data);
  ExpectError(twice.Bytes(), "tensor \"x\" appears twice");
  // Data that overlaps, or leaves a gap.
  for (const int64_t n : {1, 16}) {
    GgufBuilder builder;
    builder.Tensor("x", Shape{n}, kF32Number, data).Tensor("y", Shape{8}, kF32Number, data);
    EXPECT_EQ(Open(builder.Bytes()).ok(), n == 1);
    if (n == 16) ExpectError(builder.Bytes(), "tensor \"y\" has offset 32, must be 64");
  }
}

// A model in three files.
class GgufShardsTest : public GgufTest {
 protected:
  using Shape = std::vector<int64_t>;

  GgufBuilder Shard(uint16_t number) const {
    GgufBuilder builder;
    const std::vector<float> values = {1.0F * number, 2.0F};
    builder.Value("split.no", GgufType::kU16, Raw(number))
        .Value("split.count", GgufType::kU16, Raw(uint16_t{3}))
        .Value("split.tensors.count", GgufType::kI32, Raw(int32_t{3}))
        .Tensor(absl::StrCat("t", number), Shape{2}, DType::kF32, values);
    return builder;
  }
  void Write(int number, const GgufBuilder& builder) const {
    folder_.Write(absl::StrCat("m-0000", number + 1, "-of-00003.gguf"), builder.Bytes());
  }
  absl::StatusOr<GgufFile> OpenShard(int number) const {
    return OpenGguf(folder_.File(absl::StrCat("m-0000", number + 1, "-of-00003.gguf")));
  }
  std::string Error(int number = 0) const {
    return std::string(OpenShard(number).status().message());
  }
  void SetUp() override {
    for (const int number : {0, 1, 2}) Write(number, Shard(static_cast<uint16_t>(number)));
  }
};

TEST_F(GgufShardsTest, AreOneModel) {
  const auto file = OpenShard(0);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->tensors->tensors().size(), 3U);
  const TensorInfo* last = file->tensors->Find("t2");
  ASSERT_NE(last, nullptr);
  std::vector<float> values(2);
  ASSERT_TRUE(file->tensors->Read(*last, std::as_writable_bytes(std::span(values))).ok());
  EXPECT_EQ(values, (std::vector<float>{2.0F, 2.0F}));
}

TEST_F(GgufShardsTest, NamesTheFileThatIsMissing) {
  std::filesystem::remove(folder_.File("m-00002-of-00003.gguf"));
  EXPECT_THAT(Error(), HasSubstr("m-00001-of-00003.gguf: is the first of 3 files: "));
  EXPECT_THAT(Error(), HasSubstr("m-00002-of-00003.gguf"));
}

TEST_F(GgufShardsTest, RefusesWhatIsNotTheNextFile) {
  EXPECT_THAT(Error(1), HasSubstr("is file 2 of 3; take the first: "));
  Write(1, Shard(2));
  EXPECT_THAT(Error(), HasSubstr("m-00002-of-00003.gguf: key \"split.no\" = 2"));
  Write(1, Shard(1).Tensor("t0", Shape{1}, DType::kF32, std::vector<float>{1.0F}));
  EXPECT_THAT(Error(), HasSubstr("holds tensor \"t0\", which "));
  Write(1, Shard(1).Tensor("more", Shape{1}, DType::kF32, std::vector<float>{1.0F}));
  EXPECT_THAT(Error(), HasSubstr("\"split.tensors.count\" = 3, the 3 files hold 4 tensors"));
  folder_.Write("renamed.gguf", Shard(0).Bytes());
  EXPECT_THAT(std::string(OpenGguf(folder_.File("renamed.gguf")).status().message()),
              HasSubstr("so its name must end in -00001-of-00003.gguf"));
}

}  // namespace
}  // namespace ng
