// The three languages of the stage grammar. The first byte of an input says which; the rest is the
// grammar. One that is read is then run on its own bytes.
#include <string>
#include <string_view>

#include "plugins/sampler/grammar/compile.h"
#include "plugins/sampler/grammar/machine.h"
#include "tests/fuzz/support.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  constexpr int64_t kReach = 8;
  const auto program = data[0] == 'r'   ? ng::grammar::CompileRegex(text, kReach)
                       : data[0] == 'g' ? ng::grammar::CompileGbnf(text, kReach)
                                        : ng::grammar::CompileSchema(text, true, kReach);
  if (!program.ok()) {
    ng::fuzz::CheckError(program.status(), "");
    return 0;
  }
  ng::grammar::Machine machine(*program);
  int32_t now = machine.Start();
  for (const char c : text) {
    now = machine.Step(now, machine.program().ClassOf(static_cast<uint8_t>(c)));
  }
  machine.TakeOverflow();
  return 0;
}
