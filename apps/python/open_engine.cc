#include "apps/python/open_engine.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ng::python {
namespace {

// What a first step by step call has room for, where nobody says.
constexpr int64_t kTokens = 1024;

// The engines of this process, and whether it ends. The GIL guards both.
std::set<OpenEngine*>& AllEngines() {
  static std::set<OpenEngine*>& engines = *new std::set<OpenEngine*>;
  return engines;
}
bool g_python_ends = false;

bool Covers(const RunNeeds& has, const RunNeeds& wanted) {
  return has.max_tokens >= wanted.max_tokens && has.max_sequences >= wanted.max_sequences &&
         has.prompt_logits >= wanted.prompt_logits && has.snapshots >= wanted.snapshots &&
         has.identity >= wanted.identity;
}

RunNeeds Both(const RunNeeds& a, const RunNeeds& b) {
  RunNeeds both;
  both.max_tokens = std::max(a.max_tokens, b.max_tokens);
  both.max_sequences = std::max(a.max_sequences, b.max_sequences);
  both.prompt_logits = a.prompt_logits || b.prompt_logits;
  both.snapshots = a.snapshots || b.snapshots;
  both.identity = a.identity || b.identity;
  return both;
}

// The drafter, if there is one, becomes that of the run. The config may name it; no other one.
void NameDrafter(const PythonParts& parts, const Config& config, EngineOptions& options) {
  for (const std::string& name : parts.NamesOf("drafter")) {
    const std::string& given = config.Text("drafter.name");
    if (given != "none" && given != name) {
      Raise(UsageError(absl::StrCat(config.Describe("drafter.name"), " = ", given, ", must be '",
                                    name, "', which is the drafter in Python, or left out")));
    }
    options.overrides.push_back("drafter.name=" + name);
  }
}

// Puts the parts that the chains do not name into them: stages first, so that they see every
// candidate; probes last.
void NameParts(const PythonParts& parts, EngineOptions& options) {
  std::vector<std::string> added;
  const Config config = Value(Engine::ReadConfig(options));
  for (const char* kind : {"sampler", "probe"}) {
    const std::string key = absl::StrCat(kind, ".chain");
    const std::vector<std::string> chain = config.Names(key);
    std::vector<std::string> names;
    for (std::string& name : parts.NamesOf(kind)) {
      if (std::ranges::count(chain, name) == 0) names.push_back(std::move(name));
    }
    if (names.empty()) continue;
    const bool first = std::string_view(kind) == "sampler";
    names.insert(first ? names.end() : names.begin(), chain.begin(), chain.end());
    added.push_back(absl::StrCat(key, "=", absl::StrJoin(names, ",")));
  }
  options.overrides.insert(options.overrides.end(), added.begin(), added.end());
  NameDrafter(parts, config, options);
}

}  // namespace

OpenEngine::OpenEngine(const OpenArguments& arguments)
    : warning_(arguments.warning), parts_(arguments.parts, pending_), least_(arguments.least) {
  EngineOptions options;
  options.config_file = arguments.config;
  options.overrides = arguments.overrides;
  options.random_weights = arguments.random_weights;
  options.stop = &stop_;
  options.plugins = parts_.plugins();
  if (!options.plugins.empty()) NameParts(parts_, options);
  if (!warning_.is_none()) {
    options.warning = [this](std::string_view line) {
      // What it raises is kept; a warning stops nothing by itself.
      CallBack("warning", [&] { warning_(std::string(line)); }).IgnoreError();
    };
  }
  const StopOnSigint interrupt(&stop_);
  absl::StatusOr<std::unique_ptr<Engine>> engine = [&] {
    const py::gil_scoped_release release;
    return Engine::Open(options);
  }();
  RaisePending();
  engine_ = Value(std::move(engine));
  AllEngines().insert(this);
}

OpenEngine::~OpenEngine() {
  AllEngines().erase(this);
  to_end_.clear();
  engine_.reset();
}

Engine& OpenEngine::engine() const {
  if (engine_ == nullptr) Raise(UsageError("the engine is closed"));
  return *engine_;
}

void OpenEngine::Close() {
  if (engine_ == nullptr) return;
  while (!runs_.empty()) std::function(runs_.begin()->second)();  // takes itself out
  {
    const Claim claim(*this);
    ids_.clear();
    to_close_.clear();
  }
  engine_.reset();
  loaded_.reset();
}

int OpenEngine::Traverse(visitproc visit, void* arg) {
  Py_VISIT(warning_.ptr());
  return parts_.Traverse(visit, arg);
}

void OpenEngine::Clear() {
  warning_ = py::none();
  parts_.Clear();
}

void OpenEngine::EndAll() {
  g_python_ends = true;
  const auto is_at_work = [](const OpenEngine* engine) {
    return engine->busy_process_ == getpid();  // not one that a fork has left behind
  };
  while (std::ranges::any_of(AllEngines(), is_at_work)) {
    for (OpenEngine* engine : AllEngines()) engine->stop_ = true;
    const py::gil_scoped_release release;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

OpenEngine::Claim::Claim(OpenEngine& of) : of_(of) {
  if (g_python_ends && gettid() != getpid()) {
    const py::gil_scoped_release release;
    while (true) pause();
  }
  (void)of.engine();
  if (of.busy_process_ != 0) {
    Raise(
        UsageError("the engine is at work: one thread at a time uses it, and what it calls must "
                   "not call it"));
  }
  if (of.n_views_ > 0) {
    Raise(UsageError(absl::StrCat(of.n_views_,
                                  " views of the last step's logits are in use, and a "
                                  "next step would change them; copy them, or delete "
                                  "them first")));
  }
  of.EndWhatWaits();
  of.busy_process_ = getpid();
}

OpenEngine::Claim::~Claim() {
  of_.busy_process_ = 0;
  of_.EndWhatWaits();
}

void OpenEngine::EndWhatWaits() {
  for (const SequenceId sequence : std::exchange(to_close_, {})) {
    engine_->CloseSequence(sequence);
    ids_.erase(sequence);
  }
  std::exchange(to_end_, {}).clear();
}

void OpenEngine::EndLater(std::shared_ptr<void> thing) {
  if (busy_process_ != 0) to_end_.push_back(std::move(thing));
}

void OpenEngine::RaisePending() {
  pending_.Raise();
  if (stop_.load() && PyErr_CheckSignals() != 0) throw py::error_already_set();
}

absl::Status OpenEngine::CallBack(const char* what, const std::function<void()>& call) {
  const py::gil_scoped_acquire gil;
  try {
    call();
    return absl::OkStatus();
  } catch (py::error_already_set& error) {
    return pending_.Keep(error, what);
  } catch (const py::builtin_exception& error) {
    return UsageError(absl::StrCat(what, ": ", error.what()));
  }
}

int64_t OpenEngine::MostTokens() const {
  const int64_t context = engine().model_shape().max_positions;
  const int64_t cache = engine().config().Int("cache.max_tokens");
  if (context == 0 || cache == 0) return std::max(context, cache);
  return std::min(context, cache);
}

void OpenEngine::Ensure(const RunNeeds& needs) {
  if (loaded_ && Covers(*loaded_, needs)) return;
  RunNeeds wanted = Both(needs, least_);
  if (loaded_) wanted = Both(wanted, *loaded_);
  // Room for the next ones too, where it costs little: each load reads the weights.
  RunNeeds roomy = wanted;
  roomy.max_tokens = std::max(kTokens, loaded_ ? wanted.max_tokens * 2 : wanted.max_tokens);
  if (least_.max_tokens > 0) roomy.max_tokens = wanted.max_tokens;
  if (MostTokens() > 0) roomy.max_tokens = std::min(roomy.max_tokens, MostTokens());
  roomy.max_tokens = std::max(roomy.max_tokens, wanted.max_tokens);
  const absl::StatusOr<RunPlan> plan = engine_->Plan(roomy);
  Load(plan.ok() && CheckMemory(*plan).ok() ? roomy : wanted);
}

void OpenEngine::Load(RunNeeds needs) {
  if (n_open() > 0) {
    Raise(UsageError(absl::StrCat(
        "the run needs more than was loaded, and a new load would end ", n_open(),
        " open sequences; close them, or say it before: Engine(max_tokens=", needs.max_tokens,
        ", max_sequences=", needs.max_sequences, needs.prompt_logits ? ", prompt_logits=True" : "",
        needs.snapshots ? ", snapshots=True" : "", ")")));
  }
  loaded_.reset();
  Run([&](Engine& engine) -> absl::StatusOr<bool> {
    NG_RETURN_IF_ERROR(engine.Load(needs));
    return true;
  });
  loaded_ = needs;
}

SequenceId OpenEngine::OpenSequence(int64_t capacity) {
  // A few, where nobody says how many.
  constexpr int kSequences = 4;
  RunNeeds needs = {.max_tokens = capacity, .max_sequences = n_open() + 1};
  if (!loaded_ && least_.max_sequences == 0) needs.max_sequences = kSequences;
  Ensure(needs);
  const int64_t room = capacity > 0 ? capacity : loaded_->max_tokens;
  const SequenceId sequence = Run([&](Engine& engine) { return engine.OpenSequence(room); });
  ids_[sequence] = {};
  return sequence;
}

SequenceId OpenEngine::ForkSequence(SequenceId sequence, int64_t capacity) {
  std::vector<int32_t> ids = IdsOf(sequence);
  Ensure({.max_tokens = capacity, .max_sequences = n_open() + 1});
  const int64_t room = capacity > 0 ? capacity : loaded_->max_tokens;
  const SequenceId fork = Run([&](Engine& engine) { return engine.ForkSequence(sequence, room); });
  ids_[fork] = std::move(ids);
  return fork;
}

SequenceId OpenEngine::LoadSequence(const std::string& path, int64_t capacity) {
  RunNeeds needs = {.max_tokens = capacity, .max_sequences = n_open() + 1};
  needs.snapshots = true;
  Ensure(needs);
  const int64_t room = capacity > 0 ? capacity : loaded_->max_tokens;
  LoadedSequence loaded = Run([&](Engine& engine) { return engine.LoadSequence(path, room); });
  ids_[loaded.sequence] = std::move(loaded.ids);
  return loaded.sequence;
}

void OpenEngine::Truncate(SequenceId sequence, int64_t length) {
  (void)IdsOf(sequence);
  Run(
      [&](Engine& engine) -> absl::StatusOr<bool> {
        NG_RETURN_IF_ERROR(engine.TruncateSequence(sequence, length));
        return true;
      },
      [&] { ids_[sequence].resize(static_cast<size_t>(engine_->SequenceLength(sequence))); });
}

const std::vector<int32_t>& OpenEngine::IdsOf(SequenceId sequence) const {
  (void)engine();
  const auto found = ids_.find(sequence);
  if (found == ids_.end()) {
    Raise(UsageError(absl::StrCat("sequence ", sequence, " is not open in this engine")));
  }
  return found->second;
}

void OpenEngine::SetIds(SequenceId sequence, std::span<const int32_t> ids) {
  const auto held = static_cast<size_t>(engine_->SequenceLength(sequence));
  ids_[sequence].assign(ids.begin(),
                        ids.begin() + static_cast<int64_t>(std::min(held, ids.size())));
}

void OpenEngine::AddIds(SequenceId sequence, std::span<const int32_t> ids) {
  std::vector<int32_t>& all = ids_[sequence];
  all.insert(all.end(), ids.begin(), ids.end());
  all.resize(std::min(all.size(), static_cast<size_t>(engine_->SequenceLength(sequence))));
}

void OpenEngine::CloseSequence(SequenceId sequence) {
  if (engine_ == nullptr || ids_.count(sequence) == 0) return;
  to_close_.push_back(sequence);
  if (busy_process_ == 0) EndWhatWaits();
}

py::object OpenEngine::Feed(std::span<const SequenceId> sequences,
                            std::span<const std::vector<int32_t>> tokens, const Step& step,
                            bool copy) {
  for (const SequenceId sequence : sequences) (void)IdsOf(sequence);
  const StepLogits made =
      Run([&](Engine& engine) { return step(engine); },
          [&] {
            for (size_t i = 0; i < std::min(sequences.size(), tokens.size()); ++i) {
              AddIds(sequences[i], tokens[i]);
            }
          });
  return LogitsArray(made.logits, copy);
}

py::object OpenEngine::LogitsArray(const TensorView<const float, 2>& logits, bool copy) {
  const auto [n, width] = logits.extent;
  if (copy) {
    return CopyOf({logits.data, static_cast<size_t>(n * width)}, ShapeOfRows(n, 0, width));
  }
  // The view keeps the engine, and the engine counts its views.
  using Owner = std::shared_ptr<OpenEngine>;
  auto owner = std::make_unique<Owner>(shared_from_this());
  const py::capsule base(owner.get(), [](void* pointer) {
    const std::unique_ptr<Owner> of(static_cast<Owner*>(pointer));
    --(*of)->n_views_;
  });
  (void)owner.release();  // the capsule has it
  ++n_views_;
  py::array_t<float> view({n, width},
                          {logits.stride[0] * int64_t{sizeof(float)}, int64_t{sizeof(float)}},
                          logits.data, base);
  view.attr("flags").attr("writeable") = false;
  return view;
}

}  // namespace ng::python
