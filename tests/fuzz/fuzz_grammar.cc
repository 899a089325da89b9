// The three languages of the stage grammar. The first byte of an input says which; the rest is the
// grammar. One that is read is then run on its own bytes.
#include <string>
#include <string_view>

#include "plugins/sampler/grammar/compile.h"
#include "plugins/sampler/grammar/masks/machine.h"
#include "tests/fuzz/support.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  constexpr int64_t kReach = 8;
  const auto program = data[0] == 'r'   ? ng::grammar::CompileRegex(text)
                       : data[0] == 'g' ? ng::grammar::CompileGbnf(text)
                                        : ng::grammar::CompileSchema(text, {});
  if (!program.ok()) {
    ng::fuzz::CheckError(program.status(), "");
    return 0;
  }
  absl::StatusOr<ng::grammar::Machine> machine = ng::grammar::Machine::Make(*program, kReach);
  if (!machine.ok()) {
    ng::fuzz::CheckError(machine.status(), "");
    return 0;
  }
  const absl::StatusOr<int32_t> behind = machine->Advance(ng::grammar::Machine::kStart, text);
  if (!behind.ok()) ng::fuzz::CheckError(behind.status(), "");
  return 0;
}
