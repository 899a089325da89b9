// --view and --trace: what the page says is what the run was, on models of several kinds, whatever
// bytes its tokens have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/run_support.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng::test {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kGoldenModels = std::string(NG_TEST_DATA) + "/golden/";

// The page's bytes as apps/view/README.md has them, and the error that the page must state.
constexpr double kLeast = 1e-6;
const double kStep = -std::log(kLeast) / 254;
double FromByte(uint8_t byte) { return byte == 0 ? 0.0 : kLeast * std::exp((byte - 1) * kStep); }
constexpr double kError = 0.028;

// A page as a browser reads it: what stands between a script's tags, whatever it is.
struct PageFile {
  explicit PageFile(const std::string& path) : html(ReadFile(path)) {
    json = Json::parse(Script("ng-run"));
  }
  std::string Script(const std::string& id) const {
    const size_t tag = html.find("<script id=\"" + id + "\"");
    EXPECT_NE(tag, html.npos) << id;
    if (tag == html.npos) return "null";
    const size_t begin = html.find('>', tag) + 1;
    return html.substr(begin, html.find("</script>", begin) - begin);
  }
  std::string Blob(const std::string& name) const {
    std::string bytes;
    EXPECT_TRUE(absl::Base64Unescape(Script("b-" + name), &bytes)) << name;
    return bytes;
  }
  // What the page shows of a pair of tokens.
  double At(int layer, int place, int64_t query, int64_t key, const std::string& run = "") const {
    const std::string bytes = Blob(absl::StrCat(run, "a-", layer, "-", place));
    return FromByte(
        static_cast<uint8_t>(bytes.at(static_cast<size_t>(query * (query + 1) / 2 + key))));
  }

  std::string html;
  Json json;
};

// Every probability of a layer as the page has it, against those of --save.
void ExpectAttention(const PageFile& page, const std::string& run, int layer, const Tensor& saved) {
  const auto n_heads = saved.shape[0];
  const auto n_ids = saved.shape[1];
  for (int64_t head = 0; head < n_heads; ++head) {
    const std::string bytes = page.Blob(absl::StrCat(run, "a-", layer, "-", head));
    ASSERT_EQ(std::ssize(bytes), n_ids * (n_ids + 1) / 2);
    size_t at = 0;
    for (int64_t query = 0; query < n_ids; ++query) {
      for (int64_t key = 0; key <= query; ++key) {
        const double p = saved.data[static_cast<size_t>((head * n_ids + query) * n_ids + key)];
        const double shown = FromByte(static_cast<uint8_t>(bytes[at++]));
        if (p < kLeast) {
          EXPECT_LE(shown, kLeast * (1 + kError));
        } else {
          EXPECT_NEAR(shown, p, p * kError) << layer << " " << query << " " << key;
        }
      }
    }
  }
}

TEST(View, ShowsTheRunAsItWas) {
  const TempDir temp;
  const Arguments turn = {"--message=Who art thou?", "--run.max_new_tokens=12"};
  const Result plain = NgRun(Demo() + turn + Arguments{"--output=jsonl"});
  const Result viewed = NgRun(
      Demo() + turn +
      Arguments{"--view", temp.File("view.html"), "--steps", temp.File("steps"), "--steps-stages",
                "--save", temp.File("saved"), "--save-tensors=attn_full", "--output=jsonl"});
  ASSERT_EQ(viewed.exit_code, 0) << viewed.err;
  const PageFile page(temp.File("view.html"));
  const Json& json = page.json;
  const Json line = JsonLines(viewed.out).at(0);
  EXPECT_EQ(JsonLines(plain.out).at(0)["ids"], line["ids"]);  // looking changes nothing
  EXPECT_EQ(json["ids"], line["ids"]);
  EXPECT_EQ(json["prompt_len"], line["prompt_ids"].size());
  EXPECT_EQ(json["run"]["stop_reason"], line["stop_reason"]);
  EXPECT_EQ(json["roles"][0], "special");
  EXPECT_EQ(json["roles"][1], "text");
  EXPECT_EQ(json["roles"].back(), "answer");
  EXPECT_EQ(json["cache"]["prefilled"], line["timings"]["prefill_tokens"]);
  EXPECT_EQ(json["cache"]["decoded"], line["timings"]["decode_tokens"]);

  const std::vector<Json> steps = JsonLines(ReadFile(temp.File("steps")));
  ASSERT_EQ(json["steps"].size(), steps.size());
  const auto same_top = [&](const Json& shown, const Json& expected) {
    ASSERT_EQ(shown.size(), expected.size());
    for (size_t i = 0; i < shown.size(); ++i) {
      EXPECT_EQ(shown[i][0], expected[i][0]);
      EXPECT_NEAR(shown[i][1].get<double>(), expected[i][1].get<double>(), 1e-5);
      EXPECT_TRUE(json["texts"].contains(absl::StrCat(shown[i][0].get<int>())));
    }
  };
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(json["steps"][i]["logprob"], steps[i]["logprob"]);
    EXPECT_EQ(json["steps"][i]["entropy"], steps[i]["entropy"]);
    same_top(json["steps"][i]["top"], steps[i]["top_k"]);
    // The lens behind the last layer is what the step had.
    same_top(json["lens"]["top"].back()[i], steps[i]["top_k"]);
  }
  EXPECT_EQ(json["steps"][0]["stages"].size(), 2u);  // temperature, top_k
  EXPECT_EQ(json["steps"][0]["stages"][1]["n"], 50);
  EXPECT_EQ(json["lens"]["layers"], Json({0, 1, 2, 3, 4}));
  EXPECT_EQ(json["lens"]["pos"][0], json["prompt_len"].get<int>() - 1);
  EXPECT_EQ(json["lens"]["pos"].size(), steps.size());

  const auto tensors = ReadTensors(temp.File("saved"));
  ASSERT_EQ(json["attention"]["layers"].size(), 5u);
  EXPECT_EQ(json["attention"]["T"], line["ids"].size());
  EXPECT_LT(json["attention"]["scale"]["error"], kError);
  for (int layer = 0; layer < 5; ++layer) {
    ExpectAttention(page, "", layer, tensors.at(absl::StrCat("attn_full.0.layer", layer)));
  }
}

TEST(View, SumsScoresAndThumbnailsAreThoseOfTheRows) {
  const TempDir temp;
  const Result run = NgRun(DemoTurn(4) + Arguments{"--view", temp.File("v"), "--save",
                                                   temp.File("s"), "--save-tensors=attn_full",
                                                   "--trace-layer=2", "--trace-heads=1,3"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const PageFile page(temp.File("v"));
  EXPECT_EQ(page.json["attention"]["layers"],
            Json::parse(R"([{"layer":2,"heads":2,"names":[1,3]}])"));
  const Tensor saved = ReadTensors(temp.File("s")).at("attn_full.0.layer2");
  ExpectAttention(page, "", 2, saved);
  const auto n = static_cast<size_t>(saved.shape[1]);
  const std::string edges = page.Blob("e-2");
  ASSERT_EQ(edges.size(), 2 * 2 * n * sizeof(float));
  std::vector<float> values(2 * 2 * n);
  std::memcpy(values.data(), edges.data(), edges.size());
  for (size_t head = 0; head < 2; ++head) {
    double first = 0.0;
    for (size_t query = 0; query < n; ++query) {
      double entropy = 0.0;
      for (size_t key = 0; key <= query; ++key) {
        const double p = saved.data[(head * n + query) * n + key];
        if (p > 0) entropy -= p * std::log(p);
        if (key == 0 && query > 0) first += p;
      }
      EXPECT_NEAR(values[2 * n + head * n + query], entropy, 1e-4);
    }
    double received = 0.0;
    for (size_t query = 0; query < n; ++query) received += saved.data[(head * n + query) * n + 1];
    EXPECT_NEAR(values[head * n + 1], received, 1e-4);
    const Json& scores = page.json["attention"]["scores"]["2"][head];
    EXPECT_NEAR(scores[1].get<double>(), first / static_cast<double>(n - 1), 1e-5);
  }
  EXPECT_EQ(page.Blob("t-2").size(), 2 * n * n);  // fewer than 32 tokens
}

TEST(View, TheBytesDoNotDependOnHowTheRunWasSplit) {
  const TempDir temp;
  const Arguments run = DemoTurn(6) + Arguments{"--view"};
  ASSERT_EQ(NgRun(run + Arguments{temp.File("a")}).exit_code, 0);
  ASSERT_EQ(NgRun(run + Arguments{temp.File("b"), "--run.use_cache=false"}).exit_code, 0);
  ASSERT_EQ(
      NgRun(run + Arguments{temp.File("c"), "--run.prefill_chunk=3", "--run.threads=1"}).exit_code,
      0);
  const PageFile a(temp.File("a"));
  for (const char* other : {"b", "c"}) {
    const PageFile b(temp.File(other));
    for (const char* name : {"a-0-0", "a-4-4", "t-1", "e-3"}) EXPECT_EQ(a.Blob(name), b.Blob(name));
    for (const char* key : {"ids", "steps", "lens", "attention", "texts"}) {
      EXPECT_EQ(a.json[key], b.json[key]) << key;
    }
  }
}

TEST(View, TheReplayCommandGivesTheSameRun) {
  const TempDir temp;
  const Arguments run = {"--message=Who art thou? It's me", "--sampler.seed=5",
                         "--sampler.chain=temperature,top_p", "--run.max_new_tokens=9",
                         "--output=jsonl"};
  const Result first = NgRun(Demo() + run + Arguments{"--view", temp.File("it's a page")});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  const PageFile page(temp.File("it's a page"));
  const std::string command = page.json["run"]["replay"];
  ASSERT_THAT(command, StartsWith("ng-run --config /"));
  const Result again = Shell("cd / && \"$NG\" " + command.substr(7) + " --output jsonl");
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(JsonLines(again.out).at(0)["ids"], JsonLines(first.out).at(0)["ids"]);
}

TEST(View, ASecondRunIsShownBesideTheFirst) {
  const TempDir temp;
  const Arguments turn = DemoTurn(6);
  const Result run = NgRun(turn + Arguments{"--view", temp.File("v"), "--against",
                                            "cache.codec=int4", "--against=run.threads=1"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const PageFile page(temp.File("v"));
  const Json& against = page.json["against"];
  EXPECT_EQ(against["name"], "cache.codec=int4, run.threads=1");
  EXPECT_EQ(against["summary"][0], Json({"cache.codec", "int4"}));
  ASSERT_EQ(against["kl"].size(), page.json["steps"].size());
  EXPECT_THAT(against["kl"].get<std::vector<double>>(), Each(Gt(0.0)));
  // The same by hand: all ids at once with the other codec.
  std::string ids;
  for (const Json& id : page.json["ids"]) absl::StrAppend(&ids, id.get<int>(), " ");
  const Result other =
      NgRun(Demo() + Arguments{"--prompt-ids", ids, "--run.max_new_tokens=1", "--cache.codec=int4",
                               "--save", temp.File("s"), "--save-tensors=attn_full,logits"});
  ASSERT_EQ(other.exit_code, 0) << other.err;
  auto tensors = ReadTensors(temp.File("s"));
  const auto n_ids = page.json["ids"].size();
  // It has a row more, of the token that it chose.
  Tensor saved = tensors.at("attn_full.0.layer4");
  Tensor ours{{saved.shape[0], static_cast<int64_t>(n_ids), static_cast<int64_t>(n_ids)}, {}};
  for (int64_t head = 0; head < saved.shape[0]; ++head) {
    for (size_t query = 0; query < n_ids; ++query) {
      const auto* row = saved.data.data() + (static_cast<size_t>(head * saved.shape[1]) + query) *
                                                static_cast<size_t>(saved.shape[1]);
      ours.data.insert(ours.data.end(), row, row + n_ids);
    }
  }
  ExpectAttention(page, "x-", 4, ours);
  const Tensor& logits = tensors.at("logits.0");
  const auto vocab_size = static_cast<size_t>(logits.shape[1]);
  const int prompt_len = page.json["prompt_len"];
  for (size_t step = 0; step < against["top"].size(); ++step) {
    const float* row =
        logits.data.data() + (static_cast<size_t>(prompt_len) - 1 + step) * vocab_size;
    const auto best = std::max_element(row, row + vocab_size) - row;
    EXPECT_EQ(against["top"][step][0][0], best);
  }
}

TEST(View, EqualRunsDifferInNothing) {
  const TempDir temp;
  const Result run = NgRun(DemoTurn(5) + Arguments{"--view", temp.File("v"), "--against",
                                                   "cache.name=paged", "--trace-layer=1"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const PageFile page(temp.File("v"));
  EXPECT_THAT(page.json["against"]["kl"].get<std::vector<double>>(), Each(0.0));
  EXPECT_EQ(page.Blob("a-1-2"), page.Blob("x-a-1-2"));
}

// Of models in which layers attend to a window, or not at all, or that have no position for the
// last token.
TEST(View, ShowsOtherKindsOfModels) {
  const TempDir temp;
  const auto view = [&](const std::string& model, const std::string& name) {
    const Result run = NgRun(Greedy(kGoldenModels + model, "1 2 3 4 5 6 7 8 9 10", 4) +
                             Arguments{"--run.stop_ids=", "--view", temp.File(name), "--save",
                                       temp.File("s"), "--save-tensors=attn_full"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return PageFile(temp.File(name));
  };
  const PageFile window = view("gemma2/tiny", "window");
  EXPECT_EQ(window.json["attention"]["layers"].size(), 3u);
  for (int layer = 0; layer < 3; ++layer) {
    ExpectAttention(window, "", layer,
                    ReadTensors(temp.File("s")).at(absl::StrCat("attn_full.0.layer", layer)));
  }
  EXPECT_EQ(window.At(0, 0, 12, 0), 0.0);     // beyond the window of 6
  EXPECT_EQ(window.json["texts"]["7"], "7");  // without a tokenizer
  const PageFile hybrid = view("lfm2/tiny", "hybrid");
  EXPECT_EQ(hybrid.json["attention"]["layers"], Json::parse(R"([{"layer":1,"heads":2}])"));
  EXPECT_EQ(hybrid.json["lens"]["layers"], Json({0, 1, 2}));
  const PageFile postln = view("postln/max_new_0", "postln");
  EXPECT_EQ(postln.json["attention"]["T"], 14);
}

TEST(View, TheLastTokenMayHaveNoPosition) {
  const TempDir temp;
  const Result run = NgRun(Greedy(kGoldenModels + "postln/max_new_0", "1 2 3", 14) +
                           Arguments{"--view", temp.File("v"), "--against=run.threads=1"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const PageFile page(temp.File("v"));
  EXPECT_EQ(page.json["ids"].size(), 17u);
  EXPECT_EQ(page.json["attention"]["T"], 16);
  EXPECT_EQ(page.json["against"]["attention"]["T"], 16);
  EXPECT_THAT(page.json["against"]["kl"].get<std::vector<double>>(), Each(0.0));
}

// A model of byte tokens, which say anything.
TEST(View, EveryByteOfATokenIsHarmless) {
  const TempDir temp;
  TinyNiels model;
  model.vocab_size = 1024;
  model.max_positions = 256;
  model.WriteTo(temp.path());
  fs::copy(std::string(NG_TEST_DATA) + "/tokenizers/bbpe_llama3/tokenizer.json",
           temp.File("tokenizer.json"));
  const std::string prompt =
      "</script><!-- <b>\xD7\xA9\xD7\x9C\xD7\x95\xD7\x9D \xE2\x80\xAE \xE2\x80\xA8 \x01 "
      "\xF0\x9F\x99\x82 ]]> &lt;";
  const Result run = NgRun({"--model.path=" + temp.path(), "--run.max_new_tokens=40", "--prompt",
                            prompt, "--view", temp.File("v")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const PageFile page(temp.File("v"));
  std::string text;
  const int prompt_len = page.json["prompt_len"];
  for (int i = 0; i < prompt_len; ++i) {
    text += page.json["texts"][absl::StrCat(page.json["ids"][static_cast<size_t>(i)].get<int>())];
  }
  EXPECT_THAT(text, AllOf(HasSubstr("</script><!--"), HasSubstr("]]>")));
  // Within the script there is nothing that ends it, and nothing but ASCII.
  EXPECT_THAT(page.Script("ng-run"), AllOf(Not(HasSubstr("<")), Each(::testing::Lt('\x7F'))));
  size_t n_open = 0;
  size_t n_closed = 0;
  for (size_t at = 0; (at = page.html.find("<script", at)) != page.html.npos; ++at) ++n_open;
  for (size_t at = 0; (at = page.html.find("</script>", at)) != page.html.npos; ++at) ++n_closed;
  EXPECT_EQ(n_open, n_closed);
}

TEST(View, LeavesOutLayersThatMakeThePageTooLarge) {
  const TempDir temp;
  TinyNiels model;
  model.max_positions = 2048;
  model.n_layers = 3;
  model.WriteTo(temp.path());
  std::string ids;
  for (int i = 0; i < 900; ++i) absl::StrAppend(&ids, i % 61, " ");
  // Three layers of three heads at 901 tokens: 5 MB.
  const Arguments view = Greedy(temp.path(), ids, 1) + Arguments{"--view", temp.File("v")};
  const Arguments run = view + Arguments{"--view-limit=4"};
  const Result left_out = NgRun(run);
  ASSERT_EQ(left_out.exit_code, 0) << left_out.err;
  EXPECT_THAT(left_out.err,
              HasSubstr("ng-run: warning: the attention of 3 layers at 901 tokens takes "));
  EXPECT_THAT(left_out.err, HasSubstr("--view-limit is 4 MB: layers 2 are left out"));
  const PageFile page(temp.File("v"));
  EXPECT_EQ(page.json["attention"]["layers"].size(), 2u);
  EXPECT_EQ(page.json["attention"]["left_out"], Json({2}));
  EXPECT_THAT(page.json["attention"]["why"].get<std::string>(), HasSubstr("--view-limit"));
  EXPECT_LT(fs::file_size(temp.File("v")), 4'500'000u);
  // What is named is shown or refused.
  ExpectError(NgRun(run + Arguments{"--trace-layer=0,1,2"}), 5,
              {"takes 5 MB", "--view-limit is 4 MB", "name at most 2 layers"});
  ExpectError(NgRun(view + Arguments{"--view-limit=1"}), 5,
              {"--view-limit is 1 MB", "raise it to at least 2 for one layer"});
  const Result named = NgRun(run + Arguments{"--trace-layer=1,2"});
  EXPECT_EQ(PageFile(temp.File("v")).json["attention"]["left_out"], Json::array()) << named.err;
}

TEST(View, InTheTerminalItIsAMapBehindTheAnswer) {
  const Result plain = NgRun(DemoTurn(5));
  const Result map =
      NgRun(DemoTurn(5) + Arguments{"--view", "-", "--trace-layer=2", "--trace-heads=1"});
  ASSERT_EQ(map.exit_code, 0) << map.err;
  ASSERT_THAT(map.out, StartsWith(plain.out));
  std::istringstream lines(map.out.substr(plain.out.size()));
  std::string line;
  std::getline(lines, line);
  EXPECT_THAT(line, StartsWith("layer 2 head 1: entropy "));
  std::getline(lines, line);
  EXPECT_THAT(line, HasSubstr("queries down, keys across"));
  std::vector<std::string> rows;
  while (std::getline(lines, line)) rows.push_back(line);
  ASSERT_EQ(rows.size(), 13u);
  EXPECT_THAT(rows[0], StartsWith("@             0 "));  // a token looks at itself alone
  EXPECT_THAT(map.out, Not(HasSubstr("\x1b")));          // no terminal
}

TEST(View, AnInterruptedRunHasAPage) {
  const TempDir temp;
  TinyNiels model;
  model.max_positions = int64_t{1} << 16;
  model.WriteTo(temp.path());
  Command command;
  command.program = "ng-run";
  command.arguments =
      Greedy(temp.path(), "1 2 3", 20000) +
      Arguments{"--debug-cache", "--view", temp.File("v"), "--trace-layer=0", "--output=jsonl"};
  command.signal = SIGINT;
  command.signal_after = 4000;
  const Result result = test::Run(command);
  EXPECT_EQ(result.exit_code, 130);
  const PageFile page(temp.File("v"));
  EXPECT_EQ(page.json["run"]["stop_reason"], "interrupted");
  EXPECT_EQ(page.json["ids"], JsonLines(result.out).at(0)["ids"]);
  EXPECT_GT(page.json["steps"].size(), 3u);
  EXPECT_GT(page.json["attention"]["T"], 5);
}

TEST(Trace, WritesAFolder) {
  const TempDir temp;
  const std::string folder = temp.File("new/trace");
  const Result run = NgRun(DemoTurn(4) + Arguments{"--trace", folder});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(FilesIn(folder),
              ElementsAre("attention.html", "metadata.json", "steps.jsonl", "tensors.safetensors"));
  const PageFile page(folder + "/attention.html");
  const auto tensors = ReadTensors(folder + "/tensors.safetensors");
  EXPECT_EQ(tensors.size(), 5u);
  ExpectAttention(page, "", 3, tensors.at("attn_full.0.layer3"));
  EXPECT_EQ(JsonLines(ReadFile(folder + "/steps.jsonl")).size(), page.json["steps"].size());
  const Json metadata = Json::parse(ReadFile(folder + "/metadata.json"));
  for (const char* key : {"run", "texts", "ids", "prompt_len", "roles", "cache"}) {
    EXPECT_EQ(metadata[key], page.json[key]) << key;
  }
  // Again, over what is there.
  EXPECT_EQ(NgRun(DemoTurn(2) + Arguments{"--trace", folder}).exit_code, 0);
}

TEST(View, WhatCannotBeShownIsRefused) {
  const TempDir temp;
  const std::string page = temp.File("v");
  const auto refused = [&](const Arguments& arguments, int exit_code,
                           const std::vector<std::string>& parts) {
    const Result result = NgRun(DemoTurn(2) + arguments);
    ExpectError(result, exit_code, parts);
    EXPECT_EQ(result.out, "");
  };
  refused({"--view", page, "--against", "cache.codecs=int8"}, 2, {"--against: ", "cache.codec"});
  refused({"--view", page, "--against", "int8"}, 2, {"--against int8: must be SECTION.KEY=VALUE"});
  refused({"--view", page, "--against=model.path=" + kGoldenModels + "gemma2/tiny"}, 2,
          {"--against: "});
  refused({"--view", page, "--against=cache.codec=int8", "--probe.chain=capture",
           "--probe.capture.file=" + temp.File("probed")},
          2, {"--against: ", "probed", "--against probe.chain="});
  refused({"--against=cache.codec=int8"}, 2, {"--against needs --view FILE.html"});
  refused({"--view=-", "--against=cache.codec=int8"}, 2, {"--against needs --view FILE.html"});
  refused({"--view-limit=9"}, 2, {"--view-limit needs --view FILE.html"});
  refused({"--view", page, "--view-limit=0"}, 2, {"--view-limit", "[1, 1000000]"});
  refused({"--view=-", "--output=jsonl"}, 2, {"--view -", "--output jsonl"});
  refused({"--trace", temp.File("t"), "--steps", page}, 2, {"--steps does not go with --trace"});
  refused({"--view", page, "--save", page}, 2, {"--view", "--save"});
  refused({"--view", temp.File("no/such/folder")}, 7, {"no/such/folder: no such folder"});
  refused({"--trace", temp.Write("file", "x")}, 7, {"--trace", "file"});
  ExpectError(NgRun(Demo() + Arguments{"--chat", "--view", page}), 2,
              {"--view does not go with --chat"});
  ExpectError(
      NgRun(Demo() + Arguments{"--view", page, "--prompts",
                               temp.Write("p", "{\"prompt\":\"a\"}\n{\"prompt\":\"b\"}\n")}),
      2, {"--view shows one prompt, 2 are given"});
  ExpectError(NgRun(DemoTurn(2) + Arguments{"--view", page, "--load-cache", page}), 2,
              {"--view does not go with --load-cache"});
  const Result full = NgRun(DemoTurn(2) + Arguments{"--view=/dev/full"});
  ExpectError(full, 7, {"/dev/full"});
  EXPECT_FALSE(fs::exists(page));
}

}  // namespace
}  // namespace ng::test
