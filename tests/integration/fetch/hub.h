// A hub on loopback (tests/fetch/hub.py), and ng-fetch as its user.
#ifndef NG_TESTS_INTEGRATION_FETCH_HUB_H_
#define NG_TESTS_INTEGRATION_FETCH_HUB_H_

#include <string>
#include <vector>

#include "tests/integration/run_support.h"
#include "tests/support/temp_dir.h"

namespace ng::test {

// Whether the parts are there that a hub and its user need.
bool CanFetch();

class Hub {
 public:
  Hub();
  ~Hub();
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  // Adds a file of a repository: "org/name/file". Before Open.
  void Add(const std::string& path, const std::string& bytes) const;
  void AddFile(const std::string& path, const std::string& file) const;
  // Serves them, with faults from the first request on.
  void Open(const std::string& faults = "{}");
  // From now on, with other faults.
  void SetFaults(const std::string& faults) const;

  const std::string& url() const { return url_; }
  // What has been asked, a line for each request.
  std::vector<std::string> Asked() const;

  // The environment of a user of this hub with a cache of its own.
  std::vector<std::string> Environment() const;
  std::string Cache() const { return dir_.File("cache"); }
  // ORG/NAME's folder in there.
  std::string Folder(const std::string& repository) const;
  Result Fetch(const Arguments& arguments) const;
  // A line of shell for this user, with arguments as "$1", "$2".
  Result ShellOf(const std::string& script, const Arguments& arguments) const;
  Result RunProgram(const std::string& program, const Arguments& arguments) const;

 private:
  TempDir dir_;
  std::string url_;
  int pid_ = -1;
  int stdin_ = -1;
};

}  // namespace ng::test

#endif  // NG_TESTS_INTEGRATION_FETCH_HUB_H_
