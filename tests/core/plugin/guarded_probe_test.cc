// What a plugin's probe does wrong becomes an error that names the plugin.
#include "core/plugin/guarded_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ng {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::vector<PointShape> kModelPoints = {{{Point::kEmbed, -1}, 0, 4},
                                              {{Point::kOut, 0}, 0, 4}};
constexpr PointAt kLookedAt = {Point::kEmbed, -1};
constexpr PointAt kEdited = {Point::kOut, 0};

using ProbeBody = std::function<absl::Status(const PointRows*)>;

// Every call does the same: `body`, with the rows where there are some.
class ProbeHere final : public Probe {
 public:
  ProbeHere(ProbeUse use, ProbeBody body) : use_(std::move(use)), body_(std::move(body)) {}
  ProbeUse Use() const override { return use_; }
  absl::Status OnPoint(const PointRows& rows) override { return body_(&rows); }
  absl::Status Begin(const ProbeRequest& /*request*/) override { return body_(nullptr); }
  absl::Status Accept(int /*request*/, int32_t /*token*/) override { return body_(nullptr); }
  absl::Status End(int /*request*/) override { return body_(nullptr); }
  absl::Status EndRun(const ProbeRun& /*run*/) override { return body_(nullptr); }

 private:
  ProbeUse use_;
  ProbeBody body_;
};

absl::StatusOr<std::unique_ptr<GuardedProbe>> GuardedBy(ProbeUse use, ProbeBody body,
                                                        bool check = true) {
  static constexpr PluginDescriptor kDescriptor = EveryCpuPlugin("probe", "here", "1", "", {});
  return GuardedProbe::Make({&kDescriptor, "/lib/here.so"},
                            std::make_unique<ProbeHere>(std::move(use), std::move(body)),
                            {.points = kModelPoints}, check);
}

ProbeUse BothPoints() {
  ProbeUse use;
  use.points = {{kLookedAt, false}, {kEdited, true}};
  return use;
}

// The status of OnPoint over two rows with a gap of one value, and what is left of them.
absl::Status Shown(const PointAt& at, const ProbeBody& body, std::vector<float>* left = nullptr,
                   bool check = true) {
  auto probe = GuardedBy(BothPoints(), body, check);
  EXPECT_TRUE(probe.ok()) << probe.status();
  std::vector<float> data = {0, 1, 2, 3, -7, 10, 11, 12, 13, -7};
  const TokenRow tokens[] = {{.sequence = 1, .pos = 5, .token = 9, .request = 0},
                             {.sequence = 1, .pos = 6, .token = 8, .request = 0}};
  const absl::Status status = (*probe)->OnPoint(
      {.at = at, .data = data.data(), .stride = 5, .n_heads = 1, .width = 4, .tokens = tokens});
  if (left != nullptr) *left = data;
  return status;
}

TEST(GuardedProbe, EditsWhereItSaysSo) {
  const auto add = [](const PointRows* rows) {
    rows->Row(1)[2] += 0.5F;
    return absl::OkStatus();
  };
  for (const bool check : {false, true}) {
    std::vector<float> left;
    EXPECT_TRUE(Shown(kEdited, add, &left, check).ok());
    EXPECT_EQ(left, (std::vector<float>{0, 1, 2, 3, -7, 10, 11, 12.5, 13, -7}));
  }
  const absl::Status status = Shown(kLookedAt, add);
  EXPECT_EQ(ExitCode(status), 4);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("probe plugin 'here' 1 (/lib/here.so): changed embed, position 6, "
                              "element 2 from 12 to 12.5"),
                    HasSubstr("does not say")));
}

TEST(GuardedProbe, LeavesFiniteValuesAndWhatIsBesideThem) {
  const absl::Status nan = Shown(kEdited, [](const PointRows* rows) {
    rows->Row(0)[3] = std::numeric_limits<float>::infinity();
    return absl::OkStatus();
  });
  EXPECT_EQ(ExitCode(nan), 6);
  EXPECT_THAT(std::string(nan.message()), HasSubstr("layer0.out, position 5, element 3"));
  for (const auto& [offset, side] : {std::pair(-1, "before"), {8, "behind"}}) {
    const absl::Status beside = Shown(kEdited, [offset = offset](const PointRows* rows) {
      rows->data[offset] = 1.0F;
      return absl::OkStatus();
    });
    EXPECT_EQ(ExitCode(beside), 4);
    EXPECT_THAT(std::string(beside.message()),
                HasSubstr(std::string("wrote ") + side + " the rows of layer0.out"));
  }
}

TEST(GuardedProbe, NamesPointsOfTheModelOnce) {
  for (const auto& [point, says] : {std::pair(PointAt{Point::kOut, 7}, "layer7.out, which is no"),
                                    {kEdited, "layer0.out twice"}}) {
    ProbeUse use = BothPoints();
    use.points.push_back({point});
    const absl::Status status = GuardedBy(use, {}).status();
    EXPECT_EQ(ExitCode(status), 4);
    EXPECT_THAT(std::string(status.message()), HasSubstr(says));
  }
}

TEST(GuardedProbe, CatchesWhatCallsThrowAndKeepsTheCodeOfOutputs) {
  auto throws = GuardedBy(BothPoints(), [](const PointRows*) -> absl::Status {
    throw std::runtime_error("not today");
  });
  for (const absl::Status& status :
       {(*throws)->Begin({}), (*throws)->Accept(0, 1), (*throws)->End(0), (*throws)->EndRun({})}) {
    EXPECT_EQ(ExitCode(status), 4);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("'here' 1 (/lib/here.so) threw: not today"));
  }
  for (const auto& [own, exit_code] : {std::pair(OutputError("x: disk full"), 7),
                                       {InterruptedError("stopped"), 130},
                                       {UsageError("positions: none"), 2},
                                       {RuntimeError("no"), 4}}) {
    auto fails = GuardedBy(BothPoints(), [own = own](const PointRows*) { return own; });
    EXPECT_EQ(ExitCode((*fails)->EndRun({})), exit_code);
  }
}

}  // namespace
}  // namespace ng
