#include "core/runtime/watch/probe_chain.h"

#include <utility>

namespace ng {

absl::Status LoadedHead::Logits(const TensorView<const float, 2>& hidden, std::span<float> logits) {
  if (decoder_ == nullptr) return RuntimeError("nothing is loaded; the head is there in steps");
  return decoder_->HeadLogits(hidden, logits);
}

void ProbeChain::Add(std::unique_ptr<Probe> probe) {
  ProbeUse use = probe->Use();
  links_.push_back({std::move(probe), std::move(use), PointsByLayer(n_layers_)});
  Link& link = links_.back();
  for (const auto& [at, edits] : link.use.points) {
    link.wanted.Add(at);
    wanted_.Add(at);
    edits_ |= edits;
    every_logit_ |= link.use.every_token && NeedsLogits(at.point);
  }
  every_token_ |= link.use.every_token;
  identity_ |= link.use.identity;
}

absl::Status ProbeChain::OnPoint(const PointRows& rows) {
  for (Link& link : links_) {
    if (!link.wanted.Of(rows.at.layer).Has(rows.at.point)) continue;
    NG_RETURN_IF_ERROR(link.probe->OnPoint(rows));
  }
  return absl::OkStatus();
}

absl::Status ProbeChain::Begin(const ProbeRequest& request) {
  for (Link& link : links_) NG_RETURN_IF_ERROR(link.probe->Begin(request));
  return absl::OkStatus();
}

absl::Status ProbeChain::Accept(int request, int32_t token) {
  for (Link& link : links_) NG_RETURN_IF_ERROR(link.probe->Accept(request, token));
  return absl::OkStatus();
}

absl::Status ProbeChain::End(int request) {
  absl::Status status;
  for (Link& link : links_) status.Update(link.probe->End(request));
  return status;
}

absl::Status ProbeChain::EndRun(const ProbeRun& run) {
  absl::Status status;
  for (Link& link : links_) status.Update(link.probe->EndRun(run));
  return status;
}

}  // namespace ng
