// What JSON schemas allow and refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/plugins/sampler/grammar/grammar_testing.h"

namespace ng {
namespace {

using test::OfSchema;
using test::Standing;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct SchemaRow {
  const char* schema;
  std::vector<const char*> valid;
  std::vector<const char*> invalid;
};

TEST(GrammarSchema, AllowsWhatIsValid) {
  const SchemaRow rows[] = {
      {"true",
       {"[1, {\"a\": null}]", "\"\\ud83d\\ude00\"", "-0.5e3", "{\n  \"a\": []\n}"},
       {"[1,]", "\"\\ud83d\"", "01", "{a:1}"}},
      {R"({"type":"integer","minimum":3,"exclusiveMaximum":120})",
       {"3", "119", "20"},
       {"2", "120", "-5", "3.0"}},
      {R"({"type":"number","exclusiveMinimum":-1.5,"maximum":2})",
       {"-1.4999", "2", "0.5", "2.0"},
       {"-1.5", "2.01", "-2"}},
      {R"({"multipleOf":7,"type":"integer"})", {"0", "49", "-14"}, {"1", "50"}},
      {R"({"type":"string","minLength":2,"maxLength":3})",
       {"\"ab\"", "\"äö\\n\""},
       {"\"a\"", "\"abcd\""}},
      {R"({"type":"string","pattern":"^a+$"})", {"\"a\"", "\"aaa\""}, {"\"\"", "\"ab\""}},
      {R"({"type":"string","pattern":"b"})", {"\"abc\"", "\"b\""}, {"\"ac\""}},
      {R"({"type":"string","format":"date"})",
       {"\"2024-02-29\"", "\"1999-12-31\""},
       {"\"2023-02-29\"", "\"1999-13-01\""}},
      {R"({"enum":["x\n",1.5,{"a":1,"b":2}]})",
       {"\"x\\n\"", "1.5", "{\"b\": 2, \"a\": 1}"},
       {"\"x\"", "{\"a\":1}"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":true},"required":["a"],
          "additionalProperties":false})",
       {"{\"a\":1}", "{\"b\":[],\"a\":1}"},
       {"{}", "{\"b\":1}", "{\"a\":\"\"}", "{\"c\":1,\"a\":1}"}},
      {R"({"properties":{"a":{"const":1}},"additionalProperties":{"type":"string"}})",
       {"{\"a\":1,\"x\":\"\"}", "{}", "5"},
       {"{\"a\":2}", "{\"x\":1}", "{\"\\u0061\":2}"}},
      {R"({"patternProperties":{"^s":{"type":"string"},"n$":{"maxLength":1}}})",
       {"{\"sn\":\"x\"}", "{\"n\":1}"},
       {"{\"sn\":\"xx\"}", "{\"s\":1}"}},
      {R"({"dependentRequired":{"a":["b"]}})", {"{\"a\":1,\"b\":1}", "{\"b\":1}"}, {"{\"a\":1}"}},
      {R"({"prefixItems":[{"type":"integer"}],"items":{"type":"null"},"maxItems":3})",
       {"[1,null,null]", "[]"},
       {"[null]", "[1,1]", "[1,null,null,null]"}},
      {R"({"type":"array","contains":{"const":7}})", {"[1,7]", "[7]"}, {"[]", "[1]"}},
      {R"({"$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}},
          "additionalProperties":false}},"$ref":"#/$defs/n"})",
       {"{\"next\":{\"next\":{}}}"},
       {"{\"next\":1}"}},
      {R"({"allOf":[{"minimum":3},{"type":"integer"}],"anyOf":[{"maximum":4},{"minimum":9}]})",
       {"3", "4", "9"},
       {"2", "5", "\"\""}},
      {R"({"oneOf":[{"type":"integer"},{"minimum":2}]})", {"1", "2.5"}, {"2"}},
      // They are told apart by what they list, which two may share, and as others write it.
      {R"({"oneOf":[{"const":1},{"enum":[2,"a"]},{"enum":["a",3]},{"type":"null"},{"const":2.0}]})",
       {"1", "3", "null"},
       {"2", "\"a\"", "4"}},
      {R"({"$defs":{"a":{"type":"object","required":["k"],"properties":{"k":{"enum":["a","c"]}}}},
           "type":"object","oneOf":[{"$ref":"#/$defs/a"},{"const":{"k":"d"}},
           {"required":["k"],"properties":{"k":{"const":"b"}}},{"const":{"k":"b"}},
           {"allOf":[{"$ref":"#/$defs/a"}],"properties":{"k":{"const":"c"}}}]})",
       {R"({"k":"a"})", R"({"k":"d"})"},
       {R"({"k":"c"})", R"({"k":"e"})"}},
      {R"({"if":{"properties":{"k":{"const":1}},"required":["k"]},"then":{"required":["x"]}})",
       {"{\"k\":1,\"x\":0}", "{\"k\":2}", "{}"},
       {"{\"k\":1}"}},
      {R"({"type":"array","contains":{"const":7},"maxContains":2})",
       {"[1,7]", "[7,7,\"x\"]"},
       {"[]", "[7,7,7]", "[1]"}},
      {R"({"anyOf":[{"type":"array","contains":{"const":1},"minContains":3,"maxContains":1},
          {"type":"null"}]})",
       {"null"},
       {"[1,1,1]", "[1]"}},
      {R"({"type":"array","items":{"enum":["a","b",1,1.0]},"uniqueItems":true,"minItems":2})",
       {"[\"a\",1]", "[1,\"b\",\"a\"]"},
       {"[\"a\"]", "[1,1]", "[\"a\",\"b\",\"a\"]"}},
      {R"({"$id":"http://x.org/a/root.json","$ref":"part/b.json#/$defs/n","$defs":{
          "p":{"$id":"part/b.json","$defs":{"n":{"anyOf":[{"$ref":"../c.json"},{"$ref":"#here"}]},
                                            "h":{"$anchor":"here","type":"null"}}},
          "c":{"$id":"/a/c.json","const":3}}})",
       {"3", "null"},
       {"4", "\"\""}},
      {R"({"type":"object","allOf":[{"properties":{"a":{"const":1}}},{"properties":{"b":{}}}],
          "properties":{"c":{}},"unevaluatedProperties":false})",
       {"{\"a\":1,\"b\":2,\"c\":3}", "{}"},
       {"{\"a\":2}", "{\"d\":1}"}},
      {R"({"type":"object","anyOf":[{"properties":{"a":{"const":1}},"required":["a"]},
          {"properties":{"b":{"const":2}},"required":["b"]}],"not":{"required":["z"],
          "properties":{"z":{"const":0}}},"unevaluatedProperties":{"type":"null"}})",
       {"{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":null}", "{\"a\":1,\"z\":null}"},
       {"{\"a\":1,\"b\":3}", "{}", "{\"a\":1,\"z\":1}"}},
      {R"({"type":"array","prefixItems":[{"const":1}],"allOf":[{"prefixItems":[true,{"const":2}]}],
          "unevaluatedItems":false})",
       {"[1,2]", "[1]"},
       {"[1,2,3]", "[2]"}},
      {R"({"type":"object","properties":{"k":{"enum":["a","b"]}},"required":["k"],
          "if":{"properties":{"k":{"const":"a"}}},"then":{"properties":{"next":{"$ref":"#"}}},
          "unevaluatedProperties":false})",
       {"{\"k\":\"a\",\"next\":{\"k\":\"b\"}}"},
       {"{\"k\":\"b\",\"next\":{\"k\":\"b\"}}"}},
      {R"({"not":{"enum":["a",3]}})", {"\"b\"", "4", "null"}, {"\"a\"", "3"}},
      // The outermost resource with the anchor counts: the tree's children are strict ones too.
      {R"({"$id":"http://x.org/strict","$dynamicAnchor":"node","$ref":"tree",
          "unevaluatedProperties":false,"$defs":{"tree":{"$id":"tree","$dynamicAnchor":"node",
          "type":"object","properties":{"data":true,
            "children":{"type":"array","items":{"$dynamicRef":"#node"}}}}}})",
       {R"({"children":[{"data":1}]})"},
       {R"({"children":[{"daat":1}]})"}},
      {R"({"$id":"http://x.org/tree","$dynamicAnchor":"node","type":"object","properties":{
          "data":true,"children":{"type":"array","items":{"$dynamicRef":"#node"}}}})",
       {R"({"children":[{"daat":1}]})"},
       {R"({"children":[1]})"}},
      {R"({"$schema":"https://json-schema.org/draft/2019-09/schema","$id":"http://x.org/strict",
          "$recursiveAnchor":true,"$ref":"tree","unevaluatedProperties":false,"$defs":{"tree":{
          "$id":"tree","$recursiveAnchor":true,"type":"object","properties":{"data":true,
            "children":{"type":"array","items":{"$recursiveRef":"#"}}}}}})",
       {R"({"children":[{"data":1}]})"},
       {R"({"children":[{"daat":1}]})"}},
      {R"({"type":"array","prefixItems":[true],"contains":{"type":"string"},
          "unevaluatedItems":false})",
       {R"([1,"a"])", R"(["a"])", R"([[],"a","b"])"},
       {"[1]", R"([1,"a",2])"}},
      {R"({"type":"array","allOf":[{"contains":{"multipleOf":2}},{"contains":{"multipleOf":3}}],
          "unevaluatedItems":{"multipleOf":5}})",
       {"[2,3,4,15]", "[6]"},
       {"[2,4]", "[2,3,7]"}},
      {R"({"type":"array","contains":{"const":1},"allOf":[{"contains":{"const":2},
          "maxContains":1}],"maxItems":3})",
       {"[1,2]", "[3,2,1]"},
       {"[1,1]", "[1,2,2]", "[3,4,1]"}},
      {R"({"type":"array","prefixItems":[{"type":"boolean"},{"type":"boolean"}],"items":false,
          "uniqueItems":true})",
       {"[true,false]", "[true]", "[]"},
       {"[true,true]", "[true,false,1]"}},
      {R"({"type":"array","prefixItems":[{"type":"string"},{"type":"integer"},{"type":"null"}],
          "items":false,"uniqueItems":true})",
       {R"(["a",1,null])", "[]"},
       {R"(["a","b"])"}},
      {R"({"not":{"const":{"a":[1]}}})",
       {R"({"a":[2]})", R"({"a":[1,1]})", "{}", R"({"a":[1],"b":1})", "3"},
       {R"({"a":[1]})"}},
      {R"({"not":{"pattern":"^a"}})", {R"("ba")"}, {R"("ab")", "1"}},
      {R"({"type":"integer","not":{"multipleOf":3}})", {"4", "-5"}, {"3", "0"}},
      {R"({"enum":[3,4,"ab","b"],"not":{"anyOf":[{"type":"integer","multipleOf":3},
          {"type":"string","pattern":"a"}]}})",
       {"4", R"("b")"},
       {"3", R"("ab")"}},
      {R"({"type":"array","not":{"prefixItems":[{"const":1}],"items":{"const":2}}})",
       {"[2]", "[1,3]"},
       {"[]", "[1]", "[1,2,2]"}},
      {R"({"type":"array","not":{"contains":{"const":1},"maxContains":2}})",
       {"[]", "[2]", "[1,1,1]"},
       {"[1]", "[1,2,1]"}},
      {R"({"type":"object","oneOf":[{"properties":{"a":true},"additionalProperties":false},
          {"properties":{"b":true},"additionalProperties":false}]})",
       {R"({"a":1})", R"({"b":1})"},
       {"{}", R"({"c":1})", R"({"a":1,"b":1})"}},
      {R"({"type":"object","not":{"propertyNames":{"maxLength":2}}})",
       {R"({"abc":1})", R"({"a":1,"abcd":2,"b":3})"},
       {"{}", R"({"ab":1})"}},
      {R"({"type":"object","not":{"patternProperties":{"^a":false}},"required":["b"],
          "properties":{"ab":{"type":"null"}}})",
       {R"({"b":1,"ax":1})", R"({"ab":null,"b":1})"},
       {R"({"b":1})", R"({"ab":1,"b":1})"}},
      {R"({"type":"object","not":{"dependentRequired":{"a":["b"]}}})",
       {R"({"a":1})"},
       {"{}", R"({"a":1,"b":2})"}},
      {R"({"not":{"if":{"type":"string"},"then":{"maxLength":1},"else":{"const":3}}})",
       {R"("ab")", "4"},
       {R"("a")", "3"}},
      {R"({"not":{"oneOf":[{"type":"integer"},{"minimum":2}]}})",
       {"2", "1.5", "7"},
       {"1", "2.5", R"("a")"}},
      {R"({"$ref":"#/$defs/odd","$defs":{"odd":{"type":"array","maxItems":1,
          "items":{"not":{"$ref":"#/$defs/odd"}}}}})",
       {"[]", "[1]", "[[[]]]", "[[1,2]]"},
       {"[[]]", "1", "[[[[]]]]"}},
      {R"({"propertyNames":{"enum":["a","b"],"not":{"const":"b"}}})",
       {R"({"a":1})"},
       {R"({"b":1})", R"({"c":1})"}},
      {R"({"propertyNames":{"maxLength":2}})", {"{\"ab\":1}"}, {"{\"abc\":1}"}},
  };
  for (const SchemaRow& row : rows) {
    for (const char* text : row.valid) {
      EXPECT_THAT(OfSchema(row.schema, text), ::testing::StartsWith("matches"))
          << row.schema << text;
    }
    for (const char* text : row.invalid) {
      EXPECT_THAT(OfSchema(row.schema, text), ::testing::AnyOf("no", "begins"))
          << row.schema << text;
    }
  }
}

TEST(GrammarSchema, RefusesByNameAndPointerWhatItDoesNotRead) {
  EXPECT_THAT(OfSchema(R"({"properties":{"a":{"$dynamicRef":"#x"}}})", ""),
              AllOf(HasSubstr("#/properties/a/$dynamicRef"), HasSubstr("'#x' is an anchor")));
  EXPECT_THAT(OfSchema(R"({"not":{"unevaluatedItems":false}})", ""),
              AllOf(HasSubstr("#/not/unevaluatedItems"), HasSubstr("the opposite of this")));
  EXPECT_THAT(OfSchema(R"({"oneOf":[{"additionalProperties":{"type":"null"}},{}]})", ""),
              AllOf(HasSubstr("#/oneOf/0/additionalProperties"), HasSubstr("where it is false")));
  EXPECT_THAT(OfSchema("{\"properties\":{\"\\u0001is\":{\"\\u0001is\":3}}}", ""),
              HasSubstr("U+0001"));
  EXPECT_THAT(OfSchema(R"({"$recursiveRef":"#"})", ""), HasSubstr("no keyword of this draft"));
  EXPECT_THAT(OfSchema(R"({"$defs":{"a":{"$id":"x"},"b":{"$id":"x"}}})", ""),
              HasSubstr("'x' is the name of two schemas"));
  EXPECT_THAT(OfSchema(R"({"colour":1})", ""), HasSubstr("'colour' is not supported"));
  EXPECT_THAT(OfSchema(R"({"type":"array","uniqueItems":true})", ""), HasSubstr("uniqueItems"));
  EXPECT_THAT(OfSchema(R"({"$ref":"http://x/y"})", ""), HasSubstr("outside of the schema"));
  EXPECT_THAT(OfSchema(R"({"multipleOf":0.12345678})", ""),
              AllOf(HasSubstr("at #/multipleOf"), HasSubstr("up to 5000")));
  EXPECT_THAT(OfSchema(R"({"format":"iri"})", ""), HasSubstr("'iri' is none of date"));
  EXPECT_THAT(OfSchema(R"({"allOf":[{"$ref":"#"}]})", ""), HasSubstr("refers to itself"));
  EXPECT_THAT(OfSchema(R"({"minLength":2147483649})", ""),
              AllOf(HasSubstr("at #/minLength"), HasSubstr("a whole number up to 2147483648")));
  EXPECT_THAT(OfSchema(R"({"type":"text"})", ""), HasSubstr("'text', must be null"));
  EXPECT_THAT(OfSchema("{\"a\":", ""), HasSubstr("is no JSON text"));
}

// Each kind of object excludes the others by a name's value alone; that these are objects is said
// beside them.
TEST(GrammarSchema, ManyKindsOfObjectsAreOneOfThem) {
  std::string kinds;
  for (int i = 0; i < 60; ++i) {
    const std::string number = std::to_string(i);
    kinds += (i > 0 ? "," : "") + std::string("{\"properties\":{\"k\":{\"const\":") + number +
             "},\"v" + number + "\":{}},\"required\":[\"k\"],\"additionalProperties\":false}";
  }
  const std::string schema = "{\"type\":\"object\",\"oneOf\":[" + kinds + "]}";
  EXPECT_EQ(OfSchema(schema, "{\"k\":59,\"v59\":1}"), "matches and ends");
  EXPECT_EQ(OfSchema(schema, "{\"v7\":1,\"k\":7}"), "matches and ends");
  EXPECT_EQ(OfSchema(schema, "{\"k\":59,\"v58"), "no");
}

TEST(GrammarSchema, MultiplesOfDecimals) {
  constexpr char kCents[] = R"({"type":"number","multipleOf":0.01,"minimum":0})";
  EXPECT_EQ(OfSchema(kCents, "0.07"), "matches");
  EXPECT_EQ(OfSchema(kCents, "12.340"), "matches");
  EXPECT_EQ(OfSchema(kCents, "12.345"), "no");
  EXPECT_EQ(OfSchema(kCents, "3"), "matches");
  EXPECT_EQ(OfSchema(R"({"multipleOf":0.25})", "-1.75"), "matches");
  EXPECT_EQ(OfSchema(R"({"multipleOf":0.25})", "1.3"), "no");
  EXPECT_EQ(OfSchema(R"({"multipleOf":2.5})", "7.5"), "matches");
  EXPECT_EQ(OfSchema(R"({"multipleOf":2.5})", "8"), "begins");
  EXPECT_EQ(OfSchema(R"({"multipleOf":5000000})", "10000000"), "matches");
  EXPECT_EQ(OfSchema(R"({"multipleOf":5000000})", "1000000"), "begins");
  EXPECT_EQ(OfSchema(R"({"enum":[0.5,0.75,0.8],"multipleOf":0.25})", "0.75"), "matches and ends");
  EXPECT_EQ(OfSchema(R"({"enum":[0.5,0.75,0.8],"multipleOf":0.25})", "0.8"), "no");
}

TEST(GrammarSchema, CompactHasNothingBetweenItsParts) {
  constexpr char kSchema[] = R"({"type":"object","properties":{"a":{"type":"array"}}})";
  const auto compact = grammar::CompileSchema(kSchema, {.spelling = {.compact = true}});
  EXPECT_EQ(Standing(compact, "{\"a\":[1,2]}"), "matches and ends");
  EXPECT_EQ(Standing(compact, "{\"a\": "), "no");
  EXPECT_EQ(OfSchema(kSchema, "{\"a\": [1, 2]}"), "matches and ends");
}

}  // namespace
}  // namespace ng
