// Drives a probe for the checks: makes it for a small model, feeds it the rows of requests step by
// step as a run does, keeps what it makes of them, and notes everything that no probe may do.
#ifndef NG_CORE_CONFORM_PROBE_RIG_H_
#define NG_CORE_CONFORM_PROBE_RIG_H_

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ng/conform/probe.h"

namespace ng::conform {

// A request of a run: what it begins with and what is chosen.
struct ProbedRequest {
  int index = 0;
  std::vector<int32_t> prompt;
  std::vector<int32_t> answer;
};

// How a run feeds its requests.
struct Feeding {
  int64_t chunk = 0;      // tokens of a prompt in a step; 0: all of them
  bool uncached = false;  // all tokens again in each step
};

struct RowKey {
  int request = 0;
  int64_t pos = 0;
  size_t point = 0;  // of ProbePoints
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 means the 0 that <=> gives
  auto operator<=>(const RowKey&) const = default;
};
using SeenRows = std::map<RowKey, std::vector<float>>;  // as the probe left them

class ProbeRig {
 public:
  explicit ProbeRig(const ProbeSubject& subject) : subject_(subject) {}

  // The probe; null when it cannot be made, which is noted.
  std::unique_ptr<Probe> Make();
  // Runs all requests at the same time, to the end of the run.
  SeenRows Run(Probe& probe, const std::vector<ProbedRequest>& requests, const Feeding& feeding);

  const ProbeUse& use() const { return use_; }  // what the probe last made says

  // So many requests with prompts and answers of different lengths.
  static std::vector<ProbedRequest> Requests(int n);

  void Note(std::string finding) { findings_.push_back(std::move(finding)); }
  bool noted() const { return !findings_.empty(); }
  // The first finding decides.
  Outcome outcome() const { return noted() ? Fail(findings_.front()) : Ok(); }

 private:
  struct Fed {
    const ProbedRequest* request = nullptr;
    int64_t begin = 0;
    int64_t end = 0;
  };
  void Tell(const char* call, const absl::Status& status);
  void Step(Probe& probe, std::span<const Fed> fed, SeenRows* seen);
  void Show(Probe& probe, size_t point, std::span<const Fed> fed, SeenRows* seen);

  const ProbeSubject& subject_;
  ProbeUse use_;
  std::vector<std::string> findings_;
};

}  // namespace ng::conform

#endif  // NG_CORE_CONFORM_PROBE_RIG_H_
