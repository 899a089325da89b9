// A program that embeds ng: answers one message.
//
//   ng_example CONFIG MESSAGE [--section.key=value ...]
//
// Prints the text as it comes, then all token ids on a line of their own.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ng/engine.h"
#include "ng/status.h"

namespace {

absl::Status Run(const ng::EngineOptions& options, const std::string& message) {
  NG_ASSIGN_OR_RETURN(const auto engine, ng::Engine::Open(options));
  ng::GenerateRequest request;
  NG_ASSIGN_OR_RETURN(request.prompt_ids, engine->EncodeMessage(message));
  request.max_new_tokens = engine->default_max_new_tokens();
  const std::span<const ng::GenerateRequest> requests(&request, 1);

  // Everything that can be refused without weights has been by now.
  NG_RETURN_IF_ERROR(engine->CheckRequest(request));
  NG_RETURN_IF_ERROR(engine->Load(ng::Needs(requests)));

  ng::GenerateOptions watch;
  watch.on_step = [&](int /*index*/, const ng::StepRecord& step) -> absl::Status {
    NG_ASSIGN_OR_RETURN(const std::string piece, engine->Decode(std::span(&step.token_id, 1)));
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    return absl::OkStatus();
  };
  NG_ASSIGN_OR_RETURN(const std::vector<ng::Completion> done, engine->Generate(requests, watch));

  std::printf("\nids");
  for (const int32_t id : done.front().ids) std::printf(" %d", id);
  std::printf("\n");
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  return written ? absl::OkStatus() : ng::OutputError("cannot write to standard output");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s CONFIG MESSAGE [--section.key=value ...]\n", argv[0]);
    return 2;
  }
  ng::EngineOptions options;
  options.config_file = argv[1];
  for (int i = 3; i < argc; ++i) {
    const std::string argument = argv[i];
    options.overrides.push_back(argument.starts_with("--") ? argument.substr(2) : argument);
  }
  const absl::Status status = Run(options, argv[2]);
  if (status.ok()) return 0;
  const std::string text(status.message());
  std::fprintf(stderr, "%s: error: %s\n", argv[0], text.c_str());
  return ng::ExitCode(status);
}
