// Assembly: the probes of a run, and what of them its bits depend on.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/runtime/assembly/assembly.h"

namespace ng {
namespace {

// "steer 1.0.0 (points = layer1.out, ..., reads 0123456789abcdef)"
absl::StatusOr<std::string> EditText(const LoadedPlugin& plugin,
                                     const std::vector<OptionValue>& values, const ProbeUse& use) {
  std::string text = absl::StrCat(plugin.descriptor->name, " ", plugin.descriptor->version, " (");
  const char* between = "";
  for (const OptionValue& value : values) {
    // Another path to the same bytes is the same edit.
    if (std::ranges::count(use.reads, value.text) > 0) continue;
    absl::StrAppend(&text, between, value.name, " = ", value.text);
    between = ", ";
  }
  for (const std::string& path : use.reads) {
    NG_ASSIGN_OR_RETURN(const uint64_t hash, HashOfFile(path));
    absl::StrAppend(&text, between, "reads ", HexOf(hash));
    between = ", ";
  }
  return text + ")";
}

}  // namespace

absl::Status MakeProbes(const std::atomic<bool>* stop, Assembly& assembly) {
  assembly.probes = std::make_unique<ProbeChain>(assembly.model.spec.shape.n_layers);
  const ProbeModel model = {.points = assembly.points, .head = &assembly.head, .stop = stop};
  std::string edits;
  for (const LoadedPlugin& plugin : assembly.selection.probes) {
    const std::vector<OptionValue> values =
        PluginValues(assembly.config(), "probe", plugin.descriptor->name);
    NG_ASSIGN_OR_RETURN(std::unique_ptr<Probe> probe,
                        CreateProbe(plugin, assembly.Context(values), model));
    const ProbeUse use = probe->Use();
    assembly.probes->Add(std::move(probe));
    assembly.probe_titles.push_back(absl::StrCat("probe.", plugin.descriptor->name));
    if (!std::ranges::any_of(use.points, &ProbePoint::edits)) continue;
    NG_ASSIGN_OR_RETURN(const std::string text, EditText(plugin, values, use));
    absl::StrAppend(&edits, edits.empty() ? "" : ", then ", text);
  }
  for (const PartFactory::Used& part : assembly.parts->used()) {
    const PluginDescriptor& inner = *part.plugin.descriptor;
    if (edits.empty() || std::string_view(inner.kind) != "probe") continue;
    absl::StrAppend(&edits, " over ", inner.name, " ", inner.version, " (", part.options, ")");
  }
  if (edits.empty()) return absl::OkStatus();
  if (assembly.Recomputes()) {
    return UsageError(assembly.config().Describe("run.on_full") +
                      " = recompute moves tokens to other positions, and a probe of probe.chain "
                      "edits by position");
  }
  assembly.edits = edits;
  return absl::OkStatus();
}

RunNeeds Assembly::WithProbes(RunNeeds needs) const {
  needs.prompt_logits |= probes->every_logit();
  needs.identity |= probes->identity();
  return needs;
}

}  // namespace ng
