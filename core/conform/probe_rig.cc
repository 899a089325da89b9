#include "core/conform/probe_rig.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/conform/fence.h"
#include "core/conform/texts.h"

namespace ng::conform {
namespace {

constexpr int kLayers = 2;
constexpr int64_t kWidth = 16;
constexpr int64_t kVocab = 64;
constexpr int64_t kRowGap = 3;  // floats between two rows

constexpr PointShape Of(Point point, int layer, int64_t width, int64_t n_heads = 0) {
  return {{point, layer}, n_heads, width};
}

std::vector<PointShape> MakePoints() {
  std::vector<PointShape> points = {Of(Point::kEmbed, -1, kWidth)};
  for (int layer = 0; layer < kLayers; ++layer) {
    points.insert(
        points.end(),
        {Of(Point::kAttnIn, layer, kWidth), Of(Point::kQ, layer, 4, 4), Of(Point::kK, layer, 4, 2),
         Of(Point::kV, layer, 4, 2), Of(Point::kAttnHead, layer, 4, 4),
         Of(Point::kAttnOut, layer, kWidth), Of(Point::kAttnResid, layer, kWidth),
         Of(Point::kMlpIn, layer, kWidth), Of(Point::kMlpAct, layer, 24),
         Of(Point::kMlpOut, layer, kWidth), Of(Point::kOut, layer, kWidth)});
  }
  points.insert(points.end(), {Of(Point::kNorm, -1, kWidth), Of(Point::kLogits, -1, kVocab)});
  return points;
}

// A head that is one for no model, and the same each time.
class MadeUpHead final : public LogitHead {
 public:
  absl::Status Logits(const TensorView<const float, 2>& hidden, std::span<float> logits) override {
    const int64_t n_rows = hidden.extent[0];
    if (hidden.extent[1] != kWidth || std::ssize(logits) != n_rows * kVocab) {
      return UsageError("the head reads rows of 16 values and writes 64 for each");
    }
    for (int64_t i = 0; i < n_rows * kVocab; ++i) {
      float sum = 0.0F;
      for (int64_t k = 0; k < kWidth; ++k) {
        sum += hidden.Row(i / kVocab)[k] * static_cast<float>((i % kVocab * 7 + k * 3) % 5 - 2);
      }
      logits[static_cast<size_t>(i)] = sum;
    }
    return absl::OkStatus();
  }
};

// Hangs on the request, the position, the point and the element alone.
float Value(const RowKey& key, int64_t element) {
  const auto mixed = static_cast<uint32_t>(key.request * 31 + key.pos * 7 +
                                           static_cast<int64_t>(key.point) * 13 + element * 5);
  return static_cast<float>(mixed * 2654435761U >> 8) / 8388608.0F - 1.0F;
}

bool SameBits(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

// The tokens of a request that are fed: all but the last one.
std::vector<int32_t> FedTokens(const ProbedRequest& request) {
  std::vector<int32_t> tokens = request.prompt;
  tokens.insert(tokens.end(), request.answer.begin(), request.answer.end());
  return tokens;
}

}  // namespace

std::span<const PointShape> ProbePoints() {
  static const auto* const points = new std::vector<PointShape>(MakePoints());
  return *points;
}

std::vector<ProbedRequest> ProbeRig::Requests(int n) {
  std::vector<ProbedRequest> requests;
  for (int i = 0; i < n; ++i) {
    ProbedRequest& request = requests.emplace_back();
    request.index = i;
    for (int32_t k = 0; k < 7 + 2 * i; ++k) request.prompt.push_back((k * 5 + i) % kVocab);
    for (int32_t k = 0; k < 4 + i; ++k) request.answer.push_back((k * 11 + 3 * i + 1) % kVocab);
  }
  return requests;
}

std::unique_ptr<Probe> ProbeRig::Make() {
  static MadeUpHead head;
  PluginContext context;
  context.isa = subject_.settings.isa;
  context.model = {.n_layers = kLayers,
                   .n_heads = 4,
                   .n_kv_heads = 2,
                   .head_dim = 4,
                   .vocab_size = kVocab,
                   .max_positions = 0};
  auto made = subject_.make(context, {.points = ProbePoints(), .head = &head});
  if (!made.ok() || *made == nullptr) {
    Note(made.ok() ? "create returns no probe" : "cannot be made: " + Text(made.status()));
    return nullptr;
  }
  use_ = (*made)->Use();
  return *std::move(made);
}

void ProbeRig::Tell(const char* call, const absl::Status& status) {
  if (!status.ok()) Note(absl::StrCat(call, " refuses a good run: ", Text(status)));
}

SeenRows ProbeRig::Run(Probe& probe, const std::vector<ProbedRequest>& requests,
                       const Feeding& feeding) {
  SeenRows seen;
  for (const ProbedRequest& request : requests) {
    Tell("Begin", probe.Begin({.index = request.index, .prompt_ids = request.prompt}));
  }
  std::vector<int64_t> held(requests.size());  // tokens fed
  std::vector<int64_t> known;                  // tokens there are
  for (const ProbedRequest& request : requests) known.push_back(std::ssize(request.prompt));
  while (!noted()) {
    std::vector<Fed> fed;
    std::vector<size_t> chosen;
    for (size_t i = 0; i < requests.size(); ++i) {
      const int64_t n_all = std::ssize(requests[i].prompt) + std::ssize(requests[i].answer);
      if (known[i] == n_all) continue;
      int64_t end = known[i];
      if (feeding.chunk > 0) end = std::min(end, held[i] + feeding.chunk);
      fed.push_back({&requests[i], feeding.uncached ? 0 : held[i], end});
      held[i] = end;
      if (end == known[i]) chosen.push_back(i);
    }
    if (fed.empty()) break;
    Step(probe, fed, &seen);
    for (const size_t i : chosen) {
      const int64_t n_answered = known[i]++ - std::ssize(requests[i].prompt);
      const int32_t token = requests[i].answer[static_cast<size_t>(n_answered)];
      Tell("Accept", probe.Accept(requests[i].index, token));
    }
  }
  for (const ProbedRequest& request : requests) Tell("End", probe.End(request.index));
  Tell("EndRun", probe.EndRun({.failed = false, .config = "[run]\n", .identity = {}}));
  return seen;
}

void ProbeRig::Step(Probe& probe, std::span<const Fed> fed, SeenRows* seen) {
  for (size_t point = 0; point < ProbePoints().size() && !noted(); ++point) {
    const PointAt& at = ProbePoints()[point].at;
    if (std::ranges::count(use_.points, at, &ProbePoint::at) == 0) continue;
    std::vector<Fed> shown(fed.begin(), fed.end());
    if (NeedsLogits(at.point) && !use_.every_token) {
      for (Fed& one : shown) one.begin = one.end - 1;
    }
    Show(probe, point, shown, seen);
  }
}

void ProbeRig::Show(Probe& probe, size_t point, std::span<const Fed> fed, SeenRows* seen) {
  const PointShape& shape = ProbePoints()[point];
  const int64_t n = shape.values();
  std::vector<TokenRow> tokens;
  for (const Fed& one : fed) {
    const std::vector<int32_t> all = FedTokens(*one.request);
    for (int64_t pos = one.begin; pos < one.end; ++pos) {
      tokens.push_back({.sequence = 100 + one.request->index,
                        .pos = pos,
                        .token = all[static_cast<size_t>(pos)],
                        .request = one.request->index});
    }
  }
  Fenced memory;
  const std::span<float> lent = memory.Lend(std::ssize(tokens) * (n + kRowGap));
  const PointRows rows = {.at = shape.at,
                          .data = lent.data(),
                          .stride = n + kRowGap,
                          .n_heads = std::max<int64_t>(1, shape.n_heads),
                          .width = shape.width,
                          .tokens = tokens};
  const auto key = [&](int64_t row) {
    const TokenRow& token = tokens[static_cast<size_t>(row)];
    return RowKey{token.request, token.pos, point};
  };
  for (int64_t row = 0; row < rows.n_rows(); ++row) {
    for (int64_t i = 0; i < n; ++i) rows.Row(row)[i] = Value(key(row), i);
  }
  const std::vector<float> before(lent.begin(), lent.end());
  Tell("OnPoint", probe.OnPoint(rows));
  const std::string where = PointText(shape.at);
  if (!memory.Trespass().empty()) {
    Note(absl::StrCat("writes ", memory.Trespass(), " the rows of ", where));
  }
  const bool edits = std::ranges::find(use_.points, shape.at, &ProbePoint::at)->edits;
  for (size_t i = 0; i < before.size(); ++i) {
    const bool in_row = static_cast<int64_t>(i) % rows.stride < n;
    if (!in_row && !SameBits(before[i], lent[i])) Note("writes between the rows of " + where);
    if (in_row && !edits && !SameBits(before[i], lent[i])) {
      Note(absl::StrCat("changes ", where, ", and does not say that it edits it"));
    }
    if (in_row && !std::isfinite(lent[i])) Note(absl::StrCat("leaves ", lent[i], " at ", where));
  }
  for (int64_t row = 0; row < rows.n_rows(); ++row) {
    std::vector<float> left(rows.Row(row), rows.Row(row) + n);
    const auto [found, is_new] = seen->emplace(key(row), left);
    if (is_new || found->second == left) continue;
    Note(absl::StrCat("makes something else of position ", tokens[static_cast<size_t>(row)].pos,
                      " of ", where, " when it is fed again"));
  }
}

}  // namespace ng::conform
