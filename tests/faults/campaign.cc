// The fault campaign: programs of the build under thousands of faults; each must end as documented,
// with outputs that are whole and nothing left behind. `faults_campaign --help` says how to call
// it.
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/faults/case.h"
#include "tests/faults/partner.h"

namespace ng::faults {
namespace {

namespace fs = std::filesystem;

constexpr char kHelp[] =
    "usage: faults_campaign [--seed N] [--cases N] [--only CLASS[/INDEX]] [--jobs N]\n"
    "                       [--programs FOLDER] [--timeout SECONDS] [--keep]\n"
    "  --seed N            the cases of that number; equal seeds make equal cases (default 1)\n"
    "  --cases N           so many in all, shared out over the classes (default: the short form)\n"
    "  --only CLASS/INDEX  one case, shown in full and its folder kept; or a class\n"
    "  --jobs N            cases at a time (default: as many as there are CPUs)\n"
    "  --programs FOLDER   where ng-run and the others are (default: this build's)\n"
    "  --timeout SECONDS   that a case may take (default 10; more on a busy machine)\n"
    "  --keep              keep the folders of failed cases\n";

struct Options {
  uint64_t seed = 1;
  int64_t cases = 0;  // 0: the short form
  std::string only_class;
  int64_t only_index = -1;
  int64_t jobs = std::max(1U, std::thread::hardware_concurrency());
  std::string programs = NG_BINARY_DIR "/bin";
  int64_t timeout_s = 10;
  bool keep = false;
};

[[noreturn]] void Usage() {
  std::fputs(kHelp, stderr);
  std::exit(2);
}

int64_t Number(const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) Usage();
  return number;
}

Options ReadOptions(const std::vector<std::string>& arguments) {
  Options options;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    if (name == "--keep") {
      options.keep = true;
      continue;
    }
    if (++i == arguments.size()) Usage();
    const std::string& value = arguments[i];
    if (name == "--seed") {
      options.seed = static_cast<uint64_t>(Number(value));
    } else if (name == "--cases") {
      options.cases = Number(value);
    } else if (name == "--programs") {
      options.programs = value;
    } else if (name == "--timeout") {
      options.timeout_s = std::max<int64_t>(1, Number(value));
    } else if (name == "--jobs") {
      options.jobs = std::max<int64_t>(1, Number(value));
    } else if (name == "--only") {
      const size_t slash = std::min(value.find('/'), value.size());
      options.only_class = value.substr(0, slash);
      if (slash < value.size()) options.only_index = Number(value.substr(slash + 1));
    } else {
      Usage();
    }
  }
  return options;
}

struct Planned {
  const FaultClass* of;
  int class_number;
  int64_t index;
};

std::vector<Planned> PlanOf(const Options& options) {
  int64_t n_short = 0;
  for (const FaultClass& fault : FaultClasses()) n_short += fault.n_short;
  std::vector<Planned> planned;
  int number = 0;
  for (const FaultClass& fault : FaultClasses()) {
    const int class_number = number++;
    if (!options.only_class.empty() && options.only_class != fault.name) continue;
    if (options.only_index >= 0) {
      planned.push_back({&fault, class_number, options.only_index});
      continue;
    }
    const int64_t cases = options.cases == 0 ? fault.n_short
                                             : (options.cases * fault.n_short + n_short - 1) /
                                                   std::max<int64_t>(1, n_short);
    for (int64_t i = 0; i < cases; ++i) planned.push_back({&fault, class_number, i});
  }
  return planned;
}

struct Tally {
  int64_t cases = 0;
  int64_t failures = 0;
  double seconds = 0;
};

class Campaign {
 public:
  Campaign(const Options& options, const World& world)
      : options_(options),
        world_(world),
        planned_(PlanOf(options)),
        tallies_(FaultClasses().size()) {}

  // How many cases failed.
  int64_t Run() {
    if (planned_.empty()) Usage();
    std::vector<std::thread> threads;
    for (int64_t i = 0; i < options_.jobs; ++i) {
      threads.emplace_back([this] {
        for (size_t next = next_++; next < planned_.size(); next = next_++) RunOne(planned_[next]);
      });
    }
    for (std::thread& thread : threads) thread.join();
    int64_t failures = 0;
    std::printf("%-18s%8s%10s%10s  %s\n", "class", "cases", "failures", "seconds", "what");
    for (size_t i = 0; i < tallies_.size(); ++i) {
      const Tally& tally = tallies_[i];
      if (tally.cases == 0) continue;
      std::printf("%-18s%8lld%10lld%10.1f  %s\n", FaultClasses()[i].name,
                  static_cast<long long>(tally.cases), static_cast<long long>(tally.failures),
                  tally.seconds, FaultClasses()[i].what);
      failures += tally.failures;
    }
    std::printf("%zu cases, %lld failures, seed %llu\n", planned_.size(),
                static_cast<long long>(failures), static_cast<unsigned long long>(options_.seed));
    return failures;
  }

 private:
  void RunOne(const Planned& planned) {
    const auto start = std::chrono::steady_clock::now();
    Case c;
    c.folder = world_.scratch + "/" + planned.of->name + "-" + std::to_string(planned.index);
    std::string wrong;
    Outcome outcome;
    try {
      Random random(options_.seed * 1000003 + static_cast<uint64_t>(planned.class_number) * 7919 +
                    static_cast<uint64_t>(planned.index) * 104729);
      planned.of->make(world_, random, &c);
      {
        const Partners partners(c.partners);
        outcome = faults::Run(c.launch);
      }
      wrong = Judge(c, outcome);
    } catch (const std::exception& error) {
      wrong = std::string("the campaign itself: ") + error.what();
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    const std::lock_guard lock(mutex_);
    Tally& tally = tallies_[static_cast<size_t>(planned.class_number)];
    ++tally.cases;
    tally.seconds += seconds.count();
    if (!wrong.empty()) ++tally.failures;
    const bool alone = options_.only_index >= 0;
    if (!wrong.empty() || alone) Report(planned, c, outcome, wrong, alone);
    if (!alone && (wrong.empty() || !options_.keep)) fs::remove_all(c.folder);
  }

  void Report(const Planned& planned, const Case& c, const Outcome& outcome,
              const std::string& wrong, bool whole) const {
    std::printf("%s %s/%lld: %s\n  %s: %s\n", wrong.empty() ? "PASSED" : "FAILED", planned.of->name,
                static_cast<long long>(planned.index), wrong.c_str(),
                c.scenario == nullptr ? "" : c.scenario->name, c.story.c_str());
    if (!outcome.where.empty()) std::printf("  struck: %s\n", outcome.where.c_str());
    constexpr size_t kExcerpt = 300;
    std::printf("  stderr: %s\n", (whole ? outcome.err : outcome.err.substr(0, kExcerpt)).c_str());
    std::printf("  again:  %s --seed %llu --only %s/%lld\n", NG_BINARY_DIR "/bin/faults_campaign",
                static_cast<unsigned long long>(options_.seed), planned.of->name,
                static_cast<long long>(planned.index));
    if (whole) {
      std::printf("  exit %d, signal %d, %.3f s\n  stdout: %s\n  by hand: %s\n", outcome.code,
                  outcome.signal, outcome.seconds, outcome.out.c_str(),
                  ShellLine(c.launch).c_str());
    }
    std::fflush(stdout);
  }

  const Options& options_;
  const World& world_;
  const std::vector<Planned> planned_;
  std::atomic<size_t> next_ = 0;
  std::mutex mutex_;
  std::vector<Tally> tallies_;
};

int Main(const std::vector<std::string>& arguments) {
  std::signal(SIGPIPE, SIG_IGN);
  const Options options = ReadOptions(arguments);
  std::string scratch = (fs::temp_directory_path() / "ng_faults_XXXXXX").string();
  if (mkdtemp(scratch.data()) == nullptr) throw std::runtime_error("cannot create " + scratch);
  std::printf("seed %llu, in %s\n", static_cast<unsigned long long>(options.seed), scratch.c_str());
  const World world = MakeWorld(scratch, options.programs, static_cast<double>(options.timeout_s));
  Campaign campaign(options, world);
  const int64_t failures = campaign.Run();
  if (!options.keep && options.only_index < 0) fs::remove_all(scratch);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace ng::faults

int main(int argc, char** argv) {
  try {
    return ng::faults::Main({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "faults_campaign: %s\n", error.what());
    return 1;
  }
}
