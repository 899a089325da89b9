#include "apps/python/parts.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/python/arrays.h"
#include "ng/drafter.h"
#include "ng/probe.h"
#include "ng/sampler.h"

namespace ng::python {
namespace {

// Whether rows of the point have heads, also where there is one alone.
bool HasHeads(Point point) {
  return point == Point::kQ || point == Point::kK || point == Point::kV ||
         point == Point::kAttnHead;
}

// A class of ng/_parts.py, looked up once. The GIL guards it.
constexpr char kCandidates[] = "Candidates";
constexpr char kRows[] = "Rows";
template <const char* name>
py::handle PartsClass() {
  static PyObject* found = nullptr;
  if (found == nullptr) {
    found = py::module_::import("ng._parts").attr(name).cast<py::object>().release().ptr();
  }
  return found;
}

// Every part there is, by the value of its option.
class Registry {
 public:
  static Registry& Get() {
    static Registry registry;
    return registry;
  }
  void Add(PythonPart& part) {
    const std::lock_guard lock(mutex_);
    part.id = absl::StrFormat("python-%016x-%d", process_, ++n_);
    parts_[part.id] = &part;
  }
  void Remove(const PythonPart& part) {
    const std::lock_guard lock(mutex_);
    parts_.erase(part.id);
  }
  PythonPart* Find(std::string_view id) {
    const std::lock_guard lock(mutex_);
    const auto found = parts_.find(id);
    return found == parts_.end() ? nullptr : found->second;
  }

 private:
  const uint64_t process_ = uint64_t{std::random_device()()} << 32 | std::random_device()();
  std::mutex mutex_;
  int n_ = 0;
  std::map<std::string, PythonPart*, std::less<>> parts_;
};

absl::StatusOr<PythonPart*> PartOf(const PluginContext& context) {
  PythonPart* const part = Registry::Get().Find(context.options.Text("object"));
  if (part != nullptr) return part;
  return UsageError(absl::StrCat("the option object is set to '",
                                 std::string(context.options.Text("object")),
                                 "', which is no object of this process; leave it unset"));
}

// Calls into Python: with the GIL, and what is raised kept.
template <class Call>
absl::Status CallPython(PythonPart& part, Call&& call) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const py::gil_scoped_acquire gil;
  const Turns::Within within(*part.turns);
  absl::Status status;
  try {
    status = call();
  } catch (py::error_already_set& error) {
    status = part.pending->Keep(error, part.Title());
  } catch (const py::builtin_exception& error) {
    status = UsageError(absl::StrCat(part.Title(), ": ", OneLine(error.what())));
  }
  ++part.n_calls;
  part.nanoseconds +=
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
  return status;
}

std::string ReportOf(const PythonPart& part) {
  return absl::StrFormat("written in Python, %d calls of which took %.3f s", part.n_calls.load(),
                         static_cast<double>(part.nanoseconds.load()) * 1e-9);
}

// What a callable leaves in place of the values that it was given: what it returns, or, where that
// is None, the attribute of what it was given, which it may have set. `shape`: of these values.
absl::StatusOr<Floats> ResultOf(const py::object& result, const py::object& left,
                                const std::vector<py::ssize_t>& shape, const PythonPart& part) {
  const py::object& values = result.is_none() ? left : result;
  Floats made = py::isinstance<Floats>(values)
                    ? py::reinterpret_borrow<Floats>(values)
                    : py::module_::import("ng._arrays").attr("floats")(values).cast<Floats>();
  if (std::equal(made.shape(), made.shape() + made.ndim(), shape.begin(), shape.end())) return made;
  return UsageError(absl::StrCat(part.Title(), result.is_none() ? " left" : " returned",
                                 " an array of shape ",
                                 py::str(made.attr("shape")).cast<std::string>(), ", must be ",
                                 py::str(py::tuple(py::cast(shape))).cast<std::string>()));
}

std::vector<py::ssize_t> ShapeOf(const py::array& array) {
  return {array.shape(), array.shape() + array.ndim()};
}

// Of each slot: what the sequence holds.
class SlotTokens {
 public:
  std::vector<int32_t>& At(int slot) {
    if (slot >= std::ssize(tokens_)) tokens_.resize(static_cast<size_t>(slot) + 1);
    return tokens_[static_cast<size_t>(slot)];
  }

 private:
  std::vector<std::vector<int32_t>> tokens_;
};

// The logits of candidates where they lie, `step` floats from one to the next.
struct LogitsInPlace {
  float* first = nullptr;
  int64_t step = 1;

  void CopyTo(std::span<float> to) const {
    if (step == 1) {
      std::copy_n(first, to.size(), to.data());
      return;
    }
    const float* from = first;
    for (size_t i = 0; i < to.size(); ++i, from += step) to[i] = *from;
  }
  void CopyFrom(std::span<const float> from) const {
    if (step == 1) {
      std::copy_n(from.data(), from.size(), first);
      return;
    }
    float* to = first;
    for (size_t i = 0; i < from.size(); ++i, to += step) *to = from[i];
  }
};

// A set that is still a row of logits stays one, for which the stages behind are quicker.
LogitsInPlace InPlace(CandidateSet& candidates) {
  if (candidates.dense() && candidates.size() > 1) {
    float* const first = &candidates.LogitOf(0);
    return {first, &candidates.LogitOf(1) - first};
  }
  return {&candidates.items().front().logit, sizeof(Candidate) / sizeof(float)};
}

// This array, or where somebody else has kept it, or it has another size, a new one.
Floats Unshared(py::object array, py::ssize_t n) {
  if (!array.is_none() && array.ref_count() == 1) {
    auto same = py::reinterpret_steal<Floats>(array.release());
    if (same.size() == n) return same;
  }
  return Floats(n);
}

// What an attribute holds, or null where it has not been made.
py::object IfMade(const py::object& of, const char* name) {
  auto made =
      py::reinterpret_steal<py::object>(PyObject_GenericGetAttr(of.ptr(), py::str(name).ptr()));
  if (!made) PyErr_Clear();
  return made;
}

// What an ng.Candidates makes its arrays of, when they are asked for: over a large vocabulary they
// take longer than all else that a call does.
class StageStep {
 public:
  // All of these until End.
  StageStep(PythonPart& part, CandidateSet& candidates, const std::vector<int32_t>& tokens)
      : part_(part), candidates_(&candidates), tokens_(tokens) {}
  StageStep(const StageStep&) = delete;
  StageStep& operator=(const StageStep&) = delete;

  // The end of a step. Candidates that somebody has kept get what they have not made yet.
  class End {
   public:
    End(StageStep& step, const py::object& given) : step_(step), given_(given) {}
    ~End() {
      if (given_.ref_count() > 1) {
        for (const char* name : {"ids", "logits", "tokens"}) {
          PyObject* const made = PyObject_GetAttrString(given_.ptr(), name);
          if (made == nullptr) PyErr_Clear();  // it says so when it is asked for
          Py_XDECREF(made);
        }
      }
      step_.candidates_ = nullptr;
    }
    End(const End&) = delete;
    End& operator=(const End&) = delete;

   private:
    StageStep& step_;
    const py::object& given_;
  };

  Floats Logits() {
    CheckGoesOn();
    const auto n = static_cast<py::ssize_t>(candidates_->size());
    Floats logits = Unshared(std::exchange(part_.logits, py::none()), n);
    InPlace(*candidates_).CopyTo({logits.mutable_data(), static_cast<size_t>(n)});
    part_.logits = logits;
    return logits;
  }
  // Read-only. Of a whole vocabulary they are the same at every step.
  py::object GetIds() {
    CheckGoesOn();
    const auto n = static_cast<py::ssize_t>(candidates_->size());
    const bool whole = candidates_->dense();
    if (whole && !part_.all_ids.is_none() && py::len(part_.all_ids) == static_cast<size_t>(n)) {
      return part_.all_ids;
    }
    Ids ids(n);
    int32_t* const to = ids.mutable_data();
    if (whole) {
      std::iota(to, to + n, 0);
    } else {
      std::ranges::transform(candidates_->items(), to, &Candidate::id);
    }
    ids.attr("flags").attr("writeable") = false;
    if (whole) part_.all_ids = ids;
    return ids;
  }
  Ids Tokens() const {
    CheckGoesOn();
    return CopyOf(tokens_);
  }

 private:
  void CheckGoesOn() const {
    if (candidates_ == nullptr) Raise(UsageError("the step of these candidates is over"));
  }

  PythonPart& part_;
  CandidateSet* candidates_;  // null at the end
  const std::vector<int32_t>& tokens_;
};

class PythonStage final : public SamplerStage {
 public:
  explicit PythonStage(PythonPart& part) : part_(part) {}

  absl::Status Open(int slot, std::span<const int32_t> prompt_ids) override {
    tokens_.At(slot).assign(prompt_ids.begin(), prompt_ids.end());
    return absl::OkStatus();
  }
  absl::StatusOr<SequenceEnd> Accept(int slot, int32_t token) override {
    tokens_.At(slot).push_back(token);
    bool ends = false;
    NG_RETURN_IF_ERROR(CallPython(part_, [&] {
      if (!part_.accept.is_none()) {
        ends = py::bool_(part_.accept(token, CopyOf(tokens_.At(slot))));
      }
      return absl::OkStatus();
    }));
    return ends ? SequenceEnd::kStage : SequenceEnd::kNo;
  }
  absl::Status Fork(int from, int to) override {
    std::vector<int32_t> copy = tokens_.At(from);
    tokens_.At(to) = std::move(copy);
    return absl::OkStatus();
  }
  absl::Status Truncate(int slot, int64_t n_tokens) override {
    tokens_.At(slot).resize(static_cast<size_t>(n_tokens));
    return absl::OkStatus();
  }
  absl::Status Apply(int slot, const DrawKey& key, CandidateSet& candidates) override {
    NG_RETURN_IF_ERROR(CallPython(part_, [&] { return Ask(slot, key, candidates); }));
    return Annotate(candidates.MaxLogit().status(), "the logits that it left: ");
  }
  std::string Report() const override { return ReportOf(part_); }

 private:
  absl::Status Ask(int slot, const DrawKey& key, CandidateSet& candidates) {
    auto* const step = new StageStep(part_, candidates, tokens_.At(slot));
    const py::object source = py::cast(step, py::return_value_policy::take_ownership);
    const py::object given = PartsClass<kCandidates>()(
        source, py::make_tuple(key.seed, key.request, key.step, key.stream));
    py::object result;
    {
      const StageStep::End end(*step, given);
      result = part_.call(given);
    }
    const py::object left = IfMade(given, "logits");
    if (!left && result.is_none()) return absl::OkStatus();
    const auto n = static_cast<py::ssize_t>(candidates.size());
    NG_ASSIGN_OR_RETURN(const Floats logits, ResultOf(result, left, {n}, part_));
    InPlace(candidates).CopyFrom(SpanOf(logits));
    return absl::OkStatus();
  }

  PythonPart& part_;
  SlotTokens tokens_;
};

class PythonProbe final : public Probe {
 public:
  PythonProbe(PythonPart& part, ProbeUse use) : part_(part), use_(std::move(use)) {}

  ProbeUse Use() const override { return use_; }
  absl::Status OnPoint(const PointRows& rows) override {
    if (part_.off || part_.paused) return absl::OkStatus();
    return CallPython(part_, [&]() -> absl::Status {
      const py::object given = RowsObject(rows);
      const std::vector<py::ssize_t> shape = ShapeOf(given.attr("values").cast<py::array>());
      const py::object result = part_.call(given);
      if (!part_.edits) return absl::OkStatus();
      NG_ASSIGN_OR_RETURN(const Floats left, ResultOf(result, given.attr("values"), shape, part_));
      const float* from = left.data();
      for (int64_t i = 0; i < rows.n_rows(); ++i, from += rows.values()) {
        std::copy(from, from + rows.values(), rows.Row(i));
      }
      return absl::OkStatus();
    });
  }
  std::string Report() const override { return ReportOf(part_); }

 private:
  PythonPart& part_;
  const ProbeUse use_;
};

// Asks the callable for each sequence by itself, with all of its tokens.
class PythonDrafter final : public Drafter {
 public:
  explicit PythonDrafter(PythonPart& part) : part_(part) {}

  absl::Status Load(const DrafterSpec& spec) override {
    (void)spec;
    return absl::OkStatus();
  }
  absl::Status Open(int slot, const DraftedRequest& request) override {
    tokens_.At(slot).assign(request.prompt_ids.begin(), request.prompt_ids.end());
    return absl::OkStatus();
  }
  absl::Status Accept(int slot, int32_t token) override {
    tokens_.At(slot).push_back(token);
    return absl::OkStatus();
  }
  absl::Status Close(int slot) override {
    tokens_.At(slot).clear();
    return absl::OkStatus();
  }
  absl::Status Propose(std::span<Draft> drafts) override {
    for (Draft& draft : drafts) {
      NG_RETURN_IF_ERROR(CallPython(part_, [&] { return Fill(draft); }));
    }
    return absl::OkStatus();
  }
  std::string Report() const override { return ReportOf(part_); }

 private:
  absl::Status Fill(Draft& draft) {
    const size_t most = draft.tokens.size();
    const py::object made = part_.call(CopyOf(tokens_.At(draft.slot)), most);
    if (made.is_none()) return absl::OkStatus();
    const Ids ids = py::module_::import("ng._arrays").attr("ids")(made).cast<Ids>();
    const std::span<const int32_t> proposed = SpanOf(ids);
    if (proposed.size() > most) {
      return PluginError(absl::StrCat(part_.Title(), " returned ", proposed.size(),
                                      " tokens, must be at most ", most));
    }
    std::ranges::copy(proposed, draft.tokens.begin());
    draft.n_tokens = std::ssize(proposed);
    return absl::OkStatus();
  }

  PythonPart& part_;
  SlotTokens tokens_;
};

absl::StatusOr<std::unique_ptr<SamplerStage>> CreateStage(const PluginContext& context) {
  NG_ASSIGN_OR_RETURN(PythonPart* const part, PartOf(context));
  return std::make_unique<PythonStage>(*part);
}

absl::StatusOr<std::unique_ptr<Probe>> CreateProbePart(const PluginContext& context,
                                                       const ProbeModel& model) {
  NG_ASSIGN_OR_RETURN(PythonPart* const part, PartOf(context));
  return MakeHook(*part, model.points);
}

absl::StatusOr<std::unique_ptr<Drafter>> CreateDrafterPart(const PluginContext& context) {
  NG_ASSIGN_OR_RETURN(PythonPart* const part, PartOf(context));
  return std::make_unique<PythonDrafter>(*part);
}

void Describe(PythonPart& part) {
  part.option = TextOption("object", part.id.c_str(), "the Python object that is called");
  part.descriptor = EveryCpuPlugin(part.kind.c_str(), part.name.c_str(), "1", "written in Python",
                                   {&part.option, 1});
  if (part.kind == "sampler") part.descriptor.sampler = &kSamplerFactory<CreateStage>;
  if (part.kind == "probe") part.descriptor.probe = &kProbeFactory<CreateProbePart>;
  if (part.kind == "drafter") part.descriptor.drafter = &kDrafterFactory<CreateDrafterPart>;
}

}  // namespace

void ReadPart(const py::handle& from, PendingErrors& pending, Turns& turns, PythonPart* part) {
  part->kind = from.attr("kind").cast<std::string>();
  part->name = from.attr("name").cast<std::string>();
  part->call = py::reinterpret_borrow<py::object>(from.attr("call"));
  part->accept = py::getattr(from, "accept", py::none());
  part->edits = py::getattr(from, "edits", py::bool_(false)).cast<bool>();
  for (const py::handle& point : py::getattr(from, "points", py::list())) {
    part->points.push_back(point.cast<std::string>());
  }
  part->pending = &pending;
  part->turns = &turns;
}

absl::StatusOr<std::unique_ptr<Probe>> MakeHook(PythonPart& part,
                                                std::span<const PointShape> points) {
  ProbeUse use;
  for (const std::string& pattern : part.points) {
    NG_ASSIGN_OR_RETURN(const std::vector<PointShape> chosen, ChoosePoints(points, pattern));
    for (const PointShape& point : chosen) {
      if (std::ranges::count(use.points, point.at, &ProbePoint::at) > 0) continue;
      use.points.push_back({point.at, part.edits});
    }
  }
  return std::make_unique<PythonProbe>(part, std::move(use));
}

PythonParts::PythonParts(const py::list& parts, PendingErrors& pending, Turns& turns) {
  for (const py::handle& given : parts) {
    auto part = std::make_unique<PythonPart>();
    ReadPart(given, pending, turns, part.get());
    Registry::Get().Add(*part);
    Describe(*part);
    parts_.push_back(std::move(part));
  }
}

PythonParts::~PythonParts() {
  for (const std::unique_ptr<PythonPart>& part : parts_) Registry::Get().Remove(*part);
}

std::vector<LoadedPlugin> PythonParts::plugins() const {
  const auto path = py::module_::import("ng._ng").attr("__file__").cast<std::string>();
  std::vector<LoadedPlugin> plugins;
  for (const std::unique_ptr<PythonPart>& part : parts_) {
    plugins.push_back({&part->descriptor, path});
  }
  return plugins;
}

std::vector<std::string> PythonParts::NamesOf(std::string_view kind) const {
  std::vector<std::string> names;
  for (const std::unique_ptr<PythonPart>& part : parts_) {
    if (part->kind == kind) names.push_back(part->name);
  }
  return names;
}

int PythonParts::Traverse(visitproc visit, void* arg) const {
  for (const std::unique_ptr<PythonPart>& part : parts_) {
    Py_VISIT(part->call.ptr());
    Py_VISIT(part->accept.ptr());
  }
  return 0;
}

void PythonParts::Clear() {
  for (const std::unique_ptr<PythonPart>& part : parts_) {
    part->call = part->accept = part->logits = part->all_ids = py::none();
  }
}

void AddParts(py::module_& m) {
  py::class_<StageStep>(m, "StageStep")
      .def("ids", &StageStep::GetIds)
      .def("logits", &StageStep::Logits)
      .def("tokens", &StageStep::Tokens);
}

py::object RowsObject(const PointRows& rows) {
  const auto n = static_cast<py::ssize_t>(rows.n_rows());
  Floats values(ShapeOfRows(n, HasHeads(rows.at.point) ? rows.n_heads : 0, rows.width));
  py::array_t<int64_t> positions(n), sequences(n);
  Ids tokens(n), requests(n);
  for (py::ssize_t i = 0; i < n; ++i) {
    std::copy(rows.Row(i), rows.Row(i) + rows.values(), values.mutable_data() + i * rows.values());
  }
  std::ranges::transform(rows.tokens, tokens.mutable_data(), &TokenRow::token);
  std::ranges::transform(rows.tokens, positions.mutable_data(), &TokenRow::pos);
  std::ranges::transform(rows.tokens, requests.mutable_data(), &TokenRow::request);
  std::ranges::transform(rows.tokens, sequences.mutable_data(), &TokenRow::sequence);
  return PartsClass<kRows>()(PointText(rows.at), values, tokens, positions, requests, sequences);
}

}  // namespace ng::python
