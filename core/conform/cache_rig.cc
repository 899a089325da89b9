#include "core/conform/cache_rig.h"

#include <string_view>

namespace ng::conform {
namespace {

// kLayoutAny leaves the choice to a store that does not write tiles.
constexpr std::string_view kLayouts[] = {kLayoutTiles16, kLayoutAny};

}  // namespace

std::string Describe(const CacheSpec& spec) {
  return std::string(CodecName(spec.codec_k)) + "/" + std::string(CodecName(spec.codec_v)) + ", " +
         std::to_string(spec.n_layers) + " layers, " + std::to_string(spec.n_kv_heads) +
         " heads of " + std::to_string(spec.head_dim) +
         (spec.v_head_dim == 0 ? "" : ", v_head_dim " + std::to_string(spec.v_head_dim));
}

std::vector<CacheSpec> CacheShapes() {
  const auto shape = [](int n_layers, int n_kv_heads, int head_dim, int64_t max_tokens) {
    return CacheSpec{.n_layers = n_layers,
                     .n_kv_heads = n_kv_heads,
                     .head_dim = head_dim,
                     .max_tokens = max_tokens,
                     .max_sequences = 4,
                     .layouts = kLayouts,
                     .max_step_tokens = 39};
  };
  return {shape(2, 2, 5, 50), shape(1, 3, 16, 33), shape(3, 1, 67, 16)};
}

absl::StatusOr<MadeStore> MakeStore(const CacheSubject& subject, const CacheSpec& spec,
                                    int threads) {
  MadeStore made;
  made.executor = std::make_unique<UnevenExecutor>(threads);
  PluginContext context = subject.context;
  context.executor = made.executor.get();
  context.isa = subject.settings.isa;
  context.model = {.n_layers = spec.n_layers,
                   .n_heads = spec.n_kv_heads,
                   .n_kv_heads = spec.n_kv_heads,
                   .head_dim = spec.head_dim};
  NG_ASSIGN_OR_RETURN(made.store, subject.make(context, spec));
  if (made.store == nullptr) return PluginError("create returned OK and no object");
  return made;
}

}  // namespace ng::conform
