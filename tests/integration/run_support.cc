#include "tests/integration/run_support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "core/formats/safetensors.h"

namespace ng::test {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Arguments operator+(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Arguments Demo() { return {"--config", NG_SOURCE_DIR "/configs/demo.ini"}; }

Arguments DemoTurn(int max_new_tokens) {
  return Demo() + Arguments{"--message", "Who art thou?",
                            "--run.max_new_tokens=" + std::to_string(max_new_tokens)};
}

Arguments Greedy(const std::string& dir, const std::string& prompt_ids, int64_t max_new_tokens) {
  return {"--model.path=" + dir, "--sampler.chain=greedy", "--prompt-ids", prompt_ids,
          "--run.max_new_tokens=" + std::to_string(max_new_tokens)};
}

Result NgRun(const Arguments& arguments, const std::string& input) {
  Command command;
  command.program = "ng-run";
  command.arguments = arguments;
  command.input = input;
  return Run(command);
}

Result Shell(const std::string& script, const Arguments& arguments) {
  Command command;
  command.program = "/bin/sh";
  command.arguments = Arguments{"-c", script, "sh"} + arguments;
  command.environment = {"NG=" NG_BINARY_DIR "/bin/ng-run"};
  return Run(command);
}

void ExpectError(const Result& result, int exit_code, const std::vector<std::string>& parts) {
  ExpectErrorOf("ng-run", result, exit_code, parts);
}

void ExpectErrorOf(const std::string& program, const Result& result, int exit_code,
                   const std::vector<std::string>& parts) {
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  EXPECT_THAT(result.err, StartsWith(program + ": error: "));
  EXPECT_THAT(result.err, EndsWith("\n"));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  for (const std::string& part : parts) EXPECT_THAT(result.err, HasSubstr(part));
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<Json> JsonLines(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    Json json = Json::parse(line, nullptr, false);
    EXPECT_FALSE(json.is_discarded()) << line;
    lines.push_back(std::move(json));
  }
  return lines;
}

std::vector<std::string> Keys(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

std::vector<std::string> FilesIn(const std::string& dir) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::map<std::string, Tensor> ReadTensors(const std::string& path) {
  const auto source = OpenSafetensors(path);
  EXPECT_TRUE(source.ok()) << source.status();
  std::map<std::string, Tensor> tensors;
  if (!source.ok()) return tensors;
  for (const TensorInfo& info : (*source)->tensors()) {
    EXPECT_EQ(info.dtype, DType::kF32) << info.name;
    std::vector<std::byte> raw(static_cast<size_t>(info.n_bytes));
    EXPECT_TRUE((*source)->Read(info, raw).ok()) << info.name;
    Tensor& tensor = tensors[info.name];
    tensor.shape = info.shape;
    tensor.data.resize(static_cast<size_t>(info.n_elements));
    ConvertToF32(info.dtype, raw.data(), tensor.data);
  }
  return tensors;
}

Json ReadMetadata(const std::string& path) {
  const std::string file = ReadFile(path);
  uint64_t n_bytes = 0;
  std::memcpy(&n_bytes, file.data(), sizeof(n_bytes));
  return Json::parse(file.substr(sizeof(n_bytes), n_bytes))["__metadata__"];
}

}  // namespace ng::test
