#include "core/model/ops/mixture.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>

#include "core/kernels/matmul.h"
#include "core/model/rows/activation.h"
#include "core/model/rows/for_rows.h"
#include "core/model/rows/router.h"

namespace ng {
namespace {

class MixtureRun {
 public:
  MixtureRun(const MixtureCall& call, int64_t n_rows, MixtureBuffers& buffers)
      : call_(call),
        n_rows_(n_rows),
        width_(call.w.router.k()),
        n_used_(call.spec.router.n_used),
        n_routed_(n_rows * n_used_),
        own_width_(call.w.experts[0].out.n()),
        b_(buffers) {
    const MixtureSpec& spec = call.spec;
    float* const activated = buffers.activated.data();
    inner_ = {{{call.part.given_expert, n_routed_, activated},
               {call.part.given_shared, n_rows, activated + n_routed_ * spec.expert.width}}};
    const PackedMatrix& out = call.w.experts[0].out;
    GiveRounded(out, buffers.input.data(), &inner_[0]);
    if (spec.has_shared()) GiveRounded(call.w.out, SharedInput(RowBytes(out)), &inner_[1]);
  }

  // The experts and weights of each row, and the slots of each expert.
  absl::Status RouteRows() {
    const RouterSpec& router = call_.spec.router;
    const int64_t n_logits = call_.spec.n_logits();
    const int64_t stride = n_logits + router.n_experts;
    const bool apart = call_.spec.norms_apart();
    const MatmulInput rows =
        FloatRows((apart ? b_.router_rows : b_.normed).data(), n_rows_, width_);
    const float* const bias = call_.w.router_bias.empty() ? nullptr : call_.w.router_bias.data();
    TensorView<float, 2> logits(b_.logits.data(), {n_rows_, n_logits});
    logits.stride[0] = stride;
    call_.low_rank.Begin(1);
    MatmulInput input = rows;
    NG_RETURN_IF_ERROR(call_.low_rank.Add(call_.w.router, rows, call_.sets, &input));
    NG_RETURN_IF_ERROR(
        Matmul({call_.kernels, call_.executor, call_.w.router, bias, input}, logits));
    if (call_.look) {
      logits.extent[1] = router.n_experts;
      NG_RETURN_IF_ERROR(call_.look(logits));
    }
    const auto n_experts = static_cast<size_t>(router.n_experts);
    const auto n_used = static_cast<size_t>(n_used_);
    return ForRows(call_.executor, n_rows_, [&](int64_t row, int /*worker*/) {
      float* const scores = b_.logits.data() + row * stride;
      Route(router, {.selection_bias = call_.w.selection_bias,
                     .scores = {scores, n_experts},
                     .compared = {scores + n_logits, n_experts},
                     .chosen = {b_.chosen.data() + row * n_used_, n_used},
                     .weights = {b_.weights.data() + row * n_used_, n_used},
                     .expert_scales = call_.w.expert_scales});
      if (!call_.spec.has_shared()) return;
      b_.weights[static_cast<size_t>(n_routed_ + row)] =
          call_.spec.shared_gate ? Sigmoid(scores[n_experts]) : 1.0F;
    });
  }

  // A slot for each row and expert, in the order of the experts; lists the feed-forwards in use.
  void LayOutSlots() {
    const auto n_experts = static_cast<size_t>(call_.spec.router.n_experts);
    const std::span<int32_t> ends(b_.ends.data(), n_experts);
    const std::span<int32_t> chosen(b_.chosen.data(), static_cast<size_t>(n_routed_));
    std::ranges::fill(ends, 0);
    for (const int32_t expert : chosen) ++ends[static_cast<size_t>(expert)];
    b_.parts.clear();
    int32_t first = 0;
    for (size_t i = 0; i < n_experts; ++i) {
      const int32_t n_slots = ends[i];
      ends[i] = first;  // for now where it begins
      if (n_slots > 0) {
        b_.parts.push_back({&call_.part.spec.expert, &call_.w.experts[i], first, n_slots});
      }
      first += n_slots;
    }
    for (int32_t& expert : chosen) expert = ends[static_cast<size_t>(expert)]++;
    if (!call_.sets.empty()) {
      GrowTo(b_.slot_sets, n_routed_);
      for (size_t i = 0; i < chosen.size(); ++i) {
        b_.slot_sets[static_cast<size_t>(chosen[i])] = call_.sets[i / static_cast<size_t>(n_used_)];
      }
    }
    if (!call_.spec.has_shared()) return;
    b_.parts.push_back({&call_.part.spec.shared, &call_.w, n_routed_, n_rows_});
  }

  // The first matrices, and what follows them.
  absl::Status Activate() {
    NG_RETURN_IF_ERROR(GatherRows());
    b_.calls.clear();
    call_.low_rank.Begin(b_.parts.size());
    for (const MixturePart& part : b_.parts) {
      const float* const x = IsShared(call_, part) ? SharedRows() : SlotRows(part);
      NG_RETURN_IF_ERROR(AddCall(part, &MatrixPair::in, GatheredRows(part), x));
    }
    float* const of_experts = OwnActivated(0);
    float* const of_shared = OwnActivated(1);
    NG_RETURN_IF_ERROR(Matmuls(b_.calls, b_.strips, [&](size_t i, const MatmulTile& tile) {
      const MixturePart& part = b_.parts[i];
      float* const own =
          IsShared(call_, part) ? of_shared : of_experts + part.first * part.spec->width;
      ActivateTile(call_.kernels, *part.spec, *part.weights, tile, own);
    }));
    for (const MixturePart& part : b_.parts) NG_RETURN_IF_ERROR(RoundOwn(part));
    return GatherCut(call_.link, inner_);
  }

  // The second matrices, times the weights.
  absl::Status Project() {
    NG_RETURN_IF_ERROR(RoundActivated());
    b_.calls.clear();
    call_.low_rank.Begin(b_.parts.size());
    for (const MixturePart& part : b_.parts) {
      NG_RETURN_IF_ERROR(AddCall(part, &MatrixPair::out, RoundedRows(part), ActivatedOf(part)));
    }
    return Matmuls(b_.calls, b_.strips, [&](size_t i, const MatmulTile& tile) {
      const int64_t first = b_.parts[i].first;
      for (int64_t row = tile.row; row < tile.row + tile.n_rows; ++row) {
        std::copy_n(tile.Row(row), tile.n_columns,
                    b_.outputs.data() + (first + row) * own_width_ + tile.column);
      }
    });
  }

  absl::Status AddUp(float* out) {
    const bool shared = call_.spec.has_shared();
    const std::array<CutRows, 1> sums = {{{call_.part.given, n_rows_, out}}};
    float* const own = OwnCut(call_.link, sums, 0);
    NG_RETURN_IF_ERROR(ForRows(call_.executor, n_rows_, [&](int64_t row, int /*worker*/) {
      float* const sum = own + row * own_width_;
      for (int64_t i = 0; i < n_used_; ++i) {
        const auto choice = static_cast<size_t>(row * n_used_ + i);
        AddTimes(b_.weights[choice], Output(b_.chosen[choice]), i == 0, sum);
      }
      if (!shared) return;
      float* const of_shared = b_.outputs.data() + (n_routed_ + row) * own_width_;
      if (call_.spec.norms_apart()) {
        Norm(call_.spec.experts_after, call_.w.experts_after, sum);
        Norm(call_.spec.shared_after, call_.w.shared_after, of_shared);
      }
      AddTimes(b_.weights[static_cast<size_t>(n_routed_ + row)], of_shared, false, sum);
    }));
    return GatherCut(call_.link, sums);
  }

 private:
  static bool IsShared(const MixtureCall& call, const MixturePart& part) {
    return part.weights == &call.w;
  }
  auto PrepareOf(const PackedMatrix& w) const {
    return call_.kernels.prepare[static_cast<size_t>(w.type())];
  }
  int64_t RowBytes(const PackedMatrix& w) const {
    return InputRowBytes(call_.kernels.input[static_cast<size_t>(w.type())], w.k());
  }
  const float* Output(int64_t slot) const { return b_.outputs.data() + slot * own_width_; }

  // RMS norms of one row in place.
  void Norm(const NormSpec& norm, const NormWeights& weights, float* row) const {
    call_.kernels.rms_norm(row, weights.weight.data(), norm.eps, width_, row);
  }

  void AddTimes(float weight, const float* x, bool first, float* sum) const {
    for (int64_t i = 0; i < own_width_; ++i) sum[i] = (first ? 0.0F : sum[i]) + weight * x[i];
  }

  // floats: the same rows as x before they were rounded.
  absl::Status AddCall(const MixturePart& part, PackedMatrix MatrixPair::*matrix, MatmulInput x,
                       const float* floats) {
    const PackedMatrix& w = part.weights->*matrix;
    RowSets sets = call_.sets;
    if (!sets.empty() && !IsShared(call_, part)) {
      sets = RowSets(b_.slot_sets).subspan(static_cast<size_t>(part.first));
    }
    NG_RETURN_IF_ERROR(call_.low_rank.Add(w, FloatRows(floats, x.n_rows, x.k), sets, &x));
    const std::vector<float>& bias =
        matrix == &MatrixPair::in ? part.weights->in_bias : part.weights->out_bias;
    b_.calls.push_back({call_.kernels, call_.executor, w, bias.empty() ? nullptr : bias.data(), x});
    return absl::OkStatus();
  }

  // Whether adapters add to a matrix of an expert.
  bool ExpertsAddTo(PackedMatrix MatrixPair::*matrix) const {
    return std::ranges::any_of(call_.w.experts, [&](const MatrixPair& expert) {
      return call_.low_rank.AddsTo(expert.*matrix);
    });
  }
  const float* SlotRows(const MixturePart& part) const {
    return b_.slot_rows.data() + (b_.slot_rows.empty() ? 0 : part.first * width_);
  }

  // What the shared feed-forward reads.
  const float* SharedRows() const {
    return (call_.spec.norms_apart() ? b_.shared_rows : b_.normed).data();
  }
  // Where the rounded rows of the shared feed-forward begin.
  std::byte* SharedInput(int64_t expert_row_bytes) {
    return b_.input.data() + n_routed_ * expert_row_bytes;
  }
  float* ActivatedOf(const MixturePart& part) {
    const int64_t width = call_.spec.expert.width;
    return b_.activated.data() + (IsShared(call_, part) ? n_routed_ : part.first) * width;
  }

  // Where ranks can give activated rows as matrix `out` reads them, they do, and they lie in
  // `input`.
  void GiveRounded(const PackedMatrix& out, std::byte* input, CutRows* rows) const {
    const InputType type = call_.kernels.input[static_cast<size_t>(out.type())];
    const auto added = [&] {  // which reads the rows as they are
      return call_.low_rank.AddsTo(out) || ExpertsAddTo(&MatrixPair::out);
    };
    if (rows->counts.empty() || added()) return;
    if (GivenAs({}, type, rows->counts) == InputType::kF32) return;
    rows->as = type;
    rows->whole = reinterpret_cast<float*>(input);
  }
  const CutRows& InnerOf(const MixturePart& part) const {
    return inner_[IsShared(call_, part) ? 1 : 0];
  }
  static bool IsRounded(const CutRows& rows) { return rows.as != InputType::kF32; }

  // Where this rank writes its columns of activated rows of experts (0), or of the shared one.
  float* OwnActivated(size_t i) {
    if (!IsRounded(inner_[i])) return OwnCut(call_.link, inner_, i);
    return b_.activated.data() + (i == 0 ? 0 : n_routed_ * call_.spec.expert.width);
  }

  // What this rank gives of the activated rows of a part, where these are given rounded.
  absl::Status RoundOwn(const MixturePart& part) {
    const CutRows& inner = InnerOf(part);
    if (!IsRounded(inner)) return absl::OkStatus();
    const auto rank = static_cast<size_t>(call_.link->split().rank);
    const int64_t n = inner.counts[rank];
    const int64_t first = IsShared(call_, part) ? 0 : part.first;
    const float* const from = OwnActivated(IsShared(call_, part) ? 1 : 0) + first * n;
    float* const to =
        call_.link->Own(inner_, IsShared(call_, part) ? 1 : 0) + first * inner.Floats(rank);
    const MatmulInput rows = RoundedRows(part);
    auto* const room = const_cast<std::byte*>(rows.data);
    return ForRows(call_.executor, rows.n_rows, [&](int64_t row, int /*worker*/) {
      RoundSent(call_.kernels, part.weights->out.type(), from + row * n, n,
                room + row * rows.row_bytes,
                reinterpret_cast<std::byte*>(to + row * inner.Floats(rank)));
    });
  }

  // Each row in the slots of its experts; those of the shared one only where they must be rounded.
  absl::Status GatherRows() {
    const PackedMatrix& in = call_.w.experts[0].in;
    const int64_t row_bytes = RowBytes(in);
    const auto prepare = PrepareOf(in);
    const bool shared = call_.spec.has_shared();
    const auto prepare_shared = shared ? PrepareOf(call_.w.in) : nullptr;
    const int64_t shared_bytes = shared ? RowBytes(call_.w.in) : 0;
    const bool kept = ExpertsAddTo(&MatrixPair::in);
    if (kept) GrowTo(b_.slot_rows, n_routed_ * width_);
    const auto write = [&](const float* x, std::byte* to) {
      if (prepare == nullptr) {
        std::memcpy(to, x, static_cast<size_t>(row_bytes));
      } else {
        prepare(x, width_, to);
      }
    };
    return ForRows(call_.executor, n_rows_, [&](int64_t row, int /*worker*/) {
      const float* const x = b_.normed.data() + row * width_;
      const int32_t* const slots = b_.chosen.data() + row * n_used_;
      std::byte* const first = b_.input.data() + slots[0] * row_bytes;
      if (call_.spec.router.weighs_input) {
        WeighInput(row, x, [&](const float* weighed, int64_t slot) {
          write(weighed, b_.input.data() + slot * row_bytes);
          if (kept) std::copy_n(weighed, width_, b_.slot_rows.data() + slot * width_);
        });
      } else {
        write(x, first);
      }
      for (int64_t i = 0; i < n_used_ && kept && !call_.spec.router.weighs_input; ++i) {
        std::copy_n(x, width_, b_.slot_rows.data() + slots[i] * width_);
      }
      for (int64_t i = 1; i < n_used_ && !call_.spec.router.weighs_input; ++i) {
        std::memcpy(b_.input.data() + slots[i] * row_bytes, first, static_cast<size_t>(row_bytes));
      }
      if (prepare_shared == nullptr) return;
      prepare_shared(SharedRows() + row * width_, width_,
                     SharedInput(row_bytes) + row * shared_bytes);
    });
  }

  // Calls write(x times the weight, slot) for each expert of a row; what comes out of them has no
  // weight then.
  template <typename Write>
  void WeighInput(int64_t row, const float* x, Write&& write) {
    for (int64_t i = 0; i < n_used_; ++i) {
      const int64_t slot = b_.chosen[static_cast<size_t>(row * n_used_ + i)];
      float& weight = b_.weights[static_cast<size_t>(row * n_used_ + i)];
      float* const weighed = b_.outputs.data() + slot * width_;  // not in use yet
      for (int64_t c = 0; c < width_; ++c) weighed[c] = x[c] * weight;
      weight = 1.0F;
      write(weighed, slot);
    }
  }

  MatmulInput GatheredRows(const MixturePart& part) {
    const int64_t row_bytes = RowBytes(call_.w.experts[0].in);
    if (!IsShared(call_, part)) {
      return {b_.input.data() + part.first * row_bytes, part.n_slots, width_, row_bytes};
    }
    if (PrepareOf(call_.w.in) == nullptr) return FloatRows(SharedRows(), n_rows_, width_);
    return {SharedInput(row_bytes), n_rows_, width_, RowBytes(call_.w.in)};
  }

  // Activated rows as the second matrices read them.
  absl::Status RoundActivated() {
    for (const MixturePart& part : b_.parts) {
      const auto prepare = PrepareOf(part.weights->out);
      if (prepare == nullptr || IsRounded(InnerOf(part))) continue;
      const MatmulInput rows = RoundedRows(part);
      auto* const to = const_cast<std::byte*>(rows.data);
      const float* const from = ActivatedOf(part);
      NG_RETURN_IF_ERROR(ForRows(call_.executor, rows.n_rows, [&](int64_t row, int /*worker*/) {
        prepare(from + row * rows.k, rows.k, to + row * rows.row_bytes);
      }));
    }
    return absl::OkStatus();
  }

  MatmulInput RoundedRows(const MixturePart& part) {
    const PackedMatrix& out = part.weights->out;
    if (PrepareOf(out) == nullptr) return FloatRows(ActivatedOf(part), part.n_slots, out.k());
    const int64_t row_bytes = RowBytes(call_.w.experts[0].out);
    std::byte* const data =
        IsShared(call_, part) ? SharedInput(row_bytes) : b_.input.data() + part.first * row_bytes;
    return {data, part.n_slots, out.k(), RowBytes(out)};
  }

  const MixtureCall& call_;
  int64_t n_rows_;
  int64_t width_;
  int64_t n_used_;
  int64_t n_routed_;              // slots of experts
  int64_t own_width_;             // columns of the sum that this rank computes
  std::array<CutRows, 2> inner_;  // what is activated, of experts and of the shared one
  MixtureBuffers& b_;
};

}  // namespace

absl::Status RunMixture(const MixtureCall& call, int64_t n_rows, MixtureBuffers& buffers,
                        float* out) {
  MixtureRun run(call, n_rows, buffers);
  NG_RETURN_IF_ERROR(run.RouteRows());
  run.LayOutSlots();
  NG_RETURN_IF_ERROR(run.Activate());
  NG_RETURN_IF_ERROR(run.Project());
  return run.AddUp(out);
}

}  // namespace ng
