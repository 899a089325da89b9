// That the checks of stores find a cache with a budget whose tokens leave by how a text was split.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ng/conform/cache.h"
#include "plugins/cache/budget/budget_store.h"
#include "plugins/policy/observed/observed.h"
#include "tests/plugins/cache/make_budget.h"

namespace ng {
namespace {

using ::testing::HasSubstr;

// A store that hands all on to another one, but what queries give to tokens: that it weighs by
// where in the step they are.
class WeighsBySteps final : public CacheStore, public AttendedMass {
 public:
  WeighsBySteps(std::unique_ptr<CacheStore> inner, bool faulty)
      : inner_(std::move(inner)), faulty_(faulty) {}

  CachePlan plan() const override { return inner_->plan(); }
  absl::StatusOr<SequenceId> Open(int64_t capacity) override { return inner_->Open(capacity); }
  void Close(SequenceId sequence) override { inner_->Close(sequence); }
  int64_t Length(SequenceId sequence) const override { return inner_->Length(sequence); }
  int64_t Capacity(SequenceId sequence) const override { return inner_->Capacity(sequence); }
  absl::Status Truncate(SequenceId sequence, int64_t length) override {
    return inner_->Truncate(sequence, length);
  }
  absl::StatusOr<SequenceId> Fork(SequenceId sequence, int64_t capacity) override {
    return inner_->Fork(sequence, capacity);
  }
  absl::Status Append(int layer, std::span<const SequenceRows> rows,
                      const TensorView<const float, 3>& k,
                      const TensorView<const float, 3>& v) override {
    return inner_->Append(layer, rows, k, v);
  }
  absl::Status Commit(std::span<const SequenceRows> rows) override { return inner_->Commit(rows); }
  KvView View(int layer, SequenceId sequence, int64_t length) const override {
    return inner_->View(layer, sequence, length);
  }
  void CopyRow(KvPart part, const KvView& view, int64_t token, int kv_head,
               float* out) const override {
    inner_->CopyRow(part, view, token, kv_head, out);
  }
  void* Capability(std::string_view name) override {
    return OfferCapability<AttendedMass>(this, name);
  }
  int64_t MassTokens(const SequenceRows& rows) const override {
    return CapabilityOf<AttendedMass>(*inner_)->MassTokens(rows);
  }
  absl::Status Attended(int layer, const SequenceRows& rows,
                        const TensorView<const float, 3>& mass) override {
    std::vector<float> weighed;
    for (int64_t row = 0; row < mass.extent[0]; ++row) {
      for (int64_t head = 0; head < mass.extent[1]; ++head) {
        for (int64_t slot = 0; slot < mass.extent[2]; ++slot) {
          const float share = mass.Row(row, head)[slot];
          weighed.push_back(faulty_ ? share * static_cast<float>(row + 1) : share);
        }
      }
    }
    return CapabilityOf<AttendedMass>(*inner_)->Attended(layer, rows,
                                                         {weighed.data(), mass.extent});
  }

 private:
  const std::unique_ptr<CacheStore> inner_;
  const bool faulty_;
};

// What the checks "boundaries" and "truncate" find.
std::string Checked(bool faulty) {
  conform::CacheSubject subject;
  subject.settings.quick = true;
  subject.make = [faulty](const PluginContext& context,
                          const CacheSpec& spec) -> absl::StatusOr<std::unique_ptr<CacheStore>> {
    const BudgetOptions options = {
        .policy = "observed", .tokens = 14, .sinks = 1, .recent = 2, .every = 6};
    OptionValue by;
    by.name = "by";
    by.type = OptionType::kText;
    by.text = "sum";
    PluginContext plain;
    plain.options = OptionValues({&by, 1});
    NG_ASSIGN_OR_RETURN(
        std::unique_ptr<CacheStore> store,
        test::MakeBudget(context, spec, options, std::make_unique<ObservedPolicy>(plain)));
    return std::make_unique<WeighsBySteps>(std::move(store), faulty);
  };
  std::string found;
  for (const conform::CacheCheck& check : conform::CacheChecks()) {
    if (check.name != "boundaries" && check.name != "truncate") continue;
    found += conform::RunCheck(check, subject).detail;
  }
  return found;
}

TEST(BudgetFaults, TokensThatLeaveByStepsAreFound) {
  EXPECT_EQ(Checked(false), "");
  EXPECT_THAT(Checked(true), HasSubstr("other tokens are held when the rows come in pieces of"));
}

}  // namespace
}  // namespace ng
