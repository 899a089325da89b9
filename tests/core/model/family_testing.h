// What the tests of model families share: a config.json as JSON, and what is read of it.
#ifndef NG_TESTS_CORE_MODEL_FAMILY_TESTING_H_
#define NG_TESTS_CORE_MODEL_FAMILY_TESTING_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/model/families/families.h"

namespace ng {

using Json = nlohmann::json;

inline absl::StatusOr<ModelSpec> ReadSpec(const Json& config) {
  NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(config, "config.json"));
  NG_ASSIGN_OR_RETURN(const Family* family, FindFamily(fields, "config.json"));
  return family->read_spec(fields, "config.json");
}

inline int64_t WindowOf(const ModelSpec& spec, size_t layer) {
  return spec.AttentionOf(spec.layers[layer][0]).window;
}

// `config` with its fields replaced by those of `edits`; null takes one away.
inline Json Edited(Json config, const Json& edits) {
  config.merge_patch(edits);
  return config;
}

inline Json WithNull(Json config, const char* key) {
  config[key] = nullptr;
  return config;
}

inline void ExpectRefused(const Json& config, const std::vector<std::string>& parts) {
  SCOPED_TRACE(config.dump());
  const auto spec = ReadSpec(config);
  ASSERT_FALSE(spec.ok());
  EXPECT_EQ(ExitCode(spec.status()), 3);
  const std::string message(spec.status().message());
  EXPECT_THAT(message, ::testing::HasSubstr("config.json"));
  for (const std::string& part : parts) EXPECT_THAT(message, ::testing::HasSubstr(part));
}

// A family of llama's kind, of which a file says nothing but its name.
inline absl::StatusOr<ModelSpec> Bare(const char* model_type, const Json& edits = Json::object()) {
  return ReadSpec(Edited({{"model_type", model_type}}, edits));
}

}  // namespace ng

#endif  // NG_TESTS_CORE_MODEL_FAMILY_TESTING_H_
