#include "apps/run/outputs.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/common/answer_room.h"
#include "apps/common/terminal.h"
#include "ng/config.h"
#include "ng/utf8.h"

namespace ng::run {
namespace {

// Objects and lists are made as such at once. A null that becomes one when there is no memory for
// it is left without its contents, and its destructor cannot handle that.
using Json = nlohmann::ordered_json;

// Bytes that are not UTF-8 are written as U+FFFD; the ids beside them say what they were.
std::string Line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

double Percent(int64_t part, int64_t whole) {
  return whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

// What a line of JSON says of the cache: of one with pages these figures, of any other one all that
// it counts.
Json CacheJson(std::span<const Statistic> cache, int64_t shared_tokens) {
  constexpr std::string_view kOfPages[] = {"page_tokens",     "n_pages",         "pages_held",
                                           "most_pages_held", "most_held_empty", "dropped_pages"};
  Json json = {{"shared_tokens", shared_tokens}};
  if (StatisticValue(cache, "n_pages") > 0) {
    for (const std::string_view name : kOfPages) {
      json[std::string(name)] = StatisticValue(cache, name);
    }
    return json;
  }
  for (const Statistic& figure : cache) {
    if (figure.name != "shared_tokens") json[std::string(figure.name)] = figure.value;
  }
  return json;
}

// ", cache 3 of 8 pages (12.5 % empty), shared 0 of 12 prompt tokens", of a cache of pages.
void AppendPages(std::span<const Statistic> cache, std::string* line) {
  const auto value = [&](std::string_view name) { return StatisticValue(cache, name); };
  if (value("n_pages") == 0) return;
  const int64_t most_held = value("most_pages_held");
  absl::StrAppend(line, ", cache ", most_held, " of ", value("n_pages"), " pages");
  const int64_t n_slots = most_held * value("page_tokens");
  absl::StrAppendFormat(line, " (%.1f %% empty)", Percent(value("most_held_empty"), n_slots));
  if (value("prompt_tokens") == 0) return;
  absl::StrAppend(line, ", shared ", value("shared_tokens"), " of ", value("prompt_tokens"),
                  " prompt tokens");
}

// Whether the model's makers decide about some of the sampling (run.model_defaults).
bool UsesModelDefaults(const Config& config) {
  return std::ranges::any_of(config.items(), [](const ConfigItem& item) {
    return item.origin.kind == ConfigOrigin::Kind::kModel;
  });
}

// One layer's rows, as a list for each head.
std::map<int, Json> RowsByLayer(const StepRecord& record) {
  std::map<int, Json> rows;
  for (const AttentionRow& row : record.attn_rows) {
    rows.try_emplace(row.layer, Json::array()).first->second.push_back(row.probs);
  }
  return rows;
}

using Likely = std::vector<std::pair<int32_t, float>>;  // {id, probability}

// The texts of the tokens, in their order; null without a tokenizer.
absl::StatusOr<Json> Texts(const Engine& engine, const Likely& tokens) {
  if (!engine.has_tokenizer()) return Json(nullptr);
  Json texts = Json::array();
  for (const auto& [id, p] : tokens) {
    NG_ASSIGN_OR_RETURN(std::string text, VisibleToken(engine, id));
    texts.push_back(std::move(text));
  }
  return texts;
}

Json MissedJson(const MissedAttention& missed) {
  Json json = {{"mean", missed.mean}, {"most", missed.most}};
  if (missed.layer < 0) return json;
  json["layer"] = missed.layer;
  json["head"] = missed.head;
  return json;
}

absl::StatusOr<Json> StagesJson(const Engine& engine, const std::vector<StageRecord>& stages) {
  Json list = Json::array();
  for (const StageRecord& stage : stages) {
    Json& json = list.emplace_back(Json::object());
    json["name"] = stage.name;
    json["left"] = stage.n_left;
    json["top"] = stage.top;
    NG_ASSIGN_OR_RETURN(json["top_text"], Texts(engine, stage.top));
  }
  return list;
}

}  // namespace

void AddCacheDebug(const CommandLine& line, GenerateOptions* options) {
  if (!line.debug_cache) return;
  options->cache_debug_layer = line.debug_layer;
  options->on_cache_debug = [](std::string_view text) { WriteStderr(std::string(text) + "\n"); };
}

CompletionWriter::CompletionWriter(const Engine& engine, bool jsonl, size_t n_requests,
                                   int first_index)
    : engine_(engine),
      jsonl_(jsonl),
      // The mpirun of Open MPI 5 loses what is written before a line is whole.
      stream_(!jsonl && n_requests == 1 && engine.ranks() == 1),
      first_index_(first_index),
      finished_(n_requests) {}

absl::Status CompletionWriter::OnStep(const StepRecord& record) {
  if (!stream_) return absl::OkStatus();
  if (!engine_.has_tokenizer()) {
    return WriteStdout(absl::StrCat(record.step == 0 ? "" : " ", record.token_id));
  }
  NG_ASSIGN_OR_RETURN(const std::string characters, text_.Push(engine_, record));
  return sink_ ? sink_(characters) : WriteStdout(characters);
}

absl::Status CompletionWriter::OnDone(int index, const Completion& completion) {
  Completion& kept = finished_[static_cast<size_t>(index)].emplace();
  kept.ids = completion.ids;
  kept.prompt_len = completion.prompt_len;
  kept.stop_reason = completion.stop_reason;
  kept.held_bytes = completion.held_bytes;
  kept.timings = completion.timings;
  while (next_ < finished_.size() && finished_[next_].has_value()) {
    NG_RETURN_IF_ERROR(Write(static_cast<int>(next_), *finished_[next_]));
    finished_[next_++].reset();
  }
  return absl::OkStatus();
}

absl::Status CompletionWriter::Write(int index, const Completion& completion) {
  const auto prompt_end = completion.ids.begin() + completion.prompt_len;
  if (stream_) {
    const bool failed = completion.stop_reason == StopReason::kError;
    if (failed && prompt_end == completion.ids.end()) return absl::OkStatus();
    const std::string rest = text_.Finish(completion.held_bytes);
    if (!sink_) return WriteStdout(rest + "\n");
    return rest.empty() ? absl::OkStatus() : sink_(rest);
  }
  if (!jsonl_) {
    if (engine_.has_tokenizer()) {
      NG_ASSIGN_OR_RETURN(const std::string text, CompletionText(engine_, completion));
      return WriteStdout(text + "\n");
    }
    std::string ids;
    for (auto id = prompt_end; id != completion.ids.end(); ++id) {
      absl::StrAppend(&ids, id == prompt_end ? "" : " ", *id);
    }
    return WriteStdout(ids + "\n");
  }
  const Timings& timings = completion.timings;
  Json json = Json::object();
  json["index"] = first_index_ + index;
  json["prompt_ids"] = std::vector<int32_t>(completion.ids.begin(), prompt_end);
  json["ids"] = completion.ids;
  json["text"] = nullptr;
  if (engine_.has_tokenizer()) {
    NG_ASSIGN_OR_RETURN(json["text"], CompletionText(engine_, completion));
  }
  json["stop_reason"] = StopReasonName(completion.stop_reason);
  json["timings"] = {{"load_s", timings.load_s},
                     {"prefill_s", timings.prefill_s},
                     {"prefill_tokens", timings.prefill_tokens},
                     {"decode_s", timings.decode_s},
                     {"decode_tokens", timings.decode_tokens}};
  if (timings.loaded_tokens > 0) json["timings"]["loaded_tokens"] = timings.loaded_tokens;
  if (timings.decode_steps > 0) {
    json["timings"]["decode_steps"] = timings.decode_steps;
    json["timings"]["drafted_tokens"] = timings.drafted_tokens;
    json["timings"]["kept_tokens"] = timings.kept_tokens;
  }
  NG_ASSIGN_OR_RETURN(const std::vector<Statistic> cache, engine_.CacheStatistics());
  if (!cache.empty()) json["cache"] = CacheJson(cache, timings.shared_tokens);
  return WriteStdout(Line(json));
}

absl::Status StepsWriter::OnStep(int index, const StepRecord& record) {
  Json json = Json::object();
  json["index"] = index;
  json["step"] = record.step;
  json["token_id"] = record.token_id;
  json["text"] = nullptr;
  if (engine_->has_tokenizer()) {
    NG_ASSIGN_OR_RETURN(const std::string text, engine_->Decode({&record.token_id, 1}));
    json["text"] = ReplaceInvalidUtf8(text);
  }
  json["logprob"] = record.logprob;
  json["entropy"] = record.entropy;
  json["top_k"] = record.top_k;
  NG_ASSIGN_OR_RETURN(json["top_k_text"], Texts(*engine_, record.top_k));
  if (record.drafted) json["drafted"] = *record.drafted;
  if (record.missed) json["missed"] = MissedJson(*record.missed);
  if (shown_.stages) {
    NG_ASSIGN_OR_RETURN(json["stages"], StagesJson(*engine_, record.stages));
  }
  if (shown_.attn_rows) {
    std::map<int, Json> rows = RowsByLayer(record);
    if (!rows.empty()) json["attn_row"] = rows.begin()->second;
    if (rows.size() > 1) {
      Json& by_layer = json["attn_rows"] = Json::object();
      for (auto& [layer, heads] : rows) by_layer[absl::StrCat(layer)] = std::move(heads);
    }
  }
  return file_.Write(Line(json));
}

absl::Status KeptWriter::OnLeft(int index, const HeldPositions& held) {
  for (const HeldPositions::Head& head : held.heads) {
    Json json = Json::object();
    json["index"] = index;
    json["length"] = held.length;
    json["layer"] = head.layer;
    json["kv_head"] = head.kv_head;
    json["held"] = head.positions;
    NG_RETURN_IF_ERROR(file_.Write(Line(json)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ClosingLine(const Engine& engine,
                                        std::span<const Completion> completions) {
  int64_t prefill_tokens = 0;
  int64_t generated_tokens = 0;
  int64_t decode_tokens = 0;  // all but the first of each prompt, whose logits prefill gives
  int64_t loaded_tokens = 0;
  int64_t prompt_tokens = 0;
  double prefill_s = 0.0;  // of the whole run, because prompts may run side by side or in turn
  double decode_s = 0.0;
  std::map<std::string_view, int> reasons;
  for (const Completion& completion : completions) {
    prefill_tokens += completion.timings.prefill_tokens;
    generated_tokens += std::ssize(completion.ids) - completion.prompt_len;
    decode_tokens += completion.timings.decode_tokens;
    loaded_tokens += completion.timings.loaded_tokens;
    prompt_tokens += completion.prompt_len;
    prefill_s += completion.timings.prefill_share_s;
    decode_s += completion.timings.decode_share_s;
    ++reasons[StopReasonName(completion.stop_reason)];
  }
  std::string line = absl::StrCat("seed ", engine.config().Int("sampler.seed"));
  for (const auto& [reason, count] : reasons) {
    absl::StrAppend(&line, ", ", absl::string_view(reason.data(), reason.size()));
    if (completions.size() > 1) absl::StrAppend(&line, " x ", count);
  }
  const auto append_rate = [&](const char* what, int64_t tokens, double seconds) {
    if (tokens == 0 || seconds <= 0.0) return;
    absl::StrAppendFormat(&line, "%s at %.1f tok/s", what, static_cast<double>(tokens) / seconds);
  };
  absl::StrAppend(&line, ", prefill ", prefill_tokens, " tokens");
  append_rate("", prefill_tokens, prefill_s);
  absl::StrAppend(&line, ", generated ", generated_tokens, " tokens");
  append_rate(", decode", decode_tokens, decode_s);
  if (loaded_tokens > 0) {
    absl::StrAppend(&line, ", loaded ", loaded_tokens, " of ", prompt_tokens, " prompt tokens");
  }
  if (UsesModelDefaults(engine.config())) absl::StrAppend(&line, ", model_defaults");
  if (!engine.unused_sampling().empty()) absl::StrAppend(&line, ", ", engine.unused_sampling());
  NG_ASSIGN_OR_RETURN(const std::vector<std::string> reports, engine.Reports());
  for (const std::string& report : reports) absl::StrAppend(&line, ", ", report);
  NG_ASSIGN_OR_RETURN(const std::vector<Statistic> cache, engine.CacheStatistics());
  AppendPages(cache, &line);
  return line;
}

std::string HowToGetMore(const Engine& engine, std::span<const GenerateRequest> requests,
                         std::span<const Completion> completions) {
  for (size_t i = 0; i < completions.size(); ++i) {
    GenerateRequest request = requests[i];
    const int64_t n = request.max_new_tokens;
    if (completions[i].stop_reason != StopReason::kMaxNewTokens || n <= 0) continue;
    request.load_cache.clear();  // it was read; only the caps are asked for
    const std::string cut = absl::StrCat(", cut after ", n, n == 1 ? " token" : " tokens");
    if (FitContext(engine, 2 * n, &request).ok() && request.max_new_tokens > n) {
      return absl::StrCat(cut, "; -n ", request.max_new_tokens, " gives more");
    }
    const Config& config = engine.config();
    const int64_t cache = config.Int("cache.max_tokens");
    const int64_t context = engine.model_shape().max_positions;
    if (cache > 0 && (context == 0 || cache < context)) {
      return absl::StrCat(cut, "; cache.max_tokens above ", cache, " gives more");
    }
    return absl::StrCat(cut, ", which fill the context; run.on_full=recompute goes on beyond it");
  }
  return "";
}

}  // namespace ng::run
