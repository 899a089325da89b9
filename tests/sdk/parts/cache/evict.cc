// Drops tokens: keeps the first ones, the last ones and, of those between, in each layer the tiles
// with the most attention (H2O: Zhang et al. 2023; without these, StreamingLLM: Xiao et al. 2023).
// With a window as long as the text nothing is dropped, and any backend for tiles16 will do.
#include "ng/cache_capabilities.h"
#include "ng/plugin.h"
#include "page_store.h"

namespace {

using Base = parts::PageStore<parts::Float32>;

constexpr ng::OptionSpec kOptions[] = {
    ng::IntOption("sinks", 4, {.min = 0, .max = 1000000000}, "first tokens, kept"),
    ng::IntOption("window", 256, {.min = 1, .max = 1000000000}, "last tokens, kept"),
    ng::IntOption("heavy", 0, {.min = 0, .max = 1000000},
                  "tiles of 16 tokens kept between them, those with the most attention")};

struct Keep {
  int64_t sinks;
  int64_t window;
  int64_t heavy;
};

Keep KeepOf(const ng::PluginContext& context) {
  const ng::OptionValues& options = context.options;
  return {options.Int("sinks"), options.Int("window"), options.Int("heavy")};
}

class Evict final : public Base, public ng::AttendedMass {
 public:
  Evict(const ng::CacheSpec& spec, const ng::CachePlan& plan, Memory memory, const Keep& keep)
      : Base(spec, plan, std::move(memory), plan.bytes / PageBytes(spec)), keep_(keep) {
    const auto n_layers = static_cast<size_t>(spec.n_layers);
    const auto n_tiles = static_cast<size_t>(parts::Tiles(spec.max_tokens));
    Layer whole;
    whole.mass.assign(n_tiles, 0.0);
    whole.present.assign(n_tiles / 4 + 1, ~uint64_t{0});
    layers_.assign(static_cast<size_t>(spec.max_sequences), std::vector<Layer>(n_layers, whole));
    dropped_at_.assign(static_cast<size_t>(spec.max_sequences), 0);
  }

  void* Capability(std::string_view name) override {
    return plan_.attended ? ng::OfferCapability<ng::AttendedMass>(this, name) : nullptr;
  }

  absl::Status Attended(int layer, const ng::SequenceRows& rows,
                        const ng::TensorView<const float, 3>& mass) override {
    std::vector<double>& sums = At(rows.sequence, layer).mass;
    for (int64_t row = 0; row < mass.extent[0]; ++row) {
      for (int64_t head = 0; head < mass.extent[1]; ++head) {
        const float* const got = mass.Row(row, head);  // a slot is a token: none has left
        for (int64_t t = 0; t < mass.extent[2]; ++t) {
          sums[static_cast<size_t>(t / ng::kTileTokens)] += double{got[t]};
        }
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<ng::SequenceId> Open(int64_t capacity) override {
    NG_ASSIGN_OR_RETURN(const ng::SequenceId id, Base::Open(capacity));
    Forget(id);
    return id;
  }

  absl::StatusOr<ng::SequenceId> Fork(ng::SequenceId from, int64_t capacity) override {
    NG_ASSIGN_OR_RETURN(const ng::SequenceId to, Base::Fork(from, capacity));
    layers_[static_cast<size_t>(to)] = layers_[static_cast<size_t>(from)];
    DroppedAt(to) = DroppedAt(from);
    return to;
  }

  absl::Status Truncate(ng::SequenceId id, int64_t length) override {
    if (length > 0 && length < DroppedAt(id)) {
      return ng::UnsupportedError("tokens were dropped when there were " +
                                  std::to_string(DroppedAt(id)) + ", cannot go back to " +
                                  std::to_string(length));
    }
    NG_RETURN_IF_ERROR(Base::Truncate(id, length));
    if (length == 0) Forget(id);
    return absl::OkStatus();
  }

  absl::Status Append(int layer, std::span<const ng::SequenceRows> rows,
                      const ng::TensorView<const float, 3>& k,
                      const ng::TensorView<const float, 3>& v) override {
    for (const ng::SequenceRows& entry : rows) {
      if (!plan_.holes || entry.n_tokens <= spec_.max_step_tokens) continue;
      return ng::LimitError("a step of " + std::to_string(entry.n_tokens) +
                            " tokens, must be at most the " +
                            std::to_string(spec_.max_step_tokens) + " that there is room for");
    }
    return Base::Append(layer, rows, k, v);
  }

  absl::Status Commit(std::span<const ng::SequenceRows> rows) override {
    NG_RETURN_IF_ERROR(Base::Commit(rows));
    for (const ng::SequenceRows& entry : rows) {
      for (int layer = 0; layer < spec_.n_layers; ++layer) DropLeast(entry.sequence, layer);
    }
    return absl::OkStatus();
  }

  ng::KvView View(int layer, ng::SequenceId id, int64_t length) const override {
    ng::KvView view = Base::View(layer, id, length);
    if (plan_.holes) {
      view.present = layers_[static_cast<size_t>(id)][static_cast<size_t>(layer)].present;
    }
    return view;
  }

 private:
  struct Layer {
    std::vector<double> mass;       // [tiles]: the attention that each got
    std::vector<uint64_t> present;  // KvView's
  };

  Layer& At(ng::SequenceId id, int layer) {
    return layers_[static_cast<size_t>(id)][static_cast<size_t>(layer)];
  }
  int64_t& DroppedAt(ng::SequenceId id) { return dropped_at_[static_cast<size_t>(id)]; }

  void Forget(ng::SequenceId id) {
    DroppedAt(id) = 0;
    for (Layer& layer : layers_[static_cast<size_t>(id)]) {
      std::ranges::fill(layer.mass, 0.0);
      std::ranges::fill(layer.present, ~uint64_t{0});
    }
  }

  // Leaves as many tiles between the first tokens and the window as are kept there.
  void DropLeast(ng::SequenceId id, int layer) {
    const int64_t first = parts::Tiles(keep_.sinks);
    const int64_t end = std::max<int64_t>(0, Length(id) - keep_.window) / ng::kTileTokens;
    Layer& state = At(id, layer);
    for (;;) {
      int64_t n_kept = 0;
      int64_t least = -1;
      for (int64_t tile = first; tile < end; ++tile) {
        if (Page(id, layer, tile) == nullptr) continue;
        ++n_kept;
        const auto at = static_cast<size_t>(tile);
        if (least < 0 || state.mass[at] < state.mass[static_cast<size_t>(least)]) least = tile;
      }
      if (n_kept <= keep_.heavy) return;
      Drop(id, layer, least);
      state.present[static_cast<size_t>(least / 4)] &= ~(uint64_t{0xFFFF} << (least % 4 * 16));
      DroppedAt(id) = Length(id);
    }
  }

  const Keep keep_;
  std::vector<std::vector<Layer>> layers_;  // [max_sequences][n_layers]
  std::vector<int64_t> dropped_at_;         // [max_sequences]: the length when something last was
};

absl::StatusOr<ng::CachePlan> Plan(const ng::PluginContext& context, const ng::CacheSpec& spec) {
  NG_RETURN_IF_ERROR(parts::CheckSpec(spec, ng::kLayoutTiles16));
  ng::CachePlan plan = Base::PlanOf(spec, ng::kLayoutTiles16);
  const Keep keep = KeepOf(context);
  // What is kept, a tile that is cut at either end of it, and a step's tokens before others go.
  const int64_t step = spec.max_step_tokens == 0 ? spec.max_tokens : spec.max_step_tokens;
  const int64_t tiles =
      parts::Tiles(keep.sinks) + parts::Tiles(keep.window) + keep.heavy + parts::Tiles(step) + 2;
  if (keep.window >= spec.max_tokens) return plan;  // nothing is ever dropped
  plan.approximate = plan.holes = true;
  plan.attended = keep.heavy > 0;
  const int64_t most = std::min(spec.max_tokens, tiles * ng::kTileTokens);
  plan.bytes = Base::CountPages(spec, most) * Base::PageBytes(spec);
  return plan;
}

absl::StatusOr<std::unique_ptr<ng::CacheStore>> Create(const ng::PluginContext& context,
                                                       const ng::CacheSpec& spec) {
  NG_ASSIGN_OR_RETURN(const ng::CachePlan plan, Plan(context, spec));
  return std::make_unique<Evict>(spec, plan, Base::Reserve(plan.bytes), KeepOf(context));
}

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin = ng::CachePlugin<Plan, Create>(
    "evict", "1.0.0", "keeps the first, the last and the most attended tokens; f32", kOptions);
