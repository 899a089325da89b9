#include "core/model/load/layer_loader.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include "core/model/load/load_weights.h"
#include "core/model/load/read_sizes.h"

namespace ng {
namespace {

using Parts = std::vector<std::vector<const TensorBinding*>>;

Parts PartsOf(const ModelFile& file) {
  Parts parts(file.spec.layers.size() + 2);
  for (const TensorBinding& binding : file.bindings) {
    if (!IsMatrix(binding.role)) continue;
    const bool of_head = binding.role == TensorRole::kHead;
    parts[of_head ? parts.size() - 1 : static_cast<size_t>(binding.at.layer + 1)].push_back(
        &binding);
  }
  return parts;
}

std::vector<const TensorBinding*> InTurn(const Parts& parts) {
  std::vector<const TensorBinding*> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace

LayerLoader::LayerLoader(const ModelFile& file, LoadWeightsOptions options)
    : file_(file),
      options_(std::move(options)),
      parts_(PartsOf(file)),
      reader_(file, options_, InTurn(parts_)) {}

absl::StatusOr<ModelWeights> LayerLoader::Begin() {
  NG_ASSIGN_OR_RETURN(ModelWeights weights, ReserveWeights(file_, options_.types));
  for (const TensorBinding& binding : file_.bindings) {
    if (!IsMatrix(binding.role)) NG_RETURN_IF_ERROR(reader_.Read(binding, weights));
  }
  NG_RETURN_IF_ERROR(CheckFactors(file_, weights));
  return weights;
}

absl::Status LayerLoader::Need(size_t part, ModelWeights& weights) {
  std::vector<const TensorBinding*>& missing = parts_[part];
  if (missing.empty()) return absl::OkStatus();
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  while (!missing.empty()) {
    NG_RETURN_IF_ERROR(reader_.Read(*missing.front(), weights));
    missing.erase(missing.begin());
  }
  const auto read = [](const auto& part) { return part.empty(); };
  if (std::ranges::all_of(parts_, read)) reader_.Finish();
  seconds_ += std::chrono::duration<double>(Clock::now() - start).count();
  return absl::OkStatus();
}

}  // namespace ng
