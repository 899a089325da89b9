#include "apps/run/command_line.h"

#include <unistd.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "apps/common/arguments.h"
#include "apps/run/habits.h"

namespace ng::run {
namespace {

namespace po = boost::program_options;

OptionGroup PromptGroup() {
  OptionGroup what = {"What to run", {}};
  what.options.add_options()("config", TextValue("FILE"), "the config file");
  AddPromptOptions(&what.options);
  what.options.add_options()                                      //
      ("chat", "a conversation; /help in it lists its commands")  //
      ("replay", TextValue("FILE"),
       "a file from --record: runs it again, with keys that are given anew, and says whether "
       "each step is as recorded")  //
      ("replay-any-model", "also with a model that is not the recorded one");
  return what;
}

OptionGroup OutputGroup() {
  OptionGroup output = {"Output", {}};
  output.options.add_options()  //
      ("output", TextValue("text|jsonl", "text"),
       "text (streamed) or jsonl (a line for each prompt)")                              //
      ("steps", TextValue("FILE"), "a JSONL file with a line for each generated token")  //
      ("steps-stages", "in these lines what each stage of the sampler chain left")       //
      ("kept", TextValue("FILE"),
       "a JSONL file with lines for each time that tokens leave the cache: which ones are held")  //
      ("save", TextValue("FILE"), "a safetensors file for the tensors of --save-tensors")         //
      ("save-tensors", TextValue("NAME,..."),
       "which tensors: a list from logits,decode_logits,attn_row,attn_full,dropped_at, and of "
       "points (layer3.q, layer*.out); default: the first two, attn_row with --trace-layer, and "
       "dropped_at where tokens have left the cache")                                            //
      ("record", TextValue("FILE"), "a file for a record of the run, for --replay")              //
      ("save-cache", TextValue("FILE"), "a file for the cache of the prompt, for --load-cache")  //
      ("view", TextValue("FILE"),
       "an HTML file that shows the run: its tokens, attention, choices; -: the attention of one "
       "head, on stdout")  //
      ("against", po::value<std::vector<std::string>>()->value_name("SECTION.KEY=VALUE"),
       "for --view: a second run along the same tokens with this config key changed; may be "
       "repeated")                                                                         //
      ("view-limit", TextValue("MB"), "for --view: at most so many MB of attention (60)")  //
      ("trace", TextValue("DIR"),
       "a folder for a --view, --steps, --save of attn_full and metadata")                    //
      ("trace-layer", TextValue("N,..."), "record attention rows of these layers: 0 or 0,3")  //
      ("trace-heads", TextValue("N,..."), "only the rows of these heads")                     //
      ("debug-cache", "cache debug lines on stderr (also KV_DEBUG=1)")                        //
      ("debug-layer", TextValue("N"), "only the lines of this layer (also KV_DEBUG_LAYER=N)");
  return output;
}

OptionGroup AboutGroup() {
  OptionGroup about =
      AboutOptions("one screen; --help all: this text, with the options of the chosen plugins",
                   "a line on stderr for each phase; with --dry-run what becomes of each tensor");
  about.options.add_options()                                                  //
      ("list-plugins", "every plugin that is found, with its options")         //
      ("list-models", "the models of this machine that go by a name")          //
      ("print-config", "all config keys with their values, as a config file")  //
      ("dry-run", "check everything and print the plan; compute nothing");
  return about;
}

absl::StatusOr<int> ParseIndex(std::string_view option, std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    return UsageError("--" + std::string(option) + "=" + std::string(text) +
                      ": must be a number, 0 or more");
  }
  return value;
}

absl::Status ParseIndexList(std::string_view option, const std::string& text,
                            std::vector<int>* out) {
  std::set<int> indices;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const absl::StatusOr<int> index = ParseIndex(option, {part.data(), part.size()});
    if (!index.ok()) {
      return UsageError(absl::StrCat("--", absl::string_view(option.data(), option.size()), "=",
                                     text, ": must be numbers, 0 or more, separated by commas"));
    }
    indices.insert(*index);
  }
  out->assign(indices.begin(), indices.end());
  return absl::OkStatus();
}

absl::Status ReadQuestions(const po::variables_map& values, CommandLine* line) {
  line->about = ReadAbout(values);
  line->list_plugins = values.count("list-plugins") != 0;
  line->list_models = values.count("list-models") != 0;
  line->print_config = values.count("print-config") != 0;
  line->dry_run = values.count("dry-run") != 0;
  line->reads_pipe = !line->chat && !line->dry_run;
  return absl::OkStatus();
}

absl::Status ReadSavedTensors(const po::variables_map& values, CommandLine* line) {
  if (values.count("save-tensors") == 0) {
    line->save_dropped_at = !line->save.empty();
    if (!line->trace.empty()) return absl::OkStatus();
    line->save_logits = line->save_decode_logits = !line->save.empty();
    line->save_attn_row = !line->save.empty() && !line->trace_layers.empty();
    return absl::OkStatus();
  }
  if (line->save.empty()) return UsageError("--save-tensors needs --save FILE.safetensors");
  for (const absl::string_view name :
       absl::StrSplit(values["save-tensors"].as<std::string>(), ',')) {
    if (name == "logits") {
      line->save_logits = true;
    } else if (name == "decode_logits") {
      line->save_decode_logits = true;
    } else if (name == "attn_row") {
      line->save_attn_row = true;
    } else if (name == "attn_full") {
      line->save_attn_full = true;
    } else if (name == "dropped_at") {
      line->save_dropped_at = line->dropped_at_named = true;
    } else {
      line->save_points.emplace_back(name);  // which the model has is known when it is there
    }
  }
  return absl::OkStatus();
}

// Refuses --load-cache and --save-cache together with options that they do not go with.
absl::Status CheckCaches(const CommandLine& line) {
  if (line.load_cache.empty() && line.save_cache.empty()) return absl::OkStatus();
  const char* option = line.load_cache.empty() ? "--save-cache" : "--load-cache";
  if (line.chat) {
    return UsageError(absl::StrCat(option, " does not go with --chat; use another prompt option"));
  }
  if (!line.load_cache.empty() &&
      (line.save_logits || line.save_attn_full || !line.save_points.empty())) {
    return UsageError(
        "--load-cache: the prompt's logits, attn_full and points are not computed; name what to "
        "--save with --save-tensors decode_logits or attn_row");
  }
  return absl::OkStatus();
}

// Refuses --view together with what it does not go with.
absl::Status CheckView(const CommandLine& line) {
  const bool page = !line.view.empty() && line.view != "-";
  if (!page && !line.against.empty()) return UsageError("--against needs --view FILE.html");
  if (!page && line.view_limit) return UsageError("--view-limit needs --view FILE.html");
  if (line.view.empty()) return absl::OkStatus();
  const std::string option = line.trace.empty() ? "--view" : "--trace";
  if (line.chat) return UsageError(option + " does not go with --chat; use another prompt option");
  if (!page && line.jsonl) {
    return UsageError("--view - does not go with --output jsonl: both write to stdout");
  }
  if (!line.load_cache.empty()) {
    return UsageError(option +
                      " does not go with --load-cache: what the file holds is not computed");
  }
  for (const std::string& change : line.against) {
    if (IsSetting(change)) continue;
    return UsageError("--against " + change + ": must be SECTION.KEY=VALUE");
  }
  return absl::OkStatus();
}

// --view, --against, --view-limit, and --trace in terms of the others.
absl::Status ReadView(const po::variables_map& values, CommandLine* line) {
  if (values.count("against") != 0) {
    line->against = values["against"].as<std::vector<std::string>>();
  }
  if (values.count("view-limit") != 0) {
    NG_ASSIGN_OR_RETURN(
        line->view_limit,
        ParseWholeNumber("view-limit", values["view-limit"].as<std::string>(), {1, 1000000}));
  }
  if (line->trace.empty()) return absl::OkStatus();
  for (const auto& [name, file] :
       {std::pair{"--view", line->view}, {"--steps", line->steps}, {"--save", line->save}}) {
    if (file.empty()) continue;
    return UsageError(
        absl::StrCat(name, " does not go with --trace, which writes one into its folder"));
  }
  const TraceFiles files(line->trace);
  line->view = files.page;
  line->steps = files.steps;
  line->save = files.tensors;
  line->save_attn_full = true;
  return absl::OkStatus();
}

// Refuses --replay together with what the record says already.
absl::Status CheckReplay(const po::variables_map& values, CommandLine* line) {
  line->replay_any_model = values.count("replay-any-model") != 0;
  if (line->replay.empty()) {
    if (!line->replay_any_model) return absl::OkStatus();
    return UsageError("--replay-any-model needs --replay FILE.json");
  }
  if (line->given() || line->chat) {
    return UsageError("--replay runs the prompts of the record; no other prompt may be given");
  }
  if (line->engine.config_file.empty()) return absl::OkStatus();
  return UsageError(
      "--replay has the config of the record, so --config may not be given; change a key with "
      "--section.key=value");
}

absl::Status ReadOutput(const Arguments& arguments, CommandLine* line) {
  const po::variables_map& values = arguments.values;
  NG_ASSIGN_OR_RETURN(line->jsonl, WantsJsonl(arguments));
  const std::pair<const char*, std::string*> files[] = {
      {"steps", &line->steps},   {"kept", &line->kept},    {"save", &line->save},
      {"view", &line->view},     {"trace", &line->trace},  {"save-cache", &line->save_cache},
      {"record", &line->record}, {"replay", &line->replay}};
  for (const auto& [name, file] : files) {
    if (values.count(name) == 0) continue;
    *file = values[name].as<std::string>();
    if (file->empty()) return UsageError(absl::StrCat("--", name, " needs a file name"));
  }
  NG_RETURN_IF_ERROR(ReadView(values, line));
  NG_RETURN_IF_ERROR(CheckView(*line));
  line->steps_stages = values.count("steps-stages") != 0;
  if (line->steps_stages && line->steps.empty()) {
    return UsageError("--steps-stages needs --steps FILE.jsonl");
  }
  if (line->chat && (!line->steps.empty() || !line->kept.empty() || !line->save.empty() ||
                     !line->record.empty() || !line->trace_layers.empty())) {
    return UsageError(
        "--chat records nothing; use --steps, --kept, --save, --record and --trace-layer with "
        "another prompt option");
  }
  NG_RETURN_IF_ERROR(CheckReplay(values, line));
  for (const auto& [name, list] :
       {std::pair{"trace-layer", &line->trace_layers}, {"trace-heads", &line->trace_heads}}) {
    if (values.count(name) == 0) continue;
    NG_RETURN_IF_ERROR(ParseIndexList(name, values[name].as<std::string>(), list));
  }
  NG_RETURN_IF_ERROR(ReadSavedTensors(values, line));
  NG_RETURN_IF_ERROR(CheckCaches(*line));
  if (!line->trace_heads.empty() && line->trace_layers.empty() && line->view.empty() &&
      !line->save_attn_row && !line->save_attn_full) {
    return UsageError(
        "--trace-heads needs --trace-layer, --view, or --save-tensors attn_row or attn_full");
  }
  const char* debug = std::getenv("KV_DEBUG");
  line->debug_cache =
      values.count("debug-cache") != 0 || (debug != nullptr && std::string_view(debug) == "1");
  const char* debug_layer = std::getenv("KV_DEBUG_LAYER");
  if (values.count("debug-layer") != 0) {
    if (!line->debug_cache) return UsageError("--debug-layer needs --debug-cache");
    NG_ASSIGN_OR_RETURN(line->debug_layer,
                        ParseIndex("debug-layer", values["debug-layer"].as<std::string>()));
  } else if (line->debug_cache && debug_layer != nullptr && *debug_layer != '\0') {
    NG_ASSIGN_OR_RETURN(line->debug_layer, ParseIndex("debug-layer", debug_layer));
  }
  return absl::OkStatus();
}

// Whether somebody at a terminal names a model and nothing else to do.
bool ChatIsMeant(const CommandLine& line) {
  const bool writes = !line.steps.empty() || !line.kept.empty() || !line.save.empty() ||
                      !line.record.empty() || !line.view.empty() || !line.load_cache.empty() ||
                      !line.save_cache.empty() || !line.trace_layers.empty();
  const bool asks = line.about.asked() || line.list_plugins || line.list_models ||
                    line.print_config || line.dry_run;
  return isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0 && !line.given() && !asks &&
         !writes && line.replay.empty();
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv) {
  const po::options_description options = OptionsOf(TheManual());
  NG_ASSIGN_OR_RETURN(SpelledOut spelled, SpellOut(argc, argv, options));
  NG_ASSIGN_OR_RETURN(const Arguments arguments, ParseArguments(spelled.arguments, options));
  CommandLine line;
  line.texts = std::move(spelled.texts);
  line.help_all = spelled.help_all;
  line.engine = EngineOptionsOf(arguments);
  NG_RETURN_IF_ERROR(ReadPromptOptions(arguments.values, &line));
  NG_RETURN_IF_ERROR(ReadQuestions(arguments.values, &line));
  NG_RETURN_IF_ERROR(ReadOutput(arguments, &line));
  if (!line.chat) line.chat = ChatIsMeant(line);
  if (line.chat) line.first_messages = std::exchange(line.texts, {});
  return line;
}

Manual TheManual() {
  return {
      .program = "ng-run",
      .summary = "run decoder-only transformers with a KV cache",
      .uses = {"ng-run MODEL [TEXT ...] [--section.key=value ...] [output]",
               "ng-run --config FILE [--section.key=value ...] [prompt] [output]"},
      .notes = {"MODEL is a folder with config.json, or a GGUF file. TEXT is a message; a model "
                "without a chat template completes it.",
                "Short options: -m MODEL (--model.path), -p TEXT (--prompt), -c (--chat), -n N "
                "(--run.max_new_tokens), -t N (--run.threads), -q (--quiet), -v (--verbose), -h "
                "(--help)."},
      .examples = Examples(),
      .groups = {PromptGroup(), OutputGroup(), AboutGroup()},
      .short_forms = ShortForms(),
      .keys = ConfigKeys::kDescribed};
}

}  // namespace ng::run
