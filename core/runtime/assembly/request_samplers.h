// RequestSamplers: the sampler chain of each request of a run. Requests without settings of their
// own share the engine's chain, and those with the same settings share one. Each has its own slot
// in its chain.
//
// Thread: any, but one at a time makes chains.
#ifndef NG_CORE_RUNTIME_ASSEMBLY_REQUEST_SAMPLERS_H_
#define NG_CORE_RUNTIME_ASSEMBLY_REQUEST_SAMPLERS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
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
  // Ends what takes long with an InterruptedError, once it is true.
  using Stop = std::shared_ptr<const std::atomic<bool>>;
  // Makes what chooses with these settings. `shared`: a chain that has them all but for the seed;
  // null: a chain is made, which keeps `stop`; null: the run's own flag.
  using Make = std::function<absl::StatusOr<RequestSampler>(
      std::span<const std::string> settings, const std::shared_ptr<SamplerChain>& shared,
      const Stop& stop)>;

  // `common` is what requests without settings have; its chain is borrowed. Without `make` there
  // are no others.
  RequestSamplers(SamplerChain& common, int64_t seed, Make make = {});

  // Errors: those of `make`.
  absl::StatusOr<RequestSampler> For(std::span<const std::string> settings,
                                     const Stop& stop = nullptr);
  // The same, where nothing need be made for it.
  std::optional<RequestSampler> Known(std::span<const std::string> settings);

 private:
  // Null: nobody has it.
  std::shared_ptr<SamplerChain> Find(const std::string& key);
  void Keep(const std::string& key, const std::shared_ptr<SamplerChain>& chain);

  RequestSampler common_;
  Make make_;
  std::mutex mutex_;  // of what follows
  // By the settings without the seed. A chain is kept for a while when no request has it any more,
  // because the next one often asks for the same.
  std::map<std::string, std::weak_ptr<SamplerChain>> chains_;
  std::vector<std::shared_ptr<SamplerChain>> recent_;  // the last that were asked for, at its end
};

}  // namespace ng

#endif  // NG_CORE_RUNTIME_ASSEMBLY_REQUEST_SAMPLERS_H_
