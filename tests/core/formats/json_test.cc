#include "core/formats/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <string_view>

#include "ng/json.h"
#include "ng/ordered_json.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kDepth = 3;

std::string ErrorOf(std::string_view text) {
  const auto parsed = ParseJson(text, "file.json", kDepth);
  EXPECT_EQ(ExitCode(parsed.status()), 3) << text;
  return std::string(parsed.status().message());
}

TEST(ParseJson, BuildsEveryKindOfValue) {
  const std::string_view text =
      R"({"a": [1, -2, 2.5, true, null], "b": {"c": "\u00e9\ud83d\ude00"}, "d": {}, "e": []})";
  const auto parsed = ParseJson(text, "file.json", kDepth);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(**parsed, nlohmann::json::parse(text));
  EXPECT_EQ(*ParseJson(" 7 ", "file.json", 0).value(), 7);
}

TEST(ParseJson, NamesTheFileAndThePlaceOfASyntaxError) {
  EXPECT_THAT(ErrorOf("{\"a\": \n tru}"),
              HasSubstr("file.json: is not valid JSON: parse error at line 2, column"));
  for (const char* const text : {"", " ", "{", "{} {}", "{}x", "[1,]", "{'a':1}", "nul", "01",
                                 "1e999", "\"\x01\"", "\"\\ud800\"", "// c\n1", "NaN"}) {
    EXPECT_THAT(ErrorOf(text), HasSubstr("file.json: is not valid JSON: ")) << text;
  }
}

TEST(ParseJson, KeepsAnErrorShortHoweverLongTheFile) {
  std::string text(1 << 20, 'x');
  text.front() = '"';
  const std::string message = ErrorOf(text);
  EXPECT_LT(message.size(), 300);
  EXPECT_EQ(message.find('\n'), message.npos);
}

TEST(ParseJson, RefusesADuplicateKeyAtAnyLevel) {
  EXPECT_EQ(ErrorOf(R"({"a": 1, "b": 2, "a": 3})"), "file.json: key \"a\" appears twice");
  EXPECT_EQ(ErrorOf(R"({"x": {"a": 1, "\u0061": 3}})"), "file.json: key \"a\" appears twice");
  EXPECT_TRUE(ParseJson(R"([{"a": 1}, {"a": 1}])", "file.json", kDepth).ok());
}

TEST(CheckJson, SaysAtWhichValueItStopped) {
  const auto place = [](std::string_view text) {
    const absl::Status status = CheckJson(text, "body", kDepth);
    EXPECT_FALSE(status.ok()) << text;
    return JsonErrorPlace(status);
  };
  EXPECT_EQ(place(R"({"a": 1, "b": "\ud800"})"), "b");
  EXPECT_EQ(place(R"({"m": [{"c": "x"}, {"c": "\udc00"}]})"), "m[1].c");
  EXPECT_EQ(place(R"({"a": [[1, 2], 3, tru]})"), "a[2]");
  EXPECT_EQ(place(R"({"a": {"b": 1}, "\ud800": 1})"), "");
  EXPECT_EQ(place(R"({"a": {"b": 1, "b": 2}})"), "a");
  EXPECT_EQ(place(R"({"a": [[[1]]]})"), "a[0][0]");
  EXPECT_EQ(place("nul"), "");
  EXPECT_EQ(JsonErrorPlace(UsageError("x")), "");
}

TEST(ParseCheckedJson, KeepsTheOrderOfKeys) {
  const std::string text = R"({"b":[1,-2,2.5,{"z":null,"a":{}}],"a":[],"":"\u00e9","c":true})";
  EXPECT_EQ(ParseCheckedJson(text), nlohmann::ordered_json::parse(text));
  EXPECT_EQ(ParseCheckedJson(text).dump(), nlohmann::ordered_json::parse(text).dump());
  EXPECT_EQ(ParseCheckedJson(" 7 "), 7);
}

TEST(ParseJson, LimitsTheDepth) {
  EXPECT_TRUE(ParseJson("[[[1]]]", "file.json", kDepth).ok());
  EXPECT_EQ(ErrorOf("[[[[1]]]]"), "file.json: is nested more than 3 levels deep");
  EXPECT_EQ(ErrorOf(std::string(1 << 20, '[')), "file.json: is nested more than 3 levels deep");
}

TEST(ParseJson, RefusesWhatTheLibraryLetsThrough) {
  EXPECT_THAT(ErrorOf("\xEF\xBB\xBF{}"), HasSubstr("byte order mark"));
  EXPECT_THAT(ErrorOf(std::string_view("{}\0 rest", 8)), HasSubstr("NUL byte at offset 2"));
}

TEST(ParseJson, RefusesInvalidUtf8) {
  for (const char* const text :
       {"\"\xFF\"", "\"\xC0\x80\"", "\"\xED\xA0\x80\"", "\"\xE4\xB8\"", "\xFF"}) {
    EXPECT_THAT(ErrorOf(text), HasSubstr("is not valid JSON"));
  }
}

TEST(ReadJsonFile, TakesTheNumbersThatPythonWrites) {
  const test::TempDir dir;
  const std::string path =
      dir.Write("x.json", R"({"a": [-Infinity, NaN], "b\\\"Infinity": "NaN", "c": Infinity})");
  const absl::StatusOr<JsonDocument> read = ReadJsonFile(path);
  ASSERT_TRUE(read.ok()) << read.status();
  const nlohmann::json& json = **read;
  EXPECT_EQ(json["a"][0]["__float__"], "-Infinity");
  EXPECT_EQ(json["a"][1]["__float__"], "NaN");
  EXPECT_EQ(json["b\\\"Infinity"], "NaN");
  EXPECT_EQ(json["c"]["__float__"], "Infinity");
}

TEST(ReadJsonFile, CapsTheSize) {
  const test::TempDir folder;
  const std::string path = folder.Write("config.json", "{\"a\": 1}");
  EXPECT_EQ((*ReadJsonFile(path).value())["a"], 1);
  EXPECT_THAT(std::string(ReadJsonFile(path, {.max_bytes = 7}).status().message()),
              HasSubstr("config.json: has 8 bytes, must have at most 7"));
}

TEST(JsonExcerpt, IsShortAsciiWhateverTheValue) {
  EXPECT_EQ(JsonExcerpt("\n\xC3\xA9"), "\"\\n\\u00e9\"");
  EXPECT_EQ(JsonExcerpt("\xFF"), "\"\\ufffd\"");
  EXPECT_LT(JsonExcerpt(std::string(1000, 'x')).size(), 100);
}

class JsonFieldsTest : public testing::Test {
 protected:
  template <typename T>
  static std::string Message(const absl::StatusOr<T>& result) {
    EXPECT_EQ(ExitCode(result.status()), 3);
    return std::string(result.status().message());
  }

  const nlohmann::json json_ = nlohmann::json::parse(R"({
      "n_layers": 4, "two": "two", "eps": 1e-5, "tied": true, "absent": null, "float": 4.0,
      "big": 18446744073709551615, "negative": -1, "ids": [1, 2], "bad_ids": [1, "2"],
      "rope": {"factor": "x", "theta": 5}})");
  const JsonFields fields_ = JsonFields::Of(json_, "config.json").value();
};

TEST_F(JsonFieldsTest, GivesFieldsByType) {
  EXPECT_EQ(fields_.Int("n_layers", {1, 4}).value(), 4);
  EXPECT_EQ(fields_.Number("eps", {0, 1}).value(), 1e-5);
  EXPECT_EQ(fields_.Number("n_layers", {0, 10}).value(), 4.0);
  EXPECT_EQ(fields_.Bool("tied").value(), true);
  EXPECT_EQ(fields_.Text("two").value(), "two");
  EXPECT_THAT(fields_.IntList("ids", {1, 2}).value(), ElementsAre(1, 2));
  EXPECT_EQ(fields_.OptionalInt("n_layers", {1, 4}).value(), 4);
  EXPECT_THAT(*fields_.OptionalInts("ids", {1, 2}).value(), ElementsAre(1, 2));
  EXPECT_THAT(*fields_.OptionalInts("n_layers", {1, 4}).value(), ElementsAre(4));
  EXPECT_THAT(*fields_.OptionalInts("float", {1, 4}).value(), ElementsAre(4));
  EXPECT_EQ(fields_.OptionalObject("rope").value()->Int("theta", {1, 9}).value(), 5);
}

TEST_F(JsonFieldsTest, TakesNullForAbsent) {
  EXPECT_FALSE(fields_.Has("absent"));
  EXPECT_TRUE(fields_.Has("tied"));
  for (const char* const key : {"absent", "nowhere"}) {
    EXPECT_EQ(fields_.OptionalInt(key, {1, 2}).value(), std::nullopt);
    EXPECT_EQ(fields_.OptionalInts(key, {1, 2}).value(), std::nullopt);
    EXPECT_EQ(fields_.OptionalNumber(key, {1, 2}).value(), std::nullopt);
    EXPECT_EQ(fields_.OptionalBool(key).value(), std::nullopt);
    EXPECT_EQ(fields_.OptionalText(key).value(), std::nullopt);
    EXPECT_FALSE(fields_.OptionalObject(key).value().has_value());
  }
}

TEST_F(JsonFieldsTest, NamesFileKeyValueAndWhatIsAllowed) {
  EXPECT_EQ(Message(fields_.Int("two", {1, 1024})),
            "config.json: key \"two\" = \"two\", must be an integer in [1, 1024]");
  EXPECT_EQ(Message(fields_.Int("nowhere", {1, 1024})),
            "config.json: key \"nowhere\" is missing, must be an integer in [1, 1024]");
  EXPECT_EQ(Message(fields_.OptionalObject("rope").value()->Number("factor", {1, 64})),
            "config.json: key \"rope.factor\" = \"x\", must be a number in [1, 64]");
  EXPECT_EQ(Message(fields_.IntList("bad_ids", {0, 9})),
            "config.json: key \"bad_ids[1]\" = \"2\", must be an integer in [0, 9]");
  EXPECT_EQ(Message(fields_.OptionalInts("two", {0, 9})),
            "config.json: key \"two\" = \"two\", must be an integer in [0, 9], or a list of them");
  EXPECT_EQ(Message(fields_.Bool("n_layers")),
            "config.json: key \"n_layers\" = 4, must be true or false");
  EXPECT_EQ(Message(fields_.Text("tied")), "config.json: key \"tied\" = true, must be a string");
  EXPECT_EQ(Message(JsonFields::Of(nlohmann::json::array(), "config.json")),
            "config.json: is [], must be a JSON object");
}

TEST_F(JsonFieldsTest, RefusesIntegersOutsideTheirRange) {
  constexpr Range<int64_t> kAny = {std::numeric_limits<int64_t>::min(),
                                   std::numeric_limits<int64_t>::max()};
  EXPECT_FALSE(fields_.Int("n_layers", {1, 3}).ok());
  EXPECT_FALSE(fields_.Int("n_layers", {5, 9}).ok());
  EXPECT_FALSE(fields_.Int("negative", {0, 9}).ok());
  EXPECT_FALSE(fields_.Int("big", kAny).ok());
  EXPECT_FALSE(fields_.Int("float", kAny).ok());
  EXPECT_FALSE(fields_.Int("tied", kAny).ok());
  EXPECT_FALSE(fields_.Number("eps", {1, 2}).ok());
}

TEST(JsonFieldsUnread, NamesWhatSaysSomethingAndNobodyRead) {
  const nlohmann::json json = nlohmann::json::parse(R"({
      "read": 1, "unread": 0, "asked": 2, "null": null, "false": false, "text": "", "list": [],
      "object": {}, "rope": {"factor": 2, "type": "x", "deep": {"read": 1, "not": 2}},
      "whole": {"a": 1}, "shut": {"a": 1}})");
  const JsonFields fields = JsonFields::Of(json, "config.json").value();
  EXPECT_EQ(fields.Int("read", {0, 9}).value(), 1);
  EXPECT_TRUE(fields.Has("asked"));
  EXPECT_NE(fields.Find("whole"), nullptr);
  const JsonFields copy = fields;
  const JsonFields rope = *copy.OptionalObject("rope").value();
  EXPECT_EQ(rope.Int("factor", {0, 9}).value(), 2);
  EXPECT_EQ(rope.OptionalObject("deep").value()->Int("read", {0, 9}).value(), 1);
  EXPECT_THAT(fields.Unread(),
              ElementsAre("asked", "rope.deep.not", "rope.type", "shut", "unread"));
}

TEST(JsonFieldsUnread, KeepsALogThatOutlivesTheFields) {
  const nlohmann::json json = {{"a", 1}, {"b", 2}};
  const auto read = std::make_shared<ReadKeys>();
  EXPECT_TRUE(JsonFields::Of(json, "x", read).value().Int("a", {0, 9}).ok());
  EXPECT_THAT(JsonFields::Of(json, "x", read).value().Unread(), ElementsAre("b"));
}

}  // namespace
}  // namespace ng
