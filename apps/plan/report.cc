#include "apps/plan/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ng/config.h"

namespace ng::plan {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kFirstLength = 128;
constexpr int64_t kLastLength = 131072;

constexpr const char* kFormula =
    "rows * row + steps * logit_row + (keys seen by each query, summed) * key; "
    "row = 2 * multiply-adds of the layers' matrices, logit_row = 2 * those of the head, "
    "key = 2 * n_heads * (head_dim of k + head_dim of v), of the layers with attention, summed";

std::string CodecText(const RunPlan& plan) {
  if (!plan.cache.codec.empty()) return OneLine(plan.cache.codec);
  const std::string k(CodecName(plan.codec_k));
  const std::string v(CodecName(plan.codec_v));
  return k == v ? k : absl::StrCat("k ", k, ", v ", v);
}

void AppendBytes(std::string_view indent, std::string_view name, int64_t bytes, std::string* out) {
  const std::string label = absl::StrCat(std::string(indent), std::string(name));
  const bool small = bytes < 1000000;
  absl::StrAppendFormat(out, "%-36s %15d  %11.1f %s\n", label, bytes,
                        static_cast<double>(bytes) / (small ? 1e3 : 1e6), small ? "kB" : "MB");
}

// By which a backend chooses what it reads.
int64_t BoundsPerToken(const RunPlan& plan) {
  int64_t bytes = 0;
  for (const CacheReads& reads : plan.step.cache_reads) bytes += reads.bounds_per_token;
  return bytes;
}

// "7 MB", "1.2 GB".
std::string Size(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= 1e10) return absl::StrFormat("%.0f GB", value / 1e9);
  if (value >= 1e9) return absl::StrFormat("%.1f GB", value / 1e9);
  if (value >= 1e6) return absl::StrFormat("%.0f MB", value / 1e6);
  return absl::StrFormat("%.0f kB", value / 1e3);
}

// The answer that comes first.
std::string Verdict(const RunPlan& plan) {
  const std::string sizes =
      absl::StrCat(Size(plan.needed_bytes()), " of ", Size(plan.available_bytes));
  if (CheckMemory(plan).ok()) return absl::StrCat("fits: ", sizes, "\n\n");
  return absl::StrCat("does not fit: ", sizes, "\n", plan.remedy,
                      plan.remedy.empty() ? "\n" : "\n\n");
}

std::string MemoryTable(const RunPlan& plan, const std::string& store) {
  std::string out =
      absl::StrCat("memory for ", plan.max_sequences, " x ", plan.max_tokens, " tokens, bytes\n");
  AppendBytes("  ", "weights", plan.weights.bytes(), &out);
  AppendBytes("    ", "embedding", plan.weights.embedding_bytes, &out);
  AppendBytes("    ", plan.weights.head_bytes > 0 ? "head" : "head: the embedding",
              plan.weights.head_bytes, &out);
  AppendBytes("    ", "layers' matrices", plan.weights.layer_bytes, &out);
  AppendBytes("    ", "norms, biases, positions", plan.weights.vector_bytes, &out);
  out += plan.quantised;
  AppendBytes("  ", absl::StrCat("cache (", store, ", ", CodecText(plan), ")"), plan.cache.bytes,
              &out);
  for (const HeldLayers& layers : plan.held) absl::StrAppend(&out, "    ", HeldLine(layers), "\n");
  if (plan.cache.slots > 0) absl::StrAppend(&out, "    ", SlotsLine(plan.cache), "\n");
  AppendBytes("    ", "a token, in all layers", plan.cache.bytes_per_token, &out);
  if (BoundsPerToken(plan) > 0) {
    AppendBytes("    ", "of it bounds of keys", BoundsPerToken(plan), &out);
  }
  const std::string reads = ReadsLine(plan.step.cache_reads, plan.max_tokens);
  if (!reads.empty()) absl::StrAppend(&out, "    ", reads, "\n");
  if (plan.cache.disk_bytes > 0) {
    AppendBytes("    ", "its files, on disk", plan.cache.disk_bytes, &out);
  }
  if (plan.state_bytes > 0) AppendBytes("  ", "states", plan.state_bytes, &out);
  if (plan.checkpoints > 0) absl::StrAppend(&out, "    ", CheckpointsLine(plan.checkpoints), "\n");
  if (plan.drafter_bytes > 0) AppendBytes("  ", "drafter", plan.drafter_bytes, &out);
  if (plan.adapter_bytes > 0) AppendBytes("  ", "adapters", plan.adapter_bytes, &out);
  AppendBytes("  ", "activations", plan.activation_bytes, &out);
  AppendBytes("  ", "reading (before the cache is used)", plan.load_scratch_bytes, &out);
  AppendBytes("  ", "needed: the most at a time", plan.needed_bytes(), &out);
  AppendBytes("  ", "available", plan.available_bytes, &out);
  AppendBytes("  ", "resident already: the program", plan.program_bytes, &out);
  return out;
}

std::string RanksTable(const RunPlan& plan, const Run& run) {
  if (plan.ranks == 1) return "";
  std::string out = absl::StrCat(
      "\nranks: ", plan.ranks, plan.by_layers ? " by layers" : " by heads",
      ", of which this is one that takes most; bytes that ",
      plan.by_layers ? "each hands on, and that the last one shares\n" : "all of them gather\n");
  AppendBytes("  ", "a row", plan.gathered_row_bytes, &out);
  AppendBytes("  ", "its logits", plan.gathered_logit_bytes, &out);
  AppendBytes("  ", "a step", plan.gathered_step_bytes, &out);
  if (plan.by_layers) AppendBytes("  ", "a piece of a step", plan.gathered_piece_bytes, &out);
  AppendBytes("  ", "a decoded token, on all links", SentBytes(plan), &out);
  absl::StrAppendFormat(&out,
                        "  %d messages a token, one after the other, take %.3f ms at %d Mbit/s "
                        "and %d us a message\n",
                        plan.gathers, 1e3 * LinkSeconds(plan, run), run.link_mbit, run.link_us);
  return out;
}

std::string MachinesTable(const std::vector<Machines>& all, const RunPlan& plan, const Run& run) {
  if (all.empty()) return "";
  std::string out = absl::StrFormat(
      "\na decoded token of one sequence by machines, which read %d MB/s; ms\n"
      "  %8s %12s %9s %9s %9s  %12s %9s %9s %9s\n",
      run.memory_mbyte, "machines", "heads: MB", "compute", "links", "in all", "layers: MB",
      "compute", "links", "in all");
  const auto add = [&](const std::optional<SplitTime>& time) {
    if (!time) {
      absl::StrAppendFormat(&out, " %12s %9s %9s %9s", "-", "-", "-", "-");
      return;
    }
    absl::StrAppendFormat(&out, " %12.0f %9.2f %9.2f %9.2f",
                          static_cast<double>(time->needed_bytes) / 1e6, 1e3 * time->compute_s,
                          1e3 * time->links_s, 1e3 * time->total_s());
  };
  for (const Machines& machines : all) {
    absl::StrAppendFormat(&out, "  %8d", machines.n);
    add(machines.heads);
    out += ' ';
    add(machines.layers);
    out += '\n';
    if (machines.n != plan.ranks) continue;
    const Fastest here = FastestOf({machines});
    absl::StrAppendFormat(&out, "           on %d, fabric.split = %s is the faster one\n", here.n,
                          here.by_layers ? "layers" : "heads");
  }
  const Fastest fastest = FastestOf(all);
  absl::StrAppendFormat(&out, "  more than %d make no token faster: %.2f ms, %.1f a second\n",
                        fastest.n, 1e3 * fastest.total_s, 1.0 / fastest.total_s);
  return out;
}

Json MachinesJson(const std::vector<Machines>& all) {
  Json list = Json::array();
  for (const Machines& machines : all) {
    Json json = {{"machines", machines.n}, {"heads", nullptr}, {"layers", nullptr}};
    for (const auto& [name, time] :
         {std::pair("heads", &machines.heads), std::pair("layers", &machines.layers)}) {
      if (!*time) continue;
      json[name] = {{"needed", (*time)->needed_bytes},
                    {"sent_per_token", (*time)->sent_bytes},
                    {"compute_s", (*time)->compute_s},
                    {"links_s", (*time)->links_s},
                    {"token_s", (*time)->total_s()}};
    }
    list.push_back(json);
  }
  return list;
}

std::string OperationsTable(const Subject& subject, const UnitOperations& units) {
  const Run& run = subject.run;
  const Operations with = WithCache(units, run);
  const Operations without = WithoutCache(units, run);
  std::string out = absl::StrCat("operations of prefill ", run.prompt_tokens, " and decode ",
                                 run.decode_tokens, ", one sequence\n  ", kFormula, "\n");
  absl::StrAppendFormat(&out, "  row %.6g, logit_row %.6g, key %.6g\n", units.row, units.logit_row,
                        units.key);
  absl::StrAppendFormat(&out, "  %-20s %12s %12s\n", "", "with cache", "without");
  const auto row = [&](const char* name, double a, double b) {
    absl::StrAppendFormat(&out, "  %-20s %12.4g %12.4g\n", name, a, b);
  };
  row("layers' matrices", with.matrices, without.matrices);
  row("head", with.head, without.head);
  row("attention", with.attention, without.attention);
  row("in all", with.total(), without.total());
  absl::StrAppendFormat(&out, "  without / with %.4g\n", without.total() / with.total());
  return out;
}

// Of K and V of a sequence. What has left takes nothing.
int64_t BytesOf(const CachePlan& cache, int64_t tokens) {
  return cache.bytes_per_token * (cache.slots > 0 ? std::min(tokens, cache.slots) : tokens);
}

std::string GrowthTable(const Subject& subject) {
  const RunPlan& plan = subject.plan;
  const auto n_layers = static_cast<double>(subject.engine.attention_layers().size());
  std::string out = absl::StrFormat("cache of one sequence by its length, %s\n  %8s %15s %15s\n",
                                    CodecText(plan), "tokens", "MB a layer", "MB");
  const auto add = [&](int64_t tokens) {
    const double mb = static_cast<double>(BytesOf(plan.cache, tokens)) / 1e6;
    absl::StrAppendFormat(&out, "  %8d %15.3f %15.3f\n", tokens, mb / n_layers, mb);
  };
  const int64_t most = MostTokens(subject.engine);
  const int64_t last = most > 0 ? std::min(most, kLastLength) : kLastLength;
  for (int64_t tokens = kFirstLength; tokens < last; tokens *= 2) add(tokens);
  add(last);
  const bool windows = std::ranges::any_of(
      plan.step.cache_reads, [](const CacheReads& reads) { return reads.window > 0; });
  if (windows) {
    out += "  where layers with a sliding window hold all tokens; long runs hold fewer\n";
  }
  return out;
}

Json OperationsJson(const Operations& operations) {
  return {{"matrices", operations.matrices},
          {"head", operations.head},
          {"attention", operations.attention},
          {"total", operations.total()}};
}

Json MemoryJson(const RunPlan& plan) {
  Json json = Json::object();
  json["weights"] = {{"embedding", plan.weights.embedding_bytes},
                     {"head", plan.weights.head_bytes},
                     {"layers", plan.weights.layer_bytes},
                     {"vectors", plan.weights.vector_bytes},
                     {"total", plan.weights.bytes()}};
  json["cache"] = plan.cache.bytes;
  json["cache_per_token"] = plan.cache.bytes_per_token;
  if (BoundsPerToken(plan) > 0) {
    const BytesRead read = ReadAt(plan.step.cache_reads, plan.max_tokens);
    json["bounds_per_token"] = BoundsPerToken(plan);
    json["read_of_cache"] = {
        {"keys_and_values", read.keys_and_values}, {"bounds", read.bounds}, {"all", read.all}};
  }
  if (plan.cache.disk_bytes > 0) json["cache_files"] = plan.cache.disk_bytes;
  if (plan.state_bytes > 0) json["states"] = plan.state_bytes;
  if (plan.drafter_bytes > 0) json["drafter"] = plan.drafter_bytes;
  if (plan.adapter_bytes > 0) json["adapters"] = plan.adapter_bytes;
  json["activations"] = plan.activation_bytes;
  json["loading"] = plan.load_scratch_bytes;
  json["needed"] = plan.needed_bytes();
  json["available"] = plan.available_bytes;
  json["program"] = plan.program_bytes;
  return json;
}

}  // namespace

int64_t MostTokens(const Engine& engine) {
  const int64_t context = engine.model_shape().max_positions;
  const int64_t cache = engine.config().Int("cache.max_tokens");
  return context > 0 && cache > 0 ? std::min(context, cache) : std::max(context, cache);
}

std::string JsonLine(const Subject& subject) {
  const auto& [engine, model, plan, run, machines] = subject;
  const UnitOperations units = UnitsOf(plan.step);
  const Operations with = WithCache(units, run);
  const Operations without = WithoutCache(units, run);
  Json json = Json::object();
  json["model"] = model;
  json["weights"] = plan.step.weights;
  json["cache"] = engine.config().Text("cache.name");
  json["codec_k"] = CodecName(plan.codec_k);
  json["codec_v"] = CodecName(plan.codec_v);
  if (!plan.cache.codec.empty()) json["codec"] = OneLine(plan.cache.codec);
  json["attention"] = engine.config().Text("attention.name");
  json["isa"] = IsaName(engine.isa());
  json["threads"] = engine.threads();
  json["prompt_tokens"] = run.prompt_tokens;
  json["decode_tokens"] = run.decode_tokens;
  json["max_tokens"] = plan.max_tokens;
  json["max_sequences"] = plan.max_sequences;
  if (plan.checkpoints > 0) json["checkpoints"] = plan.checkpoints;
  json["bytes"] = MemoryJson(plan);
  if (plan.ranks > 1) {
    json["ranks"] = {{"ranks", plan.ranks},
                     {"rank", plan.rank},
                     {"split", plan.by_layers ? "layers" : "heads"},
                     {"row", plan.gathered_row_bytes},
                     {"logits", plan.gathered_logit_bytes},
                     {"step", plan.gathered_step_bytes},
                     {"sent_per_token", SentBytes(plan)},
                     {"gathers", plan.gathers},
                     {"gather_s", LinkSeconds(plan, run)}};
    if (plan.by_layers) json["ranks"]["piece"] = plan.gathered_piece_bytes;
    const Fastest fastest = FastestOf(machines);
    json["ranks"]["machines"] = MachinesJson(machines);
    json["ranks"]["fastest"] = {{"machines", fastest.n},
                                {"split", fastest.by_layers ? "layers" : "heads"},
                                {"token_s", fastest.total_s}};
  }
  json["operations"] = {{"formula", kFormula},
                        {"row", units.row},
                        {"logit_row", units.logit_row},
                        {"key", units.key},
                        {"with_cache", OperationsJson(with)},
                        {"without_cache", OperationsJson(without)},
                        {"ratio", without.total() / with.total()}};
  Json growth = Json::array();
  for (int64_t tokens = kFirstLength; tokens <= kLastLength; tokens *= 2) {
    growth.push_back({{"tokens", tokens}, {"bytes", BytesOf(plan.cache, tokens)}});
  }
  json["growth"] = growth;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string TextTables(const Subject& subject) {
  const auto& [engine, model, plan, run, machines] = subject;
  const UnitOperations units = UnitsOf(plan.step);
  const Config& config = engine.config();
  return absl::StrCat(Verdict(plan), "model ", model, ", ", std::string(plan.step.weights),
                      " weights; attention ", config.Text("attention.name"), ", ",
                      std::string(IsaName(engine.isa())), ", ", engine.threads(), " threads\n\n",
                      MemoryTable(plan, config.Text("cache.name")), RanksTable(plan, run),
                      MachinesTable(machines, plan, run), "\n", OperationsTable(subject, units),
                      "\n", GrowthTable(subject));
}

}  // namespace ng::plan
