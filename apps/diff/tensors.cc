#include "apps/diff/tensors.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/common/json.h"

namespace ng::diff {
namespace {

constexpr std::string_view kTokensKey = "tokens.";  // and the prompt's index: {"ids": [...], ...}
constexpr int kTokensDepth = 3;

// The index behind the last dot of a name, or nothing.
std::optional<int> IndexOf(std::string_view name, size_t dot) {
  int index = 0;
  const char* const end = name.data() + name.size();
  if (dot == name.npos) return std::nullopt;
  const auto [stopped, error] = std::from_chars(name.data() + dot + 1, end, index);
  if (error != std::errc() || stopped != end || index < 0) return std::nullopt;
  return index;
}

}  // namespace

absl::StatusOr<Tensors> Tensors::Open(const std::string& path,
                                      const std::vector<PointShape>& points) {
  NG_ASSIGN_OR_RETURN(SafetensorsReader file, SafetensorsReader::Open(path));
  Tensors tensors(std::move(file));
  for (const StoredTensor& tensor : tensors.file_.tensors()) {
    NG_RETURN_IF_ERROR(tensors.Add(tensor, points));
  }
  if (tensors.stored_.empty()) {
    return ModelFileError(absl::StrCat(path, ": has ", tensors.others_.size(),
                                       " tensors, none is a point of the model and a prompt's "
                                       "number, as embed.0 or layer0.out.0"));
  }
  std::set<std::string> names;
  for (const auto& [key, stored] : tensors.stored_) names.insert(key.first);
  for (const PointShape& point : points) {
    if (names.contains(PointText(point.at))) tensors.points_.push_back(point);
  }
  NG_RETURN_IF_ERROR(tensors.ReadIds());
  return tensors;
}

absl::Status Tensors::Add(const StoredTensor& tensor, const std::vector<PointShape>& points) {
  const size_t dot = tensor.name.rfind('.');
  const std::optional<int> prompt = IndexOf(tensor.name, dot);
  const std::string name = tensor.name.substr(0, dot);
  const auto point =
      std::ranges::find(points, name, [](const PointShape& shape) { return PointText(shape.at); });
  if (!prompt || point == points.end()) {
    others_.push_back(tensor.name);
    return absl::OkStatus();
  }
  const std::vector<int64_t>& shape = tensor.shape;
  const bool flat = shape.size() == 2 && shape[1] == point->values();
  const bool by_heads = point->n_heads > 0 && shape.size() == 3 && shape[1] == point->n_heads &&
                        shape[2] == point->width;
  if (!flat && !by_heads) {
    return ModelFileError(
        absl::StrCat(path(), ": tensor ", tensor.name, " is [", absl::StrJoin(shape, ", "),
                     "], the model's ", name, " is [tokens, ",
                     point->n_heads > 0 ? absl::StrCat(point->n_heads, ", ") : std::string(),
                     point->width, "]"));
  }
  stored_[{name, *prompt}] = {&tensor, shape[0], 0};
  return absl::OkStatus();
}

absl::Status Tensors::ReadIds() {
  for (const auto& [key, text] : file_.metadata()) {
    if (!std::string_view(key).starts_with(kTokensKey)) continue;
    const std::optional<int> prompt = IndexOf(key, kTokensKey.size() - 1);
    const std::string where = absl::StrCat(path(), ": metadata ", key);
    absl::StatusOr<nlohmann::json> tokens = ParseUserJson(text, where, kTokensDepth);
    if (!tokens.ok()) return ModelFileError(tokens.status().message().data());
    const auto is_id = [](const nlohmann::json& id) {
      return id.is_number_integer() && id >= 0 && id <= INT32_MAX;
    };
    const bool sound = prompt && tokens->is_object() && tokens->contains("ids") &&
                       (*tokens)["ids"].is_array() && std::ranges::all_of((*tokens)["ids"], is_id);
    if (!sound) return ModelFileError(where + ": must be {\"ids\": [token ids]}");
    (*tokens)["ids"].get_to(ids_[*prompt]);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<GenerateRequest>> Tensors::Requests() const {
  std::vector<GenerateRequest> requests;
  for (const auto& [key, stored] : stored_) {
    const auto ids = ids_.find(key.second);
    if (ids == ids_.end()) {
      return UsageError(absl::StrCat(path(), ": does not say which tokens ", key.first, ".",
                                     key.second, " is of (metadata tokens.", key.second,
                                     "); give a prompt, as with --prompt-ids"));
    }
    const auto prompt = static_cast<size_t>(key.second);
    if (prompt >= ids_.size()) {
      return ModelFileError(absl::StrCat(path(), ": has tokens of ", ids_.size(),
                                         " prompts, and tensors of prompt ", prompt));
    }
    if (prompt >= requests.size()) requests.resize(prompt + 1);
    const size_t n_rows = std::min(static_cast<size_t>(stored.n_rows), ids->second.size());
    std::vector<int32_t>& prompt_ids = requests[prompt].prompt_ids;
    if (n_rows <= prompt_ids.size()) continue;
    prompt_ids.assign(ids->second.begin(), ids->second.begin() + static_cast<int64_t>(n_rows));
  }
  return requests;
}

absl::Status Tensors::CheckToken(const TokenRow& token) const {
  const auto ids = ids_.find(token.request);
  if (ids == ids_.end() || token.pos >= std::ssize(ids->second)) return absl::OkStatus();
  const int32_t stored = ids->second[static_cast<size_t>(token.pos)];
  if (stored == token.token) return absl::OkStatus();
  return UsageError(absl::StrCat(path(), ": its rows are of other tokens: at position ", token.pos,
                                 " of prompt ", token.request, " it has id ", stored,
                                 ", the run feeds ", token.token,
                                 "; without a prompt option the run takes those of the file"));
}

absl::Status Tensors::OnPoint(const PointRows& rows, Comparer& comparer) {
  const std::string name = PointText(rows.at);
  row_.resize(static_cast<size_t>(rows.values()));
  for (int64_t i = 0; i < rows.n_rows(); ++i) {
    const TokenRow& token = rows.tokens[static_cast<size_t>(i)];
    NG_RETURN_IF_ERROR(CheckToken(token));
    const auto found = stored_.find({name, token.request});
    if (found == stored_.end() || token.pos >= found->second.n_rows) {
      comparer.AddNotCompared(rows.at, 1);
      continue;
    }
    NG_RETURN_IF_ERROR(comparer.AddRow(Side::kA, rows.at, token, {rows.Row(i), row_.size()}));
    if (!comparer.IsAhead(Side::kA)) continue;  // computed again
    Stored& stored = found->second;
    ++stored.n_seen;
    NG_RETURN_IF_ERROR(file_.ReadAt(*stored.tensor, token.pos * rows.values(), row_));
    NG_RETURN_IF_ERROR(comparer.AddRow(Side::kB, rows.at, token, row_));
  }
  return absl::OkStatus();
}

absl::StatusOr<LockstepResult> Tensors::Compare(const SideRun& a, const Lockstep& lockstep) {
  Comparer comparer(lockstep.points, lockstep.max_waiting_bytes);
  GenerateOptions options;
  for (const PointShape& point : lockstep.points) options.look_at.push_back(point.at);
  options.on_point = [&](const PointRows& rows) { return OnPoint(rows, comparer); };
  NG_ASSIGN_OR_RETURN(std::vector<Completion> done, a.engine.Generate(a.requests, options));
  if (lockstep.stop != nullptr && *lockstep.stop) return InterruptedError("interrupted");
  for (const PointShape& point : points_) {
    for (const auto& [key, stored] : stored_) {
      if (key.first != PointText(point.at)) continue;
      comparer.AddNotCompared(point.at, stored.n_rows - stored.n_seen);
    }
  }
  LockstepResult result;
  for (Completion& completion : done) result.ids.push_back(std::move(completion.ids));
  result.comparison = comparer.Finish();
  return result;
}

}  // namespace ng::diff
