// Steps of many rows in pieces, of which one is computed while rows of another are sent: the bits
// of one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ng/engine.h"
#include "tests/plugins/fabric/rank_runs.h"
#include "tests/support/temp_dir.h"

namespace ng::test {
namespace {

using ::testing::HasSubstr;

// A run of eight prompts in one step, of 100 rows.
Case Long(const std::string& model, const Overrides& overrides = {}) {
  Case one = {model, overrides, {}, 7};
  for (int32_t i = 0; i < 14; ++i) one.prompt.push_back((3 + i * 7) % 20);
  return one;
}

// The bytes that were given aside. `looks`: at attention rows and points.
int64_t ExpectPiecesAgree(Case one, int size, bool looks = false) {
  const auto alone = TryRun(one, false, looks);
  EXPECT_TRUE(alone.ok()) << one.model << ": " << alone.status();
  if (!absl::StrContains(absl::StrJoin(one.overrides, " "), "fabric.pieces")) {
    one.overrides.emplace_back("fabric.pieces=3");
  }
  SCOPED_TRACE(absl::StrCat(one.model, " in pieces on ", size, " ranks"));
  std::vector<absl::StatusOr<std::vector<Completion>>> seen(static_cast<size_t>(size));
  const int64_t n_aside =
      OnRanks(size, [&](int rank) { seen[static_cast<size_t>(rank)] = TryRun(one, true, looks); });
  for (const auto& of_rank : seen) {
    EXPECT_TRUE(of_rank.ok()) << of_rank.status();
    if (of_rank.ok() && alone.ok()) ExpectSame(*of_rank, *alone);
  }
  return n_aside;
}

TEST(RankPieces, HaveTheBitsOfOneProcessInEveryFamily) {
  int n_in_pieces = 0;
  for (const std::string& model : Models()) {
    for (const int size : {2, 3}) n_in_pieces += ExpectPiecesAgree(Long(model), size) > 0 ? 1 : 0;
  }
  EXPECT_GT(n_in_pieces, 60);
}

TEST(RankPieces, HaveTheBitsOfOneProcessWithEveryWeightTypeCacheAndNumber) {
  const std::string llama = absl::StrCat(kGolden, "llama/tied_gqa");
  for (const char* weights : {"f32", "bf16", "f16", "int8", "int4"}) {
    EXPECT_GT(ExpectPiecesAgree(Long(llama, {absl::StrCat("model.weights=", weights)}), 2), 0);
  }
  for (const char* codec : {"bf16", "int8", "int4"}) {
    const Overrides paged = {absl::StrCat("cache.codec=", codec), "cache.name=paged",
                             "run.threads=2", "fabric.pieces=2"};
    EXPECT_GT(ExpectPiecesAgree(Long(llama, paged), 2), 0);
  }
  // One prompt in chunks, each of which is cut.
  Case chunks = Long(absl::StrCat(kGolden, "mistral/window"), {"run.prefill_chunk=70"});
  EXPECT_GT(ExpectPiecesAgree(chunks, 2), 0);
}

// Groups of 32 columns that are given as the next matrix reads them.
TEST(RankPieces, GiveRoundedRowsWithTheBitsOfOneProcess) {
  const TempDir temp;
  const std::string shape = temp.Write("shape.json", R"({"model_type": "llama", "hidden_size": 128,
      "intermediate_size": 216, "num_hidden_layers": 3, "num_attention_heads": 4,
      "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 97, "max_position_embeddings": 64,
      "rms_norm_eps": 1e-5})");
  for (const char* weights : {"int8", "int4", "bf16"}) {
    EXPECT_GT(ExpectPiecesAgree(Long(shape, {absl::StrCat("model.weights=", weights)}), 2), 0);
  }
}

TEST(RankPieces, AreNotMadeOfFewRowsOrOfWhatSomebodyLooksAtOrWhereNoneAreWanted) {
  const std::string llama = absl::StrCat(kGolden, "llama/tied_gqa");
  EXPECT_EQ(ExpectPiecesAgree({llama}, 2), 0);
  EXPECT_EQ(ExpectPiecesAgree(Long(llama), 2, true), 0);
  EXPECT_EQ(ExpectPiecesAgree(Long(llama, {"fabric.pieces=1"}), 2), 0);
  EXPECT_EQ(ExpectPiecesAgree(Long(absl::StrCat(kGolden, "qwen3_moe/tiny")), 2), 0);
}

// By itself ng makes pieces where the first layer waits for the others' rows. Threads copy a few
// kilobytes in no time, but wait for each other where there are more than cores: so it may or may
// not.
TEST(RankPieces, AreMadeAlikeOnAllRanksWhereTheFirstLayerTells) {
  ExpectPiecesAgree(Long(absl::StrCat(kGolden, "llama/tied_gqa"), {"fabric.pieces=0"}), 3);
}

TEST(RankPieces, GoWithHeads) {
  for (const absl::Status& seen : ErrorsOf({{"fabric.pieces=2", "fabric.split=layers"},
                                            {"fabric.pieces=2", "fabric.split=layers"}})) {
    EXPECT_EQ(ExitCode(seen), 2) << seen;
    EXPECT_THAT(std::string(seen.message()), HasSubstr("fabric.pieces"));
    EXPECT_THAT(std::string(seen.message()), HasSubstr(" = 2 is of fabric.split = heads"));
  }
}

}  // namespace
}  // namespace ng::test
