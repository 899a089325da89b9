#include "plugins/fabric/mpi/mpi_fabric.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <thread>

#include "absl/strings/str_cat.h"

namespace ng {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTag = 20;
constexpr size_t kHostBytes = 64;
// Looks at the clock, and lets others run, every so many polls: a message between two cores takes
// less than the polls before the first time.
constexpr int kPollsAtATime = 256;
// Who has waited so long no longer polls all the time.
constexpr std::chrono::milliseconds kPatience(20);
constexpr std::chrono::microseconds kNap(100);

// MPI ends well only where all ranks were there to the end. Otherwise this process leaves without
// a word to MPI, and mpirun ends the others.
bool g_failed = false;

void EndMpi() {
  if (!g_failed) MPI_Finalize();
}

std::string TextOf(int error) {
  std::array<char, MPI_MAX_ERROR_STRING> text = {};
  int length = 0;
  MPI_Error_string(error, text.data(), &length);
  return {text.data(), static_cast<size_t>(length)};
}

absl::Status Check(int error, const char* call) {
  if (error == MPI_SUCCESS) return absl::OkStatus();
  g_failed = true;
  return RuntimeError(absl::StrCat(call, ": ", TextOf(error)));
}

// MPI may be started once in a process, and not again once it has ended.
absl::Status StartMpi() {
  int started = 0;
  MPI_Initialized(&started);
  if (started != 0) return absl::OkStatus();
  // OpenMPI's own plugins look for its symbols among those that everybody sees. This library was
  // opened so that nobody sees its own or what it links.
  if (dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    return RuntimeError(absl::StrCat("cannot open OpenMPI: ", dlerror()));
  }
  int provided = 0;
  NG_RETURN_IF_ERROR(Check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided),
                           "MPI_Init_thread"));
  NG_RETURN_IF_ERROR(
      Check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
  std::atexit(EndMpi);
  if (provided >= MPI_THREAD_SERIALIZED) return absl::OkStatus();
  return RuntimeError("this MPI can be called on the thread only that started it");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Fabric>> MpiFabric::Create(const PluginContext& /*context*/,
                                                          const FabricSpec& spec) {
  NG_RETURN_IF_ERROR(StartMpi());
  std::unique_ptr<MpiFabric> fabric(new MpiFabric(spec.deadline_s));
  NG_RETURN_IF_ERROR(fabric->Start());
  return fabric;
}

absl::Status MpiFabric::Start() {
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  requests_.reserve(2 * static_cast<size_t>(size_));
  peers_.reserve(2 * static_cast<size_t>(size_));
  ones_.assign(static_cast<size_t>(size_), 1);
  barrier_.assign(static_cast<size_t>(size_), 0.0F);
  // The names of the machines, each in as many floats.
  std::vector<float> names(static_cast<size_t>(size_) * kHostBytes / sizeof(float), 0.0F);
  std::array<char, MPI_MAX_PROCESSOR_NAME> name = {};
  int length = 0;
  MPI_Get_processor_name(name.data(), &length);
  auto* const own = reinterpret_cast<char*>(names.data()) + static_cast<size_t>(rank_) * kHostBytes;
  std::copy_n(name.data(), std::min(static_cast<size_t>(length), kHostBytes - 1), own);
  const std::vector<int64_t> counts(static_cast<size_t>(size_), kHostBytes / sizeof(float));
  const absl::Status gathered = AllGather(counts, names);
  hosts_.resize(names.size() * sizeof(float));
  std::memcpy(hosts_.data(), names.data(), hosts_.size());
  bytes_sent_ = calls_ = 0;
  return gathered;
}

std::string MpiFabric::Host(int rank) const {
  const size_t first = static_cast<size_t>(rank) * kHostBytes;
  if (first + kHostBytes > hosts_.size()) return "unknown";
  return {hosts_.data() + first, strnlen(hosts_.data() + first, kHostBytes)};
}

absl::Status MpiFabric::AllGather(std::span<const int64_t> counts, std::span<float> all) {
  const std::span<std::byte> bytes = std::as_writable_bytes(all);
  size_t first = 0;
  std::span<const std::byte> own;
  for (int peer = 0; peer < size_; ++peer) {
    const size_t n = static_cast<size_t>(counts[static_cast<size_t>(peer)]) * sizeof(float);
    const std::span<std::byte> part = bytes.subspan(first, n);
    first += n;
    if (peer == rank_) {
      own = part;
    } else {
      NG_RETURN_IF_ERROR(Receive(peer, part));
    }
  }
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) NG_RETURN_IF_ERROR(Send(peer, own));
  }
  return Finish();
}

absl::Status MpiFabric::Broadcast(int root, std::span<std::byte> bytes) {
  if (rank_ != root) {
    NG_RETURN_IF_ERROR(Receive(root, bytes));
    return Finish();
  }
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) NG_RETURN_IF_ERROR(Send(peer, bytes));
  }
  return Finish();
}

absl::Status MpiFabric::Barrier() { return AllGather(ones_, barrier_); }

absl::Status MpiFabric::Send(int to, std::span<const std::byte> bytes) {
  if (bytes.empty()) return absl::OkStatus();
  if (bytes.size() > std::numeric_limits<int>::max()) {
    return RuntimeError(absl::StrCat("a message of ", bytes.size(), " bytes, must be at most ",
                                     std::numeric_limits<int>::max(),
                                     "; a smaller run.prefill_chunk makes it smaller"));
  }
  bytes_sent_ += static_cast<int64_t>(bytes.size());
  peers_.push_back(to);
  return Check(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, to, kTag,
                         MPI_COMM_WORLD, &requests_.emplace_back()),
               "MPI_Isend");
}

absl::Status MpiFabric::Receive(int from, std::span<std::byte> bytes) {
  // One that is too large is refused where it is sent.
  if (bytes.empty() || bytes.size() > std::numeric_limits<int>::max()) return absl::OkStatus();
  peers_.push_back(from);
  return Check(MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, from, kTag,
                         MPI_COMM_WORLD, &requests_.emplace_back()),
               "MPI_Irecv");
}

absl::Status MpiFabric::Finish() {
  ++calls_;
  const Clock::time_point start = Clock::now();
  const std::chrono::duration<double> deadline(deadline_s_);
  int done = 0;
  for (int polls = 1; done == 0; ++polls) {
    NG_RETURN_IF_ERROR(Check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(),
                                         &done, MPI_STATUSES_IGNORE),
                             "MPI_Testall"));
    if (done != 0 || polls % kPollsAtATime != 0) continue;
    const Clock::duration waited = Clock::now() - start;
    if (waited > deadline) return Missing();
    if (waited > kPatience) {
      std::this_thread::sleep_for(kNap);
    } else {
      std::this_thread::yield();
    }
    if (waited > kPatience) polls = kPollsAtATime - 1;  // after each nap one
  }
  requests_.clear();
  peers_.clear();
  return absl::OkStatus();
}

absl::Status MpiFabric::Missing() {
  g_failed = true;
  for (size_t i = 0; i < requests_.size(); ++i) {
    int done = 0;
    MPI_Test(&requests_[i], &done, MPI_STATUS_IGNORE);
    if (done != 0) continue;
    return RuntimeError(absl::StrCat("rank ", peers_[i], " (", Host(peers_[i]),
                                     ") did not answer within ", deadline_s_,
                                     " s (fabric.deadline)"));
  }
  return absl::OkStatus();
}

std::string MpiFabric::Report() const {
  if (size_ == 1) return {};
  return absl::StrCat("rank ", rank_, " of ", size_, ": ", calls_, " calls, ", bytes_sent_,
                      " bytes sent");
}

}  // namespace ng
