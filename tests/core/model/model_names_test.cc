#include "core/model/names/model_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/model/names/folder_models.h"
#include "core/model/names/hub_cache.h"
#include "core/model/names/ollama_store.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

namespace fs = std::filesystem;
using test::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr const char* kQwenConfig = R"({"model_type": "qwen3", "torch_dtype": "bfloat16"})";

// Writes a file in folders that are made for it.
void Write(const TempDir& dir, const std::string& name, std::string_view bytes) {
  fs::create_directories(fs::path(dir.File(name)).parent_path());
  dir.Write(name, bytes);
}

// A repository as huggingface_hub leaves it: what a snapshot shows are links into blobs.
void AddToHub(const TempDir& dir, const std::string& repository, const std::string& commit,
              const std::vector<std::pair<std::string, std::string>>& files) {
  const std::string folder = "models--" + repository;
  for (const auto& [name, bytes] : files) {
    const std::string blob = commit + "-" + fs::path(name).filename().string();
    Write(dir, folder + "/blobs/" + blob, bytes);
    const fs::path link = dir.File(folder + "/snapshots/" + commit + "/" + name);
    fs::create_directories(link.parent_path());
    fs::create_symlink(dir.File(folder + "/blobs/" + blob), link);
  }
}

void SetRef(const TempDir& dir, const std::string& repository, const std::string& ref,
            const std::string& commit) {
  Write(dir, "models--" + repository + "/refs/" + ref, commit);
}

ModelPlace Hub(const TempDir& dir) { return {"huggingface", dir.path()}; }

std::vector<std::string> Names(const ModelPlace& place) {
  std::vector<std::string> names;
  for (const FoundModel& model : ModelsOf(place)) names.push_back(model.shown.name);
  return names;
}

// The path that a name means, or why there is none.
std::string Found(const std::string& name, const ModelPlace& place) {
  const auto found = FindModel(name, {place});
  if (!found.ok()) return std::string(found.status().message());
  return *found ? (*found)->shown.path : "nothing";
}

TEST(HubCache, HasAModelByItsNameRevisionAndQuantisation) {
  TempDir dir;
  AddToHub(dir, "Qwen--Qwen3-0.6B", "aaaa1111",
           {{"config.json", kQwenConfig}, {"model.safetensors", "1234"}});
  AddToHub(dir, "Qwen--Qwen3-0.6B", "bbbb2222",
           {{"config.json", kQwenConfig}, {"model.safetensors", "12"}});
  SetRef(dir, "Qwen--Qwen3-0.6B", "main", "aaaa1111\n");
  SetRef(dir, "Qwen--Qwen3-0.6B", "pr/1", "bbbb2222");
  AddToHub(dir, "ggml-org--tiny", "cccc3333",
           {{"tiny-Q4_K_M.gguf", "1"}, {"q8/tiny-Q8_0.gguf", "2"}, {"mmproj-tiny-f16.gguf", "3"}});
  SetRef(dir, "ggml-org--tiny", "main", "cccc3333");
  AddToHub(dir, "gpt2", "dddd4444", {{"config.json", kQwenConfig}, {"model.safetensors", "1"}});

  EXPECT_THAT(Names(Hub(dir)),
              UnorderedElementsAre("Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B@pr/1",
                                   "ggml-org/tiny:Q4_K_M", "ggml-org/tiny:Q8_0", "gpt2"));
  const std::string qwen = dir.File("models--Qwen--Qwen3-0.6B/snapshots/");
  EXPECT_EQ(Found("Qwen/Qwen3-0.6B", Hub(dir)), qwen + "aaaa1111");
  EXPECT_EQ(Found("qwen/qwen3-0.6b", Hub(dir)), qwen + "aaaa1111");
  EXPECT_EQ(Found("Qwen/Qwen3-0.6B@pr/1", Hub(dir)), qwen + "bbbb2222");
  EXPECT_EQ(Found("Qwen/Qwen3-0.6B@bbbb", Hub(dir)), qwen + "bbbb2222");
  EXPECT_EQ(Found("Qwen/Qwen3-0.6B@main", Hub(dir)), qwen + "aaaa1111");
  EXPECT_EQ(Found("huggingface.co/Qwen/Qwen3-0.6B", Hub(dir)), qwen + "aaaa1111");
  for (const char* const other : {"Qwen/Qwen3-0.6B@bbb", "Qwen/Qwen3-0.6B:Q4_0"}) {
    EXPECT_THAT(Found(other, Hub(dir)),
                HasSubstr("no such model, but: Qwen/Qwen3-0.6B, Qwen/Qwen3-0.6B@pr/1"));
  }
  EXPECT_EQ(Found("Qwen/Qwen3-0.6B:", Hub(dir)), "nothing");
  EXPECT_EQ(Found("Qwen/Qwen3", Hub(dir)), "nothing");
  const std::string tiny = dir.File("models--ggml-org--tiny/snapshots/cccc3333/");
  EXPECT_EQ(Found("ggml-org/tiny:q8_0", Hub(dir)), tiny + "q8/tiny-Q8_0.gguf");
  EXPECT_EQ(Found("ggml-org/tiny@main:Q4_K_M", Hub(dir)), tiny + "tiny-Q4_K_M.gguf");
  EXPECT_EQ(Found("ggml-org/tiny:tiny-Q4_K_M.gguf", Hub(dir)), tiny + "tiny-Q4_K_M.gguf");
  EXPECT_EQ(Found("tiny-Q4_K_M", Hub(dir)), tiny + "tiny-Q4_K_M.gguf");
  EXPECT_THAT(Found("ggml-org/tiny", Hub(dir)),
              HasSubstr("write one of: ggml-org/tiny:Q4_K_M, ggml-org/tiny:Q8_0"));
  EXPECT_EQ(Found("gpt2", Hub(dir)), dir.File("models--gpt2/snapshots/dddd4444"));
}

TEST(HubCache, TakesNoneWhereSeveralAreMeant) {
  TempDir dir;
  const std::vector<std::pair<std::string, std::string>> files = {{"config.json", kQwenConfig},
                                                                  {"model.safetensors", "1"}};
  AddToHub(dir, "a--two", "aaaa1111", files);
  AddToHub(dir, "a--two", "aaaa2222", files);
  EXPECT_THAT(Found("a/two", Hub(dir)), HasSubstr("a/two@aaaa1111, a/two@aaaa2222"));
  EXPECT_THAT(Found("a/two@aaaa", Hub(dir)), HasSubstr("a/two@aaaa1111, a/two@aaaa2222"));
  // Of names that differ in the size of letters, the spelling counts.
  AddToHub(dir, "A--Case", "1", files);
  AddToHub(dir, "a--case", "2", files);
  EXPECT_THAT(Found("a/case", Hub(dir)), HasSubstr("models--a--case"));
  EXPECT_THAT(Found("A/Case", Hub(dir)), HasSubstr("models--A--Case"));
  EXPECT_THAT(Found("A/CASE", Hub(dir)), HasSubstr("write one of: A/Case, a/case"));
  // Files of one name in several folders.
  AddToHub(dir, "a--sub", "3", {{"x/m-Q4_0.gguf", "1"}, {"y/m-Q4_0.gguf", "2"}});
  EXPECT_THAT(Found("a/sub:Q4_0", Hub(dir)), HasSubstr("a/sub:x/m-Q4_0, a/sub:y/m-Q4_0"));
  EXPECT_THAT(Found("a/sub:y/m-Q4_0.gguf", Hub(dir)), HasSubstr("/y/m-Q4_0.gguf"));
}

TEST(HubCache, KnowsEveryBranchOfACommit) {
  TempDir dir;
  AddToHub(dir, "a--b", "c0ffee", {{"config.json", kQwenConfig}, {"model.safetensors", "1"}});
  SetRef(dir, "a--b", "main", "c0ffee");
  SetRef(dir, "a--b", "v1.0", "c0ffee");
  SetRef(dir, "a--b", "refs/pr/3", "c0ffee");
  for (const char* const name : {"a/b", "a/b@main", "a/b@V1.0", "a/b@pr/3", "a/b@C0FF"}) {
    EXPECT_THAT(Found(name, Hub(dir)), HasSubstr("snapshots/c0ffee")) << name;
  }
}

TEST(HubCache, ShowsWhatTheFilesSay) {
  TempDir dir;
  AddToHub(dir, "a--b", "aaaa",
           {{"config.json", kQwenConfig},
            {"model-00001-of-00002.safetensors", "123"},
            {"model-00002-of-00002.safetensors", "45"}});
  const std::vector<FoundModel> models = ModelsOf(Hub(dir));
  ASSERT_EQ(models.size(), 1U);
  EXPECT_EQ(models[0].shown.source, "huggingface");
  EXPECT_EQ(models[0].shown.family, "qwen3");
  EXPECT_EQ(models[0].shown.type, "bf16");
  EXPECT_EQ(models[0].shown.bytes, 5);
  EXPECT_EQ(models[0].shown.fault, "");
}

TEST(HubCache, NamesWhatIsBroken) {
  TempDir dir;
  const std::pair<std::string, std::string> config = {"config.json", kQwenConfig};
  AddToHub(dir, "x--link", "1111", {config, {"model.safetensors", "1"}});
  fs::remove(dir.File("models--x--link/blobs/1111-model.safetensors"));
  AddToHub(dir, "x--part", "2222", {config, {"model-00001-of-00002.safetensors", "1"}});
  AddToHub(dir, "x--pickled", "3333", {config, {"pytorch_model.bin", "1"}});
  AddToHub(dir, "x--weightless", "4444", {config});
  AddToHub(dir, "x--split", "5555", {{"m-Q8_0-00001-of-00002.gguf", "1"}});
  AddToHub(dir, "x--late", "8888", {{"m-Q8_0-00002-of-00002.gguf", "1"}});
  AddToHub(dir, "x--bare", "9999", {{"model.safetensors", "1"}});
  AddToHub(dir, "x--lora", "aaaa", {{"adapter_config.json", "{}"}, {"a.safetensors", "1"}});
  AddToHub(dir, "x--void", "bbbb", {config, {"model.safetensors", ""}});
  AddToHub(dir, "x--index", "cccc",
           {config,
            {"a.safetensors", "1"},
            {"model.safetensors.index.json",
             R"({"weight_map": {"t": "a.safetensors", "u": "b.safetensors"}})"}});
  AddToHub(dir, "x--list", "dddd", {{"config.json", "[]"}, {"model.safetensors", "1"}});
  Write(dir, "models--x--begun/blobs/abc.incomplete", "1");
  AddToHub(dir, "x--moved", "6666", {config, {"model.safetensors", "1"}});
  SetRef(dir, "x--moved", "main", "7777");
  Write(dir, "datasets--x--y/snapshots/1/config.json", kQwenConfig);

  const auto fault = [&](const std::string& name) { return Found("x/" + name, Hub(dir)); };
  EXPECT_THAT(fault("link"), HasSubstr("model.safetensors is a link that leads nowhere"));
  EXPECT_THAT(fault("part"), HasSubstr("model-00002-of-00002.safetensors is missing"));
  EXPECT_THAT(fault("pickled"), HasSubstr("pytorch_model.bin, which is not read"));
  EXPECT_THAT(fault("weightless"), HasSubstr("there are no weights"));
  EXPECT_THAT(fault("split"), HasSubstr("m-Q8_0-00002-of-00002.gguf is missing"));
  EXPECT_THAT(fault("late"), HasSubstr("m-Q8_0-00001-of-00002.gguf is missing"));
  EXPECT_THAT(fault("bare"), HasSubstr("there is no config.json"));
  EXPECT_THAT(fault("lora"), HasSubstr("is an adapter"));
  EXPECT_THAT(fault("void"), HasSubstr("model.safetensors is empty"));
  EXPECT_THAT(fault("index"), HasSubstr("b.safetensors is missing"));
  EXPECT_THAT(fault("list"), HasSubstr("config.json is no JSON object"));
  EXPECT_THAT(fault("begun"), HasSubstr("no snapshot of it is there"));
  EXPECT_THAT(fault("moved"), HasSubstr("the snapshot 7777, which is not there"));
  EXPECT_EQ(fault("y"), "nothing");
}

constexpr const char* kManifest = R"({"schemaVersion": 2,
  "config": {"mediaType": "application/vnd.docker.container.image.v1+json", "digest": "sha256:c0"},
  "layers": [
    {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:aa", "size": 5},
    {"mediaType": "application/vnd.ollama.image.system", "digest": "sha256:bb", "size": 5},
    {"mediaType": "application/vnd.ollama.image.params", "digest": "sha256:cc", "size": 5}]})";

TEST(OllamaStore, HasModelsByNameAndTag) {
  TempDir dir;
  Write(dir, "manifests/registry.ollama.ai/library/qwen3/0.6b", kManifest);
  Write(dir, "manifests/registry.ollama.ai/library/qwen3/latest", kManifest);
  Write(dir, "manifests/registry.ollama.ai/me/own/v1", kManifest);
  Write(dir, "manifests/hf.co/org/Tiny-GGUF/Q8_0", kManifest);
  Write(dir, "blobs/sha256-aa", "GGUF?");
  Write(dir, "blobs/sha256-c0", R"({"model_family": "qwen3", "file_type": "Q4_K_M"})");
  const ModelPlace place = {"ollama", dir.path()};

  EXPECT_THAT(Names(place), UnorderedElementsAre("qwen3:0.6b", "qwen3:latest", "me/own:v1",
                                                 "hf.co/org/Tiny-GGUF:Q8_0"));
  const std::string blob = dir.File("blobs/sha256-aa");
  for (const char* const name :
       {"qwen3:0.6b", "qwen3", "me/own:v1", "me/own", "hf.co/org/tiny-gguf"}) {
    EXPECT_EQ(Found(name, place), blob) << name;
  }
  EXPECT_EQ(Found("library/qwen3", place), blob);
  EXPECT_THAT(Found("qwen3:8b", place), HasSubstr("but: qwen3:0.6b, qwen3:latest"));
  EXPECT_EQ(Found("own", place), "nothing");
  const FoundModel model = ModelsOf(place).back();
  EXPECT_EQ(model.shown.family, "qwen3");
  EXPECT_EQ(model.shown.type, "Q4_K_M");
  EXPECT_EQ(model.shown.bytes, 5);
}

TEST(OllamaStore, NamesWhatIsBroken) {
  TempDir dir;
  const std::string folder = "manifests/registry.ollama.ai/library/";
  Write(dir, folder + "gone/1", kManifest);
  Write(dir, folder + "text/1", "no JSON");
  Write(dir, folder + "empty/1", "{}");
  Write(dir, folder + "list/1", "[]");
  Write(dir, folder + "adapted/1", R"({"layers": [
      {"mediaType": "application/vnd.ollama.image.adapter", "digest": "sha256:aa"}]})");
  Write(dir, folder + "path/1", R"({"layers": [
      {"mediaType": "application/vnd.ollama.image.model", "digest": "../../etc/passwd"}]})");
  const ModelPlace place = {"ollama", dir.path()};
  EXPECT_THAT(Found("gone:1", place), HasSubstr("its weights are missing"));
  EXPECT_THAT(Found("text:1", place), HasSubstr("text/1"));
  EXPECT_THAT(Found("empty:1", place), HasSubstr("names no weights"));
  EXPECT_THAT(Found("list:1", place), HasSubstr("names no weights"));
  EXPECT_THAT(Found("adapted:1", place), HasSubstr("has an adapter"));
  EXPECT_THAT(Found("path:1", place), HasSubstr("names no file of weights"));
}

TEST(OllamaStore, HasDefaults) {
  TempDir dir;
  FoundModel model;
  model.base = "m";
  model.tag = "1";
  model.system = dir.Write("system", "You are brief.\n");
  model.parameters = dir.Write(
      "params", R"({"temperature": 0.7, "repeat_penalty": 1.1, "num_predict": 20, "num_ctx": 4096,
                    "stop": ["x"]})");
  const absl::StatusOr<OllamaDefaults> defaults = ReadOllamaDefaults(model);
  ASSERT_TRUE(defaults.ok()) << defaults.status();
  std::vector<std::string> entries;
  for (const ConfigEntry& entry : defaults->entries) {
    entries.push_back(entry.key + "=" + entry.text);
  }
  EXPECT_THAT(entries, ElementsAre("cache.usual_tokens=4096", "run.max_new_tokens=20",
                                   "run.system=You are brief.\n"));
  std::vector<std::string> sampling;
  for (const SuggestedSampling& suggested : defaults->sampling.values) {
    if (!suggested.text.empty()) sampling.push_back(suggested.text);
  }
  EXPECT_THAT(sampling,
              UnorderedElementsAre("repetition_penalty 1.1", "temperature 0.7", "stop of 1 text"));

  // As the config's list has them.
  model.parameters = dir.Write("params", R"({"stop": ["</s>", "a, b\n", ""]})");
  const absl::StatusOr<OllamaDefaults> stops = ReadOllamaDefaults(model);
  ASSERT_TRUE(stops.ok()) << stops.status();
  ASSERT_EQ(stops->sampling.values.size(), 1U);
  EXPECT_EQ(stops->sampling.values[0].number, "</s>,a\\,\\ b\\n");
  // They say nothing of what the model's own file says.
  const SamplingSuggestions drawn = defaults->sampling;
  EXPECT_EQ(Together(stops->sampling, drawn).values.size(), drawn.values.size() + 1);
  EXPECT_EQ(Together(drawn, stops->sampling).values.size(), drawn.values.size());
  EXPECT_EQ(Together({}, drawn).values.size(), drawn.values.size());
  model.parameters = dir.Write("params", R"({"stop": [3]})");
  EXPECT_THAT(std::string(ReadOllamaDefaults(model).status().message()),
              HasSubstr("key \"stop\" = [3], must be a text or a list of texts"));

  model.parameters = dir.Write("params", R"({"temperature": "warm"})");
  EXPECT_THAT(std::string(ReadOllamaDefaults(model).status().message()), HasSubstr("temperature"));
}

TEST(FolderModels, GoByTheirPathOrFile) {
  TempDir dir;
  Write(dir, "org/tiny/tiny-q4_0.gguf", "1");
  Write(dir, "org/tiny/tiny-f16.gguf", "12");
  Write(dir, "org/both/a-Q8_0.gguf", "1");
  Write(dir, "org/both/b-Q8_0.gguf", "1");
  Write(dir, "lone-Q6_K.gguf", "1");
  Write(dir, "mine/config.json", kQwenConfig);
  Write(dir, "mine/model.safetensors", "1");
  Write(dir, "mine/sub/other/deep/too-deep-Q4_0.gguf", "1");
  const ModelPlace place = {"folder", dir.path()};
  EXPECT_THAT(Names(place),
              UnorderedElementsAre("lone-Q6_K", "mine", "org/tiny:Q4_0", "org/tiny:F16",
                                   "org/both:a-Q8_0", "org/both:b-Q8_0"));
  EXPECT_EQ(Found("lone-Q6_K.gguf", place), dir.File("lone-Q6_K.gguf"));
  EXPECT_EQ(Found("lone-q6_k", place), dir.File("lone-Q6_K.gguf"));
  EXPECT_EQ(Found("org/tiny:f16", place), dir.File("org/tiny/tiny-f16.gguf"));
  EXPECT_EQ(Found("mine", place), dir.File("mine"));
  EXPECT_EQ(Found("org/tiny/tiny-f16.gguf", place), dir.File("org/tiny/tiny-f16.gguf"));
  EXPECT_THAT(Found("org/both", place), HasSubstr("org/both:a-Q8_0, org/both:b-Q8_0"));
  EXPECT_THAT(Found("org/both:Q8_0", place), HasSubstr("org/both:a-Q8_0, org/both:b-Q8_0"));
  EXPECT_THAT(ModelsIn(dir.File("nowhere"), 3), IsEmpty());
}

TEST(FolderModels, SayWhereThereIsNoFolder) {
  TempDir dir;
  const std::vector<FoundModel> models = ModelsOf({"folder", dir.File("nowhere")});
  ASSERT_EQ(models.size(), 1U);
  EXPECT_THAT(models[0].shown.fault, HasSubstr("it is no folder"));
  EXPECT_THAT(ModelsOf({"lmstudio", dir.File("nowhere")}), IsEmpty());
}

TEST(FolderModels, OfLlamaCppGoByTheirRepository) {
  TempDir dir;
  Write(dir, "ggml-org_gemma-3-1b-it-GGUF_gemma-3-1b-it-Q4_K_M.gguf", "1");
  const ModelPlace place = {"llama.cpp", dir.path()};
  const std::string file = dir.File("ggml-org_gemma-3-1b-it-GGUF_gemma-3-1b-it-Q4_K_M.gguf");
  EXPECT_EQ(Found("ggml-org/gemma-3-1b-it-GGUF", place), file);
  EXPECT_EQ(Found("ggml-org/gemma-3-1b-it-GGUF:Q4_K_M", place), file);
  Write(dir, "other_Q-GGUF_q-Q4_K_M.gguf", "1");
  Write(dir, "ggml-org_gemma-3-1b-it-GGUF_mmproj-model-f16.gguf", "1");
  EXPECT_EQ(Found("ggml-org/gemma-3-1b-it-GGUF:Q4_K_M", place), file);
  EXPECT_EQ(Found("ggml-org/gemma-3-1b-it-GGUF:gemma-3-1b-it-Q4_K_M.gguf", place), file);
  EXPECT_THAT(Found("ggml-org/gemma-3-1b-it-GGUF:Q8_0", place), HasSubstr("no such model, but:"));
  EXPECT_EQ(Found("ggml-org/gemma-3-1b", place), "nothing");
}

TEST(QuantOf, IsTheLastWordThatSaysSo) {
  EXPECT_EQ(QuantOf("qwen3-0.6b-q4_k_m"), "Q4_K_M");
  EXPECT_EQ(QuantOf("Q8-tales.IQ2_XXS"), "IQ2_XXS");
  EXPECT_EQ(QuantOf("model-BF16"), "BF16");
  EXPECT_EQ(QuantOf("tiny-UD-Q3_K_XL"), "Q3_K_XL");
  EXPECT_EQ(QuantOf("gpt-oss-20b-mxfp4"), "MXFP4");
  EXPECT_EQ(QuantOf("qwen3"), "");
  EXPECT_EQ(QuantOf(""), "");
}

TEST(FindModel, TakesTheFirstPlaceThatHasTheName) {
  TempDir first;
  TempDir second;
  Write(second, "x/a-Q8_0.gguf", "1");
  const std::vector<ModelPlace> places = {{"folder", first.path()}, {"folder", second.path()}};
  EXPECT_EQ((*FindModel("x", places))->shown.path, second.File("x/a-Q8_0.gguf"));
  Write(first, "x/b-Q4_0.gguf", "1");
  EXPECT_EQ((*FindModel("x", places))->shown.path, first.File("x/b-Q4_0.gguf"));
  // One that is broken hides none, and a whole name counts before a file's.
  Write(first, "y/config.json", kQwenConfig);
  Write(second, "y/c-Q8_0.gguf", "1");
  EXPECT_EQ((*FindModel("y", places))->shown.path, second.File("y/c-Q8_0.gguf"));
  Write(first, "z/y2.gguf", "1");
  Write(second, "y2/d-Q8_0.gguf", "1");
  EXPECT_EQ((*FindModel("y2", places))->shown.path, second.File("y2/d-Q8_0.gguf"));
}

TEST(FolderModels, AreReadOnceWhereLinksGoInCircles) {
  TempDir dir;
  Write(dir, "a-Q8_0.gguf", "1");
  for (int i = 0; i < 40; ++i) {
    fs::create_directory_symlink(".", dir.File("link" + std::to_string(i)));
  }
  EXPECT_EQ(ModelsIn(dir.path(), 3).size(), 1U);
}

TEST(CanBeModelName, IsNotSaidOfPaths) {
  for (const char* const name : {"a", "a/b", "a/b@c:d", "a.gguf"}) {
    EXPECT_TRUE(CanBeModelName(name));
  }
  for (const char* const path : {"", "/a", "./a", "../a", "~/a", "a/", ":", "@a"}) {
    EXPECT_FALSE(CanBeModelName(path)) << path;
  }
}

}  // namespace
}  // namespace ng
