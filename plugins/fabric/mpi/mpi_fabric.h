// The processes that mpirun started, by OpenMPI.
//
// MPI's C interface and not Boost.MPI: every call here is one that can be polled until a deadline,
// so that a rank that stalls is named. Boost.MPI would add exceptions and serialisation to a plugin
// that sends rows of floats.
//
// Each rank sends its part to each other rank directly. Parts are small when one token is decoded,
// and then one message's time is all that counts.
#ifndef NG_PLUGINS_FABRIC_MPI_MPI_FABRIC_H_
#define NG_PLUGINS_FABRIC_MPI_MPI_FABRIC_H_

#include <mpi.h>

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
  std::string Host(int rank) const override;
  absl::Status AllGather(std::span<const int64_t> counts, std::span<float> all) override;
  absl::Status Broadcast(int root, std::span<std::byte> bytes) override;
  absl::Status Barrier() override;
  std::string Report() const override;

 private:
  explicit MpiFabric(double deadline_s) : deadline_s_(deadline_s) {}

  absl::Status Start();
  // Begin to send to a rank, or to receive of it.
  absl::Status Send(int to, std::span<const std::byte> bytes);
  absl::Status Receive(int from, std::span<std::byte> bytes);
  // Until all that was begun is done. Errors: RuntimeError that names who is missing.
  absl::Status Finish();
  absl::Status Missing();

  double deadline_s_;
  int rank_ = 0;
  int size_ = 1;
  std::vector<char> hosts_;            // [size_][kHostBytes]
  std::vector<MPI_Request> requests_;  // of what was begun
  std::vector<int> peers_;             // the rank of each
  std::vector<int64_t> ones_;          // [size_]: what Barrier gathers
  std::vector<float> barrier_;         // [size_]
  int64_t bytes_sent_ = 0;
  int64_t calls_ = 0;
};

}  // namespace ng

#endif  // NG_PLUGINS_FABRIC_MPI_MPI_FABRIC_H_
