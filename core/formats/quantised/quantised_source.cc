#include "core/formats/quantised/quantised_source.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "core/formats/quantised/block_writer.h"
#include "core/formats/quantised/row_decoder.h"

namespace ng {
namespace {

// Matrices whose factors are kept for the next read: the loader reads one after the other.
constexpr size_t kMostKept = 2;

constexpr int64_t kCodesAtATime = int64_t{1} << 16;

const std::string& NameOf(const MatrixForm& form) { return form.info.name; }

class QuantisedSource final : public TensorSource {
 public:
  QuantisedSource(std::unique_ptr<TensorSource> inner, std::vector<MatrixForm> matrices,
                  const std::set<std::string>& dropped)
      : inner_(std::move(inner)), matrices_(std::move(matrices)) {
    std::ranges::sort(matrices_, {}, NameOf);
    std::set<std::string_view> gone(dropped.begin(), dropped.end());
    for (const MatrixForm& form : matrices_) {
      for (const TensorInfo* part : form.parts) gone.insert(part->name);
      tensors_.push_back(form.info);
    }
    for (const TensorInfo& tensor : inner_->tensors()) {
      if (!gone.contains(tensor.name)) tensors_.push_back(tensor);
    }
    std::ranges::sort(tensors_, {}, &TensorInfo::name);
  }

  const std::string& path() const override { return inner_->path(); }
  std::span<const TensorInfo> tensors() const override { return tensors_; }

  absl::Status ReadAt(const TensorInfo& tensor, int64_t first,
                      std::span<std::byte> out) const override {
    const MatrixForm* const form = FormOf(tensor);
    if (form == nullptr) return inner_->ReadAt(*inner_->Find(tensor.name), first, out);
    NG_ASSIGN_OR_RETURN(const std::shared_ptr<const RowDecoder> decoder, DecoderOf(*form));
    const int64_t row_bytes = form->info.n_bytes / form->n_rows();
    const int64_t end = first + std::ssize(out);
    const int64_t most = std::max<int64_t>(1, kCodesAtATime / form->n_inputs());
    std::vector<std::byte> row_out(static_cast<size_t>(row_bytes));
    std::vector<uint8_t> codes(static_cast<size_t>(form->n_inputs()));
    for (int64_t at = first; at < end;) {
      const int64_t row = at / row_bytes;
      const int64_t n = std::min(most, (end - 1) / row_bytes + 1 - row);
      NG_ASSIGN_OR_RETURN(const RowDecoder::Rows rows, decoder->Read(*inner_, row, n));
      for (int64_t r = row; r < row + n; ++r) {
        decoder->CodesOf(rows, r, codes.data());
        WriteRow(*form, *decoder, r, codes.data(), row_out.data());
        const int64_t begin = r * row_bytes;
        const int64_t n_bytes = std::min(begin + row_bytes, end) - at;
        std::memcpy(out.data() + (at - first), row_out.data() + (at - begin),
                    static_cast<size_t>(n_bytes));
        at += n_bytes;
      }
    }
    return absl::OkStatus();
  }

  // The codes: the factors are a small part of a matrix.
  void Announce(const TensorInfo& tensor, int64_t first, int64_t n_bytes) const override {
    const MatrixForm* const form = FormOf(tensor);
    if (form == nullptr) return inner_->Announce(*inner_->Find(tensor.name), first, n_bytes);
    const TensorInfo& codes = *form->codes.tensor;
    if (form->codes.order != CodeOrder::kRows) {
      if (first == 0) inner_->Announce(codes, 0, codes.n_bytes);
      return;
    }
    const double share = static_cast<double>(codes.n_bytes) / static_cast<double>(tensor.n_bytes);
    const auto begin = static_cast<int64_t>(static_cast<double>(first) * share);
    const auto n = static_cast<int64_t>(static_cast<double>(n_bytes) * share);
    inner_->Announce(codes, begin, std::min(n, codes.n_bytes - begin));
  }

  int64_t ReadingBytes(const TensorInfo& tensor) const override {
    const MatrixForm* const form = FormOf(tensor);
    return form == nullptr ? inner_->ReadingBytes(*inner_->Find(tensor.name))
                           : RowDecoder::Bytes(*form) * static_cast<int64_t>(kMostKept);
  }

 private:
  // Null: the tensor is the inner source's.
  const MatrixForm* FormOf(const TensorInfo& tensor) const {
    const auto found = std::ranges::lower_bound(matrices_, tensor.name, {}, NameOf);
    return found == matrices_.end() || found->info.name != tensor.name ? nullptr : &*found;
  }

  // Who comes first reads it, and the others wait for that.
  absl::StatusOr<std::shared_ptr<const RowDecoder>> DecoderOf(const MatrixForm& form) const {
    const std::lock_guard lock(mutex_);
    for (const auto& [of, decoder] : kept_) {
      if (of == &form) return decoder;
    }
    NG_ASSIGN_OR_RETURN(RowDecoder loaded, RowDecoder::Load(form, *inner_));
    if (kept_.size() == kMostKept) kept_.pop_front();
    auto decoder = std::make_shared<const RowDecoder>(std::move(loaded));
    kept_.emplace_back(&form, decoder);
    return decoder;
  }

  std::unique_ptr<TensorSource> inner_;
  std::vector<MatrixForm> matrices_;  // sorted by name
  std::vector<TensorInfo> tensors_;   // sorted by name
  mutable std::mutex mutex_;
  mutable std::deque<std::pair<const MatrixForm*, std::shared_ptr<const RowDecoder>>> kept_;
};

}  // namespace

std::unique_ptr<TensorSource> MakeQuantisedSource(std::unique_ptr<TensorSource> inner,
                                                  std::vector<MatrixForm> matrices,
                                                  const std::set<std::string>& dropped) {
  return std::make_unique<QuantisedSource>(std::move(inner), std::move(matrices), dropped);
}

}  // namespace ng
