#include "apps/run/tensor_saver.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/common/token_text.h"
#include "ng/config.h"
#include "ng/point.h"

namespace ng::run {
namespace {

using Json = nlohmann::ordered_json;

// The rows of one query, as a tensor [n_heads, n_keys] for each layer.
void AddRows(std::span<const AttentionRow> rows, const std::string& prefix,
             const std::string& suffix, std::vector<NamedTensor>* out) {
  std::map<int, NamedTensor> by_layer;
  for (const AttentionRow& row : rows) {
    NamedTensor& tensor = by_layer[row.layer];
    tensor.name = absl::StrCat(prefix, ".layer", row.layer, suffix);
    if (tensor.shape.empty()) tensor.shape = {0, static_cast<int64_t>(row.probs.size())};
    ++tensor.shape[0];
    tensor.data.insert(tensor.data.end(), row.probs.begin(), row.probs.end());
  }
  for (auto& [layer, tensor] : by_layer) out->push_back(std::move(tensor));
}

}  // namespace

absl::StatusOr<std::vector<PointAt>> ReadPoints(const Engine& engine, CommandLine* line) {
  const std::vector<PointShape>& all = engine.points();
  std::vector<bool> chosen(all.size());
  for (const std::string& pattern : line->save_points) {
    absl::StatusOr<std::vector<PointShape>> points = ChoosePoints(all, pattern);
    if (!points.ok()) {
      return Annotate(
          points.status(),
          "--save-tensors (logits, decode_logits, attn_row, attn_full, dropped_at, points): ");
    }
    for (const PointShape& point : *points) {
      const auto found = std::ranges::find(all, point.at, &PointShape::at);
      chosen[static_cast<size_t>(std::distance(all.begin(), found))] = true;
    }
  }
  std::vector<PointAt> points;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!chosen[i]) continue;
    if (all[i].at.point == Point::kLogits) {
      line->save_logits = true;
    } else {
      points.push_back(all[i].at);
    }
  }
  return points;
}

// Step s holds the row of the query that chose token s. For step 0 this is the row of the last
// prompt token, otherwise that of token s - 1, which is the token that decode step s - 1 consumes.
void TensorSaver::OnStep(int index, const StepRecord& record) {
  if (!line_.save_attn_row) return;
  if (record.step == 0) {
    AddRows(record.attn_rows, absl::StrCat("attn_row_prefill.", index), "", &tensors_);
  } else {
    AddRows(record.attn_rows, absl::StrCat("attn_row_decode.", index),
            absl::StrCat(".step", record.step - 1), &tensors_);
  }
}

void TensorSaver::OnLeft(int index, const HeldPositions& held) {
  if (line_.save_dropped_at) survivals_[index].Add(held);
}

absl::Status TensorSaver::OnDone(int index, const Completion& completion) {
  const int64_t vocab_size = engine_.model_shape().vocab_size;
  const auto add = [&](const char* name, const std::vector<float>& rows) {
    const int64_t n_rows = static_cast<int64_t>(rows.size()) / vocab_size;
    tensors_.push_back({absl::StrCat(name, ".", index), {n_rows, vocab_size}, rows});
  };
  if (line_.save_logits) add("logits", completion.captured.logits);
  if (line_.save_decode_logits) add("decode_logits", completion.captured.decode_logits);
  if (line_.save_attn_full) AddAttnFull(index, completion);
  if (line_.save_dropped_at) AddDroppedAt(index, completion);
  for (const CapturedPoint& captured : completion.captured.points) {
    if (std::ranges::count(points_, captured.at) != 0) AddPoint(index, captured);
  }
  return line_.save_points.empty() ? absl::OkStatus() : AddTokens(index, completion);
}

void TensorSaver::AddPoint(int index, const CapturedPoint& captured) {
  if (captured.n_values == 0) return;  // nothing was fed
  const auto shape = std::ranges::find(engine_.points(), captured.at, &PointShape::at);
  NamedTensor tensor;
  tensor.name = absl::StrCat(PointText(captured.at), ".", index);
  tensor.shape = {std::ssize(captured.rows) / captured.n_values};
  if (shape->n_heads > 0) tensor.shape.push_back(shape->n_heads);
  tensor.shape.push_back(shape->width);
  tensor.data = captured.rows;
  tensors_.push_back(std::move(tensor));
}

absl::Status TensorSaver::AddTokens(int index, const Completion& completion) {
  Json tokens = Json::object();
  tokens["prompt_len"] = completion.prompt_len;
  tokens["ids"] = completion.ids;
  tokens["text"] = nullptr;
  if (engine_.has_tokenizer()) {
    std::vector<std::string> texts;
    for (const int32_t id : completion.ids) {
      NG_ASSIGN_OR_RETURN(texts.emplace_back(), VisibleToken(engine_, id));
    }
    tokens["text"] = std::move(texts);
  }
  metadata_[absl::StrCat("tokens.", index)] = tokens.dump();
  return absl::OkStatus();
}

absl::Status TensorSaver::Write(const std::atomic<bool>* stop) {
  // Other files are compared as they are: equal tensors, equal bytes.
  if (line_.save_points.empty()) return WriteSafetensors(line_.save, tensors_, {.stop = stop});
  metadata_["config"] = engine_.config().ToIni();
  NG_ASSIGN_OR_RETURN(const std::vector<IdentityField> identity, engine_.Identity());
  for (const auto& [name, value] : identity) metadata_[name] = value;
  return WriteSafetensors(line_.save, tensors_, {.metadata = metadata_, .stop = stop});
}

void TensorSaver::AddAttnFull(int index, const Completion& completion) {
  const std::vector<AttentionRow>& rows = completion.captured.attn_full;
  if (rows.empty()) return;
  const auto n_keys = static_cast<int64_t>(rows.back().probs.size());
  // [head][row of the query][key], zero above the diagonal
  std::map<int, std::map<int, std::vector<float>>> matrices;
  for (const AttentionRow& row : rows) {
    std::vector<float>& matrix = matrices[row.layer][row.head];
    matrix.insert(matrix.end(), row.probs.begin(), row.probs.end());
    matrix.resize(matrix.size() + static_cast<size_t>(n_keys) - row.probs.size());
  }
  for (const auto& [layer, heads] : matrices) {
    NamedTensor tensor;
    tensor.name = absl::StrCat("attn_full.", index, ".layer", layer);
    tensor.shape = {static_cast<int64_t>(heads.size()), n_keys, n_keys};
    for (const auto& [head, matrix] : heads) {
      tensor.data.insert(tensor.data.end(), matrix.begin(), matrix.end());
    }
    tensors_.push_back(std::move(tensor));
  }
}

// Where none has left the tensor is there only if it was asked for by its name.
void TensorSaver::AddDroppedAt(int index, const Completion& completion) {
  const int64_t n_tokens = std::ssize(completion.ids);
  NamedTensor tensor;
  tensor.name = absl::StrCat("dropped_at.", index);
  const auto found = survivals_.find(index);
  if (found != survivals_.end()) {
    const std::vector<int32_t> left_at = found->second.LeftAt(n_tokens);
    tensor.shape = {found->second.n_layers(), found->second.n_kv_heads(), n_tokens};
    tensor.data.assign(left_at.begin(), left_at.end());
    survivals_.erase(found);
  } else if (line_.dropped_at_named) {
    tensor.shape = {std::ssize(engine_.attention_layers()), engine_.model_shape().n_kv_heads,
                    n_tokens};
    tensor.data.assign(static_cast<size_t>(tensor.shape[0] * tensor.shape[1] * n_tokens),
                       static_cast<float>(view::kNotLeft));
  } else {
    return;
  }
  tensors_.push_back(std::move(tensor));
}

}  // namespace ng::run
