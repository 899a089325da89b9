// Fabric: the processes of one run, its ranks, and how numbers get from one to the others.
//
// Every rank runs the same program with the same config and the same prompts, and computes a part
// of each matrix product. Rows are put together again by AllGather: what lands is what was sent,
// bit for bit, and nothing is ever added up on the way. So a run over many ranks has the ids,
// logits and bits of one.
//
// Implemented by fabric plugins; called by the engine, by one thread at a time, which need not be
// the one before. All ranks make the same calls in the same order with the same sizes. A call ends
// on all ranks within the deadline of the spec: done, or with an error. Where another rank gives
// more or less than it should, that is an error. After an error the fabric is not called again, but
// for Missing, Host, Report and the destructor, and these must not wait for the others.
// PluginContext::stop says that this process shall end; a call that the others will still answer
// goes on.
//
// Messages (Send, Poll, Receive) are between two ranks, which alone know of them. They do not mix
// with what all ranks call, nor with those of another fabric. Where one fails, it is about that
// rank: messages to the others may still be sent and received.
#ifndef NG_FABRIC_H_
#define NG_FABRIC_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "ng/plugin.h"
#include "ng/status.h"

#pragma GCC visibility push(default)
namespace ng {

// The most ranks that the engine runs on.
inline constexpr int kMaxRanks = 1024;

// What the engine asks of a fabric when it is created, before the model is opened: the context's
// model, tokens and stop ids are empty.
struct FabricSpec {
  double deadline_s = 60.0;  // a call may take so long; above 0
};

class Fabric {
 public:
  virtual ~Fabric() = default;

  // [load] [step] This process is the rank of that number, in [0, size()). Never changes.
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // [load] [step] What a message calls a rank: the name of its machine. `rank` is in [0, size()).
  virtual std::string Host(int rank) const = 0;

  // [load] [step] `all` holds the parts of all ranks, one behind the other: counts[r] floats of
  // rank r, which may be 0. Each rank has filled its own part; the call fills the others, bit for
  // bit, whatever the bits mean. Must not allocate for each call once a call of the same sizes was
  // made. counts: [size()]; all: [sum of counts]. Errors: RuntimeError that names the rank that is
  // missing and its host; any error ends the run.
  virtual absl::Status AllGather(std::span<const int64_t> counts, std::span<float> all) = 0;
  // [step] AllGather while other threads of this process compute: a fabric that polls should leave
  // the cores to them. Errors: as AllGather.
  virtual absl::Status AllGatherAside(std::span<const int64_t> counts, std::span<float> all) {
    return AllGather(counts, all);
  }
  // [load] [step] Every rank gets the bytes of rank `root`. All give as many. Errors: as AllGather.
  virtual absl::Status Broadcast(int root, std::span<std::byte> bytes) = 0;
  // [load] [step] Returns when all ranks have called it. Errors: as AllGather.
  virtual absl::Status Barrier() = 0;

  // [load] [step] Sends bytes, at least one, to another rank, which receives as many. Does not wait
  // for that: it keeps a copy. What one rank sends to another arrives in its order. Errors: as
  // AllGather.
  virtual absl::Status Send(int to, std::span<const std::byte> bytes) = 0;
  // [load] [step] The bytes of the next message of another rank; 0: it has not come yet. Does not
  // wait. Errors: as AllGather, where the rank is asked for the deadline's time and sends nothing.
  virtual absl::StatusOr<int64_t> Poll(int from) = 0;
  // [load] [step] Waits for the next message of another rank. Errors: as AllGather.
  virtual absl::Status Receive(int from, std::span<std::byte> bytes) = 0;

  // [load] A fabric of `n` ranks of this one, from `first` on, where they are the ranks from 0 on.
  // Only these call it, at any time; it waits for nobody. This rank is among them. What fails there
  // need not have failed here. Texts go on naming a rank by its number here. This fabric outlives
  // it. Errors: RuntimeError.
  virtual absl::StatusOr<std::unique_ptr<Fabric>> Group(int first, int n) = 0;

  // [load] [step] After an error: the rank that it is about; -1: none, or it is not known. That
  // rank may be unable to tell the user.
  virtual int Missing() const { return -1; }

  // [load] One line for the end of a run: what the fabric has to say about what it did. Empty:
  // nothing.
  virtual std::string Report() const { return {}; }
};

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_FABRIC_H_
