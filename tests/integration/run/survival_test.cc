// When tokens left the cache, as --save and --view say it: what --kept said, step after step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/run_support.h"
#include "tests/support/temp_dir.h"

namespace ng::test {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;

const Arguments kTokensLeave = {"--cache.name=budget",      "--cache.budget.policy=keydiff",
                                "--cache.budget.tokens=24", "--cache.budget.recent=8",
                                "--cache.budget.every=16",  "--run.stop_ids="};

// Of the lines of --kept of one prompt: [layer, kv head] -> when each of n tokens left, or -1.
std::map<std::pair<int, int>, std::vector<float>> LeftOf(const std::vector<Json>& lines, int index,
                                                         size_t n) {
  std::map<std::pair<int, int>, std::vector<float>> left;
  for (const Json& line : lines) {
    if (line["index"] != index) continue;
    std::vector<float>& of = left[{line["layer"], line["kv_head"]}];
    of.resize(n, -1.0F);
    const int length = line["length"];
    const std::vector<int> held = line["held"];
    for (int position = 0; position < length; ++position) {
      float& at = of[static_cast<size_t>(position)];
      if (!std::ranges::binary_search(held, position) && at < 0) at = static_cast<float>(length);
    }
  }
  return left;
}

std::string Script(const std::string& html, const std::string& id) {
  const size_t tag = html.find("<script id=\"" + id + "\"");
  if (tag == html.npos) return "";
  const size_t begin = html.find('>', tag) + 1;
  return html.substr(begin, html.find("</script>", begin) - begin);
}

TEST(Survival, IsSavedAndShownAsTheTokensLeft) {
  const TempDir temp;
  const Result run = NgRun(DemoTurn(90) + kTokensLeave +
                           Arguments{"--kept", temp.File("kept"), "--save", temp.File("saved"),
                                     "--view", temp.File("view"), "--output=jsonl"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto n_tokens = JsonLines(run.out).at(0)["ids"].size();
  const auto left = LeftOf(JsonLines(ReadFile(temp.File("kept"))), 0, n_tokens);
  ASSERT_FALSE(left.empty());
  const auto tensors = ReadTensors(temp.File("saved"));
  ASSERT_THAT(tensors, Contains(Key("dropped_at.0")));
  EXPECT_THAT(tensors, Contains(Key("decode_logits.0")));
  const Tensor& saved = tensors.at("dropped_at.0");
  ASSERT_EQ(saved.shape.size(), 3U);
  EXPECT_EQ(saved.shape[0] * saved.shape[1], std::ssize(left));
  EXPECT_EQ(saved.shape[2], std::ssize(left.begin()->second));
  for (const auto& [at, wanted] : left) {
    const int64_t row = at.first * saved.shape[1] + at.second;
    const auto begin = saved.data.begin() + row * saved.shape[2];
    EXPECT_EQ(std::vector<float>(begin, begin + saved.shape[2]), wanted);
    EXPECT_EQ(wanted[0], -1.0F);      // a sink
    EXPECT_EQ(wanted.back(), -1.0F);  // the newest
    EXPECT_GT(std::ranges::count(wanted, -1.0F), 23);
  }

  const std::string html = ReadFile(temp.File("view"));
  const Json shown = Json::parse(Script(html, "ng-run"))["survival"];
  EXPECT_EQ(shown, Json({{"layers", saved.shape[0]}, {"heads", saved.shape[1]}, {"T", n_tokens}}));
  std::string bytes;
  ASSERT_TRUE(absl::Base64Unescape(Script(html, "b-left"), &bytes));
  std::vector<int32_t> of_page(bytes.size() / sizeof(int32_t));
  std::memcpy(of_page.data(), bytes.data(), bytes.size());
  EXPECT_EQ(std::vector<float>(of_page.begin(), of_page.end()), saved.data);
}

TEST(Survival, DoesNotDependOnHowTheRunWasSplit) {
  const TempDir temp;
  const std::string prompts =
      temp.Write("p",
                 "{\"prompt\":\"To be, or not to be, that is the question: Whether it is\"}\n"
                 "{\"prompt\":\"Who art thou?\"}\n");
  const auto saved_by = [&](const Arguments& more) {
    const Result run =
        NgRun(Demo() + kTokensLeave +
              Arguments{"--prompts", prompts, "-n", "60", "--save-tensors=dropped_at", "--save",
                        temp.File("s"), "--kept", temp.File("k")} +
              more);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    std::vector<std::vector<float>> saved;
    for (const auto& [name, tensor] : ReadTensors(temp.File("s"))) saved.push_back(tensor.data);
    return std::pair(saved, JsonLines(ReadFile(temp.File("k"))));
  };
  const auto [whole, kept] = saved_by({});
  for (const Arguments& other : {Arguments{"--run.prefill_chunk=5", "--cache.max_sequences=1"},
                                 {"--run.use_cache=false"},
                                 {"--drafter.name=ngram"}}) {
    EXPECT_TRUE(saved_by(other).first == whole) << other.front();
  }
  const auto tensors = ReadTensors(temp.File("s"));
  ASSERT_EQ(tensors.size(), 2U);
  for (const int index : {0, 1}) {
    const Tensor& saved = tensors.at(absl::StrCat("dropped_at.", index));
    const auto left = LeftOf(kept, index, static_cast<size_t>(saved.shape[2]));
    std::vector<float> all;
    for (const auto& [at, of] : left) all.insert(all.end(), of.begin(), of.end());
    EXPECT_EQ(all, saved.data);
  }
}

TEST(Survival, IsLeftOutWhereNothingLeaves) {
  const TempDir temp;
  const Arguments save = {"--save", temp.File("s"), "--view", temp.File("v")};
  ASSERT_EQ(NgRun(DemoTurn(4) + save).exit_code, 0);
  EXPECT_THAT(ReadTensors(temp.File("s")), Not(Contains(Key("dropped_at.0"))));
  EXPECT_TRUE(Json::parse(Script(ReadFile(temp.File("v")), "ng-run"))["survival"].is_null());
  // Asked for by its name it says so.
  ASSERT_EQ(NgRun(DemoTurn(4) + save + Arguments{"--save-tensors=dropped_at"}).exit_code, 0);
  const Tensor saved = ReadTensors(temp.File("s")).at("dropped_at.0");
  EXPECT_EQ(saved.shape.size(), 3U);
  EXPECT_THAT(saved.data, Each(-1.0F));
  ExpectError(NgRun(DemoTurn(4) + save + Arguments{"--save-tensors=dropped"}), 2,
              {"--save-tensors", "dropped_at"});
}

}  // namespace
}  // namespace ng::test
