#include "core/plugin/cache_checks.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "ng/tiles16.h"

namespace ng {
namespace {

constexpr KvPart kParts[] = {KvPart::kKey, KvPart::kValue};

int64_t DivideUp(int64_t n, int64_t unit) { return n / unit + (n % unit != 0 ? 1 : 0); }

// The heads that are looked at: the first, and the last where that is another one.
int HeadsOf(const CacheSpec& spec) { return std::min(spec.n_kv_heads, 2); }
int HeadAt(const CacheSpec& spec, int i) { return i == 0 ? 0 : spec.n_kv_heads - 1; }

std::string Place(SequenceId sequence, int64_t token, int layer) {
  return absl::StrCat("token ", token, " of sequence ", sequence, " in layer ", layer);
}

// OK when `found` is as it must be.
template <class T>
absl::Status Must(bool sound, std::string_view what, const T& found, std::string_view allowed) {
  if (sound) return absl::OkStatus();
  return PluginError(
      absl::StrCat("the view's ", View(what), " is ", found, ", must be ", View(allowed)));
}

// The layouts and layers of a spec are borrowed for a call.
CacheSpec WithoutLayouts(CacheSpec spec) {
  spec.layouts = {};
  spec.layers = {};
  return spec;
}

// Whether all heads that are looked at hold the token.
bool Hold(const KvView& view, const CacheSpec& spec, int64_t token) {
  for (int i = 0; i < HeadsOf(spec); ++i) {
    if (!view.Holds(HeadAt(spec, i), token)) return false;
  }
  return true;
}

// The bytes of a tile as layout "tiles16" has it.
int64_t Tiles16Bytes(Codec codec, int64_t head_dim, bool keys) {
  const int64_t scales = HasScales(codec) ? kTileTokens * 4 : 0;
  const int64_t in_a_word = 32 / CodecBits(codec);
  const int64_t dims = keys ? DivideUp(head_dim, in_a_word) * in_a_word : head_dim;
  return scales + dims * kTileTokens * CodecBits(codec) / 8;
}

}  // namespace

CacheChecks::CacheChecks(const CacheStore& store, const CachePlan& plan, const CacheSpec& spec,
                         std::span<const CachedSequence> sequences)
    : store_(store),
      plan_(plan),
      spec_(WithoutLayouts(spec)),
      sequences_(sequences),
      seen_(sequences.size()) {}

int64_t CacheChecks::layer_floats() const {
  return int64_t{HeadsOf(spec_)} * (spec_.head_dim + spec_.value_dim());
}

absl::Status CacheChecks::Begun(SequenceId sequence) {
  const int64_t length = sequences_[static_cast<size_t>(sequence)].length;
  Seen& seen = At(sequence);
  seen = {.first = length == 0 ? Spots() : std::move(seen.first)};
  if (length > 0 && looks_at_rows()) {
    NG_ASSIGN_OR_RETURN(seen.last, ReadAll(sequence, length - 1));
    if (seen.first.empty()) {
      NG_ASSIGN_OR_RETURN(seen.first, ReadAll(sequence, 0));
    }
  }
  return Unchanged();
}

absl::Status CacheChecks::Forked(SequenceId from, SequenceId to) {
  At(to) = {.first = At(from).first, .last = At(from).last};
  return Unchanged();
}

absl::Status CacheChecks::Closed(SequenceId sequence) {
  At(sequence) = {};
  return Unchanged();
}

absl::Status CacheChecks::Appended(int layer, std::span<const SequenceRows> rows,
                                   const TensorView<const float, 3>* k,
                                   const TensorView<const float, 3>* v) {
  NG_RETURN_IF_ERROR(Unchanged(layer, layer + 1));
  if (!looks_at_rows()) return absl::OkStatus();
  for (const SequenceRows& entry : rows) {
    if (entry.n_tokens == 0) continue;
    if (k != nullptr) {
      NG_RETURN_IF_ERROR(Exact(layer, entry, 0, *k, *v));
      NG_RETURN_IF_ERROR(Exact(layer, entry, entry.n_tokens - 1, *k, *v));
    }
    Seen& seen = At(entry.sequence);
    const int64_t end = entry.start_pos + entry.n_tokens;
    NG_RETURN_IF_ERROR(Read(layer, entry.sequence, end - 1, end, &seen.next_last));
    if (entry.start_pos > 0) continue;
    NG_RETURN_IF_ERROR(Read(layer, entry.sequence, 0, end, &seen.next_first));
  }
  return absl::OkStatus();
}

absl::Status CacheChecks::Committed(std::span<const SequenceRows> rows) {
  for (const SequenceRows& entry : rows) {
    if (entry.n_tokens == 0 || !looks_at_rows()) continue;
    // Unchanged looks whether they still read so.
    Seen& seen = At(entry.sequence);
    if (seen.first.empty()) seen.first = std::move(seen.next_first);
    seen.last = std::move(seen.next_last);
    seen.next_first.clear();
    seen.next_last.clear();
  }
  return Unchanged();
}

absl::Status CacheChecks::View(const KvView& view, int layer, SequenceId sequence,
                               int64_t length) const {
  if (view.layout != plan_.layout) {
    return PluginError(absl::StrCat("the view's layout is ", ng::View(view.layout),
                                    ", the plan's is ", ng::View(plan_.layout)));
  }
  NG_RETURN_IF_ERROR(Must(view.length == length, "length", view.length, absl::StrCat(length)));
  NG_RETURN_IF_ERROR(Must(view.store != nullptr, "store", "null", "the store"));
  NG_RETURN_IF_ERROR(
      Must(view.sequence == sequence, "sequence", view.sequence, absl::StrCat(sequence)));
  NG_RETURN_IF_ERROR(Must(view.layer == layer, "layer", view.layer, absl::StrCat(layer)));
  // What a query of the step may see, or of the next one.
  const int64_t seen =
      spec_.FirstSeen(std::min(length, sequences_[static_cast<size_t>(sequence)].length));
  NG_RETURN_IF_ERROR(Must(view.first >= 0 && view.first <= seen, "first", view.first,
                          absl::StrCat("in [0, ", seen, "] for a window of ", spec_.window)));
  const int64_t words = view.present.empty() ? 0 : DivideUp(length, 64);
  NG_RETURN_IF_ERROR(Must(view.present.empty() || plan_.holes, "present", "given",
                          "empty, for the plan has no holes"));
  NG_RETURN_IF_ERROR(Must(std::ssize(view.present) >= words, "present", view.present.size(),
                          absl::StrCat("at least ", words, " words")));
  NG_RETURN_IF_ERROR(Must(view.v_in_k == plan_.v_in_k, "v_in_k", view.v_in_k,
                          absl::StrCat(plan_.v_in_k, " as in the plan")));
  NG_RETURN_IF_ERROR(Slots(view));
  // How another layout uses pages and strides is between the store and its backend.
  if (view.layout != kLayoutTiles16 && view.layout != kLayoutTiles16Bounds) return absl::OkStatus();
  NG_RETURN_IF_ERROR(Must(view.page_tokens > 0 && view.page_tokens % kTileTokens == 0,
                          "page_tokens", view.page_tokens, "a multiple of 16"));
  NG_RETURN_IF_ERROR(Pages(view));
  NG_RETURN_IF_ERROR(Tiles(view, view.k, true));
  return view.v_in_k ? absl::OkStatus() : Tiles(view, view.v, false);
}

absl::Status CacheChecks::Pages(const KvView& view) const {
  int64_t end = view.n_slots();  // of all that pages have
  for (const HeadSlots& head : view.heads) {
    NG_RETURN_IF_ERROR(
        Must(head.first_tile >= 0, "first_tile", head.first_tile, "at least 0 in every kv head"));
    end = std::max(end, head.first_tile * kTileTokens + view.length - head.gone);
  }
  const int64_t n_pages = DivideUp(end, view.page_tokens);
  NG_RETURN_IF_ERROR(Must(std::ssize(view.pages) >= n_pages, "number of pages", view.pages.size(),
                          absl::StrCat("at least ", n_pages, " for ", end, " tokens")));
  for (int64_t slot = 0; slot < end; ++slot) {
    const bool there = view.pages[static_cast<size_t>(slot / view.page_tokens)] != nullptr;
    const bool held = view.gone > 0 || !view.heads.empty() || view.Holds(slot);
    NG_RETURN_IF_ERROR(
        Must(there || !held, "page", "null", absl::StrCat("the one that holds token ", slot)));
  }
  return absl::OkStatus();
}

absl::Status CacheChecks::Slots(const KvView& view) const {
  if (view.gone == 0 && view.heads.empty()) return absl::OkStatus();
  NG_RETURN_IF_ERROR(Must(plan_.slots > 0, "gone", view.gone, "0, for the plan has no slots"));
  NG_RETURN_IF_ERROR(Must(view.heads.empty() || plan_.head_slots > 0, "heads", "given",
                          "empty, for the plan has no head_slots"));
  NG_RETURN_IF_ERROR(Must(view.heads.empty() || std::ssize(view.heads) == spec_.n_kv_heads,
                          "number of heads", view.heads.size(), absl::StrCat(spec_.n_kv_heads)));
  int64_t least = view.length;
  for (int head = 0; head < spec_.n_kv_heads; ++head) {
    NG_RETURN_IF_ERROR(Slots(view, head));
    least = std::min(least, view.GoneOf(head));
  }
  return Must(view.gone == least, "gone", view.gone,
              absl::StrCat(least, ", the least of the kv heads"));
}

absl::Status CacheChecks::Slots(const KvView& view, int head) const {
  const HeadSlots own = view.SlotsOf(head);
  const int64_t most = view.heads.empty() ? plan_.slots : plan_.most_slots();
  NG_RETURN_IF_ERROR(Must(own.gone >= 0 && view.length - own.gone <= most, "gone", own.gone,
                          absl::StrCat("such that at most ", most, " tokens are held")));
  const int64_t end = own.n_kept + own.gone;
  NG_RETURN_IF_ERROR(Must(own.n_kept >= 0 && end <= view.length, "n_kept", own.n_kept,
                          absl::StrCat("in [0, ", view.length - own.gone, "]")));
  NG_RETURN_IF_ERROR(
      Must(own.positions >= 0 && std::ssize(view.positions) >= own.positions + own.n_kept,
           "number of positions", view.positions.size(),
           absl::StrCat("at least ", own.n_kept, " for each kv head")));
  int64_t least = 0;
  for (const int32_t position : view.KeptBy(head)) {
    NG_RETURN_IF_ERROR(Must(position >= least && position < end, "position", position,
                            absl::StrCat("in [", least, ", ", end, ")")));
    least = int64_t{position} + 1;
  }
  return absl::OkStatus();
}

absl::Status CacheChecks::Tiles(const KvView& view, const KvSide& side, bool keys) const {
  const Codec codec = keys ? spec_.codec_k : spec_.codec_v;
  const std::string_view part = keys ? "k." : "v.";
  NG_RETURN_IF_ERROR(Must(side.codec == codec, absl::StrCat(ng::View(part), "codec"),
                          ng::View(CodecName(side.codec)), CodecName(codec)));
  const int64_t bytes = Tiles16Bytes(codec, keys ? spec_.head_dim : spec_.value_dim(), keys);
  const std::string least = absl::StrCat("at least ", bytes, ", the bytes of a tile");
  NG_RETURN_IF_ERROR(Must(side.tile_bytes >= bytes, absl::StrCat(ng::View(part), "tile_bytes"),
                          side.tile_bytes, least));
  // Where heads say for themselves where they begin, they need no stride.
  return Must(spec_.n_kv_heads == 1 || !view.heads.empty() || side.head_stride >= bytes,
              absl::StrCat(ng::View(part), "head_stride"), side.head_stride, least);
}

absl::Status CacheChecks::Read(int layer, SequenceId sequence, int64_t token, int64_t length,
                               Spots* spots) const {
  const KvView view = store_.View(layer, sequence, length);
  NG_RETURN_IF_ERROR(View(view, layer, sequence, length));
  spots->resize(static_cast<size_t>(spec_.n_layers * layer_floats()));
  float* out = spots->data() + layer * layer_floats();
  for (const KvPart part : kParts) {
    const int width = part == KvPart::kKey ? spec_.head_dim : spec_.value_dim();
    for (int i = 0; i < HeadsOf(spec_); ++i, out += width) {
      view.store->CopyRow(part, view, token, HeadAt(spec_, i), out);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<CacheChecks::Spots> CacheChecks::ReadAll(SequenceId sequence, int64_t token) const {
  Spots spots;
  const int64_t length = sequences_[static_cast<size_t>(sequence)].length;
  for (int layer = 0; layer < spec_.n_layers; ++layer) {
    if (!Hold(store_.View(layer, sequence, length), spec_, token)) return Spots();
    NG_RETURN_IF_ERROR(Read(layer, sequence, token, length, &spots));
  }
  return spots;
}

absl::Status CacheChecks::Same(SequenceId sequence, int64_t token, const Spots& wanted, int begin,
                               int end) const {
  if (wanted.empty()) return absl::OkStatus();
  const int64_t length = sequences_[static_cast<size_t>(sequence)].length;
  const auto size = static_cast<size_t>(layer_floats());
  Spots found;
  for (int layer = begin; layer < end; ++layer) {
    if (!Hold(store_.View(layer, sequence, length), spec_, token)) continue;
    NG_RETURN_IF_ERROR(Read(layer, sequence, token, length, &found));
    const auto first = static_cast<size_t>(layer) * size;
    // By bits: what was not finite stays the same too.
    const auto differ = std::ranges::mismatch(
        std::span(found).subspan(first, size), std::span(wanted).subspan(first, size),
        [](float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); });
    if (differ.in2 == std::span(wanted).subspan(first, size).end()) continue;
    return PluginError(absl::StrCat(Place(sequence, token, layer), " reads as ", *differ.in1,
                                    ", must be ", *differ.in2, " as before"));
  }
  return absl::OkStatus();
}

absl::Status CacheChecks::Unchanged(int begin, int end) const {
  for (size_t i = 0; i < sequences_.size(); ++i) {
    const CachedSequence& kept = sequences_[i];
    if (!kept.open) continue;
    const auto id = static_cast<SequenceId>(i);
    const int64_t length = store_.Length(id);
    const int64_t capacity = store_.Capacity(id);
    if (length != kept.length || capacity != kept.capacity) {
      return PluginError(absl::StrCat("sequence ", id, " has ", length, " of ", capacity,
                                      " tokens, must have ", kept.length, " of ", kept.capacity));
    }
    NG_RETURN_IF_ERROR(Same(id, 0, seen_[i].first, begin, end));
    NG_RETURN_IF_ERROR(Same(id, length - 1, seen_[i].last, begin, end));
  }
  return absl::OkStatus();
}

absl::Status CacheChecks::Exact(int layer, const SequenceRows& rows, int64_t i,
                                const TensorView<const float, 3>& k,
                                const TensorView<const float, 3>& v) const {
  if (!plan_.codec.empty()) return absl::OkStatus();
  const int64_t token = rows.start_pos + i;
  Spots found;
  NG_RETURN_IF_ERROR(Read(layer, rows.sequence, token, rows.start_pos + rows.n_tokens, &found));
  const float* row = found.data() + layer * layer_floats();
  for (const KvPart part : kParts) {
    const bool keys = part == KvPart::kKey;
    const int width = keys ? spec_.head_dim : spec_.value_dim();
    for (int h = 0; h < HeadsOf(spec_); ++h, row += width) {
      if ((keys ? spec_.codec_k : spec_.codec_v) != Codec::kF32) continue;
      const int head = HeadAt(spec_, h);
      const float* const given = (keys ? k : v).Row(rows.row_begin + i, head);
      const auto bytes = static_cast<size_t>(width) * sizeof(float);
      if (std::memcmp(row, given, bytes) == 0) continue;
      return PluginError(absl::StrCat(Place(rows.sequence, token, layer),
                                      " does not read as it was appended: ", keys ? "key" : "value",
                                      " head ", head));
    }
  }
  return absl::OkStatus();
}

}  // namespace ng
