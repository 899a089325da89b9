#include "tests/conformance/attention_conformance.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string_view>

#include "core/machine/executor.h"
#include "tests/conformance/scattered_store.h"

namespace ng {
namespace {

constexpr float kSumTolerance = 1e-4F;

// Lengths around a tile and around splits of 128, 256 and 512 keys.
std::vector<AttentionCase> Cases() {
  std::vector<AttentionCase> cases = {
      {.n_heads = 2, .n_kv_heads = 2, .head_dim = 4, .lengths = {1, 17, 40}},
      {.n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .lengths = {15, 16, 270}},
      {.n_heads = 3, .n_kv_heads = 1, .head_dim = 33, .lengths = {129, 9}},
      {.n_heads = 6, .n_kv_heads = 2, .head_dim = 64, .lengths = {31, 40}},
      {.n_heads = 2, .n_kv_heads = 1, .head_dim = 80, .lengths = {70}},
      {.n_heads = 1, .n_kv_heads = 1, .head_dim = 6, .lengths = {600}},
  };
  for (const auto& [k, v] :
       {std::pair(Codec::kBf16, Codec::kBf16), std::pair(Codec::kF16, Codec::kF16),
        std::pair(Codec::kF32, Codec::kF16), std::pair(Codec::kBf16, Codec::kF32),
        std::pair(Codec::kInt8, Codec::kInt8), std::pair(Codec::kInt8, Codec::kInt4),
        std::pair(Codec::kInt4, Codec::kInt8), std::pair(Codec::kInt4, Codec::kBf16)}) {
    cases.push_back({.n_heads = 4,
                     .n_kv_heads = 2,
                     .head_dim = 7,
                     .codec_k = k,
                     .codec_v = v,
                     .lengths = {50, 16, 261}});
  }
  for (size_t i = 0; i < cases.size(); ++i) cases[i].seed = static_cast<uint32_t>(i + 1);
  return cases;
}

// What a backend that lists the feature must do.
struct FeatureCase {
  std::string_view feature;
  AttentionCase asked;
};
std::vector<FeatureCase> FeatureCases() {
  const AttentionCase plain{.n_heads = 4, .n_kv_heads = 2, .head_dim = 6, .lengths = {40, 9}};
  std::vector<FeatureCase> cases;
  for (const int64_t window : {1, 5, 64}) {
    cases.push_back({kFeatureWindow, plain});
    cases.back().asked.window = window;
    if (window > 40) cases.back().asked.lengths = {270};
  }
  cases.push_back({kFeatureSoftCap, plain});
  cases.back().asked.soft_cap = 0.75F;
  cases.push_back({kFeatureSinks, plain});
  cases.back().asked.sinks = {-1.5F, 0.0F, 3.0F, 30.0F};
  cases.push_back({kFeatureAlibi, plain});
  cases.back().asked.alibi_slopes = {0.25F, 0.0625F, 0.0F, 1.0F};
  cases.push_back({kFeatureQueryTemperature, plain});
  cases.back().asked.query_temperature = {.coefficient = 0.5, .length = 8, .offset = 1};
  cases.push_back({kFeatureQueryTemperature, plain});
  cases.back().asked.query_temperature = {.coefficient = 0.1, .length = 16, .offset = 0};
  cases.push_back({kFeatureVHeadDim, plain});
  cases.back().asked.v_head_dim = 4;
  for (size_t i = 0; i < cases.size(); ++i) cases[i].asked.seed = static_cast<uint32_t>(100 + i);
  return cases;
}

// As ScatteredStore, but CopyRow gives the first elements of a row of V only.
class NarrowValues final : public ScatteredStore {
 public:
  NarrowValues(const CacheSpec& spec, int v_head_dim)
      : ScatteredStore(spec), v_head_dim_(v_head_dim) {}

  void CopyRow(KvPart part, const KvView& view, int64_t token, int kv_head,
               float* out) const override {
    if (part == KvPart::kKey) return ScatteredStore::CopyRow(part, view, token, kv_head, out);
    std::vector<float> row(static_cast<size_t>(spec_.head_dim));
    ScatteredStore::CopyRow(part, view, token, kv_head, row.data());
    std::copy_n(row.begin(), v_head_dim_, out);
  }

 private:
  const int v_head_dim_;
};

MakeCache StoreFor(const AttentionCase& c) {
  if (c.v_head_dim == 0) return ScatteredStore::Create;
  return [n = c.v_head_dim](const PluginContext&,
                            const CacheSpec& spec) -> absl::StatusOr<std::unique_ptr<CacheStore>> {
    return std::make_unique<NarrowValues>(spec, n);
  };
}

bool Lists(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::count(names, name) != 0;
}

// The last positions of every sequence and some before, on every head in turn; one of them twice.
std::vector<CaptureRequest> Requests(const AttentionCase& c) {
  std::vector<CaptureRequest> requests;
  for (size_t s = 0; s < c.lengths.size(); ++s) {
    const int64_t last = c.lengths[s] - 1;
    for (const int64_t pos : {last, last / 2, int64_t{0}}) {
      requests.push_back({.sequence = static_cast<int>(s),
                          .pos = pos,
                          .head = static_cast<int>(requests.size()) % c.n_heads});
    }
  }
  requests.push_back(requests.front());
  return requests;
}

class Suite {
 public:
  Suite(const MakeAttention& make, const AttentionConformanceOptions& options)
      : make_(make), options_(options) {}

  std::vector<std::string> Run() {
    CheckListsAndRefusals();
    const std::vector<AttentionCase> cases = Cases();
    for (size_t i = 0; i < cases.size(); ++i) CheckCase(cases[i], /*may_refuse=*/i > 0);
    for (const FeatureCase& c : FeatureCases()) {
      // Of a narrower V there is nothing but rows to read.
      const bool readable = c.feature != kFeatureVHeadDim || reads_any_;
      if (readable && Lists(features_, c.feature)) CheckCase(c.asked, /*may_refuse=*/false);
    }
    if (Lists(features_, kFeatureAttended)) CheckAttended();
    return failures_;
  }

 private:
  void Fail(const std::string& what) { failures_.push_back(what); }

  std::unique_ptr<AttentionRig> MakeRig(const AttentionCase& c, Executor* executor,
                                        bool may_refuse) {
    PluginContext context;
    context.executor = executor;
    context.isa = options_.isa;
    auto rig = AttentionRig::Make(c, make_, StoreFor(c), context);
    if (rig.ok()) return *std::move(rig);
    if (!may_refuse) Fail(c.Describe() + ": " + std::string(rig.status().message()));
    return nullptr;
  }

  void CheckListsAndRefusals() {
    const auto executor = MakeExecutor(1);
    const AttentionCase plain = Cases().front();
    const auto rig = MakeRig(plain, executor.get(), /*may_refuse=*/false);
    if (rig == nullptr) return;
    AttentionBackend& backend = rig->backend();
    features_.assign(backend.features().begin(), backend.features().end());
    reads_any_ = Lists(backend.layouts(), kLayoutAny);
    if (backend.layouts().empty()) Fail("lists no layout");
    if (!reads_any_ && backend.Supports(plain.Spec(), {.layout = "no such layout"}).ok()) {
      Fail("accepts an unknown layout");
    }
  }

  void CheckCase(const AttentionCase& c, bool may_refuse) {
    const auto one = MakeExecutor(1);
    const auto two = MakeExecutor(2);
    const auto three = MakeExecutor(3);
    const auto rig = MakeRig(c, one.get(), may_refuse);
    if (rig == nullptr) return;
    const auto data = MakeData(c);
    const auto requests = Requests(c);
    const AttentionResult model = ModelAttention(c, data, requests);

    const auto whole = rig->Run(data, WholeSteps(c));
    if (!Expect(c, "prefill", whole.status())) return;
    Expect(c, "prefill", FindDifference(whole->out, model.out, Tolerance(c)));

    const auto captured = rig->Run(data, WholeSteps(c), requests);
    if (!Expect(c, "capture", captured.status())) return;
    Expect(c, "capture changes the output", FindBitDifference(captured->out, whole->out));
    Expect(c, "captured rows", FindDifference(captured->captured, model.captured, Tolerance(c)));
    // A sink takes a share that is not in the row.
    for (const auto& row : captured->captured) CheckSum(c, row, c.sinks.empty() ? 1.0 : 0.0);

    const auto tokens = rig->Run(data, TokenSteps(c), requests);
    if (!Expect(c, "one token a step", tokens.status())) return;
    Expect(c, "one token a step", FindBitDifference(tokens->out, whole->out));
    Expect(c, "one token a step, captured rows",
           FindBitDifference(tokens->captured, captured->captured));

    const auto threaded = MakeRig(c, two.get(), /*may_refuse=*/false);
    if (threaded == nullptr) return;
    std::mt19937 random(c.seed);
    for (int repeat = 0; repeat < 3; ++repeat) {
      const auto chunks = threaded->Run(data, RandomSteps(c, &random), requests);
      if (!Expect(c, "random chunks, two threads", chunks.status())) return;
      Expect(c, "random chunks, two threads", FindBitDifference(chunks->out, whole->out));
    }
    CheckReuse(c, rig.get());

    // A lone query on many threads: here a backend may share out keys, and has to merge them.
    const auto shared = MakeRig(c, three.get(), /*may_refuse=*/false);
    if (shared == nullptr) return;
    const auto last = shared->Run(data, LastTokenSteps(c, 3), requests);
    if (!Expect(c, "last tokens, three threads", last.status())) return;
    Expect(c, "last tokens, three threads", FindBitDifference(last->out, whole->out));
    Expect(c, "last tokens, three threads, captured rows",
           FindBitDifference(last->captured, captured->captured));
  }

  // What the queries of all steps attended to, whatever the threads; and the same output.
  void CheckAttended() {
    const AttentionCase c = FeatureCases().front().asked;  // a window, if the backend knows it
    AttentionCase asked = c;
    if (!Lists(features_, kFeatureWindow)) asked.window = 0;
    const auto one = MakeExecutor(1);
    const auto three = MakeExecutor(3);
    const auto rig = MakeRig(asked, one.get(), /*may_refuse=*/false);
    const auto threaded = MakeRig(asked, three.get(), /*may_refuse=*/false);
    if (rig == nullptr || threaded == nullptr) return;
    const auto data = MakeData(asked);
    const AttentionResult model = ModelAttention(asked, data);
    const auto whole = rig->Run(data, WholeSteps(asked), {}, /*attended=*/true);
    if (!Expect(asked, "attended", whole.status())) return;
    Expect(asked, "attended", FindDifference(whole->attended, model.attended, kSumTolerance));
    Expect(asked, "output beside attended", FindDifference(whole->out, model.out, Tolerance(c)));
    const auto again = threaded->Run(data, WholeSteps(asked), {}, /*attended=*/true);
    if (!Expect(asked, "attended, three threads", again.status())) return;
    Expect(asked, "attended, three threads", FindBitDifference(again->attended, whole->attended));
    const auto tokens = threaded->Run(data, TokenSteps(asked), {}, /*attended=*/true);
    if (!Expect(asked, "attended, one token a step", tokens.status())) return;
    Expect(asked, "attended, one token a step",
           FindDifference(tokens->attended, model.attended, kSumTolerance));
  }

  // Other sequences in the same store: nothing may be left over from those before.
  void CheckReuse(const AttentionCase& c, AttentionRig* rig) {
    AttentionCase other = c;
    other.seed += 1000;
    const auto data = MakeData(other);
    const auto again = rig->Run(data, WholeSteps(other));
    if (!Expect(c, "a second set of sequences", again.status())) return;
    Expect(c, "a second set of sequences",
           FindDifference(again->out, ModelAttention(other, data).out, Tolerance(c)));
  }

  float Tolerance(const AttentionCase& c) const {
    const bool bf16 = c.codec_k == Codec::kBf16 || c.codec_v == Codec::kBf16;
    const bool ints = HasScales(c.codec_k) || HasScales(c.codec_v);
    return std::max({options_.tolerance, bf16 ? options_.bf16_tolerance : 0.0F,
                     ints ? options_.int_tolerance : 0.0F});
  }

  void CheckSum(const AttentionCase& c, const std::vector<float>& row, double least) {
    double sum = 0.0;
    bool in_range = true;
    for (const float p : row) {
      in_range = in_range && p >= 0.0F && p <= 1.0F + kSumTolerance;
      sum += p;
    }
    if (!in_range) Fail(c.Describe() + ": a captured probability is outside [0, 1]");
    if (!(sum >= least - kSumTolerance && sum <= 1.0 + kSumTolerance)) {
      Fail(c.Describe() + ": captured row adds to " + std::to_string(sum));
    }
  }

  bool Expect(const AttentionCase& c, const std::string& what, const absl::Status& status) {
    return Expect(c, what, std::string(status.message()));
  }
  bool Expect(const AttentionCase& c, const std::string& what, const std::string& difference) {
    if (!difference.empty()) Fail(c.Describe() + ": " + what + ": " + difference);
    return difference.empty();
  }

  const MakeAttention& make_;
  const AttentionConformanceOptions options_;
  std::vector<std::string_view> features_;
  bool reads_any_ = false;
  std::vector<std::string> failures_;
};

}  // namespace

std::vector<std::string> CheckAttention(const MakeAttention& make,
                                        const AttentionConformanceOptions& options) {
  return Suite(make, options).Run();
}

}  // namespace ng
