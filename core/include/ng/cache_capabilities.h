// What only some cache stores can do, each an interface of its own beside CacheStore.
//
// A store derives from those that it implements and offers them by name:
//
//   class Paged : public ng::CacheStore, public ng::PrefixSharing, public ng::Statistics {
//     void* Capability(std::string_view name) override {
//       return ng::OfferCapability<ng::PrefixSharing, ng::Statistics>(this, name);
//     }
//
// A caller asks:  if (auto* sharing = ng::CapabilityOf<ng::PrefixSharing>(store)) ...
//
// What CapabilityOf returns belongs to the store and lives as long as it does. All calls come from
// the engine's thread, as those of CacheStore do.
#ifndef NG_CACHE_CAPABILITIES_H_
#define NG_CACHE_CAPABILITIES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ng/cache_store.h"
#include "ng/kv_view.h"
#include "ng/rotation.h"
#include "ng/status.h"
#include "ng/tensor_view.h"

#pragma GCC visibility push(default)
namespace ng {

// Prompts that begin alike are computed once. The plan says in pieces of how many tokens.
class PrefixSharing {
 public:
  static constexpr std::string_view kName = "ng.prefix_sharing";

  // [step] Opens a sequence for a text that begins with `prompt`, with the tokens of the prompt
  // that the store has keys and values of, as they were committed. Length() then says how many:
  // whole pieces of plan().share_tokens, and fewer than the prompt has, for the last one's logits
  // are still to be computed. Errors: as CacheStore::Open.
  virtual absl::StatusOr<SequenceId> OpenFor(std::span<const int32_t> prompt, int64_t capacity) = 0;

 protected:
  ~PrefixSharing() = default;
};

// What a sequence holds in one layer can be taken out as bytes (an image) and put into another
// sequence, of this store or of another one with the same shape and codecs. An image is tile by
// tile of 16 tokens, the K tiles of all kv heads and then their V tiles, each as layout "tiles16"
// (ng/kv_view.h) has it, whatever the store's own layout is. Rows of the last tile that no token
// has are those of zeros. So equal contents make equal bytes.
class Snapshots {
 public:
  static constexpr std::string_view kName = "ng.snapshots";

  // [step] Writes the image of all Length() tokens in one layer. image: their whole tiles, of
  // plan().image_tile_bytes each. Errors: RuntimeError when it has another size; UnsupportedError
  // when tokens are not held any more, for a window.
  virtual absl::Status ExportLayer(int layer, SequenceId sequence,
                                   std::span<std::byte> image) const = 0;

  // [step] As Append for the rows of one sequence that are stored already: takes their tiles in
  // place of floats, bit for bit; row_begin means nothing. image: the tiles of tokens
  // [start_pos, start_pos + n_tokens), of which the last may hold more rows than are wanted.
  // Errors: as Append; RuntimeError unless start_pos is a multiple of 16 and the image has the size
  // of the tiles.
  virtual absl::Status ImportLayer(int layer, const SequenceRows& rows,
                                   std::span<const std::byte> image) = 0;

 protected:
  ~Snapshots() = default;
};

// A store that changes what it holds, of which the bytes of tokens are not the whole: all that it
// knows of a sequence can be taken out as bytes (an image) and put into an empty sequence, of this
// store or of another one with the same spec, options and policy. What is fed to that one has the
// bits of what is fed to the sequence itself. Its plan has `sequence_images`.
class SequenceImages {
 public:
  static constexpr std::string_view kName = "ng.sequence_images";

  // [step] Bytes of the image of a sequence as it is now, committed tokens alone.
  virtual int64_t ImageBytes(SequenceId sequence) const = 0;
  // [step] Writes it. Errors: RuntimeError when `image` has another size.
  virtual absl::Status ExportImage(SequenceId sequence, std::span<std::byte> image) const = 0;
  // [step] Makes the sequence, which has no tokens, that of the image; Length() is then `length`.
  // Errors: RuntimeError when the image is none of a sequence of that length in such a store, and
  // LimitError when it is beyond the capacity; the sequence then has no tokens.
  virtual absl::Status ImportImage(SequenceId sequence, int64_t length,
                                   std::span<const std::byte> image) = 0;

 protected:
  ~SequenceImages() = default;
};

// One figure about a store.
struct Statistic {
  std::string_view name = {};  // static text, as a key of JSON: "pages_held"; once in a list
  int64_t value = 0;
  std::string_view unit = {};  // static text: "pages", "tokens", "bytes"
};

// The value of that name; 0 where the list has none.
inline int64_t StatisticValue(std::span<const Statistic> statistics, std::string_view name) {
  for (const Statistic& statistic : statistics) {
    if (statistic.name == name) return statistic.value;
  }
  return 0;
}

// What a store has done since it was made.
class Statistics {
 public:
  static constexpr std::string_view kName = "ng.statistics";

  // [step] All its figures, in the order in which they are shown.
  virtual absl::StatusOr<std::vector<Statistic>> Values() const = 0;

 protected:
  ~Statistics() = default;
};

// A store that goes by the attention that each token got; its plan has `attended`. The mass of a
// row depends on its query and on what is held alone. So a store that adds rows one by one, in the
// order of their positions, and none that is truncated, has the same bits however a text was split
// into steps.
class AttendedMass {
 public:
  static constexpr std::string_view kName = "ng.attended_mass";

  // [step] Of so many of the rows' tokens, the last ones, the store wants to be told. Asked once a
  // step, before its first Append, with what Append will be given.
  virtual int64_t MassTokens(const SequenceRows& rows) const { return rows.n_tokens; }

  // [step] After attention has run in a layer that writes keys, for each sequence of the step of
  // which MassTokens was above 0: the probabilities that its last mass_tokens queries gave to each
  // slot of View(layer, ...), summed over the query heads that share the kv head. What a query does
  // not see got 0, and so did what is behind the slots of a kv head that has fewer than another.
  // The step may still be abandoned: a store that counts exactly adds the mass at
  // Commit. mass: [rows.mass_tokens, n_kv_heads, n_slots of the view], borrowed for the call.
  virtual absl::Status Attended(int layer, const SequenceRows& rows,
                                const TensorView<const float, 3>& mass) = 0;

 protected:
  ~AttendedMass() = default;
};

// A store that goes by the queries as they are before they are rotated; its plan has `queries`. A
// store that adds rows one by one, in the order of their positions, and none that is truncated, has
// the same bits however a text was split into steps.
class PlainQueries {
 public:
  static constexpr std::string_view kName = "ng.plain_queries";

  // [load] Of each layer, before the first step: how its queries and keys are rotated, and what a
  // query's product with a key is multiplied by. The rotation is borrowed for the call.
  virtual void SetRotation(int layer, const Rotation& rotation, double scale) = 0;

  // [step] The step's queries in a layer that writes keys, before its Append. The step may still be
  // abandoned: a store that counts exactly adds the rows at Commit. q: [n_rows, n_heads, head_dim],
  // of which those n_heads / n_kv_heads that share a kv head stand side by side
  virtual absl::Status Queries(int layer, std::span<const SequenceRows> rows,
                               const TensorView<const float, 3>& q) = 0;

 protected:
  ~PlainQueries() = default;
};

// A store that changes what it holds of a sequence once, at its mark: where the context of a text
// ends and what is asked about it begins. Its plan has `mark`.
class ContextMark {
 public:
  static constexpr std::string_view kName = "ng.context_mark";

  // [step] The first `length` tokens of a sequence are its context. A sequence that is opened has
  // no mark; Truncate leaves the mark where it is, and a fork has it too. Errors: UnsupportedError
  // unless it is the mark that the sequence has, or 0 tokens are held, or none has been said yet
  // and length > Length(): then the mark stays as it was. REQUIRES: length > 0.
  virtual absl::Status SetMark(SequenceId sequence, int64_t length) = 0;
  // [step] 0: none has been said.
  virtual int64_t Mark(SequenceId sequence) const = 0;

 protected:
  ~ContextMark() = default;
};

// A store with a mark that can let tokens go there by one of several rules: other policies, other
// budgets. What is held up to the mark is the same for all of them. So a context is read once, and
// forks of it go by a rule each, with the bits of a store that has this rule alone.
class KeepRules {
 public:
  static constexpr std::string_view kName = "ng.keep_rules";

  // [step] Their names; they live as long as the store. A sequence that is opened goes by the first
  // one, a fork by that of its sequence.
  virtual std::span<const std::string> Rules() const = 0;
  // [step] The sequence goes by the rule of this number. Errors: UnsupportedError where tokens have
  // left; then the rule stays as it was. REQUIRES: 0 <= rule < Rules().size().
  virtual absl::Status SetRule(SequenceId sequence, int rule) = 0;

 protected:
  ~KeepRules() = default;
};

// `self` as the one of these interfaces that has the name; null when none has. What a store's
// Capability returns.
template <class... Offered, class Store>
void* OfferCapability(Store* self, std::string_view name) {
  void* found = nullptr;
  // Through Offered*: a base is not at the address of the whole.
  ((name == Offered::kName ? void(found = static_cast<Offered*>(self)) : void()), ...);
  return found;
}

// A store's capability; null when it has none of this kind.
template <class T>
T* CapabilityOf(CacheStore& store) {
  return static_cast<T*>(store.Capability(T::kName));
}

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_CACHE_CAPABILITIES_H_
