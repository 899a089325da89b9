// Probe: looks into the steps of a run at named points (ng/point.h), and may edit what is there.
//
// Implemented by probe plugins; called by the engine on its own thread. Probes are called in the
// order of probe.chain, each with the rows as those before it left them; the step goes on with what
// is left in the end. A run is a call of Engine::Generate:
//
//   Use                       once, when the probe has been made
//   Begin(request)            for each request, when it is admitted
//     OnPoint(rows)           in each step, for each point that Use names, as a token meets them
//     Accept(request, token)  behind the step whose logits chose the token
//   End(request)              when it is finished, also by an error
//   EndRun(run)               when all are: time to write what was gathered
//
// A program that feeds sequences step by step (Engine::Extend) has no requests: the rows' request
// is -1, no Begin, Accept or End is called, and EndRun when the program says so (Engine::EndRun).
//
// An edit must depend on nothing but the request and the rows' tokens up to the position, because
// the keys and values that come of it are kept: the same position may be fed in any chunk, in any
// batch, and again. Where nothing is cached (run.use_cache = false) every position is fed anew at
// each step. A chunk of a prompt shows its rows alone; the others came before or come later.
#ifndef NG_PROBE_H_
#define NG_PROBE_H_

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ng/plugin.h"
#include "ng/point.h"
#include "ng/run_plan.h"
#include "ng/status.h"
#include "ng/tensor_view.h"

#pragma GCC visibility push(default)
namespace ng {

// The model's final norm and head.
class LogitHead {
 public:
  virtual ~LogitHead() = default;
  // [step] What they make of rows of the residual stream: of those of the last layer's `out` the
  // step's own logits, bit for bit. May be called within OnPoint. hidden: [n, width], logits:
  // [n * vocab_size]. Errors: UsageError for other sizes.
  virtual absl::Status Logits(const TensorView<const float, 2>& hidden,
                              std::span<float> logits) = 0;
};

// The model that a probe is made for, beside PluginContext::model. What it points to is the host's
// and outlives the probe.
struct ProbeModel {
  std::span<const PointShape> points;       // all that the model has, as a token meets them
  LogitHead* head = nullptr;                // for calls in steps
  const std::atomic<bool>* stop = nullptr;  // ends a wait for the reader of a pipe; may be null
};

// A point that a probe is told of.
struct ProbePoint {
  PointAt at;
  bool edits = false;  // the probe may change its rows
};

// What a probe looks at, and what its run must have for it.
struct ProbeUse {
  std::vector<ProbePoint> points;  // distinct, of ProbeModel::points
  // Every token of a request is fed, and has logits where `norm` or `logits` is among the points.
  // Without it tokens whose keys and values are in the cache already are not (a prompt that begins
  // as an earlier one, a snapshot). A run that edits always feeds what others could have computed.
  bool every_token = false;
  bool identity = false;  // ProbeRun::identity is wanted; Load then hashes the weights
  // Files that the probe has read. A snapshot of an edited run is known by their bytes.
  std::vector<std::string> reads = {};
  std::vector<std::string> writes = {};  // files that EndRun writes
};

// A request that begins. Borrowed for the call.
struct ProbeRequest {
  int index = 0;                        // in the run; TokenRow::request of its rows
  std::span<const int32_t> prompt_ids;  // all of them
  int64_t n_held = 0;                   // of these, the first ones whose rows are not fed
};

// A run that has ended. Borrowed for the call.
struct ProbeRun {
  bool failed = false;                      // by an error: there may be rows that belong to nothing
  std::string_view config;                  // as an INI file
  std::span<const IdentityField> identity;  // empty unless ProbeUse::identity asked for it
};

class Probe {
 public:
  virtual ~Probe() = default;

  // [load]
  virtual ProbeUse Use() const = 0;

  // [step] The rows of a point; only those that Use says are edited may be changed, and every value
  // that is left is finite if it was. Must not allocate for each token, if it can be helped.
  virtual absl::Status OnPoint(const PointRows& rows) = 0;

  // [step]
  virtual absl::Status Begin(const ProbeRequest& request) {
    (void)request;
    return absl::OkStatus();
  }
  // `token` was chosen: it follows the request's last position.
  virtual absl::Status Accept(int request, int32_t token) {
    (void)request, (void)token;
    return absl::OkStatus();
  }
  virtual absl::Status End(int request) {
    (void)request;
    return absl::OkStatus();
  }
  // [load] Errors: OutputError, InterruptedError; UsageError where the options fit no row of the
  // run.
  virtual absl::Status EndRun(const ProbeRun& run) {
    (void)run;
    return absl::OkStatus();
  }

  // [load] One line for the end of a run: what the probe has to say about what it saw. Empty:
  // nothing.
  virtual std::string Report() const { return {}; }
};

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_PROBE_H_
