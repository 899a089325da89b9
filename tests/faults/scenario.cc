#include "tests/faults/scenario.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "tests/support/tiny_model.h"

namespace ng::faults {
namespace {

namespace fs = std::filesystem;

using Arguments = std::vector<std::string>;

void MakeModel(const std::string& folder, int64_t vocab_size) {
  fs::create_directories(folder);
  test::TinyNiels model;
  model.max_positions = int64_t{1} << 16;
  model.vocab_size = vocab_size;
  model.WriteTo(folder);
}

void MakeInputs(const std::string& in) {
  const fs::path data = NG_TEST_DATA;
  MakeModel(in + "/tiny", 61);
  MakeModel(in + "/text", 1024);
  fs::copy(data / "tokenizers/spm_unigram/tokenizer.model", in + "/text/tokenizer.model");
  WriteFile(in + "/text/tokenizer_config.json", "{}");
  WriteFile(in + "/text/generation_config.json", "{\"eos_token_id\": 2}");
  MakeModel(in + "/bpe", 1024);
  fs::copy(data / "tokenizers/bbpe_llama3/tokenizer.json", in + "/bpe/tokenizer.json");
  fs::copy(data / "golden/gguf/qwen2/model-Q8_0.gguf", in + "/model.gguf");
  fs::create_directories(in + "/chat");
  fs::copy(data / "tokenizers/spm_unigram/tokenizer.model", in + "/chat/tokenizer.model");
  WriteFile(in + "/chat/chat_template.jinja",
            "{{ tools|tojson }}{% for m in messages %}{{ m.role ~ m.content|trim }}{% endfor %}");
  WriteFile(in + "/chat.json", "[{\"role\": \"user\", \"content\": \"Who art thou?\"}]");
  WriteFile(in + "/tools.json", "[{\"name\": \"look\", \"parameters\": {\"type\": \"object\"}}]");
  WriteFile(in + "/run.ini",
            "[model]\npath = tiny\n[run]\nmax_new_tokens = 24\nstop_ids =\nthreads = 2\n");
  WriteFile(in + "/prompts.jsonl",
            "{\"prompt_ids\": [1, 2, 3]}\n{\"prompt_ids\": [4, 5], \"max_new_tokens\": 9}\n"
            "{\"prompt_ids\": [1, 2, 3, 6], \"max_new_tokens\": 12}\n");
  WriteFile(in + "/prompt.txt", "Who art thou, and whence?");
  WriteFile(in + "/context.txt", "A clown speaketh with a lady of the court, merrily.");
  WriteFile(in + "/ids.txt", "1 2 3 4 5 6 7 8\n9 10 11 12 13\n");
}

// Who reads what, in each program's ways.
std::vector<Scenario> Scenarios() {
  const Arguments text = {"--model.path=in/text", "--run.max_new_tokens=12", "--run.threads=2"};
  const auto with = [](Arguments arguments, const Arguments& more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  const std::string lines =
      "{\"text\": \"Who art thou?\"}\n{\"text\": \"<s> 2024\", "
      "\"parse_special\": true}\n";
  return {
      {"record",
       "ng-run",
       {"--config", "in/run.ini", "--prompt-ids", "1 2 3 4 5 6 7", "--steps", "out/steps", "--save",
        "out/saved", "--save-tensors", "logits,decode_logits,attn_row", "--trace-layer", "0,1",
        "--save-cache", "out/cache", "--record", "out/record"},
       {{"steps", FileKind::kSteps},
        {"saved", FileKind::kTensors},
        {"cache", FileKind::kCache},
        {"record", FileKind::kRecord}},
       {"run.ini", "tiny/config.json", "tiny/model.safetensors"}},
      {"view",
       "ng-run",
       {"--config", "in/run.ini", "--prompt-ids", "1 2 3 4 5 6 7", "--view", "out/page",
        "--against", "cache.codec=int8"},
       {{"page", FileKind::kPage}},
       {"run.ini", "tiny/config.json", "tiny/model.safetensors"}},
      {"batch",
       "ng-run",
       {"--config", "in/run.ini", "--prompts", "in/prompts.jsonl", "--cache.name=paged",
        "--cache.codec=int8", "--cache.max_sequences=2", "--output=jsonl", "--steps", "out/steps"},
       {{"steps", FileKind::kSteps}},
       {"run.ini", "prompts.jsonl", "tiny/config.json", "tiny/model.safetensors"},
       "",
       kTimed},
      {"load",
       "ng-run",
       {"--config", "in/run.ini", "--prompt-ids", "1 2 3 4 5 6 7 8 9", "--load-cache",
        "in/prefix.cache", "--save-cache", "out/cache"},
       {{"cache", FileKind::kCache}},
       {"run.ini", "prefix.cache", "tiny/config.json", "tiny/model.safetensors"}},
      {"replay",
       "ng-run",
       {"--replay", "in/record.json", "--model.path=in/tiny", "--steps", "out/steps"},
       {{"steps", FileKind::kSteps}},
       {kRecordFile, "tiny/config.json", "tiny/model.safetensors"}},
      {"message",
       "ng-run",
       with(text, {"--message", "Who art thou?", "--save", "out/saved"}),
       {{"saved", FileKind::kTensors}},
       {"text/config.json", "text/model.safetensors", "text/tokenizer.model",
        "text/tokenizer_config.json", "text/generation_config.json"}},
      {"file",
       "ng-run",
       with(text, {"--prompt-file", "in/prompt.txt", "--steps", "out/steps"}),
       {{"steps", FileKind::kSteps}},
       {"prompt.txt", "text/config.json", "text/model.safetensors", "text/tokenizer.model"}},
      {"context",
       "ng-run",
       with(text, {"--prompt-file", "in/prompt.txt", "--context", "in/context.txt",
                   "--cache.name=budget", "--cache.budget.when=prompt", "--cache.budget.ratio=0.5",
                   "--cache.budget.recent=2", "--kept", "out/kept"}),
       {{"kept", FileKind::kSteps}},
       {"prompt.txt", "context.txt", "text/config.json", "text/model.safetensors",
        "text/tokenizer.model"}},
      {"budget",
       "ng-run",
       {"--config", "in/run.ini", "--prompts", "in/prompts.jsonl", "--cache.name=budget",
        "--cache.budget.policy=observed", "--cache.budget.tokens=8", "--cache.budget.every=4",
        "--cache.budget.sinks=1", "--cache.budget.recent=2", "--cache.budget.layers=pyramid",
        "--cache.budget.beta=2", "--drafter.name=ngram", "--kept", "out/kept", "--save",
        "out/saved", "--save-tensors", "decode_logits,dropped_at"},
       {{"kept", FileKind::kSteps}, {"saved", FileKind::kTensors}},
       {"run.ini", "prompts.jsonl", "tiny/config.json", "tiny/model.safetensors"}},
      {"sparse",
       "ng-run",
       {"--config", "in/run.ini", "--prompt-ids", "1 2 3", "--run.max_new_tokens=60",
        "--attention.name=sparse", "--attention.sparse.pages=2", "--attention.sparse.measure=true",
        "--steps", "out/steps"},
       {{"steps", FileKind::kSteps}},
       {"run.ini", "tiny/config.json", "tiny/model.safetensors"}},
      {"bpe",
       "ng-run",
       {"--model.path=in/bpe", "--run.max_new_tokens=12", "--prompt", "Who art thou?",
        "--sampler.chain=repetition_penalty,min_p", "--model.weights=bf16", "--run.threads=2"},
       {},
       {"bpe/config.json", "bpe/model.safetensors", "bpe/tokenizer.json"}},
      {"gguf",
       "ng-run",
       {"--model.path=in/model.gguf", "--run.max_new_tokens=12", "--prompt", "Who art thou?",
        "--sampler.chain=greedy", "--run.threads=2", "--save", "out/saved"},
       {{"saved", FileKind::kTensors}},
       {"model.gguf"}},
      {"chat",
       "ng-run",
       with(text, {"--chat"}),
       {},
       {"text/config.json", "text/model.safetensors", "text/tokenizer.model"},
       "Who art thou?\nAnd whence?\n",
       kAnswers},
      {"long",
       "ng-run",
       {"--config", "in/run.ini", "--prompt-ids", "1 2 3", "--run.max_new_tokens=2000", "--steps",
        "out/steps", "--save", "out/saved", "--save-tensors", "decode_logits"},
       {{"steps", FileKind::kSteps}, {"saved", FileKind::kTensors}},
       {"run.ini", "tiny/config.json", "tiny/model.safetensors"}},
      {"debug",
       "ng-run",
       {"--config", "in/run.ini", "--prompt-ids", "1 2 3", "--run.max_new_tokens=200",
        "--debug-cache", "--output=jsonl"},
       {},
       {"run.ini", "tiny/config.json", "tiny/model.safetensors"},
       "",
       kTimed},
      {"dry", "ng-run", {"--config", "in/run.ini", "--dry-run"}, {}, {"run.ini"}, "", kTimed},
      {"list", "ng-run", {"--list-plugins"}, {}, {}, "", kReports},
      {"ids",
       "ng-tokenize",
       {"--tokenizer", "in/text"},
       {},
       {"text/tokenizer.model"},
       "Who art thou, and whence?"},
      {"lines",
       "ng-tokenize",
       {"--tokenizer", "in/bpe/tokenizer.json", "--jsonl"},
       {},
       {"bpe/tokenizer.json"},
       lines},
      {"conversation",
       "ng-tokenize",
       {"--tokenizer", "in/chat", "--chat", "in/chat.json", "--tools", "in/tools.json"},
       {},
       {"chat/tokenizer.model", "chat/chat_template.jinja", "chat.json", "tools.json"}},
      {"vocabulary",
       "ng-tokenize",
       {"--tokenizer", "in/model.gguf", "--jsonl"},
       {},
       {"model.gguf"},
       lines},
      {"score",
       "ng-eval",
       {"--config", "in/run.ini", "--ids-file", "in/ids.txt", "--against", "cache.codec=int8",
        "--save-ids", "out/ids", "--output=jsonl"},
       {{"ids", FileKind::kIds}},
       {"run.ini", "ids.txt", "tiny/config.json", "tiny/model.safetensors"}},
      {"card",
       "ng-eval",
       {"--config", "in/run.ini", "--samples", "1", "--window", "24", "--card", "--repeat", "0"},
       {},
       {"run.ini", "tiny/config.json", "tiny/model.safetensors"},
       "",
       kReports},
      {"methods",
       "ng-eval",
       {"--config", "in/run.ini", "--samples", "1", "--window", "24", "--card=int8", "--tasks=none",
        "--repeat", "0", "--report", "out/page"},
       {{"page", FileKind::kPage}},
       {"run.ini", "tiny/config.json", "tiny/model.safetensors"},
       "",
       kReports},
      {"differ",
       "ng-diff",
       {"--config", "in/run.ini", "--prompt-ids", "1 2 3 4 5 6 7", "--against",
        "run.prefill_chunk=3", "--against", "run.threads=2", "--output=jsonl"},
       {},
       {"run.ini", "tiny/config.json", "tiny/model.safetensors"},
       "",
       kReports},
      {"bench",
       "ng-bench",
       {"--config", "in/run.ini", "--prompt-tokens", "32", "--decode-tokens", "8", "--repeat", "1",
        "--output=jsonl"},
       {},
       {"run.ini", "tiny/config.json", "tiny/model.safetensors"},
       "",
       kTimed | kHeavy},
      {"plan",
       "ng-plan",
       {"--config", "in/run.ini"},
       {},
       {"run.ini", "tiny/config.json"},
       "",
       kTimed},
  };
}

// Runs a scenario undisturbed and keeps what came.
void Settle(const World& world, Scenario* scenario) {
  const std::string folder = world.scratch + "/undisturbed-" + scenario->name;
  for (int round = 0; round < (scenario->Is(kHeavy) ? 1 : 2); ++round) {
    fs::remove_all(folder);
    MakeFolder(world, folder);
    const Outcome outcome = Run(LaunchOf(world, *scenario, folder));
    const std::string what = std::string(scenario->name) + " undisturbed: ";
    if (outcome.code != 0) {
      throw std::runtime_error(what + "exit " + std::to_string(outcome.code) + ": " + outcome.err);
    }
    if (!outcome.main_began) throw std::runtime_error(what + "nothing was counted");
    std::map<std::string, std::string> files;
    for (const OutputFile& file : scenario->outputs) {
      files[file.name] = WithoutFolder(folder, ReadFile(folder + "/out/" + file.name));
    }
    const std::string out = Comparable(*scenario, folder, outcome.out);
    if (round > 0 && (out != scenario->out || files != scenario->files)) {
      throw std::runtime_error(what + "two runs differ");
    }
    scenario->out = out;
    scenario->files = std::move(files);
    scenario->counts = outcome.counts;
    scenario->seconds = outcome.seconds;
  }
}

}  // namespace

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

const Scenario& World::Named(const std::string& name) const {
  return *std::ranges::find(scenarios, name, [](const Scenario& s) { return std::string(s.name); });
}

void MakeFolder(const World& world, const std::string& folder) {
  fs::create_directories(folder + "/out");
  fs::create_directory_symlink(world.inputs, folder + "/in");
}

Launch LaunchOf(const World& world, const Scenario& scenario, const std::string& folder) {
  Launch launch;
  launch.program = world.programs + "/" + scenario.program;
  launch.arguments = scenario.arguments;
  launch.folder = folder;
  launch.input = scenario.input;
  launch.faults_library = world.faults_library;
  launch.page = folder + "/page";
  launch.timeout_s = world.timeout_s;
  return launch;
}

std::string WithoutFolder(const std::string& folder, std::string text) {
  for (size_t at = text.find(folder); at != text.npos; at = text.find(folder, at)) {
    text.erase(at, folder.size());
  }
  return text;
}

std::string Comparable(const Scenario& scenario, const std::string& folder, std::string out) {
  out = WithoutFolder(folder, std::move(out));
  if (!scenario.Is(kTimed)) return out;
  std::string comparable;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("timings")) {
      comparable += "a line\n";  // of figures of this run alone
      continue;
    }
    json.erase("timings");
    comparable += json.dump() + "\n";
  }
  return comparable;
}

World MakeWorld(const std::string& scratch, const std::string& programs, double timeout_s) {
  World world;
  world.timeout_s = timeout_s;
  world.scratch = scratch;
  world.inputs = scratch + "/inputs";
  world.programs = programs;
  world.faults_library = NG_BINARY_DIR "/lib/libng_faults.so";
  fs::create_directories(world.inputs);
  MakeInputs(world.inputs);
  Scenario prefix = {"prefix",
                     "ng-run",
                     {"--config", "in/run.ini", "--prompt-ids", "1 2 3 4 5 6 7", "--save-cache",
                      "out/cache", "--record", "out/record"},
                     {{"cache", FileKind::kCache}, {"record", FileKind::kRecord}},
                     {}};
  Settle(world, &prefix);
  WriteFile(world.inputs + "/prefix.cache", prefix.files["cache"]);
  // With its paths: its checksum is of them too.
  WriteFile(world.inputs + "/" + kRecordFile,
            ReadFile(world.scratch + "/undisturbed-prefix/out/record"));
  world.scenarios = Scenarios();
  for (Scenario& scenario : world.scenarios) Settle(world, &scenario);
  return world;
}

}  // namespace ng::faults
