// The processes that mpirun started, by OpenMPI.
//
// MPI's C interface and not Boost.MPI: every call here is one that can be polled until a deadline,
// so that a rank that stalls is named. Boost.MPI would add exceptions and serialisation to a plugin
// that sends rows of floats.
//
// Each rank sends its part to each other rank directly. Parts are small when one token is decoded,
// and then one message's time is all that counts.
//
// A rank that waits for long tells the others whom it waits for. So where one stands still, those
// that wait for a rank that itself waits know who it is. One may stop in the middle of a wait that
// it has told of; the one that it has waited for comes, finds no answer, and tells that too.
//
// A group of ranks is the same with fewer of them and with tags of its own.
#ifndef NG_PLUGINS_FABRIC_MPI_MPI_FABRIC_H_
#define NG_PLUGINS_FABRIC_MPI_MPI_FABRIC_H_

#include <mpi.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ng/fabric.h"

namespace ng {

class MpiFabric final : public Fabric {
 public:
  // Starts MPI in this process, once and for all. Errors: RuntimeError when MPI does not start.
  static absl::StatusOr<std::unique_ptr<Fabric>> Create(const PluginContext& context,
                                                        const FabricSpec& spec);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string Host(int rank) const override { return PeerOf(rank).host.data(); }
  absl::Status AllGather(std::span<const int64_t> counts, std::span<float> all) override;
  absl::Status AllGatherAside(std::span<const int64_t> counts, std::span<float> all) override;
  absl::Status Broadcast(int root, std::span<std::byte> bytes) override;
  absl::Status Barrier() override;
  absl::Status Send(int to, std::span<const std::byte> bytes) override;
  absl::StatusOr<int64_t> Poll(int from) override;
  absl::Status Receive(int from, std::span<std::byte> bytes) override;
  absl::StatusOr<std::unique_ptr<Fabric>> Group(int first, int n) override;
  int Missing() const override { return missing_; }
  std::string Report() const override;

 private:
  using Clock = std::chrono::steady_clock;
  // Who has waited so long no longer polls all the time.
  static constexpr std::chrono::milliseconds kPatience{20};

  // What each rank tells the others of itself, as bytes.
  struct Peer {
    std::array<char, 64> host;
    // Processes that see each other by their ids have the same one.
    uint64_t process_space;
    int64_t process;
  };
  // What was begun, and is not done yet.
  struct Pending {
    int rank;
    int64_t bytes;  // to be received; -1: it is sent
  };

  // When this process began to wait for a rank's message, and last asked for it. The epoch: not
  // yet.
  struct Asked {
    Clock::time_point since = {};
    Clock::time_point last = {};
  };
  // What a rank tells the others.
  struct Claim {
    int awaited = -1;  // whom it waits for; -1: nobody
    // Whether that one has told that it waits for this rank, which has given it all.
    int answers = 0;
  };
  // Of this process, whatever fabric it uses.
  struct Process {
    int64_t calls = 0;
    int64_t bytes_sent = 0;
    Clock::time_point stopped = {};  // when stop_ was seen; the epoch: not yet
    Clock::time_point looked = {};   // when it last looked at the clock
    Clock::time_point stood = {};    // when it found that it had stood still; the epoch: never
  };

  MpiFabric(double deadline_s, const std::atomic<bool>* stop)
      : deadline_s_(deadline_s), stop_(stop) {}
  MpiFabric(MpiFabric& whole, int first, int n);

  absl::Status Start();
  void MakeRoom();  // for what a call begins
  // REQUIRES: Start has been told of the others; before, an unknown one.
  const Peer& PeerOf(int rank) const;
  // Begin to send to a rank, or to receive of it.
  absl::Status BeginSend(int to, std::span<const std::byte> bytes);
  absl::Status BeginReceive(int from, std::span<std::byte> bytes, int tag);
  absl::Status CheckSize(size_t n_bytes) const;  // of a message
  absl::Status CheckStarter();                   // whether mpirun is still there
  absl::Status Post(int to, std::span<const std::byte> bytes, int tag);  // a copy of them
  // Tells the others whom this rank waits for now; -1: nobody. Once.
  absl::Status SayAwaited(int rank);
  int Awaited();  // the first of those that have not answered yet
  // Hears what the others have told.
  absl::Status HearClaims();
  // The rank that stands still where `rank` does not answer: it may have said that it waits itself.
  absl::StatusOr<int> WhoStands(int rank);
  // Begins to send this rank's part, and to receive the others', in messages of at most so many
  // bytes.
  absl::Status BeginGather(std::span<const int64_t> counts, std::span<float> all, size_t most);
  // Until all that was begun is done. It polls for the time of `patience`, then it naps between two
  // polls. Errors: RuntimeError that names who is missing.
  absl::Status Finish(Clock::duration patience = kPatience);
  // Now. Notes when this process has not looked for so long that the others may have given it up.
  Clock::time_point Look();
  Clock::duration Deadline() const;
  // Whether a rank that has not answered will never do so. `waited`: for it.
  absl::Status CheckPeers(Clock::duration waited);
  // Why it will not; empty: it may.
  std::string WhyLost(int rank, Clock::duration waited);
  absl::Status GiveUp(int rank, const std::string& why);
  // The bytes of a message that has come; 0: none has.
  absl::StatusOr<int64_t> Probe(int from);
  // Whether all that came was as large as it should.
  absl::Status CheckReceived();
  absl::Status WrongSize(int rank, int64_t bytes);
  absl::Status FailedRequest();  // which of them has failed
  absl::Status Fail(int rank, const std::string& what);

  double deadline_s_;
  const std::atomic<bool>* stop_;  // may be null
  // Of what all ranks call; of messages the next one; then of what a rank says of itself.
  int tag_ = 20;
  int first_ = 0;  // what MPI calls rank 0
  int rank_ = 0;
  int size_ = 1;
  int missing_ = -1;
  pid_t parent_ = 0;                   // mpirun, or its daemon on this machine
  std::vector<Peer> peers_;            // [size_]
  std::vector<Asked> asked_;           // [size_]
  std::vector<Claim> claims_;          // [size_]: the last of each, and what this one has told
  std::vector<MPI_Request> requests_;  // of what was begun
  std::vector<MPI_Status> statuses_;   // of each
  std::vector<Pending> pending_;       // what each is
  std::vector<int64_t> ones_;          // [size_]: what Barrier gathers
  std::vector<float> barrier_;         // [size_]
  Process own_process_;
  Process& process_ = own_process_;  // of a group: the whole's
};

}  // namespace ng

#endif  // NG_PLUGINS_FABRIC_MPI_MPI_FABRIC_H_
