#include "core/formats/quantised/form_finder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/absl_view.h"
#include "core/formats/quantised/block_writer.h"

namespace ng {

absl::StatusOr<const TensorInfo*> FormFinder::Need(const TensorInfo& beside,
                                                   const std::string& name) const {
  const TensorInfo* const found = Find(name);
  if (found != nullptr) return found;
  return ModelFileError(absl::StrCat(source_.path(), ": tensor ", JsonExcerpt(beside.name),
                                     " is there without ", JsonExcerpt(name)));
}

std::optional<std::string> FormFinder::Before(const TensorInfo& tensor, std::string_view ending) {
  if (!tensor.name.ends_with(ending)) return std::nullopt;
  return tensor.name.substr(0, tensor.name.size() - ending.size());
}

absl::Status FormFinder::Refuse(const TensorInfo& tensor, std::string_view what) const {
  return ModelFileError(
      absl::StrCat(source_.path(), ": tensor ", JsonExcerpt(tensor.name), " ", View(what)));
}

absl::Status FormFinder::CheckType(const TensorInfo& tensor,
                                   std::initializer_list<DType> allowed) const {
  if (std::ranges::find(allowed, tensor.dtype) != allowed.end()) return absl::OkStatus();
  std::vector<std::string> names;
  for (const DType type : allowed) names.emplace_back(DTypeName(type));
  return Refuse(tensor, absl::StrCat("is ", View(DTypeName(tensor.dtype)), ", must be ",
                                     absl::StrJoin(names, " or ")));
}

absl::Status FormFinder::CheckShape(const TensorInfo& tensor,
                                    std::span<const int64_t> shape) const {
  if (std::ranges::equal(tensor.shape, shape)) return absl::OkStatus();
  return WrongShape(tensor, ShapeString(shape));
}

absl::Status FormFinder::CheckRank(const TensorInfo& tensor, size_t least, size_t most) const {
  const bool whole = std::ranges::all_of(tensor.shape, [](int64_t extent) { return extent > 0; });
  if (whole && tensor.shape.size() >= least && tensor.shape.size() <= most) return absl::OkStatus();
  return WrongShape(
      tensor, least == most ? absl::StrCat("of ", least, " extents of at least 1")
                            : absl::StrCat("of ", least, " to ", most, " extents of at least 1"));
}

absl::Status FormFinder::WrongShape(const TensorInfo& tensor, std::string_view allowed) const {
  return Refuse(tensor,
                absl::StrCat("has shape ", ShapeString(tensor.shape), ", must be ", View(allowed)));
}

absl::Status FormFinder::RefuseKey(std::string_view key, std::string_view allowed) const {
  const nlohmann::json* const value = config().Find(key);
  return ModelFileError(
      absl::StrCat(config_.file, ": key \"", config_.prefix, View(key), "\" ",
                   value == nullptr ? "is missing" : absl::StrCat("= ", JsonExcerpt(*value)), ", ",
                   View(allowed)));
}

absl::StatusOr<std::string> FormFinder::OneOf(std::string_view key,
                                              std::initializer_list<std::string_view> allowed,
                                              std::string_view absent) const {
  NG_ASSIGN_OR_RETURN(const std::optional<std::string> found, config().OptionalText(key));
  if (!found) return std::string(absent);
  if (std::ranges::find(allowed, *found) != allowed.end()) return *found;
  return RefuseKey(
      key, absl::StrCat("can run: ", absl::StrJoin(allowed, ", ",
                                                   [](auto* to, auto name) { to->append(name); })));
}

void FormFinder::Inert(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys) config().Find(key);
}

absl::Status FormFinder::CheckAllRead() const {
  const std::vector<std::string> unread = config().Unread();
  if (unread.empty()) return absl::OkStatus();
  return ModelFileError(absl::StrCat(config_.file, ": key ", JsonExcerpt(unread.front()),
                                     " is none of those that are known of this quantisation, and "
                                     "may change its values; can run only without"));
}

void FormFinder::Add(MatrixForm form, std::string name, std::vector<int64_t> shape) {
  form.info.name = std::move(name);
  form.info.shape = std::move(shape);
  form.info.dtype = GivenAs(form, form.info.shape.back());
  form.info.n_elements = 1;
  for (const int64_t extent : form.info.shape) form.info.n_elements *= extent;
  form.info.n_bytes =
      form.info.n_elements / DTypeBlock(form.info.dtype) * DTypeBytes(form.info.dtype);
  matrices_.push_back(std::move(form));
}

void FormFinder::DropEnding(std::initializer_list<std::string_view> endings) {
  for (const TensorInfo& tensor : source_.tensors()) {
    const bool ends = std::ranges::any_of(
        endings, [&](std::string_view ending) { return tensor.name.ends_with(ending); });
    if (ends) Drop(tensor);
  }
}

void FormFinder::Note(std::string note) {
  if (std::ranges::find(notes_, note) == notes_.end()) notes_.push_back(std::move(note));
}

}  // namespace ng
