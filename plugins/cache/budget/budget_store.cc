#include "plugins/cache/budget/budget_store.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <utility>

#include "ng/executor.h"
#include "ng/part_host.h"
#include "plugins/cache/budget/head_runs.h"

namespace ng {
namespace {

struct Made {
  std::vector<BudgetRule> rules;
  BudgetShape shape;
};

absl::StatusOr<Made> MakeParts(const PluginContext& context, const CacheSpec& spec) {
  Made made;
  NG_ASSIGN_OR_RETURN(const BudgetOptions options, ReadBudgetOptions(context.options));
  if (context.host == nullptr) return PluginError("nobody makes the policy: there is no host");
  made.rules.push_back({options.RuleName(), options, nullptr});
  for (const BudgetRuleName& rule : options.rules) {
    const BudgetOptions by_rule = options.With(rule);
    made.rules.push_back({by_rule.RuleName(), by_rule, nullptr});
  }
  for (BudgetRule& rule : made.rules) {
    // No sequence has more, so nothing leaves.
    if (!rule.options.ratio && rule.options.tokens >= spec.max_tokens) {
      rule.options.tokens = std::max<int64_t>(1, spec.max_tokens);
      rule.options.beta = 0;
    }
    NG_ASSIGN_OR_RETURN(rule.policy, context.host->CreatePolicy(rule.options.policy, {}));
  }
  NG_ASSIGN_OR_RETURN(made.shape, ShapeOfBudget(spec, made.rules));
  return made;
}

// The window is no reason to forget: what is kept is the policy's to say.
CacheSpec WithoutWindow(CacheSpec spec) {
  spec.window = 0;
  return spec;
}

std::vector<std::string> NamesOf(std::span<const BudgetRule> rules) {
  std::vector<std::string> names;
  names.reserve(rules.size());
  for (const BudgetRule& rule : rules) names.push_back(rule.name);
  return names;
}

int64_t Microseconds(double seconds) {
  constexpr double kPerSecond = 1e6;
  return static_cast<int64_t>(seconds * kPerSecond);
}

std::vector<int> LayersOf(const CacheSpec& spec) {
  if (!spec.layers.empty()) return {spec.layers.begin(), spec.layers.end()};
  std::vector<int> layers(static_cast<size_t>(spec.n_layers));
  std::iota(layers.begin(), layers.end(), 0);
  return layers;
}

}  // namespace

absl::StatusOr<CachePlan> PlanBudgetStore(const PluginContext& context, const CacheSpec& spec) {
  NG_ASSIGN_OR_RETURN(const Made made, MakeParts(context, spec));
  return made.shape.pages.plan;
}

absl::StatusOr<std::unique_ptr<CacheStore>> CreateBudgetStore(const PluginContext& context,
                                                              const CacheSpec& spec) {
  NG_ASSIGN_OR_RETURN(Made made, MakeParts(context, spec));
  NG_ASSIGN_OR_RETURN(std::shared_ptr<std::byte> memory, ReserveTiles(made.shape.pages.plan.bytes));
  return std::make_unique<BudgetStore>(context, spec, std::move(made.rules), made.shape,
                                       std::move(memory));
}

BudgetStore::BudgetStore(const PluginContext& context, const CacheSpec& spec,
                         std::vector<BudgetRule> rules, const BudgetShape& shape,
                         std::shared_ptr<std::byte> memory)
    : TileStore(context, WithoutWindow(spec)),
      executor_(*context.executor),
      rules_(std::move(rules)),
      rule_names_(NamesOf(rules_)),
      options_(rules_.front().options),
      shape_(shape),
      head_dim_(spec.head_dim),
      value_dim_(spec.value_dim()),
      layers_(LayersOf(spec)),
      n_run_layers_(spec.n_run_layers == 0 ? spec.n_layers : spec.n_run_layers),
      memory_(std::move(memory)),
      slots_(static_cast<size_t>(spec.max_sequences)),
      held_(spec.max_sequences, spec.n_layers),
      chosen_(static_cast<size_t>(shape.lanes)) {
  if (shape_.adaptive) {
    const int64_t n_heads = int64_t{spec.max_sequences} * spec.n_layers * spec.n_kv_heads;
    heads_.resize(static_cast<size_t>(n_heads));
    next_heads_.resize(static_cast<size_t>(n_heads));
  }
  for (int64_t i = 0; i < spec.max_sequences; ++i) {
    pages_.push_back(memory_.get() + i * shape_.pages.page_bytes);
  }
  for (const AttendedShape& attended : shape_.attended) {
    attended_.push_back(std::make_unique<AttendedSums>(attended, executor_, memory_.get()));
  }
  for (const QueryShape& queries : shape_.queries) {
    queries_.push_back(std::make_unique<QuerySums>(queries, executor_, context.isa, memory_.get()));
  }
  rotations_.resize(static_cast<size_t>(spec.n_layers));
}

absl::StatusOr<SequenceId> BudgetStore::Open(int64_t capacity) {
  NG_RETURN_IF_ERROR(CheckCapacity(capacity));
  const auto slot =
      std::find_if(slots_.begin(), slots_.end(), [](const Slot& s) { return !s.open; });
  if (slot == slots_.end()) {
    return LimitError("all " + std::to_string(slots_.size()) + " sequences of the cache are open");
  }
  *slot = {.open = true, .capacity = capacity};
  const auto sequence = static_cast<SequenceId>(slot - slots_.begin());
  for (int layer = 0; layer < n_layers_; ++layer) held_.At(sequence, layer) = {};
  ForSums([&](auto& sums) {
    sums.Forget(sequence);
    sums.SetMark(sequence, 0);
  });
  return sequence;
}

void BudgetStore::Close(SequenceId sequence) { At(sequence).open = false; }

absl::Status BudgetStore::Truncate(SequenceId sequence, int64_t length) {
  NG_RETURN_IF_ERROR(CheckTruncation(sequence, length));
  Slot& slot = At(sequence);
  if (length > 0 && length < slot.left_at) {
    return UnsupportedError("cannot truncate sequence " + std::to_string(sequence) + " to " +
                            std::to_string(length) + " tokens: at " + std::to_string(slot.left_at) +
                            " others have left");
  }
  if (length == 0) {
    slot.left_at = 0;
    for (int layer = 0; layer < n_layers_; ++layer) held_.At(sequence, layer) = {};
    ForSums([&](auto& sums) { sums.Forget(sequence); });
  } else {
    bool can = true;
    ForSums([&](const auto& sums) { can = can && sums.CanTruncate(sequence, length); });
    if (!can) {
      return UnsupportedError("cannot truncate sequence " + std::to_string(sequence) + " to " +
                              std::to_string(length) + " tokens: policy " +
                              RuleOf(sequence).options.policy + " counts what those behind gave");
    }
    ForSums([&](auto& sums) { sums.Truncate(sequence, length); });
  }
  slot.length = length;
  return absl::OkStatus();
}

void BudgetStore::SetRotation(int layer, const Rotation& rotation, double scale) {
  LayerRotation& to = rotations_[static_cast<size_t>(layer)];
  to.angles.assign(rotation.angles.begin(), rotation.angles.end());
  to.rotation = rotation;
  to.rotation.angles = to.angles;
  to.scale = scale;
}

absl::Status BudgetStore::Queries(int layer, std::span<const SequenceRows> rows,
                                  const TensorView<const float, 3>& q) {
  for (const auto& sums : queries_) {
    for (const SequenceRows& entry : rows) NG_RETURN_IF_ERROR(sums->Add(layer, entry, q));
  }
  return absl::OkStatus();
}

absl::Status BudgetStore::SetMark(SequenceId sequence, int64_t length) {
  Slot& slot = At(sequence);
  const bool may = slot.length == 0 || (slot.mark == 0 && length > slot.length);
  int64_t queries = 0;  // the most that count
  for (const AttendedShape& attended : shape_.attended) {
    queries = std::max(queries, attended.queries);
  }
  const bool counted = slot.length == 0 || slot.length <= length - queries;
  if (slot.mark == length || (may && counted)) {
    slot.mark = length;
    ForSums([&](auto& sums) { sums.SetMark(sequence, length); });
    return absl::OkStatus();
  }
  return UnsupportedError(
      "the context of sequence " + std::to_string(sequence) + " cannot be of " +
      std::to_string(length) + " tokens: it holds " + std::to_string(slot.length) +
      (slot.mark == 0 ? " already" : ", of a context of " + std::to_string(slot.mark)));
}

absl::Status BudgetStore::SetRule(SequenceId sequence, int rule) {
  if (At(sequence).left_at > 0) {
    return UnsupportedError("sequence " + std::to_string(sequence) + " cannot go by " +
                            rule_names_[static_cast<size_t>(rule)] + ": tokens have left by " +
                            rule_names_[At(sequence).rule]);
  }
  At(sequence).rule = static_cast<size_t>(rule);
  return absl::OkStatus();
}

int64_t BudgetStore::MassTokens(const SequenceRows& rows) const {
  int64_t most = 0;
  for (const auto& sums : attended_) most = std::max(most, sums->Wanted(rows));
  return most;
}

absl::Status BudgetStore::Attended(int layer, const SequenceRows& rows,
                                   const TensorView<const float, 3>& mass) {
  for (const auto& sums : attended_) {
    const int64_t n = sums->Wanted(rows);
    if (n == 0) continue;
    TensorView<const float, 3> last = mass;
    last.data = mass.Row(mass.extent[0] - n, 0);
    last.extent[0] = n;
    NG_RETURN_IF_ERROR(sums->Add(layer, rows, last));
  }
  return absl::OkStatus();
}

const AttendedSums& BudgetStore::AttendedOf(const Policy& policy) const {
  const auto of =
      std::ranges::find(shape_.attended, policy.attended_queries(), &AttendedShape::queries);
  return *attended_[static_cast<size_t>(of - shape_.attended.begin())];
}

const QuerySums& BudgetStore::QueriesOf(const Policy& policy) const {
  const auto of = std::ranges::find(shape_.queries, policy.first_query(), &QueryShape::first);
  return *queries_[static_cast<size_t>(of - shape_.queries.begin())];
}

absl::StatusOr<SequenceId> BudgetStore::Fork(SequenceId sequence, int64_t capacity) {
  NG_RETURN_IF_ERROR(CheckForkCapacity(sequence, capacity));
  NG_ASSIGN_OR_RETURN(const SequenceId fork, Open(capacity));
  Slot& to = At(fork);
  to.length = At(sequence).length;
  to.left_at = At(sequence).left_at;
  to.mark = At(sequence).mark;
  to.rule = At(sequence).rule;
  ForSums([&](auto& sums) {
    sums.SetMark(fork, to.mark);
    sums.Copy(sequence, fork);
  });
  for (int layer = 0; layer < n_layers_; ++layer) {
    const Held& held = held_.At(fork, layer) = held_.At(sequence, layer);
    if (shape_.adaptive) {
      std::ranges::copy(HeadsIn(heads_, sequence, layer), HeadsIn(heads_, fork, layer).begin());
    }
    const KvView from_view = View(layer, sequence, to.length);
    const KvView to_view = View(layer, fork, to.length);
    for (int head = 0; head < n_kv_heads_; ++head) {
      const int64_t tiles = TilesOf(from_view.n_slots(head));
      for (const KvSide* side : {&from_view.k, &from_view.v}) {
        if (tiles == 0) continue;
        std::memcpy(const_cast<std::byte*>(to_view.Tile(*side, head, 0)),
                    from_view.Tile(*side, head, 0), static_cast<size_t>(tiles * side->tile_bytes));
      }
    }
    const int64_t n_positions = n_kv_heads_ * held.kept;
    std::ranges::copy(OfHead(shape_.positions, sequence, layer, 0, n_positions),
                      OfHead(shape_.positions, fork, layer, 0, n_positions).begin());
  }
  return fork;
}

KvView BudgetStore::View(int layer, SequenceId sequence, int64_t length) const {
  assert(layer >= 0 && layer < n_layers_ && length >= 0);
  const Held& held = held_.At(sequence, layer);
  const BudgetShape::Layer& shape = shape_.layers[static_cast<size_t>(layer)];
  KvView view{.layout = kLayoutTiles16,
              .pages = {&pages_[static_cast<size_t>(sequence)], 1},
              .page_tokens = shape.page_tokens,
              .length = length,
              .k = shape.k,
              .v = shape.v,
              .store = this,
              .sequence = sequence,
              .layer = layer,
              .v_in_k = shape_.pages.plan.v_in_k};
  if (held.gone == 0) return view;
  view.gone = held.gone;
  view.n_kept = held.kept;
  if (shape_.adaptive) {
    view.heads = HeadsIn(heads_, sequence, layer);
    view.gone = std::ranges::min(view.heads, {}, &HeadSlots::gone).gone;
    view.k.head_stride = view.v.head_stride = 0;
  }
  view.positions = {OfHead(shape_.positions, sequence, layer, 0, held.kept).data(),
                    static_cast<size_t>(n_kv_heads_ * held.kept)};
  return view;
}

absl::Status BudgetStore::MakeRoom(const SequenceRows& rows) {
  const int64_t mark = At(rows.sequence).mark;
  if (rows.n_tokens <= shape_.pages.plan.ToBoundary(rows.start_pos, mark)) return absl::OkStatus();
  return RuntimeError("a step of " + std::to_string(rows.n_tokens) + " tokens at position " +
                      std::to_string(rows.start_pos) + " of sequence " +
                      std::to_string(rows.sequence) + " goes past " +
                      (options_.at_mark ? "the end of its context, " + std::to_string(mark)
                                        : "a multiple of " + std::to_string(options_.every)) +
                      ", where tokens leave");
}

bool BudgetStore::Evicts(const SequenceRows& rows) const {
  const int64_t length = rows.start_pos + rows.n_tokens;
  const int64_t mark = At(rows.sequence).mark;
  const bool due = options_.at_mark ? length == mark : length % options_.every == 0;
  bool any = false;
  for (int layer = 0; layer < n_layers_ && rows.n_tokens > 0 && due; ++layer) {
    any = any || EvictsIn(layer, rows);
  }
  return any;
}

bool BudgetStore::EvictsIn(int layer, const SequenceRows& rows) const {
  const int64_t length = rows.start_pos + rows.n_tokens;
  return length - held_.At(rows.sequence, layer).gone > KeptIn(rows.sequence, layer, length);
}

absl::Status BudgetStore::Commit(std::span<const SequenceRows> rows) {
  NG_RETURN_IF_ERROR(CheckFits(rows));
  const bool evicts =
      std::ranges::any_of(rows, [&](const SequenceRows& entry) { return Evicts(entry); });
  const auto begin = std::chrono::steady_clock::now();
  // What may fail comes first, so that an error leaves all as it was.
  for (const SequenceRows& entry : rows) {
    if (Evicts(entry)) NG_RETURN_IF_ERROR(Choose(entry));
  }
  for (const SequenceRows& entry : rows) {
    ForSums([&](auto& sums) { sums.Commit(entry); });
    if (Evicts(entry)) NG_RETURN_IF_ERROR(Evict(entry));
    At(entry.sequence).length += entry.n_tokens;
  }
  if (evicts) {
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    seconds_ += taken.count();
  }
  return absl::OkStatus();
}

std::string BudgetStore::Report() const {
  if (n_evictions_ == 0) return {};
  char seconds[32];
  std::snprintf(seconds, sizeof(seconds), "%.3f", seconds_);
  std::string policies = "policy " + options_.policy;
  if (rules_.size() > 1) policies = std::to_string(rules_.size()) + " rules";
  return policies + " let " + std::to_string(n_gone_ / n_layers_) + " tokens go, which took " +
         seconds + " s";
}

void* BudgetStore::Capability(std::string_view name) {
  if (attended_.empty() && name == AttendedMass::kName) return nullptr;
  if (queries_.empty() && name == PlainQueries::kName) return nullptr;
  if (!options_.at_mark && (name == ContextMark::kName || name == KeepRules::kName)) return nullptr;
  return OfferCapability<Statistics, AttendedMass, PlainQueries, ContextMark, KeepRules,
                         SequenceImages>(this, name);
}

absl::StatusOr<std::vector<Statistic>> BudgetStore::Values() const {
  const int64_t pages = shape_.pages.page_bytes * std::ssize(pages_);
  return std::vector<Statistic>{{"budget_tokens", shape_.kept, "tokens"},
                                {"tokens_gone", n_gone_ / n_layers_, "tokens"},
                                {"evictions", n_evictions_, "times"},
                                {"scoring_microseconds", Microseconds(seconds_), "us"},
                                {"bytes_of_keys_and_values", pages, "bytes"},
                                {"bytes_beside", shape_.pages.plan.bytes - pages, "bytes"}};
}

}  // namespace ng
