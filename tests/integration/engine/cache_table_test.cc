// The table in configs/README.md that says what each cache runs with: every row is tried, with all
// backends and codecs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ng/engine.h"
#include "ng/kv_view.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

// A row: the cell of each column, by the column's title.
using TableRow = std::map<std::string, std::string>;

std::vector<std::string> CellsOf(const std::string& line) {
  std::vector<std::string> cells;
  for (const absl::string_view cell : absl::StrSplit(line, '|')) {
    cells.emplace_back(absl::StripAsciiWhitespace(cell));
  }
  return {cells.begin() + 1, cells.end() - 1};
}

// The rows of the table whose first column is `first`.
std::vector<TableRow> RowsOfTable(const std::string& first) {
  std::ifstream page(NG_SOURCE_DIR "/configs/README.md");
  std::vector<std::string> titles;
  std::vector<TableRow> rows;
  for (std::string line; std::getline(page, line);) {
    if (titles.empty()) {
      if (line.rfind("| " + first + " |", 0) == 0) titles = CellsOf(line);
      continue;
    }
    if (line.empty()) break;
    const std::vector<std::string> cells = CellsOf(line);
    if (cells[0].rfind("---", 0) == 0) continue;
    TableRow& row = rows.emplace_back();
    for (size_t i = 0; i < titles.size(); ++i) row[titles[i]] = cells.at(i);
  }
  return rows;
}

// What the first cell names: "`budget`, `when = prompt`".
std::vector<std::string> OptionsOf(const std::string& cell) {
  const std::vector<std::string> parts = absl::StrSplit(cell, '`');
  std::vector<std::string> options = {"cache.name=" + parts.at(1)};
  if (parts.size() > 3) {
    const std::vector<std::string> option = absl::StrSplit(parts[3], " = ");
    options.push_back(absl::StrCat("cache.", parts[1], ".", option.at(0), "=", option.at(1)));
  }
  return options;
}

class CacheTable : public ::testing::Test {
 protected:
  // The engine of a row, loaded; null where it is refused.
  static std::unique_ptr<Engine> Open(const std::vector<std::string>& row,
                                      const std::vector<std::string>& more, bool snapshots) {
    EngineOptions options;
    options.overrides = {"model.path=" NG_TEST_DATA "/golden/llama/untied",
                         "run.context_tokens=20",
                         "cache.budget.tokens=10",
                         "cache.budget.recent=2",
                         "cache.budget.every=8",
                         "cache.paged.page_tokens=16",
                         "run.stop_ids=",
                         "sampler.chain=greedy"};
    for (const auto* const list : {&row, &more}) {
      options.overrides.insert(options.overrides.end(), list->begin(), list->end());
    }
    auto engine = Engine::Open(options);
    if (!engine.ok()) return nullptr;
    const RunNeeds needs = {.max_tokens = 64, .max_sequences = 2, .snapshots = snapshots};
    return (*engine)->Load(needs).ok() ? *std::move(engine) : nullptr;
  }
  static GenerateRequest Request() {
    GenerateRequest request;
    for (int32_t i = 0; i < 40; ++i) request.prompt_ids.push_back(i * 7 % 40);
    request.max_new_tokens = 8;
    return request;
  }
  static std::vector<int32_t> Answer(Engine& engine) {
    const GenerateRequest request = Request();
    const auto done = engine.Generate({&request, 1}, {});
    EXPECT_TRUE(done.ok()) << done.status();
    return done.ok() ? done->front().ids : std::vector<int32_t>();
  }

  static std::string Drafts(const std::vector<std::string>& row, Engine& plain) {
    const auto drafted = Open(row, {"drafter.name=ngram"}, false);
    if (drafted == nullptr) return "refused";
    return Answer(*drafted) == Answer(plain) ? "run" : "differ";
  }
  static std::string Sharing(Engine& engine) {
    const std::vector<GenerateRequest> alike(2, Request());
    const auto done = engine.Generate(alike, {});
    if (!done.ok()) return std::string(done.status().message());
    return done->back().timings.shared_tokens > 0 ? "run" : "nothing is shared";
  }
  static std::string Snapshots(const std::vector<std::string>& row) {
    const auto engine = Open(row, {}, true);
    if (engine == nullptr) return "refused";
    const test::TempDir temp;
    GenerateRequest request = Request();
    request.save_cache = temp.File("cache");
    const auto saved = engine->Generate({&request, 1}, {});
    request.load_cache = std::exchange(request.save_cache, "");
    const auto loaded = engine->Generate({&request, 1}, {});
    if (!saved.ok() || !loaded.ok()) return "fails";
    return saved->front().ids == loaded->front().ids ? "run" : "differ";
  }
  // Leaves its sequences open.
  static std::string Fork(Engine& engine) {
    const SequenceId id = engine.OpenSequence(64).value();
    const std::vector<int32_t> begin = Request().prompt_ids;
    if (!engine.Extend({&id, 1}, {&begin, 1}).ok()) return "fails";
    const auto fork = engine.ForkSequence(id, 64);
    if (!fork.ok()) return "refused";
    const SequenceId both[] = {id, *fork};
    const int32_t next[] = {3, 3};
    const auto logits = engine.DecodeStep(both, next);
    if (!logits.ok()) return "fails";
    const int64_t width = logits->logits.extent[1];
    const float* const a = logits->logits.Row(0);
    const float* const b = logits->logits.Row(1);
    return std::equal(a, a + width, b) ? "run" : "differ";
  }
};

TEST_F(CacheTable, SaysWhatRuns) {
  const std::vector<TableRow> rows = RowsOfTable("cache");
  ASSERT_GE(rows.size(), 4U);
  for (const TableRow& row : rows) {
    for (const std::string attention : {"flash", "reference", "sparse"}) {
      for (const CodecInfo& codec : kCodecTable) {
        std::vector<std::string> options = OptionsOf(row.at("cache"));
        options.push_back("attention.name=" + attention);
        options.push_back(absl::StrCat("cache.codec=", std::string(codec.name)));
        const std::string which =
            absl::StrCat(row.at("cache"), " ", options.back(), " ", attention);
        const auto engine = Open(options, {}, false);
        ASSERT_EQ(engine != nullptr ? "run" : "refused", row.at("`" + attention + "`")) << which;
        if (engine == nullptr) continue;
        EXPECT_EQ(Drafts(options, *engine), row.at("drafts")) << which;
        EXPECT_EQ(Sharing(*engine), row.at("shared beginnings")) << which;
        EXPECT_EQ(Snapshots(options), row.at("snapshots")) << which;
        EXPECT_EQ(Fork(*engine), row.at("fork")) << which;
      }
    }
  }
}

}  // namespace
}  // namespace ng
