// The stage grammar over a vocabulary of 150000 made-up tokens: how long the mask of a token takes,
// and a token of a chain with it. The grammars are those of tests/grammar/grammars.
//   build/bin/benchmark_sampling --benchmark_filter=Grammar
// GrammarMask takes 20000 steps of random answers, each of at most 200 tokens; masks that are met
// for the first time count too, what is made in create does not. Times are CPU time.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/sampling/sampling.h"
#include "ng/plugin.h"
#include "ng/utf8.h"
#include "plugins/sampler/grammar/grammar.h"
#include "plugins/sampler/grammar/masks/machine.h"
#include "plugins/sampler/grammar/masks/masks.h"
#include "plugins/sampler/grammar/masks/token_trie.h"
#include "plugins/sampler/temperature/temperature.h"
#include "plugins/sampler/top_p/top_p.h"

namespace ng {
namespace {

constexpr size_t kTokens = 150000;
constexpr int kMostTokens = 200;  // of an answer
constexpr int32_t kStop = 0;

// The kinds of tokens that vocabularies of bytes have: all bytes, words, words behind a blank, with
// a capital or in capitals, what stands between them in JSON and code, numbers, runs of one sign,
// and pieces of other scripts.
class MadeUpTokens {
 public:
  std::vector<std::string> Make() {
    for (int byte = 0; byte < 256; ++byte) Keep(std::string(1, static_cast<char>(byte)));
    while (texts_.size() < kTokens) Keep(Another());
    return std::move(texts_);
  }

 private:
  size_t Below(size_t n) { return random_() % n; }
  void Keep(const std::string& text) {
    if (known_.insert(text).second) texts_.push_back(text);
  }
  std::string Word() {
    static constexpr std::string_view kLetters = "eeeetttaaaooiiinnnsssrrhhlldducmfwypvbgkjqxz";
    std::string word;
    for (size_t n = 2 + Below(8); n > 0; --n) word += kLetters[Below(kLetters.size())];
    return word;
  }
  std::string Mark() {
    static constexpr const char* kMarks[] = {"\"",  "\":", "\": ", "\",",  "\", \"", "\"}", "\"]",
                                             "},",  "{\"", "[{",   "}]",   "\\\"",   "\\n", "(\"",
                                             "\")", "();", " \"",  "\"\n", "\n",     "  ",  " {",
                                             " [",  "://", "...",  "==",   ",\n"};
    return kMarks[Below(std::size(kMarks))];
  }
  std::string OtherScript() {
    static constexpr std::pair<uint32_t, uint32_t> kBlocks[] = {
        {0xC0, 0x17F}, {0x400, 0x4FF}, {0x4E00, 0x9FFF}, {0xAC00, 0xD7A3}, {0x1F300, 0x1FAFF}};
    std::string text;
    const auto [low, high] = kBlocks[Below(std::size(kBlocks))];
    for (size_t n = 1 + Below(3); n > 0; --n) {
      AppendUtf8(low + static_cast<uint32_t>(Below(high - low + 1)), &text);
    }
    return text;
  }
  std::string Another() {
    const size_t kind = Below(100);
    std::string word = Word();
    if (kind < 45) return " " + word;
    if (kind < 60) return word;
    if (kind < 75) {
      word[0] = static_cast<char>(word[0] - 'a' + 'A');
      return (kind < 70 ? " " : "") + word;
    }
    if (kind < 80) {
      for (char& c : word) c = static_cast<char>(c - 'a' + 'A');
      return word;
    }
    if (kind < 84) return Mark() + (kind < 82 ? Mark() : word);
    if (kind < 87) return std::to_string(Below(1000));
    if (kind < 98) return OtherScript();
    return std::string(1 + Below(80), " \n\t-=*#"[Below(7)]);
  }

  std::mt19937 random_{1};
  std::vector<std::string> texts_;
  std::set<std::string> known_;
};

// Made-up tokens behind a stop id, as a plugin is told of them.
struct Vocabulary {
  Vocabulary() : texts(MadeUpTokens().Make()) {
    texts.insert(texts.begin(), "");
    views.assign(texts.begin(), texts.end());
    special.assign(texts.size(), 0);
    special[kStop] = 1;
    context.model = {.vocab_size = static_cast<int64_t>(texts.size()), .max_positions = 100000};
    context.token_bytes = views;
    context.special = special;
    context.stop_ids = stop_ids;
  }

  std::vector<std::string> texts;
  std::vector<std::string_view> views;
  std::vector<uint8_t> special;
  std::vector<int32_t> stop_ids = {kStop};
  PluginContext context;
};
const Vocabulary& TheVocabulary() {
  static const Vocabulary vocabulary;
  return vocabulary;
}

// What an option of the stage says; `kept` holds the text.
GrammarSource SourceOf(const std::string& name, std::string& kept) {
  const std::string path = NG_SOURCE_DIR "/tests/grammar/grammars/" + name;
  if (name.ends_with(".json")) return {.json_schema = kept = path};
  if (name.ends_with(".gbnf")) return {.gbnf = kept = path};
  std::ifstream file(path);
  std::getline(file, kept);
  return {.regex = kept};
}

double CpuSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Any of the allowed tokens. One time in four it is one that closes something, so that answers
// come to an end and to other places of the grammar.
int32_t Pick(std::span<const uint64_t> mask, std::mt19937& random) {
  const Vocabulary& vocabulary = TheVocabulary();
  std::vector<int32_t> allowed;
  std::vector<int32_t> closing;
  for (size_t i = 0; i < mask.size(); ++i) {
    for (uint64_t bits = mask[i]; bits != 0; bits &= bits - 1) {
      const auto id = static_cast<int32_t>(64 * i) + std::countr_zero(bits);
      allowed.push_back(id);
      const std::string_view text = vocabulary.views[static_cast<size_t>(id)];
      if (id == kStop || text == "\"" || text == "}" || text == "]") closing.push_back(id);
    }
  }
  const std::vector<int32_t>& from = !closing.empty() && random() % 4 == 0 ? closing : allowed;
  return from[random() % from.size()];
}

void GrammarMask(benchmark::State& state, const char* name) {
  const Vocabulary& vocabulary = TheVocabulary();
  std::string kept;
  const GrammarSource source = SourceOf(name, kept);
  const grammar::TokenTrie trie(vocabulary.context);
  grammar::Machine machine =
      grammar::Machine::Make(CompileGrammar(source).value(), trie.depth()).value();
  grammar::Masks masks(trie, machine, vocabulary.context.model.vocab_size, vocabulary.stop_ids);
  masks.Prepare();
  std::mt19937 random(7);
  std::vector<double> microseconds;
  int32_t now = grammar::Machine::kStart;
  int n_tokens = 0;
  while (state.KeepRunning()) {
    const double begin = CpuSeconds();
    const std::span<const uint64_t> mask = masks.Of(now).value();
    const double seconds = CpuSeconds() - begin;
    state.SetIterationTime(seconds);
    microseconds.push_back(1e6 * seconds);
    const int32_t id = Pick(mask, random);
    for (const char c : vocabulary.views[static_cast<size_t>(id)]) {
      now = machine.Step(now, machine.program().ClassOf(static_cast<uint8_t>(c)));
    }
    if (id != kStop && !machine.MustEnd(now) && ++n_tokens < kMostTokens) continue;
    now = grammar::Machine::kStart;
    n_tokens = 0;
  }
  std::ranges::sort(microseconds);
  const auto share = [&](double of) {
    return microseconds[static_cast<size_t>(of * static_cast<double>(microseconds.size() - 1))];
  };
  state.counters["median_us"] = share(0.5);
  state.counters["p99_us"] = share(0.99);
  state.counters["p99.9_us"] = share(0.999);
  state.counters["max_us"] = share(1.0);
}

// What the stage makes when it is created.
void GrammarCreate(benchmark::State& state, const char* name) {
  std::string kept;
  const GrammarSource source = SourceOf(name, kept);
  while (state.KeepRunning()) {
    if (!Grammar::Create(source, TheVocabulary().context).ok()) state.SkipWithError("create");
  }
}

// A token of a chain: grammar,temperature,top_p or, without a name, the last two.
void GrammarChain(benchmark::State& state, const char* name) {
  const Vocabulary& vocabulary = TheVocabulary();
  std::string kept;
  std::vector<ChainStage> stages;
  if (name != nullptr) {
    stages.push_back(
        {"grammar", Grammar::Create(SourceOf(name, kept), vocabulary.context).value()});
  }
  stages.push_back({"temperature", Temperature::Create(1.5).value()});
  stages.push_back({"top_p", TopP::Create(0.95).value()});
  SamplerChain chain(std::move(stages), vocabulary.context.model.vocab_size,
                     SupportedIsaLevels().back());
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 2.0F);
  std::vector<float> logits(vocabulary.texts.size());
  for (float& logit : logits) logit = normal(random);
  bool fresh = true;
  int64_t step = 0;
  while (state.KeepRunning()) {
    if (std::exchange(fresh, false) && !chain.Open(0, {}).ok()) state.SkipWithError("open");
    const absl::StatusOr<int32_t> id = chain.Choose(0, logits, {1, 0, step++, 0});
    const absl::StatusOr<SequenceEnd> end = id.ok() ? chain.Accept(0, *id) : id.status();
    if (!end.ok()) return state.SkipWithError("choose or accept");
    fresh = *end != SequenceEnd::kNo || *id == kStop || step % kMostTokens == 0;
    if (fresh && !chain.Close(0).ok()) state.SkipWithError("close");
  }
}

void Masks(benchmark::internal::Benchmark* b) {
  b->Iterations(20000)->UseManualTime()->Unit(benchmark::kMicrosecond);
}
void Chain(benchmark::internal::Benchmark* b) { b->Unit(benchmark::kMicrosecond); }
void Create(benchmark::internal::Benchmark* b) { b->Unit(benchmark::kMillisecond); }

#define NG_GRAMMAR(title, file)                                 \
  BENCHMARK_CAPTURE(GrammarMask, title, file)->Apply(Masks);    \
  BENCHMARK_CAPTURE(GrammarCreate, title, file)->Apply(Create); \
  BENCHMARK_CAPTURE(GrammarChain, title, file)->Apply(Chain)

BENCHMARK_CAPTURE(GrammarChain, without, nullptr)->Apply(Chain);
NG_GRAMMAR(person, "person.json");
NG_GRAMMAR(events, "events.json");
NG_GRAMMAR(tree, "tree.json");
NG_GRAMMAR(formats, "formats.json");
NG_GRAMMAR(patterns, "patterns.json");
NG_GRAMMAR(in_order, "in_order.json");
NG_GRAMMAR(anything, "anything.json");
NG_GRAMMAR(cyrillic, "cyrillic.regex");
NG_GRAMMAR(sums, "sums.gbnf");
NG_GRAMMAR(table, "table.gbnf");
#undef NG_GRAMMAR

}  // namespace
}  // namespace ng
