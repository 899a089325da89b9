// The stage grammar over a vocabulary of 150000 made-up tokens: how long the mask of a token takes,
// and a token of a chain with it. The grammars are those of tests/grammar/grammars, and those of
// calls of the tools in tests/grammar/agent_tools.json.
//   build/bin/benchmark_sampling --benchmark_filter=Grammar
// GrammarMask and GrammarCalls take 20000 and 5000 steps of random answers, each of at most 200
// tokens; masks that are met for the first time count too, what is made in create does not. Times
// are CPU time.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
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
#include "tests/core/text/chat/calls/call_templates.h"

namespace ng {
namespace {

constexpr size_t kTokens = 150000;
constexpr int kMostTokens = 200;  // of an answer
// Bytes come first, then tokens without a text: the numbers that call_templates.h gives them.
constexpr int32_t kBytes = 256;
constexpr int32_t kSpecial = 16;
constexpr int32_t kStop = kBytes + 1;

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

// Made-up tokens and some special ones, as a plugin is told of them.
struct Vocabulary {
  Vocabulary() : texts(MadeUpTokens().Make()) {
    texts.insert(texts.begin() + kBytes, kSpecial, "");
    views.assign(texts.begin(), texts.end());
    special.assign(texts.size(), 0);
    std::fill_n(special.begin() + kBytes, kSpecial, uint8_t{1});
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

// A machine that answers are drawn from, and the masks of what comes next.
class DrawnAnswers {
 public:
  explicit DrawnAnswers(const grammar::Program& program)
      : machine_(grammar::Machine::Make(program, TheTrie().depth()).value()),
        masks_(TheTrie(), machine_, TheVocabulary().context.model.vocab_size,
               TheVocabulary().stop_ids) {
    std::vector<int32_t> others;
    for (int32_t id = kBytes; program.reads_others() && id < kBytes + kSpecial; ++id) {
      if (id != kStop && !IsNamed(id)) others.push_back(id);
    }
    masks_.SetOthers(others);
    masks_.Prepare();
  }

  // Whether an answer ends with the token that is drawn, by one random number after another; the
  // next draw begins another one.
  bool Draw(std::mt19937& random, double* seconds) {
    const double begin = CpuSeconds();
    const std::span<const uint64_t> mask = masks_.Of(now_).value();
    *seconds = CpuSeconds() - begin;
    const int32_t id = Pick(mask, random);
    if (id != kStop && !machine_.MustEnd(Advance(id))) return false;
    now_ = grammar::Machine::kStart;
    return true;
  }
  void Begin() { now_ = grammar::Machine::kStart; }
  int32_t Advance(int32_t id) {
    const std::string_view text = TheVocabulary().views[static_cast<size_t>(id)];
    if (!text.empty()) return now_ = machine_.Advance(now_, text).value();
    const std::span<const int32_t> named = machine_.program().tokens();
    const auto i = IsNamed(id) ? std::ranges::lower_bound(named, id) : named.end();
    const auto read = machine_.program().ClassOfToken(static_cast<size_t>(i - named.begin()));
    return now_ = machine_.AdvanceToken(now_, read).value();
  }

 private:
  static const grammar::TokenTrie& TheTrie() {
    static const grammar::TokenTrie trie(TheVocabulary().context);
    return trie;
  }
  bool IsNamed(int32_t id) const {
    return std::ranges::binary_search(machine_.program().tokens(), id);
  }

  grammar::Machine machine_;
  grammar::Masks masks_;
  int32_t now_ = grammar::Machine::kStart;
};

// What masks took, as counters.
class MaskTimes {
 public:
  explicit MaskTimes(benchmark::State& state) : state_(state) {}
  void Add(double seconds) {
    state_.SetIterationTime(seconds);
    microseconds_.push_back(1e6 * seconds);
  }
  void Tell() {
    std::ranges::sort(microseconds_);
    for (const auto& [name, share] : {std::pair("median_us", 0.5), std::pair("p99_us", 0.99),
                                      std::pair("p99.9_us", 0.999), std::pair("max_us", 1.0)}) {
      const double place = share * static_cast<double>(microseconds_.size() - 1);
      state_.counters[name] = microseconds_[static_cast<size_t>(place)];
    }
  }

 private:
  benchmark::State& state_;
  std::vector<double> microseconds_;
};

void GrammarMask(benchmark::State& state, const char* name) {
  std::string kept;
  DrawnAnswers answers(CompileGrammar(SourceOf(name, kept)).value());
  std::mt19937 random(7);
  MaskTimes times(state);
  int n_tokens = 0;
  while (state.KeepRunning()) {
    double seconds = 0;
    const bool ended = answers.Draw(random, &seconds);
    times.Add(seconds);
    if (!ended && ++n_tokens < kMostTokens) continue;
    answers.Begin();
    n_tokens = 0;
  }
  times.Tell();
}

struct CallCase {
  const char* name;   // of call_templates.h
  const char* begin;  // what begins a call in a text
  bool marks_are_tokens = true;
};

// The tools of a coding agent, in the format of a template: each answer is a call, or has one
// behind some text. The stage knows nothing before each answer, as for a request with new tools.
void GrammarCalls(benchmark::State& state, const CallCase& one, bool forced) {
  constexpr int kTextBefore = 12;  // tokens
  const test::BoundTemplate bound =
      test::Bind(test::CallTemplateOf(one.name), one.marks_are_tokens);
  std::ifstream file(NG_SOURCE_DIR "/tests/grammar/agent_tools.json");
  const std::string tools{std::istreambuf_iterator<char>(file), {}};
  const std::string grammar =
      bound.chat
          ->CallGrammar({.messages = R"([{"role": "user", "content": "ask"}])", .tools = tools},
                        {.must = forced})
          .value();
  const std::vector<int32_t> begin =
      bound.tokenizer->Encode(one.begin, {.parse_special = true}).value();
  const grammar::Program program = CompileGrammar({.gbnf = grammar}).value();
  std::mt19937 random(7);
  MaskTimes times(state);
  std::optional<DrawnAnswers> answer;
  int n_tokens = 0;
  while (state.KeepRunning()) {
    if (!answer) answer.emplace(program);
    double seconds = 0;
    const bool ended = answer->Draw(random, &seconds);
    times.Add(seconds);
    if (++n_tokens == kTextBefore && !forced && !ended) {
      for (const int32_t id : begin) answer->Advance(id);
    }
    if (!ended && n_tokens < kMostTokens) continue;
    answer.reset();
    n_tokens = 0;
  }
  times.Tell();
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
void Calls(benchmark::internal::Benchmark* b) {
  b->Iterations(5000)->UseManualTime()->Unit(benchmark::kMicrosecond);
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

#define NG_CALLS(title, ...)                                                                 \
  BENCHMARK_CAPTURE(GrammarCalls, title##_auto, CallCase{__VA_ARGS__}, false)->Apply(Calls); \
  BENCHMARK_CAPTURE(GrammarCalls, title##_forced, CallCase{__VA_ARGS__}, true)->Apply(Calls)
NG_CALLS(hermes, "hermes", "<tool_call>");
NG_CALLS(hermes_in_bytes, "hermes", "<tool_call>", false);
NG_CALLS(one_object, "one_object", R"({"name": "edit_file")");
NG_CALLS(list, "list", "[TOOL_CALLS]");
NG_CALLS(head, "head", "[TOOL_CALLS]");
NG_CALLS(parameters, "parameters", "<tool_call>");
NG_CALLS(key_and_value, "key_and_value", "<tool_call>");
NG_CALLS(invoke, "invoke", "<x:calls>");
NG_CALLS(typed, "typed", "<|M|calls>", false);
NG_CALLS(quoted_by_a_mark, "quoted_by_a_mark", "<|call>");
NG_CALLS(quoted_arguments, "quoted_arguments", "<call>");
NG_CALLS(python, "python", "<|list|>");
NG_CALLS(python_arguments, "python_arguments", "<call>");
#undef NG_CALLS
#undef NG_GRAMMAR

}  // namespace
}  // namespace ng
