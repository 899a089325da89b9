// What every cache store must do, as a list of checks.
//
// Most checks are random scripts of open, append, commit, fork, truncate and close, run on the
// store and on a plain model of vectors. A store with one of ng's codecs must give back exactly the
// rounded rows; one with a codec of its own (CachePlan::codec) the same bits wherever a row is
// stored; an approximate one must stay near, and may drop tokens where its plan says so.
#ifndef NG_CONFORM_CACHE_H_
#define NG_CONFORM_CACHE_H_

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ng/conform/attention_rig.h"
#include "ng/conform/check.h"

namespace ng::conform {

using MakeCachePlan =
    std::function<absl::StatusOr<CachePlan>(const PluginContext&, const CacheSpec&)>;

struct CacheSubject {
  CheckSettings settings = {};
  MakeCache make;
  MakeCachePlan plan = {};           // the factory's; empty: only the store itself is asked
  bool must_be_approximate = false;  // the plan has to say so
  // Backends that read the store; those that do not read its layout are passed over.
  std::vector<std::pair<std::string, MakeAttention>> backends = {};
  PluginContext context = {};  // that it is made with, but for executor and isa
};

using CacheCheck = Check<CacheSubject>;
std::span<const CacheCheck> CacheChecks();

// All of them: RunChecks.
std::vector<std::string> CheckCache(const CacheSubject& subject);

// Scripts of everything over all shapes and codecs: the check "scripts", by itself. `n_steps` of
// each. Empty when nothing is wrong.
std::string CheckCacheScripts(const CacheSubject& subject, int n_steps);

}  // namespace ng::conform

#endif  // NG_CONFORM_CACHE_H_
