#include "plugins/probe/logit_lens/logit_lens.h"

#include <algorithm>
#include <optional>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ng/files.h"
#include "ng/likely_tokens.h"
#include "ng/utf8.h"
#include "nlohmann/json.hpp"

namespace ng {
namespace {

// Rows that go through the head at once where every position does: few, for they become logits.
constexpr int64_t kBlockRows = 16;

}  // namespace

absl::StatusOr<std::unique_ptr<Probe>> LogitLens::Create(const LogitLensOptions& options,
                                                         const PluginContext& context,
                                                         const ProbeModel& model) {
  if (options.file.empty()) {
    return UsageError("probe.logit_lens.file is empty, must be the path of the file to write");
  }
  for (const int64_t layer : options.layers) {
    if (layer >= 0 && layer < context.model.n_layers) continue;
    return UsageError(absl::StrCat("probe.logit_lens.layers: ", layer, ", must be in [0, ",
                                   context.model.n_layers - 1, "]"));
  }
  std::vector<PointShape> points;
  for (const PointShape& point : model.points) {
    if (point.at.point != Point::kOut) continue;
    if (options.layers.empty() || std::ranges::count(options.layers, point.at.layer) > 0) {
      points.push_back(point);
    }
  }
  return absl::WrapUnique(new LogitLens(options, std::move(points), context, model));
}

LogitLens::LogitLens(const LogitLensOptions& options, std::vector<PointShape> points,
                     const PluginContext& context, const ProbeModel& model)
    : path_(options.file),
      every_position_(options.every_position),
      top_(options.top),
      points_(std::move(points)),
      token_bytes_(context.token_bytes),
      vocab_size_(context.model.vocab_size),
      stop_(model.stop),
      head_(model.head) {}

ProbeUse LogitLens::Use() const {
  ProbeUse use;
  for (const PointShape& point : points_) use.points.push_back({point.at});
  use.every_token = every_position_;
  use.writes = {path_};
  return use;
}

absl::Status LogitLens::Begin(const ProbeRequest& request) {
  const auto index = static_cast<size_t>(request.index);
  if (requests_.size() <= index) requests_.resize(index + 1);
  requests_[index] = {};
  requests_[index].ids.assign(request.prompt_ids.begin(), request.prompt_ids.end());
  requests_[index].newest.resize(points_.size() * static_cast<size_t>(points_[0].width));
  return absl::OkStatus();
}

absl::Status LogitLens::OnPoint(const PointRows& rows) {
  const auto point = std::ranges::find(points_, rows.at, &PointShape::at);
  const int64_t place = point - points_.begin();
  int64_t begin = 0;
  while (begin < rows.n_rows()) {
    const TokenRow& first = rows.tokens[static_cast<size_t>(begin)];
    int64_t end = begin + 1;
    while (end < rows.n_rows() &&
           rows.tokens[static_cast<size_t>(end)].sequence == first.sequence) {
      ++end;
    }
    // Nobody chooses tokens for what is fed step by step.
    if (first.request < 0) return UsageError("it needs requests, and there are sequences only");
    Request& request = requests_[static_cast<size_t>(first.request)];
    for (int64_t at = begin; every_position_ && at < end - 1; at += kBlockRows) {
      const int64_t n = std::min(kBlockRows, end - 1 - at);
      NG_RETURN_IF_ERROR(Look(rows.Row(at), rows.stride, n));
      for (int64_t i = 0; i < n; ++i) {
        const auto row = static_cast<size_t>(at + i);
        Add(request, rows.tokens[row], rows.tokens[row + 1].token, rows.at.layer, i);
      }
    }
    const TokenRow& newest = rows.tokens[static_cast<size_t>(end - 1)];
    const auto next = static_cast<size_t>(newest.pos + 1);
    if (every_position_ && next < request.ids.size()) {  // a chunk's end
      NG_RETURN_IF_ERROR(Look(rows.Row(end - 1), rows.stride, 1));
      Add(request, newest, request.ids[next], rows.at.layer, 0);
    }
    std::copy_n(rows.Row(end - 1), rows.width, request.newest.data() + place * rows.width);
    request.newest_token = newest;
    begin = end;
  }
  return absl::OkStatus();
}

absl::Status LogitLens::Accept(int request, int32_t token) {
  Request& own = requests_[static_cast<size_t>(request)];
  own.ids.push_back(token);
  const int64_t width = points_[0].width;
  NG_RETURN_IF_ERROR(Look(own.newest.data(), width, std::ssize(points_)));
  for (size_t i = 0; i < points_.size(); ++i) {
    Add(own, own.newest_token, token, points_[i].at.layer, static_cast<int64_t>(i));
  }
  return absl::OkStatus();
}

absl::Status LogitLens::Look(const float* rows, int64_t stride, int64_t n) {
  TensorView<const float, 2> hidden(rows, {n, points_[0].width});
  hidden.stride[0] = stride;
  const auto n_logits = static_cast<size_t>(n * vocab_size_);
  if (logits_.size() < n_logits) logits_.resize(n_logits);
  return head_->Logits(hidden, std::span(logits_).first(n_logits));
}

void LogitLens::Add(Request& request, const TokenRow& token, int32_t next, int layer, int64_t row) {
  Position& position = request.positions[token.pos];
  // Where nothing is cached a position is fed again, and says the same.
  if (!position.layers.empty() && position.layers.back().layer >= layer) return;
  const auto logits = std::span<const float>(logits_).subspan(
      static_cast<size_t>(row * vocab_size_), static_cast<size_t>(vocab_size_));
  position.token = token.token;
  position.next = next;
  position.layers.push_back({layer, RankOf(logits, next), LikelyTokens(logits, top_)});
}

std::string LogitLens::LineOf(int64_t index, int64_t pos, const Position& position) const {
  using Json = nlohmann::ordered_json;
  Json layers = Json::array();
  for (const Seen& seen : position.layers) {
    Json top = Json::array();
    for (const auto& [id, probability] : seen.top) {
      Json entry = Json::array();
      entry.push_back(id);
      entry.push_back(probability);
      if (token_bytes_.empty()) {
        entry.push_back(nullptr);
      } else {
        entry.push_back(VisibleText(token_bytes_[static_cast<size_t>(id)]));
      }
      top.push_back(std::move(entry));
    }
    Json of_layer = Json::object();
    of_layer["layer"] = seen.layer;
    of_layer["rank"] = seen.rank;
    of_layer["top"] = std::move(top);
    layers.push_back(std::move(of_layer));
  }
  Json line = Json::object();
  line["index"] = index;
  line["pos"] = pos;
  line["token"] = position.token;
  line["next"] = position.next;
  line["layers"] = std::move(layers);
  return line.dump() + "\n";
}

absl::Status LogitLens::EndRun(const ProbeRun& run) {
  const std::vector<Request> requests = std::move(requests_);
  requests_.clear();
  if (run.failed) return absl::OkStatus();
  NG_ASSIGN_OR_RETURN(AtomicFileWriter file, AtomicFileWriter::Create(path_, stop_));
  for (size_t i = 0; i < requests.size(); ++i) {
    for (const auto& [pos, position] : requests[i].positions) {
      NG_RETURN_IF_ERROR(file.Write(LineOf(static_cast<int64_t>(i), pos, position)));
    }
  }
  return file.Commit();
}

}  // namespace ng
