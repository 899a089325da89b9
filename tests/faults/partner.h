// Those at the other ends of a case's FIFOs, each on a thread of its own.
#ifndef NG_TESTS_FAULTS_PARTNER_H_
#define NG_TESTS_FAULTS_PARTNER_H_

#include <atomic>
#include <thread>
#include <vector>

#include "tests/faults/case.h"

namespace ng::faults {

class Partners {
 public:
  explicit Partners(const std::vector<Partner>& partners);
  // Lets those go for whom the program never came. Call it when the program has ended.
  ~Partners();
  Partners(const Partners&) = delete;
  Partners& operator=(const Partners&) = delete;

 private:
  const std::vector<Partner>& partners_;
  std::atomic<size_t> n_done_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace ng::faults

#endif  // NG_TESTS_FAULTS_PARTNER_H_
