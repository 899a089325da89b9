// ng-run: a config and a prompt in, a completion out.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/common/about.h"
#include "apps/common/answer_room.h"
#include "apps/common/columns.h"
#include "apps/common/prompts.h"
#include "apps/common/terminal.h"
#include "apps/common/version.h"
#include "apps/run/chat/editor/line_editor.h"
#include "apps/run/chat/plain_chat.h"
#include "apps/run/chat/terminal_chat.h"
#include "apps/run/command_line.h"
#include "apps/run/habits.h"
#include "apps/run/list_models.h"
#include "apps/run/list_plugins.h"
#include "apps/run/offer_fetch.h"
#include "apps/run/outputs.h"
#include "apps/run/ranks.h"
#include "apps/run/replay.h"
#include "apps/run/run_record.h"
#include "apps/run/tensor_saver.h"
#include "apps/run/viewer.h"
#include "ng/config.h"
#include "ng/engine.h"
#include "ng/files.h"

namespace ng::run {
namespace {

constexpr const char* kName = "ng-run";

// Gives the answers that need neither a model nor a prompt. Returns nothing if the command line
// asks for a run.
std::optional<absl::Status> Inform(const CommandLine& line, const EngineOptions& options) {
  if (line.about.version) return WriteStdout(VersionText(kName));
  if (line.list_plugins) return ListPlugins(options);
  if (line.list_models) return ListModels(options, line.jsonl);
  if (line.about.help && !line.help_all) return WriteStdout(ShortHelp(HelpColumns()));
  if (!line.about.help && !line.print_config) return AnswerAbout(line.about, TheManual(), options);
  const absl::StatusOr<Config> config = Engine::ReadConfig(options);
  if (!config.ok()) return config.status();
  if (line.print_config) return WriteStdout(config->ToIni());
  return WriteStdout(
      absl::StrCat(UsageText(TheManual(), HelpColumns()), "\nConfig keys\n", config->Help()));
}

// Checks that the model has the layers and heads to look at, before anything is loaded.
absl::Status CheckTraced(const CommandLine& line, const Engine& engine) {
  const ModelShape& shape = engine.model_shape();
  const auto check = [](const char* option, std::span<const int> chosen, const char* what,
                        int n) -> absl::Status {
    if (chosen.empty() || chosen.back() < n) return absl::OkStatus();  // the last is the largest
    return UsageError(
        absl::StrCat(option, " ", chosen.back(), ": the model has ", what, " 0 to ", n - 1));
  };
  NG_RETURN_IF_ERROR(check("--trace-layer", line.trace_layers, "layers", shape.n_layers));
  NG_RETURN_IF_ERROR(check("--trace-heads", line.trace_heads, "heads", shape.n_heads));
  NG_RETURN_IF_ERROR(check("--debug-layer", {&line.debug_layer, 1}, "layers", shape.n_layers));
  const std::span<const int> attend = engine.attention_layers();
  const auto lacks = [&](int layer) { return layer >= 0 && !std::ranges::count(attend, layer); };
  const auto found = std::ranges::find_if(line.trace_layers, lacks);
  const bool traced = found != line.trace_layers.end();
  if (!traced && !lacks(line.debug_layer)) return absl::OkStatus();
  return UsageError(absl::StrCat(
      traced ? "--trace-layer " : "--debug-layer ", traced ? *found : line.debug_layer,
      ": this layer has no attention; layers that have: ", absl::StrJoin(attend, ", ")));
}

// Whether the run's parts and logits are recorded, or compared with a record.
bool Verifies(const CommandLine& line) { return !line.record.empty() || !line.replay.empty(); }

// The files that a run writes besides those of its probes; empty: not asked for.
std::vector<NamedOutput> FilesOf(const CommandLine& line) {
  return {{"--steps", line.steps},
          {"--kept", line.kept},
          {"--save", line.save},
          {"--save-cache", line.save_cache},
          {"--record", line.record},
          {"--view", ViewsInTerminal(line) ? "" : line.view},
          {"--trace", line.trace.empty() ? "" : TraceFiles(line.trace).metadata}};
}

// Whether the first step may find out that the weights are damaged: there is one, and all that the
// run writes is the text that comes after it.
bool MayReadInStep(const CommandLine& line, std::span<const GenerateRequest> requests) {
  const std::vector<NamedOutput> files = FilesOf(line);
  return requests.size() == 1 && requests.front().max_new_tokens > 0 && !line.jsonl &&
         line.view.empty() &&
         std::ranges::all_of(files, [](const NamedOutput& file) { return file.path.empty(); });
}

// Which tensors and rows the outputs need.
GenerateOptions WhatToKeep(const CommandLine& line, const Engine& engine,
                           const std::vector<PointAt>& points) {
  GenerateOptions options;
  options.capture_points = points;
  options.steps = !line.steps.empty();
  options.stages = line.steps_stages;
  options.logits_hash = Verifies(line);
  options.capture_logits = line.save_logits;
  options.capture_decode_logits = line.save_decode_logits;
  options.capture_attn_full = line.save_attn_full;
  options.trace_layers = line.trace_layers;
  options.trace_heads = line.trace_heads;
  if (options.trace_layers.empty() && (line.save_attn_row || line.save_attn_full)) {
    const std::span<const int> attend = engine.attention_layers();
    options.trace_layers.assign(attend.begin(), attend.end());
  }
  AddCacheDebug(line, &options);
  return options;
}

bool IsDifference(const absl::Status& status) {
  return ExitCode(status) == ExitCode(DifferenceError(""));
}

// The one of two statuses that is reported: an error rather than an interruption or a replay that
// differs, otherwise the first.
absl::Status Worse(const absl::Status& first, const absl::Status& second) {
  const bool no_error = absl::IsCancelled(first) || IsDifference(first);
  return first.ok() || (no_error && !second.ok()) ? second : first;
}

// What a run begins with, from its command line.
struct Job {
  std::vector<GenerateRequest> requests;
  std::vector<size_t> open;         // of them: answers whose length the config leaves open
  std::string_view why_no_more;     // new tokens these have
  std::optional<RunRecord> record;  // that is run again
};

// Who watches a run. `stop` also ends a wait for the reader of a pipe that is written to.
struct Watch {
  Viewer* viewer;  // null: the run is not viewed
  const std::atomic<bool>* stop;
  ProgressBar& bar;
};

// Compares the run with its record as far as that is possible before a step, and says what differs.
absl::StatusOr<std::optional<Replay>> BeginReplay(const CommandLine& line, const Engine& engine,
                                                  const Job& job) {
  if (!job.record) return std::nullopt;
  // All ranks compare, so that all of them end where the run differs.
  NG_ASSIGN_OR_RETURN(Replay replay, Replay::Begin(*job.record, line, engine));
  for (const std::string& changed : replay.changed()) {
    WriteStderr(absl::StrCat(kName, ": not as recorded: ", OneLine(changed), "\n"));
  }
  return replay;
}

absl::StatusOr<std::optional<Recorder>> BeginRecord(const CommandLine& line, const Engine& engine,
                                                    const Job& job, const std::atomic<bool>* stop) {
  if (line.record.empty() || engine.rank() > 0) return std::nullopt;
  NG_ASSIGN_OR_RETURN(AtomicFileWriter file, AtomicFileWriter::Create(line.record, stop));
  return Recorder::Begin(std::move(file), engine, job.requests);
}

// What is said of a run when it has ended by itself.
absl::Status Close(const Engine& engine, const CommandLine& line, const Job& job,
                   std::span<const Completion> done) {
  NG_ASSIGN_OR_RETURN(std::string closing, ClosingLine(engine, done));
  closing += HowToGetMore(engine, job.requests, done);
  // Another one tomorrow, and then perhaps another answer.
  const bool conversed =
      !line.prompt && !line.prompt_file && !line.prompt_ids && line.replay.empty();
  if (conversed && !engine.template_date().empty() && engine.config().IsDefault("run.date")) {
    absl::StrAppend(&closing, ", run.date ", engine.template_date());
  }
  if (HowLoud() != Loudness::kQuiet) WriteStderr(closing + "\n");
  return absl::OkStatus();
}

absl::Status Generate(Engine& engine, const CommandLine& line, const Job& job,
                      GenerateOptions options, const Watch& watch) {
  const std::atomic<bool>* const stop = watch.stop;
  ProgressBar& bar = watch.bar;
  NG_ASSIGN_OR_RETURN(std::optional<Replay> replay, BeginReplay(line, engine, job));
  NG_ASSIGN_OR_RETURN(std::optional<Recorder> recorder, BeginRecord(line, engine, job, stop));
  CompletionWriter completions(engine, line.jsonl, job.requests.size(), 0);
  const bool writes = engine.rank() == 0;
  std::optional<StepsWriter> steps;
  if (writes && !line.steps.empty()) {
    NG_ASSIGN_OR_RETURN(AtomicFileWriter file, AtomicFileWriter::Create(line.steps, stop));
    steps.emplace(
        std::move(file), engine,
        StepsWriter::Shown{.stages = line.steps_stages, .attn_rows = !line.trace_layers.empty()});
  }
  std::optional<KeptWriter> kept;
  if (writes && !line.kept.empty()) {
    NG_ASSIGN_OR_RETURN(AtomicFileWriter file, AtomicFileWriter::Create(line.kept, stop));
    kept.emplace(std::move(file));
  }
  TensorSaver saver(line, engine, options.capture_points);
  Viewer* const viewer = watch.viewer;
  // Nobody may look into the steps of other groups, which have no cache of which tokens leave.
  const bool saves = line.save_dropped_at && (line.dropped_at_named || engine.groups() == 1);
  if (kept || saves || viewer != nullptr) {
    options.on_left = [&](int index, const HeldPositions& held) {
      if (writes) saver.OnLeft(index, held);
      if (viewer != nullptr) viewer->OnLeft(held);
      return kept ? kept->OnLeft(index, held) : absl::OkStatus();
    };
  }
  if (viewer != nullptr) viewer->AddTo(&options);
  options.on_step = [&](int index, const StepRecord& record) -> absl::Status {
    bar.Clear();
    if (writes) saver.OnStep(index, record);
    if (viewer != nullptr) viewer->OnStep(record);
    if (recorder) recorder->OnStep(index, record);
    if (steps) NG_RETURN_IF_ERROR(steps->OnStep(index, record));
    NG_RETURN_IF_ERROR(completions.OnStep(record));
    return replay ? replay->OnStep(index, record) : absl::OkStatus();
  };
  options.on_done = [&](int index, const Completion& completion) -> absl::Status {
    if (viewer != nullptr) viewer->OnDone(completion);
    if (writes) NG_RETURN_IF_ERROR(saver.OnDone(index, completion));
    if (recorder) recorder->OnDone(index, completion);
    NG_RETURN_IF_ERROR(completions.OnDone(index, completion));
    return replay ? replay->OnDone(index, completion) : absl::OkStatus();
  };
  absl::StatusOr<std::vector<Completion>> done = engine.Generate(job.requests, options);
  bar.Clear();
  // What has been recorded is written, however the run ended.
  absl::Status status = done.status();
  if (steps) status = Worse(status, steps->Commit());
  if (kept) status = Worse(status, kept->Commit());
  if (recorder) status = Worse(status, recorder->Commit());
  if (writes && !line.save.empty()) status = Worse(status, saver.Write(stop));
  if (viewer != nullptr) status = Worse(status, viewer->Write(stop));
  if (IsDifference(status)) {
    // A finding, and no error of this run.
    WriteStderr(
        absl::StrCat(kName, ": replay differs: ", OneLine(std::string(status.message())), "\n"));
    return DifferenceError("");
  }
  NG_RETURN_IF_ERROR(status);
  NG_RETURN_IF_ERROR(Close(engine, line, job, *done));
  if (replay) WriteStderr(absl::StrCat(kName, ": replay ", replay->Verdict(), "\n"));
  return StoppedElsewhere(engine, *done);
}

// Where the run's files go. Makes the folder of --trace.
absl::Status CheckFiles(const CommandLine& line, const Engine& engine, const InputLog& inputs) {
  const bool traced = !line.trace.empty();
  std::error_code failed;
  if (traced && !line.dry_run) std::filesystem::create_directories(line.trace, failed);
  if (failed) {
    return OutputError("--trace " + line.trace + ": cannot be made: " + failed.message());
  }
  const bool nowhere = traced && !std::filesystem::exists(line.trace, failed);
  if (nowhere) return absl::OkStatus();  // nothing is there yet to be overwritten
  std::vector<NamedOutput> outputs = engine.probe_outputs();
  std::ranges::copy(FilesOf(line), std::back_inserter(outputs));
  return CheckOutputs(outputs, inputs);
}

// Opens what --view and --trace need; null where they are not given.
absl::StatusOr<std::unique_ptr<Viewer>> OpenViewer(const CommandLine& line,
                                                   const EngineOptions& options, Engine& engine,
                                                   std::span<const GenerateRequest> requests) {
  if (line.view.empty() || requests.empty()) return nullptr;
  if (requests.size() > 1) {
    return UsageError(absl::StrCat(line.trace.empty() ? "--view" : "--trace", " shows one prompt, ",
                                   requests.size(), " are given"));
  }
  NG_ASSIGN_OR_RETURN(std::unique_ptr<Viewer> viewer,
                      Viewer::Open(line, options, engine, requests.front()));
  if (!viewer->viewed().why.empty()) options.warning(viewer->viewed().why);
  return viewer;
}

// Warns about what is recorded and shown by no output.
void WarnOfUnshown(const CommandLine& line, const EngineOptions& options) {
  const bool shown =
      !line.steps.empty() || !line.view.empty() || line.save_attn_row || line.save_attn_full;
  if (line.trace_layers.empty() || shown) return;
  options.warning(
      "--trace-layer has no output that shows the rows; give --steps, --view, or --save with "
      "attn_row or attn_full among --save-tensors");
}

// Whether the run looks inside: what it keeps and shows grows with each token, so its answers have
// no more of them than a text to go on with.
bool LooksInside(const CommandLine& line) { return !line.view.empty() || !line.save.empty(); }

// The record's requests, or those of the command line, which rank 0 reads for all.
absl::StatusOr<Job> ReadJob(const CommandLine& line, Engine& engine,
                            std::optional<RunRecord> record, NeedsOfRequests needs,
                            const EngineOptions& options) {
  Job job;
  job.record = std::move(record);
  if (job.record) {
    NG_ASSIGN_OR_RETURN(job.requests, RequestsOf(*job.record, line, engine));
  } else {
    PromptRequests read;
    absl::Status status;
    if (engine.rank() == 0) {
      absl::StatusOr<PromptRequests> own = ReadRequests(line, engine, options.stop);
      status = own.status();
      if (own.ok()) read = *std::move(own);
      if (!read.warning.empty()) options.warning(read.warning);
      job.open = std::move(read.open);
      job.why_no_more = FitMemory(engine, job.open, needs, &read.requests);
    }
    NG_ASSIGN_OR_RETURN(job.requests, ShareRequests(engine, status, std::move(read.requests)));
  }
  return job;
}

// What --dry-run says of how long answers may be, and why so long.
std::string NewTokensText(const CommandLine& line, const Engine& engine, const Job& job) {
  const Config& config = engine.config();
  const ConfigOrigin& origin = config.Origin("run.max_new_tokens");
  const std::string from = absl::StrCat(
      " (run.max_new_tokens = ", config.Text("run.max_new_tokens"), ", ", origin.ToString(), ")\n");
  const bool is_auto = AnswersAreOpen(config);
  if (line.chat && is_auto) {
    return absl::StrCat("new tokens of an answer: what the conversation leaves, at most ",
                        kMostAnswerTokens, from);
  }
  std::set<std::string> texts;
  for (size_t i = 0; i < job.requests.size(); ++i) {
    const int64_t n = job.requests[i].max_new_tokens;
    const bool open = std::ranges::binary_search(job.open, i);
    std::string_view why;
    if (open) {
      why = job.why_no_more;
    } else if (is_auto && n == engine.default_max_new_tokens()) {
      why = LooksInside(line) ? "a run that is looked into" : "a text to go on with";
    }
    texts.insert(absl::StrCat(n, why.empty() ? "" : ", ", std::string(why)));
  }
  if (texts.empty()) return "";
  return absl::StrCat("new tokens ", absl::StrJoin(texts, "; "), from);
}

// What a run has beside its engine.
struct RunParts {
  const EngineOptions& options;
  const InputLog& inputs;
  LineEditor* editor;  // null: nobody types
  ProgressBar& bar;
};

absl::Status RunOpened(Engine& engine, CommandLine line, std::optional<RunRecord> record,
                       const RunParts& parts) {
  const EngineOptions& options = parts.options;
  NG_RETURN_IF_ERROR(CheckRanks(line, engine));
  NG_RETURN_IF_ERROR(CheckTraced(line, engine));
  NG_RETURN_IF_ERROR(CheckMostTokens(engine.config()));
  NG_ASSIGN_OR_RETURN(const std::vector<PointAt> points, ReadPoints(engine, &line));
  const bool first = engine.rank() == 0;
  if (first) NG_RETURN_IF_ERROR(ReadTools(engine, options.stop, &line));
  line.open_answers = !LooksInside(line);
  const auto needs_of = [&](std::span<const GenerateRequest> requests) {
    RunNeeds needs = Needs(requests);
    needs.prompt_logits = line.save_logits || NeedLogits(points);
    needs.identity = !line.save_points.empty() || Verifies(line);
    needs.read_in_step = MayReadInStep(line, requests);
    if (requests.empty()) needs.max_tokens = ChatCapacity(engine);
    return needs;
  };
  NG_ASSIGN_OR_RETURN(const Job job, ReadJob(line, engine, std::move(record), needs_of, options));
  if (line.chat && engine.config().Text("run.on_full") == "recompute") {
    return UsageError(engine.config().Describe("run.on_full") +
                      " = recompute does not go with --chat: a conversation that is full refuses "
                      "the next message");
  }
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<Viewer> viewer,
                      OpenViewer(line, options, engine, job.requests));
  if (first) NG_RETURN_IF_ERROR(CheckFiles(line, engine, parts.inputs));
  WarnOfUnshown(line, options);
  const RunNeeds needs = needs_of(job.requests);
  if (line.dry_run) {
    NG_ASSIGN_OR_RETURN(const std::string text,
                        engine.Describe(needs, line.about.verbose ? Engine::Detail::kAll
                                                                  : Engine::Detail::kScreen));
    return WriteStdout(text + NewTokensText(line, engine, job));
  }
  if (job.requests.empty() && !line.chat) {
    return UsageError(
        "nothing to run; give a text, or one of --prompt, --prompt-file, --prompt-ids, "
        "--prompts, --message, --chat");
  }
  NG_RETURN_IF_ERROR(engine.Load(needs));
  if (viewer != nullptr) NG_RETURN_IF_ERROR(viewer->Load());
  parts.bar.Clear();
  if (parts.editor != nullptr) {
    return TerminalChat(engine, line, needs.max_tokens,
                        {*parts.editor, parts.inputs, *options.stop});
  }
  if (line.chat) {
    return PlainChat(engine, line, needs.max_tokens, {parts.inputs, *options.stop});
  }
  return Generate(engine, line, job, WhatToKeep(line, engine, points),
                  {viewer.get(), options.stop, parts.bar});
}

absl::Status Run(const CommandLine& line, EngineOptions options, const InputLog& inputs,
                 std::optional<RunRecord> record, ProgressBar& bar) {
  // From here on, so that what is typed while the model loads is kept for the first message.
  std::unique_ptr<LineEditor> editor;
  if (line.chat && !line.dry_run && LineEditor::HasTerminal()) {
    NG_ASSIGN_OR_RETURN(editor, LineEditor::Open());
  }
  options.ranks = true;
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Open(options));
  if (engine->rank() > 0) KeepSilent();
  // Of several ranks the last ones wait here for what the first one writes.
  return engine->Agree(
      RunOpened(*engine, line, std::move(record), {options, inputs, editor.get(), bar}));
}

// Reads the record of --replay first: all that is asked of the config is asked of the record's.
absl::Status Do(const CommandLine& line, EngineOptions options, ProgressBar& bar) {
  const InputLog inputs;
  std::optional<RunRecord> record;
  if (!line.replay.empty()) {
    NG_ASSIGN_OR_RETURN(record, ReadRecord(line.replay, options.stop));
    std::vector<std::string> overrides = OverridesOf(*record);
    std::ranges::copy(options.overrides, std::back_inserter(overrides));
    options.overrides = std::move(overrides);
  }
  const std::optional<absl::Status> informed = Inform(line, options);
  if (informed) return *informed;
  if (!line.dry_run) NG_RETURN_IF_ERROR(OfferToFetch(options));
  return Run(line, options, inputs, std::move(record), bar);
}

int Main(int argc, const char* const* argv) {
  HoldStandardStreams();
  if (argc <= 1) {
    WriteStderr(ShortUsage(HelpColumns()));
    return ExitCode(UsageError(""));
  }
  const absl::StatusOr<CommandLine> line = ParseCommandLine(argc, argv);
  if (!line.ok()) return Fail(kName, line.status());
  SetLoudness(line->about);
  return RunWatched(kName, line->engine, [&](const EngineOptions& options, ProgressBar& bar) {
    return Do(*line, options, bar);
  });
}

}  // namespace
}  // namespace ng::run

int main(int argc, char** argv) {
  return ng::RunProgram(ng::run::kName, ng::run::Main, argc, argv);
}
