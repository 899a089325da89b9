#include "core/snapshot/cache_snapshot.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ng {
namespace {

// What the field says of a cache; without it no token leaves.
std::string ValueOf(const std::vector<CacheField>& fields, std::string_view name) {
  const auto field = std::ranges::find(fields, name, &CacheField::name);
  return field == fields.end() ? "lets no token leave" : field->value;
}

int64_t Tiles(int64_t n_tokens) { return n_tokens / kTileTokens + (n_tokens % kTileTokens != 0); }

}  // namespace

absl::Status CheckIdentity(const CacheFile& file, const std::vector<CacheField>& identity) {
  const std::vector<CacheField>& fields = file.header().fields;
  const std::string made = ValueOf(fields, kLeavingField);
  const std::string wanted = ValueOf(identity, kLeavingField);
  if (made != wanted) {
    return ModelFileError(absl::StrCat(file.path(), ": was made by a cache that ", made,
                                       ", that of this run ", wanted));
  }
  if (fields.size() != identity.size()) {
    return ModelFileError(absl::StrCat(file.path(), ": has ", fields.size(),
                                       " fields, a cache snapshot of this version has ",
                                       identity.size()));
  }
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name != identity[i].name) {
      return ModelFileError(absl::StrCat(file.path(), ": field ", i, " is '", fields[i].name,
                                         "', must be '", identity[i].name, "'"));
    }
    if (identity[i].value.empty() || fields[i].value == identity[i].value) continue;
    return ModelFileError(absl::StrCat(file.path(), ": was made with ", fields[i].name, " = ",
                                       fields[i].value, ", this run has ", identity[i].value));
  }
  return absl::OkStatus();
}

absl::Status CheckBegins(const CacheFile& file, std::span<const int32_t> prompt) {
  const std::vector<int32_t>& ids = file.header().ids;
  const auto differ = std::ranges::mismatch(ids, prompt);
  if (differ.in1 == ids.end()) return absl::OkStatus();
  const std::string begin = absl::StrCat("the prompt does not begin with the ", ids.size(),
                                         " tokens of ", file.path(), ": ");
  if (differ.in2 == prompt.end()) {
    return UsageError(absl::StrCat(begin, "it has only ", prompt.size()));
  }
  return UsageError(absl::StrCat(begin, "token ", differ.in1 - ids.begin(), " is ", *differ.in2,
                                 ", must be ", *differ.in1));
}

CacheSnapshots::CacheSnapshots(const Stores& stores, std::vector<CacheField> identity,
                               const std::atomic<bool>* stop)
    : store_(stores.cache), states_(stores.states), identity_(std::move(identity)), stop_(stop) {}

int64_t CacheSnapshots::LayerBytes(int64_t n_tokens) const {
  return Tiles(n_tokens) * store_.plan().image_tile_bytes;
}

absl::StatusOr<CacheFile> CacheSnapshots::Open(const std::string& path) const {
  NG_ASSIGN_OR_RETURN(CacheFile file, CacheFile::Open(path));
  NG_RETURN_IF_ERROR(CheckIdentity(file, identity_));
  const CacheFileHeader& header = file.header();
  const int64_t layer_bytes = whole() ? header.layer_bytes : LayerBytes(std::ssize(header.ids));
  const int64_t state_bytes = states_.n_floats() * int64_t{sizeof(float)};
  if (header.n_layers != n_layers() || header.layer_bytes != layer_bytes) {
    return ModelFileError(absl::StrCat(path, ": has ", header.n_layers, " layers of ",
                                       header.layer_bytes, " bytes, must have ", n_layers(), " of ",
                                       layer_bytes));
  }
  if (header.state_bytes != state_bytes) {
    return ModelFileError(absl::StrCat(path, ": has a state of ", header.state_bytes,
                                       " bytes, must have ", state_bytes));
  }
  return file;
}

absl::Status CacheSnapshots::Load(const CacheFile& file, int64_t end, SequenceId sequence) const {
  int64_t length = store_.Length(sequence);
  if (length > 0 && length >= end) return absl::OkStatus();  // it is all there
  if (whole()) return LoadWhole(file, end, sequence);
  if (!states_.empty() && end < std::ssize(file.header().ids)) return absl::OkStatus();
  // Whole tiles are written: of one partly there, all of it again.
  if (length % kTileTokens != 0) {
    length -= length % kTileTokens;
    NG_RETURN_IF_ERROR(store_.Truncate(sequence, length));
  }
  SequenceRows rows;
  rows.sequence = sequence;
  rows.start_pos = length;
  rows.n_tokens = end - length;
  rows.tokens = std::span(file.header().ids)
                    .subspan(static_cast<size_t>(length), static_cast<size_t>(rows.n_tokens));
  std::vector<std::byte> image(static_cast<size_t>(file.header().layer_bytes));
  for (int layer = 0; layer < store_.n_layers(); ++layer) {
    NG_RETURN_IF_ERROR(file.ReadLayer(layer, image));
    const int64_t tile_bytes = store_.image_tile_bytes(layer);
    const auto wanted = std::span<const std::byte>(image).subspan(
        static_cast<size_t>(length / kTileTokens * tile_bytes),
        static_cast<size_t>(Tiles(rows.n_tokens) * tile_bytes));
    NG_RETURN_IF_ERROR(store_.ImportLayer(layer, rows, wanted));
  }
  NG_RETURN_IF_ERROR(LoadState(file, sequence));
  return store_.Commit({&rows, 1});
}

absl::Status CacheSnapshots::LoadState(const CacheFile& file, SequenceId sequence) const {
  if (states_.empty()) return absl::OkStatus();
  const auto state = std::as_writable_bytes(states_.Overwrite(sequence));
  absl::Status read = file.ReadLayer(n_layers(), state);
  if (!read.ok()) states_.Clear(sequence);
  return read;
}

absl::Status CacheSnapshots::LoadWhole(const CacheFile& file, int64_t end,
                                       SequenceId sequence) const {
  const auto n_tokens = std::ssize(file.header().ids);
  if (!states_.empty() && end < n_tokens) return absl::OkStatus();
  std::vector<std::byte> image(static_cast<size_t>(file.header().layer_bytes));
  NG_RETURN_IF_ERROR(file.ReadLayer(0, image));
  NG_RETURN_IF_ERROR(store_.Truncate(sequence, 0));
  const absl::Status imported = store_.ImportImage(sequence, n_tokens, image);
  if (!imported.ok()) {
    return ModelFileError(absl::StrCat(file.path(), ": ", imported.message()));
  }
  absl::Status status = LoadState(file, sequence);
  if (status.ok() && end < n_tokens) status = store_.Truncate(sequence, end);
  if (status.ok()) return status;
  NG_RETURN_IF_ERROR(store_.Truncate(sequence, 0));
  // Nobody goes back to where others were held: the text is read again.
  return IsUnsupported(status) ? absl::OkStatus() : status;
}

absl::Status CacheSnapshots::Save(SequenceId sequence, std::span<const int32_t> ids,
                                  const std::string& path) const {
  CacheFileHeader header;
  header.fields = identity_;
  header.ids.assign(ids.begin(), ids.end());
  header.n_layers = n_layers();
  header.layer_bytes = whole() ? store_.ImageBytes(sequence) : LayerBytes(std::ssize(ids));
  header.state_bytes = states_.n_floats() * int64_t{sizeof(float)};
  std::vector<std::byte> image(static_cast<size_t>(header.layer_bytes));
  NG_ASSIGN_OR_RETURN(CacheFileWriter file, CacheFileWriter::Create(path, header, stop_));
  if (whole()) {
    NG_RETURN_IF_ERROR(store_.ExportImage(sequence, image));
    NG_RETURN_IF_ERROR(file.WriteLayer(image));
  }
  for (int layer = 0; layer < store_.n_layers() && !whole(); ++layer) {
    const int64_t n_bytes = Tiles(std::ssize(ids)) * store_.image_tile_bytes(layer);
    const auto own = std::span(image).first(static_cast<size_t>(n_bytes));
    NG_RETURN_IF_ERROR(store_.ExportLayer(layer, sequence, own));
    std::fill(image.begin() + n_bytes, image.end(), std::byte{0});
    NG_RETURN_IF_ERROR(file.WriteLayer(image));
  }
  if (!states_.empty()) {
    NG_RETURN_IF_ERROR(file.WriteLayer(std::as_bytes(states_.All(sequence))));
  }
  return file.Commit();
}

}  // namespace ng
