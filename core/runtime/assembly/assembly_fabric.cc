// Assembly: the ranks of a run, and whether they can run it together.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/base/program_text.h"
#include "core/model/ranks/layer_split.h"
#include "core/model/spec/points.h"
#include "core/model/weights/rank_split.h"
#include "core/model/weights/weight_sizes.h"
#include "core/runtime/assembly/assembly.h"
#include "ng/isa.h"

namespace ng {
namespace {

// Keys that each machine may have its own way.
bool IsOwn(absl::string_view line) {
  const absl::string_view key = line.substr(0, line.find(' '));
  return key == "path" || key == "threads" || key == "isa" || key == "pin" || key == "deadline";
}

// Parts of a matrix that have types of their own lie in whole blocks of columns; a rank's heads
// must end where these do.
bool BlocksFit(const SelfAttentionSpec& attention, const BlockWeightTypes& types,
               const RankSplit& split) {
  const auto& in = types.in;
  if (in[0] == in[1] && in[1] == in[2]) return true;
  const SelfAttentionSpec part = PartOf(attention, split);
  return part.q_width() % kBlockColumns == 0 && part.k_width() % kBlockColumns == 0 &&
         (!part.gate || part.qkv_width() % kBlockColumns == 0);
}

}  // namespace

absl::Status Assembly::MakeFabric() {
  const LoadedPlugin& plugin = selection.fabric;
  const std::vector<OptionValue> values = PluginValues(config(), "fabric", plugin.descriptor->name);
  PluginContext context;
  context.executor = executor.get();
  context.isa = isa;
  context.options = OptionValues(values);
  context.check = config().Bool("run.check_plugins");
  context.stop = stop;
  NG_ASSIGN_OR_RETURN(
      fabric, CreateFabric(plugin, context, {.deadline_s = config().Real("fabric.deadline")}));
  if (fabric->size() > 1) link = std::make_unique<RankLink>(*fabric, stop);
  return absl::OkStatus();
}

absl::Status Assembly::FindGroup(int plan_ranks, PlannedRank planned) {
  // What can be looked at is in the layers of all ranks.
  attention_layers = model.spec.LayersWith(Operation::kAttention);
  points = PointsOf(model.spec);
  const int ranks = plan_ranks > 1 ? plan_ranks : fabric->size();
  const int n = ranks / groups();
  if (n * groups() != ranks) {
    return UsageError(absl::StrCat(config().Describe("fabric.groups"), " = ", groups(), ": ", ranks,
                                   ranks == 1 ? " rank does" : " ranks do", " not make ", groups(),
                                   " groups of the same size"));
  }
  const int own = fabric->rank() % n;  // in its group
  if (config().Text("fabric.split") == "layers") {
    NG_ASSIGN_OR_RETURN(std::vector<LayerSplit> parts, CutLayers(model, n));
    auto kept = parts.begin() + own;
    if (plan_ranks > 1) {
      kept = planned == PlannedRank::kMostWeights
                 ? std::ranges::max_element(parts, {}, &LayerSplit::bytes)
                 : std::ranges::max_element(parts, {}, &LayerSplit::n_layers);
    }
    own_layers = *kept;
    if (n > 1) whole.emplace().parts = std::move(parts);
  } else {
    // Where heads and columns are uneven, the last rank has most of them.
    model.spec.split = {plan_ranks > 1 ? n - 1 : own, n};
  }
  if (groups() == 1 || plan_ranks > 1 || n == 1) return absl::OkStatus();
  const int first = fabric->rank() - own;
  NG_ASSIGN_OR_RETURN(group_fabric, fabric->Group(first, n));
  group_link = std::make_unique<RankLink>(*group_fabric, stop, first);
  return absl::OkStatus();
}

void Assembly::KeepOwnLayers() {
  if (!whole) return;
  whole->spec = model.spec;
  whole->types = weight_types;
  whole->bindings = model.bindings;
  whole->head_copy = model.head_copy;
  KeepLayers(own_layers, &model);
  for (size_t i = 0; i < weight_types.layers.size(); ++i) {
    if (!own_layers.Has(static_cast<int>(i))) weight_types.layers[i].clear();
  }
}

std::string Assembly::SharedSettings() const {
  std::string shared;
  for (const absl::string_view line : absl::StrSplit(config().ToIni(), '\n')) {
    if (!IsOwn(line)) absl::StrAppend(&shared, line, "\n");
  }
  return shared;
}

absl::Status Assembly::AgreeOnSetup(const absl::Status& own, const std::string& random_weights) {
  if (link == nullptr) return own;
  NG_RETURN_IF_ERROR(link->Agree(own));
  NG_RETURN_IF_ERROR(link->CheckSame("version of ng", ProgramText()));
  NG_RETURN_IF_ERROR(link->CheckSame("arithmetic (run.arithmetic = portable runs on both)",
                                     ArithmeticOf(isa).ToString()));
  std::string files = random_weights;
  absl::Status read;
  if (files.empty()) {
    absl::StatusOr<std::string> hash = HashOfModelFiles(config().Text("model.path"));
    read = hash.status();
    if (hash.ok()) files = *std::move(hash);
  }
  NG_RETURN_IF_ERROR(link->Agree(read));
  NG_RETURN_IF_ERROR(link->CheckSame("model", files));
  return link->CheckSame("config", SharedSettings());
}

absl::Status Assembly::CheckRanks(bool can_be_ranks) const {
  const RankSplit& split = model.spec.split;
  const bool by_layers = model.spec.layer_split.ranks > 1;
  const int n_ranks = std::max({fabric->size(), split.ranks, model.spec.layer_split.ranks});
  if (n_ranks == 1) return absl::OkStatus();
  const std::string ranks =
      absl::StrCat(config().Describe("fabric.name"), " = ", selection.fabric.descriptor->name, ", ",
                   n_ranks, " ranks: ");
  if (!can_be_ranks) {
    return UsageError(ranks + "this program is one process; ng-run can be several");
  }
  if (packed && (by_layers || split.ranks > 1)) {
    return UsageError(absl::StrCat(ranks, config().Describe("model.packed"),
                                   " holds the weights of one process; ranks read the model's own "
                                   "files"));
  }
  if (by_layers && config().Int("fabric.pieces") > 0) {
    return UsageError(absl::StrCat(
        ranks, config().Describe("fabric.pieces"), " = ", config().Int("fabric.pieces"),
        " is of fabric.split = heads; with layers a step is cut by the number of ranks"));
  }
  for (size_t i = 0; i < selection.probes.size(); ++i) {
    if (by_layers) {
      return UsageError(absl::StrCat(ranks, probe_titles[i], " looks into all layers, and with ",
                                     "fabric.split = layers a rank has some"));
    }
    if (probes->use(i).writes.empty()) continue;
    return UsageError(absl::StrCat(ranks, probe_titles[i], " writes ", probes->use(i).writes[0],
                                   ", and would on every rank"));
  }
  if (split.ranks == 1) return absl::OkStatus();
  NG_ASSIGN_OR_RETURN(const RunCachePlan cache, PlanCacheFor(SmallestCache()));
  if (cache.stores.attended || cache.stores.queries) {
    return PluginError(
        absl::StrCat(ranks, selection.cache.Describe(), " goes by ",
                     cache.stores.attended ? "what all heads attended" : "the queries of all heads",
                     ", and a rank has some"));
  }
  for (size_t i = 0; i < model.spec.layers.size(); ++i) {
    for (size_t b = 0; b < model.spec.layers[i].size(); ++b) {
      const BlockSpec& block = model.spec.layers[i][b];
      if (block.operation != Operation::kAttention ||
          BlocksFit(model.spec.AttentionOf(block), weight_types.layers[i][b], split)) {
        continue;
      }
      return PluginError(absl::StrCat(ranks, "layer ", i,
                                      " holds q, k and v as different types, and this rank's heads "
                                      "do not end at a multiple of ",
                                      kBlockColumns, " columns"));
    }
  }
  return absl::OkStatus();
}

}  // namespace ng
