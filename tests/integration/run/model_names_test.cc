// ng-run with a model's name in place of its path.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/integration/run_support.h"
#include "tests/support/temp_dir.h"

namespace ng::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kFolder[] = NG_SOURCE_DIR "/tests/data/golden/llama/tied_gqa";
constexpr char kGguf[] = NG_SOURCE_DIR "/tests/data/golden/gguf/llama/model-Q4_0.gguf";

// A home with a model of each kind of place.
class ModelNames : public ::testing::Test {
 protected:
  ModelNames() {
    AddToHub("org--tiny", kFolder);
    const fs::path broken = Folder(".cache/huggingface/hub/models--org--gone/snapshots/abcd");
    fs::create_symlink(fs::path(kFolder) / "config.json", broken / "config.json");
    fs::create_symlink("nowhere", broken / "model.safetensors");

    Folder(".ollama/models/manifests/registry.ollama.ai/library/llama");
    home_.Write(".ollama/models/manifests/registry.ollama.ai/library/llama/tiny", R"({"layers": [
        {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:a"},
        {"mediaType": "application/vnd.ollama.image.system", "digest": "sha256:b"},
        {"mediaType": "application/vnd.ollama.image.params", "digest": "sha256:c"}]})");
    const fs::path blobs = Folder(".ollama/models/blobs");
    fs::create_symlink(kGguf, blobs / "sha256-a");
    home_.Write(".ollama/models/blobs/sha256-b", "Be brief.");
    home_.Write(".ollama/models/blobs/sha256-c",
                R"({"temperature": 0.25, "num_predict": 3, "num_ctx": 40})");
    home_.Write(".ollama/models/blobs/sha256-d", R"({"stop": ["END", "a, b"]})");

    fs::create_symlink(kGguf, Folder("models/mine") / "mine-Q4_0.gguf");
  }

  fs::path Folder(const std::string& name) {
    fs::create_directories(home_.File(name));
    return home_.File(name);
  }

  void AddToHub(const std::string& repository, const std::string& folder) {
    const fs::path snapshot =
        Folder(absl::StrCat(".cache/huggingface/hub/models--", repository, "/snapshots/abcd"));
    for (const auto& file : fs::directory_iterator(folder)) {
      fs::create_symlink(file.path(), snapshot / file.path().filename());
    }
  }

  // Runs a program for a user whose home is this folder.
  static Result RunIn(const std::string& home, const Arguments& arguments,
                      const char* program = "ng-run", const std::string& input = "") {
    Command command;
    command.input = input;
    command.program = program;
    command.arguments = arguments;
    command.environment = {absl::StrCat("HOME=", home),
                           "XDG_CACHE_HOME=",
                           "HF_HOME=",
                           "HF_HUB_CACHE=",
                           "OLLAMA_MODELS=",
                           "LLAMA_CACHE="};
    return ng::test::Run(command);
  }

  Result RunAtHome(const Arguments& arguments) const { return RunIn(home_.path(), arguments); }

  TempDir home_;
};

TEST_F(ModelNames, RunAsTheirPathsDo) {
  const Result by_path = NgRun(Greedy(kFolder, "1 2 3", 6));
  ASSERT_EQ(by_path.exit_code, 0) << by_path.err;
  EXPECT_EQ(RunAtHome(Greedy("org/tiny", "1 2 3", 6)).out, by_path.out);
  EXPECT_EQ(RunAtHome(Greedy("Org/Tiny@abcd", "1 2 3", 6)).out, by_path.out);

  const Result of_gguf = NgRun(Greedy(kGguf, "1 2 3", 6));
  ASSERT_EQ(of_gguf.exit_code, 0) << of_gguf.err;
  EXPECT_EQ(RunAtHome(Greedy("llama:tiny", "1 2 3", 6)).out, of_gguf.out);
  EXPECT_EQ(RunAtHome(Greedy("mine", "1 2 3", 6) +
                      Arguments{absl::StrCat("--model.folders=", home_.File("models"))})
                .out,
            of_gguf.out);
}

TEST_F(ModelNames, AreThoseOfTheirTokenizers) {
  const std::string demo = NG_SOURCE_DIR "/configs/demo";
  AddToHub("org--demo", demo);
  const auto encoded = [&](const std::string& model) {
    return RunIn(home_.path(), {model}, "ng-tokenize", "Who art thou?");
  };
  const Result by_path = encoded(demo);
  ASSERT_EQ(by_path.exit_code, 0) << by_path.err;
  EXPECT_EQ(encoded("org/demo").out, by_path.out);
  ExpectErrorOf("ng-tokenize", encoded("org/gone"), 3,
                {"org/gone", "is a link that leads nowhere"});
}

TEST_F(ModelNames, MayStandInAConfig) {
  const std::string config = home_.Write("my.ini", "[model]\npath = org/tiny\n");
  const Result result = RunAtHome({"--config", config, "--print-config"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("models--org--tiny/snapshots/abcd"), HasSubstr("model = org/tiny")));
}

TEST_F(ModelNames, AreNotLookedForWhereThereIsSuchAPath) {
  const std::string config = home_.Write("my.ini", "[model]\npath = org/tiny\n");
  fs::create_directory_symlink(kFolder, Folder("org") / "tiny");
  const Result result = RunAtHome({"--config", config, "--print-config"});
  EXPECT_THAT(result.out, HasSubstr(home_.File("org/tiny")));
}

TEST_F(ModelNames, BringWhatOllamaWouldRunThemWith) {
  const Result result = RunAtHome({"-m", "llama:tiny", "--print-config"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("system = Be brief."), HasSubstr("max_new_tokens = 3"),
                                HasSubstr("usual_tokens = 40"), HasSubstr("value = 0.25")));
  // What the user says counts, and they may want none of it.
  EXPECT_THAT(RunAtHome({"-m", "llama:tiny", "--print-config", "--temp=0.5"}).out,
              HasSubstr("value = 0.5"));
  EXPECT_THAT(RunAtHome({"-m", "llama:tiny", "--print-config", "--run.model_defaults=false"}).out,
              Not(HasSubstr("Be brief.")));
}

TEST_F(ModelNames, BringTheContextOfAConversation) {
  const auto planned = [&](const std::string& setting) {
    return RunAtHome({"-m", "llama:tiny", "--chat", "--dry-run", "-v", setting}).out;
  };
  EXPECT_THAT(planned("--sampler.seed=1"), HasSubstr("memory for 1 x 40 tokens"));
  EXPECT_THAT(planned("--cache.usual_tokens=50"), HasSubstr("memory for 1 x 50 tokens"));
  EXPECT_THAT(planned("--cache.max_tokens=30"), HasSubstr("memory for 1 x 30 tokens"));
  // No more than the model has.
  EXPECT_THAT(planned("--cache.usual_tokens=5000"), HasSubstr("memory for 1 x 256 tokens"));
}

TEST_F(ModelNames, BringTheTextsThatEndAnAnswer) {
  home_.Write(".ollama/models/manifests/registry.ollama.ai/library/llama/stops", R"({"layers": [
      {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:a"},
      {"mediaType": "application/vnd.ollama.image.params", "digest": "sha256:d"}]})");
  const Result result = RunAtHome({"-m", "llama:stops", "--print-config"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  // In front of the usual chain, which stays.
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("chain = stop_texts,"), HasSubstr("texts = END,a\\,\\ b")));
  EXPECT_THAT(RunAtHome({"-m", "llama:stops", "--print-config", "--run.model_defaults=false"}).out,
              Not(HasSubstr("stop_texts")));
}

// The GGUF file has no template of its own.
TEST_F(ModelNames, WithATemplateThatCannotRunAreRefused) {
  home_.Write(".ollama/models/manifests/registry.ollama.ai/library/llama/go", R"({"layers": [
      {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:a"},
      {"mediaType": "application/vnd.ollama.image.template", "digest": "sha256:e"}]})");
  home_.Write(".ollama/models/blobs/sha256-e", "[INST] {{ .Prompt }} [/INST]");
  const Arguments run = Greedy("llama:go", "1 2 3", 4);
  ExpectError(RunAtHome(run), 3,
              {"llama:go in Ollama's store has a chat template in Go's language (sha256-e)",
               "set tokenizer.chat_template to"});
  const std::string by_path = NgRun(Greedy(kGguf, "1 2 3", 4)).out;
  EXPECT_EQ(RunAtHome(run + Arguments{"--tokenizer.chat_template=none"}).out, by_path);
  // One that adds nothing to a text is none of a conversation.
  home_.Write(".ollama/models/blobs/sha256-e", "{{ .Prompt }}\n");
  EXPECT_EQ(RunAtHome(run).out, by_path);
}

TEST_F(ModelNames, WithATemplateThatIsKnownRunWithTheSameOfOurs) {
  constexpr char kQwen[] = NG_SOURCE_DIR "/tests/data/golden/gguf/qwen2/model-Q8_0.gguf";
  const std::string hash = "62fbfd9ed093d6e5ac83190c86eec5369317919f4b149598d2dbb38900e9faef";
  home_.Write(".ollama/models/manifests/registry.ollama.ai/library/llama/known",
              absl::StrCat(R"({"layers": [
      {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:f"},
      {"mediaType": "application/vnd.ollama.image.template", "digest": "sha256:)",
                           hash, R"("}]})"));
  fs::create_symlink(kQwen, home_.File(".ollama/models/blobs/sha256-f"));
  home_.Write(".ollama/models/blobs/sha256-" + hash, "{{ .System }}");
  const Arguments message = {"--message=Hi", "-n", "4", "--sampler.chain=greedy"};
  const Result by_name = RunAtHome(Arguments{"-m", "llama:known"} + message);
  ASSERT_EQ(by_name.exit_code, 0) << by_name.err;
  EXPECT_EQ(by_name.out,
            NgRun(Arguments{"-m", kQwen, "--tokenizer.chat_template=chatml"} + message).out);
}

TEST_F(ModelNames, ThatNobodyKnowsAreSaid) {
  ExpectError(RunAtHome(Greedy("org/other", "1", 1)), 3,
              {"org/other: No such file or directory",
               "no model is known by the name org/other (ng-run --list-models"});
  ExpectError(RunAtHome(Greedy("org/gone", "1", 1)), 3,
              {"org/gone", "model.safetensors is a link that leads nowhere"});
  ExpectError(RunAtHome(Greedy("./org/tiny", "1", 1)), 3, {"org/tiny: No such file or directory"});
}

TEST_F(ModelNames, AreListed) {
  const Arguments list = {"--list-models", absl::StrCat("--model.folders=", home_.File("models"))};
  const Result text = RunAtHome(list);
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("org/gone is broken: model.safetensors is a link"));

  const Result result = RunAtHome(list + Arguments{"--output=jsonl"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::vector<std::string> lines;
  for (const Json& line : JsonLines(result.out)) {
    lines.push_back(absl::StrCat(
        line["name"].get<std::string>(), " ", line["source"].get<std::string>(), " ",
        line["family"].get<std::string>(), " ", line["fits"].get<bool>() ? "fits" : "not"));
  }
  EXPECT_THAT(lines,
              ElementsAre("org/gone huggingface llama not", "org/tiny huggingface llama fits",
                          "llama:tiny ollama  fits", "mine:Q4_0 folder llama fits"));
  EXPECT_EQ(
      Keys(JsonLines(result.out).back()),
      (std::vector<std::string>{"name", "path", "source", "family", "type", "bytes", "fits"}));
}

TEST_F(ModelNames, OfNobodyAreListedAsNone) {
  const Result result = RunIn(Folder("empty"), {"--list-models"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "No model with a name was found.\n");
}

}  // namespace
}  // namespace ng::test
