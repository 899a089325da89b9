#include "apps/python/forward.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ng/request.h"

namespace ng::python {
namespace {

// Rows of several points, [n_points, batch, n, width], as NumPy holds them.
class GatheredRows {
 public:
  GatheredRows(std::vector<PointAt> points, py::ssize_t batch, py::ssize_t n, py::ssize_t width)
      : points_(std::move(points)), array_({std::ssize(points_), batch, n, width}) {}

  const std::vector<PointAt>& points() const { return points_; }
  // Without the GIL. The rows of other points are left out.
  void Take(const PointRows& rows) {
    const auto found = std::ranges::find(points_, rows.at);
    if (found == points_.end()) return;
    const py::ssize_t point = found - points_.begin();
    for (int64_t i = 0; i < rows.n_rows(); ++i) {
      const TokenRow& token = rows.tokens[static_cast<size_t>(i)];
      std::copy_n(rows.Row(i), array_.shape(3),
                  array_.mutable_data(point, token.request, token.pos, 0));
    }
  }
  const Floats& array() const { return array_; }

 private:
  std::vector<PointAt> points_;
  Floats array_;
};

// As transformers has them: what each layer gets, and what the head gets.
std::vector<PointAt> HiddenPoints(const Engine& engine) {
  std::vector<PointAt> points = {{Point::kEmbed}};
  for (int layer = 0; layer + 1 < engine.model_shape().n_layers; ++layer) {
    points.push_back({Point::kOut, layer});
  }
  points.push_back({Point::kNorm});
  return points;
}

int64_t WidthOf(const Engine& engine, const PointAt& at) {
  const auto shape = std::ranges::find(engine.points(), at, &PointShape::at);
  return shape == engine.points().end() ? 0 : shape->values();
}

// [n_layers, batch, n_heads, n, n]
Floats MakeMaps(const Engine& engine, py::ssize_t batch, py::ssize_t n) {
  Floats maps({std::ssize(engine.attention_layers()), batch,
               static_cast<py::ssize_t>(engine.model_shape().n_heads), n, n});
  std::fill_n(maps.mutable_data(), maps.size(), 0.0F);
  return maps;
}

void TakeQuery(const Engine& engine, int request, const QueryRows& query, Floats& maps) {
  const std::span<const int> layers = engine.attention_layers();
  for (const AttentionRow& row : query.rows) {
    const auto layer = std::ranges::find(layers, row.layer) - layers.begin();
    std::ranges::copy(row.probs,
                      maps.mutable_data(layer, request, row.head, std::ssize(query.ids) - 1, 0));
  }
}

std::vector<GenerateRequest> RequestsOf(const std::vector<Ids>& prompts) {
  std::vector<GenerateRequest> requests;
  for (const Ids& ids : prompts) {
    if (ids.size() != prompts.front().size()) {
      Raise(UsageError(absl::StrCat("forward takes prompts of one length, these have ",
                                    prompts.front().size(), " and ", ids.size(),
                                    " tokens; call it for each length")));
    }
    requests.push_back({VectorOf(ids), 0});
  }
  return requests;
}

}  // namespace

py::dict Forward(OpenEngine& open, const std::vector<Ids>& prompts, const ForwardParts& parts) {
  const OpenEngine::Claim claim(open);
  const Engine& engine = open.engine();
  const std::vector<GenerateRequest> requests = RequestsOf(prompts);
  open.CheckNoRuns();
  RunNeeds needs = Needs(requests);
  needs.prompt_logits = parts.logits || parts.hidden;
  if (open.n_open() > 0) needs.max_sequences = open.n_open() + 1;  // others wait
  open.Ensure(needs);

  const auto batch = static_cast<py::ssize_t>(std::ssize(prompts));
  const auto n = static_cast<py::ssize_t>(requests.front().prompt_ids.size());
  std::vector<GatheredRows> gathered;
  if (parts.logits) {
    gathered.emplace_back(std::vector<PointAt>{{Point::kLogits}}, batch, n,
                          engine.model_shape().vocab_size);
  }
  if (parts.hidden) {
    const std::vector<PointAt> points = HiddenPoints(engine);
    gathered.emplace_back(points, batch, n, WidthOf(engine, points.front()));
  }
  GenerateOptions options;
  for (const GatheredRows& rows : gathered) {
    options.look_at.insert(options.look_at.end(), rows.points().begin(), rows.points().end());
  }
  options.on_point = [&](const PointRows& rows) {
    for (GatheredRows& to : gathered) to.Take(rows);
    return absl::OkStatus();
  };
  Floats maps;
  if (parts.attention) {
    maps = MakeMaps(engine, batch, n);
    options.trace_layers.assign(engine.attention_layers().begin(), engine.attention_layers().end());
  }
  // Set in any case: what is shared would have no rows.
  options.on_attn_rows = [&](int request, const QueryRows& query) {
    TakeQuery(engine, request, query, maps);
  };
  open.Run([&](Engine& running) -> absl::StatusOr<bool> {
    NG_ASSIGN_OR_RETURN(const std::vector<Completion> done, running.Generate(requests, options));
    if (done.front().stop_reason != StopReason::kInterrupted) return true;
    return InterruptedError("interrupted");
  });
  py::dict made;
  made["logits"] =
      parts.logits ? gathered.front().array() : Floats({py::ssize_t{1}, batch, n, py::ssize_t{0}});
  made["hidden"] = parts.hidden ? gathered.back().array() : Floats(0);
  made["attention"] = parts.attention ? maps : Floats(0);
  return made;
}

}  // namespace ng::python
