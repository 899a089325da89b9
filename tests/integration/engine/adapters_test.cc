// model.adapters: a model with adapters is the model with their products added to its weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/integration/engine/adapted_model.h"
#include "tests/integration/engine/goldens.h"
#include "tests/support/gguf_model.h"
#include "tests/support/temp_dir.h"

namespace ng::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

std::vector<std::string> Folders() {
  std::vector<std::string> folders = Goldens();
  std::erase_if(folders, [](const std::string& path) {
    return path.ends_with(".gguf") || TargetsOf(path).empty();
  });
  return folders;
}

class AdaptedFamily : public ::testing::TestWithParam<std::string> {};

TEST_P(AdaptedFamily, IsTheModelWithTheProductsAdded) {
  const TempDir dir;
  std::vector<NamedTensor> model = TensorsOf(GetParam());
  Adapter adapter(7);
  for (const AdapterTarget& target : TargetsOf(GetParam())) adapter.Add(target, 2.0, false, model);
  const std::string path = adapter.WriteTo(dir.File("adapter"));
  WriteModel(GetParam(), model, dir.File("merged"));
  const std::vector<float> adapted = AdaptedLogits(GetParam(), path);
  EXPECT_LT(ApartBy(adapted, AdaptedLogits(dir.File("merged"), "")), 1e-4F);
  EXPECT_GT(ApartBy(adapted, AdaptedLogits(GetParam(), "")), 1e-2F);
  // G1
  EXPECT_THAT(AdaptedLogits(GetParam(), path, {"run.threads=1"}, 5), ElementsAreArray(adapted));
  EXPECT_THAT(AdaptedLogits(GetParam(), path, {}, 1), ElementsAreArray(adapted));
}

std::string NameOf(const ::testing::TestParamInfo<std::string>& param) {
  const std::filesystem::path path(param.param);
  std::string name =
      absl::StrCat(path.parent_path().filename().string(), "_", path.filename().string());
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Every, AdaptedFamily, ::testing::ValuesIn(Folders()), NameOf);

const char* const kModel = NG_TEST_DATA "/golden/llama/untied";

TEST(Adapters, MayHaveMagnitudes) {
  for (const char* name : {"llama/untied", "qwen2/tiny", "gpt2/hub_layout"}) {
    const TempDir dir;
    const std::string base = absl::StrCat(NG_TEST_DATA, "/golden/", name);
    std::vector<NamedTensor> model = TensorsOf(base);
    Adapter adapter(8);
    for (const AdapterTarget& target : TargetsOf(base)) adapter.Add(target, 2.0, true, model);
    const std::string path = adapter.WriteTo(dir.File("adapter"), {{"use_dora", true}});
    WriteModel(base, model, dir.File("merged"));
    EXPECT_LT(ApartBy(AdaptedLogits(base, path), AdaptedLogits(dir.File("merged"), "")), 1e-4F)
        << name;
  }
}

TEST(Adapters, AddUpWithScales) {
  const TempDir dir;
  std::vector<NamedTensor> model = TensorsOf(kModel);
  const std::vector<AdapterTarget> targets = TargetsOf(kModel);
  Adapter first(9);
  Adapter second(10);
  // 6 / 3 and 4 / sqrt(3), each times what the list says
  for (const AdapterTarget& target : targets) {
    first.Add(target, 2.0 * 0.25, false, model);
    if (absl::StrContains(target.name, "_proj")) {
      second.Add(target, 4.0 / std::sqrt(3.0) * -1.5, false, model);
    }
  }
  const std::string paths = absl::StrCat(
      first.WriteTo(dir.File("one")), ":0.25, ",
      second.WriteTo(dir.File("two"), {{"use_rslora", true}, {"lora_alpha", 4}}), ":-1.5");
  WriteModel(kModel, model, dir.File("merged"));
  EXPECT_LT(ApartBy(AdaptedLogits(kModel, paths), AdaptedLogits(dir.File("merged"), "")), 1e-4F);
}

TEST(Adapters, HaveScalesOfModulesByPattern) {
  const TempDir dir;
  std::vector<NamedTensor> model = TensorsOf(kModel);
  Adapter adapter(11);
  for (const AdapterTarget& target : TargetsOf(kModel)) {
    const bool q_of_1 = absl::StrContains(target.name, "layers.1.self_attn.q_proj");
    const bool down = absl::StrContains(target.name, "down_proj");
    adapter.Add(target, q_of_1 ? 3.0 : down ? 0.5 : 2.0, false, model);
  }
  const std::string path = adapter.WriteTo(
      dir.File("adapter"),
      {{"alpha_pattern", {{"layers\\.1.*q_proj", 9.0}, {"down_proj", 1.5}, {"own_proj", 100}}}});
  WriteModel(kModel, model, dir.File("merged"));
  EXPECT_LT(ApartBy(AdaptedLogits(kModel, path), AdaptedLogits(dir.File("merged"), "")), 1e-4F);
}

TEST(Adapters, AddToTheEmbeddingAndReplaceTensors) {
  const TempDir dir;
  std::vector<NamedTensor> model = TensorsOf(kModel);
  Adapter adapter(12);
  const auto tensor = [&](const std::string& name) -> NamedTensor& {
    return *std::ranges::find(model, name, &NamedTensor::name);
  };
  NamedTensor& embedding = tensor("model.embed_tokens.weight");
  const int64_t n_tokens = embedding.shape[0];
  const int64_t width = embedding.shape[1];
  const std::vector<float> a =
      adapter.Make("model.embed_tokens.lora_embedding_A", {kAdapterRank, n_tokens}, 0.2F).data;
  const std::vector<float> b =
      adapter.Make("model.embed_tokens.lora_embedding_B", {width, kAdapterRank}, 0.2F).data;
  for (int64_t token = 0; token < n_tokens; ++token) {
    for (int64_t i = 0; i < width; ++i) {
      for (int64_t r = 0; r < kAdapterRank; ++r) {
        embedding.data[static_cast<size_t>(token * width + i)] +=
            2.0F * a[static_cast<size_t>(r * n_tokens + token)] *
            b[static_cast<size_t>(i * kAdapterRank + r)];
      }
    }
  }
  for (const char* name : {"lm_head.weight", "model.norm.weight"}) {
    NamedTensor& whole = tensor(name);
    whole.data = adapter.Make(name, whole.shape, 0.3F).data;
  }
  const std::string path = adapter.WriteTo(dir.File("adapter"));
  WriteModel(kModel, model, dir.File("merged"));
  EXPECT_LT(ApartBy(AdaptedLogits(kModel, path), AdaptedLogits(dir.File("merged"), "")), 1e-4F);
  const auto scaled = OpenAdapted(kModel, path + ":0.5");
  EXPECT_THAT(std::string(scaled.status().message()),
              AllOf(HasSubstr(path), HasSubstr("its scale must be 1, not 0.5")));
}

TEST(Adapters, KeepTheirBitsOnEveryWeightType) {
  const TempDir dir;
  std::vector<NamedTensor> model = TensorsOf(kModel);
  Adapter adapter(13);
  for (const AdapterTarget& target : TargetsOf(kModel)) adapter.Add(target, 2.0, false, model);
  const std::string path = adapter.WriteTo(dir.File("adapter"));
  for (const char* type : {"bf16", "int8", "int4"}) {
    const std::string weights = absl::StrCat("model.weights=", type);
    const std::vector<float> logits = AdaptedLogits(kModel, path, {weights});
    EXPECT_THAT(AdaptedLogits(kModel, path, {weights, "run.threads=1"}, 5),
                ElementsAreArray(logits));
    EXPECT_GT(ApartBy(logits, AdaptedLogits(kModel, "", {weights})), 1e-2F);
  }
}

TEST(Adapters, CanBeMergedIntoPackedWeights) {
  const TempDir dir;
  for (const bool magnitudes : {false, true}) {
    std::vector<NamedTensor> model = TensorsOf(kModel);
    Adapter adapter(16);
    for (const AdapterTarget& target : TargetsOf(kModel)) {
      adapter.Add(target, 2.0, magnitudes, model);
    }
    const std::string name = magnitudes ? "dora" : "lora";
    const std::string path = adapter.WriteTo(dir.File(name), {{"use_dora", magnitudes}});
    WriteModel(kModel, model, dir.File(name + "_merged"));
    const std::string packed = dir.File(name + ".ngw");
    const auto engine = OpenAdapted(kModel, path);
    ASSERT_TRUE(engine.ok()) << engine.status();
    ASSERT_TRUE((*engine)->PackWeights(packed).ok());
    EXPECT_LT(ApartBy(AdaptedLogits(kModel, "", {"model.packed=" + packed}),
                      AdaptedLogits(dir.File(name + "_merged"), "")),
              1e-4F);
    const auto again = OpenAdapted(kModel, path, {"model.packed=" + packed});
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE((*again)->VerifyPackedWeights().ok());
    const auto without = OpenAdapted(kModel, "", {"model.packed=" + packed});
    ASSERT_TRUE(without.ok()) << without.status();
    EXPECT_FALSE((*without)->VerifyPackedWeights().ok());
  }
}

// Blocks of K-quants are not made of f32: what they hold stays, and the adapter beside it.
TEST(Adapters, AreNotMergedIntoKQuants) {
  const TempDir dir;
  const std::string model = NG_TEST_DATA "/golden/gguf/llama/model-Q4_K_M.gguf";
  const auto file = OpenModel(model);
  ASSERT_TRUE(file.ok()) << file.status();
  const std::string target = "blk.0.ffn_down.weight";
  const TensorInfo& weight = *file->source->Find(target);
  GgufBuilder pairs;
  pairs.Text("general.type", "adapter").Text("adapter.type", "lora");
  pairs.F32("adapter.lora.alpha", 3.0F);
  const int64_t a[] = {kAdapterRank, weight.shape[1]};
  const int64_t b[] = {weight.shape[0], kAdapterRank};
  const std::vector<float> of_a(static_cast<size_t>(a[0] * a[1]), 0.01F);
  const std::vector<float> of_b(static_cast<size_t>(b[0] * b[1]), 0.01F);
  pairs.Tensor(target + ".lora_a", a, DType::kF32, of_a);
  pairs.Tensor(target + ".lora_b", b, DType::kF32, of_b);
  const std::string path = dir.Write("adapter.gguf", pairs.Bytes());
  const std::vector<std::string> own = {"model.weights=auto"};
  EXPECT_GT(ApartBy(AdaptedLogits(model, path, own), AdaptedLogits(model, "", own)), 1e-4F);
  const auto engine = OpenAdapted(model, path, own);
  ASSERT_TRUE(engine.ok()) << engine.status();
  const absl::Status packed = (*engine)->PackWeights(dir.File("x.ngw"));
  EXPECT_EQ(ExitCode(packed), 2);
  EXPECT_THAT(std::string(packed.message()), HasSubstr("held as q"));
}

TEST(Adapters, OfAGgufFileAddToItsTensors) {
  const TempDir dir;
  std::vector<NamedTensor> model = TensorsOf(kModel);
  Adapter adapter(15);
  GgufBuilder pairs;
  pairs.Text("general.type", "adapter").Text("adapter.type", "lora");
  pairs.F32("adapter.lora.alpha", 6.0F);
  for (const AdapterTarget& target : TargetsOf(kModel)) {
    if (!absl::StrContains(target.name, "mlp.")) continue;
    const size_t first = adapter.tensors().size();
    adapter.Add(target, 2.0, false, model);
    const std::string name = absl::StrReplaceAll(target.name, {{"model.layers", "blk"},
                                                               {"mlp.gate_proj", "ffn_gate"},
                                                               {"mlp.up_proj", "ffn_up"},
                                                               {"mlp.down_proj", "ffn_down"}});
    for (const size_t i : {first, first + 1}) {
      const NamedTensor& tensor = adapter.tensors()[i];
      pairs.Tensor(name + (i == first ? ".lora_a" : ".lora_b"), tensor.shape, DType::kF32,
                   tensor.data);
    }
  }
  WriteModel(kModel, model, dir.File("merged"));
  const auto base = OpenModel(kModel);
  ASSERT_TRUE(base.ok()) << base.status();
  const std::string gguf = dir.Write("model.gguf", GgufOf(*base, "llama", DType::kF32).Bytes());
  const std::string path = dir.Write("adapter.gguf", pairs.Bytes());
  EXPECT_LT(ApartBy(AdaptedLogits(gguf, path), AdaptedLogits(dir.File("merged"), "")), 1e-4F);

  EXPECT_THAT(std::string(OpenAdapted(kModel, path).status().message()), HasSubstr("is a folder"));
  EXPECT_THAT(std::string(OpenAdapted(gguf, adapter.WriteTo(dir.File("peft"))).status().message()),
              HasSubstr("is a GGUF file"));
  EXPECT_THAT(std::string(OpenAdapted(gguf, gguf).status().message()),
              HasSubstr("an adapter has \"adapter\" and \"lora\""));
}

// Hashes of the logits of each token of each request. n_shared: tokens of each prompt that were
// there; or null.
std::vector<std::vector<uint64_t>> Hashes(const std::string& model,
                                          const std::vector<GenerateRequest>& requests,
                                          const std::vector<std::string>& settings,
                                          std::vector<int64_t>* n_shared = nullptr) {
  std::vector<std::vector<uint64_t>> hashes(requests.size());
  const auto engine = OpenAdapted(model, "", settings);
  EXPECT_TRUE(engine.ok()) << engine.status();
  if (!engine.ok()) return hashes;
  const absl::Status loaded = (*engine)->Load(Needs(requests));
  EXPECT_TRUE(loaded.ok()) << loaded;
  if (!loaded.ok()) return hashes;
  GenerateOptions options;
  options.logits_hash = true;
  options.on_step = [&](int index, const StepRecord& record) {
    hashes[static_cast<size_t>(index)].push_back(record.logits_hash);
    return absl::OkStatus();
  };
  const auto done = (*engine)->Generate(requests, options);
  EXPECT_TRUE(done.ok()) << done.status();
  if (!done.ok() || n_shared == nullptr) return hashes;
  for (const Completion& completion : *done) {
    n_shared->push_back(completion.timings.shared_tokens);
  }
  return hashes;
}

// Of dense layers, a mixture and states.
TEST(NamedAdapters, HaveTheBitsOfARunWithThemAlone) {
  for (const char* name : {"llama/untied", "qwen3_moe/tiny", "granite_hybrid/tiny"}) {
    const TempDir dir;
    const std::string model = absl::StrCat(NG_TEST_DATA, "/golden/", name);
    std::vector<NamedTensor> tensors = TensorsOf(model);
    std::string named;
    for (const char* const adapter : {"a", "b"}) {
      Adapter made(adapter[0] == 'a' ? 21 : 22);
      for (const AdapterTarget& target : TargetsOf(model)) made.Add(target, 2.0, false, tensors);
      absl::StrAppend(&named, named.empty() ? "" : ",", adapter, "=",
                      made.WriteTo(dir.File(adapter)));
    }
    const std::vector<int32_t> prompt(kAdaptedTokens.begin(), kAdaptedTokens.begin() + 7);
    std::vector<GenerateRequest> requests;
    for (const char* const adapter : {"a", "b", "", "b", "a", ""}) {
      requests.push_back({.prompt_ids = prompt, .max_new_tokens = 4, .adapter = adapter});
    }
    const std::vector<std::string> greedy = {"sampler.chain=greedy", "run.stop_ids="};
    const auto alone = [&](const std::string& adapters) {
      std::vector<std::string> settings = greedy;
      if (!adapters.empty()) settings.push_back("model.adapters=" + dir.File(adapters));
      return Hashes(model, {{.prompt_ids = prompt, .max_new_tokens = 4}}, settings).front();
    };
    const std::vector<uint64_t> plain = alone("");
    const std::vector<uint64_t> a = alone("a");
    const std::vector<uint64_t> b = alone("b");
    EXPECT_NE(a, plain) << name;
    EXPECT_NE(a, b) << name;
    // Together, and one after the other over pages that prompts without an adapter share.
    for (const char* const at_a_time : {"6", "1"}) {
      for (const char* const cache : {"contiguous", "paged"}) {
        std::vector<std::string> settings = greedy;
        settings.push_back("model.named_adapters=" + named);
        settings.push_back(absl::StrCat("cache.name=", cache));
        settings.push_back(absl::StrCat("cache.max_sequences=", at_a_time));
        EXPECT_THAT(Hashes(model, requests, settings),
                    ::testing::ElementsAre(a, b, plain, b, a, plain))
            << name << ", " << at_a_time << " at a time, " << cache;
      }
    }
  }
}

// A prompt of more than two pages, for the model without an adapter and with two of them.
TEST(NamedAdapters, ShareWhatPromptsBeginWithAmongTheirOwn) {
  for (const char* name : {"llama/untied", "granite_hybrid/tiny"}) {
    const TempDir dir;
    const std::string model = absl::StrCat(NG_TEST_DATA, "/golden/", name);
    std::vector<NamedTensor> tensors = TensorsOf(model);
    std::vector<std::string> named;
    for (const char* const adapter : {"a", "b"}) {
      Adapter made(adapter[0] == 'a' ? 21 : 22);
      for (const AdapterTarget& target : TargetsOf(model)) made.Add(target, 2.0, false, tensors);
      named.push_back(absl::StrCat(adapter, "=", made.WriteTo(dir.File(adapter))));
    }
    std::vector<int32_t> prompt;
    for (int32_t i = 0; i < 40; ++i) prompt.push_back(3 + i * i % 35);
    std::vector<GenerateRequest> requests;
    for (const char* const adapter : {"a", "b", "", "b", "a", ""}) {
      requests.push_back({.prompt_ids = prompt, .max_new_tokens = 4, .adapter = adapter});
    }
    std::vector<std::string> settings = {
        "sampler.chain=greedy",
        "run.stop_ids=",
        "cache.name=paged",
        "cache.paged.page_tokens=16",
        "cache.paged.pool_tokens=256",
        "cache.checkpoints=9",
        "cache.max_sequences=1",
        absl::StrCat("model.named_adapters=", named[0], ",", named[1])};
    std::vector<int64_t> n_shared;
    const auto shared = Hashes(model, requests, settings, &n_shared);
    EXPECT_THAT(n_shared, ::testing::ElementsAre(0, 0, 0, 32, 32, 32)) << name;
    settings.push_back("cache.paged.share_prefixes=false");
    EXPECT_EQ(Hashes(model, requests, settings), shared) << name;
  }
}

TEST(NamedAdapters, AreRefusedByName) {
  const TempDir dir;
  std::vector<NamedTensor> tensors = TensorsOf(kModel);
  Adapter adapter(23);
  adapter.Add(TargetsOf(kModel).front(), 2.0, false, tensors);
  const std::string path = adapter.WriteTo(dir.File("a"));
  const auto message = [&](const std::string& named) {
    return std::string(
        OpenAdapted(kModel, "", {"model.named_adapters=" + named}).status().message());
  };
  EXPECT_THAT(message(path), HasSubstr("must have a name and '=' before each path"));
  EXPECT_THAT(message(absl::StrCat("a=", path, ",a=", path)),
              HasSubstr("two adapters are called a"));
  const auto engine = OpenAdapted(kModel, "", {"model.named_adapters=a=" + path + ":0.5"});
  ASSERT_TRUE(engine.ok()) << engine.status();
  GenerateRequest request = {.prompt_ids = kAdaptedTokens, .max_new_tokens = 1, .adapter = "c"};
  const absl::Status unknown = (*engine)->CheckRequest(request);
  EXPECT_EQ(ExitCode(unknown), 2);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("adapter = c, model.named_adapters has a"));
  request.adapter = "a";
  request.save_cache = dir.File("snapshot");
  EXPECT_THAT(std::string((*engine)->CheckRequest(request).message()),
              HasSubstr("has no snapshot"));
}

// What an adapter is refused for.
struct RefusedAdapter {
  std::string says;
  nlohmann::json config = nlohmann::json::object();
  std::function<void(std::vector<NamedTensor>&)> edit = {};
};

TEST(Adapters, AreRefusedByName) {
  const auto rename = [](const std::string& from, const std::string& to) {
    return [=](std::vector<NamedTensor>& tensors) {
      for (NamedTensor& tensor : tensors) {
        tensor.name = absl::StrReplaceAll(tensor.name, {{from, to}});
      }
    };
  };
  const std::vector<RefusedAdapter> faults = {
      {"key \"peft_type\" = \"IA3\", must be \"LORA\"", {{"peft_type", "IA3"}}},
      {"key \"r\" = 0", {{"r", 0}}},
      {"key \"r\" is missing", {{"r", nullptr}}},
      {"key \"lora_alpha\" = \"16\"", {{"lora_alpha", "16"}}},
      {"key \"lora_bias\" = true", {{"lora_bias", true}}},
      {"key \"init_lora_weights\" = \"pissa\"", {{"init_lora_weights", "pissa"}}},
      {"key \"target_parameters\" has \"mlp.w1\"", {{"target_parameters", {"mlp.w1"}}}},
      {"adapter_config.json says rank 4", {{"r", 4}}},
      {"has no magnitudes, which \"use_dora\" asks for", {{"use_dora", true}}},
      {"key \"alpha_pattern\": \"(\"", {{"alpha_pattern", {{"(", 2}}}}},
      {"key \"rank_pattern\": \"q_proj\" = 0", {{"rank_pattern", {{"q_proj", 0}}}}},
      {"the name must begin with base_model.model.", {}, rename("base_model.model.", "model.")},
      {"the model has no tensor \"model.layers.7.mlp.down_proj.weight\"",
       {},
       rename("layers.0.mlp.down", "layers.7.mlp.down")},
      {"has no b beside it", {}, [](auto& tensors) { tensors.pop_back(); }},
      {"is a part of LoRA that ng does not run", {}, rename("lora_B.weight", "lora_B.bias")},
      {"must be [", {}, [](auto& tensors) { std::swap(tensors[0].shape[0], tensors[0].shape[1]); }},
      {"holds NaN or infinity", {}, [](auto& tensors) { tensors[0].data[1] = std::nanf(""); }},
      {"adds to \"model.norm.weight\"",
       {},
       [](auto& tensors) {
         tensors = {{"base_model.model.model.norm.lora_A.weight", {kAdapterRank, 4}, {}},
                    {"base_model.model.model.norm.lora_B.weight", {4, kAdapterRank}, {}}};
         for (NamedTensor& tensor : tensors) tensor.data.resize(12);
       }},
  };
  for (const RefusedAdapter& fault : faults) {
    const TempDir dir;
    std::vector<NamedTensor> model = TensorsOf(kModel);
    Adapter adapter(14);
    for (const AdapterTarget& target : TargetsOf(kModel)) adapter.Add(target, 2.0, false, model);
    if (fault.edit) fault.edit(adapter.tensors());
    const std::string path = adapter.WriteTo(dir.File("adapter"), fault.config);
    const auto engine = OpenAdapted(kModel, path);
    absl::Status status = engine.status();
    RunNeeds needs;
    needs.max_tokens = 1;
    if (engine.ok()) status = (*engine)->Load(needs);
    EXPECT_EQ(ExitCode(status), 3) << fault.says << ": " << status;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(path), HasSubstr(fault.says)));
  }
}

TEST(Adapters, AreFoundWhereTheyAre) {
  const TempDir dir;
  EXPECT_THAT(std::string(OpenAdapted(kModel, dir.File("none")).status().message()),
              HasSubstr(dir.File("none")));
  EXPECT_THAT(std::string(OpenAdapted(kModel, dir.path()).status().message()),
              HasSubstr("holds no adapter_config.json"));
  const auto alone = OpenAdapted(Adapter(1).WriteTo(dir.File("adapter")), "");
  EXPECT_THAT(std::string(alone.status().message()),
              HasSubstr("it is an adapter, which its model runs with, as model.adapters = "));
  const auto scale = OpenAdapted(kModel, dir.path() + ":much");
  EXPECT_EQ(ExitCode(scale.status()), 2);
  EXPECT_THAT(std::string(scale.status().message()), HasSubstr("is \"much\", must be a number"));
}

}  // namespace
}  // namespace ng::test
