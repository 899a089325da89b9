#include "core/runtime/loop/generate.h"

#include <utility>

#include "core/runtime/loop/generate_loop.h"

namespace ng {

absl::StatusOr<std::vector<Completion>> Generate(const GenerateParts& parts,
                                                 const GenerateSettings& settings,
                                                 std::span<const GenerateRequest> requests,
                                                 const GenerateOptions& options) {
  std::vector<Completion> completions(requests.size());
  GenerateLoop loop(parts, settings, options);
  for (size_t i = 0; i < requests.size(); ++i) {
    loop.Add({static_cast<int>(i), &requests[i], &completions[i]});
  }
  for (bool more = true; more;) {
    NG_ASSIGN_OR_RETURN(more, loop.Advance());
  }
  return completions;
}

}  // namespace ng
