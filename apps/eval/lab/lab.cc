#include "apps/eval/lab/lab.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/common/arguments.h"
#include "apps/common/terminal.h"
#include "apps/common/version.h"
#include "apps/eval/lab/lines.h"
#include "apps/eval/lab/methods.h"
#include "apps/eval/lab/shared.h"
#include "apps/eval/lab/summary.h"
#include "apps/eval/lab/work.h"
#include "apps/eval/measure/run_speed.h"
#include "apps/eval/page/page.h"
#include "apps/eval/tasks/fit.h"
#include "apps/eval/texts.h"
#include "ng/config.h"
#include "ng/files.h"

namespace ng::eval {
namespace {

namespace fs = std::filesystem;

absl::Status CheckLengths(const CommandLine& line, const Engine& engine) {
  if (line.lab.tasks.empty()) return absl::OkStatus();
  if (!engine.has_tokenizer()) {
    return UsageError("the model has no tokenizer, which tasks need; give --tasks=none");
  }
  const int64_t limit = TokenLimit(engine);
  for (const int64_t length : line.lab.lengths) {
    if (limit == 0 || length <= limit) continue;
    return LimitError(
        absl::StrCat("--lengths ", length, " > ", limit, " tokens that fit a sequence"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TaskWork>> FitTasks(const CommandLine& line, const Engine& engine) {
  const int64_t seed = engine.config().Int("sampler.seed");
  const EncodeText encode = [&](std::string_view text) { return engine.Encode(text, {}); };
  std::vector<TaskWork> tasks;
  for (const std::string& name : line.lab.tasks) {
    for (const int64_t length : line.lab.lengths) {
      TaskWork& task = tasks.emplace_back(TaskWork{name, length, {}, {}});
      for (int64_t i = 0; i < line.lab.examples; ++i) {
        Puzzle puzzle = DrawPuzzle(*FindTask(name), seed, i);
        absl::StatusOr<Prompt> prompt = FitPuzzle(puzzle, length, encode);
        if (!prompt.ok()) return Annotate(prompt.status(), "--lengths: ");
        NG_ASSIGN_OR_RETURN(Prompt alone, QuestionAlone(puzzle, *prompt, encode));
        task.questions.push_back({puzzle, std::move(alone)});
        task.puzzles.push_back({std::move(puzzle), *std::move(prompt)});
      }
    }
  }
  return tasks;
}

// As asked for, or where the tasks' lengths end.
absl::StatusOr<std::vector<int64_t>> DepthsOf(const CommandLine& line, const Engine& engine) {
  if (line.repeat == 0) return std::vector<int64_t>();
  const int64_t limit = TokenLimit(engine);
  std::vector<int64_t> depths = line.depths;
  for (int64_t& depth : depths) {
    if (limit > 0 && depth + kSpeedTokens > limit) {
      return LimitError(absl::StrCat("--depths ", depth, ": with ", kSpeedTokens,
                                     " tokens to decode ", depth + kSpeedTokens, " > ", limit,
                                     " tokens that fit; must be at most ", limit - kSpeedTokens));
    }
    depth = std::max<int64_t>(1, depth);  // a step needs a token to follow
  }
  if (!depths.empty()) return depths;
  for (const int64_t length : line.lab.lengths) {
    depths.push_back(limit > 0 ? std::min(length, limit - kSpeedTokens) : length);
  }
  std::ranges::sort(depths);
  depths.erase(std::unique(depths.begin(), depths.end()), depths.end());
  return depths;
}

RunNeeds NeedsOf(const CommandLine& line, const Work& work) {
  RunNeeds needs = {.max_sequences = 2, .prompt_logits = true, .identity = true};
  for (const TaskWork& task : work.tasks) {
    needs.max_tokens = std::max(needs.max_tokens, task.length);
  }
  for (const int64_t depth : work.depths) {
    needs.max_tokens = std::max(needs.max_tokens, depth + kSpeedTokens);
  }
  if (!work.texts.windows.empty()) {
    const auto longest = std::ssize(LongestOf(work.texts.windows).fed);
    needs.max_tokens = std::max(needs.max_tokens, longest);
  }
  if (needs.max_tokens == 0) needs.max_tokens = line.lab.lengths.front();
  return needs;
}

// What every line says of the run.
absl::StatusOr<Json> RunJson(const CommandLine& line, const Engine& engine, const Texts& texts) {
  NG_ASSIGN_OR_RETURN(const RunFingerprint made, engine.Fingerprint());
  Json run = {{"program", made.program},
              {"arithmetic", made.arithmetic},
              {"isa", made.isa},
              {"model", engine.config().Text("model.path")},
              {"model_hash", made.model},
              {"tokenizer_hash", made.tokenizer},
              {"examples", line.lab.examples}};
  std::string ids;
  for (const std::vector<int32_t>& text : texts) {
    absl::StrAppend(&ids, absl::StrJoin(text, " "), "\n");
  }
  run["texts_hash"] = texts.empty() ? Json(nullptr) : Json(HashText(ids));
  run["window"] = line.window;
  run["rounds"] = line.repeat;
  Json& config = run["config"] = Json::object();
  for (const ConfigItem& item : engine.config().items()) {
    const std::string& key = item.declared.key;
    if (engine.config().IsDefault(key) || item.hidden()) continue;
    config[key] = engine.config().Text(key);
  }
  // What the methods differ in; they say it themselves. Of the user's settings for them all is
  // kept.
  for (const char* key : {"cache.name", "cache.codec", "cache.codec_k", "cache.codec_v"}) {
    config.erase(key);
  }
  for (const std::string& setting : line.engine.overrides) {
    const bool of_methods =
        absl::StartsWith(setting, "cache.budget.") || absl::StartsWith(setting, "policy.");
    const size_t end = setting.find('=');
    if (of_methods) config[setting.substr(0, end)] = setting.substr(end + 1);
  }
  return run;
}

std::string AbsolutePath(const std::string& path) {
  return fs::absolute(path).lexically_normal().string();
}

// The command that gives a part of the card again.
std::string CommandOf(const CommandLine& line, const std::string& chosen, const std::string& part) {
  std::vector<std::string> words = {"ng-eval"};
  const auto add_file = [&](const char* option, const std::optional<std::string>& path) {
    if (path) words.push_back(absl::StrCat(option, " ", ShellWord(AbsolutePath(*path))));
  };
  if (!line.engine.config_file.empty()) add_file("--config", line.engine.config_file);
  if (!line.engine.random_weights.empty()) add_file("--random-weights", line.engine.random_weights);
  const std::string model = "model.path=";
  for (const std::string& setting : line.engine.overrides) {
    const bool is_path =
        absl::StartsWith(setting, model) && fs::exists(setting.substr(model.size()));
    const std::string path = is_path ? AbsolutePath(setting.substr(model.size())) : "";
    words.push_back(ShellWord(absl::StrCat("--", is_path ? model + path : setting)));
  }
  add_file("--text-file", line.text_file);
  add_file("--ids-file", line.ids_file);
  if (line.samples > 0) words.push_back(absl::StrCat("--samples=", line.samples));
  if (line.window > 0) words.push_back(absl::StrCat("--window=", line.window));
  words.push_back(chosen);
  words.push_back(part);
  words.push_back(absl::StrCat("--examples=", line.lab.examples));
  if (part.find("--repeat") == part.npos) words.push_back(absl::StrCat("--repeat=", line.repeat));
  return absl::StrJoin(words, " ");
}

// The command of the whole card, without its files.
std::string CardCommand(const CommandLine& line) {
  const auto& lab = line.lab;
  std::string part = absl::StrCat(
      "--budgets=",
      absl::StrJoin(
          lab.budgets, ",",
          [](std::string* out, const Budget& budget) { absl::StrAppend(out, budget.Text()); }),
      " --tasks=", lab.tasks.empty() ? "none" : absl::StrJoin(lab.tasks, ","),
      " --lengths=", absl::StrJoin(lab.lengths, ","));
  if (!line.depths.empty()) absl::StrAppend(&part, " --depths=", absl::StrJoin(line.depths, ","));
  return CommandOf(
      line, lab.methods.empty() ? "--card" : "--card=" + absl::StrJoin(lab.methods, ","), part);
}

// The lines of a card while it runs.
class CardRun {
 public:
  CardRun(const CommandLine& line, const Work& work, LineFile file)
      : line_(line), work_(work), file_(std::move(file)) {}

  // Runs what is left: those that read contexts together, and before and after them the others.
  absl::Status Run(const std::vector<Method>& methods, std::function<void(const Progress&)> show) {
    const auto begin = std::ranges::find_if(methods, HasRule);
    const auto end = std::find_if_not(begin, methods.end(), HasRule);
    const std::span<const Method> shared(begin, end);
    int64_t n_tokens = SharedTokensOf(work_, std::ssize(shared));
    for (const Method& method : methods) n_tokens += HasRule(method) ? 0 : TokensOf(work_, method);
    LabProgress progress(std::move(show), n_tokens);
    const auto on_line = [&](const Json& json, bool is_new) { return OnLine(json, is_new); };
    const auto on_error = [&](const Method& method, const absl::Status& why) {
      return OnError(method, why);
    };
    for (auto method = methods.begin(); method != methods.end(); ++method) {
      if (method == begin && begin != end) {
        NG_RETURN_IF_ERROR(RunShared(work_, shared, file_, &progress, on_line, on_error));
      }
      if (HasRule(*method)) continue;
      const absl::Status status = RunMethod(work_, *method, file_, &progress, on_line);
      if (!status.ok()) NG_RETURN_IF_ERROR(OnError(*method, status));
    }
    return absl::OkStatus();
  }

  const std::vector<Json>& lines() const { return lines_; }

 private:
  static bool HasRule(const Method& method) { return !method.rule.empty(); }

  absl::Status OnLine(const Json& json, bool is_new) {
    lines_.push_back(json);
    if (is_new) NG_RETURN_IF_ERROR(file_.Add(json));
    return line_.jsonl ? WriteStdout(LineText(json)) : absl::OkStatus();
  }
  absl::Status OnError(const Method& method, const absl::Status& why) {
    if (absl::IsCancelled(why) || method.name == kFull) return why;
    return OnLine({{"kind", "error"},
                   {"method",
                    {{"name", method.name},
                     {"policy", method.policy},
                     {"budget", BudgetJson(method.budget)}}},
                   {"error", std::string(why.message())},
                   {"command", work_.command(method, "--tasks=none")},
                   {"run", work_.run}},
                  true);
  }

  const CommandLine& line_;
  const Work& work_;
  LineFile file_;
  std::vector<Json> lines_;
};

}  // namespace

absl::Status RunLab(const CommandLine& line, const EngineOptions& given) {
  const InputLog inputs;
  NG_ASSIGN_OR_RETURN(const EngineOptions options, FeedingOptions(line, given));
  NG_ASSIGN_OR_RETURN(const std::vector<Method> methods, MethodsOf(line, options));
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> full, Engine::Open(methods.front().engine));
  NG_RETURN_IF_ERROR(CheckUsesCache(*full));
  NG_RETURN_IF_ERROR(CheckLengths(line, *full));
  Work work;
  NG_ASSIGN_OR_RETURN(work.depths, DepthsOf(line, *full));
  const NamedOutput outputs[] = {{"--report", line.lab.report.value_or("")},
                                 {"--lines", line.lab.lines.value_or("")},
                                 {"--save-ids", line.save_ids.value_or("")}};
  NG_RETURN_IF_ERROR(CheckOutputs(outputs, inputs));
  NG_ASSIGN_OR_RETURN(work.tasks, FitTasks(line, *full));
  Texts texts;
  const bool has_texts = line.samples > 0 || line.text_file || line.ids_file;
  if (has_texts) {
    NG_ASSIGN_OR_RETURN(texts, GetTexts(line, *full, inputs, options.stop));
  }
  const std::vector<Window> windows =
      WindowsOf(texts, line.window > 0 ? line.window : TokenLimit(*full));
  if (has_texts) NG_RETURN_IF_ERROR(CheckFits(*full, LongestOf(windows)));
  work.texts = {windows, {}, options.stop};
  work.full = full.get();
  work.rounds = line.repeat;
  work.needs = NeedsOf(line, work);
  work.command = [&](const Method& method, const std::string& part) {
    return CommandOf(line, method.chosen, part);
  };
  NG_RETURN_IF_ERROR(full->Load(work.needs));
  NG_ASSIGN_OR_RETURN(work.run, RunJson(line, *full, texts));
  LineFile file;
  if (line.lab.lines) {
    NG_ASSIGN_OR_RETURN(file, LineFile::Open(*line.lab.lines, line.lab.resume, work.run));
  }
  CardRun card(line, work, std::move(file));
  NG_RETURN_IF_ERROR(card.Run(methods, options.progress));
  const Json summary = Summarise(card.lines());
  if (!line.jsonl) NG_RETURN_IF_ERROR(WriteStdout(SummaryText(summary, line.wide)));
  if (!line.lab.report) return absl::OkStatus();
  return WriteCardPage(*line.lab.report, {summary, work.run, CardCommand(line)}, options.stop);
}

}  // namespace ng::eval
