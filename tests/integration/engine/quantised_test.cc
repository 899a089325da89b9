// Quantised checkpoints of each format (tests/data/quantised/make_files.py): the values that their
// specification says, and one line about what is malformed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/formats/quantised/formats.h"
#include "ng/engine.h"
#include "ng/isa.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Json = nlohmann::json;

fs::path QuantisedData() { return fs::path(NG_TEST_DATA) / "quantised"; }

std::vector<std::string> QuantisedFolders() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(QuantisedData())) {
    if (entry.is_directory()) names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

Json ReadJsonOf(const fs::path& path) {
  Json json;
  std::ifstream(path) >> json;
  return json;
}

struct FolderAnswer {
  std::vector<int32_t> ids;
  std::vector<float> logits;  // of the prompt
};

absl::StatusOr<FolderAnswer> RunFolder(const fs::path& folder, const Json& expected,
                                       const std::string& weights,
                                       const std::string& isa = "auto") {
  EngineOptions options;
  options.overrides = {"model.path=" + folder.string(), "model.weights=" + weights,
                       "sampler.chain=greedy", "run.threads=2", "run.isa=" + isa};
  NG_ASSIGN_OR_RETURN(const auto engine, Engine::Open(options));
  const std::vector<int32_t> prompt = expected["prompt"];
  const auto n = static_cast<int>(expected["ids"].size() - prompt.size());
  const std::vector<GenerateRequest> requests = {{prompt, n, {}}};
  NG_RETURN_IF_ERROR(engine->Load(Needs(requests)));
  GenerateOptions keep;
  keep.capture_logits = true;
  NG_ASSIGN_OR_RETURN(const auto done, engine->Generate(requests, keep));
  return FolderAnswer{done[0].ids, done[0].captured.logits};
}

// The largest difference to the last rows of the reference.
double WorstOf(const FolderAnswer& answer, const Json& expected) {
  std::vector<double> reference;
  for (const Json& row : expected["logits"]) {
    for (const double logit : row) reference.push_back(logit);
  }
  double worst = answer.logits.size() < reference.size() ? 1e9 : 0.0;
  for (size_t i = 0; i < std::min(reference.size(), answer.logits.size()); ++i) {
    const float logit = answer.logits[answer.logits.size() - reference.size() + i];
    worst = std::max(worst, std::abs(reference[i] - double{logit}));
  }
  return worst;
}

// Whether a folder's codes stand for floats.
bool IsOfFloats(std::string_view folder) {
  constexpr std::string_view kCodes[] = {"fp8_block_128",  "fp8_tensor", "ct_fp8_channel",
                                         "ct_fp8_block",   "bnb_nf4",    "bnb_nf4_double",
                                         "modelopt_nvfp4", "bnb_fp4",    "ct_nvfp4"};
  return std::ranges::find(kCodes, folder) != std::end(kCodes);
}

class QuantisedFolder : public ::testing::TestWithParam<std::string> {};

TEST_P(QuantisedFolder, HeldAsF32GivesTheLogitsOfItsValues) {
  const fs::path folder = QuantisedData() / GetParam();
  const Json expected = ReadJsonOf(folder / "expected.json");
  const auto answer = RunFolder(folder, expected, "f32");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_LE(WorstOf(*answer, expected), 1e-4);
  EXPECT_EQ(answer->ids, expected["ids"].get<std::vector<int32_t>>());
}

// Products with integers round their inputs to bytes: that is all that is lost.
TEST_P(QuantisedFolder, HeldPackedIsNearAndHasTheBitsOfTheScalarLevel) {
  const fs::path folder = QuantisedData() / GetParam();
  const Json expected = ReadJsonOf(folder / "expected.json");
  const auto scalar = RunFolder(folder, expected, "auto", "scalar");
  const auto vector = RunFolder(folder, expected, "auto", "avx2");
  ASSERT_TRUE(scalar.ok()) << scalar.status();
  ASSERT_TRUE(vector.ok()) << vector.status();
  EXPECT_EQ(scalar->logits, vector->logits);
  EXPECT_EQ(scalar->ids, vector->ids);
  double most = 0.0;
  for (const float logit : scalar->logits) most = std::max(most, std::abs(double{logit}));
  // Codes of floats lose nothing at all: the portable levels multiply them with inputs in f32.
  EXPECT_LE(WorstOf(*scalar, expected), IsOfFloats(GetParam()) ? 1e-4 : 0.04 * most);
}

// Levels with dot products of bf16 round inputs to bf16, and NF4's values too.
TEST_P(QuantisedFolder, HeldPackedIsNearWhereBf16IsMultiplied) {
  if (!std::ranges::count(SupportedIsaLevels(), IsaLevel::kAvx512Bf16)) {
    GTEST_SKIP() << "this CPU has no dot product of bf16";
  }
  const fs::path folder = QuantisedData() / GetParam();
  const Json expected = ReadJsonOf(folder / "expected.json");
  const auto answer = RunFolder(folder, expected, "auto", "avx512_bf16");
  ASSERT_TRUE(answer.ok()) << answer.status();
  double most = 0.0;
  for (const float logit : answer->logits) most = std::max(most, std::abs(double{logit}));
  EXPECT_LE(WorstOf(*answer, expected), (IsOfFloats(GetParam()) ? 0.01 : 0.04) * most);
}

// README says what runs: the rows of the table.
TEST(QuantisedFormats, AreThoseInReadmesTable) {
  std::string cell = "| quantised folders | ";
  for (const QuantisedFormat& format : kQuantisedFormats) {
    absl::StrAppend(&cell, &format == kQuantisedFormats ? "" : "; ", "`",
                    std::string(format.method), "`: ", std::string(format.what));
  }
  EXPECT_THAT(test::Slurp(NG_SOURCE_DIR "/README.md"), HasSubstr(cell + " |\n"));
}

INSTANTIATE_TEST_SUITE_P(All, QuantisedFolder, ::testing::ValuesIn(QuantisedFolders()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace ng
