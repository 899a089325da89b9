#include "apps/python/open_engine.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <numeric>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ng::python {
namespace {

// What a first step by step call has room for, where nobody says.
constexpr int64_t kTokens = 1024;

// The engines of this process. The GIL guards them.
std::set<OpenEngine*>& AllEngines() {
  static std::set<OpenEngine*>& engines = *new std::set<OpenEngine*>;
  return engines;
}

bool Covers(const RunNeeds& has, const RunNeeds& wanted) {
  return has.max_tokens >= wanted.max_tokens && has.max_sequences >= wanted.max_sequences &&
         has.prompt_logits >= wanted.prompt_logits &&
         has.prompt_logprobs >= wanted.prompt_logprobs && has.snapshots >= wanted.snapshots &&
         has.identity >= wanted.identity;
}

RunNeeds Both(const RunNeeds& a, const RunNeeds& b) {
  RunNeeds both;
  both.max_tokens = std::max(a.max_tokens, b.max_tokens);
  both.max_sequences = std::max(a.max_sequences, b.max_sequences);
  both.prompt_logits = a.prompt_logits || b.prompt_logits;
  both.prompt_logprobs = a.prompt_logprobs || b.prompt_logprobs;
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

// How an engine is opened that needs no other load for this.
std::string OpeningFor(const RunNeeds& needs) {
  return absl::StrCat("Engine(max_tokens=", needs.max_tokens,
                      ", max_sequences=", needs.max_sequences,
                      needs.prompt_logits ? ", prompt_logits=True" : "",
                      needs.snapshots ? ", snapshots=True" : "", ")");
}

}  // namespace

OpenEngine::OpenEngine(const OpenArguments& arguments)
    : warning_(arguments.warning),
      progress_(arguments.progress),
      parts_(arguments.parts, pending_, turns_),
      least_(arguments.least) {
  StayIfPythonEnds();
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
  if (!progress_.is_none()) {
    show_ = options.progress = [this](const Progress& progress) { ShowProgress(progress); };
  }
  const StopOnSigint interrupt(&stop_);
  absl::StatusOr<std::unique_ptr<Engine>> engine = [&] {
    const WithoutGil free;
    return Engine::Open(options);
  }();
  RaisePending();  // stays where Python ends
  engine_ = Value(std::move(engine));
  AllEngines().insert(this);
}

OpenEngine::~OpenEngine() {
  AllEngines().erase(this);
  // A process that was forked off a call has neither its threads nor what they held.
  if (turns_.taken() && !turns_.taken_here()) {
    (void)engine_.release();
    (void)new (std::nothrow) std::vector(std::move(to_end_));
    return;
  }
  to_end_.clear();
  engine_.reset();
}

Engine& OpenEngine::engine() const {
  if (engine_ == nullptr) Raise(UsageErrorAs("OpenAgainError", "the engine is closed"));
  return *engine_;
}

void OpenEngine::Close() {
  if (engine_ == nullptr) return;
  StayIfPythonEnds();
  struct Closing {
    explicit Closing(OpenEngine& closed) : of(closed) {
      of.closing_ = true;
      if (of.turns_.taken() && !of.turns_.is_within()) of.stop_ = true;
    }
    ~Closing() { of.closing_ = false; }
    OpenEngine& of;
  };
  const Closing closing(*this);
  while (engine_ != nullptr) {
    while (!runs_.empty()) std::function(runs_.begin()->second)();  // takes itself out
    const Claim claim(*this);
    if (!runs_.empty()) continue;  // it began while this waited for its turn
    held_.clear();
    to_close_.clear();
    to_end_.clear();
    engine_.reset();
    loaded_.reset();
    hooks_.clear();
  }
}

int OpenEngine::Traverse(visitproc visit, void* arg) {
  Py_VISIT(warning_.ptr());
  Py_VISIT(progress_.ptr());
  for (const auto& [number, hook] : hooks_) Py_VISIT(hook->part.call.ptr());
  return parts_.Traverse(visit, arg);
}

void OpenEngine::Clear() {
  warning_ = progress_ = py::none();
  for (const auto& [number, hook] : hooks_) hook->part.off = true;
  for (const auto& [number, hook] : hooks_) hook->part.call = py::none();
  parts_.Clear();
}

void OpenEngine::ShowProgress(const Progress& progress) {
  const int64_t percent = progress.total > 0 ? 100 * progress.done / progress.total : 100;
  if (shown_.first == progress.phase && shown_.second == percent) return;
  shown_ = {std::string(progress.phase), percent};
  // What it raises is kept.
  CallBack("progress", [&] {
    progress_(shown_.first, progress.done, progress.total);
  }).IgnoreError();
}

int64_t OpenEngine::AddHook(const py::handle& from) {
  const Claim claim(*this);
  CheckNoRuns();
  auto hook = std::make_unique<Hook>();
  ReadPart(from, pending_, turns_, &hook->part);
  std::unique_ptr<Probe> probe = Value(MakeHook(hook->part, engine_->points()));
  hook->probe = probe.get();
  Check(engine_->AddProbe(std::move(probe)));
  hooks_[++last_hook_] = std::move(hook);
  return last_hook_;
}

void OpenEngine::RemoveHook(int64_t number) {
  const auto found = hooks_.find(number);
  if (found == hooks_.end()) return;
  found->second->part.off = true;
  if (!turns_.taken()) EndWhatWaits();
}

void OpenEngine::EndAll() {
  EndPython();
  const auto is_at_work = [](const OpenEngine* engine) { return engine->turns_.taken_here(); };
  while (ThreadsWithoutGil() > 0 || std::ranges::any_of(AllEngines(), is_at_work)) {
    for (OpenEngine* engine : AllEngines()) engine->stop_ = true;
    const py::gil_scoped_release release;  // which nobody waits for
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

OpenEngine::Claim::Claim(OpenEngine& of) : of_(of), turn_((StayIfPythonEnds(), of.turns_)) {
  (void)of.engine();
  if (of.n_views_ > 0) {
    Raise(UsageErrorAs("CloseFirstError",
                       absl::StrCat(of.n_views_,
                                    " views of the last step's logits are in use, and a "
                                    "next step would change them; copy them, or delete "
                                    "them first")));
  }
  of.EndWhatWaits();
}

OpenEngine::Claim::~Claim() { of_.EndWhatWaits(); }

OpenEngine::Look::Look(OpenEngine& of) {
  StayIfPythonEnds();
  if (!of.is_within()) turn_.emplace(of.turns_);
}

void OpenEngine::EndWhatWaits() {
  for (const SequenceId sequence : std::exchange(to_close_, {})) {
    const auto held = held_.find(sequence);
    if (held == held_.end()) continue;
    engine_->CloseSequence(held->second.in_engine);
    held_.erase(held);
  }
  std::exchange(to_end_, {}).clear();
  for (auto hook = hooks_.begin(); hook != hooks_.end();) {
    const bool ends = hook->second->part.off && engine_->RemoveProbe(hook->second->probe).ok();
    hook = ends ? hooks_.erase(hook) : std::next(hook);
  }
}

void OpenEngine::EndLater(std::shared_ptr<void> thing) {
  if (turns_.taken()) to_end_.push_back(std::move(thing));
}

void OpenEngine::RaisePending() {
  StayIfPythonEnds();
  pending_.Raise();
  if (stop_.load() && PyErr_CheckSignals() != 0) throw py::error_already_set();
}

absl::Status OpenEngine::CallBack(const char* what, const std::function<void()>& call) {
  const py::gil_scoped_acquire gil;
  const Turns::Within within(turns_);
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

bool OpenEngine::IsLoadedFor(const RunNeeds& needs) const {
  return loaded_ && Covers(*loaded_, needs);
}

int OpenEngine::SequencesThatFit(RunNeeds needs, int most) const {
  if (loaded_ && loaded_->max_sequences >= most + n_open()) return most;
  for (int n = most; n > 1; n /= 2) {
    needs.max_sequences = n + n_open();
    const absl::StatusOr<RunPlan> plan = engine_->Plan(needs);
    if (plan.ok() && CheckMemory(*plan).ok()) return n;
  }
  return 1;
}

void OpenEngine::CheckNoRuns() const {
  if (!has_runs()) return;
  Raise(UsageErrorAs("CloseFirstError",
                     "a run of generate_steps is open in this engine; go on to its end, or "
                     "close() it; submit() and astream() run side by side"));
}

void OpenEngine::Ensure(const RunNeeds& needs) {
  if (IsLoadedFor(needs)) return;
  RunNeeds wanted = Both(needs, least_);
  if (loaded_) wanted = Both(wanted, *loaded_);
  // Room for the next ones too, where it costs little: each load reads the weights.
  RunNeeds roomy = wanted;
  roomy.max_tokens = std::max(kTokens, loaded_ ? wanted.max_tokens * 2 : wanted.max_tokens);
  if (least_.max_tokens > 0 && wanted.max_tokens <= least_.max_tokens) {
    roomy.max_tokens = wanted.max_tokens;
  }
  if (MostTokens() > 0) roomy.max_tokens = std::min(roomy.max_tokens, MostTokens());
  roomy.max_tokens = std::max(roomy.max_tokens, wanted.max_tokens);
  if (loaded_ && wanted.max_sequences > loaded_->max_sequences) {
    roomy.max_sequences = std::max(wanted.max_sequences, 2 * loaded_->max_sequences);
  }
  const absl::StatusOr<RunPlan> plan = engine_->Plan(roomy);
  Load(plan.ok() && CheckMemory(*plan).ok() ? roomy : wanted);
}

void OpenEngine::Load(const RunNeeds& needs) {
  CheckNoRuns();
  CheckRefills(needs);
  const std::optional<RunNeeds> before = loaded_;
  try {
    LoadAndFill(needs);
  } catch (py::error_already_set&) {
    if (held_.empty() || !before) throw;
    try {  // the sequences stay as they were
      LoadAndFill(*before);
    } catch (py::error_already_set&) {
      held_.clear();
    }
    throw;
  }
}

void OpenEngine::CheckRefills(const RunNeeds& needs) const {
  const bool edited =
      std::ranges::any_of(held_, [](const auto& each) { return each.second.edited; });
  if (!edited) return;
  Raise(UsageErrorAs(
      "CloseFirstError",
      absl::StrCat(
          "the run needs more than was loaded, and what a hook edited cannot be fed again; "
          "close the sequences that were fed with it, or say it before: ",
          OpeningFor(needs))));
}

bool OpenEngine::Edits() const {
  return std::ranges::any_of(hooks_, [](const auto& each) {
    const PythonPart& part = each.second->part;
    return part.edits && !part.off;
  });
}

void OpenEngine::LoadAndFill(const RunNeeds& needs) {
  // No hook sees again what is fed again.
  struct Paused {
    explicit Paused(OpenEngine& of) : hooks(of.hooks_) {
      for (const auto& [number, hook] : hooks) hook->part.paused = true;
    }
    ~Paused() {
      for (const auto& [number, hook] : hooks) hook->part.paused = false;
    }
    const std::map<int64_t, std::unique_ptr<Hook>>& hooks;
  };
  const Paused paused(*this);
  loaded_.reset();
  Run([&](Engine& engine) -> absl::StatusOr<bool> {
    NG_RETURN_IF_ERROR(engine.Load(needs));
    return true;
  });
  loaded_ = needs;
  const int64_t n_fed =
      std::accumulate(held_.begin(), held_.end(), int64_t{0},
                      [](int64_t n, const auto& open) { return n + std::ssize(open.second.ids); });
  if (n_fed > 0 && !warning_.is_none()) {
    const std::string line = absl::StrCat("the run needs more than was loaded: the ", n_fed,
                                          " tokens of the open sequences are computed again; ",
                                          OpeningFor(needs), " saves it");
    CallBack("warning", [&] { warning_(line); }).IgnoreError();
  }
  for (auto& [number, held] : held_) {
    const int64_t room = RoomOf(held.capacity);
    Run([&, &of = held](Engine& engine) -> absl::StatusOr<bool> {
      NG_ASSIGN_OR_RETURN(of.in_engine, engine.OpenSequence(room));
      if (of.ids.empty()) return true;
      NG_RETURN_IF_ERROR(engine.Extend({&of.in_engine, 1}, {&of.ids, 1}).status());
      return true;
    });
  }
}

int64_t OpenEngine::RoomOf(int64_t capacity) const {
  return capacity > 0 ? capacity : loaded_->max_tokens;
}

SequenceId OpenEngine::Hold(Held held) {
  held_[next_number_] = std::move(held);
  return next_number_++;
}

SequenceId OpenEngine::OpenSequence(int64_t capacity) {
  // A few, where nobody says how many.
  constexpr int kSequences = 4;
  RunNeeds needs = {.max_tokens = capacity, .max_sequences = n_open() + 1};
  if (!loaded_ && least_.max_sequences == 0) needs.max_sequences = kSequences;
  Ensure(needs);
  const int64_t room = RoomOf(capacity);
  return Hold({Run([&](Engine& engine) { return engine.OpenSequence(room); }), capacity, {}});
}

SequenceId OpenEngine::ForkSequence(SequenceId sequence, int64_t capacity) {
  std::vector<int32_t> ids = IdsOf(sequence);
  Ensure({.max_tokens = capacity, .max_sequences = n_open() + 1});
  const int64_t room = RoomOf(capacity);
  const SequenceId from = InEngine(sequence);
  const SequenceId fork = Run([&](Engine& engine) { return engine.ForkSequence(from, room); });
  return Hold({fork, capacity, std::move(ids), HeldOf(sequence).edited});
}

SequenceId OpenEngine::LoadSequence(const std::string& path, int64_t capacity) {
  RunNeeds needs = {.max_tokens = capacity, .max_sequences = n_open() + 1};
  needs.snapshots = true;
  Ensure(needs);
  const int64_t room = RoomOf(capacity);
  LoadedSequence loaded = Run([&](Engine& engine) { return engine.LoadSequence(path, room); });
  return Hold({loaded.sequence, capacity, std::move(loaded.ids)});
}

void OpenEngine::Truncate(SequenceId sequence, int64_t length) {
  Held& held = HeldOf(sequence);
  Run(
      [&](Engine& engine) -> absl::StatusOr<bool> {
        NG_RETURN_IF_ERROR(engine.TruncateSequence(held.in_engine, length));
        return true;
      },
      [&] {
        held.ids.resize(static_cast<size_t>(engine_->SequenceLength(held.in_engine)));
        held.edited &= !held.ids.empty();
      });
}

OpenEngine::Held& OpenEngine::HeldOf(SequenceId sequence) {
  (void)IdsOf(sequence);
  return held_.at(sequence);
}

const std::vector<int32_t>& OpenEngine::IdsOf(SequenceId sequence) const {
  (void)engine();
  const auto found = held_.find(sequence);
  if (found == held_.end()) {
    Raise(UsageError(absl::StrCat("sequence ", sequence, " is not open in this engine")));
  }
  return found->second.ids;
}

SequenceId OpenEngine::InEngine(SequenceId sequence) const { return held_.at(sequence).in_engine; }

void OpenEngine::SetIds(SequenceId sequence, std::span<const int32_t> ids) {
  Held& held = HeldOf(sequence);
  const auto n = static_cast<size_t>(engine_->SequenceLength(held.in_engine));
  const std::span<const int32_t> kept = ids.first(std::min(n, ids.size()));
  held.edited |= Edits();
  held.ids.assign(kept.begin(), kept.end());
}

void OpenEngine::AddIds(SequenceId sequence, std::span<const int32_t> ids) {
  Held& held = HeldOf(sequence);
  const auto n = static_cast<size_t>(engine_->SequenceLength(held.in_engine));
  held.edited |= Edits();
  held.ids.insert(held.ids.end(), ids.begin(), ids.end());
  held.ids.resize(std::min(held.ids.size(), n));
}

void OpenEngine::CloseSequence(SequenceId sequence) {
  if (engine_ == nullptr || held_.count(sequence) == 0) return;
  to_close_.push_back(sequence);
  if (!turns_.taken()) EndWhatWaits();
}

py::object OpenEngine::Feed(std::span<const SequenceId> sequences,
                            std::span<const std::vector<int32_t>> tokens, const Step& step,
                            bool copy) {
  RunNeeds needs;
  for (size_t i = 0; i < std::min(sequences.size(), tokens.size()); ++i) {
    const Held& held = HeldOf(sequences[i]);
    const int64_t wanted = std::ssize(held.ids) + std::ssize(tokens[i]);
    const bool may_grow = held.capacity == 0 && (MostTokens() == 0 || wanted <= MostTokens());
    if (may_grow) needs.max_tokens = std::max(needs.max_tokens, wanted);
  }
  Ensure(needs);
  std::vector<SequenceId> in_engine;
  for (const SequenceId sequence : sequences) in_engine.push_back(HeldOf(sequence).in_engine);
  const StepLogits made =
      Run([&](Engine& engine) { return step(engine, in_engine); },
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
