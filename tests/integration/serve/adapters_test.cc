// model.named_adapters in ng-serve: a model for each, and answers of different ones side by side.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ng/safetensors.h"
#include "tests/integration/serve/server.h"
#include "tests/support/temp_dir.h"

namespace ng::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// An adapter of the demo's linear layers.
std::string WriteAdapter(const std::string& folder, uint32_t seed) {
  constexpr int64_t kRank = 4;
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/adapter_config.json")
      << R"({"peft_type": "LORA", "r": 4, "lora_alpha": 16})";
  const auto model = SafetensorsReader::Open(NG_SOURCE_DIR "/configs/demo/model.safetensors");
  EXPECT_TRUE(model.ok()) << model.status();
  std::mt19937 random(seed);
  std::normal_distribution<float> draw(0.0F, 0.1F);
  std::vector<NamedTensor> tensors;
  const auto add = [&](const std::string& name, const std::vector<int64_t>& shape) {
    NamedTensor& tensor = tensors.emplace_back(NamedTensor{name, shape, {}});
    for (int64_t i = 0; i < shape[0] * shape[1]; ++i) tensor.data.push_back(draw(random));
  };
  for (const StoredTensor& tensor : model->tensors()) {
    if (!tensor.name.starts_with("blocks.") || tensor.shape.size() != 2) continue;
    const std::string module =
        absl::StrCat("base_model.model.", tensor.name.substr(0, tensor.name.size() - 7));
    add(module + ".lora_A.weight", {kRank, tensor.shape[1]});
    add(module + ".lora_B.weight", {tensor.shape[0], kRank});
  }
  EXPECT_TRUE(WriteSafetensors(folder + "/adapter_model.safetensors", tensors).ok());
  return folder;
}

TEST(ServedAdapters, AreModelsOfTheirOwn) {
  const TempDir dir;
  const std::string a = WriteAdapter(dir.File("a"), 1);
  const std::string b = WriteAdapter(dir.File("b"), 2);
  const Server server({absl::StrCat("--model.named_adapters=a=", a, ",b=", b), "--cache.name=paged",
                       "--cache.max_sequences=8"});
  HttpClient client(server.port());
  std::vector<std::string> names;
  const Json listed = Json::parse(client.Get("/v1/models").body);
  for (const Json& model : listed["data"]) names.push_back(model["id"]);
  EXPECT_THAT(names, ElementsAre("demo", "demo:a", "demo:b"));
  EXPECT_EQ(Json::parse(client.Get("/api/tags").body)["models"].size(), 3);
  EXPECT_EQ(Json::parse(client.Get("/v1/models/demo:a").body)["id"], "demo:a");

  const Json body = {{"prompt", "To be"}, {"max_tokens", 12}, {"temperature", 0}};
  const auto answer = [&](const std::string& model) {
    Json asked = body;
    asked["model"] = model;
    const HttpResponse response = HttpClient(server.port()).Post("/v1/completions", asked.dump());
    EXPECT_EQ(response.status, 200) << response.body;
    const Json json = Json::parse(response.body);
    EXPECT_EQ(json["model"], model);
    return json["choices"][0]["text"].get<std::string>();
  };
  const auto alone = [&](const std::string& adapter) {
    const Server one(adapter.empty() ? Arguments{} : Arguments{"--model.adapters=" + adapter});
    return one.Post("/v1/completions", body)["choices"][0]["text"].get<std::string>();
  };
  const std::vector<std::string> models = {"demo:a", "demo", "demo:b", "demo:a",
                                           "demo:b", "demo", "demo:a", "demo:b"};
  const std::vector<std::string> texts = {alone(a), alone(""), alone(b)};
  EXPECT_NE(texts[0], texts[1]);
  EXPECT_NE(texts[0], texts[2]);
  std::vector<std::future<std::string>> answers;
  for (const std::string& model : models) {
    answers.push_back(std::async(std::launch::async, answer, model));
  }
  for (size_t i = 0; i < models.size(); ++i) {
    const size_t which = models[i] == "demo:a" ? 0 : models[i] == "demo" ? 1 : 2;
    EXPECT_EQ(answers[i].get(), texts[which]) << models[i];
  }

  Json other = body;
  other["model"] = "demo:c";
  const HttpResponse refused = client.Post("/v1/completions", other.dump());
  EXPECT_EQ(refused.status, 404);
  EXPECT_THAT(refused.body, HasSubstr("must be demo or demo:a or demo:b"));
}

}  // namespace
}  // namespace ng::test
