// Every allocation by the caller's thread in Load and Generate is made to fail once, and each time
// the caller gets a Status. So are many of Open's, with each kind of tokenizer.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "core/formats/json.h"
#include "ng/engine.h"
#include "tests/allocation/counting_allocator.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng {
namespace {

// Opens an engine, loads, and generates with everything recorded, a cache saved and read. From Load
// on, allocation `n_failing` fails; none when negative.
absl::Status WholeRun(const std::string& model, int64_t n_failing) {
  EngineOptions options;
  options.overrides = {"model.path=" + model, "run.threads=2", "run.prefill_chunk=3",
                       "sampler.chain=repetition_penalty,temperature,top_k"};
  GenerateOptions keep;
  keep.steps = keep.capture_logits = keep.capture_attn_full = true;
  keep.trace_layers = {0, 1};
  keep.on_step = [](int, const StepRecord&) { return absl::OkStatus(); };
  std::vector<GenerateRequest> requests = {{{1, 2, 3, 4, 5, 6, 7}, 3, {}}, {{8, 9}, 4, {}}};
  requests[1].save_cache = model + "/saved.cache";
  GenerateRequest longer = {{8, 9, 10}, 2, {}};
  longer.load_cache = requests[1].save_cache;

  NG_ASSIGN_OR_RETURN(const auto engine, Engine::Open(options));

  test::n_news = 0;
  test::failing_new = n_failing;
  NG_RETURN_IF_ERROR(engine->Load(Needs(requests)));
  NG_ASSIGN_OR_RETURN(const auto done, engine->Generate(requests, keep));
  NG_RETURN_IF_ERROR(engine->Generate({&longer, 1}, {}).status());
  return done[1].ids.size() == 6 ? absl::OkStatus() : RuntimeError("not all was generated");
}

TEST(OutOfMemory, EveryFailedAllocationBecomesAStatus) {
  const test::TempDir dir;
  test::TinyNiels().WriteTo(dir.path());
  ASSERT_TRUE(WholeRun(dir.path(), -1).ok());  // also makes what is allocated once per process
  ASSERT_TRUE(WholeRun(dir.path(), -1).ok());
  const int64_t total = test::n_news;
  ASSERT_GT(total, 300);
  int n_failed = 0;
  for (int64_t n = 0; n < total; ++n) {
    const absl::Status status = WholeRun(dir.path(), n);
    test::failing_new = -1;
    // A library may do without what it asked for; else the failure is reported as what it is.
    if (status.ok()) continue;
    ++n_failed;
    EXPECT_NE(ExitCode(status), 0) << "allocation " << n << ": " << status;
    EXPECT_FALSE(status.message().empty()) << "allocation " << n;
  }
  EXPECT_GT(n_failed, total / 2);
  const absl::Status after = WholeRun(dir.path(), -1);
  EXPECT_TRUE(after.ok()) << after;  // nothing is left broken
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
  }
  std::printf("%lld allocations, %d failures reported\n", static_cast<long long>(total), n_failed);
}

TEST(OutOfMemory, IsNoneWhereAJsonDocumentGoes) {
  auto document = ParseJson(R"({"a": [[1, "b"], {"c": {"d": [null, 2.5]}}], "e": {}})", "file", 8);
  ASSERT_TRUE(document.ok()) << document.status();
  test::n_news = 0;
  *document = JsonDocument();
  EXPECT_EQ(test::n_news, 0);
}

// Opens an engine and encodes a prompt; allocation `n_failing` fails.
absl::Status OpenAndEncode(const std::string& model, int64_t n_failing) {
  EngineOptions options;
  options.overrides = {"model.path=" + model, "run.threads=1"};
  test::n_news = 0;
  test::failing_new = n_failing;
  NG_ASSIGN_OR_RETURN(const auto engine, Engine::Open(options));
  return engine->Encode("To be, or not to be", {.must_fit = true}).status();
}

TEST(OutOfMemory, WhileOpeningBecomesAStatus) {
  namespace fs = std::filesystem;
  for (const char* const layout : {"spm_unigram", "layouts/mistral_v02", "bbpe_llama3"}) {
    SCOPED_TRACE(layout);
    const test::TempDir dir;
    const std::string data = NG_TEST_DATA "/tokenizers/";
    fs::copy(data + layout, dir.path());
    if (fs::exists(dir.File("tokenizer_config.json"))) {
      fs::copy(data + "spm_bpe_llama/tokenizer.model", dir.path());
    }
    fs::remove(dir.File("config.json"));
    test::TinyNiels model;
    model.vocab_size = 1024;
    model.WriteTo(dir.path());
    ASSERT_TRUE(OpenAndEncode(dir.path(), -1).ok()) << OpenAndEncode(dir.path(), -1);
    const int64_t total = test::n_news;
    constexpr int64_t kTries = 40;
    int n_failed = 0;
    for (int64_t i = 0; i < kTries; ++i) {
      const int64_t n = total * i / kTries;
      const absl::Status status = OpenAndEncode(dir.path(), n);
      test::failing_new = -1;
      if (status.ok()) continue;
      ++n_failed;
      EXPECT_EQ(ExitCode(status), 5) << "allocation " << n << " of " << total << ": " << status;
    }
    EXPECT_GT(n_failed, kTries / 2);
    EXPECT_TRUE(OpenAndEncode(dir.path(), -1).ok());
  }
}

}  // namespace
}  // namespace ng
