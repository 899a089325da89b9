#include "ng/conform/cache.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>

#include "core/conform/cache_rig.h"
#include "core/conform/cache_script.h"
#include "core/conform/kept_rows.h"
#include "core/conform/texts.h"
#include "ng/cache_capabilities.h"
#include "ng/conform/plain_tiles.h"
#include "ng/rule_attention.h"

namespace ng::conform {
namespace {

std::string FindWrongInPlan(CacheStore& store, const CacheSpec& spec) {
  const CachePlan plan = store.plan();
  if (plan.layout.empty()) return "the plan names no layout";
  if (plan.bytes_per_token <= 0) return "the plan has no bytes_per_token";
  if (plan.share_tokens > 0 && CapabilityOf<PrefixSharing>(store) == nullptr) {
    return "the plan has share_tokens, the store shares no prefixes";
  }
  if ((plan.image_tile_bytes > 0) != (CapabilityOf<Snapshots>(store) != nullptr)) {
    return "the plan has image_tile_bytes " + std::to_string(plan.image_tile_bytes) +
           ", which does not go with the store's capabilities";
  }
  if (plan.attended != (CapabilityOf<AttendedMass>(store) != nullptr)) {
    return "the plan's `attended` does not go with the store's capabilities";
  }
  if (plan.queries != (CapabilityOf<PlainQueries>(store) != nullptr)) {
    return "the plan's `queries` does not go with the store's capabilities";
  }
  if (plan.approximate && (plan.share_tokens > 0 || plan.image_tile_bytes > 0)) {
    return "the plan is approximate and shares prefixes or keeps snapshots";
  }
  if (plan.holes && !plan.approximate) return "the plan has holes and is not approximate";
  if (plan.mark != (CapabilityOf<ContextMark>(store) != nullptr)) {
    return "the plan's `mark` does not go with the store's capabilities";
  }
  const bool changes = plan.boundary_tokens > 0 || plan.mark;
  if (plan.slots > 0 &&
      (!changes || plan.share_tokens > 0 || plan.image_tile_bytes > 0 || plan.holes)) {
    return "the plan has slots, and no boundary or what does not go with them";
  }
  if (plan.head_slots > 0 && (plan.slots == 0 || plan.head_slots < plan.slots)) {
    return "the plan has head_slots without slots, or fewer";
  }
  if (plan.sequence_images != (CapabilityOf<SequenceImages>(store) != nullptr)) {
    return "the plan's `sequence_images` does not go with the store's capabilities";
  }
  const int64_t reserved = plan.bytes + plan.disk_bytes;
  const int64_t n_held = plan.slots > 0 ? plan.slots : spec.held_tokens();
  if (!plan.approximate && reserved < plan.bytes_per_token * n_held) {
    return "the plan reserves " + std::to_string(reserved) + " bytes, less than one sequence of " +
           std::to_string(n_held) + " tokens";
  }
  const int64_t image = KeptRows(spec, plan).ImageTileBytes();
  if (plan.image_tile_bytes != 0 && plan.image_tile_bytes != image) {
    return "the plan has image_tile_bytes " + std::to_string(plan.image_tile_bytes) + ", not " +
           std::to_string(image);
  }
  if (OneLine(store.Report()) != store.Report()) return "Report is not one line";
  return "";
}

// The factory's plan and the store's are one, and what cannot run is refused by both.
std::string FindWrongInFactory(const CacheSubject& subject, const CacheSpec& spec,
                               const CachePlan& of_store) {
  UnevenExecutor executor(1);
  PluginContext context = subject.context;
  context.executor = &executor;
  context.isa = subject.settings.isa;
  const absl::StatusOr<CachePlan> planned = subject.plan(context, spec);
  if (!planned.ok()) return "create makes what plan refuses: " + Text(planned.status());
  if (*planned != of_store) return "the store has another plan than the factory";
  CacheSpec unreadable = spec;
  constexpr std::string_view kNone[] = {"no such layout"};
  unreadable.layouts = kNone;
  const absl::StatusOr<CachePlan> refused = subject.plan(context, unreadable);
  if (refused.ok()) return "plans layout " + std::string(refused->layout) + ", which nobody reads";
  return OneLine(Text(refused.status())) == Text(refused.status()) ? ""
                                                                   : "a refusal is not one line";
}

Outcome CheckPlan(const CacheSubject& subject) {
  for (const CacheSpec& spec : CacheShapes()) {
    const absl::StatusOr<MadeStore> made = MakeStore(subject, spec);
    if (!made.ok()) return Fail(Describe(spec) + ": " + Text(made.status()));
    std::string wrong = FindWrongInPlan(*made->store, spec);
    if (subject.must_be_approximate && !made->store->plan().approximate) {
      wrong = "the plan does not say that the store is approximate";
    }
    if (wrong.empty() && subject.plan) {
      wrong = FindWrongInFactory(subject, spec, made->store->plan());
    }
    if (!wrong.empty()) return Fail(Describe(spec) + ": " + wrong);
  }
  return Ok();
}

// Runs a script on a new store; what is wrong, or nothing.
std::string RunScript(const CacheSubject& subject, const CacheSpec& spec,
                      const CacheScript& script) {
  const absl::StatusOr<MadeStore> made = MakeStore(subject, spec);
  const std::string wrong =
      made.ok() ? RunCacheScript(*made->store, spec, script) : Text(made.status());
  if (!wrong.empty()) return Describe(spec) + ": " + wrong;
  return made->executor->nested() ? "a parallel region was begun inside another one" : "";
}

// Scripts that choose from few things to do, so that what is wrong is near.
template <uint32_t kOps>
Outcome CheckScript(const CacheSubject& subject) {
  CacheScript script{.ops = kOpen | kAppend | kClose | kOps, .seed = subject.settings.seed * 1000};
  for (const CacheSpec& spec : CacheShapes()) {
    for (int repeat = 0; repeat < (subject.settings.quick ? 2 : 6); ++repeat, ++script.seed) {
      const std::string wrong = RunScript(subject, spec, script);
      if (!wrong.empty()) return Fail(wrong);
    }
  }
  return Ok();
}

// A store that holds no more than a window is never asked for images.
Outcome CheckWindow(const CacheSubject& subject) {
  struct Window {
    int64_t window;
    int64_t max_step_tokens;
    int64_t max_tokens;
  };
  CacheScript script{.ops = kAllOps & ~uint32_t{kSnapshot}, .seed = subject.settings.seed * 1000};
  for (const auto& [window, max_step_tokens, max_tokens] :
       {Window{20, 7, 150}, {1, 1, 90}, {40, 33, 190}, {17, 16, 64}}) {
    for (CacheSpec spec : CacheShapes()) {
      spec.window = window;
      spec.max_step_tokens = max_step_tokens;
      spec.max_tokens = max_tokens;
      script.n_steps = subject.settings.quick ? 60 : 150;
      const std::string wrong = RunScript(subject, spec, script);
      if (!wrong.empty()) return Fail("window " + std::to_string(window) + ", " + wrong);
      ++script.seed;
    }
  }
  return Ok();
}

// Values narrower than keys, and wider.
// The script over all codecs that the store has, each with a seed of its own; what went wrong.
std::string RunWithCodecs(const CacheSubject& subject, CacheSpec spec, CacheScript* script) {
  for (const CodecInfo& codec : kCodecTable) {
    spec.codec_k = spec.codec_v = codec.codec;
    if (codec.codec != Codec::kF32 && !MakeStore(subject, spec).ok()) continue;
    std::string wrong = RunScript(subject, spec, *script);
    if (!wrong.empty()) return wrong;
    ++script->seed;
  }
  return "";
}

Outcome CheckValueWidth(const CacheSubject& subject) {
  const absl::StatusOr<MadeStore> made = MakeStore(subject, CacheShapes().front());
  if (made.ok() && !made->store->plan().v_head_dim) return Skip("it keeps V as wide as K alone");
  CacheScript script{.ops = kAllOps, .seed = subject.settings.seed * 1000};
  script.n_steps = subject.settings.quick ? 60 : 150;
  for (CacheSpec spec : CacheShapes()) {
    for (const int v_head_dim : {spec.head_dim / 2, spec.head_dim + 3}) {
      spec.v_head_dim = v_head_dim;
      const std::string wrong = RunWithCodecs(subject, spec, &script);
      if (!wrong.empty()) return Fail(wrong);
    }
  }
  return Ok();
}

// Values that are the first numbers of their keys: held so, or apart.
Outcome CheckValuesInKeys(const CacheSubject& subject) {
  const absl::StatusOr<MadeStore> made = MakeStore(subject, CacheShapes().front());
  if (made.ok() && !made->store->plan().v_head_dim) return Skip("it keeps V as wide as K alone");
  CacheScript script{.ops = kAllOps, .seed = subject.settings.seed * 1000};
  script.n_steps = subject.settings.quick ? 60 : 150;
  for (CacheSpec spec : CacheShapes()) {
    spec.v_head_dim = (spec.head_dim + 1) / 2;
    spec.v_in_k = true;
    const std::string wrong = RunWithCodecs(subject, spec, &script);
    if (!wrong.empty()) return Fail(wrong);
  }
  return Ok();
}

// Whether the store has the capability, over the first shape.
template <class Capability>
bool Has(const CacheSubject& subject) {
  const absl::StatusOr<MadeStore> made = MakeStore(subject, CacheShapes().front());
  return made.ok() && CapabilityOf<Capability>(*made->store) != nullptr;
}

Outcome CheckSharing(const CacheSubject& subject) {
  if (!Has<PrefixSharing>(subject)) return Skip("it shares no prefixes");
  return CheckScript<kOpenFor | kFork | kTruncate>(subject);
}

Outcome CheckSnapshots(const CacheSubject& subject) {
  if (!Has<Snapshots>(subject)) return Skip("it keeps no snapshots");
  return CheckScript<kSnapshot | kTruncate>(subject);
}

// Over all codecs; which pair was refused last, and why.
struct Scripted {
  std::string wrong = {};
  std::string refused = {};
  int n_run = 0;
};
Scripted RunScripts(const CacheSubject& subject, int n_steps) {
  Scripted result;
  CacheScript script{.ops = kAllOps, .seed = subject.settings.seed, .n_steps = n_steps};
  for (CacheSpec spec : CacheShapes()) {
    for (const CodecInfo& k : kCodecTable) {
      for (const CodecInfo& v : kCodecTable) {
        spec.codec_k = k.codec;
        spec.codec_v = v.codec;
        const absl::Status made = MakeStore(subject, spec).status();
        const bool plain = k.codec == Codec::kF32 && v.codec == Codec::kF32;
        if (!made.ok() && !plain) {
          result.refused =
              "refuses " + std::string(k.name) + "/" + std::string(v.name) + ": " + Text(made);
          continue;
        }
        ++result.n_run;
        result.wrong = RunScript(subject, spec, script);
        ++script.seed;
        if (!result.wrong.empty()) return result;
      }
    }
  }
  return result;
}

Outcome CheckAllScripts(const CacheSubject& subject) {
  const Scripted result = RunScripts(subject, subject.settings.quick ? 60 : 150);
  return result.wrong.empty() ? Outcome{Result::kOk, result.refused} : Fail(result.wrong);
}

// Two stores at the same time.
Outcome CheckInstances(const CacheSubject& subject) {
  const CacheSpec spec = CacheShapes().front();
  const auto first = MakeStore(subject, spec);
  const auto second = MakeStore(subject, spec);
  if (!first.ok()) return Fail(Text(first.status()));
  if (!second.ok()) return Fail("a second store: " + Text(second.status()));
  const size_t n = static_cast<size_t>(spec.n_kv_heads) * static_cast<size_t>(spec.head_dim);
  std::vector<float> rows[2];
  CacheFeeder feeders[2] = {{*first->store, spec}, {*second->store, spec}};
  for (const int i : {0, 1}) {
    rows[i].assign(n, i == 0 ? 1.0F : -2.0F);
    absl::Status status = feeders[i].Open(4);
    if (status.ok()) status = feeders[i].Append(rows[i]);
    if (!status.ok()) return Fail(Text(status));
  }
  std::vector<float> row(static_cast<size_t>(spec.head_dim));
  first->store->CopyRow(KvPart::kKey, feeders[0].View(0), 0, 0, row.data());
  const bool own = row[0] > 0.0F;
  return own ? Ok() : Fail("a row of one store reads as that of another one");
}

// Whether `got` is what a row with odd numbers must read as.
bool ReadsAs(const CachePlan& plan, Codec codec, std::vector<float> given,
             const std::vector<float>& got) {
  const bool has_nan = std::ranges::any_of(given, [](float x) { return std::isnan(x); });
  if (!plan.codec.empty() || plan.approximate) {
    return !has_nan || std::ranges::any_of(got, [](float x) { return std::isnan(x); });
  }
  RoundToCodec(codec, std::ssize(given), given.data());
  return std::ranges::equal(given, got, [](float a, float b) {
    return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
  });
}

// Rows with NaN, infinity and the smallest and largest numbers, each beside a plain one.
std::string FindWrongInOddRows(const CacheSubject& subject, const CacheSpec& spec) {
  constexpr float kOdd[] = {std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::max(),
                            std::numeric_limits<float>::denorm_min(),
                            -0.0F,
                            0.0F,
                            65520.0F,
                            1e-30F};
  const absl::StatusOr<MadeStore> made = MakeStore(subject, spec);
  if (!made.ok()) return Text(made.status());
  const auto dim = static_cast<size_t>(spec.head_dim);
  std::vector<std::vector<float>> rows;
  for (const float odd : kOdd) {
    rows.emplace_back(dim, odd);  // all of it, or one element
    rows.emplace_back(dim, 0.5F).back() = odd;
    rows.emplace_back(dim, 0.25F);
  }
  std::vector<float> flat;
  for (const auto& row : rows) {
    for (int head = 0; head < spec.n_kv_heads; ++head) {
      flat.insert(flat.end(), row.begin(), row.end());
    }
  }
  CacheFeeder feeder(*made->store, spec);
  absl::Status status = feeder.Open(std::ssize(rows));
  if (status.ok()) status = feeder.Append(flat);
  // Where tokens leave by what their rows hold, NaN has no place.
  if (made->store->plan().slots > 0 && ExitCode(status) == 6) return "";
  if (!status.ok()) return Text(status);
  std::vector<float> got(dim);
  const KvView view = feeder.View(0);
  for (const KvPart part : kParts) {
    const Codec codec = part == KvPart::kKey ? spec.codec_k : spec.codec_v;
    for (size_t token = 0; token < rows.size(); ++token) {
      if (!view.Holds(0, static_cast<int64_t>(token))) continue;
      made->store->CopyRow(part, view, static_cast<int64_t>(token), 0, got.data());
      if (ReadsAs(made->store->plan(), codec, rows[token], got)) continue;
      return Describe(spec) + ": a row from " + std::to_string(rows[token].front()) + " to " +
             std::to_string(rows[token].back()) + " reads from " + std::to_string(got.front()) +
             " to " + std::to_string(got.back());
    }
  }
  return "";
}

Outcome CheckNan(const CacheSubject& subject) {
  for (const CodecInfo& codec : kCodecTable) {
    CacheSpec spec = CacheShapes().front();
    spec.codec_k = spec.codec_v = codec.codec;
    if (codec.codec != Codec::kF32 && !MakeStore(subject, spec).ok()) continue;
    const std::string wrong = FindWrongInOddRows(subject, spec);
    if (!wrong.empty()) return Fail(wrong);
  }
  return Ok();
}

Outcome CheckAllocation(const CacheSubject& subject) {
  if (!subject.settings.count_allocations) return Skip("this program does not count allocations");
  const CacheSpec spec = CacheShapes().front();
  const absl::StatusOr<MadeStore> made = MakeStore(subject, spec, /*threads=*/1);
  if (!made.ok()) return Fail(Text(made.status()));
  CacheFeeder feeder(*made->store, spec);
  const std::vector<float> row(static_cast<size_t>(spec.n_kv_heads * spec.head_dim), 1.0F);
  absl::Status status = feeder.Open(spec.max_tokens);
  for (int64_t i = 0; i < spec.max_tokens && status.ok(); ++i) {
    const int64_t before = subject.settings.count_allocations();
    status = feeder.Append(row);
    feeder.View(1);
    const int64_t n = subject.settings.count_allocations() - before;
    // What decides which tokens leave may need room for that.
    const int64_t boundary = made->store->plan().boundary_tokens;
    if (n != 0 && (boundary == 0 || (i + 1) % boundary != 0)) {
      return Fail("a step of token " + std::to_string(i) + " allocates " + std::to_string(n) +
                  " times");
    }
  }
  return FailIf(Text(status));
}

absl::StatusOr<std::unique_ptr<AttentionBackend>> MakePlainAttention(const PluginContext& context) {
  return std::make_unique<RuleAttention>(context);
}

// Attention over the store, against the formula over the rows that it gives back.
std::string FindWrongInAttention(const CacheSubject& subject, const MakeAttention& backend,
                                 const AttentionCase& c, std::string* refused) {
  UnevenExecutor executor(2);
  PluginContext context = subject.context;
  context.executor = &executor;
  context.isa = subject.settings.isa;
  const auto rig = AttentionRig::Make(c, backend, subject.make, context);
  if (!rig.ok()) {
    *refused = Text(rig.status());
    return "";
  }
  const auto data = MakeData(c);
  const auto whole = (*rig)->Run(data, OneStep(c));
  const auto tokens = (*rig)->Run(data, LastTokenSteps(c, 3), {.abandon = true});
  for (const absl::Status& status : {whole.status(), tokens.status()}) {
    if (!status.ok()) return Text(status);
  }
  std::string wrong = FindBitDifference(tokens->out, whole->out);
  if (!wrong.empty()) return wrong;
  if ((*rig)->store().plan().slots > 0) {
    // What is held at a query's time, only the store can say.
    const auto plain = AttentionRig::Make(c, MakePlainAttention, subject.make, context);
    if (!plain.ok()) return Text(plain.status());
    const auto want = (*plain)->Run(data, OneStep(c));
    return want.ok() ? FindDifference(whole->out, want->out, 2e-2F) : Text(want.status());
  }
  const auto stored = (*rig)->AsStored(data);
  if (!stored.ok()) return Text(stored.status());
  AttentionCase model = c;
  model.codec_k = model.codec_v = Codec::kF32;
  return FindDifference(whole->out, ModelAttention(model, *stored).out, 2e-2F);
}

Outcome CheckAttentionOver(const CacheSubject& subject) {
  if (subject.backends.empty()) return Skip("no backend is given");
  const absl::StatusOr<MadeStore> made = MakeStore(subject, CacheShapes().front());
  if (made.ok() && made->store->plan().approximate) {
    return Skip("it is approximate: what a query sees depends on the steps");
  }
  const AttentionCase c{.n_heads = 4,
                        .n_kv_heads = 2,
                        .head_dim = 16,
                        .lengths = {50, 17},
                        .seed = subject.settings.seed};
  std::string refused;
  size_t n_run = 0;
  for (const auto& [name, backend] : subject.backends) {
    std::string why;
    const std::string wrong = FindWrongInAttention(subject, backend, c, &why);
    if (!wrong.empty()) return Fail(name + ": " + wrong);
    n_run += why.empty() ? 1 : 0;
    if (!why.empty()) refused = "not with " + name + ": " + why;
  }
  return n_run == 0 ? Skip(refused) : Outcome{Result::kOk, refused};
}

constexpr CacheCheck kCacheChecks[] = {
    {"plan", "the plan is that of the factory and goes with the capabilities", CheckPlan},
    {"rows", "rows read back as they were written, once rounded; all is given back",
     CheckScript<0>},
    {"truncate", "what is cut off is gone, and nothing else", CheckScript<kTruncate>},
    {"fork", "a fork has the same rows and goes its own way", CheckScript<kFork | kTruncate>},
    {"abandoned", "a step that is not committed leaves nothing", CheckScript<kAbandon>},
    {"overflow", "a row too many is refused before anything is written",
     CheckScript<kOverflow | kFork>},
    {"window", "of what is outside of a window, nothing need be held, and all else is",
     CheckWindow},
    {"v_head_dim", "values may be narrower or wider than keys", CheckValueWidth},
    {"v_in_k", "values may be the first numbers of their keys", CheckValuesInKeys},
    {"sharing", "prompts that begin alike get what was committed of them", CheckSharing},
    {"snapshots", "images are as specified, and make other sequences", CheckSnapshots},
    {"scripts", "everything in any order, over every codec", CheckAllScripts},
    {"boundaries", "which tokens leave does not depend on how the rows come", CheckCacheBoundaries},
    {"instances", "two stores do not know of one another", CheckInstances},
    {"nan", "NaN, infinities and extreme numbers read back as the codec has them", CheckNan},
    {"allocation", "between Open and Close nothing is allocated", CheckAllocation},
    {"attention", "backends read it as its CopyRow does", CheckAttentionOver},
};

}  // namespace

std::span<const CacheCheck> CacheChecks() { return kCacheChecks; }

std::vector<std::string> CheckCache(const CacheSubject& subject) {
  return RunChecks(CacheChecks(), subject);
}

std::string CheckCacheScripts(const CacheSubject& subject, int n_steps) {
  return RunScripts(subject, n_steps).wrong;
}

}  // namespace ng::conform
