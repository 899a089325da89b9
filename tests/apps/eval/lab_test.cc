// The parts of a card of methods: its command line, intervals, lines, summary and page.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "apps/eval/command_line.h"
#include "apps/eval/lab/lines.h"
#include "apps/eval/lab/options.h"
#include "apps/eval/lab/summary.h"
#include "apps/eval/lab/work.h"
#include "apps/eval/measure/intervals.h"
#include "apps/eval/page/page.h"

namespace ng::eval {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

absl::StatusOr<CommandLine> Parsed(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "ng-eval");
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  return ParseCommandLine(static_cast<int>(argv.size()), argv.data());
}

void ExpectUsage(const std::vector<std::string>& arguments, const std::string& part) {
  const auto line = Parsed(arguments);
  ASSERT_FALSE(line.ok()) << part;
  EXPECT_EQ(ExitCode(line.status()), 2);
  EXPECT_THAT(std::string(line.status().message()), HasSubstr(part));
}

TEST(LabOptions, CardTakesMethodsAndIsAsBeforeWithoutThem) {
  const auto old = Parsed({"--card", "MODEL", "--samples=1"});
  ASSERT_TRUE(old.ok()) << old.status();
  EXPECT_TRUE(old->card);
  EXPECT_FALSE(old->lab.on);
  EXPECT_THAT(old->engine.overrides, ElementsAre("model.path=MODEL"));
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"MODEL", "--card=knorm,int8"},
                                             {"MODEL", "--card", "knorm,int8"},
                                             {"--card", "knorm,int8", "MODEL"},
                                             {"MODEL", "--card", "--methods", "knorm,int8"}}) {
    const auto line = Parsed(arguments);
    ASSERT_TRUE(line.ok()) << line.status();
    EXPECT_TRUE(line->card && line->lab.on);
    EXPECT_THAT(line->lab.methods, ElementsAre("knorm", "int8"));
    EXPECT_THAT(line->engine.overrides, ElementsAre("model.path=MODEL"));
    EXPECT_THAT(line->lab.lengths, ElementsAre(1024));
    EXPECT_THAT(line->lab.budgets, ElementsAre(Budget{.tokens = 256}, Budget{.tokens = 512}));
    EXPECT_EQ(line->lab.tasks.size(), 6U);
  }
  const auto one = Parsed({"--card", "knorm", "--lengths=1k,3000", "--tasks=none", "--budgets=2k"});
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_THAT(one->lab.methods, ElementsAre("knorm"));
  EXPECT_THAT(one->lab.lengths, ElementsAre(1024, 3000));
  EXPECT_THAT(one->lab.budgets, ElementsAre(Budget{.tokens = 2048}));
  const auto shares = Parsed({"--card", "knorm", "--budgets=0.25,256"});
  ASSERT_TRUE(shares.ok()) << shares.status();
  EXPECT_THAT(shares->lab.budgets, ElementsAre(Budget{.ratio = 0.25}, Budget{.tokens = 256}));
  EXPECT_THAT(one->lab.tasks, IsEmpty());
}

TEST(LabOptions, FaultsAreNamed) {
  ExpectUsage({"--card", "--tasks=neddle"}, "no task 'neddle'; did you mean 'needle'?");
  ExpectUsage({"--card", "--tasks=needle,"}, "--tasks: a name is empty");
  ExpectUsage({"--card", "--tasks=needle,needle"}, "--tasks: 'needle' is given twice");
  ExpectUsage({"--card=int8,int8"}, "--card: 'int8' is given twice");
  ExpectUsage({"--card="}, "is empty, must have a value");
  ExpectUsage({"--card", "--lengths=1m"}, "--lengths: '1m' must be a number of tokens in [1, ");
  ExpectUsage({"--card", "--lengths=0"}, "--lengths: '0' must be");
  ExpectUsage({"--card", "--lengths=k"}, "--lengths: 'k' must be");
  ExpectUsage({"--card", "--lengths=2k,2048"}, "--lengths: 2048 is given twice");
  ExpectUsage({"--card", "--budgets=-5"}, "--budgets: '-5' must be");
  ExpectUsage({"--card", "--budgets=1.5"}, "--budgets: '1.5' must be a share");
  ExpectUsage({"--card", "--examples=0"}, "--examples: '0' must be a whole number in [1, ");
  ExpectUsage({"--card", "--resume"}, "--resume needs --lines");
  ExpectUsage({"--lengths=1k"}, "need --card");
  ExpectUsage({"--card", "--lengths=1k", "--against=cache.codec=int8"}, "--against");
}

TEST(Intervals, HoldTheMeanAndShrinkWithMoreValues) {
  std::mt19937 random(5);
  std::vector<double> few, many;
  for (int i = 0; i < 2000; ++i) {
    many.push_back(static_cast<double>(random() % 1000) / 1000.0);
    if (i < 20) few.push_back(many.back());
  }
  const Interval of_few = MeanInterval(few);
  const Interval of_many = MeanInterval(many);
  for (const Interval& interval : {of_few, of_many}) {
    EXPECT_LT(interval.low, interval.value);
    EXPECT_GT(interval.high, interval.value);
  }
  // The standard error of a mean of evenly spread values, twice 1.96 times.
  const double expected = 2 * 1.96 * std::sqrt(1.0 / 12.0 / 2000.0);
  EXPECT_NEAR(of_many.high - of_many.low, expected, 0.1 * expected);
  EXPECT_GT(of_few.high - of_few.low, 5.0 * expected);
  const Interval again = MeanInterval(few);
  EXPECT_EQ(again.low, of_few.low);  // always the same draws
  const Interval same = MeanInterval(std::vector<double>(7, 0.25));
  EXPECT_EQ(same.low, 0.25);
  EXPECT_EQ(same.high, 0.25);
}

TEST(Intervals, ARatioIsDrawnByBlocks) {
  const std::vector<double> sums = {2.0, 4.0, 60.0};
  const std::vector<double> weights = {1.0, 2.0, 30.0};
  const Interval interval = RatioInterval(sums, weights);
  EXPECT_EQ(interval.value, 2.0);
  EXPECT_EQ(interval.low, 2.0);
  EXPECT_EQ(interval.high, 2.0);
}

class Lines : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove(path_); }
  void TearDown() override { std::filesystem::remove(path_); }
  std::string Content() const {
    std::stringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }
  Json Line(const std::string& task) const {
    return {{"kind", "task"},
            {"task", task},
            {"length", 64},
            {"method", {{"name", "full"}}},
            {"run", run_}};
  }

  const Json run_ = {{"model", "m"}, {"config", {{"sampler.seed", "1"}}}};
  const std::string path_ =
      absl::StrCat(::testing::TempDir(), "/lines.",
                   ::testing::UnitTest::GetInstance()->random_seed(), ".", getpid(), ".jsonl");
};

TEST_F(Lines, AreThereAgainAndACutOneIsNot) {
  {
    auto file = LineFile::Open(path_, false, run_);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(file->Add(Line("needle")).ok());
    Json error = Line("lookup");
    error["kind"] = "error";
    ASSERT_TRUE(file->Add(error).ok());
  }
  std::ofstream(path_, std::ios::app) << R"({"kind":"task","task":"cop)";
  auto file = LineFile::Open(path_, true, run_);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_NE(file->Find(LineKey(Line("needle"))), nullptr);
  EXPECT_EQ(file->Find(LineKey(Line("lookup"))), nullptr);
  EXPECT_EQ(file->Find(LineKey(Line("copying"))), nullptr);
  ASSERT_TRUE(file->Add(Line("copying")).ok());
  auto again = LineFile::Open(path_, true, run_);
  ASSERT_TRUE(again.ok()) << again.status() << Content();
  EXPECT_NE(again->Find(LineKey(Line("copying"))), nullptr);
  // Without --resume it begins anew.
  ASSERT_TRUE(LineFile::Open(path_, false, run_).ok());
  EXPECT_THAT(Content(), IsEmpty());
}

TEST_F(Lines, OfAnotherRunAreRefusedByWhatDiffers) {
  {
    auto file = LineFile::Open(path_, false, run_);
    ASSERT_TRUE(file.ok() && file->Add(Line("needle")).ok());
  }
  Json other = run_;
  other["config"]["sampler.seed"] = "2";
  const auto file = LineFile::Open(path_, true, other);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(ExitCode(file.status()), 2);
  EXPECT_THAT(std::string(file.status().message()),
              HasSubstr(":1: was run otherwise: config.sampler.seed was \"1\" and is \"2\""));
  EXPECT_THAT(Content(), HasSubstr("needle"));  // it is as it was
  std::ofstream(path_) << "5 6 7\n";
  EXPECT_THAT(std::string(LineFile::Open(path_, true, run_).status().message()),
              HasSubstr(":1: is no line of a card"));
}

// Two puzzles of a task, as a line has them.
Json TaskLine(const std::string& method, const std::string& task, std::vector<double> scores,
              double margin) {
  Json line = {{"kind", "task"}, {"task", task}, {"length", 64}, {"method", {{"name", method}}}};
  for (const double score : scores) {
    line["examples"].push_back({{"score", score}, {"margin", margin}});
  }
  line["memory"] = {
      {"reserved_bytes", 200}, {"peak_bytes", 100}, {"held_bytes", method == "full" ? 100 : 25}};
  line["prefill"] = {{"tokens", 128}, {"seconds", 2.0}};
  line["scoring_s"] = method == "full" ? 0.0 : 0.5;
  line["command"] = "ng-eval " + task;
  return line;
}

TEST(Summary, LeavesOutWhatTheFullCacheDoesNotSolve) {
  const std::vector<Json> lines = {TaskLine("full", "needle", {1.0, 1.0}, 3.0),
                                   TaskLine("full", "counting", {0.0, 1.0}, -1.0),
                                   TaskLine("knorm 16", "needle", {1.0, 0.0}, 1.0),
                                   TaskLine("knorm 16", "counting", {1.0, 1.0}, 2.0)};
  const Json summary = Summarise(lines);
  ASSERT_EQ(summary["methods"].size(), 2U);
  const Json& knorm = summary["methods"][1];
  EXPECT_EQ(knorm["score"]["value"], 0.5);  // of needle alone
  EXPECT_EQ(knorm["score"]["change"]["value"], -0.5);
  EXPECT_EQ(knorm["margin"]["change"]["value"], -2.0);
  EXPECT_EQ(knorm["tasks"][0]["measurable"], true);
  EXPECT_EQ(knorm["tasks"][1]["measurable"], false);
  EXPECT_EQ(knorm["memory"]["held"], 0.25);
  EXPECT_EQ(knorm["scoring_share"], 0.25);
  const std::string text = SummaryText(summary, true);
  EXPECT_THAT(text, HasSubstr("\nknorm 16       -       25.0 %"));
  EXPECT_THAT(
      text, HasSubstr("not measurable, the full cache solves less than 60 %: counting 64 (50 %)"));
}

TEST(Summary, ComparesTextsOnTheSameTokens) {
  Json line = {{"kind", "text"},
               {"method", {{"name", "knorm 16"}}},
               {"scored_tokens", 20},
               {"after_eviction", true},
               {"command", "c"}};
  for (const double nll : {12.0, 14.0}) {
    line["blocks"].push_back(
        {{"tokens", 10}, {"full_nll", nll - 1.0}, {"nll", nll}, {"kl", 0.5}, {"equal_argmax", 9}});
  }
  const Json method = Summarise({&line, 1})["methods"][0];
  EXPECT_NEAR(method["text"]["perplexity"].get<double>(), std::exp(1.3), 1e-12);
  EXPECT_NEAR(method["text"]["full_perplexity"].get<double>(), std::exp(1.2), 1e-12);
  const Json& change = method["text"]["change_percent"];
  EXPECT_NEAR(change["value"].get<double>(), 100.0 * (std::exp(0.1) - 1.0), 1e-9);
  // Both blocks lose as much, so nothing is unsure, though their perplexities differ.
  EXPECT_NEAR(change["high"].get<double>() - change["low"].get<double>(), 0.0, 1e-9);
  EXPECT_NEAR(method["text"]["kl"]["value"].get<double>(), 0.05, 1e-12);
}

TEST(Summary, ShowsAMethodThatCannotRun) {
  const Json line = {{"kind", "error"},
                     {"method", {{"name", "tova 16"}}},
                     {"error", "needs more"},
                     {"command", "c"}};
  const Json summary = Summarise({&line, 1});
  EXPECT_EQ(summary["methods"][0]["error"], "needs more");
  EXPECT_THAT(SummaryText(summary, false), HasSubstr("tova 16        cannot run: needs more\n"));
}

TEST(CardPage, IsOneFileAndNoTextIsReadAsMarkup) {
  const Json foreign = {{"measurable_from", 0.6},
                        {"methods", {{{"name", "</script><script>alert(1)</script>"}}}}};
  const std::string page = CardPageText({foreign, {{"model", "<b>"}}, "ng-eval '<i>'"});
  EXPECT_TRUE(absl::StartsWith(page, "<!doctype html>"));
  EXPECT_TRUE(absl::EndsWith(page, "</html>\n"));
  EXPECT_THAT(page, Not(HasSubstr("alert(1)</script>")));
  EXPECT_THAT(page, Not(HasSubstr("<b>")));
  EXPECT_THAT(page, Not(HasSubstr("src=\"")));
  EXPECT_THAT(page, Not(HasSubstr("http://www.w3.org/1999")));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_THAT(page, Not(HasSubstr("<!-- ng: data -->")));
  const std::string begin = "<script id=\"ng-card\" type=\"application/json\">";
  const size_t at = page.find(begin) + begin.size();
  const Json data = Json::parse(page.substr(at, page.find("</script>", at) - at));
  EXPECT_EQ(data["format"], 1);
  EXPECT_EQ(data["run"]["model"], "<b>");
  EXPECT_EQ(data["command"], "ng-eval '<i>'");
  EXPECT_EQ(data["methods"][0]["name"], "</script><script>alert(1)</script>");
}

TEST(LabProgress, SaysWhatIsLeft) {
  std::vector<std::string> phases;
  std::vector<int64_t> totals;
  LabProgress progress(
      [&](const Progress& shown) {
        phases.emplace_back(shown.phase);
        totals.push_back(shown.total);
      },
      100);
  progress.Skip(40);
  progress.Begin("full: needle of 64");
  progress.Add(60);
  EXPECT_THAT(phases, ElementsAre("full: needle of 64", "full: needle of 64, 0 s left"));
  EXPECT_THAT(totals, ElementsAre(60, 60));
  EXPECT_EQ(TimeLeftText(59), "59 s");
  EXPECT_EQ(TimeLeftText(61), "1:01");
  EXPECT_EQ(TimeLeftText(3723), "1:02:03");
}

}  // namespace
}  // namespace ng::eval
