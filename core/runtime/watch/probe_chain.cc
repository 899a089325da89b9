#include "core/runtime/watch/probe_chain.h"

#include <utility>

namespace ng {

absl::Status LoadedHead::Logits(const TensorView<const float, 2>& hidden, std::span<float> logits) {
  if (decoder_ == nullptr) return RuntimeError("nothing is loaded; the head is there in steps");
  return decoder_->HeadLogits(hidden, logits);
}

void ProbeChain::Add(std::unique_ptr<Probe> probe, bool while_open) {
  ProbeUse use = probe->Use();
  PointsByLayer wanted(n_layers_);
  for (const ProbePoint& point : use.points) wanted.Add(point.at);
  links_.push_back({std::move(probe), std::move(use), std::move(wanted), while_open});
  Count(links_.back());
}

void ProbeChain::Count(const Link& link) {
  for (const auto& [at, edits] : link.use.points) {
    wanted_.Add(at);
    edits_ |= edits;
    edits_while_open_ |= edits && link.while_open;
    every_logit_ |= link.use.every_token && NeedsLogits(at.point);
  }
  every_token_ |= link.use.every_token;
  identity_ |= link.use.identity;
}

void ProbeChain::Remove(const Probe* probe) {
  std::erase_if(links_, [&](const Link& link) { return link.probe.get() == probe; });
  wanted_ = PointsByLayer(n_layers_);
  edits_ = edits_while_open_ = every_token_ = identity_ = every_logit_ = false;
  for (const Link& link : links_) Count(link);
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
