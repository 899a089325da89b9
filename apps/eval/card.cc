#include "apps/eval/card.h"

#include <algorithm>
#include <memory>
#include <span>

#include "absl/strings/str_cat.h"
#include "ng/config.h"
#include "ng/plugins.h"

namespace ng::eval {
namespace {

constexpr int64_t kPrefillTokens = 512;
constexpr int64_t kDecodeTokens = 32;

// The tokens that are timed when `most` tokens fit a sequence; one token is there before them.
int64_t DecodeSteps(int64_t most) { return std::min(kDecodeTokens, most - 1); }

// cache.codec = int4 means int8 keys; the config decides that.
std::vector<std::string> CodecOverrides(const std::string& codec) {
  return {"cache.codec=" + codec, "cache.codec_k=", "cache.codec_v="};
}

// The speed of a workload that is either a prefill or decode.
double OnlyOne(const Speed& speed) {
  return speed.prefill_tok_s ? *speed.prefill_tok_s : *speed.decode_tok_s;
}

absl::StatusOr<SpeedBesideReference> MeasureSpeed(Engine& reference, Engine& candidate,
                                                  const Workload& workload) {
  SpeedMeter of_reference(reference, workload);
  SpeedMeter of_candidate(candidate, workload);
  for (SpeedMeter* meter : {&of_reference, &of_candidate}) NG_RETURN_IF_ERROR(meter->Open());
  std::vector<double> tok_s, ratios;  // [1 + repeat]
  for (int64_t round = 0; round <= workload.repeat; ++round) {
    NG_ASSIGN_OR_RETURN(const Speed beside, of_reference.Round());
    NG_ASSIGN_OR_RETURN(const Speed own, of_candidate.Round());
    tok_s.push_back(OnlyOne(own));
    ratios.push_back(OnlyOne(own) / OnlyOne(beside));
  }
  return SpeedBesideReference{workload, MedianButFirst(tok_s), MedianButFirst(ratios)};
}

absl::Status FillRow(Engine& reference, const Plan& plan, const EngineOptions& options,
                     CardRow* row) {
  NG_ASSIGN_OR_RETURN(const Config config, Engine::ReadConfig(options));
  row->codecs = CodecsOf(config);
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Open(options));
  NG_RETURN_IF_ERROR(engine->Load(plan.needs));
  NG_ASSIGN_OR_RETURN(const StepCost cost, engine->CostOfStep());
  row->bytes_per_token = cost.cache_bytes_per_token;
  NG_ASSIGN_OR_RETURN(row->evaluation, Evaluate(reference, engine.get(), plan.job));
  for (const Workload& workload : plan.workloads) {
    NG_ASSIGN_OR_RETURN(row->speeds.emplace_back(), MeasureSpeed(reference, *engine, workload));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> ReferenceOverrides() { return CodecOverrides("f32"); }

absl::Status CheckDepths(const CommandLine& line, int64_t limit) {
  const int64_t n_steps = DecodeSteps(limit);
  for (const int64_t depth : line.depths) {
    const int64_t end = HeldTokens({.depth = depth}) + n_steps;
    if (limit == 0 || end <= limit) continue;
    return LimitError(absl::StrCat("--depths ", depth, ": with ", n_steps, " tokens to decode ",
                                   end, " > ", limit, " tokens that fit; must be at most ",
                                   limit - n_steps));
  }
  return absl::OkStatus();
}

std::vector<Workload> CardWorkloads(const CommandLine& line, int64_t window, int64_t limit) {
  std::vector<Workload> workloads;
  if (line.repeat == 0) return workloads;
  const int64_t most = limit > 0 ? limit : window;
  workloads.push_back({.prompt_tokens = std::min(kPrefillTokens, most), .repeat = line.repeat});
  const int64_t n_steps = DecodeSteps(most);
  if (n_steps == 0) return workloads;
  std::vector<int64_t> depths = line.depths;
  if (depths.empty()) depths = {0};
  if (line.depths.empty() && window - n_steps > 1) depths.push_back(window - n_steps);
  for (const int64_t depth : depths) {
    workloads.push_back({.decode_tokens = n_steps, .depth = depth, .repeat = line.repeat});
  }
  return workloads;
}

absl::Status MakeCard(Engine& engine, const Plan& plan,
                      const std::function<absl::Status(const CardRow&)>& on_row) {
  NG_ASSIGN_OR_RETURN(const PluginHost host, Engine::FindPlugins(plan.reference));
  for (const PluginFile& file : host.files()) {
    if (file.kind != "cache") continue;
    for (const CodecInfo& info : kCodecTable) {
      const std::string codec(info.name);
      CardRow row;
      row.cache = file.name;
      row.codecs = {codec, codec};
      EngineOptions options = plan.reference;
      options.overrides.push_back("cache.name=" + file.name);
      for (const std::string& text : CodecOverrides(codec)) options.overrides.push_back(text);
      row.status = FillRow(engine, plan, options, &row);
      if (absl::IsCancelled(row.status)) return row.status;
      NG_RETURN_IF_ERROR(on_row(row));
    }
  }
  return absl::OkStatus();
}

}  // namespace ng::eval
