#include "core/plugin/guarded_cache.h"

#include <algorithm>
#include <new>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"

namespace ng {
namespace {

absl::Status NotOpen(SequenceId sequence) {
  return RuntimeError(absl::StrCat("sequence ", sequence, " is not open"));
}

absl::Status Wrong(std::string_view call, std::string_view what) {
  return PluginError(absl::StrCat(View(call), ": ", View(what)));
}

// The fields of a plan with their names, for messages.
std::vector<std::pair<const char*, std::string>> Fields(const CachePlan& plan) {
  return {{"layout", std::string(plan.layout)},
          {"bytes", absl::StrCat(plan.bytes)},
          {"bytes_per_token", absl::StrCat(plan.bytes_per_token)},
          {"share_tokens", absl::StrCat(plan.share_tokens)},
          {"image_tile_bytes", absl::StrCat(plan.image_tile_bytes)},
          {"codec", plan.codec},
          {"disk_bytes", absl::StrCat(plan.disk_bytes)},
          {"approximate", absl::StrCat(plan.approximate)},
          {"holes", absl::StrCat(plan.holes)},
          {"attended", absl::StrCat(plan.attended)},
          {"queries", absl::StrCat(plan.queries)},
          {"boundary_tokens", absl::StrCat(plan.boundary_tokens)},
          {"slots", absl::StrCat(plan.slots)},
          {"head_slots", absl::StrCat(plan.head_slots)},
          {"sequence_images", absl::StrCat(plan.sequence_images)},
          {"mark", absl::StrCat(plan.mark)}};
}

absl::Status SamePlan(const CachePlan& found, const CachePlan& planned) {
  if (found == planned) return absl::OkStatus();
  const auto fields = Fields(found);
  const auto planned_fields = Fields(planned);
  const auto [differs, wanted] = std::ranges::mismatch(fields, planned_fields);
  return PluginError(absl::StrCat("the store's plan has ", differs->first, " = ", differs->second,
                                  ", must be as planned for it: ", wanted->second));
}

}  // namespace

absl::Status CheckCachePlan(const CachePlan& plan) {
  if (plan.layout.empty()) return PluginError("the plan has no layout");
  for (const auto& [name, value, least] : {std::tuple("bytes", plan.bytes, 0),
                                           {"bytes_per_token", plan.bytes_per_token, 1},
                                           {"share_tokens", plan.share_tokens, 0},
                                           {"image_tile_bytes", plan.image_tile_bytes, 0},
                                           {"disk_bytes", plan.disk_bytes, 0},
                                           {"boundary_tokens", plan.boundary_tokens, 0},
                                           {"slots", plan.slots, 0},
                                           {"head_slots", plan.head_slots, 0}}) {
    if (value >= least) continue;
    return PluginError(
        absl::StrCat("the plan has ", name, " = ", value, ", must be at least ", least));
  }
  if (plan.holes && !plan.approximate) {
    return PluginError("the plan has holes, it must be approximate then");
  }
  if (plan.head_slots > 0 && (plan.slots == 0 || plan.head_slots < plan.slots)) {
    return PluginError(absl::StrCat("the plan has head_slots = ", plan.head_slots,
                                    ", must be 0 or at least slots = ", plan.slots,
                                    ", which must be above 0 then"));
  }
  if (plan.slots > 0) {
    for (const auto& [name, is_right] :
         {std::pair("boundary_tokens = 0, must be at least 1",
                    plan.boundary_tokens > 0 || plan.mark),
          {"share_tokens, must be 0", plan.share_tokens == 0},
          {"image_tile_bytes, must be 0", plan.image_tile_bytes == 0},
          {"holes, must not", !plan.holes}}) {
      if (is_right) continue;
      return PluginError(absl::StrCat("the plan has slots = ", plan.slots, " and ", name, " then"));
    }
  }
  if (plan.approximate && plan.share_tokens > 0) {
    return PluginError(absl::StrCat(
        "the plan is approximate and has share_tokens = ", plan.share_tokens, ", must be 0 then"));
  }
  if ((plan.approximate || !plan.codec.empty()) && plan.image_tile_bytes > 0) {
    return PluginError(absl::StrCat(
        "the plan ", plan.approximate ? "is approximate" : "has the codec " + OneLine(plan.codec),
        " and image_tile_bytes = ", plan.image_tile_bytes, ", must be 0 then"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<GuardedCache>> GuardedCache::Make(const LoadedPlugin& plugin,
                                                                 std::unique_ptr<CacheStore> store,
                                                                 const CachePlan& plan,
                                                                 const CacheSpec& spec,
                                                                 bool check) {
  auto guarded =
      std::unique_ptr<GuardedCache>(new GuardedCache(plugin, std::move(store), plan, spec));
  NG_RETURN_IF_ERROR(GuardPlugin(plugin, [&] { return guarded->FindCapabilities(check, spec); }));
  return guarded;
}

GuardedCache::GuardedCache(const LoadedPlugin& plugin, std::unique_ptr<CacheStore> store,
                           const CachePlan& plan, const CacheSpec& spec)
    : plugin_(plugin),
      store_(std::move(store)),
      plan_(plan),
      sequences_(static_cast<size_t>(spec.max_sequences)) {}

absl::Status GuardedCache::FindCapabilities(bool check, const CacheSpec& spec) {
  NG_RETURN_IF_ERROR(SamePlan(store_->plan(), plan_));
  sharing_ = CapabilityOf<PrefixSharing>(*store_);
  snapshots_ = CapabilityOf<ng::Snapshots>(*store_);
  statistics_ = CapabilityOf<Statistics>(*store_);
  attended_ = CapabilityOf<AttendedMass>(*store_);
  queries_ = CapabilityOf<PlainQueries>(*store_);
  marks_ = CapabilityOf<ContextMark>(*store_);
  rules_ = CapabilityOf<KeepRules>(*store_);
  images_ = CapabilityOf<SequenceImages>(*store_);
  const auto missing = [](const char* field, std::string_view name) {
    return PluginError(
        absl::StrCat("the plan has ", field, ", the store has no capability ", ng::View(name)));
  };
  if (plan_.share_tokens > 0 && sharing_ == nullptr) {
    return missing("share_tokens", PrefixSharing::kName);
  }
  if (plan_.image_tile_bytes > 0 && snapshots_ == nullptr) {
    return missing("image_tile_bytes", Snapshots::kName);
  }
  if (plan_.attended && attended_ == nullptr) return missing("attended", AttendedMass::kName);
  if (plan_.queries && queries_ == nullptr) return missing("queries", PlainQueries::kName);
  if (plan_.mark && marks_ == nullptr) return missing("mark", ContextMark::kName);
  if (plan_.sequence_images && images_ == nullptr) {
    return missing("sequence_images", SequenceImages::kName);
  }
  if (rules_ != nullptr && (!plan_.mark || rules_->Rules().empty())) {
    return PluginError(absl::StrCat("the store has the capability ", ng::View(KeepRules::kName),
                                    ", but ", plan_.mark ? "no rules" : "its plan has not mark"));
  }
  // It would wait for what nobody was asked for.
  const auto unasked = [](const char* field, std::string_view name) {
    return PluginError(absl::StrCat("the store has the capability ", ng::View(name),
                                    ", its plan has not ", field));
  };
  if (!plan_.attended && attended_ != nullptr) return unasked("attended", AttendedMass::kName);
  if (!plan_.queries && queries_ != nullptr) return unasked("queries", PlainQueries::kName);
  if (check) checks_ = std::make_unique<CacheChecks>(*store_, plan_, spec, sequences_);
  return absl::OkStatus();
}

template <class Call>
absl::Status GuardedCache::Guard(Call&& call) const {
  return fault_.ok() ? GuardPlugin(plugin_, call) : fault_;
}

template <class Check>
absl::Status GuardedCache::Look(const char* name, Check&& check) const {
  return checks_ == nullptr ? absl::OkStatus() : Annotate(check(), absl::StrCat(name, ": "));
}

absl::Status GuardedCache::CheckOpen(SequenceId sequence) const {
  const bool open = sequence >= 0 && sequence < std::ssize(sequences_) && At(sequence).open;
  return open ? absl::OkStatus() : NotOpen(sequence);
}

absl::Status GuardedCache::CheckOpen(std::span<const SequenceRows> rows) const {
  for (const SequenceRows& entry : rows) NG_RETURN_IF_ERROR(CheckOpen(entry.sequence));
  return absl::OkStatus();
}

absl::Status GuardedCache::CheckKept(const char* name, SequenceId sequence) const {
  const CachedSequence& kept = At(sequence);
  const int64_t length = store_->Length(sequence);
  const int64_t capacity = store_->Capacity(sequence);
  if (length == kept.length && capacity == kept.capacity) return absl::OkStatus();
  return Wrong(name, absl::StrCat("sequence ", sequence, " has ", length, " of ", capacity,
                                  " tokens, must have ", kept.length, " of ", kept.capacity));
}

absl::StatusOr<SequenceId> GuardedCache::OpenBy(const char* name, OpenCall call, int64_t capacity,
                                                int64_t most, int64_t piece) {
  SequenceId id = 0;
  NG_RETURN_IF_ERROR(Guard([&]() -> absl::Status {
    NG_ASSIGN_OR_RETURN(id, call());
    if (id < 0 || id >= std::ssize(sequences_)) {
      return Wrong(name, absl::StrCat("gave sequence ", id, ", must be in [0, ",
                                      std::ssize(sequences_) - 1, "]"));
    }
    if (At(id).open) return Wrong(name, absl::StrCat("gave sequence ", id, ", which is open"));
    const int64_t length = store_->Length(id);
    const bool whole = piece == 0 ? length == 0 : length % piece == 0;
    if (length < 0 || length > std::min(most, capacity) || !whole) {
      return Wrong(name, absl::StrCat("sequence ", id, " begins with ", length, " tokens, must be ",
                                      piece == 0 ? "" : "pieces of ", piece,
                                      piece == 0 ? "" : absl::StrCat(", at most ", most)));
    }
    At(id) = {.open = true, .length = length, .capacity = capacity};
    NG_RETURN_IF_ERROR(CheckKept(name, id));
    return Look(name, [&] { return checks_->Begun(id); });
  }));
  return id;
}

absl::StatusOr<SequenceId> GuardedCache::Open(int64_t capacity) {
  return OpenBy(
      "Open", [&] { return store_->Open(capacity); }, capacity, 0, 0);
}

absl::StatusOr<SequenceId> GuardedCache::OpenFor(std::span<const int32_t> prompt,
                                                 int64_t capacity) {
  const int64_t most = std::max<int64_t>(0, std::ssize(prompt) - 1);
  return OpenBy(
      "OpenFor", [&] { return sharing_->OpenFor(prompt, capacity); }, capacity, most,
      plan_.share_tokens);
}

absl::StatusOr<SequenceId> GuardedCache::Fork(SequenceId sequence, int64_t capacity) {
  NG_RETURN_IF_ERROR(CheckOpen(sequence));
  const int64_t length = At(sequence).length;
  SequenceId fork = 0;
  NG_ASSIGN_OR_RETURN(
      fork, OpenBy(
                "Fork", [&] { return store_->Fork(sequence, capacity); }, capacity, length, 1));
  NG_RETURN_IF_ERROR(Guard([&]() -> absl::Status {
    if (At(fork).length != length) {
      return Wrong("Fork", absl::StrCat("sequence ", fork, " begins with ", At(fork).length,
                                        " tokens, must be ", length));
    }
    return Look("Fork", [&] { return checks_->Forked(sequence, fork); });
  }));
  return fork;
}

void GuardedCache::Close(SequenceId sequence) {
  if (!CheckOpen(sequence).ok()) return;
  At(sequence) = {};
  GuardQuietly([&] {
    store_->Close(sequence);
    return Look("Close", [&] { return checks_->Closed(sequence); });
  });
}

void GuardedCache::GuardQuietly(absl::FunctionRef<absl::Status()> call) {
  absl::Status status;
  try {
    status = GuardPlugin(plugin_, call);
  } catch (const std::bad_alloc&) {
    status = LimitError("out of memory");
  }
  fault_.Update(status);
}

int64_t GuardedCache::Length(SequenceId sequence) const {
  return CheckOpen(sequence).ok() ? At(sequence).length : 0;
}

int64_t GuardedCache::Capacity(SequenceId sequence) const {
  return CheckOpen(sequence).ok() ? At(sequence).capacity : 0;
}

absl::Status GuardedCache::Truncate(SequenceId sequence, int64_t length) {
  NG_RETURN_IF_ERROR(CheckOpen(sequence));
  absl::Status cannot;
  NG_RETURN_IF_ERROR(Guard([&]() -> absl::Status {
    const absl::Status truncated = store_->Truncate(sequence, length);
    if (IsUnsupported(truncated) && length > 0) {
      cannot = Annotate(truncated, plugin_.Describe() + ": ");
    } else {
      NG_RETURN_IF_ERROR(truncated);
      At(sequence).length = length;
    }
    NG_RETURN_IF_ERROR(CheckKept("Truncate", sequence));
    return Look("Truncate", [&] { return checks_->Begun(sequence); });
  }));
  return cannot;
}

absl::Status GuardedCache::Append(int layer, std::span<const SequenceRows> rows,
                                  const TensorView<const float, 3>& k,
                                  const TensorView<const float, 3>& v) {
  NG_RETURN_IF_ERROR(CheckOpen(rows));
  return Guard([&]() -> absl::Status {
    NG_RETURN_IF_ERROR(store_->Append(layer, rows, k, v));
    return Look("Append", [&] { return checks_->Appended(layer, rows, &k, &v); });
  });
}

absl::Status GuardedCache::Commit(std::span<const SequenceRows> rows) {
  NG_RETURN_IF_ERROR(CheckOpen(rows));
  return Guard([&]() -> absl::Status {
    NG_RETURN_IF_ERROR(store_->Commit(rows));
    for (const SequenceRows& entry : rows) {
      At(entry.sequence).length += entry.n_tokens;
      NG_RETURN_IF_ERROR(CheckKept("Commit", entry.sequence));
    }
    return Look("Commit", [&] { return checks_->Committed(rows); });
  });
}

KvView GuardedCache::View(int layer, SequenceId sequence, int64_t length) const {
  KvView view;
  const absl::Status opened = CheckOpen(sequence);
  const absl::Status status = !opened.ok() ? opened : Guard([&] {
    view = store_->View(layer, sequence, length);
    return Look("View", [&] { return checks_->View(view, layer, sequence, length); });
  });
  if (!status.ok()) throw PluginFault(status);
  return view;
}

void GuardedCache::CopyRow(KvPart part, const KvView& view, int64_t token, int kv_head,
                           float* out) const {
  const absl::Status status = Guard([&] {
    store_->CopyRow(part, view, token, kv_head, out);
    return absl::OkStatus();
  });
  if (!status.ok()) throw PluginFault(status);
}

void* GuardedCache::Capability(std::string_view name) {
  if (name == PrefixSharing::kName && sharing_ == nullptr) return nullptr;
  if (name == Snapshots::kName && snapshots_ == nullptr) return nullptr;
  if (name == Statistics::kName && statistics_ == nullptr) return nullptr;
  if (name == AttendedMass::kName && attended_ == nullptr) return nullptr;
  if (name == PlainQueries::kName && queries_ == nullptr) return nullptr;
  if (name == ContextMark::kName && (marks_ == nullptr || !plan_.mark)) return nullptr;
  if (name == KeepRules::kName && rules_ == nullptr) return nullptr;
  if (name == SequenceImages::kName && images_ == nullptr) return nullptr;
  void* const guarded =
      OfferCapability<PrefixSharing, Snapshots, Statistics, AttendedMass, PlainQueries, ContextMark,
                      KeepRules, SequenceImages>(this, name);
  if (guarded != nullptr) return guarded;
  void* found = nullptr;
  const absl::Status status = Guard([&] {
    found = store_->Capability(name);
    return absl::OkStatus();
  });
  if (!status.ok()) throw PluginFault(status);
  return found;
}

absl::Status GuardedCache::ExportLayer(int layer, SequenceId sequence,
                                       std::span<std::byte> image) const {
  NG_RETURN_IF_ERROR(CheckOpen(sequence));
  return Guard([&] { return snapshots_->ExportLayer(layer, sequence, image); });
}

absl::Status GuardedCache::ImportLayer(int layer, const SequenceRows& rows,
                                       std::span<const std::byte> image) {
  NG_RETURN_IF_ERROR(CheckOpen(rows.sequence));
  return Guard([&]() -> absl::Status {
    NG_RETURN_IF_ERROR(snapshots_->ImportLayer(layer, rows, image));
    return Look("ImportLayer", [&] {
      return checks_->Appended(layer, {&rows, 1}, nullptr, nullptr);
    });
  });
}

int64_t GuardedCache::ImageBytes(SequenceId sequence) const {
  int64_t bytes = 0;
  const auto ask = [&]() -> absl::Status {
    bytes = images_->ImageBytes(sequence);
    return bytes >= 0 ? absl::OkStatus() : Wrong("ImageBytes", absl::StrCat("gave ", bytes));
  };
  const absl::Status opened = CheckOpen(sequence);
  const absl::Status status = opened.ok() ? Guard(ask) : opened;
  if (!status.ok()) throw PluginFault(status);
  return bytes;
}

absl::Status GuardedCache::ExportImage(SequenceId sequence, std::span<std::byte> image) const {
  NG_RETURN_IF_ERROR(CheckOpen(sequence));
  return Guard([&] { return images_->ExportImage(sequence, image); });
}

absl::Status GuardedCache::ImportImage(SequenceId sequence, int64_t length,
                                       std::span<const std::byte> image) {
  NG_RETURN_IF_ERROR(CheckOpen(sequence));
  return Guard([&]() -> absl::Status {
    NG_RETURN_IF_ERROR(images_->ImportImage(sequence, length, image));
    At(sequence).length = length;
    NG_RETURN_IF_ERROR(CheckKept("ImportImage", sequence));
    return Look("ImportImage", [&] { return checks_->Begun(sequence); });
  });
}

absl::StatusOr<std::vector<Statistic>> GuardedCache::Values() const {
  std::vector<Statistic> values;
  NG_RETURN_IF_ERROR(Guard([&]() -> absl::Status {
    NG_ASSIGN_OR_RETURN(values, statistics_->Values());
    for (auto value = values.begin(); value != values.end(); ++value) {
      const auto same = std::find_if(
          values.begin(), value, [&](const Statistic& other) { return other.name == value->name; });
      if (value->name.empty() || same != value) {
        return Wrong("Values", absl::StrCat("the name '", ng::View(value->name),
                                            "' must not be empty and stand once"));
      }
    }
    return absl::OkStatus();
  }));
  return values;
}

int64_t GuardedCache::MassTokens(const SequenceRows& rows) const {
  int64_t n = 0;
  absl::Status status = CheckOpen(rows.sequence);
  if (status.ok()) {
    status = Guard([&]() -> absl::Status {
      n = attended_->MassTokens(rows);
      if (n >= 0 && n <= rows.n_tokens) return absl::OkStatus();
      return Wrong("MassTokens", absl::StrCat("gave ", n, ", must be in [0, ", rows.n_tokens, "]"));
    });
  }
  if (!status.ok()) throw PluginFault(status);
  return n;
}

absl::Status GuardedCache::Attended(int layer, const SequenceRows& rows,
                                    const TensorView<const float, 3>& mass) {
  NG_RETURN_IF_ERROR(CheckOpen(rows.sequence));
  return Guard([&] { return attended_->Attended(layer, rows, mass); });
}

void GuardedCache::SetRotation(int layer, const Rotation& rotation, double scale) {
  GuardQuietly([&] {
    queries_->SetRotation(layer, rotation, scale);
    return absl::OkStatus();
  });
}

absl::Status GuardedCache::Queries(int layer, std::span<const SequenceRows> rows,
                                   const TensorView<const float, 3>& q) {
  NG_RETURN_IF_ERROR(CheckOpen(rows));
  return Guard([&] { return queries_->Queries(layer, rows, q); });
}

absl::Status GuardedCache::SetMark(SequenceId sequence, int64_t length) {
  NG_RETURN_IF_ERROR(CheckOpen(sequence));
  absl::Status cannot;
  NG_RETURN_IF_ERROR(Guard([&]() -> absl::Status {
    const absl::Status set = marks_->SetMark(sequence, length);
    NG_RETURN_IF_ERROR(CheckKept("SetMark", sequence));
    if (IsUnsupported(set)) {
      cannot = Annotate(set, plugin_.Describe() + ": ");
      return absl::OkStatus();
    }
    NG_RETURN_IF_ERROR(set);
    const int64_t mark = marks_->Mark(sequence);
    if (mark == length) return absl::OkStatus();
    return Wrong("SetMark", absl::StrCat("the mark of sequence ", sequence, " is ", mark,
                                         ", must be ", length));
  }));
  return cannot;
}

int64_t GuardedCache::Mark(SequenceId sequence) const {
  if (!CheckOpen(sequence).ok()) return 0;
  int64_t mark = 0;
  const absl::Status status = Guard([&] {
    mark = marks_->Mark(sequence);
    return absl::OkStatus();
  });
  if (!status.ok()) throw PluginFault(status);
  return mark;
}

std::span<const std::string> GuardedCache::Rules() const {
  std::span<const std::string> rules;
  const absl::Status status = Guard([&] {
    rules = rules_->Rules();
    return absl::OkStatus();
  });
  if (!status.ok()) throw PluginFault(status);
  return rules;
}

absl::Status GuardedCache::SetRule(SequenceId sequence, int rule) {
  NG_RETURN_IF_ERROR(CheckOpen(sequence));
  absl::Status cannot;
  NG_RETURN_IF_ERROR(Guard([&]() -> absl::Status {
    const absl::Status set = rules_->SetRule(sequence, rule);
    NG_RETURN_IF_ERROR(CheckKept("SetRule", sequence));
    if (!IsUnsupported(set)) return set;
    cannot = Annotate(set, plugin_.Describe() + ": ");
    return absl::OkStatus();
  }));
  return cannot;
}

}  // namespace ng
