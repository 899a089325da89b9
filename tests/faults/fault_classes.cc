#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "tests/faults/case.h"

namespace ng::faults {
namespace {

namespace fs = std::filesystem;

constexpr int kSent[] = {SIGINT, SIGINT, SIGINT, SIGTERM, SIGTERM, SIGHUP, SIGQUIT};

const char* SignalName(int signal) {
  const auto* const found = std::ranges::find(kSignals, signal, &Effect::value);
  return found->name;
}

void Choose(const World& world, const Scenario& scenario, Case* c) {
  c->scenario = &scenario;
  MakeFolder(world, c->folder);
  c->launch = LaunchOf(world, scenario, c->folder);
  c->codes = {0};
}

const Scenario& Any(const World& world, Random& random) {
  constexpr int kHeavyPercent = 8;
  while (true) {
    const Scenario& scenario = random.Of(world.scenarios);
    if (!scenario.Is(kHeavy) || random.Percent(kHeavyPercent)) return scenario;
  }
}

template <typename Fits>
const Scenario& AnyThat(const World& world, Random& random, Fits fits) {
  while (true) {
    const Scenario& scenario = Any(world, random);
    if (fits(scenario)) return scenario;
  }
}

bool Writes(const Scenario& scenario) { return !scenario.outputs.empty(); }
bool ReadsStdin(const Scenario& scenario) { return !scenario.input.empty(); }

// Half of the time the outputs are there already.
void OldOutputs(Random& random, Case* c) {
  for (const OutputFile& file : c->scenario->outputs) {
    if (random.Percent(50)) WriteFile(c->folder + "/out/" + file.name, "old\n");
  }
}

// A signal at a random moment of the run, and perhaps a second one soon after.
void SendSignals(Random& random, int percent_second, Case* c) {
  const auto whole_us = static_cast<uint64_t>(c->scenario->seconds * 1.1e6) + 1;
  TimedSignal signal = {static_cast<int64_t>(random.Below(whole_us)), random.Of(kSent)};
  c->launch.signals.push_back(signal);
  if (random.Percent(percent_second)) {
    signal.after_us += static_cast<int64_t>(random.Below(2) * random.Below(3000));
    signal.number = random.Of(kSent);
    c->launch.signals.push_back(signal);
  }
  for (const TimedSignal& sent : c->launch.signals) {
    c->codes.insert(128 + sent.number);
    c->story += (c->story.empty() ? "" : "; ") + std::string(SignalName(sent.number)) + " after " +
                std::to_string(sent.after_us) + " us";
  }
}

void AtRandomMoments(const World& world, Random& random, Case* c) {
  Choose(world, Any(world, random), c);
  OldOutputs(random, c);
  SendSignals(random, 30, c);
}

CallKind CountedCall(const Scenario& scenario, Random& random, std::span<const CallKind> calls) {
  while (true) {
    const CallKind call = random.Of(calls);
    if (scenario.counts[call] > 0) return call;
  }
}

void AddToPlan(const std::string& entry, Case* c) {
  c->launch.plan += (c->launch.plan.empty() ? "" : ",") + entry;
  c->story = c->launch.plan;
}

std::string Nth(CallKind call, uint64_t nth, const char* more, const std::string& effect) {
  return std::string(kCallNames[call]) + ":" + std::to_string(nth) + more + ":" + effect;
}

constexpr CallKind kAllCalls[] = {kOpen,   kRead, kWrite,  kStat, kClose, kRename, kLink,
                                  kUnlink, kMmap, kThread, kPipe, kPoll,  kList,   kMalloc};

void AtCalls(const World& world, Random& random, Case* c) {
  Choose(world, Any(world, random), c);
  OldOutputs(random, c);
  const int signal = random.Of(kSent);
  const CallKind call = CountedCall(*c->scenario, random, kAllCalls);
  AddToPlan(Nth(call, 1 + random.Below(c->scenario->counts[call]), "", SignalName(signal)), c);
  c->codes.insert(128 + signal);
  c->other_result = c->scenario->Is(kReports);
}

void Allocations(const World& world, Random& random, Case* c) {
  Choose(world, Any(world, random), c);
  const char* more = random.Percent(30) ? "+" : "";
  AddToPlan(Nth(kMalloc, 1 + random.Below(c->scenario->counts[kMalloc]), more, "ENOMEM"), c);
  c->codes.insert(5);
  c->other_result = c->scenario->Is(kReports);
}

struct CallErrors {
  CallKind call;
  std::vector<const char*> errors;
};

const std::vector<CallErrors>& ErrorsOfCalls() {
  static const std::vector<CallErrors> errors = {
      {kOpen, {"EINTR", "EMFILE", "ENFILE", "EIO", "EACCES", "ENOMEM", "ENOSPC"}},
      {kRead, {"EINTR", "EIO", "EAGAIN"}},
      {kWrite, {"EINTR", "ENOSPC", "EIO", "EAGAIN", "EDQUOT"}},
      {kStat, {"EIO", "ENOMEM", "EACCES"}},
      {kClose, {"EINTR", "EIO", "ENOSPC"}},
      {kRename, {"EIO", "ENOSPC", "EROFS"}},
      {kLink, {"EIO", "ENOSPC", "EXDEV", "EPERM", "EOPNOTSUPP"}},
      {kChmod, {"EPERM", "EIO"}},
      {kMmap, {"ENOMEM", "EAGAIN"}},
      {kThread, {"EAGAIN", "ENOMEM", "EPERM"}},
      {kPipe, {"EMFILE", "ENFILE"}},
      {kPoll, {"EINTR", "ENOMEM"}},
      {kList, {"EMFILE", "EIO", "ENOMEM"}},
      {kFork, {"EAGAIN", "ENOMEM"}},
      {kWait, {"EINTR"}}};
  return errors;
}

// One error at the Nth call of a kind.
void AddError(Random& random, Case* c) {
  c->other_result = c->scenario->Is(kReports);
  while (true) {
    const CallErrors& chosen = random.Of(ErrorsOfCalls());
    const uint64_t count = c->scenario->counts[chosen.call];
    if (count == 0) continue;
    const std::string error = random.Of(chosen.errors);
    AddToPlan(Nth(chosen.call, 1 + random.Below(count), "", error), c);
    if (error == "EINTR") return;  // must go unnoticed
    c->by_place = true;
    if (chosen.call == kThread || chosen.call == kMmap || error == "ENOMEM") c->codes.insert(5);
    if (chosen.call == kPipe || chosen.call == kFork) c->codes.insert(5);
    if (chosen.call == kPoll) c->codes.insert(1);
    return;
  }
}

void CallsThatFail(const World& world, Random& random, Case* c) {
  Choose(world, Any(world, random), c);
  OldOutputs(random, c);
  AddError(random, c);
}

void CallsThatDoLess(const World& world, Random& random, Case* c) {
  Choose(world, Any(world, random), c);
  const CallKind call = random.Percent(50) ? kRead : kWrite;
  const std::string from = std::to_string(1 + random.Below(c->scenario->counts[call] + 1));
  const bool byte = random.Percent(30);
  // A byte at a time only for a while: a model is long.
  AddToPlan(std::string(kCallNames[call]) + ":" + from + (byte ? ":byte" : "+:short"), c);
}

void SignalsWithErrors(const World& world, Random& random, Case* c) {
  Choose(world, Any(world, random), c);
  OldOutputs(random, c);
  AddError(random, c);
  if (random.Percent(50)) {
    SendSignals(random, 20, c);
  } else {
    const std::string error = c->launch.plan;
    const int signal = random.Of(kSent);
    AddToPlan(error.substr(0, error.rfind(':') + 1) + SignalName(signal), c);
    c->codes.insert(128 + signal);
  }
}

void IgnoredSignals(const World& world, Random& random, Case* c) {
  Choose(world, Any(world, random), c);
  const auto whole_us = static_cast<uint64_t>(c->scenario->seconds * 1e6) + 1;
  const int signal = random.Of(kSent);
  c->launch.ignored = {signal};
  const auto after = static_cast<int64_t>(random.Below(whole_us));
  c->launch.signals = {{after, signal}, {after + 100, signal}};
  c->story = std::string("ignored: ") + SignalName(signal) + " after " + std::to_string(after) +
             " us, twice";
}

constexpr const char* kFifo = " is a FIFO ";

void MakeFifo(const std::string& path) {
  fs::remove(path);
  if (mkfifo(path.c_str(), 0600) != 0) throw std::runtime_error("mkfifo failed: " + path);
}

// The program may read from the FIFO, or refuse it as the kind of file that it is.
void FifoInput(const World& world, Random& random, Case* c) {
  Choose(world, AnyThat(world, random, [](const Scenario& s) { return !s.inputs.empty(); }), c);
  OwnInputs(world, c);
  const std::string name = random.Of(c->scenario->inputs);
  const std::string path = c->folder + "/in/" + name;
  Partner writer = {path, true, ReadFile(path)};
  MakeFifo(path);
  c->story = "in/" + name + kFifo;
  switch (random.Below(3)) {
    case 0:
      c->story += "that nobody writes";
      break;
    case 1:
      c->story += "with its bytes";
      c->partners.push_back(writer);
      break;
    default:
      c->story += "whose writer leaves";
      writer.bytes.clear();
      c->partners.push_back(writer);
  }
  if (random.Percent(40)) {
    c->launch.signals = {{100000, SIGINT}};
    c->codes.insert(130);
    c->story += ", SIGINT after 0.1 s";
  }
  c->other_result = true;
  c->codes.merge(CodesAt("in/" + name));
  c->codes.insert(2);
}

void FifoOutput(const World& world, Random& random, Case* c) {
  Choose(world, AnyThat(world, random, Writes), c);
  const OutputFile& file = random.Of(c->scenario->outputs);
  const std::string path = c->folder + "/out/" + file.name;
  MakeFifo(path);
  c->set_aside.insert(file.name);
  c->story = std::string("out/") + file.name + kFifo;
  c->codes.insert(7);
  switch (random.Below(3)) {
    case 0:
      c->story += "that nobody reads, SIGINT after 0.2 s";
      c->launch.signals = {{200000, SIGINT}};
      c->codes.insert(130);
      break;
    case 1:
      c->story += "with a slow reader";
      c->partners.push_back({path, false, "", -1, 200});
      c->codes.erase(7);
      break;
    default:
      c->story += "whose reader leaves early";
      c->partners.push_back({path, false, "", static_cast<int64_t>(random.Below(5000)), 0});
  }
}

void Fifos(const World& world, Random& random, Case* c) {
  random.Percent(50) ? FifoInput(world, random, c) : FifoOutput(world, random, c);
}

void AddressSpace(const World& world, Random& random, Case* c) {
  Choose(world, Any(world, random), c);
  c->may_not_begin = true;
  c->other_result = c->scenario->Is(kReports);
  const uint64_t mib = 8 + random.Below(400);
  c->launch.limits = {{RLIMIT_AS, mib << 20}};
  c->codes.insert(5);
  c->codes.insert(4);  // a plugin that cannot be mapped
  c->story = "RLIMIT_AS " + std::to_string(mib) + " MiB";
}

// No more of them may begin: by the system's limit, or from the Nth call on.
void Processes(const World& world, Random& random, Case* c) {
  Choose(world, Any(world, random), c);
  c->other_result = c->scenario->Is(kReports);
  c->codes.insert(5);
  const uint64_t n = 1 + random.Below(4);
  if (random.Percent(50)) {
    c->launch.processes = n;
    c->story = "at most " + std::to_string(n) + " processes and threads";
  } else {
    AddToPlan(Nth(kThread, n, "+", "EAGAIN"), c);
  }
}

void Limits(const World& world, Random& random, Case* c) {
  Choose(world, Any(world, random), c);
  c->may_not_begin = true;
  c->other_result = c->scenario->Is(kReports);
  if (random.Percent(50)) {
    size_t largest = 64;
    for (const auto& [name, bytes] : c->scenario->files) {
      largest = std::max(largest, bytes.size());
    }
    const uint64_t bytes = random.Below(largest + 100);
    c->launch.limits = {{RLIMIT_FSIZE, bytes}};
    if (Writes(*c->scenario)) c->codes.insert(7);
    c->story = "RLIMIT_FSIZE " + std::to_string(bytes) + " bytes";
  } else {
    const uint64_t files = 3 + random.Below(20);
    c->launch.limits = {{RLIMIT_NOFILE, files}};
    c->codes.insert({1, 2, 3, 4, 5, 7});
    c->story = "RLIMIT_NOFILE " + std::to_string(files);
  }
}

void OutputLink(const World& world, Random& random, Case* c) {
  Choose(world, AnyThat(world, random, Writes), c);
  OwnInputs(world, c);
  const OutputFile& file = random.Of(c->scenario->outputs);
  const std::string path = c->folder + "/out/" + file.name;
  c->set_aside.insert(file.name);
  c->codes = {2, 7};
  c->story = std::string("out/") + file.name + " is ";
  const auto other = [&](const char* name) {
    c->made_before.insert(name);
    return c->folder + "/out/" + name;
  };
  switch (random.Below(6)) {
    case 0:
      fs::create_symlink("nowhere", path);
      c->story += "a dangling link";
      break;
    case 1:
      fs::create_symlink(file.name, path);
      c->story += "a link to itself";
      break;
    case 2:
      fs::create_directory(path);
      c->story += "a folder";
      break;
    case 3: {
      WriteFile(other("target"), "old\n");
      fs::create_symlink("target", path);
      c->codes = {0};
      c->story += "a link to a file";
      break;
    }
    default: {
      c->kept = random.Of(c->scenario->inputs);
      const std::string input = c->folder + "/in/" + c->kept;
      c->kept_bytes = ReadFile(input);
      const bool soft = random.Percent(50);
      if (!soft) c->codes.insert(0);  // another name of the file may become another file
      soft ? fs::create_symlink(input, path) : fs::create_hard_link(input, path);
      c->story += std::string(soft ? "a link to " : "the same file as ") + input;
    }
  }
}

void InputLink(const World& world, Random& random, Case* c) {
  Choose(world, AnyThat(world, random, [](const Scenario& s) { return !s.inputs.empty(); }), c);
  OwnInputs(world, c);
  const std::string name = random.Of(c->scenario->inputs);
  const fs::path path = c->folder + "/in/" + name;
  c->codes = CodesAt("in/" + name);
  c->story = "in/" + name + " is ";
  switch (random.Below(4)) {
    case 0:
      fs::remove(path);
      fs::create_symlink("nowhere", path);
      c->story += "a dangling link";
      break;
    case 1:
      fs::remove(path);
      fs::create_symlink(path.filename(), path);
      c->story += "a link to itself";
      break;
    case 2:
      fs::remove(path);
      fs::create_directory(path);
      c->story += "a folder";
      break;
    default:
      fs::rename(path, path.string() + ".moved");
      fs::create_symlink(path.filename().string() + ".moved", path);
      c->codes = {0};
      c->story += "a link to the file";
  }
}

void Links(const World& world, Random& random, Case* c) {
  random.Percent(60) ? OutputLink(world, random, c) : InputLink(world, random, c);
}

void StandardStreams(const World& world, Random& random, Case* c) {
  constexpr Stream kOuts[] = {Stream::kPipe, Stream::kClosed, Stream::kFull,
                              Stream::kGone, Stream::kSlow,   Stream::kStuck};
  constexpr Stream kIns[] = {Stream::kPipe, Stream::kPipe, Stream::kClosed, Stream::kFolder,
                             Stream::kHeld};
  constexpr const char* kNames[] = {
      "a pipe",   "closed",   "full", "a pipe without a reader", "read slowly", "a pipe never read",
      "a folder", "held open"};
  Choose(world, Any(world, random), c);
  c->launch.in = random.Of(kIns);
  c->launch.out = random.Of(kOuts);
  c->launch.err = random.Of(kOuts);
  const auto name = [&](Stream stream) { return std::string(kNames[static_cast<int>(stream)]); };
  c->story = "stdin " + name(c->launch.in) + ", stdout " + name(c->launch.out) + ", stderr " +
             name(c->launch.err);
  if (ReadsStdin(*c->scenario) && c->launch.in != Stream::kPipe) {
    c->codes.insert({1, 2});
    c->other_result = true;
  }
  const Stream out = c->launch.out;
  if (out == Stream::kClosed || out == Stream::kFull || out == Stream::kGone) {
    c->codes.insert(7);
    c->silent_end = out == Stream::kGone;
    if (!c->scenario->out.empty() && !c->other_result) c->codes.erase(0);
  }
  const bool stuck = out == Stream::kStuck || c->launch.err == Stream::kStuck;
  if (stuck || c->launch.in == Stream::kHeld) {
    c->launch.signals = {{100000 + static_cast<int64_t>(random.Below(100000)), SIGINT}};
    c->codes.insert(130);
    c->story += ", SIGINT after 0.1 to 0.2 s";
  }
}

// A file that is read is cut short, or its bytes change, while it is read or before.
void DamagedInputs(const World& world, Random& random, Case* c) {
  Choose(world, AnyThat(world, random, [](const Scenario& s) { return !s.inputs.empty(); }), c);
  OwnInputs(world, c);
  const std::string name = random.Of(c->scenario->inputs);
  const std::string path = c->folder + "/in/" + name;
  std::string bytes = ReadFile(path);
  c->story = "in/" + name + ": ";
  if (random.Percent(40)) {
    bytes.resize(static_cast<size_t>(random.Below(bytes.size())));
    c->story += "cut to " + std::to_string(bytes.size()) + " bytes";
  } else {
    for (uint64_t n = 1 + random.Below(4); n > 0; --n) {
      // Mostly near the beginning, where headers are.
      const uint64_t range =
          random.Percent(50) ? std::min<uint64_t>(bytes.size(), 400) : bytes.size();
      const uint64_t at = random.Below(range);
      bytes[static_cast<size_t>(at)] = static_cast<char>(random.Below(256));
      c->story += "byte " + std::to_string(at) + " changed; ";
    }
  }
  WriteFile(path, bytes);
  c->other_result = true;
  c->codes = {0, 2, 3, 4, 5, 6};
  if (name == kRecordFile) c->codes.insert(8);
}

constexpr FaultClass kClasses[] = {
    {"signals", "signals at random moments", 250, AtRandomMoments},
    {"signals-at-calls", "a signal at the Nth call of a kind", 125, AtCalls},
    {"allocations", "the Nth allocation fails, or all from it on", 350, Allocations},
    {"errors", "the Nth call of a kind fails", 450, CallsThatFail},
    {"short", "reads and writes that do less", 100, CallsThatDoLess},
    {"signals-errors", "a signal together with an error", 125, SignalsWithErrors},
    {"ignored", "signals that the caller ignores", 40, IgnoredSignals},
    {"fifos", "FIFOs in place of files", 75, Fifos},
    {"limits", "limits of file size and of files", 65, Limits},
    {"address-space", "a limit of the address space", 40, AddressSpace},
    {"processes", "limits of processes and threads", 40, Processes},
    {"links", "links and folders in place of files", 100, Links},
    {"streams", "standard streams closed, full, slow, stuck", 125, StandardStreams},
    {"damaged", "inputs cut short or changed", 150, DamagedInputs},
};

}  // namespace

std::span<const FaultClass> FaultClasses() { return kClasses; }

void OwnInputs(const World& world, Case* c) {
  c->own_inputs = true;
  const std::string in = c->folder + "/in";
  fs::remove(in);
  for (const char* input : c->scenario->inputs) {
    const fs::path copy = in + "/" + input;
    fs::create_directories(copy.parent_path());
  }
  // What the run reads and does not name comes along.
  fs::create_directories(in);
  fs::copy(world.inputs, in, fs::copy_options::recursive | fs::copy_options::skip_existing);
}

}  // namespace ng::faults
