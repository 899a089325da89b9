#include "apps/python/programs.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/eval/evaluate.h"
#include "apps/eval/report.h"
#include "apps/eval/texts.h"
#include "apps/plan/report.h"
#include "apps/view/lens.h"
#include "apps/view/run_facts.h"

namespace ng::python {
namespace {

void CheckFree(const OpenEngine& engine) {
  engine.CheckNoRuns();
  if (engine.n_open() == 0) return;
  Raise(UsageErrorAs(
      "CloseFirstError",
      "the engine is loaded for this, which would end its open sequences; close them"));
}

// REQUIRES: claims.
absl::StatusOr<std::string> Evaluate(Engine& reference, Engine* candidate, const eval::Texts& texts,
                                     int64_t window, const eval::Job& how) {
  const int64_t limit = eval::TokenLimit(reference);
  if (limit > 0 && window > limit) {
    return LimitError(
        absl::StrCat("a window of ", window, " tokens > ", limit, " that fit a sequence"));
  }
  eval::Job job = how;
  const std::vector<eval::Window> windows = eval::WindowsOf(texts, window > 0 ? window : limit);
  job.windows = windows;
  const eval::Window& longest = eval::LongestOf(windows);
  NG_RETURN_IF_ERROR(eval::CheckUsesCache(reference));
  NG_RETURN_IF_ERROR(eval::CheckFits(reference, longest));
  const auto n_longest = static_cast<int64_t>(longest.fed.size());
  RunNeeds needs = {.max_tokens = n_longest, .prompt_logits = true};
  if (reference.config().IsDefault("run.prefill_chunk")) {
    needs.max_prompt = std::min(n_longest, eval::kDefaultChunk);
  }
  NG_RETURN_IF_ERROR(reference.Load(needs));
  if (candidate != nullptr) {
    NG_RETURN_IF_ERROR(Annotate(eval::CheckCandidate(reference, *candidate), "against: "));
    NG_RETURN_IF_ERROR(Annotate(eval::CheckFits(*candidate, longest), "against: "));
    if (!candidate->config().IsDefault("run.prefill_chunk")) needs.max_prompt = 0;
    NG_RETURN_IF_ERROR(Annotate(candidate->Load(needs), "against: "));
  }
  NG_ASSIGN_OR_RETURN(const StepCost cost, reference.CostOfStep());
  const eval::Subject subject = {reference,      cost,      texts.size(),
                                 windows.size(), n_longest, job.n_scored()};
  NG_ASSIGN_OR_RETURN(const eval::Evaluation evaluation, eval::Evaluate(reference, candidate, job));
  return eval::EvaluationJson(subject, candidate, evaluation);
}

// What a page shows of a run, as it comes.
struct Shown {
  view::Page page;
  view::AttentionMaps maps;
  view::Survival survival = {};
};

void CheckPageBytes(const Engine& engine, const GenerateRequest& request, size_t n_layers,
                    int64_t most_bytes) {
  const int64_t n_tokens = std::ssize(request.prompt_ids) + request.max_new_tokens;
  const int64_t bytes =
      static_cast<int64_t>(n_layers) * view::PageBytes(engine.model_shape().n_heads, n_tokens);
  if (bytes <= most_bytes) return;
  Raise(LimitError(absl::StrCat("the attention of ", n_layers, " layers at ", n_tokens,
                                " tokens takes ", bytes, " bytes of the page, must be at most ",
                                most_bytes, "; name fewer layers, or raise most_bytes")));
}

GenerateOptions WhatIsShown(const Engine& engine, const GenerateRequest& request, Shown& shown) {
  GenerateOptions options;
  options.steps = options.stages = true;
  options.on_step = [&shown](int /*index*/, const StepRecord& record) {
    shown.page.steps.push_back(record);
    return absl::OkStatus();
  };
  options.on_attn_rows = [&shown](int /*index*/, const QueryRows& query) { shown.maps.Add(query); };
  options.on_left = [&shown](int /*index*/, const HeldPositions& held) {
    shown.survival.Add(held);
    return absl::OkStatus();
  };
  options.capture_points_from = std::ssize(request.prompt_ids) - 1;
  for (const PointShape& point : engine.points()) {
    if (point.at.point == Point::kOut) options.capture_points.push_back(point.at);
  }
  return options;
}

absl::StatusOr<std::string> PageOf(Engine& engine, const GenerateRequest& request,
                                   const Completion& done, const std::atomic<bool>* stop,
                                   Shown& shown) {
  view::Page& page = shown.page;
  page.model = engine.config().Text("model.path");
  NG_ASSIGN_OR_RETURN(page.summary, view::RunFacts(engine, "ng in Python"));
  page.title = page.summary.front().second;
  page.config = engine.config().ToIni();
  page.stop_reason = StopReasonName(done.stop_reason);
  page.replay = view::ReplayCommand("", engine.config(), request);
  page.ids = done.ids;
  page.prompt_len = done.prompt_len;
  page.attention = &shown.maps;
  page.survival = &shown.survival;
  NG_ASSIGN_OR_RETURN(page.cache, view::CacheFacts(engine, done.timings));
  const std::span<const int32_t> chosen =
      std::span(done.ids).subspan(static_cast<size_t>(done.prompt_len));
  if (!chosen.empty()) {
    NG_ASSIGN_OR_RETURN(page.lens, view::ReadLens(engine, done.captured.points,
                                                  {done.prompt_len - 1, chosen}, stop));
  }
  NG_RETURN_IF_ERROR(view::FillTexts(engine, &page));
  return view::PageText(page);
}

}  // namespace

std::string Evaluated(OpenEngine& reference, OpenEngine* candidate, const std::vector<Ids>& given,
                      int64_t window) {
  if (&reference == candidate) {
    Raise(UsageError("an engine cannot be compared with itself; open a second one"));
  }
  const OpenEngine::Claim claim(reference);
  std::optional<OpenEngine::Claim> claim_other;
  if (candidate != nullptr) claim_other.emplace(*candidate);
  CheckFree(reference);
  if (candidate != nullptr) CheckFree(*candidate);
  const eval::Texts texts = VectorsOf(given);
  for (size_t i = 0; i < texts.size(); ++i) {
    Check(eval::CheckText(texts[i], absl::StrCat("text ", i), reference.engine().model_shape()));
  }
  reference.Unloaded();
  if (candidate != nullptr) candidate->Unloaded();
  const StopOnSigint interrupt(reference.stop(),
                               candidate == nullptr ? nullptr : candidate->stop());
  const eval::Job how = {{}, reference.progress(), reference.stop()};
  absl::StatusOr<std::string> made = [&] {
    const WithoutGil free;
    return Evaluate(reference.engine(), candidate == nullptr ? nullptr : &candidate->engine(),
                    texts, window, how);
  }();
  reference.RaisePending();
  if (candidate != nullptr) candidate->RaisePending();
  return Value(std::move(made));
}

py::tuple Planned(const OpenEngine& open, const RunNeeds& needs) {
  const Engine& engine = open.engine();
  plan::Run run;
  run.decode_tokens = 1;
  run.prompt_tokens = std::max<int64_t>(1, needs.max_tokens - run.decode_tokens);
  const plan::Subject subject = {
      engine, engine.config().Text("model.path"), Value(engine.Plan(needs)), run, {}};
  return py::make_tuple(plan::JsonLine(subject), plan::TextTables(subject));
}

std::string Viewed(OpenEngine& open, const py::dict& given, std::vector<int> layers,
                   int64_t most_bytes) {
  const OpenEngine::Claim claim(open);
  const Engine& engine = open.engine();
  GenerateRequest request = {VectorOf(given["ids"].cast<Ids>()),
                             given["max_new_tokens"].cast<int64_t>()};
  request.settings = given["settings"].cast<std::vector<std::string>>();
  if (layers.empty()) {
    layers.assign(engine.attention_layers().begin(), engine.attention_layers().end());
  }
  CheckPageBytes(engine, request, layers.size(), most_bytes);
  open.CheckNoRuns();
  RunNeeds needs = Needs({&request, 1});
  if (open.n_open() > 0) needs.max_sequences = open.n_open() + 1;
  open.Ensure(needs);
  Shown shown{{}, view::AttentionMaps(layers)};
  GenerateOptions options = WhatIsShown(engine, request, shown);
  options.trace_layers = layers;
  return open.Run([&](Engine& running) -> absl::StatusOr<std::string> {
    NG_ASSIGN_OR_RETURN(const std::vector<Completion> done,
                        running.Generate({&request, 1}, options));
    return PageOf(running, request, done.front(), open.stop(), shown);
  });
}

}  // namespace ng::python
