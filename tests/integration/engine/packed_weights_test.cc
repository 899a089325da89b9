// A model whose weights are mapped from a packed file is the same model: bits, identity, refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ng/engine.h"
#include "tests/integration/engine/captured_run.h"
#include "tests/integration/engine/goldens.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Overrides = std::vector<std::string>;

EngineOptions With(const Overrides& overrides) {
  EngineOptions options;
  options.overrides = overrides;
  options.overrides.insert(options.overrides.end(),
                           {"sampler.chain=greedy", "run.stop_ids=", "run.threads=1"});
  return options;
}

absl::Status Pack(const Overrides& overrides, const std::string& path) {
  NG_ASSIGN_OR_RETURN(const auto engine, Engine::Open(With(overrides)));
  return engine->PackWeights(path);
}

absl::Status Verify(const Overrides& overrides) {
  NG_ASSIGN_OR_RETURN(const auto engine, Engine::Open(With(overrides)));
  return engine->VerifyPackedWeights();
}

absl::StatusOr<Completion> Answer(const Overrides& overrides) {
  const std::vector<int32_t> ids = {11, 2, 7, 5};
  return test::CapturedRun(With(overrides), ids, 3);
}

void ExpectEqualRuns(const Overrides& packed, const Overrides& plain) {
  const auto found = Answer(packed);
  const auto expected = Answer(plain);
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_TRUE(found.ok()) << found.status();
  test::ExpectSameBits(*found, *expected);
}

// Every way in which the goldens' families have their weights, and every block of GGUF.
TEST(PackedWeights, GiveTheBitsOfTheModelForEveryGolden) {
  const test::TempDir dir;
  int n_models = 0;
  for (const std::string& path : test::Goldens()) {
    SCOPED_TRACE(path);
    const std::string model = "model.path=" + path;
    const std::string packed = absl::StrCat(dir.path(), "/", ++n_models, ".ngw");
    const absl::Status written = Pack({model}, packed);
    ASSERT_TRUE(written.ok()) << written;
    ExpectEqualRuns({model, "model.packed=" + packed}, {model});
  }
  EXPECT_GT(n_models, 60);
}

class PackedFile : public ::testing::Test {
 protected:
  PackedFile() {
    fs::create_directory(dir_.path() + "/m");
    tiny_.WriteTo(dir_.path() + "/m");
  }

  std::string model() const { return "model.path=" + dir_.path() + "/m"; }
  std::string path() const { return dir_.path() + "/m.ngw"; }
  std::string packed() const { return "model.packed=" + path(); }

  void PackIt(const std::string& weights = "auto") {
    const absl::Status written = Pack({model(), "model.weights=" + weights}, path());
    ASSERT_TRUE(written.ok()) << written;
  }

  // Changes one byte of the packed file, or of another one; counted from the end where `at` is
  // negative.
  void Flip(int64_t at) const { Flip(path(), at); }
  static void Flip(const std::string& path, int64_t at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at, at < 0 ? std::ios::end : std::ios::beg);
    const auto byte = static_cast<char>(file.get() ^ 1);
    file.seekp(at, at < 0 ? std::ios::end : std::ios::beg);
    file.put(byte);
  }

  void ExpectRefused(const std::string& what) const {
    const auto engine = Answer({model(), packed()});
    ASSERT_FALSE(engine.ok());
    EXPECT_EQ(ExitCode(engine.status()), 3) << engine.status();
    EXPECT_THAT(std::string(engine.status().message()), AllOf(HasSubstr("m.ngw"), HasSubstr(what)));
  }

  test::TempDir dir_;
  test::TinyNiels tiny_;
};

TEST_F(PackedFile, IsOfTheTypeThatItWasMadeWith) {
  for (const std::string weights : {"f32", "bf16", "f16", "int8", "int4"}) {
    SCOPED_TRACE(weights);
    PackIt(weights);
    ExpectEqualRuns({model(), packed()}, {model(), "model.weights=" + weights});
  }
  const auto other = Answer({model(), packed(), "model.weights=bf16"});
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(ExitCode(other.status()), 2);
  EXPECT_THAT(std::string(other.status().message()),
              HasSubstr("holds the weights as model.weights = int4 has them"));
}

TEST_F(PackedFile, IsOneFileForAllLevels) {
  PackIt("int8");
  for (const IsaLevel level : SupportedIsaLevels()) {
    const std::string isa = absl::StrCat("run.isa=", std::string(IsaName(level)));
    ExpectEqualRuns({model(), packed(), isa}, {model(), "model.weights=int8", isa});
  }
}

TEST_F(PackedFile, HasTheIdentityOfTheModel) {
  PackIt();
  const auto identity = [](const Overrides& overrides) -> absl::StatusOr<std::vector<std::string>> {
    NG_ASSIGN_OR_RETURN(const auto engine, Engine::Open(With(overrides)));
    RunNeeds needs;
    needs.max_tokens = 8;
    needs.identity = true;
    NG_RETURN_IF_ERROR(engine->Load(needs));
    NG_ASSIGN_OR_RETURN(const std::vector<IdentityField> fields, engine->Identity());
    std::vector<std::string> texts;
    for (const IdentityField& field : fields) texts.push_back(field.name + field.value);
    return texts;
  };
  const auto of_packed = identity({model(), packed()});
  ASSERT_TRUE(of_packed.ok()) << of_packed.status();
  EXPECT_EQ(*of_packed, identity({model()}).value());
}

TEST_F(PackedFile, IsRefusedWhenTheModelHasChanged) {
  PackIt();
  const std::string weights = dir_.path() + "/m/model.safetensors";
  const fs::file_time_type then = fs::last_write_time(weights);
  fs::last_write_time(weights, then + std::chrono::seconds(1));
  ExpectRefused("model.safetensors was written again since; make it again with ng-pack");
  Flip(weights, -1);
  fs::last_write_time(weights, then);
  ExpectRefused("was made of a model.safetensors that begins with other bytes");
  tiny_.vocab_size = 1000;
  tiny_.WriteTo(dir_.path() + "/m");
  ExpectRefused("was made of config.json with");
}

TEST_F(PackedFile, IsRefusedWhenAFileOfTheModelCameOrWent) {
  PackIt();
  const std::string extra = dir_.path() + "/m/more.safetensors";
  fs::copy_file(dir_.path() + "/m/model.safetensors", extra);
  ExpectRefused("was made of a model without the file more.safetensors");
}

TEST_F(PackedFile, IsRefusedWhenItIsDamaged) {
  PackIt();
  Flip(40);
  ExpectRefused("the checksum of its text");
  PackIt();
  Flip(-2);
  ExpectRefused("the hash of its vectors");
  PackIt();
  Flip(8);
  ExpectRefused("must be version 1 with layout 1: make it again with ng-pack");
  PackIt();
  Flip(0);
  ExpectRefused("must be a file that ng-pack has written");
  PackIt();
  const auto size = static_cast<int64_t>(fs::file_size(path()));
  for (const int64_t cut : {int64_t{0}, int64_t{20}, int64_t{100}, size - 4, size + 1}) {
    PackIt();
    fs::resize_file(path(), static_cast<uintmax_t>(cut));
    ExpectRefused("bytes");
  }
}

TEST_F(PackedFile, IsVerifiedByteByByte) {
  PackIt("int8");
  const absl::Status sound = Verify({model(), packed()});
  EXPECT_TRUE(sound.ok()) << sound;
  Flip(4096 + 1000);  // in the matrices, which a start does not read
  EXPECT_TRUE(Answer({model(), packed()}).ok());
  const absl::Status damaged = Verify({model(), packed()});
  EXPECT_EQ(ExitCode(damaged), 3);
  EXPECT_THAT(std::string(damaged.message()), HasSubstr("the hash of its matrices"));
}

TEST_F(PackedFile, IsNoModelByItself) {
  PackIt();
  const auto run = Answer({"model.path=" + path()});
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(ExitCode(run.status()), 3);
  EXPECT_THAT(std::string(run.status().message()), HasSubstr("set model.packed to it"));
  const absl::Status again = Pack({model(), packed()}, dir_.path() + "/again.ngw");
  EXPECT_EQ(ExitCode(again), 2);
  EXPECT_EQ(ExitCode(Verify({model()})), 2);
}

TEST_F(PackedFile, IsNotWrittenWhereItCannotBe) {
  EXPECT_EQ(ExitCode(Pack({model()}, dir_.path() + "/nowhere/m.ngw")), 7);
  EXPECT_EQ(ExitCode(Pack({model()}, "/dev/full")), 7);
}

}  // namespace
}  // namespace ng
