// ng-serve as a process of its own, and what tests ask of it.
#ifndef NG_TESTS_INTEGRATION_SERVE_SERVER_H_
#define NG_TESTS_INTEGRATION_SERVE_SERVER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/integration/run_support.h"
#include "tests/support/http_client.h"

namespace ng::test {

// Serves the demo at a free port, from the constructor on.
class Server {
 public:
  explicit Server(const Arguments& more = {});
  // Ends it as End, unless that has been done.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const { return port_; }
  // Sends SIGTERM and waits. The exit code, or 128 + N when signal N ended it.
  int End();
  void Signal(int signal) const;
  // The next line of its stderr, without the end.
  std::string ReadLine() const;
  int Wait();

  // The body of a request that must be answered with 200. `body` lacks the model, which is added.
  Json Post(const std::string& path, Json body) const;
  // The events of a stream, without the last one, which must be [DONE].
  std::vector<Json> Stream(const std::string& path, Json body) const;
  // The response to a request that may be refused.
  HttpResponse Ask(const std::string& path, Json body) const;
  // A figure of /metrics.
  double Metric(const std::string& name) const;
  // Waits until a figure is as it should be. False: it does not get so.
  bool Comes(const std::string& name, const std::function<bool(double)>& so) const;

 private:
  int pid_ = -1;
  int stderr_ = -1;
  int port_ = 0;
};

}  // namespace ng::test

#endif  // NG_TESTS_INTEGRATION_SERVE_SERVER_H_
