#include "core/base/file_cursor.h"

#include <algorithm>
#include <span>

#include "absl/strings/str_cat.h"

namespace ng {
namespace {

constexpr uint64_t kWindowBytes = uint64_t{1} << 16;

}  // namespace

absl::StatusOr<std::string_view> FileCursor::Bytes(uint64_t count, std::string_view what) {
  const auto refuse = [&](const auto&... parts) {
    return ModelFileError(absl::StrCat(file_.path(), ": ", parts...));
  };
  if (count > left()) {
    return refuse("ends in ", absl::string_view(what.data(), what.size()), " at byte ", position());
  }
  if (position() > most_ || count > most_ - position()) {
    return refuse("has a header of more than ", most_, " bytes, must have at most so many");
  }
  if (window_.size() - used_ < count) {
    window_.erase(0, used_);
    begin_ += used_;
    used_ = 0;
    const size_t have = window_.size();
    window_.resize(have + std::min(left() - have, std::max(count - have, kWindowBytes)));
    NG_RETURN_IF_ERROR(file_.ReadAt(static_cast<int64_t>(begin_ + have),
                                    std::as_writable_bytes(std::span(window_).subspan(have))));
  }
  const std::string_view taken = std::string_view(window_).substr(used_, count);
  used_ += count;
  return taken;
}

absl::StatusOr<uint32_t> FileCursor::U32(std::string_view what) {
  NG_ASSIGN_OR_RETURN(const std::string_view bytes, Bytes(sizeof(uint32_t), what));
  return Cursor(bytes).U32().value();
}

absl::StatusOr<uint64_t> FileCursor::U64(std::string_view what) {
  NG_ASSIGN_OR_RETURN(const std::string_view bytes, Bytes(sizeof(uint64_t), what));
  return Cursor(bytes).U64().value();
}

}  // namespace ng
