#include "apps/run/viewer.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/common/columns.h"
#include "apps/common/divergence.h"
#include "apps/common/terminal.h"
#include "apps/view/lens.h"
#include "apps/view/run_facts.h"
#include "apps/view/terminal_map.h"
#include "ng/config.h"
#include "ng/files.h"
#include "ng/likely_tokens.h"

namespace ng::run {
namespace {

constexpr int64_t kDefaultMegabytes = 60;
constexpr int64_t kMegabyte = 1000000;

int64_t MegabytesOf(int64_t bytes) { return (bytes + kMegabyte - 1) / kMegabyte; }

// `n` of the layers, spread over the depth.
std::vector<int> Spread(std::span<const int> layers, int64_t n) {
  std::vector<int> chosen;
  for (int64_t i = 0; i < n; ++i) {
    chosen.push_back(layers[static_cast<size_t>(i * std::ssize(layers) / n)]);
  }
  return chosen;
}

// What can be shown of the layers within the limit. Layers that were asked for by name are all
// shown, or the run is refused; by themselves they have no limit.
absl::StatusOr<ViewedLayers> ChooseLayers(const CommandLine& line, const Engine& engine,
                                          const GenerateRequest& request) {
  const std::span<const int> attend = engine.attention_layers();
  const bool named = !line.trace_layers.empty();
  ViewedLayers viewed{
      .layers = named ? line.trace_layers : std::vector(attend.begin(), attend.end()),
      .left_out = {},
      .why = ""};
  if (ViewsInTerminal(line)) {
    if (viewed.layers.empty()) return UsageError("--view -: no layer of the model has attention");
    viewed.layers.erase(viewed.layers.begin() + 1, viewed.layers.end());
    return viewed;
  }
  if (named && !line.view_limit) return viewed;
  const int64_t n_tokens =
      std::ssize(request.prompt_ids) + std::max<int64_t>(0, request.max_new_tokens);
  const int64_t n_heads =
      line.trace_heads.empty() ? engine.model_shape().n_heads : std::ssize(line.trace_heads);
  const int64_t n_runs = line.against.empty() ? 1 : 2;
  const int64_t layer_bytes = n_runs * view::PageBytes(n_heads, n_tokens);
  const int64_t limit = line.view_limit.value_or(kDefaultMegabytes);
  const int64_t n_fit = limit * kMegabyte / layer_bytes;
  const int64_t n_wanted = std::ssize(viewed.layers);
  if (n_fit >= n_wanted) return viewed;
  const std::string sizes = absl::StrCat("the attention of ", n_wanted, " layers at ", n_tokens,
                                         " tokens takes ", MegabytesOf(n_wanted * layer_bytes),
                                         " MB of the page, --view-limit is ", limit, " MB");
  if (named || n_fit == 0) {
    return LimitError(absl::StrCat(
        sizes, "; raise it", n_fit == 0 ? "" : absl::StrCat(", or name at most ", n_fit, " layers"),
        n_fit == 0 ? absl::StrCat(" to at least ", MegabytesOf(layer_bytes), " for one layer")
                   : ""));
  }
  viewed.layers = Spread(attend, n_fit);
  std::ranges::set_difference(attend, viewed.layers, std::back_inserter(viewed.left_out));
  viewed.why = absl::StrCat(sizes, ": layers ", absl::StrJoin(viewed.left_out, ", "),
                            " are left out; --trace-layer chooses others");
  return viewed;
}

// What cannot be shown together.
absl::Status CheckAgainst(const Engine& first, const Engine& second) {
  const ModelShape& a = first.model_shape();
  const ModelShape& b = second.model_shape();
  const auto same = [](const char* what, int64_t x, int64_t y) -> absl::Status {
    if (x == y) return absl::OkStatus();
    return UsageError(absl::StrCat("--against: the second model has ", y, " ", what,
                                   ", the first has ", x, "; a page shows two of one shape"));
  };
  NG_RETURN_IF_ERROR(same("tokens", a.vocab_size, b.vocab_size));
  NG_RETURN_IF_ERROR(same("layers", a.n_layers, b.n_layers));
  NG_RETURN_IF_ERROR(same("heads", a.n_heads, b.n_heads));
  return same("layers with attention", std::ssize(first.attention_layers()),
              std::ssize(second.attention_layers()));
}

view::TerminalStyle StyleOfStdout() {
  view::TerminalStyle style{.columns = StdoutColumns(), .colors = view::TerminalColors::kNone};
  const char* const no_color = std::getenv("NO_COLOR");
  if (isatty(STDOUT_FILENO) == 0 || !TerminalTakesEscapes() || !TerminalShowsUtf8() ||
      (no_color != nullptr && *no_color != '\0'))
    return style;
  const char* const depth = std::getenv("COLORTERM");
  const std::string_view colors = depth == nullptr ? "" : depth;
  const bool all = colors == "truecolor" || colors == "24bit";
  style.colors = all ? view::TerminalColors::k24Bit : view::TerminalColors::k256;
  return style;
}

}  // namespace

Viewer::Viewer(const CommandLine& line, Engine& engine, const GenerateRequest& request,
               ViewedLayers viewed)
    : line_(line),
      engine_(engine),
      request_(request),
      viewed_(std::move(viewed)),
      maps_(viewed_.layers),
      against_maps_(viewed_.layers) {
  page_.ids = request.prompt_ids;
  page_.prompt_len = std::ssize(request.prompt_ids);
}

absl::StatusOr<std::unique_ptr<Viewer>> Viewer::Open(const CommandLine& line,
                                                     const EngineOptions& options, Engine& engine,
                                                     const GenerateRequest& request) {
  NG_ASSIGN_OR_RETURN(ViewedLayers viewed, ChooseLayers(line, engine, request));
  std::unique_ptr<Viewer> viewer(new Viewer(line, engine, request, std::move(viewed)));
  if (!line.against.empty()) NG_RETURN_IF_ERROR(viewer->OpenAgainst(options));
  return viewer;
}

absl::Status Viewer::OpenAgainst(const EngineOptions& options) {
  EngineOptions second = options;
  second.overrides.insert(second.overrides.end(), line_.against.begin(), line_.against.end());
  absl::StatusOr<std::unique_ptr<Engine>> opened = Engine::Open(second);
  if (!opened.ok()) return Annotate(opened.status(), "--against: ");
  NG_RETURN_IF_ERROR(CheckAgainst(engine_, **opened));
  const std::vector<NamedOutput> written = (*opened)->probe_outputs();
  if (!written.empty()) {
    return UsageError(absl::StrCat("--against: the second run would write ", written.front().path,
                                   " too; leave its probes out with --against probe.chain="));
  }
  NG_RETURN_IF_ERROR(Annotate((*opened)->CheckRequest(request_), "--against: "));
  against_ = *std::move(opened);
  return absl::OkStatus();
}

absl::Status Viewer::Load() {
  if (against_ == nullptr) return absl::OkStatus();
  // It is fed all ids at once.
  const GenerateRequest whole{
      .prompt_ids =
          std::vector<int32_t>(request_.prompt_ids.size() +
                               static_cast<size_t>(std::max<int64_t>(0, request_.max_new_tokens)))};
  return Annotate(against_->Load(Needs(std::span(&whole, 1))), "--against: ");
}

void Viewer::AddTo(GenerateOptions* options) {
  options->steps = true;
  options->stages = true;
  if (options->trace_layers.empty()) options->trace_layers = viewed_.layers;
  options->on_attn_rows = [this](int /*index*/, const QueryRows& query) { maps_.Add(query); };
  if (ViewsInTerminal(line_)) return;
  const int64_t first = page_.prompt_len - 1;  // the position that chooses the first token
  if (options->capture_points.empty()) {
    options->capture_points_from = first;
  } else {
    rows_before_ = first;
  }
  for (const PointShape& point : engine_.points()) {
    if (point.at.point != Point::kOut) continue;
    if (std::ranges::count(options->capture_points, point.at) != 0) continue;
    options->capture_points.push_back(point.at);
  }
}

void Viewer::OnDone(const Completion& completion) {
  page_.ids = completion.ids;
  page_.stop_reason = StopReasonName(completion.stop_reason);
  timings_ = completion.timings;
  for (const CapturedPoint& captured : completion.captured.points) {
    const int64_t n_before = rows_before_ * captured.n_values;
    if (captured.at.point != Point::kOut || std::ssize(captured.rows) <= n_before) continue;
    outs_.push_back({.at = captured.at,
                     .n_values = captured.n_values,
                     .rows = {captured.rows.begin() + n_before, captured.rows.end()}});
  }
  std::ranges::sort(outs_, {}, [](const CapturedPoint& out) { return out.at.layer; });
}

std::span<const int32_t> Viewer::chosen() const {
  return std::span(page_.ids).subspan(static_cast<size_t>(page_.prompt_len));
}

absl::Status Viewer::Write(const std::atomic<bool>* stop) {
  if (ViewsInTerminal(line_)) return WriteTerminal();
  // Several ranks compute it together, to the end.
  NG_RETURN_IF_ERROR(FillPage(engine_.ranks() == 1 ? stop : nullptr));
  if (engine_.rank() > 0) return absl::OkStatus();
  NG_RETURN_IF_ERROR(WriteMetadata(stop));
  return view::WritePage(line_.view, page_, stop);
}

absl::Status Viewer::WriteTerminal() const {
  if (maps_.n_queries() == 0) return absl::OkStatus();  // the run ended before its first step did
  std::vector<std::string> labels;
  for (const int32_t id : std::span(page_.ids).first(static_cast<size_t>(maps_.n_queries()))) {
    NG_ASSIGN_OR_RETURN(labels.emplace_back(), view::TextOf(engine_, id));
  }
  const int layer = viewed_.layers.front();
  const int head = line_.trace_heads.empty() ? 0 : line_.trace_heads.front();
  return WriteStyledStdout(view::TerminalMap(maps_, layer, head, labels, StyleOfStdout()));
}

absl::Status Viewer::FillPage(const std::atomic<bool>* stop) {
  const Config& config = engine_.config();
  page_.model = config.Text("model.path");
  NG_ASSIGN_OR_RETURN(page_.summary, view::RunFacts(engine_, "ng-run"));
  page_.title = page_.summary.front().second;
  page_.config = config.ToIni();
  page_.replay = view::ReplayCommand(line_.engine.config_file, config, request_);
  page_.attention = &maps_;
  page_.left_out = viewed_.left_out;
  page_.why = viewed_.why;
  page_.survival = &survival_;
  NG_ASSIGN_OR_RETURN(page_.cache, view::CacheFacts(engine_, timings_));
  // Where the run was stopped, or a step failed, what there is has to do.
  if (page_.steps.size() == chosen().size() && !outs_.empty()) {
    absl::Status computed = ComputeMore(stop);
    if (!computed.ok() && !absl::IsCancelled(computed)) return computed;
  }
  return view::FillTexts(engine_, &page_);
}

absl::Status Viewer::ComputeMore(const std::atomic<bool>* stop) {
  NG_ASSIGN_OR_RETURN(page_.lens,
                      view::ReadLens(engine_, outs_, {page_.prompt_len - 1, chosen()}, stop));
  return against_ == nullptr ? absl::OkStatus() : RunAgainst();
}

absl::Status Viewer::RunAgainst() {
  const CapturedPoint& first = outs_.back();
  const int64_t n_chosen = std::ssize(chosen());
  GenerateRequest request;
  // The rows that the first run has: the last id may have no position.
  const int64_t n_fed = std::max(maps_.n_queries(), page_.prompt_len + n_chosen - 1);
  request.prompt_ids.assign(page_.ids.begin(), page_.ids.begin() + n_fed);
  GenerateOptions options;
  options.trace_layers = viewed_.layers;
  options.trace_heads = line_.trace_heads;
  options.on_attn_rows = [this](int /*index*/, const QueryRows& query) {
    against_maps_.Add(query);
  };
  options.capture_points = {first.at};
  options.capture_points_from = page_.prompt_len - 1;
  NG_ASSIGN_OR_RETURN(const std::vector<Completion> done,
                      against_->Generate(std::span(&request, 1), options));
  if (done.front().stop_reason == StopReason::kInterrupted) return absl::OkStatus();
  const CapturedPoint& second = done.front().captured.points.front();

  view::AgainstRun& against = page_.against.emplace();
  against.name = absl::StrJoin(line_.against, ", ");
  for (const std::string& override : line_.against) {
    const std::string key = override.substr(0, override.find('='));
    against.summary.emplace_back(key, against_->config().Text(key));
  }
  against.attention = &against_maps_;
  const auto vocab_size = static_cast<size_t>(engine_.model_shape().vocab_size);
  for (int64_t begin = 0; begin < n_chosen; begin += view::kRowsAtOnce) {
    const int64_t n = std::min(view::kRowsAtOnce, n_chosen - begin);
    NG_ASSIGN_OR_RETURN(const std::vector<float> a, view::LogitsOf(engine_, first, begin, n));
    NG_ASSIGN_OR_RETURN(const std::vector<float> b, view::LogitsOf(*against_, second, begin, n));
    for (size_t at = 0; at < a.size(); at += vocab_size) {
      const auto row_a = std::span(a).subspan(at, vocab_size);
      const auto row_b = std::span(b).subspan(at, vocab_size);
      against.kl.push_back(KlDivergence(row_a, LogTotal(row_a), row_b, LogTotal(row_b)));
      against.top.push_back(LikelyTokens(row_b, view::kTopTokens));
    }
  }
  return absl::OkStatus();
}

absl::Status Viewer::WriteMetadata(const std::atomic<bool>* stop) const {
  if (line_.trace.empty()) return absl::OkStatus();
  view::Json json = view::Manifest(page_);
  for (const char* elsewhere : {"steps", "lens", "attention", "survival", "against"}) {
    json.erase(elsewhere);
  }
  NG_ASSIGN_OR_RETURN(AtomicFileWriter file,
                      AtomicFileWriter::Create(TraceFiles(line_.trace).metadata, stop));
  NG_RETURN_IF_ERROR(
      file.Write(json.dump(1, ' ', true, view::Json::error_handler_t::replace) + "\n"));
  return file.Commit();
}

}  // namespace ng::run
