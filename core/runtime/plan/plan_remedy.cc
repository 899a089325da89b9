#include "core/runtime/plan/plan_remedy.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/config/cache_codecs.h"
#include "core/model/load/file_types.h"

namespace ng {
namespace {

constexpr int64_t kSmallChunk = 256;

// Choices that differ from the run's own, and how a user asks for them.
struct Change {
  std::string text;
  PlanChoices choices;
};

class Search {
 public:
  Search(const Assembly& assembly, const RunNeeds& needs, int64_t available)
      : assembly_(assembly), needs_(needs), available_(available) {}

  // More than there is for what cannot run.
  int64_t Needed(const PlanChoices& choices) const {
    const absl::StatusOr<RunPlan> plan = PlanWith(assembly_, needs_, choices, available_);
    return plan.ok() ? plan->needed_bytes() : std::numeric_limits<int64_t>::max();
  }
  bool Fits(const PlanChoices& choices) const { return Needed(choices) <= available_; }
  int64_t available() const { return available_; }

  // A kind of change: from the mildest to the strongest.
  std::vector<Change> Chunks(const PlanChoices& from) const {
    if (from.cache.max_step_tokens <= kSmallChunk) return {};
    Change change = {absl::StrCat("run.prefill_chunk = ", kSmallChunk), from};
    change.choices.cache.max_step_tokens = kSmallChunk;
    return {change};
  }

  std::vector<Change> Codecs(const PlanChoices& from) const {
    std::vector<Change> changes;
    for (const char* name : {"bf16", "int8", "int4"}) {
      const CodecNames codecs = ResolveCodecs(name, "", "");
      Change change = {absl::StrCat("cache.codec = ", name), from};
      change.choices.cache.codec_k = CodecFromName(codecs.k).value();
      change.choices.cache.codec_v = CodecFromName(codecs.v).value();
      changes.push_back(std::move(change));
    }
    return changes;
  }

  std::vector<Change> Weights(const PlanChoices& from) const {
    std::vector<Change> changes;
    for (const char* name : {"mxfp4", "bf16", "int8", "int4"}) {
      const absl::StatusOr<WeightTypes> types = WeightTypesFor(assembly_.model, name);
      if (!types.ok()) continue;
      changes.push_back({absl::StrCat("model.weights = ", name), from});
      changes.back().choices.weights = *types;
    }
    return changes;
  }

  std::vector<Change> Checkpoints(const PlanChoices& from) const {
    if (from.cache.checkpoints == 0) return {};
    Change change = {"cache.checkpoints = 0", from};
    change.choices.cache.checkpoints = 0;
    return {change};
  }

  std::vector<Change> Sequences(const PlanChoices& from) const {
    return Largest(from.cache.max_sequences, [&](int64_t n) {
      Change change = {absl::StrCat("cache.max_sequences = ", n), from};
      change.choices.cache.max_sequences = static_cast<int>(n);
      return change;
    });
  }

  std::vector<Change> Tokens(const PlanChoices& from) const {
    // What a run asks for must have room, whatever cache.max_tokens says.
    const bool spare = from.cache.max_tokens > needs_.max_tokens;
    return Largest(from.cache.max_tokens, [&](int64_t n) {
      Change change = {spare && n >= needs_.max_tokens
                           ? absl::StrCat("cache.max_tokens = ", n)
                           : absl::StrCat("prompt and answer of at most ", n, " tokens"),
                       from};
      change.choices.cache.max_tokens = n;
      change.choices.cache.max_step_tokens = std::min(from.cache.max_step_tokens, n);
      return change;
    });
  }

 private:
  // The change with the largest number below `n` that fits, or else with 1; none where n is 1.
  std::vector<Change> Largest(int64_t n, absl::FunctionRef<Change(int64_t)> with) const {
    if (n <= 1) return {};
    int64_t fits = 1;
    int64_t too_many = n;
    while (too_many - fits > 1) {
      const int64_t middle = fits + (too_many - fits) / 2;
      (Fits(with(middle).choices) ? fits : too_many) = middle;
    }
    return {with(fits)};
  }

  const Assembly& assembly_;
  const RunNeeds& needs_;
  const int64_t available_;
};

// Those that cost least come first.
constexpr std::vector<Change> (Search::*kKinds[])(const PlanChoices&) const = {
    &Search::Checkpoints, &Search::Chunks,    &Search::Codecs,
    &Search::Weights,     &Search::Sequences, &Search::Tokens};

// Kind after kind, until it fits.
std::string Together(const Search& search, PlanChoices choices) {
  std::vector<std::string> texts;
  int64_t needed = search.Needed(choices);
  for (const auto kind : kKinds) {
    const std::vector<Change> changes = (search.*kind)(choices);
    const Change* best = nullptr;
    for (const Change& change : changes) {
      if (needed <= search.available()) break;
      const int64_t less = search.Needed(change.choices);
      if (less >= needed) continue;
      needed = less;
      best = &change;
    }
    if (best == nullptr) continue;
    texts.push_back(best->text);
    choices = best->choices;
  }
  const std::string all = absl::StrJoin(texts, ", ");
  if (needed <= search.available()) return absl::StrCat("it would fit with all of ", all);
  return absl::StrCat("nothing makes it fit: even with ", all, " it needs ", needed, " bytes");
}

}  // namespace

std::string FindRemedy(const Assembly& assembly, const RunNeeds& needs, const PlanChoices& choices,
                       const RunPlan& plan) {
  const Search search(assembly, needs, plan.available_bytes);
  std::vector<std::string> texts;
  for (const auto kind : kKinds) {
    for (const Change& change : (search.*kind)(choices)) {
      if (!search.Fits(change.choices)) continue;
      texts.push_back(change.text);
      break;
    }
  }
  if (texts.empty()) return Together(search, choices);
  return absl::StrCat("it would fit with ", absl::StrJoin(texts, ", or with "));
}

}  // namespace ng
