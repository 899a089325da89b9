// GuardedCache: a plugin's store as the host sees it. Every store that the host works with is one.
//
// What the plugin throws, and every error, becomes a status that names the plugin: a PluginError,
// but a LimitError stays one, and so does an UnsupportedError of Truncate, SetMark and SetRule.
// Sequences' lengths are kept here too, and held against the store's after every call that moves
// one; a plugin that miscounts, or gives out a sequence that is open, is told so. Calls for a
// sequence that is not open do not reach the plugin: RuntimeError.
//
// Of the calls without a status, Length, Capacity and plan are answered from here. What Close
// or SetRotation throws is the answer of every later call, and of fault(). View and CopyRow throw
// PluginFault (core/plugin/loader.h), which the engine's own safety catch turns into its status.
//
// With run.check_plugins, CacheChecks look on after every call.
//
// Views are the plugin's: view.store is its own store, so that backends reach its CopyRow directly.
#ifndef NG_CORE_PLUGIN_GUARDED_CACHE_H_
#define NG_CORE_PLUGIN_GUARDED_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/plugin/cache_checks.h"
#include "core/plugin/loader.h"
#include "ng/cache_capabilities.h"
#include "ng/cache_store.h"
#include "ng/status.h"

namespace ng {

// What no plan may say, whatever the store. Errors: PluginError with the field and its value.
absl::Status CheckCachePlan(const CachePlan& plan);

class GuardedCache final : public CacheStore,
                           public PrefixSharing,
                           public Snapshots,
                           public Statistics,
                           public AttendedMass,
                           public PlainQueries,
                           public ContextMark,
                           public KeepRules,
                           public SequenceImages {
 public:
  // Takes over what the plugin made for the spec and, with the same arguments, planned. Errors:
  // PluginError when the store has another plan, or not the capabilities that the plan speaks of.
  static absl::StatusOr<std::unique_ptr<GuardedCache>> Make(const LoadedPlugin& plugin,
                                                            std::unique_ptr<CacheStore> store,
                                                            const CachePlan& plan,
                                                            const CacheSpec& spec, bool check);

  // What Close or SetRotation has thrown; OK: nothing.
  const absl::Status& fault() const { return fault_; }

  CachePlan plan() const override { return plan_; }
  absl::StatusOr<SequenceId> Open(int64_t capacity) override;
  void Close(SequenceId sequence) override;
  int64_t Length(SequenceId sequence) const override;
  int64_t Capacity(SequenceId sequence) const override;
  absl::Status Truncate(SequenceId sequence, int64_t length) override;
  absl::StatusOr<SequenceId> Fork(SequenceId sequence, int64_t capacity) override;
  absl::Status Append(int layer, std::span<const SequenceRows> rows,
                      const TensorView<const float, 3>& k,
                      const TensorView<const float, 3>& v) override;
  absl::Status Commit(std::span<const SequenceRows> rows) override;
  KvView View(int layer, SequenceId sequence, int64_t length) const override;
  void CopyRow(KvPart part, const KvView& view, int64_t token, int kv_head,
               float* out) const override;
  std::string Report() const override { return GuardReport(*store_); }
  // One that is not in ng/cache_capabilities.h is the plugin's own, unguarded.
  void* Capability(std::string_view name) override;

  absl::StatusOr<SequenceId> OpenFor(std::span<const int32_t> prompt, int64_t capacity) override;
  absl::Status ExportLayer(int layer, SequenceId sequence,
                           std::span<std::byte> image) const override;
  absl::Status ImportLayer(int layer, const SequenceRows& rows,
                           std::span<const std::byte> image) override;
  absl::StatusOr<std::vector<Statistic>> Values() const override;
  int64_t MassTokens(const SequenceRows& rows) const override;
  absl::Status Attended(int layer, const SequenceRows& rows,
                        const TensorView<const float, 3>& mass) override;
  // What it throws is the answer of every later call.
  void SetRotation(int layer, const Rotation& rotation, double scale) override;
  absl::Status Queries(int layer, std::span<const SequenceRows> rows,
                       const TensorView<const float, 3>& q) override;
  absl::Status SetMark(SequenceId sequence, int64_t length) override;
  int64_t Mark(SequenceId sequence) const override;
  std::span<const std::string> Rules() const override;
  absl::Status SetRule(SequenceId sequence, int rule) override;
  int64_t ImageBytes(SequenceId sequence) const override;
  absl::Status ExportImage(SequenceId sequence, std::span<std::byte> image) const override;
  absl::Status ImportImage(SequenceId sequence, int64_t length,
                           std::span<const std::byte> image) override;

 private:
  GuardedCache(const LoadedPlugin& plugin, std::unique_ptr<CacheStore> store, const CachePlan& plan,
               const CacheSpec& spec);
  absl::Status FindCapabilities(bool check, const CacheSpec& spec);

  // Calls into the plugin, unless there is a fault.
  template <class Call>
  absl::Status Guard(Call&& call) const;
  // What a check finds after the plugin's `name`, where checks are asked for.
  template <class Check>
  absl::Status Look(const char* name, Check&& check) const;
  // Opens a sequence by a call that may give it up to `most` tokens, whole pieces of `piece`.
  using OpenCall = absl::FunctionRef<absl::StatusOr<SequenceId>()>;
  absl::StatusOr<SequenceId> OpenBy(const char* name, OpenCall call, int64_t capacity, int64_t most,
                                    int64_t piece);
  // Keeps what a call throws as the fault. May be called while another exception is on its way, so
  // nothing gets out of it.
  void GuardQuietly(absl::FunctionRef<absl::Status()> call);
  absl::Status CheckOpen(SequenceId sequence) const;
  absl::Status CheckOpen(std::span<const SequenceRows> rows) const;
  // That the store has the sequence as it is kept here.
  absl::Status CheckKept(const char* name, SequenceId sequence) const;

  CachedSequence& At(SequenceId id) { return sequences_[static_cast<size_t>(id)]; }
  const CachedSequence& At(SequenceId id) const { return sequences_[static_cast<size_t>(id)]; }

  const LoadedPlugin plugin_;
  const std::unique_ptr<CacheStore> store_;
  const CachePlan plan_;
  std::vector<CachedSequence> sequences_;  // [max_sequences]
  std::unique_ptr<CacheChecks> checks_;    // null: not asked for
  absl::Status fault_;
  // The store's own, where it has them.
  PrefixSharing* sharing_ = nullptr;
  Snapshots* snapshots_ = nullptr;
  Statistics* statistics_ = nullptr;
  AttendedMass* attended_ = nullptr;
  PlainQueries* queries_ = nullptr;
  ContextMark* marks_ = nullptr;
  KeepRules* rules_ = nullptr;
  SequenceImages* images_ = nullptr;
};

}  // namespace ng

#endif  // NG_CORE_PLUGIN_GUARDED_CACHE_H_
