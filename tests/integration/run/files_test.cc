// What a run does with the files that it is told of: outputs that are inputs, pipes and links,
// models in other forms, headers that claim much.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/integration/run_support.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng::test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kMiB = int64_t{1} << 20;

// A copy of the demo, so that what overwrites it harms nobody.
class DemoCopy : public ::testing::Test {
 protected:
  DemoCopy() {
    fs::copy(NG_SOURCE_DIR "/configs/demo", dir_.File("demo"));
    fs::copy(NG_SOURCE_DIR "/configs/demo.ini", dir_.File("demo.ini"));
  }

  Arguments Turn(int n) const {
    return {"--config", dir_.File("demo.ini"), "--message=Hello",
            absl::StrCat("--run.max_new_tokens=", n)};
  }

  TempDir dir_;
};

TEST_F(DemoCopy, NoInputIsOverwritten) {
  const std::string prompt = dir_.Write("prompt.txt", "To be");
  const std::string prompts = dir_.Write("prompts.jsonl", "{\"prompt\": \"To be\"}\n");
  const Arguments config = {"--config", dir_.File("demo.ini"), "--run.max_new_tokens=1"};
  const std::string snapshot = dir_.File("snapshot");
  ASSERT_EQ(NgRun(config + Arguments{"--prompt-file", prompt, "--save-cache", snapshot}).exit_code,
            0);
  fs::create_symlink("demo/config.json", dir_.File("soft"));
  fs::create_hard_link(dir_.File("demo/model.safetensors"), dir_.File("hard"));

  const Arguments text = config + Arguments{"--prompt-file", prompt};
  const Arguments lines = config + Arguments{"--prompts", prompts};
  const Arguments turn = Turn(1);
  const std::pair<Arguments, std::string> cases[] = {
      {turn, "demo.ini"},
      {turn, "demo/../demo.ini"},
      {turn, "demo/config.json"},
      {turn, "soft"},
      {turn, "demo/model.safetensors"},
      {turn, "hard"},
      {turn, "demo/tokenizer.model"},
      {text, "prompt.txt"},
      {lines, "prompts.jsonl"},
      {text + Arguments{"--load-cache", snapshot}, "snapshot"},
  };
  for (const auto& [arguments, name] : cases) {
    const std::string before = ReadFile(dir_.File(name));
    for (const char* option : {"--steps", "--save-cache"}) {
      ExpectError(NgRun(arguments + Arguments{option, dir_.File(name)}), 2,
                  {absl::StrCat(option, " would overwrite an input of this run: "), name});
    }
    EXPECT_EQ(ReadFile(dir_.File(name)), before);
  }
}

// What is looked for is there, though it leads nowhere.
TEST_F(DemoCopy, CompanionsThatAreDanglingLinksAreErrors) {
  for (const char* name :
       {"generation_config.json", "chat_template.jinja", "tokenizer_config.json"}) {
    for (const char* target : {"absent", name}) {
      const std::string link = dir_.File(absl::StrCat("demo/", name));
      fs::create_symlink(target, link);
      ExpectError(NgRun(Turn(1)), 3, {link});
      fs::remove(link);
    }
  }
  fs::remove(dir_.File("demo/tokenizer.model"));
  for (const char* name : {"tokenizer.model", "tokenizer.json"}) {
    const std::string link = dir_.File(absl::StrCat("demo/", name));
    fs::create_symlink("absent", link);
    ExpectError(NgRun(Turn(1)), 3, {link + ": is a link to absent, which is not there"});
    fs::remove(link);
  }
}

TEST(OutputThatIsAnInput, IsRefusedForAPluginAGgufFileAndAText) {
  const TempDir dir;
  fs::copy(NG_BINARY_DIR "/tests/fixtures/broken_plugins/throws_in_worker", dir.File("plugins"));
  const std::string plugin = dir.File("plugins/ng_attention_throws_in_worker.so");
  ASSERT_TRUE(fs::exists(plugin));
  ExpectError(NgRun(DemoTurn(1) + Arguments{"--plugins.path=" + dir.File("plugins"),
                                            "--attention.name=throws_in_worker", "--save", plugin}),
              2, {"--save would overwrite an input", plugin});
  const std::string ids = dir.Write("ids", "4 5 6\n");
  Command eval;
  eval.program = "ng-eval";
  eval.arguments = Demo() + Arguments{"--ids-file", ids, "--save-ids", dir.File("./ids")};
  ExpectErrorOf("ng-eval", test::Run(eval), 2,
                {"--save-ids would overwrite an input", " is " + ids});
}

TEST(Outputs, ThatAreOneFileAreRefused) {
  const TempDir dir;
  dir.Write("a", "");
  fs::create_symlink("a", dir.File("b"));
  ExpectError(NgRun(DemoTurn(1) + Arguments{"--steps", dir.File("a"), "--save", dir.File("b")}), 2,
              {"--steps and --save name one file"});
  const Result redirected = Shell("file=$1; shift; exec \"$NG\" \"$@\" --save \"$file\" >\"$file\"",
                                  Arguments{dir.File("out")} + DemoTurn(1));
  ExpectError(redirected, 2, {"stdout and --save name one file"});
  EXPECT_EQ(NgRun(DemoTurn(1) + Arguments{"--steps=/dev/null", "--save=/dev/null"}).exit_code, 0);
}

TEST(Outputs, InAFileSystemUnderDevAreFiles) {
  const std::string path = "/dev/shm/ng_run_files_test." + std::to_string(::getpid());
  const Result result = NgRun(DemoTurn(3) + Arguments{"--steps", path});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(JsonLines(ReadFile(path)).size(), 3U);
  fs::remove(path);
}

TEST(Outputs, ThroughLinksThatLeadNowhereAreRefusedBeforeAnythingIsComputed) {
  const TempDir dir;
  fs::create_symlink("absent", dir.File("dangling"));
  fs::create_symlink("loop", dir.File("loop"));
  for (const char* option : {"--steps", "--save", "--save-cache"}) {
    for (const char* name : {"dangling", "loop"}) {
      const Result result = NgRun(DemoTurn(1) + Arguments{option, dir.File(name)});
      ExpectError(result, 7, {dir.File(name), "is a link "});
      EXPECT_EQ(result.out, "");
    }
    ExpectError(NgRun(DemoTurn(1) + Arguments{option, dir.File("no/such")}), 7,
                {"no such folder: " + dir.File("no")});
  }
  EXPECT_THAT(FilesIn(dir.path()), ElementsAre("dangling", "loop"));
}

TEST(Outputs, AreOpenedOnceWhereTheyArePipes) {
  const TempDir dir;
  // A reader that ends with the first writer: a second one would wait for ever, or be cut off.
  for (const char* option : {"--steps", "--save", "--save-cache"}) {
    const Result result = Shell(
        "fifo=$1; copy=$2; shift 2; mkfifo \"$fifo\"; cat \"$fifo\" >\"$copy\" & "
        "\"$NG\" \"$@\" \"$fifo\"; code=$?; wait; exit $code",
        Arguments{dir.File(absl::StrCat("fifo", option)), dir.File(absl::StrCat("copy", option))} +
            DemoTurn(2) + Arguments{option});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    ASSERT_EQ(
        NgRun(DemoTurn(2) + Arguments{option, dir.File(absl::StrCat("file", option))}).exit_code,
        0);
    EXPECT_EQ(ReadFile(dir.File(absl::StrCat("copy", option))),
              ReadFile(dir.File(absl::StrCat("file", option))));
  }
}

// Sends the signals once the program waits for the FIFO: nothing of it is seen before.
TEST(Outputs, ThatNobodyReadsAreGivenUpAtTheFirstInterrupt) {
  const TempDir dir;
  ASSERT_EQ(::mkfifo(dir.File("fifo").c_str(), 0600), 0);
  for (const char* option : {"--steps", "--save"}) {
    const Result result = Shell("\"$NG\" \"$@\" & pid=$!; sleep 0.4; kill -TERM $pid; wait $pid",
                                DemoTurn(1) + Arguments{option, dir.File("fifo")});
    EXPECT_EQ(result.exit_code, 143);
    EXPECT_THAT(result.err, Not(HasSubstr("error")));
  }
}

TEST(Outputs, LeaveNothingBehindWhateverEndsTheProcess) {
  TinyNiels model;
  model.max_positions = int64_t{1} << 20;
  const TempDir folder;
  model.WriteTo(folder.path());
  for (const int signal : {SIGKILL, SIGQUIT}) {
    const TempDir outputs;
    outputs.Write("saved", "old");
    Command command;
    command.program = "ng-run";
    command.arguments = Greedy(folder.path(), "1 2 3", 500000) +
                        Arguments{"--debug-cache", "--steps", outputs.File("steps"), "--save",
                                  outputs.File("saved")};
    command.signal = signal;
    command.signal_after = 2000;  // some steps
    EXPECT_EQ(test::Run(command).exit_code, 128 + signal);
    EXPECT_THAT(FilesIn(outputs.path()), ElementsAre("saved"));
    EXPECT_EQ(ReadFile(outputs.File("saved")), "old");
  }
}

TEST(Inputs, AreNeverWaitedForWhereNobodyWritesToThem) {
  const TempDir dir;
  const std::string fifo = dir.File("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  ExpectError(NgRun({"--config", fifo}), 2, {fifo, "is not a regular file"});
  for (const Arguments& arguments :
       {Arguments{"--tokenizer.path=" + fifo}, Arguments{"--load-cache", fifo}}) {
    ExpectError(NgRun(DemoTurn(1) + arguments), 3, {fifo, "is not a regular file"});
  }
  ExpectError(NgRun(DemoTurn(1) + Arguments{"--model.path=" + fifo}), 3, {fifo});
  for (const char* option : {"--prompt-file", "--prompts"}) {
    ExpectError(NgRun(Demo() + Arguments{option, fifo}), 2, {});
  }
}

TEST(Inputs, OfTextMayComeFromAPipe) {
  const Arguments rest = {"--run.max_new_tokens=3", "--prompt-file", "/dev/stdin"};
  const Result piped = NgRun(Demo() + rest, "To be");
  ASSERT_EQ(piped.exit_code, 0) << piped.err;
  EXPECT_EQ(piped.out, NgRun(Demo() + Arguments{"--run.max_new_tokens=3", "--prompt=To be"}).out);
}

TEST(Inputs, ThatNobodyEndsAreGivenUpAtTheFirstInterrupt) {
  const TempDir dir;
  const Result result = Shell(
      "mkfifo \"$1/fifo\"; exec 3<>\"$1/fifo\"; fifo=$1/fifo; shift; "
      "\"$NG\" \"$@\" --prompt-file \"$fifo\" & pid=$!; sleep 0.4; kill -TERM $pid; wait $pid",
      Arguments{dir.path()} + Demo());
  EXPECT_EQ(result.exit_code, 143);
}

class ModelFolder : public ::testing::Test {
 protected:
  ModelFolder() { TinyNiels().WriteTo(dir_.path()); }

  void ExpectRefused(const std::vector<std::string>& parts) const {
    ExpectError(NgRun(Greedy(dir_.path(), "1", 1)), 3, parts);
  }
  void Move(const char* from, const char* to) const { fs::rename(dir_.File(from), dir_.File(to)); }

  TempDir dir_;
};

TEST_F(ModelFolder, HoldsNoWeightsBehindALinkThatLeadsNowhere) {
  Move("model.safetensors", "other.safetensors");
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"}) {
    fs::create_symlink("absent", dir_.File(name));
    ExpectRefused({absl::StrCat(name, ": is a link to absent, which is not there")});
    fs::remove(dir_.File(name));
  }
}

TEST_F(ModelFolder, IsAnsweredWhereItHoldsSomethingElse) {
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4\nsize 9\n";
  const std::string weights = ReadFile(dir_.File("model.safetensors"));
  dir_.Write("model.safetensors", pointer);
  ExpectRefused({"model.safetensors: is a Git LFS pointer, not the file itself", "git lfs pull"});
  dir_.Write("model.safetensors", weights);
  dir_.Write("tokenizer.json", pointer);
  ExpectRefused({"tokenizer.json: is a Git LFS pointer"});
  fs::remove(dir_.File("tokenizer.json"));
  const std::string gguf = dir_.Write("lfs.gguf", pointer);
  ExpectError(NgRun(Greedy(gguf, "1", 1)), 3, {"lfs.gguf: is a Git LFS pointer"});

  for (const char* name : {"model.safetensors", "config.json"}) {
    ExpectError(NgRun(Greedy(dir_.File(name), "1", 1)), 3,
                {"is a file of a model folder; model.path must be a folder", ": " + dir_.path()});
  }
  Move("model.safetensors", "weights");
  ExpectRefused({"holds no .safetensors file but ", "lfs.gguf; set model.path to that file"});
  Move("lfs.gguf", "pytorch_model.bin");
  ExpectRefused({"holds no .safetensors file but ", "pytorch_model.bin", "convert it"});
  Move("config.json", "config");
  ExpectRefused({dir_.path() + ": holds no config.json but ", "pytorch_model.bin"});
  Move("pytorch_model.bin", "nothing");
  ExpectRefused({dir_.path() + ": holds no config.json\n"});
}

TEST(HomeFolder, IsNotExpandedHereAndTheUserIsTold) {
  const TempDir dir;
  const std::string ini = dir.Write("run.ini", "[model]\npath = ~/model\n");
  const std::string hint = "nobody but the shell knows what '~' stands for";
  ExpectError(NgRun({"--config", ini, "--prompt-ids=1"}), 3, {"/~/model", hint});
  ExpectError(NgRun({"--config=~/run.ini"}), 2, {"~/run.ini: no such file", hint});
  ExpectError(NgRun(DemoTurn(1) + Arguments{"--steps=~/s"}), 7, {"no such folder: ~", hint});
}

TEST(FileSizeLimit, IsAnOutputThatCannotBeWritten) {
  const TempDir dir;
  const Result result =
      Shell("ulimit -f 1; exec \"$NG\" \"$@\"", DemoTurn(3) + Arguments{"--save", dir.File("out")});
  ExpectError(result, 7, {"out: cannot write: File too large"});
  EXPECT_THAT(FilesIn(dir.path()), ElementsAre());
}

// Peaks of the run alone; a header that is refused takes little more.
class LargeClaims : public ::testing::Test {
 protected:
  // `bytes`, and zeros that take no room on the disk up to `size`.
  std::string Sparse(const std::string& name, const std::string& bytes, int64_t size) {
    const std::string path = dir_.Write(name, bytes);
    fs::resize_file(path, static_cast<uintmax_t>(size));
    return path;
  }
  void ExpectRefusedInLittleMemory(const std::string& path, const std::string& part) {
    const Result result = NgRun(Greedy(path, "1", 1));
    ExpectError(result, 3, {path, part});
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    EXPECT_LT(result.peak_bytes, 300 * kMiB);
#endif
  }

  TempDir dir_;
};

TEST_F(LargeClaims, OfAGgufFileAreHeldAgainstWhatAHeaderMayHave) {
  const std::string start = "GGUF" + Raw(uint32_t{3});
  const int64_t size = 1024 * kMiB;
  const auto array = [&](GgufType type, uint64_t count) {
    return start + Raw(uint64_t{0}) + Raw(uint64_t{1}) + RawText("k") + Raw(GgufType::kArray) +
           Raw(type) + Raw(count);
  };
  ExpectRefusedInLittleMemory(
      Sparse("values", start + Raw(uint64_t{0}) + Raw(uint64_t{1} << 26), size),
      "key-value count = 67108864, must be in [0, 65536]");
  ExpectRefusedInLittleMemory(
      Sparse("tensors", start + Raw(uint64_t{1} << 24) + Raw(uint64_t{0}), size),
      "tensor count = 16777216, must be in [0, 100000]");
  for (const GgufType type : {GgufType::kU8, GgufType::kText}) {
    ExpectRefusedInLittleMemory(Sparse("array", array(type, 100'000'000), size),
                                "count = 100000000, must be in [0, 4194304]");
  }
  const std::string text = start + Raw(uint64_t{0}) + Raw(uint64_t{1}) + RawText("k") +
                           Raw(GgufType::kText) + Raw(uint64_t{500'000'000});
  ExpectRefusedInLittleMemory(Sparse("text", text, size), "header of more than 100000000 bytes");
  // As many empty texts as an array may hold.
  ExpectRefusedInLittleMemory(Sparse("texts", array(GgufType::kText, uint64_t{1} << 22), size),
                              "general.architecture");
}

TEST_F(LargeClaims, OfOtherFilesAreTheirOwnBytesAtMost) {
  TinyNiels().WriteTo(dir_.path());
  Sparse("model.safetensors", Raw(uint64_t{99'000'000}) + "{", 1024 * kMiB);
  const Result result = NgRun(Greedy(dir_.path(), "1", 1));
  ExpectError(result, 3, {"model.safetensors: header"});
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(result.peak_bytes, 300 * kMiB);
#endif
  const std::string snapshot =
      "NGCACHE\n" + Raw(uint32_t{2}) + Raw(uint32_t{0}) + Raw(uint64_t{1} << 29);
  ExpectError(
      NgRun(DemoTurn(1) + Arguments{"--load-cache", Sparse("cache", snapshot, 1024 * kMiB)}), 3,
      {"header_bytes is 536870912, must be in [64, 67108864]"});
  const std::string ini = Sparse("run.ini", "", 1024 * kMiB);
  ExpectError(NgRun({"--config", ini}), 2, {ini, "has 1073741824 bytes"});
  for (const char* name : {"config.json", "tokenizer.json", "tokenizer.model"}) {
    Sparse(name, "{", 1024 * kMiB);
    ExpectRefusedInLittleMemory(dir_.path(), absl::StrCat(name, ": has 1073741824 bytes"));
    fs::remove(dir_.File(name));
    TinyNiels().WriteTo(dir_.path());
  }
}

}  // namespace
}  // namespace ng::test
