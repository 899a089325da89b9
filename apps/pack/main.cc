// ng-pack: the weights of a model to a file that a start maps, in place of reading and packing
// them.
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "apps/common/about.h"
#include "apps/common/terminal.h"
#include "apps/pack/command_line.h"
#include "ng/engine.h"
#include "ng/files.h"

namespace ng::pack {
namespace {

constexpr const char* kName = "ng-pack";

absl::Status Pack(const CommandLine& line, const EngineOptions& options, ProgressBar& bar) {
  const InputLog inputs;
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Open(options));
  if (line.verify) {
    NG_RETURN_IF_ERROR(engine->VerifyPackedWeights());
    bar.Clear();
    return WriteStdout(line.packed + ": holds the model's weights\n");
  }
  const NamedOutput output = {"FILE", line.packed};
  NG_RETURN_IF_ERROR(CheckOutputs({&output, 1}, inputs));
  NG_RETURN_IF_ERROR(engine->PackWeights(line.packed));
  bar.Clear();
  std::error_code error;
  const auto bytes = std::filesystem::file_size(line.packed, error);
  return WriteStdout(absl::StrCat(line.packed, ": ", error ? 0 : bytes, " bytes\n"));
}

int Main(int argc, const char* const* argv) {
  HoldStandardStreams();
  const absl::StatusOr<CommandLine> line = ParseCommandLine(argc, argv);
  if (!line.ok()) return Fail(kName, line.status());
  return RunAsked(
      line->about, TheManual(), line->engine,
      [&](const EngineOptions& options, ProgressBar& bar) { return Pack(*line, options, bar); });
}

}  // namespace
}  // namespace ng::pack

int main(int argc, char** argv) {
  return ng::RunProgram(ng::pack::kName, ng::pack::Main, argc, argv);
}
