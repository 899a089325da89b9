// ng-diff as a user runs it: no difference where the bit contract promises none, the exact place of
// a planted one, figures held against arithmetic of the test's own, and what is to blame.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ng/safetensors.h"
#include "tests/integration/run_support.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kLlama = NG_TEST_DATA "/golden/llama/tied_gqa";

Result NgDiff(const Arguments& arguments) {
  Command command;
  command.program = "ng-diff";
  command.arguments = arguments;
  return Run(command);
}

// A small llama with random weights in f32: 2 layers of width 32, 4 heads and 2 of k and v of 8,
// 97 ids.
class Diff : public ::testing::Test {
 protected:
  Diff() { WriteConfig("a.ini", kLlama); }

  std::string At(const std::string& name) const { return folder_.path() + "/" + name; }
  void WriteConfig(const std::string& name, const std::string& model) const {
    folder_.Write(name, absl::StrCat("[model]\npath = ", model,
                                     "\n[sampler]\nchain = greedy\n[run]\nstop_ids =\n"
                                     "max_new_tokens = 4\nthreads = 1\n"));
  }
  Arguments Same() const { return {"--against-config", At("a.ini")}; }
  // The objects that ng-diff prints, the verdict last.
  std::vector<Json> Lines(const Arguments& arguments, int exit_code) const {
    Arguments all = Arguments{"--config", At("a.ini"), "--output=jsonl"} + arguments;
    const bool prompts = absl::StrJoin(arguments, " ").find("--prompt") != std::string::npos ||
                         absl::StrJoin(arguments, " ").find("-tensors") != std::string::npos;
    if (!prompts) all = all + Arguments{"--prompt-ids", "3 1 4 1 5 9 2 6 5 3 58 96"};
    const Result result = NgDiff(all);
    EXPECT_EQ(result.exit_code, exit_code) << absl::StrJoin(all, " ") << "\n" << result.err;
    EXPECT_EQ(result.err, "");
    return JsonLines(result.out);
  }
  Json Verdict(const Arguments& arguments, int exit_code) const {
    const std::vector<Json> lines = Lines(arguments, exit_code);
    return lines.empty() ? Json() : lines.back();
  }

  TempDir folder_;
};

// Rows that one side alone computes: 12 tokens of the prompt and 3 of the answer are fed.
constexpr int64_t kFed = 15;
constexpr int64_t kPoints = 1 + 2 * 11 + 2;

TEST_F(Diff, WhatTheBitContractHoldsEqualIsEqual) {
  folder_.Write("prompts.jsonl",
                "{\"prompt_ids\": [3,1,4,1,5,9,2,6,5,3,58,96,7,7,7,7,1,2,3,4]}\n"
                "{\"prompt_ids\": [3,1,4,1,5,9,2,6,5,3,58,96,7,7,7,7,5,6]}\n"
                "{\"prompt_ids\": [8,8]}\n");
  const Arguments batch = {"--prompts", At("prompts.jsonl")};
  const Result saved = NgRun({"--config", At("a.ini"), "--prompt-ids", "3 1 4 1 5 9 2 6",
                              "--save-cache", At("prompt.cache"), "--run.max_new_tokens=1"});
  ASSERT_EQ(saved.exit_code, 0) << saved.err;
  const Arguments pairs[] = {
      {"--against", "run.prefill_chunk=5"},
      {"--against", "run.prefill_chunk=1", "--run.prefill_chunk=3"},
      {"--against", "run.threads=2"},
      {"--against", "cache.name=paged"},
      {"--against", "cache.name=paged", "--cache.codec=int8", "--model.weights=int8"},
      {"--against", "run.use_cache=false"},
      batch + Arguments{"--against", "cache.max_sequences=1"},
      batch + Arguments{"--against", "cache.name=paged"},
      batch + Arguments{"--cache.name=paged", "--against", "run.prefill_chunk=4"},
      Same() + Arguments{"--load-cache", At("prompt.cache")},
  };
  for (const Arguments& pair : pairs) {
    const Json verdict = Verdict(pair, 0);
    EXPECT_EQ(verdict["verdict"], "equal") << absl::StrJoin(pair, " ");
    EXPECT_EQ(verdict["first"], nullptr);
    EXPECT_EQ(verdict["kl_mean"], 0.0);
    EXPECT_EQ(verdict["argmax_flips"], 0);
    EXPECT_GT(verdict["rows"], 0);
  }
}

// Whole, a prompt's logits take 24 MB on each side.
TEST_F(Diff, TakesPromptsInPieces) {
  constexpr int64_t kTokens = 1500;
  TinyNiels model;
  model.vocab_size = 4000;
  model.max_positions = kTokens + 10;
  std::filesystem::create_directories(At("long"));
  model.WriteTo(At("long"));
  WriteConfig("long.ini", At("long"));
  std::string ids = "1";
  for (int64_t i = 1; i < kTokens; ++i) absl::StrAppend(&ids, " ", i * i % 61);
  const auto run = [&](const Arguments& more) {
    const Result result = NgDiff(Arguments{"--config", At("long.ini"), "--prompt-ids", ids} + more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result;
  };
  const Arguments by_change = {"--against", "run.threads=2"};
  const Arguments by_config = {"--against-config", At("long.ini")};
  for (const Arguments& against : {by_change, by_config}) {
    const Result pieces = run(against);
    // Also where only one side says how much it is fed.
    const Result whole = run(against + Arguments{"--run.prefill_chunk=0"});
    EXPECT_EQ(pieces.out, whole.out);
    EXPECT_LT(pieces.peak_bytes, whole.peak_bytes / 2);
  }
}

TEST_F(Diff, CountsWhatOneSideAloneComputes) {
  EXPECT_EQ(Verdict(Same(), 0)["rows"], kFed * kPoints);
  EXPECT_EQ(Verdict(Same(), 0)["not_compared"], 0);
  // Each of the last three steps feeds all ids again but the newest.
  const Json again = Verdict({"--against", "run.use_cache=false"}, 0);
  EXPECT_EQ(again["rows"], kFed * kPoints);
  EXPECT_EQ(again["not_compared"], (12 + 13 + 14) * kPoints);
}

// ---- planted faults ----

struct Fault {
  Arguments arguments;
  std::string point;
  int layer = 0;
  int64_t position = 0;
  int64_t element = 0;
};

// A copy of the model with 1 added to an element of a matrix.
std::string WithChangedWeight(const TempDir& folder, const std::string& name, int64_t row,
                              int64_t column) {
  const std::string dir = folder.path() + "/changed";
  std::filesystem::create_directories(dir);
  std::filesystem::copy_file(std::string(kLlama) + "/config.json", dir + "/config.json",
                             std::filesystem::copy_options::overwrite_existing);
  std::vector<NamedTensor> tensors;
  for (auto& [tensor, value] : ReadTensors(std::string(kLlama) + "/model.safetensors")) {
    tensors.push_back({tensor, value.shape, value.data});
    if (tensor != name) continue;
    tensors.back().data[static_cast<size_t>(row * value.shape[1] + column)] += 1.0F;
  }
  EXPECT_TRUE(WriteSafetensors(dir + "/model.safetensors", tensors).ok());
  return dir;
}

class Faults {
 public:
  Faults(const TempDir& folder, uint64_t seed) : folder_(folder), draws_(seed) {}

  Fault Next() {
    switch (Below(4)) {
      case 0:
        return InAttention();
      case 1:
        return InCache();
      case 2:
        return InProbe();
      default:
        return InWeights();
    }
  }

 private:
  int64_t Below(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(draws_); }
  static Arguments Plugin(const std::string& kind, int layer, int64_t position, int64_t element) {
    const std::string key = absl::StrCat("--", kind, ".one_element.");
    return {absl::StrCat("--plugins.path=" NG_BINARY_DIR "/tests/fixtures/broken_plugins/"
                         "one_element/",
                         kind),
            absl::StrCat("--", kind, ".name=one_element"), absl::StrCat(key, "layer=", layer),
            absl::StrCat(key, "position=", position), absl::StrCat(key, "element=", element)};
  }
  Fault InAttention() {
    const int layer = static_cast<int>(Below(2));
    const int64_t position = Below(kFed);
    const int64_t element = Below(4 * 8);
    return {Plugin("attention", layer, position, element), "attn_head", layer, position, element};
  }
  // V is seen by the token's own query, in the first of the two heads that share it. K of a token
  // that sees only itself changes nothing: the next token shows it, in all elements.
  Fault InCache() {
    const bool key = Below(2) == 0;
    const int layer = static_cast<int>(Below(2));
    const int64_t position = Below(kFed - 1);
    const int64_t element = Below(2 * 8);
    Fault fault = {Plugin("cache", layer, position, element), "attn_head", layer, position, 0};
    fault.arguments.push_back(absl::StrCat("--cache.one_element.part=", key ? "k" : "v"));
    fault.element = element / 8 * 16 + (key ? 0 : element % 8);
    if (key && position == 0) fault.position = 1;
    return fault;
  }
  // A vector of one element, added to one row of a point.
  Fault InProbe() {
    constexpr std::pair<const char*, int64_t> kWidths[] = {
        {"attn_in", 32},   {"q", 32},        {"k", 16},         {"v", 16},
        {"attn_head", 32}, {"attn_out", 32}, {"mlp_in", 32},    {"mlp_act", 56},
        {"mlp_out", 32},   {"out", 32},      {"attn_resid", 32}};
    const auto& [point, width] = kWidths[Below(std::size(kWidths))];
    const int layer = static_cast<int>(Below(2));
    const int64_t position = Below(kFed);
    const int64_t element = Below(width);
    NamedTensor vector = {"vector", {width}, std::vector<float>(static_cast<size_t>(width))};
    vector.data[static_cast<size_t>(element)] = 1.0F;
    const std::string file = folder_.File("vector.safetensors");
    EXPECT_TRUE(WriteSafetensors(file, {vector}).ok());
    return {{"--probe.chain=steer", absl::StrCat("--probe.steer.points=layer", layer, ".", point),
             absl::StrCat("--probe.steer.positions=", position), "--probe.steer.file=" + file},
            point,
            layer,
            position,
            element};
  }
  Fault InWeights() {
    struct Matrix {
      const char* name;
      const char* point;
      int64_t rows;
      int64_t columns;
    };
    constexpr Matrix kMatrices[] = {
        {"self_attn.q_proj", "q", 32, 32},  {"self_attn.k_proj", "k", 16, 32},
        {"self_attn.v_proj", "v", 16, 32},  {"self_attn.o_proj", "attn_out", 32, 32},
        {"mlp.up_proj", "mlp_act", 56, 32}, {"mlp.down_proj", "mlp_out", 32, 56}};
    const Matrix& matrix = kMatrices[Below(std::size(kMatrices))];
    const int layer = static_cast<int>(Below(2));
    const int64_t row = Below(matrix.rows);
    const std::string dir = WithChangedWeight(
        folder_, absl::StrCat("model.layers.", layer, ".", matrix.name, ".weight"), row,
        Below(matrix.columns));
    return {{"--model.path=" + dir}, matrix.point, layer, 0, row};
  }

  const TempDir& folder_;
  std::mt19937_64 draws_;
};

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoll(text);
}

// NG_DIFF_FAULTS=1000 NG_DIFF_SEED=1 is a long form.
TEST_F(Diff, FindsTheElementThatAFaultChangesFirst) {
  const int64_t n_faults = FromEnvironment("NG_DIFF_FAULTS", 30);
  const auto seed = static_cast<uint64_t>(FromEnvironment("NG_DIFF_SEED", 17));
  Faults faults(folder_, seed);
  for (int64_t i = 0; i < n_faults; ++i) {
    const Fault fault = faults.Next();
    const Json first = Verdict(fault.arguments + Same(), 8)["first"];
    ASSERT_FALSE(first.is_null()) << absl::StrJoin(fault.arguments, " ");
    EXPECT_EQ(first["point"], fault.point) << absl::StrJoin(fault.arguments, " ");
    EXPECT_EQ(first["layer"], fault.layer);
    EXPECT_EQ(first["position"], fault.position);
    EXPECT_EQ(first["element"], fault.element);
    EXPECT_NE(first["a"], first["b"]);
  }
}

// ---- figures ----

// The tensors of every point, as ng-run saves them.
std::map<std::string, Tensor> Points(const Arguments& arguments, const std::string& file) {
  const Result saved =
      NgRun(arguments + Arguments{"--save", file, "--save-tensors", "embed,layer*,norm,logits"});
  EXPECT_EQ(saved.exit_code, 0) << saved.err;
  return ReadTensors(file);
}

TEST_F(Diff, TheFiguresAreThoseOfTheTensors) {
  const Arguments run = {"--config", At("a.ini"), "--prompt-ids", "3 1 4 1 5 9 2 6",
                         "--run.max_new_tokens=1"};
  const auto a = Points(run, At("a.safetensors"));
  const auto b = Points(run + Arguments{"--model.weights=int8"}, At("b.safetensors"));
  const std::vector<Json> lines =
      Lines({"--prompt-ids", "3 1 4 1 5 9 2 6", "--run.max_new_tokens=1", "--against",
             "model.weights=int8"},
            8);
  ASSERT_EQ(std::ssize(lines), kPoints + 1);
  for (size_t i = 0; i + 1 < lines.size(); ++i) {
    const Json& line = lines[i];
    const std::string point = line["point"].get<std::string>();
    const std::string name =
        line["layer"].is_null() ? point + ".0"
                                : absl::StrCat("layer", line["layer"].get<int>(), ".", point, ".0");
    ASSERT_TRUE(a.contains(name)) << name;
    const std::vector<float>& x = a.at(name).data;
    const std::vector<float>& y = b.at(name).data;
    double max = 0.0;
    double squares = 0.0;
    size_t n_equal = 0;
    for (size_t j = 0; j < x.size(); ++j) {
      max = std::max(max, std::abs(static_cast<double>(x[j]) - static_cast<double>(y[j])));
      squares += static_cast<double>(x[j]) * static_cast<double>(x[j]);
      n_equal += static_cast<size_t>(x[j] == y[j]);
    }
    const auto n = static_cast<double>(x.size());
    EXPECT_EQ(line["max_abs"], max) << name;
    EXPECT_NEAR(line["max_rel"].get<double>(), max / std::sqrt(squares / n), 1e-9) << name;
    EXPECT_NEAR(line["equal_share"].get<double>(), static_cast<double>(n_equal) / n, 1e-12);
    EXPECT_EQ(line["rows"], 8);
    EXPECT_EQ(line["first"].is_null(), n_equal == x.size());
  }
  // KL from the logits.
  double kl = 0.0;
  const auto softmax = [](const float* logits) {
    std::vector<double> p(97);
    double sum = 0.0;
    for (size_t i = 0; i < 97; ++i) sum += p[i] = std::exp(static_cast<double>(logits[i]));
    for (double& value : p) value /= sum;
    return p;
  };
  for (size_t row = 0; row < 8; ++row) {
    const std::vector<double> p = softmax(&a.at("logits.0").data[row * 97]);
    const std::vector<double> q = softmax(&b.at("logits.0").data[row * 97]);
    for (size_t i = 0; i < 97; ++i) kl += p[i] * std::log(p[i] / q[i]) / 8;
  }
  EXPECT_NEAR(lines.back()["kl_mean"].get<double>(), kl, 1e-9);
  EXPECT_EQ(lines.back()["by_key"]["model.weights"], lines.back()["kl_mean"]);
  EXPECT_EQ(lines.back()["remainder"], 0.0);
}

TEST_F(Diff, EachKeyIsToBlameForWhatItDoesAlone) {
  const std::vector<std::string> changes = {"cache.codec=int8", "model.weights=int8",
                                            "attention.name=reference"};
  Arguments all;
  double sum = 0.0;
  std::map<std::string, Json> alone;
  for (const std::string& change : changes) {
    all = all + Arguments{"--against", change};
    const std::string key = change.substr(0, change.find('='));
    alone[key] = Verdict({"--against", change}, 8)["kl_mean"];
    sum += alone[key].get<double>();
  }
  const Json together = Verdict(all, 8);
  for (const auto& [key, kl] : alone) EXPECT_EQ(together["by_key"][key], kl) << key;
  EXPECT_NEAR(together["remainder"].get<double>(), together["kl_mean"].get<double>() - sum, 1e-15);
}

// One key says how values are kept, the other one takes that back: what both do is less than the
// sum of what each does.
TEST_F(Diff, KeysThatActOnEachOtherLeaveARemainder) {
  const Json verdict =
      Verdict({"--against", "cache.codec=int4", "--against", "cache.codec_v=f32"}, 8);
  const double codec = verdict["by_key"]["cache.codec"].get<double>();
  EXPECT_GT(codec, 0.0);
  EXPECT_EQ(verdict["by_key"]["cache.codec_v"], 0.0);
  EXPECT_LT(verdict["kl_mean"].get<double>(), 0.5 * codec);
  EXPECT_LT(verdict["remainder"].get<double>(), -0.5 * codec);
}

TEST_F(Diff, AKeyThatCannotRunAloneIsSaid) {
  const Json verdict =
      Verdict({"--against", "cache.name=one_element", "--against",
               "plugins.path=" NG_BINARY_DIR "/tests/fixtures/broken_plugins/one_element/cache"},
              8);
  EXPECT_EQ(verdict["by_key"]["cache.name"], nullptr);
  EXPECT_EQ(verdict["by_key"]["plugins.path"], 0.0);
  EXPECT_EQ(verdict["remainder"], nullptr);
}

// ---- tensors ----

TEST_F(Diff, ComparesWithTensorsOfAFile) {
  const std::string file = At("points.safetensors");
  const auto points = Points({"--config", At("a.ini"), "--prompt-ids", "3 1 4 1 5 9 2 6"}, file);
  // The file says its tokens: 8 of the prompt and 3 of the answer were fed.
  const Json equal = Verdict({"--against-tensors", file}, 0);
  EXPECT_EQ(equal["verdict"], "equal");
  EXPECT_EQ(equal["rows"], 11 * (kPoints - 1) + 8);  // logits are those of the prompt
  EXPECT_EQ(equal["not_compared"], 3);
  EXPECT_EQ(equal["by_key"], Json::object());
  EXPECT_EQ(equal["remainder"], nullptr);

  std::vector<NamedTensor> changed;
  for (const auto& [name, tensor] : points) {
    if (name.find("layer1") == name.npos) continue;
    changed.push_back({name, tensor.shape, tensor.data});
    if (name == "layer1.mlp_in.0") changed.back().data[5 * 32 + 7] = NAN;
  }
  changed.push_back({"layer7.out.0", {1}, {0}});
  const std::string other = At("changed.safetensors");
  ASSERT_TRUE(WriteSafetensors(other, changed).ok());
  const std::vector<Json> lines =
      Lines({"--against-tensors", other, "--prompt-ids", "3 1 4 1 5 9 2 6"}, 8);
  const Json first = lines.back()["first"];
  EXPECT_EQ(first["point"], "mlp_in");
  EXPECT_EQ(first["layer"], 1);
  EXPECT_EQ(first["position"], 5);
  EXPECT_EQ(first["element"], 7);
  EXPECT_EQ(first["b"], "nan");
  EXPECT_EQ(lines.back()["ignored"], Json::array({"layer7.out.0"}));
  EXPECT_EQ(lines.back()["kl_mean"], nullptr);  // there are no logits

  const Arguments config = {"--config", At("a.ini")};
  ExpectErrorOf("ng-diff",
                NgDiff(config + Arguments{"--against-tensors", file, "--prompt-ids", "3 1 5"}), 2,
                {"its rows are of other tokens: at position 2 of prompt 0 it has id 4, the run "
                 "feeds 5"});
  ExpectErrorOf("ng-diff", NgDiff(config + Arguments{"--against-tensors", other}), 2,
                {"does not say which tokens", "give a prompt"});
  folder_.Write("cut.safetensors", ReadFile(file).substr(0, 3000));
  ExpectErrorOf("ng-diff", NgDiff(config + Arguments{"--against-tensors", At("cut.safetensors")}),
                3, {"cut.safetensors: "});
  ASSERT_TRUE(WriteSafetensors(other, {{"layer0.q.0", {2, 5}, std::vector<float>(10)}}).ok());
  ExpectErrorOf("ng-diff", NgDiff(config + Arguments{"--against-tensors", other}), 3,
                {"tensor layer0.q.0 is [2, 5], the model's layer0.q is [tokens, 4, 8]"});
}

double RmsOf(std::span<const float> row) {
  double squares = 0.0;
  for (const float x : row) squares += static_cast<double>(x) * static_cast<double>(x);
  return std::sqrt(squares / static_cast<double>(row.size()));
}

TEST_F(Diff, ThePositionsHaveFiguresOfTheirOwn) {
  const Arguments run = {"--config", At("a.ini"), "--prompt-ids", "3 1 4 1 5 9 2 6",
                         "--run.max_new_tokens=1"};
  const std::vector<float> x = Points(run, At("a.safetensors")).at("layer1.out.0").data;
  const std::vector<float> y =
      Points(run + Arguments{"--model.weights=int8"}, At("b.safetensors")).at("layer1.out.0").data;
  const Arguments asked = {"--prompt-ids", "3 1 4 1 5 9 2 6", "--run.max_new_tokens=1", "--against",
                           "model.weights=int8"};
  const std::vector<Json> lines = Lines(asked + Arguments{"--by-position"}, 8);
  const auto is_it = [](const Json& line) { return line["point"] == "out" && line["layer"] == 1; };
  const Json line = *std::ranges::find_if(lines, is_it);
  std::vector<double> ratios;
  ASSERT_EQ(line["by_position"].size(), 8U);
  for (size_t row = 0; row < 8; ++row) {
    const std::span<const float> a = std::span(x).subspan(row * 32, 32);
    std::vector<float> apart(y.begin() + static_cast<int64_t>(row) * 32,
                             y.begin() + static_cast<int64_t>(row + 1) * 32);
    for (size_t i = 0; i < 32; ++i) apart[i] -= a[i];
    ratios.push_back(RmsOf(apart) / RmsOf(a));
    const Json& told = line["by_position"][row];
    EXPECT_EQ(told[0], 0);
    EXPECT_EQ(told[1], row);
    EXPECT_NEAR(told[2].get<double>(), ratios.back(), 1e-5);
  }
  std::ranges::sort(ratios);
  EXPECT_NEAR(line["median_rms_rel"].get<double>(), (ratios[3] + ratios[4]) / 2, 1e-5);

  const std::vector<Json> plain = Lines(asked, 8);
  EXPECT_FALSE(std::ranges::find_if(plain, is_it)->contains("by_position"));
  const Arguments text = Arguments{"--config", At("a.ini")} + asked;
  EXPECT_THAT(NgDiff(text + Arguments{"--top", "0"}).out, Not(HasSubstr("where it differs most")));
  ExpectErrorOf("ng-diff", NgDiff(text + Arguments{"--by-position"}), 2, {"--by-position is for"});
  ExpectErrorOf("ng-diff", NgDiff(text + Arguments{"--top=-1"}), 2,
                {"--top is -1; allowed: 0 or more"});
}

TEST_F(Diff, TakesAModelAndATextWithoutOptions) {
  const std::string demo = NG_SOURCE_DIR "/configs/demo";
  const Arguments against = {"--against", "cache.name=paged", "-n", "4"};
  const Result bare = NgDiff(Arguments{demo} + against + Arguments{"Who art thou?"});
  EXPECT_EQ(bare.exit_code, 0) << bare.err;
  const Result told = NgDiff(Arguments{demo} + against + Arguments{"--message", "Who art thou?"});
  EXPECT_EQ(bare.out, told.out);
  ExpectErrorOf("ng-diff",
                NgDiff(Arguments{demo} + against + Arguments{"text", "--prompt", "other"}), 2,
                {"no text without an option, as 'text'"});
}

// ---- text, other models, errors ----

TEST_F(Diff, TheTextSaysWhereAndHowMuch) {
  const Arguments demo = DemoTurn(4) + Arguments{"--sampler.chain=greedy"};
  const Result equal = NgDiff(demo + Arguments{"--against", "cache.name=paged"});
  EXPECT_EQ(equal.exit_code, 0) << equal.err;
  EXPECT_THAT(equal.out, HasSubstr("\nequal bits: "));
  EXPECT_THAT(equal.out, Not(HasSubstr("first difference")));
  const Result other =
      NgDiff(demo + Arguments{"--against", "cache.codec=int4", "--against", "model.weights=int8"});
  EXPECT_EQ(other.exit_code, 8) << other.err;
  EXPECT_EQ(other.err, "");
  EXPECT_THAT(other.out, StartsWith(absl::StrCat("A: ", Demo()[1],
                                                 "\nB: A with cache.codec=int4, "
                                                 "model.weights=int8\ndifferent: ")));
  for (const char* part :
       {"\nthe first difference: ", "position 0 '", " ulps\n", "\nlayer2.q  ",
        "in the residual stream (median): ", "\nwhere it differs most (rms/rms)\n  position ",
        "KL(A || B) for each token", "another most probable next token: behind ", "\n  together  ",
        "\n  remainder  "}) {
    EXPECT_THAT(other.out, HasSubstr(part));
  }
}

TEST_F(Diff, NamesPointsThatOneSideAloneHas) {
  WriteConfig("one_kv_head.ini", NG_TEST_DATA "/golden/llama/bf16_sharded");
  const Json verdict = Verdict({"--against-config", At("one_kv_head.ini")}, 8);
  const Json kv = Json::array({"layer0.k", "layer0.v", "layer1.k", "layer1.v"});
  EXPECT_EQ(verdict["only_a"], kv);
  EXPECT_EQ(verdict["only_b"], kv);
  EXPECT_EQ(verdict["first"]["point"], "embed");
  EXPECT_EQ(verdict["rows"], kFed * (kPoints - 4));
}

TEST_F(Diff, RefusesAnotherVocabulary) {
  for (const std::string model :
       {NG_TEST_DATA "/golden/qwen3/tiny", NG_SOURCE_DIR "/configs/demo"}) {
    WriteConfig("other.ini", model);
    ExpectErrorOf("ng-diff",
                  NgDiff({"--config", At("a.ini"), "--against-config", At("other.ini"),
                          "--prompt-ids", "1 2 3"}),
                  2, {"--against-config ", "its vocabulary has ", " ids, must have A's 97"});
  }
}

TEST_F(Diff, RefusesWhatItCannotCompare) {
  const Arguments a = {"--config", At("a.ini"), "--prompt-ids", "1 2 3"};
  const auto refuse = [&](const Arguments& more, int code, const std::vector<std::string>& parts) {
    ExpectErrorOf("ng-diff", NgDiff(a + more), code, parts);
  };
  refuse({}, 2, {"nothing to compare with; give --against"});
  refuse({"--against", "cache.codec"}, 2, {"'cache.codec' must be SECTION.KEY=VALUE"});
  refuse({"--against", "cache.codecs=int8"}, 2, {"--against: ", "cache.codecs", "cache.codec"});
  refuse({"--against", "cache.codec=int8", "--against", "cache.codec=f16"}, 2,
         {"cache.codec is given twice"});
  refuse({"--against", "cache.codec=int8", "--against-config", At("a.ini")}, 2,
         {"only one of --against, --against-config, --against-tensors may be given"});
  refuse({"--against-config", At("missing.ini")}, 2, {"--against-config ", "missing.ini"});
  refuse({"--against-tensors", At("missing.safetensors")}, 3, {"missing.safetensors"});
  refuse({"--against", "attention.name=flesh"}, 4, {"--against: ", "did you mean 'flash'?"});
  refuse({"--against", "cache.max_tokens=4"}, 5, {"--against: ", "= 7 > 4 cache tokens"});
  refuse({"--aginst", "x"}, 2, {"--against"});
  ExpectErrorOf("ng-diff", NgDiff({"--config", At("a.ini"), "--against", "run.threads=1"}), 2,
                {"nothing to run; give one of --prompt"});
  const Result full = Shell(
      "\"${NG%run}diff\" --config \"$1\" --prompt-ids '1 2' --against run.threads=2 > /dev/full",
      {At("a.ini")});
  ExpectErrorOf("ng-diff", full, 7, {"stdout"});
  EXPECT_THAT(NgDiff({"--version"}).out, StartsWith("ng-diff "));
  EXPECT_THAT(NgDiff({"--help"}).out, HasSubstr("--against-tensors"));
}

// In the middle of the two runs, whichever has its turn.
TEST_F(Diff, ASignalEndsBothSides) {
  TinyNiels model;
  model.max_positions = int64_t{1} << 20;
  model.WriteTo(folder_.path());
  const Result result = Shell(
      "exec timeout --foreground --preserve-status -s INT 0.5 \"${NG%run}diff\" "
      "\"--model.path=$1\" "
      "--prompt-ids '1 2 3' --run.max_new_tokens=100000 --run.threads=1 --against run.threads=2",
      {folder_.path()});
  EXPECT_EQ(result.exit_code, 130) << result.err;
  EXPECT_EQ(result.out, "");
}

}  // namespace
}  // namespace ng::test
