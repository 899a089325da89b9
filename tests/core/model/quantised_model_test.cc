// Malformed quantised checkpoints, made by rule from those in tests/data/quantised: each is refused
// in one line that names what is wrong. And what of a config is asked about.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/formats/quantised/formats.h"
#include "core/machine/executor.h"
#include "core/model/files/model_file.h"
#include "core/model/load/file_types.h"
#include "core/model/load/load_weights.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

namespace fs = std::filesystem;
using test::Slurp;
using test::TempDir;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

std::string DataFolder(std::string_view name) {
  return absl::StrCat(NG_TEST_DATA, "/quantised/", std::string(name));
}

std::vector<std::string> QuantisedFolders() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(DataFolder(""))) {
    if (entry.is_directory()) names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

// A folder in memory, which a test changes.
struct QuantisedFiles {
  Json config;
  Json header;
  std::string data;

  explicit QuantisedFiles(const std::string& name) {
    config = Json::parse(Slurp(DataFolder(name) + "/config.json"));
    const std::string file = Slurp(DataFolder(name) + "/model.safetensors");
    const size_t length = static_cast<uint8_t>(file[0]) | static_cast<uint8_t>(file[1]) << 8;
    header = Json::parse(file.substr(8, length));
    data = file.substr(8 + length);
  }

  void Write(const TempDir& dir) const {
    dir.Write("config.json", config.dump());
    const std::string text = header.dump();
    std::string length(8, '\0');
    for (size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(text.size() >> (8 * i) & 255);
    dir.Write("model.safetensors", length + text + data);
  }

  // Its first byte.
  char* BytesOf(const std::string& tensor) {
    return data.data() + header[tensor]["data_offsets"][0].get<size_t>();
  }
  Json& quantisation() {
    config.erase("quantization");  // MLX says it under both keys
    return config["quantization_config"];
  }
};

// Opens and loads it, as f32.
absl::Status LoadFolder(const QuantisedFiles& checkpoint) {
  const TempDir dir;
  checkpoint.Write(dir);
  NG_ASSIGN_OR_RETURN(const ModelFile file, OpenModel(dir.path()));
  NG_ASSIGN_OR_RETURN(const WeightTypes types, WeightTypesFor(file, "f32"));
  const std::unique_ptr<Executor> executor = MakeExecutor(1);
  return LoadWeights(file, {.types = types, .executor = executor.get()}).status();
}

void ExpectOneLine(const absl::Status& status, std::string_view what) {
  ASSERT_FALSE(status.ok()) << what;
  const std::string message(status.message());
  EXPECT_THAT(message, Not(HasSubstr("\n"))) << what;
  EXPECT_LE(message.size(), 600U) << what << message;
}

// The tensors that the matrix of q is made of.
std::vector<std::string> PartsOfQ(const QuantisedFiles& checkpoint) {
  std::vector<std::string> parts;
  for (const auto& [name, entry] : checkpoint.header.items()) {
    if (name.starts_with("model.layers.0.self_attn.q_proj.")) parts.push_back(name);
  }
  return parts;
}

// Parts that may be missing: without them a matrix has its groups in order, or no zeros. What the
// format would round inputs with, nobody reads; nor what only HQQ's own library asks for.
bool MayBeMissing(std::string_view part) {
  constexpr std::string_view kEndings[] = {"g_idx",
                                           "weight_zero_point",
                                           "input_scale",
                                           "weight_format",
                                           "unpack_view_dtype",
                                           "view_as_float",
                                           "quant_scale",
                                           "quant_zero",
                                           "compute_dtype",
                                           "channel_wise",
                                           "optimize",
                                           "round_zero",
                                           "offload_meta",
                                           "stores_quant_config",
                                           "encoded_state_dict",
                                           "group_size"};
  return std::ranges::any_of(kEndings, [&](auto ending) { return part.ends_with(ending); });
}

// The value of each matrix of q and of the feed-forward's output, held as `weights` says.
struct HeldMatrix {
  std::string type;
  std::vector<float> values;
};
std::vector<HeldMatrix> HeldAs(const std::string& folder, const std::string& weights) {
  const auto file = OpenModel(DataFolder(folder));
  EXPECT_TRUE(file.ok()) << file.status();
  const auto types = WeightTypesFor(*file, weights);
  EXPECT_TRUE(types.ok()) << types.status();
  const std::unique_ptr<Executor> executor = MakeExecutor(1);
  const auto loaded = LoadWeights(*file, {.types = *types, .executor = executor.get()});
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  std::vector<HeldMatrix> held;
  for (const BlockWeights& block : loaded->layers[0]) {
    for (const PackedMatrix* matrix : {&block.in, &block.out}) {
      HeldMatrix& one = held.emplace_back();
      one.type = WeightTypeName(matrix->type());
      std::vector<float> row(static_cast<size_t>(matrix->k()));
      for (int64_t i = 0; i < matrix->n(); ++i) {
        matrix->CopyRow(i, row.data());
        one.values.insert(one.values.end(), row.begin(), row.end());
      }
    }
  }
  return held;
}

class PackedFolder : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(PackedFolder, HoldsTheValuesInTheTypeThatHasThem) {
  const auto& [folder, type] = GetParam();
  const std::vector<HeldMatrix> packed = HeldAs(folder, "auto");
  const std::vector<HeldMatrix> exact = HeldAs(folder, "f32");
  ASSERT_EQ(packed.size(), exact.size());
  const double tolerance = std::string_view(type) == "bf16" ? 0x1p-8 : 3e-7;
  for (size_t i = 0; i < packed.size(); ++i) {
    EXPECT_EQ(packed[i].type, type) << i;
    double most = 0.0;
    for (const float value : exact[i].values) most = std::max(most, std::abs(double{value}));
    double worst = 0.0;
    for (size_t v = 0; v < exact[i].values.size(); ++v) {
      worst = std::max(worst, std::abs(double{packed[i].values[v]} - double{exact[i].values[v]}));
    }
    EXPECT_LE(worst, tolerance * most) << i;
  }
}

// Where rows are long enough a factor for each 128 is all that FP8 needs.
TEST(PackedFolder, HoldsBlocksOf128WithAFactorForEach) {
  const std::vector<HeldMatrix> packed = HeldAs("fp8_block_128", "auto");
  const std::vector<HeldMatrix> exact = HeldAs("fp8_block_128", "f32");
  ASSERT_EQ(packed.size(), 4);  // of attention, of the feed-forward
  EXPECT_EQ(packed[2].type, "e4m3_32");
  EXPECT_EQ(packed[3].type, "e4m3_128");
  for (size_t i = 0; i < packed.size(); ++i) EXPECT_EQ(packed[i].values, exact[i].values) << i;
}

INSTANTIATE_TEST_SUITE_P(
    All, PackedFolder,
    ::testing::Values(
        std::pair("gptq2", "w4z_32"), std::pair("gptq3", "w4z_64"), std::pair("gptq4", "w4z_32"),
        std::pair("gptq4_sym", "w4_32"), std::pair("gptq4_v2", "w4z_32"),
        std::pair("gptq4_act", "bf16"), std::pair("awq", "w4z_32"),
        std::pair("auto_round_awq", "w4z_32"), std::pair("ct_w4", "w4_32"),
        std::pair("ct_w4_asym", "w4z_32"), std::pair("ct_w3", "w4_32"), std::pair("ct_w8", "w8_64"),
        std::pair("ct_int8", "w8_64"), std::pair("ct_int8_asym", "w8z_64"),
        std::pair("ct_mxfp4", "bf16"), std::pair("mlx2", "w4z_32"), std::pair("mlx3", "w4z_64"),
        std::pair("mlx5", "w8z_32"), std::pair("mlx6", "w8z_64"), std::pair("mlx8", "w8z_64"),
        std::pair("bnb_int8", "w8_64"), std::pair("bnb_nf4", "nf4"),
        std::pair("bnb_nf4_double", "nf4"), std::pair("bnb_fp4", "fp4"),
        std::pair("hqq2", "w4z_32"), std::pair("hqq3", "w4z_64"), std::pair("hqq4", "w4z_64"),
        std::pair("hqq4_columns", "bf16"), std::pair("hqq8", "w8z_64"),
        std::pair("torchao_int4", "w4z_32"), std::pair("torchao_int8", "w8_64"),
        std::pair("bitnet", "w4_64"), std::pair("fp8_block", "bf16"),
        std::pair("ct_fp8_block", "e4m3_32"), std::pair("fp8_tensor", "e4m3_32"),
        std::pair("ct_fp8_channel", "e4m3_32"), std::pair("torchao_fp8", "e4m3_32"),
        std::pair("modelopt_nvfp4", "nvfp4"), std::pair("ct_nvfp4", "nvfp4")),
    [](const auto& info) { return std::string(info.param.first); });

class MalformedFolder : public ::testing::TestWithParam<std::string> {};

TEST_P(MalformedFolder, IsWholeAsItIs) {
  const absl::Status status = LoadFolder(QuantisedFiles(GetParam()));
  EXPECT_TRUE(status.ok()) << status;
}

TEST_P(MalformedFolder, LacksNoPart) {
  const QuantisedFiles whole(GetParam());
  for (const std::string& part : PartsOfQ(whole)) {
    if (MayBeMissing(part)) continue;
    QuantisedFiles cut = whole;
    const std::string gone = "gone";
    cut.header[gone] = cut.header[part];
    cut.header.erase(part);
    if (cut.header[gone]["dtype"] == "F8_E4M3") cut.header[gone]["dtype"] = "U8";  // is no matrix
    const absl::Status status = LoadFolder(cut);
    ExpectOneLine(status, part);
    EXPECT_THAT(std::string(status.message()), HasSubstr("q_proj")) << part;
  }
}

TEST_P(MalformedFolder, HasNoPartOfAnotherShape) {
  const QuantisedFiles whole(GetParam());
  for (const std::string& part : PartsOfQ(whole)) {
    if (MayBeMissing(part) && !part.ends_with("g_idx") && !part.ends_with("zero_point")) continue;
    const auto shape = whole.header[part]["shape"].get<std::vector<int64_t>>();
    int64_t n = 1;
    for (const int64_t extent : shape) n *= extent;
    // One value in a list of one is a value by itself; a text, or a flat list of bytes of 4 bits,
    // is as long as it is.
    if (n == 1 || part.find("quant_state") != part.npos || part.ends_with(".packing")) continue;
    if (part.ends_with(".W_q") || whole.config.dump().find("bnb_4bit") != std::string::npos) {
      if (part.ends_with(".W_q") || part.ends_with(".weight")) continue;
    }
    if (part.ends_with(".scale") || part.ends_with(".zero") || part.ends_with(".shape")) {
      continue;  // of HQQ: their number
    }
    QuantisedFiles other = whole;
    other.header[part]["shape"] = {1, n, 1, 1};
    const absl::Status status = LoadFolder(other);
    ExpectOneLine(status, part);
    EXPECT_THAT(std::string(status.message()), HasSubstr("q_proj")) << part;
  }
}

TEST_P(MalformedFolder, HasNoPartOfAnotherType) {
  const QuantisedFiles whole(GetParam());
  const Json others = {{"F32", "U32"}, {"F16", "I16"}, {"BF16", "U16"},
                       {"I32", "F32"}, {"U32", "F32"}, {"F8_E4M3", "BOOL"},
                       {"I64", "F64"}, {"I8", "BOOL"}, {"U8", "BOOL"}};
  for (const std::string& part : PartsOfQ(whole)) {
    const bool is_index = part.ends_with("g_idx") || part.ends_with("zero_point");
    if (part.ends_with(".W_q") || (MayBeMissing(part) && !is_index)) continue;  // any bytes do
    if (part.ends_with(".shape") || whole.config.dump().find("bnb_4bit") != std::string::npos) {
      continue;
    }
    QuantisedFiles other = whole;
    Json& type = other.header[part]["dtype"];
    type = others.at(type.get<std::string>());
    const absl::Status status = LoadFolder(other);
    ExpectOneLine(status, part);
    EXPECT_THAT(std::string(status.message()), HasSubstr("q_proj")) << part;
  }
}

// A key that nobody knows may change what the values are.
TEST_P(MalformedFolder, HasNoUnknownKey) {
  QuantisedFiles other(GetParam());
  other.quantisation()["rotate_rows"] = 3;
  const absl::Status status = LoadFolder(other);
  ExpectOneLine(status, GetParam());
  EXPECT_THAT(std::string(status.message()), HasSubstr(".rotate_rows"));
}

INSTANTIATE_TEST_SUITE_P(All, MalformedFolder, ::testing::ValuesIn(QuantisedFolders()),
                         [](const auto& info) { return info.param; });

// What a change of one folder makes of it.
void ExpectFolderRefused(const std::string& folder,
                         const std::function<void(QuantisedFiles&)>& change,
                         const std::vector<std::string>& said) {
  QuantisedFiles other(folder);
  change(other);
  const absl::Status status = LoadFolder(other);
  ExpectOneLine(status, folder);
  for (const std::string& text : said) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(text)) << folder;
  }
}

TEST(QuantisationConfig, HasValuesThatCanRun) {
  struct Case {
    const char* folder;
    const char* key;
    Json value;
    const char* said;
  };
  const Case kCases[] = {
      {"gptq4", "bits", 5, "must be 2, 3, 4 or 8"},
      {"gptq4", "bits", "four", "must be an integer"},
      {"gptq4", "bits", 8, "down_proj"},
      {"gptq4", "group_size", 16, "down_proj.scales"},
      {"gptq4", "group_size", 0, "group_size"},
      {"gptq4", "checkpoint_format", "marlin", "can run: gptq, gptq_v2"},
      {"gptq4", "pack_dtype", "int16", "can run: int32"},
      {"gptq4", "adapter", {{"name", "lora"}}, "adapter"},
      {"awq", "version", "gemv", "can run: gemm"},
      {"awq", "bits", 8, "can run: 4"},
      {"auto_round", "data_type", "mx_fp", "can run: int"},
      {"auto_round", "packing_format", "auto_round:itrex", "can run: auto_round"},
      {"fp8_block", "weight_block_size", {32}, "must be two integers"},
      {"fp8_block", "weight_block_size", {16, 16}, "down_proj.weight_scale_inv"},
      {"fp8_block", "weight_block_size", nullptr, "down_proj.weight_scale_inv"},
      {"fp8_block", "fmt", "e5m2", "can run: e4m3"},
      {"ct_w4", "format", "marlin-24", "can run: dense, pack-quantized"},
      {"ct_w4", "sparsity_config", {{"format", "sparse-24-bitmask"}}, "format \"dense\""},
      {"ct_w4", "transform_config", {{"config_groups", {{"R1", 1}}}}, "transform_config"},
      {"ct_w4", "config_groups", nullptr, "must be an object"},
      {"modelopt_fp8", "quant_algo", "W4A8_AWQ", "can run: FP8"},
      {"bitnet", "quantization_mode", "online", "can run: offline"},
      {"bitnet", "use_rms_norm", true, "can run only with false"},
      {"bitnet", "linear_class", "sparse", "can run: bitlinear"}};
  for (const Case& wrong : kCases) {
    ExpectFolderRefused(
        wrong.folder,
        [&](QuantisedFiles& checkpoint) { checkpoint.quantisation()[wrong.key] = wrong.value; },
        {wrong.said});
  }
}

TEST(QuantisationConfig, OfCompressedTensorsDescribesItsMatrices) {
  const auto weights = [](QuantisedFiles& checkpoint) -> Json& {
    return checkpoint.quantisation()["config_groups"]["group_0"]["weights"];
  };
  ExpectFolderRefused("ct_w4", [&](QuantisedFiles& c) { weights(c)["num_bits"] = 8; },
                      {"down_proj.weight_packed", "no group of config_groups"});
  ExpectFolderRefused("ct_w4", [&](QuantisedFiles& c) { weights(c)["group_size"] = 16; },
                      {"down_proj.weight_scale"});
  ExpectFolderRefused("ct_w4", [&](QuantisedFiles& c) { weights(c)["strategy"] = "spiral"; },
                      {"strategy \"spiral\""});
  ExpectFolderRefused("ct_w4", [&](QuantisedFiles& c) { weights(c)["symmetric"] = false; },
                      {"down_proj.weight_packed", "weight_zero_point"});
  ExpectFolderRefused("ct_int8", [&](QuantisedFiles& c) { weights(c)["type"] = "float"; },
                      {"down_proj.weight", "no group of config_groups"});
  ExpectFolderRefused("ct_w4", [&](QuantisedFiles& c) { weights(c)["zero_bits"] = 3; },
                      {"zero_bits"});
}

TEST(QuantisationConfig, OfMlxIsOfItsModules) {
  const auto of_v = [](QuantisedFiles& checkpoint) -> Json& {
    return checkpoint.quantisation()["model.layers.0.self_attn.v_proj"];
  };
  ExpectFolderRefused("mlx4", [&](QuantisedFiles& c) { of_v(c)["bits"] = 3; }, {"v_proj"});
  ExpectFolderRefused("mlx4", [&](QuantisedFiles& c) { of_v(c)["mode"] = "spiral"; }, {"mode"});
  ExpectFolderRefused("mlx4", [&](QuantisedFiles& c) { c.quantisation()["bits"] = 7; }, {"bits"});
}

TEST(QuantisedTensors, HoldValuesThatThereAre) {
  const std::string q = "model.layers.0.self_attn.q_proj.";
  ExpectFolderRefused("gptq4_act", [&](QuantisedFiles& c) { c.BytesOf(q + "g_idx")[5] = 7; },
                      {"q_proj.g_idx", "must be in [0, 1]"});
  ExpectFolderRefused("fp8_block", [&](QuantisedFiles& c) { c.BytesOf(q + "weight")[9] = 0x7F; },
                      {"q_proj.weight", "NaN"});
  ExpectFolderRefused("ct_w4", [&](QuantisedFiles& c) { c.BytesOf(q + "weight_shape")[0] = 1; },
                      {"q_proj.weight_shape", "must begin with 64"});
  ExpectFolderRefused("hqq4", [&](QuantisedFiles& c) { c.BytesOf(q + "nbits")[0] = 8; },
                      {"q_proj.nbits"});
  ExpectFolderRefused("hqq4", [&](QuantisedFiles& c) { c.BytesOf(q + "packing")[0] = '5'; },
                      {"q_proj.packing"});
  ExpectFolderRefused("hqq4", [&](QuantisedFiles& c) { c.BytesOf(q + "quant_zero")[0] = 1; },
                      {"q_proj.quant_zero"});
  ExpectFolderRefused("bnb_int8", [&](QuantisedFiles& c) { c.BytesOf(q + "weight_format")[0] = 1; },
                      {"q_proj.weight_format"});
  ExpectFolderRefused("bnb_nf4",
                      [&](QuantisedFiles& c) {
                        char* const text = c.BytesOf(q + "weight.quant_state.bitsandbytes__nf4");
                        text[0] = '[';
                      },
                      {"q_proj", "JSON"});
}

TEST(QuantisedTensors, AreThereWhereTheConfigSaysSo) {
  QuantisedFiles plain("gptq4");
  plain.quantisation() = {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 32}};
  QuantisedFiles bare("fp8_block");
  bare.quantisation() = {{"quant_method", "bitnet"}};
  ExpectOneLine(LoadFolder(plain), "gptq as awq");
  const absl::Status none = LoadFolder(bare);
  ExpectOneLine(none, "fp8 as bitnet");
  EXPECT_THAT(std::string(none.message()), HasSubstr("holds no matrix as bitnet stores them"));
}

TEST(QuantisationConfig, OfAMethodThatNobodyKnowsIsRefused) {
  ExpectFolderRefused("gptq4", [](QuantisedFiles& c) { c.quantisation()["quant_method"] = "aqlm"; },
                      {"quantization_config.quant_method\" = \"aqlm\"", "can run: fp8, "});
}

TEST(QuantisationConfig, OfModeloptMayBeInItsOwnFile) {
  QuantisedFiles checkpoint("modelopt_fp8");
  const Json object = checkpoint.quantisation();
  checkpoint.config.erase("quantization_config");
  const TempDir dir;
  checkpoint.Write(dir);
  dir.Write("hf_quant_config.json",
            Json{{"producer", {{"name", "modelopt"}}},
                 {"quantization", {{"quant_algo", "FP8"}, {"exclude_modules", {"lm_head"}}}}}
                .dump());
  const auto file = OpenModel(dir.path());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->quantised, HasSubstr("modelopt: fp8"));
}

}  // namespace
}  // namespace ng
