#include "core/runtime/engine/request_checks.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/runtime/plan/cache_identity.h"
#include "core/snapshot/cache_snapshot.h"

namespace ng {
namespace {

// Of a text that grows beyond the context.
constexpr int64_t kMostTokens = std::numeric_limits<int32_t>::max();

absl::Status CheckCaps(const Assembly& assembly, const GenerateRequest& request) {
  const ModelSpec& spec = assembly.model.spec;
  const auto prompt_len = static_cast<int64_t>(request.prompt_ids.size());
  if (assembly.Recomputes()) {
    NG_RETURN_IF_ERROR(CheckCap(prompt_len, request.max_new_tokens, kMostTokens, "tokens"));
    // No query sees more keys than are fed at a time.
    if (assembly.bounding_window() >= assembly.ContextTokens()) return absl::OkStatus();
    return CheckWindow(assembly, prompt_len, request.max_new_tokens);
  }
  if (spec.context() > 0) {
    const absl::Status fits = CheckCap(prompt_len, request.max_new_tokens, spec.context(), "T_max");
    if (!fits.ok() && spec.far_positions > 0) {
      return LimitError(absl::StrCat(fits.message(), "; with cache.max_tokens above ",
                                     spec.context(), " the model takes its factors for long runs, ",
                                     "of up to ", spec.far_positions, " tokens"));
    }
    NG_RETURN_IF_ERROR(fits);
  }
  NG_RETURN_IF_ERROR(CheckWindow(assembly, prompt_len, request.max_new_tokens));
  const int64_t max_tokens = assembly.config().Int("cache.max_tokens");
  if (max_tokens == 0) return absl::OkStatus();
  return CheckCap(prompt_len, request.max_new_tokens, max_tokens, "cache tokens");
}

// What snapshots ask of the run, and what can be said of the file before the weights are there.
absl::Status CheckSnapshots(const Assembly& assembly, const GenerateRequest& request) {
  const bool loads = !request.load_cache.empty();
  if (!loads && request.save_cache.empty()) return absl::OkStatus();
  const int64_t max_positions = assembly.model.spec.shape.max_positions;
  const Config& config = assembly.config();
  if (!config.Bool("run.use_cache")) {
    return UsageError(config.Describe("run.use_cache") +
                      " = false: a snapshot of the cache needs one");
  }
  if (loads && request.sequence.has_value()) {
    return UsageError("a request has either a sequence of its own or a snapshot: " +
                      request.load_cache);
  }
  // Fed to its last token, at the positions that the snapshot has.
  const auto prompt_len = static_cast<int64_t>(request.prompt_ids.size());
  NG_RETURN_IF_ERROR(CheckCap(prompt_len, 0, assembly.ContextTokens(), "context tokens"));
  if (max_positions > 0) NG_RETURN_IF_ERROR(CheckCap(prompt_len, 0, max_positions, "T_max"));
  if (!loads) return absl::OkStatus();
  NG_ASSIGN_OR_RETURN(const CacheFile file, CacheFile::Open(request.load_cache));
  NG_RETURN_IF_ERROR(CheckIdentity(file, CacheIdentity(assembly, std::nullopt)));
  return CheckBegins(file, request.prompt_ids);
}

// The error of a text whose context the cache asks for.
absl::Status NoContext(const Assembly& assembly, std::string_view text) {
  return UsageError(absl::StrCat(
      assembly.selection.cache.Describe(), ": lets tokens go where a text's context ends, and ",
      absl::string_view(text.data(), text.size()),
      " does not say where that is; say it with --context FILE, in a conversation with a message "
      "or run.system before the last message, or with run.context_tokens = N"));
}

}  // namespace

absl::Status CheckCap(int64_t prompt_len, int64_t max_new_tokens, int64_t limit,
                      std::string_view limit_name) {
  const absl::string_view name(limit_name.data(), limit_name.size());
  const int64_t max_new = std::max<int64_t>(0, max_new_tokens);
  if (prompt_len > limit) {
    return LimitError(absl::StrCat("prompt length exceeds ", name, ": prompt ", prompt_len, " > ",
                                   limit, " ", name));
  }
  // Compared by difference: the sum may not fit an int64.
  if (max_new <= limit - prompt_len) return absl::OkStatus();
  const absl::uint128 sum = absl::uint128(prompt_len) + absl::uint128(max_new);
  return LimitError(absl::StrCat("prompt ", prompt_len, " + max_new_tokens ", max_new, " = ",
                                 static_cast<uint64_t>(sum), " > ", limit, " ", name,
                                 "; lower run.max_new_tokens to ", limit - prompt_len));
}

PromptLimit LimitOfPrompts(const Assembly& assembly) {
  PromptLimit smallest = {kMostTokens, "tokens"};
  if (assembly.Recomputes()) return smallest;
  const ModelSpec& spec = assembly.model.spec;
  const PromptLimit limits[] = {{spec.context(), "T_max"},
                                {assembly.bounding_window(), "sliding_window"},
                                {assembly.config().Int("cache.max_tokens"), "cache tokens"}};
  for (const PromptLimit& limit : limits) {
    if (limit.tokens > 0 && limit.tokens < smallest.tokens) smallest = limit;
  }
  return smallest;
}

absl::Status CheckPromptLength(const PromptLimit& limit, size_t n_tokens) {
  if (static_cast<int64_t>(n_tokens) <= limit.most()) return absl::OkStatus();
  const absl::string_view name(limit.name.data(), limit.name.size());
  return LimitError(absl::StrCat("prompt length exceeds ", name, ": the prompt has more than ",
                                 limit.most(), " tokens, ", limit.tokens, " ", name,
                                 " are the most that it may have"));
}

absl::Status CheckWindow(const Assembly& assembly, int64_t prompt_len, int64_t max_new_tokens) {
  const int64_t window = assembly.bounding_window();
  if (window == 0) return absl::OkStatus();
  return Annotate(CheckCap(prompt_len, max_new_tokens, window, "sliding_window"),
                  absl::StrCat("attention '", assembly.selection.attention.descriptor->name,
                               "' does not implement the model's sliding window, a run must end "
                               "within it: "));
}

absl::Status CheckIds(const ModelShape& shape, std::span<const int32_t> ids) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= shape.vocab_size) {
      return UsageError(absl::StrCat("token id ", ids[i], " at position ", i,
                                     " is outside the vocabulary, must be in [0, ",
                                     shape.vocab_size - 1, "]"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPrompt(const ModelShape& shape, std::span<const int32_t> ids) {
  if (ids.empty()) return UsageError("the prompt is empty; it must have at least one token");
  return CheckIds(shape, ids);
}

absl::Status CheckContext(const Assembly& assembly, const LanguageModel& model,
                          SequenceId sequence) {
  if (!model.wants_context() || model.Context(sequence) > 0) return absl::OkStatus();
  return NoContext(assembly, absl::StrCat("sequence ", sequence));
}

// What a request asks to be told.
absl::Status CheckAsked(const ModelShape& shape, const GenerateRequest& request) {
  // The draws of two requests differ below it (ng/sampler.h).
  constexpr int64_t kMostDraw = std::numeric_limits<uint32_t>::max();
  const std::tuple<const char*, int64_t, int64_t> numbers[] = {
      {"draw", request.draw, kMostDraw},
      {"top_logprobs", request.top_logprobs, shape.vocab_size},
      {"prompt_top_logprobs", request.prompt_top_logprobs, shape.vocab_size}};
  for (const auto& [name, value, most] : numbers) {
    if (value >= -1 && value <= most) continue;
    return UsageError(
        absl::StrCat("a request's ", name, " = ", value, ", must be in [-1, ", most, "]"));
  }
  return absl::OkStatus();
}

// The adapter that a request names.
absl::Status CheckAdapter(const RunAdapters& adapters, const GenerateRequest& request) {
  const std::string& name = request.adapter;
  if (name.empty()) return absl::OkStatus();
  if (std::ranges::count(adapters.names, name) == 0) {
    return UsageError(absl::StrCat(
        "a request's adapter = ", name, ", model.named_adapters has ",
        adapters.names.empty() ? std::string("none") : absl::StrJoin(adapters.names, ", ")));
  }
  // Who reads a snapshot knows nothing of it.
  for (const std::string* const path : {&request.load_cache, &request.save_cache}) {
    if (path->empty()) continue;
    return UsageError(
        absl::StrCat("a request with an adapter of its own has no snapshot: ", *path));
  }
  return absl::OkStatus();
}

// Where the prompt's context ends, as the request or the config says it.
absl::Status CheckPromptContext(const Assembly& assembly, const GenerateRequest& request) {
  const int64_t prompt_len = std::ssize(request.prompt_ids);
  if (request.context_tokens < 0 || request.context_tokens > prompt_len) {
    return UsageError(absl::StrCat("a request's context_tokens = ", request.context_tokens,
                                   ", must be in [0, ", prompt_len, "], the prompt's tokens"));
  }
  // A sequence that is brought may have one already, which CheckContext looks at.
  const bool said = request.context_tokens > 0 || request.sequence.has_value();
  if (!assembly.wants_context || said) return absl::OkStatus();
  const Config& config = assembly.config();
  const int64_t n_tokens = config.Int("run.context_tokens");
  if (n_tokens == 0) return NoContext(assembly, "the prompt");
  if (n_tokens <= prompt_len) return absl::OkStatus();
  return UsageError(absl::StrCat(config.Describe("run.context_tokens"), " = ", n_tokens,
                                 ": the prompt has ", prompt_len, " tokens"));
}

absl::Status CheckRequest(const Assembly& assembly, const GenerateRequest& request) {
  NG_RETURN_IF_ERROR(CheckPrompt(assembly.model.spec.shape, request.prompt_ids));
  const int64_t prompt_len = std::ssize(request.prompt_ids);
  if (request.n_answered < 0 || request.n_answered >= prompt_len) {
    return UsageError(absl::StrCat("n_answered = ", request.n_answered, " of a prompt of ",
                                   prompt_len, " tokens, must be in [0, ", prompt_len - 1, "]"));
  }
  NG_RETURN_IF_ERROR(CheckAsked(assembly.model.spec.shape, request));
  NG_RETURN_IF_ERROR(CheckAdapter(assembly.adapters, request));
  NG_RETURN_IF_ERROR(CheckPromptContext(assembly, request));
  NG_RETURN_IF_ERROR(CheckCaps(assembly, request));
  return CheckSnapshots(assembly, request);
}

absl::Status CheckKept(const Assembly& assembly, const GenerateRequest& request,
                       const GenerateOptions& options) {
  const bool points = !options.capture_points.empty() || assembly.probes->every_token();
  const bool looked_at = options.on_point != nullptr;
  const bool every_row = options.capture_attn_full || options.on_attn_rows;
  const bool logprobs = request.prompt_top_logprobs >= 0;
  const bool kept = points || options.capture_logits || every_row || logprobs;
  if (!kept && !looked_at) return absl::OkStatus();
  if (kept && !request.load_cache.empty()) {
    return UsageError("the logits, attention rows and points of tokens from " + request.load_cache +
                      " are not computed; decode_logits and attn_row can be kept");
  }
  const bool new_ones = points || looked_at || every_row;
  const int64_t max_new = new_ones ? request.max_new_tokens : 0;
  const auto prompt_len = static_cast<int64_t>(request.prompt_ids.size());
  NG_RETURN_IF_ERROR(
      Annotate(CheckCap(prompt_len, max_new, assembly.ContextTokens(), "context tokens"),
               every_row   ? "attention is kept of what fits the context only: "
               : points    ? "points are kept of what fits the context only: "
               : looked_at ? "points are looked at in what fits the context only: "
                           : "logits are kept of what fits the context only: "));
  // Without a new token nothing is fed, but to look inside.
  const int64_t max_positions = assembly.model.spec.shape.max_positions;
  return max_positions == 0 ? absl::OkStatus() : CheckCap(prompt_len, 0, max_positions, "T_max");
}

absl::Status CheckSequence(const LanguageModel& model, const GenerateRequest& request) {
  if (!request.sequence.has_value()) return absl::OkStatus();
  const auto prompt_len = static_cast<int64_t>(request.prompt_ids.size());
  const int64_t length = model.Length(*request.sequence);
  if (length >= prompt_len) {
    return UsageError(absl::StrCat("the request's sequence holds ", length,
                                   " tokens; its prompt of ", prompt_len, " must be longer"));
  }
  return CheckCap(prompt_len, request.max_new_tokens, model.Capacity(*request.sequence),
                  "sequence tokens");
}

absl::Status CheckTraced(const Assembly& assembly, const GenerateOptions& options) {
  const ModelSpec& spec = assembly.model.spec;
  const ModelShape& shape = spec.shape;
  if (options.on_cache_debug && spec.layer_split.ranks > 1) {
    return UsageError(
        "fabric.split = layers: the cache of a layer is on the rank that has it; fabric.split = "
        "heads shows it");
  }
  for (const auto* points : {&options.capture_points, &options.look_at}) {
    for (const PointAt& at : *points) {
      if (std::ranges::count(assembly.points, at, &PointShape::at) != 0) continue;
      return UsageError(absl::StrCat(PointText(at), " is no point of this model"));
    }
  }
  for (const auto* chosen : {&options.trace_layers, &options.trace_heads}) {
    const bool layers = chosen == &options.trace_layers;
    const int end = layers ? shape.n_layers : shape.n_heads;
    for (const int index : *chosen) {
      if (index < 0 || index >= end) {
        return UsageError(absl::StrCat("trace ", layers ? "layer " : "head ", index,
                                       ": the model has ", layers ? "layers" : "heads", " 0 to ",
                                       end - 1));
      }
      if (layers && std::ranges::count(assembly.attention_layers, index) == 0) {
        return UsageError(absl::StrCat("trace layer ", index, ": it has no attention"));
      }
    }
    // Rows come in the order of the model.
    if (std::ranges::adjacent_find(*chosen, std::ranges::greater_equal()) != chosen->end()) {
      return UsageError(absl::StrCat("trace ", layers ? "layers " : "heads ",
                                     absl::StrJoin(*chosen, ", "), ": they must rise, each once"));
    }
  }
  return absl::OkStatus();
}

}  // namespace ng
