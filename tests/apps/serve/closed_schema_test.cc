#include "apps/serve/answers/held/closed_schema.h"

#include <gtest/gtest.h>

#include <string>

namespace ng::serve {
namespace {

std::string Closed(const std::string& schema) { return ClosedSchemaText(schema); }

TEST(ClosedSchema, ObjectsHaveWhatTheyList) {
  EXPECT_EQ(Closed(R"({"type":"object","properties":{"a":{"type":"string"}},"required":["a"]})"),
            R"({"type":"object","properties":{"a":{"type":"string"}},"required":["a"],)"
            R"("additionalProperties":false})");
  EXPECT_EQ(Closed(R"({"properties":{}})"), R"({"properties":{},"additionalProperties":false})");
  // Within others, and where one of several may come.
  EXPECT_EQ(Closed(R"({"items":{"anyOf":[{"properties":{"a":true}},{"type":"null"}]}})"),
            R"({"items":{"anyOf":[{"properties":{"a":true},"additionalProperties":false},)"
            R"({"type":"null"}]}})");
  EXPECT_EQ(Closed(R"({"additionalProperties":{"prefixItems":[{"properties":{"a":true}}]}})"),
            R"({"additionalProperties":{"prefixItems":[{"properties":{"a":true},)"
            R"("additionalProperties":false}]}})");
  EXPECT_EQ(Closed(R"({"properties":{"b":{"$ref":"#/$defs/b"}},"$defs":{"b":{"properties":{}}}})"),
            R"({"properties":{"b":{"$ref":"#/$defs/b"}},)"
            R"("$defs":{"b":{"properties":{},"additionalProperties":false}},)"
            R"("additionalProperties":false})");
}

TEST(ClosedSchema, WhatIsSaidOfOthersStays) {
  for (const char* const schema :
       {R"({"type":"object"})", R"({"type":"string"})", "true", R"({"items":true})",
        R"({"properties":{"a":true},"additionalProperties":true})",
        R"({"properties":{"a":true},"additionalProperties":{"type":"string"}})",
        R"({"properties":{"a":true},"patternProperties":{"^x":true}})",
        R"({"properties":{"a":true},"propertyNames":{"maxLength":3}})",
        R"({"properties":{"a":true},"unevaluatedProperties":{"type":"string"}})",
        R"({"properties":{"a":true},"minProperties":2})",
        // Closed it would allow nothing at all.
        R"({"properties":{"a":true},"required":["a","b"]})",
        R"({"properties":{"a":true},"required":"b"})",
        R"({"properties":{"a":true},"const":{"a":1,"b":2}})",
        R"({"properties":{"a":{"properties":{}}},"enum":[{"a":{"b":2}}]})"}) {
    EXPECT_EQ(Closed(schema), schema);
  }
}

TEST(ClosedSchema, SchemasThatSpeakTogetherStay) {
  for (
      const char* const schema :
      {R"({"allOf":[{"properties":{"a":true}},{"properties":{"b":true}}]})",
       R"({"properties":{"a":true},"allOf":[{"properties":{"b":true}}]})",
       R"({"properties":{"a":true},"anyOf":[{"required":["a"]},{"properties":{"b":true}}]})",
       R"({"oneOf":[{"properties":{"a":true}},{"properties":{"b":true}}]})",
       R"({"not":{"properties":{"a":true}}})",
       R"({"if":{"properties":{"a":true}},"then":{"properties":{"b":true}}})",
       R"({"$ref":"#/$defs/b","properties":{"a":true},"$defs":{"b":{"properties":{}}}})",
       R"({"properties":{"a":{"allOf":[{"$ref":"#/$defs/b"}]}},"$defs":{"b":{"properties":{}}}})"}) {
    EXPECT_EQ(Closed(schema), schema);
  }
}

TEST(ClosedSchema, ParametersOfToolsAreClosed) {
  EXPECT_EQ(WithClosedParameters(
                R"([{"type":"function","function":{"name":"f","parameters":{"properties":{}}}},)"
                R"({"name":"g","parameters":null},{"name":"h"},3])"),
            R"([{"type":"function","function":{"name":"f","parameters":{"properties":{},)"
            R"("additionalProperties":false}}},{"name":"g","parameters":null},{"name":"h"},3])");
}

}  // namespace
}  // namespace ng::serve
