#include "plugins/probe/capture/capture.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ng/utf8.h"
#include "nlohmann/json.hpp"
#include "plugins/probe/row_editor.h"

namespace ng {

absl::StatusOr<std::unique_ptr<Probe>> Capture::Create(const CaptureOptions& options,
                                                       const PluginContext& context,
                                                       const ProbeModel& model) {
  NG_ASSIGN_OR_RETURN(std::vector<PointShape> points,
                      NamedPoints(model, options.points, "probe.capture.points"));
  if (options.file.empty()) {
    return UsageError("probe.capture.file is empty, must be the path of the file to write");
  }
  return absl::WrapUnique(
      new Capture(std::string(options.file), std::move(points), context, model));
}

Capture::Capture(std::string path, std::vector<PointShape> points, const PluginContext& context,
                 const ProbeModel& model)
    : path_(std::move(path)),
      points_(std::move(points)),
      token_bytes_(context.token_bytes),
      stop_(model.stop) {}

ProbeUse Capture::Use() const {
  ProbeUse use;
  for (const PointShape& point : points_) use.points.push_back({point.at});
  use.every_token = true;
  use.identity = true;
  use.writes = {path_};
  return use;
}

Capture::Request& Capture::Of(const TokenRow& token) {
  const int64_t key = token.request >= 0 ? token.request : int64_t{-1} - token.sequence;
  Request& request = requests_[key];
  if (request.points.empty()) request.points.resize(points_.size());
  return request;
}

absl::Status Capture::Begin(const ProbeRequest& request) {
  Request& kept = requests_[request.index];
  kept = {};
  kept.points.resize(points_.size());
  kept.ids.assign(request.prompt_ids.begin(), request.prompt_ids.end());
  kept.prompt_len = std::ssize(kept.ids);
  return absl::OkStatus();
}

absl::Status Capture::Accept(int request, int32_t token) {
  requests_[request].ids.push_back(token);
  return absl::OkStatus();
}

// Each position once: where nothing is cached, all of them are fed again and again.
absl::Status Capture::OnPoint(const PointRows& rows) {
  const auto point = std::ranges::find(points_, rows.at, &PointShape::at);
  const auto index = static_cast<size_t>(point - points_.begin());
  Request* request = nullptr;
  const TokenRow* last = nullptr;
  for (int64_t row = 0; row < rows.n_rows(); ++row) {
    const TokenRow& token = rows.tokens[static_cast<size_t>(row)];
    if (last == nullptr || token.sequence != last->sequence) request = &Of(token);
    last = &token;
    Kept& kept = request->points[index];
    if (kept.end >= 0 && token.pos < kept.end) continue;
    if (request->first < 0) request->first = token.pos;
    kept.n_values = rows.values();
    kept.rows.insert(kept.rows.end(), rows.Row(row), rows.Row(row) + rows.values());
    kept.end = token.pos + 1;
  }
  return absl::OkStatus();
}

void Capture::AddTensors(const std::string& name, Request& request,
                         std::vector<NamedTensor>* tensors) {
  // A step that was interrupted has shown its first points only.
  int64_t n_rows = std::numeric_limits<int64_t>::max();
  for (const Kept& kept : request.points) {
    n_rows = std::min(n_rows, kept.n_values == 0 ? 0 : std::ssize(kept.rows) / kept.n_values);
  }
  for (size_t i = 0; i < points_.size() && n_rows > 0; ++i) {
    Kept& kept = request.points[i];
    NamedTensor tensor{PointText(points_[i].at) + name, {n_rows}, std::move(kept.rows)};
    if (points_[i].n_heads > 0) tensor.shape.push_back(points_[i].n_heads);
    tensor.shape.push_back(points_[i].width);
    tensor.data.resize(static_cast<size_t>(n_rows * kept.n_values));
    tensors->push_back(std::move(tensor));
  }
}

std::string Capture::TokensJson(const Request& request) const {
  nlohmann::ordered_json tokens = nlohmann::ordered_json::object();
  tokens["prompt_len"] = request.prompt_len;
  tokens["ids"] = request.ids;
  tokens["text"] = nullptr;
  if (!token_bytes_.empty()) {
    std::vector<std::string> texts;
    for (const int32_t id : request.ids) {
      texts.push_back(VisibleText(token_bytes_[static_cast<size_t>(id)]));
    }
    tokens["text"] = std::move(texts);
  }
  if (request.first > 0) tokens["first"] = request.first;
  return tokens.dump();
}

absl::Status Capture::EndRun(const ProbeRun& run) {
  std::map<int64_t, Request> requests = std::move(requests_);
  requests_.clear();
  if (run.failed) return absl::OkStatus();
  std::vector<NamedTensor> tensors;
  SafetensorsOptions options;
  options.stop = stop_;
  options.metadata["config"] = run.config;
  for (const auto& [name, value] : run.identity) options.metadata[name] = value;
  for (auto& [key, request] : requests) {
    const std::string name = key >= 0 ? absl::StrCat(".", key) : absl::StrCat(".s", -1 - key);
    if (key >= 0) options.metadata["tokens" + name] = TokensJson(request);
    AddTensors(name, request, &tensors);
  }
  return WriteSafetensors(path_, tensors, options);
}

}  // namespace ng
