#include "apps/python/generate.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/common/answer_room.h"
#include "apps/python/arrays.h"

namespace ng::python {
namespace {

// The points that some patterns name, each once.
std::vector<PointAt> PointsOf(const Engine& engine, const py::handle& patterns) {
  std::vector<PointAt> points;
  for (const py::handle& pattern : patterns) {
    for (const PointShape& point :
         Value(ChoosePoints(engine.points(), pattern.cast<std::string>()))) {
      if (std::ranges::count(points, point.at) == 0) points.push_back(point.at);
    }
  }
  return points;
}

py::dict TimingsDict(const Timings& timings) {
  py::dict dict;
  dict["load_s"] = timings.load_s;
  dict["prefill_s"] = timings.prefill_s;
  dict["prefill_tokens"] = timings.prefill_tokens;
  dict["shared_tokens"] = timings.shared_tokens;
  dict["loaded_tokens"] = timings.loaded_tokens;
  dict["decode_s"] = timings.decode_s;
  dict["decode_tokens"] = timings.decode_tokens;
  return dict;
}

// [n, width], or None where nothing was kept.
py::object RowsOrNone(const std::vector<float>& rows, int64_t width) {
  if (rows.empty()) return py::none();
  return CopyOf(rows, {static_cast<py::ssize_t>(rows.size()) / width, width});
}

// The place of each traced head.
std::map<int, py::ssize_t> HeadPlaces(const std::vector<AttentionRow>& rows) {
  std::map<int, py::ssize_t> places;
  for (const AttentionRow& row : rows) places[row.head] = 0;
  py::ssize_t next = 0;
  for (auto& [head, place] : places) place = next++;
  return places;
}

// {layer: [n_heads, pos + 1]} of one query.
py::dict QueryDict(const std::vector<AttentionRow>& rows) {
  std::map<int, Floats> layers;
  const std::map<int, py::ssize_t> places = HeadPlaces(rows);
  for (const AttentionRow& row : rows) {
    const auto n = static_cast<py::ssize_t>(row.probs.size());
    Floats& array = layers.try_emplace(row.layer, Floats({std::ssize(places), n})).first->second;
    std::ranges::copy(row.probs, array.mutable_data(places.at(row.head), 0));
  }
  return py::cast(layers);
}

// {layer: [n_heads, n_queries, n_queries]} of all queries, 0 where a query sees nothing.
py::dict MapDict(const std::vector<AttentionRow>& rows) {
  size_t n_queries = 0;
  for (const AttentionRow& row : rows) n_queries = std::max(n_queries, row.probs.size());
  const auto n = static_cast<py::ssize_t>(n_queries);
  std::map<int, Floats> layers;
  const std::map<int, py::ssize_t> places = HeadPlaces(rows);
  for (const AttentionRow& row : rows) {
    const auto [found, made] = layers.try_emplace(row.layer);
    if (made) {
      found->second = Floats({std::ssize(places), n, n});
      std::fill_n(found->second.mutable_data(), found->second.size(), 0.0F);
    }
    const auto query = std::ssize(row.probs) - 1;
    std::ranges::copy(row.probs, found->second.mutable_data(places.at(row.head), query, 0));
  }
  return py::cast(layers);
}

py::dict PointsDict(const Engine& engine, const std::vector<CapturedPoint>& points) {
  py::dict dict;
  for (const CapturedPoint& point : points) {
    const auto shape = std::ranges::find(engine.points(), point.at, &PointShape::at);
    const auto n = point.n_values == 0 ? 0 : std::ssize(point.rows) / point.n_values;
    dict[py::str(PointText(point.at))] =
        CopyOf(point.rows, ShapeOfRows(n, shape->n_heads, shape->width));
  }
  return dict;
}

py::list StagesList(const std::vector<StageRecord>& stages) {
  py::list list;
  for (const StageRecord& stage : stages) {
    py::dict dict;
    dict["name"] = stage.name;
    dict["left"] = stage.n_left;
    dict["top"] = stage.top;
    list.append(std::move(dict));
  }
  return list;
}

// Of each token of the prompt: (id, logprob, [(id, logprob)]), or None where no logits were made
// for it, as for the first.
py::list PromptLogprobs(const Completion& done) {
  py::list list;
  const int64_t n_none = done.prompt_len - std::ssize(done.prompt_logprobs);
  for (int64_t i = 0; i < n_none; ++i) list.append(py::none());
  for (const TokenLogprob& token : done.prompt_logprobs) {
    list.append(py::make_tuple(token.token_id, token.logprob, token.top));
  }
  return list;
}

}  // namespace

GenerateRequest RequestOf(const py::dict& from, const py::dict& options) {
  GenerateRequest request;
  request.prompt_ids = VectorOf(from["ids"].cast<Ids>());
  request.max_new_tokens = from["max_new_tokens"].cast<int64_t>();
  if (!from["sequence"].is_none()) request.sequence = from["sequence"].cast<SequenceId>();
  request.load_cache = from["load_cache"].cast<std::string>();
  request.save_cache = from["save_cache"].cast<std::string>();
  request.settings = from["settings"].cast<std::vector<std::string>>();
  request.top_logprobs = options["logprobs"].cast<int64_t>();
  request.prompt_top_logprobs = options["prompt_logprobs"].cast<int64_t>();
  return request;
}

py::dict MissedDict(const MissedAttention& missed) {
  py::dict dict;
  dict["mean"] = missed.mean;
  dict["most"] = missed.most;
  if (missed.layer >= 0) {
    dict["layer"] = missed.layer;
    dict["head"] = missed.head;
  }
  return dict;
}

py::dict StepDict(const ChosenToken& step, const GenerateRequest& request,
                  const GenerateOptions& asked) {
  const auto if_asked = [](bool is_asked, auto value) -> py::object {
    return is_asked ? py::cast(value) : py::none();
  };
  const StepRecord& record = step.record;
  const bool has_logprobs = request.top_logprobs >= 0;
  py::dict dict;
  dict["request"] = step.request;
  dict["step"] = record.step;
  dict["token"] = record.token_id;
  dict["text"] = step.text;
  dict["logprob"] = if_asked(asked.steps || has_logprobs, record.logprob);
  dict["entropy"] = if_asked(asked.steps, record.entropy);
  dict["top"] = record.top_k;
  dict["logprobs"] = if_asked(has_logprobs, record.top_logprobs);
  dict["stages"] = StagesList(record.stages);
  dict["attention"] = QueryDict(record.attn_rows);
  dict["logits_hash"] = if_asked(asked.logits_hash, record.logits_hash);
  dict["missed"] = py::none();
  if (asked.steps && record.missed) dict["missed"] = MissedDict(*record.missed);
  dict["logits"] = py::none();
  if (!step.logits.empty()) dict["logits"] = CopyOf(step.logits, {std::ssize(step.logits)});
  return dict;
}

py::dict CompletionDict(const Engine& engine, const GenerateRequest& asked,
                        const Completion& done) {
  const int64_t vocab_size = engine.model_shape().vocab_size;
  py::dict dict;
  dict["ids"] = done.ids;
  dict["prompt_len"] = done.prompt_len;
  dict["stop_reason"] = std::string(StopReasonName(done.stop_reason));
  dict["text"] = py::none();
  if (engine.has_tokenizer()) dict["text"] = Value(CompletionText(engine, done));
  dict["timings"] = TimingsDict(done.timings);
  dict["logits"] = RowsOrNone(done.captured.logits, vocab_size);
  dict["decode_logits"] = RowsOrNone(done.captured.decode_logits, vocab_size);
  dict["prompt_logprobs"] = py::none();
  if (asked.prompt_top_logprobs >= 0) dict["prompt_logprobs"] = PromptLogprobs(done);
  dict["points"] = PointsDict(engine, done.captured.points);
  dict["attention"] = MapDict(done.captured.attn_full);
  return dict;
}

Asked::Asked(OpenEngine& engine, const py::list& given, const py::dict& from) : engine_(engine) {
  for (const py::handle& request : given) {
    requests.push_back(RequestOf(request.cast<py::dict>(), from));
    const std::optional<SequenceId> sequence = requests.back().sequence;
    if (!sequence) continue;
    (void)engine.IdsOf(*sequence);
    sequences_.emplace(static_cast<int>(requests.size()) - 1, *sequence);
  }
  options.steps = from["records"].cast<bool>();
  options.stages = from["stages"].cast<bool>();
  options.logits_hash = from["logits_hash"].cast<bool>();
  options.capture_logits = from["logits"].cast<bool>();
  options.capture_decode_logits = from["decode_logits"].cast<bool>();
  options.trace_heads = from["heads"].cast<std::vector<int>>();
  options.trace_layers = from["layers"].cast<std::vector<int>>();
  options.capture_attn_full = from["attention_map"].cast<bool>();
  const bool traces = from["attention"].cast<bool>() || options.capture_attn_full;
  if (traces && options.trace_layers.empty()) {
    const std::span<const int> all = engine.engine().attention_layers();
    options.trace_layers.assign(all.begin(), all.end());
  }
  if (!traces) options.trace_layers.clear();
  if (from["dropped_at"].cast<bool>()) {
    options.on_left = [this](int index, const HeldPositions& held) {
      survivals_[index].Add(held);
      return absl::OkStatus();
    };
  }
  options.capture_points = PointsOf(engine.engine(), from["points"]);
  keeps_steps_ = from["steps"].cast<bool>();
  keeps_logits_ = from["step_logits"].cast<bool>();
  ReadLooks(from);
  if (!keeps_steps_ && sequences_.empty()) return;
  options.on_step = [this](int index, const StepRecord& record) { return Chosen(index, record); };
}

absl::Status Asked::Chosen(int index, const StepRecord& record) {
  if (sequences_.contains(index)) chosen_[index].push_back(record.token_id);
  if (!keeps_steps_) return absl::OkStatus();
  ChosenToken& step = steps.emplace_back(ChosenToken{index, record, ""});
  if (keeps_logits_) {
    // The row behind the token before; older ones are of no use any more.
    const auto prompt_len = std::ssize(requests[static_cast<size_t>(index)].prompt_ids);
    std::map<int64_t, std::vector<float>>& rows = logits_[index];
    const auto row = rows.find(prompt_len - 1 + record.step);
    if (row != rows.end()) {
      step.logits = std::move(row->second);
      rows.erase(rows.begin(), std::next(row));
    }
  }
  if (!engine_.engine().has_tokenizer()) return absl::OkStatus();
  NG_ASSIGN_OR_RETURN(step.text, texts_[index].Push(engine_.engine(), record));
  return absl::OkStatus();
}

void Asked::KeepStepLogits(const PointRows& rows) {
  for (int64_t i = 0; i < rows.n_rows(); ++i) {
    const TokenRow& token = rows.tokens[static_cast<size_t>(i)];
    if (token.request < 0) continue;
    const GenerateRequest& request = requests[static_cast<size_t>(token.request)];
    if (token.pos < std::ssize(request.prompt_ids) - 1) continue;
    logits_[token.request][token.pos].assign(rows.Row(i), rows.Row(i) + rows.values());
  }
}

// The callable of each point: {pattern: callable}.
void Asked::ReadLooks(const py::dict& from) {
  struct Look {
    PointAt at;
    py::object call;
  };
  std::vector<Look> looks;
  for (const auto& [pattern, call] : from["on_point"].cast<py::dict>()) {
    for (const PointAt& at : PointsOf(engine_.engine(), py::make_tuple(pattern))) {
      if (std::ranges::count(options.look_at, at) == 0) options.look_at.push_back(at);
      looks.push_back({at, py::reinterpret_borrow<py::object>(call)});
    }
  }
  static constexpr PointAt kStepLogits = {Point::kLogits};
  if (keeps_logits_ && std::ranges::count(options.look_at, kStepLogits) == 0) {
    options.look_at.push_back(kStepLogits);
  }
  if (options.look_at.empty()) return;
  // The objects are copied and let go with the GIL only: std::function copies the pointer.
  options.on_point = [this, shared = std::make_shared<std::vector<Look>>(std::move(looks))](
                         const PointRows& rows) {
    if (keeps_logits_ && rows.at == kStepLogits) KeepStepLogits(rows);
    if (std::ranges::count(*shared, rows.at, &Look::at) == 0) return absl::OkStatus();
    return engine_.CallBack("on_point", [&] {
      const py::object given = RowsObject(rows);
      for (const Look& look : *shared) {
        if (look.at == rows.at) look.call(given);
      }
    });
  };
}

void Asked::MakeRoom() {
  engine_.CheckNoRuns();
  RunNeeds needs = Needs(requests);
  needs.max_prompt = 0;
  needs.prompt_logits =
      options.capture_logits || NeedLogits(options.capture_points) || NeedLogits(options.look_at);
  // Requests that there is no room for wait for others. So beside open sequences one is enough.
  const bool own = std::ranges::any_of(
      requests, [](const GenerateRequest& request) { return !request.sequence.has_value(); });
  const int least = engine_.least().max_sequences;
  if (engine_.n_open() > 0) needs.max_sequences = engine_.n_open() + (own ? 1 : 0);
  if (engine_.n_open() == 0 && least > 0) {
    needs.max_sequences = std::min(needs.max_sequences, least);
  }
  engine_.Ensure(needs);
  for (const auto& [index, sequence] : sequences_) {
    requests[static_cast<size_t>(index)].sequence = engine_.InEngine(sequence);
  }
}

void Asked::KeepIds() const {
  for (const auto& [index, sequence] : sequences_) {
    std::vector<int32_t> ids = requests[static_cast<size_t>(index)].prompt_ids;
    const auto chosen = chosen_.find(index);
    if (chosen != chosen_.end()) {
      ids.insert(ids.end(), chosen->second.begin(), chosen->second.end());
    }
    engine_.SetIds(sequence, ids);
  }
}

py::dict Asked::Dict(const ChosenToken& step) const {
  return StepDict(step, requests[static_cast<size_t>(step.request)], options);
}

py::list Asked::Results(const std::vector<Completion>& done) const {
  py::list results;
  for (size_t i = 0; i < done.size(); ++i) {
    py::dict dict = CompletionDict(engine_.engine(), requests[i], done[i]);
    dict["dropped_at"] = py::none();
    if (const auto left = survivals_.find(static_cast<int>(i)); left != survivals_.end()) {
      const int64_t n_tokens = std::ssize(done[i].ids);
      Ids all = CopyOf(left->second.LeftAt(n_tokens));
      dict["dropped_at"] =
          all.reshape({left->second.n_layers(), left->second.n_kv_heads(), n_tokens});
    }
    results.append(std::move(dict));
  }
  return results;
}

int64_t AnswerTokens(OpenEngine& open, const Ids& prompt) {
  const OpenEngine::Look look(open);
  const Engine& engine = open.engine();
  const int64_t given = engine.default_max_new_tokens();
  if (!AnswersAreOpen(engine.config())) return given;
  std::vector<GenerateRequest> requests(1);
  GenerateRequest& request = requests.front();
  request.prompt_ids = VectorOf(prompt);
  // What cannot run says so when it is run.
  if (!FitContext(engine, MostOfOpenAnswer(engine), &request).ok()) return given;
  const int64_t room = open.loaded_tokens() - std::ssize(request.prompt_ids);
  if (room >= std::max<int64_t>(1, given)) return std::min(room, request.max_new_tokens);
  constexpr size_t kFirst[] = {0};
  FitMemory(
      engine, kFirst, [](std::span<const GenerateRequest> all) { return Needs(all); }, &requests);
  return request.max_new_tokens;
}

py::tuple Generate(OpenEngine& engine, const py::list& requests, const py::dict& options) {
  const OpenEngine::Claim claim(engine);
  Asked asked(engine, requests, options);
  asked.MakeRoom();
  const std::vector<Completion> done =
      engine.Run([&](Engine& running) { return running.Generate(asked.requests, asked.options); },
                 [&] { asked.KeepIds(); });
  py::list results = asked.Results(done);
  py::list steps;
  for (const ChosenToken& step : asked.steps) steps.append(asked.Dict(step));
  return py::make_tuple(results, steps);
}

SteppedRun::SteppedRun(std::shared_ptr<OpenEngine> engine, const py::list& requests,
                       const py::dict& options)
    : engine_(std::move(engine)) {
  const OpenEngine::Claim claim(*engine_);
  asked_ = std::make_unique<Asked>(*engine_, requests, options);
  asked_->MakeRoom();
  generation_ = engine_->Run(
      [&](Engine& running) { return running.Begin(asked_->requests, asked_->options); });
}

std::shared_ptr<SteppedRun> SteppedRun::Start(std::shared_ptr<OpenEngine> engine,
                                              const py::list& requests, const py::dict& options) {
  std::shared_ptr<SteppedRun> run(new SteppedRun(std::move(engine), requests, options));
  // Who closes the engine keeps it meanwhile.
  run->engine_->AddRun(run.get(), [weak = std::weak_ptr(run)] {
    if (const std::shared_ptr<SteppedRun> open = weak.lock()) open->Finish();
  });
  return run;
}

SteppedRun::~SteppedRun() { End(); }

void SteppedRun::End() {
  if (generation_ == nullptr) return;
  engine_->RemoveRun(this);
  // Its callbacks use what it was asked for, so both end together.
  struct Both {
    std::unique_ptr<Asked> asked;
    std::shared_ptr<Generation> generation;
  };
  engine_->EndLater(std::make_shared<Both>(Both{std::move(asked_), std::move(generation_)}));
}

py::object SteppedRun::Next() {
  if (generation_ != nullptr && !cancelled_) {
    const OpenEngine::Claim claim(*engine_);
    py::object step = NextOfClaim();
    if (!step.is_none()) return step;
  }
  Finish();
  return py::none();
}

py::object SteppedRun::NextOfClaim() {
  if (generation_ == nullptr) return py::none();  // another thread has ended it
  try {
    steps_ = true;
    for (bool more = true; more && !cancelled_ && asked_->steps.empty();) {
      more = engine_->Run([&](Engine&) { return generation_->Step(); }, [&] { asked_->KeepIds(); });
    }
    steps_ = false;
  } catch (py::error_already_set&) {
    steps_ = false;
    EndInError();  // nobody can go on with it
    throw;
  }
  if (cancelled_ || asked_->steps.empty()) return py::none();
  py::dict step = asked_->Dict(asked_->steps.front());
  asked_->steps.pop_front();
  return step;
}

void SteppedRun::Cancel() {
  cancelled_ = true;
  if (steps_) engine_->stop()->store(true);
}

void SteppedRun::EndInError() {
  std::vector<Completion> done;
  {
    const WithoutGil free;
    absl::StatusOr<std::vector<Completion>> finished = generation_->Finish();
    done = finished.ok() ? *std::move(finished) : generation_->Take();
  }
  try {
    results_ = asked_->Results(done);
  } catch (const py::error_already_set&) {  // the error that is under way says more
  }
  End();
}

py::object SteppedRun::Finish() {
  if (generation_ == nullptr) return results_;
  const OpenEngine::Claim claim(*engine_);
  if (generation_ == nullptr) return results_;  // meanwhile, on another thread
  try {
    const std::vector<Completion> done =
        engine_->Run([&](Engine&) { return generation_->Finish(); }, [&] { asked_->KeepIds(); });
    results_ = asked_->Results(done);
  } catch (py::error_already_set&) {
    End();
    throw;
  }
  End();
  return results_;
}

}  // namespace ng::python
