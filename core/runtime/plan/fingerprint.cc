#include "core/runtime/plan/fingerprint.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/program_text.h"
#include "core/runtime/plan/cache_identity.h"
#include "ng/isa.h"

namespace ng {

std::string HashText(std::string_view bytes) { return HexOf(HashOf(bytes)); }

absl::StatusOr<RunFingerprint> FingerprintOf(const Assembly& assembly, uint64_t weights_hash) {
  RunFingerprint print;
  print.program = ProgramText();
  print.sdk = NG_SDK_VERSION;
  print.isa = std::string(IsaName(assembly.isa));
  print.arithmetic = ArithmeticOf(assembly.isa).ToString();
  print.model = HexOf(HashOfSpec(assembly.WholeSpec(), weights_hash));
  print.tokenizer = TokenizerText(assembly);
  print.edits = assembly.edits;
  std::vector<LoadedPlugin> plugins = {assembly.selection.attention, assembly.selection.cache};
  std::ranges::copy(assembly.selection.stages, std::back_inserter(plugins));
  std::ranges::copy(assembly.selection.probes, std::back_inserter(plugins));
  if (assembly.selection.drafter) plugins.push_back(*assembly.selection.drafter);
  for (const PartFactory::Used& part : assembly.parts->used()) plugins.push_back(part.plugin);
  for (const LoadedPlugin& plugin : plugins) {
    const absl::StatusOr<uint64_t> hash = HashOfFile(plugin.path);
    if (!hash.ok()) return PluginError(std::string(hash.status().message()));
    PluginFingerprint used = {plugin.descriptor->kind, plugin.descriptor->name,
                              plugin.descriptor->version, HexOf(*hash)};
    // A plugin that makes several parts of another uses it once.
    if (std::ranges::count(print.plugins, used) == 0) print.plugins.push_back(std::move(used));
  }
  return print;
}

}  // namespace ng
