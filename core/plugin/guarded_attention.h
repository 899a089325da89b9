// The host's guard around an attention backend: what a plugin does wrong in a call becomes a status
// that names the plugin. Callers of a guarded backend need no other catch.
#ifndef NG_CORE_PLUGIN_GUARDED_ATTENTION_H_
#define NG_CORE_PLUGIN_GUARDED_ATTENTION_H_

#include <memory>

#include "core/plugin/loader.h"
#include "ng/attention_backend.h"
#include "ng/status.h"

namespace ng {

// A backend that hands every call on to `backend`, which `plugin` has made.
//   layouts, features  asked for once, here. Errors: PluginError when no layout is listed, or a
//                      feature that there is not.
//   Supports           first refuses what spec and format set and the backend does not list
//   NewPlan, Plan      a plan that is missing, or that reports sizes which cannot be
//   Plan, Run          a plan that this backend did not make
// Exceptions and errors become PluginErrors; see PluginFailed.
// With `check`, Run lends the backend memory of the guard's own, and reports what it wrote beside
// it, elements of `out` that it left unwritten, and captured rows likewise.
absl::StatusOr<std::unique_ptr<AttentionBackend>> GuardAttention(
    const LoadedPlugin& plugin, std::unique_ptr<AttentionBackend> backend, bool check);

}  // namespace ng

#endif  // NG_CORE_PLUGIN_GUARDED_ATTENTION_H_
