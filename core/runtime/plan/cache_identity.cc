#include "core/runtime/plan/cache_identity.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/hash.h"
#include "core/base/program_text.h"
#include "core/snapshot/cache_snapshot.h"
#include "ng/isa.h"

namespace ng {
namespace {

// One scalar after the other: nothing between them has unset bytes.
template <typename... Scalars>
void AppendScalars(std::string* out, const Scalars&... values) {
  static_assert((std::is_scalar_v<Scalars> && ...));
  (out->append(reinterpret_cast<const char*>(&values), sizeof(values)), ...);
}

// Every field of the spec: the bindings do not compile when one is added and forgotten here.
void AppendNorm(std::string* bytes, const NormSpec& norm) {
  const auto& [kind, eps, weight, bias, offset] = norm;
  AppendScalars(bytes, kind, eps, weight, bias, offset);
}

void AppendRope(std::string* bytes, const RopeSpec& rope) {
  const auto& [n_dims, pairing, theta, scaling, factors, backwards, n_turning] = rope;
  const auto& [kind, factor, low_freq_factor, high_freq_factor, original_positions, low_pair,
               high_pair, divisors, magnitude, other_divisors, far] = scaling;
  AppendScalars(bytes, n_dims, pairing, theta, factors);
  AppendScalars(bytes, kind, factor, low_freq_factor, high_freq_factor, original_positions);
  AppendScalars(bytes, low_pair, high_pair, magnitude, divisors.size());
  for (const double divisor : divisors) AppendScalars(bytes, divisor);
  if (backwards || n_turning > 0) AppendScalars(bytes, backwards);
  if (n_turning > 0) AppendScalars(bytes, n_turning);
  if (far) AppendScalars(bytes, far);
}

void AppendAttention(std::string* bytes, const SelfAttentionSpec& attention) {
  const auto& [n_heads, n_kv_heads, head_dim, v_head_dim, keys_of, rope, window, chunks, scale,
               soft_cap, clip, alibi_slopes, sinks, temperature, gate, latent, qk_norm,
               qk_norm_kind, v_norm, v_is_k, qkv_bias, out_bias] = attention;
  const auto& [coefficient, length, offset] = temperature;
  AppendScalars(bytes, n_heads, n_kv_heads, head_dim, rope, window, scale, soft_cap, clip);
  AppendScalars(bytes, alibi_slopes.size(), qk_norm_kind, qkv_bias, out_bias);
  for (const float slope : alibi_slopes) AppendScalars(bytes, slope);
  if (!sinks.empty()) AppendScalars(bytes, sinks.size());
  // A model without a part has the bytes that it had before there was any.
  if (chunks || gate) AppendScalars(bytes, chunks, gate);
  if (latent.is_there()) {
    const auto& [q_rank, kv_rank, rope_dim, norm] = latent;
    AppendScalars(bytes, q_rank, kv_rank, rope_dim, attention.value_dim(), attention.key_dim());
    AppendNorm(bytes, norm);
  }
  if (v_head_dim != 0 || keys_of >= 0) AppendScalars(bytes, v_head_dim, keys_of);
  if (coefficient != 0.0) AppendScalars(bytes, coefficient, length, offset);
  AppendNorm(bytes, qk_norm);
  if (v_norm.is_there()) AppendNorm(bytes, v_norm);
  if (v_is_k) AppendScalars(bytes, v_is_k);
}

void AppendBlock(std::string* bytes, const BlockSpec& block) {
  const auto& [operation, part, before, inner, after, stream_norm, input, scale, stream_factor] =
      block;
  AppendScalars(bytes, operation, part, input, scale);
  for (const NormSpec* norm : {&before, &after, &stream_norm}) AppendNorm(bytes, *norm);
  if (inner.is_there()) AppendNorm(bytes, inner);
  if (stream_factor) AppendScalars(bytes, stream_factor);
}

void AppendFeedForward(std::string* bytes, const FeedForwardSpec& feed_forward) {
  const auto& [inner, activation, gated, bias, slope, up_offset, limit] = feed_forward;
  AppendScalars(bytes, inner, activation, gated, bias);
  if (!feed_forward.plain_gate()) AppendScalars(bytes, slope, up_offset, limit);
}

void AppendMixture(std::string* bytes, const MixtureSpec& mixture) {
  const auto& [router, expert, shared, shared_gate, router_norm, shared_norm, shared_after,
               experts_after] = mixture;
  const auto& [n_experts, n_used, sigmoid, bias, selection_bias, n_groups, n_groups_used, n_best,
               normalised, least_sum, added_to_sum, scale, logit_scale, expert_scales,
               weighs_input] = router;
  AppendScalars(bytes, n_experts, n_used, sigmoid, bias, selection_bias, n_groups, n_groups_used);
  AppendScalars(bytes, normalised, least_sum, scale, shared_gate);
  if (weighs_input) AppendScalars(bytes, weighs_input);
  if (added_to_sum != 0.0F) AppendScalars(bytes, added_to_sum);
  if (n_best != 2) AppendScalars(bytes, n_best);
  if (expert_scales || logit_scale != 1.0F) AppendScalars(bytes, expert_scales, logit_scale);
  for (const FeedForwardSpec* part : {&expert, &shared}) AppendFeedForward(bytes, *part);
  for (const NormSpec* norm : {&router_norm, &shared_norm, &shared_after, &experts_after}) {
    if (norm->is_there()) AppendNorm(bytes, *norm);
  }
}

void AppendState(std::string* bytes, const StateSpec& state) {
  const auto& [kind, taps, conv_bias, conv_width, n_heads, n_groups, heads_in_turn, key_dim,
               value_dim, in_bias, out_bias, norm, least_step, largest_step] = state;
  AppendScalars(bytes, kind, taps, conv_bias, conv_width, n_heads, n_groups, key_dim, value_dim);
  AppendScalars(bytes, in_bias, out_bias, least_step, largest_step);
  if (heads_in_turn) AppendScalars(bytes, heads_in_turn);
  AppendNorm(bytes, norm);
}

std::string SpecBytes(const ModelSpec& spec) {
  const auto& [family, shape, width, last_without_position, far_positions, embedding, layer_input,
               ropes, attentions, feed_forwards, mixtures, states, layers, head, split,
               layer_split] = spec;
  (void)split, (void)layer_split;  // ranks change no bit; no snapshot is of several
  const auto& [n_layers, n_heads, n_kv_heads, head_dim, vocab_size, max_positions] = shape;
  const auto& [token_scale, positions, sinusoids, position_offset, embedding_norm] = embedding;
  const auto& [head_norm, tied, head_bias, logit_scale, logit_cap] = head;
  std::string bytes = family;
  AppendScalars(&bytes, n_layers, n_heads, n_kv_heads, head_dim, vocab_size, max_positions);
  AppendScalars(&bytes, width, last_without_position, token_scale, positions, position_offset);
  AppendScalars(&bytes, tied, head_bias, logit_scale, logit_cap);
  for (const NormSpec* norm : {&embedding_norm, &head_norm}) AppendNorm(&bytes, *norm);
  // How many there are goes before each list, so that no two models have the same bytes.
  AppendScalars(&bytes, ropes.size(), attentions.size(), feed_forwards.size());
  for (const RopeSpec& rope : ropes) AppendRope(&bytes, rope);
  for (const SelfAttentionSpec& attention : attentions) AppendAttention(&bytes, attention);
  for (const FeedForwardSpec& feed_forward : feed_forwards) AppendFeedForward(&bytes, feed_forward);
  if (sinusoids) AppendScalars(&bytes, sinusoids);
  if (layer_input.is_there()) {
    const auto& [input_width, input_vocab_size, input_scale, projection_scale, input_norm] =
        layer_input;
    AppendScalars(&bytes, input_width, input_vocab_size, input_scale, projection_scale);
    AppendNorm(&bytes, input_norm);
  }
  if (!mixtures.empty()) AppendScalars(&bytes, mixtures.size());
  for (const MixtureSpec& mixture : mixtures) AppendMixture(&bytes, mixture);
  if (!states.empty()) AppendScalars(&bytes, states.size());
  for (const StateSpec& state : states) AppendState(&bytes, state);
  for (const LayerSpec& blocks : layers) {
    AppendScalars(&bytes, blocks.size());
    for (const BlockSpec& block : blocks) AppendBlock(&bytes, block);
  }
  return bytes;
}

std::string TypesText(const WeightTypes& types) {
  std::set<std::string> names;
  for (const WeightType type : types.All()) names.emplace(WeightTypeName(type));
  return absl::StrJoin(names, "+");
}

// The backend with its options, and those that it makes itself of.
std::string AttentionText(const Assembly& assembly) {
  const PluginDescriptor& plugin = *assembly.selection.attention.descriptor;
  std::string text = absl::StrCat(plugin.name, " ", plugin.version);
  for (const PartFactory::Used& part : assembly.parts->used()) {
    const PluginDescriptor& inner = *part.plugin.descriptor;
    if (std::string_view(inner.kind) != "attention") continue;
    absl::StrAppend(&text, " over ", inner.name, " ", inner.version, " (", part.options, ")");
  }
  for (const OptionSpec& option : std::span(plugin.options, plugin.n_options)) {
    const std::string key = absl::StrCat("attention.", plugin.name, ".", option.name);
    absl::StrAppend(&text, ", ", option.name, " = ", assembly.config().Text(key));
  }
  return text;
}

// By what the cache lets tokens leave: its options and those of its policies.
std::string LeavingText(const Assembly& assembly) {
  const PluginDescriptor& plugin = *assembly.selection.cache.descriptor;
  std::string text = absl::StrCat("lets tokens leave by ", plugin.name, " ", plugin.version);
  for (const OptionSpec& option : std::span(plugin.options, plugin.n_options)) {
    const std::string key = absl::StrCat("cache.", plugin.name, ".", option.name);
    const std::string value = assembly.config().Text(key);
    if (!value.empty()) absl::StrAppend(&text, ", ", option.name, " = ", value);
  }
  std::set<std::string> policies;  // one may have been made several times
  for (const PartFactory::Used& part : assembly.parts->used()) {
    const PluginDescriptor& inner = *part.plugin.descriptor;
    if (std::string_view(inner.kind) != "policy") continue;
    policies.insert(absl::StrCat(inner.name, " ", inner.version, " (", part.options, ")"));
  }
  for (const std::string& policy : policies) absl::StrAppend(&text, ", ", policy);
  return text;
}

std::string ModelText(const Assembly& assembly, uint64_t weights_hash) {
  std::string bytes = SpecBytes(assembly.WholeSpec());
  for (const WeightType type : assembly.WholeTypes().All()) AppendScalars(&bytes, type);
  return HexOf(HashOf(bytes, weights_hash));
}

}  // namespace

std::string TokenizerText(const Assembly& assembly) {
  if (assembly.tokenizer == nullptr) return "none";
  uint64_t hash = 0;
  for (const std::string_view bytes : assembly.token_bytes) hash = HashOf(bytes, hash);
  return HexOf(hash);
}

uint64_t HashOfSpec(const ModelSpec& spec, uint64_t seed) { return HashOf(SpecBytes(spec), seed); }

std::vector<CacheField> CacheIdentity(const Assembly& assembly,
                                      std::optional<uint64_t> weights_hash) {
  const ModelShape& shape = assembly.model.spec.shape;
  const CacheSpec cache = assembly.CacheSpecFor({});
  std::vector<CacheField> fields = {
      {"program", ProgramText()},
      {"shape", absl::StrCat(shape.n_layers, " layers, ", shape.n_kv_heads, " kv heads of ",
                             shape.head_dim)},
      {"model.weights", TypesText(assembly.WholeTypes())},
      {"arithmetic", ArithmeticOf(assembly.isa).ToString()},
      {"attention", AttentionText(assembly)},
      {"cache.codec_k", std::string(CodecName(cache.codec_k))},
      {"cache.codec_v", std::string(CodecName(cache.codec_v))},
      {"tokenizer", TokenizerText(assembly)},
      {"probes", assembly.edits},
      {"model", weights_hash ? ModelText(assembly, *weights_hash) : ""}};
  // Of the others a file says nothing, as it always has.
  if (assembly.boundary_tokens > 0 || assembly.wants_context) {
    fields.push_back({std::string(kLeavingField), LeavingText(assembly)});
  }
  return fields;
}

}  // namespace ng
