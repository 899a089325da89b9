// The models of the goldens: every family, and every block of GGUF.
#ifndef NG_TESTS_INTEGRATION_ENGINE_GOLDENS_H_
#define NG_TESTS_INTEGRATION_ENGINE_GOLDENS_H_

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace ng::test {

// Every folder of the goldens that holds a model, and every GGUF file.
inline std::vector<std::string> Goldens() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(NG_TEST_DATA "/golden")) {
    if (entry.path().filename() == "config.json") paths.push_back(entry.path().parent_path());
    if (entry.path().extension() == ".gguf") paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  return paths;
}

}  // namespace ng::test

#endif  // NG_TESTS_INTEGRATION_ENGINE_GOLDENS_H_
