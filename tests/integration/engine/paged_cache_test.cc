// The paged cache in whole runs: many prompts through a small pool, prefixes computed once, and not
// a bit of a result changed by either.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ng/engine.h"
#include "tests/integration/run_support.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kPagedContext = 400;

class PagedCache : public ::testing::Test {
 protected:
  struct Ran {
    std::vector<Completion> done;
    std::vector<Statistic> stats;
    int64_t Count(std::string_view name) const { return StatisticValue(stats, name); }
  };

  static void SetUpTestSuite() {
    dir_ = new TempDir;
    TinyNiels model;
    model.max_positions = kPagedContext;  // several key splits
    model.WriteTo(dir_->path());
  }
  static void TearDownTestSuite() {
    delete dir_;
    dir_ = nullptr;
  }

  static std::vector<int32_t> RandomIds(int64_t n, std::mt19937* random) {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < n; ++i) ids.push_back(static_cast<int32_t>((*random)() % 61));
    return ids;
  }

  static Ran Run(const std::vector<std::string>& ways, const std::vector<GenerateRequest>& requests,
                 bool prompt_logits = false) {
    EngineOptions options;
    options.overrides = {"model.path=" + dir_->path(), "sampler.chain=temperature,top_k",
                         "run.stop_ids="};
    options.overrides.insert(options.overrides.end(), ways.begin(), ways.end());
    const auto engine = Engine::Open(options);
    EXPECT_TRUE(engine.ok()) << engine.status();
    const absl::Status loaded = (*engine)->Load(Needs(requests));
    EXPECT_TRUE(loaded.ok()) << loaded;
    GenerateOptions keep;
    keep.capture_decode_logits = true;
    keep.capture_logits = prompt_logits;
    auto done = (*engine)->Generate(requests, keep);
    EXPECT_TRUE(done.ok()) << done.status();
    return {done.ok() ? *std::move(done) : std::vector<Completion>(),
            (*engine)->CacheStatistics().value()};
  }

  // A draw depends on the request's index: the others are there, but compute nothing.
  static Completion RunAlone(size_t index, const std::vector<GenerateRequest>& requests) {
    std::vector<GenerateRequest> alone = requests;
    for (size_t i = 0; i < alone.size(); ++i) {
      if (i != index) alone[i].max_new_tokens = 0;
    }
    return Run({"cache.name=contiguous", "cache.max_sequences=1", "run.threads=1"}, alone)
        .done[index];
  }

  static void ExpectSameAsAlone(const std::vector<GenerateRequest>& requests, const Ran& ran,
                                size_t stride = 1) {
    ASSERT_EQ(ran.done.size(), requests.size());
    for (size_t i = 0; i < requests.size(); i += stride) {
      const Completion alone = RunAlone(i, requests);
      EXPECT_EQ(ran.done[i].ids, alone.ids) << i;
      EXPECT_EQ(ran.done[i].captured.decode_logits, alone.captured.decode_logits) << i;
    }
    EXPECT_EQ(ran.Count("pages_held"), 0);
  }

  static int64_t PrefillTokens(const Ran& ran) {
    int64_t n = 0;
    for (const Completion& done : ran.done) n += done.timings.prefill_tokens;
    return n;
  }

  static TempDir* dir_;
};

TempDir* PagedCache::dir_ = nullptr;

TEST_F(PagedCache, GivesTheBitsOfTheContiguousOneForEveryPageSizeAndSplit) {
  std::mt19937 random(1);
  std::vector<GenerateRequest> requests;
  for (const int64_t n : {270, 1, 33, 128}) requests.push_back({RandomIds(n, &random), 20, {}});
  const std::vector<std::vector<std::string>> ways = {
      {"cache.paged.page_tokens=16"},
      {"cache.paged.page_tokens=48", "run.prefill_chunk=37", "run.threads=3"},
      {"cache.paged.page_tokens=256", "cache.codec=f32", "run.use_cache=false"}};
  for (std::vector<std::string> way : ways) {
    way.push_back("cache.name=paged");
    ExpectSameAsAlone(requests, Run(way, requests));
  }
}

TEST_F(PagedCache, HoldsEveryCodecAsTheContiguousOneDoes) {
  std::mt19937 random(3);
  std::vector<GenerateRequest> requests;
  for (const int64_t n : {70, 5}) requests.push_back({RandomIds(n, &random), 8, {}});
  for (const char* codec : {"bf16", "f16", "int8", "int4"}) {
    const std::string setting = absl::StrCat("cache.codec=", codec);
    const Ran contiguous = Run({"cache.name=contiguous", setting}, requests);
    const Ran paged = Run({"cache.name=paged", "cache.paged.page_tokens=16", setting}, requests);
    ASSERT_EQ(paged.done.size(), requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(paged.done[i].captured.decode_logits, contiguous.done[i].captured.decode_logits)
          << codec;
    }
  }
}

// Of 64 prompts with 320 tokens in common one computes them, whether all of it in a step or not.
TEST_F(PagedCache, ComputesACommonPrefixOnce) {
  std::mt19937 random(2);
  const std::vector<int32_t> prefix = RandomIds(320, &random);
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 64; ++i) {
    std::vector<int32_t> prompt = prefix;
    for (const int32_t id : RandomIds(8, &random)) prompt.push_back(id);
    requests.push_back({prompt, 4, {}});
  }
  for (const int chunk : {0, 100}) {
    const Ran ran = Run({"cache.name=paged", absl::StrCat("run.prefill_chunk=", chunk)}, requests);
    ExpectSameAsAlone(requests, ran, 21);
    EXPECT_EQ(PrefillTokens(ran), 320 + 64 * 8);
    EXPECT_EQ(ran.done[5].timings.shared_tokens, 320);
    EXPECT_EQ(ran.Count("shared_tokens"), 63 * 320);
    EXPECT_LE(ran.Count("most_pages_held"), 320 / 32 + 64);
  }
  const Ran unshared = Run({"cache.name=paged", "cache.paged.share_prefixes=false"}, requests);
  EXPECT_EQ(PrefillTokens(unshared), 64 * 328);
  EXPECT_EQ(unshared.done[63].ids, RunAlone(63, requests).ids);
}

// Prompts that have more or less in common, in a pool too small to keep everything.
TEST_F(PagedCache, SharingChangesNoBit) {
  std::mt19937 random(3);
  for (int repeat = 0; repeat < 6; ++repeat) {
    const std::vector<int32_t> text = RandomIds(200, &random);
    std::vector<GenerateRequest> requests;
    for (int i = 0; i < 10; ++i) {
      std::vector<int32_t> prompt(text.begin(), text.begin() + 1 + random() % 200);
      if (random() % 3 == 0) {
        int32_t& id = prompt[random() % prompt.size()];
        id = (id + 1) % 61;
      }
      requests.push_back({prompt, static_cast<int64_t>(random() % 30), {}});
    }
    const Ran ran =
        Run({"cache.name=paged", "cache.paged.page_tokens=16", "cache.paged.pool_tokens=400",
             absl::StrCat("run.prefill_chunk=", random() % 60),
             absl::StrCat("run.threads=", 1 + random() % 3)},
            requests);
    ExpectSameAsAlone(requests, ran);
    EXPECT_GT(ran.Count("shared_tokens"), 0);
  }
}

TEST_F(PagedCache, ComputesEveryRowThatIsLookedAt) {
  std::mt19937 random(4);
  const std::vector<int32_t> prompt = RandomIds(70, &random);
  const std::vector<GenerateRequest> requests = {{prompt, 3, {}}, {prompt, 3, {}}};
  const Ran ran = Run({"cache.name=paged"}, requests, /*prompt_logits=*/true);
  EXPECT_EQ(ran.done[1].timings.shared_tokens, 0);
  EXPECT_EQ(ran.done[1].captured.logits.size(), 70U * 61U);
  EXPECT_EQ(ran.done[1].captured.logits, ran.done[0].captured.logits);
}

// A text that outgrows the context changes every position: nothing of it is shared.
TEST_F(PagedCache, RunsBeyondTheContext) {
  std::mt19937 random(5);
  const std::vector<int32_t> prompt = RandomIds(60, &random);
  const std::vector<GenerateRequest> requests = {{prompt, 30, {}}, {prompt, 30, {}}};
  const std::vector<std::string> beyond = {"run.on_full=recompute", "cache.max_tokens=64",
                                           "cache.paged.page_tokens=16"};
  const Ran plain = Run(beyond, requests);
  std::vector<std::string> tight = beyond;
  tight.insert(tight.end(), {"cache.name=paged", "cache.paged.pool_tokens=64"});
  const Ran paged = Run(tight, requests);
  for (const size_t i : {0, 1}) EXPECT_EQ(paged.done[i].ids, plain.done[i].ids);
  EXPECT_EQ(paged.Count("pages_held"), 0);
}

std::vector<GenerateRequest> RaggedRequests(int n, std::mt19937* random) {
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < n; ++i) {
    std::vector<int32_t> prompt;
    const auto length = 1 + (*random)() % 40;
    for (size_t j = 0; j < length; ++j) prompt.push_back(static_cast<int32_t>((*random)() % 61));
    requests.push_back({prompt, static_cast<int64_t>(1 + (*random)() % 24), {}});
  }
  return requests;
}

// The pool has room for 8 of the longest; shorter ones go in as they fit.
TEST_F(PagedCache, RunsTwoHundredRaggedPromptsThroughAPoolForEight) {
  std::mt19937 random(6);
  const std::vector<GenerateRequest> requests = RaggedRequests(200, &random);
  const Ran ran = Run({"cache.name=paged", "cache.paged.page_tokens=16",
                       "cache.paged.pool_tokens=512", "run.prefill_chunk=16"},
                      requests);
  ExpectSameAsAlone(requests, ran);
  EXPECT_EQ(ran.Count("n_pages"), 32);
  EXPECT_GT(ran.Count("most_pages_held"), 24);
}

TEST_F(PagedCache, SaysWhatItHeldAndShared) {
  const TempDir temp;
  std::mt19937 random(7);
  const std::vector<int32_t> ids = RandomIds(50, &random);
  const std::string line = Json{{"prompt_ids", ids}, {"max_new_tokens", 5}}.dump() + "\n";
  const Arguments run = {"--model.path=" + dir_->path(),
                         "--cache.name=paged",
                         "--sampler.chain=greedy",
                         "--run.stop_ids=",
                         "--prompts",
                         temp.Write("p.jsonl", line + line),
                         "--output=jsonl"};
  const Result result = NgRun(run);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::vector<Json> lines = JsonLines(result.out);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0]["ids"], lines[1]["ids"]);
  EXPECT_THAT(Keys(lines[0]["cache"]),
              ::testing::ElementsAre("shared_tokens", "page_tokens", "n_pages", "pages_held",
                                     "most_pages_held", "most_held_empty", "dropped_pages"));
  EXPECT_EQ(lines[0]["cache"]["shared_tokens"], 0);
  EXPECT_EQ(lines[1]["cache"]["shared_tokens"], 32);
  EXPECT_EQ(lines[1]["timings"]["prefill_tokens"], 18);
  EXPECT_EQ(lines[1]["cache"]["n_pages"], 4);
  EXPECT_THAT(result.err, HasSubstr(", cache 3 of 4 pages ("));
  EXPECT_THAT(result.err,
              HasSubstr(" % empty), shared 32 of 100 prompt tokens, cut after 5 tokens"));
  const Result contiguous = NgRun(run + Arguments{"--cache.name=contiguous"});
  EXPECT_THAT(contiguous.err, Not(HasSubstr("pages")));
  EXPECT_EQ(JsonLines(contiguous.out)[0].count("cache"), 0U);
}

TEST_F(PagedCache, RefusesBadOptionsAndAPoolTooSmall) {
  const Arguments turn = DemoTurn(200) + Arguments{"--cache.name=paged"};
  ExpectError(NgRun(turn + Arguments{"--cache.paged.page_tokens=20"}), 2,
              {"cache.paged.page_tokens = 20, must be a multiple of 16"});
  ExpectError(NgRun(turn + Arguments{"--cache.paged.page_tokens=8"}), 2,
              {"page_tokens", "8", "16"});
  ExpectError(
      NgRun(turn + Arguments{"--cache.paged.pool_tokens=100"}), 2,
      {"cache.paged.pool_tokens = 100, must be a multiple of cache.paged.page_tokens = 32"});
  ExpectError(NgRun(turn + Arguments{"--cache.paged.pool_tokens=128"}), 5,
              {"cache.paged.pool_tokens = 128 are 4 pages of 32 tokens, a sequence of 208 tokens "
               "needs 7"});
  ExpectError(NgRun(turn + Arguments{"--cache.paged.share=true"}), 2,
              {"cache.paged.share", "share_prefixes"});
  ExpectError(NgRun(turn + Arguments{"--cache.paged.pool_tokens=1152921504606846976"}), 5,
              {"1152921504606846976"});
}

TEST_F(PagedCache, IsListedAndDescribed) {
  const Arguments paged = Demo() + Arguments{"--cache.name=paged"};
  EXPECT_THAT(NgRun({"--list-plugins"}).out, HasSubstr("cache.paged.page_tokens = 32"));
  EXPECT_THAT(NgRun(paged + Arguments{"--help", "all"}).out,
              HasSubstr("cache.paged.share_prefixes"));
  const Result described = NgRun(paged + Arguments{"--dry-run", "--cache.paged.pool_tokens=1024"});
  EXPECT_EQ(described.exit_code, 0) << described.err;
  EXPECT_THAT(described.out, HasSubstr("cache plugin 'paged'"));
  EXPECT_THAT(described.out, HasSubstr("paged.pool_tokens = 1024"));
}

}  // namespace
}  // namespace ng::test
