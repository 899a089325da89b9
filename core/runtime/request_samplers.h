// RequestSamplers: the sampler chain of each request of a run. Requests without settings of their
// own share the engine's chain, and those with the same settings share one. Each has its own slot
// in its chain.
//
// Thread: the engine's.
#ifndef NG_CORE_RUNTIME_REQUEST_SAMPLERS_H_
#define NG_CORE_RUNTIME_REQUEST_SAMPLERS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/sampling/sampling.h"
#include "ng/status.h"

namespace ng {

// What chooses the tokens of a request.
struct RequestSampler {
  std::shared_ptr<SamplerChain> chain;
  int64_t seed = 1;
};

class RequestSamplers {
 public:
  // Makes what chooses with these settings. `shared`: a chain that has them all but for the seed;
  // null: a chain is made.
  using Make = std::function<absl::StatusOr<RequestSampler>(
      std::span<const std::string> settings, const std::shared_ptr<SamplerChain>& shared)>;

  // `common` is what requests without settings have; its chain is borrowed. Without `make` there
  // are no others.
  RequestSamplers(SamplerChain& common, int64_t seed, Make make = {});

  // Errors: those of `make`.
  absl::StatusOr<RequestSampler> For(std::span<const std::string> settings);

 private:
  RequestSampler common_;
  Make make_;
  // By the settings without the seed. A chain is kept for a while when no request has it any more,
  // because the next one often asks for the same.
  std::map<std::string, std::weak_ptr<SamplerChain>> chains_;
  std::vector<std::shared_ptr<SamplerChain>> recent_;  // the last that were asked for, at its end
};

}  // namespace ng

#endif  // NG_CORE_RUNTIME_REQUEST_SAMPLERS_H_
