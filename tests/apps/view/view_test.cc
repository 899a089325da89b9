// The parts of the page: bytes on a log scale, maps with scores and thumbnails, text within HTML, a
// map for the terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "apps/view/attention_maps.h"
#include "apps/view/byte_scale.h"
#include "apps/view/page.h"
#include "apps/view/page_text.h"
#include "apps/view/survival.h"
#include "apps/view/terminal_map.h"

namespace ng::view {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(ByteScale, IsWithinItsErrorFromTheLeastProbabilityToOne) {
  EXPECT_LT(ByteError(), 0.028);
  double worst = 0.0;
  for (double p = kLeastProbability; p <= 1.0; p *= 1.0003) {
    const auto probability = static_cast<float>(p);
    const double error = std::abs(FromByte(ToByte(probability)) - probability) / probability;
    worst = std::max(worst, error);
  }
  EXPECT_LE(worst, ByteError());
  EXPECT_GT(worst, ByteError() * 0.95);  // the bound says what it is, and no more
}

TEST(ByteScale, GivesEachByteBackAndHasNothingAtZero) {
  for (int byte = 0; byte <= 255; ++byte) {
    EXPECT_EQ(ToByte(static_cast<float>(FromByte(static_cast<uint8_t>(byte)))), byte);
  }
  EXPECT_EQ(ToByte(0.0F), 0);
  EXPECT_EQ(ToByte(1e-9F), 0);
  EXPECT_EQ(ToByte(-0.0F), 0);
  EXPECT_EQ(ToByte(1.0F), 255);
  EXPECT_EQ(ToByte(1.0001F), 255);  // a sum of floats may be a little more than one
}

// Two layers of two heads over ids that repeat, with rows by chance.
struct RandomRun {
  explicit RandomRun(int n_ids) {
    std::mt19937 random(7);
    for (int i = 0; i < n_ids; ++i) ids.push_back(static_cast<int32_t>(random() % 9));
    for (int pos = 0; pos < n_ids; ++pos) {
      std::vector<AttentionRow>& rows = queries.emplace_back();
      for (const int layer : {1, 3}) {
        for (const int head : {0, 1}) {
          AttentionRow& row = rows.emplace_back(AttentionRow{layer, head, {}});
          float sum = 0.0F;
          for (int key = 0; key <= pos; ++key) {
            row.probs.push_back(std::exp(-static_cast<float>(random() % 1000) / 80.0F));
            sum += row.probs.back();
          }
          for (float& p : row.probs) p /= sum;
        }
      }
    }
  }
  void Feed(AttentionMaps* maps) const {
    for (size_t i = 0; i < queries.size(); ++i) {
      maps->Add({std::span(ids).first(i + 1), queries[i]});
    }
  }
  // Of the layer's head, by its place among the rows of a query.
  float At(size_t query, size_t key, size_t place) const {
    return queries[query][place].probs[key];
  }

  std::vector<int32_t> ids;
  std::vector<std::vector<AttentionRow>> queries;
};

TEST(AttentionMaps, KeepsTheChosenLayersAsTheBytesOfTheirRows) {
  const RandomRun run(40);
  AttentionMaps maps({3});
  run.Feed(&maps);
  ASSERT_EQ(maps.layers().size(), 1u);
  const HeadMap& head = maps.layers().at(3).at(1);
  ASSERT_EQ(head.bytes.size(), 40u * 41u / 2);
  for (size_t query = 0; query < 40; ++query) {
    for (size_t key = 0; key <= query; ++key) {
      EXPECT_EQ(head.At(static_cast<int64_t>(query), static_cast<int64_t>(key)),
                ToByte(run.At(query, key, 3)));
    }
  }
}

TEST(AttentionMaps, ScoresAndSumsAreThoseOfAPlainComputation) {
  const size_t n = 40;
  const RandomRun run(static_cast<int>(n));
  AttentionMaps maps({1, 3});
  run.Feed(&maps);
  const HeadMap& head = maps.layers().at(1).at(1);
  double entropy = 0.0;
  double first = 0.0;
  double previous = 0.0;
  double induction = 0.0;
  int n_repeating = 0;
  std::vector<double> received(n);
  for (size_t query = 0; query < n; ++query) {
    double of_row = 0.0;
    bool repeats = false;
    for (size_t key = 0; key <= query; ++key) {
      const double p = run.At(query, key, 1);
      of_row -= p * std::log(p);
      received[key] += p;
      if (key == 0 || key == query || run.ids[key - 1] != run.ids[query]) continue;
      induction += p;
      repeats = true;
    }
    EXPECT_NEAR(head.entropies[query], of_row, 1e-5);
    entropy += of_row;
    n_repeating += static_cast<int>(repeats);
    if (query == 0) continue;
    first += run.At(query, 0, 1);
    previous += run.At(query, query - 1, 1);
  }
  ASSERT_GT(n_repeating, 10);
  const HeadScores scores = maps.Scores(head);
  EXPECT_NEAR(scores.entropy, entropy / n, 1e-9);
  EXPECT_NEAR(scores.first_token, first / (n - 1), 1e-9);
  EXPECT_NEAR(scores.previous_token, previous / (n - 1), 1e-9);
  EXPECT_NEAR(scores.induction, induction / n_repeating, 1e-9);
  for (size_t key = 0; key < n; ++key) EXPECT_NEAR(head.received[key], received[key], 1e-4);
}

TEST(AttentionMaps, ACellOfAThumbnailIsTheLargestOfItsSquare) {
  const int64_t n = 75;  // no multiple of the side
  const RandomRun run(static_cast<int>(n));
  AttentionMaps maps({1});
  run.Feed(&maps);
  const HeadMap& head = maps.layers().at(1).at(0);
  const int64_t side = maps.thumbnail_side();
  ASSERT_EQ(side, 32);
  const std::vector<uint8_t> thumbnail = maps.Thumbnail(head);
  std::vector<uint8_t> expected(static_cast<size_t>(side * side));
  const auto cell_of = [&](int64_t token) {
    int64_t cell = 0;
    while ((cell + 1) * n / side <= token) ++cell;
    return cell;
  };
  for (int64_t query = 0; query < n; ++query) {
    for (int64_t key = 0; key <= query; ++key) {
      uint8_t& cell = expected[static_cast<size_t>(cell_of(query) * side + cell_of(key))];
      cell = std::max(cell, head.At(query, key));
    }
  }
  EXPECT_EQ(thumbnail, expected);
}

TEST(AttentionMaps, AShortRunHasACellForEachToken) {
  const RandomRun run(5);
  AttentionMaps maps({1});
  run.Feed(&maps);
  EXPECT_EQ(maps.thumbnail_side(), 5);
  const HeadMap& head = maps.layers().at(1).at(0);
  const std::vector<uint8_t> thumbnail = maps.Thumbnail(head);
  EXPECT_EQ(thumbnail[4 * 5 + 2], head.At(4, 2));
  EXPECT_EQ(thumbnail[2 * 5 + 4], 0);
}

TEST(AttentionMaps, SaysWhatAPageTakes) {
  // 30 layers of 9 heads at 512 tokens, four of them at 2048.
  EXPECT_LT(30 * PageBytes(9, 512), 60'000'000);
  EXPECT_LT(4 * PageBytes(9, 2048), 120'000'000);
  EXPECT_GT(4 * PageBytes(9, 2048), 4 * 9 * 2048 * 2049 / 2 * 4 / 3);
}

Page SmallPage() {
  Page page;
  page.title = "tiny";
  page.ids = {7, 8, 9};
  page.prompt_len = 2;
  page.special = {true, false};
  page.texts = {{7, "</script><!--"}, {8, "\xE2\x80\xA8 \xE2\x80\xAE\xD7\xA9"}, {9, "&amp;\"\\"}};
  return page;
}

TEST(Page, NothingInATokenIsReadAsHtml) {
  Page page = SmallPage();
  page.config = "path = \xFF\xC3";  // a path may be any bytes
  page.replay = "ng-run '</SCRIPT>'";
  const std::string text = ScriptText(Manifest(page));
  EXPECT_THAT(text, Not(HasSubstr("<")));
  EXPECT_THAT(text,
              Each(::testing::Lt('\x7f')));  // ASCII: no separator of lines, no other direction
  const Json read = Json::parse(text);
  for (const auto& [id, visible] : page.texts)
    EXPECT_EQ(read["texts"][std::to_string(id)], visible);
  EXPECT_EQ(read["roles"], Json({"special", "text", "answer"}));
  EXPECT_TRUE(read["attention"].is_null());
  EXPECT_TRUE(read["against"].is_null());
}

TEST(Survival, HoldsWhenEachTokenLeft) {
  Survival survival;
  EXPECT_TRUE(survival.empty());
  // Of another number of heads in the second layer.
  survival.Add({.length = 4, .heads = {{0, 0, {0, 3}}, {0, 1, {0, 1, 2, 3}}, {1, 0, {1, 2, 3}}}});
  survival.Add({.length = 6, .heads = {{0, 0, {0, 5}}, {0, 1, {0, 1, 4, 5}}, {1, 0, {3, 4, 5}}}});
  EXPECT_EQ(survival.n_layers(), 2);
  EXPECT_EQ(survival.n_kv_heads(), 2);
  EXPECT_THAT(survival.LeftAt(7), ElementsAre(-1, 4, 4, 6, 6, -1, -1,    //
                                              -1, -1, 6, 6, -1, -1, -1,  //
                                              4, 6, 6, -1, -1, -1, -1,   //
                                              -2, -2, -2, -2, -2, -2, -2));
  EXPECT_THAT(survival.LeftAt(2), ElementsAre(-1, 4, -1, -1, 4, 6, -2, -2));
}

TEST(Page, Base64IsPaddedAndHasNoLines) {
  EXPECT_EQ(Base64("a"), "YQ==");
  const std::string bytes(1000, '\xFB');
  std::string back;
  ASSERT_TRUE(absl::Base64Unescape(Base64(bytes), &back));
  EXPECT_EQ(back, bytes);
  EXPECT_THAT(Base64(bytes), Not(HasSubstr("\n")));
}

TEST(Page, TheBuildPutsTheWholePageIntoTheProgram) {
  const std::string page = std::string(kPageBefore) + std::string(kPageAfter);
  EXPECT_THAT(page, HasSubstr("<!doctype html>"));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* outside :
       {"rel=\"stylesheet\"", "<script src", "http://", "https://", "import(", "eval("}) {
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  }
}

TEST(TerminalMap, ShowsQueriesDownAndKeysAcross) {
  AttentionMaps maps({0});
  const std::vector<int32_t> ids = {1, 2, 3};
  const std::vector<std::vector<float>> rows = {{1.0F}, {0.0F, 1.0F}, {1.0F, 1e-6F, 0.01F}};
  for (size_t i = 0; i < rows.size(); ++i) {
    const AttentionRow row{0, 0, rows[i]};
    maps.Add({std::span(ids).first(i + 1), {&row, 1}});
  }
  const std::vector<std::string> labels = {"a", "\x1b[2J", "\xE2\x80\xAE\xD7\xA9"};
  const std::string map = TerminalMap(maps, 0, 0, labels, {});
  EXPECT_THAT(map, HasSubstr("\n@   0 a\n @  1 ?[2J\n@.* 2 ?\xD7\xA9\n"));
  EXPECT_THAT(map, Not(HasSubstr("\x1b")));
  const std::string deep = TerminalMap(maps, 0, 0, labels, {80, TerminalColors::k24Bit});
  EXPECT_THAT(deep, HasSubstr("\x1b[38;2;252;253;191m\x1b[48;2;0;0;4m\xE2\x96\x80"));
  EXPECT_THAT(deep, HasSubstr("\x1b[0m 2 ?\xD7\xA9\n"));  // the third row, above nothing
  EXPECT_THAT(TerminalMap(maps, 0, 0, labels, {80, TerminalColors::k256}), HasSubstr("\x1b[38;5;"));
}

TEST(TerminalMap, StaysWithinTheColumns) {
  const RandomRun run(100);
  AttentionMaps maps({1});
  run.Feed(&maps);
  const std::vector<std::string> labels(100, "a long text of a token");
  const std::string map = TerminalMap(maps, 1, 0, labels, {.columns = 50});
  std::istringstream lines(map);
  std::string line;
  std::getline(lines, line);  // the scores
  std::getline(lines, line);  // what is what
  EXPECT_THAT(line, HasSubstr("about 4 x 4"));
  int n_lines = 0;
  while (std::getline(lines, line)) {
    EXPECT_LE(line.size(), 50u);
    ++n_lines;
  }
  EXPECT_EQ(n_lines, 26);
}

}  // namespace
}  // namespace ng::view
