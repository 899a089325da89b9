// Adapters over several ranks: each has the ids, logits and points of one process, bit for bit.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/engine/adapted_model.h"
#include "tests/plugins/fabric/rank_runs.h"
#include "tests/support/temp_dir.h"

namespace ng::test {
namespace {

TEST(Ranks, HaveTheBitsOfOneProcessWithAdapters) {
  for (const char* name : {"llama/untied", "qwen2/tiny", "gpt2/hub_layout"}) {
    const TempDir dir;
    const std::string model = absl::StrCat(kGolden, name);
    std::vector<NamedTensor> tensors = TensorsOf(model);
    Adapter adapter(3);
    for (const AdapterTarget& target : TargetsOf(model)) adapter.Add(target, 2.0, true, tensors);
    const std::string path = adapter.WriteTo(dir.File("adapter"), {{"use_dora", true}});
    const Case plain = {model};
    const auto without = TryRun(plain, false);
    ASSERT_TRUE(without.ok()) << without.status();
    const bool has_one_layer = std::string(name) == "gpt2/hub_layout";
    for (const char* split : {"heads", "layers"}) {
      if (has_one_layer && std::string(split) == "layers") continue;
      const Case one = {model, {"model.adapters=" + path, absl::StrCat("fabric.split=", split)}};
      const bool looks = std::string(split) == "heads";
      const auto alone = TryRun(one, false, looks);
      ASSERT_TRUE(alone.ok()) << alone.status();
      EXPECT_NE((*alone)[0].captured.logits, (*without)[0].captured.logits) << "adds nothing";
      std::vector<absl::StatusOr<std::vector<Completion>>> seen(2);
      OnRanks(2, [&](int rank) { seen[static_cast<size_t>(rank)] = TryRun(one, true, looks); });
      for (const auto& of_rank : seen) {
        ASSERT_TRUE(of_rank.ok()) << name << ", " << split << ": " << of_rank.status();
        ExpectSame(*of_rank, *alone);
      }
    }
  }
}

}  // namespace
}  // namespace ng::test
