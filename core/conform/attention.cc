#include "ng/conform/attention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <utility>

#include "core/conform/attention_cases.h"
#include "core/conform/special_stores.h"
#include "core/conform/texts.h"

namespace ng::conform {
namespace {

using Rows = std::vector<std::vector<float>>;

// Both tolerate what a sum of many roundings makes.
constexpr float kSumTolerance = 1e-4F;

// A backend over a store, with the threads that it works on.
struct Bench {
  std::unique_ptr<UnevenExecutor> executor;
  std::unique_ptr<AttentionRig> rig;
};

MakeCache StoreFor(const AttentionSubject& subject, const AttentionCase& c) {
  if (c.holes) {
    return [](const PluginContext&,
              const CacheSpec& spec) -> absl::StatusOr<std::unique_ptr<CacheStore>> {
      return std::make_unique<HoleStore>(spec);
    };
  }
  if (c.slots) {
    return [uneven = c.head_slots](
               const PluginContext&,
               const CacheSpec& spec) -> absl::StatusOr<std::unique_ptr<CacheStore>> {
      return std::make_unique<SlotStore>(spec, uneven);
    };
  }
  // Not every store keeps such values.
  return subject.store && c.v_head_dim == 0 ? subject.store : ScatteredStore::Create;
}

absl::StatusOr<Bench> Build(const AttentionSubject& subject, const AttentionCase& c, int threads) {
  Bench bench;
  bench.executor = std::make_unique<UnevenExecutor>(threads);
  PluginContext context = subject.context;
  context.executor = bench.executor.get();
  context.isa = subject.settings.isa;
  context.model = {
      .n_layers = 2, .n_heads = c.n_heads, .n_kv_heads = c.n_kv_heads, .head_dim = c.head_dim};
  NG_ASSIGN_OR_RETURN(bench.rig,
                      AttentionRig::Make(c, subject.make, StoreFor(subject, c), context));
  return bench;
}

// Runs the steps on `threads` threads.
absl::StatusOr<AttentionResult> RunOn(const AttentionSubject& subject, const AttentionCase& c,
                                      int threads, const std::vector<Step>& steps,
                                      const RunRequests& requests = {}) {
  NG_ASSIGN_OR_RETURN(const Bench bench, Build(subject, c, threads));
  return bench.rig->Run(MakeData(c), steps, requests);
}

// What is wrong with the bits of a run; empty: nothing.
std::string DiffersInBits(const std::string& what, const absl::StatusOr<AttentionResult>& got,
                          const AttentionResult& want) {
  if (!got.ok()) return what + ": " + Text(got.status());
  std::string wrong = FindBitDifference(got->out, want.out);
  if (!wrong.empty()) return what + ": " + wrong;
  if (!want.captured.empty()) wrong = FindBitDifference(got->captured, want.captured);
  return wrong.empty() ? "" : what + ": captured " + wrong;
}

// The first level of the CPU that computes in the arithmetic of this one.
IsaLevel PlainestLevelOf(IsaLevel isa) {
  const std::span<const IsaLevel> levels = SupportedIsaLevels();
  return *std::ranges::find_if(
      levels, [isa](IsaLevel level) { return ArithmeticOf(level).name == ArithmeticOf(isa).name; });
}

// A check that looks at one case; what is wrong, or nothing.
using CaseCheck = std::function<std::string(const AttentionSubject&, const AttentionCase&)>;

// What "lists" says of a backend that cannot run at all need not be said by every check.
bool RunsThePlainCase(const AttentionSubject& subject) {
  return Build(subject, ShapeCases(subject).front(), 1).ok();
}
Outcome CannotRun() { return Skip("it cannot run the plain case; see the check 'lists'"); }

// Runs it on all cases. Those that the backend refuses are passed over, but the first of them may
// not be refused.
Outcome OnCases(const AttentionSubject& subject, const std::vector<AttentionCase>& cases,
                const CaseCheck& check) {
  for (const AttentionCase& c : cases) {
    const absl::Status fits = Build(subject, c, 1).status();
    if (!fits.ok() && &c != &cases.front()) continue;
    if (!fits.ok() && !RunsThePlainCase(subject)) return CannotRun();
    const std::string wrong = fits.ok() ? check(subject, c) : Text(fits);
    if (!wrong.empty()) return Fail(c.Describe() + ": " + wrong);
  }
  return Ok();
}

float ToleranceOf(const AttentionSubject& subject, const AttentionCase& c) {
  const bool bf16 = c.codec_k == Codec::kBf16 || c.codec_v == Codec::kBf16;
  const bool ints = HasScales(c.codec_k) || HasScales(c.codec_v);
  return std::max({subject.tolerance,
                   bf16 && subject.settings.isa == IsaLevel::kAvx512Bf16 ? 1e-2F : 0.0F,
                   ints ? subject.int_tolerance : 0.0F});
}

// The formula, over the rows as the store has them, with the backend's own rule.
AttentionResult Model(const AttentionSubject& subject, const AttentionCase& c,
                      const std::vector<SequenceData>& stored,
                      const std::vector<CaptureRequest>& captures = {}) {
  return ModelAttention(WithRule(c, *subject.rule), stored, captures);
}

std::string HoldsValues(const AttentionSubject& subject, const AttentionCase& c) {
  const absl::StatusOr<Bench> bench = Build(subject, c, 1);
  if (!bench.ok()) return Text(bench.status());
  // The second time, nothing may be left over from the sequences before.
  for (const uint32_t seed : {c.seed, c.seed + 1000}) {
    AttentionCase other = c;
    other.seed = seed;
    const auto data = MakeData(other);
    const auto got = bench->rig->Run(data, WholeSteps(other));
    if (!got.ok()) return Text(got.status());
    const auto stored = bench->rig->AsStored(data);
    if (!stored.ok()) return Text(stored.status());
    const std::string wrong =
        FindDifference(got->out, Model(subject, other, *stored).out, ToleranceOf(subject, c));
    if (!wrong.empty()) return (seed == c.seed ? "" : "in sequences opened again: ") + wrong;
  }
  return "";
}

Outcome CheckLists(const AttentionSubject& subject) {
  const AttentionCase plain = ShapeCases(subject).front();
  const absl::StatusOr<Bench> bench = Build(subject, plain, 1);
  if (!bench.ok()) {
    return Fail(plain.Describe() + ": " + Text(bench.status()) +
                (subject.store ? "" : " (is a store given that it reads?)"));
  }
  AttentionBackend& backend = bench->rig->backend();
  const std::span<const std::string_view> layouts = backend.layouts();
  if (layouts.empty()) return Fail("lists no layout");
  if (Lists(layouts, "")) return Fail("lists a layout without a name");
  for (const std::string_view feature : backend.features()) {
    if (!Lists(kAttentionFeatures, feature)) {
      return Fail("lists no feature: " + std::string(feature));
    }
  }
  const absl::Status unknown = backend.Supports(plain.Spec(), {.layout = "no such layout"});
  if (unknown.ok() && !Lists(layouts, kLayoutAny)) return Fail("accepts an unknown layout");
  if (!unknown.ok() && OneLine(Text(unknown)) != Text(unknown)) {
    return Fail("a refusal is not one line");
  }
  if (OneLine(backend.Report()) != backend.Report()) return Fail("Report is not one line");
  return Ok();
}

Outcome CheckValues(const AttentionSubject& subject) {
  if (!subject.rule) return Skip("there is no rule to hold it against");
  return OnCases(subject, ShapeCases(subject), HoldsValues);
}

Outcome CheckCodecs(const AttentionSubject& subject) {
  if (!subject.rule) return Skip("there is no rule to hold it against");
  std::string refused;
  const std::vector<AttentionCase> cases = CodecCases(subject);
  size_t n_refused = 0;
  for (const AttentionCase& c : cases) {
    if (const absl::Status fits = Build(subject, c, 1).status(); !fits.ok()) {
      refused = "refuses " + c.Codecs() + ": " + Text(fits);
      ++n_refused;
    } else if (const std::string wrong = HoldsValues(subject, c); !wrong.empty()) {
      return Fail(c.Describe() + ": " + wrong);
    }
  }
  return n_refused == cases.size() ? Skip(refused) : Outcome{Result::kOk, refused};
}

std::string KeepsBitsOverChunks(const AttentionSubject& subject, const AttentionCase& c) {
  const auto whole = RunOn(subject, c, 1, WholeSteps(c));
  if (!whole.ok()) return Text(whole.status());
  std::string wrong =
      DiffersInBits("one token a step", RunOn(subject, c, 1, TokenSteps(c)), *whole);
  std::mt19937 random(c.seed);
  for (int repeat = 0; repeat < 3 && wrong.empty(); ++repeat) {
    wrong = DiffersInBits("random chunks", RunOn(subject, c, 1, RandomSteps(c, &random)), *whole);
  }
  return wrong;
}

std::string KeepsBitsOverBatches(const AttentionSubject& subject, const AttentionCase& c) {
  const auto alone = RunOn(subject, c, 1, WholeSteps(c));
  if (!alone.ok()) return Text(alone.status());
  std::string wrong =
      DiffersInBits("all sequences in one step", RunOn(subject, c, 1, OneStep(c)), *alone);
  if (!wrong.empty()) return wrong;
  return DiffersInBits("last tokens side by side", RunOn(subject, c, 1, LastTokenSteps(c, 3)),
                       *alone);
}

std::string KeepsBitsOverThreads(const AttentionSubject& subject, const AttentionCase& c) {
  const auto one = RunOn(subject, c, 1, WholeSteps(c));
  if (!one.ok()) return Text(one.status());
  std::mt19937 random(c.seed);
  std::string wrong = DiffersInBits("three threads", RunOn(subject, c, 3, OneStep(c)), *one);
  if (wrong.empty()) {
    wrong = DiffersInBits("random chunks, two threads",
                          RunOn(subject, c, 2, RandomSteps(c, &random)), *one);
  }
  // A lone query on many threads: here a backend may share out keys, and has to merge them.
  if (wrong.empty()) {
    wrong = DiffersInBits("last tokens, three threads", RunOn(subject, c, 3, LastTokenSteps(c, 3)),
                          *one);
  }
  return wrong;
}

std::string RowIsWrong(const std::vector<float>& row, double least) {
  double sum = 0.0;
  for (const float p : row) {
    if (!(p >= 0.0F && p <= 1.0F + kSumTolerance)) return "a captured probability is no such";
    sum += double{p};
  }
  if (sum >= least - kSumTolerance && sum <= 1.0 + kSumTolerance) return "";
  return "a captured row adds to " + std::to_string(sum);
}

// The outputs that captured rows and stored values make, beside those that the backend gave.
std::string OutputIsNotOfCaptures(const AttentionSubject& subject, const AttentionCase& c,
                                  const std::vector<SequenceData>& stored,
                                  const AttentionResult& got) {
  const std::vector<CaptureRequest> requests = CapturesOf(c);
  Rows out;
  Rows expected;
  for (size_t i = 0; i < requests.size(); ++i) {
    const CaptureRequest& request = requests[i];
    const auto s = static_cast<size_t>(request.sequence);
    const int64_t row = request.pos * c.n_heads + request.head;
    const auto begin = got.out[s].begin() + row * c.v_width();
    out.emplace_back(begin, begin + c.v_width());
    expected.push_back(WeighValues(c, stored[s], request, got.captured[i]));
  }
  return FindDifference(out, expected, ToleranceOf(subject, c));
}

// Every level up to the subject's against the first of the same arithmetic.
std::string KeepsBitsOverLevels(const AttentionSubject& subject, const AttentionCase& c) {
  const auto run_on = [&](IsaLevel level) {
    AttentionSubject of = subject;
    of.settings.isa = level;
    return RunOn(of, c, 1, WholeSteps(c), {.captures = CapturesOf(c)});
  };
  for (const IsaLevel level : SupportedIsaLevels()) {
    const IsaLevel plainest = PlainestLevelOf(level);
    if (level == plainest || level > subject.settings.isa) continue;
    const auto want = run_on(plainest);
    if (!want.ok()) return std::string(IsaName(plainest)) + ": " + Text(want.status());
    const std::string names =
        std::string(IsaName(level)) + " beside " + std::string(IsaName(plainest));
    std::string wrong = DiffersInBits(names, run_on(level), *want);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

std::string CapturesWhatItUses(const AttentionSubject& subject, const AttentionCase& c) {
  const absl::StatusOr<Bench> bench = Build(subject, c, 1);
  if (!bench.ok()) return Text(bench.status());
  const auto data = MakeData(c);
  const RunRequests requests{.captures = CapturesOf(c)};
  const auto plain = bench->rig->Run(data, WholeSteps(c));
  const auto captured = bench->rig->Run(data, WholeSteps(c), requests);
  const auto stored = bench->rig->AsStored(data);
  for (const absl::Status& status : {plain.status(), captured.status(), stored.status()}) {
    if (!status.ok()) return Text(status);
  }
  std::string wrong = FindBitDifference(captured->out, plain->out);
  if (!wrong.empty()) return "capturing changes the output: " + wrong;
  if (subject.rule) {
    wrong =
        FindDifference(captured->captured, Model(subject, c, *stored, requests.captures).captured,
                       ToleranceOf(subject, c));
    if (!wrong.empty()) return "captured " + wrong;
  }
  // A sink takes a share that is not in the row.
  for (const auto& row : captured->captured) {
    wrong = RowIsWrong(row, c.sinks.empty() && subject.rule ? 1.0 : 0.0);
    if (!wrong.empty()) return wrong;
  }
  wrong = OutputIsNotOfCaptures(subject, c, *stored, *captured);
  if (!wrong.empty()) return "the output is not that of the captured rows: " + wrong;
  wrong =
      DiffersInBits("one token a step", bench->rig->Run(data, TokenSteps(c), requests), *captured);
  if (!wrong.empty()) return wrong;
  return DiffersInBits("last tokens, three threads",
                       RunOn(subject, c, 3, LastTokenSteps(c, 3), requests), *captured);
}

std::string StaysInItsMemory(const AttentionSubject& subject, const AttentionCase& c) {
  for (const int threads : {1, 3}) {
    for (const auto& steps : {WholeSteps(c), LastTokenSteps(c, 3), OneStep(c)}) {
      const auto got = RunOn(subject, c, threads, steps, {.captures = CapturesOf(c)});
      if (!got.ok()) return std::to_string(threads) + " threads: " + Text(got.status());
    }
  }
  return "";
}

std::string ForgetsAbandonedSteps(const AttentionSubject& subject, const AttentionCase& c) {
  const auto plain = RunOn(subject, c, 1, WholeSteps(c));
  if (!plain.ok()) return Text(plain.status());
  return DiffersInBits("after abandoned steps",
                       RunOn(subject, c, 1, LastTokenSteps(c, 3), {.abandon = true}), *plain);
}

// Two backends at the same time, each with its own store.
std::string KeepsItselfToItself(const AttentionSubject& subject, const AttentionCase& c) {
  AttentionCase other = c;
  other.seed += 500;
  const auto first = Build(subject, c, 1);
  const auto second = Build(subject, other, 1);
  for (const absl::Status& status : {first.status(), second.status()}) {
    if (!status.ok()) return Text(status);
  }
  const auto before = first->rig->Run(MakeData(c), WholeSteps(c));
  const auto between = second->rig->Run(MakeData(other), WholeSteps(other));
  for (const absl::Status& status : {before.status(), between.status()}) {
    if (!status.ok()) return Text(status);
  }
  return DiffersInBits("after another backend has run", first->rig->Run(MakeData(c), WholeSteps(c)),
                       *before);
}

// Where token `bad` of a sequence is NaN, the queries before it are as they were, and the others
// are not finite.
std::string ShowsNan(const AttentionSubject& subject, const AttentionCase& c, int64_t bad,
                     std::vector<float> SequenceData::*part) {
  auto data = MakeData(c);
  const auto bench = Build(subject, c, 1);
  if (!bench.ok()) return Text(bench.status());
  const auto clean = bench->rig->Run(data, WholeSteps(c));
  std::vector<float>& rows = data[0].*part;
  const auto width = std::ssize(rows) / c.lengths[0];
  std::fill_n(rows.begin() + bad * width, width, std::nanf(""));
  const auto dirty = bench->rig->Run(data, WholeSteps(c));
  for (const absl::Status& status : {clean.status(), dirty.status()}) {
    if (!status.ok()) return Text(status);
  }
  const int64_t out_width = int64_t{c.n_heads} * c.v_width();
  const bool query = part == &SequenceData::q;
  for (int64_t i = 0; i < std::ssize(dirty->out[0]); ++i) {
    const int64_t pos = i / out_width;
    const auto at = static_cast<size_t>(i);
    const bool behind = c.window != 0 && pos - bad >= c.window;
    const bool sees = query ? pos == bad : pos >= bad && !behind;
    const bool same =
        std::bit_cast<uint32_t>(dirty->out[0][at]) == std::bit_cast<uint32_t>(clean->out[0][at]);
    std::string where = "NaN in token " + std::to_string(bad) + ": query " + std::to_string(pos) +
                        " is " + std::to_string(dirty->out[0][at]);
    if (!sees && !same) return where + " without having seen it";
    // Of a rule of its own one query may see less.
    const bool must = query || (subject.rule && *subject.rule == AttentionRule{});
    if (sees && must && std::isfinite(dirty->out[0][at])) return where;
  }
  return "";
}

Outcome CheckNan(const AttentionSubject& subject) {
  std::vector<AttentionCase> cases = {
      {.n_heads = 2, .n_kv_heads = 1, .head_dim = 17, .lengths = {70}, .seed = 9}};
  const absl::StatusOr<Bench> bench = Build(subject, cases[0], 1);
  if (!bench.ok()) return CannotRun();
  const bool own_rule = subject.rule && *subject.rule != AttentionRule{};
  if (Lists(bench->rig->backend().features(), kFeatureWindow) && !own_rule) {
    for (AttentionCase c : CodecCases(subject)) {
      c.window = 21;
      c.lengths = {70};
      cases.push_back(c);
    }
  }
  return OnCases(subject, cases, [](const AttentionSubject& of, const AttentionCase& asked) {
    for (const auto part : {&SequenceData::k, &SequenceData::v, &SequenceData::q}) {
      for (const int64_t bad : {5, 16, 69}) {
        if (std::string wrong = ShowsNan(of, asked, bad, part); !wrong.empty()) return wrong;
      }
    }
    return std::string();
  });
}

// In steps like others before.
std::string AllocatesNothing(const AttentionSubject& subject, const AttentionCase& c) {
  const absl::StatusOr<Bench> bench = Build(subject, c, 1);
  if (!bench.ok()) return Text(bench.status());
  const auto data = MakeData(c);
  const auto steps = LastTokenSteps(c, 5);
  const RunRequests requests{.count_allocations = subject.settings.count_allocations};
  absl::StatusOr<AttentionResult> got = bench->rig->Run(data, steps, requests);
  if (got.ok()) got = bench->rig->Run(data, steps, requests);
  if (!got.ok()) return Text(got.status());
  for (size_t i = 0; i < got->allocations.size(); ++i) {
    if (got->allocations[i] == 0) continue;
    return "Plan and Run of a step like others before allocate " +
           std::to_string(got->allocations[i]) + " times";
  }
  return "";
}

Outcome CheckAllocation(const AttentionSubject& subject) {
  if (!subject.settings.count_allocations) return Skip("this program does not count allocations");
  return OnCases(subject, ShapeCases(subject), AllocatesNothing);
}

Outcome CheckStores(const AttentionSubject& subject) {
  if (subject.other_stores.empty()) return Skip("no other store is given");
  const auto cases = CodecCases(subject);
  std::string passed_over;
  for (const AttentionCase& c : {ShapeCases(subject).front(), cases.front(), cases.back()}) {
    const auto own = RunOn(subject, c, 1, WholeSteps(c));
    if (!own.ok()) continue;  // another check says so, where it matters
    for (const auto& [name, store] : subject.other_stores) {
      AttentionSubject other = subject;
      other.store = store;
      const absl::Status fits = Build(other, c, 1).status();
      if (!fits.ok()) {
        passed_over = "not over " + name + ": " + Text(fits);
        continue;
      }
      const std::string wrong =
          DiffersInBits("over " + name, RunOn(other, c, 2, LastTokenSteps(c, 3)), *own);
      if (!wrong.empty()) return Fail(c.Describe() + ": " + wrong);
    }
  }
  return {Result::kOk, passed_over};
}

// What the queries of all steps attended to, to the bit however they come; and the same output.
std::string TellsWhatWasAttended(const AttentionSubject& subject, const AttentionCase& c) {
  const auto one = Build(subject, c, 1);
  const auto three = Build(subject, c, 3);
  if (!one.ok()) return Text(one.status());
  if (!three.ok()) return Text(three.status());
  const auto data = MakeData(c);
  const RunRequests asked{.attended = true};
  const auto plain = one->rig->Run(data, WholeSteps(c));
  const auto whole = one->rig->Run(data, WholeSteps(c), asked);
  const auto again = three->rig->Run(data, WholeSteps(c), asked);
  const auto tokens = three->rig->Run(data, TokenSteps(c), asked);
  std::mt19937 random(c.seed);
  const auto chunks = three->rig->Run(data, RandomSteps(c, &random), asked);
  for (const absl::Status& status :
       {plain.status(), whole.status(), again.status(), tokens.status(), chunks.status()}) {
    if (!status.ok()) return Text(status);
  }
  std::string wrong = FindBitDifference(whole->out, plain->out);
  if (!wrong.empty()) return "asking changes the output: " + wrong;
  wrong = FindBitDifference(again->attended, whole->attended);
  if (!wrong.empty()) return "three threads: attended " + wrong;
  wrong = FindBitDifference(tokens->attended, whole->attended);
  if (!wrong.empty()) return "one token a step: attended " + wrong;
  wrong = FindBitDifference(chunks->attended, whole->attended);
  if (!wrong.empty()) return "chunks and batches: attended " + wrong;
  if (!subject.rule) return "";
  const auto stored = one->rig->AsStored(data);
  if (!stored.ok()) return Text(stored.status());
  const float tolerance = std::max(kSumTolerance, ToleranceOf(subject, c));
  wrong = FindDifference(whole->attended, Model(subject, c, *stored).attended, tolerance);
  return wrong.empty() ? "" : "attended " + wrong;
}

// What queries would have given to what was not read: shares, the same bits however the queries
// come, and the same output.
std::string TellsWhatItMissed(const AttentionSubject& subject, const AttentionCase& c) {
  const auto one = Build(subject, c, 1);
  const auto three = Build(subject, c, 3);
  if (!one.ok()) return Text(one.status());
  if (!three.ok()) return Text(three.status());
  const auto data = MakeData(c);
  const RunRequests asked{.missed = true};
  const auto plain = one->rig->Run(data, WholeSteps(c));
  const auto whole = one->rig->Run(data, WholeSteps(c), asked);
  std::mt19937 random(c.seed);
  const auto chunks = three->rig->Run(data, RandomSteps(c, &random), asked);
  for (const absl::Status& status : {plain.status(), whole.status(), chunks.status()}) {
    if (!status.ok()) return Text(status);
  }
  std::string wrong = FindBitDifference(whole->out, plain->out);
  if (!wrong.empty()) return "asking changes the output: " + wrong;
  for (const std::vector<float>& shares : whole->missed) {
    for (const float share : shares) {
      if (share >= 0.0F && share <= 1.0F + kSumTolerance) continue;
      return "missed " + std::to_string(share) + ", must be in [0, 1]";
    }
    if (shares.front() != 0.0F) return "the first token's query missed something";
  }
  wrong = FindBitDifference(chunks->missed, whole->missed);
  return wrong.empty() ? "" : "chunks, batches and three threads: missed " + wrong;
}

// Of a feature that the backend lists.
Outcome CheckFeature(const AttentionSubject& subject, std::string_view feature) {
  const absl::StatusOr<Bench> plain = Build(subject, ShapeCases(subject).front(), 1);
  if (!plain.ok()) return CannotRun();
  const AttentionBackend& backend = plain->rig->backend();
  if (!Lists(backend.features(), feature)) {
    return Skip("does not list '" + std::string(feature) + "'");
  }
  const bool any = Lists(backend.layouts(), kLayoutAny);
  if (feature == kFeatureVHeadDim && !any) return Skip("it does not read rows with CopyRow");
  const bool of_rows = feature == kFeatureHoles || feature == kFeatureVInK ||
                       feature == kFeatureSlots || feature == kFeatureHeadSlots;
  if (of_rows && !any && !Lists(backend.layouts(), kLayoutTiles16)) {
    return Skip("it reads a layout of its own");
  }
  if (feature == kFeatureAttended) {
    std::vector<AttentionCase> cases = FeatureCases(subject, feature);
    const auto lacks = [&](bool asked, std::string_view name) {
      const bool own = subject.rule && subject.rule->Has(name);  // of the backend's own rule
      return asked && (own || !Lists(backend.features(), name));
    };
    std::erase_if(cases, [&](const AttentionCase& c) {
      return lacks(c.window != 0, kFeatureWindow) || lacks(!c.sinks.empty(), kFeatureSinks) ||
             lacks(c.slots, kFeatureSlots) || lacks(c.head_slots, kFeatureHeadSlots);
    });
    return OnCases(subject, cases, TellsWhatWasAttended);
  }
  if (feature == kFeatureMissed) {
    return OnCases(subject, ShapeCases(subject), TellsWhatItMissed);
  }
  if (subject.rule && subject.rule->Has(feature)) return Skip("the backend's own rule has it too");
  return OnCases(subject, FeatureCases(subject, feature),
                 [](const AttentionSubject& of, const auto& c) {
                   std::string wrong = of.rule ? HoldsValues(of, c) : "";
                   if (wrong.empty()) wrong = CapturesWhatItUses(of, c);
                   if (wrong.empty()) wrong = KeepsBitsOverChunks(of, c);
                   return wrong.empty() ? KeepsBitsOverThreads(of, c) : wrong;
                 });
}

// The cases of most checks: shapes, and all codecs.
template <std::string (*kCheck)(const AttentionSubject&, const AttentionCase&)>
Outcome OnAllCases(const AttentionSubject& subject) {
  std::vector<AttentionCase> cases = ShapeCases(subject);
  const std::vector<AttentionCase> codecs = CodecCases(subject);
  cases.insert(cases.end(), codecs.begin(), codecs.end());
  return OnCases(subject, cases, kCheck);
}
template <std::string (*kCheck)(const AttentionSubject&, const AttentionCase&)>
Outcome OnShapes(const AttentionSubject& subject) {
  return OnCases(subject, ShapeCases(subject), kCheck);
}
template <const std::string_view& kFeature>
Outcome OnFeature(const AttentionSubject& subject) {
  return CheckFeature(subject, kFeature);
}

constexpr AttentionCheck kAttentionChecks[] = {
    {"lists", "layouts and features are known; what cannot run is refused in a line", CheckLists},
    {"values", "outputs are those of the formula, over f32", CheckValues},
    {"codecs", "outputs are those of the formula, over every codec", CheckCodecs},
    {"chunks", "the bits do not depend on how tokens are split into steps",
     OnAllCases<KeepsBitsOverChunks>},
    {"batch", "the bits do not depend on what else is in the step",
     OnAllCases<KeepsBitsOverBatches>},
    {"threads", "the bits do not depend on the threads; no region within a region",
     OnAllCases<KeepsBitsOverThreads>},
    {"levels", "the bits are the same on every instruction set level of an arithmetic",
     OnAllCases<KeepsBitsOverLevels>},
    {"captures", "captured rows are those of the output, also when asked for twice",
     OnAllCases<CapturesWhatItUses>},
    {"memory", "scratch is enough; out and captures are written, and nothing beside them",
     OnShapes<StaysInItsMemory>},
    {"abandoned", "a step that is not committed leaves nothing", OnShapes<ForgetsAbandonedSteps>},
    {"instances", "two backends do not know of one another", OnShapes<KeepsItselfToItself>},
    {"nan", "a NaN shows in every query that sees it and in no other", CheckNan},
    {"allocation", "a step like one before allocates nothing", CheckAllocation},
    {"stores", "the bits are the same over every store", CheckStores},
    {"window", "the feature does what the spec asks", OnFeature<kFeatureWindow>},
    {"soft_cap", "the feature does what the spec asks", OnFeature<kFeatureSoftCap>},
    {"sinks", "the feature does what the spec asks", OnFeature<kFeatureSinks>},
    {"alibi", "the feature does what the spec asks", OnFeature<kFeatureAlibi>},
    {"query_temperature", "the feature does what the spec asks",
     OnFeature<kFeatureQueryTemperature>},
    {"chunked_window", "the feature does what the spec asks", OnFeature<kFeatureChunkedWindow>},
    {"v_head_dim", "the feature does what the spec asks", OnFeature<kFeatureVHeadDim>},
    {"v_in_k", "the feature does what the spec asks", OnFeature<kFeatureVInK>},
    {"holes", "tokens that the cache lacks take no part", OnFeature<kFeatureHoles>},
    {"slots", "tokens that have left take no part, in each kv head others",
     OnFeature<kFeatureSlots>},
    {"head_slots", "the same where each kv head holds another number of tokens",
     OnFeature<kFeatureHeadSlots>},
    {"attended", "it tells the probabilities that each token got", OnFeature<kFeatureAttended>},
    {"missed", "it tells what queries would have given to what it did not read",
     OnFeature<kFeatureMissed>},
};

}  // namespace

std::span<const AttentionCheck> AttentionChecks() { return kAttentionChecks; }

std::vector<std::string> CheckAttention(const AttentionSubject& subject) {
  return RunChecks(AttentionChecks(), subject);
}

}  // namespace ng::conform
