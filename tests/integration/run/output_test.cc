// What ng-run writes: completions as text and JSON lines, the steps file, saved tensors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "ng/utf8.h"
#include "tests/integration/run_support.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;

// A niels golden as a prompts file, and the arguments that reproduce it.
struct GoldenRun {
  explicit GoldenRun(const std::string& name)
      : dir(absl::StrCat(NG_TEST_DATA, "/golden/niels/", name)),
        info(Json::parse(ReadFile(dir + "/case.json"))) {
    std::string lines;
    for (const Json& prompt : info["prompts"]) {
      lines += Json{{"prompt_ids", prompt}, {"max_new_tokens", info["max_new_tokens"]}}.dump();
      lines += "\n";
    }
    arguments = {
        "--model.path=" + dir, "--sampler.chain=greedy",
        "--prompts",           temp.Write("prompts.jsonl", lines),
        "--output=jsonl",      absl::StrCat("--run.stop_ids=", info["eot_token_id"].get<int>())};
  }

  TempDir temp;
  std::string dir;
  Json info;
  Arguments arguments;
};

class GoldenOutput : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(GoldenOutput, SavesTheReferencesTensorsByNameAndShape) {
  const auto& [name, options] = GetParam();
  const GoldenRun golden(name);
  Arguments arguments = golden.arguments;
  std::istringstream words(options);
  for (std::string word; words >> word;) arguments.push_back(word);
  const std::string saved = golden.temp.File("saved.safetensors");
  const Result result = NgRun(arguments + Arguments{"--save", saved, "--save-tensors",
                                                    "logits,decode_logits,attn_row,attn_full"});
  ASSERT_EQ(result.exit_code, 0) << result.err;

  const std::vector<Json> lines = JsonLines(result.out);
  ASSERT_EQ(lines.size(), golden.info["prompts"].size());
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i]["index"], i);
    EXPECT_EQ(lines[i]["prompt_ids"], golden.info["prompts"][i]);
    EXPECT_EQ(lines[i]["ids"], golden.info["greedy_ids"][i]);
    EXPECT_TRUE(lines[i]["text"].is_null());
    EXPECT_EQ(lines[i]["stop_reason"],
              golden.info["stops_on_eot"].get<bool>() ? "eot" : "max_new_tokens");
  }
  const auto found = ReadTensors(saved);
  for (const auto& [tensor_name, expected] : ReadTensors(golden.dir + "/expected.safetensors")) {
    ASSERT_EQ(found.count(tensor_name), 1U) << tensor_name;
    const Tensor& tensor = found.at(tensor_name);
    EXPECT_EQ(tensor.shape, expected.shape) << tensor_name;
    const char* tolerance = tensor_name.rfind("attn", 0) == 0 ? "attn_max_abs" : "logits_max_abs";
    for (size_t i = 0; i < expected.data.size(); ++i) {
      ASSERT_NEAR(tensor.data[i], expected.data[i], golden.info["tolerance"][tolerance])
          << tensor_name << " element " << i;
    }
  }
}

std::string WayName(const ::testing::TestParamInfo<GoldenOutput::ParamType>& info) {
  static constexpr const char* kWays[] = {"flash", "reference", "uncached", "chunked"};
  return absl::StrCat(std::get<0>(info.param), "_", kWays[info.index % 4]);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, GoldenOutput,
    ::testing::Combine(::testing::Values("b1", "b3", "edge_tmax", "eot"),
                       ::testing::Values("--attention.name=flash", "--attention.name=reference",
                                         "--run.use_cache=false",
                                         "--run.prefill_chunk=3 --cache.max_sequences=2")),
    WayName);

TEST(SavedTensors, HoldPointsByNameOrPattern) {
  const TempDir temp;
  const std::string saved = temp.File("saved.safetensors");
  const Result result = NgRun(Demo() + Arguments{"--prompt-ids=5 6 7", "--run.max_new_tokens=3",
                                                 "--sampler.chain=greedy", "--save", saved,
                                                 "--save-tensors=layer1.q,layer*.out,logits"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto found = ReadTensors(saved);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : found) names.push_back(name);
  EXPECT_THAT(names, IsSupersetOf({"layer0.out.0", "layer1.out.0", "layer1.q.0", "logits.0"}));
  EXPECT_THAT(names, Not(Contains(HasSubstr("embed"))));
  EXPECT_THAT(found.at("layer1.q.0").shape, ElementsAre(5, 5, 32));  // tokens, heads, head_dim
  EXPECT_EQ(found.at("layer0.out.0").shape[0], 5);
  EXPECT_EQ(found.at("logits.0").shape[0], 3);

  // What was run is said beside the tensors.
  const Json metadata = ReadMetadata(saved);
  EXPECT_THAT(metadata["config"].get<std::string>(), HasSubstr("chain = greedy"));
  EXPECT_EQ(metadata["model"].get<std::string>().size(), 16U);
  const Json tokens = Json::parse(metadata["tokens.0"].get<std::string>());
  EXPECT_EQ(tokens["prompt_len"], 3);
  EXPECT_EQ(tokens["ids"].size(), 6U);
  EXPECT_EQ(tokens["text"].size(), 6U);
}

TEST(SavedTensors, AreTheSameBytesForTheSameBits) {
  const TempDir temp;
  std::vector<std::string> files;
  for (const char* use_cache : {"true", "false"}) {
    files.push_back(temp.File(use_cache));
    const Result result =
        NgRun(Demo() + Arguments{"--prompt-ids=5 6 7", "--run.max_new_tokens=3", "--save",
                                 files.back(), absl::StrCat("--run.use_cache=", use_cache)});
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  EXPECT_EQ(ReadFile(files[0]), ReadFile(files[1]));
}

TEST(SavedTensors, AreRefusedByTheNearestNameBeforeAnythingIsRead) {
  const TempDir temp;
  const Result result = NgRun(Demo() + Arguments{"--prompt-ids=5 6 7", "--save", temp.File("x"),
                                                 "--save-tensors=layer0.quu"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("'layer0.quu' is no point of this model; the nearest is "
                                    "layer0.q;"));
}

TEST(SavedTensors, HoldOnlyTheTracedLayersAndHeads) {
  const GoldenRun golden("b3");
  const std::string saved = golden.temp.File("saved.safetensors");
  const Result result =
      NgRun(golden.arguments + Arguments{"--save", saved, "--trace-layer=1", "--trace-heads=1",
                                         "--save-tensors=attn_row,attn_full"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto expected = ReadTensors(golden.dir + "/expected.safetensors");
  const auto found = ReadTensors(saved);
  // Per prompt: the full matrix, the prefill's row, a row for each of 9 decode steps.
  EXPECT_EQ(found.size(), 3U * (1 + 1 + 9));
  for (const auto& [name, tensor] : found) {
    EXPECT_THAT(name, HasSubstr(".layer1"));
    ASSERT_EQ(expected.count(name), 1U) << name;
    const Tensor& all_heads = expected.at(name);
    EXPECT_EQ(tensor.shape[0], 1) << name;
    const size_t size = all_heads.data.size() / static_cast<size_t>(all_heads.shape[0]);
    ASSERT_EQ(tensor.data.size(), size) << name;
    for (size_t i = 0; i < size; ++i) {
      ASSERT_NEAR(tensor.data[i], all_heads.data[size + i], 1e-5) << name;
    }
  }
}

TEST(JsonOutput, HasTheDocumentedFieldsInOrder) {
  const Result result = NgRun(DemoTurn(5) + Arguments{"--output=jsonl"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::vector<Json> lines = JsonLines(result.out);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(Keys(lines[0]),
              ElementsAre("index", "prompt_ids", "ids", "text", "stop_reason", "timings"));
  EXPECT_THAT(Keys(lines[0]["timings"]),
              ElementsAre("load_s", "prefill_s", "prefill_tokens", "decode_s", "decode_tokens"));
  EXPECT_EQ(lines[0]["timings"]["prefill_tokens"], lines[0]["prompt_ids"].size());
  EXPECT_EQ(lines[0]["timings"]["decode_tokens"], 4);
  EXPECT_EQ(lines[0]["ids"].size(), lines[0]["prompt_ids"].size() + 5);
}

TEST(JsonOutput, GivesThePromptBackForNoNewTokens) {
  const Arguments prompt = Demo() + Arguments{"--prompt-ids=4, 335 288", "--output=jsonl"};
  const Result result = NgRun(prompt + Arguments{"--run.max_new_tokens=0"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json line = JsonLines(result.out).at(0);
  EXPECT_EQ(line["ids"], Json({4, 335, 288}));
  EXPECT_EQ(line["text"], "");
  EXPECT_EQ(line["stop_reason"], "max_new_tokens");
  ExpectError(NgRun(prompt + Arguments{"--run.max_new_tokens=-9223372036854775808"}), 2,
              {"run.max_new_tokens = -9223372036854775808, must be 0 or more"});
}

TEST(TextOutput, IsTheJsonTextAndNothingElse) {
  const Arguments turn = DemoTurn(40);
  const Result text = NgRun(turn);
  const Result json = NgRun(turn + Arguments{"--output=jsonl"});
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_EQ(text.out, JsonLines(json.out).at(0)["text"].get<std::string>() + "\n");
  EXPECT_THAT(text.err, AllOf(StartsWith("seed 1, "), HasSubstr(" tok/s"), EndsWith("\n")));
}

// Random bytes of a two-byte and a four-byte character, most of them in no valid order.
TEST(TextOutput, IsValidUtf8WhateverBytesAreDrawn) {
  constexpr int kFirstByteId = 7;
  const std::vector<int> bytes = {0xC3, 0xA9, 0xF0, 0x9F, 0x98, 0x80};
  std::string banned;
  for (int id = 0; id < 1024; ++id) {
    if (std::find(bytes.begin(), bytes.end(), id - kFirstByteId) == bytes.end()) {
      absl::StrAppend(&banned, banned.empty() ? "" : ",", id);
    }
  }
  const Arguments arguments = DemoTurn(120) + Arguments{"--sampler.chain=banned_tokens,temperature",
                                                        "--sampler.banned_tokens.ids=" + banned,
                                                        "--sampler.temperature.value=100"};
  const Result text = NgRun(arguments);
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_EQ(FindInvalidUtf8(text.out), std::nullopt);
  EXPECT_THAT(text.out, AllOf(HasSubstr("\xC3\xA9"), HasSubstr("\xEF\xBF\xBD")));
  const Result json = NgRun(arguments + Arguments{"--output=jsonl"});
  EXPECT_EQ(text.out, JsonLines(json.out).at(0)["text"].get<std::string>() + "\n");
}

TEST(Steps, HaveTheDocumentedFieldsAndTheLogitsNumbers) {
  const TempDir temp;
  const std::string saved = temp.File("saved.safetensors");
  const std::string steps_file = temp.File("steps.jsonl");
  const Result result =
      NgRun(DemoTurn(6) + Arguments{"--steps", steps_file, "--save", saved, "--output=jsonl"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json line = JsonLines(result.out).at(0);
  const std::vector<Json> steps = JsonLines(ReadFile(steps_file));
  ASSERT_EQ(steps.size(), 6U);
  const Tensor logits = ReadTensors(saved).at("decode_logits.0");
  ASSERT_EQ(logits.shape, (std::vector<int64_t>{6, 1024}));
  for (size_t s = 0; s < steps.size(); ++s) {
    const Json& step = steps[s];
    EXPECT_THAT(Keys(step), ElementsAre("index", "step", "token_id", "text", "logprob", "entropy",
                                        "top_k", "top_k_text"));
    EXPECT_EQ(step["index"], 0);
    EXPECT_EQ(step["step"], s);
    EXPECT_EQ(step["token_id"], line["ids"][line["prompt_ids"].size() + s]);
    const std::vector<double> row(logits.data.begin() + static_cast<int64_t>(s) * 1024,
                                  logits.data.begin() + static_cast<int64_t>(s + 1) * 1024);
    const double highest = *std::max_element(row.begin(), row.end());
    double sum = 0.0;
    for (const double x : row) sum += std::exp(x - highest);
    double entropy = 0.0;
    for (const double x : row) {
      const double log_p = x - highest - std::log(sum);
      entropy -= std::exp(log_p) * log_p;
    }
    EXPECT_NEAR(step["logprob"], row[step["token_id"]] - highest - std::log(sum), 1e-9);
    EXPECT_NEAR(step["entropy"], entropy, 1e-9);
    ASSERT_EQ(step["top_k"].size(), 10U);
    EXPECT_NEAR(step["top_k"][0][1], 1.0 / sum, 1e-6);
    for (size_t i = 1; i < 10; ++i) EXPECT_LE(step["top_k"][i][1], step["top_k"][i - 1][1]);
    ASSERT_EQ(step["top_k_text"].size(), 10U);
  }
}

// The stages' candidates and the tokens' texts; and that nothing is chosen otherwise for it.
TEST(Steps, ShowWhatEachStageLeft) {
  const TempDir temp;
  const Arguments run =
      DemoTurn(8) + Arguments{"--sampler.chain=temperature,top_k,greedy", "--output=jsonl"};
  const std::string file = temp.File("steps.jsonl");
  const Result result = NgRun(run + Arguments{"--steps", file, "--steps-stages"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(JsonLines(result.out).at(0)["ids"], JsonLines(NgRun(run).out).at(0)["ids"]);
  bool blank = false;
  for (const Json& step : JsonLines(ReadFile(file))) {
    const Json& stages = step["stages"];
    ASSERT_EQ(stages.size(), 3U);
    for (const Json& stage : stages) {
      EXPECT_THAT(Keys(stage), ElementsAre("name", "left", "top", "top_text"));
    }
    EXPECT_EQ(stages[0]["name"], "temperature");
    EXPECT_EQ(stages[0]["left"], 1024);
    EXPECT_EQ(stages[1]["name"], "top_k");
    EXPECT_EQ(stages[1]["left"], 50);
    EXPECT_EQ(stages[1]["top_text"], step["top_k_text"]) << "the order stays";
    EXPECT_EQ(stages[2]["top"], Json::array({Json::array({step["token_id"], 1.0})}));
    for (const Json& text : step["top_k_text"]) {
      EXPECT_THAT(text.get<std::string>(), Not(HasSubstr(" ")));
      blank |= text.get<std::string>().find("\xE2\x90\xA3") != std::string::npos;
    }
  }
  EXPECT_TRUE(blank) << "a blank can be seen";
  ExpectError(NgRun(run + Arguments{"--steps-stages"}), 2, {"--steps-stages needs --steps"});
}

TEST(Steps, CarryRowsOfTheTracedLayersThatDoNotChangeTheAnswer) {
  const TempDir temp;
  const std::string one = temp.File("one.jsonl");
  const std::string two = temp.File("two.jsonl");
  const Result plain = NgRun(DemoTurn(3));
  const Result traced = NgRun(DemoTurn(3) + Arguments{"--steps", one, "--trace-layer=4"});
  const Result both = NgRun(DemoTurn(3) + Arguments{"--steps", two, "--trace-layer=4,0"});
  EXPECT_EQ(traced.out, plain.out);
  EXPECT_EQ(both.out, plain.out);
  const std::vector<Json> last = JsonLines(ReadFile(one));
  const std::vector<Json> first_and_last = JsonLines(ReadFile(two));
  ASSERT_EQ(last.size(), 3U);
  ASSERT_EQ(first_and_last.size(), 3U);
  for (size_t s = 0; s < 3; ++s) {
    EXPECT_EQ(last[s].count("attn_rows"), 0U);
    const Json& heads = last[s]["attn_row"];
    ASSERT_EQ(heads.size(), 5U);
    for (const Json& row : heads) {
      EXPECT_EQ(row.size(), 8 + s);  // 8 prompt tokens
      const auto probs = row.get<std::vector<double>>();
      EXPECT_NEAR(std::accumulate(probs.begin(), probs.end(), 0.0), 1.0, 1e-5);
    }
    EXPECT_EQ(first_and_last[s]["attn_rows"]["4"], heads);
    EXPECT_EQ(first_and_last[s]["attn_rows"]["0"], first_and_last[s]["attn_row"]);
  }
}

TEST(TypedSpecials, AreTextUnlessAskedFor) {
  const std::string eot = "<|ngpt_eot_84a5023f67d74cf29cc4001becde983c|>";
  const auto ids = [&](const Arguments& prompt) {
    const Result result =
        NgRun(Demo() + prompt + Arguments{"--run.max_new_tokens=0", "--output=jsonl"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return JsonLines(result.out).at(0)["ids"].get<std::vector<int>>();
  };
  const auto specials = [](const std::vector<int>& all) {
    return std::count_if(all.begin(), all.end(), [](int id) { return id >= 3 && id <= 6; });
  };
  EXPECT_EQ(specials(ids({"--prompt=a" + eot + "b"})), 0);
  EXPECT_EQ(specials(ids({"--message=" + eot})), 3);  // the template's own: usr, eot, asst
  EXPECT_THAT(ids({"--prompt=a" + eot + "b", "--parse-special"}), ::testing::Contains(6));
}

TEST(Prompts, OfEveryKindGiveTheSameAnswer) {
  const TempDir temp;
  const Arguments tail = {"--run.max_new_tokens=4", "--output=jsonl"};
  const Json ids = JsonLines(NgRun(Demo() + Arguments{"--prompt=To be"} + tail).out).at(0)["ids"];
  std::string prompt_ids;
  for (size_t i = 0; i + 4 < ids.size(); ++i) absl::StrAppend(&prompt_ids, ids[i].get<int>(), " ");
  for (const Arguments& prompt :
       {Arguments{"--prompt-file", temp.Write("a.txt", "To be")},
        Arguments{"--prompt-ids", prompt_ids},
        Arguments{"--prompts", temp.Write("a.jsonl", "{\"prompt\": \"To be\"}\n")},
        Arguments{"--prompts",
                  temp.Write("b.jsonl", "{\"prompt_ids\": [" +
                                            prompt_ids.substr(0, prompt_ids.find(' ')) +
                                            "]}\n{\"prompt\": \"To be\"}")}}) {
    const Result result = NgRun(Demo() + prompt + tail);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    if (JsonLines(result.out).size() == 1) {
      EXPECT_EQ(JsonLines(result.out)[0]["ids"], ids);
    } else {
      EXPECT_EQ(JsonLines(result.out).at(1)["prompt_ids"].size(), ids.size() - 4);
    }
  }
}

TEST(PrintConfig, RunAgainGivesTheSameConfigAndAnswer) {
  const TempDir temp;
  const Arguments changed = {"--sampler.seed=7", "--run.system=Be \"brief\" # now",
                             "--sampler.chain=repetition_penalty,top_p", "--sampler.top_p.p=0.8",
                             "--run.stop_ids=1,2"};
  const Result printed = NgRun(Demo() + changed + Arguments{"--print-config"});
  ASSERT_EQ(printed.exit_code, 0) << printed.err;
  const std::string copy = temp.Write("copy.ini", printed.out);
  EXPECT_EQ(NgRun({"--config", copy, "--print-config"}).out, printed.out);
  const Arguments turn = {"--message=Hello", "--run.max_new_tokens=12"};
  const Result first = NgRun(Demo() + changed + turn);
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(NgRun(Arguments{"--config", copy} + turn).out, first.out);
}

TEST(DryRun, ShowsOriginsPluginsTensorsAndBytesAndReadsNoWeights) {
  const TempDir temp;
  const TinyNiels model;
  model.WriteTo(temp.path(), [](auto& tensors) { tensors[1].data[0] = NAN; });
  const std::string ini = temp.Write(
      "run.ini", "[model]\npath = .\n[attention]\nname = reference\n[run]\nmax_new_tokens = 9\n");
  const Arguments dry = {"--config", ini, "--dry-run", "--cache.codec=bf16"};
  const Result result = NgRun(dry + Arguments{"-v"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const std::string& part :
       {"model.path = " + temp.path(), "(" + ini + ":2)",
        "attention.name = reference  (" + ini + ":4)",
        std::string("cache.codec = bf16  (command line)"),
        std::string("sampler.seed = 1  (default)"), std::string("'reference' 1.0.0 (/"),
        std::string("ng_sampler_top_k.so)"), std::string("blocks.1.mlp.fc_out.bias F32 [24]"),
        std::string("needed "), std::string("available ")}) {
    EXPECT_THAT(result.out, HasSubstr(part));
  }
  EXPECT_EQ(result.err, "");
  const std::string screen = NgRun(dry + Arguments{"--serve.port=81"}).out;
  EXPECT_THAT(screen, HasSubstr(" used, all of the expected shapes, 0 unused; -v lists them\n"));
  EXPECT_THAT(screen, Not(HasSubstr("blocks.1.mlp.fc_out.bias")));
  EXPECT_THAT(screen, HasSubstr("cache.codec = bf16  (command line)"));
  // What is ng-serve's shows where it is set.
  EXPECT_THAT(screen, HasSubstr("serve.port = 81  (command line)"));
  EXPECT_THAT(screen, Not(HasSubstr("serve.host")));
  EXPECT_THAT(result.out, HasSubstr("serve.host"));
}

TEST(CacheCodec, Int4MeansInt8KeysAndSaysSo) {
  for (const auto& [given, keys, values] :
       {std::tuple{Arguments{"--cache.codec=int4"}, "int8", "int4"},
        {Arguments{"--cache.codec=int4", "--cache.codec_k=int4"}, "int4", "int4"},
        {Arguments{"--cache.codec=int4", "--cache.codec_v=bf16"}, "int8", "bf16"}}) {
    EXPECT_THAT(NgRun(Demo() + given + Arguments{"--print-config"}).out,
                HasSubstr(absl::StrCat("codec_k = ", keys, "\ncodec_v = ", values, "\n")));
    EXPECT_THAT(NgRun(Demo() + given + Arguments{"--dry-run"}).out,
                HasSubstr(absl::StrCat("keys ", keys, ", values ", values, "\n")));
  }
  EXPECT_THAT(NgRun(Demo() + Arguments{"--cache.codec=int8", "--print-config"}).out,
              HasSubstr("codec = int8\ncodec_k =\ncodec_v =\n"));
}

TEST(Information, NeedsNoConfig) {
  for (const auto& [option, part] : {std::pair{"--help=all", "sampler.top_k.k = 50"},
                                     {"--help", "ng-run MODEL [TEXT ...]"},
                                     {"--version", "ng-run "},
                                     {"--list-plugins", "attention reference "},
                                     {"--print-config", "[sampler]\nchain = "}}) {
    const Result result = NgRun({option});
    EXPECT_EQ(result.exit_code, 0) << option;
    EXPECT_THAT(result.out, HasSubstr(part));
    EXPECT_EQ(result.err, "") << option;
  }
}

TEST(Program, RunsThroughALinkFromAnotherDirectoryWithoutEnvironment) {
  const TempDir temp;
  const Result result = Shell(
      "cd \"$1\" && ln -s \"$NG\" linked && exec env -i ./linked --config \"$2\" "
      "--prompt-ids 4 --run.max_new_tokens=2",
      {temp.path(), Demo()[1]});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out, "");
}

TEST(Program, AnswersAlikeOnEveryInstructionSetAndWithMoreThreadsThanCores) {
  const std::string answer = NgRun(DemoTurn(10)).out;
  EXPECT_EQ(NgRun(DemoTurn(10) + Arguments{"--run.isa=scalar"}).out, answer);
  const Result crowded =
      Shell("exec taskset -c 0 \"$NG\" \"$@\"", DemoTurn(10) + Arguments{"--run.threads=4"});
  EXPECT_EQ(crowded.out, answer);
  EXPECT_THAT(crowded.err, StartsWith("seed 1"));  // and no warning before it
  const Result forced = Shell("NG_ISA=scalar exec \"$NG\" --version");
  EXPECT_THAT(forced.out, HasSubstr("isa scalar"));
  EXPECT_THAT(forced.out, HasSubstr("\narithmetic portable 1\n"));
}

TEST(Program, SaysInWhichArithmeticItComputes) {
  const Arguments portable = Demo() + Arguments{"--dry-run", "--run.arithmetic=portable"};
  const Result plan = NgRun(portable);
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr(", arithmetic portable 1, threads "));
  EXPECT_THAT(plan.out, HasSubstr("run.arithmetic = portable"));
}

}  // namespace
}  // namespace ng::test
