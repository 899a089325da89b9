// The extension module ng._ng: what ng/*.py are made of. Its functions take and give plain values;
// names, defaults and documentation for users are in ng/engine.py.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/python/diff.h"
#include "apps/python/forward.h"
#include "apps/python/generate.h"
#include "apps/python/open_engine.h"
#include "apps/python/parts.h"
#include "apps/python/programs.h"
#include "apps/python/requests.h"
#include "apps/python/tokenizer.h"
#include "ng/list_item.h"
#include "ng/sampler.h"

namespace ng::python {
namespace {

using EnginePointer = std::shared_ptr<OpenEngine>;
using Sequences = std::vector<SequenceId>;

RunNeeds NeedsOf(int64_t max_tokens, int max_sequences, bool prompt_logits, bool snapshots) {
  RunNeeds needs;
  needs.max_tokens = max_tokens;
  needs.max_sequences = max_sequences;
  needs.prompt_logits = prompt_logits;
  needs.snapshots = snapshots;
  return needs;
}

EnginePointer Open(const py::dict& from) {
  OpenArguments arguments;
  arguments.config = from["config"].cast<std::string>();
  arguments.overrides = from["overrides"].cast<std::vector<std::string>>();
  arguments.random_weights = from["random_weights"].cast<std::string>();
  arguments.parts = from["parts"].cast<py::list>();
  arguments.warning = from["warning"];
  arguments.progress = from["progress"];
  arguments.least = NeedsOf(from["max_tokens"].cast<int64_t>(), from["max_sequences"].cast<int>(),
                            from["prompt_logits"].cast<bool>(), from["snapshots"].cast<bool>());
  return std::make_shared<OpenEngine>(arguments);
}

std::vector<int32_t> EncodeText(OpenEngine& engine, const std::string& text, bool parse_special) {
  TokenizeOptions options;
  options.parse_special = parse_special;
  return Value(engine.engine().Encode(text, options));
}

py::bytes DecodeIds(OpenEngine& engine, const Ids& ids) {
  Check(CheckIds(engine.engine().model_shape(), SpanOf(ids)));
  return Value(engine.engine().Decode(SpanOf(ids)));
}

std::vector<int32_t> EncodeChat(OpenEngine& engine, const std::string& messages,
                                const std::string& tools) {
  return Value(engine.engine().EncodeConversation({.messages = messages, .tools = tools}));
}

py::object Extend(OpenEngine& engine, const Sequences& sequences, const std::vector<Ids>& tokens,
                  bool all, bool copy) {
  const OpenEngine::Claim claim(engine);
  const std::vector<std::vector<int32_t>> ids = VectorsOf(tokens);
  const LogitRows rows = all ? LogitRows::kAll : LogitRows::kLast;
  return engine.Feed(
      sequences, ids,
      [&](Engine& running, std::span<const SequenceId> of) {
        return running.Extend(of, ids, rows);
      },
      copy);
}

py::object Prefill(OpenEngine& engine, const Sequences& sequences, const std::vector<Ids>& prompts,
                   bool copy) {
  const OpenEngine::Claim claim(engine);
  const std::vector<std::vector<int32_t>> ids = VectorsOf(prompts);
  return engine.Feed(
      sequences, ids,
      [&](Engine& running, std::span<const SequenceId> of) { return running.Prefill(of, ids); },
      copy);
}

py::object DecodeStep(OpenEngine& engine, const Sequences& sequences, const Ids& tokens,
                      bool copy) {
  const OpenEngine::Claim claim(engine);
  const std::vector<int32_t> ids = VectorOf(tokens);
  std::vector<std::vector<int32_t>> each;
  for (const int32_t id : ids) each.push_back({id});
  return engine.Feed(
      sequences, each,
      [&](Engine& running, std::span<const SequenceId> of) { return running.DecodeStep(of, ids); },
      copy);
}

Floats HeadLogits(OpenEngine& engine, const Floats& hidden) {
  const OpenEngine::Claim claim(engine);
  engine.Ensure({});
  const py::ssize_t n = hidden.shape(0);
  Floats logits({n, static_cast<py::ssize_t>(engine.engine().model_shape().vocab_size)});
  const TensorView<const float, 2> rows(hidden.data(), {n, hidden.shape(1)});
  const std::span<float> out(logits.mutable_data(), static_cast<size_t>(logits.size()));
  engine.Run([&](Engine& running) -> absl::StatusOr<bool> {
    NG_RETURN_IF_ERROR(running.HeadLogits(rows, out));
    return true;
  });
  return logits;
}

void Pack(OpenEngine& engine, const std::string& path) {
  const OpenEngine::Claim claim(engine);
  engine.Run([&](Engine& running) -> absl::StatusOr<bool> {
    NG_RETURN_IF_ERROR(running.PackWeights(path));
    return true;
  });
}

void SaveSequence(OpenEngine& engine, SequenceId sequence, const std::string& path) {
  const OpenEngine::Claim claim(engine);
  RunNeeds needs;
  needs.max_sequences = 0;
  needs.snapshots = true;
  engine.Ensure(needs);
  const std::vector<int32_t> ids = engine.IdsOf(sequence);
  const SequenceId in_engine = engine.InEngine(sequence);
  engine.Run([&](Engine& running) -> absl::StatusOr<bool> {
    NG_RETURN_IF_ERROR(running.SaveSequence(in_engine, ids, path));
    return true;
  });
}

py::dict PlanDict(OpenEngine& engine, int64_t max_tokens, int max_sequences, bool prompt_logits) {
  const OpenEngine::Look look(engine);
  const RunPlan plan =
      Value(engine.engine().Plan(NeedsOf(max_tokens, max_sequences, prompt_logits, false)));
  py::dict dict;
  dict["fits"] = CheckMemory(plan).ok();
  dict["remedy"] = plan.remedy;
  dict["needed_bytes"] = plan.needed_bytes();
  dict["available_bytes"] = plan.available_bytes;
  dict["program_bytes"] = plan.program_bytes;
  dict["weight_bytes"] = plan.weights.bytes();
  dict["cache_bytes"] = plan.cache.bytes;
  dict["state_bytes"] = plan.state_bytes;
  dict["activation_bytes"] = plan.activation_bytes;
  dict["load_scratch_bytes"] = plan.load_scratch_bytes;
  dict["max_tokens"] = plan.max_tokens;
  dict["max_sequences"] = plan.max_sequences;
  dict["step_weight_bytes"] = plan.step.weight_bytes;
  dict["cache_bytes_per_token"] = plan.step.cache_bytes_per_token;
  return dict;
}

py::dict ConfigDict(const OpenEngine& engine) {
  py::dict dict;
  for (const ConfigItem& item : engine.engine().config().items()) {
    dict[py::str(item.declared.key)] = item.value.text;
  }
  return dict;
}

void Set(OpenEngine& engine, const std::vector<std::string>& overrides) {
  const OpenEngine::Claim claim(engine);
  Check(engine.engine().Set(overrides));
}

py::dict ModelDict(const OpenEngine& engine) {
  const ModelShape& shape = engine.engine().model_shape();
  py::dict dict;
  dict["family"] = std::string(engine.engine().family());
  dict["n_layers"] = shape.n_layers;
  dict["n_heads"] = shape.n_heads;
  dict["n_kv_heads"] = shape.n_kv_heads;
  dict["head_dim"] = shape.head_dim;
  dict["vocab_size"] = shape.vocab_size;
  dict["max_positions"] = shape.max_positions;
  return dict;
}

py::list PointsList(const OpenEngine& engine) {
  py::list list;
  for (const PointShape& point : engine.engine().points()) {
    list.append(py::make_tuple(PointText(point.at), point.n_heads, point.width));
  }
  return list;
}

py::dict StatisticsDict(OpenEngine& engine) {
  const OpenEngine::Look look(engine);
  py::dict dict;
  for (const Statistic& figure : Value(engine.engine().CacheStatistics())) {
    dict[py::str(std::string(figure.name))] = figure.value;
  }
  return dict;
}

std::string TextAsItem(const std::string& text) {
  const std::optional<std::string> item = ListItem(text);
  if (!item) Raise(UsageError(absl::StrCat("a list must be of texts, ", kListItemWords)));
  return *item;
}

// Null while it is being made.
OpenEngine* EngineOf(PyObject* self) {
  const auto holder = reinterpret_cast<py::detail::instance*>(self)->get_value_and_holder();
  return holder.holder_constructed() ? holder.value_ptr<OpenEngine>() : nullptr;
}

destructor g_dealloc = nullptr;  // pybind11's

// An engine holds callables, and they may hold it: the collector must see both ways. What is being
// destroyed it must not see, which pybind11 2.10 does not tell it.
void LetCollect(PyHeapTypeObject* of) {
  PyTypeObject* const type = &of->ht_type;
  g_dealloc = type->tp_base->tp_dealloc;
  type->tp_dealloc = [](PyObject* self) {
    PyObject_GC_UnTrack(self);
    g_dealloc(self);
  };
  type->tp_flags |= Py_TPFLAGS_HAVE_GC;
  type->tp_traverse = [](PyObject* self, visitproc visit, void* arg) -> int {
    Py_VISIT(Py_TYPE(self));
    OpenEngine* const engine = EngineOf(self);
    return engine == nullptr ? 0 : engine->Traverse(visit, arg);
  };
  type->tp_clear = [](PyObject* self) -> int {
    if (OpenEngine* const engine = EngineOf(self)) engine->Clear();
    return 0;
  };
}

void AddText(py::class_<OpenEngine, EnginePointer>& engine) {
  engine.def("encode", &EncodeText)
      .def("decode", &DecodeIds)
      .def("encode_chat", &EncodeChat)
      .def("has_tokenizer", [](const OpenEngine& e) { return e.engine().has_tokenizer(); })
      .def("has_chat_template", [](const OpenEngine& e) { return e.engine().has_chat_template(); })
      .def("stop_ids", [](const OpenEngine& e) {
        const std::span<const int32_t> ids = e.engine().stop_ids();
        return std::vector<int32_t>(ids.begin(), ids.end());
      });
}

void AddFacts(py::class_<OpenEngine, EnginePointer>& engine) {
  engine.def("config", &ConfigDict)
      .def("model", &ModelDict)
      .def("points", &PointsList)
      .def("plan", &PlanDict)
      .def("set", &Set)
      .def("cache_statistics", &StatisticsDict)
      .def("describe",
           [](OpenEngine& e, int64_t max_tokens, int max_sequences) {
             const OpenEngine::Look look(e);
             return Value(e.engine().Describe(NeedsOf(max_tokens, max_sequences, false, false)));
           })
      .def("reports",
           [](OpenEngine& e) {
             const OpenEngine::Look look(e);
             return Value(e.engine().Reports());
           })
      .def("threads", [](const OpenEngine& e) { return e.engine().threads(); })
      .def("isa", [](const OpenEngine& e) { return std::string(IsaName(e.engine().isa())); })
      .def("default_max_new_tokens",
           [](const OpenEngine& e) { return e.engine().default_max_new_tokens(); })
      .def("answer_tokens", &AnswerTokens);
}

void AddRuns(py::class_<OpenEngine, EnginePointer>& engine) {
  engine.def("generate", &Generate)
      .def("load",
           [](OpenEngine& e, int64_t max_tokens, int max_sequences, bool logits, bool snapshots) {
             const OpenEngine::Claim claim(e);
             e.Ensure(NeedsOf(max_tokens, max_sequences, logits, snapshots));
           })
      .def("open_sequence",
           [](OpenEngine& e, int64_t capacity) {
             const OpenEngine::Claim claim(e);
             return e.OpenSequence(capacity);
           })
      .def("fork_sequence",
           [](OpenEngine& e, SequenceId sequence, int64_t capacity) {
             const OpenEngine::Claim claim(e);
             return e.ForkSequence(sequence, capacity);
           })
      .def("load_sequence",
           [](OpenEngine& e, const std::string& path, int64_t capacity) {
             const OpenEngine::Claim claim(e);
             return e.LoadSequence(path, capacity);
           })
      .def("truncate",
           [](OpenEngine& e, SequenceId sequence, int64_t length) {
             const OpenEngine::Claim claim(e);
             e.Truncate(sequence, length);
           })
      .def("close_sequence", &OpenEngine::CloseSequence)
      .def("ids", &OpenEngine::IdsOf)
      .def("save_sequence", &SaveSequence)
      .def("prefill", &Prefill)
      .def("extend", &Extend)
      .def("decode_step", &DecodeStep)
      .def("head_logits", &HeadLogits)
      .def("is_within", &OpenEngine::is_within)
      .def("forward",
           [](OpenEngine& e, const std::vector<Ids>& prompts, bool logits, bool hidden,
              bool attention) {
             return Forward(e, prompts, {logits, hidden, attention});
           })
      .def("add_hook", &OpenEngine::AddHook)
      .def("remove_hook", &OpenEngine::RemoveHook)
      .def("evaluate", &Evaluated, py::arg("candidate").none(true), py::arg("texts"),
           py::arg("window"))
      .def("planned",
           [](OpenEngine& e, int64_t max_tokens, int max_sequences, bool prompt_logits) {
             const OpenEngine::Look look(e);
             return Planned(e, NeedsOf(max_tokens, max_sequences, prompt_logits, false));
           })
      .def("view", &Viewed)
      .def("pack", &Pack)
      .def("close", &OpenEngine::Close);
}

PYBIND11_MODULE(_ng, m) {
  m.doc() = "What the package ng is made of; use the package.";
  m.attr("__version__") = NG_VERSION;
  py::class_<OpenEngine, EnginePointer> engine(m, "Engine", py::custom_type_setup(&LetCollect));
  engine.def(py::init(&Open));
  AddText(engine);
  AddFacts(engine);
  AddRuns(engine);
  // As long as these are there the collector does not see an engine as forgotten.
  py::class_<SteppedRun, std::shared_ptr<SteppedRun>>(m, "SteppedRun")
      .def(py::init(&SteppedRun::Start), py::keep_alive<1, 2>())
      .def("next", &SteppedRun::Next)
      .def("cancel", &SteppedRun::Cancel)
      .def("finish", &SteppedRun::Finish);
  py::class_<Requests>(m, "Requests")
      .def(py::init<EnginePointer>(), py::keep_alive<1, 2>())
      .def("submit", &Requests::Submit)
      .def("cancel", &Requests::Cancel)
      .def("waiting", &Requests::waiting)
      .def("drive", &Requests::Drive);
  AddTokenizer(m);
  AddParts(m);
  m.def("diff", &Diff);
  m.def("list_item", &TextAsItem);
  m.def("stay_if_python_ends", &StayIfPythonEnds);
  py::module_::import("atexit").attr("register")(py::cpp_function(&OpenEngine::EndAll));
  m.def("uniform", [](const std::tuple<int64_t, int64_t, int64_t, uint32_t>& key, uint32_t n) {
    const auto [seed, request, step, stream] = key;
    return UniformDraw({seed, request, step, stream}, n);
  });
}

}  // namespace
}  // namespace ng::python
