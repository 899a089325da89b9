// A token chosen from a vocabulary of 150000, by chain: normally distributed logits as of a model,
// and all logits equal, where no chain finds anything to leave out early. own_us: the CPU time that
// the stages take; draw_us: that of a draw without stages, just before. Their sum is the time of
// the chain.
//   build/bin/benchmark_sampling --benchmark_repetitions=9
//     --benchmark_enable_random_interleaving=true --benchmark_report_aggregates_only=true
#include <benchmark/benchmark.h>

#include <cstdint>
#include <ctime>
#include <limits>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "core/sampling/sampling.h"
#include "ng/plugin.h"
#include "plugins/sampler/dry/dry.h"
#include "plugins/sampler/frequency_penalty/count_penalty.h"
#include "plugins/sampler/greedy/greedy.h"
#include "plugins/sampler/logit_bias/logit_bias.h"
#include "plugins/sampler/min_p/min_p.h"
#include "plugins/sampler/mirostat/mirostat.h"
#include "plugins/sampler/repetition_penalty/repetition_penalty.h"
#include "plugins/sampler/temperature/temperature.h"
#include "plugins/sampler/top_k/top_k.h"
#include "plugins/sampler/top_n_sigma/top_n_sigma.h"
#include "plugins/sampler/top_p/top_p.h"
#include "plugins/sampler/typical_p/typical_p.h"
#include "plugins/sampler/xtc/xtc.h"

namespace ng {
namespace {

constexpr int64_t kVocab = 150000;

// A constraint that every third token meets: by the mask, or written into the list.
class Constraint final : public SamplerStage {
 public:
  explicit Constraint(bool by_list) : by_list_(by_list), bits_((kVocab + 63) / 64) {
    for (int64_t id = 0; id < kVocab; id += 3) bits_[id / 64] |= uint64_t{1} << (id % 64);
  }
  absl::Status Apply(int /*slot*/, const DrawKey& /*key*/, CandidateSet& candidates) override {
    if (!by_list_) candidates.Mask(bits_);
    for (int64_t i = 0; by_list_ && i < candidates.size(); ++i) {
      Candidate& candidate = candidates.items()[i];
      if ((bits_[candidate.id / 64] >> (candidate.id % 64) & 1) == 0) {
        candidate.logit = -std::numeric_limits<float>::infinity();
      }
    }
    return candidates.MaxLogit().status();
  }

 private:
  const bool by_list_;
  std::vector<uint64_t> bits_;
};

std::unique_ptr<SamplerStage> MakeStage(const std::string& name) {
  if (name == "greedy") return std::make_unique<Greedy>();
  if (name == "temperature") return Temperature::Create(0.9).value();
  if (name == "top_k") return TopK::Create(50).value();
  if (name == "top_p") return TopP::Create(0.95).value();
  if (name == "min_p") return MinP::Create(0.05).value();
  if (name == "mask") return std::make_unique<Constraint>(/*by_list=*/false);
  if (name == "list") return std::make_unique<Constraint>(/*by_list=*/true);
  PluginContext context;
  ModelShape& shape = context.model;
  shape.vocab_size = kVocab;
  if (name == "typical_p") return TypicalP::Create(0.95).value();
  if (name == "top_n_sigma") return TopNSigma::Create(1.0).value();
  if (name == "xtc") return Xtc::Create({.probability = 1.0, .threshold = 0.001}, kVocab).value();
  if (name == "mirostat") return Mirostat::Create({}, shape).value();
  if (name == "dry") return Dry::Create({}, context).value();
  if (name == "frequency_penalty") {
    return std::make_unique<CountPenalty>(CountsAs::kFrequency, CountPenaltyOptions(), shape);
  }
  if (name == "logit_bias") {
    constexpr std::string_view kBiases[] = {"7=1.5", "70=-inf", "7000=2"};
    return LogitBias::Create(kBiases, kVocab).value();
  }
  return RepetitionPenalty::Create({.value = 1.1, .window = 64}, shape).value();
}

SamplerChain MakeChain(const std::string& names) {
  std::vector<ChainStage> stages;
  std::istringstream list(names);
  for (std::string name; std::getline(list, name, ',');) {
    stages.emplace_back();
    stages.back().name = name;
    stages.back().stage = MakeStage(name);
  }
  return {std::move(stages), kVocab, SupportedIsaLevels().back()};
}

std::vector<float> Logits(bool equal) {
  std::vector<float> logits(kVocab, 1.0F);
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 2.0F);
  if (!equal) {
    for (float& logit : logits) logit = normal(random);
  }
  return logits;
}

double CpuMicros() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}

void Choose(benchmark::State& state, const char* names) {
  SamplerChain chain = MakeChain(names);
  SamplerChain bare = MakeChain("");
  const std::vector<float> logits = Logits(/*equal=*/state.range(0) != 0);
  std::vector<int32_t> prompt(64);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<int32_t>(i * 997);
  int64_t step = 0;
  const auto choose = [&](SamplerChain& by) {
    if (!by.Choose(0, logits, {1, 0, step++, 0}).ok()) state.SkipWithError("choose failed");
  };
  if (!chain.Open(0, prompt).ok() || !bare.Open(0, prompt).ok()) state.SkipWithError("open failed");
  constexpr int kBareDraws = 100;
  choose(bare);
  const double start = CpuMicros();
  for (int i = 0; i < kBareDraws; ++i) choose(bare);
  const double draw = (CpuMicros() - start) / kBareDraws;
  const double begin = CpuMicros();
  while (state.KeepRunning()) choose(chain);
  const double each = (CpuMicros() - begin) / static_cast<double>(state.iterations());
  state.counters["draw_us"] = draw;
  state.counters["own_us"] = each - draw;
}

void Cases(benchmark::internal::Benchmark* b) {
  b->ArgName("equal")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);
}

BENCHMARK_CAPTURE(Choose, no_stage, "")->Apply(Cases);
BENCHMARK_CAPTURE(Choose, greedy, "greedy")->Apply(Cases);
BENCHMARK_CAPTURE(Choose, t, "temperature")->Apply(Cases);
BENCHMARK_CAPTURE(Choose, t_top_k, "temperature,top_k")->Apply(Cases);
BENCHMARK_CAPTURE(Choose, t_top_p, "temperature,top_p")->Apply(Cases);
BENCHMARK_CAPTURE(Choose, t_top_k_top_p, "temperature,top_k,top_p")->Apply(Cases);
BENCHMARK_CAPTURE(Choose, t_min_p, "temperature,min_p")->Apply(Cases);
BENCHMARK_CAPTURE(Choose, mask_t_top_p, "mask,temperature,top_p")->Apply(Cases);
BENCHMARK_CAPTURE(Choose, list_t_top_p, "list,temperature,top_p")->Apply(Cases);
BENCHMARK_CAPTURE(Choose, r_t, "repetition_penalty,temperature")->Apply(Cases);
BENCHMARK_CAPTURE(Choose, r_t_top_p, "repetition_penalty,temperature,top_p")->Apply(Cases);

BENCHMARK_CAPTURE(Choose, typical_p, "typical_p")->Apply(Cases);
BENCHMARK_CAPTURE(Choose, top_n_sigma, "top_n_sigma")->Apply(Cases);
BENCHMARK_CAPTURE(Choose, xtc, "xtc")->Apply(Cases);
BENCHMARK_CAPTURE(Choose, mirostat, "mirostat")->Apply(Cases);
BENCHMARK_CAPTURE(Choose, dry, "dry")->Apply(Cases);
BENCHMARK_CAPTURE(Choose, frequency_penalty, "frequency_penalty")->Apply(Cases);
BENCHMARK_CAPTURE(Choose, logit_bias, "logit_bias")->Apply(Cases);

}  // namespace
}  // namespace ng

BENCHMARK_MAIN();
