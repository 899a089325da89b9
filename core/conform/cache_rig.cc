#include "core/conform/cache_rig.h"

#include <cstdint>
#include <string_view>
#include <vector>

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
                     .n_heads = 2 * n_kv_heads,
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

absl::Status TellMadeUpMass(CacheStore& store, int layer, const SequenceRows& rows,
                            int64_t n_kv_heads, std::vector<float>* shares) {
  const int64_t end = rows.start_pos + rows.n_tokens;
  const KvView view = store.View(layer, rows.sequence, end);
  shares->clear();
  for (int64_t query = end - rows.mass_tokens; query < end; ++query) {
    for (int head = 0; head < n_kv_heads; ++head) {
      for (int64_t slot = 0; slot < view.n_slots(); ++slot) {
        const int64_t token = view.TokenAt(head, slot);
        const int64_t mixed = (query * 7919 + token * 104729 + head * 31 + layer * 17) * 2654435761;
        const auto share = static_cast<float>((mixed >> 8) % 65521) * 1e-6F;
        shares->push_back(token > query ? 0.0F : share);
      }
    }
  }
  return CapabilityOf<AttendedMass>(store)->Attended(
      layer, rows, {shares->data(), {rows.mass_tokens, n_kv_heads, view.n_slots()}});
}

absl::Status TellMadeUpQueries(PlainQueries& queries, int layer, const SequenceRows& rows,
                               const CacheSpec& spec, std::vector<float>* made) {
  const int64_t width = int64_t{spec.n_heads} * spec.head_dim;
  const int64_t n_rows = rows.row_begin + rows.n_tokens;
  made->resize(static_cast<size_t>(n_rows * width));
  for (int64_t i = 0; i < std::ssize(*made); ++i) {
    const int64_t position = rows.start_pos + i / width - rows.row_begin;
    const int64_t mixed = (position * 7919 + i % width * 104729 + layer * 17) * 2654435761;
    (*made)[static_cast<size_t>(i)] = static_cast<float>((mixed >> 8) % 65521) * 1e-5F - 0.3F;
  }
  return queries.Queries(layer, {&rows, 1}, {made->data(), {n_rows, spec.n_heads, spec.head_dim}});
}

}  // namespace ng::conform
