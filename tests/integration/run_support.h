// Running ng-run in tests: the demo, errors, JSON lines, saved tensors.
#ifndef NG_TESTS_INTEGRATION_RUN_SUPPORT_H_
#define NG_TESTS_INTEGRATION_RUN_SUPPORT_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/subprocess.h"

namespace ng::test {

using Json = nlohmann::ordered_json;
using Arguments = std::vector<std::string>;

Arguments operator+(Arguments a, const Arguments& b);

// The demo's special ids.
inline constexpr int kSys = 3;
inline constexpr int kUsr = 4;
inline constexpr int kAsst = 5;
inline constexpr int kEot = 6;

// The demo that ships with ng, and one user turn in it.
Arguments Demo();
Arguments DemoTurn(int max_new_tokens);
// Greedy generation of `max_new_tokens` with the model in `dir`, from a prompt of ids.
Arguments Greedy(const std::string& dir, const std::string& prompt_ids, int64_t max_new_tokens);

Result NgRun(const Arguments& arguments, const std::string& input = "");
// A line of shell in which "$NG" is ng-run and "$1", "$2", ... are the arguments.
Result Shell(const std::string& script, const Arguments& arguments = {});

// One line "ng-run: error: ..." on stderr that holds each part, and the exit code.
void ExpectError(const Result& result, int exit_code, const std::vector<std::string>& parts);
// The same of another program.
void ExpectErrorOf(const std::string& program, const Result& result, int exit_code,
                   const std::vector<std::string>& parts);

std::string ReadFile(const std::string& path);
std::vector<Json> JsonLines(const std::string& text);
std::vector<std::string> Keys(const Json& object);
std::vector<std::string> FilesIn(const std::string& dir);

struct Tensor {
  std::vector<int64_t> shape;
  std::vector<float> data;
};
// All tensors of a safetensors file of f32, by name.
std::map<std::string, Tensor> ReadTensors(const std::string& path);
// What the same file says beside them.
Json ReadMetadata(const std::string& path);

}  // namespace ng::test

#endif  // NG_TESTS_INTEGRATION_RUN_SUPPORT_H_
