// ng-pack: what it writes, what it says, what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/integration/run_support.h"
#include "tests/support/subprocess.h"
#include "tests/support/temp_dir.h"

namespace ng::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kDemo = NG_SOURCE_DIR "/configs/demo";

class NgPack : public ::testing::Test {
 protected:
  static Result Pack(const Arguments& arguments) {
    Command command;
    command.program = "ng-pack";
    command.arguments = arguments;
    return test::Run(command);
  }

  TempDir dir_;
  std::string packed_ = dir_.path() + "/demo.ngw";
};

TEST_F(NgPack, WritesAFileThatGivesTheSameAnswer) {
  const Result made = Pack({kDemo, packed_, "--model.weights=int8"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_EQ(made.out, packed_ + ": " + std::to_string(fs::file_size(packed_)) + " bytes\n");
  const Arguments prompt = {kDemo, "To be, or", "-n", "12", "--sampler.chain=greedy"};
  const Result mapped = NgRun(prompt + Arguments{"--model.packed=" + packed_});
  ASSERT_EQ(mapped.exit_code, 0) << mapped.err;
  EXPECT_EQ(mapped.out, NgRun(prompt + Arguments{"--model.weights=int8"}).out);
  const Result verified = Pack({packed_, "--verify", "-m", kDemo});
  EXPECT_EQ(verified.exit_code, 0) << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("holds the model's weights"));
  EXPECT_THAT(NgRun({kDemo, "--model.packed=" + packed_, "--dry-run"}).out,
              HasSubstr("mapped from " + packed_));
}

TEST_F(NgPack, SaysWhatIsWrong) {
  ExpectErrorOf("ng-pack", Pack({}), 2, {"ng-pack MODEL FILE.ngw", "neither"});
  ExpectErrorOf("ng-pack", Pack({kDemo}), 2, {"given: ", "configs/demo"});
  ExpectErrorOf("ng-pack", Pack({kDemo, dir_.path() + "/x"}), 2, {"must end in .ngw"});
  ExpectErrorOf("ng-pack", Pack({kDemo, packed_, "--verfy"}), 2, {"--verify"});
  ExpectErrorOf("ng-pack", Pack({dir_.path() + "/no", packed_}), 3, {"/no"});
  ExpectErrorOf("ng-pack", Pack({kDemo, packed_, "--verify"}), 3, {"demo.ngw", "no such file"});
  ExpectErrorOf("ng-pack", Pack({kDemo, dir_.path() + "/no/x.ngw"}), 7, {"/no"});
  EXPECT_THAT(Pack({"--help"}).out, HasSubstr("usage: ng-pack MODEL FILE.ngw"));
  EXPECT_FALSE(fs::exists(packed_));
}

}  // namespace
}  // namespace ng::test
