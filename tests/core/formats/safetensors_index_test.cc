// Weights in several files: index and files must agree.
#include "core/formats/safetensors_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/formats/safetensors.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

class SafetensorsIndexTest : public ::testing::Test {
 protected:
  SafetensorsIndexTest() {
    WriteShard("one.safetensors", {{"b", {2}, {1.0F, 2.0F}}});
    WriteShard("two.safetensors", {{"a", {1}, {3.0F}}, {"c", {1}, {4.0F}}});
  }

  void WriteShard(const std::string& name, const std::vector<NamedTensor>& tensors) {
    EXPECT_TRUE(WriteSafetensors(dir_.File(name), tensors).ok());
  }

  absl::StatusOr<std::unique_ptr<TensorSource>> Open(const Json& weight_map) {
    const Json index = {{"metadata", {{"total_size", 16}}}, {"weight_map", weight_map}};
    NG_ASSIGN_OR_RETURN(
        SafetensorsIndex opened,
        OpenSafetensorsIndex(dir_.Write("model.safetensors.index.json", index.dump())));
    doubts_ = std::move(opened.doubts);
    return std::move(opened.source);
  }
  // The first value of a tensor of what these files are by this index.
  float First(const Json& weight_map, const std::string& tensor) {
    const auto source = Open(weight_map);
    float value = 0.0F;
    if (!source.ok()) ADD_FAILURE() << source.status();
    if (!source.ok()) return value;
    const auto bytes = std::as_writable_bytes(std::span(&value, 1));
    EXPECT_TRUE((*source)->ReadAt(*(*source)->Find(tensor), 0, bytes).ok());
    return value;
  }

  void ExpectRefused(const absl::Status& status, const std::vector<std::string>& parts) {
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(ExitCode(status), 3);
    const std::string message(status.message());
    EXPECT_EQ(message.find('\n'), std::string::npos);
    EXPECT_THAT(message, HasSubstr(dir_.path()));
    for (const std::string& part : parts) EXPECT_THAT(message, HasSubstr(part));
  }

  const Json sound_ = {
      {"a", "two.safetensors"}, {"b", "one.safetensors"}, {"c", "two.safetensors"}};
  test::TempDir dir_;
  std::vector<std::string> doubts_;  // of what was opened last
};

TEST_F(SafetensorsIndexTest, GivesTheTensorsOfAllFilesSortedByNameWithTheirData) {
  const auto source = Open(sound_);
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ((*source)->tensors().size(), 3U);
  EXPECT_EQ((*source)->tensors()[0].name, "a");
  EXPECT_EQ((*source)->tensors()[2].name, "c");
  float b[2];
  ASSERT_TRUE((*source)->Read(*(*source)->Find("b"), std::as_writable_bytes(std::span(b))).ok());
  EXPECT_EQ(b[0], 1.0F);
  EXPECT_EQ(b[1], 2.0F);
  float last = 0.0F;
  ASSERT_TRUE((*source)
                  ->ReadAt(*(*source)->Find("b"), 4, std::as_writable_bytes(std::span(&last, 1)))
                  .ok());
  EXPECT_EQ(last, 2.0F);
}

TEST_F(SafetensorsIndexTest, RefusesAFileThatShrank) {
  const auto source = Open(sound_);
  ASSERT_TRUE(source.ok()) << source.status();
  std::filesystem::resize_file(dir_.File("two.safetensors"), 20);
  float c = 0.0F;
  ExpectRefused((*source)->Read(*(*source)->Find("c"), std::as_writable_bytes(std::span(&c, 1))),
                {"two.safetensors", "c"});
}

TEST_F(SafetensorsIndexTest, RefusesNamesThatReachOutOfTheFolder) {
  for (const char* name : {"../one.safetensors", "/etc/one.safetensors", "a\\one.safetensors", "",
                           ".safetensors", "one.bin"}) {
    Json map = sound_;
    map["b"] = name;
    ExpectRefused(Open(map).status(), {"weight_map[\"b\"]", Json(name).dump()});
  }
  for (const Json& value : {Json(1), Json(), Json::array({"one.safetensors"})}) {
    Json map = sound_;
    map["b"] = value;
    ExpectRefused(Open(map).status(), {"weight_map[\"b\"]", value.dump()});
  }
}

TEST_F(SafetensorsIndexTest, RefusesAMissingFile) {
  Json map = sound_;
  map["b"] = "three.safetensors";
  ExpectRefused(Open(map).status(), {"model.safetensors.index.json", "three.safetensors"});
}

TEST_F(SafetensorsIndexTest, DoubtsATensorThatItsFileDoesNotHold) {
  Json map = sound_;
  map["d"] = "one.safetensors";
  const auto source = Open(map);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->Find("d"), nullptr);
  EXPECT_THAT(doubts_, ElementsAre(HasSubstr("not hold: \"d\" in one.safetensors")));
}

// As transformers does.
TEST_F(SafetensorsIndexTest, FindsATensorThatItPlacesNowhereOrWrong) {
  Json map = sound_;
  map["a"] = "one.safetensors";
  EXPECT_EQ(First(map, "a"), 3.0F);
  EXPECT_THAT(doubts_, ElementsAre(HasSubstr("does not name for them: \"a\" in two.safetensors")));
  map.erase("a");
  EXPECT_EQ(First(map, "a"), 3.0F);
  WriteShard("one.safetensors", {{"a", {1}, {5.0F}}, {"b", {2}, {1.0F, 2.0F}}});
  EXPECT_EQ(First(map, "a"), 3.0F) << "of the last file";
  EXPECT_THAT(doubts_, ElementsAre(HasSubstr("not name for them: \"a\" in two.safetensors"),
                                   HasSubstr("not read: \"a\" in one.safetensors")));
}

TEST_F(SafetensorsIndexTest, ReadsATensorFromTheFileThatItNames) {
  WriteShard("one.safetensors", {{"a", {1}, {5.0F}}, {"b", {2}, {1.0F, 2.0F}}});
  EXPECT_EQ(First(sound_, "a"), 3.0F);
  EXPECT_THAT(doubts_, ElementsAre(AllOf(HasSubstr(dir_.path()),
                                         HasSubstr("not read: \"a\" in one.safetensors"))));
  Json map = sound_;
  map["a"] = "one.safetensors";
  EXPECT_EQ(First(map, "a"), 5.0F);
}

TEST_F(SafetensorsIndexTest, RefusesADamagedFileNamingIt) {
  dir_.Write("two.safetensors", "short");
  ExpectRefused(Open(sound_).status(), {"model.safetensors.index.json", "two.safetensors"});
}

TEST_F(SafetensorsIndexTest, RefusesAnIndexThatIsNone) {
  for (const char* text :
       {"", "[]", "{}", "{\"weight_map\": 1}", "{\"weight_map\": {}}",
        "{\"weight_map\": {\"a\": \"x.safetensors\", \"a\": \"y.safetensors\"}}"}) {
    SCOPED_TRACE(text);
    const std::string path = dir_.Write("model.safetensors.index.json", text);
    ExpectRefused(OpenSafetensorsIndex(path).status(), {"model.safetensors.index.json"});
  }
}

}  // namespace
}  // namespace ng
