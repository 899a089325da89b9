// The suite is tested with seeded faults: one that it misses is a hole in the suite.
#include "tests/conformance/attention_conformance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/conformance/tiles16.h"
#include "tests/sdk/example/one_pass.h"

namespace ng {
namespace {

enum class Fault {
  kNone,
  kMaskOneLate,
  kMaskOneEarly,
  kWrongHeadMap,
  kStalePage,
  kReadsBeyondLength,
  kDroppedScale,
  kDroppedKeyScales,
  kDroppedValueScales,
  kRoundsByChunk,
  kSumsByThreads,
  kMergesALoneQuerysKeysBackwards,
  kDropsALoneQuerysLastKeys,
  kLooksAtOtherSequence,
  kAcceptsEveryLayout,
  kCapturesRawScores,
  kCapturesAnotherHead,
  kCapturingChangesOutput,
  kFillsOneOfTwoEqualCaptures,
  kListsAWindowAndLooksBeyond,
  kListsAttendedAndForgetsAHead,
};

constexpr std::array<std::string_view, 1> kLayouts = {kLayoutTiles16};

// Plain attention over CopyRow with at most one thing wrong.
class FaultyAttention : public AttentionBackend {
 public:
  FaultyAttention(Fault fault, int threads) : fault_(fault), threads_(threads) {}

  std::span<const std::string_view> layouts() const override { return kLayouts; }

  absl::Status Supports(const AttentionSpec& /*spec*/, const CacheFormat& format) const override {
    if (format.layout != kLayoutTiles16 && fault_ != Fault::kAcceptsEveryLayout) {
      return PluginError("layout");
    }
    return absl::OkStatus();
  }

  std::span<const std::string_view> features() const override {
    if (fault_ == Fault::kListsAWindowAndLooksBeyond) return {&kFeatureWindow, 1};
    if (fault_ == Fault::kListsAttendedAndForgetsAHead) return {&kFeatureAttended, 1};
    return {};
  }

  absl::StatusOr<std::unique_ptr<AttentionPlan>> NewPlan(const AttentionSpec& spec) override {
    return std::make_unique<AttentionPlan>(spec);
  }
  absl::Status Plan(std::span<const SequenceRows> /*rows*/, AttentionPlan& /*plan*/) override {
    return absl::OkStatus();
  }

  absl::Status Run(const AttentionPlan& plan, const AttentionRun& run) override {
    for (size_t s = 0; s < run.rows.size(); ++s) {
      for (int64_t t = 0; t < run.rows[s].n_tokens; ++t) {
        for (int head = 0; head < plan.spec.n_heads; ++head) RunRow(plan, run, s, t, head);
      }
    }
    return absl::OkStatus();
  }

 private:
  // The view that a row reads through.
  KvView ChooseView(const AttentionRun& run, size_t s) {
    KvView view = run.views[s];
    if (fault_ == Fault::kLooksAtOtherSequence && run.views.size() > 1) {
      const KvView& other = run.views[(s + 1) % run.views.size()];
      if (other.length >= view.length) view = other;
    }
    if (fault_ == Fault::kStalePage) {
      auto& first = first_pages_[view.sequence];
      if (first.size() < view.pages.size()) first.assign(view.pages.begin(), view.pages.end());
      view.pages = first;
    }
    return view;
  }

  int64_t CountKeys(const KvView& view, int64_t pos) const {
    if (fault_ == Fault::kMaskOneLate) return std::min(pos + 2, view.length);
    if (fault_ == Fault::kMaskOneEarly) return std::max<int64_t>(pos, 1);
    return pos + 1;
  }

  std::vector<float> ReadQuery(const AttentionPlan& plan, const float* q, int64_t n_tokens) const {
    std::vector<float> query(q, q + plan.spec.head_dim);
    if (fault_ == Fault::kRoundsByChunk && n_tokens > 8) {
      for (float& x : query) x += x * 0x1p-20F;
    }
    return query;
  }

  void DropRowScale(const KvView& view, const KvSide& stored, int64_t token, int kv_head,
                    std::vector<float>* row) const {
    const bool is_key = stored.offset == view.k.offset;
    if (fault_ != (is_key ? Fault::kDroppedKeyScales : Fault::kDroppedValueScales)) return;
    const Tiles16Side side{.part = is_key ? KvPart::kKey : KvPart::kValue,
                           .codec = stored.codec,
                           .head_dim = std::ssize(*row)};
    const float scale = ReadScale(side, view.Tile(stored, kv_head, token / 16), token % 16);
    for (float& x : *row) x /= scale;
  }

  std::vector<float> Weigh(const AttentionPlan& plan, const KvView& view, int kv_head,
                           const std::vector<float>& q, int64_t n_keys) const {
    std::vector<float> k(q.size());
    std::vector<float> w(static_cast<size_t>(n_keys));
    for (int64_t j = 0; j < n_keys; ++j) {
      view.store->CopyRow(KvPart::kKey, view, j, kv_head, k.data());
      DropRowScale(view, view.k, j, kv_head, &k);
      double dot = 0.0;
      for (size_t d = 0; d < q.size(); ++d) dot += double{q[d]} * k[d];
      const float scale = fault_ == Fault::kDroppedScale ? 1.0F : plan.spec.scale;
      w[static_cast<size_t>(j)] = static_cast<float>(dot) * scale;
    }
    return w;
  }

  void RunRow(const AttentionPlan& plan, const AttentionRun& run, size_t s, int64_t t, int head) {
    const SequenceRows& rows = run.rows[s];
    const int64_t pos = rows.start_pos + t;
    const KvView view = ChooseView(run, s);
    const int kv_head = fault_ == Fault::kWrongHeadMap
                            ? head % plan.spec.n_kv_heads
                            : head / (plan.spec.n_heads / plan.spec.n_kv_heads);
    const int64_t n_keys = CountKeys(view, pos);
    const auto q = ReadQuery(plan, run.q.Row(rows.row_begin + t, head), rows.n_tokens);
    std::vector<float> w = Weigh(plan, view, kv_head, q, n_keys);
    const std::vector<float> scores = w;
    const float max = *std::max_element(w.begin(), w.end());
    const bool lone = rows.n_tokens == 1 && threads_ > 2 && n_keys > 256;
    const bool backwards = (fault_ == Fault::kSumsByThreads && threads_ > 1) ||
                           (fault_ == Fault::kMergesALoneQuerysKeysBackwards && lone);
    float sum = 0.0F;
    if (backwards) std::reverse(w.begin(), w.end());
    for (float& x : w) sum += x = std::exp(x - max);
    if (backwards) std::reverse(w.begin(), w.end());
    for (float& x : w) x /= sum;

    int64_t n_values = n_keys;
    if (fault_ == Fault::kDropsALoneQuerysLastKeys && lone) n_values = 256;
    if (fault_ == Fault::kReadsBeyondLength) n_values = (n_keys + 15) / 16 * 16;
    std::vector<float> v(q.size());
    std::vector<float> out(q.size());
    for (int64_t j = 0; j < n_values; ++j) {
      view.store->CopyRow(KvPart::kValue, view, j, kv_head, v.data());
      DropRowScale(view, view.v, j, kv_head, &v);
      const float weight = j < n_keys ? w[static_cast<size_t>(j)] : 0.0F;
      for (size_t d = 0; d < out.size(); ++d) out[d] += weight * v[d];
    }
    if (fault_ == Fault::kCapturingChangesOutput && !run.captures.empty()) out[0] += 1e-6F;
    std::copy(out.begin(), out.end(), run.out.Row(rows.row_begin + t, head));
    const int captured_head = fault_ == Fault::kCapturesAnotherHead ? head ^ 1 : head;
    if (!run.attended.empty() && head > 0) {
      for (int64_t j = 0; j < n_keys; ++j) {
        run.attended[s][static_cast<size_t>(j)] += w[static_cast<size_t>(j)];
      }
    }
    for (const ProbabilityRow& capture : run.captures) {
      if (capture.sequence != static_cast<int>(s) || capture.pos != pos) continue;
      if (capture.head != captured_head) continue;
      const auto& from = fault_ == Fault::kCapturesRawScores ? scores : w;
      std::copy_n(from.begin(), std::min(n_keys, pos + 1), capture.out);
      if (fault_ == Fault::kFillsOneOfTwoEqualCaptures) break;
    }
  }

  const Fault fault_;
  const int threads_;
  std::map<SequenceId, std::vector<const std::byte*>> first_pages_;
};

std::vector<std::string> Check(Fault fault) {
  return CheckAttention(
      [fault](const PluginContext& context) -> absl::StatusOr<std::unique_ptr<AttentionBackend>> {
        return std::make_unique<FaultyAttention>(fault, context.executor->threads());
      },
      {});
}

TEST(AttentionConformance, PassesAPlainBackend) {
  EXPECT_THAT(Check(Fault::kNone), testing::IsEmpty());
}

TEST(AttentionConformance, PassesTheExample) {
  const auto make =
      [](const PluginContext& context) -> absl::StatusOr<std::unique_ptr<AttentionBackend>> {
    return std::make_unique<ng_example::OnePass>(context);
  };
  EXPECT_THAT(CheckAttention(make, {}), testing::IsEmpty());
}

struct Seeded {
  Fault fault;
  const char* name;
};

class AttentionFaults : public testing::TestWithParam<Seeded> {};

TEST_P(AttentionFaults, AreFound) {
  EXPECT_THAT(Check(GetParam().fault), testing::Not(testing::IsEmpty()));
}

INSTANTIATE_TEST_SUITE_P(
    Seeded, AttentionFaults,
    testing::Values(
        Seeded{Fault::kMaskOneLate, "MaskOneLate"}, Seeded{Fault::kMaskOneEarly, "MaskOneEarly"},
        Seeded{Fault::kWrongHeadMap, "WrongHeadMap"}, Seeded{Fault::kStalePage, "StalePage"},
        Seeded{Fault::kReadsBeyondLength, "ReadsBeyondLength"},
        Seeded{Fault::kDroppedScale, "DroppedScale"},
        Seeded{Fault::kDroppedKeyScales, "DroppedKeyScales"},
        Seeded{Fault::kDroppedValueScales, "DroppedValueScales"},
        Seeded{Fault::kRoundsByChunk, "RoundsByChunk"},
        Seeded{Fault::kSumsByThreads, "SumsByThreads"},
        Seeded{Fault::kMergesALoneQuerysKeysBackwards, "MergesALoneQuerysKeysBackwards"},
        Seeded{Fault::kDropsALoneQuerysLastKeys, "DropsALoneQuerysLastKeys"},
        Seeded{Fault::kLooksAtOtherSequence, "LooksAtOtherSequence"},
        Seeded{Fault::kAcceptsEveryLayout, "AcceptsEveryLayout"},
        Seeded{Fault::kCapturesRawScores, "CapturesRawScores"},
        Seeded{Fault::kCapturesAnotherHead, "CapturesAnotherHead"},
        Seeded{Fault::kCapturingChangesOutput, "CapturingChangesOutput"},
        Seeded{Fault::kFillsOneOfTwoEqualCaptures, "FillsOneOfTwoEqualCaptures"},
        Seeded{Fault::kListsAWindowAndLooksBeyond, "ListsAWindowAndLooksBeyond"},
        Seeded{Fault::kListsAttendedAndForgetsAHead, "ListsAttendedAndForgetsAHead"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(AttentionConformance, ReportsABackendThatCannotBeMade) {
  const auto failures = CheckAttention(
      [](const PluginContext&) -> absl::StatusOr<std::unique_ptr<AttentionBackend>> {
        return PluginError("no such luck");
      },
      {});
  EXPECT_THAT(failures, testing::Contains(testing::HasSubstr("no such luck")));
}

}  // namespace
}  // namespace ng
