#include "core/model/adapters/replaced_tensors.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ng {
namespace {

// Where a replaced tensor comes from.
struct Replacement {
  const TensorSource* source = nullptr;
  const TensorInfo* tensor = nullptr;  // there
};
using Replacements = std::map<std::string, Replacement, std::less<>>;

class ReplacedSource final : public TensorSource {
 public:
  ReplacedSource(std::unique_ptr<TensorSource> model, Replacements replaced)
      : model_(std::move(model)), replaced_(std::move(replaced)) {
    tensors_.assign(model_->tensors().begin(), model_->tensors().end());
    for (TensorInfo& tensor : tensors_) {
      const auto found = replaced_.find(tensor.name);
      if (found == replaced_.end()) continue;
      const std::string name = tensor.name;
      tensor = *found->second.tensor;
      tensor.name = name;
    }
  }

  const std::string& path() const override { return model_->path(); }
  std::span<const TensorInfo> tensors() const override { return tensors_; }
  absl::Status ReadAt(const TensorInfo& tensor, int64_t first,
                      std::span<std::byte> out) const override {
    const auto found = replaced_.find(tensor.name);
    if (found != replaced_.end()) {
      return found->second.source->ReadAt(*found->second.tensor, first, out);
    }
    return model_->ReadAt(*model_->Find(tensor.name), first, out);
  }
  void Announce(const TensorInfo& tensor, int64_t first, int64_t n_bytes) const override {
    const auto found = replaced_.find(tensor.name);
    if (found != replaced_.end()) {
      found->second.source->Announce(*found->second.tensor, first, n_bytes);
    } else {
      model_->Announce(*model_->Find(tensor.name), first, n_bytes);
    }
  }

 private:
  std::unique_ptr<TensorSource> model_;
  Replacements replaced_;
  std::vector<TensorInfo> tensors_;  // sorted by name
};

}  // namespace

absl::Status ReplaceTensors(std::span<const ScaledAdapter> adapters, ModelFile* model) {
  Replacements replaced;
  for (const auto& [adapter, scale] : adapters) {
    for (const AdapterFile::Replaced& one : adapter.replaced) {
      if (scale != 1.0) {
        return UsageError(absl::StrCat(adapter.path, ": holds the whole of \"", one.target,
                                       "\", so its scale must be 1, not ", scale));
      }
      if (!replaced.emplace(one.target, Replacement{adapter.source.get(), one.tensor}).second) {
        return UsageError(absl::StrCat(adapter.path, ": holds the whole of \"", one.target,
                                       "\", as another adapter does"));
      }
    }
  }
  if (replaced.empty()) return absl::OkStatus();
  auto source = std::make_unique<ReplacedSource>(std::move(model->source), std::move(replaced));
  for (TensorBinding& binding : model->bindings) {
    binding.tensor = source->Find(binding.tensor->name);
  }
  for (const TensorInfo*& tensor : model->unused) tensor = source->Find(tensor->name);
  model->source = std::move(source);
  return absl::OkStatus();
}

}  // namespace ng
