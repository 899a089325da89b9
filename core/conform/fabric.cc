#include "ng/conform/fabric.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/conform/texts.h"
#include "ng/conform/executor.h"

namespace ng::conform {
namespace {

// A call may take so long, on a machine that has other things to do.
constexpr FabricSpec kFabricSpec = {.deadline_s = 30.0};
constexpr uint32_t kUnset = 0xA5A5A5A5U;

// Bits that follow from three numbers. One in 16 is a NaN, quiet or not.
uint32_t BitsOf(uint64_t round, uint64_t rank, uint64_t i) {
  uint64_t x = (round * 0x9E3779B97F4A7C15ULL) ^ (rank * 0xC2B2AE3D27D4EB4FULL) ^
               (i * 0x165667B19E3779F9ULL);
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9ULL;
  x ^= x >> 32;
  const auto bits = static_cast<uint32_t>(x);
  return bits % 16 == 0 ? bits | 0x7F800001U : bits;
}

class FabricRig {
 public:
  explicit FabricRig(const FabricSubject& subject) : executor_(1) { Make(subject); }

  Fabric& fabric() { return *fabric_; }
  void Note(std::string finding) { findings_.push_back(std::move(finding)); }
  bool noted() const { return !findings_.empty(); }
  // The first finding decides.
  Outcome outcome() const { return noted() ? Fail(findings_.front()) : Ok(); }

  // Up to `most` floats of each rank, another number in each round, of some none. `aside`: on a
  // thread of its own.
  void Gather(uint64_t round, int64_t most, bool aside = false) {
    counts_.clear();
    for (int rank = 0; rank < fabric_->size(); ++rank) {
      const uint32_t bits = BitsOf(round, static_cast<uint64_t>(rank), 1U << 20);
      counts_.push_back(bits % 5 == 0 ? 0 : static_cast<int64_t>(bits / 5 % (most + 1)));
    }
    Fill(round);
    if (aside) {
      absl::Status status;
      std::thread([&] { status = fabric_->AllGatherAside(counts_, all_); }).join();
      Tell("AllGatherAside", status);
    } else {
      Tell("AllGather", fabric_->AllGather(counts_, all_));
    }
    if (noted()) return;
    const float* part = all_.data();
    for (int rank = 0; rank < fabric_->size(); ++rank) {
      const int64_t n = counts_[static_cast<size_t>(rank)];
      CheckPart(round, rank, {part, static_cast<size_t>(n)});
      part += n;
    }
  }
  // The same call again, without a look at what comes.
  bool GatherAgain() { return fabric_->AllGather(counts_, all_).ok(); }

  void Broadcast(uint64_t round, int root, size_t n_bytes) {
    std::vector<std::byte> bytes(n_bytes, std::byte{0xA5});
    const auto byte = [&](size_t i) {
      return static_cast<std::byte>(BitsOf(round, static_cast<uint64_t>(root), i) & 0xFFU);
    };
    if (fabric_->rank() == root) {
      for (size_t i = 0; i < n_bytes; ++i) bytes[i] = byte(i);
    }
    Tell("Broadcast", fabric_->Broadcast(root, bytes));
    for (size_t i = 0; i < n_bytes && !noted(); ++i) {
      if (bytes[i] == byte(i)) continue;
      Note(absl::StrCat("Broadcast of ", n_bytes, " bytes by rank ", root, ": byte ", i,
                        " is another one"));
    }
  }

  void Barrier() { Tell("Barrier", fabric_->Barrier()); }

  // Each rank sends `n` messages of many sizes to each other one, and takes those of all.
  void Messages(uint64_t round, int n) {
    const int rank = fabric_->rank();
    for (int i = 0; i < n; ++i) {
      for (int to = 0; to < fabric_->size(); ++to) {
        if (to == rank) continue;
        const std::vector<std::byte> bytes = MessageOf(round, rank, to, i);
        Tell("Send", fabric_->Send(to, bytes));
      }
    }
    for (int i = 0; i < n; ++i) {
      for (int from = 0; from < fabric_->size() && !noted(); ++from) {
        if (from != rank) Take(from, MessageOf(round, from, rank, i), i % 2 == 0);
      }
    }
  }

  // Runs `check` with the ranks of this one's half as a fabric of their own.
  template <typename Check>
  void InHalves(Check&& check) {
    const int half = fabric_->size() / 2;
    const bool upper = fabric_->rank() >= half;
    absl::StatusOr<std::unique_ptr<Fabric>> part =
        fabric_->Group(upper ? half : 0, upper ? fabric_->size() - half : half);
    if (!part.ok()) return Tell("Group", part.status());
    if (*part == nullptr) return Note("Group returned OK and no fabric");
    const int rank = fabric_->rank() - (upper ? half : 0);
    const int size = upper ? fabric_->size() - half : half;
    if ((*part)->rank() != rank || (*part)->size() != size) {
      return Note(absl::StrCat("Group gives rank ", (*part)->rank(), " of ", (*part)->size(),
                               ", must be rank ", rank, " of ", size));
    }
    std::swap(fabric_, *part);
    check();
    std::swap(fabric_, *part);
  }

 private:
  // What a rank sends to another as its i-th message of a round.
  static std::vector<std::byte> MessageOf(uint64_t round, int from, int to, int i) {
    const uint64_t seed = round * 1000003 + static_cast<uint64_t>(from * 1009 + to);
    // The last one is more than is sent at once.
    const size_t n = i == 5 ? 300001 : 1 + BitsOf(seed, 7, static_cast<uint64_t>(i)) % 5000;
    std::vector<std::byte> bytes(n);
    for (size_t at = 0; at < n; ++at) {
      bytes[at] = static_cast<std::byte>(BitsOf(seed, static_cast<uint64_t>(i), at) & 0xFFU);
    }
    return bytes;
  }
  // Receives what belongs here, after a Poll that says how much it is.
  void Take(int from, const std::vector<std::byte>& expected, bool polls) {
    for (int64_t size = 0; polls && size == 0 && !noted();) {
      const absl::StatusOr<int64_t> found = fabric_->Poll(from);
      Tell("Poll", found.status());
      if (found.ok()) size = *found;
      if (size == 0 || size == std::ssize(expected)) continue;
      Note(absl::StrCat("Poll of rank ", from, " says that the next message has ", size,
                        " bytes, it has ", expected.size()));
    }
    std::vector<std::byte> bytes(expected.size());
    if (!noted()) Tell("Receive", fabric_->Receive(from, bytes));
    if (noted() || bytes == expected) return;
    Note(absl::StrCat("Receive: a message of ", bytes.size(), " bytes of rank ", from,
                      " has other bytes than it was sent with"));
  }

  void Make(const FabricSubject& subject) {
    PluginContext context;
    context.executor = &executor_;
    context.isa = subject.settings.isa;
    absl::StatusOr<std::unique_ptr<Fabric>> made = subject.make(context, kFabricSpec);
    if (!made.ok()) return Note("cannot be created: " + Text(made.status()));
    if (*made == nullptr) return Note("create returned OK and no object");
    fabric_ = *std::move(made);
    const int size = fabric_->size();
    const int rank = fabric_->rank();
    if (size < 1 || size > kMaxRanks) {
      return Note(absl::StrCat("has ", size, " ranks, must be in [1, ", kMaxRanks, "]"));
    }
    if (rank < 0 || rank >= size) {
      Note(absl::StrCat("its rank is ", rank, ", must be in [0, ", size, ")"));
    }
  }

  void Tell(const char* call, const absl::Status& status) {
    if (!status.ok()) Note(absl::StrCat(call, " fails: ", Text(status)));
  }

  // Of this rank what it gives, of the others what nobody gives.
  void Fill(uint64_t round) {
    int64_t total = 0;
    for (const int64_t n : counts_) total += n;
    all_.assign(static_cast<size_t>(total), 0.0F);
    float* to = all_.data();
    for (int rank = 0; rank < fabric_->size(); ++rank) {
      for (int64_t i = 0; i < counts_[static_cast<size_t>(rank)]; ++i, ++to) {
        const uint32_t bits = rank == fabric_->rank() ? BitsOf(round, static_cast<uint64_t>(rank),
                                                               static_cast<uint64_t>(i))
                                                      : kUnset;
        std::memcpy(to, &bits, sizeof(bits));
      }
    }
  }

  void CheckPart(uint64_t round, int rank, std::span<const float> part) {
    for (size_t i = 0; i < part.size() && !noted(); ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, &part[i], sizeof(bits));
      if (bits == BitsOf(round, static_cast<uint64_t>(rank), i)) continue;
      Note(absl::StrCat("AllGather: number ", i, " of the ", part.size(), " of rank ", rank,
                        " has other bits than it was given"));
    }
  }

  UnevenExecutor executor_;
  std::unique_ptr<Fabric> fabric_;
  std::vector<int64_t> counts_;
  std::vector<float> all_;
  std::vector<std::string> findings_;
};

Outcome CheckFabricRanks(const FabricSubject& subject) {
  FabricRig rig(subject);
  if (rig.noted()) return rig.outcome();
  Fabric& fabric = rig.fabric();
  const int rank = fabric.rank();
  for (int other = 0; other < fabric.size(); ++other) {
    const std::string host = fabric.Host(other);
    if (host.empty() || OneLine(host) != host) {
      rig.Note(absl::StrCat("Host of rank ", other, " is no line of text"));
    }
  }
  rig.Barrier();
  if (fabric.rank() != rank) rig.Note("changes its rank");
  if (fabric.Missing() != -1) rig.Note("says that a rank is missing when no call has failed");
  if (OneLine(fabric.Report()) != fabric.Report()) rig.Note("Report is not one line");
  return rig.outcome();
}

Outcome CheckFabricGather(const FabricSubject& subject) {
  FabricRig rig(subject);
  uint64_t round = 0;
  // The last ones are more than a message that is sent at once.
  for (const int64_t most : {0, 1, 3, 64, 1000, 5000, 70000}) {
    for (int repeat = 0; repeat < 4 && !rig.noted(); ++repeat) rig.Gather(++round, most);
  }
  return rig.outcome();
}

Outcome CheckFabricAside(const FabricSubject& subject) {
  FabricRig rig(subject);
  uint64_t round = 0;
  for (const int64_t most : {1, 64, 5000, 70000, 300000}) {
    for (int repeat = 0; repeat < 4 && !rig.noted(); ++repeat) {
      rig.Gather(++round, most, repeat % 2 == 0);
    }
  }
  return rig.outcome();
}

Outcome CheckFabricBroadcast(const FabricSubject& subject) {
  FabricRig rig(subject);
  if (rig.noted()) return rig.outcome();
  uint64_t round = 0;
  for (int root = 0; root < rig.fabric().size(); ++root) {
    for (const size_t n : {0, 1, 3, 4096, 300001}) {
      if (!rig.noted()) rig.Broadcast(++round, root, n);
    }
  }
  return rig.outcome();
}

Outcome CheckFabricOrder(const FabricSubject& subject) {
  FabricRig rig(subject);
  if (rig.noted()) return rig.outcome();
  const uint64_t n_rounds = subject.settings.quick ? 200 : 3000;
  const auto size = static_cast<uint32_t>(rig.fabric().size());
  for (uint64_t round = 1; round <= n_rounds && !rig.noted(); ++round) {
    const uint32_t bits = BitsOf(round, 0, subject.settings.seed);
    switch (bits % 4) {
      case 0:
        rig.Broadcast(round, static_cast<int>(bits / 4 % size), bits / 64 % 100);
        break;
      case 1:
        rig.Barrier();
        break;
      default:
        rig.Gather(round, bits / 4 % 64 + 1);
    }
  }
  return rig.outcome();
}

Outcome CheckFabricMessages(const FabricSubject& subject) {
  FabricRig rig(subject);
  // What all ranks call between them is apart.
  for (uint64_t round = 1; round <= 4 && !rig.noted(); ++round) {
    rig.Messages(round, 7);
    if (!rig.noted()) rig.Gather(round, 300);
  }
  return rig.outcome();
}

Outcome CheckFabricGroups(const FabricSubject& subject) {
  FabricRig rig(subject);
  if (rig.noted()) return rig.outcome();
  rig.InHalves([&] {
    rig.Gather(1, 300);
    if (!rig.noted()) rig.Messages(2, 7);
    if (!rig.noted()) rig.Broadcast(3, 0, 4096);
  });
  if (!rig.noted()) rig.Gather(4, 300);
  return rig.outcome();
}

Outcome CheckFabricAllocation(const FabricSubject& subject) {
  if (!subject.settings.count_allocations) return Skip("this program does not count allocations");
  FabricRig rig(subject);
  if (!rig.noted()) rig.Gather(1, 300);
  if (rig.noted()) return rig.outcome();
  constexpr int kCalls = 50;
  for (int call = 0; call < kCalls; ++call) rig.GatherAgain();  // what it keeps may grow
  const int64_t before = subject.settings.count_allocations();
  for (int call = 0; call < kCalls; ++call) {
    if (!rig.GatherAgain()) return Fail("AllGather fails when it is called again");
  }
  const int64_t n_allocations = subject.settings.count_allocations() - before;
  if (n_allocations >= kCalls) {
    rig.Note(
        absl::StrCat("allocates ", n_allocations, " times in ", kCalls, " calls of AllGather"));
  }
  return rig.outcome();
}

constexpr FabricCheck kFabricChecks[] = {
    {"ranks", "a rank and its number never change, and every rank has a machine's name",
     CheckFabricRanks},
    {"gather", "AllGather brings what each rank gives, bit for bit, NaN too, however uneven",
     CheckFabricGather},
    {"aside", "AllGatherAside on a thread of its own brings the same", CheckFabricAside},
    {"broadcast", "Broadcast brings what any rank gives, of any size", CheckFabricBroadcast},
    {"order", "calls in any order bring what belongs to each", CheckFabricOrder},
    {"messages", "messages between two ranks arrive whole and in their order", CheckFabricMessages},
    {"groups", "a group of ranks is a fabric of its own, beside that of all", CheckFabricGroups},
    {"allocation", "AllGather allocates nothing for a call", CheckFabricAllocation},
};

}  // namespace

std::span<const FabricCheck> FabricChecks() { return kFabricChecks; }

std::vector<std::string> CheckFabric(const FabricSubject& subject) {
  return RunChecks(FabricChecks(), subject);
}

}  // namespace ng::conform
