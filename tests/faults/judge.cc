#include <algorithm>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "core/formats/safetensors.h"
#include "core/snapshot/cache_file.h"
#include "tests/faults/case.h"

namespace ng::faults {
namespace {

namespace fs = std::filesystem;

constexpr char kOld[] = "old\n";  // what an output may hold before a run
// From a signal to the end, as a share of the timeout: half a second is promised, and a machine may
// be busy.
constexpr double kPrompt = 0.15;

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The closing lines; what --debug-cache asks for.
bool IsAskedFor(const std::string& line) {
  return line.starts_with("seed ") || line.starts_with("[KVDBG]") ||
         line.starts_with("ng-run: replay equal") || line.starts_with("ng-run: not as recorded: ");
}

// Warnings, at most one error, what was asked for; the error where the code asks for one.
std::string JudgeStderr(const Case& c, const Outcome& outcome) {
  if (c.launch.err != Stream::kPipe) return "";
  const std::string program = c.scenario->program;
  int n_errors = 0;
  for (const std::string& line : Lines(outcome.err)) {
    const bool differs = line.starts_with(program + ": replay differs: ");
    if (differs || (line.starts_with(program + ": error: ") && line.size() > program.size() + 10)) {
      ++n_errors;
    } else if (!line.starts_with(program + ": warning: ") && !IsAskedFor(line)) {
      return "stderr holds: " + line;
    }
  }
  if (c.scenario->Is(kAnswers)) return "";
  if (n_errors > 1) return "several errors on stderr";
  const bool failed = outcome.code > 0 && outcome.code < 128;
  if (failed && n_errors == 0 && !(c.silent_end && outcome.code == 7)) {
    return "exit " + std::to_string(outcome.code) + " without a line";
  }
  // A program that has said its error may still meet a signal that ends it at once.
  const bool cut_short =
      outcome.code == 128 + SIGQUIT || (outcome.code > 128 && c.launch.signals.size() > 1);
  if (!failed && n_errors > 0 && !cut_short) {
    return "an error on stderr, and exit " + std::to_string(outcome.code);
  }
  return "";
}

// The page is all there, and its run can be read.
std::string CheckPage(const std::string& bytes) {
  // Of a run, or of a card.
  const std::string tag = "\" type=\"application/json\">";
  const size_t begin = bytes.find(tag);
  if (begin == bytes.npos || !bytes.ends_with("</html>\n")) return "is not a whole page";
  const size_t end = bytes.find("</script>", begin);
  const std::string run = bytes.substr(begin + tag.size(), end - begin - tag.size());
  return nlohmann::json::accept(run) ? "" : "holds a run that is no JSON";
}

std::string CheckTensors(const std::string& path) {
  const auto source = OpenSafetensors(path);
  return source.ok() ? "" : std::string(source.status().message());
}

std::string CheckCache(const std::string& path) {
  const auto file = CacheFile::Open(path);
  if (!file.ok()) return std::string(file.status().message());
  std::vector<std::byte> image(static_cast<size_t>(file->header().layer_bytes));
  for (int64_t layer = 0; layer < file->header().n_layers; ++layer) {
    const absl::Status read = file->ReadLayer(layer, image);
    if (!read.ok()) return std::string(read.message());
  }
  return "";
}

// The first lines of the undisturbed run's, whole; of a batch, the order may differ.
std::string CheckSteps(const std::string& bytes) {
  if (!bytes.empty() && !bytes.ends_with('\n')) return "its last line is cut off";
  for (const std::string& line : Lines(bytes)) {
    if (!nlohmann::json::accept(line)) return "a line is no JSON: " + line;
  }
  return "";
}

std::string JudgeFile(const Case& c, const OutputFile& file, const Outcome& outcome) {
  const std::string path = c.folder + "/out/" + file.name;
  const bool done = outcome.code == 0;
  std::error_code error;
  if (!fs::exists(path, error)) return done ? "was not written" : "";
  const std::string bytes = ReadFile(path);
  // A record has a checksum of the path of its model, which is another one in every folder.
  if (done && !c.other_result && file.kind != FileKind::kRecord) {
    const bool same = WithoutFolder(c.folder, bytes) == c.scenario->files.at(file.name);
    return same ? "" : "differs from the undisturbed run's";
  }
  if (bytes == kOld && !done) return "";
  switch (file.kind) {
    case FileKind::kSteps:
      return CheckSteps(bytes);
    case FileKind::kTensors:
      return CheckTensors(path);
    case FileKind::kCache:
      return CheckCache(path);
    case FileKind::kPage:
      return CheckPage(bytes);
    case FileKind::kRecord:
      return nlohmann::json::accept(bytes) ? "" : "is not whole";
    case FileKind::kIds:
      return bytes == c.scenario->files.at(file.name) || c.other_result ? "" : "is not complete";
  }
  return "";
}

std::set<std::string> NamesIn(const std::string& folder) {
  std::set<std::string> names;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; it != end; it.increment(error)) {
    names.insert(it->path().lexically_relative(folder).string());
  }
  return names;
}

std::string JudgeFiles(const Case& c, const Outcome& outcome) {
  for (const OutputFile& file : c.scenario->outputs) {
    if (c.set_aside.contains(file.name)) continue;
    const std::string wrong = JudgeFile(c, file, outcome);
    if (!wrong.empty()) return std::string("out/") + file.name + ": " + wrong;
  }
  for (const std::string& name : NamesIn(c.folder + "/out")) {
    const bool known = std::ranges::any_of(
        c.scenario->outputs, [&](const OutputFile& file) { return file.name == name; });
    if (!known && !c.made_before.contains(name)) return "left behind: out/" + name;
  }
  if (!c.kept.empty() && ReadFile(c.folder + "/in/" + c.kept) != c.kept_bytes) {
    return "in/" + c.kept + " is not what it was";
  }
  if (!c.own_inputs) return "";
  for (const std::string& name : NamesIn(c.folder + "/in")) {
    if (name.find(".tmp") != std::string::npos) return "left behind: in/" + name;
  }
  return "";
}

std::string JudgeStdout(const Case& c, const Outcome& outcome) {
  if (c.launch.out == Stream::kClosed || c.launch.out == Stream::kFull ||
      c.launch.out == Stream::kGone) {
    return "";
  }
  if (outcome.code != 0 || c.other_result) return "";
  // A line that was refused has no answer, and what follows is another conversation.
  const bool refused = outcome.err.find(": error: ") != std::string::npos;
  if (refused && c.scenario->Is(kAnswers)) return "";
  return Comparable(*c.scenario, c.folder, outcome.out) == c.scenario->out
             ? ""
             : "stdout differs from the undisturbed run's";
}

bool WasSent(const Case& c, int signal) {
  const bool timed = std::ranges::any_of(
      c.launch.signals, [&](const TimedSignal& sent) { return sent.number == signal; });
  if (timed) return true;
  for (const Effect& effect : kSignals) {
    if (effect.value == signal && c.launch.plan.find(effect.name) != std::string::npos) return true;
  }
  return false;
}

std::string JudgeEnd(const Case& c, const Outcome& outcome) {
  if (outcome.signal != 0) {
    const bool default_action =
        WasSent(c, outcome.signal) && (outcome.handled >> outcome.signal & 1) == 0;
    if (default_action) return "";
    return "killed by signal " + std::to_string(outcome.signal);
  }
  // A library may fail to be loaded for want of memory, and nobody but the loader knows why.
  const bool no_memory = c.codes.contains(5) && outcome.code == 4 &&
                         outcome.err.find(": cannot be loaded: ") != std::string::npos;
  if (no_memory) return "";
  const bool struck = c.by_place && outcome.n_struck > 0;
  if (c.codes.contains(outcome.code) || (struck && CodesAt(outcome.where).contains(outcome.code))) {
    return "";
  }
  return "exit " + std::to_string(outcome.code);
}

}  // namespace

// By the kind of file: the roles of design section 7.
std::set<int> CodesAt(const std::string& where) {
  const auto holds = [&](const char* part) { return where.find(part) != std::string::npos; };
  if (where == "fd0") return {1, 2};
  if (where == "fd1") return {7};
  if (where == "fd2") return {};
  if (where.starts_with("out") || holds("/out")) return {7};
  if (holds("plugins") || holds(".so")) return {4};
  for (const char* const named : {"run.ini", "prompt", "ids.txt", "chat.json", "tools.json"}) {
    if (holds(named)) return {2};  // what the user wrote for this run
  }
  if (holds("in/") || holds("inputs/")) return {3};
  return {};
}

std::string Judge(const Case& c, const Outcome& outcome) {
  if (outcome.timed_out) return "did not end in time";
  if (outcome.code == 98 || outcome.code == 99) return "the case itself is wrong";
  if (!outcome.main_began) {
    if (!c.may_not_begin && outcome.n_signals == 0) return "did not begin";
  } else {
    std::string wrong = JudgeEnd(c, outcome);
    if (wrong.empty() && outcome.signal == 0) wrong = JudgeStderr(c, outcome);
    if (wrong.empty() && outcome.signal == 0) wrong = JudgeStdout(c, outcome);
    if (wrong.empty() && outcome.after_signal > kPrompt * c.launch.timeout_s &&
        c.launch.ignored.empty()) {
      wrong = "ended " + std::to_string(outcome.after_signal) + " s after the signal";
    }
    if (!wrong.empty()) return wrong;
  }
  return JudgeFiles(c, outcome);
}

}  // namespace ng::faults
