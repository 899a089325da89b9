// What a server counts, as Prometheus reads it.
//
// Thread: the server's.
#ifndef NG_APPS_SERVE_METRICS_H_
#define NG_APPS_SERVE_METRICS_H_

#include <array>
#include <cstdint>
#include <string>

#include "apps/serve/http/server.h"
#include "ng/session.h"

namespace ng::serve {

// How many times were at most so many seconds.
class Histogram {
 public:
  static constexpr std::array<double, 11> kBounds = {0.01, 0.03, 0.1,  0.3,   1.0,  3.0,
                                                     10.0, 30.0, 60.0, 120.0, 300.0};

  void Add(double seconds);
  // The lines of the text format, with what they are about.
  std::string Text(const std::string& name, const std::string& help) const;

 private:
  std::array<int64_t, kBounds.size()> counts_{};
  int64_t n_ = 0;
  double sum_ = 0.0;
};

struct Metrics {
  Histogram first_token;  // from the request to the first token of an answer
  Histogram answer;       // from the request to the end of its last answer
};

std::string MetricsText(const Metrics& metrics, const SessionCounts& session,
                        const HttpCounts& http);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_METRICS_H_
