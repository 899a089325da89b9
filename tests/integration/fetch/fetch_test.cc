// ng-fetch as its users see it, with a hub on loopback that has faults.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tests/integration/chat_terminal.h"
#include "tests/integration/fetch/hub.h"
#include "tests/integration/run_support.h"

namespace ng::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr char kTiny[] = NG_SOURCE_DIR "/tests/data/golden/llama/tied_gqa";
constexpr char kGguf[] = NG_SOURCE_DIR "/tests/data/golden/gguf/llama/model-Q4_0.gguf";

class Fetch : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!CanFetch()) GTEST_SKIP() << "there is no ng-fetch, or no Python";
    for (const char* const file : {"config.json", "model.safetensors"}) {
      hub_.AddFile(absl::StrCat("org/tiny/", file), absl::StrCat(kTiny, "/", file));
    }
    hub_.Add("org/tiny/README.md", "of no use");
  }

  // The files of blobs whose names end so.
  std::vector<std::string> Blobs(const std::string& ending) const {
    std::vector<std::string> found;
    if (!fs::exists(hub_.Folder("org/tiny") + "/blobs")) return found;
    for (const std::string& name : FilesIn(hub_.Folder("org/tiny") + "/blobs")) {
      if (name.ends_with(ending)) found.push_back(name);
    }
    return found;
  }

  // The files that a commit shows.
  std::vector<std::string> Shown() const {
    std::vector<std::string> shown;
    const std::string folder = hub_.Folder("org/tiny") + "/snapshots";
    if (!fs::exists(folder)) return shown;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) shown.push_back(entry.path().filename().string());
    }
    std::ranges::sort(shown);
    return shown;
  }

  void ExpectWhole(const Result& result) const {
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const std::string folder(absl::StripSuffix(result.out, "\n"));
    for (const char* const file : {"config.json", "model.safetensors"}) {
      EXPECT_EQ(Slurp(folder + "/" + file), Slurp(absl::StrCat(kTiny, "/", file)));
    }
    EXPECT_THAT(Blobs(".incomplete"), IsEmpty());
  }

  size_t Requests(const std::string& begin) const {
    const std::vector<std::string> asked = hub_.Asked();
    return static_cast<size_t>(std::ranges::count_if(
        asked, [&](const std::string& line) { return line.starts_with(begin); }));
  }

  Hub hub_;
};

TEST_F(Fetch, BringsWhatARunReads) {
  hub_.Open();
  const Result result = hub_.Fetch({"org/tiny"});
  ExpectWhole(result);
  EXPECT_THAT(Shown(), ::testing::ElementsAre("config.json", "model.safetensors"));
  const std::string commit = Slurp(hub_.Folder("org/tiny") + "/refs/main");
  EXPECT_EQ(result.out, absl::StrCat(hub_.Folder("org/tiny"), "/snapshots/", commit, "\n"));
  EXPECT_THAT(
      fs::read_symlink(hub_.Folder("org/tiny") + "/snapshots/" + commit + "/config.json").string(),
      StartsWith("../../blobs/"));
  const Result by_name = hub_.RunProgram("ng-run", Greedy("org/tiny", "1 2 3", 6));
  EXPECT_EQ(by_name.out, NgRun(Greedy(kTiny, "1 2 3", 6)).out);
  EXPECT_EQ(by_name.exit_code, 0) << by_name.err;
  // What is there is not fetched again: the list alone is asked for.
  const size_t before = hub_.Asked().size();
  EXPECT_EQ(hub_.Fetch({"org/tiny"}).out, result.out);
  EXPECT_EQ(hub_.Asked().size(), before + 1);
}

TEST_F(Fetch, SaysBeforeWhatItWouldBring) {
  hub_.Open();
  const Result result = hub_.Fetch({"org/tiny", "--dry-run"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("82.7 kB                      model.safetensors\n"),
                                HasSubstr("2 files, 83.4 kB, to fetch: 83.4 kB\n")));
  EXPECT_FALSE(fs::exists(hub_.Cache()));
}

TEST_F(Fetch, GoesOnWhereTheConnectionWasCut) {
  hub_.Open(R"({"cut_once": 30000})");
  ExpectWhole(hub_.Fetch({"org/tiny"}));
  EXPECT_THAT(hub_.Asked(), Contains(HasSubstr("range=bytes=30000-")));
}

TEST_F(Fetch, GoesOnWithWhatAnotherTimeHasLeft) {
  hub_.Open(R"({"early": 30000})");
  const Result result = hub_.Fetch({"org/tiny", "--tries=0", "--connections=1"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  ASSERT_THAT(Blobs(".incomplete"), SizeIs(1));
  EXPECT_FALSE(fs::exists(hub_.Folder("org/tiny") + "/refs"));
  ExpectErrorOf("ng-run", hub_.RunProgram("ng-run", Greedy("org/tiny", "1", 1)), 3,
                {"there are no weights", "ng-fetch org/tiny fetches what is missing"});
  hub_.SetFaults("{}");
  ExpectWhole(hub_.Fetch({"org/tiny"}));
  EXPECT_THAT(hub_.Asked(), Contains(HasSubstr("range=bytes=30000-")));
}

TEST_F(Fetch, BeginsAgainWhereItCannotGoOn) {
  hub_.Open();
  for (const char* const faults :
       {R"({"no_ranges": true, "cut_once": 5000})", R"({"bad_range": true, "cut_once": 5000})",
        R"({"wrong_once": true})", R"({"status": [503, 1]})",
        R"({"status": [429, 1], "retry_after": 1})"}) {
    SCOPED_TRACE(faults);
    hub_.SetFaults(faults);
    ExpectWhole(hub_.Fetch({"org/tiny"}));
    fs::remove_all(hub_.Cache());
  }
}

TEST_F(Fetch, ShowsNothingThatIsWrong) {
  hub_.Open();
  const struct {
    const char* faults;
    int code;
    const char* says;
  } kCases[] = {
      {R"({"wrong": true})", 3, "sha256 of what has come is"},
      {R"({"size_off": 5})", 3, "has two sizes"},
      {R"({"size_off": 70368744177664})", 5, "the files need 140.7 TB, free: "},
      {R"({"etag": "\"../../x\""})", 3, "can be no file's name"},
      {R"({"names": ["../evil"]})", 3, "is none of a repository"},
      {R"({"names": ["/tmp/evil.safetensors"]})", 3, "is none of a repository"},
      {R"({"listing": 40000000})", 3, "is longer than"},
      {R"({"endless": true})", 3, "more bytes come than"},
      {R"({"loop": true})", 3, "leads elsewhere more than 5 times"},
      {R"({"cut": 0})", 1, "127.0.0.1"},
  };
  for (const auto& [faults, code, says] : kCases) {
    SCOPED_TRACE(faults);
    hub_.SetFaults(faults);
    ExpectErrorOf("ng-fetch", hub_.Fetch({"org/tiny", "--tries=0", "-q"}), code, {says});
    EXPECT_THAT(Shown(), Not(Contains("model.safetensors")));
    EXPECT_FALSE(fs::exists(hub_.Folder("org/tiny") + "/refs"));
    fs::remove_all(hub_.Cache());
  }
}

TEST_F(Fetch, SendsTheTokenToTheHubAlone) {
  hub_.Open(R"({"token": "hf_secret"})");
  ExpectErrorOf("ng-fetch", hub_.Fetch({"org/tiny"}), 3, {"answers 401", "set HF_TOKEN"});
  ExpectWhole(hub_.ShellOf("HF_TOKEN=hf_secret \"$1\" org/tiny", {NG_BINARY_DIR "/bin/ng-fetch"}));
  fs::remove_all(hub_.Cache());
  // Or the file that `hf auth login` writes.
  ExpectWhole(hub_.ShellOf("echo hf_secret > \"$HF_HOME/token\"; \"$1\" org/tiny",
                           {NG_BINARY_DIR "/bin/ng-fetch"}));
  EXPECT_GT(Requests("files "), 0U);
  for (const std::string& line : hub_.Asked()) {
    if (line.starts_with("files ")) {
      EXPECT_THAT(line, HasSubstr("token=-"));
    }
  }
}

TEST_F(Fetch, SaysWhyThereIsNothing) {
  hub_.Open();
  const auto refused = [&](const Arguments& arguments, int code, const char* says) {
    ExpectErrorOf("ng-fetch", hub_.Fetch(arguments), code, {says});
  };
  refused({"org/none"}, 3, "there is no such model, or it is private");
  refused({"org/tiny@v7"}, 3, "it has no such revision");
  refused({"org/tiny:Q8_0"}, 3, "the repository has no GGUF file");
  refused({"org/tiny", "--include=*.bin"}, 2, "has no such file");
  refused({"../x"}, 2, "is no name of a model");
  hub_.SetFaults(R"({"gated": true})");
  refused({"org/tiny"}, 3, "it is gated");
  hub_.SetFaults(R"({"status": [429, 9], "retry_after": 1000})");
  refused({"org/tiny"}, 1, "it asks to wait 1000 seconds");
  ExpectErrorOf("ng-fetch",
                hub_.ShellOf("HF_HUB_OFFLINE=1 \"$1\" org/tiny", {NG_BINARY_DIR "/bin/ng-fetch"}),
                2, {"HF_HUB_OFFLINE is set"});
}

TEST_F(Fetch, BringsOneOfSeveralGgufFiles) {
  hub_.AddFile("org/gguf/m-Q4_0.gguf", kGguf);
  hub_.AddFile("org/gguf/m-Q8_0.gguf", kGguf);
  hub_.Open();
  ExpectErrorOf("ng-fetch", hub_.Fetch({"org/gguf"}), 2,
                {"write one of: org/gguf:Q4_0, org/gguf:Q8_0"});
  const Result result = hub_.Fetch({"org/gguf:q4_0"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, ::testing::EndsWith("/m-Q4_0.gguf\n"));
  EXPECT_EQ(hub_.RunProgram("ng-run", Greedy("org/gguf:Q4_0", "1 2 3", 4)).out,
            NgRun(Greedy(kGguf, "1 2 3", 4)).out);
}

TEST_F(Fetch, KeepsWhatHasComeWhereThereIsNoRoom) {
  hub_.Open();
  const Result full = hub_.ShellOf("ulimit -f 40; \"$1\" org/tiny --connections=1 -q",
                                   {NG_BINARY_DIR "/bin/ng-fetch"});
  ExpectErrorOf("ng-fetch", full, 7, {"cannot write"});
  EXPECT_THAT(Blobs(".incomplete"), SizeIs(1));
  ExpectWhole(hub_.Fetch({"org/tiny"}));
  EXPECT_THAT(hub_.Asked(), Contains(HasSubstr("range=bytes=40960-")));
}

TEST_F(Fetch, StopsAtASignalAndLosesNothing) {
  hub_.Open(R"({"slow": 20})");
  // SIGINT is ignored where the tests run in the background.
  const Result result = hub_.ShellOf(
      "\"$1\" org/tiny --include='*.safetensors' & pid=$!\n"
      "until [ -s \"$(echo \"$2\"/blobs/*.incomplete)\" ]; do sleep 0.02; done\n"
      "kill -TERM $pid; wait $pid; echo code $?",
      {NG_BINARY_DIR "/bin/ng-fetch", hub_.Folder("org/tiny")});
  EXPECT_THAT(result.out, HasSubstr("code 143"));
  EXPECT_THAT(result.err, HasSubstr("stopped; what has come is kept"));
  EXPECT_THAT(Shown(), IsEmpty());
  hub_.SetFaults("{}");
  ExpectWhole(hub_.Fetch({"org/tiny"}));
  EXPECT_THAT(hub_.Asked(), Contains(HasSubstr("range=bytes=65536-")));
}

TEST_F(Fetch, LetsTwoShareTheWork) {
  hub_.Open(R"({"slow": 0.1})");
  const Result result = hub_.ShellOf(
      "\"$1\" org/tiny & a=$!; \"$1\" org/tiny & b=$!; wait $a; echo $?; wait $b; echo $?",
      {NG_BINARY_DIR "/bin/ng-fetch"});
  EXPECT_THAT(result.out, HasSubstr("\n0\n"));
  EXPECT_THAT(result.out, ::testing::EndsWith("0\n"));
  EXPECT_EQ(Requests("files GET "), 1U);
  ExpectWhole(hub_.Fetch({"org/tiny"}));
}

TEST_F(Fetch, AsksNobodyUnlessItIsCalled) {
  hub_.Open();
  const Result result = hub_.RunProgram("ng-run", {"org/tiny", "hello"});
  ExpectError(result, 3,
              {"no model is known by the name org/tiny", "ng-fetch org/tiny fetches it"});
  EXPECT_THAT(hub_.Asked(), IsEmpty());
}

// ng-run in a terminal.
class FetchTerminal : public ChatTerminal {};

TEST_F(FetchTerminal, OffersWhatIsNotHere) {
  if (!CanFetch()) GTEST_SKIP() << "there is no ng-fetch, or no Python";
  Hub hub;
  for (const std::string& file : FilesIn(NG_SOURCE_DIR "/configs/demo")) {
    hub.AddFile("org/demo/" + file, absl::StrCat(NG_SOURCE_DIR "/configs/demo/", file));
  }
  hub.Open();
  std::string environment;
  for (const std::string& variable : hub.Environment()) {
    absl::StrAppend(&environment, " ", variable);
  }
  way_ = {"-m", "org/demo", "--message", "Who art thou?", "--run.arithmetic=portable"};
  Start({}, environment);
  See("[y/N]");
  EXPECT_THAT(Screen(), AllOf(HasSubstr("Download "), HasSubstr("MB from 127.0.0.1:")));
  Say("n");
  EXPECT_THAT(See("ended"),
              AllOf(HasSubstr("no model is known by the name org/demo"), HasSubstr("exit=3")));
  Tmux({"kill-server"});
  Start({}, environment);
  See("[y/N]");
  Say("y");
  EXPECT_THAT(See("ended"), AllOf(HasSubstr("Clown: No, my lord"), HasSubstr("exit=0")));
}

}  // namespace
}  // namespace ng::test
