#include "ng/conform/speed.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/conform/sampler_rig.h"
#include "ng/conform/scattered_store.h"

namespace ng::conform {
namespace {

using Work = std::function<absl::Status()>;  // done once

// Microseconds of each call, over so many calls that the clock can tell.
absl::StatusOr<double> Time(const Work& work) {
  constexpr std::chrono::microseconds kLeast(500);
  const auto begin = std::chrono::steady_clock::now();
  int64_t n = 0;
  std::chrono::duration<double, std::micro> spent{};
  do {
    NG_RETURN_IF_ERROR(work());
    ++n;
    spent = std::chrono::steady_clock::now() - begin;
  } while (spent < kLeast);
  return spent.count() / static_cast<double>(n);
}

absl::StatusOr<SpeedRatio> InTurn(std::string of, const Work& own, const Work& other, bool quick) {
  std::vector<double> times[2];
  for (int round = 0; round < (quick ? 15 : 101); ++round) {
    for (const int i : {round % 2, 1 - round % 2}) {
      NG_ASSIGN_OR_RETURN(const double time, Time(i == 0 ? own : other));
      if (round > 0) times[i].push_back(time);  // the first one warms up
    }
  }
  for (auto& all : times) std::ranges::nth_element(all, all.begin() + std::ssize(all) / 2);
  return SpeedRatio{.of = std::move(of),
                    .own_us = times[0][times[0].size() / 2],
                    .other_us = times[1][times[1].size() / 2]};
}

// Numbers in [-1, 1).
std::vector<float> SomeFloats(int64_t n) {
  std::vector<float> floats(static_cast<size_t>(n));
  uint32_t state = 1;
  for (float& x : floats) {
    state = state * 1664525U + 1013904223U;
    x = static_cast<float>(state >> 8) * 0x1p-23F - 1.0F;
  }
  return floats;
}

constexpr int kHeads = 9;
constexpr int kKvHeads = 3;
constexpr int kHeadDim = 64;
constexpr int64_t kDepth = 1024;  // tokens

PluginContext ContextOf(PluginContext context, Executor& executor, IsaLevel isa, int n_layers) {
  context.executor = &executor;
  context.isa = isa;
  context.model.n_layers = n_layers;
  context.model.n_heads = kHeads;
  context.model.n_kv_heads = kKvHeads;
  context.model.head_dim = kHeadDim;
  return context;
}

CacheSpec SpecOf(std::span<const std::string_view> layouts, int n_layers) {
  return {.n_layers = n_layers,
          .n_kv_heads = kKvHeads,
          .head_dim = kHeadDim,
          .max_tokens = kDepth,
          .max_sequences = 1,
          .layouts = layouts,
          .max_step_tokens = kDepth};
}

// A backend before a decode step over a full store.
class DecodeStep {
 public:
  static absl::StatusOr<std::unique_ptr<DecodeStep>> Make(const AttentionSubject& subject) {
    auto step = std::make_unique<DecodeStep>();
    const PluginContext context =
        ContextOf(subject.context, step->executor_, subject.settings.isa, 1);
    NG_ASSIGN_OR_RETURN(step->backend_, subject.make(context));
    const MakeCache make = subject.store ? subject.store : ScatteredStore::Create;
    NG_ASSIGN_OR_RETURN(step->store_, make(context, SpecOf(step->backend_->layouts(), 1)));
    const AttentionSpec spec{.n_heads = kHeads,
                             .n_kv_heads = kKvHeads,
                             .head_dim = kHeadDim,
                             .v_head_dim = kHeadDim,
                             .scale = 0.125F};
    NG_RETURN_IF_ERROR(step->backend_->Supports(spec, {.layout = step->store_->plan().layout}));
    NG_ASSIGN_OR_RETURN(step->plan_, step->backend_->NewPlan(spec));
    NG_RETURN_IF_ERROR(step->Fill());
    return step;
  }

  absl::Status Run() {
    NG_RETURN_IF_ERROR(backend_->Plan({&rows_, 1}, *plan_));
    scratch_.resize(static_cast<size_t>(plan_->scratch_floats) + 16);
    void* aligned = scratch_.data();
    size_t space = scratch_.size() * sizeof(float);
    std::align(64, space - 64, aligned, space);
    return backend_->Run(*plan_, {.layer = 0,
                                  .rows = {&rows_, 1},
                                  .q = {q_.data(), {1, kHeads, kHeadDim}},
                                  .views = {&view_, 1},
                                  .out = {out_.data(), {1, kHeads, kHeadDim}},
                                  .scratch = {static_cast<float*>(aligned),
                                              static_cast<size_t>(plan_->scratch_floats)},
                                  .captures = {},
                                  .attended = {}});
  }

 private:
  absl::Status Fill() {
    NG_ASSIGN_OR_RETURN(rows_.sequence, store_->Open(kDepth));
    const std::vector<float> kv = SomeFloats(kDepth * kKvHeads * kHeadDim);
    const TensorView<const float, 3> view(kv.data(), {kDepth, kKvHeads, kHeadDim});
    rows_.n_tokens = kDepth;
    NG_RETURN_IF_ERROR(store_->Append(0, {&rows_, 1}, view, view));
    NG_RETURN_IF_ERROR(store_->Commit({&rows_, 1}));
    view_ = store_->View(0, rows_.sequence, kDepth);
    rows_.start_pos = kDepth - 1;
    rows_.n_tokens = 1;
    return absl::OkStatus();
  }

  UnevenExecutor executor_{1};
  std::unique_ptr<CacheStore> store_;
  std::unique_ptr<AttentionBackend> backend_;
  std::unique_ptr<AttentionPlan> plan_;
  SequenceRows rows_;
  KvView view_;
  std::vector<float> q_ = SomeFloats(kHeads * kHeadDim);
  std::vector<float> out_ = SomeFloats(kHeads * kHeadDim);
  std::vector<float> scratch_;
};

// A store that one sequence grows in, is emptied, and grows again.
class Growth {
 public:
  static constexpr int64_t kStep = 16;  // tokens
  static constexpr int kLayers = 4;

  static absl::StatusOr<std::unique_ptr<Growth>> Make(const CacheSubject& subject) {
    static constexpr std::string_view kLayouts[] = {kLayoutTiles16, kLayoutAny};
    auto growth = std::make_unique<Growth>();
    const PluginContext context =
        ContextOf(subject.context, growth->executor_, subject.settings.isa, kLayers);
    NG_ASSIGN_OR_RETURN(growth->store_, subject.make(context, SpecOf(kLayouts, kLayers)));
    NG_ASSIGN_OR_RETURN(growth->rows_.sequence, growth->store_->Open(kDepth));
    growth->plan_ = growth->store_->plan();
    return growth;
  }

  absl::Status Run() {
    if (rows_.start_pos + kStep > kDepth) {
      NG_RETURN_IF_ERROR(store_->Truncate(rows_.sequence, 0));
      rows_.start_pos = 0;
    }
    const TensorView<const float, 3> view(kv_.data(), {kStep, kKvHeads, kHeadDim});
    // In pieces, where what is held changes within it.
    for (int64_t left = kStep; left > 0; left -= rows_.n_tokens) {
      rows_.n_tokens = std::min(left, plan_.ToBoundary(rows_.start_pos));
      for (int layer = 0; layer < kLayers; ++layer) {
        NG_RETURN_IF_ERROR(store_->Append(layer, {&rows_, 1}, view, view));
      }
      NG_RETURN_IF_ERROR(store_->Commit({&rows_, 1}));
      rows_.start_pos += rows_.n_tokens;
    }
    return absl::OkStatus();
  }

 private:
  UnevenExecutor executor_{1};
  std::unique_ptr<CacheStore> store_;
  CachePlan plan_;
  SequenceRows rows_;
  std::vector<float> kv_ = SomeFloats(kStep * kKvHeads * kHeadDim);
};

// A stage before a row of logits.
class Choice {
 public:
  static constexpr int64_t kTokens = 32768;

  static absl::StatusOr<std::unique_ptr<Choice>> Make(const SamplerSubject& subject) {
    auto choice = std::make_unique<Choice>(subject);
    choice->stage_ = choice->rig_.MakeOpened(SomeTokens(6, 2));
    if (choice->rig_.noted()) return RuntimeError(choice->rig_.outcome().detail);
    return choice;
  }
  explicit Choice(const SamplerSubject& subject)
      : rig_(subject, kTokens), row_(kTokens, subject.settings.isa) {}

  absl::Status Run() {
    CandidateSet candidates = row_.Begin(rig_.inputs().front());
    return stage_->Apply(0, SamplerRig::kKey, candidates);
  }

 private:
  SamplerRig rig_;
  CandidateStorage row_;
  std::unique_ptr<SamplerStage> stage_;
};

template <class Bench, class Subject>
absl::StatusOr<SpeedRatio> Compare(const char* of, const Subject& own, const Subject& other) {
  NG_ASSIGN_OR_RETURN(const auto first, Bench::Make(own));
  NG_ASSIGN_OR_RETURN(const auto second, Bench::Make(other));
  return InTurn(
      of, [&] { return first->Run(); }, [&] { return second->Run(); }, own.settings.quick);
}

}  // namespace

absl::StatusOr<SpeedRatio> CompareSpeed(const AttentionSubject& own,
                                        const AttentionSubject& other) {
  return Compare<DecodeStep>("a decode step at 1024 tokens", own, other);
}

absl::StatusOr<SpeedRatio> CompareSpeed(const CacheSubject& own, const CacheSubject& other) {
  return Compare<Growth>("a step of 16 tokens in 4 layers", own, other);
}

absl::StatusOr<SpeedRatio> CompareSpeed(const SamplerSubject& own, const SamplerSubject& other) {
  return Compare<Choice>("a row of 32768 logits", own, other);
}

}  // namespace ng::conform
