#include "plugins/fabric/mpi/mpi_fabric.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <limits>
#include <thread>

#include "absl/strings/str_cat.h"

namespace ng {
namespace {

// Looks at the clock, and lets others run, every so many polls: a message between two cores takes
// less than the polls before the first time.
constexpr int kPollsAtATime = 256;
constexpr std::chrono::microseconds kNap(100);
// When this process is told to end, as mpirun tells those that are left when one is lost, and then
// ends them: how long a rank on another machine may still take to answer.
constexpr std::chrono::milliseconds kGrace(600);
constexpr std::chrono::milliseconds kLastWords(100);

// OpenMPI sends up to 64 KiB, with what it says of them, without asking. For more it asks the other
// side first, and over TCP the answer waits behind all that the other side sends itself.
constexpr size_t kUnasked = 32768;
constexpr size_t kWhole = std::numeric_limits<size_t>::max();

constexpr char kHasEnded[] = "has ended";

constexpr int kTags = 3;  // of a fabric

// MPI ends well only where all ranks were there to the end. Otherwise this process leaves without
// a word to MPI, and mpirun ends the others.
bool g_failed = false;

void EndMpi() {
  if (!g_failed) {
    MPI_Finalize();
    return;
  }
  // What this process has written last mpirun passes on only if it reads it before it ends them
  // all.
  std::this_thread::sleep_for(kLastWords);
}

// What processes that see each other by their ids have in common: the machine's boot and the name
// space of its processes.
uint64_t ProcessSpace() {
  std::string text;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> text;
  struct stat status = {};
  if (stat("/proc/self/ns/pid", &status) == 0) absl::StrAppend(&text, " ", status.st_ino);
  return std::hash<std::string>()(text);
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

// A message that was sent, and that MPI may still read.
struct Sent {
  MPI_Request request;
  std::vector<std::byte> bytes;
};

// Of all fabrics, until the process ends: the last ones may outlive theirs.
std::deque<Sent>& Outbox() {
  static auto& sent = *new std::deque<Sent>();
  return sent;
}

absl::Status EmptyOutbox() {
  while (!Outbox().empty()) {
    int done = 0;
    NG_RETURN_IF_ERROR(
        Check(MPI_Test(&Outbox().front().request, &done, MPI_STATUS_IGNORE), "MPI_Test"));
    if (done == 0) break;
    Outbox().pop_front();
  }
  return absl::OkStatus();
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

absl::StatusOr<std::unique_ptr<Fabric>> MpiFabric::Create(const PluginContext& context,
                                                          const FabricSpec& spec) {
  NG_RETURN_IF_ERROR(StartMpi());
  std::unique_ptr<MpiFabric> fabric(new MpiFabric(spec.deadline_s, context.stop));
  NG_RETURN_IF_ERROR(fabric->Start());
  return fabric;
}

absl::Status MpiFabric::Start() {
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  parent_ = getppid();
  const auto size = static_cast<size_t>(size_);
  MakeRoom();
  constexpr size_t kFloats = sizeof(Peer) / sizeof(float);
  static_assert(sizeof(Peer) % sizeof(float) == 0);
  std::vector<float> gathered(size * kFloats, 0.0F);
  Peer own = {.host = {}, .process_space = ProcessSpace(), .process = getpid()};
  std::array<char, MPI_MAX_PROCESSOR_NAME> name = {};
  int length = 0;
  MPI_Get_processor_name(name.data(), &length);
  std::copy_n(name.data(), std::min(static_cast<size_t>(length), own.host.size() - 1),
              own.host.data());
  std::memcpy(gathered.data() + static_cast<size_t>(rank_) * kFloats, &own, sizeof(own));
  const std::vector<int64_t> counts(size, kFloats);
  NG_RETURN_IF_ERROR(AllGather(counts, gathered));
  peers_.resize(size);
  std::memcpy(peers_.data(), gathered.data(), size * sizeof(Peer));
  for (Peer& peer : peers_) peer.host.back() = '\0';
  process_.calls = process_.bytes_sent = 0;
  return absl::OkStatus();
}

MpiFabric::MpiFabric(MpiFabric& whole, int first, int n)
    : deadline_s_(whole.deadline_s_),
      stop_(whole.stop_),
      tag_(whole.tag_ + kTags),
      first_(whole.first_ + first),
      rank_(whole.rank_ - first),
      size_(n),
      parent_(whole.parent_),
      peers_(whole.peers_.begin() + first, whole.peers_.begin() + first + n),
      process_(whole.process_) {
  MakeRoom();
}

void MpiFabric::MakeRoom() {
  const auto size = static_cast<size_t>(size_);
  requests_.reserve(2 * size);
  pending_.reserve(2 * size);
  asked_.resize(size);
  claims_.resize(size);
  ones_.assign(size, 1);
  barrier_.assign(size, 0.0F);
}

absl::StatusOr<std::unique_ptr<Fabric>> MpiFabric::Group(int first, int n) {
  return std::unique_ptr<Fabric>(new MpiFabric(*this, first, n));
}

const MpiFabric::Peer& MpiFabric::PeerOf(int rank) const {
  static constexpr Peer kUnknown = {{"unknown"}, 0, 0};
  return peers_.empty() ? kUnknown : peers_[static_cast<size_t>(rank)];
}

absl::Status MpiFabric::AllGather(std::span<const int64_t> counts, std::span<float> all) {
  NG_RETURN_IF_ERROR(BeginGather(counts, all, kWhole));
  return Finish();
}

absl::Status MpiFabric::AllGatherAside(std::span<const int64_t> counts, std::span<float> all) {
  NG_RETURN_IF_ERROR(BeginGather(counts, all, kUnasked));
  return Finish(Clock::duration(0));
}

absl::Status MpiFabric::BeginGather(std::span<const int64_t> counts, std::span<float> all,
                                    size_t most) {
  // Calls begin(message) for each message of a part.
  const auto in_messages = [&](auto part, auto&& begin) -> absl::Status {
    for (; !part.empty(); part = part.subspan(std::min(part.size(), most))) {
      NG_RETURN_IF_ERROR(begin(part.first(std::min(part.size(), most))));
    }
    return absl::OkStatus();
  };
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
      NG_RETURN_IF_ERROR(in_messages(
          part, [&](std::span<std::byte> message) { return BeginReceive(peer, message, tag_); }));
    }
  }
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    NG_RETURN_IF_ERROR(in_messages(
        own, [&](std::span<const std::byte> message) { return BeginSend(peer, message); }));
  }
  return absl::OkStatus();
}

// The root sends to one, then both to one more each, and so on: of n ranks none sends more than
// log n times.
absl::Status MpiFabric::Broadcast(int root, std::span<std::byte> bytes) {
  const int place = (rank_ - root + size_) % size_;  // the root has 0
  const auto rank_at = [&](int at) { return (at + root) % size_; };
  int half = 1;  // those before this place have the bytes when it is its turn
  while (half < size_ && (place & half) == 0) half *= 2;
  if (place != 0) {
    NG_RETURN_IF_ERROR(BeginReceive(rank_at(place - half), bytes, tag_));
    NG_RETURN_IF_ERROR(Finish());
  }
  for (half /= 2; half > 0; half /= 2) {
    if (place + half < size_) NG_RETURN_IF_ERROR(BeginSend(rank_at(place + half), bytes));
  }
  return Finish();
}

absl::Status MpiFabric::Barrier() { return AllGather(ones_, barrier_); }

absl::Status MpiFabric::CheckSize(size_t n_bytes) const {
  if (n_bytes <= std::numeric_limits<int>::max()) return absl::OkStatus();
  return RuntimeError(absl::StrCat("a message of ", n_bytes, " bytes, must be at most ",
                                   std::numeric_limits<int>::max(),
                                   "; a smaller run.prefill_chunk makes it smaller"));
}

absl::Status MpiFabric::BeginSend(int to, std::span<const std::byte> bytes) {
  if (bytes.empty()) return absl::OkStatus();
  NG_RETURN_IF_ERROR(CheckSize(bytes.size()));
  process_.bytes_sent += static_cast<int64_t>(bytes.size());
  pending_.push_back({to, -1});
  return Check(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, first_ + to, tag_,
                         MPI_COMM_WORLD, &requests_.emplace_back()),
               "MPI_Isend");
}

absl::Status MpiFabric::BeginReceive(int from, std::span<std::byte> bytes, int tag) {
  // One that is too large is refused where it is sent.
  if (bytes.empty() || !CheckSize(bytes.size()).ok()) return absl::OkStatus();
  pending_.push_back({from, static_cast<int64_t>(bytes.size())});
  return Check(MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, first_ + from, tag,
                         MPI_COMM_WORLD, &requests_.emplace_back()),
               "MPI_Irecv");
}

absl::Status MpiFabric::Send(int to, std::span<const std::byte> bytes) {
  NG_RETURN_IF_ERROR(CheckSize(bytes.size()));
  return Post(to, bytes, tag_ + 1);
}

absl::Status MpiFabric::Post(int to, std::span<const std::byte> bytes, int tag) {
  NG_RETURN_IF_ERROR(EmptyOutbox());
  ++process_.calls;
  process_.bytes_sent += static_cast<int64_t>(bytes.size());
  Sent& sent = Outbox().emplace_back();
  sent.bytes.assign(bytes.begin(), bytes.end());
  // EmptyOutbox waits for it.
  // NOLINTNEXTLINE(clang-analyzer-optin.mpi.MPI-Checker)
  return Check(MPI_Isend(sent.bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, first_ + to,
                         tag, MPI_COMM_WORLD, &sent.request),
               "MPI_Isend");
}

absl::StatusOr<int64_t> MpiFabric::Probe(int from) {
  int came = 0;
  MPI_Status status;
  NG_RETURN_IF_ERROR(
      Check(MPI_Iprobe(first_ + from, tag_ + 1, MPI_COMM_WORLD, &came, &status), "MPI_Iprobe"));
  int n_bytes = 0;
  if (came != 0) MPI_Get_count(&status, MPI_BYTE, &n_bytes);
  return n_bytes;
}

absl::StatusOr<int64_t> MpiFabric::Poll(int from) {
  NG_RETURN_IF_ERROR(EmptyOutbox());
  NG_RETURN_IF_ERROR(CheckStarter());
  Asked& asked = asked_[static_cast<size_t>(from)];
  const Clock::time_point now = Look();
  NG_ASSIGN_OR_RETURN(int64_t n_bytes, Probe(from));
  // A time in which nobody asked is no time of waiting.
  const bool waits = asked.since != Clock::time_point() && now - asked.last < Deadline() / 2;
  if (n_bytes > 0 || !waits) asked.since = now;
  asked.last = now;
  const std::string why = WhyLost(from, now - asked.since);
  if (why.empty()) return n_bytes;
  // What it sent before it ended counts.
  NG_ASSIGN_OR_RETURN(n_bytes, Probe(from));
  if (n_bytes > 0) return n_bytes;
  return GiveUp(from, why);
}

absl::Status MpiFabric::Receive(int from, std::span<std::byte> bytes) {
  NG_RETURN_IF_ERROR(BeginReceive(from, bytes, tag_ + 1));
  return Finish();
}

absl::Status MpiFabric::CheckStarter() {
  if (size_ == 1 || getppid() == parent_) return absl::OkStatus();
  g_failed = true;
  return RuntimeError("mpirun has ended");
}

absl::Status MpiFabric::Finish(Clock::duration patience) {
  ++process_.calls;
  if (statuses_.size() < requests_.size()) statuses_.resize(requests_.size());
  const Clock::time_point start = Look();
  NG_RETURN_IF_ERROR(CheckStarter());
  int done = 0;
  for (int polls = patience.count() > 0 ? 1 : kPollsAtATime; done == 0; ++polls) {
    const int tested =
        MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, statuses_.data());
    if (tested == MPI_ERR_IN_STATUS) return FailedRequest();
    NG_RETURN_IF_ERROR(Check(tested, "MPI_Testall"));
    if (done != 0 || polls % kPollsAtATime != 0) continue;
    const Clock::duration waited = Look() - start;
    if (waited > Deadline() / 4) NG_RETURN_IF_ERROR(SayAwaited(Awaited()));
    NG_RETURN_IF_ERROR(CheckPeers(waited));
    if (waited > patience) {
      std::this_thread::sleep_for(kNap);
      polls = kPollsAtATime - 1;  // after each nap one
    } else {
      std::this_thread::yield();
    }
  }
  NG_RETURN_IF_ERROR(CheckReceived());
  requests_.clear();
  pending_.clear();
  Look();
  return SayAwaited(-1);
}

int MpiFabric::Awaited() {
  for (size_t i = 0; i < requests_.size(); ++i) {
    int done = 0;
    MPI_Request_get_status(requests_[i], &done, MPI_STATUS_IGNORE);
    if (done == 0) return pending_[i].rank;
  }
  return -1;
}

absl::Status MpiFabric::SayAwaited(int rank) {
  Claim& own = claims_[static_cast<size_t>(rank_)];
  if (rank == own.awaited) return absl::OkStatus();
  NG_RETURN_IF_ERROR(HearClaims());
  own.awaited = rank;
  own.answers = rank >= 0 && claims_[static_cast<size_t>(rank)].awaited == rank_ ? 1 : 0;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    NG_RETURN_IF_ERROR(Post(peer, std::as_bytes(std::span(&own, 1)), tag_ + 2));
  }
  return absl::OkStatus();
}

absl::Status MpiFabric::HearClaims() {
  for (int peer = 0; peer < size_; ++peer) {
    for (int came = 1; peer != rank_ && came != 0;) {
      NG_RETURN_IF_ERROR(
          Check(MPI_Iprobe(first_ + peer, tag_ + 2, MPI_COMM_WORLD, &came, MPI_STATUS_IGNORE),
                "MPI_Iprobe"));
      if (came == 0) break;
      NG_RETURN_IF_ERROR(
          Check(MPI_Recv(&claims_[static_cast<size_t>(peer)], sizeof(Claim), MPI_BYTE,
                         first_ + peer, tag_ + 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                "MPI_Recv"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int> MpiFabric::WhoStands(int rank) {
  NG_RETURN_IF_ERROR(HearClaims());
  int stands = rank;
  for (int hops = 0; hops < size_; ++hops) {
    const Claim& claim = claims_[static_cast<size_t>(stands)];
    if (claim.awaited < 0) break;
    stands = claim.awaited;
    if (claim.answers != 0) break;  // that one's own claim is older
  }
  // Those who wait for each other have computed different things.
  return stands == rank_ ? rank : stands;
}

MpiFabric::Clock::duration MpiFabric::Deadline() const {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(deadline_s_));
}

MpiFabric::Clock::time_point MpiFabric::Look() {
  const Clock::time_point now = Clock::now();
  const bool stood =
      process_.looked != Clock::time_point() && now - process_.looked > Deadline() / 2;
  if (stood) process_.stood = now;
  process_.looked = now;
  return now;
}

absl::Status MpiFabric::CheckPeers(Clock::duration waited) {
  for (size_t i = 0; i < requests_.size(); ++i) {
    const std::string why = WhyLost(pending_[i].rank, waited);
    if (why.empty()) continue;
    // What is done already has no rank to wait for.
    int done = 0;
    MPI_Request_get_status(requests_[i], &done, MPI_STATUS_IGNORE);
    if (done == 0) return GiveUp(pending_[i].rank, why);
  }
  return absl::OkStatus();
}

std::string MpiFabric::WhyLost(int rank, Clock::duration waited) {
  if (waited < kPatience) return {};
  if (stop_ != nullptr && stop_->load(std::memory_order_relaxed) &&
      process_.stopped == Clock::time_point()) {
    process_.stopped = Clock::now();
  }
  const Peer& peer = PeerOf(rank);
  const bool here = peer.process != 0 && peer.process_space == PeerOf(rank_).process_space;
  const bool gone = here && kill(static_cast<pid_t>(peer.process), 0) != 0 && errno == ESRCH;
  if (gone) return kHasEnded;
  if (waited > Deadline()) {
    return absl::StrCat("did not answer within ", deadline_s_, " s (fabric.deadline)");
  }
  const bool graceless = process_.stopped != Clock::time_point() &&
                         Clock::now() - process_.stopped > kGrace && waited > kGrace;
  return graceless && !here ? "did not answer after the signal that ends the run" : "";
}

absl::Status MpiFabric::GiveUp(int rank, const std::string& why) {
  // The others did not wait for a process that stood still: it has nothing to say of them.
  if (process_.stood != Clock::time_point() && process_.looked - process_.stood < Deadline()) {
    return Fail(rank_, "stood still for so long that the others have ended");
  }
  // Nor has one that was told to end meanwhile: another one has found who is lost.
  if (process_.stopped != Clock::time_point() && why != kHasEnded) {
    return Fail(rank_, "was told to end while it waited for others");
  }
  if (why == kHasEnded) return Fail(rank, why);
  NG_ASSIGN_OR_RETURN(const int stands, WhoStands(rank));
  return Fail(stands, why);
}

absl::Status MpiFabric::FailedRequest() {
  for (size_t i = 0; i < requests_.size(); ++i) {
    const int error = statuses_[i].MPI_ERROR;
    if (error == MPI_SUCCESS || error == MPI_ERR_PENDING) continue;
    const auto& [rank, bytes] = pending_[i];
    if (error == MPI_ERR_TRUNCATE) return WrongSize(rank, bytes);
    return Fail(rank, "cannot be reached: " + TextOf(error));
  }
  return Check(MPI_ERR_IN_STATUS, "MPI_Testall");
}

absl::Status MpiFabric::CheckReceived() {
  for (size_t i = 0; i < requests_.size(); ++i) {
    const auto& [rank, bytes] = pending_[i];
    const MPI_Status& status = statuses_[i];
    if (bytes < 0) continue;
    int received = 0;
    MPI_Get_count(&status, MPI_BYTE, &received);
    if (received == bytes) continue;
    return WrongSize(rank, bytes);
  }
  return absl::OkStatus();
}

absl::Status MpiFabric::WrongSize(int rank, int64_t bytes) {
  return Fail(rank, absl::StrCat("sent another number of bytes than the ", bytes,
                                 " that belong here: it computes something else"));
}

absl::Status MpiFabric::Fail(int rank, const std::string& what) {
  g_failed = true;
  missing_ = rank;
  return RuntimeError(absl::StrCat("rank ", first_ + rank, " (", Host(rank), ") ", what));
}

std::string MpiFabric::Report() const {
  if (size_ == 1) return {};
  return absl::StrCat("rank ", rank_, " of ", size_, ": ", process_.calls, " calls, ",
                      process_.bytes_sent, " bytes sent");
}

}  // namespace ng
