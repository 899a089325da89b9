// What one of several processes (ng/fabric.h) computes of a model: some heads of each attention,
// some columns of what each matrix gives. The sum over a matrix's inputs is never cut, so every
// output has the bits that one process gives it.
//
// The weights' frame, the plans and the decoder ask here; nothing is kept.
#ifndef NG_CORE_MODEL_WEIGHTS_RANK_SPLIT_H_
#define NG_CORE_MODEL_WEIGHTS_RANK_SPLIT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "core/kernels/kernel_table.h"
#include "core/model/spec/model_spec.h"
#include "core/model/weights/weight_types.h"

namespace ng {

// What a rank says when it meets the others, in floats (RankLink::BeginStep).
inline constexpr int64_t kMeetFloats = 3;

// The columns of a row that one rank has. Of too few for all ranks each rank has all.
struct RankColumns {
  int64_t first = 0;
  int64_t n = 0;
  bool cut = false;  // others have other columns

  int64_t end() const { return first + n; }
};
// Whole blocks of 16 columns, as matrices are packed, as even as can be.
RankColumns ColumnsOf(int64_t n_columns, const RankSplit& split);
// The same of what is between two matrices: whole groups of 32, which are rounded by themselves,
// where there are as many as ranks.
RankColumns InnerColumnsOf(int64_t n_columns, const RankSplit& split);

// The heads of an attention that one rank has: those of q whose heads of k and v it holds. Where
// there are more ranks than heads of k and v, several ranks hold the same one. Attention with
// latents, or with fewer heads than ranks, is not cut.
struct RankHeads {
  int first = 0;
  int n = 0;
  int kv_first = 0;
  int n_kv = 0;
  bool cut = false;
};
RankHeads HeadsOf(const SelfAttentionSpec& attention, const RankSplit& split);

// The parts as this rank computes them: attention with its heads, a feed-forward with its inner
// columns, a mixture whose experts have those.
SelfAttentionSpec PartOf(const SelfAttentionSpec& attention, const RankSplit& split);
FeedForwardSpec PartOf(const FeedForwardSpec& feed_forward, const RankSplit& split);
MixtureSpec PartOf(const MixtureSpec& mixture, const RankSplit& split);
// Where norms are apart, a mixture is not cut: they need whole rows before these are added up.
bool IsCut(const MixtureSpec& mixture);

// Rows of a matrix, or values of a vector, that this rank holds: those in [begin, end), from `to`
// on.
struct HeldRows {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t to = 0;
};
// Of the first matrix of a block; empty: all. The rows rise.
std::vector<HeldRows> HeldOf(const SelfAttentionSpec& attention, const RankSplit& split);
std::vector<HeldRows> HeldOf(const FeedForwardSpec& feed_forward, const RankSplit& split);
std::vector<HeldRows> HeldOf(const RankColumns& columns);

// How many columns each rank gives when a row is put together. [ranks]; empty: it is not cut.
std::vector<int64_t> GivenColumns(int64_t n_columns, const RankSplit& split);
std::vector<int64_t> GivenInner(int64_t n_columns, const RankSplit& split);
// The same of heads of q, and of k or v, where the first rank that holds a head gives it.
std::vector<int64_t> GivenHeads(const SelfAttentionSpec& attention, int64_t head_width,
                                const RankSplit& split);
std::vector<int64_t> GivenKvHeads(const SelfAttentionSpec& attention, int64_t head_width,
                                  const RankSplit& split);

// Everything that a step asks about its split, made once. `given`: the columns that each rank gives
// of rows that are put together; empty: each has them all.
struct RankParts {
  struct Attention {
    SelfAttentionSpec spec;
    RankHeads heads;
    std::vector<int64_t> given;  // of what the heads give
    std::vector<int64_t> given_q;
    std::vector<int64_t> given_k;
    std::vector<int64_t> given_v;
  };
  struct FeedForward {
    FeedForwardSpec spec;
    std::vector<int64_t> given;
  };
  struct Mixture {
    MixtureSpec spec;
    std::vector<int64_t> given_expert;
    std::vector<int64_t> given_shared;
    std::vector<int64_t> given;  // of the sum
  };

  explicit RankParts(const ModelSpec& model);

  // As in the spec.
  std::vector<Attention> attentions;
  std::vector<FeedForward> feed_forwards;
  std::vector<Mixture> mixtures;
  std::vector<int64_t> given_stream;  // of what a block's last matrix gives
  std::vector<int64_t> given_logits;
};

// How ranks give what is between the two matrices of a block, of which the second reads it as
// `input`: so, where each rank's columns begin at a group that is rounded by itself and nothing
// else reads the row; else as f32.
InputType GivenAs(const BlockSpec& block, InputType input, std::span<const int64_t> given);
// Floats of a row that all ranks together give so in a block.
int64_t InnerFloats(const ModelSpec& spec, const RankParts& parts, const BlockSpec& block,
                    const BlockWeightTypes& types, const KernelTable& kernels);

// Bytes that all ranks together give for a row of a step, and for a row with logits. Each of them
// is sent to as many others as there are; of a split by layers a row by each rank but the last to
// one.
struct GatheredBytes {
  int64_t row = 0;
  int64_t logits = 0;
  int64_t step = 0;   // for a step, however many rows it has
  int64_t piece = 0;  // for each piece that it is cut into
  int64_t calls = 0;  // in which a step of one row gathers them, one after the other
};
GatheredBytes GatheredOf(const ModelSpec& spec, const WeightTypes& types,
                         const KernelTable& kernels);

}  // namespace ng

#endif  // NG_CORE_MODEL_WEIGHTS_RANK_SPLIT_H_
