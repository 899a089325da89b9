// The suite is tested with seeded faults: one that it misses is a hole in the suite.
#include "tests/conformance/cache_conformance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/conformance/scattered_store.h"
#include "tests/conformance/tiles16.h"

namespace ng {
namespace {

enum class Fault {
  kNone,
  kKeyTransposedWrong,
  kPadNotZero,
  kLengthMovesEarly,
  kTruncateIgnored,
  kForkAliases,
  kForkForgetsLastRow,
  kOverflowAccepted,
  kCapacityUnchecked,
  kRoundsTwice,
  kDropsScale,
  kScaleOfTheTokenBefore,
  kAppendsToOneLayer,
  kCopyRowForgetsHead,
  kSharesAnyPrefix,
  kSharesTheLastToken,
  kGivesNoSlotBack,
  kExportLeavesTheRest,
  kExportsOneLayer,
  kImportForgetsTheLastTile,
  kImportTakesScalesOfTheTileBefore,
  kImportMovesLength,
  kImportTakesAnySize,
  kImportBeginsAnywhere,
};

class FaultyStore : public ScatteredStore, public PrefixSharing {
 public:
  FaultyStore(const CacheSpec& spec, Fault fault) : ScatteredStore(spec), fault_(fault) {}

  void* Capability(std::string_view name) override {
    return OfferCapability<PrefixSharing, Snapshots>(this, name);
  }

  absl::StatusOr<SequenceId> Open(int64_t capacity) override {
    if (fault_ != Fault::kCapacityUnchecked || capacity <= spec_.max_tokens) {
      return ScatteredStore::Open(capacity);
    }
    auto id = ScatteredStore::Open(spec_.max_tokens);
    if (id.ok()) At(*id).capacity = capacity;
    return id;
  }

  CachePlan plan() const override {
    CachePlan plan = ScatteredStore::plan();
    plan.share_tokens = 1;
    return plan;
  }

  absl::StatusOr<SequenceId> OpenFor(std::span<const int32_t> prompt, int64_t capacity) override {
    const auto n_prompt = static_cast<int64_t>(prompt.size());
    if (fault_ == Fault::kSharesAnyPrefix && last_ >= 0 && Length(last_) < n_prompt) {
      return Fork(last_, capacity);
    }
    if (fault_ == Fault::kSharesTheLastToken && n_prompt > 0) {
      NG_ASSIGN_OR_RETURN(const SequenceId id, Open(capacity));
      At(id).length = n_prompt;
      return id;
    }
    return Open(capacity);
  }

  void Close(SequenceId sequence) override {
    if (sequence == last_) last_ = -1;
    if (fault_ != Fault::kGivesNoSlotBack || Length(sequence) == 0) {
      ScatteredStore::Close(sequence);
    }
  }

  absl::Status Append(int layer, std::span<const SequenceRows> rows,
                      const TensorView<const float, 3>& k,
                      const TensorView<const float, 3>& v) override {
    if (!rows.empty()) last_ = rows.front().sequence;
    if (fault_ == Fault::kOverflowAccepted) {
      for (const SequenceRows& entry : rows) {
        if (entry.n_tokens > Capacity(entry.sequence) - entry.start_pos) return absl::OkStatus();
      }
    }
    if (fault_ == Fault::kAppendsToOneLayer) layer = 0;
    NG_RETURN_IF_ERROR(ScatteredStore::Append(layer, rows, k, v));
    for (const SequenceRows& entry : rows) Damage(layer, entry);
    return absl::OkStatus();
  }

  absl::Status Commit(std::span<const SequenceRows> rows) override {
    if (fault_ == Fault::kLengthMovesEarly) return absl::OkStatus();
    return ScatteredStore::Commit(rows);
  }

  absl::Status Truncate(SequenceId sequence, int64_t length) override {
    if (fault_ == Fault::kTruncateIgnored && length >= 0 && length <= Length(sequence)) {
      return absl::OkStatus();
    }
    return ScatteredStore::Truncate(sequence, length);
  }

  absl::StatusOr<SequenceId> Fork(SequenceId sequence, int64_t capacity) override {
    NG_ASSIGN_OR_RETURN(const SequenceId fork, ScatteredStore::Fork(sequence, capacity));
    if (fault_ == Fault::kForkAliases) {
      const size_t shared = std::min(At(fork).pages.size(), At(sequence).pages.size());
      std::copy_n(At(sequence).pages.begin(), shared, At(fork).pages.begin());
    }
    if (fault_ == Fault::kForkForgetsLastRow && Length(fork) > 0) {
      Poison(At(fork), spec_.n_layers - 1, Length(fork) - 1, Length(fork));
    }
    return fork;
  }

  void CopyRow(KvPart part, const KvView& view, int64_t token, int kv_head,
               float* out) const override {
    const bool forgets = fault_ == Fault::kCopyRowForgetsHead;
    ScatteredStore::CopyRow(part, view, token, forgets ? 0 : kv_head, out);
  }

  absl::Status ExportLayer(int layer, SequenceId sequence,
                           std::span<std::byte> image) const override {
    if (fault_ == Fault::kExportsOneLayer) layer = 0;
    NG_RETURN_IF_ERROR(ScatteredStore::ExportLayer(layer, sequence, image));
    if (fault_ == Fault::kExportLeavesTheRest && Length(sequence) % kTileTokens != 0) {
      const int64_t tile = plan().image_tile_bytes;
      WriteElement(Side(KvPart::kKey), 1.0F, kTileTokens - 1, 0,
                   image.data() + std::ssize(image) - tile);
    }
    return absl::OkStatus();
  }

  absl::Status ImportLayer(int layer, const SequenceRows& rows,
                           std::span<const std::byte> image) override {
    const auto tile = static_cast<size_t>(plan().image_tile_bytes);
    const int64_t tiles = (rows.n_tokens + kTileTokens - 1) / kTileTokens;
    const auto wanted = static_cast<size_t>(tiles) * tile;
    std::vector<std::byte> changed(image.begin(), image.end());
    if (fault_ == Fault::kImportTakesAnySize) changed.resize(wanted);
    if (fault_ == Fault::kImportForgetsTheLastTile && changed.size() == wanted && tiles > 0) {
      std::fill(changed.end() - static_cast<int64_t>(tile), changed.end(), std::byte{0});
    }
    if (fault_ == Fault::kImportTakesScalesOfTheTileBefore && tiles > 1) {
      std::copy_n(changed.begin(), kTileTokens * 4, changed.begin() + static_cast<int64_t>(tile));
    }
    if (fault_ == Fault::kImportBeginsAnywhere && rows.start_pos % kTileTokens != 0) {
      return absl::OkStatus();
    }
    NG_RETURN_IF_ERROR(ScatteredStore::ImportLayer(layer, rows, changed));
    if (fault_ == Fault::kImportMovesLength && layer == spec_.n_layers - 1) {
      At(rows.sequence).length += rows.n_tokens;
    }
    return absl::OkStatus();
  }

 private:
  void Damage(int layer, const SequenceRows& entry) {
    if (entry.n_tokens == 0) return;
    const int64_t last = entry.start_pos + entry.n_tokens - 1;
    std::byte* page = At(entry.sequence).pages[static_cast<size_t>(last / 16)];
    std::byte* keys = page + Offset(KvPart::kKey, layer, 0);
    const Tiles16Side side = Side(KvPart::kKey);
    const int64_t slot = last % 16;
    if (fault_ == Fault::kKeyTransposedWrong) {
      const float zero = ReadElement(side, keys, slot, 0);
      WriteElement(side, ReadElement(side, keys, slot, 1), slot, 0, keys);
      WriteElement(side, zero, slot, 1, keys);
    }
    if (fault_ == Fault::kPadNotZero && side.StoredDims() > side.head_dim) {
      WriteElement(side, 1.0F, slot, side.head_dim, keys);
    }
    if (fault_ == Fault::kRoundsTwice && side.codec == Codec::kF32) {
      float once = ReadElement(side, keys, slot, 0);
      RoundToCodec(Codec::kBf16, 1, &once);
      WriteElement(side, once, slot, 0, keys);
    }
    if (fault_ == Fault::kDropsScale) WriteScale(side, 1.0F, slot, keys);
    if (fault_ == Fault::kScaleOfTheTokenBefore && slot > 0) {
      WriteScale(side, ReadScale(side, keys, slot - 1), slot, keys);
    }
    if (fault_ == Fault::kLengthMovesEarly && layer == spec_.n_layers - 1) {
      At(entry.sequence).length += entry.n_tokens;
    }
  }

  const Fault fault_;
  SequenceId last_ = -1;  // that rows were appended to
};

std::vector<std::string> Check(Fault fault) {
  return CheckCache(
      [fault](const PluginContext&,
              const CacheSpec& spec) -> absl::StatusOr<std::unique_ptr<CacheStore>> {
        return std::make_unique<FaultyStore>(spec, fault);
      },
      {});
}

TEST(CacheConformance, PassesAPlainStore) { EXPECT_THAT(Check(Fault::kNone), testing::IsEmpty()); }

class StoreWithoutSnapshots : public ScatteredStore {
 public:
  using ScatteredStore::ScatteredStore;
  void* Capability(std::string_view /*name*/) override { return nullptr; }
  CachePlan plan() const override {
    CachePlan plan = ScatteredStore::plan();
    plan.image_tile_bytes = 0;
    return plan;
  }
};

TEST(CacheConformance, PassesAStoreWithoutSnapshots) {
  const auto make = [](const PluginContext&,
                       const CacheSpec& spec) -> absl::StatusOr<std::unique_ptr<CacheStore>> {
    return std::make_unique<StoreWithoutSnapshots>(spec);
  };
  EXPECT_THAT(CheckCache(make, {}), testing::IsEmpty());
}

struct Seeded {
  Fault fault;
  const char* name;
};

class CacheFaults : public testing::TestWithParam<Seeded> {};

TEST_P(CacheFaults, AreFound) {
  EXPECT_THAT(Check(GetParam().fault), testing::Not(testing::IsEmpty()));
}

INSTANTIATE_TEST_SUITE_P(
    Seeded, CacheFaults,
    testing::Values(Seeded{Fault::kKeyTransposedWrong, "KeyTransposedWrong"},
                    Seeded{Fault::kPadNotZero, "PadNotZero"},
                    Seeded{Fault::kLengthMovesEarly, "LengthMovesEarly"},
                    Seeded{Fault::kTruncateIgnored, "TruncateIgnored"},
                    Seeded{Fault::kForkAliases, "ForkAliases"},
                    Seeded{Fault::kForkForgetsLastRow, "ForkForgetsLastRow"},
                    Seeded{Fault::kOverflowAccepted, "OverflowAccepted"},
                    Seeded{Fault::kCapacityUnchecked, "CapacityUnchecked"},
                    Seeded{Fault::kRoundsTwice, "RoundsTwice"},
                    Seeded{Fault::kDropsScale, "DropsScale"},
                    Seeded{Fault::kScaleOfTheTokenBefore, "ScaleOfTheTokenBefore"},
                    Seeded{Fault::kAppendsToOneLayer, "AppendsToOneLayer"},
                    Seeded{Fault::kCopyRowForgetsHead, "CopyRowForgetsHead"},
                    Seeded{Fault::kSharesAnyPrefix, "SharesAnyPrefix"},
                    Seeded{Fault::kSharesTheLastToken, "SharesTheLastToken"},
                    Seeded{Fault::kGivesNoSlotBack, "GivesNoSlotBack"},
                    Seeded{Fault::kExportLeavesTheRest, "ExportLeavesTheRest"},
                    Seeded{Fault::kExportsOneLayer, "ExportsOneLayer"},
                    Seeded{Fault::kImportForgetsTheLastTile, "ImportForgetsTheLastTile"},
                    Seeded{Fault::kImportTakesScalesOfTheTileBefore,
                           "ImportTakesScalesOfTheTileBefore"},
                    Seeded{Fault::kImportMovesLength, "ImportMovesLength"},
                    Seeded{Fault::kImportTakesAnySize, "ImportTakesAnySize"},
                    Seeded{Fault::kImportBeginsAnywhere, "ImportBeginsAnywhere"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace ng
